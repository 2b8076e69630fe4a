/* SPDX-License-Identifier: Apache-2.0 */
/* Layer and root mean square normalisation along the last dimension, with their gradients. */
#include "ops/reduction/common/layer_norm.h"
#include "ops/ops.h"
#include "ops/reduction/cpu/cpu.h"
#include "ops/reduction/gpu/gpu.h"

#include <math.h>

/* ---- host side ---- */

/* gamma and beta, as far as they are there, come last. */
static rf_result expect_vectors(const rf_op_call *call, uint32_t first, const rf_tensor_desc *x, uint32_t wanted)
{
    if (call->n_in != first + wanted)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s: %u inputs, needs %u", call->op->name, call->n_in,
                       first + wanted);
    const rf_shape columns = RF_SHAPE(x->shape.dim[x->shape.rank - 1]);
    for (uint32_t i = first; i < call->n_in; i++) {
        RF_TRY(rf_expect_dtype(call, i, RF_F32));
        RF_TRY(rf_expect_shape(call, i, &columns, "one number for each element of the last dimension"));
    }
    return RF_OK;
}

static rf_shape row_shape(const rf_tensor_desc *x)
{
    rf_shape shape = x->shape;
    shape.dim[shape.rank - 1] = 1;
    return shape;
}

static rf_result norm_infer(rf_op_call *call)
{
    const rf_layer_norm_attr *attr = call->attr;
    RF_TRY(rf_expect_rows(call, 0));
    RF_TRY(expect_vectors(call, 1, &call->in[0], attr->scale + attr->center));
    if (!(attr->epsilon > 0) || !isfinite(attr->epsilon))
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s: epsilon is %g, must be positive", call->op->name,
                       (double)attr->epsilon);
    call->out[0] = call->in[0];
    call->out[1] = call->out[2] = (rf_tensor_desc){ RF_F32, row_shape(&call->in[0]) };
    return RF_OK;
}

static rf_result grad_infer(rf_op_call *call)
{
    const rf_layer_norm_attr *attr = call->attr;
    RF_TRY(rf_expect_rows(call, 1));
    const rf_shape rows = row_shape(&call->in[1]);
    for (uint32_t i = 0; i < 4; i++) RF_TRY(rf_expect_dtype(call, i, RF_F32));
    RF_TRY(rf_expect_shape(call, 0, &call->in[1].shape, "one gradient for each element"));
    for (uint32_t i = 2; i < 4; i++) RF_TRY(rf_expect_shape(call, i, &rows, "one number for each row"));
    RF_TRY(expect_vectors(call, 4, &call->in[1], attr->scale));
    call->out[0] = call->in[1];
    return RF_OK;
}

rf_result rf_emit_layer_norm(rf_graph *g, rf_value x, rf_value gamma, rf_value beta, float epsilon, bool rms,
                             rf_value *out)
{
    const rf_layer_norm_attr attr = { .epsilon = epsilon, .rms = rms, .scale = gamma != 0, .center = beta != 0 };
    rf_value in[3] = { x }, all[3];
    uint32_t count = 1;
    if (gamma) in[count++] = gamma;
    if (beta) in[count++] = beta;
    RF_TRY(rf_graph_add(g, &rf_op_layer_norm, &attr, in, count, all));
    *out = all[0];
    return RF_OK;
}

/* (x - mean) / deviation, which is y without gamma and beta. */
static rf_result emit_normal(rf_grad_context *ctx, rf_value *out)
{
    rf_value centred;
    RF_TRY(rf_emit_binary(ctx->graph, RF_FN_SUBTRACT, 0, ctx->in[0], ctx->out[1], &centred));
    return rf_emit_binary(ctx->graph, RF_FN_MULTIPLY, 0, centred, ctx->out[2], out);
}

static rf_result add_to(rf_graph *g, rf_value term, rf_value *total)
{
    if (*total == 0) {
        *total = term;
        return RF_OK;
    }
    const rf_value before = *total;
    return rf_emit_binary(g, RF_FN_ADD, 0, before, term, total);
}

