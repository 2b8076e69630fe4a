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

typedef struct rf_exchange {
    const rf_world *world;
    uint32_t num_local, first; /* replicas of this process */
    rf_exchange_compression compression;
    struct rf_sparse_finder *finder; /* TOP_K */
    float *kept;                     /* TOP_K: what of the gradients has not been sent */
    uint64_t num_kept;
    double host_seconds; /* spent in copies and sums so far */
    uint64_t bytes;      /* of gradients and values exchanged so far, as the owners' copies count them */
} rf_exchange;

/* `world` is borrowed. */
rf_result rf_exchange_init(const rf_world *world, uint32_t num_local, rf_exchange_compression compression,
                           rf_exchange *out);
void rf_exchange_free(rf_exchange *exchange);
/* Another variable lies here from now on: what was kept of gradients is dropped. */
void rf_exchange_forget(rf_exchange *exchange, rf_range range);

/* The exchange of some segments, step after step. */
typedef struct rf_bucket_exchange rf_bucket_exchange;

/* `segments` must outlive it. `gradients`: may be compressed. `background`: they are of one bucket, and what is started
 * goes on while the caller does something else, where several processes take part; else the calls that start something
 * do all of it, one bucket after the other. */
rf_result rf_bucket_exchange_open(rf_exchange *exchange, const rf_segment *segments, uint32_t num_segments,
                                  bool gradients, bool background, rf_bucket_exchange **out);
/* Starts: for each segment, its owner's (every replica's, for RF_OWNER_ALL) range of sums[] becomes the sum of
 * contributions[r] over all replicas, in a fixed order. contributions[r] NULL counts as zeros; sums[r] may be
 * contributions[r]. Every process must start the same in the same order. Until it is finished the segments' ranges of
 * the arrays must not be touched. One operation at a time is under way. */
rf_result rf_bucket_exchange_reduce(rf_bucket_exchange *bucket, const float *const *contributions, float *const *sums);
/* Starts: copies each segment from its owner's from[] to every other replica's to[]. from[r] may be to[r]; where it is
 * not, what to[] gets of the owner's own segments is unspecified. */
rf_result rf_bucket_exchange_gather(rf_bucket_exchange *bucket, const float *const *from, float *const *to);
/* The next would not wait; true also when nothing was started. */
bool rf_bucket_exchange_done(const rf_bucket_exchange *bucket);
rf_result rf_bucket_exchange_finish(rf_bucket_exchange *bucket); /* does nothing when nothing was started */
void rf_bucket_exchange_close(rf_bucket_exchange **bucket);      /* waits */

/* Around what exchanges gradients and values in a step. */
typedef struct rf_exchange_mark {
    double host_seconds, comm_seconds;
    uint64_t bytes;
} rf_exchange_mark;
rf_exchange_mark rf_exchange_mark_now(const rf_strategy *strategy);
/* Adds what was exchanged since the mark. `exposed`: seconds that no device had work meanwhile. */
void rf_exchange_count(rf_strategy *strategy, const rf_exchange_mark *mark, double exposed);

#endif
