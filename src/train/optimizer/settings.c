/* SPDX-License-Identifier: Apache-2.0 */
/* The settings of an optimizer, as workers compare them. Pure, but for functions of the caller's. */
#include "base/memory.h"
#include "train/optimizer/optimizer.h"

/* Every number of rf_optimizer_params that updates use as it is. Rates are those of the step. */
static const struct {
    const char *name;
    size_t offset;
} numbers[] = {
#define NUMBER(field)                                                                                                  \
    {                                                                                                                  \
#field, offsetof(rf_optimizer_params, field)                                                                   \
    }
    NUMBER(momentum),
    NUMBER(beta_1),
    NUMBER(beta_2),
    NUMBER(epsilon),
    NUMBER(rho),
    NUMBER(initial_accumulator_value),
    NUMBER(weight_decay),
    NUMBER(clip_value),
    NUMBER(clip_norm),
    NUMBER(ema_momentum),
    NUMBER(global_clip_norm),
#undef NUMBER
};

static void describe_muon(const rf_muon_params *p, rf_update_settings *to)
{
    rf_update_settings_number(to, "muon.adamw", p->adamw);
    rf_update_settings_number(to, "muon.embeddings", p->embeddings);
    rf_update_settings_number(to, "muon.plain_momentum", p->plain_momentum);
    rf_update_settings_number(to, "muon.row_dimensions", p->row_dimensions);
    rf_update_settings_number(to, "muon.scale", p->scale);
    rf_update_settings_number(to, "muon.rms_rate", p->rms_rate);
    rf_update_settings_number(to, "muon.steps", p->steps);
}

static void describe_groups(const rf_optimizer_config *config, uint64_t iteration, rf_update_settings *to)
{
    const rf_optimizer_params *p = &config->params;
    to->list = "groups";
    for (to->index = 0; to->index < p->num_groups; to->index++) {
        const rf_parameter_group *group = &p->groups[to->index];
        rf_update_settings_text(to, "names", group->names);
        rf_update_settings_number(to, "learning_rate", rf_optimizer_group_rate(config, iteration, to->index + 1));
        rf_update_settings_number(to, "no_weight_decay", group->no_weight_decay);
        if (group->muon) describe_muon(group->muon, to);
    }
    to->list = NULL;
}

/* Hyper-parameters as prepare() makes them, of each group. */
static void describe_custom(const rf_optimizer_config *config, const rf_custom_update *custom, uint64_t iteration,
                            rf_update_settings *to)
{
    float values[RF_HYPER_COUNT + RF_CUSTOM_HYPERPARAMETERS + RF_MAX_HYPERPARAMETERS] = { 0 };
    const float *made = values + RF_HYPER_COUNT + RF_CUSTOM_HYPERPARAMETERS;
    rf_update_settings_number(to, "code of the update", (double)(custom->hash >> 11));
    for (uint32_t g = 0; g <= config->params.num_groups; g++) {
        rf_custom_fill(custom, iteration, rf_optimizer_group_rate(config, iteration, g), values);
        for (uint32_t i = 0; i < custom->params.num_hyperparameters; i++)
            rf_update_settings_number(to, custom->hyperparameters[i].name, (double)made[i]);
    }
}

void rf_optimizer_describe(const rf_optimizer_config *config, const rf_custom_update *custom, uint64_t iteration,
                           rf_update_settings *to)
{
    const rf_optimizer_params *p = &config->params;
    rf_update_settings_text(to, "optimizer", rf_optimizer_config_name(config));
    rf_update_settings_number(to, "learning_rate", rf_optimizer_rate(config, iteration));
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        rf_update_settings_number(to, numbers[i].name, *(const double *)((const char *)p + numbers[i].offset));
    rf_update_settings_number(to, "nesterov", p->nesterov);
    rf_update_settings_number(to, "epsilon_form", p->epsilon_form);
    rf_update_settings_number(to, "state_type", p->state_type);
    rf_update_settings_number(to, "use_ema", p->use_ema);
    rf_update_settings_number(to, "ema_overwrite_frequency", p->ema_overwrite_frequency);
    describe_groups(config, iteration, to);
    if (custom) describe_custom(config, custom, iteration, to);
}
