/* SPDX-License-Identifier: Apache-2.0 */
/* Values that an update leaves alone, and what it makes of numbers that are far from 1: rules that hold for every
 * kind. */
#include <unistd.h>

#include "../support/strategies.h"
#include "tests/room.h"
#include "train/optimizer/optimizer.h"

enum { EXAMPLES = 4, MOST = 64 };
static float ones[EXAMPLES] = { 1, 1, 1, 1 };

/* A step over two variables. */
typedef struct net {
    rf_strategy *strategy;
    rf_variable *variables[2], *momentums[2];
    rf_optimizer *optimizer;
    uint32_t branch; /* the variable that the loss depends on */
    float factor;    /* of the gradients, where the step applies them; 0: it minimises */
    const float *slopes;
} net;

static rf_variable *scalar(rf_strategy *strategy, float value)
{
    rf_variable *v;
    OK(rf_variable_create(strategy, &(rf_variable_params){ .shape = RF_SCALAR_SHAPE, .value = &value }, &v));
    return v;
}

static float value_of(const rf_variable *v)
{
    float value;
    OK(rf_variable_read(v, &value));
    return value;
}

static void run_training(net *n, rf_step_fn step, uint32_t times)
{
    rf_function *f;
    OK(rf_function_create(n->strategy, &(rf_function_params){ .step = step, .user = n, .training = true }, &f));
    const rf_element batch = { 1, { array_f32(RF_SHAPE(EXAMPLES), ones) } };
    for (uint32_t i = 0; i < times; i++) OK(rf_strategy_run(n->strategy, f, &batch, NULL));
    rf_function_destroy(&f);
}

static void free_net(net *n)
{
    for (uint32_t i = 0; i < 2; i++) rf_variable_destroy(&n->variables[i]);
    rf_optimizer_destroy(&n->optimizer);
}

/* ---- variables without influence on the loss ---- */

static rf_result branch_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    net *n = user;
    const rf_variable_list all = { n->variables, 2 };
    rf_tensor wanted[2], g[2];
    (void)out;
    const rf_tensor y = rf_square(t, rf_multiply(t, in[0], rf_variable_tensor(t, n->variables[n->branch])));
    const rf_tensor loss = rf_compute_average_loss(t, y, NULL);
    if (n->factor == 0) return rf_optimizer_minimize(t, n->optimizer, loss, all);
    for (uint32_t i = 0; i < 2; i++) wanted[i] = rf_variable_tensor(t, n->variables[i]);
    (void)rf_gradients(t, loss, wanted, 2, g);
    for (uint32_t i = 0; i < 2; i++) g[i] = rf_multiply(t, g[i], rf_constant(t, n->factor));
    return rf_optimizer_apply_gradients(t, n->optimizer, g, all);
}

static char last_warning[512];
static void keep_warning(void *user, rf_log_level level, const char *message)
{
    (void)user;
    (void)level;
    snprintf(last_warning, sizeof(last_warning), "%s", message);
}

static void no_influence(rf_strategy *strategy)
{
    static const rf_optimizer_params kinds[] = {
        { .learning_rate = 0.1, .momentum = 0.9, .weight_decay = 0.1 },
        { .kind = RF_OPTIMIZER_ADAM, .learning_rate = 0.1 },
        { .kind = RF_OPTIMIZER_ADAMW, .learning_rate = 0.1, .global_clip_norm = 1 },
        { .kind = RF_OPTIMIZER_LAMB, .learning_rate = 0.1, .weight_decay = 0.1 },
        { .kind = RF_OPTIMIZER_RMSPROP, .learning_rate = 0.1, .momentum = 0.5, .use_ema = true },
    };
    rf_log_set(keep_warning, NULL, RF_LOG_WARN);
    for (uint32_t k = 0; k < 2 * sizeof(kinds) / sizeof(kinds[0]); k++) {
        net n = { .strategy = strategy, .factor = k % 2 ? 0.5f : 0 };
        for (uint32_t i = 0; i < 2; i++) n.variables[i] = scalar(strategy, 1);
        OK(rf_optimizer_create(strategy, &kinds[k / 2], &n.optimizer));
        last_warning[0] = '\0';
        run_training(&n, branch_step, 3);
        assert_true(value_of(n.variables[1]) == 1.0f);
        assert_non_null(strstr(last_warning, rf_variable_name(n.variables[1])));
        assert_null(strstr(last_warning, rf_variable_name(n.variables[0])));
        /* Nor does what it has gathered move the first one, once the other is trained. */
        const float before = value_of(n.variables[0]);
        assert_true(before < 1.0f);
        n.branch = 1;
        run_training(&n, branch_step, 3);
        assert_true(value_of(n.variables[0]) == before);
        assert_true(value_of(n.variables[1]) < 1.0f);
        free_net(&n);
    }
    rf_log_set(NULL, NULL, RF_LOG_WARN);
}
TEST_ON_ONE(no_influence)
TEST_ON_TWO(no_influence)

