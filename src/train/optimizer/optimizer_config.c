/* SPDX-License-Identifier: Apache-2.0 */
/* Optimizer parameters and the numbers of one update: pure functions. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/loss_scale.h"
#include "base/params.h"
#include "train/optimizer/optimizer.h"
#include "train/optimizer/schedule.h"

/* ---- names ---- */

const char *const rf_optimizer_kind_names[RF_OPTIMIZER_KINDS] = {
    [RF_OPTIMIZER_SGD] = "sgd",         [RF_OPTIMIZER_ADAM] = "adam",       [RF_OPTIMIZER_ADAMW] = "adamw",
    [RF_OPTIMIZER_RMSPROP] = "rmsprop", [RF_OPTIMIZER_ADAGRAD] = "adagrad", [RF_OPTIMIZER_NADAM] = "nadam",
    [RF_OPTIMIZER_LION] = "lion",       [RF_OPTIMIZER_LAMB] = "lamb",       [RF_OPTIMIZER_CUSTOM] = "custom",
    [RF_OPTIMIZER_MUON] = "muon",
};

static const char *const slot_names[RF_OPTIMIZER_KINDS][2] = {
    [RF_OPTIMIZER_SGD] = { "momentum", NULL },
    [RF_OPTIMIZER_ADAM] = { "m", "v" },
    [RF_OPTIMIZER_ADAMW] = { "m", "v" },
    [RF_OPTIMIZER_RMSPROP] = { "mean_square", "momentum" },
    [RF_OPTIMIZER_ADAGRAD] = { "sum_squares", NULL }, /* without its initial value */
    [RF_OPTIMIZER_NADAM] = { "m", "v" },
    [RF_OPTIMIZER_LION] = { "m", NULL },
    [RF_OPTIMIZER_LAMB] = { "m", "v" },
    [RF_OPTIMIZER_MUON] = { "m", "v" },
};

const char *rf_optimizer_config_name(const rf_optimizer_config *config)
{
    const rf_optimizer_params *p = &config->params;
    return p->kind == RF_OPTIMIZER_CUSTOM ? p->custom->name : rf_optimizer_kind_names[p->kind];
}

uint32_t rf_optimizer_config_slots(const rf_optimizer_config *config)
{
    const rf_optimizer_params *p = &config->params;
    if (p->kind == RF_OPTIMIZER_CUSTOM) return p->custom->num_slots;
    if (p->kind == RF_OPTIMIZER_SGD) return p->momentum > 0.0 ? 1 : 0;
    return slot_names[p->kind][1] ? 2 : 1;
}

const char *rf_optimizer_config_slot(const rf_optimizer_config *config, uint32_t slot)
{
    const rf_optimizer_params *p = &config->params;
    if (slot == rf_optimizer_config_slots(config)) return "average";
    return p->kind == RF_OPTIMIZER_CUSTOM ? p->custom->slots[slot].name : slot_names[p->kind][slot];
}