/* Divided by the length of rows, which may follow the batch. */
static rf_result emit_share(const rf_grad_context *ctx, rf_value rows, rf_value *out)
{
    return rf_graph_add(ctx->graph, &rf_op_mean_scale, NULL, (rf_value[]){ rows, ctx->in[0] }, 2, out);
}

/* The gradient that comes through the mean and through the inverse deviation, which losses hardly ever read. */
static rf_result statistics_gradient(rf_grad_context *ctx)
{
    const rf_layer_norm_attr *attr = ctx->attr;
    rf_graph *g = ctx->graph;
    rf_value term, normal;
    if (ctx->dout[1] && !attr->rms) {
        RF_TRY(emit_share(ctx, ctx->dout[1], &term));
        RF_TRY(rf_emit_broadcast_like(g, term, ctx->in[0], &term));
        RF_TRY(add_to(g, term, &ctx->din[0]));
    }
    if (ctx->dout[2]) {
        RF_TRY(emit_normal(ctx, &normal));
        RF_TRY(rf_emit_unary(g, RF_FN_SQUARE, 0, ctx->out[2], &term));
        RF_TRY(rf_emit_binary(g, RF_FN_MULTIPLY, 0, term, ctx->dout[2], &term));
        RF_TRY(emit_share(ctx, term, &term));
        RF_TRY(rf_emit_unary(g, RF_FN_NEGATIVE, 0, term, &term));
        RF_TRY(rf_emit_binary(g, RF_FN_MULTIPLY, 0, normal, term, &term));
        RF_TRY(add_to(g, term, &ctx->din[0]));
    }
    return RF_OK;
}

static rf_result norm_gradient(rf_grad_context *ctx)
{
    const rf_layer_norm_attr *attr = ctx->attr;
    rf_graph *g = ctx->graph;
    const uint32_t gamma = 1, beta = 1 + attr->scale;
    if (ctx->dout[0] && ctx->needed[0]) {
        rf_layer_norm_attr own = *attr;
        own.center = 0;
        const rf_value in[5] = { ctx->dout[0], ctx->in[0], ctx->out[1], ctx->out[2], attr->scale ? ctx->in[gamma] : 0 };
        RF_TRY(rf_graph_add(g, &rf_op_layer_norm_grad, &own, in, 4 + attr->scale, &ctx->din[0]));
    }
    if (ctx->needed[0]) RF_TRY(statistics_gradient(ctx));
    if (ctx->dout[0] && attr->scale && ctx->needed[gamma]) {
        rf_value normal, product;
        RF_TRY(emit_normal(ctx, &normal));
        RF_TRY(rf_emit_binary(g, RF_FN_MULTIPLY, 0, normal, ctx->dout[0], &product));
        RF_TRY(rf_emit_sum_to_like(g, product, ctx->in[gamma], &ctx->din[gamma]));
    }
    if (ctx->dout[0] && attr->center && ctx->needed[beta])
        RF_TRY(rf_emit_sum_to_like(g, ctx->dout[0], ctx->in[beta], &ctx->din[beta]));
    return RF_OK;
}

static rf_result norm_reference(const rf_op_call *call, void *const *in, void *const *out)
{
    const rf_layer_norm_attr *attr = call->attr;
    const uint64_t rows = rf_desc_rows(&call->in[0]), columns = rf_desc_columns(&call->in[0]);
    const float *gamma = attr->scale ? in[1] : NULL, *beta = attr->center ? in[1 + attr->scale] : NULL;
    for (uint64_t r = 0; r < rows; r++) {
        const float *x = (const float *)in[0] + r * columns;
        float *y = (float *)out[0] + r * columns;
        double mean = 0, squares = 0;
        for (uint64_t c = 0; c < columns && !attr->rms; c++) mean += (double)x[c];
        mean /= (double)columns;
        for (uint64_t c = 0; c < columns; c++) squares += ((double)x[c] - mean) * ((double)x[c] - mean);
        const double inverse = 1 / sqrt(squares / (double)columns + (double)attr->epsilon);
        for (uint64_t c = 0; c < columns; c++)
            y[c] = (float)(((double)x[c] - mean) * inverse * (gamma ? (double)gamma[c] : 1) +
                           (beta ? (double)beta[c] : 0));
        ((float *)out[1])[r] = (float)mean;
        ((float *)out[2])[r] = (float)inverse;
    }
    return RF_OK;
}

