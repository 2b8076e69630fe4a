/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Accepts connections and completes their handshakes on a thread of its own, so that a stranger costs only a few
 * hundred bytes: there are at most PENDING_LIMIT pending connections, each for at most PENDING_NS, and a new one
 * replaces the oldest.
 */
#include "transport/channel/channel.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <openssl/crypto.h>
#include <openssl/rand.h>

#include "base/condition.h"
#include "base/memory.h"
#include "base/platform.h"
#include "transport/channel/handshake.h"
#include "transport/channel/internal.h"
#include "transport/channel/socket.h"
#include "transport/job/host.h"

#define PENDING_LIMIT 512
#define PENDING_NS (5 * 1000000000ull)
#define READY_LIMIT 2048 /* finished ones that were not fetched yet; matters in insecure jobs */
#define ACCEPT_BURST 64  /* then those that wait get their turn */
#define EVENT_BURST 64
#define SCARCE_PAUSE_NS (50 * 1000000ull) /* no descriptors or memory for accept() */
#define SCARCE_LIMIT_NS (1000000000ull)   /* so long others wait before that is a failure */

/* A connection in the middle of its handshake; in a list by age. */
typedef struct pending {
    struct pending *older, *newer;
    int fd;
    bool screened; /* the reply's header was looked at */
    uint64_t deadline;
    char address[RF_ADDRESS_TEXT];
    uint8_t challenge[RF_CHALLENGE_SIZE], reply[RF_REPLY_SIZE];
    size_t received;
    rf_handshake_verdict verdict;
} pending;

typedef struct ready {
    struct ready *next;
    rf_channel *channel;
} ready;

struct rf_listener {
    rf_identity identity;
    uint16_t port;
    int fd, epoll, wake;
    int reserve; /* a descriptor to give up, so that those who wait can be told why they wait in vain */
    pthread_t thread;
    /* The thread's own. */
    pending *oldest, *newest, *spare;
    uint32_t num_pending;
    bool accepting;
    uint64_t accept_again; /* when not accepting */
    pending *slots;
    uint32_t num_slots; /* that were in use once; the others are memory that nothing has touched */
    /* Shared. */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool stop;
    int scarce_errno;                   /* why nobody could be accepted last; 0: somebody was */
    uint64_t scarce_since, scarce_last; /* the first and the last such failure in a row */
    ready *first_ready, *last_ready;
    uint32_t num_ready;
    rf_rejection_weight rejection_weight;
    char rejection[RF_REJECT_TEXT];
};

/* ---- the list of those in the middle of their handshake ---- */

static void unlink_pending(rf_listener *l, pending *p)
{
    if (p->older)
        p->older->newer = p->newer;
    else
        l->oldest = p->newer;
    if (p->newer)
        p->newer->older = p->older;
    else
        l->newest = p->older;
    l->num_pending--;
    OPENSSL_cleanse(&p->verdict.session, sizeof(p->verdict.session));
    p->newer = l->spare;
    l->spare = p;
}

static void drop_pending(rf_listener *l, pending *p)
{
    rf_socket_reset(p->fd);
    unlink_pending(l, p);
}

static pending *new_pending(rf_listener *l, int fd)
{
    if (!l->spare && l->num_slots == PENDING_LIMIT) drop_pending(l, l->oldest);
    pending *p = l->spare ? l->spare : &l->slots[l->num_slots++];
    if (p == l->spare) l->spare = p->newer;
    *p = (pending){ .fd = fd, .older = l->newest, .deadline = rf_deadline_after(PENDING_NS) };
    if (l->newest)
        l->newest->newer = p;
    else
        l->oldest = p;
    l->newest = p;
    l->num_pending++;
    return p;
}

static void note_rejection(rf_listener *l, rf_rejection_weight weight, const char *reason)
{
    pthread_mutex_lock(&l->lock);
    if (weight >= l->rejection_weight) {
        l->rejection_weight = weight;
        snprintf(l->rejection, sizeof(l->rejection), "%s", reason);
    }
    pthread_mutex_unlock(&l->lock);
}

static void drop_silent(rf_listener *l, pending *p)
{
    char reason[RF_REJECT_TEXT];
    snprintf(reason, sizeof(reason), "%s connected and sent %s", p->address, p->received ? "too little" : "nothing");
    note_rejection(l, RF_REJECTION_NOISE, reason);
    drop_pending(l, p);
}

/* ---- one connection's steps ---- */

