/* SPDX-License-Identifier: Apache-2.0 */
/* Operations of ONNX along axes, and those that change shapes. */
#include <math.h>
#include <string.h>

#include "trace/trace.h"
#include "train/onnx/op.h"

#define X rf_import_float_of(c, 0)
#define NUM(value) rf_import_scalar(c, value)

/* ---- softmax and scans ---- */

static rf_tensor softmax_of(rf_import_call *c, rf_tensor x)
{
    if (c->op[0] == 'L') return rf_log_softmax(c->t, x);
    if (c->op[0] == 'S') return rf_softmax(c->t, x);
    const int64_t width = rf_tensor_shape(c->t, x).dim[rf_tensor_shape(c->t, x).rank - 1];
    return rf_one_hot(c->t, rf_argmax(c->t, x), (int32_t)(width < INT32_MAX ? width : INT32_MAX)); /* Hardmax */
}

/* Before opset 13 all axes from the given one on are one. */
static void softmax_trace(rf_import_call *c)
{
    const rf_tensor x = X;
    const rf_shape shape = rf_tensor_shape(c->t, x);
    const int64_t given = rf_import_int(c, "axis", c->opset < 13 ? 1 : -1),
                  axis = given < 0 ? given + shape.rank : given;
    if (c->opset >= 13 || axis == shape.rank - 1) {
        const int32_t at = rf_import_axis(c, axis, shape.rank);
        c->out[0] = rf_import_swap_last(c, softmax_of(c, rf_import_swap_last(c, x, at)), at);
        return;
    }
    if (axis < 0 || axis > shape.rank || c->last) {
        rf_import_call_fail(c, "of before opset 13 has an axis that its operand lacks");
        return;
    }
    rf_size sizes[RF_MAX_RANK + 1];
    for (int32_t d = 0; d < axis; d++) sizes[d] = rf_size_of(x, d, 1);
    sizes[axis] = axis < shape.rank ? rf_size_of(x, (int32_t)axis, shape.rank - (int32_t)axis) : rf_size_fixed(1);
    if (axis >= RF_MAX_RANK) rf_import_call_fail(c, "has too many dimensions");
    const rf_tensor rows = softmax_of(c, rf_regroup(c->t, x, sizes, (uint32_t)axis + 1));
    rf_size back[RF_MAX_RANK];
    const uint32_t rank = rf_sizes_of(c->t, x, 0, back);
    c->out[0] = rf_regroup(c->t, rows, back, rank);
}

static void cumsum_trace(rf_import_call *c)
{
    const rf_tensor x = X;
    const int32_t at = rf_import_axis(c, (int64_t)rf_import_number(c, 1, 0), rf_tensor_shape(c->t, x).rank);
    const rf_scan_form form = (rf_scan_form)((rf_import_int(c, "exclusive", 0) ? RF_SCAN_EXCLUSIVE : 0) |
                                             (rf_import_int(c, "reverse", 0) ? RF_SCAN_INCLUSIVE_REVERSE : 0));
    const rf_tensor y = rf_import_swap_last(c, rf_cumsum(c->t, rf_import_swap_last(c, x, at), form), at);
    c->out[0] = rf_import_back(c, 0, y);
}

static void top_k_trace(rf_import_call *c)
{
    const rf_tensor x = X;
    const int32_t at = rf_import_axis(c, rf_import_int(c, "axis", -1), rf_tensor_shape(c->t, x).rank);
    const int64_t k = (int64_t)rf_import_number(c, 1, (double)rf_import_int(c, "k", 1));
    const bool largest = rf_import_int(c, "largest", 1);
    rf_tensor values = { 0 }, indices = { 0 };
    const rf_tensor rows = rf_import_swap_last(c, largest ? x : rf_negative(c->t, x), at);
    (void)rf_top_k(c->t, rows, (int32_t)(k < INT32_MAX ? k : INT32_MAX), &values, &indices);
    if (!largest) values = rf_negative(c->t, values);
    c->out[0] = rf_import_back(c, 0, rf_import_swap_last(c, values, at));
    if (c->num_out > 1) c->out[1] = rf_import_swap_last(c, indices, at);
}