/* Two matrices, of which the loss has the first: neither the other nor its momentum moves. */
static rf_result muon_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    net *n = user;
    const rf_tensor wanted[2] = { rf_variable_tensor(t, n->variables[0]), rf_variable_tensor(t, n->variables[1]) };
    rf_tensor g[2];
    (void)out;
    const rf_tensor loss = rf_compute_average_loss(
        t, rf_multiply(t, in[0], rf_reduce_sum(t, rf_square(t, wanted[0]), NULL, 0, RF_DROP_DIMS)), NULL);
    (void)rf_gradients(t, loss, wanted, 2, g);
    return rf_optimizer_apply_muon(t, n->optimizer, g, (rf_variable_list){ n->variables, 2 }, n->momentums, 0.5, 0);
}

static void no_influence_muon(rf_strategy *strategy)
{
    net n = { .strategy = strategy };
    const float ones_of[4] = { 1, 0, 0, 1 };
    for (uint32_t i = 0; i < 2; i++) {
        rf_variable_params p = { .shape = RF_SHAPE(2, 2), .value = ones_of };
        OK(rf_variable_create(strategy, &p, &n.variables[i]));
        p.not_trainable = true;
        OK(rf_variable_create(strategy, &p, &n.momentums[i]));
    }
    OK(rf_optimizer_create(strategy, &(rf_optimizer_params){ .learning_rate = 0.1, .weight_decay = 0.1 },
                           &n.optimizer));
    run_training(&n, muon_step, 2);
    float values[4];
    OK(rf_variable_read(n.variables[0], values));
    assert_true(values[0] < 1.0f);
    OK(rf_variable_read(n.variables[1], values));
    assert_memory_equal(values, ones_of, sizeof(values));
    OK(rf_variable_read(n.momentums[1], values));
    assert_memory_equal(values, ones_of, sizeof(values));
    for (uint32_t i = 0; i < 2; i++) rf_variable_destroy(&n.momentums[i]);
    free_net(&n);
}
TEST_ON_ONE(no_influence_muon)
TEST_ON_TWO(no_influence_muon)

/* Servers would move it. */
static void no_influence_remote(rf_strategy *strategy)
{
    net n = { .strategy = strategy };
    for (uint32_t i = 0; i < 2; i++) n.variables[i] = scalar(strategy, 1);
    OK(rf_optimizer_create_remote(strategy, &n.optimizer));
    rf_function *f;
    OK(rf_function_create(strategy, &(rf_function_params){ .step = branch_step, .user = &n, .training = true }, &f));
    FAILS(rf_strategy_run(strategy, f, &(rf_element){ 1, { array_f32(RF_SHAPE(EXAMPLES), ones) } }, NULL),
          RF_ERROR_UNSUPPORTED, rf_variable_name(n.variables[1]));
    rf_function_destroy(&f);
    free_net(&n);
}
TEST_ON_ONE(no_influence_remote)

/* ---- norms of numbers whose squares are no floats ---- */

static rf_result slope_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    net *n = user;
    rf_tensor loss = { 0, 0 };
    (void)out;
    for (uint32_t i = 0; i < 2; i++) {
        const rf_tensor sum = rf_reduce_sum(t, rf_variable_tensor(t, n->variables[i]), NULL, 0, RF_DROP_DIMS);
        const rf_tensor part = rf_multiply(t, in[0], rf_multiply(t, sum, rf_constant(t, n->slopes[i])));
        loss = i == 0 ? part : rf_add(t, loss, part);
    }
    return rf_optimizer_minimize(t, n->optimizer, rf_compute_average_loss(t, loss, NULL),
                                 (rf_variable_list){ n->variables, 2 });
}

