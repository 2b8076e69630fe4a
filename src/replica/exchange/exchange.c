/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One process: replicas' contributions are added in their order, from and to their own memory, by the caller's thread.
 *
 * Several: one message for each bucket. The segments of a bucket stand in order of owner, and so of rank: what a rank
 * owns of a bucket is one run of elements.
 * Within a process contributions are added as in one alone, then the communicator adds those of the
 * processes; values come back once for each process and are copied to its replicas from there. Where a process has one
 * replica and the bucket has no gaps, the communicator works on the replica's memory; else on a buffer in which the
 * bucket's segments lie one after the other ("packed").
 *
 * Where gradients are compressed to the largest ones, each process gathers those of all processes, and adds up what it
 * owns. It keeps unsent gradients for the next step by their places in the flat array, because buckets of different
 * functions share that array.
 */
#include <pthread.h>
#include <string.h>

#include "base/platform.h"
#include "replica/internal.h"
#include "transport/collective/sparse.h"

/* ---- sums and copies in the memory of one process ---- */

enum {
    CHUNK = 2048,                 /* elements summed at a time: stays in the first-level cache */
    ELEMENTS_PER_THREAD = 1 << 18 /* below this a second thread costs more than it saves */
};

/* A range of one segment and what is done with it; a long segment is divided between two threads. */
typedef struct job {
    void (*work)(const struct job *job, uint64_t begin, uint64_t end);
    uint32_t num_replicas, owner;
    const float *const *from;
    float *const *to;
    uint64_t begin, end;
    uint64_t shift; /* to[] begins with this element */
} job;

static void floats_add(float *restrict total, const float *restrict x, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) total[i] += x[i];
}

/* Sums go through a buffer of their own because a destination is one of the sources. */
static void sum_range(const job *j, uint64_t begin, uint64_t end)
{
    float total[CHUNK];
    for (uint64_t at = begin; at < end; at += CHUNK) {
        const uint64_t count = end - at < CHUNK ? end - at : CHUNK;
        bool any = false;
        for (uint32_t r = 0; r < j->num_replicas; r++) {
            if (!j->from[r]) continue;
            if (any)
                floats_add(total, j->from[r] + at, count);
            else
                memcpy(total, j->from[r] + at, count * sizeof(float));
            any = true;
        }
        if (!any) memset(total, 0, count * sizeof(float));
        for (uint32_t r = 0; r < j->num_replicas; r++)
            if (j->owner == RF_OWNER_ALL || j->owner == r)
                memcpy(j->to[r] + (at - j->shift), total, count * sizeof(float));
    }
}

static void copy_range(const job *j, uint64_t begin, uint64_t end)
{
    for (uint32_t r = 0; r < j->num_replicas; r++)
        if (r != j->owner) memcpy(j->to[r] + begin, j->from[j->owner] + begin, (end - begin) * sizeof(float));
}

static void *run_helper(void *argument)
{
    const job *j = argument;
    j->work(j, j->begin, j->end);
    return NULL;
}

/* A large segment is shared with one more thread. Where there is none, or none can be started, this thread does
 * everything. Each element is computed the same way in either case. */
static void run_job(const job *j)
{
    pthread_t thread;
    job other = *j;
    other.begin = j->begin + (j->end - j->begin) / 2;
    const bool split = j->end - j->begin >= 2 * (uint64_t)ELEMENTS_PER_THREAD &&
                       pthread_create(&thread, NULL, run_helper, &other) == 0;
    j->work(j, j->begin, split ? other.begin : j->end);
    if (split) pthread_join(thread, NULL);
}

/* out[i] = sum over r of from[r][range.begin + i], in order; NULLs count as zeros. `out` is none of them. */
static void sum_into(const float *const *from, uint32_t num_from, rf_range range, float *out)
{
    /* sum_range() writes to the owner's array: the first of one. */
    float *const to[] = { out };
    run_job(&(job){ sum_range, num_from, 0, from, to, range.begin, range.end, range.begin });
}

static void sum_segment(const float *const *from, uint32_t num_from, const rf_segment *segment, float *const *to)
{
    run_job(&(job){ sum_range, num_from, segment->owner, from, to, segment->range.begin, segment->range.end, 0 });
}

static void copy_segment(const float *const *from, uint32_t num_from, const rf_segment *segment, float *const *to)
{
    run_job(&(job){ copy_range, num_from, segment->owner, from, to, segment->range.begin, segment->range.end, 0 });
}

/* ---- buckets ---- */

