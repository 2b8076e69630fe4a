/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Updates of callers, LAMB's norms over many blocks, averages of weights: against double precision and the library's
 * own optimizers, with any split of the weights, and resumed from checkpoints.
 */
#include <ringfire/checkpoint.h>
#include <ringfire/parameter_server.h>

#include "../support/folder.h"
#include "../support/strategies.h"
#include "tests/room.h"

/* The sizes of three variables, the last one longer than four blocks of LAMB's norms. */
enum { A = 70 * 50, B = 3, C = 4099, ALL = A + B + C, BATCH = 8, TOTAL_STEPS = 20 };

/* ---- the model: x (a^2 / 2 + sin(b) + c^4 / 4), whose gradient is x (a, cos(b), c^3) ---- */

typedef struct bowl {
    rf_strategy *strategy;
    rf_variable *a, *b, *c;
    rf_optimizer *optimizer;
    rf_function *function;
    rf_checkpoint *checkpoint;
} bowl;

static rf_result bowl_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const bowl *w = user;
    const rf_tensor a = rf_square(t, rf_variable_tensor(t, w->a)), b = rf_sin(t, rf_variable_tensor(t, w->b)),
                    c = rf_square(t, rf_square(t, rf_variable_tensor(t, w->c)));
    const rf_tensor sum = rf_add(t, rf_multiply(t, rf_reduce_sum(t, a, NULL, 0, RF_DROP_DIMS), rf_constant(t, 0.5f)),
                                 rf_multiply(t, rf_reduce_sum(t, c, NULL, 0, RF_DROP_DIMS), rf_constant(t, 0.25f)));
    const rf_tensor energy = rf_add(t, sum, rf_reduce_sum(t, b, NULL, 0, RF_DROP_DIMS));
    out[0] = rf_compute_average_loss(t, rf_multiply(t, in[0], energy), NULL);
    return rf_optimizer_minimize(t, w->optimizer, out[0],
                                 (rf_variable_list){ (rf_variable *const[]){ w->a, w->b, w->c }, 3 });
}

static void data_of(uint32_t step, float *x)
{
    fill_noise(x, BATCH, 31 + step);
    for (int i = 0; i < BATCH; i++) x[i] = 0.5f * x[i] + 0.6f;
}

static void open_bowl(rf_strategy *strategy, const rf_optimizer_params *params, bowl *w)
{
    float initial[ALL];
    fill_noise(initial, ALL, 5);
    *w = (bowl){ .strategy = strategy };
    const rf_variable_params a = { .name = "a", .shape = RF_SHAPE(70, 50), .value = initial },
                             b = { .name = "b", .shape = RF_SHAPE(B), .value = initial + A },
                             c = { .name = "c", .shape = RF_SHAPE(C), .value = initial + A + B };
    OK(rf_variable_create(strategy, &a, &w->a));
    OK(rf_variable_create(strategy, &b, &w->b));
    OK(rf_variable_create(strategy, &c, &w->c));
    OK(rf_optimizer_create(strategy, params, &w->optimizer));
    const rf_function_params function = { .step = bowl_step, .user = w, .num_outputs = 1, .training = true };
    OK(rf_function_create(strategy, &function, &w->function));
    OK(rf_checkpoint_create(strategy, &w->checkpoint));
    OK(rf_checkpoint_add_variable(w->checkpoint, "a", w->a));
    OK(rf_checkpoint_add_variable(w->checkpoint, "b", w->b));
    OK(rf_checkpoint_add_variable(w->checkpoint, "c", w->c));
    OK(rf_checkpoint_add_optimizer(w->checkpoint, "optimizer", w->optimizer));
}

static void close_bowl(bowl *w)
{
    rf_checkpoint_destroy(&w->checkpoint);
    rf_function_destroy(&w->function);
    rf_optimizer_destroy(&w->optimizer);
    rf_variable_destroy(&w->a);
    rf_variable_destroy(&w->b);
    rf_variable_destroy(&w->c);
}

static rf_result try_bowl(bowl *w, uint32_t step)
{
    float x[BATCH];
    data_of(step, x);
    const rf_element batch = { 1, { array_f32(RF_SHAPE(BATCH), x) } };
    return rf_strategy_run(w->strategy, w->function, &batch, NULL);
}

static void run_bowl(bowl *w, uint32_t first, uint32_t end)
{
    for (uint32_t i = first; i < end; i++) OK(try_bowl(w, i));
}

static void read_bowl(const bowl *w, float *values)
{
    OK(rf_variable_read(w->a, values));
    OK(rf_variable_read(w->b, values + A));
    OK(rf_variable_read(w->c, values + A + B));
    OK(rf_strategy_check_identical(w->strategy, NULL, NULL));
}

