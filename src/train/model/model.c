/* SPDX-License-Identifier: Apache-2.0 */
#include "train/model/model.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/params.h"
#include "ops/ops.h"
#include "trace/trace.h"
#include "train/model/layer_graph.h"
#include "train/model/open_shape.h"
#include "train/optimizer/optimizer.h"

/* ---- layers of a model ---- */

static bool name_taken(const rf_model *model, const char *name)
{
    for (uint32_t i = 0; i < model->layers.count; i++) {
        if (strcmp(model->layers.items[i]->name, name) == 0) return true;
    }
    return false;
}

/* Keras' automatic names: "conv2d", "conv2d_1", ... */
static rf_result name_layer(const rf_model *model, rf_layer *layer)
{
    for (uint32_t n = 0; !layer->name; n++) {
        char *name = n == 0 ? rf_strdup(layer->kind->base_name) : rf_asprintf("%s_%u", layer->kind->base_name, n);
        if (!name) return RF_ERROR_OUT_OF_HOST_MEMORY;
        if (name_taken(model, name)) {
            rf_free(name);
        } else {
            layer->name = name;
        }
    }
    return RF_OK;
}

rf_result rf_model_adopt(rf_model *model, rf_layer *layer, const char *function)
{
    RF_REQUIRE(layer, "%s: layer %u is NULL", function, model->layers.count);
    RF_REQUIRE(!layer->model, "%s: layer '%s' belongs to %s model already", function, layer->name,
               layer->model == model ? "this" : "another");
    const rf_model *inner = rf_layer_model(layer);
    rf_result r =
        inner && rf_model_contains(inner, model)
            ? RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s: the layer is a model that has this one as a layer", function)
            : RF_OK;
    if (r == RF_OK && layer->name && name_taken(model, layer->name)) {
        r = RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s: two layers are called '%s'; names are unique within a model",
                    function, layer->name);
    }
    if (r == RF_OK) r = RF_VEC_GROW(&model->layers);
    if (r == RF_OK) r = name_layer(model, layer);
    if (r < 0) {
        rf_layer_free(layer);
        return r;
    }
    layer->model = model;
    model->layers.items[model->layers.count++] = layer;
    return RF_OK;
}

/* ---- creation ---- */

static rf_result model_create(rf_strategy *strategy, const rf_model_params *p, rf_model **out)
{
    rf_model *model = RF_NEW(rf_model);
    if (!model) return RF_ERROR_OUT_OF_HOST_MEMORY;
    model->references = 1;
    model->strategy = strategy;
    model->apply = p->apply;
    model->user = p->user;
    model->num_inputs = p->num_inputs ? p->num_inputs : 1;
    model->num_outputs = p->num_outputs ? p->num_outputs : 1;
    const rf_result r = rf_model_set_names(model, p->input_names, p->output_names);
    if (r < 0) {
        rf_model_destroy(&model);
        return r;
    }
    *out = model;
    return RF_OK;
}

rf_result rf_model_create(rf_strategy *strategy, const rf_model_params *params, rf_model **out)
{
    RF_REQUIRE(out, "rf_model_create: out is NULL");
    *out = NULL;
    RF_TRY(RF_PARAMS_CHECK(rf_model_params, params));
    RF_REQUIRE(strategy, "rf_model_create: strategy is NULL");
    RF_REQUIRE(params && params->apply, "rf_model_create: params->apply is NULL");
    RF_REQUIRE(params->num_inputs <= RF_MAX_COMPONENTS, "rf_model_create: num_inputs %u is over %d", params->num_inputs,
               RF_MAX_COMPONENTS);
    RF_REQUIRE(params->num_outputs <= RF_MAX_COMPONENTS, "rf_model_create: num_outputs %u is over %d",
               params->num_outputs, RF_MAX_COMPONENTS);
    return model_create(strategy, params, out);
}

