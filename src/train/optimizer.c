/* SPDX-License-Identifier: Apache-2.0 */
#include "train/optimizer.h"

#include <math.h>

#include "base/error.h"
#include "base/memory.h"
#include "train/schedule.h"
#include "train/trace_util.h"

struct rf_optimizer {
    rf_strategy *strategy;
    rf_optimizer_config config;
    rf_updater *updater;
};

/* ---- parameters ---- */

static rf_result check_number(double value, double below, const char *name)
{
    RF_REQUIRE(value >= 0.0 && value < below, "rf_optimizer_create: %s %g is not in [0, %g)", name, value, below);
    return RF_OK;
}

/* A field that the kind does not use must be left alone: a silently ignored setting is a surprise later. */
static rf_result check_unused(const rf_optimizer_params *p)
{
    const bool adam = p->kind == RF_OPTIMIZER_ADAM || p->kind == RF_OPTIMIZER_ADAMW;
    const bool sgd = p->kind == RF_OPTIMIZER_SGD, rmsprop = p->kind == RF_OPTIMIZER_RMSPROP;
    RF_REQUIRE(p->momentum == 0.0 || sgd || rmsprop, "rf_optimizer_create: momentum is for SGD and RMSprop; use beta_1");
    RF_REQUIRE(!p->nesterov || (sgd && p->momentum > 0.0), "rf_optimizer_create: nesterov needs SGD with a momentum");
    RF_REQUIRE(p->beta_1 == 0.0 || adam, "rf_optimizer_create: beta_1 is for Adam and AdamW");
    RF_REQUIRE(p->beta_2 == 0.0 || adam, "rf_optimizer_create: beta_2 is for Adam and AdamW");
    RF_REQUIRE(p->epsilon == 0.0 || !sgd, "rf_optimizer_create: epsilon has no meaning for SGD");
    RF_REQUIRE(p->rho == 0.0 || rmsprop, "rf_optimizer_create: rho is for RMSprop");
    return RF_OK;
}

static rf_result check_params(const rf_optimizer_params *p)
{
    RF_REQUIRE((int)p->kind >= RF_OPTIMIZER_SGD && (int)p->kind <= RF_OPTIMIZER_RMSPROP,
               "rf_optimizer_create: kind %d does not exist", (int)p->kind);
    RF_TRY(check_number(p->learning_rate, INFINITY, "learning_rate"));
    RF_TRY(check_number(p->momentum, 1.0, "momentum"));
    RF_TRY(check_number(p->beta_1, 1.0, "beta_1"));
    RF_TRY(check_number(p->beta_2, 1.0, "beta_2"));
    RF_TRY(check_number(p->epsilon, INFINITY, "epsilon"));
    RF_TRY(check_number(p->rho, 1.0, "rho"));
    RF_TRY(check_number(p->weight_decay, INFINITY, "weight_decay"));
    RF_TRY(check_number(p->clip_value, INFINITY, "clip_value"));
    RF_TRY(check_number(p->clip_norm, INFINITY, "clip_norm"));
    RF_TRY(check_number(p->global_clip_norm, INFINITY, "global_clip_norm"));
    RF_REQUIRE((p->clip_value > 0.0) + (p->clip_norm > 0.0) + (p->global_clip_norm > 0.0) <= 1,
               "rf_optimizer_create: at most one of clip_value, clip_norm and global_clip_norm may be set");
    RF_REQUIRE(!(p->schedule && p->learning_rate != 0.0),
               "rf_optimizer_create: learning_rate and schedule are both set; leave one out");
    return check_unused(p);
}

static double or_default(double value, double fallback)
{
    return value == 0.0 ? fallback : value;
}

rf_result rf_optimizer_configure(const rf_optimizer_params *params, rf_optimizer_config *out)
{
    const rf_optimizer_params defaults = { 0 };
    if (!params) params = &defaults;
    RF_TRY(check_params(params));
    if (params->schedule) {
        const rf_result r = rf_schedule_check(params->schedule);
        if (r < 0) return rf_error_context(r, "rf_optimizer_create");
    }
    rf_optimizer_params p = *params;
    p.learning_rate = or_default(p.learning_rate, p.kind == RF_OPTIMIZER_SGD ? 0.01 : 0.001);
    p.beta_1 = or_default(p.beta_1, 0.9);
    p.beta_2 = or_default(p.beta_2, 0.999);
    p.epsilon = or_default(p.epsilon, 1e-7);
    p.rho = or_default(p.rho, 0.9);
    if (p.kind == RF_OPTIMIZER_ADAMW) p.weight_decay = or_default(p.weight_decay, 0.004);
    if (p.accumulation_steps == 0) p.accumulation_steps = 1;
    out->schedule = p.schedule ? *p.schedule
                               : (rf_schedule){ .kind = RF_SCHEDULE_CONSTANT, .initial = p.learning_rate };
    p.schedule = NULL;
    out->params = p;
    return RF_OK;
}