/* The entries that a bucket sends where only the largest gradients travel. */
typedef struct sparse_exchange {
    rf_sparse_entry *sent, *all; /* this process'; those of all, in order of rank */
    uint64_t capacity;           /* entries of `sent` */
    uint64_t count, before, own; /* entries of a process; those for ranks before this one, and for it */
    uint64_t *words;             /* [world size]: 32-bit words of each process */
    float *sums;                 /* of what this process owns; not NULL: under way */
} sparse_exchange;

struct rf_bucket_exchange {
    rf_exchange *exchange;
    const rf_segment *all; /* of one bucket, where it goes on in the background; nothing below is used in one process */
    uint32_t num_all;
    bool background;
    rf_compression compression;
    sparse_exchange sparse;
    rf_arena room;
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
    /* under way: */
    bool reduces, gathers;
    rf_comm_request *request; /* NULL: done already */
    float **to;               /* [num_local] */
};

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

void rf_bucket_exchange_close(rf_bucket_exchange **bucket)
{
    rf_bucket_exchange *b = *bucket;
    if (!b) return;
    /* Its failure has been reported already, or no longer matters. */
    if (b->request && rf_comm_wait(&b->request) < 0) b->request = NULL;
    rf_free(b->packed);
    rf_free(b->sparse.sent);
    rf_free(b->sparse.all);
    rf_arena_free(&b->room);
    rf_free(b);
    *bucket = NULL;
}

/* Room for what is not sent of the segments' elements. No reduction is under way. */
static rf_result keep_elements(rf_exchange *x, const rf_segment *segments, uint32_t num_segments)
{
    uint64_t end = 0;
    for (uint32_t i = 0; i < num_segments; i++)
        if (segments[i].range.end > end) end = segments[i].range.end;
    if (end <= x->num_kept) return RF_OK;
    float *kept = rf_aligned_calloc((size_t)end * sizeof(float));
    if (!kept) return RF_ERROR_OUT_OF_HOST_MEMORY;
    if (x->num_kept > 0) memcpy(kept, x->kept, (size_t)x->num_kept * sizeof(float));
    rf_free(x->kept);
    x->kept = kept;
    x->num_kept = end;
    return RF_OK;
}

static rf_result bucket_exchange_init(rf_bucket_exchange *b)
{
    rf_exchange *x = b->exchange;
    RF_TRY(RF_ARENA_ARRAY(&b->room, b->counts, x->world->size));
    RF_TRY(RF_ARENA_ARRAY(&b->room, b->to, x->num_local));
    RF_TRY(RF_ARENA_ARRAY(&b->room, b->sparse.words, x->world->size));
    bucket_exchange_select(b, b->all, b->num_all);
    return b->compression == RF_COMPRESSION_TOP_K ? keep_elements(x, b->all, b->num_all) : RF_OK;
}

rf_result rf_bucket_exchange_open(rf_exchange *x, const rf_segment *segments, uint32_t num_segments, bool gradients,
                                  bool background, rf_bucket_exchange **out)
{
    rf_bucket_exchange *b = *out = RF_NEW(rf_bucket_exchange);
    if (!b) return RF_ERROR_OUT_OF_HOST_MEMORY;
    *b = (rf_bucket_exchange){ .exchange = x,
                               .all = segments,
                               .num_all = num_segments,
                               .background = background,
                               .compression = gradients ? x->compression.kind : RF_COMPRESSION_NONE };
    const rf_result r = bucket_exchange_init(b);
    if (r < 0) rf_bucket_exchange_close(out);
    return r;
}

/* `index` is that of a replica of this process. */
static bool is_owner(const rf_exchange *x, const rf_segment *segment, uint32_t index)
{
    return segment->owner == RF_OWNER_ALL || segment->owner == x->first + index;
}

static rf_result reserve_packed(rf_bucket_exchange *b)
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
    b->exchange->host_seconds += 1e-9 * (double)(rf_now_ns() - begin);
}

/* ---- reduce-scatter ---- */

/* packed = the sum of this process' contributions. */
static rf_result pack_sum(rf_bucket_exchange *b, const float *const *from)
{
    const uint64_t begin = rf_now_ns();
    RF_TRY(reserve_packed(b));
    uint64_t at = 0;
    for (uint32_t i = 0; i < b->num_segments; i++) {
        /* Segments that follow each other without a gap are summed in one go. */
        rf_range run = b->segments[i].range;
        while (i + 1 < b->num_segments && b->segments[i + 1].range.begin == run.end)
            run.end = b->segments[++i].range.end;
        sum_into(from, b->exchange->num_local, run, b->packed + at);
        at += run.end - run.begin;
    }
    count_time(b, begin);
    return RF_OK;
}

