/* SPDX-License-Identifier: Apache-2.0 */
/* Tracing functions that compute each element by itself. */
#include <math.h>

#include <ringfire/ops.h>

#include "ops/ops.h"
#include "trace/trace.h"

rf_tensor rf_unary(rf_trace *t, rf_scalar_fn fn, float imm, rf_tensor x, const char *argument)
{
    rf_value v, out = 0;
    if (!rf_operand(t, x, argument, &v)) return RF_NO_TENSOR;
    const rf_result r = rf_emit_unary(rf_trace_graph(t), fn, imm, v, &out);
    return rf_trace_emit(t, r, out);
}

static rf_tensor binary_call(rf_trace *t, rf_scalar_fn fn, rf_tensor a, const char *name_a, rf_tensor b,
                             const char *name_b)
{
    rf_value v[2], out = 0;
    if (!rf_two_operands(t, a, name_a, b, name_b, v)) return RF_NO_TENSOR;
    const rf_result r = rf_emit_binary(rf_trace_graph(t), fn, 0.0f, v[0], v[1], &out);
    return rf_trace_emit(t, r, out);
}

#define BINARY(name, fn)                                                                                               \
    rf_tensor name(rf_trace *t, rf_tensor a, rf_tensor b)                                                              \
    {                                                                                                                  \
        RF_TRACING(t);                                                                                                 \
        return binary_call(t, fn, a, #name ": a", b, #name ": b");                                                     \
    }
#define UNARY(name, fn)                                                                                                \
    rf_tensor name(rf_trace *t, rf_tensor x)                                                                           \
    {                                                                                                                  \
        RF_TRACING(t);                                                                                                 \
        return rf_unary(t, fn, 0.0f, x, #name ": x");                                                                  \
    }

BINARY(rf_add, RF_FN_ADD)
BINARY(rf_subtract, RF_FN_SUBTRACT)
BINARY(rf_multiply, RF_FN_MULTIPLY)
BINARY(rf_divide, RF_FN_DIVIDE)
BINARY(rf_pow, RF_FN_POW)
BINARY(rf_maximum, RF_FN_MAXIMUM)
BINARY(rf_minimum, RF_FN_MINIMUM)

/* One of the comparisons that there are rows of; integers have rows of their own. */
static rf_tensor compare_call(rf_trace *t, rf_scalar_fn fn, rf_value a, rf_value b)
{
    rf_graph *g = rf_trace_graph(t);
    rf_value out = 0;
    const rf_dtype dtype = rf_graph_desc(g, a)->dtype, other = rf_graph_desc(g, b)->dtype;
    rf_result r = dtype == other ? RF_OK
                                 : RF_FAIL(RF_ERROR_INVALID_ARGUMENT,
                                           "rf_compare: one operand is %s, the other %s; cast one of them",
                                           rf_dtype_name(dtype), rf_dtype_name(other));
    if (dtype == RF_I32)
        fn = fn == RF_FN_EQUAL     ? RF_FN_WHOLE_EQUAL
             : fn == RF_FN_GREATER ? RF_FN_WHOLE_GREATER
                                   : RF_FN_WHOLE_GREATER_EQUAL;
    if (r >= 0) r = rf_emit_binary(g, fn, 0.0f, a, b, &out);
    return rf_trace_emit(t, r, out);
}

rf_tensor rf_compare(rf_trace *t, rf_comparison comparison, rf_tensor a, rf_tensor b)
{
    RF_TRACING(t);
    rf_value v[2];
    if (!rf_two_operands(t, a, "rf_compare: a", b, "rf_compare: b", v)) return RF_NO_TENSOR;
    switch (comparison) {
    case RF_EQUAL: return compare_call(t, RF_FN_EQUAL, v[0], v[1]);
    case RF_NOT_EQUAL: return rf_subtract(t, rf_constant(t, 1.0f), compare_call(t, RF_FN_EQUAL, v[0], v[1]));
    case RF_LESS: return compare_call(t, RF_FN_GREATER, v[1], v[0]);
    case RF_LESS_EQUAL: return compare_call(t, RF_FN_GREATER_EQUAL, v[1], v[0]);
    case RF_GREATER: return compare_call(t, RF_FN_GREATER, v[0], v[1]);
    case RF_GREATER_EQUAL: return compare_call(t, RF_FN_GREATER_EQUAL, v[0], v[1]);
    }
    (void)rf_trace_fail(t, RF_ERROR_INVALID_ARGUMENT, "rf_compare: comparison %d does not exist", (int)comparison);
    return RF_NO_TENSOR;
}

/* Each operand among zeros: a sum takes nothing from what the mask leaves out. */
rf_tensor rf_where(rf_trace *t, rf_tensor mask, rf_tensor a, rf_tensor b)
{
    RF_TRACING(t);
    const rf_tensor taken = binary_call(t, RF_FN_WHERE, mask, "rf_where: mask", a, "rf_where: a");
    const rf_tensor other = binary_call(t, RF_FN_WHERE_NOT, mask, "rf_where: mask", b, "rf_where: b");
    return binary_call(t, RF_FN_ADD, taken, "rf_where: a", other, "rf_where: b");
}

rf_tensor rf_clip(rf_trace *t, rf_tensor x, float low, float high)
{
    RF_TRACING(t);
    rf_value v;
    if (!rf_operand(t, x, "rf_clip: x", &v)) return RF_NO_TENSOR;
    if (!(low <= high)) {
        (void)rf_trace_fail(t, RF_ERROR_INVALID_ARGUMENT, "rf_clip: low is %g and high %g; high must not be less",
                            (double)low, (double)high);
        return RF_NO_TENSOR;
    }
    return rf_minimum(t, rf_maximum(t, x, rf_constant(t, low)), rf_constant(t, high));
}

UNARY(rf_negative, RF_FN_NEGATIVE)
UNARY(rf_abs, RF_FN_ABS)
UNARY(rf_square, RF_FN_SQUARE)
UNARY(rf_exp, RF_FN_EXP)
UNARY(rf_log, RF_FN_LOG)
UNARY(rf_sqrt, RF_FN_SQRT)
UNARY(rf_log1p, RF_FN_LOG1P)
UNARY(rf_expm1, RF_FN_EXPM1)
UNARY(rf_sin, RF_FN_SIN)
UNARY(rf_cos, RF_FN_COS)
UNARY(rf_erf, RF_FN_ERF)
UNARY(rf_sign, RF_FN_SIGN)
UNARY(rf_floor, RF_FN_FLOOR)
UNARY(rf_round, RF_FN_ROUND)
UNARY(rf_tanh, RF_FN_TANH)
UNARY(rf_sigmoid, RF_FN_SIGMOID)
UNARY(rf_relu, RF_FN_RELU)

rf_tensor rf_leaky_relu(rf_trace *t, rf_tensor x, float alpha)
{
    RF_TRACING(t);
    return rf_unary(t, RF_FN_LEAKY_RELU, alpha, x, "rf_leaky_relu: x");
}

rf_tensor rf_gelu(rf_trace *t, rf_tensor x, rf_gelu_form form)
{
    RF_TRACING(t);
    if (!rf_choice(t, "rf_gelu: form", (int)form, RF_GELU_TANH)) return RF_NO_TENSOR;
    return rf_unary(t, form == RF_GELU_TANH ? RF_FN_GELU_TANH : RF_FN_GELU_ERF, 0.0f, x, "rf_gelu: x");
}

rf_tensor rf_rsqrt(rf_trace *t, rf_tensor x)
{
    RF_TRACING(t);
    const rf_tensor root = rf_unary(t, RF_FN_SQRT, 0.0f, x, "rf_rsqrt: x");
    return t ? rf_divide(t, rf_constant(t, 1.0f), root) : RF_NO_TENSOR;
}

rf_tensor rf_cast(rf_trace *t, rf_tensor x, rf_dtype dtype)
{
    RF_TRACING(t);
    rf_value v, out = 0;
    if (!rf_operand(t, x, "rf_cast: x", &v)) return RF_NO_TENSOR;
    const rf_result r = rf_emit_cast(rf_trace_graph(t), v, dtype, &out);
    return rf_trace_emit_own(t, r, v, out);
}

rf_tensor rf_upcast(rf_trace *t, rf_tensor x)
{
    return rf_dtype_is_narrow(rf_tensor_dtype(t, x)) ? rf_cast(t, x, RF_F32) : x;
}
