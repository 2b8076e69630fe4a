/* SPDX-License-Identifier: Apache-2.0 */
/* Learning-rate schedules as Keras defines them. Pure functions in double precision. */
#include "train/optimizer/schedule.h"

#include <math.h>

#include "base/error.h"
#include "base/params.h"

static const double pi = 3.14159265358979323846;

static double count_passes(const rf_schedule *s, uint64_t step)
{
    const double p = (double)step / (double)s->decay_steps;
    return s->staircase ? floor(p) : p;
}

static double piecewise_rate(const rf_schedule *s, uint64_t step)
{
    for (uint32_t i = 0; i < s->num_boundaries; i++) {
        if (step <= s->boundaries[i]) return s->values[i];
    }
    return s->values[s->num_boundaries];
}

/* Half a cosine from 1 down to `alpha`; Loshchilov & Hutter, "SGDR: stochastic gradient descent with warm restarts",
 * 2017. */
static double cosine_fall(double alpha, double progress, double height)
{
    return (1.0 - alpha) * 0.5 * height * (1.0 + cos(pi * progress)) + alpha;
}

static double cosine_rate(const rf_schedule *s, uint64_t step)
{
    const uint64_t after = step - s->warmup_steps;
    const double progress = after >= s->decay_steps ? 1.0 : (double)after / (double)s->decay_steps;
    return s->initial * cosine_fall(s->alpha, progress, 1.0);
}

/* The step at which period number `n` begins: 1 + t + ... + t^(n - 1) lengths of the first one. A border at a whole
 * step is that step, whatever rounding has made of it, or the step would be the last of a period, with the lowest rate.
 */
static double period_begin(const rf_schedule *s, double t, double n)
{
    const double begin = (double)s->decay_steps * (t == 1.0 ? n : expm1(n * log(t)) / (t - 1.0));
    return fabs(begin - round(begin)) <= 1e-12 * begin ? round(begin) : begin;
}

static double cosine_restarts(const rf_schedule *s, uint64_t step)
{
    const double t = s->t_mul == 0.0 ? 2.0 : s->t_mul, m = rf_setting(s->m_mul, 1.0);
    const double at = (double)step, lengths = at / (double)s->decay_steps;
    double period = floor(t == 1.0 ? lengths : log1p(lengths * (t - 1.0)) / log(t));
    if (period > 0.0 && period_begin(s, t, period) > at) period -= 1.0;
    if (period_begin(s, t, period + 1.0) <= at) period += 1.0;
    const double begin = period_begin(s, t, period),
                 progress = (at - begin) / ((double)s->decay_steps * pow(t, period));
    return s->initial * cosine_fall(s->alpha, progress, pow(m, period));
}

static double inverse_sqrt(const rf_schedule *s, uint64_t step)
{
    return s->initial / sqrt((double)step); /* beyond the warm-up, so not 0 */
}

static double polynomial_rate(const rf_schedule *s, uint64_t step)
{
    /* With `cycle`, decay lasts until the end of the cycle that the step is in; there the rate is `end`. */
    const uint64_t cycles = s->cycle && step > s->decay_steps ? (step - 1) / s->decay_steps + 1 : 1;
    const double passed = (double)step / ((double)s->decay_steps * (double)cycles);
    const double progress = passed >= 1.0 ? 1.0 : passed;
    const double power = rf_setting(s->power, 1.0);
    return (s->initial - s->end) * pow(1.0 - progress, power) + s->end;
}

/* The rate that the warm-up leads to. */
static double peak_rate(const rf_schedule *s)
{
    if (s->kind == RF_SCHEDULE_PIECEWISE_CONSTANT) return s->values[0];
    return s->kind == RF_SCHEDULE_INVERSE_SQRT ? inverse_sqrt(s, s->warmup_steps) : s->initial;
}