/* ---- the numbers of an update ---- */

double rf_optimizer_rate(const rf_optimizer_config *config, uint64_t iteration)
{
    return rf_schedule_value(&config->schedule, iteration);
}

void rf_optimizer_hyper(const rf_optimizer_config *config, uint64_t iteration, double norm, float *values)
{
    const rf_optimizer_params *p = &config->params;
    const double rate = rf_optimizer_rate(config, iteration), t = (double)iteration + 1.0;
    /* Corrections of the decays that the kernel really uses: 1 - (float)0.999 is off by 1e-5 from 1 - 0.999. */
    const double beta_1 = (float)p->beta_1, beta_2 = (float)p->beta_2;
    const double limit = p->clip_norm > 0.0 ? p->clip_norm : p->global_clip_norm;
    /* A NaN or infinite norm must reach the weights instead of being clipped away unseen: NaN > limit is false. */
    const double clip = limit > 0.0 && norm > limit ? limit / norm : 1.0;
    for (uint32_t i = 0; i < RF_HYPER_COUNT; i++) values[i] = 0.0f;
    values[RF_HYPER_RATE] = (float)rate;
    values[RF_HYPER_GRAD_SCALE] = (float)(clip / (double)p->accumulation_steps);
    values[RF_HYPER_CLIP_VALUE] = (float)p->clip_value;
    values[RF_HYPER_WEIGHT_DECAY] = (float)(rate * p->weight_decay);
    values[RF_HYPER_BETA_1] = (float)beta_1;
    values[RF_HYPER_BETA_2] = (float)beta_2;
    values[RF_HYPER_CORRECTION_1] = (float)(1.0 / (1.0 - pow(beta_1, t)));
    values[RF_HYPER_CORRECTION_2] = (float)(1.0 / (1.0 - pow(beta_2, t)));
    values[RF_HYPER_EPSILON] = (float)p->epsilon;
    values[RF_HYPER_MOMENTUM] = (float)p->momentum;
    values[RF_HYPER_RHO] = (float)p->rho;
}

/* ---- what the strategy calls ---- */

static uint32_t num_slots(const rf_optimizer_params *p)
{
    switch (p->kind) {
    case RF_OPTIMIZER_SGD: return p->momentum > 0.0 ? 1 : 0;
    case RF_OPTIMIZER_ADAM:
    case RF_OPTIMIZER_ADAMW:
    case RF_OPTIMIZER_RMSPROP: return 2;
    }
    return 0;
}

static const rf_op *update_op(const rf_optimizer_params *p)
{
    switch (p->kind) {
    case RF_OPTIMIZER_SGD: return p->momentum > 0.0 ? &rf_op_momentum_update : &rf_op_sgd_update;
    case RF_OPTIMIZER_ADAM:
    case RF_OPTIMIZER_ADAMW: return &rf_op_adam_update;
    case RF_OPTIMIZER_RMSPROP: return &rf_op_rmsprop_update;
    }
    return NULL;
}

static rf_result emit_update(void *user, rf_graph *g, rf_value param, rf_value grad, const rf_value *slots, rf_value hyper)
{
    const rf_optimizer *optimizer = user;
    const rf_op *op = update_op(&optimizer->config.params);
    const uint32_t nesterov = optimizer->config.params.nesterov;
    rf_value in[3 + RF_MAX_SLOTS];
    uint32_t n = 0;
    in[n++] = param;
    in[n++] = grad;
    for (uint32_t i = 0; i < num_slots(&optimizer->config.params); i++) in[n++] = slots[i];
    in[n++] = hyper;
    return rf_emit_update(g, op, op == &rf_op_momentum_update ? &nesterov : NULL, in, n);
}

static rf_result emit_accumulate(rf_graph *g, rf_value total, rf_value x)
{
    return rf_emit_update(g, &rf_op_accumulate, NULL, (rf_value[]){ total, x }, 2);
}

static rf_result emit_sum_squares(rf_graph *g, rf_value x, rf_value *out)
{
    return rf_emit_reduce(g, RF_REDUCE_KIND_SUM_SQUARES, x, NULL, 0, false, out);
}

static void fill_hyper(void *user, uint64_t iteration, double norm, float *values)
{
    const rf_optimizer *optimizer = user;
    rf_optimizer_hyper(&optimizer->config, iteration, norm, values);
}

/* ---- public ---- */

