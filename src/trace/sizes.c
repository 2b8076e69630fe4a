/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes of tensors that may follow the batch. A number that is read from a shape is that of the traced batch: what must
 * follow the batch is taken from tensors when the step runs. */
#include "base/memory.h"
#include "graph/batch_dims.h"
#include "trace/trace.h"

bool rf_dim_follows(rf_trace *t, rf_tensor x, int32_t d)
{
    rf_value v;
    uint32_t dims = 0;
    if (!rf_operand(t, x, "x", &v)) return false;
    const rf_result r = rf_graph_batch_dims(rf_trace_graph(t), v, &dims);
    if (r < 0) (void)rf_trace_emit(t, r, 0);
    const int32_t rank = rf_graph_desc(rf_trace_graph(t), v)->shape.rank, at = d < 0 ? d + rank : d;
    return at >= 0 && (dims >> at & 1);
}

bool rf_dim_is_one(rf_trace *t, rf_tensor x, int32_t d)
{
    const rf_shape shape = rf_tensor_shape(t, x);
    return shape.dim[d < 0 ? d + shape.rank : d] == 1 && !rf_dim_follows(t, x, d);
}

rf_size rf_size_fixed(int64_t count)
{
    return (rf_size){ .times = count };
}

rf_size rf_size_of(rf_tensor x, int32_t first, int32_t count)
{
    return (rf_size){ 1, x.id, ((1u << count) - 1) << first };
}

uint32_t rf_sizes_of(rf_trace *t, rf_tensor x, int32_t first, rf_size *sizes)
{
    const int32_t rank = rf_tensor_shape(t, x).rank;
    for (int32_t d = first; d < rank; d++) sizes[d - first] = rf_size_of(x, d, 1);
    return rank > first ? (uint32_t)(rank - first) : 0;
}

rf_tensor rf_regroup(rf_trace *t, rf_tensor x, const rf_size *sizes, uint32_t rank)
{
    rf_value v, out = 0;
    if (!rf_operand(t, x, "rf_reshape: x", &v)) return RF_NO_TENSOR;
    const rf_result r = rf_emit_regroup(rf_trace_graph(t), v, sizes, rank, &out);
    return rf_trace_emit(t, r, out);
}

/* A one for each position along the axis: f32 [positions]. */
static rf_tensor ones_along(rf_trace *t, rf_tensor x, int32_t axis)
{
    int64_t begin[RF_MAX_RANK] = { 0 }, end[RF_MAX_RANK];
    const int32_t rank = rf_tensor_shape(t, x).rank;
    rf_value line, ones = 0;
    for (int32_t d = 0; d < rank; d++) end[d] = d == axis ? INT64_MAX : 1;
    const rf_size size = rf_size_of(x, axis, 1);
    const rf_tensor row = rf_regroup(t, rf_slice(t, x, begin, end, NULL, (uint32_t)rank), &size, 1);
    if (!rf_operand(t, row, "x", &line)) return RF_NO_TENSOR;
    const rf_result r = rf_emit_fill_like(rf_trace_graph(t), 1.0f, line, &ones);
    return rf_trace_emit(t, r, ones);
}

rf_tensor rf_count_along(rf_trace *t, rf_tensor x, int32_t axis)
{
    if (!rf_dim_follows(t, x, axis)) return rf_constant(t, (float)rf_tensor_shape(t, x).dim[axis]);
    return rf_reduce_sum(t, ones_along(t, x, axis), NULL, 0, RF_DROP_DIMS);
}

/* As f32, whole numbers are exact up to here; longer axes would make wrong positions without a word. */
enum { LONGEST = 1 << 24 };

rf_tensor rf_positions(rf_trace *t, int64_t count, rf_shape shape)
{
    if (count > LONGEST) {
        (void)rf_trace_fail(t, RF_ERROR_UNSUPPORTED, "an axis of %lld has more places than f32 can number",
                            (long long)count);
        return RF_NO_TENSOR;
    }
    float *values = RF_NEW_ARRAY(float, (size_t)count);
    if (!values) return rf_trace_emit(t, RF_ERROR_OUT_OF_HOST_MEMORY, 0);
    for (int64_t i = 0; i < count; i++) values[i] = (float)i;
    const rf_tensor positions = rf_constant_array(t, &(rf_array){ RF_F32, shape, values });
    rf_free(values);
    return positions;
}

rf_tensor rf_positions_along(rf_trace *t, rf_tensor x, int32_t axis)
{
    const int64_t count = rf_tensor_shape(t, x).dim[axis];
    if (!rf_dim_follows(t, x, axis)) return rf_positions(t, count, RF_SHAPE(count));
    return rf_cumsum(t, ones_along(t, x, axis), RF_SCAN_EXCLUSIVE);
}

rf_tensor rf_append_axes(rf_trace *t, rf_tensor x, int32_t count)
{
    for (int32_t i = 0; i < count; i++) x = rf_expand_dims(t, x, -1);
    return x;
}
