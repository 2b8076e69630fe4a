/* SPDX-License-Identifier: Apache-2.0 */
/* The public tracing functions: handle checks around the emit functions of src/ops/. */
#include <math.h>
#include <stdio.h>

#include <ringfire/ops.h>

#include "base/memory.h"
#include "base/params.h"
#include "ops/ops.h"
#include "trace/trace.h"

bool rf_operand(rf_trace *t, rf_tensor x, const char *argument, rf_value *out)
{
    *out = 0;
    if (!t) {
        /* Without a trace there is nowhere for the failure to stick but the thread's record. */
        (void)RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s: the trace is NULL", argument);
        return false;
    }
    *out = rf_trace_value(t, x, argument);
    return *out != 0;
}

bool rf_choice(rf_trace *t, const char *argument, int value, int last)
{
    if (value >= 0 && value <= last) return true;
    if (t) (void)rf_trace_fail(t, RF_ERROR_INVALID_ARGUMENT, "%s %d does not exist", argument, value);
    return false;
}

bool rf_operand_desc(rf_trace *t, rf_tensor x, const char *argument, rf_tensor_desc *out)
{
    rf_value v;
    if (!rf_operand(t, x, argument, &v)) return false;
    *out = *rf_graph_desc(rf_trace_graph(t), v);
    return true;
}

rf_tensor rf_upcast(rf_trace *t, rf_tensor x)
{
    return rf_dtype_is_narrow(rf_tensor_dtype(t, x)) ? rf_cast(t, x, RF_F32) : x;
}

rf_shape rf_example_shape(rf_shape batched)
{
    rf_shape example = { 0 };
    for (int32_t i = 1; i < batched.rank; i++) example.dim[example.rank++] = batched.dim[i];
    return example;
}

rf_tensor rf_alias(rf_trace *t, rf_value x)
{
    rf_graph *g = rf_trace_graph(t);
    rf_value out = 0;
    const rf_result r = g->core->alias(g, x, &out);
    return rf_trace_emit(t, r, out);
}

/* An operation made `out` of x, and it may be x. */
static rf_tensor emit_own(rf_trace *t, rf_result result, rf_value x, rf_value out)
{
    return result == RF_OK && out == x ? rf_alias(t, x) : rf_trace_emit(t, result, out);
}

rf_tensor rf_unary(rf_trace *t, rf_scalar_fn fn, float imm, rf_tensor x, const char *argument)
{
    rf_value v, out = 0;
    if (!rf_operand(t, x, argument, &v)) return RF_NO_TENSOR;
    const rf_result r = rf_emit_unary(rf_trace_graph(t), fn, imm, v, &out);
    return rf_trace_emit(t, r, out);
}

/* Operands of a two-operand function; both are looked at, so that the first bad one is the one reported. */
static bool two_operands(rf_trace *t, rf_tensor a, const char *name_a, rf_tensor b, const char *name_b, rf_value v[2])
{
    return rf_operand(t, a, name_a, &v[0]) && rf_operand(t, b, name_b, &v[1]);
}

static rf_tensor binary_call(rf_trace *t, rf_scalar_fn fn, rf_tensor a, const char *name_a, rf_tensor b,
                             const char *name_b)
{
    rf_value v[2], out = 0;
    if (!two_operands(t, a, name_a, b, name_b, v)) return RF_NO_TENSOR;
    const rf_result r = rf_emit_binary(rf_trace_graph(t), fn, 0.0f, v[0], v[1], &out);
    return rf_trace_emit(t, r, out);
}

/* ---- element-wise ---- */

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
    if (!two_operands(t, a, "rf_compare: a", b, "rf_compare: b", v)) return RF_NO_TENSOR;
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

/* ---- linear algebra and convolution ---- */

