/* SPDX-License-Identifier: Apache-2.0 */
/* Cumulative products along the last dimension, and the linear recurrence that their second gradient is made of. */
#include "ops/ops.h"
#include "ops/reduction/common/scan.h"
#include "rf_shaders.h"

#include <math.h>

/* ---- products, host side ---- */

static rf_result cumprod_infer(rf_op_call *call)
{
    RF_TRY(rf_expect_rows(call, 0));
    call->out[0] = call->in[0];
    return RF_OK;
}

rf_result rf_emit_cumprod(rf_graph *g, rf_value x, bool exclusive, bool reverse, rf_value *out)
{
    const rf_cumprod_attr attr = { .exclusive = exclusive, .reverse = reverse };
    return rf_graph_add(g, &rf_op_cumprod, &attr, &x, 1, out);
}

static rf_result cumprod_gradient(rf_grad_context *ctx)
{
    if (ctx->dout[0] == 0 || !ctx->needed[0]) return RF_OK;
    return rf_emit_cumprod_grad(ctx->graph, ctx->attr, ctx->dout[0], ctx->in[0], &ctx->din[0]);
}

/* Products keep exponents of their own, so that those of long rows fit on the way. */
static rf_result cumprod_reference(const rf_op_call *call, void *const *in, void *const *out)
{
    const rf_cumprod_attr *attr = call->attr;
    const uint64_t rows = rf_desc_rows(&call->in[0]), columns = rf_desc_columns(&call->in[0]);
    const float *x = in[0];
    float *y = out[0];
    for (uint64_t r = 0; r < rows; r++, x += columns, y += columns) {
        double product = 1;
        int exponent = 0;
        for (uint64_t i = 0; i < columns; i++) {
            const uint64_t c = attr->reverse ? columns - 1 - i : i;
            const double before = ldexp(product, exponent);
            int more = 0;
            product = frexp(product * (double)x[c], &more);
            exponent += isfinite(product) ? more : 0;
            y[c] = (float)(attr->exclusive ? before : ldexp(product, exponent));
        }
    }
    return RF_OK;
}

static rf_cost cumprod_cost(const rf_op_call *call)
{
    return rf_cost_of(call, (double)rf_desc_count(&call->in[0]));
}

/* ---- recurrence, host side ---- */

static rf_result recurrence_infer(rf_op_call *call)
{
    RF_TRY(rf_expect_rows(call, 0));
    RF_TRY(rf_expect_rows(call, 1));
    RF_TRY(rf_expect_shape(call, 1, &call->in[0].shape, "a factor for each element of x"));
    call->out[0] = call->in[0];
    return RF_OK;
}

rf_result rf_emit_recurrence(rf_graph *g, rf_value x, rf_value factors, bool reverse, rf_value *out)
{
    const rf_recurrence_attr attr = { .reverse = reverse };
    const rf_value in[] = { x, factors };
    return rf_graph_add(g, &rf_op_recurrence, &attr, in, 2, out);
}

/* The gradient by x[i] is dy[i + 1] and, through y[i + 1], the factor's part of the next one: the same recurrence. */
static rf_result recurrence_gradient(rf_grad_context *ctx)
{
    const rf_recurrence_attr *attr = ctx->attr;
    rf_value dx;
    if (ctx->dout[0] == 0 || (!ctx->needed[0] && !ctx->needed[1])) return RF_OK;
    RF_TRY(rf_emit_recurrence(ctx->graph, ctx->dout[0], ctx->in[1], !attr->reverse, &dx));
    if (ctx->needed[0]) ctx->din[0] = dx;
    if (!ctx->needed[1]) return RF_OK;
    return rf_emit_binary(ctx->graph, RF_FN_MULTIPLY, 0, dx, ctx->out[0], &ctx->din[1]);
}

static rf_result recurrence_reference(const rf_op_call *call, void *const *in, void *const *out)
{
    const rf_recurrence_attr *attr = call->attr;
    const uint64_t rows = rf_desc_rows(&call->in[0]), columns = rf_desc_columns(&call->in[0]);
    const float *x = in[0], *factors = in[1];
    float *y = out[0];
    for (uint64_t r = 0; r < rows; r++, x += columns, factors += columns, y += columns) {
        double last = 0;
        for (uint64_t i = 0; i < columns; i++) {
            const uint64_t c = attr->reverse ? columns - 1 - i : i;
            y[c] = (float)last;
            last = (double)x[c] + (i > 0 ? (double)factors[c] * last : 0);
        }
    }
    return RF_OK;
}

static rf_cost recurrence_cost(const rf_op_call *call)
{
    return rf_cost_of(call, 2.0 * (double)rf_desc_count(&call->in[0]));
}

/* ---- kernels ---- */

static rf_scan recurrence_scan(const rf_op_call *call)
{
    const rf_recurrence_attr *attr = call->attr;
    return (rf_scan){ .row = &rf_shader_recurrence,
                      .totals = &rf_shader_recurrence_totals,
                      .blocked = &rf_shader_recurrence_blocked,
                      .total_words = 3,
                      .exclusive = true,
                      .reverse = attr->reverse };
}

static rf_scan cumprod_scan(const rf_op_call *call)
{
    const rf_cumprod_attr *attr = call->attr;
    return (rf_scan){ .row = &rf_shader_cumprod,
                      .totals = &rf_shader_cumprod_totals,
                      .blocked = &rf_shader_cumprod_blocked,
                      .total_words = 2,
                      .exclusive = attr->exclusive,
                      .reverse = attr->reverse };
}

static const rf_kernel cumprod_kernels[] = { RF_SCAN_KERNELS(cumprod_scan) };
static const rf_kernel recurrence_kernels[] = { RF_SCAN_KERNELS(recurrence_scan) };

/* ---- the ops ---- */

static const rf_attr_field cumprod_fields[] = {
    RF_ATTR_FLAG(rf_cumprod_attr, exclusive),
    RF_ATTR_FLAG(rf_cumprod_attr, reverse),
};

const rf_op rf_op_cumprod = {
    .name = "cumprod",
    RF_ATTRIBUTES(rf_cumprod_attr, cumprod_fields),
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .flags = RF_OP_INPLACE | RF_OP_LAST_AXIS | RF_OP_NO_ONNX,
    .infer = cumprod_infer,
    .gradient = cumprod_gradient,
    .reference = cumprod_reference,
    .cost = cumprod_cost,
    RF_KERNELS(cumprod_kernels),
};

static const rf_attr_field recurrence_fields[] = { RF_ATTR_FLAG(rf_recurrence_attr, reverse) };

const rf_op rf_op_recurrence = {
    .name = "recurrence",
    RF_ATTRIBUTES(rf_recurrence_attr, recurrence_fields),
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .flags = RF_OP_INPLACE | RF_OP_LAST_AXIS | RF_OP_NO_ONNX,
    .infer = recurrence_infer,
    .gradient = recurrence_gradient,
    .reference = recurrence_reference,
    .cost = recurrence_cost,
    RF_KERNELS(recurrence_kernels),
};
