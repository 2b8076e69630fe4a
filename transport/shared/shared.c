/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/shared/shared.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include <openssl/crypto.h>

#include "base/memory.h"
#include "base/platform.h"
#include "base/threads.h"
#include "transport/shared/internal.h"

/* Longest look before a sleep: what a sleep and being woken cost. */
#define MOST_SPIN_NS UINT64_C(20000)
#define LEAST_SPIN_NS UINT64_C(1000)
/* Wake-up bytes that are taken at a time. */
enum { BELL_BYTES = 64, BELL_ROUNDS = 16 };

/* ---- life ---- */

static void plan_spinning(rf_shared *s)
{
    uint32_t here = 0;
    for (uint32_t r = 0; r < s->world_size; r++) here += rf_mesh_host(s->mesh, r) == rf_mesh_host(s->mesh, s->rank);
    s->crowded = here > rf_cpu_count();
    s->spin_ns = MOST_SPIN_NS;
}

static rf_result shared_build(rf_shared *s)
{
    s->cards = RF_NEW_ARRAY(rf_shared_card, s->world_size);
    s->pairs = RF_NEW_ARRAY(rf_shared_pair *, s->world_size);
    s->near = RF_NEW_ARRAY(uint32_t, s->world_size);
    if (!s->cards || !s->pairs || !s->near) return RF_ERROR_OUT_OF_HOST_MEMORY;
    RF_TRY(rf_shared_pair_up(s));
    plan_spinning(s);
    return RF_OK;
}

rf_result rf_shared_create(const rf_shared_params *params, rf_shared **out)
{
    *out = NULL;
    rf_shared *s = RF_NEW(rf_shared);
    if (!s) return RF_ERROR_OUT_OF_HOST_MEMORY;
    s->job = params->job;
    s->peers = params->peers;
    s->mesh = params->mesh;
    s->rank = rf_mesh_rank(params->mesh);
    s->world_size = rf_mesh_world_size(params->mesh);
    s->depth = params->depth;
    s->done_last = &s->done;
    const rf_result r = shared_build(s);
    s->job = NULL;
    s->peers = NULL;
    if (r < 0)
        rf_shared_destroy(&s);
    else
        *out = s;
    return r;
}

void rf_shared_close(rf_shared *s)
{
    for (uint32_t i = 0; i < s->num_near; i++) rf_shared_pair_end(s->pairs[s->near[i]]);
}

void rf_shared_destroy(rf_shared **shared)
{
    rf_shared *s = *shared;
    if (!s) return;
    for (uint32_t r = 0; s->pairs && r < s->world_size; r++) rf_shared_pair_free(&s->pairs[r]);
    rf_free(s->pairs);
    rf_free(s->cards);
    rf_free(s->near);
    rf_free(s);
    *shared = NULL;
}

bool rf_shared_has(const rf_shared *s, uint32_t peer)
{
    return s->pairs[peer] != NULL;
}

uint32_t rf_shared_pairs(const rf_shared *s)
{
    return s->num_near;
}

bool rf_shared_has_all(const rf_shared *s)
{
    return s->all;
}

bool rf_shared_keys(const rf_shared *s, uint32_t peer, uint8_t send[RF_JOB_KEY_BYTES],
                    uint8_t receive[RF_JOB_KEY_BYTES])
{
    uint8_t key[RF_JOB_KEY_BYTES];
    const uint8_t *mine = s->cards[s->rank].nonce, *theirs = s->cards[peer].nonce;
    const bool secure = rf_mesh_link_key(s->mesh, peer, "shared memory", key);
    const bool a = rf_token_derive(key, "ringfire shared key", s->rank, peer, mine, theirs, send);
    const bool b = rf_token_derive(key, "ringfire shared key", peer, s->rank, theirs, mine, receive);
    OPENSSL_cleanse(key, sizeof(key));
    return secure && a && b;
}

/* ---- waking ---- */

static uint32_t side_of(const rf_shared *s, const rf_shared_pair *pair)
{
    return s->rank > pair->rank;
}

/* After something was published: either this side sees the wish, or the other one, which looks again after wishing,
 * sees what was published. A socket that is full has bytes that wake already. */