rf_result rf_model_create_custom(rf_strategy *strategy, rf_model_call_fn call, void *user, rf_model **out)
{
    RF_REQUIRE(out, "rf_model_create_custom: out is NULL");
    *out = NULL;
    RF_REQUIRE(strategy, "rf_model_create_custom: strategy is NULL");
    RF_REQUIRE(call, "rf_model_create_custom: call is NULL");
    const rf_model_params params = { .user = user };
    RF_TRY(model_create(strategy, &params, out));
    (*out)->call = call;
    return RF_OK;
}

bool rf_model_is_data(const rf_model *model)
{
    return model->graph || rf_model_is_sequential(model);
}

bool rf_model_is_sequential(const rf_model *model)
{
    return !model->call && !model->apply;
}

rf_result rf_model_add_layer(rf_model *model, rf_layer *layer)
{
    if (!model && layer && !layer->model) rf_layer_free(layer);
    RF_REQUIRE(model, "rf_model_add_layer: model is NULL");
    RF_REQUIRE(!rf_model_is_data(model), "rf_model_add_layer: this is for custom models; the layers of a sequential or "
                                         "functional model are given when it is made");
    return rf_model_adopt(model, layer, "rf_model_add_layer");
}

/* Frees the layers from `first` on that no model owns; entries may repeat. */
static void free_layers(rf_layer *const *layers, uint32_t first, uint32_t count)
{
    for (uint32_t i = first; layers && i < count; i++) {
        bool repeated = false;
        for (uint32_t j = 0; j < i; j++) repeated = repeated || layers[j] == layers[i];
        if (layers[i] && !repeated && !layers[i]->model) rf_layer_free(layers[i]);
    }
}

static rf_result check_sequential(rf_strategy *strategy, rf_layer *const *layers, uint32_t num_layers)
{
    RF_REQUIRE(strategy, "rf_model_create_sequential: strategy is NULL");
    RF_REQUIRE(layers && num_layers > 0, "rf_model_create_sequential: layers is empty");
    return RF_OK;
}

rf_result rf_model_create_sequential(rf_strategy *strategy, rf_layer *const *layers, uint32_t num_layers,
                                     const rf_shape *input_shape, rf_model **out)
{
    rf_result r = out ? check_sequential(strategy, layers, num_layers)
                      : RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "rf_model_create_sequential: out is NULL");
    if (out) *out = NULL;
    const rf_model_params params = { 0 };
    rf_model *model = NULL;
    if (r == RF_OK) r = model_create(strategy, &params, &model);
    if (r < 0) {
        free_layers(layers, 0, num_layers);
        return r;
    }
    for (uint32_t i = 0; i < num_layers; i++) {
        r = rf_model_adopt(model, layers[i], "rf_model_create_sequential");
        if (r < 0) {
            free_layers(layers, i + 1, num_layers);
            rf_model_destroy(&model);
            return r;
        }
    }
    if (input_shape && input_shape->rank > 0) {
        r = rf_model_build(model, *input_shape);
        if (r < 0) {
            rf_model_destroy(&model);
            return r;
        }
    }
    *out = model;
    return RF_OK;
}

void rf_model_forget_traces(rf_model *model)
{
    if (model->compiled) model->destroy_compiled(&model->compiled);
    rf_function_destroy(&model->predict);
    if (model->generator) model->destroy_generator(&model->generator);
}

static void free_training(rf_model *m)
{
    rf_model_forget_traces(m);
    rf_optimizer *own = m->own_optimizer;
    rf_optimizer_destroy(&own); /* the program may have done so: rf_model_optimizer() gave it the handle */
    rf_optimizer_release(m->own_optimizer);
    m->own_optimizer = NULL;
}

/* Checkpoints that have it notice; models that call it go on. A second time, through a copy of the handle, changes
 * nothing while they exist. */
void rf_model_destroy(rf_model **model)
{
    if (!model || !*model) return;
    rf_model *m = *model;
    *model = NULL;
    if (m->destroyed) return;
    m->destroyed = true;
    free_training(m);
    rf_model_release(m);
}

