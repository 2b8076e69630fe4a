/* SPDX-License-Identifier: Apache-2.0 */
/* Cumulative sums along the last dimension. */
#include "ops/ops.h"
#include "ops/reduction/common/scan.h"
#include "rf_shaders.h"

/* ---- host side ---- */

static rf_result cumsum_infer(rf_op_call *call)
{
    RF_TRY(rf_expect_rows(call, 0));
    call->out[0] = call->in[0];
    return RF_OK;
}

rf_result rf_emit_cumsum(rf_graph *g, rf_value x, bool exclusive, bool reverse, rf_value *out)
{
    const rf_cumsum_attr attr = { .exclusive = exclusive, .reverse = reverse };
    return rf_graph_add(g, &rf_op_cumsum, &attr, &x, 1, out);
}

/* An element is part of its own sum and of all that follow: its gradient is the sum of theirs, added from the other
 * end. */
static rf_result cumsum_gradient(rf_grad_context *ctx)
{
    const rf_cumsum_attr *attr = ctx->attr;
    if (ctx->dout[0] == 0 || !ctx->needed[0]) return RF_OK;
    return rf_emit_cumsum(ctx->graph, ctx->dout[0], attr->exclusive, !attr->reverse, &ctx->din[0]);
}

static rf_result cumsum_reference(const rf_op_call *call, void *const *in, void *const *out)
{
    const rf_cumsum_attr *attr = call->attr;
    const uint64_t rows = rf_desc_rows(&call->in[0]), columns = rf_desc_columns(&call->in[0]);
    const float *x = in[0];
    float *y = out[0];
    for (uint64_t r = 0; r < rows; r++, x += columns, y += columns) {
        double sum = 0;
        for (uint64_t i = 0; i < columns; i++) {
            const uint64_t c = attr->reverse ? columns - 1 - i : i;
            const double before = sum;
            sum += x[c];
            y[c] = (float)(attr->exclusive ? before : sum);
        }
    }
    return RF_OK;
}

static rf_cost cumsum_cost(const rf_op_call *call)
{
    return rf_cost_of(call, (double)rf_desc_count(&call->in[0]));
}

/* ---- kernels ---- */

static rf_scan cumsum_scan(const rf_op_call *call)
{
    const rf_cumsum_attr *attr = call->attr;
    return (rf_scan){ .row = &rf_shader_cumsum,
                      .totals = &rf_shader_cumsum_totals,
                      .blocked = &rf_shader_cumsum_blocked,
                      .total_words = 1,
                      .exclusive = attr->exclusive,
                      .reverse = attr->reverse };
}

static const rf_kernel cumsum_kernels[] = { RF_SCAN_KERNELS(cumsum_scan) };

/* ---- the op ---- */

static const rf_attr_field cumsum_fields[] = {
    RF_ATTR_FLAG(rf_cumsum_attr, exclusive),
    RF_ATTR_FLAG(rf_cumsum_attr, reverse),
};

const rf_op rf_op_cumsum = {
    .name = "cumsum",
    RF_ATTRIBUTES(rf_cumsum_attr, cumsum_fields),
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .flags = RF_OP_INPLACE | RF_OP_LAST_AXIS,
    .infer = cumsum_infer,
    .gradient = cumsum_gradient,
    .reference = cumsum_reference,
    .cost = cumsum_cost,
    RF_KERNELS(cumsum_kernels),
};
