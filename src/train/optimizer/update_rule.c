/* SPDX-License-Identifier: Apache-2.0 */
/* An optimizer's arithmetic, as the strategy's updater asks for it. */
#include "base/error.h"
#include "train/optimizer/optimizer_object.h"

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

/* With slots in few bits. */
static const rf_op *packed_op(rf_optimizer_kind kind)
{
    return kind == RF_OPTIMIZER_SGD    ? &rf_op_momentum_packed
           : kind == RF_OPTIMIZER_LION ? &rf_op_lion_packed
                                       : &rf_op_adam_packed;
}

static rf_result emit_rule(const rf_optimizer *optimizer, rf_graph *g, uint32_t group, uint64_t first, rf_value param,
                           rf_value grad, const rf_value *slots, const rf_value *hyper, rf_value shadow)
{
    const rf_optimizer_params *p = &optimizer->config.params;
    if (optimizer->custom) return rf_custom_update_emit(optimizer->custom, p, g, param, grad, slots, hyper + 1, shadow);
    if (p->kind == RF_OPTIMIZER_LAMB)
        return rf_emit_update(g, &rf_op_lamb_update, NULL, (rf_value[]){ param, slots[0], slots[1], hyper[0], shadow },
                              4 + (shadow != 0));
    if (is_matrix(p, group))
        return rf_emit_update(g, &rf_op_muon_update, NULL, (rf_value[]){ param, grad, hyper[0], shadow },
                              3 + (shadow != 0));
    const bool packed = p->state_type != RF_OPTIMIZER_STATE_F32;
    const rf_op *op = packed ? packed_op(p->kind) : update_op(p);
    const rf_packed_update_attr attr = { (uint32_t)p->state_type, p->nesterov, first };
    const uint32_t nesterov = p->nesterov;
    rf_value in[4 + RF_MAX_SLOTS];
    uint32_t n = 0;
    in[n++] = param;
    in[n++] = grad;
    for (uint32_t i = 0; i < rf_optimizer_config_slots(&optimizer->config); i++) in[n++] = slots[i];
    in[n++] = hyper[0];
    if (shadow) in[n++] = shadow;
    if (packed) return rf_emit_update(g, op, &attr, in, n);
    return rf_emit_update(g, op, op == &rf_op_momentum_update ? &nesterov : NULL, in, n);
}

static rf_result emit_update(void *user, rf_graph *g, uint32_t group, uint64_t first, rf_value param, rf_value grad,
                             const rf_value *slots, const rf_value *hyper, rf_value shadow)
{
    const rf_optimizer *optimizer = user;
    const rf_optimizer_params *p = &optimizer->config.params;
    const bool overwritten = p->use_ema && p->ema_overwrite_frequency > 0;
    RF_TRY(emit_rule(optimizer, g, group, first, param, grad, slots, hyper, overwritten ? 0 : shadow));
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

rf_result rf_optimizer_make_updater(rf_optimizer *optimizer)
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
    for (uint32_t i = 0; i < num_slots; i++)
        updater.forms[i] = (rf_state_form){ p->state_type, i == 1 }; /* of Adam: v */
    return rf_updater_create(optimizer->strategy, &updater, &optimizer->updater);
}
