/* SPDX-License-Identifier: Apache-2.0 */
/* Recurrent layers, one way and both ways. */
#include "base/error.h"
#include "base/memory.h"
#include "base/params.h"
#include "trace/trace.h"
#include "train/layers/layer.h"

enum { MOST_VARIABLES = 4 }; /* of a direction: kernel, recurrent_kernel, bias, recurrent_bias */

static int64_t num_gates(const rf_layer *layer)
{
    return layer->u.rnn.kind == RF_RNN_GRU ? 3 : layer->u.rnn.kind == RF_RNN_LSTM ? 4 : 1;
}

/* The bias of a GRU's state stands beside that of its input, because the reset gate comes between them. */
static bool has_recurrent_bias(const rf_layer *layer)
{
    return layer->u.rnn.use_bias && layer->u.rnn.kind == RF_RNN_GRU && !layer->u.rnn.reset_before;
}

static uint32_t variables_of_direction(const rf_layer *layer)
{
    return 2 + (uint32_t)layer->u.rnn.use_bias + (uint32_t)has_recurrent_bias(layer);
}

static uint32_t num_states(const rf_layer *layer)
{
    return layer->u.rnn.kind == RF_RNN_LSTM ? 2 : 1;
}

/* ---- variables ---- */

static rf_result check_inputs(const rf_layer *layer, const rf_tensor_desc *in, uint32_t num_in)
{
    char text[96];
    RF_REQUIRE(in[0].dtype == RF_F32 && in[0].shape.rank == 3,
               "layer '%s' needs an input f32 [n, steps, features], got %s %s", layer->name, rf_dtype_name(in[0].dtype),
               rf_shape_format(in[0].shape, text, sizeof(text)));
    RF_REQUIRE(num_in == 1 || num_in == 1 + num_states(layer), "layer '%s' takes a sequence and %u state%s, got %u",
               layer->name, num_states(layer), num_states(layer) == 1 ? "" : "s", num_in - 1);
    for (uint32_t i = 1; i < num_in; i++)
        RF_REQUIRE(in[i].dtype == RF_F32 && in[i].shape.rank == 2 && in[i].shape.dim[1] == layer->u.rnn.units,
                   "layer '%s': state %u is %s %s, not f32 [n, %d]", layer->name, i - 1, rf_dtype_name(in[i].dtype),
                   rf_shape_format(in[i].shape, text, sizeof(text)), (int)layer->u.rnn.units);
    if (!layer->built) return RF_OK;
    const int64_t features = rf_variable_shape(layer->variables[0]).dim[0];
    RF_REQUIRE(in[0].shape.dim[2] == features, "layer '%s' was built for %lld features, got %s", layer->name,
               (long long)features, rf_shape_format(in[0].shape, text, sizeof(text)));
    return RF_OK;
}

/* Zeros and, for the forget gate of an LSTM, ones (Jozefowicz, Zaremba & Sutskever 2015). */
static rf_result add_bias(rf_layer *layer, rf_strategy *strategy, const char *suffix)
{
    const int64_t units = layer->u.rnn.units, count = num_gates(layer) * units;
    if (layer->u.rnn.kind != RF_RNN_LSTM || !layer->u.rnn.unit_forget_bias)
        return rf_layer_add_variable(layer, strategy, suffix, RF_SHAPE(count),
                                     (rf_initializer){ .kind = RF_INIT_ZEROS });
    float *value = RF_NEW_ARRAY(float, (size_t)count);
    if (!value) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (int64_t i = units; i < 2 * units; i++) value[i] = 1.0f;
    const rf_result r = rf_layer_add_value(layer, strategy, suffix, RF_SHAPE(count), value);
    rf_free(value);
    return r;
}