static rf_result grad_reference(const rf_op_call *call, void *const *in, void *const *out)
{
    const rf_layer_norm_attr *attr = call->attr;
    const uint64_t rows = rf_desc_rows(&call->in[1]), columns = rf_desc_columns(&call->in[1]);
    const float *gamma = attr->scale ? in[4] : NULL;
    for (uint64_t r = 0; r < rows; r++) {
        const float *dy = (const float *)in[0] + r * columns, *x = (const float *)in[1] + r * columns;
        const double mean = (double)((const float *)in[2])[r], inverse = (double)((const float *)in[3])[r];
        float *dx = (float *)out[0] + r * columns;
        double level = 0, slope = 0;
        for (int pass = 0; pass < 2; pass++)
            for (uint64_t c = 0; c < columns; c++) {
                const double scaled = (double)dy[c] * (gamma ? (double)gamma[c] : 1);
                const double normal = ((double)x[c] - mean) * inverse;
                if (pass == 0) {
                    if (!attr->rms) level += scaled / (double)columns;
                    slope += scaled * normal / (double)columns;
                } else {
                    dx[c] = (float)(inverse * (scaled - level - normal * slope));
                }
            }
    }
    return RF_OK;
}

static rf_cost norm_cost(const rf_op_call *call)
{
    return rf_cost_of(call, 8.0 * (double)rf_desc_count(&call->out[0]));
}

/* ---- the ops ---- */

static const rf_attr_field fields[] = {
    RF_ATTR_NUMBER(rf_layer_norm_attr, epsilon),
    RF_ATTR_FLAG(rf_layer_norm_attr, rms),
    RF_ATTR_FLAG(rf_layer_norm_attr, scale),
    RF_ATTR_FLAG(rf_layer_norm_attr, center),
};

const rf_op rf_op_layer_norm = {
    .name = "layer_norm",
    .role = RF_LAYER_NORM,
    RF_ATTRIBUTES(rf_layer_norm_attr, fields),
    .min_in = 1,
    .max_in = 3,
    .n_out = 3,
    .flags = RF_OP_LAST_AXIS,
    .unbatched_in = 1u << 1 | 1u << 2,
    RF_STORES_16(1),
    .infer = norm_infer,
    .gradient = norm_gradient,
    .reference = norm_reference,
    .cost = norm_cost,
    .families = { &rf_layer_norm_common, RF_SOFTWARE(&rf_layer_norm_cpu), RF_GPU(&rf_layer_norm_gpu) },
};

const rf_op rf_op_layer_norm_grad = {
    .name = "layer_norm_grad",
    .role = RF_LAYER_NORM_GRAD,
    RF_ATTRIBUTES(rf_layer_norm_attr, fields),
    .min_in = 4,
    .max_in = 5,
    .n_out = 1,
    .flags = RF_OP_LAST_AXIS | RF_OP_NO_ONNX,
    .unbatched_in = 1u << 4,
    .row_numbers = 1u << 2 | 1u << 3,
    RF_STORES_16(1),
    .infer = grad_infer,
    .reference = grad_reference,
    .cost = norm_cost,
    .families = { &rf_layer_norm_common, RF_SOFTWARE(&rf_layer_norm_cpu), RF_GPU(&rf_layer_norm_gpu) },
};
