/* SPDX-License-Identifier: Apache-2.0 */
/* Channels: the connecting side of the handshake, then frames over a socket. */
#include "transport/channel/channel.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <openssl/crypto.h>
#include <openssl/rand.h>

#include "base/memory.h"
#include "base/platform.h"
#include "transport/channel/frame.h"
#include "transport/channel/handshake.h"
#include "transport/channel/internal.h"
#include "transport/channel/socket.h"

#define SEND_BUFFER ((size_t)64 << 10) /* encrypted bytes on their way */
#define IOV_BATCH 64
#define ATTEMPT_NS (5 * 1000000000ull)      /* for one connection and its handshake */
#define ATTEMPT_MANY_NS (2 * 1000000000ull) /* when the name has several addresses */
#define FIRST_PAUSE_NS (5 * 1000000ull)
#define LAST_PAUSE_NS (200 * 1000000ull)
#define DRAIN_LIMIT ((size_t)1 << 20)

struct rf_channel {
    int fd;
    rf_hello peer;
    char address[RF_ADDRESS_TEXT];
    atomic_bool shut_down; /* by this side */
    /* The sending thread's. A failure that ended sending does not end receiving: the peer's last words may still be
     * there. */
    rf_result send_failed;
    rf_frame_seal seal;
    uint8_t *send_buffer; /* only for encryption */
    /* The receiving thread's. */
    rf_result receive_failed;
    rf_frame_reader reader;
};

/* ---- life ---- */

rf_result rf_channel_make(const rf_channel_start *start, rf_channel **out)
{
    rf_channel *c = RF_NEW(rf_channel);
    if (!c) {
        close(start->fd);
        return RF_ERROR_OUT_OF_HOST_MEMORY;
    }
    c->fd = start->fd;
    c->peer = *start->peer;
    snprintf(c->address, sizeof(c->address), "%s", start->address);
    rf_result r = rf_frame_seal_init(&c->seal, start->send_key, start->encrypt);
    if (r == RF_OK) r = rf_frame_seal_init(&c->reader.seal, start->receive_key, start->encrypt);
    if (r == RF_OK && c->seal.encrypt) {
        c->send_buffer = rf_calloc(1, SEND_BUFFER);
        if (!c->send_buffer) r = RF_ERROR_OUT_OF_HOST_MEMORY;
    }
    if (r < 0) rf_channel_destroy(&c);
    *out = c;
    return r;
}

void rf_channel_destroy(rf_channel **channel)
{
    rf_channel *c = *channel;
    if (!c) return;
    *channel = NULL;
    /* Closing with unread bytes would reset the connection and could take with it what this side sent last. */
    shutdown(c->fd, SHUT_WR);
    char scrap[4096];
    for (size_t drained = 0; drained < DRAIN_LIMIT;) {
        const ssize_t n = recv(c->fd, scrap, sizeof(scrap), MSG_DONTWAIT);
        if (n <= 0) break;
        drained += (size_t)n;
    }
    close(c->fd);
    rf_frame_seal_clear(&c->seal);
    rf_frame_reader_clear(&c->reader);
    rf_free(c->send_buffer);
    rf_free(c);
}

void rf_channel_shutdown(rf_channel *channel)
{
    atomic_store(&channel->shut_down, true);
    shutdown(channel->fd, SHUT_RDWR);
}

const rf_hello *rf_channel_peer(const rf_channel *channel)
{
    return &channel->peer;
}
const char *rf_channel_peer_address(const rf_channel *channel)
{
    return channel->address;
}
int rf_channel_fd(const rf_channel *channel)
{
    return channel->fd;
}

/* ---- failures ---- */

static rf_result check_usable(const rf_channel *c, rf_result failed)
{
    if (failed < 0) return RF_FAIL(failed, "connection to %s has failed before", c->address);
    return RF_OK;
}

/* The connection ended or broke; `error` is an errno or 0 for an end. */
static rf_result fail_lost(const rf_channel *c, int error, bool in_frame)
{
    const rf_result r = RF_ERROR_PEER_LOST;
    if (atomic_load(&c->shut_down)) return RF_FAIL(r, "connection to %s was shut down by this side", c->address);
    if (error) return RF_FAIL_NATIVE(r, "errno", error, "connection to %s broke", c->address);
    return RF_FAIL(r, "connection to %s was closed%s", c->address, in_frame ? " in the middle of a frame" : "");
}

/* ---- sending ---- */

typedef struct sending {
    rf_channel *channel;
    uint64_t deadline, timeout_ns;
    bool begun; /* some byte of the frame has left */
} sending;

