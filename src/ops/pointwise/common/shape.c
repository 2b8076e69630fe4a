/* SPDX-License-Identifier: Apache-2.0 */
/* Ops that change shapes: reshape, reshape_like, expand_dims, squeeze, transpose, stop_gradient. All but transpose are
 * views. */
#include <string.h>

#include "ops/kit.h"
#include "ops/ops.h"

static rf_cost cost_none(const rf_op_call *call)
{
    (void)call;
    return (rf_cost){ 0, 0 };
}

static rf_result reference_view(const rf_op_call *call, void *const *in, void *const *out)
{
    if (out[0] != in[0]) memmove(out[0], in[0], (size_t)rf_tensor_bytes(&call->in[0]));
    return RF_OK;
}

/* ---- reshape ---- */

static rf_result reshape_infer(rf_op_call *call)
{
    rf_shape shape = *(const rf_shape *)call->attr;
    const rf_shape x = call->in[0].shape;
    const int64_t count = rf_shape_count(x);
    for (int32_t d = 0; d < shape.rank && d < x.rank; d++)
        if (shape.dim[d] == RF_RESHAPE_KEEP) shape.dim[d] = x.dim[d];
    char from[96], to[96];
    rf_shape_format(x, from, sizeof(from));
    rf_shape_format(shape, to, sizeof(to));
    if (shape.rank < 0 || shape.rank > RF_MAX_RANK)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "reshape: rank %d is not within 0 to %d", (int)shape.rank,
                       RF_MAX_RANK);
    int32_t open = -1;
    int64_t rest = 1;
    for (int32_t d = 0; d < shape.rank; d++) {
        if (shape.dim[d] == -1) {
            if (open >= 0) return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "reshape: more than one -1 in %s", to);
            open = d;
        } else if (shape.dim[d] < 0) {
            return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "reshape: negative dimension in %s", to);
        } else if (__builtin_mul_overflow(rest, shape.dim[d], &rest)) {
            return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "reshape: %s has too many elements", to);
        }
    }
    if (open >= 0) {
        if (rest == 0 || count % rest != 0)
            return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "reshape: %s does not divide into %s", from, to);
        shape.dim[open] = count / rest;
    } else if (rest != count) {
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT,
                       "reshape: %s has %lld elements, %s has %lld; write -1 for the dimension that follows the batch",
                       from, (long long)count, to, (long long)rest);
    }
    call->out[0] = (rf_tensor_desc){ call->in[0].dtype, shape };
    return RF_OK;
}

static rf_result reshape_gradient(rf_grad_context *ctx)
{
    return rf_emit_reshape_like(ctx->graph, ctx->dout[0], ctx->in[0], &ctx->din[0]);
}

static const rf_attr_field reshape_fields[] = {
    RF_ATTR_INT(rf_shape, rank, 0, RF_MAX_RANK),
    /* what aligns the dimensions */
    { "padding", RF_ATTR_ZERO, sizeof(int32_t), offsetof(rf_shape, dim) - sizeof(int32_t), 1, 0, 0, 0, NULL },
    RF_ATTR_INTS(rf_shape, dim[0], "dim", RF_MAX_RANK, RF_RESHAPE_KEEP, INT64_MAX),
};

const rf_op rf_op_reshape = {
    .name = "reshape",
    RF_ATTRIBUTES(rf_shape, reshape_fields),
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .flags = RF_OP_VIEW,
    .infer = reshape_infer,
    .gradient = reshape_gradient,
    .reference = reference_view,
    .cost = cost_none,
};

rf_result rf_emit_reshape(rf_graph *g, rf_value x, rf_shape shape, rf_value *out)
{
    rf_shape attr;
    memset(&attr, 0,
           sizeof(attr)); /* attributes are compared byte by byte: nothing behind the last dimension, no padding */
    attr.rank = shape.rank;
    for (int32_t d = 0; d < shape.rank && d < RF_MAX_RANK; d++) attr.dim[d] = shape.dim[d];
    return rf_graph_add(g, &rf_op_reshape, &attr, &x, 1, out);
}

rf_result rf_emit_flatten(rf_graph *g, rf_value x, rf_value *out)
{
    const rf_shape shape = rf_graph_desc(g, x)->shape;
    if (shape.rank < 1) return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "flatten: a scalar has no batch dimension");
    if (shape.rank == 2) {
        *out = x;
        return RF_OK;
    }
    if (shape.rank == 1) return rf_emit_expand_dims(g, x, 1, out);
    return rf_emit_join_dims(g, x, 1, (uint32_t)shape.rank - 1, out);
}

static rf_result reshape_like_infer(rf_op_call *call)
{
    const rf_shape x = call->in[0].shape, like = call->in[1].shape;
    if (rf_shape_count(x) != rf_shape_count(like)) {
        char first[96], second[96];
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "reshape_like: %s and %s differ in the number of elements",
                       rf_shape_format(x, first, sizeof(first)), rf_shape_format(like, second, sizeof(second)));
    }
    call->out[0] = (rf_tensor_desc){ call->in[0].dtype, like };
    return RF_OK;
}