rf_tensor rf_matmul(rf_trace *t, rf_tensor a, rf_tensor b, rf_matmul_transpose transpose)
{
    RF_TRACING(t);
    if (!rf_choice(t, "rf_matmul: transpose", (int)transpose, RF_TRANSPOSE_BOTH)) return RF_NO_TENSOR;
    const bool transpose_a = transpose & RF_TRANSPOSE_A, transpose_b = transpose & RF_TRANSPOSE_B;
    rf_value v[2], out = 0;
    if (!two_operands(t, a, "rf_matmul: a", b, "rf_matmul: b", v)) return RF_NO_TENSOR;
    const rf_result r = rf_emit_matmul(rf_trace_graph(t), v[0], v[1], transpose_a, transpose_b, &out);
    return rf_trace_emit(t, r, out);
}

rf_tensor rf_bias_add(rf_trace *t, rf_tensor x, rf_tensor bias)
{
    RF_TRACING(t);
    rf_value v[2], out = 0;
    if (!two_operands(t, x, "rf_bias_add: x", bias, "rf_bias_add: bias", v)) return RF_NO_TENSOR;
    const rf_result r = rf_emit_bias_add(rf_trace_graph(t), v[0], v[1], &out);
    return rf_trace_emit(t, r, out);
}

rf_tensor rf_conv2d(rf_trace *t, rf_tensor x, rf_tensor kernel, const rf_conv2d_params *params)
{
    RF_TRACING(t);
    rf_value v[2], out = 0;
    if (!two_operands(t, x, "rf_conv2d: x", kernel, "rf_conv2d: kernel", v)) return RF_NO_TENSOR;
    const rf_conv2d_params defaults = { 0 };
    rf_result r = RF_PARAMS_CHECK(rf_conv2d_params, params);
    if (r >= 0) r = rf_emit_conv2d(rf_trace_graph(t), v[0], v[1], params ? params : &defaults, &out);
    return rf_trace_emit(t, r, out);
}

rf_tensor rf_conv2d_transpose(rf_trace *t, rf_tensor x, rf_tensor kernel, const rf_conv2d_params *params)
{
    RF_TRACING(t);
    rf_value v[2], out = 0;
    if (!two_operands(t, x, "rf_conv2d_transpose: x", kernel, "rf_conv2d_transpose: kernel", v)) return RF_NO_TENSOR;
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
    return emit_own(t, r, v, out);
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
    return rf_trace_needs_sum(t) ? rf_trace_emit(t, r, out) : emit_own(t, r, v, r < 0 ? 0 : v);
}

/* ---- shape ---- */

rf_tensor rf_reshape(rf_trace *t, rf_tensor x, rf_shape shape)
{
    RF_TRACING(t);
    rf_value v, out = 0;
    if (!rf_operand(t, x, "rf_reshape: x", &v)) return RF_NO_TENSOR;
    const rf_result r = rf_emit_reshape(rf_trace_graph(t), v, shape, &out);
    return rf_trace_emit(t, r, out);
}

rf_tensor rf_transpose(rf_trace *t, rf_tensor x, const int32_t *perm)
{
    RF_TRACING(t);
    rf_value v, out = 0;
    if (!rf_operand(t, x, "rf_transpose: x", &v)) return RF_NO_TENSOR;
    const rf_result r = perm ? rf_emit_transpose(rf_trace_graph(t), v, perm, &out)
                             : RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "rf_transpose: perm is NULL");
    return rf_trace_emit(t, r, out);
}

rf_tensor rf_slice(rf_trace *t, rf_tensor x, const int64_t *begin, const int64_t *end, const int64_t *step,
                   uint32_t num_axes)
{
    RF_TRACING(t);
    rf_value v, out = 0;
    if (!rf_operand(t, x, "rf_slice: x", &v)) return RF_NO_TENSOR;
    const rf_result r = (begin && end) || num_axes == 0
                            ? rf_emit_slice(rf_trace_graph(t), v, begin, end, step, num_axes, &out)
                            : RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "rf_slice: %s is NULL but num_axes is %u",
                                      begin ? "end" : "begin", num_axes);
    return rf_trace_emit(t, r, out);
}

