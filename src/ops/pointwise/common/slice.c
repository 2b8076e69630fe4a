/* SPDX-License-Identifier: Apache-2.0 */
/* Strided slices by Python's rules, and their gradient: the slice back at its place among zeros. */
#include <string.h>

#include "graph/examples.h"
#include "ops/ops.h"
#include "ops/pointwise/common/strided_copy.h"

/* ---- ranges ---- */

static int64_t index_clamp(int64_t value, int64_t least, int64_t most)
{
    return value < least ? least : value > most ? most : value;
}

/* A range along a dimension of `n` elements, resolved. */
static rf_box_range range_of(const rf_slice_attr *attr, int32_t axis, int64_t n)
{
    const int64_t step = attr->step[axis], begin = attr->begin[axis], end = attr->end[axis];
    if (step == 0) return (rf_box_range){ 0, 1, n };
    /* Negative steps end before element 0, at -1. */
    const int64_t least = step > 0 ? 0 : -1, most = step > 0 ? n : n - 1;
    const int64_t from = index_clamp(begin < 0 ? begin + n : begin, least, most);
    const int64_t to = index_clamp(end < 0 ? end + n : end, least, most);
    const int64_t distance = step > 0 ? to - from : from - to, stride = step > 0 ? step : -step;
    return (rf_box_range){ from, step, distance > 0 ? (distance + stride - 1) / stride : 0 };
}

/* ---- host side ---- */

static rf_result infer_sliced(const rf_op_call *call, const rf_tensor_desc *x, rf_tensor_desc *out)
{
    const rf_slice_attr *attr = call->attr;
    const char *name = call->op->name;
    char shape[96];
    rf_shape_format(x->shape, shape, sizeof(shape));
    *out = *x;
    if (rf_dtype_size(x->dtype) != 4)
        return RF_FAIL(RF_ERROR_UNSUPPORTED, "%s: %s tensors are not supported; cast to f32 first", name,
                       rf_dtype_name(x->dtype));
    for (int32_t d = 0; d < RF_MAX_RANK; d++) {
        if (attr->step[d] == 0) continue;
        if (d >= x->shape.rank)
            return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s: there is a range for axis %d, which shape %s does not have",
                           name, (int)d, shape);
        if (attr->step[d] > INT32_MAX || attr->step[d] < -INT32_MAX)
            return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s: the step of axis %d is %lld; it must fit 32 bits", name,
                           (int)d, (long long)attr->step[d]);
        out->shape.dim[d] = range_of(attr, d, x->shape.dim[d]).count;
        if (out->shape.dim[d] == 0)
            return RF_FAIL(RF_ERROR_INVALID_ARGUMENT,
                           "%s: the range from %lld to %lld by %lld is empty along axis %d of shape %s", name,
                           (long long)attr->begin[d], (long long)attr->end[d], (long long)attr->step[d], (int)d, shape);
    }
    return RF_OK;
}

static rf_result slice_infer(rf_op_call *call)
{
    return infer_sliced(call, &call->in[0], &call->out[0]);
}

/* Rows of the batch in reverse are others with each split. */
static void slice_examples(const void *attr, const rf_examples *const *in, uint32_t n_in, uint32_t i, rf_examples *out)
{
    const rf_slice_attr *slice = attr;
    bool reverses = false, along = false;
    (void)in;
    (void)n_in;
    (void)i;
    for (int32_t d = 0; d < out->shape.rank; d++) {
        reverses |= slice->step[d] < 0;
        along |= slice->step[d] < 0 && out->dim[d].outer != 0;
    }
    for (int32_t d = 0; d < out->shape.rank; d++) {
        const int64_t outer = out->dim[d].outer;
        /* Where rows hold parts of several examples, reversing others reverses these, too. */
        if (outer != 0 && (along || (reverses && outer < 0))) rf_examples_set_dim(out, d, RF_EXAMPLES_DIM_UNKNOWN);
    }
}

static rf_result slice_grad_infer(rf_op_call *call)
{
    rf_tensor_desc slice;
    RF_TRY(infer_sliced(call, &call->in[1], &slice));
    RF_TRY(rf_expect_dtype(call, 0, slice.dtype));
    RF_TRY(rf_expect_shape(call, 0, &slice.shape, "one gradient for each element of the slice"));
    call->out[0] = call->in[1];
    return RF_OK;
}