rf_result rf_model_check_alive(const rf_model *model, const char *function)
{
    RF_REQUIRE(!model->destroyed,
               "%s: the model has been destroyed; destroy it after the checkpoints that it was added to", function);
    return RF_OK;
}

/* ---- building ---- */

typedef struct build_probe {
    rf_model *model;
    bool reached;
    rf_shape outputs[RF_MAX_COMPONENTS]; /* of an example */
} build_probe;

/* Calls the model once, which creates its variables, and gives the trace up. */
static rf_result build_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    build_probe *probe = user;
    RF_TRY(rf_model_apply_all(t, probe->model, in, RF_INFERENCE, out));
    for (uint32_t i = 0; i < probe->model->num_outputs; i++)
        probe->outputs[i] = rf_example_shape(rf_tensor_shape(t, out[i]));
    probe->reached = true;
    return RF_FAIL(RF_ERROR_CANCELLED, "rf_model_build: the model is built");
}

/* Runs that step on zeros. */
static rf_result build_on(rf_model *model, const rf_element *element, rf_shape *outputs)
{
    rf_error_record before;
    rf_error_save(&before);
    build_probe probe = { .model = model };
    const rf_function_params params = {
        .step = build_step, .user = &probe, .num_outputs = model->num_outputs, .name = "model_build"
    };
    rf_function *function = NULL;
    rf_result r = rf_function_create(model->strategy, &params, &function);
    if (r == RF_OK) r = rf_strategy_run(model->strategy, function, element, NULL);
    if (probe.reached) {
        /* Giving up on purpose is no failure that the caller should find in the record. */
        (void)rf_error_restore(&before);
        r = RF_OK;
    }
    memcpy(outputs, probe.outputs, sizeof(probe.outputs));
    rf_function_destroy(&function);
    return r;
}

/* The name of an input in messages of building. */
static const char *name_input(const rf_model *model, uint32_t index, char *text, size_t size)
{
    if (model->apply)
        snprintf(text, size, "rf_model_build: input '%s'", model->input_names[index]);
    else
        snprintf(text, size, "rf_model_build: input_shape");
    return text;
}

static rf_result check_built(const rf_model *model, const rf_tensor_desc *wanted)
{
    for (uint32_t i = 0; i < model->num_inputs; i++) {
        char name[128] = "", a[96], b[96];
        if (model->apply) snprintf(name, sizeof(name), " of input '%s'", model->input_names[i]);
        const rf_tensor_desc *is = &model->inputs[i];
        RF_REQUIRE(is->dtype == wanted[i].dtype, "rf_model_build: the model was built for %s%s, not %s",
                   rf_dtype_name(is->dtype), name, rf_dtype_name(wanted[i].dtype));
        RF_REQUIRE(rf_shape_equal(is->shape, wanted[i].shape) || rf_shape_fits(wanted[i].shape, is->shape),
                   "rf_model_build: the model was built for %s%s, not %s", rf_shape_format(is->shape, a, sizeof(a)),
                   name, rf_shape_format(wanted[i].shape, b, sizeof(b)));
    }
    return RF_OK;
}

#define MOST_OF_INPUT (INT64_C(1) << 36) /* elements: more is a mistake, and some allocators end the program for it */

/* With `size` in the place of what is open. */
static rf_result build_for_size(rf_model *model, const rf_tensor_desc *examples, int64_t size, rf_shape *outputs)
{
    char name[128], text[96];
    rf_element element = { .num_components = model->num_inputs };
    rf_result r = RF_OK;
    for (uint32_t i = 0; r == RF_OK && i < model->num_inputs; i++) {
        rf_array *input = &element.component[i];
        /* One example per replica, so that none of them is left out of the trace. */
        const rf_shape example = rf_shape_filled(examples[i].shape, size);
        *input = (rf_array){ .dtype = examples[i].dtype, .shape = { .rank = example.rank + 1 } };
        input->shape.dim[0] = rf_strategy_num_replicas_in_sync(model->strategy);
        memcpy(&input->shape.dim[1], example.dim, (size_t)example.rank * sizeof(example.dim[0]));
        const int64_t count = rf_shape_count(input->shape);
        if (count <= 0 || count > MOST_OF_INPUT)
            r = RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s %s is too large", name_input(model, i, name, sizeof(name)),
                        rf_shape_format(examples[i].shape, text, sizeof(text)));
        else if (!(input->data = rf_calloc((size_t)count, rf_dtype_size(input->dtype))))
            r = RF_ERROR_OUT_OF_HOST_MEMORY;
    }
    if (r == RF_OK) r = build_on(model, &element, outputs);
    for (uint32_t i = 0; i < model->num_inputs; i++) rf_free(element.component[i].data);
    return r;
}

