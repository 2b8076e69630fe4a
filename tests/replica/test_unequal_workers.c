/* SPDX-License-Identifier: Apache-2.0 */
/* Workers whose optimizers would update differently are refused before anything changes, by name. */
#include <math.h>

#include "job.h"
#include "tests/room.h"

#define LVP "llvmpipe"
enum { NUM_VARIABLES = 2 };

/* The optimizer's settings and the variables that a worker trains with. */
typedef struct setup {
    rf_optimizer_params params;
    double later_rate;      /* set after the optimizer was created; 0: none */
    double hyperparameter;  /* the same, of custom optimizers */
    double clip;            /* by the step itself; 0: none */
    uint32_t num_variables; /* that it trains; 0: all */
    const char *message;    /* of the second worker's: what names the difference */
} setup;

static const rf_loss_scale_params scale_a = { .growth_steps = 10 }, scale_b = { .growth_steps = 20 };
static const rf_schedule fast = { .kind = RF_SCHEDULE_CONSTANT, .initial = 0.5, .warmup_steps = 4 },
                         slow = { .kind = RF_SCHEDULE_CONSTANT, .initial = 0.5, .warmup_steps = 8 };
static const rf_parameter_group first_half = { .names = "v0", .rate_factor = 0.5 },
                                second_half = { .names = "v1", .rate_factor = 0.5 },
                                undecayed = { .names = "v0", .rate_factor = 0.5, .no_weight_decay = true };
static const rf_muon_params rows = { .row_dimensions = 1 };
static const rf_parameter_group muon_a = { .names = "v0" }, muon_b = { .names = "v0", .muon = &rows };

static rf_result descend(rf_trace *t, const rf_update_inputs *in, rf_tensor *weight, rf_tensor *slots, void *user)
{
    (void)slots;
    (void)user;
    *weight = rf_subtract(t, in->weight, rf_multiply(t, in->gradient, in->hyperparameters[0]));
    return rf_trace_status(t);
}

static rf_result descend_twice(rf_trace *t, const rf_update_inputs *in, rf_tensor *weight, rf_tensor *slots, void *user)
{
    const rf_update_inputs twice = { .weight = in->weight,
                                     .gradient = rf_multiply(t, in->gradient, rf_constant(t, 2)),
                                     .hyperparameters = in->hyperparameters };
    return descend(t, &twice, weight, slots, user);
}

static void halve(void *user, uint64_t step, double learning_rate, double *hyperparameters)
{
    (void)step;
    (void)learning_rate;
    (void)user;
    hyperparameters[0] *= 0.5;
}

static const rf_hyperparameter size = { .name = "size", .value = 0.1 };
#define CUSTOM(function, preparation)                                                                                  \
    .kind = RF_OPTIMIZER_CUSTOM, .custom = &(const rf_custom_optimizer)                                                \
    {                                                                                                                  \
        .name = "mine", .update = (function), .hyperparameters = &size, .num_hyperparameters = 1,                      \
        .prepare = (preparation)                                                                                       \
    }

