/* SPDX-License-Identifier: Apache-2.0 */
#include "train/optimizer/optimizer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/params.h"
#include "base/platform.h"
#include "trace/trace.h"
#include "train/optimizer/gradient_transform.h"
#include "train/optimizer/schedule.h"
#include "train/optimizer/step_divisor.h"

struct rf_optimizer {
    uint32_t references; /* its maker's, and one of each model and checkpoint that uses it */
    bool destroyed;      /* by its maker */
    rf_strategy *strategy;
    bool remote; /* leaves gradients behind, for servers to update with */
    rf_optimizer_config config;
    rf_parameter_group *groups; /* what `config` points to */
    rf_custom_update *custom;   /* the same; NULL: an update of the library */
    rf_whole_matrix_rule matrices; /* of Muon */
    rf_updater *updater;
    bool swapped; /* weights and averages */
};

/* ---- what the strategy calls ---- */

static const rf_op *update_op(const rf_optimizer_params *p)
{
    switch (p->kind) {
    case RF_OPTIMIZER_SGD: return p->momentum > 0.0 ? &rf_op_momentum_update : &rf_op_sgd_update;
    case RF_OPTIMIZER_ADAM:
    case RF_OPTIMIZER_ADAMW: return &rf_op_adam_update;
    case RF_OPTIMIZER_RMSPROP: return &rf_op_rmsprop_update;
    case RF_OPTIMIZER_ADAGRAD: return &rf_op_adagrad_update;
    case RF_OPTIMIZER_NADAM: return &rf_op_nadam_update;
    case RF_OPTIMIZER_LION: return &rf_op_lion_update;
    case RF_OPTIMIZER_MUON: return &rf_op_adam_update; /* of what is no matrix */
    case RF_OPTIMIZER_LAMB:
    case RF_OPTIMIZER_CUSTOM: break; /* more than one op */
    }
    return NULL;
}

static bool is_matrix(const rf_optimizer_params *p, uint32_t group)
{
    return p->kind == RF_OPTIMIZER_MUON && rf_muon_is_matrix(p, group);
}

static rf_result emit_rule(const rf_optimizer *optimizer, rf_graph *g, uint32_t group, rf_value param, rf_value grad,
                           const rf_value *slots, const rf_value *hyper, rf_value shadow)
{
    const rf_optimizer_params *p = &optimizer->config.params;
    if (optimizer->custom) return rf_custom_update_emit(optimizer->custom, p, g, param, grad, slots, hyper + 1, shadow);
    if (p->kind == RF_OPTIMIZER_LAMB)
        return rf_emit_update(g, &rf_op_lamb_update, NULL, (rf_value[]){ param, slots[0], slots[1], hyper[0], shadow },
                              4 + (shadow != 0));
    if (is_matrix(p, group))
        return rf_emit_update(g, &rf_op_muon_update, NULL, (rf_value[]){ param, grad, hyper[0], shadow },
                              3 + (shadow != 0));
    const rf_op *op = update_op(p);
    const uint32_t nesterov = p->nesterov;
    rf_value in[4 + RF_MAX_SLOTS];
    uint32_t n = 0;
    in[n++] = param;
    in[n++] = grad;
    for (uint32_t i = 0; i < rf_optimizer_config_slots(&optimizer->config); i++) in[n++] = slots[i];
    in[n++] = hyper[0];
    if (shadow) in[n++] = shadow;
    return rf_emit_update(g, op, op == &rf_op_momentum_update ? &nesterov : NULL, in, n);
}