/* `examples`: the inputs' types and shapes, without the batch. */
static rf_result model_build(rf_model *model, const rf_tensor_desc *examples)
{
    char name[128], text[96];
    bool open = false;
    rf_shape first[RF_MAX_COMPONENTS], other[RF_MAX_COMPONENTS];
    RF_TRY(rf_model_check_alive(model, "rf_model_build"));
    for (uint32_t i = 0; i < model->num_inputs; i++) {
        const rf_shape shape = examples[i].shape;
        RF_REQUIRE(shape.rank >= (model->apply ? 0 : 1) && shape.rank < RF_MAX_RANK &&
                       rf_shape_count(rf_shape_filled(shape, 1)) > 0,
                   "%s %s is not the shape of an example", name_input(model, i, name, sizeof(name)),
                   rf_shape_format(shape, text, sizeof(text)));
        open = open || rf_shape_is_open(shape);
    }
    if (model->built) return check_built(model, examples);
    RF_TRY(build_for_size(model, examples, RF_OPEN_SIZE, first));
    if (!open) return RF_OK;
    RF_TRY(build_for_size(model, examples, RF_OTHER_OPEN_SIZE, other));
    for (uint32_t i = 0; i < model->num_inputs; i++) model->inputs[i].shape = examples[i].shape;
    for (uint32_t i = 0; i < model->num_outputs; i++) model->outputs[i].shape = rf_shape_opened(first[i], other[i]);
    return RF_OK;
}

/* The type of the first input, where nobody says: i32 of a sequential model that begins with an embedding. */
static rf_dtype first_dtype(const rf_model *model)
{
    if (model->built) return model->inputs[0].dtype;
    if (!rf_model_is_sequential(model)) return RF_F32;
    const rf_layer *layer = model->layers.items[0];
    while (layer->inner) layer = layer->inner;
    if (rf_layer_model(layer)) return first_dtype(rf_layer_model(layer));
    return layer->kind->takes_indices ? RF_I32 : RF_F32;
}

rf_result rf_model_build(rf_model *model, rf_shape input_shape)
{
    RF_REQUIRE(model, "rf_model_build: model is NULL");
    return rf_model_build_for(model, first_dtype(model), input_shape);
}

rf_result rf_model_build_for(rf_model *model, rf_dtype dtype, rf_shape input_shape)
{
    RF_REQUIRE(model, "rf_model_build: model is NULL");
    RF_REQUIRE(dtype > RF_DTYPE_INVALID && dtype < RF_DTYPE_COUNT, "rf_model_build: dtype %d does not exist",
               (int)dtype);
    RF_REQUIRE(model->num_inputs == 1, "rf_model_build: the model has %u inputs; use rf_model_build_inputs()",
               model->num_inputs);
    return model_build(model, &(rf_tensor_desc){ dtype, input_shape });
}

