/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every place of a symbol has links to its neighbours in the word. A pair knows how often it occurs and a list of
 * places where it did. All occurrences of a pair with a new symbol come into being while that symbol is made, from left
 * to right; so the lists are in order, and a pair's count can only fall after it was put into the heap. The heap's
 * number of a pair may therefore be too much, never too little: a pair whose count has fallen is put back.
 */
#include "text/merges.h"

#include <string.h>

#include "base/memory.h"
#include "text/table.h"

#define NO_PLACE UINT32_MAX
#define NO_SYMBOL UINT32_MAX

typedef struct place_list {
    uint32_t *items;
    uint32_t count, capacity;
} place_list;

typedef struct symbol_pair {
    uint64_t key, count;
    place_list places;
} symbol_pair;

typedef struct heap_entry {
    uint64_t count, key;
    uint32_t pair;
} heap_entry;

typedef struct merge_learner {
    rf_symbol_words *words;
    uint32_t num_places, *next, *previous, *word_of;
    struct {
        symbol_pair *items;
        uint32_t count, capacity;
    } pairs;
    rf_pair_table numbers; /* key to pair */
    struct {
        heap_entry *items;
        uint32_t count, capacity;
    } heap;
} merge_learner;

void rf_symbol_words_free(rf_symbol_words *words)
{
    rf_free(words->symbols);
    rf_free(words->starts);
    rf_free(words->weights);
    *words = (rf_symbol_words){ 0 };
}

/* ---- the most frequent pair ---- */

static bool comes_before(const heap_entry *a, const heap_entry *b)
{
    return a->count != b->count ? a->count > b->count : a->key < b->key;
}

static rf_result push_pair(merge_learner *l, uint32_t pair)
{
    RF_TRY(RF_VEC_GROW(&l->heap));
    heap_entry *heap = l->heap.items;
    const heap_entry entry = { l->pairs.items[pair].count, l->pairs.items[pair].key, pair };
    uint32_t at = l->heap.count++;
    for (; at > 0 && comes_before(&entry, &heap[(at - 1) / 2]); at = (at - 1) / 2) heap[at] = heap[(at - 1) / 2];
    heap[at] = entry;
    return RF_OK;
}

static heap_entry pop_pair(merge_learner *l)
{
    heap_entry *heap = l->heap.items;
    const heap_entry top = heap[0], last = heap[--l->heap.count];
    uint32_t at = 0;
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= l->heap.count) break;
        if (child + 1 < l->heap.count && comes_before(&heap[child + 1], &heap[child])) child++;
        if (!comes_before(&heap[child], &last)) break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = last;
    return top;
}

/* ---- counts ---- */

static rf_result add_pair(merge_learner *l, uint32_t left, uint32_t right, uint32_t place)
{
    const uint64_t key = rf_pair_key(left, right);
    uint32_t number = rf_pair_table_find(&l->numbers, key);
    if (number == RF_TABLE_NONE) {
        number = l->pairs.count;
        RF_TRY(RF_VEC_GROW(&l->pairs));
        RF_TRY(rf_pair_table_add(&l->numbers, key, number));
        l->pairs.items[l->pairs.count++] = (symbol_pair){ .key = key };
    }
    symbol_pair *pair = &l->pairs.items[number];
    RF_TRY(RF_VEC_GROW(&pair->places));
    pair->places.items[pair->places.count++] = place;
    pair->count += l->words->weights[l->word_of[place]];
    return RF_OK;
}

static void remove_pair(merge_learner *l, uint32_t left, uint32_t right, uint32_t place)
{
    const uint32_t number = rf_pair_table_find(&l->numbers, rf_pair_key(left, right));
    if (number == RF_TABLE_NONE) return;
    symbol_pair *pair = &l->pairs.items[number];
    const uint64_t weight = l->words->weights[l->word_of[place]];
    pair->count -= weight < pair->count ? weight : pair->count;
}

static void forget_pair(symbol_pair *pair)
{
    rf_free(pair->places.items);
    pair->places = (place_list){ 0 };
    pair->count = 0;
}

/* ---- merging ---- */