/* ---- LAMB in double ---- */

static void lamb_variable(double *w, double *m, double *v, double *g, int count, double decay, uint32_t step)
{
    const double t = step + 1.0;
    double norms[3] = { 0 };
    for (int i = 0; i < count; i++) norms[0] += g[i] * g[i];
    const double norm = sqrt(norms[0]), clip = norm > 2.0 ? 2.0 / norm : 1.0;
    double *direction = g; /* in its place */
    for (int i = 0; i < count; i++) {
        const double gradient = g[i] * clip;
        m[i] = 0.9 * m[i] + 0.1 * gradient;
        v[i] = 0.999 * v[i] + 0.001 * gradient * gradient;
        direction[i] = m[i] / (1 - pow(0.9, t)) / (sqrt(v[i] / (1 - pow(0.999, t))) + 1e-7) + decay * w[i];
        norms[1] += w[i] * w[i];
        norms[2] += direction[i] * direction[i];
    }
    const double ratio = sqrt(norms[1]) / sqrt(norms[2]);
    for (int i = 0; i < count; i++) w[i] -= 0.01 * ratio * direction[i];
}

static const rf_parameter_group bare_b = { .names = "b", .no_weight_decay = true };
static const rf_optimizer_params lamb_params = { .kind = RF_OPTIMIZER_LAMB,
                                                 .learning_rate = 0.01,
                                                 .weight_decay = 0.1,
                                                 .clip_norm = 2.0,
                                                 .groups = &bare_b,
                                                 .num_groups = 1 };

static void lamb_in_blocks(rf_strategy *strategy)
{
    static double w[ALL], m[ALL], v[ALL], g[ALL];
    static float initial[ALL], is[ALL];
    bowl b;
    open_bowl(strategy, &lamb_params, &b);
    memset(m, 0, sizeof(m));
    memset(v, 0, sizeof(v));
    fill_noise(initial, ALL, 5);
    for (int i = 0; i < ALL; i++) w[i] = (double)initial[i];
    for (uint32_t s = 0; s < TOTAL_STEPS; s++) {
        float x[BATCH];
        double mean = 0;
        data_of(s, x);
        for (int i = 0; i < BATCH; i++) mean += (double)x[i] / BATCH;
        for (int i = 0; i < ALL; i++) g[i] = mean * (i < A ? w[i] : i < A + B ? cos(w[i]) : w[i] * w[i] * w[i]);
        lamb_variable(w, m, v, g, A, 0.1, s);
        lamb_variable(w + A, m + A, v + A, g + A, B, 0, s);
        lamb_variable(w + A + B, m + A + B, v + A + B, g + A + B, C, 0.1, s);
    }
    run_bowl(&b, 0, TOTAL_STEPS);
    read_bowl(&b, is);
    for (int i = 0; i < ALL; i++) assert_near(is[i], w[i], 2e-5, 2e-6, "lamb");
    close_bowl(&b);
}
TEST_ON_ONE(lamb_in_blocks)
TEST_ON_TWO(lamb_in_blocks)

/* ---- updates that the library has too ---- */

static rf_result momentum_update(rf_trace *t, const rf_update_inputs *in, rf_tensor *weight, rf_tensor *slots,
                                 void *user)
{
    (void)user;
    slots[0] = rf_subtract(t, rf_multiply(t, in->hyperparameters[0], in->slots[0]),
                           rf_multiply(t, in->learning_rate, in->gradient));
    *weight = rf_add(t, in->weight, slots[0]);
    return rf_trace_status(t);
}

enum { BETA_1, BETA_2, CORRECTION_1, CORRECTION_2, EPSILON, NUM_ADAM };

static void adam_corrections(void *user, uint64_t step, double rate, double *numbers)
{
    (void)rate;
    ++*(uint32_t *)user;
    numbers[CORRECTION_1] = 1 / (1 - pow((float)numbers[BETA_1], (double)step));
    numbers[CORRECTION_2] = 1 / (1 - pow((float)numbers[BETA_2], (double)step));
}

static rf_tensor moving(rf_trace *t, rf_tensor keeps, rf_tensor old, rf_tensor x)
{
    const rf_tensor rest = rf_subtract(t, rf_constant(t, 1), keeps);
    return rf_add(t, rf_multiply(t, keeps, old), rf_multiply(t, rest, x));
}