bool rf_optimizer_has_betas(rf_optimizer_kind kind)
{
    return kind == RF_OPTIMIZER_ADAM || kind == RF_OPTIMIZER_ADAMW || kind == RF_OPTIMIZER_NADAM ||
           kind == RF_OPTIMIZER_LION || kind == RF_OPTIMIZER_LAMB || kind == RF_OPTIMIZER_MUON;
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
    const bool muon = p->kind == RF_OPTIMIZER_MUON;
    const bool adam = p->kind == RF_OPTIMIZER_ADAM || p->kind == RF_OPTIMIZER_ADAMW || muon;
    const bool betas = rf_optimizer_has_betas(p->kind), lion = p->kind == RF_OPTIMIZER_LION;
    const bool custom = p->kind == RF_OPTIMIZER_CUSTOM;
    const bool sgd = p->kind == RF_OPTIMIZER_SGD, rmsprop = p->kind == RF_OPTIMIZER_RMSPROP;
    RF_REQUIRE(p->momentum == 0.0 || sgd || rmsprop || muon,
               "rf_optimizer_create: momentum is for SGD, RMSprop and Muon; use beta_1");
    RF_REQUIRE(!p->nesterov || (sgd && rf_setting(p->momentum, 0.0) > 0.0),
               "rf_optimizer_create: nesterov needs SGD with a momentum");
    RF_REQUIRE(p->beta_1 == 0.0 || betas, "rf_optimizer_create: beta_1 is for Adam, AdamW, Nadam, Lion, LAMB and Muon");
    RF_REQUIRE(p->beta_2 == 0.0 || betas, "rf_optimizer_create: beta_2 is for Adam, AdamW, Nadam, Lion, LAMB and Muon");
    RF_REQUIRE(p->epsilon == 0.0 || !(sgd || lion || custom),
               "rf_optimizer_create: epsilon has no meaning for SGD, Lion and custom optimizers");
    RF_REQUIRE(p->initial_accumulator_value == 0.0 || p->kind == RF_OPTIMIZER_ADAGRAD,
               "rf_optimizer_create: initial_accumulator_value is for Adagrad");
    RF_REQUIRE(p->rho == 0.0 || rmsprop, "rf_optimizer_create: rho is for RMSprop");
    RF_REQUIRE(p->epsilon_form == RF_EPSILON_CORRECTED || adam,
               "rf_optimizer_create: epsilon_form is for Adam, AdamW and Muon");
    RF_REQUIRE(custom == (p->custom != NULL), "rf_optimizer_create: kind RF_OPTIMIZER_CUSTOM and `custom` need each "
                                              "other; set both or neither");
    RF_REQUIRE(p->use_ema || (p->ema_momentum == 0.0 && p->ema_overwrite_frequency == 0),
               "rf_optimizer_create: ema_momentum and ema_overwrite_frequency need use_ema");
    return RF_OK;
}

static rf_result check_state_type(const rf_optimizer_params *p)
{
    const bool adam = p->kind == RF_OPTIMIZER_ADAM || p->kind == RF_OPTIMIZER_ADAMW;
    const bool momentum = p->kind == RF_OPTIMIZER_SGD && rf_setting(p->momentum, 0.0) > 0.0;
    RF_REQUIRE((uint32_t)p->state_type <= RF_OPTIMIZER_STATE_8BIT, "rf_optimizer_create: state_type %d does not exist",
               (int)p->state_type);
    RF_REQUIRE(
        p->state_type == RF_OPTIMIZER_STATE_F32 || adam || momentum || p->kind == RF_OPTIMIZER_LION,
        "rf_optimizer_create: state_type is for Adam, AdamW, Lion and SGD with a momentum, not for '%s'; take one "
        "of these, or leave it out",
        p->kind == RF_OPTIMIZER_CUSTOM ? p->custom->name : rf_optimizer_kind_names[p->kind]);
    return RF_OK;
}

static rf_result check_loss_scale(const rf_loss_scale_params *p)
{
    if (!p) return RF_OK;
    RF_REQUIRE(p->initial == 0.0 || (p->initial >= RF_SCALE_LEAST && p->initial <= RF_SCALE_MOST),
               "rf_optimizer_create: loss_scale: initial %g is not in [2^-100, 2^100]", p->initial);
    RF_REQUIRE(p->growth_steps <= RF_SCALE_MAX_GROWTH_STEPS,
               "rf_optimizer_create: loss_scale: %u growth_steps, at most %u", p->growth_steps,
               RF_SCALE_MAX_GROWTH_STEPS);
    RF_REQUIRE(!(p->fixed && p->growth_steps > 0),
               "rf_optimizer_create: loss_scale: a fixed scale does not grow; leave out growth_steps or fixed");
    return RF_OK;
}

static rf_result check_custom(const rf_custom_optimizer *p)
{
    RF_TRY(rf_custom_optimizer_check(p));
    for (uint32_t k = 0; k < RF_OPTIMIZER_KINDS; k++)
        RF_REQUIRE(strcmp(p->name, rf_optimizer_kind_names[k]) != 0,
                   "rf_optimizer_create: '%s' is the name of one of the library's optimizers; choose another", p->name);
    return RF_OK;
}

