/* SPDX-License-Identifier: Apache-2.0 */
/* Tracing functions that make one element of several: reductions, ranks and running sums. */
#include <stdio.h>

#include <ringfire/ops.h>

#include "ops/ops.h"
#include "trace/trace.h"

static rf_tensor reduce_call(rf_trace *t, rf_reduce_kind kind, const char *name, rf_tensor x, const int32_t *axes,
                             uint32_t num_axes, rf_reduced_dims dims)
{
    rf_value v, out = 0;
    char argument[32];
    snprintf(argument, sizeof(argument), "%s: x", name);
    if (!rf_operand(t, x, argument, &v)) return RF_NO_TENSOR;
    snprintf(argument, sizeof(argument), "%s: dims", name);
    if (!rf_choice(t, argument, (int)dims, RF_KEEP_DIMS)) return RF_NO_TENSOR;
    const rf_result r = rf_emit_reduce(rf_trace_graph(t), kind, v, axes, num_axes, dims == RF_KEEP_DIMS, &out);
    return rf_trace_emit(t, r, out);
}

rf_tensor rf_reduce_sum(rf_trace *t, rf_tensor x, const int32_t *axes, uint32_t num_axes, rf_reduced_dims dims)
{
    RF_TRACING(t);
    return reduce_call(t, RF_REDUCE_KIND_SUM, "rf_reduce_sum", x, axes, num_axes, dims);
}

rf_tensor rf_reduce_mean(rf_trace *t, rf_tensor x, const int32_t *axes, uint32_t num_axes, rf_reduced_dims dims)
{
    RF_TRACING(t);
    return reduce_call(t, RF_REDUCE_KIND_MEAN, "rf_reduce_mean", x, axes, num_axes, dims);
}

rf_tensor rf_reduce_max(rf_trace *t, rf_tensor x, const int32_t *axes, uint32_t num_axes, rf_reduced_dims dims)
{
    RF_TRACING(t);
    return reduce_call(t, RF_REDUCE_KIND_MAX, "rf_reduce_max", x, axes, num_axes, dims);
}

rf_tensor rf_reduce_min(rf_trace *t, rf_tensor x, const int32_t *axes, uint32_t num_axes, rf_reduced_dims dims)
{
    RF_TRACING(t);
    return reduce_call(t, RF_REDUCE_KIND_MIN, "rf_reduce_min", x, axes, num_axes, dims);
}

rf_tensor rf_argmin(rf_trace *t, rf_tensor x)
{
    RF_TRACING(t);
    const rf_tensor negative = rf_unary(t, RF_FN_NEGATIVE, 0.0f, x, "rf_argmin: x");
    return t ? rf_argmax(t, negative) : RF_NO_TENSOR;
}

rf_result rf_top_k(rf_trace *t, rf_tensor x, int32_t k, rf_tensor *values, rf_tensor *indices)
{
    RF_TRACING(t);
    rf_value v, largest = 0, where = 0;
    if (values) *values = RF_NO_TENSOR;
    if (indices) *indices = RF_NO_TENSOR;
    if (!rf_operand(t, x, "rf_top_k: x", &v)) return t ? rf_trace_status(t) : RF_ERROR_INVALID_ARGUMENT;
    if (!values) return rf_trace_fail(t, RF_ERROR_INVALID_ARGUMENT, "rf_top_k: values is NULL");
    const rf_result r = rf_emit_top_k(rf_trace_graph(t), v, k, &largest, &where);
    *values = rf_trace_emit(t, r, largest);
    if (indices) *indices = rf_trace_emit(t, r, where);
    return rf_trace_status(t);
}

/* Rows are what can be sorted: another axis changes places with the last one, and back. */
static rf_tensor sort_call(rf_trace *t, const char *name, rf_tensor x, const char *argument, int32_t axis,
                           rf_sort_order order, bool places)
{
    rf_value v, out[2] = { 0 };
    char text[96];
    if (!rf_operand(t, x, argument, &v)) return RF_NO_TENSOR;
    if (!rf_choice(t, places ? "rf_argsort: order" : "rf_sort: order", (int)order, RF_DESCENDING)) return RF_NO_TENSOR;
    rf_graph *g = rf_trace_graph(t);
    const rf_shape shape = rf_graph_desc(g, v)->shape;
    const int32_t last = shape.rank - 1, at = axis < 0 ? axis + shape.rank : axis;
    if (at < 0 || at > last) {
        (void)rf_trace_fail(t, RF_ERROR_INVALID_ARGUMENT, "%s: shape %s has no axis %d", name,
                            rf_shape_format(shape, text, sizeof(text)), (int)axis);
        return RF_NO_TENSOR;
    }
    int32_t perm[RF_MAX_RANK] = { 0 };
    for (int32_t d = 0; d <= last; d++) perm[d] = d == at ? last : d == last ? at : d;
    rf_result r = at == last ? RF_OK : rf_emit_transpose(g, v, perm, &v);
    if (r >= 0) r = rf_emit_sort(g, v, order == RF_DESCENDING, &out[0], &out[1]);
    rf_value y = out[places];
    if (r >= 0 && at != last) r = rf_emit_transpose(g, y, perm, &y);
    return rf_trace_emit(t, r, y);
}

rf_tensor rf_sort(rf_trace *t, rf_tensor x, int32_t axis, rf_sort_order order)
{
    RF_TRACING(t);
    return sort_call(t, "rf_sort", x, "rf_sort: x", axis, order, false);
}

rf_tensor rf_argsort(rf_trace *t, rf_tensor x, int32_t axis, rf_sort_order order)
{
    RF_TRACING(t);
    return sort_call(t, "rf_argsort", x, "rf_argsort: x", axis, order, true);
}

/* ---- scans ---- */

typedef rf_result (*emit_scan_fn)(rf_graph *g, rf_value x, bool exclusive, bool reverse, rf_value *out);

static rf_tensor scan_call(rf_trace *t, emit_scan_fn emit, rf_tensor x, const char *argument, rf_scan_form form)
{
    rf_value v, out = 0;
    if (!rf_operand(t, x, argument, &v)) return RF_NO_TENSOR;
    if (!rf_choice(t, emit == rf_emit_cumsum ? "rf_cumsum: form" : "rf_cumprod: form", (int)form,
                   RF_SCAN_EXCLUSIVE_REVERSE))
        return RF_NO_TENSOR;
    const bool exclusive = form == RF_SCAN_EXCLUSIVE || form == RF_SCAN_EXCLUSIVE_REVERSE;
    const bool reverse = form == RF_SCAN_INCLUSIVE_REVERSE || form == RF_SCAN_EXCLUSIVE_REVERSE;
    const rf_result r = emit(rf_trace_graph(t), v, exclusive, reverse, &out);
    return rf_trace_emit(t, r, out);
}

rf_tensor rf_cumsum(rf_trace *t, rf_tensor x, rf_scan_form form)
{
    RF_TRACING(t);
    return scan_call(t, rf_emit_cumsum, x, "rf_cumsum: x", form);
}

rf_tensor rf_cumprod(rf_trace *t, rf_tensor x, rf_scan_form form)
{
    RF_TRACING(t);
    return scan_call(t, rf_emit_cumprod, x, "rf_cumprod: x", form);
}