static rf_result adam_update(rf_trace *t, const rf_update_inputs *in, rf_tensor *weight, rf_tensor *slots, void *user)
{
    (void)user;
    const rf_tensor *h = in->hyperparameters;
    slots[0] = moving(t, h[BETA_1], in->slots[0], in->gradient);
    slots[1] = moving(t, h[BETA_2], in->slots[1], rf_square(t, in->gradient));
    const rf_tensor root = rf_add(t, rf_sqrt(t, rf_multiply(t, slots[1], h[CORRECTION_2])), h[EPSILON]);
    const rf_tensor m = rf_multiply(t, slots[0], h[CORRECTION_1]);
    *weight = rf_subtract(t, in->weight, rf_divide(t, rf_multiply(t, in->learning_rate, m), root));
    return rf_trace_status(t);
}

static uint32_t num_prepared;
static const rf_optimizer_slot velocity = { .name = "velocity" }, moments[] = { { .name = "m" }, { .name = "v" } };
static const rf_hyperparameter friction = { .name = "momentum", .value = 0.9 },
                               adam_numbers[NUM_ADAM] = { [BETA_1] = { .name = "beta_1", .value = 0.9 },
                                                          [BETA_2] = { .name = "beta_2", .value = 0.999 },
                                                          [CORRECTION_1] = { .name = "correction_1" },
                                                          [CORRECTION_2] = { .name = "correction_2" },
                                                          [EPSILON] = { .name = "epsilon", .value = 1e-7 } };
static const rf_custom_optimizer own_momentum = { .name = "my_momentum",
                                                  .update = momentum_update,
                                                  .slots = &velocity,
                                                  .num_slots = 1,
                                                  .hyperparameters = &friction,
                                                  .num_hyperparameters = 1 },
                                 own_adam = { .name = "my_adam",
                                              .update = adam_update,
                                              .user = &num_prepared,
                                              .slots = moments,
                                              .num_slots = 2,
                                              .hyperparameters = adam_numbers,
                                              .num_hyperparameters = NUM_ADAM,
                                              .prepare = adam_corrections };

static void compare_custom(rf_strategy *strategy, const rf_optimizer_params *theirs, const rf_custom_optimizer *own,
                           const char *name)
{
    static float expected[ALL], is[ALL];
    bowl b;
    open_bowl(strategy, theirs, &b);
    run_bowl(&b, 0, TOTAL_STEPS);
    read_bowl(&b, expected);
    const uint64_t updates = rf_optimizer_iterations(b.optimizer);
    close_bowl(&b);
    rf_optimizer_params params = *theirs;
    params.kind = RF_OPTIMIZER_CUSTOM;
    params.custom = own;
    params.momentum = 0;
    open_bowl(strategy, &params, &b);
    run_bowl(&b, 0, TOTAL_STEPS);
    read_bowl(&b, is);
    assert_int_equal(rf_optimizer_iterations(b.optimizer), updates);
    for (int i = 0; i < ALL; i++) assert_near(is[i], expected[i], 2e-6, 2e-7, name);
    if (params.use_ema) {
        OK(rf_optimizer_finalize_variables(b.optimizer));
        read_bowl(&b, is);
        assert_true(memcmp(is, expected, sizeof(is)) != 0);
    }
    close_bowl(&b);
}

static void like_the_librarys(rf_strategy *strategy)
{
    static const rf_schedule schedule = {
        .kind = RF_SCHEDULE_EXPONENTIAL_DECAY, .initial = 0.1, .decay_rate = 0.5, .decay_steps = 5
    };
    static const rf_parameter_group groups[] = { { .names = "b", .rate_factor = 0.5, .no_weight_decay = true },
                                                 { .names = "c", .rate_factor = 2 } };
    static const struct {
        const char *name;
        rf_optimizer_params params;
    } cases[] = {
        { "plain", { .learning_rate = 0.05 } },
        { "schedule", { .schedule = &schedule, .weight_decay = 0.1 } },
        { "groups", { .learning_rate = 0.05, .weight_decay = 0.1, .groups = groups, .num_groups = 2 } },
        { "clip value", { .learning_rate = 0.05, .clip_value = 0.3 } },
        { "clip norm", { .learning_rate = 0.05, .clip_norm = 1, .groups = groups, .num_groups = 2 } },
        { "global clip norm", { .learning_rate = 0.05, .global_clip_norm = 1, .accumulation_steps = 2 } },
        { "average", { .learning_rate = 0.05, .use_ema = true, .ema_momentum = 0.9, .ema_overwrite_frequency = 3 } },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        rf_optimizer_params params = cases[i].params;
        params.momentum = 0.9;
        if (rf_strategy_num_replicas_in_sync(strategy) > 1 && i % 2 == 0) continue;
        compare_custom(strategy, &params, &own_momentum, cases[i].name);
        if (i % 4 != 2) continue;
        params.momentum = 0;
        params.kind = RF_OPTIMIZER_ADAM;
        num_prepared = 0;
        compare_custom(strategy, &params, &own_adam, cases[i].name);
        assert_true(num_prepared >= TOTAL_STEPS / 2);
    }
}
TEST_ON_ONE(like_the_librarys)
TEST_ON_TWO(like_the_librarys)

