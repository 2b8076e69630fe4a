/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of training that need no device: schedules, the numbers of an update, logs, the summary, the CSV log. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <ringfire/train.h>

#include "../support/folder.h"
#include "../support/holder.h"
#include "base/error.h"
#include "base/memory.h"
#include "tests/room.h"
#include "train/callbacks/callback.h"
#include "train/metrics/logs.h"
#include "train/model/model.h"
#include "train/optimizer/config_json.h"
#include "train/optimizer/optimizer.h"
#include "train/optimizer/schedule.h"

static void assert_close(double is, double expected)
{
    if (!(fabs(is - expected) <= 1e-12 * fabs(expected) + 1e-15)) fail_msg("%.17g is not %.17g", is, expected);
}

static void assert_message(const char *part)
{
    if (!strstr(rf_error_message(), part)) fail_msg("'%s' is not in '%s'", part, rf_error_message());
    assert_null(strchr(rf_error_message(), '\n'));
}

/* ---- schedules ---- */

TEST(exponential)
{
    rf_schedule s = { .kind = RF_SCHEDULE_EXPONENTIAL_DECAY, .initial = 0.1, .decay_rate = 0.5, .decay_steps = 4 };
    assert_close(rf_schedule_value(&s, 0), 0.1);
    assert_close(rf_schedule_value(&s, 4), 0.05);
    assert_close(rf_schedule_value(&s, 2), 0.070710678118654752);
    s.staircase = true;
    assert_close(rf_schedule_value(&s, 3), 0.1);
    assert_close(rf_schedule_value(&s, 11), 0.025);
}

TEST(piecewise)
{
    const rf_schedule s = { .kind = RF_SCHEDULE_PIECEWISE_CONSTANT,
                            .num_boundaries = 2,
                            .boundaries = { 3, 7 },
                            .values = { 1e-3, 1e-4, 1e-5 } };
    assert_close(rf_schedule_value(&s, 0), 1e-3);
    assert_close(rf_schedule_value(&s, 3), 1e-3);
    assert_close(rf_schedule_value(&s, 4), 1e-4);
    assert_close(rf_schedule_value(&s, 7), 1e-4);
    assert_close(rf_schedule_value(&s, 8), 1e-5);
}

TEST(cosine)
{
    rf_schedule s = {
        .kind = RF_SCHEDULE_COSINE_DECAY, .initial = 2.0, .alpha = 0.1, .decay_steps = 8, .warmup_steps = 4
    };
    assert_close(rf_schedule_value(&s, 0), 0.0);
    assert_close(rf_schedule_value(&s, 3), 1.5);
    assert_close(rf_schedule_value(&s, 4), 2.0);
    assert_close(rf_schedule_value(&s, 8), 1.1); /* half way: 2 * (0.9 * 0.5 + 0.1) */
    assert_close(rf_schedule_value(&s, 12), 0.2);
    assert_close(rf_schedule_value(&s, 1000000), 0.2);
    assert_close(rf_schedule_value(&s, 6), 1.7363961030678928); /* 2 * (0.45 * (1 + sqrt(1/2)) + 0.1) */
}

TEST(polynomial)
{
    rf_schedule s = { .kind = RF_SCHEDULE_POLYNOMIAL_DECAY, .initial = 1.0, .end = 0.2, .decay_steps = 10 };
    assert_close(rf_schedule_value(&s, 5), 0.6);
    assert_close(rf_schedule_value(&s, 10), 0.2);
    assert_close(rf_schedule_value(&s, 11), 0.2);
    s.power = 2.0;
    assert_close(rf_schedule_value(&s, 5), 0.4);
}

TEST(inverse_time)
{
    rf_schedule s = { .kind = RF_SCHEDULE_INVERSE_TIME_DECAY, .initial = 1.0, .decay_rate = 0.5, .decay_steps = 2 };
    assert_close(rf_schedule_value(&s, 4), 0.5);
    assert_close(rf_schedule_value(&s, 5), 1.0 / 2.25);
    s.staircase = true;
    assert_close(rf_schedule_value(&s, 5), 0.5);
}

/* Every kind rises in a straight line, then has its own value at the step. */
TEST(warm_ups)
{
    rf_schedule s = { .kind = RF_SCHEDULE_POLYNOMIAL_DECAY, .initial = 1.0, .decay_steps = 10, .warmup_steps = 4 };
    assert_close(rf_schedule_value(&s, 0), 0.0);
    assert_close(rf_schedule_value(&s, 3), 0.75);
    assert_close(rf_schedule_value(&s, 4), 0.6); /* not shifted: BERT's */
    assert_close(rf_schedule_value(&s, 10), 0.0);
    s = (rf_schedule){ .kind = RF_SCHEDULE_CONSTANT, .initial = 0.5, .warmup_steps = 2 };
    assert_close(rf_schedule_value(&s, 1), 0.25);
    assert_close(rf_schedule_value(&s, 2), 0.5);
    s = (rf_schedule){ .kind = RF_SCHEDULE_PIECEWISE_CONSTANT,
                       .num_boundaries = 1,
                       .boundaries = { 5 },
                       .values = { 0.8, 0.1 },
                       .warmup_steps = 4 };
    assert_close(rf_schedule_value(&s, 2), 0.4);
    assert_close(rf_schedule_value(&s, 4), 0.8);
    assert_close(rf_schedule_value(&s, 6), 0.1);
    s.warmup_initial = 0.2;
    assert_close(rf_schedule_value(&s, 0), 0.2);
    assert_close(rf_schedule_value(&s, 1), 0.35);
    assert_close(rf_schedule_value(&s, 4), 0.8);
    /* Keras' CosineDecay(0.5, 10, warmup_target=0.1, warmup_steps=4): down to the target. */
    s = (rf_schedule){
        .kind = RF_SCHEDULE_COSINE_DECAY, .initial = 0.1, .decay_steps = 10, .warmup_steps = 4, .warmup_initial = 0.5
    };
    assert_close(rf_schedule_value(&s, 1), 0.4);
    assert_close(rf_schedule_value(&s, 9), 0.05);
}