/* Every element of variable i has the gradient slopes[i]; the variables become what is expected of one element. */
static void take_step(rf_strategy *strategy, const rf_optimizer_params *p, rf_shape shape, const float *slopes,
                      float begin, const double *expected)
{
    net n = { .strategy = strategy, .slopes = slopes };
    float values[MOST];
    const size_t count = (size_t)rf_shape_count(shape);
    assert_in_range(count, 1, MOST);
    for (size_t i = 0; i < count; i++) values[i] = begin;
    for (uint32_t i = 0; i < 2; i++)
        OK(rf_variable_create(strategy, &(rf_variable_params){ .shape = shape, .value = values }, &n.variables[i]));
    OK(rf_optimizer_create(strategy, p, &n.optimizer));
    run_training(&n, slope_step, 1);
    for (uint32_t i = 0; i < 2; i++) {
        OK(rf_variable_read(n.variables[i], values));
        for (size_t k = 0; k < count; k++) assert_near(values[k], expected[i], 1e-5, 1e-12, "variable");
    }
    free_net(&n);
}

static void clipped(rf_strategy *strategy)
{
    static const float sizes[] = { 1e-3f, 1e18f, 1e19f, 2e19f, 1e25f, 1e30f, 1e35f };
    const rf_shape shape = RF_SHAPE(16);
    for (uint32_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        const float slopes[2] = { sizes[i], sizes[i] / 4 };
        const double norm = 4 * (double)sizes[i] * sqrt(1 + 1.0 / 16),
                     own[2] = { 4 * (double)sizes[i], (double)sizes[i] };
        const double all = norm > 1 ? 1 / norm : 1;
        const double global[2] = { -slopes[0] * all, -slopes[1] * all };
        const double each[2] = { -slopes[0] * (own[0] > 1 ? 1 / own[0] : 1),
                                 -slopes[1] * (own[1] > 1 ? 1 / own[1] : 1) };
        take_step(strategy, &(rf_optimizer_params){ .learning_rate = 1, .global_clip_norm = 1 }, shape, slopes, 0,
                  global);
        take_step(strategy, &(rf_optimizer_params){ .learning_rate = 1, .clip_norm = 1 }, shape, slopes, 0, each);
    }
    /* An infinite norm is not clipped away. */
    net n = { .strategy = strategy, .slopes = (const float[]){ INFINITY, 1 } };
    for (uint32_t i = 0; i < 2; i++) n.variables[i] = scalar(strategy, 0);
    OK(rf_optimizer_create(strategy, &(rf_optimizer_params){ .learning_rate = 1, .clip_norm = 1 }, &n.optimizer));
    run_training(&n, slope_step, 1);
    assert_false(isfinite(value_of(n.variables[0])));
    assert_near(value_of(n.variables[1]), -1, 1e-6, 0, "the other variable");
    free_net(&n);
}
TEST_ON_ONE(clipped)
TEST_ON_TWO(clipped)

/* LAMB's step has the length of the weights, however long they are. */
static void weights_of_any_size(rf_strategy *strategy)
{
    static const float sizes[] = { 1e-10f, 1, 1e20f, 1e30f };
    for (uint32_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        const double after = (double)sizes[i] * (1 - 0.5);
        const rf_optimizer_params lamb = { .kind = RF_OPTIMIZER_LAMB, .learning_rate = 0.5 };
        net n = { .strategy = strategy, .slopes = (const float[]){ 1, 1 } };
        for (uint32_t k = 0; k < 2; k++) n.variables[k] = scalar(strategy, sizes[i]);
        OK(rf_optimizer_create(strategy, &lamb, &n.optimizer));
        run_training(&n, slope_step, 1);
        for (uint32_t k = 0; k < 2; k++) assert_near(value_of(n.variables[k]) / after, 1, 1e-5, 0, "LAMB");
        free_net(&n);
    }
}
TEST_ON_ONE(weights_of_any_size)
TEST_ON_TWO(weights_of_any_size)

