/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/graph.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "graph/internal.h"

/* Attributes of nodes that were given none. */
static const _Alignas(16) unsigned char zero_attr[RF_MAX_ATTR];

/* ---- the graph ---- */

rf_result rf_graph_create(const rf_core_ops *core, rf_graph **out)
{
    *out = NULL;
    rf_graph *graph = RF_NEW(rf_graph);
    if (!graph) return RF_ERROR_OUT_OF_HOST_MEMORY;
    graph->core = core;
    const rf_result r = RF_VEC_GROW(&graph->values);
    if (r < 0) {
        rf_graph_destroy(&graph);
        return r;
    }
    graph->values.count = 1; /* number 0: none */
    *out = graph;
    return RF_OK;
}

void rf_graph_destroy(rf_graph **graph)
{
    if (!graph || !*graph) return;
    rf_graph *g = *graph;
    rf_free(g->values.items);
    rf_free(g->nodes.items);
    rf_free(g->leaves.slots);
    rf_free(g->batches.items);
    rf_free(g->limits.items);
    rf_free(g->gradients.items);
    for (uint32_t i = 0; i < g->held.count; i++) g->held.items[i]->release(g->held.items[i]);
    rf_free(g->held.items);
    rf_arena_free(&g->arena);
    rf_free(g);
    *graph = NULL;
}

const void *rf_graph_keep_attr(rf_graph *graph, const rf_op *op, const void *attr)
{
    if (!attr || op->attr_size == 0 || attr == (const void *)zero_attr) return zero_attr;
    void *copy = rf_arena_alloc(&graph->arena, op->attr_size);
    if (copy) memcpy(copy, attr, op->attr_size);
    return copy;
}

static const void *keep_data(rf_graph *graph, const rf_tensor_desc *desc, const void *data)
{
    const size_t size = (size_t)rf_tensor_bytes(desc);
    void *copy = rf_arena_alloc(&graph->arena, size ? size : 1);
    if (copy && size) memcpy(copy, data, size);
    return copy;
}

/* The graph's reference of an op, where it needs one. */
static rf_result hold_op(rf_graph *graph, const rf_op *op)
{
    if (!op->retain) return RF_OK;
    for (uint32_t i = 0; i < graph->held.count; i++)
        if (graph->held.items[i] == op) return RF_OK;
    RF_TRY(RF_VEC_GROW(&graph->held));
    op->retain(op);
    graph->held.items[graph->held.count++] = op;
    return RF_OK;
}

rf_result rf_graph_limit_batch(rf_graph *graph, int64_t least, int64_t most, const char *reason)
{
    RF_TRY(RF_VEC_GROW(&graph->limits));
    const char *copy = rf_arena_strdup(&graph->arena, reason);
    if (!copy) return RF_ERROR_OUT_OF_HOST_MEMORY;
    graph->limits.items[graph->limits.count++] = (rf_batch_limit){ least, most, copy };
    return RF_OK;
}

