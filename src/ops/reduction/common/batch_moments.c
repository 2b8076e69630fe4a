/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mean and variance of each channel over all examples and places, in one walk over the tensor, with or without what
 * batch normalization makes of them; and what its gradient takes of each channel, in another: what x [..., c] has in
 * its last dimension stays.
 */
#include <math.h>

#include "ops/reduction/common/batch.h"
#include "ops/reduction/cpu/cpu.h"
#include "ops/reduction/gpu/gpu.h"

static rf_result expect_channels(const rf_op_call *call, uint32_t input)
{
    RF_TRY(rf_expect_rows(call, input));
    return rf_expect_not_empty(call, input);
}

static rf_result moments_infer(rf_op_call *call)
{
    RF_TRY(expect_channels(call, 0));
    const int64_t channels = (int64_t)rf_desc_columns(&call->in[0]);
    call->out[0] = call->out[1] = (rf_tensor_desc){ RF_F32, RF_SHAPE(channels) };
    return RF_OK;
}

static rf_result averages_infer(rf_op_call *call)
{
    const rf_batch_averages_attr *attr = call->attr;
    const uint32_t expected = attr->scaled ? 4 : 3;
    if (call->n_in != expected)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "batch_averages: %u inputs, needs %u", call->n_in, expected);
    RF_TRY(expect_channels(call, 0));
    const rf_shape channels = RF_SHAPE((int64_t)rf_desc_columns(&call->in[0]));
    for (uint32_t i = 1; i < call->n_in; i++) {
        RF_TRY(rf_expect_dtype(call, i, RF_F32));
        RF_TRY(rf_expect_shape(call, i, &channels, "a number for each channel"));
    }
    for (uint32_t i = 0; i < 5; i++) call->out[i] = (rf_tensor_desc){ RF_F32, channels };
    return RF_OK;
}

static rf_result sums_infer(rf_op_call *call)
{
    const rf_batch_sums_attr *attr = call->attr;
    const uint32_t expected = attr->relu ? 6 : 5;
    if (call->n_in != expected)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "batch_sums: %u inputs, needs %u", call->n_in, expected);
    RF_TRY(expect_channels(call, 0));
    const rf_shape channels = RF_SHAPE((int64_t)rf_desc_columns(&call->in[0]));
    RF_TRY(rf_expect_dtype(call, 1, RF_F32));
    RF_TRY(rf_expect_shape(call, 1, &call->in[0].shape, "a value for each gradient"));
    for (uint32_t i = 2; i < call->n_in; i++) {
        RF_TRY(rf_expect_dtype(call, i, RF_F32));
        RF_TRY(rf_expect_shape(call, i, &channels, "a number for each channel"));
    }
    for (uint32_t i = 0; i < 4; i++) call->out[i] = (rf_tensor_desc){ RF_F32, channels };
    return RF_OK;
}

rf_result rf_emit_batch_moments(rf_graph *g, rf_value x, rf_value *mean, rf_value *variance)
{
    rf_value out[RF_MAX_OUTPUTS];
    RF_TRY(rf_graph_add(g, &rf_op_batch_moments, NULL, &x, 1, out));
    *mean = out[0];
    *variance = out[1];
    return RF_OK;
}

rf_result rf_emit_batch_averages(rf_graph *g, const rf_value in[4], const rf_batch_averages_attr *attr,
                                 rf_batch_averages *averages)
{
    rf_value out[RF_MAX_OUTPUTS];
    RF_TRY(rf_graph_add(g, &rf_op_batch_averages, attr, in, attr->scaled ? 4 : 3, out));
    *averages = (rf_batch_averages){
        .mean = out[0], .variance = out[1], .scale = out[2], .next_mean = out[3], .next_variance = out[4]
    };
    return RF_OK;
}

