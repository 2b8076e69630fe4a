/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How two ranks of a host come to share memory. Every rank listens on a local socket whose random name the others learn
 * through the (authenticated) mesh. The higher rank of a pair connects and shows its token; the lower one answers with
 * its own and with the memory. Each looks at the user that the kernel names before it believes the other's token. Who
 * has done what is exchanged over the mesh after each part, so nobody ever waits on a socket, and both know in the end
 * whether they have a pair. Afterwards nobody listens any more. In a large job those on the host of rank 0 call it once
 * more for the memory of its liveness page (liveness_page.h); whoever does not get it is sent heartbeats.
 */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <openssl/crypto.h>
#include <openssl/rand.h>

#include "base/memory.h"
#include "base/platform.h"
#include "transport/shared/internal.h"

/* Strangers that are turned away before this rank stops looking for those it expects. */
enum { MAX_STRANGERS = 4096 };

/* Who has done a part of it, a bit for each rank. */
typedef struct rank_set {
    uint64_t bits[RF_MAX_WORLD / 64];
} rank_set;

static void set_add(rank_set *set, uint32_t rank)
{
    set->bits[rank / 64] |= UINT64_C(1) << rank % 64;
}

static bool set_has(const rank_set *set, uint32_t rank)
{
    return (set->bits[rank / 64] >> rank % 64 & 1) != 0;
}

/* ---- tokens ---- */

void rf_shared_make_token(const rf_shared *s, uint32_t magic, uint32_t from, uint32_t to, rf_shared_token *out)
{
    uint8_t key[RF_JOB_KEY_BYTES];
    const char *purpose = magic == RF_SHARED_LIVENESS_MAGIC ? "ringfire shared board" : "ringfire shared memory";
    *out = (rf_shared_token){ magic, (uint16_t)from, (uint16_t)to, { 0 } };
    rf_mesh_link_key(s->mesh, from == s->rank ? to : from, "shared memory", key);
    rf_token_derive(key, purpose, from, to, s->cards[from].nonce, s->cards[to].nonce, out->mac);
    OPENSSL_cleanse(key, sizeof(key));
}

uint32_t rf_shared_check_token(const rf_shared *s, uint32_t magic, const void *data, size_t size)
{
    rf_shared_token got, expected;
    if (size != sizeof(got)) return UINT32_MAX;
    memcpy(&got, data, sizeof(got));
    if (got.magic != magic || got.to != s->rank || got.from == s->rank || got.from >= s->world_size) return UINT32_MAX;
    rf_shared_make_token(s, magic, got.from, s->rank, &expected);
    return CRYPTO_memcmp(&got, &expected, sizeof(got)) == 0 ? got.from : UINT32_MAX;
}

/* ---- sockets ---- */

static bool is_own_user(int fd)
{
    struct ucred who;
    socklen_t size = sizeof(who);
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) == 0 && size == sizeof(who) && who.uid == geteuid();
}

/* Names without a place in the file system: nothing is left of them, whatever happens to the process. */
static socklen_t make_address(const rf_shared_card *card, struct sockaddr_un *out)
{
    *out = (struct sockaddr_un){ .sun_family = AF_UNIX };
    size_t used = 1 + (size_t)snprintf(out->sun_path + 1, sizeof(out->sun_path) - 1, "ringfire-");
    for (size_t i = 0; i < sizeof(card->name); i++, used += 2)
        snprintf(out->sun_path + used, sizeof(out->sun_path) - used, "%02x", card->name[i]);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + used);
}

static int open_socket(void)
{
    return socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

/* -1, and errno: this rank does without. */
static int listen_locally(const rf_shared_card *card)
{
    struct sockaddr_un address;
    const socklen_t size = make_address(card, &address);
    const int fd = open_socket();
    if (fd < 0) return -1;
    if (bind(fd, (struct sockaddr *)&address, size) == 0 && listen(fd, SOMAXCONN) == 0) return fd;
    const int why = errno;
    close(fd);
    errno = why;
    return -1;
}

/* NULL: done, else what was in the way. */
static const char *call_lower(const rf_shared *s, uint32_t magic, uint32_t rank, int *out)
{
    struct sockaddr_un address;
    const socklen_t size = make_address(&s->cards[rank], &address);
    const int fd = open_socket();
    if (fd < 0) return "no socket";
    rf_shared_token mine;
    rf_shared_make_token(s, magic, s->rank, rank, &mine);
    const char *why = NULL;
    if (connect(fd, (struct sockaddr *)&address, size) != 0)
        why = "its local socket cannot be reached";
    else if (!is_own_user(fd))
        why = "another user's process has its local socket";
    else if (send(fd, &mine, sizeof(mine), MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t)sizeof(mine))
        why = "its local socket takes nothing";
    if (why)
        close(fd);
    else
        *out = fd;
    return why;
}

static bool send_memory(int fd, const rf_shared_token *token, int memory)
{
    union {
        struct cmsghdr align;
        char room[CMSG_SPACE(sizeof(int))];
    } control = { .room = { 0 } };
    rf_shared_token copy = *token;
    struct iovec part = { &copy, sizeof(copy) };
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.room, .msg_controllen = sizeof(control.room)
    };
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(head), &memory, sizeof(memory));
    return sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)sizeof(copy);
}

