/* SPDX-License-Identifier: Apache-2.0 */
/* The baseline of `ringfire-bench allreduce`: a ring over plain TCP sockets, one to the next rank and one from the
 * previous. */
#ifndef RINGFIRE_BENCH_RING_H
#define RINGFIRE_BENCH_RING_H

#include <stdbool.h>
#include <stdint.h>

enum { BENCH_MAX_RANKS = 16 };

typedef struct bench_ring {
    int to, from;
    uint32_t rank, size;
    float *piece; /* scratch */
} bench_ring;

/* Loopback connections for all ranks, to be made before they are forked. */
bool bench_ring_connect(uint32_t size, int to[BENCH_MAX_RANKS], int from[BENCH_MAX_RANKS]);
bool bench_ring_begin(bench_ring *ring, uint32_t rank, uint32_t size, const int *to, const int *from);
void bench_ring_end(bench_ring *ring);
/* Sums `count` floats in place over the ranks: reduce-scatter and all-gather, adding while data come. */
bool bench_ring_all_reduce(bench_ring *ring, float *data, uint64_t count);
/* Every rank sends `count` floats to the next rank while receiving as many; nothing is added. */
bool bench_ring_copy(bench_ring *ring, const float *out, float *in, uint64_t count);

#endif
