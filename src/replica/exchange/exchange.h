/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How gradients and parameters travel between replicas: the seam between one process, where they meet in host memory,
 * and several, where a communicator carries them. Works on host memory; device copies are the caller's.
 * Arrays of pointers have one entry for each replica of this process; owners in segments are numbers over all
 * processes.
 */
#ifndef RF_REPLICA_EXCHANGE_EXCHANGE_H
#define RF_REPLICA_EXCHANGE_EXCHANGE_H

#include "replica/exchange/segments.h"
#include "replica/world.h"

/* Between processes. */
typedef struct rf_exchange_compression {
    rf_compression kind;
    double share; /* TOP_K: of elements; else 0 */
} rf_exchange_compression;

typedef struct rf_exchange rf_exchange;
/* The exchange of some segments, step after step. */
typedef struct rf_bucket_exchange rf_bucket_exchange;

typedef struct rf_exchange_fns {
    void (*destroy)(rf_exchange *exchange);
    /* `segments` must outlive it. `gradients`: may be compressed. `background`: they are of one bucket, and what is
     * started goes on while the caller does something else, where several processes take part; else the calls that
     * start something do all of it, one bucket after the other. */
    rf_result (*open)(rf_exchange *exchange, const rf_segment *segments, uint32_t num_segments, bool gradients,
                      bool background, rf_bucket_exchange **out);
    /* For each segment: its owner's (every replica's, for RF_OWNER_ALL) range of sums[] becomes the sum of
     * contributions[r] over all replicas, in a fixed order. contributions[r] NULL counts as zeros; sums[r] may be
     * contributions[r]. Every process must start the same in the same order. Until finish() the segments' ranges of the
     * arrays must not be touched. One operation at a time is under way. */
    rf_result (*start_reduce)(rf_bucket_exchange *bucket, const float *const *contributions, float *const *sums);
    /* Copies each segment from its owner's from[] to every other replica's to[]. from[r] may be to[r]; where it is not,
     * what to[] gets of the owner's own segments is unspecified. */
    rf_result (*start_gather)(rf_bucket_exchange *bucket, const float *const *from, float *const *to);
    bool (*done)(const rf_bucket_exchange *bucket);  /* finish() would not wait; true also when nothing was started */
    rf_result (*finish)(rf_bucket_exchange *bucket); /* does nothing when nothing was started */
    void (*close)(rf_bucket_exchange **bucket);      /* waits */
    /* Another variable lies here from now on: what was kept of gradients is dropped. NULL: nothing is kept. */
    void (*forget)(rf_exchange *exchange, rf_range range);
} rf_exchange_fns;
struct rf_exchange {
    const rf_exchange_fns *fns;
    double host_seconds; /* spent in copies and sums so far */
    uint64_t bytes;      /* of gradients and values exchanged so far, as the owners' copies count them */
};

/* All replicas in this process. */
rf_result rf_local_exchange_create(uint32_t num_replicas, rf_exchange **out);
/* Several processes: sums over the replicas of a process in their order, then over the processes. `world` is borrowed.
 */
rf_result rf_comm_exchange_create(const rf_world *world, uint32_t num_local, rf_exchange_compression compression,
                                  rf_exchange **out);
void rf_exchange_destroy(rf_exchange **exchange);

/* out[i] = sum over r of from[r][range.begin + i], in order; NULLs count as zeros. `out` is none of them. */
void rf_sum_range(const float *const *from, uint32_t num_from, rf_range range, float *out);

#endif
