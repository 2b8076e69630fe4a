/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Batch normalization of each channel once its moments are known: (x - mean) * scale + shift. An op of its
 * own for the sake of its gradient, which takes one walk for all that is added up, and knows how mean and scale follow
 * from x and gamma; it runs by the element-wise kernels, and fuses like them.
 */
#include "ops/kit.h"
#include "ops/pointwise/common/elementwise.h"
#include "ops/pointwise/cpu/cpu.h"

/* Inputs: x, mean, scale[, shift], then what only the gradient reads: variance[, gamma]. */
static uint32_t used_inputs(const rf_normalize_attr *attr)
{
    return 3 + attr->shifted;
}

static rf_result normalize_infer(rf_op_call *call)
{
    const rf_normalize_attr *attr = call->attr;
    const uint32_t expected = used_inputs(attr) + 1 + attr->scaled;
    if (call->n_in != expected)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "normalize: %u inputs, needs %u", call->n_in, expected);
    RF_TRY(rf_expect_rows(call, 0));
    RF_TRY(rf_expect_not_empty(call, 0));
    const rf_shape channels = RF_SHAPE((int64_t)rf_desc_columns(&call->in[0]));
    for (uint32_t i = 1; i < call->n_in; i++) {
        RF_TRY(rf_expect_dtype(call, i, RF_F32));
        RF_TRY(rf_expect_shape(call, i, &channels, "a number for each channel"));
    }
    call->out[0] = call->in[0];
    return RF_OK;
}

rf_result rf_emit_normalize(rf_graph *g, const rf_normalize_values *v, float epsilon, rf_value *out)
{
    const rf_normalize_attr attr = { .epsilon = epsilon, .scaled = v->gamma != 0, .shifted = v->shift != 0 };
    rf_value in[RF_MAX_INPUTS] = { v->x, v->mean, v->scale };
    uint32_t n = 3;
    if (v->shift) in[n++] = v->shift;
    in[n++] = v->variance;
    if (v->gamma) in[n++] = v->gamma;
    return rf_graph_add(g, &rf_op_normalize, &attr, in, n, out);
}

static bool is_step(const rf_node_info *node, rf_scalar_fn fn)
{
    const rf_elementwise_attr *attr = node->attr;
    return node->op == &rf_op_elementwise && attr->n_steps == 1 && attr->steps[0].fn == fn;
}

/* Whether dy is what the gradient of a ReLU, the only reader of `out`, has left of *behind. */
static bool find_relu(const rf_graph *g, rf_value dy, rf_value out, rf_value *behind)
{
    const rf_value_info *gradient = &g->values.items[dy];
    if (gradient->kind != RF_VALUE_RESULT) return false;
    const rf_node_info *mask = &g->nodes.items[gradient->producer];
    if (!is_step(mask, RF_FN_RELU_GRAD) || mask->n_in != 2) return false;
    const rf_value_info *positive = &g->values.items[mask->in[1]];
    if (positive->kind != RF_VALUE_RESULT) return false;
    const rf_node_info *relu = &g->nodes.items[positive->producer];
    if (!is_step(relu, RF_FN_RELU) || relu->in[0] != out) return false;
    *behind = mask->in[0];
    return true;
}

/* The same where dy, that behind a ReLU, counts where (x - mean) * scale + shift is positive: nobody has to write what
 * is left of it, and what the ReLU gave need not be read. */
static rf_result emit_behind_relu(rf_grad_context *ctx, rf_value dy, const rf_batch_sums *sums)
{
    enum { DY, X, MEAN, SCALE, SHIFT, SLOPE, LEVEL, CENTRED, SCALED, NORMALIZED, MASKED, SLOPED, RAISED, PASSED };
    static const rf_elementwise_attr program = { 8,
                                                 { { RF_FN_SUBTRACT, X, MEAN, 0, 0 },
                                                   { RF_FN_MULTIPLY, CENTRED, SCALE, 0, 0 },
                                                   { RF_FN_ADD, SCALED, SHIFT, 0, 0 },
                                                   { RF_FN_RELU_GRAD, DY, NORMALIZED, 0, 0 },
                                                   { RF_FN_MULTIPLY, CENTRED, SLOPE, 0, 0 },
                                                   { RF_FN_ADD, SLOPED, LEVEL, 0, 0 },
                                                   { RF_FN_MULTIPLY, MASKED, SCALE, 0, 0 },
                                                   { RF_FN_ADD, PASSED, RAISED, 0, 0 } } };
    const rf_value in[] = { dy, ctx->in[0], ctx->in[1], ctx->in[2], ctx->in[3], sums->slope, sums->level };
    return rf_graph_add(ctx->graph, &rf_op_elementwise, &program, in, sizeof(in) / sizeof(in[0]), &ctx->din[0]);
}

