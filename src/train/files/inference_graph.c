/* SPDX-License-Identifier: Apache-2.0 */
#include "train/files/inference_graph.h"

#include <string.h>

#include "ops/ops.h"
#include "train/model/model.h"
#include "train/model/open_shape.h"

void rf_inference_graph_free(rf_inference_graph *g)
{
    rf_graph_destroy(&g->graph);
    rf_graph_destroy(&g->other);
    rf_free(g->shapes);
    rf_free(g->more);
    *g = (rf_inference_graph){ 0 };
}

/* ---- shapes ---- */

rf_result rf_inference_graph_finish(rf_inference_graph *g, bool batched)
{
    const uint32_t count = g->graph->values.count;
    g->shapes = RF_NEW_ARRAY(rf_shape, count);
    g->more = RF_NEW_ARRAY(rf_shape, count);
    if (!g->shapes || !g->more) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_graph *three;
    RF_TRY(rf_graph_clone(g->graph, &three));
    const rf_result r = batched ? rf_graph_specialize(three, RF_INFERENCE_BATCH + 1) : RF_OK;
    for (rf_value v = 1; r >= 0 && v < count; v++) {
        g->shapes[v] = rf_graph_desc(g->graph, v)->shape;
        g->more[v] = rf_graph_desc(three, v)->shape;
        for (int32_t i = 0; i < g->shapes[v].rank; i++)
            if (g->shapes[v].dim[i] != g->more[v].dim[i]) g->shapes[v].dim[i] = -1;
    }
    rf_graph_destroy(&three);
    return r;
}

/* The graph for other sizes of what the inputs leave open. map[v]: the value of v there. */
static rf_result replay_for_size(const rf_inference_graph *g, const rf_shape *open, rf_graph *other, rf_value *map)
{
    for (rf_value v = 1; v < g->graph->values.count; v++) {
        const rf_value_info *value = &g->graph->values.items[v];
        rf_tensor_desc desc = value->desc;
        rf_result r = RF_OK;
        if (value->kind == RF_VALUE_INPUT) {
            const int64_t other_size = rf_open_size_of(desc.shape.rank - 1, RF_OTHER_OPEN_SIZE);
            for (int32_t i = 1; i < desc.shape.rank; i++)
                if (open[value->slot].dim[i] == -1) desc.shape.dim[i] = other_size;
            r = rf_graph_input(other, value->slot, desc, &map[v]);
        } else if (value->kind == RF_VALUE_STATE) {
            r = rf_graph_state(other, value->object, desc, value->name, &map[v]);
        } else if (value->kind == RF_VALUE_CONSTANT) {
            r = rf_graph_constant(other, desc, value->data, &map[v]);
        } else if (value->kind == RF_VALUE_HOST) {
            r = rf_graph_host(other, value->object, desc, value->name, &map[v]);
        }
        RF_TRY(r);
    }
    return rf_graph_replay(g->graph, NULL, other, map);
}

rf_result rf_inference_graph_open(rf_inference_graph *g, const rf_shape *open)
{
    rf_graph *other = NULL;
    bool any = false;
    for (uint32_t k = 0; k < g->num_inputs; k++)
        for (int32_t i = 1; i < open[k].rank; i++) any = any || open[k].dim[i] == -1;
    if (!any) return RF_OK;
    rf_value *map = RF_NEW_ARRAY(rf_value, g->graph->values.count);
    rf_result r = map ? rf_graph_create(g->graph->core, &other) : RF_ERROR_OUT_OF_HOST_MEMORY;
    if (r >= 0) r = replay_for_size(g, open, other, map);
    for (rf_value v = 1; r >= 0 && v < g->graph->values.count; v++)
        g->shapes[v] = rf_shape_opened(g->shapes[v], rf_graph_desc(other, map[v])->shape);
    rf_graph_destroy(&other);
    rf_free(map);
    return r;
}

/* ---- out of a trace ---- */