static rf_result check_params(const rf_optimizer_params *p)
{
    RF_REQUIRE((int)p->kind >= RF_OPTIMIZER_SGD && (int)p->kind < RF_OPTIMIZER_KINDS,
               "rf_optimizer_create: kind %d does not exist", (int)p->kind);
    RF_TRY(check_number(p->learning_rate, INFINITY, "learning_rate"));
    RF_TRY(check_number(p->momentum, 1.0, "momentum"));
    RF_TRY(check_number(p->beta_1, 1.0, "beta_1"));
    RF_TRY(check_number(p->beta_2, 1.0, "beta_2"));
    RF_TRY(check_number(p->epsilon, INFINITY, "epsilon"));
    RF_TRY(check_number(p->rho, 1.0, "rho"));
    RF_TRY(check_number(p->initial_accumulator_value, INFINITY, "initial_accumulator_value"));
    RF_REQUIRE((uint32_t)p->epsilon_form <= RF_EPSILON_UNCORRECTED,
               "rf_optimizer_create: epsilon_form %d does not exist", (int)p->epsilon_form);
    RF_TRY(check_number(p->weight_decay, INFINITY, "weight_decay"));
    RF_TRY(check_number(p->ema_momentum, 1.0, "ema_momentum"));
    RF_TRY(check_number(p->clip_value, INFINITY, "clip_value"));
    RF_TRY(check_number(p->clip_norm, INFINITY, "clip_norm"));
    RF_TRY(check_number(p->global_clip_norm, INFINITY, "global_clip_norm"));
    const char *const clips = "no gradient would be left; 0 turns clipping off";
    RF_REFUSE_ZERO(p->clip_value, "rf_optimizer_create: clip_value", clips);
    RF_REFUSE_ZERO(p->clip_norm, "rf_optimizer_create: clip_norm", clips);
    RF_REFUSE_ZERO(p->global_clip_norm, "rf_optimizer_create: global_clip_norm", clips);
    RF_REQUIRE((p->clip_value > 0.0) + (p->clip_norm > 0.0) + (p->global_clip_norm > 0.0) <= 1,
               "rf_optimizer_create: at most one of clip_value, clip_norm and global_clip_norm may be set");
    RF_REQUIRE(!(p->schedule && p->learning_rate != 0.0),
               "rf_optimizer_create: learning_rate and schedule are both set; leave one out");
    RF_TRY(rf_parameter_groups_check(p));
    RF_TRY(check_loss_scale(p->loss_scale));
    if (p->custom) RF_TRY(check_custom(p->custom));
    RF_TRY(check_unused(p));
    return check_state_type(p);
}

/* RF_ZERO stays: params are configured anew from files and by parameter servers. */
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
    p.beta_2 = or_default(p.beta_2, p.kind == RF_OPTIMIZER_LION ? 0.99 : 0.999);
    p.epsilon = or_default(p.epsilon, 1e-7);
    p.rho = or_default(p.rho, 0.9);
    if (p.kind == RF_OPTIMIZER_ADAGRAD) p.initial_accumulator_value = or_default(p.initial_accumulator_value, 0.1);
    const bool muon = p.kind == RF_OPTIMIZER_MUON;
    if (p.kind == RF_OPTIMIZER_ADAMW || muon) p.weight_decay = or_default(p.weight_decay, 0.004);
    p.momentum = muon ? or_default(p.momentum, 0.95) : rf_setting(p.momentum, 0.0);
    if (p.accumulation_steps == 0) p.accumulation_steps = 1;
    if (p.use_ema) p.ema_momentum = or_default(p.ema_momentum, 0.99);
    out->schedule = p.schedule
                        ? *p.schedule
                        : (rf_schedule){ .kind = RF_SCHEDULE_CONSTANT, .initial = rf_setting(p.learning_rate, 0.0) };
    p.schedule = NULL;
    out->loss_scale = p.loss_scale ? *p.loss_scale : (rf_loss_scale_params){ 0 };
    if (p.loss_scale) out->loss_scale.initial = or_default(p.loss_scale->initial, 32768.0);
    if (p.loss_scale && !p.loss_scale->fixed && p.loss_scale->growth_steps == 0) out->loss_scale.growth_steps = 2000;
    out->params = p;
    return RF_OK;
}

/* ---- the numbers of an update ---- */

double rf_optimizer_rate(const rf_optimizer_config *config, uint64_t iteration)
{
    return rf_schedule_value(&config->schedule, iteration);
}

double rf_optimizer_group_rate(const rf_optimizer_config *config, uint64_t iteration, uint32_t group)
{
    const double factor = group ? config->params.groups[group - 1].rate_factor : 1.0;
    return rf_optimizer_rate(config, iteration) * rf_setting(factor, 1.0);
}

