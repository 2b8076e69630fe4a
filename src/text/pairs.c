/* SPDX-License-Identifier: Apache-2.0 */
#include "text/pairs.h"

#include "base/memory.h"

rf_result rf_pair_work_reserve(rf_pair_work *w, size_t count)
{
    if (count <= w->capacity) return RF_OK;
    if (count >= UINT32_MAX / 3) return RF_FAIL(RF_ERROR_UNSUPPORTED, "a word of %zu bytes; cut the text", count);
    uint32_t capacity = w->capacity ? w->capacity : 64;
    while (capacity < count) capacity *= 2;
    rf_free(w->symbols);
    rf_free(w->heap);
    w->capacity = 0;
    w->symbols = RF_NEW_ARRAY(uint32_t, 3 * (size_t)capacity);
    w->heap =
        RF_NEW_ARRAY(uint64_t, 3 * (size_t)capacity); /* at first a pair less than symbols, two more for each merge */
    if (!w->symbols || !w->heap) return RF_ERROR_OUT_OF_HOST_MEMORY;
    w->next = w->symbols + capacity;
    w->previous = w->next + capacity;
    w->capacity = capacity;
    return RF_OK;
}

static void push_place(const rf_pair_table *ranks, rf_pair_work *w, uint32_t place)
{
    const uint32_t second = w->next[place];
    if (second == RF_NO_PLACE) return;
    const uint32_t rank = rf_pair_table_find(ranks, rf_pair_key(w->symbols[place], w->symbols[second]));
    if (rank == RF_TABLE_NONE) return;
    const uint64_t entry = rf_pair_key(rank, place);
    uint32_t at = w->heap_count++;
    for (; at > 0 && entry < w->heap[(at - 1) / 2]; at = (at - 1) / 2) w->heap[at] = w->heap[(at - 1) / 2];
    w->heap[at] = entry;
}

static uint64_t pop_place(rf_pair_work *w)
{
    const uint64_t top = w->heap[0], last = w->heap[--w->heap_count];
    uint32_t at = 0;
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= w->heap_count) break;
        if (child + 1 < w->heap_count && w->heap[child + 1] < w->heap[child]) child++;
        if (w->heap[child] >= last) break;
        w->heap[at] = w->heap[child];
        at = child;
    }
    w->heap[at] = last;
    return top;
}

/* Merges the pair at a place where it still is what the heap remembers. */
static void merge_place(const rf_pair_table *ranks, const uint32_t *results, rf_pair_work *w, uint32_t place,
                        uint32_t rank)
{
    const uint32_t second = w->symbols[place] == RF_TABLE_NONE ? RF_NO_PLACE : w->next[place];
    if (second == RF_NO_PLACE) return;
    if (rf_pair_table_find(ranks, rf_pair_key(w->symbols[place], w->symbols[second])) != rank) return;
    w->symbols[place] = results ? results[rank] : rank;
    w->symbols[second] = RF_TABLE_NONE;
    w->next[place] = w->next[second];
    if (w->next[place] != RF_NO_PLACE) w->previous[w->next[place]] = place;
    push_place(ranks, w, place);
    if (w->previous[place] != RF_NO_PLACE) push_place(ranks, w, w->previous[place]);
}

void rf_pairs_merge(rf_pair_work *w, const rf_pair_table *ranks, const uint32_t *results, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        w->previous[i] = i > 0 ? i - 1 : RF_NO_PLACE;
        w->next[i] = i + 1 < count ? i + 1 : RF_NO_PLACE;
    }
    w->heap_count = 0;
    for (uint32_t i = 0; i < count; i++) push_place(ranks, w, i);
    while (w->heap_count > 0) {
        const uint64_t top = pop_place(w);
        merge_place(ranks, results, w, (uint32_t)top, (uint32_t)(top >> 32));
    }
}

void rf_pair_work_free(rf_pair_work *w)
{
    rf_free(w->symbols);
    rf_free(w->heap);
    *w = (rf_pair_work){ 0 };
}
