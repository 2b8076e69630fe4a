/* SPDX-License-Identifier: Apache-2.0 */
/* A baseline of `ringfire-bench allreduce`: a ring over memory that the forked ranks share, without anything that a
 * library needs: nobody is checked, lost or awaited with a deadline. */
#ifndef RINGFIRE_BENCH_SHARED_RING_H
#define RINGFIRE_BENCH_SHARED_RING_H

#include <stdbool.h>
#include <stdint.h>

typedef struct bench_lane bench_lane;

typedef struct bench_shared_ring {
    bench_lane *to, *from;
    uint32_t rank, size;
} bench_shared_ring;

/* One lane for each rank, to the next one, to be made before they are forked; NULL without memory. */
bench_lane *bench_shared_ring_create(uint32_t size);
void bench_shared_ring_destroy(bench_lane *lanes, uint32_t size);
bench_shared_ring bench_shared_ring_begin(bench_lane *lanes, uint32_t rank, uint32_t size);
/* Sums `count` floats in place over the ranks: reduce-scatter and all-gather, adding where data come. */
void bench_shared_ring_all_reduce(bench_shared_ring *ring, float *data, uint64_t count);

#endif
