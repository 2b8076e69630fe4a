/* SPDX-License-Identifier: Apache-2.0 */
/* Strided slices by Python's rules, and their gradient: the slice back at its place among zeros. */
#include <string.h>

#include "graph/examples.h"
#include "ops/ops.h"
#include "ops/pointwise/box.h"

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

/* ---- cases ---- */

/* Begin, end and step of three axes; a step of 0 is a whole axis. */
#define RANGES(...) RANGES_OF(__VA_ARGS__)
#define RANGES_OF(b0, e0, s0, b1, e1, s1, b2, e2, s2)                                                                  \
    .attr = &(const rf_slice_attr)                                                                                     \
    {                                                                                                                  \
        { b0, b1, b2 }, { e0, e1, e2 },                                                                                \
        {                                                                                                              \
            s0, s1, s2                                                                                                 \
        }                                                                                                              \
    }
#define WHOLE 0, 0, 0
#define F32(...) RF_TENSOR(RF_F32, RF_FILL_NORMAL, 0, 1, __VA_ARGS__)
/* Geometries for both ops: the ranges, the tensor and the slice that they give. The last one is more than a descriptor
 * spans at the smallest limits; tests/ops/test_small_limits.c cuts smaller ones along any dimension. */
#define CASES(CASE)                                                                                                    \
    CASE("whole_5x7", RANGES(WHOLE, WHOLE, WHOLE), (2, 5, 7), (2, 5, 7), .check_gradient = true),                      \
        CASE("one_of_1", RANGES(0, 1, 1, WHOLE, WHOLE), (1, 1), (1, 1), .check_gradient = true),                       \
        CASE("middle_17", RANGES(3, 14, 1, WHOLE, WHOLE), (1, 17), (1, 11), .check_gradient = true),                   \
        CASE("every_third_20", RANGES(1, INT64_MAX, 3, WHOLE, WHOLE), (1, 20), (1, 7), .check_gradient = true),        \
        CASE("backwards_9", RANGES(INT64_MAX, INT64_MIN, -1, WHOLE, WHOLE), (1, 9), (1, 9), .check_gradient = true),   \
        CASE("backwards_by_4_of_5x31", RANGES(WHOLE, -2, 1, -4, WHOLE), (2, 5, 31), (2, 5, 7),                         \
             .check_gradient = true),                                                                                  \
        CASE("from_the_end_2x3x4", RANGES(-1, INT64_MAX, 1, -2, INT64_MAX, 1, -3, -1, 1), (3, 2, 3, 4), (3, 1, 2, 2),  \
             .check_gradient = true),                                                                                  \
        CASE("beyond_the_ends_6x5", RANGES(-100, 100, 2, 100, -100, -3, WHOLE), (2, 6, 5), (2, 3, 2),                  \
             .check_gradient = true),                                                                                  \
        CASE("rows_64x32", RANGES(8, 40, 1, WHOLE, WHOLE), (2, 64, 32), (2, 32, 32), .large = false),                  \
        CASE("rows_back_33x12", RANGES(-1, INT64_MIN, -2, WHOLE, WHOLE), (2, 33, 12), (2, 17, 12), .large = false),    \
        CASE("fours_7x64", RANGES(WHOLE, 4, 36, 1, WHOLE), (2, 7, 64), (2, 7, 32), .large = false),                    \
        CASE("off_fours_7x64", RANGES(WHOLE, 3, 35, 1, WHOLE), (2, 7, 64), (2, 7, 32), .large = false),                \
        CASE("channels_2x9x11x5", RANGES(WHOLE, 1, -1, 2, INT64_MIN, INT64_MAX, 5), (4, 2, 9, 11, 5), (4, 2, 4, 3, 5), \
             .large = false),                                                                                          \
        CASE("prime_257x255", RANGES(2, 251, 1, 1, 254, 2, WHOLE), (2, 257, 255), (2, 249, 127), .large = false),      \
        CASE("rank6", RANGES(WHOLE, 0, INT64_MAX, 2, INT64_MAX, INT64_MIN, -1), (6, 2, 3, 4, 5, 2, 3),                 \
             (6, 2, 2, 4, 5, 2, 3), .large = false),                                                                   \
        CASE("70001", RANGES(1, INT64_MAX, 1, WHOLE, WHOLE), (1, 70001), (1, 70000), .large = false),                  \
        CASE("3x131101", RANGES(WHOLE, INT64_MAX, INT64_MIN, -3, WHOLE), (2, 3, 131101), (2, 3, 43701),                \
             .large = false),                                                                                          \
        CASE("half_of_2048x2048", RANGES(WHOLE, 1024, INT64_MAX, 1, WHOLE), (2, 2048, 2048), (2, 2048, 1024),          \
             .large = true, .benchmark = true),                                                                        \
        CASE("every_second_of_4096x1024", RANGES(0, INT64_MAX, 2, 1, INT64_MAX, 2, WHOLE), (2, 4096, 1024),            \
             (2, 2048, 512), .large = true, .benchmark = true),                                                        \
        CASE("34000x1024", RANGES(1, INT64_MAX, 1, 1, INT64_MAX, 2, WHOLE), (2, 34000, 1024), (2, 33999, 512),         \
             .large = true)
#define FORWARD_CASE(label, ranges, tensor, slice, ...)                                                                \
    {                                                                                                                  \
        .name = label, ranges, .n_in = 1, .in = { F32 tensor }, __VA_ARGS__                                            \
    }
#define GRAD_CASE(label, ranges, tensor, slice, ...)                                                                   \
    {                                                                                                                  \
        .name = label, ranges, .n_in = 2, .in = { F32 slice, F32 tensor }, __VA_ARGS__                                 \
    }
static const rf_op_case slice_cases[] = {
    CASES(FORWARD_CASE),
    { .name = "i32_31x33",
      RANGES(30, 0, -3, 1, 30, 4, WHOLE),
      .n_in = 1,
      .in = { RF_TENSOR(RF_I32, RF_FILL_INTEGER, -400, 70000, 2, 31, 33) } },
};
static const rf_op_case slice_grad_cases[] = { CASES(GRAD_CASE) };

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
    RF_CASES(slice_cases),
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
    RF_CASES(slice_grad_cases),
};
