/* SPDX-License-Identifier: Apache-2.0 */
/* The operations of a step that update variables by an optimizer. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/platform.h"
#include "trace/trace.h"
#include "train/optimizer/gradient_transform.h"
#include "train/optimizer/optimizer_object.h"
#include "train/optimizer/step_divisor.h"

static bool group_has(const rf_parameter_group *group, rf_variable_list variables)
{
    for (uint32_t i = 0; i < variables.count; i++)
        if (rf_parameter_group_matches(group, rf_variable_name(variables.items[i]))) return true;
    return false;
}

/* A pattern that names nothing is a slip. Other functions of the optimizer may update what this one does not. */
static rf_result check_groups(rf_trace *t, const rf_optimizer *optimizer, rf_variable_list variables,
                              const char *function)
{
    for (uint32_t i = 0; i < optimizer->config.params.num_groups; i++) {
        const rf_parameter_group *group = &optimizer->groups[i];
        if (group_has(group, variables) || group_has(group, rf_updater_variables(optimizer->updater))) continue;
        return rf_trace_fail(t, RF_ERROR_INVALID_ARGUMENT,
                             "%s: the optimizer's groups[%u], '%s', names none of the %u variables, e.g. '%s'",
                             function, i, group->names, variables.count, rf_variable_name(variables.items[0]));
    }
    return RF_OK;
}

/* Both ways to update have these checks in common; the trace carries the failure too. */
static rf_result check_update(rf_trace *t, const rf_optimizer *optimizer, rf_variable_list variables,
                              const char *function)
{
    RF_REQUIRE(t, "%s: the trace is NULL", function);
    RF_TRY(rf_trace_status(t));
    if (!optimizer) return rf_trace_fail(t, RF_ERROR_INVALID_ARGUMENT, "%s: optimizer is NULL", function);
    if (optimizer->strategy != rf_trace_strategy(t)) {
        return rf_trace_fail(t, RF_ERROR_INVALID_ARGUMENT,
                             "%s: optimizer was created on another strategy than the function being traced", function);
    }
    if (variables.count == 0 || !variables.items) {
        return rf_trace_fail(t, RF_ERROR_INVALID_ARGUMENT,
                             "%s: variables is empty: a model has none to train before its first call or "
                             "rf_model_build(), nor while all of its layers are frozen "
                             "(rf_layer_set_trainable())",
                             function);
    }
    for (uint32_t i = 0; i < variables.count; i++) {
        if (!variables.items[i]) {
            return rf_trace_fail(t, RF_ERROR_INVALID_ARGUMENT, "%s: variables[%u] is NULL", function, i);
        }
    }
    return check_groups(t, optimizer, variables, function);
}

static rf_result emit_scaled(rf_trace *t, const rf_optimizer *optimizer, rf_value loss, rf_value *out)
{
    rf_value scale = rf_trace_loss_scale(t, optimizer->updater);
    if (scale == 0) return rf_trace_status(t);
    RF_TRY(rf_emit_reshape(rf_trace_graph(t), scale, RF_SCALAR_SHAPE, &scale));
    return rf_emit_binary(rf_trace_graph(t), RF_FN_MULTIPLY, 0, loss, scale, out);
}

/* A variable without influence on the loss stays as it is: momentum and decay would move it. Takes those out of
 * `gradients`, where a gradient of 0 marks them, and of `reached`, a copy of the list of *count; and says so. */
static rf_result leave_out(rf_trace *t, const rf_optimizer *optimizer, rf_value *gradients, rf_variable **reached,
                           uint32_t *count, const char *function)
{
    char names[300] = "";
    size_t length = 0;
    uint32_t kept = 0;
    const uint32_t all = *count;
    for (uint32_t i = 0; i < all; i++) {
        if (gradients[i]) {
            gradients[kept] = gradients[i];
            reached[kept++] = reached[i];
        } else if (length < sizeof(names)) {
            length += (size_t)snprintf(names + length, sizeof(names) - length, "%s'%s'", length ? ", " : "",
                                       rf_variable_name(reached[i]));
        }
    }
    *count = kept;
    if (kept == all) return RF_OK;
    if (optimizer->remote)
        return rf_trace_fail(t, RF_ERROR_UNSUPPORTED,
                             "%s: %s has no influence on the loss, but servers would move it by momentum and decay: "
                             "leave it out of the coordinator's and the workers' variables",
                             function, names);
    if (kept == 0)
        return rf_trace_fail(t, RF_ERROR_NO_GRADIENT, "%s: no gradient reaches any of the variables", function);
    rf_log_message(RF_LOG_WARN, "%s: %u of %u variables have no influence on the loss and stay as they are: %s%s",
                   function, all - kept, all, names, length < sizeof(names) ? "" : "...");
    return RF_OK;
}