rf_result rf_emit_slice(rf_graph *g, rf_value x, const int64_t *begin, const int64_t *end, const int64_t *step,
                        uint32_t num_axes, rf_value *out)
{
    rf_slice_attr attr = { { 0 } };
    char shape[96];
    if (num_axes > (uint32_t)rf_graph_desc(g, x)->shape.rank)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "slice: ranges for %u axes, but shape %s", num_axes,
                       rf_shape_format(rf_graph_desc(g, x)->shape, shape, sizeof(shape)));
    for (uint32_t d = 0; d < num_axes; d++) {
        attr.step[d] = step ? step[d] : 1;
        if (attr.step[d] == 0) return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "slice: the step of axis %u is 0", d);
        attr.begin[d] = begin[d];
        attr.end[d] = end[d];
    }
    return rf_graph_add(g, &rf_op_slice, &attr, &x, 1, out);
}

/* Integers have no gradient. */
static rf_result slice_gradient(rf_grad_context *ctx)
{
    const rf_value in[2] = { ctx->dout[0], ctx->in[0] };
    if (ctx->dout[0] == 0 || !ctx->needed[0] || !rf_dtype_is_float(rf_graph_desc(ctx->graph, in[1])->dtype))
        return RF_OK;
    return rf_graph_add(ctx->graph, &rf_op_slice_grad, ctx->attr, in, 2, &ctx->din[0]);
}

static rf_result slice_grad_gradient(rf_grad_context *ctx)
{
    if (ctx->dout[0] == 0 || !ctx->needed[0]) return RF_OK;
    return rf_graph_add(ctx->graph, &rf_op_slice, ctx->attr, &ctx->dout[0], 1, &ctx->din[0]);
}

/* The tensor that is sliced, and the slice: x and y, or dx and dy. */
static const rf_shape *tensor_shape(const rf_op_call *call)
{
    return call->op == &rf_op_slice ? &call->in[0].shape : &call->in[1].shape;
}
static const rf_shape *slice_shape(const rf_op_call *call)
{
    return call->op == &rf_op_slice ? &call->out[0].shape : &call->in[0].shape;
}

static void ranges_of(const rf_op_call *call, rf_box_range out[RF_MAX_RANK])
{
    const rf_shape *tensor = tensor_shape(call);
    for (int32_t d = 0; d < tensor->rank; d++) out[d] = range_of(call->attr, d, tensor->dim[d]);
}

static rf_result slice_reference(const rf_op_call *call, void *const *in, void *const *out)
{
    const uint32_t *x = in[0];
    uint32_t *y = out[0];
    rf_box_range r[RF_MAX_RANK];
    ranges_of(call, r);
    for (int64_t e = 0; e < rf_shape_count(*slice_shape(call)); e++) y[e] = x[rf_box_place(tensor_shape(call), r, e)];
    return RF_OK;
}

static rf_result slice_grad_reference(const rf_op_call *call, void *const *in, void *const *out)
{
    const uint32_t *dy = in[0];
    uint32_t *dx = out[0];
    rf_box_range r[RF_MAX_RANK];
    ranges_of(call, r);
    memset(dx, 0, (size_t)rf_tensor_bytes(&call->out[0]));
    for (int64_t e = 0; e < rf_shape_count(*slice_shape(call)); e++) dx[rf_box_place(tensor_shape(call), r, e)] = dy[e];
    return RF_OK;
}

/* Of a tensor only what the slice holds is read; of its gradient every element is written. */
static rf_cost slice_cost(const rf_op_call *call)
{
    return (rf_cost){ 0, (double)rf_tensor_bytes(&call->out[0]) + 4.0 * (double)rf_shape_count(*slice_shape(call)) };
}

/* ---- kernels ---- */

/* Elements of 16 bits are copied in words: pairs of neighbours that begin at even places. */
static bool takes_words(const rf_op_call *call, const rf_device_caps *caps)
{
    rf_box_range r[RF_MAX_RANK];
    ranges_of(call, r);
    const int32_t last = tensor_shape(call)->rank - 1;
    return rf_words_narrow(call, caps) && r[last].step == 1 && r[last].begin % 2 == 0;
}