rf_result rf_optimizer_create(rf_strategy *strategy, const rf_optimizer_params *params, rf_optimizer **out)
{
    RF_REQUIRE(out, "rf_optimizer_create: out is NULL");
    *out = NULL;
    RF_REQUIRE(strategy, "rf_optimizer_create: strategy is NULL");
    rf_optimizer_config config;
    RF_TRY(rf_optimizer_configure(params, &config));
    rf_optimizer *optimizer = RF_NEW(rf_optimizer);
    if (!optimizer) return RF_ERROR_OUT_OF_HOST_MEMORY;
    optimizer->strategy = strategy;
    optimizer->config = config;
    const rf_updater_params updater = {
        .user = optimizer,
        .num_slots = num_slots(&config.params),
        .accumulation_steps = config.params.accumulation_steps,
        .variable_norms = config.params.clip_norm > 0.0,
        .global_norm = config.params.global_clip_norm > 0.0,
        .emit = emit_update,
        .emit_accumulate = emit_accumulate,
        .emit_sum_squares = emit_sum_squares,
        .hyper_count = RF_HYPER_COUNT,
        .hyper = fill_hyper,
    };
    const rf_result r = rf_updater_create(strategy, &updater, &optimizer->updater);
    if (r < 0) {
        rf_free(optimizer);
        return r;
    }
    *out = optimizer;
    return RF_OK;
}

void rf_optimizer_destroy(rf_optimizer **optimizer)
{
    if (!optimizer || !*optimizer) return;
    rf_updater_destroy(&(*optimizer)->updater);
    rf_free(*optimizer);
    *optimizer = NULL;
}

rf_updater *rf_optimizer_updater(rf_optimizer *optimizer)
{
    return optimizer->updater;
}

rf_strategy *rf_optimizer_strategy(const rf_optimizer *optimizer)
{
    return optimizer->strategy;
}

/* What both ways to update have in common; the trace carries the failure too. */
static rf_result check_update(rf_trace *t, const rf_optimizer *optimizer, rf_variable_list variables, const char *function)
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
                             "%s: variables is empty; a model has variables after its first call or rf_model_build()",
                             function);
    }
    for (uint32_t i = 0; i < variables.count; i++) {
        if (!variables.items[i]) {
            return rf_trace_fail(t, RF_ERROR_INVALID_ARGUMENT, "%s: variables[%u] is NULL", function, i);
        }
    }
    return RF_OK;
}

static rf_result differentiate_and_update(rf_trace *t, rf_optimizer *optimizer, rf_value loss, rf_variable_list variables,
                                          rf_value *values)
{
    for (uint32_t i = 0; i < variables.count; i++) {
        values[i] = rf_trace_variable(t, variables.items[i]);
        if (values[i] == 0) return rf_trace_status(t);
    }
    rf_value *gradients = values + variables.count;
    const rf_result r = rf_graph_differentiate(rf_trace_graph(t), loss, values, variables.count, gradients);
    if (r < 0) {
        (void)rf_trace_emit(t, r, 0);
        return r;
    }
    return rf_trace_update(t, optimizer->updater, gradients, variables);
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
    rf_value *values = RF_NEW_ARRAY(rf_value, 2 * (size_t)variables.count);
    if (!values) {
        (void)rf_trace_emit(t, RF_ERROR_OUT_OF_HOST_MEMORY, 0);
        return RF_ERROR_OUT_OF_HOST_MEMORY;
    }
    const rf_result r = differentiate_and_update(t, optimizer, v, variables, values);
    rf_free(values);
    return r;
}

static rf_result gather_gradients(rf_trace *t, const rf_tensor *gradients, rf_variable_list variables, rf_value *values)
{
    for (uint32_t i = 0; i < variables.count; i++) {
        if (!rf_operand(t, gradients[i], "rf_optimizer_apply_gradients: gradients", &values[i])) return rf_trace_status(t);
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

rf_result rf_optimizer_apply_gradients(rf_trace *t, rf_optimizer *optimizer, const rf_tensor *gradients,
                                       rf_variable_list variables)
{
    RF_TRY(check_update(t, optimizer, variables, "rf_optimizer_apply_gradients"));
    if (!gradients) {
        return rf_trace_fail(t, RF_ERROR_INVALID_ARGUMENT, "rf_optimizer_apply_gradients: gradients is NULL");
    }
    rf_value *values = RF_NEW_ARRAY(rf_value, variables.count);
    if (!values) {
        (void)rf_trace_emit(t, RF_ERROR_OUT_OF_HOST_MEMORY, 0);
        return RF_ERROR_OUT_OF_HOST_MEMORY;
    }
    rf_result r = gather_gradients(t, gradients, variables, values);
    if (r == RF_OK) r = rf_trace_update(t, optimizer->updater, values, variables);
    rf_free(values);
    return r;
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
    return RF_OK;
}

uint64_t rf_optimizer_iterations(const rf_optimizer *optimizer)
{
    return optimizer ? rf_updater_iterations(optimizer->updater) : 0;
}
