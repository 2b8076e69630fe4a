/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hash table of leaves and nodes, by what they are. An entry is 1 + (number << 1 | is node); 0 is empty. Open
 * addressing, at most half full, nothing is ever removed.
 */
#include <string.h>

#include "base/philox.h"
#include "graph/internal.h"

static uint64_t hash_leaf(const rf_value_info *leaf)
{
    const uint64_t kind = (uint64_t)leaf->kind + 1;
    switch (leaf->kind) {
    case RF_VALUE_INPUT: return rf_hash64(kind, leaf->slot);
    case RF_VALUE_CONSTANT: {
        /* A prefix is enough to tell constants apart; equality looks at all of it. */
        const uint64_t size = rf_tensor_bytes(&leaf->desc);
        return rf_hash64(kind + size, rf_hash_bytes(leaf->data, size < 256 ? (size_t)size : 256, 0));
    }
    default: return rf_hash64(kind, (uint64_t)(uintptr_t)leaf->object);
    }
}

static uint64_t hash_node(const rf_node_info *node)
{
    const uint64_t inputs = rf_hash_bytes(node->in, node->n_in * sizeof(rf_value), (uint64_t)(uintptr_t)node->op);
    return rf_hash64(inputs, rf_hash_bytes(node->attr, node->op->attr_size, node->n_in));
}

static bool is_same_leaf(const rf_value_info *a, const rf_value_info *b)
{
    if (a->kind != b->kind) return false;
    switch (a->kind) {
    case RF_VALUE_INPUT: return a->slot == b->slot;
    case RF_VALUE_CONSTANT:
        return a->desc.dtype == b->desc.dtype && rf_shape_equal(a->desc.shape, b->desc.shape) &&
               memcmp(a->data, b->data, (size_t)rf_tensor_bytes(&a->desc)) == 0;
    default: return a->object == b->object;
    }
}

static bool is_same_node(const rf_node_info *a, const rf_node_info *b)
{
    return a->op == b->op && a->n_in == b->n_in && memcmp(a->in, b->in, a->n_in * sizeof(rf_value)) == 0 &&
           memcmp(a->attr, b->attr, a->op->attr_size) == 0;
}

/* Exactly one of leaf and node is not NULL. */
static uint32_t *slot_find(const rf_graph *graph, const rf_graph_index *index, const rf_value_info *leaf,
                           const rf_node_info *node)
{
    const uint32_t mask = index->capacity - 1;
    uint32_t at = (uint32_t)(leaf ? hash_leaf(leaf) : hash_node(node)) & mask;
    for (;; at = (at + 1) & mask) {
        const uint32_t entry = index->slots[at];
        if (entry == 0) return &index->slots[at];
        const uint32_t number = rf_graph_index_number(entry);
        if ((entry - 1) & 1) {
            if (node && is_same_node(&graph->nodes.items[number], node)) return &index->slots[at];
        } else if (leaf && is_same_leaf(&graph->values.items[number], leaf)) {
            return &index->slots[at];
        }
    }
}

uint32_t *rf_graph_index_leaf(const rf_graph *graph, const rf_graph_index *index, const rf_value_info *leaf)
{
    return slot_find(graph, index, leaf, NULL);
}

uint32_t *rf_graph_index_node(const rf_graph *graph, const rf_graph_index *index, const rf_node_info *node)
{
    return slot_find(graph, index, NULL, node);
}

void rf_graph_index_put(rf_graph_index *index, uint32_t *slot, uint32_t number, bool is_node)
{
    if (*slot == 0) index->count++;
    *slot = 1 + (number << 1 | (is_node ? 1u : 0u));
}

rf_result rf_graph_index_reserve(const rf_graph *graph, rf_graph_index *index)
{
    if ((index->count + 1) * 2 <= index->capacity) return RF_OK;
    rf_graph_index larger = { .capacity = index->capacity ? index->capacity * 2 : 64 };
    larger.slots = RF_NEW_ARRAY(uint32_t, larger.capacity);
    if (!larger.slots) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; i < index->capacity; i++) {
        if (index->slots[i] == 0) continue;
        const uint32_t number = rf_graph_index_number(index->slots[i]);
        const bool is_node = (index->slots[i] - 1) & 1;
        uint32_t *slot = is_node ? rf_graph_index_node(graph, &larger, &graph->nodes.items[number])
                                 : rf_graph_index_leaf(graph, &larger, &graph->values.items[number]);
        rf_graph_index_put(&larger, slot, number, is_node);
    }
    rf_free(index->slots);
    *index = larger;
    return RF_OK;
}

rf_result rf_graph_index_copy(const rf_graph_index *from, rf_graph_index *to)
{
    if (from->capacity == 0) return RF_OK;
    to->slots = RF_NEW_ARRAY(uint32_t, from->capacity);
    if (!to->slots) return RF_ERROR_OUT_OF_HOST_MEMORY;
    memcpy(to->slots, from->slots, from->capacity * sizeof(uint32_t));
    to->capacity = from->capacity;
    to->count = from->count;
    return RF_OK;
}
