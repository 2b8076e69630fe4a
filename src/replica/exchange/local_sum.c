/* SPDX-License-Identifier: Apache-2.0 */
/* Sums and copies in the memory of one process. */
#include "replica/exchange/exchange.h"

#include <pthread.h>
#include <string.h>

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

void rf_sum_range(const float *const *from, uint32_t num_from, rf_range range, float *out)
{
    /* sum_range() writes to the owner's array: the first of one. */
    float *const to[] = { out };
    run_job(&(job){ sum_range, num_from, 0, from, to, range.begin, range.end, range.begin });
}

void rf_sum_segment(const float *const *from, uint32_t num_from, const rf_segment *segment, float *const *to)
{
    run_job(&(job){ sum_range, num_from, segment->owner, from, to, segment->range.begin, segment->range.end, 0 });
}

void rf_copy_segment(const float *const *from, uint32_t num_from, const rf_segment *segment, float *const *to)
{
    run_job(&(job){ copy_range, num_from, segment->owner, from, to, segment->range.begin, segment->range.end, 0 });
}
