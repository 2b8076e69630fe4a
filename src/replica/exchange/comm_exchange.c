/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exchange between processes: one message for each bucket. The segments of a bucket stand in order of owner, and so
 * of rank: what a rank owns of a bucket is one run of elements.
 *
 * Within a process the replicas' contributions are added in their order, then the communicator adds those of the
 * processes; values come back once for each process and are copied to its replicas from there. Where a process has one
 * replica and the bucket has no gaps, the communicator works on the replica's memory; else on a buffer in which the
 * bucket's segments lie one after the other ("packed").
 */
#include <string.h>

#include "base/platform.h"
#include "replica/exchange/exchange.h"

typedef struct comm_exchange {
    rf_exchange base;
    const rf_world *world;
    uint32_t num_local, first; /* replicas of this process */
} comm_exchange;

struct rf_bucket_exchange {
    comm_exchange *exchange;
    const rf_segment *all; /* of one bucket, where it goes on in the background */
    uint32_t num_all;
    bool background;
    /* The bucket whose turn it is: */
    const rf_segment *segments;
    uint32_t num_segments;
    rf_range range;    /* from the first segment's begin to the last one's end */
    uint64_t elements; /* of all segments; fewer than the range has where there are gaps */
    uint64_t mine;     /* elements before this rank's */
    bool for_all;      /* every replica owns it */
    uint64_t *counts;  /* [world size]: elements of each rank */
    float *packed;
    uint64_t capacity; /* of `packed` in elements */
    /* What is under way: */
    bool reduces, gathers;
    rf_comm_request *request; /* NULL: done already */
    float **to;               /* [num_local] */
};

/* ---- buckets ---- */

static uint64_t segment_elements(const rf_segment *segment)
{
    return segment->range.end - segment->range.begin;
}

/* The bucket that begins with segments[0], and what of it belongs to which rank. */
static void bucket_exchange_select(rf_bucket_exchange *b, const rf_segment *segments, uint32_t num_segments)
{
    const rf_world *world = b->exchange->world;
    b->segments = segments;
    b->num_segments = 0;
    b->range = segments[0].range;
    b->for_all = segments[0].owner == RF_OWNER_ALL;
    b->elements = b->mine = 0;
    memset(b->counts, 0, world->size * sizeof(b->counts[0]));
    for (; b->num_segments < num_segments && segments[b->num_segments].bucket == segments[0].bucket;
         b->num_segments++) {
        const rf_segment *segment = &segments[b->num_segments];
        b->elements += segment_elements(segment);
        b->range.end = segment->range.end;
        if (!b->for_all) b->counts[rf_world_rank_of(world, segment->owner)] += segment_elements(segment);
    }
    for (uint32_t r = 0; r < world->rank; r++) b->mine += b->counts[r];
}

static void close_bucket(rf_bucket_exchange **bucket)
{
    rf_bucket_exchange *b = *bucket;
    if (!b) return;
    /* Its failure has been reported already, or no longer matters. */
    if (b->request && rf_comm_wait(&b->request) < 0) b->request = NULL;
    rf_free(b->counts);
    rf_free(b->packed);
    rf_free(b->to);
    rf_free(b);
    *bucket = NULL;
}

static rf_result open_bucket(rf_exchange *exchange, const rf_segment *segments, uint32_t num_segments, bool background,
                             rf_bucket_exchange **out)
{
    comm_exchange *x = (comm_exchange *)exchange;
    rf_bucket_exchange *b = *out = RF_NEW(rf_bucket_exchange);
    if (!b) return RF_ERROR_OUT_OF_HOST_MEMORY;
    *b = (rf_bucket_exchange){ .exchange = x, .all = segments, .num_all = num_segments, .background = background };
    b->counts = RF_NEW_ARRAY(uint64_t, x->world->size);
    b->to = RF_NEW_ARRAY(float *, x->num_local);
    if (!b->counts || !b->to) {
        close_bucket(out);
        return RF_ERROR_OUT_OF_HOST_MEMORY;
    }
    bucket_exchange_select(b, segments, num_segments);
    return RF_OK;
}

static bool is_mine(const comm_exchange *x, const rf_segment *segment)
{
    return segment->owner >= x->first && segment->owner - x->first < x->num_local;
}

