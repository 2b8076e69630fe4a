/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gradient of gather: what was taken several times is the sum of its gradients, in the order of its places, the
 * same bits each time. Where places are many they are sorted by what they take, with integers, or put into lists, and
 * then added row by row.
 */
#include "ops/pointwise/common/gather_grad.h"
#include "ops/pointwise/cpu/cpu.h"
#include "ops/pointwise/gpu/gpu.h"

/* ---- host side ---- */

static rf_result grad_infer(rf_op_call *call)
{
    rf_tensor_desc y;
    RF_TRY(rf_gather_infer(call, &call->in[2], &call->in[1], &y));
    RF_TRY(rf_expect_dtype(call, 0, RF_F32));
    RF_TRY(rf_expect_dtype(call, 2, RF_F32));
    RF_TRY(rf_expect_shape(call, 0, &y.shape, "one gradient for each element that was taken"));
    call->out[0] = call->in[2];
    return RF_OK;
}

/* As x is stored, so that of tables in f32 no sum is rounded to the gradients' 16 bits. */
static bool grad_makes_f32(const rf_op_call *call)
{
    return call->in[2].dtype == RF_F32;
}

static rf_result grad_gradient(rf_grad_context *ctx)
{
    const rf_value in[2] = { ctx->dout[0], ctx->in[1] };
    if (ctx->dout[0] == 0 || !ctx->needed[0]) return RF_OK;
    return rf_graph_add(ctx->graph, &rf_op_gather, ctx->attr, in, 2, &ctx->din[0]);
}

static rf_result grad_reference(const rf_op_call *call, void *const *in, void *const *out)
{
    const rf_gather_shape s = rf_gather_grad_shape(call);
    const int32_t *indices = in[1];
    const uint64_t count = rf_desc_count(&call->out[0]);
    const float *dy = in[0];
    float *dx = out[0];
    double *sums = RF_NEW_ARRAY(double, count);
    if (!sums) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint64_t slab = 0; slab < s.batch * s.outer; slab++)
        for (uint64_t p = 0; p < s.places; p++, dy += s.inner) {
            const int32_t index = indices[slab / s.outer * s.places + p];
            if (index < 0 || (uint64_t)index >= s.choices) continue;
            for (uint64_t k = 0; k < s.inner; k++)
                sums[(slab * s.choices + (uint64_t)index) * s.inner + k] += (double)dy[k];
        }
    for (uint64_t i = 0; i < count; i++) dx[i] = (float)sums[i];
    rf_free(sums);
    return RF_OK;
}

static rf_cost grad_cost(const rf_op_call *call)
{
    return rf_cost_of(call, (double)rf_desc_count(&call->in[0]));
}

/* ---- the op ---- */

const rf_op rf_op_gather_grad = {
    .name = "gather_grad",
    RF_ATTRIBUTES(rf_gather_attr, rf_gather_fields),
    .min_in = 3,
    .max_in = 3,
    .n_out = 1,
    .flags = RF_OP_NO_ONNX,
    .shape_only = 1u << 2,
    RF_STORES_16(1),
    .makes_f32 = grad_makes_f32,
    .infer = grad_infer,
    .gradient = grad_gradient,
    .reference = grad_reference,
    .cost = grad_cost,
    .families = { &rf_gather_grad_common, RF_SOFTWARE(&rf_gather_grad_cpu), RF_GPU(&rf_gather_grad_gpu) },
};
