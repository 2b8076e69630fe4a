/* SPDX-License-Identifier: Apache-2.0 */
/* Padding by a constant: a box in the middle of what is filled with it. */
#include "ops/ops.h"
#include "ops/pointwise/common/strided_copy.h"

static rf_result pad_infer(rf_op_call *call)
{
    const rf_pad_attr *attr = call->attr;
    char shape[96];
    RF_TRY(rf_expect_dtype(call, 0, RF_F32));
    call->out[0] = call->in[0];
    rf_shape *out = &call->out[0].shape;
    for (int32_t d = 0; d < RF_MAX_RANK; d++) {
        const int64_t more = (int64_t)attr->before[d] + attr->after[d];
        if (attr->before[d] < 0 || attr->after[d] < 0)
            return RF_FAIL(RF_ERROR_INVALID_ARGUMENT,
                           "pad: %d elements before and %d after axis %d; neither may be negative", attr->before[d],
                           attr->after[d], (int)d);
        if (more == 0) continue;
        if (d >= out->rank)
            return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "pad: there is padding for axis %d, which shape %s does not have",
                           (int)d, rf_shape_format(*out, shape, sizeof(shape)));
        if (__builtin_add_overflow(out->dim[d], more, &out->dim[d]))
            return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "pad: axis %d becomes too long", (int)d);
    }
    return RF_OK;
}

rf_result rf_emit_pad(rf_graph *g, rf_value x, const int64_t *before, const int64_t *after, uint32_t num_axes,
                      float value, rf_value *out)
{
    rf_pad_attr attr = { .value = value };
    char shape[96];
    if (num_axes > (uint32_t)rf_graph_desc(g, x)->shape.rank)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "pad: padding for %u axes, but shape %s", num_axes,
                       rf_shape_format(rf_graph_desc(g, x)->shape, shape, sizeof(shape)));
    for (uint32_t d = 0; d < num_axes; d++) {
        if (before[d] < 0 || before[d] > INT32_MAX || after[d] < 0 || after[d] > INT32_MAX)
            return RF_FAIL(RF_ERROR_INVALID_ARGUMENT,
                           "pad: %lld elements before and %lld after axis %u; each must be from 0 to %d",
                           (long long)before[d], (long long)after[d], d, INT32_MAX);
        attr.before[d] = (int32_t)before[d];
        attr.after[d] = (int32_t)after[d];
    }
    return rf_graph_add(g, &rf_op_pad, &attr, &x, 1, out);
}

/* The slice of what flows in that is not padding. Ends count from the end: dimension 0 changes with the batch. */
static rf_result pad_gradient(rf_grad_context *ctx)
{
    const rf_pad_attr *attr = ctx->attr;
    rf_slice_attr middle = { { 0 } };
    if (ctx->dout[0] == 0 || !ctx->needed[0]) return RF_OK;
    for (int32_t d = 0; d < RF_MAX_RANK; d++) {
        if (attr->before[d] == 0 && attr->after[d] == 0) continue;
        middle.begin[d] = attr->before[d];
        middle.end[d] = attr->after[d] > 0 ? -(int64_t)attr->after[d] : INT64_MAX;
        middle.step[d] = 1;
    }
    return rf_graph_add(ctx->graph, &rf_op_slice, &middle, &ctx->dout[0], 1, &ctx->din[0]);
}

/* Where x stands in the result. */
static rf_box_copy copy_of(const rf_op_call *call)
{
    const rf_pad_attr *attr = call->attr;
    rf_box_copy copy = { .tensor = &call->out[0].shape, .scatter = true };
    for (int32_t d = 0; d < call->in[0].shape.rank; d++)
        copy.ranges[d] = (rf_box_range){ attr->before[d], 1, call->in[0].shape.dim[d] };
    return copy;
}

static rf_result pad_reference(const rf_op_call *call, void *const *in, void *const *out)
{
    const float *x = in[0], value = ((const rf_pad_attr *)call->attr)->value;
    float *y = out[0];
    const rf_box_copy copy = copy_of(call);
    for (int64_t e = 0; e < rf_shape_count(call->out[0].shape); e++) y[e] = value;
    for (int64_t e = 0; e < rf_shape_count(call->in[0].shape); e++) y[rf_box_place(copy.tensor, copy.ranges, e)] = x[e];
    return RF_OK;
}