static bool takes_word_texels(const rf_op_call *call, const rf_device_caps *caps)
{
    return rf_texels_narrow(call, caps) && takes_words(call, caps);
}

/* The copy, and the call in the units that it counts in, which has its shapes. */
static rf_box_copy copy_of(const rf_op_call *call, rf_op_call *units)
{
    *units = rf_call_in_words(call);
    rf_box_copy copy = { .tensor = tensor_shape(units), .scatter = call->op == &rf_op_slice_grad };
    ranges_of(call, copy.ranges);
    if (rf_call_is_narrow(call)) {
        rf_box_range *last = &copy.ranges[tensor_shape(call)->rank - 1];
        last->begin /= 2;
        last->count /= 2;
    }
    return copy;
}

/* What the slice leaves out of its gradient. */
static rf_result plan_zeros(const rf_op_call *call, const rf_device_caps *caps, rf_kernel_plan *plan)
{
    return call->op == &rf_op_slice_grad ? rf_box_plan_background(call, 0, caps, plan) : RF_OK;
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
    const rf_box_copy copy = copy_of(call, &units);
    RF_TRY(plan_zeros(&units, caps, plan));
    return rf_box_copy_plan(&copy, caps, plan);
}

static double score_texel(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    rf_op_call units;
    const rf_box_copy copy = copy_of(call, &units);
    return rf_box_score_texels(&units, &copy, 1, caps);
}

static rf_result plan_texel(const rf_op_call *call, const rf_device_caps *caps, const void *data, rf_kernel_plan *plan)
{
    rf_op_call units;
    const rf_box_copy copy = copy_of(call, &units);
    RF_TRY(plan_zeros(&units, caps, plan));
    return rf_box_copy_plan_texels(&copy, caps, plan);
}

static double score_runs(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    rf_op_call units;
    const rf_box_copy copy = copy_of(call, &units);
    return rf_box_score_runs(&copy, 1, caps);
}

static rf_result plan_runs(const rf_op_call *call, const rf_device_caps *caps, const void *data, rf_kernel_plan *plan)
{
    rf_op_call units;
    const rf_box_copy copy = copy_of(call, &units);
    RF_TRY(plan_zeros(&units, caps, plan));
    return rf_box_copy_plan_runs(&copy, caps, plan);
}

static const rf_kernel strided = { "strided", score_strided, plan_strided, .narrow = takes_words };
static const rf_kernel texel = { "texel", score_texel, plan_texel, .narrow = takes_word_texels };
static const rf_kernel runs = { "runs", score_runs, plan_runs, .narrow = takes_words };
static const rf_kernel *const kernels[] = { &strided, &texel, &runs };

/* ---- the ops ---- */

static const rf_attr_field fields[] = {
    RF_ATTR_INTS(rf_slice_attr, begin[0], "begin", RF_MAX_RANK, INT64_MIN, INT64_MAX),
    RF_ATTR_INTS(rf_slice_attr, end[0], "end", RF_MAX_RANK, INT64_MIN, INT64_MAX),
    RF_ATTR_INTS(rf_slice_attr, step[0], "step", RF_MAX_RANK, -INT32_MAX, INT32_MAX),
};

const rf_op rf_op_slice = {
    .name = "slice",
    RF_ATTRIBUTES(rf_slice_attr, fields),
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    RF_STORES_16(1),
    .infer = slice_infer,
    .examples = slice_examples,
    .gradient = slice_gradient,
    .reference = slice_reference,
    .cost = slice_cost,
    RF_KERNELS(kernels),
};

const rf_op rf_op_slice_grad = {
    .name = "slice_grad",
    RF_ATTRIBUTES(rf_slice_attr, fields),
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .flags = RF_OP_NO_ONNX,
    .shape_only = 1u << 1,
    RF_STORES_16(1),
    .infer = slice_grad_infer,
    .gradient = slice_grad_gradient,
    .reference = slice_grad_reference,
    .cost = slice_cost,
    RF_KERNELS(kernels),
};