rf_tensor rf_reverse(rf_trace *t, rf_tensor x, int32_t axis)
{
    RF_TRACING(t);
    int64_t begin[RF_MAX_RANK] = { 0 }, end[RF_MAX_RANK], step[RF_MAX_RANK];
    rf_tensor_desc desc;
    char shape[96];
    if (!rf_operand_desc(t, x, "rf_reverse: x", &desc)) return RF_NO_TENSOR;
    const int32_t at = axis < 0 ? axis + desc.shape.rank : axis;
    if (at < 0 || at >= desc.shape.rank) {
        (void)rf_trace_fail(t, RF_ERROR_INVALID_ARGUMENT, "rf_reverse: shape %s has no axis %d",
                            rf_shape_format(desc.shape, shape, sizeof(shape)), (int)axis);
        return RF_NO_TENSOR;
    }
    for (int32_t d = 0; d <= at; d++) {
        begin[d] = d < at ? 0 : INT64_MAX;
        end[d] = d < at ? INT64_MAX : INT64_MIN;
        step[d] = d < at ? 1 : -1;
    }
    return rf_slice(t, x, begin, end, step, (uint32_t)at + 1);
}

rf_tensor rf_pad(rf_trace *t, rf_tensor x, const int64_t *before, const int64_t *after, uint32_t num_axes, float value)
{
    RF_TRACING(t);
    rf_value v, out = 0;
    if (!rf_operand(t, x, "rf_pad: x", &v)) return RF_NO_TENSOR;
    const rf_result r = (before && after) || num_axes == 0
                            ? rf_emit_pad(rf_trace_graph(t), v, before, after, num_axes, value, &out)
                            : RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "rf_pad: %s is NULL but num_axes is %u",
                                      before ? "after" : "before", num_axes);
    return rf_trace_emit(t, r, out);
}

rf_tensor rf_upsample2d(rf_trace *t, rf_tensor x, const int32_t *factor, rf_interpolation interpolation)
{
    RF_TRACING(t);
    rf_value v, out = 0;
    if (!rf_operand(t, x, "rf_upsample2d: x", &v)) return RF_NO_TENSOR;
    const rf_result r = rf_emit_upsample2d(rf_trace_graph(t), v, factor, interpolation, &out);
    return rf_trace_emit(t, r, out);
}

rf_tensor rf_tile(rf_trace *t, rf_tensor x, const int64_t *copies, uint32_t num_axes)
{
    RF_TRACING(t);
    rf_value v, out = 0;
    if (!rf_operand(t, x, "rf_tile: x", &v)) return RF_NO_TENSOR;
    const rf_result r = copies || num_axes == 0 ? rf_emit_tile(rf_trace_graph(t), v, copies, num_axes, &out)
                                                : RF_FAIL(RF_ERROR_INVALID_ARGUMENT,
                                                          "rf_tile: copies is NULL but num_axes is %u", num_axes);
    return emit_own(t, r, v, out);
}

/* Values of several handles, to be freed; NULL when there are none, or one is bad: the trace has failed then. */
static rf_value *many_operands(rf_trace *t, const rf_tensor *tensors, uint32_t num_tensors, const char *argument)
{
    rf_value *in = NULL;
    if (!t) {
        (void)RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s: the trace is NULL", argument);
        return NULL;
    }
    if (!tensors || num_tensors == 0) {
        (void)rf_trace_fail(t, RF_ERROR_INVALID_ARGUMENT, "%s: %s", argument,
                            tensors ? "there are none" : "the array is NULL");
        return NULL;
    }
    if (rf_trace_status(t) >= 0 && !(in = RF_NEW_ARRAY(rf_value, num_tensors)))
        (void)rf_trace_emit(t, RF_ERROR_OUT_OF_HOST_MEMORY, 0);
    for (uint32_t i = 0; in && i < num_tensors; i++) {
        if (rf_operand(t, tensors[i], argument, &in[i])) continue;
        rf_free(in);
        in = NULL;
    }
    return in;
}