/* From `packed` to where they are wanted: sums, beginning with this rank's shard, by owners; values by all others. */
static void spread_packed(rf_bucket_exchange *b, bool sums)
{
    const rf_exchange *x = b->exchange;
    const uint64_t begin = rf_now_ns();
    const float *from = b->packed + (sums ? b->mine : 0);
    for (uint32_t i = 0; i < b->num_segments; i++) {
        const rf_segment *segment = &b->segments[i];
        bool mine = false;
        for (uint32_t r = 0; r < x->num_local; r++) {
            const bool owns = is_owner(x, segment, r);
            mine = mine || owns;
            if (sums == owns)
                memcpy(b->to[r] + segment->range.begin, from, (size_t)segment_elements(segment) * sizeof(float));
        }
        if (!sums || mine) from += segment_elements(segment);
    }
    count_time(b, begin);
}

static rf_dtype wire_of(const rf_bucket_exchange *b)
{
    if (b->compression == RF_COMPRESSION_F16) return RF_F16;
    return b->compression == RF_COMPRESSION_BF16 ? RF_BF16 : RF_DTYPE_INVALID;
}

/* `request` NULL: at once. */
static rf_result call_reduce(const rf_bucket_exchange *b, const float *send, float *recv, rf_comm_request **request)
{
    const rf_collective_params params = { .name = "gradients", .wire = wire_of(b) };
    rf_comm *comm = b->exchange->world->comm;
    if (b->for_all)
        return request ? rf_comm_start_all_reduce(comm, send, recv, b->elements, RF_F32, RF_COMM_SUM, &params, request)
                       : rf_comm_all_reduce(comm, send, recv, b->elements, RF_F32, RF_COMM_SUM, &params);
    return request ? rf_comm_start_reduce_scatter(comm, send, recv, b->counts, RF_F32, RF_COMM_SUM, &params, request)
                   : rf_comm_reduce_scatter(comm, send, recv, b->counts, RF_F32, RF_COMM_SUM, &params);
}

/* ---- the largest gradients only ---- */

/* Adds what was kept to `packed`, or (keep) keeps what is there now. */
static void visit_kept(rf_bucket_exchange *b, bool keep)
{
    float *at = b->packed;
    for (uint32_t i = 0; i < b->num_segments; i++) {
        float *kept = b->exchange->kept + b->segments[i].range.begin;
        const uint64_t count = segment_elements(&b->segments[i]);
        if (keep) memcpy(kept, at, (size_t)count * sizeof(float));
        for (uint64_t k = 0; !keep && k < count; k++) at[k] += kept[k];
        at += count;
    }
}

/* Entries of all owners' elements: as many in each process, because the shares are the same. */
static rf_result sparse_reserve(rf_bucket_exchange *b)
{
    const rf_world *world = b->exchange->world;
    const double share = b->exchange->compression.share;
    sparse_exchange *s = &b->sparse;
    s->before = 0;
    s->count = s->own = b->for_all ? rf_sparse_count(b->elements, share) : 0;
    for (uint32_t r = 0; !b->for_all && r < world->size; r++) {
        const uint64_t entries = rf_sparse_count(b->counts[r], share);
        if (r < world->rank) s->before += entries;
        if (r == world->rank) s->own = entries;
        s->count += entries;
    }
    for (uint32_t r = 0; r < world->size; r++) s->words[r] = s->count * (sizeof(rf_sparse_entry) / sizeof(uint32_t));
    if (s->count <= s->capacity) return RF_OK;
    if (b->elements > UINT32_MAX)
        return RF_FAIL(RF_ERROR_UNSUPPORTED, "a bucket of %llu gradients is too large for top-k; set bucket_bytes",
                       (unsigned long long)b->elements);
    rf_free(s->sent);
    rf_free(s->all);
    s->capacity = 0;
    s->sent = RF_NEW_ARRAY(rf_sparse_entry, s->count);
    s->all = RF_NEW_ARRAY(rf_sparse_entry, s->count * world->size);
    if (!s->sent || !s->all) return RF_ERROR_OUT_OF_HOST_MEMORY;
    s->capacity = s->count;
    return RF_OK;
}