static void arg_trace(rf_import_call *c)
{
    const rf_tensor x = X;
    const int32_t at = rf_import_axis(c, rf_import_int(c, "axis", 0), rf_tensor_shape(c->t, x).rank);
    const bool last = rf_import_int(c, "select_last_index", 0); /* of equal elements: the first from the end */
    rf_tensor rows = rf_import_swap_last(c, x, at);
    if (last) rows = rf_reverse(c->t, rows, -1);
    rf_tensor y = strcmp(c->op, "ArgMin") == 0 ? rf_argmin(c->t, rows) : rf_argmax(c->t, rows);
    if (last) {
        const rf_tensor end =
            rf_subtract(c->t, rf_count_along(c->t, rows, rf_tensor_shape(c->t, rows).rank - 1), NUM(1));
        y = rf_cast(c->t, rf_subtract(c->t, end, rf_cast(c->t, y, RF_F32)), RF_I32);
    }
    const rf_tensor kept = rf_import_swap_last(c, rf_expand_dims(c->t, y, -1), at);
    c->out[0] = rf_import_int(c, "keepdims", 1) ? kept : rf_squeeze(c->t, kept, at);
}

/* ---- reductions ---- */

static rf_tensor product_of(rf_import_call *c, rf_tensor x, const int32_t *axes, uint32_t count)
{
    static const int64_t last = -1, end = INT64_MAX;
    for (uint32_t i = 0; i < count; i++) {
        const int32_t rank = rf_tensor_shape(c->t, x).rank;
        int64_t begin[RF_MAX_RANK] = { 0 }, to[RF_MAX_RANK];
        for (int32_t d = 0; d < rank; d++) to[d] = end;
        begin[rank - 1] = last;
        const rf_tensor rows = rf_cumprod(c->t, rf_import_swap_last(c, x, axes[i]), RF_SCAN_INCLUSIVE);
        x = rf_import_swap_last(c, rf_slice(c->t, rows, begin, to, NULL, (uint32_t)rank), axes[i]);
    }
    return x;
}

static rf_tensor log_sum_exp_of(rf_import_call *c, rf_tensor x, const int32_t *axes, uint32_t count)
{
    const rf_tensor most = rf_stop_gradient(c->t, rf_reduce_max(c->t, x, axes, count, RF_KEEP_DIMS));
    const rf_tensor safe = rf_where(c->t, rf_compare(c->t, RF_LESS, rf_abs(c->t, most), NUM(INFINITY)), most, NUM(0));
    const rf_tensor sum = rf_reduce_sum(c->t, rf_exp(c->t, rf_subtract(c->t, x, safe)), axes, count, RF_KEEP_DIMS);
    return rf_add(c->t, rf_log(c->t, sum), safe);
}

static rf_tensor reduce_axes(rf_import_call *c, rf_tensor x, const int32_t *axes, uint32_t count, rf_reduced_dims dims)
{
    const char *kind = c->op + 6; /* behind "Reduce" */
    rf_trace *t = c->t;
    if (strcmp(kind, "Sum") == 0) return rf_reduce_sum(t, x, axes, count, dims);
    if (strcmp(kind, "Mean") == 0) return rf_reduce_mean(t, x, axes, count, dims);
    if (strcmp(kind, "Max") == 0) return rf_reduce_max(t, x, axes, count, dims);
    if (strcmp(kind, "Min") == 0) return rf_reduce_min(t, x, axes, count, dims);
    if (strcmp(kind, "L1") == 0) return rf_reduce_sum(t, rf_abs(t, x), axes, count, dims);
    if (strcmp(kind, "L2") == 0) return rf_sqrt(t, rf_reduce_sum(t, rf_square(t, x), axes, count, dims));
    if (strcmp(kind, "SumSquare") == 0) return rf_reduce_sum(t, rf_square(t, x), axes, count, dims);
    if (strcmp(kind, "LogSum") == 0) return rf_log(t, rf_reduce_sum(t, x, axes, count, dims));
    int32_t all[RF_MAX_RANK] = { 0 };
    for (int32_t d = 0; count == 0 && d < rf_tensor_shape(t, x).rank; d++) all[d] = d;
    const uint32_t number = count ? count : (uint32_t)rf_tensor_shape(t, x).rank;
    const rf_tensor kept =
        strcmp(kind, "Prod") == 0 ? product_of(c, x, count ? axes : all, number) : log_sum_exp_of(c, x, axes, count);
    return dims == RF_KEEP_DIMS ? kept : rf_reduce_sum(t, kept, axes, count, RF_DROP_DIMS);
}