/* The descriptor that came with the token of `rank`, or -1. */
static int receive_memory(const rf_shared *s, uint32_t magic, int fd, uint32_t rank)
{
    union {
        struct cmsghdr align;
        char room[CMSG_SPACE(sizeof(int))]; /* the kernel closes what does not fit */
    } control;
    rf_shared_token token;
    struct iovec part = { &token, sizeof(token) };
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.room, .msg_controllen = CMSG_LEN(sizeof(int))
    };
    const ssize_t n = recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (n < 0) return -1;
    int memory = -1;
    const struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    if (head && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS &&
        head->cmsg_len == CMSG_LEN(sizeof(int)))
        memcpy(&memory, CMSG_DATA(head), sizeof(memory));
    if (memory >= 0 && ((message.msg_flags & (MSG_CTRUNC | MSG_TRUNC)) != 0 ||
                        rf_shared_check_token(s, magic, &token, (size_t)n) != rank)) {
        close(memory);
        memory = -1;
    }
    return memory;
}

/* ---- the parts ---- */

static void log_without(const rf_shared *s, uint32_t rank, const char *why)
{
    rf_log_message(RF_LOG_DEBUG, "rank %u: no shared memory with rank %u, data goes over the network: %s", s->rank,
                   rank, why);
}

static void log_without_liveness(const rf_shared *s, uint32_t rank, const char *why)
{
    rf_log_message(RF_LOG_DEBUG, "rank %u: heartbeats to rank %u go over the network: %s", s->rank, rank, why);
}

static bool can_share(const rf_shared *s, uint32_t a, uint32_t b)
{
    return rf_mesh_host(s->mesh, a) == rf_mesh_host(s->mesh, b) && s->cards[a].layout == RF_SHARED_LAYOUT &&
           s->cards[b].layout == RF_SHARED_LAYOUT;
}

static bool is_wanted(const rf_shared *s, uint32_t rank)
{
    return rank != s->rank && s->peers[rank] && can_share(s, s->rank, rank);
}

static rf_result exchange_cards(rf_shared *s, int *listener)
{
    rf_shared_card mine = { .layout = s->job->network_only ? 0 : RF_SHARED_LAYOUT };
    if (RAND_bytes(mine.name, sizeof(mine.name)) != 1 || RAND_bytes(mine.nonce, sizeof(mine.nonce)) != 1)
        return RF_FAIL(RF_ERROR_IO, "the operating system provides no random numbers for a nonce");
    bool neighbours = s->rank == 0 && rf_mesh_wants_liveness(s->mesh);
    for (uint32_t r = 0; r < s->world_size; r++)
        neighbours |= r != s->rank && s->peers[r] && rf_mesh_host(s->mesh, r) == rf_mesh_host(s->mesh, s->rank);
    if (mine.layout != 0 && neighbours && (*listener = listen_locally(&mine)) < 0) {
        rf_log_message(RF_LOG_DEBUG, "rank %u: no local socket (%s): no shared memory", s->rank, strerror(errno));
        mine.layout = 0;
    }
    size_t *sizes = RF_NEW_ARRAY(size_t, s->world_size);
    if (!sizes) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_result r = rf_mesh_exchange(s->mesh, &mine, sizeof(mine), s->cards, sizeof(*s->cards), sizes);
    for (uint32_t i = 0; i < s->world_size && r == RF_OK; i++)
        if (sizes[i] != sizeof(mine))
            r = RF_FAIL(RF_ERROR_CORRUPT_DATA, "rank %u announced no local socket but %zu bytes", i, sizes[i]);
    rf_free(sizes);
    return r;
}

