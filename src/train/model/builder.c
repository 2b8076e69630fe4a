/* SPDX-License-Identifier: Apache-2.0 */
/* Functional models as they are made: layers are adopted by the model to be, and each call becomes a use in its graph.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "train/model/layer_graph.h"
#include "train/model/open_shape.h"

struct rf_model_builder {
    rf_strategy *strategy;
    uint32_t serial; /* what its symbols carry */
    rf_result status;
    rf_error_record error; /* the first failure, where `status` is one */
    struct {
        rf_layer **items;
        uint32_t count, capacity;
    } layers; /* not the model's yet; `model` of none is set, so that the numbers are looked up here */
    rf_layer_graph *graph;
    char *input_names[RF_MAX_COMPONENTS];
    struct {
        char **items;
        uint32_t count, capacity;
    } scopes; /* "block1/", "block1/branch/" */
};

static const rf_symbol no_symbol = { 0, 0 };

/* The thread's record becomes the builder's, unless it has failed before. */
static rf_result keep_failure(rf_model_builder *b, rf_result r)
{
    if (r < 0 && b->status >= 0) {
        b->status = r;
        rf_error_save(&b->error);
    }
    return r;
}

static rf_result status_of(const rf_model_builder *b)
{
    return b->status < 0 ? rf_error_restore(&b->error) : RF_OK;
}

static bool is_mine(const rf_model_builder *b, rf_symbol s)
{
    return s.builder == b->serial && s.id > 0 && s.id <= b->graph->num_values;
}

static rf_symbol wrap_value(const rf_model_builder *b, uint32_t value)
{
    return (rf_symbol){ value + 1, b->serial };
}

/* ---- creation ---- */

rf_result rf_model_builder_create(rf_strategy *strategy, rf_model_builder **out)
{
    RF_REQUIRE(out, "rf_model_builder_create: out is NULL");
    *out = NULL;
    RF_REQUIRE(strategy, "rf_model_builder_create: strategy is NULL");
    rf_model_builder *b = RF_NEW(rf_model_builder);
    rf_layer_graph *graph = b ? RF_NEW(rf_layer_graph) : NULL;
    if (!graph) {
        rf_free(b);
        return RF_ERROR_OUT_OF_HOST_MEMORY;
    }
    b->strategy = strategy;
    b->serial = rf_strategy_next_serial(strategy);
    b->graph = graph;
    *out = b;
    return RF_OK;
}

void rf_model_builder_destroy(rf_model_builder **builder)
{
    if (!builder || !*builder) return;
    rf_model_builder *b = *builder;
    *builder = NULL;
    for (uint32_t i = 0; i < b->layers.count; i++) rf_layer_free(b->layers.items[i]);
    rf_free(b->layers.items);
    rf_layer_graph_free(b->graph);
    for (uint32_t i = 0; i < RF_MAX_COMPONENTS; i++) rf_free(b->input_names[i]);
    for (uint32_t i = 0; i < b->scopes.count; i++) rf_free(b->scopes.items[i]);
    rf_free(b->scopes.items);
    rf_free(b);
}

/* ---- inputs ---- */

static rf_result add_input(rf_model_builder *b, rf_dtype dtype, rf_shape shape, const char *name)
{
    rf_layer_graph *graph = b->graph;
    char text[96], automatic[32];
    RF_REQUIRE(graph->num_inputs < RF_MAX_COMPONENTS, "rf_model_builder_input: more than %d inputs", RF_MAX_COMPONENTS);
    RF_REQUIRE(graph->uses.count == 0, "rf_model_builder_input: inputs come before the first layer");
    RF_REQUIRE(dtype > RF_DTYPE_INVALID && dtype < RF_DTYPE_COUNT, "rf_model_builder_input: dtype %d does not exist",
               (int)dtype);
    RF_REQUIRE(shape.rank >= 0 && shape.rank < RF_MAX_RANK && rf_shape_count(rf_shape_filled(shape, 1)) > 0,
               "rf_model_builder_input: shape %s is not that of an example",
               rf_shape_format(shape, text, sizeof(text)));
    snprintf(automatic, sizeof(automatic), graph->num_inputs ? "input_%u" : "input", graph->num_inputs);
    char *copy = rf_strdup(name ? name : automatic);
    if (!copy) return RF_ERROR_OUT_OF_HOST_MEMORY;
    b->input_names[graph->num_inputs] = copy;
    graph->inputs[graph->num_inputs++] = (rf_tensor_desc){ dtype, shape };
    graph->num_values++;
    return RF_OK;
}

