/* SPDX-License-Identifier: Apache-2.0 */
#include "text/trie.h"

#include "base/memory.h"

static rf_result add_node(rf_trie *trie, uint32_t *node)
{
    if (trie->ends.count == 0) trie->ends.count = 1;
    RF_TRY(rf_array_reserve((void **)&trie->ends.items, &trie->ends.capacity, trie->ends.count + 1, sizeof(uint32_t)));
    *node = trie->ends.count++;
    return RF_OK;
}

rf_result rf_trie_add(rf_trie *trie, const char *text, size_t size, uint32_t number)
{
    uint32_t node = 0;
    for (size_t i = 0; i < size; i++) {
        const uint8_t byte = (uint8_t)text[i];
        uint32_t next = rf_trie_step(trie, node, byte);
        if (next == 0) {
            RF_TRY(add_node(trie, &next));
            if (node == 0)
                trie->roots[byte] = next;
            else
                RF_TRY(rf_pair_table_add(&trie->edges, rf_pair_key(node, byte), next));
        }
        node = next;
    }
    trie->ends.items[node] = number + 1;
    return RF_OK;
}

void rf_trie_free(rf_trie *trie)
{
    rf_pair_table_free(&trie->edges);
    rf_free(trie->ends.items);
    *trie = (rf_trie){ 0 };
}