static rf_result clone_contents(const rf_graph *from, rf_graph *to)
{
    RF_TRY(
        rf_array_reserve((void **)&to->values.items, &to->values.capacity, from->values.count, sizeof(rf_value_info)));
    RF_TRY(rf_array_reserve((void **)&to->nodes.items, &to->nodes.capacity, from->nodes.count, sizeof(rf_node_info)));
    for (uint32_t i = 0; i < from->held.count; i++) RF_TRY(hold_op(to, from->held.items[i]));
    for (uint32_t v = 1; v < from->values.count; v++) {
        rf_value_info *value = &to->values.items[v];
        *value = from->values.items[v];
        if (value->name && !(value->name = rf_arena_strdup(&to->arena, value->name)))
            return RF_ERROR_OUT_OF_HOST_MEMORY;
        if (value->data && !(value->data = keep_data(to, &value->desc, value->data)))
            return RF_ERROR_OUT_OF_HOST_MEMORY;
    }
    for (uint32_t n = 0; n < from->nodes.count; n++) {
        rf_node_info *node = &to->nodes.items[n];
        *node = from->nodes.items[n];
        if (!(node->attr = rf_graph_keep_attr(to, node->op, node->attr))) return RF_ERROR_OUT_OF_HOST_MEMORY;
        RF_TRY(rf_graph_set_call(to, node->call));
        node->call = to->call;
        node->fixed = false;
    }
    if (from->fixed_by && !(to->fixed_by = rf_arena_strdup(&to->arena, from->fixed_by)))
        return RF_ERROR_OUT_OF_HOST_MEMORY;
    to->batches_checked = from->batches_checked;
    to->batches.pair = from->batches.pair;
    for (uint32_t i = 0; i < from->limits.count; i++) {
        const rf_batch_limit *limit = &from->limits.items[i];
        RF_TRY(rf_graph_limit_batch(to, limit->least, limit->most, limit->reason));
    }
    to->values.count = from->values.count;
    to->nodes.count = from->nodes.count;
    to->num_inputs = from->num_inputs;
    to->num_states = from->num_states;
    to->num_hosts = from->num_hosts;
    return rf_graph_index_copy(&from->leaves, &to->leaves);
}

rf_result rf_graph_clone(const rf_graph *graph, rf_graph **out)
{
    RF_TRY(rf_graph_create(graph->core, out));
    const rf_result r = clone_contents(graph, *out);
    if (r < 0) rf_graph_destroy(out);
    return r;
}

/* ---- leaves ---- */

static rf_result check_desc(const char *what, const char *name, const rf_tensor_desc *desc)
{
    const int64_t count = rf_shape_count(desc->shape);
    const size_t size = rf_dtype_size(desc->dtype);
    size_t bytes;
    RF_REQUIRE(desc->dtype != RF_I64, "%s '%s': i64 is a type of host memory only; convert it to i32", what, name);
    if (size == 0 || count < 0 || !rf_mul_size((size_t)count, size, &bytes)) {
        char shape[96];
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s '%s': %s%s is not a valid type and shape", what, name,
                       rf_dtype_name(desc->dtype), rf_shape_format(desc->shape, shape, sizeof(shape)));
    }
    return RF_OK;
}

/* Finds the leaf or appends it. *added tells which. Constants are never found: a constant is a target of
 * differentiation like any other value, and equal ones are two. */
static rf_result add_leaf(rf_graph *graph, const char *what, const rf_value_info *leaf, rf_value *out, bool *added)
{
    char number[16]; /* what inputs are called by */
    snprintf(number, sizeof(number), "%u", leaf->slot);
    const char *name = leaf->name ? leaf->name : leaf->kind == RF_VALUE_INPUT ? number : "";
    *out = 0;
    *added = false;
    RF_TRY(check_desc(what, name, &leaf->desc));
    RF_TRY(rf_graph_index_reserve(graph, &graph->leaves));
    uint32_t *slot = leaf->kind == RF_VALUE_CONSTANT ? NULL : rf_graph_index_leaf(graph, &graph->leaves, leaf);
    if (slot && *slot) {
        const rf_value found = rf_graph_index_number(*slot);
        const rf_tensor_desc *desc = rf_graph_desc(graph, found);
        if (desc->dtype != leaf->desc.dtype || !rf_shape_equal(desc->shape, leaf->desc.shape)) {
            char was[96], is[96];
            return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s '%s' is in the graph as %s%s, it cannot be %s%s as well",
                           what, name, rf_dtype_name(desc->dtype), rf_shape_format(desc->shape, was, sizeof(was)),
                           rf_dtype_name(leaf->desc.dtype), rf_shape_format(leaf->desc.shape, is, sizeof(is)));
        }
        *out = found;
        return RF_OK;
    }
    RF_TRY(RF_VEC_GROW(&graph->values));
    rf_value_info value = *leaf;
    if (value.name && !(value.name = rf_arena_strdup(&graph->arena, value.name))) return RF_ERROR_OUT_OF_HOST_MEMORY;
    if (value.data && !(value.data = keep_data(graph, &value.desc, value.data))) return RF_ERROR_OUT_OF_HOST_MEMORY;
    value.storage = graph->values.count;
    graph->values.items[graph->values.count] = value;
    if (slot) rf_graph_index_put(&graph->leaves, slot, graph->values.count, false);
    *out = graph->values.count++;
    *added = true;
    return RF_OK;
}