/* Muon's step has one length, however long gradients are. */
static void matrices_of_any_size(rf_strategy *strategy)
{
    static const float sizes[] = { 1, 1e10f, 1e19f, 1e25f, 1e35f };
    const rf_shape shape = RF_SHAPE(8, 4);
    const rf_optimizer_params muon = { .kind = RF_OPTIMIZER_MUON, .learning_rate = 0.1 };
    float first[MOST], values[MOST];
    for (uint32_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        net n = { .strategy = strategy, .slopes = (const float[]){ sizes[i], sizes[i] / 2 } };
        for (uint32_t k = 0; k < 2; k++) {
            const rf_initializer zeros = { .kind = RF_INIT_ZEROS };
            OK(rf_variable_create(strategy, &(rf_variable_params){ .shape = shape, .initializer = zeros },
                                  &n.variables[k]));
        }
        OK(rf_optimizer_create(strategy, &muon, &n.optimizer));
        run_training(&n, slope_step, 1);
        OK(rf_variable_read(n.variables[1], values));
        assert_true(fabsf(values[0]) > 1e-4f);
        if (i == 0) memcpy(first, values, sizeof(first));
        for (int k = 0; k < 32; k++) assert_near(values[k], first[k], 1e-4, 0, "Muon");
        free_net(&n);
    }
}
TEST_ON_ONE(matrices_of_any_size)
TEST_ON_TWO(matrices_of_any_size)

/* ---- functions that do not train ---- */

static rf_layer *training_layer(uint32_t kind)
{
    rf_layer *layer = NULL;
    switch (kind) {
    case 0: OK(rf_layer_dropout(0.5, 0, &layer)); break;
    case 1: OK(rf_layer_gaussian_noise(1, 0, &layer)); break;
    case 2: OK(rf_layer_gaussian_dropout(0.5, 0, &layer)); break;
    case 3: OK(rf_layer_spatial_dropout1d(0.5, 0, &layer)); break;
    case 4: OK(rf_layer_batch_norm(NULL, &layer)); break;
    default: break;
    }
    return layer;
}

/* Whether the layer does with x what inference does, and leaves its averages as they are. */
static void layers_without_flag(rf_strategy *strategy)
{
    float x[8];
    fill_noise(x, 8, 5);
    const rf_element batch = { 1, { array_f32(RF_SHAPE(4, 2, 1), x) } };
    for (uint32_t k = 0; k < 10; k++) {
        rf_layer *layer = training_layer(k / 2);
        rf_model *model;
        rf_function *f;
        rf_per_replica *result;
        rf_array y;
        OK(rf_model_create_sequential(strategy, &layer, 1, &RF_SHAPE(2, 1), &model));
        const rf_function_params p = { .step = call_for_training, .user = model, .num_outputs = 1, .training = k % 2 };
        OK(rf_function_create(strategy, &p, &f));
        OK(rf_strategy_run(strategy, f, &batch, &result));
        OK(rf_strategy_gather(strategy, result, &y));
        bool same = true;
        for (int i = 0; i < 8; i++) same = same && fabsf(((float *)y.data)[i] - x[i]) < 1e-2f * fabsf(x[i]);
        assert_int_equal(same, !p.training);
        if (k / 2 == 4) {
            const float mean = value_of(rf_layer_variable(layer, "moving_mean"));
            assert_int_equal(mean == 0, !p.training);
        }
        rf_array_free(&y);
        rf_function_destroy(&f);
        rf_model_destroy(&model);
    }
}
TEST_ON_ONE(layers_without_flag)

static rf_result apply_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    net *n = user;
    n->factor = 1;
    return branch_step(t, in, out, n);
}

static void update_without_flag(rf_strategy *strategy)
{
    net n = { .strategy = strategy };
    for (uint32_t i = 0; i < 2; i++) n.variables[i] = scalar(strategy, 1);
    OK(rf_optimizer_create(strategy, NULL, &n.optimizer));
    const rf_element batch = { 1, { array_f32(RF_SHAPE(EXAMPLES), ones) } };
    for (int i = 0; i < 2; i++) {
        rf_function *f;
        OK(rf_function_create(strategy, &(rf_function_params){ .step = i ? apply_step : branch_step, .user = &n }, &f));
        FAILS(rf_strategy_run(strategy, f, &batch, NULL), RF_ERROR_INVALID_ARGUMENT, "rf_function_params::training");
        rf_function_destroy(&f);
    }
    assert_true(value_of(n.variables[0]) == 1.0f);
    free_net(&n);
}
TEST_ON_ONE(update_without_flag)

/* ---- what is trained is known when a model is compiled ---- */

typedef struct frozen_net {
    rf_model *model;
    rf_layer *inner[2], *layers[2]; /* applied to each step of time, so that lengths are signatures */
    rf_optimizer *optimizer;
    float before[2];
} frozen_net;

static void frozen_compile(frozen_net *n)
{
    const rf_compile_params p = { .optimizer = n->optimizer, .loss = { RF_LOSS_MEAN_SQUARED_ERROR } };
    OK(rf_model_compile(n->model, &p));
}

