/* SPDX-License-Identifier: Apache-2.0 */
/* Padding by a constant: a box in the middle of what is filled with it. */
#include "ops/pointwise/common/strided_copy.h"
#include "ops/pointwise/cpu/cpu.h"

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

static rf_cost pad_cost(const rf_op_call *call)
{
    return rf_cost_of(call, 0);
}

/* ---- the op; tests/ops/test_small_limits.c cuts boxes along any dimension ---- */

static const rf_attr_field fields[] = {
    RF_ATTR_INTS(rf_pad_attr, before[0], "before", RF_MAX_RANK, 0, INT32_MAX),
    RF_ATTR_INTS(rf_pad_attr, after[0], "after", RF_MAX_RANK, 0, INT32_MAX),
    RF_ATTR_NUMBER(rf_pad_attr, value),
};

const rf_op rf_op_pad = {
    .name = "pad",
    .role = RF_COPY_PAD,
    RF_ATTRIBUTES(rf_pad_attr, fields),
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    RF_STORES_16(1),
    .infer = pad_infer,
    .gradient = pad_gradient,
    .reference = rf_copies_reference,
    .cost = pad_cost,
    .families = { &rf_copies_common, RF_SOFTWARE(&rf_copies_cpu) },
};
