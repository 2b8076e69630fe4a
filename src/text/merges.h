/* SPDX-License-Identifier: Apache-2.0 */
/* Learning which pairs of neighbouring symbols become one: the most frequent pair first, again and again (Sennrich,
 * Haddow, Birch 2016), with counts that each merge changes only where it happens. */
#ifndef RF_TEXT_MERGES_H
#define RF_TEXT_MERGES_H

#include "base/error.h"

/* Different words, one after the other; the struct owns its arrays. */
typedef struct rf_symbol_words {
    uint32_t *symbols; /* [starts[count]] */
    uint32_t *starts;  /* [count + 1] */
    uint64_t *weights; /* [count]: how often each word occurs */
    uint32_t count;
} rf_symbol_words;
void rf_symbol_words_free(rf_symbol_words *words);

typedef struct rf_merge_params {
    uint32_t num_symbols, max_symbols; /* the next new symbol, and where to stop */
    uint64_t min_count;                /* of a pair that is merged, 1 or more */
    /* `symbol` is to stand for left and right. `*taken` false: this pair is never merged. */
    rf_result (*merge)(void *user, uint32_t left, uint32_t right, uint32_t symbol, bool *taken);
    void *user;
} rf_merge_params;

/* Calls `merge` for one pair after the other, of equally frequent ones for the smaller (left, then right). Changes the
 * symbols of `words`. */
rf_result rf_learn_merges(rf_symbol_words *words, const rf_merge_params *params);

#endif
