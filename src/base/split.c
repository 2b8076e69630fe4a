/* SPDX-License-Identifier: Apache-2.0 */
#include "base/split.h"

#include <math.h>

#include "base/memory.h"

static double total_share(const double *shares, uint32_t num_replicas)
{
    double total = 0;
    for (uint32_t r = 0; r < num_replicas; r++) total += shares[r];
    return total;
}

/* Largest-remainder method (Hamilton's): whole numbers first, then one more to those with the largest fraction. */
void rf_split_batch(uint64_t examples, const double *shares, uint32_t num_replicas, uint32_t *counts)
{
    const double total = shares ? total_share(shares, num_replicas) : 0;
    const uint64_t equal = examples / num_replicas;
    uint64_t given = 0;
    for (uint32_t r = 0; r < num_replicas; r++) {
        const double quota = total > 0 ? (double)examples * (shares[r] / total) : (double)equal;
        uint64_t whole = (uint64_t)floor(quota);
        /* Rounding of the quotas must not hand out more than there is. */
        if (whole > examples - given) whole = examples - given;
        counts[r] = (uint32_t)whole;
        given += whole;
    }
    for (; given < examples; given++) {
        /* A replica that has got its extra example has a negative remainder and is not chosen again before the others.
         */
        uint32_t best = 0;
        double best_rest = -INFINITY;
        for (uint32_t r = 0; r < num_replicas; r++) {
            if (total > 0 && !(shares[r] > 0)) continue;
            const double quota =
                total > 0 ? (double)examples * (shares[r] / total) : (double)examples / (double)num_replicas;
            const double rest = quota - (double)counts[r];
            /* Differences below the rounding error of the quota are ties: the earlier replica wins. */
            if (rest > best_rest + 1e-9 * (1.0 + fabs(rest))) {
                best = r;
                best_rest = rest;
            }
        }
        counts[best]++;
    }
}

void rf_units_to_examples(uint64_t examples, uint32_t unit, uint32_t num_replicas, uint32_t *counts)
{
    for (uint32_t r = 0; r < num_replicas; r++) {
        const uint64_t wanted = (uint64_t)counts[r] * unit;
        counts[r] = (uint32_t)(wanted < examples ? wanted : examples);
        examples -= counts[r];
    }
}

void rf_split_units(uint64_t examples, uint32_t unit, const double *shares, uint32_t num_replicas, uint32_t *counts)
{
    rf_split_batch((examples + unit - 1) / unit, shares, num_replicas, counts);
    rf_units_to_examples(examples, unit, num_replicas, counts);
}

uint32_t rf_common_unit(uint32_t a, uint32_t b)
{
    uint64_t divisor = a, rest = b;
    while (rest > 0) {
        const uint64_t next = divisor % rest;
        divisor = rest;
        rest = next;
    }
    const uint64_t both = a / divisor * b;
    return both <= INT32_MAX ? (uint32_t)both : 0;
}

void rf_shard_ranges(uint64_t count, uint64_t granularity, uint32_t num_replicas, rf_range *shards)
{
    const uint64_t units = rf_div_up(count, granularity);
    const uint64_t base = units / num_replicas, extra = units % num_replicas;
    uint64_t unit = 0;
    for (uint32_t r = 0; r < num_replicas; r++) {
        const uint64_t begin = unit * granularity;
        unit += base + (r < extra ? 1 : 0);
        const uint64_t end = unit * granularity;
        shards[r].begin = begin < count ? begin : count;
        shards[r].end = end < count ? end : count;
    }
}