const rf_op rf_op_reshape_like = {
    .name = "reshape_like",
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .flags = RF_OP_VIEW,
    .shape_only = 1u << 1,
    .infer = reshape_like_infer,
    .gradient = reshape_gradient,
    .reference = reference_view,
    .cost = cost_none,
};

rf_result rf_emit_reshape_like(rf_graph *g, rf_value x, rf_value like, rf_value *out)
{
    return rf_graph_add(g, &rf_op_reshape_like, NULL, (rf_value[]){ x, like }, 2, out);
}

/* ---- expand_dims and squeeze: what they take from the shape does not depend on the batch ---- */

enum { EXPAND_DIMS, SQUEEZE };

static rf_result axis_infer(rf_op_call *call)
{
    const uint32_t axis = ((const rf_axis_attr *)call->attr)->axis;
    const bool squeezes = call->op->role == SQUEEZE;
    const rf_shape x = call->in[0].shape;
    rf_shape y = { .rank = squeezes ? x.rank - 1 : x.rank + 1 };
    char shape[96];
    rf_shape_format(x, shape, sizeof(shape));
    if (axis >= (uint32_t)(squeezes ? x.rank : x.rank + 1))
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s: there is no axis %u for shape %s", call->op->name, axis, shape);
    if (y.rank > RF_MAX_RANK)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s: shape %s has %d dimensions already", call->op->name, shape,
                       RF_MAX_RANK);
    if (squeezes && x.dim[axis] != 1)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s: axis %u of shape %s is not 1", call->op->name, axis, shape);
    for (int32_t d = 0, from = 0; d < y.rank; d++) {
        if (squeezes && from == (int32_t)axis) from++;
        y.dim[d] = !squeezes && d == (int32_t)axis ? 1 : x.dim[from++];
    }
    call->out[0] = (rf_tensor_desc){ call->in[0].dtype, y };
    return RF_OK;
}

static rf_result expand_dims_gradient(rf_grad_context *ctx)
{
    return rf_graph_add(ctx->graph, &rf_op_squeeze, ctx->attr, ctx->dout, 1, &ctx->din[0]);
}

static rf_result squeeze_gradient(rf_grad_context *ctx)
{
    return rf_graph_add(ctx->graph, &rf_op_expand_dims, ctx->attr, ctx->dout, 1, &ctx->din[0]);
}

static const rf_attr_field axis_fields[] = { RF_ATTR_UINT(rf_axis_attr, axis, RF_MAX_RANK - 1) };

const rf_op rf_op_expand_dims = {
    .name = "expand_dims",
    .role = EXPAND_DIMS,
    RF_ATTRIBUTES(rf_axis_attr, axis_fields),
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .flags = RF_OP_VIEW,
    .infer = axis_infer,
    .gradient = expand_dims_gradient,
    .reference = reference_view,
    .cost = cost_none,
};

const rf_op rf_op_squeeze = {
    .name = "squeeze",
    .role = SQUEEZE,
    RF_ATTRIBUTES(rf_axis_attr, axis_fields),
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .flags = RF_OP_VIEW,
    .infer = axis_infer,
    .gradient = squeeze_gradient,
    .reference = reference_view,
    .cost = cost_none,
};

/* The axis is one of `rank`. */
static rf_result emit_axis(rf_graph *g, const rf_op *op, rf_value x, int32_t axis, int32_t rank, rf_value *out)
{
    char shape[96];
    if (axis < -rank || axis >= rank)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s: there is no axis %d for shape %s", op->name, (int)axis,
                       rf_shape_format(rf_graph_desc(g, x)->shape, shape, sizeof(shape)));
    const rf_axis_attr attr = { (uint32_t)(axis < 0 ? axis + rank : axis) };
    return rf_graph_add(g, op, &attr, &x, 1, out);
}

rf_result rf_emit_expand_dims(rf_graph *g, rf_value x, int32_t axis, rf_value *out)
{
    return emit_axis(g, &rf_op_expand_dims, x, axis, rf_graph_desc(g, x)->shape.rank + 1, out);
}

rf_result rf_emit_squeeze(rf_graph *g, rf_value x, int32_t axis, rf_value *out)
{
    return emit_axis(g, &rf_op_squeeze, x, axis, rf_graph_desc(g, x)->shape.rank, out);
}

/* ---- stop_gradient ---- */

static rf_result stop_infer(rf_op_call *call)
{
    call->out[0] = call->in[0];
    return RF_OK;
}

const rf_op rf_op_stop_gradient = {
    .name = "stop_gradient",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .flags = RF_OP_VIEW | RF_OP_NO_GRADIENT,
    .infer = stop_infer,
    .reference = reference_view,
    .cost = cost_none,
};

rf_result rf_emit_stop_gradient(rf_graph *g, rf_value x, rf_value *out)
{
    return rf_graph_add(g, &rf_op_stop_gradient, NULL, &x, 1, out);
}