/* Takes the connection out of the list; it is a channel from now on. */
static void deliver_channel(rf_listener *l, pending *p)
{
    const bool secure = l->identity.secure;
    rf_channel *channel;
    const rf_channel_start start = { .fd = p->fd,
                                     .address = p->address,
                                     .peer = &p->verdict.peer,
                                     .send_key = secure ? p->verdict.session.to_connector : NULL,
                                     .receive_key = secure ? p->verdict.session.to_listener : NULL,
                                     .encrypt = l->identity.encrypt };
    epoll_ctl(l->epoll, EPOLL_CTL_DEL, p->fd, NULL);
    const rf_result r = rf_channel_make(&start, &channel);
    unlink_pending(l, p);
    ready *entry = r == RF_OK ? RF_NEW(ready) : NULL;
    pthread_mutex_lock(&l->lock);
    if (entry && l->num_ready < READY_LIMIT) {
        *entry = (ready){ NULL, channel };
        if (l->last_ready)
            l->last_ready->next = entry;
        else
            l->first_ready = entry;
        l->last_ready = entry;
        l->num_ready++;
        entry = NULL;
        channel = NULL;
        pthread_cond_broadcast(&l->changed);
    }
    pthread_mutex_unlock(&l->lock);
    rf_free(entry);
    rf_channel_destroy(&channel);
}

/* A few hundred bytes always fit an idle connection's buffer; where they do not, the kernel is out of memory. */
static bool send_at_once(int fd, const uint8_t *bytes, size_t size)
{
    return send(fd, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)size;
}

static void turn_away(rf_listener *l, pending *p)
{
    note_rejection(l, p->verdict.weight, p->verdict.reason);
    if (p->verdict.message_size == 0 || !send_at_once(p->fd, p->verdict.message, p->verdict.message_size)) {
        drop_pending(l, p);
        return;
    }
    close(p->fd); /* in order, so that the reason arrives */
    unlink_pending(l, p);
}

static void judge_pending(rf_listener *l, pending *p)
{
    if (rf_handshake_judge(&l->identity, p->address, p->challenge, p->reply, &p->verdict) < 0)
        drop_pending(l, p);
    else if (!p->verdict.accepted)
        turn_away(l, p);
    else if (!send_at_once(p->fd, p->verdict.message, p->verdict.message_size))
        drop_pending(l, p);
    else
        deliver_channel(l, p);
}

static void receive_reply(rf_listener *l, pending *p)
{
    while (p->received < RF_REPLY_SIZE) {
        const ssize_t n = recv(p->fd, p->reply + p->received, RF_REPLY_SIZE - p->received, MSG_DONTWAIT);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
        if (n <= 0) {
            drop_silent(l, p);
            return;
        }
        p->received += (size_t)n;
        if (p->screened || p->received < RF_HANDSHAKE_HEADER) continue;
        p->screened = true;
        rf_handshake_screen(&l->identity, p->address, p->reply, &p->verdict);
        if (!p->verdict.accepted) {
            turn_away(l, p);
            return;
        }
    }
    judge_pending(l, p);
}

static void connection_begin(rf_listener *l, int fd, const struct sockaddr *address, socklen_t size)
{
    uint8_t nonce[RF_NONCE_BYTES];
    if (RAND_bytes(nonce, sizeof(nonce)) != 1) {
        rf_socket_reset(fd);
        return;
    }
    rf_socket_tune(fd);
    pending *p = new_pending(l, fd);
    rf_socket_describe(address, size, p->address);
    rf_handshake_challenge(&l->identity, nonce, p->challenge);
    struct epoll_event event = { .events = EPOLLIN, .data.ptr = p };
    if (epoll_ctl(l->epoll, EPOLL_CTL_ADD, fd, &event) != 0 || !send_at_once(fd, p->challenge, sizeof(p->challenge)))
        drop_pending(l, p);
}

/* ---- the thread ---- */

static void set_accepting(rf_listener *l, bool on)
{
    struct epoll_event event = { .events = EPOLLIN, .data.ptr = &l->fd };
    if (l->accepting != on) epoll_ctl(l->epoll, on ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, l->fd, &event);
    l->accepting = on;
    l->accept_again = on ? 0 : rf_deadline_after(SCARCE_PAUSE_NS);
}

/* Whether somebody has waited for a while whom nothing lets in; with the lock. */
static bool is_scarce(const rf_listener *l)
{
    return l->scarce_errno && l->scarce_last - l->scarce_since > SCARCE_LIMIT_NS &&
           rf_now_ns() - l->scarce_last < SCARCE_LIMIT_NS;
}

/* `e` 0: somebody was accepted. */
static void note_scarcity(rf_listener *l, int e)
{
    const uint64_t now = rf_now_ns();
    pthread_mutex_lock(&l->lock);
    if (!l->scarce_errno || now - l->scarce_last > SCARCE_LIMIT_NS) l->scarce_since = now;
    l->scarce_errno = e;
    l->scarce_last = now;
    const bool scarce = is_scarce(l);
    pthread_mutex_unlock(&l->lock);
    if (!scarce || l->reserve < 0) return;
    close(l->reserve);
    l->reserve = -1;
}

