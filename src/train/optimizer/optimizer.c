/* SPDX-License-Identifier: Apache-2.0 */
/* Optimizers: made, configured, asked and destroyed. */
#include <math.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/params.h"
#include "train/optimizer/optimizer_object.h"
#include "train/optimizer/schedule.h"

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
    return rf_optimizer_make_updater(optimizer);
}

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

rf_result rf_optimizer_loss_scale(const rf_optimizer *optimizer, rf_loss_scale *out)
{
    RF_REQUIRE(optimizer, "rf_optimizer_loss_scale: optimizer is NULL");
    RF_REQUIRE(out, "rf_optimizer_loss_scale: out is NULL");
    RF_REQUIRE(rf_optimizer_scales_losses(optimizer),
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
