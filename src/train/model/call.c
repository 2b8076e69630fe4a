/* SPDX-License-Identifier: Apache-2.0 */
/* Models within a step: their layers in sequence, as a graph connects them, or as the caller's function does. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "trace/trace.h"
#include "train/model/layer_graph.h"

/* Where a call may end: after a layer of that name. */
static bool ends_at(const rf_layer *layer, const char *last)
{
    return last && strcmp(layer->name, last) == 0;
}

static rf_tensor call_sequence(rf_trace *t, rf_model *model, rf_tensor x, rf_mode mode, const char *last)
{
    for (uint32_t i = 0; i < model->layers.count; i++) {
        x = rf_layer_call(t, model, model->layers.items[i], x, mode);
        if (ends_at(model->layers.items[i], last)) break;
    }
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

/* Types and shapes of the inputs. `function` and, for models that have it but for one, the input are in the message. */
static bool describe_inputs(rf_trace *t, const rf_model *model, const rf_tensor *in, const char *function,
                            rf_tensor_desc *descs)
{
    for (uint32_t i = 0; i < model->num_inputs; i++) {
        char name[160] = "x";
        if (model->apply) snprintf(name, sizeof(name), "input '%s'", model->input_names[i]);
        char argument[224];
        snprintf(argument, sizeof(argument), "%s: %s", function, name);
        if (!rf_operand_desc(t, in[i], argument, &descs[i])) return false;
        if (descs[i].shape.rank >= 1) continue;
        (void)rf_trace_fail(t, RF_ERROR_INVALID_ARGUMENT, "%s is a scalar; dimension 0 must be the batch", argument);
        return false;
    }
    return true;
}

static bool describe_outputs(rf_trace *t, const rf_model *model, const rf_tensor *out, uint32_t num_out,
                             const char *function, rf_tensor_desc *descs)
{
    for (uint32_t i = 0; i < num_out; i++) {
        char argument[224] = "rf_model_call: result of the model";
        if (model->apply) snprintf(argument, sizeof(argument), "%s: output '%s'", function, model->output_names[i]);
        if (!rf_operand_desc(t, out[i], argument, &descs[i])) return false;
    }
    return true;
}

/* Attention to the places before the piece, too. */
static rf_result attend_on(rf_trace *t, rf_model *model, rf_layer *layer, rf_layer_apply_params *params,
                           const rf_model_pieces *pieces, uint32_t number, rf_tensor *value)
{
    rf_tensor out[3];
    params->start_index = pieces->start;
    for (int i = 0; i < 2; i++) params->cache[i] = pieces->cache[2 * number + i];
    RF_TRY(rf_layer_apply(t, model, layer, params, out, 3));
    *value = out[0];
    for (int i = 0; i < 2; i++) pieces->kept[2 * number + i] = out[1 + i];
    return RF_OK;
}

/* The first `num_uses`; `pieces` may be NULL. */
static rf_result call_uses(rf_trace *t, rf_model *model, const rf_layer_graph *graph, uint32_t num_uses, rf_mode mode,
                           const rf_model_pieces *pieces, rf_tensor *values, rf_tensor *operands)
{
    uint32_t made = graph->num_inputs, attention = 0;
    for (uint32_t i = 0; i < graph->operands.count; i++) operands[i] = RF_NO_TENSOR;
    for (uint32_t i = 0; i < num_uses; i++) {
        const rf_layer_use *use = &graph->uses.items[i];
        rf_tensor *in = operands + use->first_operand;
        for (uint32_t k = 0; k < use->num_in; k++) in[k] = values[graph->operands.items[use->first_operand + k]];
        rf_layer *layer = model->layers.items[use->layer];
        rf_layer_apply_params params = { .in = in,
                                         .num_in = use->num_in,
                                         .mask = use->mask == RF_NO_VALUE ? RF_NO_TENSOR : values[use->mask],
                                         .mode = mode };
        if (pieces && layer->kind->takes_start) params.start_index = pieces->start;
        if (pieces && layer->kind->takes_cache)
            RF_TRY(attend_on(t, model, layer, &params, pieces, attention++, &values[made]));
        else
            RF_TRY(rf_layer_apply(t, model, layer, &params, &values[made], use->num_out));
        made += use->num_out;
    }
    return RF_OK;
}

/* The uses of a graph up to the last one of the layer, and the number of its first output. */
static uint32_t find_end(const rf_model *model, const char *last, uint32_t *value)
{
    const rf_layer_graph *graph = model->graph;
    uint32_t made = graph->num_inputs, end = 0;
    for (uint32_t i = 0; i < graph->uses.count; i++) {
        if (ends_at(model->layers.items[graph->uses.items[i].layer], last)) {
            end = i + 1;
            *value = made;
        }
        made += graph->uses.items[i].num_out;
    }
    return end;
}

static rf_result graph_apply(rf_trace *t, rf_model *model, const rf_tensor *in, rf_tensor *out, rf_mode mode,
                             const rf_model_pieces *pieces, const char *last)
{
    const rf_layer_graph *graph = model->graph;
    uint32_t value = 0;
    const uint32_t num_uses = last ? find_end(model, last, &value) : graph->uses.count;
    rf_tensor *values = RF_NEW_ARRAY(rf_tensor, (size_t)graph->num_values + graph->operands.count);
    if (!values) return RF_ERROR_OUT_OF_HOST_MEMORY;
    memcpy(values, in, graph->num_inputs * sizeof(*values));
    const rf_result r = call_uses(t, model, graph, num_uses, mode, pieces, values, values + graph->num_values);
    for (uint32_t i = 0; r >= 0 && !last && i < graph->num_outputs; i++) out[i] = values[graph->outputs[i]];
    if (r >= 0 && last) out[0] = values[value];
    rf_free(values);
    return r;
}

rf_result rf_layer_graph_apply(rf_trace *t, rf_model *model, const rf_tensor *in, rf_tensor *out, rf_mode mode,
                               void *user)
{
    (void)user; /* the graph, which the model has as well */
    return graph_apply(t, model, in, out, mode, NULL, NULL);
}

static void call_layers(rf_trace *t, rf_model *model, const rf_tensor *in, rf_mode mode, const char *last,
                        rf_tensor *out)
{
    if (!model->apply) {
        out[0] =
            model->call ? model->call(t, model, in[0], mode, model->user) : call_sequence(t, model, in[0], mode, last);
        return;
    }
    const rf_result r =
        last ? graph_apply(t, model, in, out, mode, NULL, last) : model->apply(t, model, in, out, mode, model->user);
    if (r < 0)
        (void)rf_trace_emit(t, r, 0);
    else if (r > 0)
        (void)rf_trace_fail(t, RF_ERROR_INVALID_ARGUMENT, "rf_model_apply: the model's function returned %s",
                            rf_result_name(r));
}

/* The trace tells whether it failed. */
static void call_model(rf_trace *t, rf_model *model, const rf_tensor *in, rf_mode mode, const char *last,
                       rf_tensor *out, const char *function)
{
    const uint32_t num_out = last ? 1 : model->num_outputs;
    rf_tensor_desc descs[RF_MAX_COMPONENTS] = { 0 }, result_descs[RF_MAX_COMPONENTS] = { 0 };
    rf_tensor results[RF_MAX_COMPONENTS] = { { 0, 0 } };
    if (!describe_inputs(t, model, in, function, descs)) return;
    const uint32_t variables_before = model->tracked.count, callees_before = model->callees.count;
    rf_model_call_scope scope;
    const rf_result r = rf_model_enter_call(t, model, &scope);
    if (r < 0)
        (void)rf_trace_emit(t, r, 0);
    else
        call_layers(t, model, in, rf_mode_of(t, mode), last, results);
    /* A model gives f32, for losses and callers. */
    for (uint32_t i = 0; i < num_out; i++)
        if (rf_dtype_is_narrow(rf_tensor_dtype(t, results[i]))) results[i] = rf_cast(t, results[i], RF_F32);
    rf_model_leave_call(t, &scope);
    if (!describe_outputs(t, model, results, num_out, function, result_descs)) {
        unbuild_from(model, variables_before, callees_before);
        return;
    }
    memcpy(out, results, num_out * sizeof(*out));
    if (model->built) return;
    model->built = true;
    for (uint32_t i = 0; i < model->num_inputs; i++)
        model->inputs[i] = (rf_tensor_desc){ descs[i].dtype, rf_example_shape(descs[i].shape) };
    for (uint32_t i = 0; i < model->num_outputs; i++)
        model->outputs[i] = (rf_tensor_desc){ result_descs[i].dtype, rf_example_shape(result_descs[i].shape) };
}

/* Fails the trace where the model is none of its strategy's. */
static bool check_model(rf_trace *t, const rf_model *model, const char *function)
{
    if (model && rf_trace_strategy(t) == model->strategy) return true;
    (void)rf_trace_fail(t, RF_ERROR_INVALID_ARGUMENT, "%s: model is %s", function,
                        model ? "on another strategy than the function being traced" : "NULL");
    return false;
}

rf_tensor rf_model_call(rf_trace *t, rf_model *model, rf_tensor x, rf_mode mode)
{
    rf_tensor y = RF_NO_TENSOR;
    rf_tensor_desc desc;
    if (!rf_operand_desc(t, x, "rf_model_call: x", &desc) || !check_model(t, model, "rf_model_call")) return y;
    if (model->num_inputs != 1 || model->num_outputs != 1) {
        (void)rf_trace_fail(t, RF_ERROR_INVALID_ARGUMENT,
                            "rf_model_call: the model has %u inputs and %u outputs; use rf_model_apply()",
                            model->num_inputs, model->num_outputs);
        return y;
    }
    call_model(t, model, &x, mode, NULL, &y, "rf_model_call");
    return y;
}

rf_result rf_model_apply(rf_trace *t, rf_model *model, const rf_tensor *in, uint32_t num_in, rf_mode mode,
                         rf_tensor *out, uint32_t num_out)
{
    for (uint32_t i = 0; out && i < num_out && i < RF_MAX_COMPONENTS; i++) out[i] = RF_NO_TENSOR;
    RF_REQUIRE(t, "rf_model_apply: the trace is NULL");
    RF_TRY(rf_trace_status(t));
    if (!check_model(t, model, "rf_model_apply")) return rf_trace_status(t);
    if (!in || !out)
        return rf_trace_fail(t, RF_ERROR_INVALID_ARGUMENT, "rf_model_apply: %s is NULL", in ? "out" : "in");
    if (num_in != model->num_inputs || num_out != model->num_outputs) {
        char names[256];
        return rf_trace_fail(t, RF_ERROR_INVALID_ARGUMENT,
                             "rf_model_apply: num_in is %u and num_out %u; the model has %u inputs (%s) and %u outputs",
                             num_in, num_out, model->num_inputs,
                             rf_model_format_elements(model, false, names, sizeof(names)), model->num_outputs);
    }
    return rf_model_apply_all(t, model, in, mode, out);
}

rf_result rf_model_apply_part(rf_trace *t, rf_model *model, const rf_tensor *in, rf_mode mode, const char *last,
                              rf_tensor *out)
{
    for (uint32_t i = 0; i < model->num_outputs; i++) out[i] = RF_NO_TENSOR;
    call_model(t, model, in, mode, last, out, model->apply ? "rf_model_apply" : "rf_model_call");
    return rf_trace_status(t);
}

rf_result rf_model_apply_all(rf_trace *t, rf_model *model, const rf_tensor *in, rf_mode mode, rf_tensor *out)
{
    return rf_model_apply_part(t, model, in, mode, NULL, out);
}

rf_result rf_model_apply_piece(rf_trace *t, rf_model *model, const rf_tensor *in, const rf_model_pieces *pieces,
                               rf_tensor *out)
{
    return graph_apply(t, model, in, out, RF_INFERENCE, pieces, NULL);
}