static rf_result exchange_sets(const rf_shared *s, const rank_set *mine, rank_set *all)
{
    size_t *sizes = RF_NEW_ARRAY(size_t, s->world_size);
    if (!sizes) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_result r = rf_mesh_exchange(s->mesh, mine, sizeof(*mine), all, sizeof(*all), sizes);
    for (uint32_t i = 0; i < s->world_size && r == RF_OK; i++)
        if (sizes[i] != sizeof(*mine))
            r = RF_FAIL(RF_ERROR_CORRUPT_DATA, "rank %u sent %zu bytes instead of a set of ranks", i, sizes[i]);
    rf_free(sizes);
    return r;
}

static rf_result call_all(rf_shared *s, rank_set *called)
{
    for (uint32_t r = 0; r < s->rank; r++) {
        if (!is_wanted(s, r)) continue;
        int fd = -1;
        const char *why = call_lower(s, RF_SHARED_TOKEN_MAGIC, r, &fd);
        if (why) {
            log_without(s, r, why);
            continue;
        }
        rf_shared_pair *pair = s->pairs[r] = rf_shared_pair_new(r);
        if (!pair) {
            close(fd);
            return RF_ERROR_OUT_OF_HOST_MEMORY;
        }
        pair->fd = fd;
        set_add(called, r);
    }
    return RF_OK;
}

/* Takes the descriptor over. `liveness`: the memory of this rank's liveness page, or -1. */
static rf_result answer_caller(rf_shared *s, int fd, int liveness, const rank_set *all, rank_set *answered)
{
    rf_shared_token token;
    const ssize_t n = is_own_user(fd) ? recv(fd, &token, sizeof(token), MSG_DONTWAIT | MSG_TRUNC) : -1;
    const uint32_t reader = n < 0 ? UINT32_MAX : rf_shared_check_token(s, RF_SHARED_LIVENESS_MAGIC, &token, (size_t)n);
    if (reader != UINT32_MAX && liveness >= 0) {
        rf_shared_make_token(s, RF_SHARED_LIVENESS_MAGIC, s->rank, reader, &token);
        if (!send_memory(fd, &token, liveness)) log_without_liveness(s, reader, "its local socket takes nothing");
        close(fd); /* what was sent can still be read */
        return RF_OK;
    }
    const uint32_t rank = n < 0 ? UINT32_MAX : rf_shared_check_token(s, RF_SHARED_TOKEN_MAGIC, &token, (size_t)n);
    if (rank == UINT32_MAX || rank < s->rank || !is_wanted(s, rank) || s->pairs[rank] ||
        !set_has(&all[rank], s->rank)) {
        rf_log_message(RF_LOG_WARN, "rank %u: a foreign connection to its local socket was rejected", s->rank);
        close(fd);
        return RF_OK;
    }
    rf_shared_pair *pair = s->pairs[rank] = rf_shared_pair_new(rank);
    if (!pair) {
        close(fd);
        return RF_ERROR_OUT_OF_HOST_MEMORY;
    }
    pair->fd = fd;
    int memory;
    if (rf_shared_segment_create(&pair->segment, &memory) < 0) {
        log_without(s, rank, rf_error_message());
        return RF_OK;
    }
    rf_shared_make_token(s, RF_SHARED_TOKEN_MAGIC, s->rank, rank, &token);
    if (send_memory(fd, &token, memory))
        set_add(answered, rank);
    else
        log_without(s, rank, "its local socket takes nothing");
    close(memory);
    return RF_OK;
}

/* Who called did so before saying so: all of them are in the queue already. */
static rf_result answer_all(rf_shared *s, int listener, int liveness, const rank_set *all, rank_set *answered)
{
    for (int i = 0; listener >= 0 && i < MAX_STRANGERS; i++) {
        const int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0)
            RF_TRY(answer_caller(s, fd, liveness, all, answered));
        else if (errno != EINTR && errno != ECONNABORTED)
            break;
    }
    return RF_OK;
}

/* The rank's own bit in `opened` says that the network is needed: for a pair of it with a lower rank, or because the
 * user has named a provider, who wants to hear if there is none of this name. */
static void open_all(rf_shared *s, const rank_set *answered, rank_set *opened)
{
    if (s->job->provider[0]) set_add(opened, s->rank);
    for (uint32_t r = 0; r < s->rank; r++) {
        rf_shared_pair *pair = s->pairs[r];
        const int memory =
            pair && set_has(&answered[r], s->rank) ? receive_memory(s, RF_SHARED_TOKEN_MAGIC, pair->fd, r) : -1;
        if (memory >= 0) {
            if (rf_shared_segment_open(&pair->segment, memory) == RF_OK)
                set_add(opened, r);
            else
                log_without(s, r, rf_error_message());
            close(memory);
        } else if (pair) {
            log_without(s, r, "it gave no memory");
        }
        if (s->peers[r] && !set_has(opened, r)) set_add(opened, s->rank);
    }
}