static rf_result add_direction(rf_layer *layer, rf_strategy *strategy, int64_t features, const char *prefix)
{
    static const char *const suffixes[MOST_VARIABLES] = { "kernel", "recurrent_kernel", "bias", "recurrent_bias" };
    const int64_t units = layer->u.rnn.units, width = num_gates(layer) * units;
    for (uint32_t i = 0; i < variables_of_direction(layer); i++) {
        char *suffix = rf_asprintf("%s%s", prefix, suffixes[i]);
        if (!suffix) return RF_ERROR_OUT_OF_HOST_MEMORY;
        rf_result r;
        if (i == 0)
            r = rf_layer_add_variable(layer, strategy, suffix, RF_SHAPE(features, width),
                                      layer->u.rnn.kernel_initializer);
        else if (i == 1)
            r = rf_layer_add_variable(layer, strategy, suffix, RF_SHAPE(units, width),
                                      layer->u.rnn.recurrent_initializer);
        else
            r = add_bias(layer, strategy, suffix);
        rf_free(suffix);
        RF_TRY(r);
    }
    return RF_OK;
}

static rf_result rnn_build(rf_layer *layer, rf_strategy *strategy, const rf_tensor_desc *in, uint32_t num_in)
{
    RF_TRY(check_inputs(layer, in, num_in));
    return layer->built ? RF_OK : add_direction(layer, strategy, in[0].shape.dim[2], "");
}

static rf_result bidirectional_build(rf_layer *layer, rf_strategy *strategy, const rf_tensor_desc *in, uint32_t num_in)
{
    RF_TRY(check_inputs(layer, in, num_in));
    if (layer->built) return RF_OK;
    RF_TRY(add_direction(layer, strategy, in[0].shape.dim[2], "forward/"));
    return add_direction(layer, strategy, in[0].shape.dim[2], "backward/");
}

/* ---- calls ---- */

static rf_tensor mask_of(rf_trace *t, const rf_layer *layer, const rf_layer_apply_params *p)
{
    if (p->mask.id == 0) return RF_NO_TENSOR;
    const rf_shape is = rf_tensor_shape(t, p->mask), x = rf_tensor_shape(t, p->in[0]);
    char a[96], b[96];
    if (!rf_shape_equal(is, RF_SHAPE(x.dim[0], x.dim[1]))) {
        (void)rf_trace_fail(t, RF_ERROR_INVALID_ARGUMENT, "layer '%s': the mask is %s, not [n, steps] of the input %s",
                            layer->name, rf_shape_format(is, a, sizeof(a)), rf_shape_format(x, b, sizeof(b)));
        return RF_NO_TENSOR;
    }
    return rf_tensor_dtype(t, p->mask) == RF_F32 ? p->mask : rf_cast(t, p->mask, RF_F32);
}

/* One direction with the variables from `v` on: h after each step, in the order of the input, and the last states. */
static void run_direction(rf_trace *t, const rf_layer *layer, rf_variable *const *v, const rf_layer_apply_params *p,
                          bool backwards, rf_tensor *sequence, rf_tensor *final)
{
    const rf_rnn_params params = { .kind = layer->u.rnn.kind,
                                   .reset_before = layer->u.rnn.reset_before,
                                   .backwards = backwards,
                                   .mask = mask_of(t, layer, p) };
    rf_tensor state[2] = { RF_NO_TENSOR, RF_NO_TENSOR };
    rf_tensor x = rf_matmul(t, p->in[0], rf_variable_tensor(t, v[0]), RF_TRANSPOSE_NONE);
    if (layer->u.rnn.use_bias) x = rf_bias_add(t, x, rf_variable_tensor(t, v[2]));
    for (uint32_t i = 1; i < p->num_in; i++) state[i - 1] = p->in[i];
    const rf_tensor bias = has_recurrent_bias(layer) ? rf_variable_tensor(t, v[3]) : RF_NO_TENSOR;
    (void)rf_rnn(t, x, rf_variable_tensor(t, v[1]), bias, state, &params, sequence, final);
}