static rf_result emit_update(void *user, rf_graph *g, uint32_t group, rf_value param, rf_value grad,
                             const rf_value *slots, const rf_value *hyper, rf_value shadow)
{
    const rf_optimizer *optimizer = user;
    const rf_optimizer_params *p = &optimizer->config.params;
    const bool overwritten = p->use_ema && p->ema_overwrite_frequency > 0;
    RF_TRY(emit_rule(optimizer, g, group, param, grad, slots, hyper, overwritten ? 0 : shadow));
    if (!p->use_ema) return RF_OK;
    const rf_value average = slots[rf_optimizer_config_slots(&optimizer->config)];
    RF_TRY(rf_emit_update(g, &rf_op_average_update, NULL, (rf_value[]){ average, param, hyper[0] }, 3));
    if (!overwritten) return RF_OK;
    return rf_emit_update(g, &rf_op_overwrite, NULL, (rf_value[]){ param, average, hyper[0], shadow },
                          3 + (shadow != 0));
}

static rf_result emit_direction(void *user, rf_graph *g, uint32_t group, rf_value direction, rf_value grad,
                                const rf_value *slots, const rf_value *hyper)
{
    const rf_optimizer *optimizer = user;
    return rf_muon_emit_direction(&optimizer->config.params, g, group, direction, grad, slots[0], hyper[0]);
}

static rf_result emit_whole(void *user, rf_graph *g, uint32_t group, rf_value direction)
{
    return rf_muon_emit_whole(&((const rf_optimizer *)user)->config.params, g, group, direction);
}

/* LAMB's first half: moments, and what norms of weights and steps are made of. */
static rf_result emit_lamb_norms(void *user, rf_graph *g, rf_value param, rf_value grad, const rf_value *slots,
                                 const rf_value *hyper, float scale, rf_value *sums)
{
    rf_value m = slots[0];
    (void)user;
    if (scale == 1.0f) {
        RF_TRY(rf_emit_update(g, &rf_op_lamb_moments, NULL, (rf_value[]){ m, grad, slots[1], hyper[0] }, 4));
    } else { /* the step is linear in both */
        RF_TRY(rf_emit_unary(g, RF_FN_MUL_IMM, scale, param, &param));
        RF_TRY(rf_emit_unary(g, RF_FN_MUL_IMM, scale, m, &m));
    }
    return rf_emit_lamb_norms(g, param, m, slots[1], hyper[0], sums);
}

static void fill_hyper(void *user, uint64_t iteration, double norm, uint32_t group, float *values)
{
    const rf_optimizer *optimizer = user;
    if (is_matrix(&optimizer->config.params, group)) group -= optimizer->config.params.num_groups + 1;
    rf_optimizer_hyper(&optimizer->config, iteration, norm, group, values);
    if (!optimizer->custom) return;
    rf_custom_fill(optimizer->custom, iteration, rf_optimizer_group_rate(&optimizer->config, iteration, group), values);
}

static uint32_t group_of(void *user, const rf_variable *variable)
{
    const rf_optimizer *optimizer = user;
    const rf_optimizer_params *p = &optimizer->config.params;
    const uint32_t group = rf_parameter_group_of(p, rf_variable_name(variable));
    if (p->kind != RF_OPTIMIZER_MUON) return group;
    const bool matrix = rf_muon_updates(p, group, rf_variable_name(variable), rf_variable_shape(variable));
    return matrix ? group + p->num_groups + 1 : group;
}

static void describe_optimizer(void *user, uint64_t iteration, rf_update_settings *settings)
{
    const rf_optimizer *optimizer = user;
    rf_optimizer_describe(&optimizer->config, optimizer->custom, iteration, settings);
}

