/* SPDX-License-Identifier: Apache-2.0 */
/* Moments; group normalization: each group as a row of layer normalization. */
#include <math.h>

#include <ringfire/ops.h>

#include "ops/ops.h"
#include "trace/trace.h"

/* x around the axis of its channels: positions before it, the channels in `groups`, positions behind it. */
typedef struct layout {
    rf_shape shape;
    int32_t axis;
    int64_t groups;
    bool single;           /* each channel is a group, whatever their number */
    rf_size before, after; /* products of dimensions */
    bool any_before, any_after;
} layout;

/* Channels as many as examples can only be groups of one each. */
static bool check_groups(rf_trace *t, rf_tensor x, int32_t axis, int64_t groups)
{
    char text[96];
    const rf_shape shape = rf_tensor_shape(t, x);
    if (groups < 1 || shape.dim[axis] % groups != 0) {
        (void)rf_trace_fail(t, RF_ERROR_INVALID_ARGUMENT,
                            "rf_group_norm: %lld channels cannot be divided into %lld groups",
                            (long long)shape.dim[axis], (long long)groups);
        return false;
    }
    if (!rf_dim_follows(t, x, axis)) return true;
    (void)rf_trace_fail(
        t, RF_ERROR_INVALID_ARGUMENT,
        "rf_group_norm: axis %d of x %s follows the batch, so that it cannot be divided into %lld groups "
        "of channels; give -1 groups, or the axis of the channels",
        (int)axis, rf_shape_format(shape, text, sizeof(text)), (long long)groups);
    return false;
}

static bool find_layout(rf_trace *t, rf_tensor x, int32_t groups, int32_t axis, layout *out)
{
    char text[96];
    rf_tensor_desc desc;
    if (!rf_operand_desc(t, x, "rf_group_norm: x", &desc)) return false;
    const rf_shape shape = desc.shape;
    const int32_t at = axis > 0 ? axis : axis == 0 ? shape.rank - 1 : axis + shape.rank;
    if (desc.dtype != RF_F32 || shape.rank < 2 || at < 1 || at >= shape.rank) {
        (void)rf_trace_fail(
            t, RF_ERROR_INVALID_ARGUMENT,
            "rf_group_norm: x is %s %s; it must be f32 and have an axis %d of channels beside the batch",
            rf_dtype_name(desc.dtype), rf_shape_format(shape, text, sizeof(text)), (int)axis);
        return false;
    }
    const int64_t count = groups == 0 ? 32 : groups == -1 ? shape.dim[at] : groups;
    if (groups != -1 && !check_groups(t, x, at, count)) return false;
    *out = (layout){ .shape = shape,
                     .axis = at,
                     .groups = count,
                     .single = groups == -1,
                     .before = rf_size_of(x, 1, at - 1),
                     .after = rf_size_of(x, at + 1, shape.rank - at - 1) };
    for (int32_t i = 1; i < shape.rank; i++) {
        const bool more = i != at && !rf_dim_is_one(t, x, i);
        out->any_before |= more && i < at;
        out->any_after |= more && i > at;
    }
    return true;
}

/* (x - mean) / deviation of each group. Where its elements are not beside each other, they are brought there: whole
 * groups, or single channels where these are elements, because a transposition of a matrix is the fastest. */
static rf_tensor normalize_groups(rf_trace *t, rf_tensor x, const layout *l, float epsilon)
{
    static const int32_t exchanged[] = { 0, 2, 1, 3 };
    const rf_size n = rf_size_of(x, 0, 1), channels = rf_size_of(x, l->axis, 1);
    const rf_size groups = l->single ? channels : rf_size_fixed(l->groups);
    const int64_t members = l->single ? 1 : l->shape.dim[l->axis] / l->groups; /* channels of a group */
    const rf_size moved = l->any_after ? groups : channels;
    const rf_size row = { members, x.id, l->before.axes | l->after.axes };
    const rf_size each = { l->any_after ? members : 1, x.id, l->after.axes };
    const bool apart = l->any_before && (l->single || l->groups > 1);
    rf_size whole[RF_MAX_RANK];
    rf_tensor rows = x;
    if (apart) rows = rf_transpose(t, rf_regroup(t, rows, (rf_size[]){ n, l->before, moved, each }, 4), exchanged);
    rows = rf_regroup(t, rows, (rf_size[]){ n, groups, row }, 3);
    rows = rf_layer_norm(t, rows, RF_NO_TENSOR, RF_NO_TENSOR, epsilon);
    if (apart) rows = rf_transpose(t, rf_regroup(t, rows, (rf_size[]){ n, moved, l->before, each }, 4), exchanged);
    return rf_regroup(t, rows, whole, rf_sizes_of(t, x, 0, whole));
}