rf_result rf_graph_input(rf_graph *graph, uint32_t slot, rf_tensor_desc desc, rf_value *out)
{
    bool added;
    RF_TRY(
        add_leaf(graph, "input", &(rf_value_info){ .kind = RF_VALUE_INPUT, .desc = desc, .slot = slot }, out, &added));
    if (slot >= graph->num_inputs) graph->num_inputs = slot + 1;
    return RF_OK;
}

rf_result rf_graph_state(rf_graph *graph, const void *object, rf_tensor_desc desc, const char *name, rf_value *out)
{
    RF_REQUIRE(object, "state '%s': `object` is NULL, it must identify the state", name ? name : "");
    const rf_value_info leaf = {
        .kind = RF_VALUE_STATE, .desc = desc, .slot = graph->num_states, .object = object, .name = name
    };
    bool added;
    RF_TRY(add_leaf(graph, "state", &leaf, out, &added));
    graph->num_states += added;
    return RF_OK;
}

rf_result rf_graph_host(rf_graph *graph, const void *object, rf_tensor_desc desc, const char *name, rf_value *out)
{
    RF_REQUIRE(object, "host value '%s': `object` is NULL, it must identify the value", name ? name : "");
    const rf_value_info leaf = {
        .kind = RF_VALUE_HOST, .desc = desc, .slot = graph->num_hosts, .object = object, .name = name
    };
    bool added;
    RF_TRY(add_leaf(graph, "host value", &leaf, out, &added));
    graph->num_hosts += added;
    return RF_OK;
}

rf_result rf_graph_constant(rf_graph *graph, rf_tensor_desc desc, const void *data, rf_value *out)
{
    RF_REQUIRE(data, "constant: `data` is NULL");
    bool added;
    return add_leaf(graph, "constant", &(rf_value_info){ .kind = RF_VALUE_CONSTANT, .desc = desc, .data = data }, out,
                    &added);
}

/* ---- nodes ---- */

rf_result rf_op_check(const rf_op *op, uint32_t n_in)
{
    if (op->attr_size > RF_MAX_ATTR || op->n_out > RF_MAX_OUTPUTS || op->max_in > RF_MAX_INPUTS || !op->infer)
        return RF_FAIL(RF_ERROR_INTERNAL,
                       "%s: the op declares too many outputs, inputs or attribute bytes, or no inference", op->name);
    if (n_in < op->min_in || n_in > op->max_in)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s: takes %u to %u inputs, got %u", op->name, op->min_in, op->max_in,
                       n_in);
    return RF_OK;
}

rf_result rf_op_infer(rf_op_call *call)
{
    const rf_op *op = call->op;
    call->n_out = op->n_out;
    const rf_result r = rf_call_infer(call);
    if (r < 0) return strstr(rf_error_message(), op->name) ? r : rf_error_context(r, "%s", op->name);
    if (call->n_out > op->n_out)
        return RF_FAIL(RF_ERROR_INTERNAL, "%s: inference made %u outputs of %u", op->name, call->n_out, op->n_out);
    for (uint32_t i = 0; i < call->n_out; i++) RF_TRY(check_desc("output of", op->name, &call->out[i]));
    if ((op->flags & RF_OP_VIEW) &&
        (call->n_in == 0 || call->n_out != 1 || rf_tensor_bytes(&call->in[0]) != rf_tensor_bytes(&call->out[0])))
        return RF_FAIL(RF_ERROR_INTERNAL, "%s: a view must have one output of its first input's size", op->name);
    return RF_OK;
}

