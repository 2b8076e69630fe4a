/* SPDX-License-Identifier: Apache-2.0 */
/* Layers within a step: their variables are made at the first call, and each call checks what the layer gets. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/params.h"
#include "replica/store/variables.h"
#include "trace/trace.h"
#include "train/model/model.h"

/* ---- variables ---- */

void rf_layer_freeze_variables(rf_layer *layer)
{
    for (uint32_t i = 0; i < layer->num_variables; i++) layer->variables[i]->frozen = layer->frozen;
}

rf_layer_state rf_layer_state_of(const rf_layer *layer)
{
    rf_layer_state state = { .frozen = layer->frozen, .num_variables = layer->num_variables };
    for (uint32_t i = 0; i < layer->num_variables; i++) state.variables[i] = layer->variables[i]->frozen;
    return state;
}

void rf_layer_exchange_state(rf_layer *layer, rf_layer_state *state)
{
    const rf_layer_state now = rf_layer_state_of(layer);
    layer->frozen = state->frozen;
    for (uint32_t i = 0; i < layer->num_variables; i++)
        layer->variables[i]->frozen = i < state->num_variables ? state->variables[i] : state->frozen;
    *state = now;
}

rf_result rf_layer_set_dtype_policy(rf_layer *layer, const rf_dtype_policy *policy)
{
    rf_dtype type;
    RF_TRY(rf_dtype_policy_type(policy, "rf_layer_set_dtype_policy", &type));
    RF_REQUIRE(layer, "rf_layer_set_dtype_policy: layer is NULL");
    RF_REQUIRE(!layer->built, "rf_layer_set_dtype_policy: layer '%s' was called already; set its policy before",
               layer->name);
    layer->compute = type;
    return RF_OK;
}

bool rf_layer_trainable(const rf_layer *layer)
{
    return layer && !layer->frozen;
}

static rf_result build_kind(rf_layer *layer, rf_strategy *strategy, const rf_tensor_desc *in, uint32_t num_in)
{
    const rf_layer_kind *kind = layer->kind;
    if (kind->build_inputs) return kind->build_inputs(layer, strategy, in, num_in);
    return kind->build ? kind->build(layer, strategy, in[0].dtype, in[0].shape) : RF_OK;
}

static rf_result build_layer(rf_model *model, rf_layer *layer, const rf_tensor_desc *in, uint32_t num_in)
{
    const bool first = !layer->built;
    const uint32_t tracked = model->tracked.count;
    rf_result r = build_kind(layer, model->strategy, in, num_in);
    for (uint32_t i = 0; r == RF_OK && first && i < layer->num_variables; i++)
        r = rf_model_track(model, layer->variables[i]);
    if (r < 0 && first) {
        rf_model_untrack(model, tracked, model->callees.count);
        rf_layer_drop_variables(layer);
    }
    if (r < 0) return r;
    layer->built = true;
    if (first && layer->compute == RF_DTYPE_INVALID) layer->compute = rf_strategy_compute(model->strategy);
    if (first) rf_layer_freeze_variables(layer);
    return RF_OK;
}

/* Types and shapes of the inputs; false where the trace has failed. `function` begins messages. */
static bool describe_inputs(rf_trace *t, const rf_layer *layer, const rf_layer_apply_params *p, const char *function,
                            rf_tensor_desc *descs)
{
    char argument[128];
    for (uint32_t i = 0; i < p->num_in; i++) {
        snprintf(argument, sizeof(argument), "%s: input %u of layer '%.60s'", function, i, layer->name);
        if (!layer->kind->apply) snprintf(argument, sizeof(argument), "%s: x", function);
        if (!rf_operand_desc(t, p->in[i], argument, &descs[i])) return false;
    }
    snprintf(argument, sizeof(argument), "%s: the mask of layer '%.60s'", function, layer->name);
    rf_value mask;
    return p->mask.id == 0 || rf_operand(t, p->mask, argument, &mask);
}

/* ---- calls ---- */

/* Which layer it was that an operation refused: most messages of operations do not know. */
static void name_layer_in_failure(rf_trace *t, const rf_layer *layer)
{
    char quoted[160];
    snprintf(quoted, sizeof(quoted), "'%s'", layer->name);
    if (rf_trace_status(t) < 0 && !strstr(rf_error_message(), quoted)) rf_trace_context(t, "layer %s", quoted);
}

static void call_kind(rf_trace *t, rf_layer *layer, const rf_layer_apply_params *p, rf_tensor *out, uint32_t num_out)
{
    if (layer->kind->apply)
        layer->kind->apply(t, layer, p, out, num_out);
    else
        out[0] = layer->kind->call(t, layer, p->in[0], p->mode);
    for (uint32_t i = 0; i < num_out; i++) {
        rf_tensor_desc desc;
        layer->called = rf_operand_desc(t, out[i], layer->name, &desc);
        if (!layer->called) return;
        if (i == 0) layer->output = desc.shape;
    }
}

/* Floats that go into a layer are in the type that it computes in. `cast` has room for all inputs, of which `descs`
 * tells; variables are made for f32. */