static void pair_wake(const rf_shared *s, const rf_shared_pair *pair, uint32_t reason)
{
    _Atomic uint32_t *wish = &pair->segment.head->sides[1 - side_of(s, pair)].wish;
    if ((atomic_load(wish) & reason) == 0 || pair->fd < 0) return;
    atomic_store_explicit(wish, 0, memory_order_relaxed);
    const ssize_t unused = send(pair->fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
    (void)unused;
}

/* ---- sending ---- */

static void finish_op(rf_shared *s, rf_shared_op *op)
{
    op->after = NULL;
    *s->done_last = op;
    s->done_last = &op->after;
}

static void fail_op(rf_shared *s, const rf_shared_pair *pair, rf_shared_op *op)
{
    op->error = pair->lied ? EPROTO : ECONNRESET;
    op->lied = pair->lied;
    snprintf(op->detail, sizeof(op->detail), "%s", pair->lied ? pair->detail : "shared memory closed");
    finish_op(s, op);
}

/* Keeps what the error record says of the peer. */
static void note_lie(rf_shared_pair *pair)
{
    pair->lied = true;
    snprintf(pair->detail, sizeof(pair->detail), "%s", rf_error_message());
}

static void op_begin(rf_shared_op *op, uint32_t peer)
{
    op->after = NULL;
    op->peer = peer;
    op->lent = NULL;
    op->size = 0;
    op->error = 0;
    op->lied = false;
}

rf_result rf_shared_send(rf_shared *s, uint32_t peer, const struct iovec *parts, uint32_t num_parts, rf_shared_op *op)
{
    rf_shared_pair *pair = s->pairs[peer];
    op_begin(op, peer);
    pair->blocked = false;
    if (!pair->ended && !pair->lied) {
        const rf_result r = rf_ring_write(&pair->out, parts, num_parts);
        pair->blocked = r == RF_END;
        if (r == RF_END) return r;
        if (r == RF_ERROR_CORRUPT_DATA) {
            note_lie(pair);
        } else {
            RF_TRY(r);
            pair_wake(s, pair, RF_WISH_MESSAGE);
            finish_op(s, op);
            return RF_OK;
        }
    }
    fail_op(s, pair, op);
    return RF_OK;
}

/* ---- receiving ---- */

rf_result rf_shared_receive(rf_shared *s, uint32_t peer, void *data, size_t size, rf_shared_op *op)
{
    rf_shared_pair *pair = s->pairs[peer];
    if (pair->pending == s->depth) return RF_END;
    op_begin(op, peer);
    op->data = data;
    op->capacity = size;
    *pair->last = op;
    pair->last = &op->after;
    pair->pending++;
    return RF_OK;
}

static rf_shared_op *take_oldest(rf_shared_pair *pair)
{
    rf_shared_op *op = pair->first;
    pair->first = op->after;
    if (!pair->first) pair->last = &pair->first;
    pair->pending--;
    return op;
}

/* A writer that waits for room is woken when it can write for a while, or when this side is about to sleep. */
static void release_message(rf_shared *s, rf_shared_pair *pair, uint64_t end)
{
    rf_ring_release(&pair->in, end);
    pair->released = !rf_ring_is_half_free(&pair->in);
    if (!pair->released) pair_wake(s, pair, RF_WISH_ROOM);
}

void rf_shared_return(rf_shared *s, rf_shared_op *op)
{
    if (!op->lent) return;
    op->lent = NULL;
    release_message(s, s->pairs[op->peer], op->end);
}

/* RF_END: nothing has come. */
static rf_result take_message(rf_shared *s, rf_shared_pair *pair)
{
    const uint8_t *data;
    size_t size;
    uint64_t end;
    const rf_result r = rf_ring_read(&pair->in, &data, &size, &end);
    if (r != RF_OK) return r;
    if (size > pair->first->capacity)
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "a message of %zu bytes where at most %zu were expected", size,
                       pair->first->capacity);
    rf_shared_op *op = take_oldest(pair);
    op->size = size;
    op->end = end;
    if (op->data) {
        if (size > 0) memcpy(op->data, data, size);
        release_message(s, pair, end);
    } else {
        op->lent = data;
    }
    finish_op(s, op);
    return RF_OK;
}