/* The sums of norms have one order, whoever owns what; other updates have no sums. */
TEST(any_split)
{
    static const rf_mirrored_params ways[] = {
        { .devices = "llvmpipe,llvmpipe" },
        { .devices = "llvmpipe,llvmpipe", .update_mode = RF_UPDATE_LOCAL },
        { .devices = "llvmpipe,llvmpipe", .bucket_bytes = 4096 },
        { .devices = "llvmpipe,llvmpipe", .no_overlap = true },
        { .devices = "llvmpipe,llvmpipe" }, /* with central storage */
    };
    enum { NUM_WAYS = sizeof(ways) / sizeof(ways[0]) };
    const rf_optimizer_params custom = {
        .kind = RF_OPTIMIZER_CUSTOM, .custom = &own_adam, .use_ema = true, .ema_overwrite_frequency = 3
    };
    static float kept[3][ALL], is[ALL];
    for (uint32_t i = 0; i < NUM_WAYS; i++) {
        const rf_central_storage_params central = { .mirrored = ways[i] };
        rf_strategy *strategy;
        bowl b;
        const rf_result r = i + 1 < NUM_WAYS ? rf_strategy_create_mirrored(&ways[i], &strategy)
                                             : rf_strategy_create_central_storage(&central, &strategy);
        if (r == RF_ERROR_NOT_FOUND) SKIP("not installed: llvmpipe");
        OK(r);
        for (int k = 0; k < 3; k++) {
            rf_optimizer_params params = lamb_params;
            params.clip_norm = k == 0 ? 2 : 0;
            params.global_clip_norm = k == 1 ? 2 : 0;
            if (k == 2) params = custom;
            open_bowl(strategy, &params, &b);
            run_bowl(&b, 0, 5);
            read_bowl(&b, i == 0 ? kept[k] : is);
            if (i > 0) assert_memory_equal(is, kept[k], sizeof(is));
            close_bowl(&b);
        }
        rf_strategy_destroy(&strategy);
    }
}

/* ---- slots ---- */

/* Slots that change places, one that stays, one that begins as 2. */
static rf_result shuffling_update(rf_trace *t, const rf_update_inputs *in, rf_tensor *weight, rf_tensor *slots,
                                  void *user)
{
    (void)user;
    slots[0] = in->slots[1];
    slots[1] = in->slots[0];
    slots[3] = in->weight;
    *weight = rf_add(t, rf_multiply(t, in->slots[0], in->hyperparameters[0]), rf_multiply(t, in->step, in->slots[2]));
    return rf_trace_status(t);
}

static void slots_keep_their_places(rf_strategy *strategy)
{
    static const rf_optimizer_slot slots[] = { { .name = "one", .initial = 1 },
                                               { .name = "two", .initial = 2 },
                                               { .name = "ten", .initial = 10 },
                                               { .name = "w" } };
    static const rf_hyperparameter factor = { .name = "factor", .value = 3 };
    const rf_custom_optimizer own = { .name = "shuffle",
                                      .update = shuffling_update,
                                      .slots = slots,
                                      .num_slots = 4,
                                      .hyperparameters = &factor,
                                      .num_hyperparameters = 1 };
    static float w[ALL];
    double value;
    bowl b;
    open_bowl(strategy, &(rf_optimizer_params){ .kind = RF_OPTIMIZER_CUSTOM, .custom = &own }, &b);
    run_bowl(&b, 0, 1);
    read_bowl(&b, w);
    for (int i = 0; i < ALL; i++) assert_near(w[i], 3 * 1 + 10 * 1, 0, 0, "first");
    OK(rf_optimizer_set_hyperparameter(b.optimizer, "factor", 4));
    OK(rf_optimizer_hyperparameter(b.optimizer, "factor", &value));
    assert_true(value == 4);
    run_bowl(&b, 1, 3);
    read_bowl(&b, w);
    for (int i = 0; i < ALL; i++) assert_near(w[i], 4 * 1 + 10 * 3, 0, 0, "third");
    FAILS(rf_optimizer_set_hyperparameter(b.optimizer, "fact", 4), RF_ERROR_NOT_FOUND,
          "'shuffle' has no hyper-parameter 'fact'");
    FAILS(rf_optimizer_set_hyperparameter(b.optimizer, "factor", NAN), RF_ERROR_INVALID_ARGUMENT, "finite");
    close_bowl(&b);
}
TEST_ON_ONE(slots_keep_their_places)
TEST_ON_TWO(slots_keep_their_places)