/* So that accumulated steps give what one of all their examples would. */
static rf_result weigh_loss(rf_trace *t, const rf_optimizer *optimizer, rf_value *loss)
{
    rf_value factor;
    if (optimizer->config.params.accumulation_steps == 1) return RF_OK;
    RF_TRY(rf_step_weigh(t, optimizer->updater, *loss, &factor));
    return factor ? rf_emit_binary(rf_trace_graph(t), RF_FN_MULTIPLY, 0, *loss, factor, loss) : RF_OK;
}

/* The same where the caller has differentiated: each gradient that is summed. */
static rf_result weigh_gradients(rf_trace *t, const rf_optimizer *optimizer, rf_variable_list variables,
                                 rf_value *gradients)
{
    const rf_value loss = rf_trace_loss_of(t, variables);
    rf_value factor;
    if (optimizer->config.params.accumulation_steps == 1 || loss == 0) return RF_OK;
    RF_TRY(rf_step_weigh(t, optimizer->updater, loss, &factor));
    for (uint32_t i = 0; factor && i < variables.count; i++)
        RF_TRY(rf_emit_binary(rf_trace_graph(t), RF_FN_MULTIPLY, 0, gradients[i], factor, &gradients[i]));
    return RF_OK;
}

static rf_result differentiate_and_update(rf_trace *t, rf_optimizer *optimizer, rf_value loss,
                                          rf_variable_list variables, rf_value *values, rf_variable **reached)
{
    for (uint32_t i = 0; i < variables.count; i++) {
        values[i] = rf_trace_variable(t, variables.items[i]);
        if (values[i] == 0) return rf_trace_status(t);
    }
    rf_value *gradients = values + variables.count;
    rf_result r = rf_graph_check_influence(rf_trace_graph(t), loss, values, variables.count);
    if (r == RF_OK) r = weigh_loss(t, optimizer, &loss);
    if (r == RF_OK && rf_optimizer_scales_losses(optimizer)) r = emit_scaled(t, optimizer, loss, &loss);
    if (r == RF_OK) r = rf_graph_differentiate_reached(rf_trace_graph(t), loss, values, variables.count, gradients);
    r = rf_error_context(r, "rf_optimizer_minimize");
    if (r < 0) {
        (void)rf_trace_emit(t, r, 0);
        return r;
    }
    uint32_t count = variables.count;
    memcpy(reached, variables.items, count * sizeof(*reached));
    RF_TRY(leave_out(t, optimizer, gradients, reached, &count, "rf_optimizer_minimize"));
    return rf_trace_update(t, optimizer->updater, gradients, (rf_variable_list){ reached, count }, NULL);
}

/* Zeros of rf_gradients() for a variable without influence, or a multiple of them. */
static bool is_unreached(const rf_trace *t, rf_graph *g, rf_value v)
{
    for (;;) {
        if (rf_trace_is_unreached(t, v)) return true;
        const rf_value_info *info = &g->values.items[v];
        if (info->kind != RF_VALUE_RESULT) return false;
        const rf_node_info *node = &g->nodes.items[info->producer];
        const rf_elementwise_attr *attr = node->op == &rf_op_elementwise ? node->attr : NULL;
        if (!attr || attr->n_steps != 1) return false;
        const uint32_t fn = attr->steps[0].fn;
        const bool product = fn == RF_FN_MULTIPLY && node->n_in > 1;
        if (product && is_unreached(t, g, node->in[1])) return true;
        if (!product && fn != RF_FN_COPY && fn != RF_FN_NEGATIVE && fn != RF_FN_MUL_IMM && fn != RF_FN_DIVIDE)
            return false;
        v = node->in[0];
    }
}

static rf_result gather_gradients(rf_trace *t, const rf_tensor *gradients, rf_variable_list variables, rf_value *values)
{
    for (uint32_t i = 0; i < variables.count; i++) {
        if (!rf_operand(t, gradients[i], "rf_optimizer_apply_gradients: gradients", &values[i]))
            return rf_trace_status(t);
        const rf_shape is = rf_graph_desc(rf_trace_graph(t), values[i])->shape;
        const rf_shape wanted = rf_variable_shape(variables.items[i]);
        if (!rf_shape_equal(is, wanted)) {
            char a[96], b[96];
            return rf_trace_fail(t, RF_ERROR_INVALID_ARGUMENT,
                                 "rf_optimizer_apply_gradients: gradients[%u] is %s, but '%s' is %s", i,
                                 rf_shape_format(is, a, sizeof(a)), rf_variable_name(variables.items[i]),
                                 rf_shape_format(wanted, b, sizeof(b)));
        }
    }
    return RF_OK;
}