static rf_result check_nodes(const rf_graph *traced)
{
    for (rf_node n = 0; n < traced->nodes.count; n++) {
        const rf_node_info *node = &traced->nodes.items[n];
        if (!node->dead && node->op->retain)
            return RF_FAIL(RF_ERROR_UNSUPPORTED,
                           "custom op '%s' has a shader of the program, which exported models cannot hold; express the "
                           "forward pass by the library's operations where rf_trace_training() is false, or save the "
                           "weights (rf_model_save_weights())",
                           node->op->name);
        if (!node->dead && node->op->mutates)
            return RF_FAIL(RF_ERROR_UNSUPPORTED,
                           "the forward pass updates state (operation '%s'), which inference must not do; leave it out "
                           "where rf_trace_training() is false",
                           node->op->name);
    }
    return RF_OK;
}

static rf_result copy_leaf(const rf_value_info *leaf, rf_graph *to, rf_value *out)
{
    rf_tensor_desc desc = leaf->desc;
    switch (leaf->kind) {
    case RF_VALUE_INPUT:
        if (desc.shape.rank > 0) desc.shape.dim[0] = RF_INFERENCE_BATCH;
        return rf_graph_input(to, leaf->slot, desc, out);
    case RF_VALUE_STATE:
        if (desc.dtype != RF_F32)
            return RF_FAIL(RF_ERROR_UNSUPPORTED,
                           "weight '%s' is stored in few bits, which files of inference do not hold; load the weights "
                           "into a model that was built without rf_strategy_set_quantization()",
                           leaf->name);
        return rf_graph_state(to, leaf->object, desc, leaf->name, out);
    case RF_VALUE_CONSTANT: return rf_graph_constant(to, desc, leaf->data, out);
    default:
        if (strcmp(leaf->name, "global_batch") == 0) return rf_graph_host(to, leaf->object, desc, leaf->name, out);
        return RF_FAIL(RF_ERROR_UNSUPPORTED, "the forward pass reads '%s', which exists only in training", leaf->name);
    }
}

static rf_result copy_names(const char *const *names, uint32_t count, rf_arena *arena, const char **out)
{
    for (uint32_t i = 0; i < count; i++) {
        out[i] = rf_arena_strdup(arena, names[i]);
        if (!out[i]) return RF_ERROR_OUT_OF_HOST_MEMORY;
    }
    return RF_OK;
}

static rf_result copy_needed(const rf_graph *traced, const bool *needed, rf_value *map, rf_inference_graph *out)
{
    for (rf_value v = 1; v < traced->values.count; v++) {
        const rf_value_info *value = &traced->values.items[v];
        const bool input = value->kind == RF_VALUE_INPUT;
        if (value->kind == RF_VALUE_RESULT || value->kind == RF_VALUE_NONE || (!input && !needed[v])) continue;
        RF_TRY(copy_leaf(value, out->graph, &map[v]));
        if (input) out->inputs[value->slot] = map[v];
    }
    return rf_graph_replay(traced, needed, out->graph, map);
}

rf_result rf_inference_graph_make(const rf_graph *traced, const rf_value *outputs, uint32_t num_outputs,
                                  const char *const *input_names, const char *const *output_names,
                                  rf_inference_graph *out)
{
    *out = (rf_inference_graph){ .num_inputs = traced->num_inputs, .num_outputs = num_outputs };
    RF_TRY(check_nodes(traced));
    bool *needed = RF_NEW_ARRAY(bool, traced->values.count);
    rf_value *map = RF_NEW_ARRAY(rf_value, traced->values.count);
    rf_result r = needed && map ? rf_graph_create(traced->core, &out->graph) : RF_ERROR_OUT_OF_HOST_MEMORY;
    if (r >= 0) {
        rf_graph_needed(traced, outputs, num_outputs, needed);
        r = copy_needed(traced, needed, map, out);
    }
    for (uint32_t i = 0; r >= 0 && i < num_outputs; i++) out->outputs[i] = map[outputs[i]];
    rf_free(needed);
    rf_free(map);
    if (r >= 0) r = copy_names(input_names, out->num_inputs, &out->graph->arena, out->input_names);
    if (r >= 0) r = copy_names(output_names, num_outputs, &out->graph->arena, out->output_names);
    if (r >= 0) r = rf_inference_graph_finish(out, true);
    if (r < 0) rf_inference_graph_free(out);
    return r;
}