static void take_messages(rf_shared *s, rf_shared_pair *pair)
{
    /* Before looking: what was written before the end is there then. */
    const bool ended = pair->ended;
    rf_result r = RF_OK;
    while (r == RF_OK && pair->first && !pair->lied) {
        r = take_message(s, pair);
        if (r < 0) note_lie(pair);
    }
    while (pair->first && (pair->lied || ended)) fail_op(s, pair, take_oldest(pair));
}

uint32_t rf_shared_poll(rf_shared *s, rf_shared_op **done, uint32_t max)
{
    for (uint32_t i = 0; i < s->num_near; i++) {
        rf_shared_pair *pair = s->pairs[s->near[i]];
        if (pair->first) take_messages(s, pair);
    }
    uint32_t count = 0;
    while (s->done && count < max) {
        done[count++] = s->done;
        s->done = s->done->after;
    }
    if (!s->done) s->done_last = &s->done;
    return count;
}

/* ---- waiting ---- */

static bool pair_has_news(const rf_shared_pair *pair)
{
    return (pair->first && (pair->ended || rf_ring_has_message(&pair->in))) ||
           (pair->blocked && (pair->ended || rf_ring_has_room(&pair->out)));
}

static bool has_news(const rf_shared *s)
{
    bool news = s->done != NULL;
    for (uint32_t i = 0; i < s->num_near && !news; i++) news = pair_has_news(s->pairs[s->near[i]]);
    return news;
}

/* Where ranks share processors, who looks must not keep the processor from whom he waits for. */
static void pause_briefly(const rf_shared *s)
{
    if (s->crowded) {
        sched_yield();
        return;
    }
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb");
#endif
}

bool rf_shared_spin(rf_shared *s)
{
    if (s->num_near == 0) return false;
    s->wait_begin = rf_now_ns();
    const uint64_t end = s->wait_begin + s->spin_ns;
    do {
        for (int i = 0; i < 16; i++) {
            if (has_news(s)) return true;
            pause_briefly(s);
        }
    } while (rf_now_ns() < end);
    return false;
}

/* Longer looks where sleeps turn out to be short, else shorter ones. */
static void learn_from_sleep(rf_shared *s)
{
    const bool was_short = rf_now_ns() - s->wait_begin < 2 * MOST_SPIN_NS;
    s->spin_ns = was_short ? 2 * s->spin_ns : s->spin_ns / 2;
    if (s->spin_ns > MOST_SPIN_NS) s->spin_ns = MOST_SPIN_NS;
    if (s->spin_ns < LEAST_SPIN_NS) s->spin_ns = LEAST_SPIN_NS;
}

bool rf_shared_lie_down(rf_shared *s, struct pollfd *fds, uint32_t *count)
{
    *count = s->num_near;
    for (uint32_t i = 0; i < s->num_near; i++) {
        rf_shared_pair *pair = s->pairs[s->near[i]];
        if (pair->released) pair_wake(s, pair, RF_WISH_ROOM);
        pair->released = false;
        const uint32_t wish = (pair->first ? RF_WISH_MESSAGE : 0) | (pair->blocked ? RF_WISH_ROOM : 0);
        atomic_store(&pair->segment.head->sides[side_of(s, pair)].wish, wish);
        fds[i] = (struct pollfd){ .fd = pair->ended ? -1 : pair->fd, .events = POLLIN };
    }
    return !has_news(s);
}

/* Takes the wake-up bytes out, and sees the end. */
static void hear_bell(rf_shared_pair *pair)
{
    for (int i = 0; i < BELL_ROUNDS; i++) {
        char bytes[BELL_BYTES];
        const ssize_t n = recv(pair->fd, bytes, sizeof(bytes), MSG_DONTWAIT);
        if (n > 0 || (n < 0 && errno == EINTR)) continue;
        if (n == 0 || (errno != EAGAIN && errno != EWOULDBLOCK)) pair->ended = true;
        return;
    }
}

void rf_shared_get_up(rf_shared *s, const struct pollfd *fds, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        rf_shared_pair *pair = s->pairs[s->near[i]];
        atomic_store_explicit(&pair->segment.head->sides[side_of(s, pair)].wish, 0, memory_order_relaxed);
        if (fds[i].fd >= 0 && fds[i].revents) hear_bell(pair);
    }
    if (count > 0) learn_from_sleep(s);
}
