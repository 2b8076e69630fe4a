/* SPDX-License-Identifier: Apache-2.0 */
/* Tracing functions that move elements and leave them as they are. */
#include <ringfire/ops.h>

#include "base/memory.h"
#include "ops/ops.h"
#include "trace/trace.h"

rf_tensor rf_reshape(rf_trace *t, rf_tensor x, rf_shape shape)
{
    RF_TRACING(t);
    rf_value v, out = 0;
    if (!rf_operand(t, x, "rf_reshape: x", &v)) return RF_NO_TENSOR;
    rf_result r = RF_OK;
    for (int32_t d = 0; d < shape.rank && d < RF_MAX_RANK; d++)
        if (shape.dim[d] < -1)
            r = RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "rf_reshape: dimension %d is %lld; only -1 stands for a size",
                        (int)d, (long long)shape.dim[d]);
    if (r >= 0) r = rf_emit_reshape(rf_trace_graph(t), v, shape, &out);
    return rf_trace_emit(t, r, out);
}

rf_tensor rf_transpose(rf_trace *t, rf_tensor x, const int32_t *perm)
{
    RF_TRACING(t);
    rf_value v, out = 0;
    if (!rf_operand(t, x, "rf_transpose: x", &v)) return RF_NO_TENSOR;
    const rf_result r = perm ? rf_emit_transpose(rf_trace_graph(t), v, perm, &out)
                             : RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "rf_transpose: perm is NULL");
    return rf_trace_emit(t, r, out);
}

rf_tensor rf_slice(rf_trace *t, rf_tensor x, const int64_t *begin, const int64_t *end, const int64_t *step,
                   uint32_t num_axes)
{
    RF_TRACING(t);
    rf_value v, out = 0;
    if (!rf_operand(t, x, "rf_slice: x", &v)) return RF_NO_TENSOR;
    const rf_result r = (begin && end) || num_axes == 0
                            ? rf_emit_slice(rf_trace_graph(t), v, begin, end, step, num_axes, &out)
                            : RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "rf_slice: %s is NULL but num_axes is %u",
                                      begin ? "end" : "begin", num_axes);
    return rf_trace_emit(t, r, out);
}

rf_tensor rf_reverse(rf_trace *t, rf_tensor x, int32_t axis)
{
    RF_TRACING(t);
    int64_t begin[RF_MAX_RANK] = { 0 }, end[RF_MAX_RANK], step[RF_MAX_RANK];
    rf_tensor_desc desc;
    char shape[96];
    if (!rf_operand_desc(t, x, "rf_reverse: x", &desc)) return RF_NO_TENSOR;
    const int32_t at = axis < 0 ? axis + desc.shape.rank : axis;
    if (at < 0 || at >= desc.shape.rank) {
        (void)rf_trace_fail(t, RF_ERROR_INVALID_ARGUMENT, "rf_reverse: shape %s has no axis %d",
                            rf_shape_format(desc.shape, shape, sizeof(shape)), (int)axis);
        return RF_NO_TENSOR;
    }
    for (int32_t d = 0; d <= at; d++) {
        begin[d] = d < at ? 0 : INT64_MAX;
        end[d] = d < at ? INT64_MAX : INT64_MIN;
        step[d] = d < at ? 1 : -1;
    }
    return rf_slice(t, x, begin, end, step, (uint32_t)at + 1);
}

rf_tensor rf_pad(rf_trace *t, rf_tensor x, const int64_t *before, const int64_t *after, uint32_t num_axes, float value)
{
    RF_TRACING(t);
    rf_value v, out = 0;
    if (!rf_operand(t, x, "rf_pad: x", &v)) return RF_NO_TENSOR;
    const rf_result r = (before && after) || num_axes == 0
                            ? rf_emit_pad(rf_trace_graph(t), v, before, after, num_axes, value, &out)
                            : RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "rf_pad: %s is NULL but num_axes is %u",
                                      before ? "after" : "before", num_axes);
    return rf_trace_emit(t, r, out);
}

rf_tensor rf_upsample2d(rf_trace *t, rf_tensor x, const int32_t *factor, rf_interpolation interpolation)
{
    RF_TRACING(t);
    rf_value v, out = 0;
    if (!rf_operand(t, x, "rf_upsample2d: x", &v)) return RF_NO_TENSOR;
    const rf_result r = rf_emit_upsample2d(rf_trace_graph(t), v, factor, interpolation, &out);
    return rf_trace_emit(t, r, out);
}

rf_tensor rf_tile(rf_trace *t, rf_tensor x, const int64_t *copies, uint32_t num_axes)
{
    RF_TRACING(t);
    rf_value v, out = 0;
    if (!rf_operand(t, x, "rf_tile: x", &v)) return RF_NO_TENSOR;
    const rf_result r = copies || num_axes == 0 ? rf_emit_tile(rf_trace_graph(t), v, copies, num_axes, &out)
                                                : RF_FAIL(RF_ERROR_INVALID_ARGUMENT,
                                                          "rf_tile: copies is NULL but num_axes is %u", num_axes);
    return rf_trace_emit_own(t, r, v, out);
}