static const setup cases[][2] = {
    { { { .learning_rate = 0.001 } }, { { .learning_rate = 0.5 }, .message = "learning_rate 0.5" } },
    { { { .learning_rate = 0.1 } }, { { .learning_rate = 0.1 }, .later_rate = 0.2, .message = "learning_rate 0.2" } },
    { { { .learning_rate = 0.1 } },
      { { .kind = RF_OPTIMIZER_LION, .learning_rate = 0.1 }, .message = "optimizer lion" } },
    { { { .momentum = 0.5 } }, { { .momentum = 0.25 }, .message = "momentum 0.25" } },
    { { { .momentum = 0.5 } }, { { .momentum = 0.5, .nesterov = true }, .message = "nesterov 1" } },
    { { { .kind = RF_OPTIMIZER_ADAM } }, { { .kind = RF_OPTIMIZER_ADAM, .beta_1 = 0.5 }, .message = "beta_1 0.5" } },
    { { { .kind = RF_OPTIMIZER_ADAM } }, { { .kind = RF_OPTIMIZER_ADAM, .beta_2 = 0.5 }, .message = "beta_2 0.5" } },
    { { { .kind = RF_OPTIMIZER_ADAM } }, { { .kind = RF_OPTIMIZER_ADAM, .epsilon = 0.5 }, .message = "epsilon 0.5" } },
    { { { .kind = RF_OPTIMIZER_ADAM } },
      { { .kind = RF_OPTIMIZER_ADAM, .epsilon_form = RF_EPSILON_UNCORRECTED }, .message = "epsilon_form 1" } },
    { { { .kind = RF_OPTIMIZER_ADAMW } },
      { { .kind = RF_OPTIMIZER_ADAMW, .weight_decay = 0.5 }, .message = "weight_decay 0.5" } },
    { { { .kind = RF_OPTIMIZER_RMSPROP } }, { { .kind = RF_OPTIMIZER_RMSPROP, .rho = 0.5 }, .message = "rho 0.5" } },
    { { { .kind = RF_OPTIMIZER_ADAGRAD } },
      { { .kind = RF_OPTIMIZER_ADAGRAD, .initial_accumulator_value = 0.5 },
        .message = "initial_accumulator_value 0.5" } },
    { { { .clip_value = 1 } }, { { .clip_value = 2 }, .message = "clip_value 2" } },
    { { { .clip_norm = 1 } }, { { .clip_norm = 2 }, .message = "clip_norm 2" } },
    { { { .global_clip_norm = 1 } }, { { 0 }, .message = "global_clip_norm 0" } },
    { { { .use_ema = true } }, { { .use_ema = true, .ema_momentum = 0.5 }, .message = "ema_momentum 0.5" } },
    { { { .accumulation_steps = 2 } }, { { .accumulation_steps = 3 }, .message = "accumulation_steps 3" } },
    { { { .loss_scale = &scale_a } }, { { .loss_scale = &scale_b }, .message = "loss_scale.growth_steps 20" } },
    { { { .schedule = &fast } }, { { .schedule = &slow }, .message = "learning_rate 0.0625" } }, /* in step 1 */
    { { { .groups = &first_half, .num_groups = 1 } },
      { { .groups = &second_half, .num_groups = 1 }, .message = "groups[0].names v1" } },
    { { { .kind = RF_OPTIMIZER_ADAMW, .groups = &first_half, .num_groups = 1 } },
      { { .kind = RF_OPTIMIZER_ADAMW, .groups = &undecayed, .num_groups = 1 },
        .message = "groups[0].no_weight_decay 1" } },
    { { { .kind = RF_OPTIMIZER_MUON, .groups = &muon_a, .num_groups = 1 } },
      { { .kind = RF_OPTIMIZER_MUON, .groups = &muon_b, .num_groups = 1 }, .message = "groups[0].muon.adamw 0" } },
    { { { CUSTOM(descend, NULL) } }, { { CUSTOM(descend, NULL) }, .hyperparameter = 0.25, .message = "size 0.25" } },
    { { { CUSTOM(descend, NULL) } }, { { CUSTOM(descend, halve) }, .message = "size 0.05" } },
    { { { CUSTOM(descend, NULL) } }, { { CUSTOM(descend_twice, NULL) }, .message = "code of the update" } },
    { { { .learning_rate = 0.1 }, .clip = 1 },
      { { .learning_rate = 0.1 }, .clip = 2, .message = "a computation on gradients" } },
    { { { .learning_rate = 0.1 } }, { { .learning_rate = 0.1 }, .num_variables = 1, .message = "variables[1] v1" } },
};

typedef struct net {
    const setup *setup;
    rf_variable *variables[NUM_VARIABLES];
    rf_optimizer *optimizer;
} net;

