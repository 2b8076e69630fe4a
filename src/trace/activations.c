/* SPDX-License-Identifier: Apache-2.0 */
/* Activations that are composed of functions of elements, which fuse into one program, for the sake of the shaders: a
 * function of its own would be in every one of their steps. At 0 the slopes are those of the formulas in the header: of
 * equal operands, minimum's goes to the first. */
#include <ringfire/ops.h>

#include "trace/trace.h"

/* max(x, 0) + log(1 + exp(-|x|)): at 0 the gradient of the minimum goes to x, which makes the slope there 1/2. */
static rf_tensor softplus_call(rf_trace *t, rf_tensor x, const char *argument)
{
    const rf_tensor positive = rf_unary(t, RF_FN_RELU, 0.0f, x, argument);
    if (!t) return RF_NO_TENSOR;
    return rf_add(t, positive, rf_log1p(t, rf_exp(t, rf_minimum(t, x, rf_negative(t, x)))));
}

rf_tensor rf_softplus(rf_trace *t, rf_tensor x)
{
    RF_TRACING(t);
    return softplus_call(t, x, "rf_softplus: x");
}

rf_tensor rf_mish(rf_trace *t, rf_tensor x)
{
    RF_TRACING(t);
    const rf_tensor gate = softplus_call(t, x, "rf_mish: x");
    return t ? rf_multiply(t, x, rf_tanh(t, gate)) : RF_NO_TENSOR;
}

rf_tensor rf_silu(rf_trace *t, rf_tensor x)
{
    RF_TRACING(t);
    const rf_tensor gate = rf_unary(t, RF_FN_SIGMOID, 0.0f, x, "rf_silu: x");
    return t ? rf_multiply(t, x, gate) : RF_NO_TENSOR;
}

/* min(max(x + 3, 0), 6) / 6 */
static rf_tensor hard_gate(rf_trace *t, rf_tensor x, const char *argument)
{
    const rf_tensor moved = rf_unary(t, RF_FN_ADD_IMM, 3.0f, x, argument);
    return t ? rf_unary(t, RF_FN_MUL_IMM, 1.0f / 6.0f, rf_clip(t, moved, 0.0f, 6.0f), argument) : RF_NO_TENSOR;
}

rf_tensor rf_hard_sigmoid(rf_trace *t, rf_tensor x)
{
    RF_TRACING(t);
    return hard_gate(t, x, "rf_hard_sigmoid: x");
}

rf_tensor rf_hard_silu(rf_trace *t, rf_tensor x)
{
    RF_TRACING(t);
    const rf_tensor gate = hard_gate(t, x, "rf_hard_silu: x");
    return t ? rf_multiply(t, x, gate) : RF_NO_TENSOR;
}

/* max(x, 0) + alpha (exp(min(x, 0)) - 1), times a factor. */
static rf_tensor elu_call(rf_trace *t, rf_tensor x, float alpha, float factor, const char *argument)
{
    const rf_tensor positive = rf_unary(t, RF_FN_RELU, 0.0f, x, argument);
    if (!t) return RF_NO_TENSOR;
    const rf_tensor other = rf_expm1(t, rf_minimum(t, x, rf_constant(t, 0.0f)));
    const rf_tensor scaled = rf_unary(t, RF_FN_MUL_IMM, alpha * factor, other, argument);
    return rf_add(t, factor == 1.0f ? positive : rf_unary(t, RF_FN_MUL_IMM, factor, positive, argument), scaled);
}

rf_tensor rf_elu(rf_trace *t, rf_tensor x, float alpha)
{
    RF_TRACING(t);
    rf_value v;
    if (!rf_operand(t, x, "rf_elu: x", &v)) return RF_NO_TENSOR;
    if (!(alpha >= 0)) {
        (void)rf_trace_fail(t, RF_ERROR_INVALID_ARGUMENT, "rf_elu: alpha is %g; it must be 0 or more", (double)alpha);
        return RF_NO_TENSOR;
    }
    return elu_call(t, x, alpha, 1.0f, "rf_elu: x");
}

rf_tensor rf_selu(rf_trace *t, rf_tensor x)
{
    RF_TRACING(t);
    return elu_call(t, x, 1.67326324f, 1.05070098f, "rf_selu: x");
}

rf_tensor rf_activate(rf_trace *t, rf_tensor x, rf_activation activation)
{
    RF_TRACING(t);
    switch (activation) {
    case RF_ACTIVATION_LINEAR: {
        rf_value v;
        return rf_operand(t, x, "rf_activate: x", &v) ? rf_alias(t, v) : RF_NO_TENSOR;
    }
    case RF_ACTIVATION_RELU: return rf_relu(t, x);
    case RF_ACTIVATION_LEAKY_RELU: return rf_leaky_relu(t, x, 0.2f);
    case RF_ACTIVATION_SIGMOID: return rf_sigmoid(t, x);
    case RF_ACTIVATION_TANH: return rf_tanh(t, x);
    case RF_ACTIVATION_GELU: return rf_gelu(t, x, RF_GELU_ERF);
    case RF_ACTIVATION_SOFTMAX: return rf_softmax(t, x);
    case RF_ACTIVATION_GELU_TANH: return rf_gelu(t, x, RF_GELU_TANH);
    case RF_ACTIVATION_SILU: return rf_silu(t, x);
    case RF_ACTIVATION_ELU: return rf_elu(t, x, 1.0f);
    case RF_ACTIVATION_SELU: return rf_selu(t, x);
    case RF_ACTIVATION_SOFTPLUS: return rf_softplus(t, x);
    case RF_ACTIVATION_MISH: return rf_mish(t, x);
    case RF_ACTIVATION_HARD_SILU: return rf_hard_silu(t, x);
    case RF_ACTIVATION_HARD_SIGMOID: return rf_hard_sigmoid(t, x);
    }
    if (t) {
        (void)rf_trace_fail(t, RF_ERROR_INVALID_ARGUMENT, "rf_activate: activation %d does not exist", (int)activation);
    }
    return RF_NO_TENSOR;
}