rf_result rf_graph_check_values(const rf_graph *graph, const char *what, const rf_value *values, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const rf_value v = values[i];
        RF_REQUIRE(v > 0 && v < graph->values.count, "%s: number %u is value %u, which is not of this graph", what, i,
                   v);
        const rf_value_info *value = &graph->values.items[v];
        RF_REQUIRE(value->kind != RF_VALUE_NONE &&
                       (value->kind != RF_VALUE_RESULT || !graph->nodes.items[value->producer].dead),
                   "%s: number %u is value %u, which a rewrite has removed; name it as a root to keep it", what, i, v);
    }
    return RF_OK;
}

void rf_graph_count_uses(rf_graph *graph, const rf_node_info *node, int sign)
{
    for (uint32_t i = 0; i < node->n_in; i++) {
        bool seen = false;
        for (uint32_t j = 0; j < i; j++) seen = seen || node->in[j] == node->in[i];
        if (!seen) graph->values.items[node->in[i]].uses += (uint32_t)sign;
    }
}

void rf_graph_remove_node(rf_graph *graph, rf_node node)
{
    rf_graph_count_uses(graph, &graph->nodes.items[node], -1);
    graph->nodes.items[node].dead = true;
}

rf_result rf_graph_set_call(rf_graph *graph, const char *call)
{
    const size_t length = call ? strcspn(call, ":") : 0;
    if (length == 0) {
        graph->call = NULL;
        return RF_OK;
    }
    if (graph->call && strncmp(graph->call, call, length) == 0 && graph->call[length] == '\0') return RF_OK;
    char *copy = rf_arena_alloc(&graph->arena, length + 1);
    if (!copy) return RF_ERROR_OUT_OF_HOST_MEMORY;
    memcpy(copy, call, length);
    graph->call = copy;
    return RF_OK;
}

static rf_result check_mutated(const rf_graph *graph, const rf_node_info *node)
{
    for (uint32_t i = 0; i < node->n_in; i++) {
        const rf_value storage = graph->values.items[node->in[i]].storage;
        if ((node->op->mutates >> i & 1) && graph->values.items[storage].kind != RF_VALUE_STATE)
            return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s: input %u is updated in place, so it must be a state",
                           node->op->name, i);
    }
    return RF_OK;
}

/* Nothing in here can fail: all room was made before. */
static void node_append(rf_graph *graph, rf_node_info *node, const rf_op_call *call)
{
    const rf_node n = graph->nodes.count++;
    graph->batches_checked = false;
    node->n_out = call->n_out;
    for (uint32_t i = 0; i < call->n_out; i++) {
        const rf_value v = graph->values.count++;
        graph->values.items[v] =
            (rf_value_info){ .kind = RF_VALUE_RESULT, .desc = call->out[i], .slot = i, .producer = n, .storage = v };
        node->out[i] = v;
    }
    if (node->op->flags & RF_OP_VIEW)
        graph->values.items[node->out[0]].storage = graph->values.items[node->in[0]].storage;
    for (uint32_t i = 0; i < node->n_in; i++) {
        if (node->op->mutates >> i & 1) graph->values.items[graph->values.items[node->in[i]].storage].mutated = n + 1;
    }
    graph->nodes.items[n] = *node;
    rf_graph_count_uses(graph, node, 1);
}

