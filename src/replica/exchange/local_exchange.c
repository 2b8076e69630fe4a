/* SPDX-License-Identifier: Apache-2.0 */
#include "replica/exchange/exchange.h"

#include <pthread.h>
#include <string.h>

#include "base/platform.h"

enum {
    CHUNK = 2048,                 /* elements summed at a time: stays in the first-level cache */
    ELEMENTS_PER_THREAD = 1 << 18 /* below this a second thread costs more than it saves */
};

typedef struct local_exchange {
    rf_exchange base;
    uint32_t num_replicas;
} local_exchange;

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
static void run_job(job *j)
{
    pthread_t thread;
    job other = *j;
    other.begin = j->begin + (j->end - j->begin) / 2;
    const bool split = j->end - j->begin >= 2 * (uint64_t)ELEMENTS_PER_THREAD &&
                       pthread_create(&thread, NULL, run_helper, &other) == 0;
    j->work(j, j->begin, split ? other.begin : j->end);
    if (split) pthread_join(thread, NULL);
}

void rf_sum_range(const float *const *from, uint32_t num_from, rf_range range, float *out)
{
    /* sum_range() writes to the owner's array: the first of one. */
    float *const to[] = { out };
    job j = { .work = sum_range,
              .num_replicas = num_from,
              .from = from,
              .to = to,
              .begin = range.begin,
              .end = range.end,
              .shift = range.begin };
    run_job(&j);
}

static void run_segments(local_exchange *x, job *j, const rf_segment *segments, uint32_t num_segments)
{
    const uint64_t begin = rf_now_ns();
    j->num_replicas = x->num_replicas;
    for (uint32_t i = 0; i < num_segments; i++) {
        j->owner = segments[i].owner;
        j->begin = segments[i].range.begin;
        j->end = segments[i].range.end;
        run_job(j);
        x->base.bytes += (j->end - j->begin) * sizeof(float);
    }
    x->base.host_seconds += 1e-9 * (double)(rf_now_ns() - begin);
}

static void local_exchange_destroy(rf_exchange *exchange)
{
    rf_free(exchange);
}

/* ---- segments: host memory is close, so the caller's thread does the work at once ---- */

struct rf_bucket_exchange {
    local_exchange *exchange;
    const rf_segment *segments;
    uint32_t num_segments;
};

static rf_result open_bucket(rf_exchange *exchange, const rf_segment *segments, uint32_t num_segments, bool gradients,
                             bool background, rf_bucket_exchange **out)
{
    (void)gradients, (void)background;
    rf_bucket_exchange *b = *out = RF_NEW(rf_bucket_exchange);
    if (!b) return RF_ERROR_OUT_OF_HOST_MEMORY;
    *b = (rf_bucket_exchange){ (local_exchange *)exchange, segments, num_segments };
    return RF_OK;
}

static rf_result reduce_bucket(rf_bucket_exchange *b, const float *const *contributions, float *const *sums)
{
    job j = { .work = sum_range, .from = contributions, .to = sums };
    run_segments(b->exchange, &j, b->segments, b->num_segments);
    return RF_OK;
}

static rf_result gather_bucket(rf_bucket_exchange *b, const float *const *from, float *const *to)
{
    for (uint32_t i = 0; i < b->num_segments; i++)
        if (b->segments[i].owner == RF_OWNER_ALL)
            return RF_FAIL(RF_ERROR_INTERNAL, "all_gather: segment %u has no single owner", i);
    job j = { .work = copy_range, .from = from, .to = to };
    run_segments(b->exchange, &j, b->segments, b->num_segments);
    return RF_OK;
}

static bool bucket_done(const rf_bucket_exchange *bucket)
{
    (void)bucket;
    return true;
}

static rf_result finish_bucket(rf_bucket_exchange *bucket)
{
    (void)bucket;
    return RF_OK;
}

static void close_bucket(rf_bucket_exchange **bucket)
{
    rf_free(*bucket);
    *bucket = NULL;
}

rf_result rf_local_exchange_create(uint32_t num_replicas, rf_exchange **out)
{
    static const rf_exchange_fns fns = { local_exchange_destroy, open_bucket, reduce_bucket, gather_bucket, bucket_done,
                                         finish_bucket,          close_bucket };
    *out = NULL;
    local_exchange *x = RF_NEW(local_exchange);
    if (!x) return RF_ERROR_OUT_OF_HOST_MEMORY;
    x->base.fns = &fns;
    x->num_replicas = num_replicas;
    *out = &x->base;
    return RF_OK;
}

void rf_exchange_destroy(rf_exchange **exchange)
{
    if (!exchange || !*exchange) return;
    (*exchange)->fns->destroy(*exchange);
    *exchange = NULL;
}
