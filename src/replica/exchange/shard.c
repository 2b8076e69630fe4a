/* SPDX-License-Identifier: Apache-2.0 */
#include "replica/strategy.h"

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