rf_result rf_graph_add(rf_graph *graph, const rf_op *op, const void *attr, const rf_value *in, uint32_t n_in,
                       rf_value *out)
{
    RF_TRY(rf_op_check(op, n_in));
    RF_TRY(rf_graph_check_values(graph, op->name, in, n_in));
    rf_node_info node = { .op = op, .attr = attr ? attr : zero_attr, .n_in = n_in, .call = graph->call };
    if (n_in > 0) memcpy(node.in, in, n_in * sizeof(*in));
    RF_TRY(check_mutated(graph, &node));

    rf_op_call call = { .op = op, .attr = node.attr, .n_in = n_in };
    for (uint32_t i = 0; i < n_in; i++) call.in[i] = *rf_graph_desc(graph, node.in[i]);
    RF_TRY(rf_op_infer(&call));
    RF_TRY(RF_VEC_GROW(&graph->nodes));
    RF_TRY(rf_array_reserve((void **)&graph->values.items, &graph->values.capacity, graph->values.count + call.n_out,
                            sizeof(*graph->values.items)));
    RF_TRY(hold_op(graph, op));
    node.attr = rf_graph_keep_attr(graph, op, attr);
    if (!node.attr) return RF_ERROR_OUT_OF_HOST_MEMORY;
    node_append(graph, &node, &call);
    if (op->n_out > 0) memcpy(out, node.out, op->n_out * sizeof(*out));
    return RF_OK;
}

void rf_graph_call(const rf_graph *graph, rf_node node, rf_op_call *call)
{
    const rf_node_info *info = &graph->nodes.items[node];
    *call = (rf_op_call){ .op = info->op, .attr = info->attr, .n_in = info->n_in, .n_out = info->n_out };
    for (uint32_t i = 0; i < info->n_in; i++) call->in[i] = *rf_graph_desc(graph, info->in[i]);
    for (uint32_t i = 0; i < info->n_out; i++) call->out[i] = *rf_graph_desc(graph, info->out[i]);
}

uint32_t rf_graph_num_uses(const rf_graph *graph, rf_value v)
{
    return graph->values.items[v].uses;
}

/* ---- order ---- */

static rf_result check_order(const rf_graph *graph, const rf_node *order, rf_node *place)
{
    const uint32_t count = graph->nodes.count;
    for (rf_node n = 0; n < count; n++) place[n] = count;
    for (uint32_t i = 0; i < count; i++) {
        if (order[i] >= count || place[order[i]] != count)
            return RF_FAIL(RF_ERROR_INTERNAL, "reorder: entry %u of the order is node %u, which is listed or none", i,
                           order[i]);
        place[order[i]] = i;
    }
    for (rf_node n = 0; n < count; n++) {
        const rf_node_info *node = &graph->nodes.items[n];
        for (uint32_t i = 0; !node->dead && i < node->n_in; i++) {
            const rf_value_info *value = &graph->values.items[node->in[i]];
            if (value->kind == RF_VALUE_RESULT && place[value->producer] >= place[n])
                return RF_FAIL(RF_ERROR_INTERNAL, "reorder: '%s' would come before what it reads", node->op->name);
        }
    }
    return RF_OK;
}

static rf_result nodes_reorder(rf_graph *graph, const rf_node *order, rf_node *place)
{
    RF_TRY(check_order(graph, order, place));
    const uint32_t count = graph->nodes.count;
    rf_node_info *nodes = RF_NEW_ARRAY(rf_node_info, count);
    if (!nodes) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; i < count; i++) nodes[i] = graph->nodes.items[order[i]];
    if (count) memcpy(graph->nodes.items, nodes, count * sizeof(*nodes));
    rf_free(nodes);
    for (rf_value v = 1; v < graph->values.count; v++) {
        rf_value_info *value = &graph->values.items[v];
        if (value->kind == RF_VALUE_RESULT) value->producer = place[value->producer];
        value->mutated = 0;
    }
    for (rf_node n = 0; n < count; n++) {
        const rf_node_info *node = &graph->nodes.items[n];
        for (uint32_t i = 0; !node->dead && i < node->n_in; i++)
            if (node->op->mutates >> i & 1)
                graph->values.items[graph->values.items[node->in[i]].storage].mutated = n + 1;
    }
    return RF_OK;
}

rf_result rf_graph_reorder(rf_graph *graph, const rf_node *order)
{
    rf_node *place = RF_NEW_ARRAY(rf_node, graph->nodes.count);
    if (!place) return RF_ERROR_OUT_OF_HOST_MEMORY;
    const rf_result r = nodes_reorder(graph, order, place);
    rf_free(place);
    return r;
}
