/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs as TensorFlow's GraphDef, which TensorBoard draws. */
#include "persist/events/writer.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/params.h"
#include "persist/events/internal.h"

#define PRODUCER 22 /* version of GraphDef; any that has "_output_shapes" does */

/* One node with all that hangs on it. */
typedef struct node_message {
    RfPb__Node node;
    RfPb__Node__Attr attr, *attrs[1];
    RfPb__AttrValue value;
    RfPb__AttrValue__ListValue list;
} node_message;

static char *text_of(const char *text)
{
    union {
        const char *in;
        char *out;
    } u = { text };
    return u.out;
}

static rf_result make_shape(rf_arena *arena, const rf_shape *shape, RfPb__TensorShape **out)
{
    RfPb__TensorShape *s = rf_arena_alloc(arena, sizeof(*s));
    RfPb__TensorShape__Dim *dims = rf_arena_alloc(arena, sizeof(*dims) * (size_t)(shape->rank + 1));
    RfPb__TensorShape__Dim **list = rf_arena_alloc(arena, sizeof(*list) * (size_t)(shape->rank + 1));
    if (!s || !dims || !list) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_pb__tensor_shape__init(s);
    for (int32_t i = 0; i < shape->rank; i++) {
        rf_pb__tensor_shape__dim__init(&dims[i]);
        dims[i].size = shape->dim[i];
        list[i] = &dims[i];
    }
    s->n_dim = (size_t)shape->rank;
    s->dim = list;
    *out = s;
    return RF_OK;
}

static rf_result make_node(rf_arena *arena, const rf_event_node *from, RfPb__Node **out)
{
    static char key[] = "_output_shapes";
    node_message *m = rf_arena_alloc(arena, sizeof(*m));
    char **inputs = rf_arena_alloc(arena, sizeof(*inputs) * ((size_t)from->num_inputs + 1));
    RfPb__TensorShape **shapes = rf_arena_alloc(arena, sizeof(*shapes) * ((size_t)from->num_shapes + 1));
    if (!m || !inputs || !shapes) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_pb__node__init(&m->node);
    m->node.name = text_of(from->name);
    m->node.op = text_of(from->op);
    for (uint32_t i = 0; i < from->num_inputs; i++) inputs[i] = text_of(from->inputs[i]);
    m->node.n_input = from->num_inputs;
    m->node.input = inputs;
    *out = &m->node;
    if (from->num_shapes == 0) return RF_OK;
    for (uint32_t i = 0; i < from->num_shapes; i++) RF_TRY(make_shape(arena, &from->shapes[i], &shapes[i]));
    rf_pb__node__attr__init(&m->attr);
    rf_pb__attr_value__init(&m->value);
    rf_pb__attr_value__list_value__init(&m->list);
    m->list.n_shape = from->num_shapes;
    m->list.shape = shapes;
    m->value.list = &m->list;
    m->attr.key = key;
    m->attr.value = &m->value;
    m->attrs[0] = &m->attr;
    m->node.n_attr = 1;
    m->node.attr = m->attrs;
    return RF_OK;
}

static rf_result check_node(const rf_event_node *node, uint32_t i)
{
    RF_REQUIRE(node->name && node->name[0] && node->op, "rf_event_writer_graph: node %u has no name or op", i);
    RF_TRY(rf_event_check_text("rf_event_writer_graph: name", node->name));
    RF_TRY(rf_event_check_text("rf_event_writer_graph: op", node->op));
    RF_REQUIRE((node->inputs || !node->num_inputs) && (node->shapes || !node->num_shapes),
               "rf_event_writer_graph: node '%s' counts inputs or shapes that it does not have", node->name);
    for (uint32_t k = 0; k < node->num_inputs; k++) {
        RF_REQUIRE(node->inputs[k], "rf_event_writer_graph: input %u of node '%s' is NULL", k, node->name);
        RF_TRY(rf_event_check_text("rf_event_writer_graph: input", node->inputs[k]));
    }
    for (uint32_t k = 0; k < node->num_shapes; k++)
        RF_REQUIRE(node->shapes[k].rank >= 0 && node->shapes[k].rank <= RF_MAX_RANK,
                   "rf_event_writer_graph: shape %u of node '%s' has rank %d", k, node->name, node->shapes[k].rank);
    return RF_OK;
}

static rf_result nodes_append(rf_event_writer *w, rf_arena *arena, const rf_event_node *nodes, uint32_t count)
{
    RfPb__Graph graph = RF_PB__GRAPH__INIT;
    RfPb__Graph__Versions versions = RF_PB__GRAPH__VERSIONS__INIT;
    RfPb__Event event = RF_PB__EVENT__INIT;
    RfPb__Node **list = rf_arena_alloc(arena, sizeof(*list) * ((size_t)count + 1));
    if (!list) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; i < count; i++) {
        RF_TRY(check_node(&nodes[i], i));
        RF_TRY(make_node(arena, &nodes[i], &list[i]));
    }
    versions.producer = PRODUCER;
    graph.n_node = count;
    graph.node = list;
    graph.versions = &versions;
    const size_t size = rf_pb__graph__get_packed_size(&graph);
    event.graph_def.data = rf_arena_alloc(arena, size);
    if (!event.graph_def.data) return RF_ERROR_OUT_OF_HOST_MEMORY;
    event.graph_def.len = rf_pb__graph__pack(&graph, event.graph_def.data);
    event.what_case = RF_PB__EVENT__WHAT_GRAPH_DEF;
    return rf_event_writer_append(w, &event);
}

