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

#define P(name, fn, in_least, in_most, out, rank)                                                                      \
    {                                                                                                                  \
        name, fn, RF_IMPORT_PLAIN, in_least, in_most, out, rank, 0                                                     \
    }
static const rf_import_op ops[] = {
    P("Gather", gather_trace, 2, 2, 1, RF_IMPORT_RANK_SPECIAL),
    P("GatherND", gather_nd_trace, 2, 2, 1, RF_IMPORT_RANK_SPECIAL),
    P("OneHot", one_hot_trace, 3, 3, 1, RF_IMPORT_RANK_SPECIAL),
};
const rf_import_op_list rf_import_place_ops = { ops, sizeof(ops) / sizeof(ops[0]) };