/* Through the moments, too: dx = dy * scale + (x - mean) * slope + level. */
static rf_result normalize_gradient(rf_grad_context *ctx)
{
    rf_graph *g = ctx->graph;
    const rf_normalize_attr *attr = ctx->attr;
    const uint32_t variance = used_inputs(attr), gamma = variance + 1;
    const rf_value x = ctx->in[0], mean = ctx->in[1], scale = ctx->in[2];
    rf_value dy = ctx->dout[0];
    const bool relu = attr->shifted && find_relu(g, dy, ctx->out[0], &dy);
    const rf_batch_sums_attr what = { .epsilon = attr->epsilon, .relu = relu };
    rf_batch_sums sums;
    rf_value scaled, centred;
    RF_TRY(rf_emit_batch_sums(g, (rf_value[]){ dy, x, mean, scale, ctx->in[variance], relu ? ctx->in[3] : 0 }, &what,
                              &sums));
    if (attr->shifted && ctx->needed[3]) ctx->din[3] = sums.dshift;
    if (attr->scaled && ctx->needed[gamma]) ctx->din[gamma] = sums.dgamma;
    if (!ctx->needed[0]) return RF_OK;
    if (relu) return emit_behind_relu(ctx, dy, &sums);
    RF_TRY(rf_emit_binary(g, RF_FN_MULTIPLY, 0, dy, scale, &scaled));
    RF_TRY(rf_emit_binary(g, RF_FN_SUBTRACT, 0, x, mean, &centred));
    RF_TRY(rf_emit_binary(g, RF_FN_MULTIPLY, 0, centred, sums.slope, &centred));
    RF_TRY(rf_emit_binary(g, RF_FN_ADD, 0, centred, sums.level, &centred));
    return rf_emit_binary(g, RF_FN_ADD, 0, scaled, centred, &ctx->din[0]);
}

static rf_result normalize_reference(const rf_op_call *call, void *const *in, void *const *out)
{
    const rf_normalize_attr *attr = call->attr;
    const float *x = in[0], *mean = in[1], *scale = in[2], *shift = attr->shifted ? in[3] : NULL;
    const uint64_t rows = rf_desc_rows(&call->in[0]), columns = rf_desc_columns(&call->in[0]);
    for (uint64_t at = 0; at < rows * columns; at++) {
        const uint64_t c = at % columns;
        ((float *)out[0])[at] =
            (float)(((double)x[at] - (double)mean[c]) * (double)scale[c] + (shift ? (double)shift[c] : 0));
    }
    return RF_OK;
}

static rf_cost normalize_cost(const rf_op_call *call)
{
    return rf_cost_of(call, (double)(used_inputs(call->attr) - 1) * (double)rf_desc_count(&call->in[0]));
}

/* ---- the op ---- */

static const rf_attr_field fields[] = {
    RF_ATTR_NUMBER(rf_normalize_attr, epsilon),
    RF_ATTR_FLAG(rf_normalize_attr, scaled),
    RF_ATTR_FLAG(rf_normalize_attr, shifted),
};

const rf_op rf_op_normalize = {
    .name = "normalize",
    .role = RF_PROGRAM_NORMALIZE,
    RF_ATTRIBUTES(rf_normalize_attr, fields),
    .min_in = 4,
    .max_in = 6,
    .n_out = 1,
    .flags = RF_OP_INPLACE | RF_OP_NO_ONNX,
    .unbatched_in = 1u << 1 | 1u << 2 | 1u << 3 | 1u << 4 | 1u << 5,
    RF_STORES_16(1),
    .infer = normalize_infer,
    .gradient = normalize_gradient,
    .reference = normalize_reference,
    .cost = normalize_cost,
    .absorb_consumer = rf_elementwise_absorb,
    .families = { &rf_elementwise_common, RF_SOFTWARE(&rf_elementwise_cpu) },
};