/* ---- resuming ---- */

static void resumes(rf_strategy *strategy)
{
    static const rf_optimizer_slot slots[] = { { .name = "m", .initial = 0.25f }, { .name = "v" } };
    rf_custom_optimizer adam = own_adam;
    adam.slots = slots;
    const rf_optimizer_params kinds[] = {
        { .kind = RF_OPTIMIZER_LAMB, .weight_decay = 0.1, .use_ema = true, .ema_momentum = 0.9 },
        { .kind = RF_OPTIMIZER_CUSTOM, .custom = &adam, .clip_norm = 1 },
        { .kind = RF_OPTIMIZER_CUSTOM,
          .custom = &own_momentum,
          .use_ema = true,
          .ema_overwrite_frequency = 4,
          .accumulation_steps = 2 },
    };
    static float expected[2][ALL], is[ALL];
    for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
        char folder[SCRATCH_PATH], path[64];
        snprintf(path, sizeof(path), "%s/x.rfck", scratch(folder));
        bowl b;
        open_bowl(strategy, &kinds[k], &b);
        run_bowl(&b, 0, 7);
        OK(rf_checkpoint_save(b.checkpoint, path, NULL));
        run_bowl(&b, 7, 14);
        read_bowl(&b, expected[0]);
        OK(rf_optimizer_finalize_variables(b.optimizer));
        read_bowl(&b, expected[1]);
        close_bowl(&b);
        open_bowl(strategy, &kinds[k], &b);
        if (k != 1) run_bowl(&b, 3, 5); /* what it holds is replaced */
        OK(rf_checkpoint_restore(b.checkpoint, path, NULL));
        run_bowl(&b, 7, 14);
        read_bowl(&b, is);
        assert_memory_equal(is, expected[0], sizeof(is));
        OK(rf_optimizer_finalize_variables(b.optimizer));
        read_bowl(&b, is);
        assert_memory_equal(is, expected[1], sizeof(is));
        close_bowl(&b);
        scratch_remove(folder);
    }
}
TEST_ON_ONE(resumes)
TEST_ON_TWO(resumes)

/* Files name slots and the optimizer; another one's are refused, and so are those without averages. */
static void files(rf_strategy *strategy)
{
    char folder[SCRATCH_PATH], path[64], *report;
    snprintf(path, sizeof(path), "%s/x.rfck", scratch(folder));
    rf_optimizer_params params = { .kind = RF_OPTIMIZER_CUSTOM, .custom = &own_adam };
    bowl b;
    open_bowl(strategy, &params, &b);
    run_bowl(&b, 0, 2);
    OK(rf_checkpoint_save(b.checkpoint, path, NULL));
    OK(rf_optimizer_set_hyperparameter(b.optimizer, "beta_1", 0.5));
    OK(rf_checkpoint_restore(b.checkpoint, path, &(rf_restore_params){ .report = &report }));
    assert_non_null(strstr(report, "optimizer/settings: hyperparameters differ"));
    rf_string_free(report);
    close_bowl(&b);
    params.use_ema = true;
    open_bowl(strategy, &params, &b);
    FAILS(rf_checkpoint_restore(b.checkpoint, path, NULL), RF_ERROR_INVALID_ARGUMENT, "optimizer/average/a");
    close_bowl(&b);
    open_bowl(strategy, &(rf_optimizer_params){ .kind = RF_OPTIMIZER_ADAM }, &b);
    FAILS(rf_checkpoint_restore(b.checkpoint, path, &(rf_restore_params){ .report = &report }),
          RF_ERROR_INVALID_ARGUMENT, "optimizer/kind");
    assert_non_null(strstr(report, "optimizer/kind: my_adam in the file, adam here"));
    rf_string_free(report);
    close_bowl(&b);
    scratch_remove(folder);
}
TEST_ON_ONE(files)

/* ---- averages ---- */

