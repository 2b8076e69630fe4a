/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/shared_ring.h"

#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

enum { SLOTS = 8, PIECE = 16384 /* floats: 64 KiB */, SPINS = 200 };

struct bench_lane {
    _Alignas(64) _Atomic uint64_t written;
    _Alignas(64) _Atomic uint64_t read;
    _Alignas(64) float slots[SLOTS][PIECE];
};

bench_lane *bench_shared_ring_create(uint32_t size)
{
    bench_lane *lanes = mmap(NULL, size * sizeof(*lanes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return lanes == MAP_FAILED ? NULL : lanes;
}

void bench_shared_ring_destroy(bench_lane *lanes, uint32_t size)
{
    if (lanes) munmap(lanes, size * sizeof(*lanes));
}

bench_shared_ring bench_shared_ring_begin(bench_lane *lanes, uint32_t rank, uint32_t size)
{
    return (bench_shared_ring){ &lanes[rank], &lanes[(rank + size - 1) % size], rank, size };
}

typedef struct transfer {
    const float *out;
    float *in; /* where data go, or what they are added to */
    uint64_t out_left, in_left;
    bool add;
} transfer;

static uint64_t piece_of(uint64_t left)
{
    return left < PIECE ? left : PIECE;
}

static bool send_piece(bench_lane *lane, transfer *t)
{
    const uint64_t written = atomic_load_explicit(&lane->written, memory_order_relaxed), n = piece_of(t->out_left);
    if (n == 0 || written - atomic_load_explicit(&lane->read, memory_order_acquire) == SLOTS) return false;
    memcpy(lane->slots[written % SLOTS], t->out, n * sizeof(float));
    atomic_store_explicit(&lane->written, written + 1, memory_order_release);
    t->out += n;
    t->out_left -= n;
    return true;
}

static bool receive_piece(bench_lane *lane, transfer *t)
{
    const uint64_t read = atomic_load_explicit(&lane->read, memory_order_relaxed), n = piece_of(t->in_left);
    if (n == 0 || atomic_load_explicit(&lane->written, memory_order_acquire) == read) return false;
    const float *restrict piece = lane->slots[read % SLOTS];
    float *restrict in = t->in;
    if (t->add)
        for (uint64_t i = 0; i < n; i++) in[i] += piece[i];
    else
        memcpy(in, piece, n * sizeof(float));
    atomic_store_explicit(&lane->read, read + 1, memory_order_release);
    t->in += n;
    t->in_left -= n;
    return true;
}

static void run_transfer(bench_shared_ring *ring, transfer *t)
{
    for (uint32_t spins = 0; t->out_left > 0 || t->in_left > 0;) {
        const bool sent = send_piece(ring->to, t), received = receive_piece(ring->from, t);
        spins = sent || received ? 0 : spins + 1;
        if (spins > SPINS) sched_yield();
    }
}

void bench_shared_ring_all_reduce(bench_shared_ring *ring, float *data, uint64_t count)
{
    const uint32_t n = ring->size;
    for (uint32_t step = 0; step < 2 * (n - 1); step++) {
        const uint32_t out = (ring->rank + 2 * n - step) % n, in = (ring->rank + 2 * n - step - 1) % n;
        const uint64_t out_begin = count * out / n, in_begin = count * in / n;
        transfer t = { .out = data + out_begin,
                       .in = data + in_begin,
                       .out_left = count * (out + 1) / n - out_begin,
                       .in_left = count * (in + 1) / n - in_begin,
                       .add = step < n - 1 };
        run_transfer(ring, &t);
    }
}