rf_symbol rf_model_builder_input(rf_model_builder *builder, rf_dtype dtype, rf_shape shape, const char *name)
{
    if (!builder || builder->status < 0) return no_symbol;
    if (keep_failure(builder, add_input(builder, dtype, shape, name)) < 0) return no_symbol;
    return wrap_value(builder, builder->graph->num_values - 1);
}

/* ---- scopes ---- */

static rf_result enter_scope(rf_model_builder *b, const char *name)
{
    RF_REQUIRE(name && *name, "rf_model_builder_enter_scope: name is empty");
    RF_TRY(RF_VEC_GROW(&b->scopes));
    const char *outer = b->scopes.count ? b->scopes.items[b->scopes.count - 1] : "";
    char *prefix = rf_asprintf("%s%s/", outer, name);
    if (!prefix) return RF_ERROR_OUT_OF_HOST_MEMORY;
    b->scopes.items[b->scopes.count++] = prefix;
    return RF_OK;
}

rf_result rf_model_builder_enter_scope(rf_model_builder *builder, const char *name)
{
    RF_REQUIRE(builder, "rf_model_builder_enter_scope: builder is NULL");
    if (builder->status >= 0) (void)keep_failure(builder, enter_scope(builder, name));
    return status_of(builder);
}

rf_result rf_model_builder_leave_scope(rf_model_builder *builder)
{
    RF_REQUIRE(builder, "rf_model_builder_leave_scope: builder is NULL");
    if (builder->status >= 0 && builder->scopes.count == 0)
        (void)keep_failure(
            builder, RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "rf_model_builder_leave_scope: there is no scope to leave"));
    else if (builder->status >= 0)
        rf_free(builder->scopes.items[--builder->scopes.count]);
    return status_of(builder);
}

/* ---- layers ---- */

static bool name_taken(const rf_model_builder *b, const char *name)
{
    for (uint32_t i = 0; i < b->layers.count; i++)
        if (strcmp(b->layers.items[i]->name, name) == 0) return true;
    return false;
}

/* The name that it has or, with a number where that is taken, that of its kind, below the scope. */
static rf_result name_layer(const rf_model_builder *b, rf_layer *layer)
{
    /* Weights of another model's layer have its name, and so have their layers in files. */
    const bool scoped = b->scopes.count > 0 && !layer->kind->shares;
    const char *scope = scoped ? b->scopes.items[b->scopes.count - 1] : "";
    for (uint32_t n = 0;; n++) {
        const char *base = layer->name ? layer->name : layer->kind->base_name;
        char *name = n == 0 ? rf_asprintf("%s%s", scope, base) : rf_asprintf("%s%s_%u", scope, base, n);
        if (!name) return RF_ERROR_OUT_OF_HOST_MEMORY;
        if (!name_taken(b, name)) {
            rf_free(layer->name);
            layer->name = name;
            return RF_OK;
        }
        const rf_result r = layer->name ? RF_FAIL(RF_ERROR_INVALID_ARGUMENT,
                                                  "two layers are called '%s'; names are unique within a model", name)
                                        : RF_OK;
        rf_free(name);
        if (r < 0) return r;
    }
}

/* The layer's number, which it gets the first time. A layer that is refused is freed, as models do. */
static rf_result take_layer(rf_model_builder *b, rf_layer *layer, uint32_t *number)
{
    RF_REQUIRE(layer, "layer is NULL");
    for (*number = 0; *number < b->layers.count; ++*number)
        if (b->layers.items[*number] == layer) return RF_OK;
    RF_REQUIRE(!layer->model, "layer '%s' belongs to a model already", layer->name);
    rf_result r = RF_VEC_GROW(&b->layers);
    if (r >= 0) r = name_layer(b, layer);
    if (r < 0) {
        rf_layer_free(layer);
        return r;
    }
    b->layers.items[b->layers.count++] = layer;
    return RF_OK;
}

static rf_result add_use(rf_model_builder *b, rf_layer *layer, const rf_symbol *in, uint32_t num_in, rf_symbol mask,
                         uint32_t num_out)
{
    uint32_t number = 0;
    RF_TRY(take_layer(b, layer, &number));
    RF_REQUIRE(in && num_in > 0, "layer '%s' has no input", layer->name);
    RF_TRY(rf_layer_check_call(layer, num_in, mask.id != 0, num_out));
    uint32_t *values = RF_NEW_ARRAY(uint32_t, num_in);
    if (!values) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_result r = RF_OK;
    for (uint32_t i = 0; i < num_in; i++) {
        if (r >= 0 && !is_mine(b, in[i]))
            r = RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "input %u of layer '%s' is %s", i, layer->name,
                        in[i].id ? "a symbol of another builder" : "no symbol; was it set?");
        values[i] = in[i].id - 1;
    }
    if (r >= 0 && mask.id != 0 && !is_mine(b, mask))
        r = RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "the mask of layer '%s' is a symbol of another builder", layer->name);
    if (r >= 0) r = rf_layer_graph_add(b->graph, number, values, num_in, mask.id ? mask.id - 1 : RF_NO_VALUE, num_out);
    rf_free(values);
    return r;
}

