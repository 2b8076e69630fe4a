/* SPDX-License-Identifier: Apache-2.0 */
/* Matrices whose singular values are made about 1, by Newton's and Schulz' iteration. */
#include "base/error.h"
#include "trace/trace.h"

/* Jordan et al. 2024: a x + b x^3 + c x^5 takes singular values in (0, 1] to about 1 in few steps. */
static const float cubic_a = 3.4445f, cubic_b = -4.7750f, cubic_c = 2.0315f;

/* One step; products are square matrices of the shorter side. */
static rf_result iterate_once(rf_graph *g, rf_value *x, bool tall)
{
    rf_value square, fourth, factor, product;
    RF_TRY(rf_emit_matmul(g, *x, *x, tall, !tall, &square));
    RF_TRY(rf_emit_matmul(g, square, square, false, false, &fourth));
    RF_TRY(rf_emit_unary(g, RF_FN_MUL_IMM, cubic_b, square, &square));
    RF_TRY(rf_emit_unary(g, RF_FN_MUL_IMM, cubic_c, fourth, &fourth));
    RF_TRY(rf_emit_binary(g, RF_FN_ADD, 0, square, fourth, &factor));
    RF_TRY(rf_emit_matmul(g, tall ? *x : factor, tall ? factor : *x, false, false, &product));
    RF_TRY(rf_emit_unary(g, RF_FN_MUL_IMM, cubic_a, *x, x));
    return rf_emit_binary(g, RF_FN_ADD, 0, *x, product, x);
}

rf_result rf_emit_orthogonal(rf_graph *g, rf_value x, uint32_t steps, rf_value *out)
{
    static const int32_t matrix[] = { -2, -1 };
    static const float least = 1e-7f;
    const rf_shape shape = rf_graph_desc(g, x)->shape;
    const bool tall = shape.dim[shape.rank - 2] > shape.dim[shape.rank - 1];
    rf_value norm, epsilon, most;
    /* x / (norm + epsilon), of x over its largest element: squares of that are floats. It cancels out, for gradients
     * too; a matrix of zeros stays one. */
    RF_TRY(rf_graph_constant(g, (rf_tensor_desc){ RF_F32, RF_SCALAR_SHAPE }, &least, &epsilon));
    RF_TRY(rf_emit_unary(g, RF_FN_ABS, 0, x, &most));
    RF_TRY(rf_emit_reduce(g, RF_REDUCE_KIND_MAX, most, matrix, 2, true, &most));
    RF_TRY(rf_emit_binary(g, RF_FN_MAXIMUM, 0, most, epsilon, &most));
    RF_TRY(rf_emit_stop_gradient(g, most, &most));
    RF_TRY(rf_emit_binary(g, RF_FN_DIVIDE, 0, x, most, &x));
    RF_TRY(rf_emit_reduce(g, RF_REDUCE_KIND_SUM_SQUARES, x, matrix, 2, true, &norm));
    RF_TRY(rf_emit_unary(g, RF_FN_SQRT, 0, norm, &norm));
    RF_TRY(rf_emit_binary(g, RF_FN_DIVIDE, 0, epsilon, most, &epsilon));
    RF_TRY(rf_emit_binary(g, RF_FN_ADD, 0, norm, epsilon, &norm));
    RF_TRY(rf_emit_binary(g, RF_FN_DIVIDE, 0, x, norm, out));
    for (uint32_t i = 0; i < (steps ? steps : 5); i++) RF_TRY(iterate_once(g, out, tall));
    return RF_OK;
}

rf_tensor rf_orthogonalize(rf_trace *t, rf_tensor x, uint32_t steps)
{
    RF_TRACING(t);
    rf_tensor_desc desc;
    rf_value v, out = 0;
    char text[96];
    if (!rf_operand_desc(t, x, "rf_orthogonalize: x", &desc) || !rf_operand(t, x, "rf_orthogonalize: x", &v))
        return RF_NO_TENSOR;
    if (desc.dtype != RF_F32 || desc.shape.rank < 2 || steps > RF_MAX_ORTHOGONAL_STEPS) {
        (void)rf_trace_fail(t, RF_ERROR_INVALID_ARGUMENT,
                            "rf_orthogonalize: x is %s %s, and steps %u; it must be f32 of two dimensions or more, "
                            "and steps at most %d",
                            rf_dtype_name(desc.dtype), rf_shape_format(desc.shape, text, sizeof(text)), steps,
                            (int)RF_MAX_ORTHOGONAL_STEPS);
        return RF_NO_TENSOR;
    }
    const rf_result r = rf_emit_orthogonal(rf_trace_graph(t), v, steps, &out);
    return rf_trace_emit(t, rf_error_context(r, "rf_orthogonalize"), out);
}