static rf_result make_updater(rf_optimizer *optimizer)
{
    const rf_optimizer_params *p = &optimizer->config.params;
    const uint32_t num_slots = rf_optimizer_config_slots(&optimizer->config);
    static const rf_norm_ratio_rule lamb = { emit_lamb_norms, RF_HYPER_RATIO, RF_NORM_BLOCK };
    optimizer->matrices = (rf_whole_matrix_rule){ p->num_groups + 1, emit_direction, emit_whole };
    const bool whole = p->kind == RF_OPTIMIZER_MUON;
    rf_updater_params updater = {
        .user = optimizer,
        .num_slots = num_slots + p->use_ema,
        .weights_slot = p->use_ema ? num_slots + 1 : 0,
        .accumulation_steps = p->accumulation_steps,
        .norms = p->clip_norm > 0.0          ? RF_NORMS_VARIABLE
                 : p->global_clip_norm > 0.0 ? RF_NORMS_GLOBAL
                                             : RF_NORMS_NONE,
        .norm_ratio = p->kind == RF_OPTIMIZER_LAMB ? &lamb : NULL,
        .whole_matrix = whole ? &optimizer->matrices : NULL,
        .emit = emit_update,
        .hyper_count = RF_HYPER_COUNT,
        .num_scalars = optimizer->custom ? rf_custom_num_scalars(optimizer->custom) : 0,
        .scale_hyper = optimizer->custom ? RF_HYPER_COUNT + RF_CUSTOM_GRAD_SCALE : RF_HYPER_GRAD_SCALE,
        .rate_hyper = optimizer->custom ? RF_HYPER_COUNT + RF_CUSTOM_RATE : RF_HYPER_RATE,
        .hyper = fill_hyper,
        .num_groups = (p->num_groups + 1) * (whole ? 2 : 1),
        .group = group_of,
        .describe = describe_optimizer,
        .scaling = { .initial = (float)optimizer->config.loss_scale.initial,
                     .growth_steps = optimizer->config.loss_scale.growth_steps,
                     .fixed = optimizer->config.loss_scale.fixed },
    };
    for (uint32_t i = 0; optimizer->custom && i < num_slots; i++)
        updater.initial[i] = optimizer->custom->slots[i].initial;
    return rf_updater_create(optimizer->strategy, &updater, &optimizer->updater);
}

/* From a checked configuration, whose pointers are the caller's. */
static rf_result set_up(rf_optimizer *optimizer)
{
    rf_optimizer_params *p = &optimizer->config.params;
    RF_TRY(rf_parameter_groups_copy(p->groups, p->num_groups, &optimizer->groups));
    p->groups = optimizer->groups;
    if (p->loss_scale) p->loss_scale = &optimizer->config.loss_scale;
    if (p->custom) {
        RF_TRY(rf_custom_update_create(optimizer->strategy, p->custom, &optimizer->custom));
        p->custom = &optimizer->custom->params;
    }
    return make_updater(optimizer);
}

/* ---- public ---- */

rf_result rf_optimizer_create(rf_strategy *strategy, const rf_optimizer_params *params, rf_optimizer **out)
{
    RF_REQUIRE(out, "rf_optimizer_create: out is NULL");
    *out = NULL;
    RF_TRY(RF_PARAMS_CHECK(rf_optimizer_params, params));
    RF_REQUIRE(strategy, "rf_optimizer_create: strategy is NULL");
    rf_optimizer_config config;
    RF_TRY(rf_optimizer_configure(params, &config));
    rf_optimizer *optimizer = RF_NEW(rf_optimizer);
    if (!optimizer) return RF_ERROR_OUT_OF_HOST_MEMORY;
    optimizer->references = 1;
    optimizer->strategy = strategy;
    optimizer->config = config;
    const rf_result r = set_up(optimizer);
    if (r < 0) {
        rf_optimizer_release(optimizer);
        return r;
    }
    *out = optimizer;
    return RF_OK;
}

rf_optimizer *rf_optimizer_retain(rf_optimizer *optimizer)
{
    if (optimizer) optimizer->references++;
    return optimizer;
}

void rf_optimizer_release(rf_optimizer *optimizer)
{
    if (!optimizer || --optimizer->references > 0) return;
    rf_updater_destroy(&optimizer->updater);
    rf_custom_update_destroy(&optimizer->custom);
    rf_free(optimizer->groups);
    rf_free(optimizer);
}

rf_result rf_optimizer_check_alive(const rf_optimizer *optimizer, const char *function)
{
    RF_REQUIRE(!optimizer->destroyed,
               "%s: the optimizer has been destroyed; destroy it after the models and checkpoints that use it",
               function);
    return RF_OK;
}

