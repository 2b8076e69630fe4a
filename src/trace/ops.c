/* SPDX-License-Identifier: Apache-2.0 */
/* Tracing functions that are one operation each: products, convolutions, windows, normalization, recurrence. */
#include <ringfire/ops.h>

#include "base/params.h"
#include "ops/ops.h"
#include "trace/trace.h"

/* ---- linear algebra and convolution ---- */

rf_tensor rf_matmul(rf_trace *t, rf_tensor a, rf_tensor b, rf_matmul_transpose transpose)
{
    RF_TRACING(t);
    if (!rf_choice(t, "rf_matmul: transpose", (int)transpose, RF_TRANSPOSE_BOTH)) return RF_NO_TENSOR;
    const bool transpose_a = transpose & RF_TRANSPOSE_A, transpose_b = transpose & RF_TRANSPOSE_B;
    rf_value v[2], out = 0;
    if (!rf_two_operands(t, a, "rf_matmul: a", b, "rf_matmul: b", v)) return RF_NO_TENSOR;
    const rf_result r = rf_emit_matmul(rf_trace_graph(t), v[0], v[1], transpose_a, transpose_b, &out);
    return rf_trace_emit(t, r, out);
}

rf_tensor rf_bias_add(rf_trace *t, rf_tensor x, rf_tensor bias)
{
    RF_TRACING(t);
    rf_value v[2], out = 0;
    if (!rf_two_operands(t, x, "rf_bias_add: x", bias, "rf_bias_add: bias", v)) return RF_NO_TENSOR;
    const rf_result r = rf_emit_bias_add(rf_trace_graph(t), v[0], v[1], &out);
    return rf_trace_emit(t, r, out);
}

rf_tensor rf_conv2d(rf_trace *t, rf_tensor x, rf_tensor kernel, const rf_conv2d_params *params)
{
    RF_TRACING(t);
    rf_value v[2], out = 0;
    if (!rf_two_operands(t, x, "rf_conv2d: x", kernel, "rf_conv2d: kernel", v)) return RF_NO_TENSOR;
    const rf_conv2d_params defaults = { 0 };
    rf_result r = RF_PARAMS_CHECK(rf_conv2d_params, params);
    if (r >= 0) r = rf_emit_conv2d(rf_trace_graph(t), v[0], v[1], params ? params : &defaults, &out);
    return rf_trace_emit(t, r, out);
}

rf_tensor rf_conv2d_transpose(rf_trace *t, rf_tensor x, rf_tensor kernel, const rf_conv2d_params *params)
{
    RF_TRACING(t);
    rf_value v[2], out = 0;
    if (!rf_two_operands(t, x, "rf_conv2d_transpose: x", kernel, "rf_conv2d_transpose: kernel", v)) return RF_NO_TENSOR;
    rf_result r = RF_PARAMS_CHECK(rf_conv2d_params, params);
    if (r >= 0) r = rf_emit_conv2d_transpose(rf_trace_graph(t), v[0], v[1], params, &out);
    return rf_trace_emit(t, r, out);
}

rf_tensor rf_max_pool2d(rf_trace *t, rf_tensor x, const rf_pool2d_params *params)
{
    RF_TRACING(t);
    rf_value v, out = 0;
    if (!rf_operand(t, x, "rf_max_pool2d: x", &v)) return RF_NO_TENSOR;
    const rf_pool2d_params defaults = { 0 };
    rf_result r = RF_PARAMS_CHECK(rf_pool2d_params, params);
    if (r >= 0) r = rf_emit_max_pool2d(rf_trace_graph(t), v, params ? params : &defaults, &out);
    return rf_trace_emit(t, r, out);
}

rf_tensor rf_avg_pool2d(rf_trace *t, rf_tensor x, const rf_pool2d_params *params)
{
    RF_TRACING(t);
    rf_value v, out = 0;
    if (!rf_operand(t, x, "rf_avg_pool2d: x", &v)) return RF_NO_TENSOR;
    const rf_pool2d_params defaults = { 0 };
    rf_result r = RF_PARAMS_CHECK(rf_pool2d_params, params);
    if (r >= 0) r = rf_emit_avg_pool2d(rf_trace_graph(t), v, params ? params : &defaults, &out);
    return rf_trace_emit(t, r, out);
}

/* ---- functions of one tensor without parameters ---- */

typedef rf_result (*emit_fn)(rf_graph *g, rf_value x, rf_value *out);

static rf_tensor emit_one(rf_trace *t, emit_fn emit, rf_tensor x, const char *argument)
{
    rf_value v, out = 0;
    if (!rf_operand(t, x, argument, &v)) return RF_NO_TENSOR;
    const rf_result r = emit(rf_trace_graph(t), v, &out);
    return rf_trace_emit_own(t, r, v, out);
}