static rf_result wait_to_send(sending *s)
{
    const rf_channel *c = s->channel;
    rf_result r = rf_socket_wait(c->fd, POLLOUT, s->deadline);
    if (r == RF_ERROR_TIMEOUT && s->timeout_ns > 0)
        r = RF_FAIL(r, "%s accepted no data for %.3f s", c->address, (double)s->timeout_ns * 1e-9);
    return r;
}

/* Sends all of it; changes the list of buffers. */
static rf_result send_buffers(sending *s, struct iovec *buffers, size_t count)
{
    const rf_channel *c = s->channel;
    while (count > 0) {
        struct msghdr message = { .msg_iov = buffers, .msg_iovlen = count };
        const ssize_t n = sendmsg(c->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            RF_TRY(wait_to_send(s));
            continue;
        }
        if (n < 0) return fail_lost(c, errno, true);
        size_t left = (size_t)n;
        if (left > 0) s->begun = true;
        while (count > 0 && left >= buffers->iov_len) {
            left -= buffers->iov_len;
            buffers++;
            count--;
        }
        if (left > 0) {
            buffers->iov_base = (char *)buffers->iov_base + left;
            buffers->iov_len -= left;
        }
    }
    return RF_OK;
}

static rf_result send_plain(sending *s, const uint8_t *head, size_t head_size, const rf_bytes *parts,
                            uint32_t num_parts, bool has_body)
{
    rf_frame_seal *seal = &s->channel->seal;
    uint8_t tag[RF_FRAME_TAG];
    struct iovec buffers[IOV_BATCH];
    size_t count = 0;
    buffers[count++] = (struct iovec){ (void *)(uintptr_t)head, head_size };
    const bool tagged = has_body && seal->secure;
    if (tagged) RF_TRY(rf_frame_seal_body_tag(seal, head, parts, num_parts, tag));
    for (uint32_t i = 0; i < num_parts; i++) {
        if (parts[i].size == 0) continue;
        if (count == IOV_BATCH) {
            RF_TRY(send_buffers(s, buffers, count));
            count = 0;
        }
        buffers[count++] = (struct iovec){ (void *)(uintptr_t)parts[i].data, parts[i].size };
    }
    if (tagged && count == IOV_BATCH) {
        RF_TRY(send_buffers(s, buffers, count));
        count = 0;
    }
    if (tagged) buffers[count++] = (struct iovec){ tag, sizeof(tag) };
    return send_buffers(s, buffers, count);
}

static rf_result flush_buffer(sending *s, size_t *used)
{
    struct iovec buffer = { s->channel->send_buffer, *used };
    *used = 0;
    return send_buffers(s, &buffer, buffer.iov_len > 0 ? 1 : 0);
}

static rf_result send_encrypted(sending *s, const uint8_t *head, size_t head_size, const rf_bytes *parts,
                                uint32_t num_parts, bool has_body)
{
    rf_channel *c = s->channel;
    size_t used = head_size;
    memcpy(c->send_buffer, head, head_size);
    if (has_body) RF_TRY(rf_frame_seal_encrypt_begin(&c->seal, head));
    for (uint32_t i = 0; i < num_parts; i++) {
        const uint8_t *from = parts[i].data;
        for (size_t left = parts[i].size; left > 0;) {
            if (used == SEND_BUFFER) RF_TRY(flush_buffer(s, &used));
            const size_t step = left < SEND_BUFFER - used ? left : SEND_BUFFER - used;
            RF_TRY(rf_frame_seal_encrypt(&c->seal, from, step, c->send_buffer + used));
            used += step;
            from += step;
            left -= step;
        }
    }
    if (has_body) {
        if (SEND_BUFFER - used < RF_FRAME_TAG) RF_TRY(flush_buffer(s, &used));
        RF_TRY(rf_frame_seal_encrypt_end(&c->seal, c->send_buffer + used));
        used += RF_FRAME_TAG;
    }
    return flush_buffer(s, &used);
}

rf_result rf_channel_send(rf_channel *channel, uint16_t type, const rf_bytes *parts, uint32_t num_parts,
                          uint64_t timeout_ns)
{
    RF_TRY(check_usable(channel, channel->send_failed));
    size_t size = 0;
    for (uint32_t i = 0; i < num_parts; i++) {
        RF_REQUIRE(parts[i].size <= RF_FRAME_MAX_BODY - size, "a frame holds at most %u bytes", RF_FRAME_MAX_BODY);
        size += parts[i].size;
    }
    uint8_t head[RF_FRAME_HEAD_MAX];
    size_t head_size;
    RF_TRY(rf_frame_seal_header(&channel->seal, type, (uint32_t)size, head, &head_size));
    sending s = { .channel = channel, .deadline = rf_deadline_after(timeout_ns), .timeout_ns = timeout_ns };
    const rf_result r = channel->seal.encrypt ? send_encrypted(&s, head, head_size, parts, num_parts, size > 0)
                                              : send_plain(&s, head, head_size, parts, num_parts, size > 0);
    if (r == RF_OK) rf_frame_seal_next(&channel->seal);
    if (r < 0 && (s.begun || r != RF_ERROR_TIMEOUT)) {
        /* Nothing that follows half a frame could be understood. */
        channel->send_failed = r;
        shutdown(channel->fd, SHUT_WR);
    }
    return r;
}

