/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of things that are divided among several. Pure. */
#ifndef RF_BASE_SPLIT_H
#define RF_BASE_SPLIT_H

#include <stdint.h>

typedef struct rf_range {
    uint64_t begin, end;
} rf_range;

/* Splits `examples` over replicas in proportion to shares (NULL: equal): largest remainder, earlier replicas first. */
void rf_split_batch(uint64_t examples, const double *shares, uint32_t num_replicas, uint32_t *counts);
/* The same in multiples of `unit`: what is over goes to the last replica that has any. */
void rf_split_units(uint64_t examples, uint32_t unit, const double *shares, uint32_t num_replicas, uint32_t *counts);
/* The least common multiple; 0 where that is more than a batch may have. */
uint32_t rf_common_unit(uint32_t a, uint32_t b);
/* Counts of units, the last of which may be incomplete, become counts of examples. */
void rf_units_to_examples(uint64_t examples, uint32_t unit, uint32_t num_replicas, uint32_t *counts);

/* Cuts [0, count) into one shard per replica, borders at multiples of `granularity`, sizes as equal as that allows. */
void rf_shard_ranges(uint64_t count, uint64_t granularity, uint32_t num_replicas, rf_range *shards);

#endif
