/* SPDX-License-Identifier: Apache-2.0 */
/* Operations of ONNX that take or put elements by numbers of their places. */
#include <string.h>

#include "trace/trace.h"
#include "train/onnx/op.h"

#define X rf_import_float_of(c, 0)
#define NUM(value) rf_import_scalar(c, value)

/* Negative numbers count from the end, which rf_gather() does not know. */
static rf_tensor from_end(rf_import_call *c, uint32_t i, int64_t size)
{
    if (rf_import_has(c, i) && !c->in[i].tensor.id) {
        const int64_t count = rf_shape_count(c->in[i].shape);
        double *counted = rf_arena_alloc(&c->arena, (size_t)count * sizeof(double));
        if (!counted) return (rf_tensor){ 0 };
        for (int64_t k = 0; k < count; k++)
            counted[k] = c->in[i].numbers[k] + (c->in[i].numbers[k] < 0 ? (double)size : 0);
        c->in[i].numbers = counted;
        return rf_import_tensor_of(c, i);
    }
    if (!rf_import_int(c, "negative", 1)) return rf_import_tensor_of(c, i);
    const rf_tensor at = rf_import_float_of(c, i);
    const rf_tensor below = rf_compare(c->t, RF_LESS, at, NUM(0));
    return rf_cast(c->t, rf_where(c->t, below, rf_add(c->t, at, NUM((double)size)), at), RF_I32);
}

static void gather_trace(rf_import_call *c)
{
    const rf_tensor x = rf_import_tensor_of(c, 0);
    const rf_shape shape = rf_tensor_shape(c->t, x);
    const int32_t axis = rf_import_axis(c, rf_import_int(c, "axis", 0), shape.rank);
    if (axis < 0) return;
    const bool one = !c->in[1].tensor.id && rf_shape_count(c->in[1].shape) == 1;
    if (one) { /* a part, which may be one along the batch */
        const int64_t at = (int64_t)c->in[1].numbers[0];
        const rf_tensor part = rf_import_slice(c, x, axis, at, at == -1 ? INT64_MAX : at + 1, 1);
        c->out[0] = c->in[1].shape.rank == 0 ? rf_squeeze(c->t, part, axis) : part;
        for (int32_t d = 1; d < c->in[1].shape.rank; d++) c->out[0] = rf_expand_dims(c->t, c->out[0], axis);
        return;
    }
    c->out[0] = rf_gather(c->t, x, from_end(c, 1, shape.dim[axis]), axis);
}

/* Rows of each example by numbers of its own. */
static void gather_nd_trace(rf_import_call *c)
{
    const rf_tensor x = X;
    const rf_shape shape = rf_tensor_shape(c->t, x), at = rf_import_shape_of_operand(c, 1);
    const int64_t batch_dims = rf_import_int(c, "batch_dims", 0);
    if (at.rank < 1 || at.dim[at.rank - 1] != 1 || batch_dims > 1 || (batch_dims == 1 && at.rank != 3)) {
        rf_import_call_fail(c, "takes elements by more than one number");
        return;
    }
    const rf_tensor numbers = rf_squeeze(c->t, from_end(c, 1, shape.dim[batch_dims]), -1);
    c->out[0] = batch_dims ? rf_gather_positions(c->t, x, numbers) : rf_gather(c->t, x, numbers, 0);
}

static void one_hot_trace(rf_import_call *c)
{
    const int64_t depth = (int64_t)rf_import_number(c, 1, 0);
    const double *values;
    int64_t count;
    if (!rf_import_numbers(c, 2, &values, &count)) return;
    if (depth < 1 || depth > 1 << 24 || count != 2) {
        rf_import_call_fail(c, "has no depth, or no two values");
        return;
    }
    const double off = values[0], on = values[1];
    const rf_tensor hot = rf_one_hot(c->t, from_end(c, 0, depth), (int32_t)depth);
    rf_tensor y = off == 0 && on == 1 ? hot : rf_add(c->t, rf_multiply(c->t, hot, NUM(on - off)), NUM(off));
    const int32_t rank = rf_tensor_shape(c->t, y).rank, axis = rf_import_axis(c, rf_import_int(c, "axis", -1), rank);
    int32_t perm[RF_MAX_RANK];
    for (int32_t d = 0; d < rank; d++) perm[d] = d < axis ? d : d == axis ? rank - 1 : d - 1;
    if (axis >= 0 && axis != rank - 1) y = rf_transpose(c->t, y, perm);
    c->out[0] = y;
}