/* From `packed` to `sent`, for one owner after the other. */
static void sparse_choose(rf_bucket_exchange *b)
{
    const rf_world *world = b->exchange->world;
    rf_sparse_entry *out = b->sparse.sent;
    float *values = b->packed;
    for (uint32_t r = 0; r < (b->for_all ? 1 : world->size); r++) {
        const uint64_t count = b->for_all ? b->elements : b->counts[r];
        const uint64_t chosen = rf_sparse_count(count, b->exchange->compression.share);
        if (chosen > 0) rf_sparse_choose(b->exchange->finder, values, (uint32_t)count, (uint32_t)chosen, out);
        values += count;
        out += chosen;
    }
}

static rf_result begin_sparse(rf_bucket_exchange *b, const float *const *contributions, float *const *sums,
                              rf_comm_request **request)
{
    const rf_collective_params params = { .name = "largest gradients" };
    rf_comm *comm = b->exchange->world->comm;
    sparse_exchange *s = &b->sparse;
    RF_TRY(pack_sum(b, contributions));
    RF_TRY(sparse_reserve(b));
    const uint64_t begin = rf_now_ns();
    visit_kept(b, false);
    sparse_choose(b);
    visit_kept(b, true);
    count_time(b, begin);
    memcpy(b->to, sums, b->exchange->num_local * sizeof(b->to[0]));
    b->exchange->bytes += s->count * sizeof(rf_sparse_entry);
    RF_TRY(request ? rf_comm_start_all_gather(comm, s->sent, s->all, s->words, RF_I32, &params, request)
                   : rf_comm_all_gather(comm, s->sent, s->all, s->words, RF_I32, &params));
    s->sums = (is_direct(b) ? sums[0] + b->range.begin : b->packed) + b->mine;
    return RF_OK;
}

/* In order of rank, as the same bits on every process that does it. */
static void sparse_sum(rf_bucket_exchange *b)
{
    sparse_exchange *s = &b->sparse;
    const rf_world *world = b->exchange->world;
    const uint64_t begin = rf_now_ns(), count = b->for_all ? b->elements : b->counts[world->rank];
    memset(s->sums, 0, (size_t)count * sizeof(float));
    for (uint32_t r = 0; r < world->size; r++) rf_sparse_add(s->all + r * s->count + s->before, s->own, s->sums, count);
    s->sums = NULL;
    count_time(b, begin);
}

static rf_result begin_reduce(rf_bucket_exchange *b, const float *const *contributions, float *const *sums,
                              rf_comm_request **request)
{
    if (b->compression == RF_COMPRESSION_TOP_K) {
        RF_TRY(begin_sparse(b, contributions, sums, request));
        b->reduces = true;
        return RF_OK;
    }
    const bool direct = is_direct(b), packs = !direct || !contributions[0];
    if (packs) RF_TRY(pack_sum(b, contributions));
    const float *send = packs ? b->packed : contributions[0] + b->range.begin;
    float *recv = (direct ? sums[0] + b->range.begin : b->packed) + b->mine;
    memcpy(b->to, sums, b->exchange->num_local * sizeof(b->to[0]));
    b->exchange->bytes += b->elements * rf_dtype_size(wire_of(b) ? wire_of(b) : RF_F32);
    RF_TRY(call_reduce(b, send, recv, request));
    b->reduces = true;
    return RF_OK;
}

/* ---- all-gather ---- */

/* The values that this process has to give go to its own range of `packed`. */
static rf_result pack_values(rf_bucket_exchange *b, const float *const *from)
{
    const rf_exchange *x = b->exchange;
    const uint64_t begin = rf_now_ns();
    RF_TRY(reserve_packed(b));
    float *at = b->packed + b->mine;
    for (uint32_t i = 0; i < b->num_segments; i++) {
        const rf_segment *segment = &b->segments[i];
        for (uint32_t r = 0; r < x->num_local; r++) {
            if (segment->owner != x->first + r) continue;
            memcpy(at, from[r] + segment->range.begin, (size_t)segment_elements(segment) * sizeof(float));
            at += segment_elements(segment);
        }
    }
    count_time(b, begin);
    return RF_OK;
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
    b->exchange->bytes += b->elements * sizeof(float);
    RF_TRY(request ? rf_comm_start_all_gather(comm, send, recv, b->counts, RF_F32, &params, request)
                   : rf_comm_all_gather(comm, send, recv, b->counts, RF_F32, &params));
    b->gathers = true;
    return RF_OK;
}

/* ---- one bucket in the background, or one after the other ---- */

