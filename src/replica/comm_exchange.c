/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exchange between processes: one message for each bucket. The pieces of a bucket stand in order of owner, and so
 * of rank: what a rank owns of a bucket is one run of elements.
 *
 * Within a process the replicas' contributions are added in their order, then the communicator adds those of the
 * processes; values come back once for each process and are copied to its replicas from there. Where a process has one
 * replica and the bucket has no gaps, the communicator works on the replica's memory; else on a buffer in which the
 * bucket's pieces lie one after the other ("packed").
 */
#include <string.h>

#include "replica/exchange.h"

typedef struct comm_exchange {
    rf_exchange base;
    const rf_world *world;
    uint32_t num_local, first; /* replicas of this process */
    uint64_t *counts;          /* [world size]: elements of each rank in the bucket at hand */
    float *packed;
    uint64_t capacity; /* of `packed` in elements */
} comm_exchange;

typedef struct bucket {
    const rf_piece *pieces;
    uint32_t num_pieces;
    rf_range range;    /* from the first piece's begin to the last one's end */
    uint64_t elements; /* of all pieces; fewer than the range has where there are gaps */
    uint64_t mine;     /* elements before this rank's */
    bool for_all;      /* every replica owns it */
} bucket;

/* ---- buckets ---- */

static uint64_t length(const rf_piece *piece)
{
    return piece->range.end - piece->range.begin;
}

/* The bucket that begins with pieces[0], and what of it belongs to which rank. */
static bucket next_bucket(const comm_exchange *x, const rf_piece *pieces, uint32_t num_pieces)
{
    bucket b = { .pieces = pieces, .range = pieces[0].range, .for_all = pieces[0].owner == RF_OWNER_ALL };
    memset(x->counts, 0, x->world->size * sizeof(x->counts[0]));
    for (; b.num_pieces < num_pieces && pieces[b.num_pieces].bucket == pieces[0].bucket; b.num_pieces++) {
        const rf_piece *piece = &pieces[b.num_pieces];
        b.elements += length(piece);
        b.range.end = piece->range.end;
        if (!b.for_all) x->counts[rf_world_rank_of(x->world, piece->owner)] += length(piece);
    }
    for (uint32_t r = 0; r < x->world->rank; r++) b.mine += x->counts[r];
    return b;
}

static bool is_mine(const comm_exchange *x, const rf_piece *piece)
{
    return piece->owner >= x->first && piece->owner - x->first < x->num_local;
}

static rf_result reserve(comm_exchange *x, uint64_t elements)
{
    if (elements <= x->capacity) return RF_OK;
    float *packed = rf_aligned_calloc((size_t)elements * sizeof(float));
    if (!packed) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_free(x->packed);
    x->packed = packed;
    x->capacity = elements;
    return RF_OK;
}

/* Whether the communicator can work on the replica's own memory. */
static bool is_direct(const comm_exchange *x, const bucket *b)
{
    return x->num_local == 1 && b->range.end - b->range.begin == b->elements;
}

/* ---- reduce-scatter ---- */

/* packed = the sum of this process' contributions. */
static rf_result pack_sum(comm_exchange *x, const bucket *b, const float *const *from)
{
    RF_TRY(reserve(x, b->elements));
    uint64_t at = 0;
    for (uint32_t i = 0; i < b->num_pieces; i++) {
        /* Pieces that follow each other without a gap are summed in one go. */
        rf_range run = b->pieces[i].range;
        while (i + 1 < b->num_pieces && b->pieces[i + 1].range.begin == run.end) run.end = b->pieces[++i].range.end;
        rf_sum_range(from, x->num_local, run, x->packed + at);
        at += run.end - run.begin;
    }
    return RF_OK;
}

/* From `packed`, beginning with this rank's part, to where the owners want it. */
static void spread_sums(const comm_exchange *x, const bucket *b, float *const *sums)
{
    const float *from = x->packed + b->mine;
    for (uint32_t i = 0; i < b->num_pieces; i++) {
        const rf_piece *piece = &b->pieces[i];
        if (!b->for_all && !is_mine(x, piece)) continue;
        for (uint32_t r = 0; r < x->num_local; r++)
            if (b->for_all || piece->owner == x->first + r)
                memcpy(sums[r] + piece->range.begin, from, (size_t)length(piece) * sizeof(float));
        from += length(piece);
    }
}

