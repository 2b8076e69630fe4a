/* SPDX-License-Identifier: Apache-2.0 */
/* Which range of the flat parameter array is reduced and updated where. Pure. */
#ifndef RF_REPLICA_EXCHANGE_SEGMENTS_H
#define RF_REPLICA_EXCHANGE_SEGMENTS_H

#include "replica/strategy.h"

#define RF_OWNER_ALL UINT32_MAX /* every replica updates it */

typedef struct rf_segment {
    rf_range range;       /* of the flat array, in elements */
    uint64_t slot_offset; /* where the segment begins in its owner's slot arrays, in elements */
    uint32_t owner;       /* replica, or RF_OWNER_ALL */
    uint32_t bucket;      /* segments of one bucket are exchanged together; ascending */
    uint32_t hyper;       /* which numbers it is updated with: those of its spans; 0 before it is known */
} rf_segment;
typedef struct rf_segment_list {
    rf_segment *items;
    uint32_t count, capacity;
} rf_segment_list;

typedef struct rf_update_plan_params {
    const rf_range *spans; /* one per variable, ascending, not overlapping, borders at multiples of `granularity` */
    uint32_t num_spans;
    uint32_t num_replicas;
    bool sharded; /* buckets are cut into shards; else every segment is owned by all */
    bool central; /* with `sharded`: replica 0 owns every segment */
    uint64_t bucket_elements, granularity;
    uint64_t max_segment; /* longest segment in elements (a descriptor's reach), a multiple of `granularity` */
    /* Within a span, segments begin at multiples of it; a multiple of `granularity`, at most max_segment. 0: anywhere.
     */
    uint64_t block;
} rf_update_plan_params;

/* ---- buckets ---- */

/* Elements of a bucket, for `total` elements of gradients and so many `wanted` (0: no wish). Small ones begin to travel
 * early, but each costs messages and a submission: a sixteenth of all, within 1 to 16 MiB. */
uint64_t rf_bucket_size(uint64_t wanted, uint64_t total);
/* Groups variables in backward order (last created first) into buckets of about `bucket_elements`. *buckets is freed
 * with rf_free. */
rf_result rf_bucket_plan(const uint64_t *variable_counts, uint32_t num_variables, uint64_t bucket_elements,
                         rf_range **buckets, uint32_t *num_buckets);

/* ---- segments ---- */

/* The part of a segment within `range`. False: there is none. */
bool rf_segment_clip(const rf_segment *segment, rf_range range, rf_segment *out);
/* Segments that together cover the spans exactly, buckets in backward order. slot_counts[r]: elements of replica r's
 * slot arrays. With one replica, it owns everything in as few segments as possible. */
rf_result rf_update_plan_make(const rf_update_plan_params *params, rf_segment_list *segments, uint64_t *slot_counts);
/* The parts of `segments` that lie within `spans` (as above; a subset of those planned). hypers[i], of span i, becomes
 * rf_segment::hyper: segments are cut where it changes. */
rf_result rf_segments_restrict(const rf_segment_list *segments, const rf_range *spans, const uint32_t *hypers,
                               uint32_t num_spans, rf_segment_list *out);
void rf_segment_list_free(rf_segment_list *segments);

#endif