static void reduce_trace(rf_import_call *c)
{
    int32_t axes[RF_MAX_RANK];
    const rf_tensor x = X;
    const uint32_t count = rf_import_axes(c, 1, rf_tensor_shape(c->t, x).rank, axes);
    if (count == 0 && rf_import_int(c, "noop_with_empty_axes", 0)) {
        c->out[0] = rf_import_tensor_of(c, 0);
        return;
    }
    if (rf_trace_status(c->t) < 0) return;
    const rf_tensor y = reduce_axes(c, x, axes, count, rf_import_int(c, "keepdims", 1) ? RF_KEEP_DIMS : RF_DROP_DIMS);
    c->out[0] = rf_import_back(c, 0, y);
}

/* Elements less their mean, by their deviation. */
static void mean_variance_trace(rf_import_call *c)
{
    static const int64_t usual[] = { 0, 2, 3 };
    const rf_tensor x = X;
    const int32_t rank = rf_tensor_shape(c->t, x).rank;
    int32_t axes[RF_MAX_RANK];
    rf_tensor mean, variance;
    uint32_t count = rf_import_axes(c, 1, rank, axes);
    for (; count < 3 && !json_object_get(c->attributes, "axes"); count++)
        axes[count] = rf_import_axis(c, usual[count], rank);
    if (rf_moments(c->t, x, axes, count, RF_KEEP_DIMS, &mean, &variance) < 0) return;
    const rf_tensor deviation = rf_add(c->t, rf_sqrt(c->t, variance), NUM(1e-9));
    c->out[0] = rf_divide(c->t, rf_subtract(c->t, x, mean), deviation);
}

/* ---- joining and taking ---- */

static void concat_trace(rf_import_call *c)
{
    rf_tensor parts[RF_IMPORT_MOST_OPERANDS];
    const rf_shape shape = rf_import_shape_of_operand(c, 0);
    bool whole = true;
    for (uint32_t i = 0; i < c->num_in; i++) whole &= rf_import_is_whole(c, i);
    for (uint32_t i = 0; i < c->num_in; i++) parts[i] = whole ? rf_import_tensor_of(c, i) : rf_import_float_of(c, i);
    const int32_t axis = rf_import_axis(c, rf_import_int(c, "axis", 0), shape.rank);
    if (axis >= 0) c->out[0] = rf_concat(c->t, parts, c->num_in, axis);
}

rf_tensor rf_import_slice(rf_import_call *c, rf_tensor x, int32_t axis, int64_t from, int64_t to, int64_t by)
{
    int64_t begin[RF_MAX_RANK] = { 0 }, end[RF_MAX_RANK], step[RF_MAX_RANK];
    for (int32_t d = 0; d < RF_MAX_RANK; d++) {
        end[d] = INT64_MAX;
        step[d] = 1;
    }
    if (axis < 0) return (rf_tensor){ 0 };
    begin[axis] = from;
    end[axis] = to;
    step[axis] = by;
    return rf_slice(c->t, x, begin, end, step, (uint32_t)axis + 1);
}

