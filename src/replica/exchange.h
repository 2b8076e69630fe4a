/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How gradients and parameters travel between replicas: the seam between one process, where they meet in host memory,
 * and several, where a transport carries them. Works on host memory; device copies are the caller's.
 */
#ifndef RF_REPLICA_EXCHANGE_H
#define RF_REPLICA_EXCHANGE_H

#include "replica/update_plan.h"

typedef struct rf_exchange rf_exchange;

typedef struct rf_exchange_fns {
    /* For each piece: its owner's (every replica's, for RF_OWNER_ALL) range of sums[] becomes the sum of
     * contributions[r] over the replicas, added in replica order. contributions[r] NULL counts as zeros; sums[r] may be
     * contributions[r]. */
    rf_result (*reduce_scatter)(rf_exchange *exchange, const rf_piece *pieces, uint32_t num_pieces,
                                const float *const *contributions, float *const *sums);
    /* Copies each piece from its owner's from[] to every other replica's to[]. */
    rf_result (*all_gather)(rf_exchange *exchange, const rf_piece *pieces, uint32_t num_pieces,
                            const float *const *from, float *const *to);
    void (*destroy)(rf_exchange *exchange);
} rf_exchange_fns;
struct rf_exchange {
    const rf_exchange_fns *fns;
};

/* All replicas in this process. */
rf_result rf_local_exchange_create(uint32_t num_replicas, rf_exchange **out);
void rf_exchange_destroy(rf_exchange **exchange);

#endif