/* ---- receiving ---- */

static rf_result receive_frame(rf_channel *c, uint64_t timeout_ns)
{
    rf_frame_reader *reader = &c->reader;
    const uint64_t deadline = rf_deadline_after(timeout_ns);
    do {
        void *where;
        size_t want;
        RF_TRY(rf_frame_reader_want(reader, &where, &want));
        const ssize_t n = recv(c->fd, where, want, MSG_DONTWAIT);
        if (n > 0) {
            RF_TRY(rf_error_context(rf_frame_reader_got(reader, (size_t)n), "connection to %s", c->address));
        } else if (n == 0) {
            return fail_lost(c, 0, rf_frame_reader_partial(reader));
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            if (timeout_ns == 0) return RF_ERROR_TIMEOUT; /* no record: asked for in each round of a polling loop */
            const rf_result r = rf_socket_wait(c->fd, POLLIN, deadline);
            if (r == RF_ERROR_TIMEOUT)
                return RF_FAIL(r, "%s sent no %s for %.3f s", c->address,
                               rf_frame_reader_partial(reader) ? "rest of a frame" : "frame",
                               (double)timeout_ns * 1e-9);
            RF_TRY(r);
        } else if (errno != EINTR) {
            return fail_lost(c, errno, rf_frame_reader_partial(reader));
        }
    } while (!reader->complete);
    return RF_OK;
}

rf_result rf_channel_receive(rf_channel *channel, uint16_t *type, const void **body, size_t *size, uint64_t timeout_ns)
{
    RF_TRY(check_usable(channel, channel->receive_failed));
    const rf_result r = receive_frame(channel, timeout_ns);
    if (r < 0 && r != RF_ERROR_TIMEOUT) {
        channel->receive_failed = r;
        /* A frame that does not verify came from a stranger: nothing more is sent to it. */
        if (r == RF_ERROR_CORRUPT_DATA) shutdown(channel->fd, SHUT_RDWR);
    }
    RF_TRY(r);
    *type = channel->reader.type;
    *size = channel->reader.size;
    *body = channel->reader.body;
    return RF_OK;
}

/* ---- connecting ---- */

static rf_result shake_hands(const rf_identity *mine, int fd, const char *who, uint64_t deadline, rf_hello *peer,
                             rf_session *session)
{
    uint8_t challenge[RF_CHALLENGE_SIZE] = { 0 }, reply[RF_REPLY_SIZE], answer[RF_HANDSHAKE_MAX], nonce[RF_NONCE_BYTES];
    if (RAND_bytes(nonce, sizeof(nonce)) != 1)
        return RF_FAIL(RF_ERROR_IO, "the operating system provides no random numbers");
    rf_handshake_kind kind;
    size_t size;
    RF_TRY(rf_socket_receive_all(fd, challenge, RF_HANDSHAKE_HEADER, deadline, who));
    rf_result r = rf_handshake_peek(mine, challenge, who, &kind, &size);
    if (r == RF_OK && size == RF_CHALLENGE_SIZE)
        RF_TRY(rf_socket_receive_all(fd, challenge + RF_HANDSHAKE_HEADER, size - RF_HANDSHAKE_HEADER, deadline, who));
    r = rf_handshake_reply(mine, who, challenge, nonce, reply, &size);
    if (r < 0) { /* let the other side name the reason too */
        if (size > 0) (void)!send(fd, reply, size, MSG_NOSIGNAL | MSG_DONTWAIT);
        return r;
    }
    RF_TRY(rf_socket_send_all(fd, reply, size, deadline, who));
    RF_TRY(rf_socket_receive_all(fd, answer, RF_HANDSHAKE_HEADER, deadline, who));
    RF_TRY(rf_handshake_peek(mine, answer, who, &kind, &size));
    if (size > RF_HANDSHAKE_HEADER)
        RF_TRY(rf_socket_receive_all(fd, answer + RF_HANDSHAKE_HEADER, size - RF_HANDSHAKE_HEADER, deadline, who));
    return rf_handshake_conclude(mine, who, challenge, reply, answer, size, peer, session);
}