/* Lengths are an attribute before opset 13, then an operand; without them, or a number of parts, they are equal. */
static void split_trace(rf_import_call *c)
{
    const rf_tensor x = rf_import_tensor_of(c, 0);
    const rf_shape shape = rf_tensor_shape(c->t, x);
    const int32_t axis = rf_import_axis(c, rf_import_int(c, "axis", 0), shape.rank);
    int64_t lengths[RF_MAX_CUSTOM_TENSORS], count = 0, at = 0;
    const double *numbers = NULL;
    if (axis < 0) return;
    if (rf_import_has(c, 1) && rf_import_numbers(c, 1, &numbers, &count)) {
        for (int64_t i = 0; i < count && i < RF_MAX_CUSTOM_TENSORS; i++) lengths[i] = (int64_t)numbers[i];
    } else {
        count = rf_import_ints(c, "split", lengths, RF_MAX_CUSTOM_TENSORS);
    }
    const int64_t equal = (shape.dim[axis] + c->num_out - 1) / c->num_out;
    if (count != 0 && count != c->num_out) rf_import_call_fail(c, "has other lengths than parts");
    for (uint32_t i = 0; i < c->num_out && rf_trace_status(c->t) >= 0; i++) {
        const int64_t length = count ? lengths[i] : equal;
        c->out[i] = rf_import_slice(c, x, axis, at, i + 1 == c->num_out && !count ? INT64_MAX : at + length, 1);
        at += length;
    }
}

static int64_t clamp_number(double value)
{
    return value >= 9e18 ? INT64_MAX : value <= -9e18 ? INT64_MIN : (int64_t)value;
}

/* Numbers of an operand or, before opset 10, of an attribute. False, with the trace failed, where there are others. */
static bool slice_numbers(rf_import_call *c, uint32_t operand, const char *attribute, double *out, int64_t *count)
{
    int64_t listed[RF_MAX_RANK], many = 0;
    const double *numbers = NULL;
    if (c->opset < 10)
        many = rf_import_ints(c, attribute, listed, RF_MAX_RANK);
    else if ((operand < 3 || rf_import_has(c, operand)) && !rf_import_numbers(c, operand, &numbers, &many))
        return false;
    if (many > RF_MAX_RANK || (*count >= 0 && many > 0 && many != *count)) {
        rf_import_call_fail(c, "has other ends, axes or steps than starts");
        return false;
    }
    for (int64_t i = 0; i < many; i++) out[i] = numbers ? numbers[i] : (double)listed[i];
    if (many > 0 || *count < 0) *count = many;
    return true;
}

/* Ends beyond the axis are cut by rf_slice() as the file's rules have it. */
static void slice_trace(rf_import_call *c)
{
    rf_tensor x = rf_import_tensor_of(c, 0);
    double from[RF_MAX_RANK], to[RF_MAX_RANK], by[RF_MAX_RANK], axes[RF_MAX_RANK];
    int64_t count = -1;
    const int32_t rank = rf_tensor_shape(c->t, x).rank;
    for (int32_t d = 0; d < RF_MAX_RANK; d++) {
        axes[d] = d;
        by[d] = 1;
    }
    if (!slice_numbers(c, 1, "starts", from, &count) || !slice_numbers(c, 2, "ends", to, &count) ||
        !slice_numbers(c, 3, "axes", axes, &count) || !slice_numbers(c, 4, "steps", by, &count))
        return;
    for (int64_t i = 0; i < count && rf_trace_status(c->t) >= 0; i++) {
        const int32_t axis = rf_import_axis(c, (int64_t)axes[i], rank);
        int64_t step = clamp_number(by[i]), end = clamp_number(to[i]);
        if (step > INT32_MAX) step = INT32_MAX;
        if (step < -INT32_MAX) step = -INT32_MAX;
        if (step < 0 && axis >= 0 && end < -rf_tensor_shape(c->t, x).dim[axis]) end = INT64_MIN;
        x = rf_import_slice(c, x, axis, clamp_number(from[i]), end, step);
    }
    c->out[0] = x;
}

/* Elements of the border, or those beside it in the opposite order. */
static rf_tensor pad_side(rf_import_call *c, rf_tensor x, int32_t axis, int64_t count, bool before, const char *mode)
{
    const int64_t size = rf_tensor_shape(c->t, x).dim[axis];
    if (count <= 0) return (rf_tensor){ 0 };
    if (strcmp(mode, "edge") == 0) {
        int64_t copies[RF_MAX_RANK] = { 1, 1, 1, 1, 1, 1 };
        copies[axis] = count;
        const rf_tensor border = rf_import_slice(c, x, axis, before ? 0 : -1, before ? 1 : INT64_MAX, 1);
        return rf_tile(c->t, border, copies, (uint32_t)axis + 1);
    }
    if (strcmp(mode, "wrap") == 0)
        return before ? rf_import_slice(c, x, axis, size - count, INT64_MAX, 1)
                      : rf_import_slice(c, x, axis, 0, count, 1);
    if (count >= size) rf_import_call_fail(c, "reflects more than there is");
    const rf_tensor beside = before ? rf_import_slice(c, x, axis, 1, count + 1, 1)
                                    : rf_import_slice(c, x, axis, size - count - 1, size - 1, 1);
    return rf_reverse(c->t, beside, axis);
}

