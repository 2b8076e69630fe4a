/* SPDX-License-Identifier: Apache-2.0 */
#include "train/model.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "ops/ops.h"
#include "train/fit/compile.h"
#include "train/optimizer/optimizer.h"
#include "train/trace_util.h"

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

/* Takes the layer over, also when it fails, unless it belongs to a model already. */
static rf_result adopt(rf_model *model, rf_layer *layer, const char *function)
{
    RF_REQUIRE(layer, "%s: layer %u is NULL", function, model->layers.count);
    RF_REQUIRE(!layer->model, "%s: layer '%s' belongs to %s model already", function, layer->name,
               layer->model == model ? "this" : "another");
    rf_result r = RF_OK;
    if (layer->name && name_taken(model, layer->name)) {
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

static rf_result build_layer(rf_model *model, rf_layer *layer, const rf_tensor_desc *x)
{
    if (!layer->kind->build) {
        layer->built = true;
        return RF_OK;
    }
    const bool first = !layer->built;
    const uint32_t tracked = model->tracked.count;
    rf_result r = layer->kind->build(layer, model->strategy, x->dtype, x->shape);
    for (uint32_t i = 0; r == RF_OK && first && i < layer->num_variables; i++)
        r = rf_model_track(model, layer->variables[i]);
    if (r < 0 && first) {
        rf_model_untrack(model, tracked, model->callees.count);
        rf_layer_drop_variables(layer);
    }
    if (r == RF_OK) layer->built = true;
    return r;
}

rf_tensor rf_layer_call(rf_trace *t, rf_model *model, rf_layer *layer, rf_tensor x, rf_mode mode)
{
    rf_tensor_desc desc;
    if (!rf_operand_desc(t, x, "rf_layer_call: x", &desc)) return RF_NO_TENSOR;
    if (!model || !layer || layer->model != model) {
        (void)rf_trace_fail(t, RF_ERROR_INVALID_ARGUMENT,
                            "rf_layer_call: layer is not one of this model; add it with "
                            "rf_model_add_layer()");
        return RF_NO_TENSOR;
    }
    rf_result r = rf_model_note_callee(t, model);
    if (r == RF_OK) r = build_layer(model, layer, &desc);
    if (r < 0) return rf_trace_emit(t, r, 0);
    layer->input = desc.shape;
    const rf_tensor y = layer->kind->call(t, layer, x, mode);
    layer->called = rf_operand_desc(t, y, layer->name, &desc);
    if (!layer->called) return RF_NO_TENSOR;
    layer->output = desc.shape;
    return y;
}

/* ---- creation ---- */

rf_result rf_model_create_custom(rf_strategy *strategy, rf_model_call_fn call, void *user, rf_model **out)
{
    RF_REQUIRE(out, "rf_model_create_custom: out is NULL");
    *out = NULL;
    RF_REQUIRE(strategy, "rf_model_create_custom: strategy is NULL");
    RF_REQUIRE(call, "rf_model_create_custom: call is NULL");
    rf_model *model = RF_NEW(rf_model);
    if (!model) return RF_ERROR_OUT_OF_HOST_MEMORY;
    model->references = 1;
    model->strategy = strategy;
    model->call = call;
    model->user = user;
    *out = model;
    return RF_OK;
}

rf_result rf_model_add_layer(rf_model *model, rf_layer *layer)
{
    if (!model && layer && !layer->model) rf_layer_free(layer);
    RF_REQUIRE(model, "rf_model_add_layer: model is NULL");
    RF_REQUIRE(model->call, "rf_model_add_layer: the layers of a sequential model are given to "
                            "rf_model_create_sequential()");
    return adopt(model, layer, "rf_model_add_layer");
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
    rf_model *model = r == RF_OK ? RF_NEW(rf_model) : NULL;
    if (!model) {
        free_layers(layers, 0, num_layers);
        return r < 0 ? r : RF_ERROR_OUT_OF_HOST_MEMORY;
    }
    model->references = 1;
    model->strategy = strategy;
    for (uint32_t i = 0; i < num_layers; i++) {
        r = adopt(model, layers[i], "rf_model_create_sequential");
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

rf_model *rf_model_retain(rf_model *model)
{
    model->references++;
    return model;
}

void rf_model_release(rf_model *m)
{
    if (--m->references > 0) return;
    rf_model_untrack(m, 0, 0);
    for (uint32_t i = 0; i < m->layers.count; i++) rf_layer_free(m->layers.items[i]);
    rf_free(m->layers.items);
    rf_free(m->tracked.items);
    rf_free(m->variables.items);
    rf_free(m->state_variables.items);
    rf_free(m->callees.items);
    rf_arena_free(&m->names);
    rf_free(m);
}

static void free_training(rf_model *m)
{
    rf_compiled_destroy(&m->compiled);
    rf_function_destroy(&m->predict);
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

/* ---- calling and building ---- */

static rf_tensor call_sequence(rf_trace *t, rf_model *model, rf_tensor x, rf_mode mode)
{
    for (uint32_t i = 0; i < model->layers.count; i++) x = rf_layer_call(t, model, model->layers.items[i], x, mode);
    return x;
}

/* Takes back the variables that a call made which then failed: the next one may bring another shape. */
static void unbuild_from(rf_model *model, uint32_t first_variable, uint32_t first_callee)
{
    for (uint32_t i = 0; i < model->layers.count; i++) {
        rf_layer *layer = model->layers.items[i];
        for (uint32_t v = first_variable; v < model->tracked.count && layer->num_variables > 0; v++) {
            if (model->tracked.items[v].variable != layer->variables[0]) continue;
            rf_layer_drop_variables(layer);
            layer->built = false;
        }
    }
    rf_model_untrack(model, first_variable, first_callee);
}

rf_tensor rf_model_call(rf_trace *t, rf_model *model, rf_tensor x, rf_mode mode)
{
    rf_tensor_desc desc;
    if (!rf_operand_desc(t, x, "rf_model_call: x", &desc)) return RF_NO_TENSOR;
    if (!model || rf_trace_strategy(t) != model->strategy) {
        (void)rf_trace_fail(t, RF_ERROR_INVALID_ARGUMENT, "rf_model_call: model is %s",
                            model ? "on another strategy than the function being traced" : "NULL");
        return RF_NO_TENSOR;
    }
    if (desc.shape.rank < 1) {
        (void)rf_trace_fail(t, RF_ERROR_INVALID_ARGUMENT,
                            "rf_model_call: x is a scalar; dimension 0 must be the batch");
        return RF_NO_TENSOR;
    }
    const uint32_t variables_before = model->tracked.count, callees_before = model->callees.count;
    rf_model_call_scope scope;
    const rf_result r = rf_model_enter_call(t, model, &scope);
    rf_tensor y = RF_NO_TENSOR;
    if (r < 0)
        (void)rf_trace_emit(t, r, 0);
    else
        y = model->call ? model->call(t, model, x, mode, model->user) : call_sequence(t, model, x, mode);
    rf_model_leave_call(t, &scope);
    rf_value v;
    if (!rf_operand(t, y, "rf_model_call: result of the model", &v)) {
        unbuild_from(model, variables_before, callees_before);
        return RF_NO_TENSOR;
    }
    if (!model->built) {
        model->built = true;
        model->input_shape = rf_example_shape(desc.shape);
        model->input_dtype = desc.dtype;
    }
    return y;
}

typedef struct build_probe {
    rf_model *model;
    bool reached;
} build_probe;

/* Calls the model once, which creates its variables, and gives the trace up. */
static rf_result build_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    build_probe *probe = user;
    out[0] = rf_model_call(t, probe->model, in[0], RF_INFERENCE);
    RF_TRY(rf_trace_status(t));
    probe->reached = true;
    return RF_FAIL(RF_ERROR_CANCELLED, "rf_model_build: the model is built");
}

rf_result rf_model_build(rf_model *model, rf_shape input_shape)
{
    RF_REQUIRE(model, "rf_model_build: model is NULL");
    const bool indices = !model->call && model->layers.items[0]->kind->takes_indices;
    return rf_model_build_for(model, model->built ? model->input_dtype : indices ? RF_I32 : RF_F32, input_shape);
}

rf_result rf_model_build_for(rf_model *model, rf_dtype dtype, rf_shape input_shape)
{
    RF_REQUIRE(model, "rf_model_build: model is NULL");
    RF_REQUIRE(dtype > RF_DTYPE_INVALID && dtype < RF_DTYPE_COUNT, "rf_model_build: dtype %d does not exist",
               (int)dtype);
    RF_TRY(rf_model_check_alive(model, "rf_model_build"));
    char is[96], wanted[96];
    RF_REQUIRE(input_shape.rank >= 1 && input_shape.rank < RF_MAX_RANK && rf_shape_count(input_shape) > 0,
               "rf_model_build: input_shape %s is not the shape of an example",
               rf_shape_format(input_shape, wanted, sizeof(wanted)));
    if (model->built) {
        RF_REQUIRE(model->input_dtype == dtype, "rf_model_build: the model was built for %s, not %s",
                   rf_dtype_name(model->input_dtype), rf_dtype_name(dtype));
        RF_REQUIRE(
            rf_shape_equal(model->input_shape, input_shape), "rf_model_build: the model was built for %s, not %s",
            rf_shape_format(model->input_shape, is, sizeof(is)), rf_shape_format(input_shape, wanted, sizeof(wanted)));
        return RF_OK;
    }
    /* One example per replica, so that none of them is left out of the trace. */
    rf_element element = { .num_components = 1 };
    rf_array *input = &element.component[0];
    input->dtype = dtype;
    input->shape.rank = input_shape.rank + 1;
    input->shape.dim[0] = rf_strategy_num_replicas_in_sync(model->strategy);
    memcpy(&input->shape.dim[1], input_shape.dim, (size_t)input_shape.rank * sizeof(input_shape.dim[0]));
    const int64_t count = rf_shape_count(input->shape);
    RF_REQUIRE(count > 0, "rf_model_build: input_shape %s is too large",
               rf_shape_format(input_shape, wanted, sizeof(wanted)));
    input->data = rf_calloc((size_t)count, rf_dtype_size(dtype));
    if (!input->data) return RF_ERROR_OUT_OF_HOST_MEMORY;

    rf_error_record before;
    rf_error_save(&before);
    build_probe probe = { .model = model };
    const rf_function_params params = { .step = build_step, .user = &probe, .num_outputs = 1, .name = "model_build" };
    rf_function *function = NULL;
    rf_result r = rf_function_create(model->strategy, &params, &function);
    if (r == RF_OK) r = rf_strategy_run(model->strategy, function, &element, NULL);
    if (probe.reached) {
        /* Giving up on purpose is no failure that the caller should find in the record. */
        (void)rf_error_restore(&before);
        r = RF_OK;
    }
    rf_function_destroy(&function);
    rf_free(input->data);
    return r;
}

/* ---- what a model has ---- */

rf_variable_list rf_model_variables(const rf_model *model)
{
    if (!model) return (rf_variable_list){ 0 };
    return (rf_variable_list){ .items = model->variables.items, .count = model->variables.count };
}

rf_variable_list rf_model_state_variables(const rf_model *model)
{
    if (!model) return (rf_variable_list){ 0 };
    return (rf_variable_list){ .items = model->state_variables.items, .count = model->state_variables.count };
}

static uint64_t count_params(const rf_layer *layer)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < layer->num_variables; i++) {
        count += (uint64_t)rf_shape_count(rf_variable_shape(layer->variables[i]));
    }
    return count;
}

uint64_t rf_model_count_params(const rf_model *model)
{
    uint64_t count = 0;
    for (uint32_t i = 0; model && i < model->tracked.count; i++)
        count += (uint64_t)rf_shape_count(rf_variable_shape(model->tracked.items[i].variable));
    return count;
}

static bool of_a_layer(const rf_model *model, const rf_variable *variable)
{
    for (uint32_t i = 0; i < rf_model_num_layers(model); i++) {
        const rf_layer *layer = rf_model_layer(model, i);
        for (uint32_t k = 0; k < layer->num_variables; k++)
            if (layer->variables[k] == variable) return true;
    }
    return false;
}

rf_result rf_model_summary(const rf_model *model, char **text)
{
    RF_REQUIRE(text, "rf_model_summary: text is NULL");
    *text = NULL;
    RF_REQUIRE(model, "rf_model_summary: model is NULL");
    const uint32_t layers = rf_model_num_layers(model);
    rf_summary_row *rows = RF_NEW_ARRAY(rf_summary_row, (size_t)layers + model->tracked.count);
    if (!rows) return RF_ERROR_OUT_OF_HOST_MEMORY;
    uint32_t count = 0;
    for (uint32_t i = 0; i < layers; i++) {
        const rf_layer *layer = rf_model_layer(model, i);
        rows[count++] = (rf_summary_row){ .name = layer->name,
                                          .type = layer->kind->type_name,
                                          .has_output = layer->called,
                                          .output = layer->output,
                                          .params = count_params(layer) };
    }
    for (uint32_t i = 0; i < model->tracked.count; i++) {
        const rf_model_variable *v = &model->tracked.items[i];
        if (of_a_layer(model, v->variable)) continue;
        rows[count++] = (rf_summary_row){ .name = v->name,
                                          .type = "Variable",
                                          .params = (uint64_t)rf_shape_count(rf_variable_shape(v->variable)) };
    }
    uint64_t states = 0;
    for (uint32_t i = 0; i < model->state_variables.count; i++)
        states += (uint64_t)rf_shape_count(rf_variable_shape(model->state_variables.items[i]));
    const rf_result r = rf_summary_format(model->call ? "custom" : "sequential", rows, count, states, text);
    rf_free(rows);
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

rf_tensor rf_model_regularization_loss(rf_trace *t, rf_model *model)
{
    if (!t || rf_trace_status(t) < 0) return RF_NO_TENSOR;
    if (!model) {
        (void)rf_trace_fail(t, RF_ERROR_INVALID_ARGUMENT, "rf_model_regularization_loss: model is NULL");
        return RF_NO_TENSOR;
    }
    rf_value total = 0;
    for (uint32_t i = 0; i < rf_model_num_layers(model); i++) {
        const rf_layer *layer = rf_model_layer(model, i);
        if (!rf_layer_is_regularized(layer)) continue;
        if (!layer->built && layer->model != model) continue; /* a layer that this model does not use */
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