static frozen_net frozen_create(rf_strategy *strategy)
{
    frozen_net n = { 0 };
    for (int i = 0; i < 2; i++) {
        OK(rf_layer_dense(&(rf_dense_params){ .units = 2 - i }, &n.inner[i]));
        OK(rf_layer_time_distributed(n.inner[i], i ? "second" : "first", &n.layers[i]));
    }
    OK(rf_model_create_sequential(strategy, n.layers, 2, NULL, &n.model));
    OK(rf_optimizer_create(strategy, &(rf_optimizer_params){ .learning_rate = 0.1 }, &n.optimizer));
    return n;
}

static float first_weight(rf_layer *layer)
{
    float kernel[4] = { 0 };
    OK(rf_variable_read(rf_layer_variable(layer, "kernel"), kernel));
    return kernel[0];
}

/* Fits sequences of `length` steps; which layers has it trained? Bit i of the result is layer i. */
static unsigned frozen_fit(frozen_net *n, int length)
{
    float x[2 * 8 * 2], y[2 * 8];
    fill_noise(x, 32, 3);
    fill_noise(y, 16, 4);
    rf_array arrays[2] = { array_f32(RF_SHAPE(2, length, 2), x), array_f32(RF_SHAPE(2, length, 1), y) };
    rf_dataset *rows, *batches;
    if (!rf_layer_variable(n->layers[0], "kernel")) OK(rf_model_build(n->model, RF_SHAPE(length, 2)));
    for (int i = 0; i < 2; i++) n->before[i] = first_weight(n->layers[i]);
    OK(rf_dataset_from_arrays(&(rf_dataset_arrays_params){ .arrays = arrays, .num_arrays = 2 }, &rows));
    OK(rf_dataset_batch(rows, 2, RF_REMAINDER_KEEP, &batches));
    OK(rf_model_fit(n->model, &(rf_fit_params){ .data = batches }, NULL));
    rf_dataset_destroy(&batches);
    rf_dataset_destroy(&rows);
    unsigned trained = 0;
    for (unsigned i = 0; i < 2; i++) trained |= (unsigned)(first_weight(n->layers[i]) != n->before[i]) << i;
    return trained;
}

static void frozen_after_compile(rf_strategy *strategy)
{
    frozen_net n = frozen_create(strategy);
    frozen_compile(&n);
    rf_layer_set_trainable(n.layers[0], false); /* before anything is built or traced */
    assert_int_equal(frozen_fit(&n, 3), 3);
    assert_false(rf_layer_trainable(n.layers[0])); /* as the program left it */
    assert_int_equal(rf_model_variables(n.model).count, 2);
    assert_int_equal(frozen_fit(&n, 5), 3); /* another trace */
    frozen_compile(&n);
    rf_layer_set_trainable(n.layers[0], true);
    assert_int_equal(frozen_fit(&n, 3), 2);
    assert_int_equal(frozen_fit(&n, 7), 2);
    rf_layer_set_trainable(n.layers[1], false);
    frozen_compile(&n);
    assert_int_equal(frozen_fit(&n, 3), 1);
    rf_layer_set_trainable(n.layers[1], true);
    rf_layer_set_trainable(n.inner[1], false); /* through the layer within */
    frozen_compile(&n);
    assert_int_equal(frozen_fit(&n, 3), 1);
    rf_layer_set_trainable(n.layers[1], false);
    rf_layer_set_trainable(n.layers[0], false);
    frozen_compile(&n);
    float x[4] = { 0 };
    rf_array arrays[2] = { array_f32(RF_SHAPE(1, 2, 2), x), array_f32(RF_SHAPE(1, 2, 1), x) };
    rf_dataset *rows, *batches;
    OK(rf_dataset_from_arrays(&(rf_dataset_arrays_params){ .arrays = arrays, .num_arrays = 2 }, &rows));
    OK(rf_dataset_batch(rows, 1, RF_REMAINDER_KEEP, &batches));
    FAILS(rf_model_fit(n.model, &(rf_fit_params){ .data = batches }, NULL), RF_ERROR_INVALID_ARGUMENT, "frozen");
    rf_dataset_destroy(&batches);
    rf_dataset_destroy(&rows);
    rf_model_destroy(&n.model);
    rf_optimizer_destroy(&n.optimizer);
}
TEST_ON_ONE(frozen_after_compile)

/* ---- schedules ---- */

