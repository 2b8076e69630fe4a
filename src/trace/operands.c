/* SPDX-License-Identifier: Apache-2.0 */
/* Public handles as values of the graph, and values as handles. */
#include "ops/ops.h"
#include "trace/trace.h"

bool rf_operand(rf_trace *t, rf_tensor x, const char *argument, rf_value *out)
{
    *out = 0;
    if (!t) {
        /* Without a trace there is nowhere for the failure to stick but the thread's record. */
        (void)RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s: the trace is NULL", argument);
        return false;
    }
    *out = rf_trace_value(t, x, argument);
    return *out != 0;
}

bool rf_choice(rf_trace *t, const char *argument, int value, int last)
{
    if (value >= 0 && value <= last) return true;
    if (t) (void)rf_trace_fail(t, RF_ERROR_INVALID_ARGUMENT, "%s %d does not exist", argument, value);
    return false;
}

bool rf_operand_desc(rf_trace *t, rf_tensor x, const char *argument, rf_tensor_desc *out)
{
    rf_value v;
    if (!rf_operand(t, x, argument, &v)) return false;
    *out = *rf_graph_desc(rf_trace_graph(t), v);
    return true;
}

rf_shape rf_example_shape(rf_shape batched)
{
    rf_shape example = { 0 };
    for (int32_t i = 1; i < batched.rank; i++) example.dim[example.rank++] = batched.dim[i];
    return example;
}

rf_tensor rf_alias(rf_trace *t, rf_value x)
{
    rf_graph *g = rf_trace_graph(t);
    rf_value out = 0;
    const rf_result r = g->core->alias(g, x, &out);
    return rf_trace_emit(t, r, out);
}

rf_tensor rf_trace_emit_own(rf_trace *t, rf_result result, rf_value x, rf_value out)
{
    return result == RF_OK && out == x ? rf_alias(t, x) : rf_trace_emit(t, result, out);
}

bool rf_two_operands(rf_trace *t, rf_tensor a, const char *name_a, rf_tensor b, const char *name_b, rf_value v[2])
{
    return rf_operand(t, a, name_a, &v[0]) && rf_operand(t, b, name_b, &v[1]);
}