static void rnn_apply(rf_trace *t, const rf_layer *layer, const rf_layer_apply_params *p, rf_tensor *out,
                      uint32_t num_out)
{
    rf_tensor sequence, final[2];
    run_direction(t, layer, layer->variables, p, layer->u.rnn.go_backwards, &sequence, final);
    out[0] = final[0];
    if (layer->u.rnn.return_sequences) out[0] = layer->u.rnn.go_backwards ? rf_reverse(t, sequence, 1) : sequence;
    for (uint32_t i = 1; i < num_out; i++) out[i] = final[i - 1];
}

static rf_tensor merge_directions(rf_trace *t, rf_merge how, rf_tensor forward, rf_tensor backward)
{
    const rf_tensor both[2] = { forward, backward };
    switch (how) {
    case RF_MERGE_SUM: return rf_add(t, forward, backward);
    case RF_MERGE_MULTIPLY: return rf_multiply(t, forward, backward);
    case RF_MERGE_AVERAGE: return rf_multiply(t, rf_add(t, forward, backward), rf_constant(t, 0.5f));
    case RF_MERGE_CONCATENATE: break;
    }
    return rf_concat(t, both, 2, -1);
}

static void bidirectional_apply(rf_trace *t, const rf_layer *layer, const rf_layer_apply_params *p, rf_tensor *out,
                                uint32_t num_out)
{
    rf_tensor sequence[2], final[2][2];
    const uint32_t states = num_states(layer);
    run_direction(t, layer, layer->variables, p, false, &sequence[0], final[0]);
    run_direction(t, layer, layer->variables + variables_of_direction(layer), p, true, &sequence[1], final[1]);
    out[0] = layer->u.rnn.return_sequences ? merge_directions(t, layer->u.rnn.merge, sequence[0], sequence[1])
                                           : merge_directions(t, layer->u.rnn.merge, final[0][0], final[1][0]);
    for (uint32_t i = 1; i < num_out; i++) out[i] = final[(i - 1) / states][(i - 1) % states];
}

/* ---- kinds ---- */

#define RNN_KIND(name, base, type, states)                                                                             \
    static const rf_layer_kind name##_kind = { .base_name = (base),                                                    \
                                               .type_name = (type),                                                    \
                                               .build_inputs = rnn_build,                                              \
                                               .apply = rnn_apply,                                                     \
                                               .min_inputs = 1,                                                        \
                                               .max_inputs = 1 + (states),                                             \
                                               .max_outputs = 1 + (states),                                            \
                                               .takes_mask = true }
RNN_KIND(gru, "gru", "GRU", 1);
RNN_KIND(lstm, "lstm", "LSTM", 2);
RNN_KIND(simple_rnn, "simple_rnn", "SimpleRNN", 1);

#define BIDIRECTIONAL_KIND(name, states)                                                                               \
    static const rf_layer_kind name##_kind = { .base_name = "bidirectional",                                           \
                                               .type_name = "Bidirectional",                                           \
                                               .build_inputs = bidirectional_build,                                    \
                                               .apply = bidirectional_apply,                                           \
                                               .min_inputs = 1,                                                        \
                                               .max_inputs = 1,                                                        \
                                               .max_outputs = 1 + 2 * (states),                                        \
                                               .takes_mask = true }
BIDIRECTIONAL_KIND(bidirectional, 1);
BIDIRECTIONAL_KIND(bidirectional_lstm, 2);

static const rf_layer_kind *const kinds[] = {
    [RF_RNN_GRU] = &gru_kind, [RF_RNN_LSTM] = &lstm_kind, [RF_RNN_SIMPLE] = &simple_rnn_kind
};