/* Each period of cosine restarts that begins at a whole step does so with `initial`, however many there were before. */
TEST(restarts_begin_high)
{
    static const double growths[] = { 1, 1.1, 1.25, 1.5, 2, 3, 5, 6, 7, 10 };
    static const uint64_t lengths[] = { 1, 3, 7, 24, 100, 1000, 4096 };
    (void)state;
    for (int g = 0; g < 10; g++)
        for (int l = 0; l < 7; l++) {
            const rf_schedule s = {
                .kind = RF_SCHEDULE_COSINE_RESTARTS, .initial = 1, .decay_steps = lengths[l], .t_mul = growths[g]
            };
            long double begin = 0, length = (long double)lengths[l]; /* 1.1 is not exact */
            for (int n = 0; n < 40 && begin < 1e12L; n++, begin += length, length *= (long double)growths[g])
                if (fabsl(begin - roundl(begin)) < 1e-9L)
                    assert_near(rf_schedule_value(&s, (uint64_t)roundl(begin)), 1, 1e-9, 0, "first rate of a period");
        }
}

/* ---- models that are replaced ---- */

/* One optimizer trains a model after the other: what it keeps of those that are gone goes too. */
static void optimizer_forgets(rf_strategy *strategy)
{
    rf_optimizer *optimizer;
    OK(rf_optimizer_create(strategy, &(rf_optimizer_params){ .kind = RF_OPTIMIZER_ADAM }, &optimizer));
    net n = { .strategy = strategy, .optimizer = optimizer };
    n.variables[0] = scalar(strategy, 1);
    n.variables[1] = scalar(strategy, 1); /* stays, with its state */
    n.branch = 1;
    run_training(&n, branch_step, 1);
    n.branch = 0;
    const float before = value_of(n.variables[1]);
    for (int i = 0; i < 8; i++) {
        rf_variable *next = scalar(strategy, 1);
        rf_variable_destroy(&n.variables[0]);
        n.variables[0] = next;
        run_training(&n, branch_step, 2);
        assert_true(value_of(n.variables[0]) < 1.0f);
    }
    assert_true(value_of(n.variables[1]) == before);
    assert_in_range(rf_updater_variables(rf_optimizer_updater(optimizer)).count, 2, 3);
    free_net(&n);
}
TEST_ON_ONE(optimizer_forgets)
TEST_ON_TWO(optimizer_forgets)

/* ---- accumulated steps count as much as what their losses were divided by ---- */

enum { ROWS = 8, TOKENS = 3, MICRO = 3 };
static const uint32_t micro_rows[MICRO] = { 5, 1, 2 };

typedef enum way {
    BY_EXAMPLES,
    BY_TOKENS,
    BY_MEAN,
    BY_TOKENS_TWICE, /* two losses with the same weights, of other shapes, and a penalty that is a mean of variables */
    APPLIED,
    APPLIED_CLIPPED,
    BY_TOKENS_APPLIED,
    NUM_WAYS,
    BY_BOTH = NUM_WAYS, /* the rest is refused */
    BY_OTHER_TOKENS
} way;

typedef struct accumulation {
    rf_strategy *strategy;
    way way;
    rf_variable *kernel, *bias;
    rf_optimizer *optimizer;
    rf_function *step;
    float x[ROWS][TOKENS], y[ROWS][TOKENS], weights[ROWS][TOKENS];
} accumulation;

static rf_result apply_own(rf_trace *t, accumulation *a, rf_tensor loss, bool clips)
{
    rf_variable *const all[2] = { a->kernel, a->bias };
    const rf_tensor wanted[2] = { rf_variable_tensor(t, a->kernel), rf_variable_tensor(t, a->bias) };
    rf_tensor g[2];
    (void)rf_gradients(t, loss, wanted, 2, g);
    for (int i = 0; i < 2 && clips; i++) g[i] = rf_clip(t, g[i], -0.05f, 0.05f);
    return rf_optimizer_apply_gradients(t, a->optimizer, g, (rf_variable_list){ all, 2 });
}