static rf_result merge_at(merge_learner *l, uint32_t place, uint32_t symbol)
{
    uint32_t *symbols = l->words->symbols;
    const uint32_t second = l->next[place], before = l->previous[place], after = l->next[second];
    const uint32_t left = symbols[place], right = symbols[second];
    if (before != NO_PLACE) {
        remove_pair(l, symbols[before], left, place);
        RF_TRY(add_pair(l, symbols[before], symbol, before));
    }
    if (after != NO_PLACE) {
        remove_pair(l, right, symbols[after], place);
        RF_TRY(add_pair(l, symbol, symbols[after], place));
        l->previous[after] = place;
    }
    symbols[place] = symbol;
    symbols[second] = NO_SYMBOL;
    l->next[place] = after;
    return RF_OK;
}

static rf_result merge_everywhere(merge_learner *l, uint32_t number, uint32_t symbol)
{
    const uint64_t key = l->pairs.items[number].key;
    const uint32_t left = (uint32_t)(key >> 32), right = (uint32_t)key;
    /* No place is added to this pair meanwhile: pairs that come into being have the new symbol. */
    const place_list places = l->pairs.items[number].places;
    const uint32_t *symbols = l->words->symbols;
    for (uint32_t i = 0; i < places.count; i++) {
        const uint32_t place = places.items[i];
        if (symbols[place] != left || l->next[place] == NO_PLACE || symbols[l->next[place]] != right) continue;
        RF_TRY(merge_at(l, place, symbol));
    }
    forget_pair(&l->pairs.items[number]);
    return RF_OK;
}

static rf_result count_pairs(merge_learner *l)
{
    const rf_symbol_words *words = l->words;
    l->num_places = words->starts[words->count];
    l->next = RF_NEW_ARRAY(uint32_t, l->num_places);
    l->previous = RF_NEW_ARRAY(uint32_t, l->num_places);
    l->word_of = RF_NEW_ARRAY(uint32_t, l->num_places);
    if (!l->next || !l->previous || !l->word_of) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t w = 0; w < words->count; w++) {
        const uint32_t begin = words->starts[w], end = words->starts[w + 1];
        for (uint32_t i = begin; i < end; i++) {
            l->word_of[i] = w;
            l->previous[i] = i > begin ? i - 1 : NO_PLACE;
            l->next[i] = i + 1 < end ? i + 1 : NO_PLACE;
            if (i + 1 < end) RF_TRY(add_pair(l, words->symbols[i], words->symbols[i + 1], i));
        }
    }
    for (uint32_t p = 0; p < l->pairs.count; p++) RF_TRY(push_pair(l, p));
    return RF_OK;
}

static rf_result merges_learn(merge_learner *l, const rf_merge_params *params)
{
    RF_TRY(count_pairs(l));
    for (uint32_t symbol = params->num_symbols; symbol < params->max_symbols && l->heap.count > 0;) {
        const heap_entry top = pop_pair(l);
        symbol_pair *pair = &l->pairs.items[top.pair];
        if (pair->count < params->min_count) {
            forget_pair(pair); /* it only falls */
            continue;
        }
        if (pair->count < top.count) {
            RF_TRY(push_pair(l, top.pair));
            continue;
        }
        bool taken = false;
        RF_TRY(params->merge(params->user, (uint32_t)(top.key >> 32), (uint32_t)top.key, symbol, &taken));
        if (!taken) {
            forget_pair(pair);
            continue;
        }
        const uint32_t first = l->pairs.count;
        RF_TRY(merge_everywhere(l, top.pair, symbol));
        for (uint32_t p = first; p < l->pairs.count; p++) RF_TRY(push_pair(l, p));
        symbol++;
    }
    return RF_OK;
}

rf_result rf_learn_merges(rf_symbol_words *words, const rf_merge_params *params)
{
    merge_learner l = { .words = words };
    const rf_result r = merges_learn(&l, params);
    for (uint32_t p = 0; p < l.pairs.count; p++) rf_free(l.pairs.items[p].places.items);
    rf_free(l.pairs.items);
    rf_pair_table_free(&l.numbers);
    rf_free(l.heap.items);
    rf_free(l.next);
    rf_free(l.previous);
    rf_free(l.word_of);
    return r;
}