/* A vector of the channels in a shape that broadcasts to x; false where it is none. */
static bool spread_vector(rf_trace *t, rf_tensor v, const layout *l, const char *argument, rf_tensor *out)
{
    char text[96];
    rf_tensor_desc desc;
    if (!rf_operand_desc(t, v, argument, &desc)) return false;
    const int64_t channels = l->shape.dim[l->axis];
    if (desc.dtype != RF_F32 || !rf_shape_equal(desc.shape, RF_SHAPE(channels))) {
        (void)rf_trace_fail(t, RF_ERROR_INVALID_ARGUMENT, "%s is %s %s, needs f32 [%lld]", argument,
                            rf_dtype_name(desc.dtype), rf_shape_format(desc.shape, text, sizeof(text)),
                            (long long)channels);
        return false;
    }
    *out = rf_append_axes(t, v, l->shape.rank - 1 - l->axis);
    return true;
}

static rf_tensor group_norm(rf_trace *t, rf_tensor x, rf_tensor gamma, rf_tensor beta, const layout *l, float epsilon)
{
    rf_tensor factor, offset, y = normalize_groups(t, x, l, epsilon);
    if (gamma.id != 0) {
        if (!spread_vector(t, gamma, l, "rf_group_norm: gamma", &factor)) return RF_NO_TENSOR;
        y = rf_multiply(t, y, factor);
    }
    if (beta.id != 0) {
        if (!spread_vector(t, beta, l, "rf_group_norm: beta", &offset)) return RF_NO_TENSOR;
        y = rf_add(t, y, offset);
    }
    return y;
}

rf_tensor rf_group_norm(rf_trace *t, rf_tensor x, rf_tensor gamma, rf_tensor beta, int32_t groups, int32_t axis,
                        float epsilon)
{
    RF_TRACING(t);
    layout l = { 0 };
    if (!find_layout(t, x, groups, axis, &l)) return RF_NO_TENSOR;
    return group_norm(t, x, gamma, beta, &l, epsilon);
}

/* ---- moments ---- */

/* Puts dimensions of 1 where the axes were, or takes them away. */
static rf_tensor change_axes(rf_trace *t, rf_tensor x, uint32_t axes, int32_t rank, bool keep)
{
    for (int32_t i = 0; i < rank; i++) {
        const int32_t axis = keep ? i : rank - 1 - i;
        if (axes & 1u << axis) x = keep ? rf_expand_dims(t, x, axis) : rf_squeeze(t, x, axis);
    }
    return x;
}

rf_result rf_moments(rf_trace *t, rf_tensor x, const int32_t *axes, uint32_t num_axes, rf_reduced_dims dims,
                     rf_tensor *mean, rf_tensor *variance)
{
    RF_TRACING(t);
    rf_value v, moments[2] = { 0 };
    uint32_t set;
    if (mean) *mean = RF_NO_TENSOR;
    if (variance) *variance = RF_NO_TENSOR;
    if (!rf_operand(t, x, "rf_moments: x", &v)) return t ? rf_trace_status(t) : RF_ERROR_INVALID_ARGUMENT;
    if (!mean || !variance)
        return rf_trace_fail(t, RF_ERROR_INVALID_ARGUMENT, "rf_moments: %s is NULL", mean ? "variance" : "mean");
    if (!rf_choice(t, "rf_moments: dims", (int)dims, RF_KEEP_DIMS)) return rf_trace_status(t);
    const bool keep_dims = dims == RF_KEEP_DIMS;
    const rf_tensor_desc desc = *rf_graph_desc(rf_trace_graph(t), v);
    const rf_result named = rf_axes_of("rf_moments", desc.shape, axes, num_axes, &set);
    if (named < 0) return rf_trace_emit(t, named, 0), rf_trace_status(t);
    const int32_t rank = desc.shape.rank;
    if (desc.dtype == RF_F32 && rank > 1 && set == (1u << (rank - 1)) - 1) {
        const rf_result r = rf_emit_batch_moments(rf_trace_graph(t), v, &moments[0], &moments[1]);
        *mean = rf_trace_emit(t, r, moments[0]);
        *variance = rf_trace_emit(t, r, moments[1]);
        if (keep_dims) *mean = change_axes(t, *mean, set, rank, true);
        if (keep_dims) *variance = change_axes(t, *variance, set, rank, true);
    } else {
        /* Deviations from the mean add up to 0, so that the path through it adds nothing to the variance's gradient;
         * but it does to the gradient of that. */
        const rf_tensor wide = rf_upcast(t, x);
        *mean = rf_reduce_mean(t, wide, axes, num_axes, RF_KEEP_DIMS);
        const rf_tensor deviation = rf_subtract(t, wide, *mean);
        *variance = rf_reduce_mean(t, rf_square(t, deviation), axes, num_axes, RF_KEEP_DIMS);
        if (!keep_dims) *mean = change_axes(t, *mean, set, rank, false);
        if (!keep_dims) *variance = change_axes(t, *variance, set, rank, false);
    }
    return rf_trace_status(t);
}