static void cast_inputs(rf_trace *t, const rf_layer *layer, const rf_layer_apply_params *p, rf_tensor *cast)
{
    const rf_dtype type = rf_layer_type(t, layer);
    for (uint32_t i = 0; i < p->num_in; i++) {
        const rf_dtype is = rf_tensor_dtype(t, p->in[i]);
        cast[i] = rf_dtype_is_float(is) && is != type ? rf_cast(t, p->in[i], type) : p->in[i];
    }
}

/* `descs` and `cast` have room for all inputs. */
static rf_result layer_apply(rf_trace *t, rf_model *model, rf_layer *layer, const rf_layer_apply_params *p,
                             rf_tensor_desc *descs, rf_tensor *cast, rf_tensor *out, uint32_t num_out,
                             const char *function)
{
    char name[128];
    if (!describe_inputs(t, layer, p, function, descs)) return rf_trace_status(t);
    for (uint32_t i = 0; i < p->num_in; i++)
        if (rf_dtype_is_narrow(descs[i].dtype)) descs[i].dtype = RF_F32;
    rf_result r = rf_model_note_callee(t, model);
    if (r == RF_OK) r = build_layer(model, layer, descs, p->num_in);
    if (r < 0) {
        (void)rf_trace_emit(t, r, 0);
        return r;
    }
    layer->input = descs[0].shape;
    rf_layer_apply_params given = *p;
    given.mode = rf_mode_of(t, p->mode);
    cast_inputs(t, layer, p, cast);
    given.in = cast;
    snprintf(name, sizeof(name), "layer '%.100s'", layer->name);
    rf_trace_enter_layer(t, name);
    call_kind(t, layer, &given, out, num_out);
    rf_trace_leave_layer(t);
    name_layer_in_failure(t, layer);
    return rf_trace_status(t);
}

/* Fails the trace where the layer is none of the model's. */
static bool check_layer(rf_trace *t, const rf_model *model, const rf_layer *layer, const char *function)
{
    if (model && layer && layer->model == model) return true;
    (void)rf_trace_fail(t, RF_ERROR_INVALID_ARGUMENT,
                        "%s: layer is not one of this model; add it with rf_model_add_layer()", function);
    return false;
}

static rf_result apply_checked(rf_trace *t, rf_model *model, rf_layer *layer, const rf_layer_apply_params *p,
                               rf_tensor *out, uint32_t num_out, const char *function)
{
    rf_tensor_desc some[RF_MAX_COMPONENTS], *descs = some;
    rf_tensor few[RF_MAX_COMPONENTS] = { { 0, 0 } }, *cast = few;
    rf_result r = rf_layer_check_call(layer, p->num_in, p->mask.id != 0, num_out);
    if (r == RF_OK) r = rf_layer_check_pieces(layer, p);
    if (r == RF_OK && p->num_in > RF_MAX_COMPONENTS) {
        descs = RF_NEW_ARRAY(rf_tensor_desc, p->num_in);
        cast = RF_NEW_ARRAY(rf_tensor, p->num_in);
        if (!descs || !cast) r = RF_ERROR_OUT_OF_HOST_MEMORY;
    }
    if (r == RF_OK)
        r = layer_apply(t, model, layer, p, descs, cast, out, num_out, function);
    else
        (void)rf_trace_emit(t, r, 0);
    if (descs != some) rf_free(descs);
    if (cast != few) rf_free(cast);
    return r;
}

rf_tensor rf_layer_call(rf_trace *t, rf_model *model, rf_layer *layer, rf_tensor x, rf_mode mode)
{
    rf_tensor y = RF_NO_TENSOR;
    rf_tensor_desc desc;
    if (!rf_operand_desc(t, x, "rf_layer_call: x", &desc) || !check_layer(t, model, layer, "rf_layer_call")) return y;
    const rf_layer_apply_params params = { .in = &x, .num_in = 1, .mode = mode };
    return apply_checked(t, model, layer, &params, &y, 1, "rf_layer_call") < 0 ? RF_NO_TENSOR : y;
}

static rf_result apply_public(rf_trace *t, rf_model *model, rf_layer *layer, const rf_layer_apply_params *params,
                              rf_tensor *out, uint32_t num_out)
{
    RF_TRY(RF_PARAMS_CHECK(rf_layer_apply_params, params));
    RF_REQUIRE(t, "rf_layer_apply: the trace is NULL");
    RF_TRY(rf_trace_status(t));
    if (!check_layer(t, model, layer, "rf_layer_apply")) return rf_trace_status(t);
    if (!params || (params->num_in > 0 && !params->in) || !out)
        return rf_trace_fail(t, RF_ERROR_INVALID_ARGUMENT, "rf_layer_apply: %s is NULL",
                             !params ? "params"
                             : !out  ? "out"
                                     : "params->in");
    return apply_checked(t, model, layer, params, out, num_out, "rf_layer_apply");
}

rf_result rf_layer_apply(rf_trace *t, rf_model *model, rf_layer *layer, const rf_layer_apply_params *params,
                         rf_tensor *out, uint32_t num_out)
{
    const rf_result r = apply_public(t, model, layer, params, out, num_out);
    for (uint32_t i = 0; r < 0 && out && i < num_out && i < RF_MAX_COMPONENTS; i++) out[i] = RF_NO_TENSOR;
    return r;
}