/* ---- along one axis, a number for each element ---- */

/* Numbers of places with the axis last, as rows. */
static rf_tensor rows_of(rf_import_call *c, rf_tensor x)
{
    const int32_t rank = rf_tensor_shape(c->t, x).rank;
    const rf_size sizes[] = { rank > 1 ? rf_size_of(x, 0, rank - 1) : rf_size_fixed(1), rf_size_of(x, rank - 1, 1) };
    return rf_regroup(c->t, x, sizes, 2);
}

/* x with the axis last, and the numbers too, of which there may be fewer along other axes. False: it failed. */
static bool by_rows(rf_import_call *c, rf_tensor *x, rf_tensor *numbers, int32_t *axis)
{
    *x = X;
    const rf_shape shape = rf_tensor_shape(c->t, *x);
    *axis = rf_import_axis(c, rf_import_int(c, "axis", 0), shape.rank);
    if (*axis < 0) return false;
    *numbers = from_end(c, 1, shape.dim[*axis]);
    const rf_shape taken = rf_tensor_shape(c->t, *numbers);
    if (taken.rank != shape.rank) rf_import_call_fail(c, "has numbers with other dimensions than its operand");
    if (rf_trace_status(c->t) < 0) return false;
    for (int32_t d = 0; d < shape.rank; d++)
        if (d != *axis && taken.dim[d] != shape.dim[d]) *x = rf_import_slice(c, *x, d, 0, taken.dim[d], 1);
    *x = rf_import_swap_last(c, *x, *axis);
    *numbers = rf_import_swap_last(c, *numbers, *axis);
    return rf_trace_status(c->t) >= 0;
}

static void gather_elements_trace(rf_import_call *c)
{
    rf_tensor x, numbers;
    rf_size sizes[RF_MAX_RANK];
    int32_t axis;
    if (!by_rows(c, &x, &numbers, &axis)) return;
    const uint32_t rank = rf_sizes_of(c->t, numbers, 0, sizes);
    const rf_tensor rows = rf_gather_positions(c->t, rows_of(c, x), rows_of(c, numbers));
    const rf_tensor y = rf_import_swap_last(c, rf_regroup(c->t, rows, sizes, rank), axis);
    c->out[0] = rf_import_back(c, 0, y);
}

/* Each place takes the sum of what is put there, which is one number but for "add". */
static void scatter_elements_trace(rf_import_call *c)
{
    static const int32_t added = -2;
    rf_tensor x, numbers;
    int32_t axis;
    const char *reduction = rf_import_text(c, "reduction", "none");
    const bool add = strcmp(reduction, "add") == 0;
    const rf_shape shape = rf_import_shape_of_operand(c, 0), given = rf_import_shape_of_operand(c, 2);
    if (!add && strcmp(reduction, "none") != 0)
        rf_import_call_fail(c, "puts elements by a reduction that is not there");
    if (!by_rows(c, &x, &numbers, &axis)) return;
    for (int32_t d = 0; d < shape.rank; d++)
        if (given.rank != shape.rank || (d != axis && given.dim[d] != shape.dim[d])) {
            rf_import_call_fail(c, "puts elements into a part of the other axes");
            return;
        }
    const int64_t width = shape.dim[axis];
    const rf_tensor hot = rf_one_hot(c->t, numbers, (int32_t)(width < INT32_MAX ? width : INT32_MAX));
    const rf_tensor updates = rf_expand_dims(c->t, rf_import_swap_last(c, rf_import_float_of(c, 2), axis), -1);
    const rf_tensor sum = rf_reduce_sum(c->t, rf_where(c->t, hot, updates, NUM(0)), &added, 1, RF_DROP_DIMS);
    const rf_tensor put = rf_reduce_max(c->t, hot, &added, 1, RF_DROP_DIMS);
    const rf_tensor y = add ? rf_add(c->t, x, sum) : rf_where(c->t, put, sum, x);
    c->out[0] = rf_import_back(c, 0, rf_import_swap_last(c, y, axis));
}