static void pad_trace(rf_import_call *c)
{
    rf_tensor x = X;
    const int32_t rank = rf_tensor_shape(c->t, x).rank;
    const char *mode = rf_import_text(c, "mode", "constant");
    int64_t before[RF_MAX_RANK] = { 0 }, after[RF_MAX_RANK] = { 0 }, count = 0, num_axes = 0, listed[2 * RF_MAX_RANK];
    const double *numbers = NULL, *axes = NULL;
    if (c->opset >= 11 && !rf_import_numbers(c, 1, &numbers, &count)) return;
    if (!numbers) count = rf_import_ints(c, "pads", listed, 2 * RF_MAX_RANK);
    if (rf_import_has(c, 3) && !rf_import_numbers(c, 3, &axes, &num_axes)) return;
    if (!axes) num_axes = rank;
    if (count != 2 * num_axes || num_axes > rank) {
        rf_import_call_fail(c, "has other pads than axes");
        return;
    }
    for (int64_t i = 0; i < num_axes; i++) {
        const int32_t axis = rf_import_axis(c, axes ? (int64_t)axes[i] : i, rank);
        if (axis < 0) return;
        before[axis] = numbers ? (int64_t)numbers[i] : listed[i];
        after[axis] = numbers ? (int64_t)numbers[i + num_axes] : listed[i + num_axes];
    }
    for (int32_t d = 0; d < rank; d++) { /* negative ones take away */
        if (before[d] >= 0 && after[d] >= 0) continue;
        x = rf_import_slice(c, x, d, before[d] < 0 ? -before[d] : 0, after[d] < 0 ? after[d] : INT64_MAX, 1);
        if (before[d] < 0) before[d] = 0;
        if (after[d] < 0) after[d] = 0;
    }
    if (strcmp(mode, "constant") == 0) {
        const double value = c->opset >= 11 ? rf_import_number(c, 2, 0) : rf_import_real(c, "value", 0);
        c->out[0] = rf_import_back(c, 0, rf_pad(c->t, x, before, after, (uint32_t)rank, (float)value));
        return;
    }
    for (int32_t d = 0; d < rank && rf_trace_status(c->t) >= 0; d++) {
        const rf_tensor parts[] = { pad_side(c, x, d, before[d], true, mode), x,
                                    pad_side(c, x, d, after[d], false, mode) };
        const uint32_t first = parts[0].id == 0, last = parts[2].id == 0 ? 1 : 2;
        if (last > first || !first) x = rf_concat(c->t, &parts[first], last - first + 1, d);
    }
    c->out[0] = rf_import_back(c, 0, x);
}

/* ---- shapes ---- */

