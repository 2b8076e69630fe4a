/* SPDX-License-Identifier: Apache-2.0 */
#include "exec/timing.h"

#include <stdlib.h>

#define MOST_MEMORY (256ull << 20) /* that sets of operands may take together */
#define OVERLAPPED_SETS 8u

rf_clock rf_timing_clock(bool has_timestamps)
{
    return has_timestamps ? RF_CLOCK_DEVICE : RF_CLOCK_HOST;
}

uint32_t rf_timing_runs(uint32_t runs, double seconds)
{
    return seconds < RF_TIMING_LEAST_SECONDS && runs < RF_TIMING_MOST_RUNS ? runs * 2 : runs;
}

bool rf_timing_goes_on(uint32_t samples, double spent, double wanted)
{
    /* Three of a slow kernel, seven of others, and more as long as there is time. */
    return samples < 3 || (samples < 7 && spent < 1) || (samples < RF_TIMING_MOST_SAMPLES && spent < wanted);
}

/* The size of caches cannot be had: this is about the largest that there is of each kind. */
static uint64_t cache_bytes(const rf_device_caps *caps)
{
    return (caps->is_cpu ? 32ull : 64ull) << 20;
}

static uint64_t memory_for_sets(const rf_device_caps *caps)
{
    return caps->memory_size / 4 < MOST_MEMORY ? caps->memory_size / 4 : MOST_MEMORY;
}

uint32_t rf_timing_sets(const rf_device_caps *caps, uint64_t bytes)
{
    const uint64_t cache = cache_bytes(caps), most = memory_for_sets(caps);
    if (bytes < cache / 4 || bytes >= 2 * cache) return 1;
    const uint64_t wanted = (2 * cache + bytes - 1) / bytes;
    if (wanted * bytes <= most) return (uint32_t)wanted;
    return most >= 2 * bytes ? (uint32_t)(most / bytes) : 1;
}

uint32_t rf_timing_overlapped_sets(const rf_device_caps *caps, const rf_op_call *call, const rf_kernel_plan *plan,
                                   uint64_t bytes)
{
    if (call->op->mutates || plan->counters > 0) return 0;
    for (uint32_t i = 1; i < plan->count; i++)
        if (!plan->items[i].concurrent) return 0; /* waits for itself */
    const uint64_t fitting = memory_for_sets(caps) / (bytes ? bytes : 1);
    if (fitting < 2) return 0;
    return fitting < OVERLAPPED_SETS ? (uint32_t)fitting : OVERLAPPED_SETS;
}

static bool has_paused(const rf_warmth *warmth, uint64_t now_ns)
{
    return warmth->last_ns == 0 || (double)(now_ns - warmth->last_ns) * 1e-9 > RF_WARM_PAUSE;
}

void rf_warmth_add(rf_warmth *warmth, uint64_t now_ns, double seconds)
{
    if (has_paused(warmth, now_ns)) warmth->busy = 0;
    warmth->busy += seconds;
    warmth->last_ns = now_ns;
}

bool rf_warmth_wanted(const rf_warmth *warmth, const rf_device_caps *caps, uint64_t begin_ns, uint64_t now_ns)
{
    if (caps->is_cpu || (double)(now_ns - begin_ns) * 1e-9 > RF_WARM_PATIENCE) return false;
    return has_paused(warmth, now_ns) || warmth->busy < RF_WARM_SECONDS;
}

static int seconds_compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void rf_timing_summarize(double *samples, uint32_t count, double *best, double *median)
{
    qsort(samples, count, sizeof(*samples), seconds_compare);
    *best = samples[0];
    *median = (samples[(count - 1) / 2] + samples[count / 2]) / 2;
}

uint32_t rf_tune_order(const double *scores, uint32_t count, uint32_t *order)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (scores[i] <= 0) continue;
        uint32_t at = found++;
        for (; at > 0 && scores[order[at - 1]] < scores[i]; at--) order[at] = order[at - 1];
        order[at] = i;
    }
    while (found > 0 && scores[order[found - 1]] * 10 < scores[order[0]]) found--;
    return found;
}

double rf_tune_limit(double best)
{
    return 5 * best;
}