static rf_result clip_and_apply(rf_trace *t, const net *n, rf_tensor loss)
{
    const rf_variable_list all = { (rf_variable **)(uintptr_t)n->variables, NUM_VARIABLES };
    rf_tensor wanted[NUM_VARIABLES], g[NUM_VARIABLES];
    const rf_tensor limit = rf_constant(t, (float)n->setup->clip);
    for (uint32_t i = 0; i < NUM_VARIABLES; i++) wanted[i] = rf_variable_tensor(t, n->variables[i]);
    (void)rf_gradients(t, loss, wanted, NUM_VARIABLES, g);
    for (uint32_t i = 0; i < NUM_VARIABLES; i++) g[i] = rf_minimum(t, g[i], limit);
    return rf_optimizer_apply_gradients(t, n->optimizer, g, all);
}

static rf_result train(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    net *n = user;
    const rf_tensor sum = rf_add(t, rf_variable_tensor(t, n->variables[0]), rf_variable_tensor(t, n->variables[1]));
    out[0] = rf_compute_average_loss(t, rf_square(t, rf_multiply(t, in[0], sum)), NULL);
    if (n->setup->clip > 0) return clip_and_apply(t, n, out[0]);
    const uint32_t count = n->setup->num_variables ? n->setup->num_variables : NUM_VARIABLES;
    return rf_optimizer_minimize(t, n->optimizer, out[0], (rf_variable_list){ n->variables, count });
}

static rf_result create(worker *w, net *n, rf_function **out)
{
    const float one = 1;
    for (uint32_t i = 0; i < NUM_VARIABLES; i++) {
        const rf_variable_params p = { .shape = RF_SCALAR_SHAPE, .value = &one, .name = i == 0 ? "v0" : "v1" };
        GO(rf_variable_create(w->strategy, &p, &n->variables[i]));
    }
    GO(rf_optimizer_create(w->strategy, &n->setup->params, &n->optimizer));
    if (n->setup->later_rate > 0) GO(rf_optimizer_set_learning_rate(n->optimizer, n->setup->later_rate));
    if (n->setup->hyperparameter > 0)
        GO(rf_optimizer_set_hyperparameter(n->optimizer, "size", n->setup->hyperparameter));
    return rf_function_create(
        w->strategy, &(rf_function_params){ .step = train, .user = n, .num_outputs = 1, .training = true }, out);
}

/* Warm-ups begin alike and are found out a step later. */
static rf_result run_case(worker *w, const setup *pair)
{
    net n = { .setup = &pair[w->rank] };
    rf_function *step;
    GO(create(w, &n, &step));
    static float ones[4] = { 1, 1, 1, 1 };
    const rf_element batch = { 1, { { RF_F32, RF_SHAPE(4), ones } } };
    if (pair[0].params.schedule) GO(rf_strategy_run(w->strategy, step, &batch, NULL));
    EXPECT_FAILS(rf_strategy_run(w->strategy, step, &batch, NULL), RF_ERROR_INVALID_ARGUMENT, pair[1].message,
                 "rank 0 updates with");
    for (uint32_t i = 0; i < NUM_VARIABLES; i++) {
        float value;
        GO(rf_variable_read(n.variables[i], &value));
        EXPECT(value == 1.0f); /* the rate of the warm-up's first step is 0 */
        rf_variable_destroy(&n.variables[i]);
    }
    rf_function_destroy(&step);
    rf_optimizer_destroy(&n.optimizer);
    return RF_OK;
}

static rf_result run_cases(worker *w)
{
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        GO(run_case(w, cases[i]));
        w->report->steps++;
    }
    return RF_OK;
}

TEST(different_settings)
{
    static report reports[MAX_WORKERS];
    run_job(&(job_params){ .num_workers = 2, .devices = { LVP, LVP } }, run_cases, reports);
    if (reports[0].result < 0) print_message("case %u\n", reports[0].steps);
    check_job(reports, 2);
}

TESTS(unequal_workers, NULL, NULL)