/* One size that follows the batch is left open; where -1 stands already, its number is found. 0 takes the operand's. */
static void reshape_trace(rf_import_call *c)
{
    const rf_tensor x = rf_import_tensor_of(c, 0);
    const rf_shape shape = rf_tensor_shape(c->t, x);
    const double *numbers;
    int64_t rank, known = 1;
    rf_size sizes[RF_MAX_RANK];
    bool follow[RF_MAX_RANK] = { 0 };
    int32_t open = -1, following = -1;
    rf_shape to = { 0 };
    if (!rf_import_numbers(c, 1, &numbers, &rank)) return;
    if (rank > RF_MAX_RANK) {
        rf_import_call_fail(c, "has a result of too many dimensions");
        return;
    }
    to.rank = (int32_t)rank;
    for (int32_t d = 0; d < to.rank; d++) {
        to.dim[d] = (int64_t)numbers[d];
        follow[d] = c->in[1].follows && c->in[1].follows[d];
        sizes[d] = rf_size_fixed(to.dim[d]);
        if (to.dim[d] == 0 && !rf_import_int(c, "allowzero", 0)) {
            if (d >= shape.rank) {
                rf_import_call_fail(c, "takes a size that its operand lacks");
                return;
            }
            to.dim[d] = shape.dim[d];
            sizes[d] = rf_size_of(x, d, 1);
            follow[d] = rf_dim_follows(c->t, x, d);
        }
        if (to.dim[d] == -1) open = d;
        if (to.dim[d] != -1) known *= to.dim[d];
        if (follow[d]) following = d;
    }
    /* Sizes of the operand itself need no -1. */
    bool own = true;
    for (int32_t d = 0; d < to.rank; d++) own = own && (!follow[d] || sizes[d].of != 0);
    if (own && open < 0 && following >= 0) {
        c->out[0] = rf_regroup(c->t, x, sizes, (uint32_t)to.rank);
        return;
    }
    if (following >= 0 && open >= 0 && known > 0) to.dim[open] = rf_shape_count(shape) / known;
    if (following >= 0) to.dim[following] = -1;
    c->out[0] = rf_reshape(c->t, x, to);
}

static void flatten_trace(rf_import_call *c)
{
    const rf_tensor x = rf_import_tensor_of(c, 0);
    const int32_t rank = rf_tensor_shape(c->t, x).rank;
    int64_t axis = rf_import_int(c, "axis", 1);
    if (axis < 0) axis += rank;
    if (axis < 0 || axis > rank) {
        rf_import_call_fail(c, "has an axis that its operand lacks");
        return;
    }
    const rf_size sizes[] = { axis ? rf_size_of(x, 0, (int32_t)axis) : rf_size_fixed(1),
                              axis < rank ? rf_size_of(x, (int32_t)axis, rank - (int32_t)axis) : rf_size_fixed(1) };
    c->out[0] = rf_regroup(c->t, x, sizes, 2);
}

static void transpose_trace(rf_import_call *c)
{
    const rf_tensor x = rf_import_tensor_of(c, 0);
    const rf_shape shape = rf_tensor_shape(c->t, x);
    int64_t listed[RF_MAX_RANK];
    int32_t perm[RF_MAX_RANK];
    const uint32_t count = rf_import_ints(c, "perm", listed, RF_MAX_RANK);
    for (int32_t d = 0; d < shape.rank; d++)
        perm[d] = count == (uint32_t)shape.rank ? (int32_t)listed[d] : shape.rank - 1 - d;
    /* An image of one place, or one channel, has the same elements in either layout. */
    int32_t moved = -1;
    bool same = shape.rank == 4 && count == 4;
    for (int32_t d = 0; same && d < 4; d++) {
        if (perm[d] < 0 || perm[d] > 3) same = false;
        if (!same || rf_dim_is_one(c->t, x, perm[d])) continue;
        same = perm[d] > moved;
        moved = perm[d];
    }
    rf_size sizes[4];
    for (int32_t d = 0; same && d < 4; d++) sizes[d] = rf_size_of(x, perm[d], 1);
    c->out[0] = same ? rf_regroup(c->t, x, sizes, 4) : rf_transpose(c->t, x, perm);
}

static void squeeze_trace(rf_import_call *c)
{
    rf_tensor x = rf_import_tensor_of(c, 0);
    const rf_shape shape = rf_tensor_shape(c->t, x);
    int32_t axes[RF_MAX_RANK];
    bool gone[RF_MAX_RANK] = { 0 };
    const uint32_t count = rf_import_axes(c, 1, shape.rank, axes);
    for (uint32_t i = 0; i < count; i++)
        if (axes[i] >= 0) gone[axes[i]] = true;
    for (int32_t d = 0; count == 0 && d < shape.rank; d++) gone[d] = rf_dim_is_one(c->t, x, d);
    for (int32_t d = shape.rank - 1; d >= 0; d--)
        if (gone[d]) x = rf_squeeze(c->t, x, d);
    c->out[0] = x;
}