rf_result rf_model_build_inputs(rf_model *model, const rf_element_spec *spec)
{
    char names[256];
    RF_TRY(RF_PARAMS_CHECK(rf_element_spec, spec));
    RF_REQUIRE(model, "rf_model_build_inputs: model is NULL");
    RF_REQUIRE(spec, "rf_model_build_inputs: spec is NULL");
    RF_REQUIRE(spec->num_components >= model->num_inputs && spec->num_components <= RF_MAX_COMPONENTS,
               "rf_model_build_inputs: spec has %u components; the model has %u inputs (%s)", spec->num_components,
               model->num_inputs, rf_model_format_elements(model, false, names, sizeof(names)));
    rf_tensor_desc examples[RF_MAX_COMPONENTS];
    for (uint32_t i = 0; i < model->num_inputs; i++) {
        RF_REQUIRE(spec->dtype[i] > RF_DTYPE_INVALID && spec->dtype[i] < RF_DTYPE_COUNT,
                   "rf_model_build_inputs: dtype %d of component %u does not exist", (int)spec->dtype[i], i);
        RF_REQUIRE(spec->shape[i].rank >= 1 && spec->shape[i].rank <= RF_MAX_RANK,
                   "rf_model_build_inputs: component %u, input '%s', has no dimension for the batch", i,
                   model->input_names[i]);
        examples[i] = (rf_tensor_desc){ spec->dtype[i], rf_example_shape(spec->shape[i]) };
    }
    return model_build(model, examples);
}

rf_result rf_model_create_from_graph(rf_strategy *strategy, const rf_model_params *params, rf_layer_graph *graph,
                                     rf_layer *const *layers, uint32_t num_layers, rf_model **out)
{
    rf_model_params p = *params;
    rf_model *model = NULL;
    *out = NULL;
    p.apply = rf_layer_graph_apply;
    p.user = graph;
    rf_result r = model_create(strategy, &p, &model);
    if (r < 0) {
        rf_layer_graph_free(graph);
        free_layers(layers, 0, num_layers);
        return r;
    }
    model->graph = graph;
    for (uint32_t i = 0; r >= 0 && i < num_layers; i++) {
        r = rf_model_adopt(model, layers[i], "rf_model_builder_finish");
        if (r < 0) free_layers(layers, i + 1, num_layers);
    }
    if (r >= 0) r = model_build(model, graph->inputs);
    if (r < 0) rf_model_destroy(&model);
    *out = model;
    return r;
}

/* ---- what a model has ---- */

static uint64_t count_of(const rf_variable *variable)
{
    return (uint64_t)rf_shape_count(rf_variable_shape(variable));
}

static bool layer_has(const rf_layer *layer, const rf_variable *variable)
{
    const rf_model *inner = rf_layer_model(layer);
    layer = rf_layer_original(layer);
    for (uint32_t i = 0; i < layer->num_variables; i++)
        if (layer->variables[i] == variable) return true;
    return inner && rf_model_variable_name(inner, variable);
}

/* The layer's variables, or those of the model that it applies; each once in a summary, where `counted` has a place for
 * each variable of the model. */
static uint64_t count_params(const rf_model *model, const rf_layer *layer, bool *counted)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < model->tracked.count; i++) {
        const rf_variable *variable = model->tracked.items[i].variable;
        if (counted[i] || !layer_has(layer, variable)) continue;
        counted[i] = true;
        count += count_of(variable);
    }
    return count;
}

uint64_t rf_model_num_params(const rf_model *model)
{
    uint64_t count = 0;
    for (uint32_t i = 0; model && i < model->tracked.count; i++) count += count_of(model->tracked.items[i].variable);
    return count;
}

