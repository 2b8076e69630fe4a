/* SPDX-License-Identifier: Apache-2.0 */
/* Texts by their first bytes: which of them a text begins with. */
#ifndef RF_TEXT_TRIE_H
#define RF_TEXT_TRIE_H

#include "text/table.h"

/* Zeroed: empty. */
typedef struct rf_trie {
    uint32_t roots[256]; /* node of each first byte; 0: none */
    rf_pair_table edges; /* node, byte: the next node */
    struct {
        uint32_t *items; /* the number of the text that ends at a node, and one; 0: none does. Node 0 is not used. */
        uint32_t count, capacity;
    } ends;
} rf_trie;

/* The later one of two numbers for one text stays. The text is not empty. */
rf_result rf_trie_add(rf_trie *trie, const char *text, size_t size, uint32_t number);
void rf_trie_free(rf_trie *trie);

/* One byte further from `node`, 0 at first; returns 0 where no text goes on so. */
static inline uint32_t rf_trie_step(const rf_trie *trie, uint32_t node, uint8_t byte)
{
    if (node == 0) return trie->roots[byte];
    const uint32_t next = rf_pair_table_find(&trie->edges, rf_pair_key(node, byte));
    return next == RF_TABLE_NONE ? 0 : next;
}
/* The text that ends at a node; RF_TABLE_NONE where none does. */
static inline uint32_t rf_trie_end(const rf_trie *trie, uint32_t node)
{
    return trie->ends.items[node] - 1;
}

#endif