static void unsqueeze_trace(rf_import_call *c)
{
    rf_tensor x = rf_import_tensor_of(c, 0);
    int64_t listed[RF_MAX_RANK], count = 0;
    const double *numbers;
    const int32_t rank = rf_tensor_shape(c->t, x).rank;
    if (rf_import_has(c, 1)) {
        if (!rf_import_numbers(c, 1, &numbers, &count)) return;
        for (int64_t i = 0; i < count && i < RF_MAX_RANK; i++) listed[i] = (int64_t)numbers[i];
    } else {
        count = rf_import_ints(c, "axes", listed, RF_MAX_RANK);
    }
    if (rank + count > RF_MAX_RANK) {
        rf_import_call_fail(c, "has a result of too many dimensions");
        return;
    }
    for (int64_t d = 0; d < rank + count; d++)
        for (int64_t i = 0; i < count; i++)
            if (listed[i] == d || listed[i] + rank + count == d) {
                x = rf_expand_dims(c->t, x, (int32_t)d);
                break;
            }
    c->out[0] = x;
}

/* By a sum with zeros of the wanted shape. */
static void expand_trace(rf_import_call *c)
{
    const rf_tensor x = X;
    const double *numbers;
    int64_t count;
    if (!rf_import_numbers(c, 1, &numbers, &count)) return;
    const rf_shape shape = rf_tensor_shape(c->t, x);
    rf_import_operand sizes = c->in[1];
    double ones[RF_MAX_RANK];
    if (count > RF_MAX_RANK) {
        rf_import_call_fail(c, "has a result of too many dimensions");
        return;
    }
    for (int64_t i = 0; i < count; i++) { /* where the operand has its size, ones do */
        const int64_t own = shape.rank - count + i;
        const bool has = own >= 0 && shape.dim[own] == (int64_t)numbers[i] && shape.dim[own] != 1;
        ones[i] = has || numbers[i] == -1 ? 1 : numbers[i];
    }
    bool needed = count > shape.rank;
    for (int64_t i = 0; i < count; i++) needed = needed || ones[i] != 1;
    sizes.numbers = ones;
    bool follows[RF_MAX_RANK] = { 0 };
    for (int64_t i = 0; sizes.follows && i < count; i++) follows[i] = c->in[1].follows[i] && ones[i] != 1;
    sizes.follows = sizes.follows ? follows : NULL;
    c->out[0] = rf_import_back(c, 0, needed ? rf_add(c->t, x, rf_import_fill(c, &sizes, 0)) : x);
}

static void fill_trace(rf_import_call *c)
{
    const double *numbers;
    int64_t count;
    if (!rf_import_numbers(c, 0, &numbers, &count)) return;
    const rf_tensor y = rf_import_fill(c, &c->in[0], rf_import_real(c, "fill", 0));
    c->out[0] = rf_import_int(c, "whole", 0) ? rf_cast(c->t, y, RF_I32) : y;
}

static void tile_trace(rf_import_call *c)
{
    const rf_tensor x = rf_import_tensor_of(c, 0);
    int64_t copies[RF_MAX_RANK], count;
    const double *numbers;
    if (!rf_import_numbers(c, 1, &numbers, &count)) return;
    if (count != rf_tensor_shape(c->t, x).rank) {
        rf_import_call_fail(c, "has other repeats than dimensions");
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        if (c->in[1].follows && c->in[1].follows[i])
            rf_import_call_fail(c, "repeats as often as the batch has examples");
        copies[i] = (int64_t)numbers[i];
    }
    c->out[0] = rf_tile(c->t, x, copies, (uint32_t)count);
}

/* 0, 1, ... of a size that is known when it runs. */
static void range_trace(rf_import_call *c)
{
    const double from = rf_import_number(c, 0, 0), to = rf_import_number(c, 1, 0), by = rf_import_number(c, 2, 1);
    for (uint32_t i = 0; i < 3; i++)
        if (rf_import_has(c, i) && c->in[i].follows && c->in[i].follows[0])
            rf_import_call_fail(c, "counts the examples of the batch");
    const double count = by != 0 ? ceil((to - from) / by) : 0;
    if (!(count >= 1 && count <= 1 << 24)) {
        rf_import_call_fail(c, "has no elements, or too many");
        return;
    }
    float *values = rf_arena_alloc(&c->arena, (size_t)count * sizeof(float));
    for (int64_t i = 0; values && i < (int64_t)count; i++) values[i] = (float)(from + (double)i * by);
    const rf_tensor y = rf_constant_array(c->t, &(rf_array){ RF_F32, RF_SHAPE((int64_t)count), values });
    c->out[0] = rf_import_back(c, 0, y);
}

