/* SPDX-License-Identifier: Apache-2.0 */
/* The public tracing function of Einstein sums: the steps of a plan as operations. */
#include <ringfire/ops.h>

#include "base/error.h"
#include "base/memory.h"
#include "graph/batch_dims.h"
#include "trace/einsum_plan.h"
#include "trace/trace.h"

/* A sum is planned for another batch than the traced one, where no dimension is 1, or as large as another one, by
 * chance. One that fits the traced batch alone is planned for that. */
static rf_result make_plan(const char *equation, rf_graph *g, const rf_value *operands, uint32_t num_operands,
                           rf_einsum_plan *plan)
{
    rf_shape shapes[RF_EINSUM_OPERANDS], others[RF_EINSUM_OPERANDS];
    rf_error_record before;
    for (uint32_t i = 0; i < num_operands; i++) {
        const rf_tensor_desc *desc = rf_graph_desc(g, operands[i]);
        shapes[i] = desc->shape;
        if (desc->dtype != RF_F32)
            return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "rf_einsum: '%s': operand %u is %s, must be f32; cast it",
                           equation, i, rf_dtype_name(desc->dtype));
    }
    for (uint32_t i = 0; i < num_operands; i++) RF_TRY(rf_graph_other_shape(g, operands[i], &others[i]));
    RF_TRY(rf_einsum_plan_make(equation, shapes, num_operands, plan));
    rf_error_save(&before);
    if (rf_einsum_plan_make(equation, others, num_operands, plan) >= 0) return RF_OK;
    (void)rf_error_restore(&before);
    return rf_einsum_plan_make(equation, shapes, num_operands, plan);
}

static rf_result emit_reshape(rf_graph *g, const rf_einsum_step *step, const rf_value *values, rf_value *out)
{
    rf_size sizes[RF_MAX_RANK];
    for (uint32_t d = 0; d < step->num_sizes; d++)
        sizes[d] = (rf_size){ 1, values[step->sizes[d].of], step->sizes[d].axes };
    return rf_emit_regroup(g, values[step->a], sizes, step->num_sizes, out);
}

static rf_result emit_step(rf_graph *g, const rf_einsum_step *step, const rf_value *values, rf_value *out)
{
    const rf_value a = values[step->a], b = values[step->b];
    switch (step->kind) {
    case RF_EINSUM_SQUEEZE: return rf_emit_squeeze(g, a, step->axes[0], out);
    case RF_EINSUM_EXPAND: return rf_emit_expand_dims(g, a, step->axes[0], out);
    case RF_EINSUM_SUM: return rf_emit_reduce(g, RF_REDUCE_KIND_SUM, a, step->axes, step->num_axes, false, out);
    case RF_EINSUM_TRANSPOSE: return rf_emit_transpose(g, a, step->axes, out);
    case RF_EINSUM_RESHAPE: return emit_reshape(g, step, values, out);
    case RF_EINSUM_MULTIPLY: return rf_emit_binary(g, RF_FN_MULTIPLY, 0, a, b, out);
    case RF_EINSUM_MATMUL: return rf_emit_matmul(g, a, b, step->transpose_a, step->transpose_b, out);
    }
    return RF_FAIL(RF_ERROR_INTERNAL, "rf_einsum: step %d does not exist", (int)step->kind);
}

static rf_tensor emit_plan(rf_trace *t, const char *equation, rf_value *values, uint32_t num_operands,
                           rf_einsum_plan *plan)
{
    rf_graph *g = rf_trace_graph(t);
    rf_result r = make_plan(equation, g, values, num_operands, plan);
    for (uint32_t i = 0; r >= 0 && i < plan->count; i++)
        r = emit_step(g, &plan->steps[i], values, &values[num_operands + i]);
    if (r < 0) return rf_trace_emit(t, r, 0);
    return plan->count == 0 ? rf_alias(t, values[0]) : rf_trace_emit(t, RF_OK, values[plan->result]);
}

rf_tensor rf_einsum(rf_trace *t, const char *equation, const rf_tensor *operands, uint32_t num_operands)
{
    RF_TRACING(t);
    rf_value values[RF_EINSUM_OPERANDS + RF_EINSUM_STEPS] = { 0 };
    if (!t) {
        (void)RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "rf_einsum: the trace is NULL");
        return RF_NO_TENSOR;
    }
    if (!equation || !operands || num_operands < 1 || num_operands > RF_EINSUM_OPERANDS) {
        (void)rf_trace_fail(t, RF_ERROR_INVALID_ARGUMENT, "rf_einsum: %s",
                            !equation   ? "the equation is NULL"
                            : !operands ? "operands is NULL"
                                        : "there must be 1 to 8 operands");
        return RF_NO_TENSOR;
    }
    for (uint32_t i = 0; i < num_operands; i++)
        if (!rf_operand(t, operands[i], "rf_einsum: operands", &values[i])) return RF_NO_TENSOR;
    rf_einsum_plan *plan = RF_NEW(rf_einsum_plan);
    if (!plan) return rf_trace_emit(t, RF_ERROR_OUT_OF_HOST_MEMORY, 0);
    const rf_tensor y = emit_plan(t, equation, values, num_operands, plan);
    rf_free(plan);
    return y;
}