/* Those that use it notice. A second time, through a copy of the handle, changes nothing while they do. */
void rf_optimizer_destroy(rf_optimizer **optimizer)
{
    if (!optimizer || !*optimizer) return;
    rf_optimizer *o = *optimizer;
    *optimizer = NULL;
    if (o->destroyed) return;
    o->destroyed = true;
    rf_updater_retire(o->updater);
    rf_optimizer_release(o);
}

rf_updater *rf_optimizer_updater(rf_optimizer *optimizer)
{
    return optimizer->updater;
}

void rf_optimizer_set_remote(rf_optimizer *optimizer)
{
    optimizer->remote = true;
}

bool rf_optimizer_is_remote(const rf_optimizer *optimizer)
{
    return optimizer->remote;
}

rf_strategy *rf_optimizer_strategy(const rf_optimizer *optimizer)
{
    return optimizer->strategy;
}

const rf_optimizer_config *rf_optimizer_configuration(const rf_optimizer *optimizer)
{
    return &optimizer->config;
}

rf_result rf_optimizer_set_schedule(rf_optimizer *optimizer, const rf_schedule *schedule)
{
    RF_TRY(rf_schedule_check(schedule));
    optimizer->config.schedule = *schedule;
    rf_updater_change_numbers(optimizer->updater);
    return RF_OK;
}

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

static bool scales_losses(const rf_optimizer *optimizer)
{
    return optimizer->config.params.loss_scale != NULL;
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
    if (r == RF_OK && scales_losses(optimizer)) r = emit_scaled(t, optimizer, loss, &loss);
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
                                  .scaled = scales_losses(optimizer) };
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
    if (!scales_losses(optimizer)) return loss;
    const rf_result r = emit_scaled(t, optimizer, v, &scaled);
    return rf_trace_emit(t, rf_error_context(r, "rf_optimizer_scale_loss"), scaled);
}

rf_result rf_optimizer_loss_scale(const rf_optimizer *optimizer, rf_loss_scale *out)
{
    RF_REQUIRE(optimizer, "rf_optimizer_loss_scale: optimizer is NULL");
    RF_REQUIRE(out, "rf_optimizer_loss_scale: out is NULL");
    RF_REQUIRE(scales_losses(optimizer),
               "rf_optimizer_loss_scale: the optimizer does not scale losses; create it with loss_scale");
    float scale;
    *out = (rf_loss_scale){ 0 };
    RF_TRY(rf_updater_read_scale(optimizer->updater, &scale, &out->finite_steps, &out->skipped_steps));
    out->scale = (double)scale;
    return RF_OK;
}

double rf_optimizer_learning_rate(const rf_optimizer *optimizer)
{
    return optimizer ? rf_optimizer_rate(&optimizer->config, rf_updater_iterations(optimizer->updater)) : 0.0;
}

rf_result rf_optimizer_set_learning_rate(rf_optimizer *optimizer, double rate)
{
    RF_REQUIRE(optimizer, "rf_optimizer_set_learning_rate: optimizer is NULL");
    RF_REQUIRE(isfinite(rate) && rate >= 0.0, "rf_optimizer_set_learning_rate: rate %g is not a learning rate", rate);
    optimizer->config.schedule = (rf_schedule){ .kind = RF_SCHEDULE_CONSTANT, .initial = rate };
    rf_updater_change_numbers(optimizer->updater);
    return RF_OK;
}

uint64_t rf_optimizer_iterations(const rf_optimizer *optimizer)
{
    return optimizer ? rf_updater_iterations(optimizer->updater) : 0;
}

/* ---- hyper-parameters of custom optimizers ---- */

static rf_result find_hyperparameter(const rf_optimizer *optimizer, const char *name, const char *function,
                                     uint32_t *index)
{
    RF_REQUIRE(optimizer, "%s: optimizer is NULL", function);
    RF_REQUIRE(name, "%s: name is NULL", function);
    *index = optimizer->custom ? rf_custom_find(optimizer->custom, name) : UINT32_MAX;
    if (*index == UINT32_MAX)
        return RF_FAIL(RF_ERROR_NOT_FOUND, "%s: the optimizer '%s' has no hyper-parameter '%.60s'", function,
                       rf_optimizer_config_name(&optimizer->config), name);
    return RF_OK;
}