static rf_result reduce_bucket(comm_exchange *x, const bucket *b, const float *const *contributions, float *const *sums)
{
    const rf_collective_params params = { .name = "gradients" };
    const bool direct = is_direct(x, b), packs = !direct || !contributions[0];
    if (packs) RF_TRY(pack_sum(x, b, contributions));
    const float *send = packs ? x->packed : contributions[0] + b->range.begin;
    float *recv = (direct ? sums[0] + b->range.begin : x->packed) + b->mine;
    if (b->for_all)
        RF_TRY(rf_comm_all_reduce(x->world->comm, send, recv, b->elements, RF_F32, RF_COMM_SUM, &params));
    else
        RF_TRY(rf_comm_reduce_scatter(x->world->comm, send, recv, x->counts, RF_F32, RF_COMM_SUM, &params));
    if (!direct) spread_sums(x, b, sums);
    return RF_OK;
}

static rf_result reduce_scatter(rf_exchange *exchange, const rf_piece *pieces, uint32_t num_pieces,
                                const float *const *contributions, float *const *sums)
{
    comm_exchange *x = (comm_exchange *)exchange;
    for (uint32_t i = 0; i < num_pieces;) {
        const bucket b = next_bucket(x, &pieces[i], num_pieces - i);
        RF_TRY(reduce_bucket(x, &b, contributions, sums));
        i += b.num_pieces;
    }
    return RF_OK;
}

/* ---- all-gather ---- */

/* What this process has to give goes to its part of `packed`. */
static rf_result pack_values(comm_exchange *x, const bucket *b, const float *const *from)
{
    RF_TRY(reserve(x, b->elements));
    float *at = x->packed + b->mine;
    for (uint32_t i = 0; i < b->num_pieces; i++) {
        const rf_piece *piece = &b->pieces[i];
        if (!is_mine(x, piece)) continue;
        memcpy(at, from[piece->owner - x->first] + piece->range.begin, (size_t)length(piece) * sizeof(float));
        at += length(piece);
    }
    return RF_OK;
}

static void spread_values(const comm_exchange *x, const bucket *b, float *const *to)
{
    const float *from = x->packed;
    for (uint32_t i = 0; i < b->num_pieces; i++) {
        const rf_piece *piece = &b->pieces[i];
        for (uint32_t r = 0; r < x->num_local; r++)
            if (piece->owner != x->first + r)
                memcpy(to[r] + piece->range.begin, from, (size_t)length(piece) * sizeof(float));
        from += length(piece);
    }
}

static rf_result gather_bucket(comm_exchange *x, const bucket *b, const float *const *from, float *const *to)
{
    const rf_collective_params params = { .name = "values" };
    if (is_direct(x, b))
        return rf_comm_all_gather(x->world->comm, from[0] + b->range.begin + b->mine, to[0] + b->range.begin, x->counts,
                                  RF_F32, &params);
    RF_TRY(pack_values(x, b, from));
    RF_TRY(rf_comm_all_gather(x->world->comm, x->packed + b->mine, x->packed, x->counts, RF_F32, &params));
    spread_values(x, b, to);
    return RF_OK;
}

static rf_result all_gather(rf_exchange *exchange, const rf_piece *pieces, uint32_t num_pieces,
                            const float *const *from, float *const *to)
{
    comm_exchange *x = (comm_exchange *)exchange;
    for (uint32_t i = 0; i < num_pieces;) {
        const bucket b = next_bucket(x, &pieces[i], num_pieces - i);
        if (b.for_all) return RF_FAIL(RF_ERROR_INTERNAL, "all_gather: piece %u has no single owner", i);
        RF_TRY(gather_bucket(x, &b, from, to));
        i += b.num_pieces;
    }
    return RF_OK;
}

/* ---- lifetime ---- */

static void destroy(rf_exchange *exchange)
{
    comm_exchange *x = (comm_exchange *)exchange;
    rf_free(x->counts);
    rf_free(x->packed);
    rf_free(x);
}

rf_result rf_comm_exchange_create(const rf_world *world, uint32_t num_local, rf_exchange **out)
{
    static const rf_exchange_fns fns = { reduce_scatter, all_gather, destroy };
    *out = NULL;
    comm_exchange *x = RF_NEW(comm_exchange);
    if (!x) return RF_ERROR_OUT_OF_HOST_MEMORY;
    x->base.fns = &fns;
    x->world = world;
    x->num_local = num_local;
    x->first = world->first[world->rank];
    x->counts = RF_NEW_ARRAY(uint64_t, world->size);
    if (!x->counts) {
        rf_free(x);
        return RF_ERROR_OUT_OF_HOST_MEMORY;
    }
    *out = &x->base;
    return RF_OK;
}