static rf_tensor accumulated_loss(rf_trace *t, const accumulation *a, rf_tensor losses, const rf_tensor *in)
{
    const rf_tensor by_tokens = rf_compute_weighted_loss(t, losses, in[2]);
    const rf_tensor squares = rf_multiply(t, losses, losses), kernel = rf_variable_tensor(t, a->kernel);
    const rf_tensor pair[2] = { kernel, kernel };
    rf_tensor sum;
    switch (a->way) {
    case BY_TOKENS:
    case BY_TOKENS_APPLIED: return by_tokens;
    case BY_MEAN: return rf_reduce_mean(t, losses, NULL, 0, RF_DROP_DIMS);
    case BY_TOKENS_TWICE:
        sum = rf_add(t, by_tokens,
                     rf_compute_weighted_loss(t, rf_stack(t, (rf_tensor[]){ losses, squares }, 2, 2),
                                              rf_expand_dims(t, in[2], 2)));
        return rf_add(
            t, sum, rf_scale_regularization_loss(t, rf_reduce_mean(t, rf_stack(t, pair, 2, 0), NULL, 0, RF_DROP_DIMS)));
    case BY_BOTH: return rf_add(t, by_tokens, rf_compute_average_loss(t, squares, NULL));
    case BY_OTHER_TOKENS:
        return rf_add(t, by_tokens, rf_compute_weighted_loss(t, squares, rf_subtract(t, rf_constant(t, 1), in[2])));
    default: return rf_compute_average_loss(t, losses, NULL);
    }
}

static rf_result accumulating_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    accumulation *a = user;
    (void)out;
    const rf_tensor p =
        rf_add(t, rf_multiply(t, in[0], rf_variable_tensor(t, a->kernel)), rf_variable_tensor(t, a->bias));
    const rf_tensor losses = rf_square(t, rf_subtract(t, p, in[1]));
    rf_tensor loss = rf_multiply(t, accumulated_loss(t, a, losses, in), rf_constant(t, 0.5f));
    const rf_tensor penalty = rf_square(t, rf_variable_tensor(t, a->kernel));
    loss = rf_add(t, loss, rf_scale_regularization_loss(t, rf_multiply(t, penalty, rf_constant(t, 0.01f))));
    if (a->way >= APPLIED && a->way < NUM_WAYS) return apply_own(t, a, loss, a->way == APPLIED_CLIPPED);
    rf_variable *const all[2] = { a->kernel, a->bias };
    return rf_optimizer_minimize(t, a->optimizer, loss, (rf_variable_list){ all, 2 });
}

static void accumulation_create(accumulation *a, const rf_optimizer_params *p, uint32_t steps)
{
    rf_optimizer_params params = *p;
    params.accumulation_steps = steps;
    a->kernel = scalar(a->strategy, 1);
    a->bias = scalar(a->strategy, 0.25f);
    OK(rf_optimizer_create(a->strategy, &params, &a->optimizer));
    const rf_function_params f = { .step = accumulating_step, .user = a, .training = true };
    OK(rf_function_create(a->strategy, &f, &a->step));
    fill_noise(&a->x[0][0], ROWS * TOKENS, 1);
    fill_noise(&a->y[0][0], ROWS * TOKENS, 2);
    for (int i = 0; i < ROWS; i++)
        for (int k = 0; k < TOKENS; k++) a->weights[i][k] = (float)(k <= i % TOKENS && i != 5); /* row 5 has none */
}

static void accumulation_free(accumulation *a)
{
    rf_function_destroy(&a->step);
    rf_optimizer_destroy(&a->optimizer);
    rf_variable_destroy(&a->kernel);
    rf_variable_destroy(&a->bias);
}

static rf_result try_rows(accumulation *a, uint32_t first, uint32_t count)
{
    const rf_shape shape = RF_SHAPE(count, TOKENS);
    const rf_element batch = {
        3, { array_f32(shape, a->x[first]), array_f32(shape, a->y[first]), array_f32(shape, a->weights[first]) }
    };
    return rf_strategy_run(a->strategy, a->step, &batch, NULL);
}

static void run_rows(accumulation *a, uint32_t first, uint32_t count)
{
    OK(try_rows(a, first, count));
}

/* Micro-steps begin to end - 1. */
static void run_micro(accumulation *a, uint32_t begin, uint32_t end)
{
    uint32_t first = 0;
    for (uint32_t i = 0; i < end; first += micro_rows[i++])
        if (i >= begin) run_rows(a, first, micro_rows[i]);
}

