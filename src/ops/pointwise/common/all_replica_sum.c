/* SPDX-License-Identifier: Apache-2.0 */
/* The sum of a tensor over all replicas. Between replicas the step's caller makes it (replica/step/sums.h); a program
 * that runs alone is the only replica, and its sum is a copy. */
#include "ops/kit.h"
#include "ops/ops.h"
#include "ops/pointwise/common/elementwise.h"
#include "ops/pointwise/cpu/cpu.h"

static rf_result all_replica_sum_infer(rf_op_call *call)
{
    if (call->in[0].dtype != RF_F32)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "all_replica_sum: input is %s, not f32; cast it first",
                       rf_dtype_name(call->in[0].dtype));
    call->out[0] = call->in[0];
    return RF_OK;
}

/* Every replica's loss depends on what this one adds, and the loss is the sum of theirs. */
static rf_result all_replica_sum_gradient(rf_grad_context *ctx)
{
    return rf_emit_all_replica_sum(ctx->graph, ctx->dout[0], &ctx->din[0]);
}

static rf_result all_replica_sum_reference(const rf_op_call *call, void *const *in, void *const *out)
{
    const int64_t count = rf_shape_count(call->out[0].shape);
    for (int64_t e = 0; e < count; e++) ((float *)out[0])[e] = ((const float *)in[0])[e];
    return RF_OK;
}

static rf_cost all_replica_sum_cost(const rf_op_call *call)
{
    return rf_cost_of(call, 0);
}

const rf_op rf_op_all_replica_sum = {
    .name = "all_replica_sum",
    .role = RF_PROGRAM_COPY,
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .flags = RF_OP_SUMS_REPLICAS | RF_OP_NO_ONNX,
    .unbatched_in = 1u << 0,
    .unbatched_out = 1u << 0,
    .infer = all_replica_sum_infer,
    .gradient = all_replica_sum_gradient,
    .reference = all_replica_sum_reference,
    .cost = all_replica_sum_cost,
    .families = { &rf_elementwise_common, RF_SOFTWARE(&rf_elementwise_cpu) },
};

rf_result rf_emit_all_replica_sum(rf_graph *g, rf_value x, rf_value *out)
{
    return rf_graph_add(g, &rf_op_all_replica_sum, NULL, &x, 1, out);
}