double rf_schedule_value(const rf_schedule *schedule, uint64_t step)
{
    if (!schedule || rf_schedule_check(schedule) < 0) return NAN;
    if (step < schedule->warmup_steps) {
        const double begin = schedule->warmup_initial, rise = peak_rate(schedule) - begin;
        return begin + rise * (double)step / (double)schedule->warmup_steps;
    }
    switch (schedule->kind) {
    case RF_SCHEDULE_CONSTANT: return schedule->initial;
    case RF_SCHEDULE_EXPONENTIAL_DECAY:
        return schedule->initial * pow(schedule->decay_rate, count_passes(schedule, step));
    case RF_SCHEDULE_PIECEWISE_CONSTANT: return piecewise_rate(schedule, step);
    case RF_SCHEDULE_COSINE_DECAY: return cosine_rate(schedule, step);
    case RF_SCHEDULE_POLYNOMIAL_DECAY: return polynomial_rate(schedule, step);
    case RF_SCHEDULE_INVERSE_TIME_DECAY:
        return schedule->initial / (1.0 + schedule->decay_rate * count_passes(schedule, step));
    case RF_SCHEDULE_INVERSE_SQRT: return inverse_sqrt(schedule, step);
    case RF_SCHEDULE_COSINE_RESTARTS: return cosine_restarts(schedule, step);
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

enum { RATE = 1, ALPHA = 2, END = 4, POWER = 8, STAIRCASE = 16, DECAY_STEPS = 32, BOUNDARIES = 64, MULTIPLIERS = 128 };

/* Which fields a kind uses besides `initial` and `warmup_steps`. */
static const struct {
    const char *name;
    unsigned fields;
} kinds[] = {
    [RF_SCHEDULE_CONSTANT] = { "constant", 0 },
    [RF_SCHEDULE_EXPONENTIAL_DECAY] = { "exponential decay", RATE | STAIRCASE | DECAY_STEPS },
    [RF_SCHEDULE_PIECEWISE_CONSTANT] = { "piecewise constant", BOUNDARIES },
    [RF_SCHEDULE_COSINE_DECAY] = { "cosine decay", ALPHA | DECAY_STEPS },
    [RF_SCHEDULE_POLYNOMIAL_DECAY] = { "polynomial decay", END | POWER | DECAY_STEPS },
    [RF_SCHEDULE_INVERSE_TIME_DECAY] = { "inverse time decay", RATE | STAIRCASE | DECAY_STEPS },
    [RF_SCHEDULE_INVERSE_SQRT] = { "inverse square root", 0 },
    [RF_SCHEDULE_COSINE_RESTARTS] = { "cosine restarts", ALPHA | DECAY_STEPS | MULTIPLIERS },
};
enum { NUM_KINDS = sizeof(kinds) / sizeof(kinds[0]) };

static rf_result check_number(const rf_schedule *s, const char *name, double value, unsigned field)
{
    RF_REQUIRE(isfinite(value) && value >= 0.0, "schedule: %s %g must be finite and not negative", name, value);
    RF_REQUIRE(value == 0.0 || kinds[s->kind].fields & field, "schedule: %s has no meaning for %s", name,
               kinds[s->kind].name);
    return RF_OK;
}

rf_result rf_schedule_check(const rf_schedule *s)
{
    RF_TRY(RF_PARAMS_CHECK(rf_schedule, s));
    RF_REQUIRE((int)s->kind >= 0 && (int)s->kind < NUM_KINDS, "schedule: kind %d does not exist", (int)s->kind);
    const unsigned fields = kinds[s->kind].fields;
    const char *const kind = kinds[s->kind].name;
    RF_REQUIRE(isfinite(s->initial) && s->initial >= 0.0, "schedule: initial %g is not a rate", s->initial);
    RF_TRY(check_number(s, "decay_rate", s->decay_rate, RATE));
    RF_TRY(check_number(s, "alpha", s->alpha, ALPHA));
    RF_TRY(check_number(s, "end", s->end, END));
    RF_TRY(check_number(s, "power", s->power, POWER));
    RF_TRY(check_number(s, "t_mul", s->t_mul, MULTIPLIERS));
    RF_TRY(check_number(s, "m_mul", s->m_mul, MULTIPLIERS));
    RF_REQUIRE(s->t_mul == 0.0 || s->t_mul >= 1.0, "schedule: t_mul %g is below 1: periods cannot become shorter",
               s->t_mul);
    RF_REQUIRE(isfinite(s->warmup_initial) && s->warmup_initial >= 0.0, "schedule: warmup_initial %g is not a rate",
               s->warmup_initial);
    RF_REQUIRE(s->warmup_initial == 0.0 || s->warmup_steps > 0, "schedule: warmup_initial needs warmup_steps");
    RF_REQUIRE(!s->cycle || s->kind == RF_SCHEDULE_POLYNOMIAL_DECAY, "schedule: cycle has no meaning for %s", kind);
    RF_REQUIRE(!s->staircase || fields & STAIRCASE, "schedule: staircase has no meaning for %s", kind);
    RF_REQUIRE(s->num_boundaries == 0 || fields & BOUNDARIES, "schedule: num_boundaries has no meaning for %s", kind);
    if (fields & DECAY_STEPS)
        RF_REQUIRE(s->decay_steps > 0, "schedule: decay_steps must be positive");
    else
        RF_REQUIRE(s->decay_steps == 0, "schedule: decay_steps has no meaning for %s", kind);
    RF_REQUIRE(s->kind != RF_SCHEDULE_INVERSE_SQRT || s->warmup_steps > 0,
               "schedule: inverse square root needs warmup_steps: it has no value at step 0");
    return s->kind == RF_SCHEDULE_PIECEWISE_CONSTANT ? check_piecewise(s) : RF_OK;
}