/* ---- of a model ---- */

typedef struct probe {
    rf_model *model;
    rf_inference_graph *out;
    bool reached;
} probe;

/* Keeps what the trace has come to, and gives it up. */
static rf_result keep_trace(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    probe *p = user;
    const rf_model *model = p->model;
    rf_value v[RF_MAX_COMPONENTS];
    rf_strategy_set_wide(model->strategy, true);
    const rf_result r = rf_model_apply_all(t, p->model, in, RF_INFERENCE, out);
    rf_strategy_set_wide(model->strategy, false);
    RF_TRY(r);
    for (uint32_t i = 0; i < model->num_outputs; i++) v[i] = rf_trace_value(t, out[i], "the model's result");
    RF_TRY(rf_trace_status(t));
    RF_TRY(rf_inference_graph_make(rf_trace_graph(t), v, model->num_outputs, model->input_names, model->output_names,
                                   p->out));
    p->reached = true;
    return RF_FAIL(RF_ERROR_CANCELLED, "the graph of the model is known");
}

/* Zeros, so many that every replica has some, and no dimension of the batch is 1. */
static rf_result make_inputs(const rf_model *model, int64_t size, rf_element *element)
{
    for (uint32_t k = 0; k < model->num_inputs; k++) {
        const rf_shape example = rf_shape_filled(model->inputs[k].shape, size);
        rf_array *batch = &element->component[k];
        *batch = (rf_array){ .dtype = model->inputs[k].dtype, .shape = { .rank = example.rank + 1 } };
        batch->shape.dim[0] = (int64_t)RF_INFERENCE_BATCH * rf_strategy_num_replicas_in_sync(model->strategy);
        for (int32_t i = 0; i < example.rank; i++) batch->shape.dim[i + 1] = example.dim[i];
        batch->data = rf_calloc((size_t)rf_shape_count(batch->shape), rf_dtype_size(batch->dtype));
        if (!batch->data) return RF_ERROR_OUT_OF_HOST_MEMORY;
    }
    return RF_OK;
}

static void free_inputs(rf_element *element)
{
    for (uint32_t k = 0; k < element->num_components; k++) rf_free(element->component[k].data);
}

/* With `size` in the place of what is open. */
static rf_result trace_for_size(rf_model *model, int64_t size, rf_inference_graph *out)
{
    *out = (rf_inference_graph){ 0 };
    rf_element element = { .num_components = model->num_inputs };
    const rf_result allocated = make_inputs(model, size, &element);
    if (allocated < 0) {
        free_inputs(&element);
        return rf_strategy_fail_in_job(model->strategy, allocated);
    }

    rf_error_record before;
    rf_error_save(&before);
    probe p = { .model = model, .out = out };
    const rf_function_params params = {
        .step = keep_trace, .user = &p, .num_outputs = model->num_outputs, .name = "inference"
    };
    rf_function *function = NULL;
    rf_result r = rf_function_create(model->strategy, &params, &function);
    if (r >= 0) r = rf_strategy_run(model->strategy, function, &element, NULL);
    if (p.reached) {
        /* Giving up on purpose is no failure that the caller should find in the record. */
        (void)rf_error_restore(&before);
        r = RF_OK;
    }
    /* All other failures happen on every worker: the graph is the same on all of them. */
    if (r == RF_ERROR_OUT_OF_HOST_MEMORY) r = rf_strategy_fail_in_job(model->strategy, r);
    rf_function_destroy(&function);
    free_inputs(&element);
    return r;
}

/* ---- open dimensions ---- */