static void swapping(rf_strategy *strategy)
{
    static float w[ALL], average[ALL], is[ALL];
    bowl b;
    open_bowl(strategy, &(rf_optimizer_params){ .learning_rate = 0.1, .use_ema = true, .ema_momentum = 0.5 }, &b);
    OK(rf_optimizer_swap_averages(b.optimizer)); /* of nothing yet */
    FAILS(try_bowl(&b, 0), RF_ERROR_INVALID_ARGUMENT, "exchanged with their averages");
    OK(rf_optimizer_swap_averages(b.optimizer));
    run_bowl(&b, 0, 1);
    read_bowl(&b, w);
    OK(rf_optimizer_swap_averages(b.optimizer));
    read_bowl(&b, is);
    assert_memory_equal(is, w, sizeof(is)); /* after one update */
    OK(rf_optimizer_swap_averages(b.optimizer));
    run_bowl(&b, 1, 3);
    read_bowl(&b, w);
    OK(rf_optimizer_swap_averages(b.optimizer));
    read_bowl(&b, average);
    assert_true(memcmp(w, average, sizeof(w)) != 0);
    FAILS(try_bowl(&b, 3), RF_ERROR_INVALID_ARGUMENT, "rf_optimizer_swap_averages()");
    FAILS(rf_optimizer_finalize_variables(b.optimizer), RF_ERROR_INVALID_ARGUMENT, "exchanged");
    OK(rf_optimizer_swap_averages(b.optimizer));
    read_bowl(&b, is);
    assert_memory_equal(is, w, sizeof(is));
    OK(rf_optimizer_finalize_variables(b.optimizer));
    read_bowl(&b, is);
    assert_memory_equal(is, average, sizeof(is));
    run_bowl(&b, 3, 4);
    close_bowl(&b);
    open_bowl(strategy, NULL, &b);
    FAILS(rf_optimizer_swap_averages(b.optimizer), RF_ERROR_INVALID_ARGUMENT, "use_ema");
    OK(rf_optimizer_finalize_variables(b.optimizer));
    close_bowl(&b);
}
TEST_ON_ONE(swapping)
TEST_ON_TWO(swapping)

static rf_result step_of_a(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const bowl *w = user;
    const rf_tensor sum = rf_reduce_sum(t, rf_square(t, rf_variable_tensor(t, w->a)), NULL, 0, RF_DROP_DIMS);
    (void)out;
    const rf_tensor loss = rf_compute_average_loss(t, rf_multiply(t, in[0], sum), NULL);
    return rf_optimizer_minimize(t, w->optimizer, loss, (rf_variable_list){ (rf_variable *const[]){ w->a }, 1 });
}

/* The average of a variable that another function updates later begins as the variable. */
static void joining_late(rf_strategy *strategy)
{
    static float w[2][ALL], average[ALL];
    char folder[SCRATCH_PATH], path[64];
    bowl b;
    rf_function *whole, *first;
    open_bowl(strategy, &(rf_optimizer_params){ .learning_rate = 0.1, .use_ema = true, .ema_momentum = 0.75 }, &b);
    OK(rf_function_create(strategy, &(rf_function_params){ .step = step_of_a, .user = &b, .training = true }, &first));
    whole = b.function;
    b.function = first;
    run_bowl(&b, 0, 2);
    b.function = whole;
    read_bowl(&b, w[0]);
    snprintf(path, sizeof(path), "%s/x.rfck", scratch(folder));
    OK(rf_checkpoint_save(b.checkpoint, path, NULL));
    for (int restored = 0; restored < 2; restored++) {
        if (restored) OK(rf_checkpoint_restore(b.checkpoint, path, NULL)); /* which has no average of it */
        run_bowl(&b, 2, 3);
        read_bowl(&b, w[1]);
        OK(rf_optimizer_swap_averages(b.optimizer));
        read_bowl(&b, average);
        for (int i = A; i < ALL; i++)
            assert_near(average[i], 0.75 * (double)w[0][i] + 0.25 * (double)w[1][i], 1e-6, 1e-7, "late");
        OK(rf_optimizer_swap_averages(b.optimizer));
    }
    scratch_remove(folder);
    rf_function_destroy(&first);
    close_bowl(&b);
}
TEST_ON_ONE(joining_late)
TEST_ON_TWO(joining_late)

