/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The k largest of n in three walks over them: counts of the upper halves of all magnitudes tell the half of the k-th
 * largest one, counts of the lower halves among those the magnitude itself. As integers, magnitudes of floats have the
 * order of their values, NaN last.
 */
#include "transport/collective/sparse.h"

#include <math.h>
#include <string.h>

uint64_t rf_sparse_count(uint64_t count, double share)
{
    const uint64_t wanted = (uint64_t)ceil((double)count * share);
    return wanted < count ? wanted : count;
}

static uint32_t magnitude_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits & 0x7fffffffu;
}

/* The largest i for which counts[i] and all after it are at least *wanted, which becomes what is wanted of counts[i]
 * alone. */
static uint32_t find_from_end(const uint32_t *counts, uint32_t size, uint32_t *wanted)
{
    uint32_t i = size - 1;
    while (counts[i] < *wanted) *wanted -= counts[i--];
    return i;
}

void rf_sparse_choose(rf_sparse_finder *finder, float *values, uint32_t count, uint32_t chosen, rf_sparse_entry *out)
{
    memset(finder, 0, sizeof(*finder));
    for (uint32_t i = 0; i < count; i++) finder->high[magnitude_of(values[i]) >> RF_SPARSE_LOW_BITS]++;
    uint32_t wanted = chosen;
    const uint32_t high = find_from_end(finder->high, RF_SPARSE_HIGHS, &wanted);
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t m = magnitude_of(values[i]);
        if (m >> RF_SPARSE_LOW_BITS == high) finder->low[m & (RF_SPARSE_LOWS - 1)]++;
    }
    const uint32_t least = high << RF_SPARSE_LOW_BITS | find_from_end(finder->low, RF_SPARSE_LOWS, &wanted);
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t m = magnitude_of(values[i]);
        if (m < least || (m == least && wanted == 0)) continue;
        wanted -= m == least;
        *out++ = (rf_sparse_entry){ i, values[i] };
        values[i] = 0;
    }
}

void rf_sparse_add(const rf_sparse_entry *entries, uint64_t num_entries, float *values, uint64_t count)
{
    for (uint64_t i = 0; i < num_entries; i++)
        if (entries[i].index < count) values[entries[i].index] += entries[i].value;
}