/* The first steps of each sequence, as many as an operand says, in reverse order. */
static void reverse_sequence_trace(rf_import_call *c)
{
    static const int32_t exchange[] = { 1, 0, 2, 3, 4, 5 };
    rf_tensor x = X;
    const bool time_first = rf_import_int(c, "time_axis", 0) == 0;
    if (rf_import_int(c, "batch_axis", 1) != (time_first ? 1 : 0) || rf_import_int(c, "time_axis", 0) > 1)
        rf_import_call_fail(c, "has axes that are not the first two");
    if (time_first) x = rf_transpose(c->t, x, exchange);
    const rf_tensor length = rf_expand_dims(c->t, rf_import_float_of(c, 1), 1), place = rf_positions_along(c->t, x, 1);
    const rf_tensor from_last = rf_subtract(c->t, rf_subtract(c->t, length, NUM(1)), place);
    const rf_tensor inside = rf_compare(c->t, RF_GREATER_EQUAL, from_last, NUM(0));
    const rf_tensor places = rf_cast(c->t, rf_where(c->t, inside, from_last, place), RF_I32);
    const rf_tensor y = rf_gather_positions(c->t, x, places);
    c->out[0] = rf_import_back(c, 0, time_first ? rf_transpose(c->t, y, exchange) : y);
}

/* ---- diagonals ---- */

/* Column less row of the last two axes, [rows, columns]. */
static rf_tensor diagonals_of(rf_import_call *c, rf_tensor x)
{
    const int32_t rank = rf_tensor_shape(c->t, x).rank;
    const rf_tensor rows = rf_expand_dims(c->t, rf_positions_along(c->t, x, rank - 2), 1);
    return rf_subtract(c->t, rf_positions_along(c->t, x, rank - 1), rows);
}

static void trilu_trace(rf_import_call *c)
{
    const rf_tensor x = X, k = NUM(rf_import_number(c, 1, 0));
    if (rf_tensor_shape(c->t, x).rank < 2) rf_import_call_fail(c, "has an operand that is no matrix");
    if (rf_trace_status(c->t) < 0) return;
    const rf_comparison inside = rf_import_int(c, "upper", 1) ? RF_GREATER_EQUAL : RF_LESS_EQUAL;
    const rf_tensor y = rf_where(c->t, rf_compare(c->t, inside, diagonals_of(c, x), k), x, NUM(0));
    c->out[0] = rf_import_back(c, 0, y);
}

static void eye_like_trace(rf_import_call *c)
{
    const rf_tensor x = X, k = NUM((double)rf_import_int(c, "k", 0));
    if (rf_tensor_shape(c->t, x).rank != 2) rf_import_call_fail(c, "has an operand that is no matrix");
    if (rf_trace_status(c->t) < 0) return;
    const rf_tensor y = rf_compare(c->t, RF_EQUAL, diagonals_of(c, x), k);
    c->out[0] = strcmp(rf_import_text(c, "kind", "float"), "whole") == 0 ? rf_cast(c->t, y, RF_I32) : y;
}

#define P(name, fn, in_least, in_most, out, rank)                                                                      \
    {                                                                                                                  \
        name, fn, RF_IMPORT_PLAIN, in_least, in_most, out, rank, 0                                                     \
    }
static const rf_import_op ops[] = {
    P("Gather", gather_trace, 2, 2, 1, RF_IMPORT_RANK_SPECIAL),
    P("GatherND", gather_nd_trace, 2, 2, 1, RF_IMPORT_RANK_SPECIAL),
    P("OneHot", one_hot_trace, 3, 3, 1, RF_IMPORT_RANK_SPECIAL),
    P("GatherElements", gather_elements_trace, 2, 2, 1, RF_IMPORT_RANK_SAME),
    P("ScatterElements", scatter_elements_trace, 3, 3, 1, RF_IMPORT_RANK_SAME),
    P("Scatter", scatter_elements_trace, 3, 3, 1, RF_IMPORT_RANK_SAME),
    P("ReverseSequence", reverse_sequence_trace, 2, 2, 1, RF_IMPORT_RANK_SAME),
    P("Trilu", trilu_trace, 1, 2, 1, RF_IMPORT_RANK_SAME),
    P("EyeLike", eye_like_trace, 1, 1, 1, RF_IMPORT_RANK_SAME),
};
const rf_import_op_list rf_import_place_ops = { ops, sizeof(ops) / sizeof(ops[0]) };