static const rf_schedule cycling = {
    .kind = RF_SCHEDULE_POLYNOMIAL_DECAY, .initial = 1.0, .end = 0.2, .decay_steps = 4, .cycle = true
};

/* As Keras' PolynomialDecay with cycle=True. */
TEST(polynomial_cycles)
{
    static const double expected[] = { 1, 0.8, 0.6, 0.4, 0.2, 0.5, 0.4, 0.3, 0.2, 0.4 }; /* 4, 8, 12 steps to the end */
    for (uint64_t step = 0; step < sizeof(expected) / sizeof(expected[0]); step++)
        assert_close(rf_schedule_value(&cycling, step), expected[step]);
}

TEST(inverse_square_root)
{
    /* Width 128, 4,000 steps: the schedule of the Transformer's tutorial. */
    const rf_schedule s = { .kind = RF_SCHEDULE_INVERSE_SQRT, .initial = 1 / sqrt(128.0), .warmup_steps = 4000 };
    assert_close(rf_schedule_value(&s, 0), 0.0);
    assert_close(rf_schedule_value(&s, 1), pow(128, -0.5) * pow(4000, -1.5));
    assert_close(rf_schedule_value(&s, 4000), pow(128, -0.5) * pow(4000, -0.5));
    assert_close(rf_schedule_value(&s, 16000), pow(128, -0.5) * pow(16000, -0.5));
}

TEST(cosine_restarts)
{
    /* Periods of 4, 8, 16, ... steps, each half as high. */
    rf_schedule s = {
        .kind = RF_SCHEDULE_COSINE_RESTARTS, .initial = 2.0, .alpha = 0.1, .decay_steps = 4, .m_mul = 0.5
    };
    assert_close(rf_schedule_value(&s, 0), 2.0);
    assert_close(rf_schedule_value(&s, 2), 1.1);
    assert_close(rf_schedule_value(&s, 4), 1.1); /* 2 * (0.9 * 0.5 + 0.1) */
    assert_close(rf_schedule_value(&s, 8), 0.65);
    assert_close(rf_schedule_value(&s, 12), 0.65); /* 2 * (0.9 * 0.25 + 0.1) */
    assert_close(rf_schedule_value(&s, 4 * ((1 << 20) - 1)), 2 * (0.9 * ldexp(1, -20) + 0.1));
    s.t_mul = s.m_mul = 1.0;
    for (uint64_t step = 0; step < 1000; step++)
        assert_close(rf_schedule_value(&s, step), rf_schedule_value(&s, step % 4));
    s.t_mul = 1.5; /* periods of 4, 6, 9, 13.5 steps */
    assert_close(rf_schedule_value(&s, 10), 2.0);
    assert_close(rf_schedule_value(&s, 19), 2.0);
    assert_true(rf_schedule_value(&s, 18) < 0.3);
}

