/* SPDX-License-Identifier: Apache-2.0 */
/* Dimensions in another order. */
#include <string.h>

#include "ops/pointwise/common/transpose.h"
#include "ops/pointwise/cpu/cpu.h"

static rf_result transpose_infer(rf_op_call *call)
{
    const rf_transpose_attr *attr = call->attr;
    const rf_shape x = call->in[0].shape;
    uint32_t seen = 0;
    call->out[0] = (rf_tensor_desc){ call->in[0].dtype, { .rank = x.rank } };
    if (rf_dtype_size(call->in[0].dtype) != 4)
        return RF_FAIL(RF_ERROR_UNSUPPORTED, "transpose: %s tensors are not supported; cast to f32 first",
                       rf_dtype_name(call->in[0].dtype));
    for (int32_t d = 0; d < x.rank; d++) {
        const int32_t from = attr->perm[d];
        if (from < 0 || from >= x.rank || seen >> from & 1) {
            char shape[96];
            return RF_FAIL(
                RF_ERROR_INVALID_ARGUMENT,
                "transpose: entry %d of the permutation is %d; for shape %s it must hold each of 0 to %d once", (int)d,
                (int)from, rf_shape_format(x, shape, sizeof(shape)), (int)x.rank - 1);
        }
        seen |= 1u << from;
        call->out[0].shape.dim[d] = x.dim[from];
    }
    return RF_OK;
}

static rf_result transpose_gradient(rf_grad_context *ctx)
{
    const rf_transpose_attr *attr = ctx->attr;
    rf_transpose_attr inverse = { { 0 } };
    for (int32_t d = 0; d < rf_graph_desc(ctx->graph, ctx->in[0])->shape.rank; d++) inverse.perm[attr->perm[d]] = d;
    return rf_graph_add(ctx->graph, &rf_op_transpose, &inverse, &ctx->dout[0], 1, &ctx->din[0]);
}

static rf_result transpose_reference(const rf_op_call *call, void *const *in, void *const *out)
{
    const rf_transpose_attr *attr = call->attr;
    const rf_shape x = call->in[0].shape, y = call->out[0].shape;
    int64_t stride[RF_MAX_RANK], s = 1;
    for (int32_t d = x.rank - 1; d >= 0; d--) {
        stride[d] = s;
        s *= x.dim[d];
    }
    for (int64_t e = 0; e < s; e++) {
        int64_t rest = e, from = 0;
        for (int32_t d = y.rank - 1; d >= 0; d--) {
            from += rest % y.dim[d] * stride[attr->perm[d]];
            rest /= y.dim[d];
        }
        memcpy((uint32_t *)out[0] + e, (const uint32_t *)in[0] + from, 4);
    }
    return RF_OK;
}

static rf_cost transpose_cost(const rf_op_call *call)
{
    return rf_cost_of(call, 0);
}

static const rf_attr_field transpose_fields[] = { RF_ATTR_INTS(rf_transpose_attr, perm[0], "perm", RF_MAX_RANK, 0,
                                                               RF_MAX_RANK - 1) };

const rf_op rf_op_transpose = {
    .name = "transpose",
    RF_ATTRIBUTES(rf_transpose_attr, transpose_fields),
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    RF_STORES_16(1),
    .infer = transpose_infer,
    .gradient = transpose_gradient,
    .reference = transpose_reference,
    .cost = transpose_cost,
    .families = { &rf_transpose_common, RF_SOFTWARE(&rf_transpose_cpu) },
};

rf_result rf_emit_transpose(rf_graph *g, rf_value x, const int32_t *perm, rf_value *out)
{
    rf_transpose_attr attr = { { 0 } };
    const int32_t rank = rf_graph_desc(g, x)->shape.rank;
    for (int32_t d = 0; d < rank && d < RF_MAX_RANK; d++) attr.perm[d] = perm[d];
    return rf_graph_add(g, &rf_op_transpose, &attr, &x, 1, out);
}