RF_API rf_result rf_event_writer_graph(rf_event_writer *writer, const rf_event_node *nodes, uint32_t count)
{
    RF_TRY(RF_PARAMS_CHECK_ALL(rf_event_node, nodes, count));
    RF_REQUIRE(writer, "rf_event_writer_graph: writer is NULL");
    RF_REQUIRE(nodes || count == 0, "rf_event_writer_graph: nodes is NULL");
    rf_arena arena = { 0 };
    const rf_result r = nodes_append(writer, &arena, nodes, count);
    rf_arena_free(&arena);
    return r;
}

/* ---- traced graphs ---- */

typedef struct conversion {
    const rf_graph *graph;
    rf_arena arena;
    rf_event_node *nodes;
    uint32_t count;
    const char **names; /* per value: what inputs call it */
} conversion;

static char *format_name(rf_arena *arena, const char *scope, size_t scope_length, const char *stem, uint32_t number)
{
    const size_t size = scope_length + strlen(stem) + 16;
    char *name = rf_arena_alloc(arena, size);
    if (!name) return NULL;
    snprintf(name, size, "%.*s%s%s_%u", (int)scope_length, scope, scope_length ? "/" : "", stem, number);
    /* TensorFlow's names: letters, digits and "_.-/", beginning with a letter, digit or dot. */
    for (char *c = name; *c; c++)
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-/", *c)) *c = '_';
    if (*name == '_' || *name == '/' || *name == '-') *name = '.';
    return name;
}

static rf_result add_shapes(conversion *c, rf_event_node *node, const rf_value *values, uint32_t count)
{
    rf_shape *shapes = rf_arena_alloc(&c->arena, sizeof(*shapes) * ((size_t)count + 1));
    if (!shapes) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; i < count; i++)
        if (values[i]) shapes[i] = rf_graph_desc(c->graph, values[i])->shape;
    node->shapes = shapes;
    node->num_shapes = count;
    return RF_OK;
}

/* Inputs, variables and constants. */
static rf_result convert_value(conversion *c, rf_value v)
{
    static const struct {
        const char *stem, *op;
    } kinds[] = { [RF_VALUE_INPUT] = { "input", "Placeholder" },
                  [RF_VALUE_STATE] = { "variable", "VariableV2" },
                  [RF_VALUE_HOST] = { "host", "Placeholder" },
                  [RF_VALUE_CONSTANT] = { "constant", "Const" } };
    const rf_value_info *info = &c->graph->values.items[v];
    if (info->kind == RF_VALUE_NONE || info->kind == RF_VALUE_RESULT) return RF_OK;
    rf_event_node *node = &c->nodes[c->count++];
    node->name = format_name(&c->arena, "", 0, info->name && *info->name ? info->name : kinds[info->kind].stem, v);
    node->op = kinds[info->kind].op;
    if (!node->name) return RF_ERROR_OUT_OF_HOST_MEMORY;
    c->names[v] = node->name;
    return add_shapes(c, node, &v, 1);
}

/* "conv2d" of the variable "conv2d/kernel" that a node reads. */
static const char *find_scope(const conversion *c, const rf_node_info *node, size_t *length)
{
    *length = 0;
    for (uint32_t i = 0; i < node->n_in; i++) {
        const rf_value_info *value = &c->graph->values.items[node->in[i]];
        const char *slash = value->kind == RF_VALUE_STATE && value->name ? strrchr(value->name, '/') : NULL;
        if (!slash) continue;
        *length = (size_t)(slash - value->name);
        return value->name;
    }
    return "";
}

static rf_result convert_node(conversion *c, uint32_t n)
{
    const rf_node_info *from = &c->graph->nodes.items[n];
    if (from->dead) return RF_OK;
    rf_event_node *node = &c->nodes[c->count++];
    size_t length;
    const char *scope = find_scope(c, from, &length);
    char *name = format_name(&c->arena, scope, length, from->op->name, n);
    const char **inputs = rf_arena_alloc(&c->arena, sizeof(*inputs) * ((size_t)from->n_in + 1));
    if (!name || !inputs) return RF_ERROR_OUT_OF_HOST_MEMORY;
    node->name = name;
    node->op = from->op->name;
    for (uint32_t i = 0; i < from->n_in; i++)
        if (c->names[from->in[i]]) inputs[node->num_inputs++] = c->names[from->in[i]];
    node->inputs = inputs;
    for (uint32_t i = 0; i < from->n_out; i++) {
        if (!from->out[i]) continue;
        const size_t size = strlen(name) + 16;
        char *output = rf_arena_alloc(&c->arena, size);
        if (!output) return RF_ERROR_OUT_OF_HOST_MEMORY;
        if (i > 0)
            snprintf(output, size, "%s:%u", name, i);
        else
            snprintf(output, size, "%s", name);
        c->names[from->out[i]] = output;
    }
    return add_shapes(c, node, from->out, from->n_out);
}

static rf_result conversion_run(conversion *c)
{
    const rf_graph *g = c->graph;
    c->nodes = rf_arena_alloc(&c->arena, sizeof(*c->nodes) * ((size_t)g->values.count + g->nodes.count + 1));
    c->names = rf_arena_alloc(&c->arena, sizeof(*c->names) * ((size_t)g->values.count + 1));
    if (!c->nodes || !c->names) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (rf_value v = 1; v < g->values.count; v++) RF_TRY(convert_value(c, v));
    for (uint32_t n = 0; n < g->nodes.count; n++) RF_TRY(convert_node(c, n));
    return RF_OK;
}

rf_result rf_event_writer_traced_graph(rf_event_writer *writer, const rf_graph *graph)
{
    conversion c = { .graph = graph };
    rf_result r = conversion_run(&c);
    if (r >= 0) r = rf_event_writer_graph(writer, c.nodes, c.count);
    rf_arena_free(&c.arena);
    return r;
}
