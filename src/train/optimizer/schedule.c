/* SPDX-License-Identifier: Apache-2.0 */
/* Learning-rate schedules as Keras defines them. Pure functions in double precision. */
#include "train/optimizer/schedule.h"

#include <math.h>

#include "base/error.h"
#include "base/params.h"

static const double pi = 3.14159265358979323846;

static double passes(const rf_schedule *s, uint64_t step)
{
    const double p = (double)step / (double)s->decay_steps;
    return s->staircase ? floor(p) : p;
}

static double piecewise(const rf_schedule *s, uint64_t step)
{
    for (uint32_t i = 0; i < s->num_boundaries; i++) {
        if (step <= s->boundaries[i]) return s->values[i];
    }
    return s->values[s->num_boundaries];
}

/* Loshchilov & Hutter, "SGDR: stochastic gradient descent with warm restarts", 2017, without the restarts; linear
 * warm-up from 0 before it. */
static double cosine(const rf_schedule *s, uint64_t step)
{
    if (step < s->warmup_steps) return s->initial * (double)step / (double)s->warmup_steps;
    const uint64_t after = step - s->warmup_steps;
    const double progress = after >= s->decay_steps ? 1.0 : (double)after / (double)s->decay_steps;
    return s->initial * ((1.0 - s->alpha) * 0.5 * (1.0 + cos(pi * progress)) + s->alpha);
}

static double polynomial(const rf_schedule *s, uint64_t step)
{
    const double progress = step >= s->decay_steps ? 1.0 : (double)step / (double)s->decay_steps;
    const double power = s->power == 0.0 ? 1.0 : s->power;
    return (s->initial - s->end) * pow(1.0 - progress, power) + s->end;
}

double rf_schedule_value(const rf_schedule *schedule, uint64_t step)
{
    if (!schedule || rf_schedule_check(schedule) < 0) return NAN;
    switch (schedule->kind) {
    case RF_SCHEDULE_CONSTANT: return schedule->initial;
    case RF_SCHEDULE_EXPONENTIAL_DECAY: return schedule->initial * pow(schedule->rate, passes(schedule, step));
    case RF_SCHEDULE_PIECEWISE_CONSTANT: return piecewise(schedule, step);
    case RF_SCHEDULE_COSINE_DECAY: return cosine(schedule, step);
    case RF_SCHEDULE_POLYNOMIAL_DECAY: return polynomial(schedule, step);
    case RF_SCHEDULE_INVERSE_TIME_DECAY: return schedule->initial / (1.0 + schedule->rate * passes(schedule, step));
    }
    return NAN;
}

static rf_result check_piecewise(const rf_schedule *s)
{
    RF_REQUIRE(s->num_boundaries <= 15, "schedule: num_boundaries %u is over 15", s->num_boundaries);
    for (uint32_t i = 0; i <= s->num_boundaries; i++) {
        RF_REQUIRE(isfinite(s->values[i]) && s->values[i] >= 0.0, "schedule: values[%u] %g is not a rate", i,
                   s->values[i]);
    }
    for (uint32_t i = 1; i < s->num_boundaries; i++) {
        RF_REQUIRE(s->boundaries[i] > s->boundaries[i - 1],
                   "schedule: boundaries[%u] is not larger than the one before", i);
    }
    RF_REQUIRE(s->initial == 0.0, "schedule: initial has no meaning for piecewise constant; set values[0]");
    return RF_OK;
}

rf_result rf_schedule_check(const rf_schedule *s)
{
    RF_TRY(RF_PARAMS_CHECK(rf_schedule, s));
    const rf_schedule_kind k = s->kind;
    const bool exponential = k == RF_SCHEDULE_EXPONENTIAL_DECAY, inverse = k == RF_SCHEDULE_INVERSE_TIME_DECAY;
    const bool cosine_kind = k == RF_SCHEDULE_COSINE_DECAY, polynomial_kind = k == RF_SCHEDULE_POLYNOMIAL_DECAY;
    const bool piecewise_kind = k == RF_SCHEDULE_PIECEWISE_CONSTANT;
    RF_REQUIRE(piecewise_kind || cosine_kind || polynomial_kind || exponential || inverse || k == RF_SCHEDULE_CONSTANT,
               "schedule: kind %d does not exist", (int)k);
    RF_REQUIRE(isfinite(s->initial) && s->initial >= 0.0, "schedule: initial %g is not a rate", s->initial);
    RF_REQUIRE(isfinite(s->rate) && isfinite(s->alpha) && isfinite(s->end) && isfinite(s->power),
               "schedule: rate, alpha, end and power must be finite");
    RF_REQUIRE(s->rate == 0.0 || exponential || inverse, "schedule: rate has no meaning for this kind");
    RF_REQUIRE(s->rate >= 0.0, "schedule: rate %g is negative", s->rate);
    RF_REQUIRE(s->alpha == 0.0 || cosine_kind, "schedule: alpha is for cosine decay only");
    RF_REQUIRE(s->alpha >= 0.0, "schedule: alpha %g is negative", s->alpha);
    RF_REQUIRE(s->end == 0.0 || polynomial_kind, "schedule: end is for polynomial decay only");
    RF_REQUIRE(s->end >= 0.0, "schedule: end %g is negative", s->end);
    RF_REQUIRE(s->power == 0.0 || polynomial_kind, "schedule: power is for polynomial decay only");
    RF_REQUIRE(s->power >= 0.0, "schedule: power %g is negative", s->power);
    RF_REQUIRE(s->warmup_steps == 0 || cosine_kind, "schedule: warmup_steps is for cosine decay only");
    RF_REQUIRE(!s->staircase || exponential || inverse,
               "schedule: staircase is for exponential and inverse time decay only");
    RF_REQUIRE(s->num_boundaries == 0 || piecewise_kind, "schedule: num_boundaries is for piecewise constant only");
    if (exponential || inverse || cosine_kind || polynomial_kind) {
        RF_REQUIRE(s->decay_steps > 0, "schedule: decay_steps must be positive");
    } else {
        RF_REQUIRE(s->decay_steps == 0, "schedule: decay_steps has no meaning for this kind");
    }
    return piecewise_kind ? check_piecewise(s) : RF_OK;
}