TEST(bad_schedules)
{
    static const struct {
        rf_schedule schedule;
        const char *message;
    } cases[] = {
        { { .kind = (rf_schedule_kind)99 }, "kind 99" },
        { { .kind = RF_SCHEDULE_COSINE_DECAY, .initial = 0.1, .alpha = -1.0, .decay_steps = 4 }, "alpha" },
        { { .kind = RF_SCHEDULE_EXPONENTIAL_DECAY, .initial = 1, .decay_rate = 0.5 }, "decay_steps" },
        { { .kind = RF_SCHEDULE_CONSTANT, .initial = -1 }, "initial" },
        { { .kind = RF_SCHEDULE_INVERSE_SQRT, .initial = 1 }, "warmup_steps" },
        { { .kind = RF_SCHEDULE_COSINE_RESTARTS, .initial = 1, .decay_steps = 2, .t_mul = 0.5 }, "t_mul" },
        { { .kind = RF_SCHEDULE_COSINE_DECAY, .initial = 1, .decay_steps = 2, .m_mul = 0.5 }, "m_mul" },
        { { .kind = RF_SCHEDULE_COSINE_RESTARTS, .initial = 1 }, "decay_steps" },
        { { .kind = RF_SCHEDULE_CONSTANT, .initial = 1, .staircase = true }, "staircase" },
        { { .kind = RF_SCHEDULE_CONSTANT, .initial = 1, .cycle = true }, "cycle" },
        { { .kind = RF_SCHEDULE_CONSTANT, .initial = 1, .warmup_initial = 1 }, "warmup_initial needs warmup_steps" },
        { { .kind = RF_SCHEDULE_CONSTANT, .warmup_steps = 2, .warmup_initial = -1 }, "warmup_initial -1" },
        { { .kind = RF_SCHEDULE_COSINE_DECAY, .initial = 1, .decay_steps = 1, .power = 2 }, "power" },
        { { .kind = RF_SCHEDULE_PIECEWISE_CONSTANT, .num_boundaries = 16 }, "num_boundaries" },
        { { .kind = RF_SCHEDULE_PIECEWISE_CONSTANT, .num_boundaries = 2, .boundaries = { 5, 5 } }, "boundaries[1]" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(rf_schedule_check(&cases[i].schedule), RF_ERROR_INVALID_ARGUMENT);
        assert_message(cases[i].message);
        assert_true(isnan(rf_schedule_value(&cases[i].schedule, 1)));
    }
    assert_true(isnan(rf_schedule_value(NULL, 0)));
}

/* ---- optimizers ---- */

TEST(defaults)
{
    rf_optimizer_config c;
    assert_int_equal(rf_optimizer_configure(NULL, &c), RF_OK);
    assert_int_equal(c.params.kind, RF_OPTIMIZER_SGD);
    assert_close(rf_optimizer_rate(&c, 17), 0.01);
    assert_int_equal(rf_optimizer_configure(&(rf_optimizer_params){ .kind = RF_OPTIMIZER_ADAMW }, &c), RF_OK);
    assert_close(rf_optimizer_rate(&c, 0), 0.001);
    assert_close(c.params.weight_decay, 0.004);
    assert_close(c.params.epsilon, 1e-7);
    assert_int_equal(c.params.accumulation_steps, 1);
    assert_int_equal(rf_optimizer_configure(&(rf_optimizer_params){ .kind = RF_OPTIMIZER_RMSPROP }, &c), RF_OK);
    assert_close(c.params.rho, 0.9);
    assert_close(c.params.weight_decay, 0.0);
}

TEST(hyper_numbers)
{
    rf_optimizer_config c;
    const rf_schedule schedule = {
        .kind = RF_SCHEDULE_INVERSE_TIME_DECAY, .initial = 1.0, .decay_rate = 1.0, .decay_steps = 1
    };
    const rf_optimizer_params params = { .kind = RF_OPTIMIZER_ADAMW,
                                         .schedule = &schedule,
                                         .weight_decay = 0.5,
                                         .accumulation_steps = 4,
                                         .global_clip_norm = 3.0 };
    assert_int_equal(rf_optimizer_configure(&params, &c), RF_OK);
    float h[RF_HYPER_COUNT];
    rf_optimizer_hyper(&c, 1, 6.0, 0, h);
    assert_close(h[RF_HYPER_RATE], 0.5);
    assert_close(h[RF_HYPER_GRAD_SCALE], 0.125); /* the mean of 4, halved by the clip */
    assert_close(h[RF_HYPER_WEIGHT_DECAY], 0.25);
    assert_true(fabs(h[RF_HYPER_CORRECTION_1] - 1.0 / (1.0 - 0.9 * 0.9)) < 1e-5);
    assert_true(fabs(h[RF_HYPER_CORRECTION_2] - 1.0 / (1.0 - 0.999 * 0.999)) < 0.02);
    assert_close(h[RF_HYPER_CLIP_VALUE], 0.0);
    /* Corrections undo exactly what the kernel's decay did in the first step. */
    rf_optimizer_hyper(&c, 0, 0.0, 0, h);
    assert_true(fabs(h[RF_HYPER_CORRECTION_2] * (1.0 - (double)h[RF_HYPER_BETA_2]) - 1.0) < 1e-7);
    assert_close(h[RF_HYPER_GRAD_SCALE], 0.25);
    /* Below the limit nothing is scaled; a NaN is not hidden. */
    rf_optimizer_hyper(&c, 0, 2.9, 0, h);
    assert_close(h[RF_HYPER_GRAD_SCALE], 0.25);
    rf_optimizer_hyper(&c, 0, NAN, 0, h);
    assert_close(h[RF_HYPER_GRAD_SCALE], 0.25);
}

TEST(bad_optimizers)
{
    static const rf_schedule broken = { .kind = RF_SCHEDULE_EXPONENTIAL_DECAY, .initial = 1.0 };
    static const rf_schedule fine = { .kind = RF_SCHEDULE_CONSTANT, .initial = 1.0 };
    static const rf_loss_scale_params negative = { .initial = -1 }, huge = { .initial = 1e31 },
                                      no_number = { .initial = NAN }, slow = { .growth_steps = (1u << 24) + 1 },
                                      both = { .growth_steps = 10, .fixed = true };
    static const rf_parameter_group nameless = { 0 }, gap = { .names = "a,,b" }, every = { .names = "*" },
                                    backwards = { .names = "*", .rate_factor = -1 };
    static const rf_muon_params own = { 0 }, both_ways = { .adamw = true, .steps = 3 },
                                other = { .scale = (rf_muon_scale)2 },
                                shaped = { .scale = RF_MUON_SCALE_SHAPE, .rms_rate = 0.5 },
                                negative_rate = { .rms_rate = -1 }, long_steps = { .steps = 101 },
                                all_rows = { .row_dimensions = RF_MAX_RANK };
    static const rf_parameter_group matrices = { .names = "*", .muon = &own },
                                    neither = { .names = "*", .muon = &both_ways },
                                    unscaled = { .names = "*", .muon = &other },
                                    no_rms = { .names = "*", .muon = &shaped },
                                    shrinking = { .names = "*", .muon = &negative_rate },
                                    endless = { .names = "*", .muon = &long_steps },
                                    deep = { .names = "*", .muon = &all_rows };
    static const struct {
        rf_optimizer_params params;
        const char *message;
    } cases[] = {
        { { .kind = (rf_optimizer_kind)-1 }, "kind -1" },
        { { .learning_rate = -1.0 }, "learning_rate" },
        { { .learning_rate = NAN }, "learning_rate" },
        { { .learning_rate = INFINITY }, "learning_rate" },
        { { .momentum = 1.0 }, "momentum" },
        { { .nesterov = true }, "nesterov" },
        { { .kind = RF_OPTIMIZER_ADAM, .momentum = 0.9 }, "momentum" },
        { { .kind = RF_OPTIMIZER_ADAM, .beta_2 = 1.0 }, "beta_2" },
        { { .beta_1 = 0.9 }, "beta_1" },
        { { .epsilon = 1e-8 }, "epsilon" },
        { { .epsilon_form = RF_EPSILON_UNCORRECTED }, "epsilon_form is for Adam" },
        { { .kind = RF_OPTIMIZER_ADAM, .epsilon_form = (rf_epsilon_form)2 }, "epsilon_form 2 does not exist" },
        { { .kind = RF_OPTIMIZER_ADAM, .rho = 0.5 }, "rho" },
        { { .clip_norm = 1.0, .clip_value = 1.0 }, "clip_value" },
        { { .kind = RF_OPTIMIZER_LION, .epsilon = 1e-8 }, "epsilon" },
        { { .kind = RF_OPTIMIZER_NADAM, .initial_accumulator_value = 1 }, "initial_accumulator_value is for Adagrad" },
        { { .kind = RF_OPTIMIZER_ADAGRAD, .beta_1 = 0.9 }, "beta_1" },
        { { .kind = (rf_optimizer_kind)(RF_OPTIMIZER_MUON + 1) }, "does not exist" },
        { { .kind = RF_OPTIMIZER_CUSTOM }, "need each other" },
        { { .kind = RF_OPTIMIZER_LAMB, .momentum = 0.9 }, "momentum" },
        { { .kind = RF_OPTIMIZER_MUON, .nesterov = true }, "nesterov needs SGD" },
        { { .kind = RF_OPTIMIZER_MUON, .rho = 0.5 }, "rho is for RMSprop" },
        { { .groups = &matrices, .num_groups = 1 }, "groups[0].muon is for Muon" },
        { { .kind = RF_OPTIMIZER_MUON, .groups = &neither, .num_groups = 1 }, "muon: adamw leaves no matrices" },
        { { .kind = RF_OPTIMIZER_MUON, .groups = &unscaled, .num_groups = 1 }, "muon: scale 2 does not exist" },
        { { .kind = RF_OPTIMIZER_MUON, .groups = &no_rms, .num_groups = 1 },
          "muon: rms_rate is for RF_MUON_SCALE_RMS" },
        { { .kind = RF_OPTIMIZER_MUON, .groups = &shrinking, .num_groups = 1 }, "muon: rms_rate -1 must be finite" },
        { { .kind = RF_OPTIMIZER_MUON, .groups = &endless, .num_groups = 1 }, "muon: 101 steps, at most 100" },
        { { .kind = RF_OPTIMIZER_MUON, .groups = &deep, .num_groups = 1 }, "row_dimensions, at most" },
        { { .ema_overwrite_frequency = 2 }, "need use_ema" },
        { { .use_ema = true, .ema_momentum = -0.5 }, "ema_momentum -0.5" },
        { { .loss_scale = &negative }, "loss_scale: initial -1 is not in [2^-100, 2^100]" },
        { { .loss_scale = &huge }, "loss_scale: initial 1e+31 is not" },
        { { .loss_scale = &no_number }, "loss_scale: initial nan is not" },
        { { .loss_scale = &slow }, "loss_scale: 16777217 growth_steps, at most 16777216" },
        { { .loss_scale = &both }, "loss_scale: a fixed scale does not grow" },
        { { .num_groups = 1 }, "groups is NULL" },
        { { .groups = &nameless, .num_groups = 1 }, "groups[0].names is NULL" },
        { { .groups = &gap, .num_groups = 1 }, "groups[0].names 'a,,b' has an empty" },
        { { .groups = &backwards, .num_groups = 1 }, "rate_factor -1" },
        { { .groups = &every, .num_groups = 65 }, "65 groups, at most 64" },
        { { .learning_rate = 0.1, .schedule = &fine }, "schedule" },
        { { .schedule = &broken }, "decay_steps" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        rf_optimizer_config c;
        assert_int_equal(rf_optimizer_configure(&cases[i].params, &c), RF_ERROR_INVALID_ARGUMENT);
        assert_message(cases[i].message);
        assert_message("rf_optimizer_create");
    }
}

/* ---- logs ---- */

/* As the chief describes its optimizer to parameter servers. */
static void check_text(const rf_optimizer_params *params)
{
    rf_optimizer_config config, again;
    rf_optimizer_params read;
    rf_schedule schedule;
    char *text, *second;
    assert_int_equal(rf_optimizer_configure(params, &config), RF_OK);
    assert_int_equal(rf_optimizer_text(&config, &text), RF_OK);
    assert_int_equal(rf_optimizer_parse(text, strlen(text), &read, &schedule), RF_OK);
    assert_ptr_equal(read.schedule, &schedule);
    assert_int_equal(rf_optimizer_configure(&read, &again), RF_OK);
    float numbers[RF_HYPER_COUNT], numbers_again[RF_HYPER_COUNT];
    for (uint64_t step = 0; step < 50; step++) {
        rf_optimizer_hyper(&config, step, 3.0, 0, numbers);
        rf_optimizer_hyper(&again, step, 3.0, 0, numbers_again);
        assert_memory_equal(numbers, numbers_again, sizeof(numbers));
    }
    assert_int_equal(again.params.kind, config.params.kind);
    assert_int_equal(again.params.nesterov, config.params.nesterov);
    assert_int_equal(again.params.accumulation_steps, config.params.accumulation_steps);
    assert_int_equal(rf_optimizer_text(&again, &second), RF_OK);
    assert_string_equal(second, text);
    rf_optimizer_params_free(&read);
    for (size_t cut = 0; cut < strlen(text); cut++)
        assert_int_equal(rf_optimizer_parse(text, cut, &read, &schedule), RF_ERROR_CORRUPT_DATA);
    text[strlen("{'kind':'")] = '?';
    assert_int_equal(rf_optimizer_parse(text, strlen(text), &read, &schedule), RF_ERROR_CORRUPT_DATA);
    assert_message("kind");
    rf_free(second);
    rf_free(text);
}

TEST(names_of_groups)
{
    static const struct {
        const char *patterns, *name;
        bool matches;
    } cases[] = {
        { "bias", "bias", true },
        { "bias", "dense/bias", false },
        { "*bias", "dense/bias", true },
        { "*bias", "dense/bias_1", false },
        { "*bias*", "dense/bias_1", true },
        { "a?c", "abc", true },
        { "a?c", "ac", false },
        { "*", "", true },
        { "?", "", false },
        { "x,*gamma,y", "block_0/norm/gamma", true },
        { "x,*gamma,y", "y", true },
        { "x,*gamma,y", "xy", false },
        { "*ab*abc", "ababab/abc", true },
        { "*ab*abc", "ababab/abd", false },
        { "a*", "b", false },
        { "**/k*l", "dense/kernel", true },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        if (rf_parameter_group_matches(&(rf_parameter_group){ .names = cases[i].patterns }, cases[i].name) !=
            cases[i].matches)
            fail_msg("'%s' and '%s'", cases[i].patterns, cases[i].name);
    /* Stars do not multiply the work. */
    char long_name[4001] = { 0 };
    memset(long_name, 'a', 4000);
    assert_false(rf_parameter_group_matches(&(rf_parameter_group){ .names = "*a*a*a*a*a*a*a*a*a*b" }, long_name));
    const rf_parameter_group groups[] = { { .names = "*bias" }, { .names = "dense*" } };
    const rf_optimizer_params params = { .groups = groups, .num_groups = 2 };
    assert_int_equal(rf_parameter_group_of(&params, "dense/bias"), 1);
    assert_int_equal(rf_parameter_group_of(&params, "dense/kernel"), 2);
    assert_int_equal(rf_parameter_group_of(&params, "conv/kernel"), 0);
}

/* Rate and decay of a group; the other numbers are those of all. */
TEST(numbers_of_groups)
{
    const rf_parameter_group groups[] = { { .names = "*bias", .no_weight_decay = true },
                                          { .names = "*", .rate_factor = 0.5 } };
    rf_optimizer_config c;
    float all[RF_HYPER_COUNT], own[RF_HYPER_COUNT];
    const rf_optimizer_params params = {
        .kind = RF_OPTIMIZER_ADAMW, .learning_rate = 0.25, .weight_decay = 0.5, .groups = groups, .num_groups = 2
    };
    assert_int_equal(rf_optimizer_configure(&params, &c), RF_OK);
    rf_optimizer_hyper(&c, 3, 0.0, 0, all);
    rf_optimizer_hyper(&c, 3, 0.0, 1, own);
    assert_true(own[RF_HYPER_WEIGHT_DECAY] == 0 && all[RF_HYPER_WEIGHT_DECAY] == 0.125f);
    own[RF_HYPER_WEIGHT_DECAY] = all[RF_HYPER_WEIGHT_DECAY];
    assert_memory_equal(own, all, sizeof(own));
    rf_optimizer_hyper(&c, 3, 0.0, 2, own);
    assert_true(own[RF_HYPER_RATE] == 0.125f && own[RF_HYPER_WEIGHT_DECAY] == 0.0625f);
}

/* The product of the momenta in closed form from step 2000 on is that of the loop. */
TEST(nadam_far_on)
{
    rf_optimizer_config c;
    float h[RF_HYPER_COUNT];
    const double beta = (float)0.9999;
    double product = 1.0;
    for (int t = 1; t <= 3000; t++) product *= beta * (1 - 0.5 * pow(0.96, t));
    assert_int_equal(rf_optimizer_configure(&(rf_optimizer_params){ .kind = RF_OPTIMIZER_NADAM, .beta_1 = 0.9999 }, &c),
                     RF_OK);
    rf_optimizer_hyper(&c, 2999, 0.0, 0, h);
    const double share = (1 - beta) / (1 - product);
    assert_true(fabs((double)h[RF_HYPER_CORRECTION_1] - beta / (1 - product * beta)) < 1e-7);
    assert_true(fabs((double)h[RF_HYPER_GRADIENT] - share) < 1e-7 * share);
}

TEST(optimizers_as_text)
{
    check_text(NULL);
    check_text(&(rf_optimizer_params){ .kind = RF_OPTIMIZER_SGD,
                                       .learning_rate = 0.1,
                                       .momentum = 0.9,
                                       .nesterov = true,
                                       .clip_value = 2,
                                       .accumulation_steps = 3 });
    check_text(&(rf_optimizer_params){ .kind = RF_OPTIMIZER_RMSPROP, .rho = 0.8, .epsilon = 1e-6, .momentum = 0.5 });
    const rf_schedule cosine = { .kind = RF_SCHEDULE_COSINE_DECAY,
                                 .initial = 0.5,
                                 .alpha = 0.1,
                                 .decay_steps = 40,
                                 .warmup_steps = 5,
                                 .warmup_initial = 0.25 };
    check_text(&(rf_optimizer_params){
        .kind = RF_OPTIMIZER_ADAMW, .beta_1 = 0.8, .beta_2 = 0.99, .weight_decay = 0.1, .schedule = &cosine });
    check_text(&(rf_optimizer_params){ .kind = RF_OPTIMIZER_ADAM, .epsilon_form = RF_EPSILON_UNCORRECTED });
    const rf_parameter_group groups[] = { { .names = "*bias,*gamma", .no_weight_decay = true },
                                          { .names = "head/*", .rate_factor = 10 } };
    check_text(&(rf_optimizer_params){ .kind = RF_OPTIMIZER_LION, .beta_2 = 0.9, .groups = groups, .num_groups = 2 });
    const rf_muon_params muons[] = { { .plain_momentum = true, .embeddings = true, .rms_rate = 0.5, .steps = 7 },
                                     { .scale = RF_MUON_SCALE_SHAPE, .row_dimensions = 2 },
                                     { .adamw = true } };
    const rf_parameter_group matrices[] = { { .names = "a*", .muon = &muons[0] },
                                            { .names = "b*", .muon = &muons[1], .rate_factor = 2 },
                                            { .names = "c*", .muon = &muons[2] },
                                            { .names = "d*" } };
    check_text(&(rf_optimizer_params){ .kind = RF_OPTIMIZER_MUON });
    check_text(&(rf_optimizer_params){
        .kind = RF_OPTIMIZER_MUON, .momentum = 0.5, .beta_1 = 0.8, .groups = matrices, .num_groups = 4 });
    check_text(&(rf_optimizer_params){ .kind = RF_OPTIMIZER_NADAM, .epsilon = 1e-6 });
    check_text(&(rf_optimizer_params){
        .kind = RF_OPTIMIZER_LAMB, .weight_decay = 0.1, .use_ema = true, .ema_overwrite_frequency = 7 });
    check_text(&(rf_optimizer_params){ .use_ema = true, .ema_momentum = 0.5 });
    check_text(&(rf_optimizer_params){ .loss_scale = &(rf_loss_scale_params){ 0 } });
    check_text(&(rf_optimizer_params){ .loss_scale = &(rf_loss_scale_params){ .initial = 12.5, .growth_steps = 7 } });
    check_text(&(rf_optimizer_params){ .loss_scale = &(rf_loss_scale_params){ .initial = 8, .fixed = true } });
    check_text(&(rf_optimizer_params){ .kind = RF_OPTIMIZER_ADAGRAD, .initial_accumulator_value = 0.5 });
    const rf_schedule steps = { .kind = RF_SCHEDULE_PIECEWISE_CONSTANT,
                                .num_boundaries = 2,
                                .boundaries = { 10, 20 },
                                .values = { 1, 0.5, 0.25 } };
    check_text(&(rf_optimizer_params){ .kind = RF_OPTIMIZER_ADAM, .schedule = &steps, .global_clip_norm = 1 });
    check_text(&(rf_optimizer_params){ .kind = RF_OPTIMIZER_ADAM, .schedule = &cycling });
}

TEST(logs_and_history)
{
    rf_logs logs = { 0 };
    double value = 5.0;
    assert_false(rf_logs_get(&logs, "loss", &value));
    assert_false(rf_logs_get(NULL, "loss", &value));
    rf_logs_add(&logs, "loss", 0.5);
    rf_logs_add(&logs, "val_loss", 0.75);
    assert_true(rf_logs_get(&logs, "val_loss", &value));
    assert_close(value, 0.75);
    assert_true(rf_logs_get(&logs, "loss", NULL));
    assert_false(rf_logs_get(&logs, "val", &value));
    for (int i = 0; i < 2 * RF_MAX_LOGS; i++) rf_logs_add(&logs, "more", i);
    assert_int_equal(logs.count, RF_MAX_LOGS);

    rf_history history = { 0 };
    for (int i = 0; i < 5; i++) {
        rf_logs epoch = { 0 };
        rf_logs_add(&epoch, "loss", i);
        assert_int_equal(rf_history_add(&history, &epoch), RF_OK);
    }
    assert_int_equal(history.num_epochs, 5);
    for (int i = 0; i < 5; i++) assert_close(history.epochs[i].value[0], i);
    rf_history_free(&history);
    assert_null(history.epochs);
    rf_history_free(&history);
    rf_history_free(NULL);
}

/* ---- summary ---- */

TEST(summary)
{
    const rf_summary_row rows[] = {
        { .name = "conv2d", .type = "Conv2D", .has_output = true, .output = RF_SHAPE(7, 26, 26, 32), .params = 320 },
        { .name = "a_rather_long_layer_name", .type = "Dense", .params = 100 },
    };
    char *text;
    assert_int_equal(rf_summary_format("sequential", rows, 2, 20, &text), RF_OK);
    assert_string_equal(text, "Model: sequential\n"
                              "layer (type)                      output shape    parameters\n"
                              "conv2d (Conv2D)                   [n,26,26,32]           320\n"
                              "a_rather_long_layer_name (Dense)  ?                      100\n"
                              "total parameters: 420\n"
                              "not trainable: 20\n");
    rf_string_free(text);
    assert_int_equal(rf_summary_format("custom", NULL, 0, 0, &text), RF_OK);
    assert_non_null(strstr(text, "total parameters: 0\n"));
    assert_null(strstr(text, "trainable"));
    rf_string_free(text);
    rf_string_free(NULL);
}

/* ---- CSV log ---- */

/* As fit begins; `restored` is what a backup holds of the callback's, 0: there is no backup. */
static rf_result begin_csv(rf_callback *callback, uint32_t first, uint64_t restored)
{
    rf_fit_progress at = { .state = { .epoch = first }, .resumed = restored > 0 };
    rf_logs names = { 0 };
    rf_logs_add(&names, "loss", 0);
    rf_logs_add(&names, "learning_rate", 0);
    RF_TRY(callback->fns.on_train_begin(callback->user, &at.state));
    if (restored > 0) RF_TRY(callback->extras->restore(callback->user, &restored, sizeof(restored)));
    return callback->extras->begin(callback->user, &at, &names);
}

static void run_csv(rf_callback *callback, uint32_t first, uint32_t epochs, uint64_t restored)
{
    rf_fit_state fit = { 0 };
    assert_int_equal(begin_csv(callback, first, restored), RF_OK);
    for (uint32_t i = first; i < first + epochs; i++) {
        rf_logs logs = { 0 };
        rf_logs_add(&logs, "loss", 0.5 / (i + 1));
        rf_logs_add(&logs, "learning_rate", 1e-3);
        fit.epoch = i;
        assert_int_equal(callback->fns.on_epoch_end(callback->user, &fit, &logs), RF_OK);
    }
    assert_int_equal(callback->fns.on_train_end(callback->user, &fit, NULL), RF_OK);
}

static void read_text(const char *path, char *buf, size_t size)
{
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    buf[fread(buf, 1, size - 1, file)] = 0;
    fclose(file);
}

TEST(csv_log)
{
    char path[] = "/tmp/ringfire_csv_XXXXXX", text[512];
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    rf_callback *callback;
    assert_int_equal(rf_callback_csv_log(path, RF_CSV_LOG_REPLACE, &callback), RF_OK);
    run_csv(callback, 0, 2, 0);
    rf_callback_destroy(&callback);
    assert_null(callback);
    read_text(path, text, sizeof(text));
    assert_string_equal(text, "epoch,loss,learning_rate\n0,0.5,0.001\n1,0.25,0.001\n");
    /* Appending continues below the header that is there. */
    assert_int_equal(rf_callback_csv_log(path, RF_CSV_LOG_APPEND, &callback), RF_OK);
    run_csv(callback, 3, 1, 0);
    rf_callback_destroy(&callback);
    read_text(path, text, sizeof(text));
    assert_string_equal(text, "epoch,loss,learning_rate\n0,0.5,0.001\n1,0.25,0.001\n3,0.125,0.001\n");
    unlink(path);
}

/* A log as it is when fit begins, and what there is when it has trained two epochs. */
TEST(csv_log_resumed)
{
#define HEAD "epoch,loss,learning_rate\n"
#define ROW(epoch, loss) #epoch "," #loss ",0.001\n"
#define ROWS_0_1 ROW(0, 0.5) ROW(1, 0.25)
    static const struct {
        const char *before;
        rf_csv_log_mode mode;
        uint32_t first;
        uint64_t restored;
        const char *kept;
    } cases[] = {
        /* A new fit; one that appends to an older run, to one whose last line was cut, to a cut header. */
        { HEAD ROWS_0_1, RF_CSV_LOG_REPLACE, 0, 0, HEAD },
        { HEAD ROWS_0_1, RF_CSV_LOG_APPEND, 0, 0, HEAD ROWS_0_1 },
        { HEAD ROWS_0_1 "2,0.1", RF_CSV_LOG_APPEND, 0, 0, HEAD ROWS_0_1 },
        { "epoch,lo", RF_CSV_LOG_APPEND, 0, 0, HEAD },
        { "", RF_CSV_LOG_APPEND, 0, 0, HEAD },
        /* Killed between a line and the backup. Also with a run before it, and with an older backup. */
        { HEAD ROWS_0_1 ROW(2, 9), RF_CSV_LOG_REPLACE, 2, sizeof(HEAD ROWS_0_1) - 1, HEAD ROWS_0_1 },
        { HEAD ROWS_0_1 ROW(2, 9), RF_CSV_LOG_APPEND, 2, sizeof(HEAD ROWS_0_1) - 1, HEAD ROWS_0_1 },
        { HEAD ROWS_0_1 ROW(2, 9) "3,", RF_CSV_LOG_REPLACE, 1, sizeof(HEAD ROW(0, 0.5)) - 1, HEAD ROW(0, 0.5) },
        { HEAD ROWS_0_1 ROW(0, 7) ROW(1, 7), RF_CSV_LOG_APPEND, 0, sizeof(HEAD ROWS_0_1) - 1, HEAD ROWS_0_1 },
        /* The file is not what it was: lines go by their epochs, in the last run. */
        { HEAD ROW(0, 0.25) ROW(1, 9), RF_CSV_LOG_REPLACE, 1, 37, HEAD ROW(0, 0.25) },
        { HEAD ROWS_0_1 ROW(0, 7) ROW(1, 7) ROW(2, 7), RF_CSV_LOG_APPEND, 1, 5000, HEAD ROWS_0_1 ROW(0, 7) },
        { "", RF_CSV_LOG_REPLACE, 3, 90, HEAD },
        /* Without a backup, from an epoch that the program gives. */
        { HEAD ROWS_0_1 ROW(2, 9), RF_CSV_LOG_APPEND, 2, 0, HEAD ROWS_0_1 },
        { HEAD ROWS_0_1 ROW(0, 7) ROW(1, 7) ROW(2, 7), RF_CSV_LOG_APPEND, 1, 0, HEAD ROWS_0_1 ROW(0, 7) },
    };
    char path[] = "/tmp/ringfire_csv_XXXXXX", text[512], wanted[512];
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    rf_callback *callback;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        FILE *file = fopen(path, "w");
        assert_non_null(file);
        fputs(cases[i].before, file);
        fclose(file);
        assert_int_equal(rf_callback_csv_log(path, cases[i].mode, &callback), RF_OK);
        run_csv(callback, cases[i].first, 2, cases[i].restored);
        rf_callback_destroy(&callback);
        snprintf(wanted, sizeof(wanted), "%s%u,%.9g,0.001\n%u,%.9g,0.001\n", cases[i].kept, cases[i].first,
                 0.5 / (cases[i].first + 1), cases[i].first + 1, 0.5 / (cases[i].first + 2));
        read_text(path, text, sizeof(text));
        if (strcmp(text, wanted) != 0) fail_msg("case %zu:\n%snot\n%s", i, text, wanted);
    }
    /* Other columns are refused before anything is trained or changed. */
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("epoch,loss\n0,1\n", file);
    fclose(file);
    assert_int_equal(rf_callback_csv_log(path, RF_CSV_LOG_APPEND, &callback), RF_OK);
    assert_int_equal(begin_csv(callback, 0, 0), RF_ERROR_INVALID_ARGUMENT);
    assert_message("has the columns 'epoch,loss', not 'epoch,loss,learning_rate'");
    rf_callback_destroy(&callback);
    read_text(path, text, sizeof(text));
    assert_string_equal(text, "epoch,loss\n0,1\n");
    unlink(path);
}

/* Another training: it has begun, has written a line and stays. */
static void hold_csv(int ready, const char *path)
{
    rf_callback *callback;
    rf_fit_state fit = { 0 };
    rf_logs logs = { 0 };
    rf_logs_add(&logs, "loss", 0.5);
    rf_logs_add(&logs, "learning_rate", 1e-3);
    if (rf_callback_csv_log(path, RF_CSV_LOG_REPLACE, &callback) < 0 || begin_csv(callback, 0, 0) < 0 ||
        callback->fns.on_epoch_end(callback->user, &fit, &logs) < 0 || write(ready, "!", 1) != 1)
        return;
    for (;;) pause();
}

/* Two trainings do not write one log, whatever they call it; one that is killed leaves no lock behind. */
TEST(csv_log_of_another_process)
{
    char folder[SCRATCH_PATH], path[64], other_name[64], lock[64], text[512], who[64];
    scratch(folder);
    snprintf(path, sizeof(path), "%s/log.csv", folder);
    snprintf(lock, sizeof(lock), "%s/.log.csv.lock", folder);
    snprintf(other_name, sizeof(other_name), "%s/link.csv", folder);
    assert_int_equal(symlink("log.csv", other_name), 0);
    const pid_t other = start_holder(hold_csv, path);
    rf_callback *callback;
    snprintf(who, sizeof(who), "in use by another training (process %d on ", (int)other);
    assert_int_equal(rf_callback_csv_log(other_name, RF_CSV_LOG_REPLACE, &callback), RF_OK);
    assert_int_equal(begin_csv(callback, 0, 0), RF_ERROR_INVALID_ARGUMENT);
    assert_message(who);
    assert_message(path);
    rf_callback_destroy(&callback);
    read_text(path, text, sizeof(text));
    assert_string_equal(text, "epoch,loss,learning_rate\n0,0.5,0.001\n");
    kill_holder(other);
    assert_int_equal(access(lock, F_OK), 0);
    assert_int_equal(rf_callback_csv_log(path, RF_CSV_LOG_APPEND, &callback), RF_OK);
    run_csv(callback, 1, 1, 0);
    assert_int_not_equal(access(lock, F_OK), 0); /* fit has ended */
    rf_callback_destroy(&callback);
    read_text(path, text, sizeof(text));
    assert_string_equal(text, "epoch,loss,learning_rate\n0,0.5,0.001\n1,0.25,0.001\n");
    unlink(other_name);
    unlink(path);
    assert_int_equal(rmdir(folder), 0);
}

TEST(csv_log_errors)
{
    rf_callback *callback;
    rf_fit_state fit = { 0 };
    assert_int_equal(rf_callback_csv_log("", RF_CSV_LOG_REPLACE, &callback), RF_ERROR_INVALID_ARGUMENT);
    assert_message("path");
    assert_int_equal(rf_callback_csv_log("/nonexistent/log.csv", RF_CSV_LOG_REPLACE, &callback), RF_OK);
    assert_int_equal(callback->fns.on_train_begin(callback->user, &fit), RF_ERROR_IO);
    assert_message("/nonexistent/log.csv");
    rf_callback_destroy(&callback);
    /* A full device: the write is reported, not lost in a buffer. */
    assert_int_equal(rf_callback_csv_log("/dev/full", RF_CSV_LOG_REPLACE, &callback), RF_OK);
    assert_int_equal(begin_csv(callback, 0, 0), RF_ERROR_IO);
    assert_message("/dev/full");
    rf_logs logs = { 0 };
    rf_logs_add(&logs, "loss", 1.0);
    assert_int_equal(callback->fns.on_epoch_end(callback->user, &fit, &logs), RF_ERROR_IO);
    assert_message("/dev/full");
    rf_callback_destroy(&callback);
    rf_callback_destroy(&callback);
    rf_callback_destroy(NULL);
}

/* ---- callbacks own their user data ---- */

static void count_destroy(void *user)
{
    ++*(int *)user;
}

TEST(callback_ownership)
{
    int destroyed = 0;
    rf_callback *callback;
    assert_int_equal(rf_callback_create(NULL, &destroyed, &callback), RF_ERROR_INVALID_ARGUMENT);
    assert_message("fns");
    assert_int_equal(destroyed, 0);
    assert_int_equal(rf_callback_create(&(rf_callback_fns){ .destroy = count_destroy }, &destroyed, &callback), RF_OK);
    rf_callback_destroy(&callback);
    assert_int_equal(destroyed, 1);
}

TESTS(train_pure, NULL, NULL)