/* fit ends with the averages in the weights, as Keras' does. */
static void fit_ends_with_averages(rf_strategy *strategy)
{
    static float x[24 * 4], y[24], kernel[2][4], average[4];
    fill_noise(x, 24 * 4, 3);
    fill_noise(y, 24, 4);
    const rf_array arrays[] = { array_f32(RF_SHAPE(24, 4), x), array_f32(RF_SHAPE(24, 1), y) };
    rf_dataset *raw, *data;
    OK(rf_dataset_from_arrays(&(rf_dataset_arrays_params){ .arrays = arrays, .num_arrays = 2 }, &raw));
    OK(rf_dataset_batch(raw, 8, RF_REMAINDER_KEEP, &data));
    for (int i = 0; i < 2; i++) {
        rf_layer *layer;
        rf_model *model;
        rf_optimizer *optimizer;
        const rf_shape input = RF_SHAPE(4);
        OK(rf_layer_dense(&(rf_dense_params){ .units = 1, .kernel_initializer = { .kind = RF_INIT_ONES } }, &layer));
        OK(rf_model_create_sequential(strategy, &layer, 1, &input, &model));
        const rf_optimizer_params params = { .learning_rate = 0.1, .use_ema = i == 1, .ema_momentum = i * 0.5 };
        OK(rf_optimizer_create(strategy, &params, &optimizer));
        OK(rf_model_compile(
            model, &(rf_compile_params){ .optimizer = optimizer, .loss = { .kind = RF_LOSS_MEAN_SQUARED_ERROR } }));
        OK(rf_model_fit(model, &(rf_fit_params){ .data = data, .epochs = 2 }, NULL));
        rf_variable *v = rf_model_variables(model).items[0];
        OK(rf_variable_read(v, kernel[i]));
        if (i == 1) {
            OK(rf_optimizer_swap_averages(optimizer));
            OK(rf_variable_read(v, average));
            assert_memory_equal(average, kernel[1], sizeof(average));
        }
        rf_model_destroy(&model);
        rf_optimizer_destroy(&optimizer);
    }
    assert_true(memcmp(kernel[0], kernel[1], sizeof(average)) != 0);
    rf_dataset_destroy(&data);
    rf_dataset_destroy(&raw);
}
TEST_ON_ONE(fit_ends_with_averages)

/* ---- mistakes ---- */

static rf_variable *outside;

enum mistake { REDUCES, READS_VARIABLE, WRONG_SHAPE, NO_WEIGHT, ARRAY, OWN_CODE };

static rf_result wrong_update(rf_trace *t, const rf_update_inputs *in, rf_tensor *weight, rf_tensor *slots, void *user)
{
    float values[2] = { 1, 2 };
    const rf_array array = array_f32(RF_SHAPE(2), values);
    (void)slots;
    *weight = in->weight;
    switch (*(const enum mistake *)user) {
    case REDUCES: *weight = rf_multiply(t, in->weight, rf_reduce_sum(t, in->gradient, NULL, 0, RF_DROP_DIMS)); break;
    case READS_VARIABLE: *weight = rf_multiply(t, in->weight, rf_variable_tensor(t, outside)); break;
    case WRONG_SHAPE: *weight = in->step; break;
    case NO_WEIGHT: *weight = (rf_tensor){ 0 }; break;
    case ARRAY: (void)rf_constant_array(t, &array); break;
    case OWN_CODE: return RF_ERROR_UNSUPPORTED;
    }
    return rf_trace_status(t);
}

static void wrong_updates(rf_strategy *strategy)
{
    static const struct {
        enum mistake mistake;
        rf_result result;
        const char *part;
    } cases[] = {
        { REDUCES, RF_ERROR_UNSUPPORTED, "rf_optimizer_create: the update of 'wrong': reduce is not element-wise" },
        { READS_VARIABLE, RF_ERROR_INVALID_ARGUMENT, "uses variables" },
        { WRONG_SHAPE, RF_ERROR_INVALID_ARGUMENT, "the weight became f32 []" },
        { NO_WEIGHT, RF_ERROR_INVALID_ARGUMENT, "the weight is the invalid tensor" },
        { ARRAY, RF_ERROR_INVALID_ARGUMENT, "a constant has 2 values" },
        { OWN_CODE, RF_ERROR_UNSUPPORTED, "the update of 'wrong'" },
    };
    const float value = 1;
    OK(rf_variable_create(strategy, &(rf_variable_params){ .name = "v", .shape = RF_SHAPE(1), .value = &value },
                          &outside));
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        enum mistake mistake = cases[i].mistake;
        const rf_custom_optimizer own = { .name = "wrong", .update = wrong_update, .user = &mistake };
        rf_optimizer *optimizer;
        FAILS(rf_optimizer_create(strategy, &(rf_optimizer_params){ .kind = RF_OPTIMIZER_CUSTOM, .custom = &own },
                                  &optimizer),
              cases[i].result, cases[i].part);
        assert_null(optimizer);
    }
    rf_variable_destroy(&outside);
}
TEST_ON_ONE(wrong_updates)