rf_tensor rf_concat(rf_trace *t, const rf_tensor *tensors, uint32_t num_tensors, int32_t axis)
{
    RF_TRACING(t);
    rf_value *in = many_operands(t, tensors, num_tensors, "rf_concat: tensors"), out = 0;
    if (!in) return RF_NO_TENSOR;
    const rf_result r = rf_emit_concat(rf_trace_graph(t), in, num_tensors, axis, &out);
    const rf_tensor y = emit_own(t, r, in[0], out);
    rf_free(in);
    return y;
}

rf_tensor rf_stack(rf_trace *t, const rf_tensor *tensors, uint32_t num_tensors, int32_t axis)
{
    RF_TRACING(t);
    rf_value *in = many_operands(t, tensors, num_tensors, "rf_stack: tensors"), out = 0;
    if (!in) return RF_NO_TENSOR;
    const rf_shape shape = rf_graph_desc(rf_trace_graph(t), in[0])->shape;
    char first[96], other[96];
    rf_result r = RF_OK;
    for (uint32_t i = 0; r >= 0 && i < num_tensors; i++) {
        const rf_shape own = rf_graph_desc(rf_trace_graph(t), in[i])->shape;
        if (!rf_shape_equal(own, shape))
            r = RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "rf_stack: shapes %s and %s differ",
                        rf_shape_format(shape, first, sizeof(first)), rf_shape_format(own, other, sizeof(other)));
        if (r >= 0) r = rf_emit_expand_dims(rf_trace_graph(t), in[i], axis, &in[i]);
    }
    if (r >= 0) r = rf_emit_concat(rf_trace_graph(t), in, num_tensors, axis, &out);
    rf_free(in);
    return rf_trace_emit(t, r, out);
}

rf_result rf_split_tensor(rf_trace *t, rf_tensor x, int32_t axis, uint32_t num_parts, rf_tensor *out)
{
    RF_TRACING(t);
    rf_value v;
    for (uint32_t i = 0; out && i < num_parts; i++) out[i] = RF_NO_TENSOR;
    if (!rf_operand(t, x, "rf_split_tensor: x", &v)) return t ? rf_trace_status(t) : RF_ERROR_INVALID_ARGUMENT;
    if (!out) return rf_trace_fail(t, RF_ERROR_INVALID_ARGUMENT, "rf_split_tensor: out is NULL");
    rf_value *parts = num_parts > 0 ? RF_NEW_ARRAY(rf_value, num_parts) : NULL;
    rf_result r = parts || num_parts == 0 ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
    if (r >= 0) r = rf_emit_split(rf_trace_graph(t), v, axis, num_parts, parts);
    if (r < 0) (void)rf_trace_emit(t, r, 0);
    for (uint32_t i = 0; r >= 0 && i < num_parts; i++) out[i] = emit_own(t, r, v, parts[i]);
    rf_free(parts);
    return rf_trace_status(t);
}

rf_tensor rf_expand_dims(rf_trace *t, rf_tensor x, int32_t axis)
{
    RF_TRACING(t);
    rf_value v, out = 0;
    if (!rf_operand(t, x, "rf_expand_dims: x", &v)) return RF_NO_TENSOR;
    const rf_result r = rf_emit_expand_dims(rf_trace_graph(t), v, axis, &out);
    return rf_trace_emit(t, r, out);
}

rf_tensor rf_squeeze(rf_trace *t, rf_tensor x, int32_t axis)
{
    RF_TRACING(t);
    rf_value v, out = 0;
    if (!rf_operand(t, x, "rf_squeeze: x", &v)) return RF_NO_TENSOR;
    const rf_result r = rf_emit_squeeze(rf_trace_graph(t), v, axis, &out);
    return rf_trace_emit(t, r, out);
}

rf_tensor rf_gather(rf_trace *t, rf_tensor x, rf_tensor indices, int32_t axis)
{
    RF_TRACING(t);
    rf_value v[2], out = 0;
    if (!two_operands(t, x, "rf_gather: x", indices, "rf_gather: indices", v)) return RF_NO_TENSOR;
    const rf_result r = rf_emit_gather(rf_trace_graph(t), v[0], v[1], axis, 0, &out);
    return rf_trace_emit(t, r, out);
}

