/* SPDX-License-Identifier: Apache-2.0 */
/* Ops that change shapes: reshape, reshape_like, expand_dims, squeeze, transpose, stop_gradient. All but transpose are
 * views. */
#include <string.h>

#include "ops/kit.h"
#include "ops/ops.h"
#include "rf_shaders.h"

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
    RF_ATTR_INTS(rf_shape, dim[0], "dim", RF_MAX_RANK, -1, INT64_MAX),
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

static rf_result axis_infer(rf_op_call *call)
{
    const uint32_t axis = ((const rf_axis_attr *)call->attr)->axis;
    const bool squeezes = call->op == &rf_op_squeeze;
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

/* Of `rank` axes. */
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

/* ---- transpose ---- */

static rf_result transpose_infer(rf_op_call *call)
{
    const rf_transpose_attr *attr = call->attr;
    const rf_shape x = call->in[0].shape;
    uint32_t seen = 0;
    call->out[0] = (rf_tensor_desc){ call->in[0].dtype, { .rank = x.rank } };
    if (rf_dtype_size(call->in[0].dtype) != 4)
        return RF_FAIL(RF_ERROR_UNSUPPORTED, "transpose: %s tensors are not supported; cast to f32 first",
                       rf_dtype_name(call->in[0].dtype));
    for (int32_t d = 0; d < x.rank; d++) {
        const int32_t from = attr->perm[d];
        if (from < 0 || from >= x.rank || seen >> from & 1) {
            char shape[96];
            return RF_FAIL(
                RF_ERROR_INVALID_ARGUMENT,
                "transpose: entry %d of the permutation is %d; for shape %s it must hold each of 0 to %d once", (int)d,
                (int)from, rf_shape_format(x, shape, sizeof(shape)), (int)x.rank - 1);
        }
        seen |= 1u << from;
        call->out[0].shape.dim[d] = x.dim[from];
    }
    return RF_OK;
}

static rf_result transpose_gradient(rf_grad_context *ctx)
{
    const rf_transpose_attr *attr = ctx->attr;
    rf_transpose_attr inverse = { { 0 } };
    for (int32_t d = 0; d < rf_graph_desc(ctx->graph, ctx->in[0])->shape.rank; d++) inverse.perm[attr->perm[d]] = d;
    return rf_graph_add(ctx->graph, &rf_op_transpose, &inverse, &ctx->dout[0], 1, &ctx->din[0]);
}

static rf_result transpose_reference(const rf_op_call *call, void *const *in, void *const *out)
{
    const rf_transpose_attr *attr = call->attr;
    const rf_shape x = call->in[0].shape, y = call->out[0].shape;
    int64_t stride[RF_MAX_RANK], s = 1;
    for (int32_t d = x.rank - 1; d >= 0; d--) {
        stride[d] = s;
        s *= x.dim[d];
    }
    for (int64_t e = 0; e < s; e++) {
        int64_t rest = e, from = 0;
        for (int32_t d = y.rank - 1; d >= 0; d--) {
            from += rest % y.dim[d] * stride[attr->perm[d]];
            rest /= y.dim[d];
        }
        memcpy((uint32_t *)out[0] + e, (const uint32_t *)in[0] + from, 4);
    }
    return RF_OK;
}

static rf_cost transpose_cost(const rf_op_call *call)
{
    return rf_cost_of(call, 0);
}

/* Dimensions in the output's order, innermost first, merged where they stay neighbours. */
typedef struct transpose_layout {
    uint32_t rank;
    uint64_t size[RF_MAX_RANK], in_stride[RF_MAX_RANK], out_stride[RF_MAX_RANK];
} transpose_layout;

static void transpose_layout_of(const rf_op_call *call, transpose_layout *l)
{
    const rf_transpose_attr *attr = call->attr;
    const rf_shape x = call->in[0].shape;
    uint64_t stride[RF_MAX_RANK], s = 1;
    for (int32_t d = x.rank - 1; d >= 0; d--) {
        stride[d] = s;
        s *= (uint64_t)x.dim[d];
    }
    memset(l, 0, sizeof(*l));
    s = 1;
    for (int32_t d = x.rank - 1; d >= 0; d--) {
        const uint64_t size = (uint64_t)x.dim[attr->perm[d]], from = stride[attr->perm[d]];
        if (size == 1) continue;
        const uint32_t last = l->rank - 1;
        if (l->rank > 0 && from == l->in_stride[last] * l->size[last]) {
            l->size[last] *= size;
        } else {
            l->size[l->rank] = size;
            l->in_stride[l->rank] = from;
            l->out_stride[l->rank++] = s;
        }
        s *= size;
    }
    if (l->rank == 0) {
        l->rank = 1;
        l->size[0] = l->in_stride[0] = l->out_stride[0] = 1;
    }
}

/* Batch of matrices: innermost two dimensions swapped, and perhaps one outermost that stays. */
static bool transpose_matrices(const transpose_layout *l, uint64_t *rows, uint64_t *columns, uint64_t *batch)
{
    if (l->rank < 2 || l->rank > 3 || l->in_stride[1] != 1 || l->in_stride[0] != l->size[1]) return false;
    *rows = l->size[0];
    *columns = l->size[1];
    *batch = l->rank == 3 ? l->size[2] : 1;
    return true;
}

enum { BLOCKS_SIDE = 16 };

/* Where the last dimension stays the last, elements of 16 bits are copied in words. */
static bool takes_words(const rf_op_call *call, const rf_device_caps *caps)
{
    const int32_t last = call->in[0].shape.rank - 1;
    return rf_words_narrow(call, caps) && ((const rf_transpose_attr *)call->attr)->perm[last] == last;
}

static double blocks_score(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    transpose_layout l;
    uint64_t rows, columns, batch;
    transpose_layout_of(call, &l);
    if (!transpose_matrices(&l, &rows, &columns, &batch) || rows % 4 || columns % 4) return RF_SCORE_NONE;
    const uint64_t down = rf_div_up(rows / 4, rf_local_size(caps, RF_FLAT_LOCAL) / BLOCKS_SIDE);
    return rf_tensor_bytes(&call->in[0]) <= caps->max_storage_range &&
                   rf_local_size(caps, RF_FLAT_LOCAL) >= 2 * BLOCKS_SIDE && down <= caps->max_grid[1] &&
                   batch <= caps->max_grid[2] && rf_div_up(columns / 4, BLOCKS_SIDE) <= caps->max_grid[0]
               ? RF_SCORE_SHAPE
               : RF_SCORE_NONE;
}

static rf_result blocks_add(const rf_op_call *call, const rf_device_caps *caps, const rf_shader *shader,
                            rf_bind_view view, rf_kernel_plan *plan)
{
    transpose_layout l;
    uint64_t rows, columns, batch;
    transpose_layout_of(call, &l);
    if (!transpose_matrices(&l, &rows, &columns, &batch))
        return RF_FAIL(RF_ERROR_INTERNAL, "transpose: kernel is not eligible");
    if (rows * columns * batch == 0) return RF_OK;
    rf_dispatch *d = rf_kernel_plan_add(plan, shader, RF_NO_LOOPS);
    if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
    const uint32_t local = rf_local_size(caps, RF_FLAT_LOCAL), down = local / BLOCKS_SIDE;
    rf_dispatch_spec(d, local);
    rf_dispatch_spec(d, BLOCKS_SIDE);
    const uint32_t push[2] = { (uint32_t)(rows / 4), (uint32_t)(columns / 4) };
    rf_dispatch_push(d, push, sizeof(push));
    rf_bind_whole(d, RF_BIND_INPUT, 0)->view = view;
    rf_bind_whole(d, RF_BIND_OUTPUT, 0);
    d->grid[0] = (uint32_t)rf_div_up(columns / 4, BLOCKS_SIDE);
    d->grid[1] = (uint32_t)rf_div_up(rows / 4, down);
    d->grid[2] = (uint32_t)batch;
    return RF_OK;
}

static rf_result blocks_plan(const rf_op_call *call, const rf_device_caps *caps, const void *data, rf_kernel_plan *plan)
{
    return blocks_add(call, caps, &rf_shader_transpose_blocks, RF_VIEW_STORAGE, plan);
}

static double blocks_texel_score(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    const bool texels = caps->driver == RF_DRIVER_LAVAPIPE && rf_flat_texels(caps) &&
                        rf_tensor_bytes(&call->in[0]) / 16 <= caps->max_texel_elements;
    return texels && blocks_score(call, caps, data) > RF_SCORE_NONE ? RF_SCORE_DRIVER : RF_SCORE_NONE;
}

static rf_result blocks_texel_plan(const rf_op_call *call, const rf_device_caps *caps, const void *data,
                                   rf_kernel_plan *plan)
{
    const rf_shader *shader =
        caps->subgroup_size == 8 ? &rf_shader_transpose_blocks_texel8 : &rf_shader_transpose_blocks_texel16;
    return blocks_add(call, caps, shader, RF_VIEW_TEXEL_RGBA32F, plan);
}

/* How many steps of the dimension with stride `stride` fit one descriptor, with room for alignment; all when everything
 * fits. */
static uint64_t box_steps(const rf_device_caps *caps, uint64_t size, uint64_t stride)
{
    if (size * stride * 4 <= caps->max_storage_range) return size;
    return (caps->max_storage_range - caps->buffer_alignment) / (stride * 4);
}

static uint32_t outermost_input(const transpose_layout *l)
{
    uint32_t d = 0;
    for (uint32_t i = 1; i < l->rank; i++)
        if (l->in_stride[i] > l->in_stride[d]) d = i;
    return d;
}

static double strided_score(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    const rf_op_call words = rf_call_in_words(call);
    transpose_layout l;
    transpose_layout_of(&words, &l);
    const uint32_t in = outermost_input(&l), out = l.rank - 1;
    const bool fits =
        box_steps(caps, l.size[in], l.in_stride[in]) > 0 && box_steps(caps, l.size[out], l.out_stride[out]) > 0;
    return fits || rf_shape_count(call->in[0].shape) == 0 ? RF_SCORE_ANY : RF_SCORE_NONE;
}

/* One dispatch for the box of a0 <= index of the input's outermost dimension < a1, b0 <= index of the output's < b1. */
static rf_result box_plan(const transpose_layout *l, const rf_device_caps *caps, uint32_t width, rf_kernel_plan *plan,
                          uint64_t a0, uint64_t a1, uint64_t b0, uint64_t b1)
{
    const uint32_t in = outermost_input(l), out = l->rank - 1;
    const rf_shader *texel = caps->subgroup_size == 8 ? &rf_shader_transpose_texel8 : &rf_shader_transpose_texel16;
    const rf_shader *shader = width == 8 ? texel : width == 4 ? &rf_shader_transpose_w4 : &rf_shader_transpose_w1;
    rf_dispatch *d = rf_kernel_plan_add(plan, shader, RF_NO_LOOPS);
    if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
    d->concurrent = plan->count > 1;
    const uint64_t in_first = a0 * l->in_stride[in], out_first = b0 * l->out_stride[out];
    struct {
        uint32_t count, in_offset, out_offset, shifts, size[6], magic[6], in_stride[6], out_stride[6];
    } push = { 0 };
    uint64_t count = 1, in_offset = rf_element_base(caps, in_first), out_offset = rf_element_base(caps, out_first);
    for (uint32_t i = 0; i < l->rank; i++) {
        uint64_t size = l->size[i];
        if (i == in) size = a1 - a0;
        if (i == out) size = b1 - b0;
        if (i == in && in != out) out_offset += a0 * l->out_stride[in];
        if (i == out && in != out) in_offset += b0 * l->in_stride[out];
        if (i == 0) size /= width;
        const rf_magic m = rf_magic_make((uint32_t)size);
        push.size[i] = (uint32_t)size;
        push.magic[i] = m.magic;
        push.shifts |= m.shift << (5 * i);
        push.in_stride[i] = (uint32_t)(i == 0 ? l->in_stride[i] : l->in_stride[i] / width);
        push.out_stride[i] = (uint32_t)(i == 0 ? 1 : l->out_stride[i] / width);
        count *= size;
    }
    push.count = (uint32_t)count;
    push.in_offset = (uint32_t)(in_offset / width);
    push.out_offset = (uint32_t)(out_offset / width);
    rf_dispatch_spec(d, rf_local_size(caps, RF_FLAT_LOCAL));
    rf_dispatch_spec(d, l->rank);
    rf_dispatch_push(d, &push, sizeof(push));
    rf_bind_elements(d, caps, RF_BIND_INPUT, 0, in_first, (a1 - a0) * l->in_stride[in]);
    if (width == 8) d->bind[0].view = RF_VIEW_TEXEL_RGBA32F;
    rf_bind_elements(d, caps, RF_BIND_OUTPUT, 0, out_first, (b1 - b0) * l->out_stride[out]);
    rf_dispatch_items(d, caps, count);
    return RF_OK;
}

static rf_result strided_plan(const rf_op_call *call, const rf_device_caps *caps, const void *data,
                              rf_kernel_plan *plan)
{
    const rf_op_call words = rf_call_in_words(call);
    transpose_layout l;
    transpose_layout_of(&words, &l);
    if (rf_shape_count(call->in[0].shape) == 0) return RF_OK;
    const uint32_t in = outermost_input(&l), out = l.rank - 1;
    const uint32_t width = l.in_stride[0] == 1 && l.size[0] % 4 == 0 ? 4 : 1;
    uint64_t a = box_steps(caps, l.size[in], l.in_stride[in]), b = box_steps(caps, l.size[out], l.out_stride[out]);
    if (a == 0 || b == 0) return RF_FAIL(RF_ERROR_INTERNAL, "transpose: kernel is not eligible");
    if (in == out) {
        if (b < a) a = b;
        for (uint64_t i = 0; i < l.size[in]; i += a) {
            const uint64_t end = rf_min(i + a, l.size[in]);
            RF_TRY(box_plan(&l, caps, width, plan, i, end, i, end));
        }
        return RF_OK;
    }
    for (uint64_t i = 0; i < l.size[in]; i += a)
        for (uint64_t j = 0; j < l.size[out]; j += b)
            RF_TRY(box_plan(&l, caps, width, plan, i, rf_min(i + a, l.size[in]), j, rf_min(j + b, l.size[out])));
    return RF_OK;
}

/* ---- where the last dimension stays, on drivers that fetch texels at once ---- */

static double texel_score(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    const rf_op_call words = rf_call_in_words(call);
    const uint64_t bytes = rf_tensor_bytes(&words.in[0]);
    transpose_layout l;
    transpose_layout_of(&words, &l);
    if (caps->driver != RF_DRIVER_LAVAPIPE || !rf_flat_texels(caps) || bytes == 0) return RF_SCORE_NONE;
    if (bytes > caps->max_storage_range || bytes / 16 > caps->max_texel_elements) return RF_SCORE_NONE;
    return l.in_stride[0] == 1 && l.size[0] % 8 == 0 ? RF_SCORE_DRIVER : RF_SCORE_NONE;
}

static rf_result texel_plan(const rf_op_call *call, const rf_device_caps *caps, const void *data, rf_kernel_plan *plan)
{
    const rf_op_call words = rf_call_in_words(call);
    transpose_layout l;
    transpose_layout_of(&words, &l);
    return box_plan(&l, caps, 8, plan, 0, l.size[outermost_input(&l)], 0, l.size[l.rank - 1]);
}

static bool takes_word_texels(const rf_op_call *call, const rf_device_caps *caps)
{
    return takes_words(call, caps) && rf_texels_narrow(call, caps);
}

static const rf_kernel transpose_blocks = { "blocks", blocks_score, blocks_plan };
static const rf_kernel transpose_strided = { "strided", strided_score, strided_plan, .narrow = takes_words };
static const rf_kernel transpose_texel = { "texel", texel_score, texel_plan, .narrow = takes_word_texels };
static const rf_kernel transpose_blocks_texel = { "blocks_texel", blocks_texel_score, blocks_texel_plan };
static const rf_kernel *const transpose_kernels[] = { &transpose_blocks, &transpose_blocks_texel, &transpose_texel,
                                                      &transpose_strided };

static const rf_attr_field transpose_fields[] = { RF_ATTR_INTS(rf_transpose_attr, perm[0], "perm", RF_MAX_RANK, 0,
                                                               RF_MAX_RANK - 1) };

const rf_op rf_op_transpose = {
    .name = "transpose",
    RF_ATTRIBUTES(rf_transpose_attr, transpose_fields),
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    RF_STORES_16(1),
    .infer = transpose_infer,
    .gradient = transpose_gradient,
    .reference = transpose_reference,
    .cost = transpose_cost,
    RF_KERNELS(transpose_kernels),
};

rf_result rf_emit_transpose(rf_graph *g, rf_value x, const int32_t *perm, rf_value *out)
{
    rf_transpose_attr attr = { { 0 } };
    const int32_t rank = rf_graph_desc(g, x)->shape.rank;
    for (int32_t d = 0; d < rank && d < RF_MAX_RANK; d++) attr.perm[d] = perm[d];
    return rf_graph_add(g, &rf_op_transpose, &attr, &x, 1, out);
}
