/* SPDX-License-Identifier: Apache-2.0 */
/* Softmax and its logarithm along the last dimension, and their gradients. */
#include "ops/reduction/common/softmax.h"
#include "ops/ops.h"
#include "ops/reduction/gpu/gpu.h"
#include "ops/scalar.h"

#include <math.h>

/* ---- host side ---- */

static rf_result softmax_infer(rf_op_call *call)
{
    RF_TRY(rf_expect_rows(call, 0));
    call->out[0] = call->in[0];
    return RF_OK;
}

static rf_result softmax_grad_infer(rf_op_call *call)
{
    RF_TRY(rf_expect_rows(call, 0));
    RF_TRY(rf_expect_dtype(call, 1, RF_F32));
    RF_TRY(rf_expect_shape(call, 1, &call->in[0].shape, "the output whose gradient input 0 is"));
    call->out[0] = call->in[0];
    return RF_OK;
}

rf_result rf_emit_softmax(rf_graph *g, rf_value x, rf_value *out)
{
    return rf_graph_add(g, &rf_op_softmax, NULL, &x, 1, out);
}

rf_result rf_emit_log_softmax(rf_graph *g, rf_value x, rf_value *out)
{
    return rf_graph_add(g, &rf_op_log_softmax, NULL, &x, 1, out);
}

static rf_result emit_grad(rf_grad_context *ctx, const rf_op *op)
{
    const rf_value in[2] = { ctx->dout[0], ctx->out[0] };
    if (ctx->dout[0] == 0 || !ctx->needed[0]) return RF_OK;
    return rf_graph_add(ctx->graph, op, NULL, in, 2, &ctx->din[0]);
}

static rf_result softmax_gradient(rf_grad_context *ctx)
{
    return emit_grad(ctx, &rf_op_softmax_grad);
}
static rf_result log_softmax_gradient(rf_grad_context *ctx)
{
    return emit_grad(ctx, &rf_op_log_softmax_grad);
}

static void reference_rows(const rf_op_call *call, const float *x, float *y, bool logarithm)
{
    const uint64_t rows = rf_desc_rows(&call->in[0]), columns = rf_desc_columns(&call->in[0]);
    for (uint64_t r = 0; r < rows; r++, x += columns, y += columns) {
        double top = -INFINITY, total = 0;
        for (uint64_t c = 0; c < columns; c++) top = rf_larger(top, x[c]);
        for (uint64_t c = 0; c < columns; c++) total += exp(x[c] - top);
        for (uint64_t c = 0; c < columns; c++)
            y[c] = (float)(logarithm ? x[c] - top - log(total) : exp(x[c] - top) / total);
    }
}

static void reference_grad_rows(const rf_op_call *call, const float *dy, const float *y, float *dx, bool logarithm)
{
    const uint64_t rows = rf_desc_rows(&call->in[0]), columns = rf_desc_columns(&call->in[0]);
    for (uint64_t r = 0; r < rows; r++, dy += columns, y += columns, dx += columns) {
        double total = 0;
        for (uint64_t c = 0; c < columns; c++) total += logarithm ? dy[c] : (double)dy[c] * y[c];
        for (uint64_t c = 0; c < columns; c++)
            dx[c] = (float)(logarithm ? dy[c] - exp((double)y[c]) * total : y[c] * (dy[c] - total));
    }
}

static rf_result softmax_reference(const rf_op_call *call, void *const *in, void *const *out)
{
    reference_rows(call, in[0], out[0], false);
    return RF_OK;
}

static rf_result log_softmax_reference(const rf_op_call *call, void *const *in, void *const *out)
{
    reference_rows(call, in[0], out[0], true);
    return RF_OK;
}

static rf_result softmax_grad_reference(const rf_op_call *call, void *const *in, void *const *out)
{
    reference_grad_rows(call, in[0], in[1], out[0], false);
    return RF_OK;
}

static rf_result log_softmax_grad_reference(const rf_op_call *call, void *const *in, void *const *out)
{
    reference_grad_rows(call, in[0], in[1], out[0], true);
    return RF_OK;
}

static rf_cost softmax_cost(const rf_op_call *call)
{
    return rf_cost_of(call, 5.0 * (double)rf_desc_count(&call->in[0]));
}

/* ---- the ops ---- */

#define SOFTMAX_OP(id, role_, inputs, flags_, infer_, gradient_)                                                       \
    const rf_op rf_op_##id = {                                                                                         \
        .name = #id,                                                                                                   \
        .role = role_,                                                                                                 \
        .min_in = inputs,                                                                                              \
        .max_in = inputs,                                                                                              \
        .n_out = 1,                                                                                                    \
        .flags = flags_,                                                                                               \
        RF_STORES_16(1),                                                                                               \
        .infer = infer_,                                                                                               \
        .gradient = gradient_,                                                                                         \
        .reference = id##_reference,                                                                                   \
        .cost = softmax_cost,                                                                                          \
        .families = { &rf_softmax_common, RF_GPU(&rf_softmax_gpu) },                                                   \
    }
SOFTMAX_OP(softmax, RF_SOFTMAX, 1, RF_OP_LAST_AXIS, softmax_infer, softmax_gradient);
SOFTMAX_OP(log_softmax, RF_LOG_SOFTMAX, 1, RF_OP_LAST_AXIS, softmax_infer, log_softmax_gradient);
SOFTMAX_OP(softmax_grad, RF_SOFTMAX_GRAD, 2, RF_OP_LAST_AXIS | RF_OP_NO_ONNX, softmax_grad_infer, NULL);
SOFTMAX_OP(log_softmax_grad, RF_LOG_SOFTMAX_GRAD, 2, RF_OP_LAST_AXIS | RF_OP_NO_ONNX, softmax_grad_infer, NULL);