static rf_result check_params(const rf_rnn_layer_params *p)
{
    RF_REQUIRE(p, "rf_layer_rnn: params is NULL; units has no default");
    RF_REQUIRE((int)p->kind >= RF_RNN_GRU && (int)p->kind <= RF_RNN_SIMPLE, "rf_layer_rnn: kind %d does not exist",
               (int)p->kind);
    RF_REQUIRE(p->units > 0, "rf_layer_rnn: units is %d, must be positive", (int)p->units);
    RF_REQUIRE(!p->reset_before || p->kind == RF_RNN_GRU, "rf_layer_rnn: reset_before is for RF_RNN_GRU");
    RF_REQUIRE(!p->no_unit_forget_bias || p->kind == RF_RNN_LSTM,
               "rf_layer_rnn: no_unit_forget_bias is for RF_RNN_LSTM");
    if (p->kernel_initializer)
        RF_TRY(rf_layer_check_initializer(p->kernel_initializer, "rf_layer_rnn", "kernel_initializer"));
    if (p->recurrent_initializer)
        RF_TRY(rf_layer_check_initializer(p->recurrent_initializer, "rf_layer_rnn", "recurrent_initializer"));
    RF_TRY(rf_layer_check_regularizer(p->kernel_regularizer, "rf_layer_rnn", "kernel_regularizer"));
    return rf_layer_check_regularizer(p->recurrent_regularizer, "rf_layer_rnn", "recurrent_regularizer");
}

rf_result rf_layer_rnn(const rf_rnn_layer_params *params, rf_layer **out)
{
    RF_REQUIRE(out, "rf_layer_rnn: out is NULL");
    *out = NULL;
    RF_TRY(RF_PARAMS_CHECK(rf_rnn_layer_params, params));
    RF_TRY(check_params(params));
    const rf_initializer orthogonal = { .kind = RF_INIT_ORTHOGONAL };
    rf_layer *layer;
    RF_TRY(rf_layer_new(kinds[params->kind], params->name, &layer));
    layer->u.rnn.kind = params->kind;
    layer->u.rnn.units = params->units;
    layer->u.rnn.return_sequences = params->return_sequences;
    layer->u.rnn.go_backwards = params->go_backwards;
    layer->u.rnn.reset_before = params->reset_before;
    layer->u.rnn.use_bias = !params->no_bias;
    layer->u.rnn.unit_forget_bias = !params->no_unit_forget_bias;
    if (params->kernel_initializer) layer->u.rnn.kernel_initializer = *params->kernel_initializer;
    layer->u.rnn.recurrent_initializer = params->recurrent_initializer ? *params->recurrent_initializer : orthogonal;
    layer->regularizers[0] = params->kernel_regularizer;
    layer->regularizers[1] = params->recurrent_regularizer;
    *out = layer;
    return RF_OK;
}

static rf_result check_forward(const rf_layer *forward, rf_merge how)
{
    RF_REQUIRE(forward, "rf_layer_bidirectional: forward is NULL");
    RF_REQUIRE((int)how >= RF_MERGE_CONCATENATE && (int)how <= RF_MERGE_AVERAGE,
               "rf_layer_bidirectional: merge %d does not exist", (int)how);
    RF_REQUIRE(forward->kind->apply == rnn_apply,
               "rf_layer_bidirectional: forward is a layer of type %s, not of "
               "rf_layer_rnn()",
               forward->kind->type_name);
    RF_REQUIRE(!forward->u.rnn.go_backwards, "rf_layer_bidirectional: forward has go_backwards set");
    return RF_OK;
}

rf_result rf_layer_bidirectional(rf_layer *forward, rf_merge merge, const char *name, rf_layer **out)
{
    if (forward && forward->model)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "rf_layer_bidirectional: layer '%s' belongs to a model already",
                       forward->name);
    rf_result r =
        out ? check_forward(forward, merge) : RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "rf_layer_bidirectional: out is NULL");
    rf_layer *layer = NULL;
    if (out) *out = NULL;
    if (r >= 0) {
        const bool lstm = forward->u.rnn.kind == RF_RNN_LSTM;
        r = rf_layer_new(lstm ? &bidirectional_lstm_kind : &bidirectional_kind, name, &layer);
    }
    if (r >= 0) {
        const uint32_t second = variables_of_direction(forward);
        layer->u.rnn = forward->u.rnn;
        layer->u.rnn.merge = merge;
        for (uint32_t i = 0; i < second; i++)
            layer->regularizers[i] = layer->regularizers[second + i] = forward->regularizers[i];
        *out = layer;
    }
    rf_layer_free(forward);
    return r;
}