rf_result rf_emit_batch_sums(rf_graph *g, const rf_value in[6], const rf_batch_sums_attr *attr, rf_batch_sums *sums)
{
    rf_value out[RF_MAX_OUTPUTS];
    RF_TRY(rf_graph_add(g, &rf_op_batch_sums, attr, in, attr->relu ? 6 : 5, out));
    *sums = (rf_batch_sums){ .dgamma = out[0], .dshift = out[1], .slope = out[2], .level = out[3] };
    return RF_OK;
}

/* dmean / rows, plus 2 dvariance (x - mean) / rows: that the variance depends on the mean adds nothing, as deviations
 * from it add up to 0. */
static rf_result moments_gradient(rf_grad_context *ctx)
{
    rf_graph *g = ctx->graph;
    const rf_value x = ctx->in[0];
    rf_value level = 0, slope = 0;
    if (ctx->dout[0]) RF_TRY(rf_graph_add(g, &rf_op_mean_scale, NULL, (rf_value[]){ ctx->dout[0], x }, 2, &level));
    if (ctx->dout[1]) {
        rf_value centred;
        RF_TRY(rf_graph_add(g, &rf_op_mean_scale, NULL, (rf_value[]){ ctx->dout[1], x }, 2, &slope));
        RF_TRY(rf_emit_unary(g, RF_FN_MUL_IMM, 2, slope, &slope));
        RF_TRY(rf_emit_binary(g, RF_FN_SUBTRACT, 0, x, ctx->out[0], &centred));
        RF_TRY(rf_emit_binary(g, RF_FN_MULTIPLY, 0, centred, slope, &ctx->din[0]));
    }
    if (!level) return RF_OK;
    if (ctx->din[0]) return rf_emit_binary(g, RF_FN_ADD, 0, ctx->din[0], level, &ctx->din[0]);
    return rf_emit_broadcast_like(g, level, x, &ctx->din[0]);
}

static rf_result moments_reference(const rf_op_call *call, void *const *in, void *const *out)
{
    const float *x = in[0];
    const uint64_t rows = rf_desc_rows(&call->in[0]), columns = rf_desc_columns(&call->in[0]);
    for (uint64_t c = 0; c < columns; c++) {
        double mean = 0, squares = 0;
        for (uint64_t r = 0; r < rows; r++) mean += (double)x[r * columns + c];
        mean /= (double)rows;
        for (uint64_t r = 0; r < rows; r++) {
            const double deviation = (double)x[r * columns + c] - mean;
            squares += deviation * deviation;
        }
        ((float *)out[0])[c] = (float)mean;
        ((float *)out[1])[c] = (float)(squares / (double)rows);
    }
    return RF_OK;
}

static rf_result averages_reference(const rf_op_call *call, void *const *in, void *const *out)
{
    const rf_batch_averages_attr *attr = call->attr;
    const float *old_mean = in[1], *old_variance = in[2], *gamma = attr->scaled ? in[3] : NULL;
    RF_TRY(moments_reference(call, in, out));
    const float *mean = out[0], *variance = out[1];
    for (uint64_t c = 0; c < rf_desc_columns(&call->in[0]); c++) {
        ((float *)out[2])[c] =
            (float)((gamma ? (double)gamma[c] : 1) / sqrt((double)variance[c] + (double)attr->epsilon));
        ((float *)out[3])[c] = attr->keep * old_mean[c] + attr->take * mean[c];
        ((float *)out[4])[c] = attr->keep * old_variance[c] + attr->take * variance[c];
    }
    return RF_OK;
}