static void unequal_steps(rf_strategy *strategy)
{
    static const rf_loss_scale_params scaled = { .initial = 1024 };
    static const rf_optimizer_params kinds[] = { { .learning_rate = 0.1 },
                                                 { .learning_rate = 0.1, .global_clip_norm = 0.05 },
                                                 { .kind = RF_OPTIMIZER_ADAM, .epsilon = 0.1, .learning_rate = 0.1 },
                                                 { .kind = RF_OPTIMIZER_LAMB, .epsilon = 0.1, .learning_rate = 0.1 },
                                                 { .learning_rate = 0.1, .loss_scale = &scaled } };
    const bool one = rf_strategy_num_replicas_in_sync(strategy) == 1;
    for (uint32_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++)
        for (way w = 0; w < NUM_WAYS; w++) {
            if ((w >= APPLIED && k == 4) || (w == BY_MEAN && !one))
                continue; /* takes no scaled loss; is of one replica */
            accumulation whole = { .strategy = strategy, .way = w }, parts = whole;
            accumulation_create(&whole, &kinds[k], 1);
            accumulation_create(&parts, &kinds[k], MICRO);
            for (int update = 0; update < 2; update++) { /* the second begins anew */
                run_rows(&whole, 0, ROWS);
                run_micro(&parts, 0, MICRO);
                assert_near(value_of(parts.kernel), value_of(whole.kernel), 2e-6, 0, "kernel");
                assert_near(value_of(parts.bias), value_of(whole.bias), 2e-6, 0, "bias");
            }
            assert_int_equal(rf_optimizer_iterations(parts.optimizer), 2);
            accumulation_free(&whole);
            accumulation_free(&parts);
        }
}
TEST_ON_ONE(unequal_steps)
TEST_ON_TWO(unequal_steps)

/* One factor cannot make up for two divisors. Without accumulation there is none. */
static void unequal_divisors(rf_strategy *strategy)
{
    static const char *const said[] = {
        "rf_compute_weighted_loss() by weights [8,3] and rf_compute_average_loss() by examples",
        "rf_compute_weighted_loss() by weights [8,3] and rf_compute_weighted_loss() by weights [8,3]"
    };
    for (way w = BY_BOTH; w <= BY_OTHER_TOKENS; w++) {
        const rf_optimizer_params sgd = { .learning_rate = 0.1 };
        accumulation whole = { .strategy = strategy, .way = w }, parts = whole;
        accumulation_create(&whole, &sgd, 1);
        accumulation_create(&parts, &sgd, MICRO);
        run_rows(&whole, 0, ROWS);
        FAILS(try_rows(&parts, 0, ROWS), RF_ERROR_UNSUPPORTED, said[w - BY_BOTH]);
        assert_non_null(strstr(rf_error_message(), "use accumulation_steps 1"));
        accumulation_free(&whole);
        accumulation_free(&parts);
    }
}
TEST_ON_ONE(unequal_divisors)

static rf_checkpoint *checkpoint_of(accumulation *a)
{
    rf_checkpoint *c;
    OK(rf_checkpoint_create(a->strategy, &c));
    OK(rf_checkpoint_add_variable(c, "kernel", a->kernel));
    OK(rf_checkpoint_add_variable(c, "bias", a->bias));
    OK(rf_checkpoint_add_optimizer(c, "optimizer", a->optimizer));
    return c;
}

/* A run that is resumed between two accumulated steps has the bits of the one that went on. */
static void unequal_steps_resumed(rf_strategy *strategy)
{
    char path[] = "/tmp/update_rules_XXXXXX";
    const int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    for (way w = 0; w < 2; w++) {
        const rf_optimizer_params adam = { .kind = RF_OPTIMIZER_ADAM, .learning_rate = 0.1 };
        accumulation a = { .strategy = strategy, .way = w };
        accumulation_create(&a, &adam, MICRO);
        run_micro(&a, 0, MICRO);
        run_micro(&a, 0, 2);
        rf_checkpoint *c = checkpoint_of(&a);
        OK(rf_checkpoint_save(c, path, NULL));
        run_micro(&a, 2, MICRO);
        const float kernel = value_of(a.kernel), bias = value_of(a.bias);
        run_micro(&a, 0, 1); /* counts for something else */
        OK(rf_checkpoint_restore(c, path, NULL));
        run_micro(&a, 2, MICRO);
        assert_true(value_of(a.kernel) == kernel && value_of(a.bias) == bias);
        rf_checkpoint_destroy(&c);
        accumulation_free(&a);
    }
    unlink(path);
}
TEST_ON_ONE(unequal_steps_resumed)
TEST_ON_TWO(unequal_steps_resumed)

TESTS(update_rules, NULL, NULL)