bool rf_bucket_exchange_done(const rf_bucket_exchange *b)
{
    return rf_comm_done(b->request);
}

rf_result rf_bucket_exchange_finish(rf_bucket_exchange *b)
{
    const bool reduces = b->reduces, gathers = b->gathers;
    b->reduces = b->gathers = false;
    if (b->request) RF_TRY(rf_comm_wait(&b->request));
    if (b->sparse.sums) sparse_sum(b);
    if ((reduces || gathers) && !is_direct(b)) spread_packed(b, reduces);
    return RF_OK;
}

typedef rf_result (*begin_fn)(rf_bucket_exchange *, const float *const *from, float *const *to, rf_comm_request **);

static rf_result start_call(rf_bucket_exchange *b, begin_fn begin, const float *const *from, float *const *to)
{
    if (b->background) return begin(b, from, to, &b->request);
    for (uint32_t i = 0; i < b->num_all; i += b->num_segments) {
        bucket_exchange_select(b, &b->all[i], b->num_all - i);
        RF_TRY(begin(b, from, to, NULL));
        RF_TRY(rf_bucket_exchange_finish(b));
    }
    return RF_OK;
}

/* Host memory is close, so the caller's thread does the work at once. */
static rf_result within_process(rf_bucket_exchange *b, bool gathers, const float *const *from, float *const *to)
{
    rf_exchange *x = b->exchange;
    const uint64_t begin = rf_now_ns();
    for (uint32_t i = 0; i < b->num_all; i++) {
        const rf_segment *segment = &b->all[i];
        if (gathers && segment->owner == RF_OWNER_ALL)
            return RF_FAIL(RF_ERROR_INTERNAL, "all_gather: segment %u has no single owner", i);
        (gathers ? copy_segment : sum_segment)(from, x->num_local, segment, to);
        x->bytes += segment_elements(segment) * sizeof(float);
    }
    count_time(b, begin);
    return RF_OK;
}

rf_result rf_bucket_exchange_reduce(rf_bucket_exchange *b, const float *const *contributions, float *const *sums)
{
    if (b->exchange->world->size == 1) return within_process(b, false, contributions, sums);
    return start_call(b, begin_reduce, contributions, sums);
}

rf_result rf_bucket_exchange_gather(rf_bucket_exchange *b, const float *const *from, float *const *to)
{
    if (b->exchange->world->size == 1) return within_process(b, true, from, to);
    return start_call(b, begin_gather, from, to);
}

void rf_exchange_forget(rf_exchange *x, rf_range range)
{
    for (uint64_t i = range.begin; i < range.end && i < x->num_kept; i++) x->kept[i] = 0;
}

/* ---- lifetime ---- */

void rf_exchange_free(rf_exchange *x)
{
    rf_free(x->finder);
    rf_free(x->kept);
}

rf_result rf_exchange_init(const rf_world *world, uint32_t num_local, rf_exchange_compression compression,
                           rf_exchange *x)
{
    *x = (rf_exchange){ .world = world, .num_local = num_local, .first = world->first[world->rank] };
    if (world->size == 1) return RF_OK;
    x->compression = compression;
    if (compression.kind != RF_COMPRESSION_TOP_K) return RF_OK;
    x->finder = RF_NEW(rf_sparse_finder);
    return x->finder ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
}

/* ---- how long it takes, and how much of that nothing else hides ---- */

rf_exchange_mark rf_exchange_mark_now(const rf_strategy *s)
{
    return (rf_exchange_mark){ .host_seconds = s->exchange.between.host_seconds,
                               .comm_seconds = rf_comm_seconds(s->members.world.comm),
                               .bytes = s->exchange.between.bytes };
}

void rf_exchange_count(rf_strategy *s, const rf_exchange_mark *mark, double exposed)
{
    const rf_exchange_mark now = rf_exchange_mark_now(s);
    s->exchange.stats.seconds += now.host_seconds - mark->host_seconds + now.comm_seconds - mark->comm_seconds;
    s->exchange.stats.bytes += now.bytes - mark->bytes;
    s->exchange.stats.exposed_seconds += exposed;
}

RF_API void rf_strategy_exchange_stats(const rf_strategy *strategy, rf_exchange_stats *out)
{
    if (out) *out = strategy ? strategy->exchange.stats : (rf_exchange_stats){ 0 };
}

RF_API void rf_strategy_reset_exchange_stats(rf_strategy *strategy)
{
    if (strategy) strategy->exchange.stats = (rf_exchange_stats){ 0 };
}
