/* SPDX-License-Identifier: Apache-2.0 */
/* Optimizer parameters and the numbers of one update: pure functions. */
#include <math.h>

#include "base/error.h"
#include "train/optimizer/optimizer.h"
#include "train/optimizer/schedule.h"

/* ---- names ---- */

const char *const rf_optimizer_kind_names[RF_OPTIMIZER_KINDS] = {
    [RF_OPTIMIZER_SGD] = "sgd",
    [RF_OPTIMIZER_ADAM] = "adam",
    [RF_OPTIMIZER_ADAMW] = "adamw",
    [RF_OPTIMIZER_RMSPROP] = "rmsprop",
};

static const char *const slot_names[RF_OPTIMIZER_KINDS][2] = {
    [RF_OPTIMIZER_SGD] = { "momentum", NULL },
    [RF_OPTIMIZER_ADAM] = { "m", "v" },
    [RF_OPTIMIZER_ADAMW] = { "m", "v" },
    [RF_OPTIMIZER_RMSPROP] = { "mean_square", "momentum" },
};

const char *rf_optimizer_kind_name(rf_optimizer_kind kind)
{
    return (uint32_t)kind < RF_OPTIMIZER_KINDS ? rf_optimizer_kind_names[kind] : NULL;
}

const char *rf_optimizer_slot_name(rf_optimizer_kind kind, uint32_t slot)
{
    return (uint32_t)kind < RF_OPTIMIZER_KINDS && slot < 2 ? slot_names[kind][slot] : NULL;
}

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
    RF_REQUIRE(p->momentum == 0.0 || sgd || rmsprop,
               "rf_optimizer_create: momentum is for SGD and RMSprop; use beta_1");
    RF_REQUIRE(!p->nesterov || (sgd && p->momentum > 0.0), "rf_optimizer_create: nesterov needs SGD with a momentum");
    RF_REQUIRE(p->beta_1 == 0.0 || adam, "rf_optimizer_create: beta_1 is for Adam and AdamW");
    RF_REQUIRE(p->beta_2 == 0.0 || adam, "rf_optimizer_create: beta_2 is for Adam and AdamW");
    RF_REQUIRE(p->epsilon == 0.0 || !sgd, "rf_optimizer_create: epsilon has no meaning for SGD");
    RF_REQUIRE(p->rho == 0.0 || rmsprop, "rf_optimizer_create: rho is for RMSprop");
    RF_REQUIRE(p->epsilon_form == RF_EPSILON_CORRECTED || adam,
               "rf_optimizer_create: epsilon_form is for Adam and AdamW");
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
    RF_REQUIRE((uint32_t)p->epsilon_form <= RF_EPSILON_UNCORRECTED,
               "rf_optimizer_create: epsilon_form %d does not exist", (int)p->epsilon_form);
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
    out->schedule =
        p.schedule ? *p.schedule : (rf_schedule){ .kind = RF_SCHEDULE_CONSTANT, .initial = p.learning_rate };
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
    const double correction_2 = 1.0 / (1.0 - pow(beta_2, t));
    values[RF_HYPER_CORRECTION_1] = (float)(1.0 / (1.0 - pow(beta_1, t)));
    values[RF_HYPER_CORRECTION_2] = (float)correction_2;
    /* The kernel adds it to sqrt(v correction_2); both scaled alike, it is added to sqrt(v). */
    const bool corrected = p->epsilon_form == RF_EPSILON_CORRECTED;
    values[RF_HYPER_EPSILON] = (float)(corrected ? p->epsilon : p->epsilon * sqrt(correction_2));
    values[RF_HYPER_MOMENTUM] = (float)p->momentum;
    values[RF_HYPER_RHO] = (float)p->rho;
}