static rf_result layer_apply(rf_model_builder *b, rf_layer *layer, const rf_symbol *in, uint32_t num_in, rf_symbol mask,
                             uint32_t num_out)
{
    RF_REQUIRE(b, "rf_model_builder_apply: builder is NULL");
    if (b->status < 0) {
        /* A layer that was never seen has no other owner by now. */
        uint32_t number;
        if (layer && !layer->model) (void)take_layer(b, layer, &number);
        return status_of(b);
    }
    return keep_failure(b, rf_error_context(add_use(b, layer, in, num_in, mask, num_out), "rf_model_builder_apply"));
}

rf_result rf_model_builder_apply(rf_model_builder *builder, rf_layer *layer, const rf_symbol *in, uint32_t num_in,
                                 rf_symbol mask, rf_symbol *out, uint32_t num_out)
{
    /* `out` may be where `in` is. */
    const uint32_t first = builder ? builder->graph->num_values : 0;
    const rf_result r = layer_apply(builder, layer, in, num_in, mask, out ? num_out : 0);
    for (uint32_t i = 0; out && i < num_out; i++) out[i] = r < 0 ? no_symbol : wrap_value(builder, first + i);
    return r;
}

rf_symbol rf_model_builder_call_many(rf_model_builder *builder, rf_layer *layer, const rf_symbol *in, uint32_t num_in)
{
    rf_symbol out = no_symbol;
    (void)rf_model_builder_apply(builder, layer, in, num_in, no_symbol, &out, 1);
    return out;
}

rf_symbol rf_model_builder_call(rf_model_builder *builder, rf_layer *layer, rf_symbol x)
{
    return rf_model_builder_call_many(builder, layer, &x, 1);
}

/* ---- the model ---- */

static rf_result set_outputs(rf_model_builder *b, const rf_symbol *outputs, uint32_t num_outputs)
{
    RF_TRY(status_of(b));
    RF_REQUIRE(outputs && num_outputs > 0, "rf_model_builder_finish: the model has no output");
    RF_REQUIRE(num_outputs <= RF_MAX_COMPONENTS, "rf_model_builder_finish: num_outputs %u is over %d", num_outputs,
               RF_MAX_COMPONENTS);
    RF_REQUIRE(b->scopes.count == 0, "rf_model_builder_finish: the scope '%s' has not been left",
               b->scopes.items[b->scopes.count - 1]);
    for (uint32_t i = 0; i < num_outputs; i++) {
        RF_REQUIRE(is_mine(b, outputs[i]), "rf_model_builder_finish: outputs[%u] is %s", i,
                   outputs[i].id ? "a symbol of another builder" : "no symbol; was it set?");
        b->graph->outputs[i] = outputs[i].id - 1;
    }
    b->graph->num_outputs = num_outputs;
    return rf_error_context(
        rf_layer_graph_check(b->graph, b->layers.items, b->layers.count, (const char *const *)b->input_names),
        "rf_model_builder_finish");
}

static rf_result make_model(rf_model_builder *b, const char *const *output_names, rf_model **out)
{
    const rf_model_params params = { .num_inputs = b->graph->num_inputs,
                                     .num_outputs = b->graph->num_outputs,
                                     .input_names = (const char *const *)b->input_names,
                                     .output_names = output_names };
    rf_layer_graph *graph = b->graph;
    const uint32_t num_layers = b->layers.count;
    b->graph = NULL;
    b->layers.count = 0;
    return rf_model_create_from_graph(b->strategy, &params, graph, b->layers.items, num_layers, out);
}

rf_result rf_model_builder_finish(rf_model_builder **builder, const rf_symbol *outputs, uint32_t num_outputs,
                                  const char *const *output_names, rf_model **out)
{
    if (out) *out = NULL;
    RF_REQUIRE(builder && *builder, "rf_model_builder_finish: builder is NULL");
    rf_result r = out ? set_outputs(*builder, outputs, num_outputs)
                      : RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "rf_model_builder_finish: out is NULL");
    if (r >= 0) r = make_model(*builder, output_names, out);
    rf_model_builder_destroy(builder);
    return r;
}