static rf_result connect_once(const rf_identity *mine, const struct addrinfo *address, uint64_t deadline,
                              rf_channel **out)
{
    int fd;
    char who[RF_ADDRESS_TEXT];
    rf_hello peer;
    rf_session session = { 0 };
    rf_socket_describe(address->ai_addr, address->ai_addrlen, who);
    RF_TRY(rf_socket_connect(address, deadline, &fd));
    rf_result r = shake_hands(mine, fd, who, deadline, &peer, &session);
    if (r < 0)
        close(fd);
    else
        r = rf_channel_make(&(rf_channel_start){ .fd = fd,
                                                 .address = who,
                                                 .peer = &peer,
                                                 .send_key = mine->secure ? session.to_listener : NULL,
                                                 .receive_key = mine->secure ? session.to_connector : NULL,
                                                 .encrypt = mine->encrypt },
                            out);
    OPENSSL_cleanse(&session, sizeof(session));
    return r;
}

/* No listener yet, or one that does not answer: it may still come. Everything else is an answer. */
static bool worth_another_try(rf_result r)
{
    return r == RF_ERROR_PEER_LOST || r == RF_ERROR_TIMEOUT || r == RF_ERROR_NOT_FOUND;
}

/* The failure of several addresses: all reasons, with the result of the one that says most. A job's word is final; a
 * foreign service at one address is not while another address may still get its listener. */
typedef struct try_failure {
    rf_result result;
    char reasons[600];
} try_failure;

static unsigned failure_weight(rf_result r)
{
    return r == RF_ERROR_CORRUPT_DATA ? 1 : worth_another_try(r) ? 2 : 3;
}

static void failure_add(try_failure *f, rf_result r)
{
    const size_t used = strlen(f->reasons);
    snprintf(f->reasons + used, sizeof(f->reasons) - used, "%s%s", used ? "; " : "", rf_error_message());
    if (f->result == RF_OK || failure_weight(r) > failure_weight(f->result)) f->result = r;
}

/* IPv4 goes first: what a worker is reached by is the address it came from, and more hosts lack IPv6. */
static rf_result try_addresses(const rf_identity *mine, const char *address, uint16_t port, uint64_t deadline,
                               rf_channel **out)
{
    struct addrinfo *list;
    RF_TRY(rf_socket_resolve(address, port, false, &list));
    try_failure failure = { .result = RF_OK };
    rf_result r = RF_ERROR_NOT_FOUND;
    const uint64_t limit = list->ai_next ? ATTEMPT_MANY_NS : ATTEMPT_NS;
    for (int others = 0; others < 2 && r < 0; others++)
        for (const struct addrinfo *a = list; a && r < 0; a = a->ai_next) {
            if ((a->ai_family != AF_INET) != others) continue;
            const uint64_t attempt = rf_deadline_after(limit);
            r = connect_once(mine, a, attempt < deadline ? attempt : deadline, out);
            if (r < 0) failure_add(&failure, r);
        }
    freeaddrinfo(list);
    return r < 0 ? RF_FAIL(failure.result, "%s", failure.reasons) : r;
}

static void pause_ns(uint64_t ns)
{
    const struct timespec t = { .tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u) };
    nanosleep(&t, NULL);
}

rf_result rf_channel_connect(const rf_job *job, const char *address, uint16_t port, const rf_hello *mine,
                             uint64_t timeout_ns, rf_channel **out)
{
    *out = NULL;
    rf_identity identity;
    RF_TRY(rf_identity_init(&identity, job, mine));
    const uint64_t deadline = rf_deadline_after(timeout_ns);
    rf_result r;
    for (uint64_t pause = FIRST_PAUSE_NS;; pause = 2 * pause < LAST_PAUSE_NS ? 2 * pause : LAST_PAUSE_NS) {
        r = try_addresses(&identity, address, port, deadline, out);
        if (r == RF_OK || !worth_another_try(r)) break;
        if (rf_deadline_left(deadline) <= pause) {
            r = RF_FAIL(RF_ERROR_TIMEOUT, "no connection to %s port %u within %.1f s: %s", address, port,
                        (double)timeout_ns * 1e-9, rf_error_message());
            break;
        }
        pause_ns(pause);
    }
    OPENSSL_cleanse(&identity, sizeof(identity));
    return r;
}

rf_result rf_channel_connect_now(const rf_job *job, const char *address, uint16_t port, const rf_hello *mine,
                                 uint64_t timeout_ns, rf_channel **out)
{
    *out = NULL;
    rf_identity identity;
    RF_TRY(rf_identity_init(&identity, job, mine));
    const rf_result r = try_addresses(&identity, address, port, rf_deadline_after(timeout_ns), out);
    OPENSSL_cleanse(&identity, sizeof(identity));
    return r;
}
