/* SPDX-License-Identifier: Apache-2.0 */
/* Twenty updates of optimizers as PyTorch makes them in double precision (make_optimizers.py). */
#include "../support/strategies.h"
#include "tests/room.h"

enum { A = 30, B = 3, C = 40, N = A + B + C, BATCH = 4, STEPS = 20 };

typedef struct fixture {
    float initial[N], batches[STEPS][BATCH * N];
} fixture;

typedef struct learner {
    rf_variable *variables[3];
    rf_optimizer *optimizer;
} learner;

static rf_result half_squares(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const learner *l = user;
    static const int64_t ends[] = { 0, A, A + B, N };
    rf_tensor losses = { 0 };
    for (int i = 0; i < 3; i++) {
        const rf_tensor flat =
            rf_reshape(t, rf_variable_tensor(t, l->variables[i]), RF_SHAPE(1, ends[i + 1] - ends[i]));
        const int64_t begin[] = { 0, ends[i] }, end[] = { INT64_MAX, ends[i + 1] };
        const rf_tensor x = rf_slice(t, in[0], begin, end, NULL, 2);
        const rf_tensor off =
            rf_reduce_sum(t, rf_square(t, rf_subtract(t, flat, x)), (int32_t[]){ 1 }, 1, RF_DROP_DIMS);
        losses = i == 0 ? off : rf_add(t, losses, off);
    }
    out[0] = rf_compute_average_loss(t, rf_multiply(t, losses, rf_constant(t, 0.5f)), NULL);
    return rf_optimizer_minimize(t, l->optimizer, out[0], (rf_variable_list){ l->variables, 3 });
}

static void read_learner(const learner *l, float *w)
{
    OK(rf_variable_read(l->variables[0], w));
    OK(rf_variable_read(l->variables[1], w + A));
    OK(rf_variable_read(l->variables[2], w + A + B));
}

static void agree(const learner *l, const double *expected, const char *name)
{
    float w[N];
    read_learner(l, w);
    for (int i = 0; i < N; i++) assert_near(w[i], expected[i], 1e-5, 1e-6, name);
}

static void read_doubles(FILE *file, double *values, size_t count)
{
    assert_int_equal(fread(values, sizeof(*values), count, file), count);
}

static void follow(rf_strategy *strategy, const fixture *f, const rf_optimizer_params *params, const char *name,
                   FILE *file)
{
    double expected[N];
    learner l;
    rf_function *function;
    const rf_variable_params variables[] = { { .name = "a", .shape = RF_SHAPE(6, 5), .value = f->initial },
                                             { .name = "b", .shape = RF_SHAPE(B), .value = f->initial + A },
                                             { .name = "c", .shape = RF_SHAPE(C), .value = f->initial + A + B } };
    for (int i = 0; i < 3; i++) OK(rf_variable_create(strategy, &variables[i], &l.variables[i]));
    OK(rf_optimizer_create(strategy, params, &l.optimizer));
    const rf_function_params step = { .step = half_squares, .user = &l, .num_outputs = 1, .training = true };
    OK(rf_function_create(strategy, &step, &function));
    for (int s = 0; s < STEPS; s++) {
        float x[BATCH * N];
        memcpy(x, f->batches[s], sizeof(x));
        const rf_element batch = { 1, { array_f32(RF_SHAPE(BATCH, N), x) } };
        OK(rf_strategy_run(strategy, function, &batch, NULL));
        if (s + 1 != STEPS / 2 && s + 1 != STEPS) continue;
        read_doubles(file, expected, N);
        agree(&l, expected, name);
    }
    if (params->use_ema) {
        read_doubles(file, expected, N);
        OK(rf_optimizer_swap_averages(l.optimizer));
        agree(&l, expected, "averages");
    }
    rf_function_destroy(&function);
    rf_optimizer_destroy(&l.optimizer);
    for (int i = 0; i < 3; i++) rf_variable_destroy(&l.variables[i]);
}

static rf_result sgd_update(rf_trace *t, const rf_update_inputs *in, rf_tensor *weight, rf_tensor *slots, void *user)
{
    (void)user;
    slots[0] = rf_add(t, rf_multiply(t, in->slots[0], in->hyperparameters[0]), in->gradient);
    *weight = rf_subtract(t, in->weight, rf_multiply(t, in->learning_rate, slots[0]));
    return rf_trace_status(t);
}

static void as_pytorch(rf_strategy *strategy)
{
    static const rf_parameter_group bare = { .names = "b", .no_weight_decay = true };
    static const rf_parameter_group muons[] = { { .names = "b", .no_weight_decay = true },
                                                { .names = "c", .rate_factor = 0.5 } };
    static const rf_optimizer_slot buffer = { .name = "momentum_buffer" };
    static const rf_hyperparameter momentum = { .name = "momentum", .value = 0.9 };
    static const rf_custom_optimizer sgd = { .name = "torch_sgd",
                                             .update = sgd_update,
                                             .slots = &buffer,
                                             .num_slots = 1,
                                             .hyperparameters = &momentum,
                                             .num_hyperparameters = 1 };
    static const struct {
        const char *name;
        rf_optimizer_params params;
    } cases[] = {
        { "adagrad", { .kind = RF_OPTIMIZER_ADAGRAD, .learning_rate = 0.1 } },
        { "nadam", { .kind = RF_OPTIMIZER_NADAM, .learning_rate = 0.01 } },
        { "lion", { .kind = RF_OPTIMIZER_LION, .learning_rate = 0.01, .weight_decay = 0.1 } },
        { "lamb",
          { .kind = RF_OPTIMIZER_LAMB,
            .learning_rate = 0.01,
            .weight_decay = 0.1,
            .clip_norm = 0.5,
            .groups = &bare,
            .num_groups = 1 } },
        { "adamw", { .kind = RF_OPTIMIZER_ADAMW, .learning_rate = 0.01, .weight_decay = 0.1 } },
        { "custom momentum", { .kind = RF_OPTIMIZER_CUSTOM, .custom = &sgd, .learning_rate = 0.05 } },
        { "muon",
          { .kind = RF_OPTIMIZER_MUON,
            .learning_rate = 0.01,
            .weight_decay = 0.1,
            .global_clip_norm = 3,
            .groups = muons,
            .num_groups = 2 } },
        { "average", { .kind = RF_OPTIMIZER_ADAM, .learning_rate = 0.01, .use_ema = true, .ema_momentum = 0.9 } },
    };
    static fixture f;
    FILE *file = fopen(FIXTURES "/optimizers.bin", "rb");
    assert_non_null(file);
    assert_int_equal(fread(&f, sizeof(f), 1, file), 1);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        follow(strategy, &f, &cases[i].params, cases[i].name, file);
    assert_int_equal(fgetc(file), EOF);
    fclose(file);
}
TEST_ON_ONE(as_pytorch)
TEST_ON_TWO(as_pytorch)

TESTS(optimizer_oracle, NULL, NULL)