#define EMIT_ONE(name)                                                                                                 \
    rf_tensor rf_##name(rf_trace *t, rf_tensor x)                                                                      \
    {                                                                                                                  \
        RF_TRACING(t);                                                                                                 \
        return emit_one(t, rf_emit_##name, x, "rf_" #name ": x");                                                      \
    }

EMIT_ONE(global_avg_pool2d)
EMIT_ONE(flatten)
EMIT_ONE(argmax)
EMIT_ONE(softmax)
EMIT_ONE(log_softmax)
EMIT_ONE(stop_gradient)

rf_tensor rf_all_replica_sum(rf_trace *t, rf_tensor x)
{
    RF_TRACING(t);
    rf_value v, out = 0;
    if (!rf_operand(t, x, "rf_all_replica_sum: x", &v)) return RF_NO_TENSOR;
    rf_graph *g = rf_trace_graph(t);
    const rf_result r = rf_emit_all_replica_sum(g, v, &out); /* one replica checks x, too, and uses no sum */
    return rf_trace_needs_sum(t) ? rf_trace_emit(t, r, out) : rf_trace_emit_own(t, r, v, r < 0 ? 0 : v);
}

/* ---- normalization ---- */

/* A vector that may be left out. */
static bool optional_operand(rf_trace *t, rf_tensor x, const char *argument, rf_value *out)
{
    *out = 0;
    return x.id == 0 || rf_operand(t, x, argument, out);
}

rf_tensor rf_layer_norm(rf_trace *t, rf_tensor x, rf_tensor gamma, rf_tensor beta, float epsilon)
{
    RF_TRACING(t);
    rf_value v, scale, offset, out = 0;
    if (!rf_operand(t, x, "rf_layer_norm: x", &v) || !optional_operand(t, gamma, "rf_layer_norm: gamma", &scale) ||
        !optional_operand(t, beta, "rf_layer_norm: beta", &offset))
        return RF_NO_TENSOR;
    const float added = epsilon == 0 ? 1e-3f : epsilon;
    const rf_result r = rf_emit_layer_norm(rf_trace_graph(t), v, scale, offset, added, false, &out);
    return rf_trace_emit(t, r, out);
}

rf_tensor rf_rms_norm(rf_trace *t, rf_tensor x, rf_tensor gamma, float epsilon)
{
    RF_TRACING(t);
    rf_value v, scale, out = 0;
    if (!rf_operand(t, x, "rf_rms_norm: x", &v) || !optional_operand(t, gamma, "rf_rms_norm: gamma", &scale))
        return RF_NO_TENSOR;
    const float added = epsilon == 0 ? 1e-6f : epsilon;
    const rf_result r = rf_emit_layer_norm(rf_trace_graph(t), v, scale, 0, added, true, &out);
    return rf_trace_emit(t, r, out);
}

/* ---- recurrence ---- */

rf_result rf_rnn(rf_trace *t, rf_tensor x, rf_tensor recurrent, rf_tensor bias, const rf_tensor *state,
                 const rf_rnn_params *params, rf_tensor *sequence, rf_tensor *final)
{
    RF_TRACING(t);
    rf_value in[3], initial[2] = { 0 }, mask, all = 0, last[2] = { 0 };
    const rf_rnn_params defaults = { 0 };
    if (sequence) *sequence = RF_NO_TENSOR;
    for (uint32_t i = 0; final && i < 2; i++) final[i] = RF_NO_TENSOR;
    const rf_result given = RF_PARAMS_CHECK(rf_rnn_params, params);
    if (given < 0) return t ? rf_trace_emit(t, given, 0), rf_trace_status(t) : given;
    const rf_rnn_params *p = params ? params : &defaults;
    if (!rf_operand(t, x, "rf_rnn: x", &in[0]) || !rf_operand(t, recurrent, "rf_rnn: recurrent", &in[1]) ||
        !optional_operand(t, bias, "rf_rnn: bias", &in[2]) || !optional_operand(t, p->mask, "rf_rnn: mask", &mask))
        return t ? rf_trace_status(t) : RF_ERROR_INVALID_ARGUMENT;
    for (uint32_t i = 0; state && i < 2; i++)
        if (!optional_operand(t, state[i], "rf_rnn: state", &initial[i])) return rf_trace_status(t);
    if (!sequence) return rf_trace_fail(t, RF_ERROR_INVALID_ARGUMENT, "rf_rnn: sequence is NULL");
    const rf_rnn_attr attr = { .kind = p->kind, .reset_before = p->reset_before, .backwards = p->backwards };
    const rf_result r = rf_emit_rnn(rf_trace_graph(t), in[0], in[1], in[2], initial, mask, &attr, &all, last);
    *sequence = rf_trace_emit(t, r, all);
    for (uint32_t i = 0; r >= 0 && final && i < 2; i++)
        if (last[i]) final[i] = rf_trace_emit(t, r, last[i]);
    return rf_trace_status(t);
}

/* ---- classification and regression ---- */

rf_tensor rf_one_hot(rf_trace *t, rf_tensor indices, int32_t depth)
{
    RF_TRACING(t);
    rf_value v, out = 0;
    if (!rf_operand(t, indices, "rf_one_hot: indices", &v)) return RF_NO_TENSOR;
    const rf_result r = rf_emit_one_hot(rf_trace_graph(t), v, depth, &out);
    return rf_trace_emit(t, r, out);
}