rf_result rf_optimizer_set_hyperparameter(rf_optimizer *optimizer, const char *name, double value)
{
    uint32_t index;
    RF_TRY(find_hyperparameter(optimizer, name, "rf_optimizer_set_hyperparameter", &index));
    RF_REQUIRE(isfinite(value), "rf_optimizer_set_hyperparameter: '%s' must be finite, not %g", name, value);
    optimizer->custom->hyperparameters[index].value = value;
    rf_updater_change_numbers(optimizer->updater);
    return RF_OK;
}

rf_result rf_optimizer_hyperparameter(const rf_optimizer *optimizer, const char *name, double *value)
{
    uint32_t index;
    RF_REQUIRE(value, "rf_optimizer_hyperparameter: value is NULL");
    RF_TRY(find_hyperparameter(optimizer, name, "rf_optimizer_hyperparameter", &index));
    *value = optimizer->custom->hyperparameters[index].value;
    return RF_OK;
}

/* ---- averages ---- */

/* Weights become averages, and where `back` is given, which has room for the largest, averages become weights. */
static rf_result overwrite_all(rf_optimizer *optimizer, float *averages, float *back)
{
    const rf_variable_list known = rf_updater_variables(optimizer->updater);
    const uint32_t slot = rf_optimizer_config_slots(&optimizer->config);
    for (uint32_t i = 0; i < known.count; i++) {
        rf_variable *v = known.items[i];
        RF_TRY(rf_updater_read_slot(optimizer->updater, slot, v, averages));
        if (back) {
            RF_TRY(rf_variable_read(v, back));
            RF_TRY(rf_updater_write_slot(optimizer->updater, slot, v, back));
        }
        RF_TRY(rf_variable_assign(v, averages));
    }
    return RF_OK;
}

static rf_result move_averages(rf_optimizer *optimizer, bool swap)
{
    const rf_variable_list known = rf_updater_variables(optimizer->updater);
    int64_t largest = 1;
    for (uint32_t i = 0; i < known.count; i++) {
        const int64_t count = rf_shape_count(rf_variable_shape(known.items[i]));
        if (count > largest) largest = count;
    }
    float *room = RF_NEW_ARRAY(float, 2 * (size_t)largest);
    if (!room) return RF_ERROR_OUT_OF_HOST_MEMORY;
    const rf_result r = overwrite_all(optimizer, room, swap ? room + largest : NULL);
    rf_free(room);
    return r;
}

rf_result rf_optimizer_swap_averages(rf_optimizer *optimizer)
{
    RF_REQUIRE(optimizer, "rf_optimizer_swap_averages: optimizer is NULL");
    RF_REQUIRE(optimizer->config.params.use_ema,
               "rf_optimizer_swap_averages: the optimizer keeps no averages; create it with use_ema");
    RF_TRY(rf_error_context(move_averages(optimizer, true), "rf_optimizer_swap_averages"));
    optimizer->swapped = !optimizer->swapped;
    rf_updater_suspend(optimizer->updater, optimizer->swapped ? "weights are exchanged with their averages; call "
                                                                "rf_optimizer_swap_averages() again before the "
                                                                "next step"
                                                              : NULL);
    return RF_OK;
}

rf_result rf_optimizer_finalize_variables(rf_optimizer *optimizer)
{
    RF_REQUIRE(optimizer, "rf_optimizer_finalize_variables: optimizer is NULL");
    if (!optimizer->config.params.use_ema) return RF_OK;
    RF_REQUIRE(!optimizer->swapped, "rf_optimizer_finalize_variables: weights are exchanged with their averages; call "
                                    "rf_optimizer_swap_averages() again first");
    return rf_error_context(move_averages(optimizer, false), "rf_optimizer_finalize_variables");
}