/* A reshape may name an open size, which is looked at where the graph is written; nothing else may have it. */
static rf_result compare_nodes(const rf_node_info *a, const rf_node_info *b)
{
    if (a->op == b->op && a->n_in == b->n_in && a->n_out == b->n_out &&
        (a->op == &rf_op_reshape || a->op->attr_size == 0 || memcmp(a->attr, b->attr, a->op->attr_size) == 0))
        return RF_OK;
    return RF_FAIL(
        RF_ERROR_UNSUPPORTED,
        "operation '%s'%s%s has a size in it that the inputs leave open; build the model with sizes, or save "
        "it with rf_model_save()",
        a->op->name, a->call ? " of " : "", a->call ? a->call : "");
}

static rf_result compare_constants(const rf_value_info *a, const rf_value_info *b)
{
    if (a->kind != RF_VALUE_CONSTANT) return RF_OK;
    if (rf_shape_equal(a->desc.shape, b->desc.shape) &&
        memcmp(a->data, b->data, (size_t)rf_tensor_bytes(&a->desc)) == 0)
        return RF_OK;
    return RF_FAIL(
        RF_ERROR_UNSUPPORTED,
        "a constant of the model, such as a mask or a table of places, has a size that the inputs leave open; "
        "build the model with sizes, or save it with rf_model_save()");
}

static rf_result compare_graphs(const rf_graph *a, const rf_graph *b)
{
    if (a->nodes.count != b->nodes.count || a->values.count != b->values.count)
        return RF_FAIL(RF_ERROR_UNSUPPORTED,
                       "the model has other operations for sequences of another length; build it with a length");
    for (rf_node n = 0; n < a->nodes.count; n++) RF_TRY(compare_nodes(&a->nodes.items[n], &b->nodes.items[n]));
    for (rf_value v = 1; v < a->values.count; v++) RF_TRY(compare_constants(&a->values.items[v], &b->values.items[v]));
    return RF_OK;
}

/* Sizes that differ are open. The other graph is taken over where this succeeds. */
static rf_result join_sizes(rf_inference_graph *g, rf_inference_graph *other)
{
    RF_TRY(compare_graphs(g->graph, other->graph));
    for (rf_value v = 1; v < g->graph->values.count; v++)
        g->shapes[v] = rf_shape_opened(g->shapes[v], other->shapes[v]);
    g->other = other->graph;
    other->graph = NULL;
    return RF_OK;
}

rf_result rf_inference_reshape(const rf_inference_graph *g, const rf_node_info *node, rf_shape *to)
{
    *to = *(const rf_shape *)node->attr;
    if (!g->other) return RF_OK;
    const rf_shape x = g->shapes[node->in[0]], own = rf_graph_desc(g->graph, node->in[0])->shape;
    const rf_shape *other = g->other->nodes.items[node - g->graph->nodes.items].attr;
    bool follows = false;
    char text[96];
    for (int32_t i = 0; i < to->rank; i++) follows = follows || to->dim[i] == -1;
    for (int32_t i = 0; i < to->rank; i++) {
        if (to->dim[i] == other->dim[i]) continue;
        if (i < x.rank && x.dim[i] < 0 && own.dim[i] == to->dim[i]) {
            to->dim[i] = RF_RESHAPE_KEEP;
        } else if (!follows) {
            to->dim[i] = -1;
            follows = true;
        } else {
            return RF_FAIL(RF_ERROR_UNSUPPORTED,
                           "reshape of %s has an open size that follows from no other; build the model with sizes, or "
                           "save it with rf_model_save()",
                           rf_shape_format(x, text, sizeof(text)));
        }
    }
    return RF_OK;
}

rf_result rf_inference_graph_of_model(rf_model *model, rf_inference_graph *out)
{
    rf_inference_graph other;
    bool open = false;
    for (uint32_t k = 0; k < model->num_inputs; k++) open = open || rf_shape_is_open(model->inputs[k].shape);
    RF_TRY(trace_for_size(model, RF_OPEN_SIZE, out));
    if (!open) return RF_OK;
    rf_result r = trace_for_size(model, RF_OTHER_OPEN_SIZE, &other);
    if (r >= 0) r = join_sizes(out, &other);
    rf_inference_graph_free(&other);
    if (r < 0) rf_inference_graph_free(out);
    return r;
}