/* Numbers that are only known when it runs, of sizes. */
static void sizes_trace(rf_import_call *c)
{
    c->out[0] = rf_import_tensor_of(c, 0);
}

#define A(name, fn, in_least, in_most, out, rank)                                                                      \
    {                                                                                                                  \
        name, fn, RF_IMPORT_AXES, in_least, in_most, out, rank, 0                                                      \
    }
#define P(name, fn, in_least, in_most, out, rank)                                                                      \
    {                                                                                                                  \
        name, fn, RF_IMPORT_PLAIN, in_least, in_most, out, rank, 0                                                     \
    }
#define R(name) A(name, reduce_trace, 1, 2, 1, RF_IMPORT_RANK_SPECIAL)
static const rf_import_op ops[] = {
    R("ReduceSum"),
    R("ReduceMean"),
    R("ReduceMax"),
    R("ReduceMin"),
    R("ReduceProd"),
    R("ReduceL1"),
    R("ReduceL2"),
    R("ReduceSumSquare"),
    R("ReduceLogSum"),
    R("ReduceLogSumExp"),
    A("Softmax", softmax_trace, 1, 1, 1, RF_IMPORT_RANK_SAME),
    A("LogSoftmax", softmax_trace, 1, 1, 1, RF_IMPORT_RANK_SAME),
    A("Hardmax", softmax_trace, 1, 1, 1, RF_IMPORT_RANK_SAME),
    A("MeanVarianceNormalization", mean_variance_trace, 1, 1, 1, RF_IMPORT_RANK_SAME),
    A("CumSum", cumsum_trace, 2, 2, 1, RF_IMPORT_RANK_SAME),
    A("TopK", top_k_trace, 1, 2, 2, RF_IMPORT_RANK_SAME),
    A("ArgMax", arg_trace, 1, 1, 1, RF_IMPORT_RANK_SPECIAL),
    A("ArgMin", arg_trace, 1, 1, 1, RF_IMPORT_RANK_SPECIAL),
    A("Concat", concat_trace, 1, 0, 1, RF_IMPORT_RANK_SAME),
    A("Split", split_trace, 1, 2, RF_MAX_CUSTOM_TENSORS, RF_IMPORT_RANK_SAME),
    A("Slice", slice_trace, 1, 5, 1, RF_IMPORT_RANK_SAME),
    A("Pad", pad_trace, 1, 4, 1, RF_IMPORT_RANK_SAME),
    P("Reshape", reshape_trace, 2, 2, 1, RF_IMPORT_RANK_SPECIAL),
    P("Flatten", flatten_trace, 1, 1, 1, RF_IMPORT_RANK_SPECIAL),
    P("Transpose", transpose_trace, 1, 1, 1, RF_IMPORT_RANK_SAME),
    P("Squeeze", squeeze_trace, 1, 2, 1, RF_IMPORT_RANK_SPECIAL),
    P("Unsqueeze", unsqueeze_trace, 1, 2, 1, RF_IMPORT_RANK_SPECIAL),
    P("Expand", expand_trace, 2, 2, 1, RF_IMPORT_RANK_SPECIAL),
    P("ConstantOfShape", fill_trace, 1, 1, 1, RF_IMPORT_RANK_SPECIAL),
    P("Tile", tile_trace, 2, 2, 1, RF_IMPORT_RANK_SAME),
    P("Range", range_trace, 3, 3, 1, RF_IMPORT_RANK_SPECIAL),
    P("Sizes", sizes_trace, 1, 1, 1, RF_IMPORT_RANK_SAME),
};
const rf_import_op_list rf_import_axis_ops = { ops, sizeof(ops) / sizeof(ops[0]) };
