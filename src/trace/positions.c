/* SPDX-License-Identifier: Apache-2.0 */
/* Positions along an axis that a step is given as numbers, as when a sequence is computed piece by piece. */
#include <ringfire/ops.h>

#include <stdio.h>

#include "graph/batch_dims.h"
#include "trace/trace.h"

bool rf_position_check(rf_trace *t, rf_tensor position, const char *argument)
{
    rf_tensor_desc desc;
    char shape[96];
    if (!rf_operand_desc(t, position, argument, &desc)) return false;
    if (desc.dtype == RF_I32 && rf_shape_count(desc.shape) == 1) return true;
    (void)rf_trace_fail(t, RF_ERROR_INVALID_ARGUMENT, "%s is %s %s, must be i32 of one element", argument,
                        rf_dtype_name(desc.dtype), rf_shape_format(desc.shape, shape, sizeof(shape)));
    return false;
}

rf_tensor rf_position_number(rf_trace *t, rf_tensor position)
{
    return rf_cast(t, rf_reshape(t, position, RF_SHAPE(1)), RF_F32);
}

rf_tensor rf_position_rows(rf_trace *t, rf_tensor position, int64_t count, const char *argument)
{
    if (!rf_position_check(t, position, argument)) return RF_NO_TENSOR;
    const rf_tensor first = rf_position_number(t, position);
    const rf_tensor all = count == 1 ? first : rf_add(t, rf_positions(t, count, RF_SHAPE(count)), first);
    return rf_cast(t, all, RF_I32);
}

static rf_result refuse_updates(const rf_tensor_desc *x, const rf_tensor_desc *updates, int32_t axis)
{
    char is[96], got[96];
    return RF_FAIL(RF_ERROR_INVALID_ARGUMENT,
                   "rf_slice_update: updates are %s %s; they must be f32 and fit into x, %s %s, along axis %d",
                   rf_dtype_name(updates->dtype), rf_shape_format(updates->shape, got, sizeof(got)),
                   rf_dtype_name(x->dtype), rf_shape_format(x->shape, is, sizeof(is)), (int)axis);
}

/* All but the length along the axis. */
static rf_result check_updates(const rf_tensor_desc *x, const rf_tensor_desc *updates, int32_t axis, int32_t *at)
{
    char is[96];
    const int32_t rank = x->shape.rank;
    *at = axis < 0 ? axis + rank : axis;
    if (*at < 0 || *at >= rank)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "rf_slice_update: shape %s has no axis %d",
                       rf_shape_format(x->shape, is, sizeof(is)), (int)axis);
    bool fits = x->dtype == RF_F32 && updates->dtype == RF_F32 && updates->shape.rank == rank;
    for (int32_t d = 0; fits && d < rank; d++) fits = d == *at || updates->shape.dim[d] == x->shape.dim[d];
    return fits ? RF_OK : refuse_updates(x, updates, *at);
}

/* No more updates than there are positions: where one of both follows the batch, that is so for some numbers of
 * examples, which need not be that of the trace. */
static rf_result check_room(rf_graph *g, rf_value x, rf_value updates, int32_t axis)
{
    const rf_tensor_desc is = *rf_graph_desc(g, x), got = *rf_graph_desc(g, updates);
    rf_batch_dim room, size;
    bool linear[2];
    char reason[256], shapes[2][96];
    RF_TRY(rf_graph_batch_dim(g, x, axis, &room, &linear[0]));
    RF_TRY(rf_graph_batch_dim(g, updates, axis, &size, &linear[1]));
    const int64_t spare = room.fixed - size.fixed, each = size.per_example - room.per_example;
    if (!linear[0] || !linear[1] || each == 0)
        return got.shape.dim[axis] <= is.shape.dim[axis] ? RF_OK : refuse_updates(&is, &got, axis);
    snprintf(reason, sizeof(reason),
             "rf_slice_update: the updates, traced as %s, do not fit into x, traced as %s, along axis %d",
             rf_shape_format(got.shape, shapes[0], sizeof(shapes[0])),
             rf_shape_format(is.shape, shapes[1], sizeof(shapes[1])), (int)axis);
    const int64_t least = each > 0 ? 0 : (spare + each + 1) / each, most = each > 0 ? spare / each : INT64_MAX;
    return rf_graph_limit_batch(g, least, spare < 0 && each > 0 ? 0 : most, reason);
}

/* The distance of each position of x from the first of the updates says which of them it takes, if any. */
static rf_tensor update_places(rf_trace *t, rf_tensor x, rf_tensor updates, rf_tensor start, int32_t axis)
{
    const int32_t behind = rf_tensor_shape(t, x).rank - 1 - axis;
    const rf_tensor positions = rf_subtract(t, rf_positions_along(t, x, axis), rf_position_number(t, start));
    const rf_tensor distance = rf_append_axes(t, positions, behind); /* against x, from the axis on */
    const rf_tensor zero = rf_constant(t, 0), one = rf_constant(t, 1);
    if (rf_dim_is_one(t, updates, axis)) return rf_where(t, rf_compare(t, RF_EQUAL, distance, zero), updates, x);
    const rf_tensor count = rf_count_along(t, updates, axis);
    const rf_tensor inside =
        rf_multiply(t, rf_compare(t, RF_GREATER_EQUAL, distance, zero), rf_compare(t, RF_LESS, distance, count));
    const rf_tensor which = rf_minimum(t, rf_maximum(t, positions, zero), rf_subtract(t, count, one));
    return rf_where(t, inside, rf_gather(t, updates, rf_cast(t, which, RF_I32), axis), x);
}

rf_tensor rf_slice_update(rf_trace *t, rf_tensor x, rf_tensor updates, rf_tensor start, int32_t axis)
{
    RF_TRACING(t);
    rf_tensor_desc is, got;
    int32_t at = 0;
    if (!rf_operand_desc(t, x, "rf_slice_update: x", &is) ||
        !rf_operand_desc(t, updates, "rf_slice_update: updates", &got) ||
        !rf_position_check(t, start, "rf_slice_update: start"))
        return RF_NO_TENSOR;
    rf_result r = check_updates(&is, &got, axis, &at);
    if (r >= 0) r = check_room(rf_trace_graph(t), x.id, updates.id, at);
    if (r < 0) return rf_trace_emit(t, r, 0);
    return update_places(t, x, updates, start, at);
}
