/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/ring.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PIECE = 32768 }; /* floats that are added at a time: 128 KiB, in cache */

static bool connect_pair(int *to, int *from)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t size = sizeof(address);
    const int one = 1, listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    *to = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    *from = -1;
    bool ok = listener >= 0 && *to >= 0 && bind(listener, (struct sockaddr *)&address, size) == 0 &&
              listen(listener, 1) == 0 && getsockname(listener, (struct sockaddr *)&address, &size) == 0 &&
              connect(*to, (struct sockaddr *)&address, size) == 0 &&
              (*from = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) >= 0;
    if (listener >= 0) close(listener);
    ok = ok && setsockopt(*to, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) == 0;
    return ok && fcntl(*to, F_SETFL, O_NONBLOCK) == 0 && fcntl(*from, F_SETFL, O_NONBLOCK) == 0;
}

bool bench_ring_connect(uint32_t size, int to[BENCH_MAX_RANKS], int from[BENCH_MAX_RANKS])
{
    for (uint32_t i = 0; i < size; i++)
        if (!connect_pair(&to[i], &from[(i + 1) % size])) return false;
    return true;
}

bool bench_ring_begin(bench_ring *ring, uint32_t rank, uint32_t size, const int *to, const int *from)
{
    for (uint32_t i = 0; i < size; i++) {
        if (i == rank) continue;
        close(to[i]);
        close(from[i]);
    }
    *ring = (bench_ring){ to[rank], from[rank], rank, size, malloc(PIECE * sizeof(float)) };
    return ring->piece != NULL;
}

void bench_ring_end(bench_ring *ring)
{
    close(ring->to);
    close(ring->from);
    free(ring->piece);
}

typedef struct transfer {
    const char *out;
    char *in; /* where data go, or what they are added to */
    size_t out_left, in_left;
    size_t in_piece; /* bytes that wait in ring->piece */
    bool add;
} transfer;

/* Adds the whole floats that have come and keeps the rest. */
static void add_piece(bench_ring *ring, transfer *t)
{
    const size_t whole = t->in_piece / sizeof(float), size = whole * sizeof(float);
    float *restrict sum = (float *)(void *)t->in;
    const float *restrict piece = ring->piece;
    for (size_t i = 0; i < whole; i++) sum[i] += piece[i];
    memmove(ring->piece, (char *)ring->piece + size, t->in_piece - size);
    t->in += size;
    t->in_piece -= size;
}

static bool receive_some(bench_ring *ring, transfer *t, bool *moved)
{
    char *to = t->add ? (char *)ring->piece + t->in_piece : t->in;
    size_t want = t->in_left;
    if (t->add && want > PIECE * sizeof(float) - t->in_piece) want = PIECE * sizeof(float) - t->in_piece;
    const ssize_t n = recv(ring->from, to, want, 0);
    if (n < 0) return errno == EAGAIN || errno == EINTR;
    if (n == 0) return false;
    *moved = true;
    t->in_left -= (size_t)n;
    if (!t->add) {
        t->in += n;
        return true;
    }
    t->in_piece += (size_t)n;
    if (t->in_piece == PIECE * sizeof(float) || t->in_left == 0) add_piece(ring, t);
    return true;
}

static bool run_transfer(bench_ring *ring, transfer *t)
{
    while (t->out_left > 0 || t->in_left > 0) {
        bool moved = false;
        if (t->out_left > 0) {
            const ssize_t n = send(ring->to, t->out, t->out_left, MSG_NOSIGNAL);
            if (n < 0 && errno != EAGAIN && errno != EINTR) return false;
            if (n > 0) {
                t->out += n;
                t->out_left -= (size_t)n;
                moved = true;
            }
        }
        if (t->in_left > 0 && !receive_some(ring, t, &moved)) return false;
        if (moved) continue;
        struct pollfd fds[2] = { { t->out_left > 0 ? ring->to : -1, POLLOUT, 0 },
                                 { t->in_left > 0 ? ring->from : -1, POLLIN, 0 } };
        if (poll(fds, 2, 10000) == 0) return false;
    }
    return true;
}

bool bench_ring_all_reduce(bench_ring *ring, float *data, uint64_t count)
{
    const uint32_t n = ring->size;
    for (uint32_t step = 0; step < 2 * (n - 1); step++) {
        const uint32_t out = (ring->rank + 2 * n - step) % n, in = (ring->rank + 2 * n - step - 1) % n;
        const uint64_t out_begin = count * out / n, in_begin = count * in / n;
        transfer t = { .out = (const char *)(data + out_begin),
                       .in = (char *)(data + in_begin),
                       .out_left = (count * (out + 1) / n - out_begin) * sizeof(float),
                       .in_left = (count * (in + 1) / n - in_begin) * sizeof(float),
                       .add = step < n - 1 };
        if (!run_transfer(ring, &t)) return false;
    }
    return true;
}

bool bench_ring_copy(bench_ring *ring, const float *out, float *in, uint64_t count)
{
    transfer t = {
        .out = (const char *)out, .in = (char *)in, .out_left = count * sizeof(float), .in_left = count * sizeof(float)
    };
    return run_transfer(ring, &t);
}
