/* SPDX-License-Identifier: Apache-2.0 */
/* Strided slices by Python's rules, and their gradient: the slice back at its place among zeros. */
#include "graph/examples.h"
#include "ops/pointwise/common/strided_copy.h"
#include "ops/pointwise/cpu/cpu.h"

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
        out->shape.dim[d] = rf_slice_range(attr, d, x->shape.dim[d]).count;
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

/* Only what the slice holds is read of a tensor; every element of its gradient is written. */
static rf_cost slice_cost(const rf_op_call *call)
{
    const rf_shape *slice = call->op->role == RF_COPY_SLICE ? &call->out[0].shape : &call->in[0].shape;
    return (rf_cost){ 0, (double)rf_tensor_bytes(&call->out[0]) + 4.0 * (double)rf_shape_count(*slice) };
}

/* ---- the ops ---- */

static const rf_attr_field fields[] = {
    RF_ATTR_INTS(rf_slice_attr, begin[0], "begin", RF_MAX_RANK, INT64_MIN, INT64_MAX),
    RF_ATTR_INTS(rf_slice_attr, end[0], "end", RF_MAX_RANK, INT64_MIN, INT64_MAX),
    RF_ATTR_INTS(rf_slice_attr, step[0], "step", RF_MAX_RANK, -INT32_MAX, INT32_MAX),
};

const rf_op rf_op_slice = {
    .name = "slice",
    .role = RF_COPY_SLICE,
    RF_ATTRIBUTES(rf_slice_attr, fields),
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    RF_STORES_16(1),
    .infer = slice_infer,
    .examples = slice_examples,
    .gradient = slice_gradient,
    .reference = rf_copies_reference,
    .cost = slice_cost,
    .families = { &rf_copies_common, RF_SOFTWARE(&rf_copies_cpu) },
};

const rf_op rf_op_slice_grad = {
    .name = "slice_grad",
    .role = RF_COPY_SLICE_GRAD,
    RF_ATTRIBUTES(rf_slice_attr, fields),
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .flags = RF_OP_NO_ONNX,
    .shape_only = 1u << 1,
    RF_STORES_16(1),
    .infer = slice_grad_infer,
    .gradient = slice_grad_gradient,
    .reference = rf_copies_reference,
    .cost = slice_cost,
    .families = { &rf_copies_common, RF_SOFTWARE(&rf_copies_cpu) },
};
