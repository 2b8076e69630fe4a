/* SPDX-License-Identifier: Apache-2.0 */
/* Which part of the flat parameter array is reduced and updated where. Pure. */
#ifndef RF_REPLICA_EXCHANGE_PIECES_H
#define RF_REPLICA_EXCHANGE_PIECES_H

#include "replica/strategy.h"

#define RF_OWNER_ALL UINT32_MAX     /* every replica updates it */
#define RF_VARIABLES_ALL UINT32_MAX /* the piece may span several variables */

typedef struct rf_piece {
    rf_range range;       /* of the flat array, in elements */
    uint64_t slot_offset; /* where the piece begins in its owner's slot arrays, in elements */
    uint32_t owner;       /* replica, or RF_OWNER_ALL */
    uint32_t bucket;      /* pieces of one bucket are exchanged together; ascending */
    uint32_t variable;    /* position in the list of spans, or RF_VARIABLES_ALL */
} rf_piece;
typedef struct rf_piece_list {
    rf_piece *items;
    uint32_t count, capacity;
} rf_piece_list;

typedef struct rf_update_plan_params {
    const rf_range *spans; /* one per variable, ascending, not overlapping, borders at multiples of `granularity` */
    uint32_t num_spans;
    uint32_t num_replicas;
    bool sharded; /* buckets are cut into shards; else every piece is owned by all */
    bool central; /* with `sharded`: replica 0 owns every piece */
    uint64_t bucket_elements, granularity;
    uint64_t max_piece; /* longest piece in elements (a descriptor's reach), a multiple of `granularity` */
} rf_update_plan_params;

/* Pieces that together cover the spans exactly, buckets in backward order. slot_counts[r]: elements of replica r's slot
 * arrays. With one replica, it owns everything in as few pieces as possible. */
rf_result rf_update_plan_make(const rf_update_plan_params *params, rf_piece_list *pieces, uint64_t *slot_counts);
/* The parts of `pieces` that lie within `spans` (as above; a subset of those planned). `by_variable` cuts at their
 * borders and sets rf_piece::variable. */
rf_result rf_pieces_restrict(const rf_piece_list *pieces, const rf_range *spans, uint32_t num_spans, bool by_variable,
                             rf_piece_list *out);
void rf_piece_list_free(rf_piece_list *pieces);

#endif
