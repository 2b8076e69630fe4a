/* SPDX-License-Identifier: Apache-2.0 */
/* Callers' descriptions of their updates, and the numbers that these read: pure functions. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "train/optimizer/optimizer.h"

static rf_result check_custom_name(const char *name, const char *what)
{
    RF_REQUIRE(name && *name, "rf_optimizer_create: %s is missing", what);
    const size_t length = strlen(name);
    for (size_t i = 0; i < length; i++) {
        const char c = name[i];
        const bool valid = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
        RF_REQUIRE(valid && length <= RF_MAX_CUSTOM_NAME,
                   "rf_optimizer_create: %s '%.80s' is not 1 to %d letters, digits and underscores", what, name,
                   (int)RF_MAX_CUSTOM_NAME);
    }
    return RF_OK;
}

static rf_result check_slots(const rf_custom_optimizer *p)
{
    RF_REQUIRE(p->num_slots <= RF_MAX_CUSTOM_SLOTS, "rf_optimizer_create: custom.num_slots is %u, at most %d",
               p->num_slots, RF_MAX_CUSTOM_SLOTS);
    RF_REQUIRE(p->slots || p->num_slots == 0, "rf_optimizer_create: custom.slots is NULL but num_slots is %u",
               p->num_slots);
    for (uint32_t i = 0; i < p->num_slots; i++) {
        const rf_optimizer_slot *slot = &p->slots[i];
        RF_TRY(check_custom_name(slot->name, "the name of a slot"));
        RF_REQUIRE(isfinite(slot->initial), "rf_optimizer_create: slot '%s' begins as %g, which is not finite",
                   slot->name, (double)slot->initial);
        bool taken = strcmp(slot->name, "average") == 0 || strcmp(slot->name, "accumulated_gradient") == 0;
        for (uint32_t k = 0; k < i; k++) taken = taken || strcmp(slot->name, p->slots[k].name) == 0;
        RF_REQUIRE(!taken, "rf_optimizer_create: the name '%s' of slot %u is taken; choose another", slot->name, i);
    }
    return RF_OK;
}

static rf_result check_hyperparameters(const rf_custom_optimizer *p)
{
    RF_REQUIRE(p->num_hyperparameters <= RF_MAX_HYPERPARAMETERS,
               "rf_optimizer_create: custom.num_hyperparameters is %u, at most %d", p->num_hyperparameters,
               RF_MAX_HYPERPARAMETERS);
    RF_REQUIRE(p->hyperparameters || p->num_hyperparameters == 0,
               "rf_optimizer_create: custom.hyperparameters is NULL but num_hyperparameters is %u",
               p->num_hyperparameters);
    for (uint32_t i = 0; i < p->num_hyperparameters; i++) {
        const rf_hyperparameter *h = &p->hyperparameters[i];
        RF_TRY(check_custom_name(h->name, "the name of a hyper-parameter"));
        RF_REQUIRE(isfinite(h->value), "rf_optimizer_create: hyper-parameter '%s' is %g, which is not finite", h->name,
                   h->value);
        for (uint32_t k = 0; k < i; k++)
            RF_REQUIRE(strcmp(h->name, p->hyperparameters[k].name) != 0,
                       "rf_optimizer_create: two hyper-parameters are called '%s'", h->name);
    }
    return RF_OK;
}

rf_result rf_custom_optimizer_check(const rf_custom_optimizer *p)
{
    RF_REQUIRE(p->update, "rf_optimizer_create: custom.update is NULL");
    RF_TRY(check_custom_name(p->name, "custom.name"));
    RF_TRY(check_slots(p));
    return check_hyperparameters(p);
}

/* ---- its numbers ---- */

void rf_custom_fill(const rf_custom_update *c, uint64_t iteration, double rate, float *values)
{
    double numbers[RF_MAX_HYPERPARAMETERS];
    float *scalars = values + RF_HYPER_COUNT;
    for (uint32_t i = 0; i < c->params.num_hyperparameters; i++) numbers[i] = c->hyperparameters[i].value;
    if (c->params.prepare) c->params.prepare(c->params.user, iteration + 1, rate, numbers);
    scalars[RF_CUSTOM_RATE] = (float)rate;
    scalars[RF_CUSTOM_STEP] = (float)(iteration + 1);
    scalars[RF_CUSTOM_GRAD_SCALE] = values[RF_HYPER_GRAD_SCALE];
    scalars[RF_CUSTOM_DECAY] = values[RF_HYPER_WEIGHT_DECAY];
    for (uint32_t i = 0; i < c->params.num_hyperparameters; i++)
        scalars[RF_CUSTOM_HYPERPARAMETERS + i] = (float)numbers[i];
}

uint32_t rf_custom_find(const rf_custom_update *c, const char *name)
{
    for (uint32_t i = 0; i < c->params.num_hyperparameters; i++)
        if (strcmp(c->hyperparameters[i].name, name) == 0) return i;
    return UINT32_MAX;
}