static bool somebody_waits(const rf_listener *l)
{
    return poll(&(struct pollfd){ .fd = l->fd, .events = POLLIN }, 1, 0) > 0;
}

static void accept_some(rf_listener *l)
{
    for (int i = 0; i < ACCEPT_BURST; i++) {
        struct sockaddr_storage address = { 0 };
        socklen_t size = sizeof(address);
        const int fd = accept4(l->fd, (struct sockaddr *)&address, &size, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0) {
            if (l->reserve < 0) l->reserve = eventfd(0, EFD_CLOEXEC);
            if (l->reserve >= 0) note_scarcity(l, 0);
            connection_begin(l, fd, (struct sockaddr *)&address, size);
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            return;
        } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            /* Strangers must not keep the last descriptors. The newcomer waits in the backlog. */
            const int e = errno;
            if (!somebody_waits(l)) return;
            note_scarcity(l, e);
            if (l->oldest) drop_pending(l, l->oldest);
            set_accepting(l, false);
            return;
        } /* else: that one was gone before its turn */
    }
}

static int next_timeout(const rf_listener *l)
{
    uint64_t deadline = l->oldest ? l->oldest->deadline : UINT64_MAX;
    if (!l->accepting && l->accept_again < deadline) deadline = l->accept_again;
    if (deadline == UINT64_MAX) return -1;
    return (int)((rf_deadline_left(deadline) + 999999) / 1000000);
}

static bool is_stopped(rf_listener *l)
{
    pthread_mutex_lock(&l->lock);
    const bool stop = l->stop;
    pthread_mutex_unlock(&l->lock);
    return stop;
}

static void *listen_thread(void *user)
{
    rf_listener *l = user;
    set_accepting(l, true);
    while (!is_stopped(l)) {
        struct epoll_event events[EVENT_BURST];
        const int n = epoll_wait(l->epoll, events, EVENT_BURST, next_timeout(l));
        bool newcomers = false;
        for (int i = 0; i < n; i++) {
            if (events[i].data.ptr == &l->fd)
                newcomers = true;
            else if (events[i].data.ptr != &l->wake)
                receive_reply(l, events[i].data.ptr);
        }
        while (l->oldest && rf_deadline_left(l->oldest->deadline) == 0) drop_silent(l, l->oldest);
        /* Last, since newcomers take the places of others whose events may be in the same batch. */
        if (newcomers) accept_some(l);
        if (!l->accepting && rf_deadline_left(l->accept_again) == 0) set_accepting(l, true);
    }
    while (l->oldest) drop_pending(l, l->oldest);
    return NULL;
}

/* ---- interface ---- */

static rf_result open_descriptors(rf_listener *l, const char *address, uint16_t port)
{
    RF_TRY(rf_socket_listen(address, port, &l->fd, &l->port));
    l->reserve = eventfd(0, EFD_CLOEXEC);
    l->epoll = epoll_create1(EPOLL_CLOEXEC);
    l->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct epoll_event event = { .events = EPOLLIN, .data.ptr = &l->wake };
    if (l->reserve < 0 || l->epoll < 0 || l->wake < 0 || epoll_ctl(l->epoll, EPOLL_CTL_ADD, l->wake, &event) != 0)
        return RF_FAIL_ERRNO(RF_ERROR_IO, "cannot wait for connections to %s", address);
    return RF_OK;
}

static rf_result init_lock(rf_listener *l)
{
    RF_TRY(rf_condition_init(&l->changed));
    if (pthread_mutex_init(&l->lock, NULL) == 0) return RF_OK;
    pthread_cond_destroy(&l->changed);
    return RF_FAIL(RF_ERROR_OUT_OF_HOST_MEMORY, "cannot make a lock");
}

static void free_listener(rf_listener *l)
{
    if (l->fd >= 0) close(l->fd);
    if (l->epoll >= 0) close(l->epoll);
    if (l->wake >= 0) close(l->wake);
    if (l->reserve >= 0) close(l->reserve);
    rf_free(l->slots);
    OPENSSL_cleanse(&l->identity, sizeof(l->identity));
    rf_free(l);
}

static rf_result start_thread(rf_listener *l)
{
    const int e = pthread_create(&l->thread, NULL, listen_thread, l);
    return e == 0 ? RF_OK : RF_FAIL_NATIVE(RF_ERROR_IO, "errno", e, "cannot start a thread");
}

