/* SPDX-License-Identifier: Apache-2.0 */
/* Merging the pairs of one word's symbols, the pair of the lowest rank first, in the time n log n. */
#ifndef RF_TEXT_PAIRS_H
#define RF_TEXT_PAIRS_H

#include "text/table.h"

#define RF_NO_PLACE UINT32_MAX

/* The symbols of a word while its pairs are merged. Zeroed: empty. */
typedef struct rf_pair_work {
    uint32_t *symbols, *next, *previous, capacity;
    uint64_t *heap; /* a pair's rank and its place: the pair to merge next on top */
    uint32_t heap_count;
} rf_pair_work;

/* Room for a word of `count` symbols; the caller then writes them into `symbols`. */
rf_result rf_pair_work_reserve(rf_pair_work *w, size_t count);
/* `ranks`: pair to rank. `results`: rank to the symbol that the pair becomes; NULL: the rank itself. The symbols that
 * are left stand at 0, next[0], next[next[0]], ... up to RF_NO_PLACE. */
void rf_pairs_merge(rf_pair_work *w, const rf_pair_table *ranks, const uint32_t *results, uint32_t count);
void rf_pair_work_free(rf_pair_work *w);

#endif