rf_result rf_model_summary(const rf_model *model, char **text)
{
    RF_REQUIRE(text, "rf_model_summary: text is NULL");
    *text = NULL;
    RF_REQUIRE(model, "rf_model_summary: model is NULL");
    const uint32_t layers = rf_model_num_all_layers(model);
    rf_summary_row *rows = RF_NEW_ARRAY(rf_summary_row, (size_t)layers + model->tracked.count);
    bool *counted = RF_NEW_ARRAY(bool, model->tracked.count);
    if (!rows || !counted) {
        rf_free(rows);
        rf_free(counted);
        return RF_ERROR_OUT_OF_HOST_MEMORY;
    }
    uint32_t count = 0;
    for (uint32_t i = 0; i < layers; i++) {
        const rf_layer *layer = rf_model_any_layer(model, i);
        const uint64_t params = count_params(model, layer, counted);
        /* Layers of models that layers apply are within the rows of these. */
        if (layer->model != model && params == 0 && rf_model_is_data(model)) continue;
        rows[count++] = (rf_summary_row){ .name = layer->name,
                                          .type = layer->kind->type_name,
                                          .has_output = layer->called,
                                          .output = layer->output,
                                          .params = params };
    }
    for (uint32_t i = 0; i < model->tracked.count; i++) {
        const rf_model_variable *v = &model->tracked.items[i];
        if (counted[i]) continue;
        rows[count++] = (rf_summary_row){ .name = v->name, .type = "Variable", .params = count_of(v->variable) };
    }
    uint64_t states = 0;
    const rf_variable_list others = rf_model_state_variables(model);
    for (uint32_t i = 0; i < others.count; i++) states += count_of(others.items[i]);
    const char *title = rf_model_is_sequential(model) ? "sequential" : model->graph ? "functional" : "custom";
    const rf_result r = rf_summary_format(title, rows, count, states, text);
    rf_free(rows);
    rf_free(counted);
    return r;
}

/* ---- regularisation ---- */

/* value += factor * reduction of the variable. */
static rf_result add_penalty(rf_graph *g, rf_reduce_kind kind, float factor, rf_value variable, rf_value *total)
{
    rf_value sum, term;
    RF_TRY(rf_emit_reduce(g, kind, variable, NULL, 0, false, &sum));
    RF_TRY(rf_emit_unary(g, RF_FN_MUL_IMM, factor, sum, &term));
    if (*total == 0) {
        *total = term;
        return RF_OK;
    }
    const rf_value before = *total;
    return rf_emit_binary(g, RF_FN_ADD, 0.0f, before, term, total);
}

/* False where the trace has failed. */
static bool add_penalties(rf_trace *t, rf_regularizer reg, rf_variable *variable, rf_value *total)
{
    if (reg.l1 == 0.0f && reg.l2 == 0.0f) return true;
    const rf_value v = rf_trace_variable(t, variable);
    if (v == 0) return false;
    rf_graph *g = rf_trace_graph(t);
    rf_result r = RF_OK;
    if (reg.l1 != 0.0f) r = add_penalty(g, RF_REDUCE_KIND_SUM_ABS, reg.l1, v, total);
    if (r == RF_OK && reg.l2 != 0.0f) r = add_penalty(g, RF_REDUCE_KIND_SUM_SQUARES, reg.l2, v, total);
    if (r < 0) (void)rf_trace_emit(t, r, 0);
    return r >= 0;
}

/* Another model's layer: its weights are among those of this one. */
static bool uses_layer(const rf_model *model, const rf_layer *layer)
{
    return layer->num_variables > 0 && rf_model_variable_name(model, layer->variables[0]);
}

rf_tensor rf_model_regularization_loss(rf_trace *t, rf_model *model)
{
    if (!t || rf_trace_status(t) < 0) return RF_NO_TENSOR;
    if (!model) {
        (void)rf_trace_fail(t, RF_ERROR_INVALID_ARGUMENT, "rf_model_regularization_loss: model is NULL");
        return RF_NO_TENSOR;
    }
    rf_value total = 0;
    for (uint32_t i = 0; i < rf_model_num_all_layers(model); i++) {
        const rf_layer *layer = rf_model_any_layer(model, i);
        if (!rf_layer_is_regularized(layer)) continue;
        if (layer->model != model && !uses_layer(model, layer)) continue;
        if (!layer->built) {
            (void)rf_trace_fail(t, RF_ERROR_INVALID_ARGUMENT,
                                "rf_model_regularization_loss: layer '%s' has no weights yet; call the model first",
                                layer->name);
            return RF_NO_TENSOR;
        }
        for (uint32_t k = 0; k < layer->num_variables; k++)
            if (!add_penalties(t, layer->regularizers[k], layer->variables[k], &total)) return RF_NO_TENSOR;
    }
    return total ? rf_trace_wrap(t, total) : rf_constant(t, 0.0f);
}