rf_tensor rf_gather_positions(rf_trace *t, rf_tensor x, rf_tensor positions)
{
    RF_TRACING(t);
    rf_value v[2], out = 0;
    if (!two_operands(t, x, "rf_gather_positions: x", positions, "rf_gather_positions: positions", v))
        return RF_NO_TENSOR;
    const rf_result r = rf_emit_gather(rf_trace_graph(t), v[0], v[1], 1, 1, &out);
    return rf_trace_emit(t, r, out);
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

/* ---- reductions ---- */

static rf_tensor reduce_call(rf_trace *t, rf_reduce_kind kind, const char *name, rf_tensor x, const int32_t *axes,
                             uint32_t num_axes, rf_reduced_dims dims)
{
    rf_value v, out = 0;
    char argument[32];
    snprintf(argument, sizeof(argument), "%s: x", name);
    if (!rf_operand(t, x, argument, &v)) return RF_NO_TENSOR;
    snprintf(argument, sizeof(argument), "%s: dims", name);
    if (!rf_choice(t, argument, (int)dims, RF_KEEP_DIMS)) return RF_NO_TENSOR;
    const rf_result r = rf_emit_reduce(rf_trace_graph(t), kind, v, axes, num_axes, dims == RF_KEEP_DIMS, &out);
    return rf_trace_emit(t, r, out);
}

rf_tensor rf_reduce_sum(rf_trace *t, rf_tensor x, const int32_t *axes, uint32_t num_axes, rf_reduced_dims dims)
{
    RF_TRACING(t);
    return reduce_call(t, RF_REDUCE_KIND_SUM, "rf_reduce_sum", x, axes, num_axes, dims);
}

rf_tensor rf_reduce_mean(rf_trace *t, rf_tensor x, const int32_t *axes, uint32_t num_axes, rf_reduced_dims dims)
{
    RF_TRACING(t);
    return reduce_call(t, RF_REDUCE_KIND_MEAN, "rf_reduce_mean", x, axes, num_axes, dims);
}

rf_tensor rf_reduce_max(rf_trace *t, rf_tensor x, const int32_t *axes, uint32_t num_axes, rf_reduced_dims dims)
{
    RF_TRACING(t);
    return reduce_call(t, RF_REDUCE_KIND_MAX, "rf_reduce_max", x, axes, num_axes, dims);
}

rf_tensor rf_reduce_min(rf_trace *t, rf_tensor x, const int32_t *axes, uint32_t num_axes, rf_reduced_dims dims)
{
    RF_TRACING(t);
    return reduce_call(t, RF_REDUCE_KIND_MIN, "rf_reduce_min", x, axes, num_axes, dims);
}

rf_tensor rf_argmin(rf_trace *t, rf_tensor x)
{
    RF_TRACING(t);
    const rf_tensor negative = rf_unary(t, RF_FN_NEGATIVE, 0.0f, x, "rf_argmin: x");
    return t ? rf_argmax(t, negative) : RF_NO_TENSOR;
}

rf_result rf_top_k(rf_trace *t, rf_tensor x, int32_t k, rf_tensor *values, rf_tensor *indices)
{
    RF_TRACING(t);
    rf_value v, largest = 0, where = 0;
    if (values) *values = RF_NO_TENSOR;
    if (indices) *indices = RF_NO_TENSOR;
    if (!rf_operand(t, x, "rf_top_k: x", &v)) return t ? rf_trace_status(t) : RF_ERROR_INVALID_ARGUMENT;
    if (!values) return rf_trace_fail(t, RF_ERROR_INVALID_ARGUMENT, "rf_top_k: values is NULL");
    const rf_result r = rf_emit_top_k(rf_trace_graph(t), v, k, &largest, &where);
    *values = rf_trace_emit(t, r, largest);
    if (indices) *indices = rf_trace_emit(t, r, where);
    return rf_trace_status(t);
}

/* Rows are what can be sorted: another axis changes places with the last one, and back. */
static rf_tensor sort_call(rf_trace *t, const char *name, rf_tensor x, const char *argument, int32_t axis,
                           rf_sort_order order, bool places)
{
    rf_value v, out[2] = { 0 };
    char text[96];
    if (!rf_operand(t, x, argument, &v)) return RF_NO_TENSOR;
    if (!rf_choice(t, places ? "rf_argsort: order" : "rf_sort: order", (int)order, RF_DESCENDING)) return RF_NO_TENSOR;
    rf_graph *g = rf_trace_graph(t);
    const rf_shape shape = rf_graph_desc(g, v)->shape;
    const int32_t last = shape.rank - 1, at = axis < 0 ? axis + shape.rank : axis;
    if (at < 0 || at > last) {
        (void)rf_trace_fail(t, RF_ERROR_INVALID_ARGUMENT, "%s: shape %s has no axis %d", name,
                            rf_shape_format(shape, text, sizeof(text)), (int)axis);
        return RF_NO_TENSOR;
    }
    int32_t perm[RF_MAX_RANK] = { 0 };
    for (int32_t d = 0; d <= last; d++) perm[d] = d == at ? last : d == last ? at : d;
    rf_result r = at == last ? RF_OK : rf_emit_transpose(g, v, perm, &v);
    if (r >= 0) r = rf_emit_sort(g, v, order == RF_DESCENDING, &out[0], &out[1]);
    rf_value y = out[places];
    if (r >= 0 && at != last) r = rf_emit_transpose(g, y, perm, &y);
    return rf_trace_emit(t, r, y);
}

rf_tensor rf_sort(rf_trace *t, rf_tensor x, int32_t axis, rf_sort_order order)
{
    RF_TRACING(t);
    return sort_call(t, "rf_sort", x, "rf_sort: x", axis, order, false);
}

rf_tensor rf_argsort(rf_trace *t, rf_tensor x, int32_t axis, rf_sort_order order)
{
    RF_TRACING(t);
    return sort_call(t, "rf_argsort", x, "rf_argsort: x", axis, order, true);
}

/* ---- scans ---- */

typedef rf_result (*emit_scan_fn)(rf_graph *g, rf_value x, bool exclusive, bool reverse, rf_value *out);

static rf_tensor scan_call(rf_trace *t, emit_scan_fn emit, rf_tensor x, const char *argument, rf_scan_form form)
{
    rf_value v, out = 0;
    if (!rf_operand(t, x, argument, &v)) return RF_NO_TENSOR;
    if (!rf_choice(t, emit == rf_emit_cumsum ? "rf_cumsum: form" : "rf_cumprod: form", (int)form,
                   RF_SCAN_EXCLUSIVE_REVERSE))
        return RF_NO_TENSOR;
    const bool exclusive = form == RF_SCAN_EXCLUSIVE || form == RF_SCAN_EXCLUSIVE_REVERSE;
    const bool reverse = form == RF_SCAN_INCLUSIVE_REVERSE || form == RF_SCAN_EXCLUSIVE_REVERSE;
    const rf_result r = emit(rf_trace_graph(t), v, exclusive, reverse, &out);
    return rf_trace_emit(t, r, out);
}

rf_tensor rf_cumsum(rf_trace *t, rf_tensor x, rf_scan_form form)
{
    RF_TRACING(t);
    return scan_call(t, rf_emit_cumsum, x, "rf_cumsum: x", form);
}

rf_tensor rf_cumprod(rf_trace *t, rf_tensor x, rf_scan_form form)
{
    RF_TRACING(t);
    return scan_call(t, rf_emit_cumprod, x, "rf_cumprod: x", form);
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

/* ---- other ---- */

rf_tensor rf_cast(rf_trace *t, rf_tensor x, rf_dtype dtype)
{
    RF_TRACING(t);
    rf_value v, out = 0;
    if (!rf_operand(t, x, "rf_cast: x", &v)) return RF_NO_TENSOR;
    const rf_result r = rf_emit_cast(rf_trace_graph(t), v, dtype, &out);
    return emit_own(t, r, v, out);
}