static rf_result sums_reference(const rf_op_call *call, void *const *in, void *const *out)
{
    const rf_batch_sums_attr *attr = call->attr;
    const float *dy = in[0], *x = in[1], *mean = in[2], *scale = in[3], *variance = in[4],
                *shift = attr->relu ? in[5] : NULL;
    const uint64_t rows = rf_desc_rows(&call->in[0]), columns = rf_desc_columns(&call->in[0]);
    for (uint64_t c = 0; c < columns; c++) {
        double product = 0, sum = 0;
        for (uint64_t at = c; at < rows * columns; at += columns) {
            const double centred = (double)x[at] - (double)mean[c];
            const double y = shift ? centred * (double)scale[c] + (double)shift[c] : 1;
            const double slope = y > 0 ? (double)dy[at] : isnan(y) ? y : 0;
            product += slope * centred;
            sum += slope;
        }
        const double spread = (double)variance[c] + (double)attr->epsilon;
        ((float *)out[0])[c] = (float)(product / sqrt(spread));
        ((float *)out[1])[c] = (float)sum;
        ((float *)out[2])[c] = (float)(-(double)scale[c] * product / spread / (double)rows);
        ((float *)out[3])[c] = (float)(-(double)scale[c] * sum / (double)rows);
    }
    return RF_OK;
}

static rf_cost batch_cost(const rf_op_call *call)
{
    return rf_cost_of(call, 4.0 * (double)rf_desc_count(&call->in[0]));
}

/* ---- the ops ---- */

const rf_op rf_op_batch_moments = {
    .name = "batch_moments",
    .role = RF_BATCH_MOMENTS,
    .min_in = 1,
    .max_in = 1,
    .n_out = 2,
    .flags = RF_OP_NO_ONNX,
    .unbatched_out = 1u << 0 | 1u << 1,
    RF_STORES_16(0),
    .infer = moments_infer,
    .gradient = moments_gradient,
    .reference = moments_reference,
    .cost = batch_cost,
    .families = { &rf_batch_common, RF_SOFTWARE(&rf_batch_cpu), RF_GPU(&rf_batch_gpu) },
};

static const rf_attr_field averages_fields[] = { RF_ATTR_NUMBER(rf_batch_averages_attr, epsilon),
                                                 RF_ATTR_NUMBER(rf_batch_averages_attr, keep),
                                                 RF_ATTR_NUMBER(rf_batch_averages_attr, take),
                                                 RF_ATTR_FLAG(rf_batch_averages_attr, scaled) };

const rf_op rf_op_batch_averages = {
    .name = "batch_averages",
    .role = RF_BATCH_AVERAGES,
    RF_ATTRIBUTES(rf_batch_averages_attr, averages_fields),
    .min_in = 3,
    .max_in = 4,
    .n_out = 5,
    .flags = RF_OP_NO_ONNX,
    .unbatched_in = 1u << 1 | 1u << 2 | 1u << 3,
    .unbatched_out = 1u << 0 | 1u << 1 | 1u << 2 | 1u << 3 | 1u << 4,
    RF_STORES_16(0),
    .infer = averages_infer,
    .reference = averages_reference,
    .cost = batch_cost,
    .families = { &rf_batch_common, RF_SOFTWARE(&rf_batch_cpu), RF_GPU(&rf_batch_gpu) },
};

static const rf_attr_field sums_fields[] = { RF_ATTR_NUMBER(rf_batch_sums_attr, epsilon),
                                             RF_ATTR_FLAG(rf_batch_sums_attr, relu) };

const rf_op rf_op_batch_sums = {
    .name = "batch_sums",
    .role = RF_BATCH_SUMS,
    RF_ATTRIBUTES(rf_batch_sums_attr, sums_fields),
    .min_in = 5,
    .max_in = 6,
    .n_out = 4,
    .flags = RF_OP_NO_ONNX,
    .unbatched_in = 1u << 2 | 1u << 3 | 1u << 4 | 1u << 5,
    .unbatched_out = 1u << 0 | 1u << 1 | 1u << 2 | 1u << 3,
    RF_STORES_16(0),
    .infer = sums_infer,
    .reference = sums_reference,
    .cost = batch_cost,
    .families = { &rf_batch_common, RF_SOFTWARE(&rf_batch_cpu), RF_GPU(&rf_batch_gpu) },
};