static void wrong_descriptions(rf_strategy *strategy)
{
    static const rf_optimizer_slot twice[] = { { .name = "m" }, { .name = "m" } }, slash = { .name = "a/b" },
                                   taken = { .name = "average" };
    const struct {
        rf_optimizer_params params;
        rf_custom_optimizer custom;
        bool with;
        const char *part;
    } cases[] = {
        { { .kind = RF_OPTIMIZER_CUSTOM }, { 0 }, false, "need each other" },
        { { .kind = RF_OPTIMIZER_SGD }, own_momentum, true, "need each other" },
        { { .kind = RF_OPTIMIZER_CUSTOM }, { .name = "x" }, true, "custom.update is NULL" },
        { { .kind = RF_OPTIMIZER_CUSTOM }, { .update = adam_update }, true, "custom.name is missing" },
        { { .kind = RF_OPTIMIZER_CUSTOM }, { .name = "adam", .update = adam_update }, true, "library's" },
        { { .kind = RF_OPTIMIZER_CUSTOM },
          { .name = "x", .update = adam_update, .slots = twice, .num_slots = 2 },
          true,
          "'m' of slot 1 is taken" },
        { { .kind = RF_OPTIMIZER_CUSTOM },
          { .name = "x", .update = adam_update, .slots = &slash, .num_slots = 1 },
          true,
          "'a/b' is not" },
        { { .kind = RF_OPTIMIZER_CUSTOM },
          { .name = "x", .update = adam_update, .slots = &taken, .num_slots = 1 },
          true,
          "'average' of slot 0 is taken" },
        { { .kind = RF_OPTIMIZER_CUSTOM, .beta_1 = 0.5 }, own_adam, true, "beta_1" },
        { { .ema_momentum = 0.5 }, { 0 }, false, "use_ema" },
        { { .use_ema = true, .ema_momentum = 1 }, { 0 }, false, "ema_momentum" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        rf_optimizer_params params = cases[i].params;
        rf_optimizer *optimizer;
        params.custom = cases[i].with ? &cases[i].custom : NULL;
        FAILS(rf_optimizer_create(strategy, &params, &optimizer), RF_ERROR_INVALID_ARGUMENT, cases[i].part);
    }
}
TEST_ON_ONE(wrong_descriptions)

/* Servers have neither whole variables nor code of the program. */
static void servers_refuse(rf_strategy *strategy)
{
    const struct {
        rf_optimizer_params params;
        const char *part;
    } cases[] = {
        { lamb_params, "use clip_value" },
        { { .kind = RF_OPTIMIZER_LAMB }, "norms LAMB needs; use RF_OPTIMIZER_ADAMW, or a mirrored strategy" },
        { { .kind = RF_OPTIMIZER_CUSTOM, .custom = &own_adam }, "code of this process" },
        { { .use_ema = true }, "leave out use_ema" },
        { { .loss_scale = &(const rf_loss_scale_params){ 0 } }, "leave out loss_scale" },
        { { .groups = &(const rf_parameter_group){ .names = "*gamma" }, .num_groups = 1 },
          "groups[0], '*gamma', names none of the 1 variables" },
    };
    bowl b;
    open_bowl(strategy, NULL, &b);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const rf_coordinator_params params = { .variables = { &b.a, 1 }, .optimizer = &cases[i].params };
        rf_coordinator *coordinator;
        FAILS(rf_coordinator_create(&params, &coordinator), RF_ERROR_INVALID_ARGUMENT, cases[i].part);
    }
    close_bowl(&b);
}

static void refuse_coordinator(rf_coordinator_params params, const char *part)
{
    rf_coordinator *coordinator;
    FAILS(rf_coordinator_create(&params, &coordinator), RF_ERROR_INVALID_ARGUMENT, part);
    assert_null(coordinator);
}

/* Servers refuse other lists that the chief can give them, and combinations. */
static void servers_refuse_lists(rf_strategy *strategy)
{
    bowl b;
    rf_optimizer *remote, *adds_up;
    open_bowl(strategy, NULL, &b);
    const rf_variable_list trained = { &b.a, 1 };
    const rf_optimizer_params adam = { .kind = RF_OPTIMIZER_ADAM }, slow = { .accumulation_steps = 2 };
    OK(rf_optimizer_create_remote(strategy, &remote));
    OK(rf_optimizer_create(strategy, &slow, &adds_up));
    refuse_coordinator((rf_coordinator_params){ .variables = trained, .state_variables = trained },
                       "is in variables and in state_variables");
    refuse_coordinator((rf_coordinator_params){ .variables = trained, .state_variables = { NULL, 2 } },
                       "state_variables has 2 entries, but no items");
    refuse_coordinator((rf_coordinator_params){ .variables = trained, .optimizer = &adam, .local_optimizer = adds_up },
                       "optimizer and local_optimizer are both set");
    refuse_coordinator((rf_coordinator_params){ .variables = trained, .local_optimizer = remote }, "has no state");
    refuse_coordinator((rf_coordinator_params){ .variables = trained, .local_optimizer = adds_up },
                       "use accumulation_steps 1");
    rf_optimizer_destroy(&remote);
    rf_optimizer_destroy(&adds_up);
    close_bowl(&b);
}
TEST_ON_ONE(servers_refuse)
TEST_ON_ONE(servers_refuse_lists)

TESTS(custom_optimizers, NULL, NULL)
