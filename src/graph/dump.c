/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/philox.h"
#include "graph/internal.h"

#include "base/numbers.h"

typedef struct text {
    char *items; /* always terminated once something was added */
    uint32_t count, capacity;
    bool failed;
} text;

static void text_add(text *t, const char *format, ...) RF_PRINTF(2, 3);
static void text_add(text *t, const char *format, ...)
{
    char line[512];
    va_list args;
    va_start(args, format);
    const int length = rf_number_vprint(line, sizeof(line), format, args);
    va_end(args);
    if (t->failed || length < 0) return;
    const uint32_t n = (uint32_t)length < sizeof(line) ? (uint32_t)length : (uint32_t)sizeof(line) - 1;
    if (rf_array_reserve((void **)&t->items, &t->capacity, t->count + n + 1, 1) < 0) {
        t->failed = true;
        return;
    }
    memcpy(t->items + t->count, line, n + 1);
    t->count += n;
}

static void add_value(text *t, const rf_graph *graph, rf_value v)
{
    const rf_tensor_desc *desc = rf_graph_desc(graph, v);
    char shape[96];
    text_add(t, "%%%u %s%s", v, rf_dtype_name(desc->dtype), rf_shape_format(desc->shape, shape, sizeof(shape)));
}

char *rf_graph_dump(const rf_graph *graph)
{
    static const char *const kinds[] = { [RF_VALUE_INPUT] = "input",
                                         [RF_VALUE_STATE] = "state",
                                         [RF_VALUE_HOST] = "host",
                                         [RF_VALUE_CONSTANT] = "constant" };
    text t = { 0 };
    text_add(&t, "%s", "");
    for (uint32_t v = 1; v < graph->values.count; v++) {
        const rf_value_info *value = &graph->values.items[v];
        if (value->kind == RF_VALUE_NONE || value->kind == RF_VALUE_RESULT) continue;
        add_value(&t, graph, v);
        text_add(&t, " = %s", kinds[value->kind]);
        if (value->kind != RF_VALUE_CONSTANT) text_add(&t, " %u", value->slot);
        if (value->name) text_add(&t, " '%s'", value->name);
        text_add(&t, "\n");
    }
    for (uint32_t n = 0; n < graph->nodes.count; n++) {
        const rf_node_info *node = &graph->nodes.items[n];
        if (node->dead) continue;
        for (uint32_t i = 0; i < node->n_out; i++) {
            if (i > 0) text_add(&t, ", ");
            add_value(&t, graph, node->out[i]);
        }
        text_add(&t, "%s%s(", node->n_out ? " = " : "", node->op->name);
        /* "!" marks what is updated in place, "#" what only lends its shape. */
        for (uint32_t i = 0; i < node->n_in; i++)
            text_add(&t, "%s%s%%%u", i ? ", " : "",
                     node->op->mutates >> i & 1 ? "!"
                     : rf_op_reads(node->op, i) ? ""
                                                : "#",
                     node->in[i]);
        text_add(&t, ")\n");
    }
    if (t.failed) {
        rf_free(t.items);
        return NULL;
    }
    return t.items;
}

static uint64_t hash_desc(const rf_tensor_desc *desc, uint64_t hash)
{
    return rf_hash_bytes(desc->shape.dim, (size_t)desc->shape.rank * sizeof(desc->shape.dim[0]),
                         rf_hash64(hash, desc->dtype));
}

uint64_t rf_graph_hash(const rf_graph *graph)
{
    uint64_t hash = 0;
    for (uint32_t v = 1; v < graph->values.count; v++) {
        const rf_value_info *value = &graph->values.items[v];
        if (value->kind == RF_VALUE_NONE || value->kind == RF_VALUE_RESULT) continue;
        hash = hash_desc(&value->desc, rf_hash64(hash, value->kind));
        if (value->kind == RF_VALUE_CONSTANT)
            hash = rf_hash_bytes(value->data, rf_tensor_bytes(&value->desc), hash);
        else
            hash = rf_hash64(hash, value->slot);
    }
    for (uint32_t n = 0; n < graph->nodes.count; n++) {
        const rf_node_info *node = &graph->nodes.items[n];
        if (node->dead) continue;
        hash = rf_hash_bytes(node->op->name, strlen(node->op->name), hash);
        hash = rf_hash_bytes(node->attr, node->op->attr_size, hash);
        hash = rf_hash_bytes(node->in, node->n_in * sizeof(node->in[0]), hash);
        for (uint32_t i = 0; i < node->n_out; i++)
            if (node->out[i]) hash = hash_desc(rf_graph_desc(graph, node->out[i]), hash);
    }
    return hash;
}