static rf_result apply_reached(rf_trace *t, rf_optimizer *optimizer, const rf_tensor *gradients,
                               rf_variable_list variables, rf_value *values, rf_variable **reached)
{
    rf_result r = gather_gradients(t, gradients, variables, values);
    rf_gradient_transform transform = { 0 };
    uint32_t count = variables.count;
    memcpy(reached, variables.items, count * sizeof(*reached));
    for (uint32_t i = 0; r == RF_OK && i < variables.count; i++)
        if (is_unreached(t, rf_trace_graph(t), values[i])) values[i] = 0;
    if (r == RF_OK) r = leave_out(t, optimizer, values, reached, &count, "rf_optimizer_apply_gradients");
    const rf_variable_list list = { reached, count };
    const rf_gradient_use use = { .steps = optimizer->config.params.accumulation_steps,
                                  .remote = optimizer->remote,
                                  .scaled = rf_optimizer_scales_losses(optimizer) };
    if (r == RF_OK) r = rf_gradient_transform_find(t, &use, values, list, &transform);
    if (r == RF_OK) (void)rf_trace_emit(t, r = weigh_gradients(t, optimizer, list, values), 0);
    if (r == RF_OK) return rf_trace_update(t, optimizer->updater, values, list, &transform);
    rf_gradient_transform_free(&transform);
    return r;
}

/* `gradients` are the caller's; NULL: they are those of the loss. */
static rf_result update_reached(rf_trace *t, rf_optimizer *optimizer, rf_value loss, const rf_tensor *gradients,
                                rf_variable_list variables)
{
    rf_value *values = RF_NEW_ARRAY(rf_value, 2 * (size_t)variables.count);
    rf_variable **reached = RF_NEW_ARRAY(rf_variable *, variables.count);
    rf_result r = values && reached ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
    if (r < 0)
        (void)rf_trace_emit(t, r, 0);
    else if (gradients)
        r = apply_reached(t, optimizer, gradients, variables, values, reached);
    else
        r = differentiate_and_update(t, optimizer, loss, variables, values, reached);
    rf_free(values);
    rf_free(reached);
    return r;
}

rf_result rf_optimizer_minimize(rf_trace *t, rf_optimizer *optimizer, rf_tensor loss, rf_variable_list variables)
{
    RF_TRY(check_update(t, optimizer, variables, "rf_optimizer_minimize"));
    rf_value v;
    if (!rf_operand(t, loss, "rf_optimizer_minimize: loss", &v)) return rf_trace_status(t);
    const rf_tensor_desc *desc = rf_graph_desc(rf_trace_graph(t), v);
    if (desc->shape.rank != 0 || desc->dtype != RF_F32) {
        char text[96];
        return rf_trace_fail(t, RF_ERROR_INVALID_ARGUMENT,
                             "rf_optimizer_minimize: loss is %s %s, not an f32 scalar; see rf_compute_average_loss()",
                             rf_dtype_name(desc->dtype), rf_shape_format(desc->shape, text, sizeof(text)));
    }
    return update_reached(t, optimizer, v, NULL, variables);
}

rf_result rf_optimizer_apply_gradients(rf_trace *t, rf_optimizer *optimizer, const rf_tensor *gradients,
                                       rf_variable_list variables)
{
    RF_TRY(check_update(t, optimizer, variables, "rf_optimizer_apply_gradients"));
    if (!gradients) {
        return rf_trace_fail(t, RF_ERROR_INVALID_ARGUMENT, "rf_optimizer_apply_gradients: gradients is NULL");
    }
    return update_reached(t, optimizer, 0, gradients, variables);
}

rf_tensor rf_optimizer_scale_loss(rf_trace *t, rf_optimizer *optimizer, rf_tensor loss)
{
    rf_value v, scaled = 0;
    if (!t || !rf_operand(t, loss, "rf_optimizer_scale_loss: loss", &v)) return RF_NO_TENSOR;
    if (!optimizer) {
        rf_trace_fail(t, RF_ERROR_INVALID_ARGUMENT, "rf_optimizer_scale_loss: optimizer is NULL");
        return RF_NO_TENSOR;
    }
    if (!rf_optimizer_scales_losses(optimizer)) return loss;
    const rf_result r = emit_scaled(t, optimizer, v, &scaled);
    return rf_trace_emit(t, rf_error_context(r, "rf_optimizer_scale_loss"), scaled);
}