static rf_result comm_exchange_reserve(rf_bucket_exchange *b)
{
    if (b->elements <= b->capacity) return RF_OK;
    float *packed = rf_aligned_calloc((size_t)b->elements * sizeof(float));
    if (!packed) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_free(b->packed);
    b->packed = packed;
    b->capacity = b->elements;
    return RF_OK;
}

/* Whether the communicator can work on the replica's own memory. */
static bool is_direct(const rf_bucket_exchange *b)
{
    return b->exchange->num_local == 1 && b->range.end - b->range.begin == b->elements;
}

static void count_time(rf_bucket_exchange *b, uint64_t begin)
{
    b->exchange->base.host_seconds += 1e-9 * (double)(rf_now_ns() - begin);
}

/* ---- reduce-scatter ---- */

/* packed = the sum of this process' contributions. */
static rf_result pack_sum(rf_bucket_exchange *b, const float *const *from)
{
    const uint64_t begin = rf_now_ns();
    RF_TRY(comm_exchange_reserve(b));
    uint64_t at = 0;
    for (uint32_t i = 0; i < b->num_segments; i++) {
        /* Segments that follow each other without a gap are summed in one go. */
        rf_range run = b->segments[i].range;
        while (i + 1 < b->num_segments && b->segments[i + 1].range.begin == run.end)
            run.end = b->segments[++i].range.end;
        rf_sum_range(from, b->exchange->num_local, run, b->packed + at);
        at += run.end - run.begin;
    }
    count_time(b, begin);
    return RF_OK;
}

/* From `packed`, beginning with this rank's shard, to where the owners want it. */
static void spread_sums(rf_bucket_exchange *b)
{
    const comm_exchange *x = b->exchange;
    const uint64_t begin = rf_now_ns();
    const float *from = b->packed + b->mine;
    for (uint32_t i = 0; i < b->num_segments; i++) {
        const rf_segment *segment = &b->segments[i];
        if (!b->for_all && !is_mine(x, segment)) continue;
        for (uint32_t r = 0; r < x->num_local; r++)
            if (b->for_all || segment->owner == x->first + r)
                memcpy(b->to[r] + segment->range.begin, from, (size_t)segment_elements(segment) * sizeof(float));
        from += segment_elements(segment);
    }
    count_time(b, begin);
}

/* `request` NULL: at once. */
static rf_result call_reduce(const rf_bucket_exchange *b, const float *send, float *recv, rf_comm_request **request)
{
    const rf_collective_params params = { .name = "gradients" };
    rf_comm *comm = b->exchange->world->comm;
    if (b->for_all)
        return request ? rf_comm_start_all_reduce(comm, send, recv, b->elements, RF_F32, RF_COMM_SUM, &params, request)
                       : rf_comm_all_reduce(comm, send, recv, b->elements, RF_F32, RF_COMM_SUM, &params);
    return request ? rf_comm_start_reduce_scatter(comm, send, recv, b->counts, RF_F32, RF_COMM_SUM, &params, request)
                   : rf_comm_reduce_scatter(comm, send, recv, b->counts, RF_F32, RF_COMM_SUM, &params);
}

static rf_result begin_reduce(rf_bucket_exchange *b, const float *const *contributions, float *const *sums,
                              rf_comm_request **request)
{
    const bool direct = is_direct(b), packs = !direct || !contributions[0];
    if (packs) RF_TRY(pack_sum(b, contributions));
    const float *send = packs ? b->packed : contributions[0] + b->range.begin;
    float *recv = (direct ? sums[0] + b->range.begin : b->packed) + b->mine;
    memcpy(b->to, sums, b->exchange->num_local * sizeof(b->to[0]));
    b->exchange->base.bytes += b->elements * sizeof(float);
    RF_TRY(call_reduce(b, send, recv, request));
    b->reduces = true;
    return RF_OK;
}

/* ---- all-gather ---- */

/* What this process has to give goes to its own range of `packed`. */
static rf_result pack_values(rf_bucket_exchange *b, const float *const *from)
{
    const comm_exchange *x = b->exchange;
    const uint64_t begin = rf_now_ns();
    RF_TRY(comm_exchange_reserve(b));
    float *at = b->packed + b->mine;
    for (uint32_t i = 0; i < b->num_segments; i++) {
        const rf_segment *segment = &b->segments[i];
        if (!is_mine(x, segment)) continue;
        memcpy(at, from[segment->owner - x->first] + segment->range.begin,
               (size_t)segment_elements(segment) * sizeof(float));
        at += segment_elements(segment);
    }
    count_time(b, begin);
    return RF_OK;
}