/* Values of several handles, to be freed; NULL when there are none, or one is bad: the trace has failed then. */
static rf_value *many_operands(rf_trace *t, const rf_tensor *tensors, uint32_t num_tensors, const char *argument)
{
    rf_value *in = NULL;
    if (!t) {
        (void)RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s: the trace is NULL", argument);
        return NULL;
    }
    if (!tensors || num_tensors == 0) {
        (void)rf_trace_fail(t, RF_ERROR_INVALID_ARGUMENT, "%s: %s", argument,
                            tensors ? "there are none" : "the array is NULL");
        return NULL;
    }
    if (rf_trace_status(t) >= 0 && !(in = RF_NEW_ARRAY(rf_value, num_tensors)))
        (void)rf_trace_emit(t, RF_ERROR_OUT_OF_HOST_MEMORY, 0);
    for (uint32_t i = 0; in && i < num_tensors; i++) {
        if (rf_operand(t, tensors[i], argument, &in[i])) continue;
        rf_free(in);
        in = NULL;
    }
    return in;
}

rf_tensor rf_concat(rf_trace *t, const rf_tensor *tensors, uint32_t num_tensors, int32_t axis)
{
    RF_TRACING(t);
    rf_value *in = many_operands(t, tensors, num_tensors, "rf_concat: tensors"), out = 0;
    if (!in) return RF_NO_TENSOR;
    const rf_result r = rf_emit_concat(rf_trace_graph(t), in, num_tensors, axis, &out);
    const rf_tensor y = rf_trace_emit_own(t, r, in[0], out);
    rf_free(in);
    return y;
}

rf_tensor rf_stack(rf_trace *t, const rf_tensor *tensors, uint32_t num_tensors, int32_t axis)
{
    RF_TRACING(t);
    rf_value *in = many_operands(t, tensors, num_tensors, "rf_stack: tensors"), out = 0;
    if (!in) return RF_NO_TENSOR;
    const rf_shape shape = rf_graph_desc(rf_trace_graph(t), in[0])->shape;
    char first[96], other[96];
    rf_result r = RF_OK;
    for (uint32_t i = 0; r >= 0 && i < num_tensors; i++) {
        const rf_shape own = rf_graph_desc(rf_trace_graph(t), in[i])->shape;
        if (!rf_shape_equal(own, shape))
            r = RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "rf_stack: shapes %s and %s differ",
                        rf_shape_format(shape, first, sizeof(first)), rf_shape_format(own, other, sizeof(other)));
        if (r >= 0) r = rf_emit_expand_dims(rf_trace_graph(t), in[i], axis, &in[i]);
    }
    if (r >= 0) r = rf_emit_concat(rf_trace_graph(t), in, num_tensors, axis, &out);
    rf_free(in);
    return rf_trace_emit(t, r, out);
}

rf_result rf_split_tensor(rf_trace *t, rf_tensor x, int32_t axis, uint32_t num_parts, rf_tensor *out)
{
    RF_TRACING(t);
    rf_value v;
    for (uint32_t i = 0; out && i < num_parts; i++) out[i] = RF_NO_TENSOR;
    if (!rf_operand(t, x, "rf_split_tensor: x", &v)) return t ? rf_trace_status(t) : RF_ERROR_INVALID_ARGUMENT;
    if (!out) return rf_trace_fail(t, RF_ERROR_INVALID_ARGUMENT, "rf_split_tensor: out is NULL");
    rf_value *parts = num_parts > 0 ? RF_NEW_ARRAY(rf_value, num_parts) : NULL;
    rf_result r = parts || num_parts == 0 ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
    if (r >= 0) r = rf_emit_split(rf_trace_graph(t), v, axis, num_parts, parts);
    if (r < 0) (void)rf_trace_emit(t, r, 0);
    for (uint32_t i = 0; r >= 0 && i < num_parts; i++) out[i] = rf_trace_emit_own(t, r, v, parts[i]);
    rf_free(parts);
    return rf_trace_status(t);
}

rf_tensor rf_expand_dims(rf_trace *t, rf_tensor x, int32_t axis)
{
    RF_TRACING(t);
    rf_value v, out = 0;
    if (!rf_operand(t, x, "rf_expand_dims: x", &v)) return RF_NO_TENSOR;
    const rf_result r = rf_emit_expand_dims(rf_trace_graph(t), v, axis, &out);
    return rf_trace_emit(t, r, out);
}

rf_tensor rf_squeeze(rf_trace *t, rf_tensor x, int32_t axis)
{
    RF_TRACING(t);
    rf_value v, out = 0;
    if (!rf_operand(t, x, "rf_squeeze: x", &v)) return RF_NO_TENSOR;
    const rf_result r = rf_emit_squeeze(rf_trace_graph(t), v, axis, &out);
    return rf_trace_emit(t, r, out);
}

rf_tensor rf_gather(rf_trace *t, rf_tensor x, rf_tensor indices, int32_t axis)
{
    RF_TRACING(t);
    rf_value v[2], out = 0;
    if (!rf_two_operands(t, x, "rf_gather: x", indices, "rf_gather: indices", v)) return RF_NO_TENSOR;
    const rf_result r = rf_emit_gather(rf_trace_graph(t), v[0], v[1], axis, 0, &out);
    return rf_trace_emit(t, r, out);
}

rf_tensor rf_gather_positions(rf_trace *t, rf_tensor x, rf_tensor positions)
{
    RF_TRACING(t);
    rf_value v[2], out = 0;
    if (!rf_two_operands(t, x, "rf_gather_positions: x", positions, "rf_gather_positions: positions", v))
        return RF_NO_TENSOR;
    const rf_result r = rf_emit_gather(rf_trace_graph(t), v[0], v[1], 1, 1, &out);
    return rf_trace_emit(t, r, out);
}