static rf_cost pad_cost(const rf_op_call *call)
{
    return rf_cost_of(call, 0);
}

/* ---- kernels; of 16 bits in words of two elements ---- */

/* Words of zeros are the same in both types. */
static bool takes_words(const rf_op_call *call, const rf_device_caps *caps)
{
    const rf_pad_attr *attr = call->attr;
    return rf_words_narrow(call, caps) && attr->value == 0 && attr->before[call->in[0].shape.rank - 1] % 2 == 0;
}

static bool takes_word_texels(const rf_op_call *call, const rf_device_caps *caps)
{
    return rf_texels_narrow(call, caps) && takes_words(call, caps);
}

/* The copy, and the call in the units that it counts in, which has its shapes. */
static rf_box_copy copy_in_units(const rf_op_call *call, rf_op_call *units)
{
    *units = rf_call_in_words(call);
    rf_box_copy copy = copy_of(units);
    if (rf_call_is_narrow(call)) copy.ranges[call->in[0].shape.rank - 1].begin /= 2;
    return copy;
}

static rf_result plan_value(const rf_op_call *call, const rf_device_caps *caps, rf_kernel_plan *plan)
{
    return rf_box_plan_background(call, ((const rf_pad_attr *)call->attr)->value, caps, plan);
}

static double score_strided(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    (void)call;
    return rf_box_score(caps);
}

static rf_result plan_strided(const rf_op_call *call, const rf_device_caps *caps, const void *data,
                              rf_kernel_plan *plan)
{
    rf_op_call units;
    const rf_box_copy copy = copy_in_units(call, &units);
    RF_TRY(plan_value(&units, caps, plan));
    return rf_box_copy_plan(&copy, caps, plan);
}

static double score_texel(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    rf_op_call units;
    const rf_box_copy copy = copy_in_units(call, &units);
    return rf_box_score_texels(&units, &copy, 1, caps);
}

static rf_result plan_texel(const rf_op_call *call, const rf_device_caps *caps, const void *data, rf_kernel_plan *plan)
{
    rf_op_call units;
    const rf_box_copy copy = copy_in_units(call, &units);
    RF_TRY(plan_value(&units, caps, plan));
    return rf_box_copy_plan_texels(&copy, caps, plan);
}

static double score_runs(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    rf_op_call units;
    const rf_box_copy copy = copy_in_units(call, &units);
    return rf_box_score_runs(&copy, 1, caps);
}

static rf_result plan_runs(const rf_op_call *call, const rf_device_caps *caps, const void *data, rf_kernel_plan *plan)
{
    rf_op_call units;
    const rf_box_copy copy = copy_in_units(call, &units);
    RF_TRY(plan_value(&units, caps, plan));
    return rf_box_copy_plan_runs(&copy, caps, plan);
}

static const rf_kernel strided = { "strided", score_strided, plan_strided, .narrow = takes_words };
static const rf_kernel texel = { "texel", score_texel, plan_texel, .narrow = takes_word_texels };
static const rf_kernel runs = { "runs", score_runs, plan_runs, .narrow = takes_words };
static const rf_kernel *const kernels[] = { &strided, &texel, &runs };

/* ---- the op; tests/ops/test_small_limits.c cuts boxes along any dimension ---- */

static const rf_attr_field fields[] = {
    RF_ATTR_INTS(rf_pad_attr, before[0], "before", RF_MAX_RANK, 0, INT32_MAX),
    RF_ATTR_INTS(rf_pad_attr, after[0], "after", RF_MAX_RANK, 0, INT32_MAX),
    RF_ATTR_NUMBER(rf_pad_attr, value),
};

const rf_op rf_op_pad = {
    .name = "pad",
    RF_ATTRIBUTES(rf_pad_attr, fields),
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    RF_STORES_16(1),
    .infer = pad_infer,
    .gradient = pad_gradient,
    .reference = pad_reference,
    .cost = pad_cost,
    RF_KERNELS(kernels),
};