static void spread_values(rf_bucket_exchange *b)
{
    const comm_exchange *x = b->exchange;
    const uint64_t begin = rf_now_ns();
    const float *from = b->packed;
    for (uint32_t i = 0; i < b->num_segments; i++) {
        const rf_segment *segment = &b->segments[i];
        for (uint32_t r = 0; r < x->num_local; r++)
            if (segment->owner != x->first + r)
                memcpy(b->to[r] + segment->range.begin, from, (size_t)segment_elements(segment) * sizeof(float));
        from += segment_elements(segment);
    }
    count_time(b, begin);
}

static rf_result begin_gather(rf_bucket_exchange *b, const float *const *from, float *const *to,
                              rf_comm_request **request)
{
    const rf_collective_params params = { .name = "values" };
    rf_comm *comm = b->exchange->world->comm;
    if (b->for_all) return RF_FAIL(RF_ERROR_INTERNAL, "all_gather: bucket %u has no owners", b->segments[0].bucket);
    const bool direct = is_direct(b);
    if (!direct) RF_TRY(pack_values(b, from));
    const float *send = (direct ? from[0] + b->range.begin : b->packed) + b->mine;
    float *recv = direct ? to[0] + b->range.begin : b->packed;
    memcpy(b->to, to, b->exchange->num_local * sizeof(b->to[0]));
    b->exchange->base.bytes += b->elements * sizeof(float);
    RF_TRY(request ? rf_comm_start_all_gather(comm, send, recv, b->counts, RF_F32, &params, request)
                   : rf_comm_all_gather(comm, send, recv, b->counts, RF_F32, &params));
    b->gathers = true;
    return RF_OK;
}

/* ---- one bucket in the background, or one after the other ---- */

static bool bucket_done(const rf_bucket_exchange *b)
{
    return rf_comm_done(b->request);
}

static rf_result finish_bucket(rf_bucket_exchange *b)
{
    const bool reduces = b->reduces, gathers = b->gathers;
    b->reduces = b->gathers = false;
    if (b->request) RF_TRY(rf_comm_wait(&b->request));
    if (reduces && !is_direct(b)) spread_sums(b);
    if (gathers && !is_direct(b)) spread_values(b);
    return RF_OK;
}

typedef rf_result (*begin_fn)(rf_bucket_exchange *, const float *const *from, float *const *to, rf_comm_request **);

static rf_result start_call(rf_bucket_exchange *b, begin_fn begin, const float *const *from, float *const *to)
{
    if (b->background) return begin(b, from, to, &b->request);
    for (uint32_t i = 0; i < b->num_all; i += b->num_segments) {
        bucket_exchange_select(b, &b->all[i], b->num_all - i);
        RF_TRY(begin(b, from, to, NULL));
        RF_TRY(finish_bucket(b));
    }
    return RF_OK;
}

static rf_result start_reduce(rf_bucket_exchange *b, const float *const *contributions, float *const *sums)
{
    return start_call(b, begin_reduce, contributions, sums);
}

static rf_result start_gather(rf_bucket_exchange *b, const float *const *from, float *const *to)
{
    return start_call(b, begin_gather, from, to);
}

/* ---- lifetime ---- */

static void comm_exchange_destroy(rf_exchange *exchange)
{
    rf_free(exchange);
}

rf_result rf_comm_exchange_create(const rf_world *world, uint32_t num_local, rf_exchange **out)
{
    static const rf_exchange_fns fns = { comm_exchange_destroy, open_bucket,   start_reduce, start_gather,
                                         bucket_done,           finish_bucket, close_bucket };
    *out = NULL;
    comm_exchange *x = RF_NEW(comm_exchange);
    if (!x) return RF_ERROR_OUT_OF_HOST_MEMORY;
    x->base.fns = &fns;
    x->world = world;
    x->num_local = num_local;
    x->first = world->first[world->rank];
    *out = &x->base;
    return RF_OK;
}