static rf_result settle_pairs(rf_shared *s, const rank_set *opened)
{
    s->all = true;
    for (uint32_t r = 0; r < s->world_size; r++) {
        s->all = s->all && !set_has(&opened[r], r);
        rf_shared_pair *pair = s->pairs[r];
        if (!pair) continue;
        const uint32_t low = r < s->rank ? r : s->rank, high = r < s->rank ? s->rank : r;
        if (!set_has(&opened[high], low)) {
            rf_shared_pair_free(&s->pairs[r]);
            continue;
        }
        if (!pair->segment.head)
            return RF_FAIL(RF_ERROR_CORRUPT_DATA, "rank %u says that it has shared memory which it was not given", r);
        pair->in = rf_shared_segment_ring(&pair->segment, s->rank > r, false);
        pair->out = rf_shared_segment_ring(&pair->segment, s->rank > r, true);
        s->near[s->num_near++] = r;
        rf_log_message(RF_LOG_DEBUG, "rank %u: shares memory with rank %u", s->rank, r);
    }
    return RF_OK;
}

/* ---- the liveness page of rank 0 ---- */

/* Rank 0: the memory, to be passed to the others. Another rank on its host: a call for it. -1: does without. */
static int liveness_begin(const rf_shared *s, rf_liveness_page *liveness)
{
    int fd = -1;
    if (!rf_mesh_wants_liveness(s->mesh) || s->cards[0].layout != RF_SHARED_LAYOUT) return -1;
    if (s->rank == 0) {
        if (rf_liveness_create(s->world_size, liveness, &fd) < 0) log_without_liveness(s, 0, rf_error_message());
    } else if (can_share(s, s->rank, 0)) {
        const char *why = call_lower(s, RF_SHARED_LIVENESS_MAGIC, 0, &fd);
        if (why) log_without_liveness(s, 0, why);
    }
    return fd;
}

/* When rank 0 has answered. */
static void liveness_end(rf_shared *s, int fd, rf_liveness_page *liveness)
{
    if (fd >= 0 && s->rank != 0) {
        const int memory = receive_memory(s, RF_SHARED_LIVENESS_MAGIC, fd, 0);
        if (memory < 0)
            log_without_liveness(s, 0, "it gave no memory");
        else if (rf_liveness_open(s->world_size, memory, liveness) < 0)
            log_without_liveness(s, 0, rf_error_message());
        if (memory >= 0) close(memory);
    }
    if (liveness->lines) rf_mesh_use_liveness(s->mesh, liveness);
}

static rf_result pair_in_parts(rf_shared *s, int listener, int liveness_fd, rf_liveness_page *liveness, rank_set *all)
{
    rank_set mine = { 0 };
    RF_TRY(call_all(s, &mine));
    RF_TRY(exchange_sets(s, &mine, all));
    rank_set answered = { 0 };
    RF_TRY(answer_all(s, listener, s->rank == 0 ? liveness_fd : -1, all, &answered));
    RF_TRY(exchange_sets(s, &answered, all));
    liveness_end(s, liveness_fd, liveness);
    rank_set opened = { 0 };
    open_all(s, all, &opened);
    RF_TRY(exchange_sets(s, &opened, all));
    return settle_pairs(s, all);
}

static rf_result pair_neighbours(rf_shared *s, int listener, rank_set *all)
{
    rf_liveness_page liveness = { 0 };
    const int fd = liveness_begin(s, &liveness);
    const rf_result r = pair_in_parts(s, listener, fd, &liveness, all);
    if (fd >= 0) close(fd);
    rf_liveness_close(&liveness);
    return r;
}

rf_result rf_shared_pair_up(rf_shared *s)
{
    int listener = -1;
    rank_set *all = RF_NEW_ARRAY(rank_set, s->world_size);
    rf_result r = all ? exchange_cards(s, &listener) : RF_ERROR_OUT_OF_HOST_MEMORY;
    /* Every rank has the same cards, so all go on or none does. */
    bool any = false;
    for (uint32_t a = 0; r == RF_OK && a < s->world_size && !any; a++)
        for (uint32_t b = 0; b < a && !any; b++) any = can_share(s, a, b);
    if (r == RF_OK && any) r = pair_neighbours(s, listener, all);
    if (listener >= 0) close(listener);
    rf_free(all);
    return r;
}
