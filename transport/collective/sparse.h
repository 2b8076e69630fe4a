/* SPDX-License-Identifier: Apache-2.0 */
/* Which of many numbers are worth sending: those of largest magnitude. Pure. */
#ifndef RF_TRANSPORT_COLLECTIVE_SPARSE_H
#define RF_TRANSPORT_COLLECTIVE_SPARSE_H

#include "base/error.h"

typedef struct rf_sparse_entry {
    uint32_t index;
    float value;
} rf_sparse_entry;

enum { RF_SPARSE_LOW_BITS = 15, RF_SPARSE_HIGHS = 1 << 16, RF_SPARSE_LOWS = 1 << RF_SPARSE_LOW_BITS };
/* Counters to find the smallest number that is sent. */
typedef struct rf_sparse_finder {
    uint32_t high[RF_SPARSE_HIGHS], low[RF_SPARSE_LOWS]; /* by the upper 16 bits of a magnitude, by the others */
} rf_sparse_finder;

/* How many of `count` numbers are sent: at least one, unless there are none. */
uint64_t rf_sparse_count(uint64_t count, double share);
/* Moves the `chosen` (of 1 .. count) numbers of largest magnitude to `out`, in order of their places, and leaves zeros
 * behind. NaN is larger than infinity; of equal ones the first are taken. */
void rf_sparse_choose(rf_sparse_finder *finder, float *values, uint32_t count, uint32_t chosen, rf_sparse_entry *out);
/* Adds entries to values[count]; those with an index beyond it are left out. */
void rf_sparse_add(const rf_sparse_entry *entries, uint64_t num_entries, float *values, uint64_t count);

#endif