rf_result rf_listener_create(const rf_job *job, const char *address, uint16_t port, const rf_hello *mine,
                             rf_listener **out)
{
    *out = NULL;
    rf_listener *l = RF_NEW(rf_listener);
    if (!l) return RF_ERROR_OUT_OF_HOST_MEMORY;
    l->fd = l->epoll = l->wake = l->reserve = -1;
    rf_result r = RF_ERROR_OUT_OF_HOST_MEMORY;
    l->slots = RF_NEW_ARRAY(pending, PENDING_LIMIT);
    if (l->slots) r = rf_identity_init(&l->identity, job, mine);
    if (r == RF_OK) r = open_descriptors(l, address, port);
    if (r == RF_OK) r = init_lock(l);
    if (r < 0) {
        free_listener(l);
        return r;
    }
    r = start_thread(l);
    if (r < 0) {
        pthread_mutex_destroy(&l->lock);
        pthread_cond_destroy(&l->changed);
        free_listener(l);
        return r;
    }
    *out = l;
    return RF_OK;
}

void rf_listener_stop(rf_listener *l)
{
    pthread_mutex_lock(&l->lock);
    const bool stopped = l->stop;
    l->stop = true;
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->lock);
    if (stopped) return;
    (void)!write(l->wake, &(uint64_t){ 1 }, sizeof(uint64_t));
    pthread_join(l->thread, NULL);
    if (l->fd >= 0) close(l->fd); /* who comes now is refused at once */
    l->fd = -1;
}

rf_result rf_listener_move(rf_listener *l, const char *address)
{
    char before[RF_ADDRESS_TEXT];
    uint64_t ticks;
    RF_TRY(rf_local_address(l->fd, before, sizeof(before)));
    rf_listener_stop(l);
    (void)!read(l->wake, &ticks, sizeof(ticks));
    l->accepting = false; /* the old socket took its place in the epoll set with it */
    const rf_result r = rf_socket_listen(address, l->port, &l->fd, &l->port);
    rf_error_record record;
    rf_error_save(&record);
    if (r < 0) RF_TRY(rf_socket_listen(before, l->port, &l->fd, &l->port));
    l->stop = false;
    const rf_result started = start_thread(l);
    if (started < 0) l->stop = true;
    RF_TRY(started);
    return r < 0 ? rf_error_restore(&record) : RF_OK;
}

void rf_listener_destroy(rf_listener **listener)
{
    rf_listener *l = *listener;
    if (!l) return;
    *listener = NULL;
    rf_listener_stop(l);
    while (l->first_ready) {
        ready *next = l->first_ready->next;
        rf_channel_destroy(&l->first_ready->channel);
        rf_free(l->first_ready);
        l->first_ready = next;
    }
    pthread_mutex_destroy(&l->lock);
    pthread_cond_destroy(&l->changed);
    free_listener(l);
}

uint16_t rf_listener_port(const rf_listener *listener)
{
    return listener->port;
}

void rf_listener_place(const rf_listener *listener, char *text, size_t size)
{
    char address[RF_ADDRESS_TEXT];
    if (rf_local_address(listener->fd, address, sizeof(address)) < 0) snprintf(address, sizeof(address), "an address");
    snprintf(text, size, "%s port %u (RINGFIRE_BIND on its host changes that)", rf_listen_text(address),
             listener->port);
}

rf_result rf_listener_status(rf_listener *l)
{
    pthread_mutex_lock(&l->lock);
    const int e = is_scarce(l) ? l->scarce_errno : 0;
    pthread_mutex_unlock(&l->lock);
    if (!e) return RF_OK;
    return RF_FAIL_NATIVE(
        RF_ERROR_IO, "errno", e,
        "others wait on port %u, but this process cannot accept them; raise 'ulimit -n' or close files", l->port);
}

rf_result rf_listener_accept(rf_listener *listener, uint64_t timeout_ns, rf_channel **out)
{
    rf_listener *l = listener;
    *out = NULL;
    const uint64_t deadline = rf_deadline_after(timeout_ns);
    pthread_mutex_lock(&l->lock);
    while (!l->first_ready && !l->stop && timeout_ns > 0 && rf_condition_wait(&l->changed, &l->lock, deadline))
        continue;
    ready *entry = l->first_ready;
    if (entry) {
        l->first_ready = entry->next;
        if (!l->first_ready) l->last_ready = NULL;
        l->num_ready--;
    }
    pthread_mutex_unlock(&l->lock);
    if (!entry) {
        RF_TRY(rf_listener_status(l));
        if (timeout_ns == 0) return RF_ERROR_TIMEOUT; /* no record: asked for in each round of a polling loop */
        return RF_FAIL(RF_ERROR_TIMEOUT, "no worker joined on port %u within %.3f s", l->port,
                       (double)timeout_ns * 1e-9);
    }
    *out = entry->channel;
    rf_free(entry);
    return RF_OK;
}

void rf_listener_rejection(rf_listener *listener, char *text, size_t size)
{
    pthread_mutex_lock(&listener->lock);
    snprintf(text, size, "%s", listener->rejection);
    pthread_mutex_unlock(&listener->lock);
}