/* Dozat's schedule of the momentum, in step t from 1. */
static double nadam_momentum(double beta_1, double t)
{
    return beta_1 * (1.0 - 0.5 * pow(0.96, t));
}

/* The momenta of steps 1 .. t rise to beta_1: from step 2000 on they are it to the last bit. */
static double nadam_product(double beta_1, double t)
{
    double product = 1.0;
    for (double i = 1.0; i <= t && i <= 2000.0; i++) product *= nadam_momentum(beta_1, i);
    return t > 2000.0 ? product * pow(beta_1, t - 2000.0) : product;
}

void rf_optimizer_hyper(const rf_optimizer_config *config, uint64_t iteration, double norm, uint32_t group,
                        float *values)
{
    const rf_optimizer_params *p = &config->params;
    const rf_parameter_group none = { 0 }, *own = group ? &p->groups[group - 1] : &none;
    const double rate = rf_optimizer_group_rate(config, iteration, group);
    const double t = (double)iteration + 1.0;
    /* Corrections of the decays that the kernel really uses: 1 - (float)0.999 is off by 1e-5 from 1 - 0.999. */
    const double beta_1 = (float)rf_setting(p->beta_1, 0.0), beta_2 = (float)rf_setting(p->beta_2, 0.0);
    const double weight_decay = rf_setting(p->weight_decay, 0.0);
    const double limit = p->clip_norm > 0.0 ? p->clip_norm : p->global_clip_norm;
    /* A NaN or infinite norm must reach the weights instead of being clipped away unseen: NaN > limit is false. */
    const double clip = limit > 0.0 && norm > limit ? limit / norm : 1.0;
    for (uint32_t i = 0; i < RF_HYPER_COUNT; i++) values[i] = 0.0f;
    values[RF_HYPER_RATE] = (float)rate;
    values[RF_HYPER_GRAD_SCALE] = (float)(clip / (double)p->accumulation_steps);
    values[RF_HYPER_CLIP_VALUE] = (float)p->clip_value;
    const double decay = p->kind == RF_OPTIMIZER_LAMB ? weight_decay : rate * weight_decay;
    values[RF_HYPER_WEIGHT_DECAY] = own->no_weight_decay ? 0.0f : (float)decay;
    values[RF_HYPER_BETA_1] = (float)beta_1;
    values[RF_HYPER_BETA_2] = (float)beta_2;
    const double correction_2 = 1.0 / (1.0 - pow(beta_2, t));
    values[RF_HYPER_CORRECTION_1] = (float)(1.0 / (1.0 - pow(beta_1, t)));
    values[RF_HYPER_CORRECTION_2] = (float)correction_2;
    /* The kernel adds it to sqrt(v correction_2); both scaled alike, it is added to sqrt(v). */
    const bool corrected = p->epsilon_form == RF_EPSILON_CORRECTED;
    values[RF_HYPER_EPSILON] = (float)(corrected ? p->epsilon : p->epsilon * sqrt(correction_2));
    if (p->kind == RF_OPTIMIZER_NADAM) {
        const double now = nadam_momentum(beta_1, t), next = nadam_momentum(beta_1, t + 1.0);
        const double product = nadam_product(beta_1, t);
        values[RF_HYPER_CORRECTION_1] = (float)(next / (1.0 - product * next));
        values[RF_HYPER_GRADIENT] = (float)((1.0 - now) / (1.0 - product));
    }
    /* Slots begin as zeros: what the sum of squares begins with is added below the root, too. */
    if (p->kind == RF_OPTIMIZER_ADAGRAD)
        values[RF_HYPER_EPSILON] = (float)(p->epsilon + rf_setting(p->initial_accumulator_value, 0.0));
    values[RF_HYPER_RATIO] = 1.0f; /* until norms are taken */
    values[RF_HYPER_AVERAGE] = iteration == 0 ? 0.0f : (float)rf_setting(p->ema_momentum, 0.0);
    const uint32_t every = p->ema_overwrite_frequency;
    values[RF_HYPER_OVERWRITE] = every > 0 && (iteration + 1) % every == 0 ? 1.0f : 0.0f;
    values[RF_HYPER_MOMENTUM] = (float)rf_setting(p->momentum, 0.0);
    values[RF_HYPER_RHO] = (float)rf_setting(p->rho, 0.0);
    values[RF_HYPER_STEP] = (float)((iteration + 1) % (1 << 24));
}
