/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loss scaling. A power of two changes no bits, and a step whose gradients overflow changes nothing: training with both
 * is training on the other steps, to the last bit. The scale follows a few lines of C (scaler_step), which are Keras'
 * and PyTorch's rules.
 */
#include "run_state.h"
#include "tests/room.h"

enum { IN = 6, OUT = 4, KERNEL = IN * OUT, NUMBERS = KERNEL + OUT, ROWS = 12, ALL_STEPS = 20, EVERY = 3 };

/* Steps with a number that overflows, two of them in a row, which are under way together. */
static bool is_bad(uint32_t number)
{
    return number == 2 || number == 3 || number == 9 || number == 16;
}

/* ---- what the scale is to be ---- */

typedef struct scaler {
    double scale;
    uint32_t finite;
    uint64_t skipped;
} scaler;

static void scaler_step(scaler *s, bool finite)
{
    if (!finite) {
        s->scale /= 2;
        s->finite = 0;
        s->skipped++;
    } else if (++s->finite == EVERY) {
        s->scale *= 2;
        s->finite = 0;
    }
}

static void assert_scale(const rf_optimizer *optimizer, const scaler *expected)
{
    rf_loss_scale is;
    OK(rf_optimizer_loss_scale(optimizer, &is));
    assert_true(is.scale == expected->scale);
    assert_int_equal(is.finite_steps, expected->finite);
    assert_int_equal(is.skipped_steps, expected->skipped);
}

/* ---- a linear layer ---- */

typedef enum way { MINIMIZE, APPLY, TRANSFORM } way;

typedef struct linear {
    rf_strategy *strategy;
    rf_variable *kernel, *bias;
    rf_optimizer *optimizer;
    rf_function *function;
    way way;
} linear;

static rf_result linear_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    linear *l = user;
    rf_variable *const items[] = { l->kernel, l->bias };
    const rf_variable_list list = { items, 2 };
    const rf_tensor targets[] = { rf_variable_tensor(t, l->kernel), rf_variable_tensor(t, l->bias) };
    const rf_tensor p = rf_bias_add(t, rf_matmul(t, in[0], targets[0], RF_TRANSPOSE_NONE), targets[1]);
    out[0] = rf_compute_average_loss(t, rf_mean_squared_error(t, in[1], p), NULL);
    if (l->way == MINIMIZE) return rf_optimizer_minimize(t, l->optimizer, out[0], list);
    rf_tensor gradients[2];
    rf_result r = rf_gradients(t, rf_optimizer_scale_loss(t, l->optimizer, out[0]), targets, 2, gradients);
    for (int i = 0; i < 2 && l->way == TRANSFORM; i++) gradients[i] = rf_tanh(t, gradients[i]);
    if (r >= 0) r = rf_optimizer_apply_gradients(t, l->optimizer, gradients, list);
    return r < 0 ? r : rf_trace_status(t);
}

static void open_together(rf_strategy *strategy, const rf_optimizer_params *params, way how, uint32_t together,
                          linear *l)
{
    float initial[NUMBERS];
    fill_noise(initial, NUMBERS, 11);
    *l = (linear){ .strategy = strategy, .way = how };
    OK(rf_variable_create(
        strategy, &(rf_variable_params){ .name = "kernel", .shape = RF_SHAPE(IN, OUT), .value = initial }, &l->kernel));
    OK(rf_variable_create(strategy,
                          &(rf_variable_params){ .name = "bias", .shape = RF_SHAPE(OUT), .value = initial + KERNEL },
                          &l->bias));
    OK(rf_optimizer_create(strategy, params, &l->optimizer));
    const rf_function_params function = {
        .step = linear_step, .user = l, .num_outputs = 1, .training = true, .steps_per_execution = together
    };
    OK(rf_function_create(strategy, &function, &l->function));
}

static void linear_open(rf_strategy *strategy, const rf_optimizer_params *params, way how, linear *l)
{
    open_together(strategy, params, how, 1, l);
}

static void linear_close(linear *l)
{
    rf_function_destroy(&l->function);
    rf_optimizer_destroy(&l->optimizer);
    rf_variable_destroy(&l->kernel);
    rf_variable_destroy(&l->bias);
}

/* The number that overflows is the last replica's. */
static void linear_run(linear *l, uint32_t number, bool spoilt)
{
    float x[ROWS * IN], y[ROWS * OUT];
    fill_noise(x, ROWS * IN, 100 + number);
    fill_noise(y, ROWS * OUT, 200 + number);
    if (spoilt) x[ROWS * IN - 1] = 3e38f;
    const rf_element batch = { 2, { array_f32(RF_SHAPE(ROWS, IN), x), array_f32(RF_SHAPE(ROWS, OUT), y) } };
    OK(rf_strategy_run(l->strategy, l->function, &batch, NULL));
}

static void linear_numbers(const linear *l, float *numbers)
{
    OK(rf_variable_read(l->kernel, numbers));
    OK(rf_variable_read(l->bias, numbers + KERNEL));
    OK(rf_strategy_check_identical(l->strategy, NULL, NULL));
}

/* ---- training with and without ---- */

/* The update of a group of steps that are accumulated is skipped where one of them overflows. */
static bool group_is_bad(uint32_t number, uint32_t every)
{
    bool bad = false;
    for (uint32_t i = number / every * every; i < (number / every + 1) * every; i++) bad = bad || is_bad(i);
    return bad;
}

static void train_plain(rf_strategy *strategy, const rf_optimizer_params *params, way how, bool spoilt, linear *l)
{
    const uint32_t every = params->accumulation_steps ? params->accumulation_steps : 1;
    linear_open(strategy, params, how, l);
    for (uint32_t i = 0; i < ALL_STEPS; i++)
        if (!spoilt || !group_is_bad(i, every)) linear_run(l, i, false);
}

static void train_scaled(rf_strategy *strategy, const rf_optimizer_params *params, way how, bool spoilt, bool looks,
                         linear *l)
{
    const rf_loss_scale_params scale = { .initial = 1024, .growth_steps = EVERY };
    const uint32_t every = params->accumulation_steps ? params->accumulation_steps : 1;
    rf_optimizer_params scaled = *params;
    scaler expected = { .scale = 1024 };
    scaled.loss_scale = &scale;
    linear_open(strategy, &scaled, how, l);
    for (uint32_t i = 0; i < ALL_STEPS; i++) {
        linear_run(l, i, spoilt && is_bad(i));
        if (i % every == every - 1) scaler_step(&expected, !spoilt || !group_is_bad(i, every));
        if (looks) assert_scale(l->optimizer, &expected);
    }
    assert_scale(l->optimizer, &expected);
}

static void assert_same(const linear *a, const linear *b, bool exactly, const char *what)
{
    float x[NUMBERS], y[NUMBERS];
    linear_numbers(a, x);
    linear_numbers(b, y);
    for (int i = 0; i < NUMBERS; i++) assert_near(x[i], y[i], 1e-5, 1e-6, what);
    if (exactly && memcmp(x, y, sizeof(x)) != 0) fail_msg("%s: other bits", what);
    assert_int_equal(rf_optimizer_iterations(a->optimizer), rf_optimizer_iterations(b->optimizer));
    assert_true(rf_optimizer_learning_rate(a->optimizer) == rf_optimizer_learning_rate(b->optimizer));
}

static void compare_ways(rf_strategy *strategy, const char *name, const rf_optimizer_params *params, way how)
{
    for (int spoilt = 0; spoilt < 2; spoilt++) {
        linear plain, looking, running;
        /* Alone, what is computed from gradients is part of the step there and comes after it here. */
        const bool exactly = how != TRANSFORM || rf_strategy_num_replicas_in_sync(strategy) > 1;
        train_plain(strategy, params, how, spoilt, &plain);
        train_scaled(strategy, params, how, spoilt, true, &looking);
        train_scaled(strategy, params, how, spoilt, false, &running);
        assert_same(&looking, &plain, exactly, name);
        assert_same(&running, &looking, true, name);
        if (params->use_ema) {
            OK(rf_optimizer_swap_averages(plain.optimizer));
            OK(rf_optimizer_swap_averages(running.optimizer));
            assert_same(&running, &plain, exactly, name);
        }
        linear_close(&plain);
        linear_close(&looking);
        linear_close(&running);
    }
}

/* Descent with a momentum, by the caller. */
static rf_result own_update(rf_trace *t, const rf_update_inputs *in, rf_tensor *weight, rf_tensor *slots, void *user)
{
    (void)user;
    slots[0] = rf_add(t, rf_multiply(t, in->slots[0], rf_constant(t, 0.5f)), in->gradient);
    const rf_tensor rate = rf_divide(t, in->learning_rate, in->step);
    *weight = rf_subtract(t, in->weight, rf_multiply(t, slots[0], rate));
    return rf_trace_status(t);
}

static void all_optimizers(rf_strategy *strategy)
{
    static const rf_optimizer_slot slot = { .name = "sum" };
    static const rf_custom_optimizer own = { .name = "own", .update = own_update, .slots = &slot, .num_slots = 1 };
    static const rf_parameter_group groups[] = { { .names = "bias", .rate_factor = 0.5, .no_weight_decay = true } };
    static const rf_schedule falls = {
        .kind = RF_SCHEDULE_EXPONENTIAL_DECAY, .initial = 0.1, .decay_rate = 0.5, .decay_steps = 2
    };
    static const struct {
        const char *name;
        rf_optimizer_params params;
        way way;
    } cases[] = {
        { "sgd, schedule", { .schedule = &falls }, MINIMIZE },
        { "momentum, applied", { .schedule = &falls, .momentum = 0.9 }, APPLY },
        { "adam", { .kind = RF_OPTIMIZER_ADAM, .schedule = &falls }, MINIMIZE },
        { "adam, transformed", { .kind = RF_OPTIMIZER_ADAM, .schedule = &falls }, TRANSFORM },
        { "adamw, groups, average",
          { .kind = RF_OPTIMIZER_ADAMW,
            .schedule = &falls,
            .weight_decay = 0.1,
            .groups = groups,
            .num_groups = 1,
            .use_ema = true,
            .ema_momentum = 0.8,
            .ema_overwrite_frequency = 5 },
          MINIMIZE },
        { "nadam, clip value", { .kind = RF_OPTIMIZER_NADAM, .learning_rate = 0.01, .clip_value = 0.05 }, MINIMIZE },
        { "clip norm", { .schedule = &falls, .clip_norm = 0.1 }, APPLY },
        { "global clip norm, accumulation",
          { .kind = RF_OPTIMIZER_ADAM, .schedule = &falls, .global_clip_norm = 0.1, .accumulation_steps = 2 },
          MINIMIZE },
        { "accumulation", { .kind = RF_OPTIMIZER_RMSPROP, .schedule = &falls, .accumulation_steps = 2 }, APPLY },
        { "lamb, average",
          { .kind = RF_OPTIMIZER_LAMB,
            .schedule = &falls,
            .weight_decay = 0.1,
            .clip_norm = 0.2,
            .use_ema = true,
            .ema_momentum = 0.5 },
          MINIMIZE },
        { "muon", { .kind = RF_OPTIMIZER_MUON, .schedule = &falls }, MINIMIZE },
        { "muon, transformed", { .kind = RF_OPTIMIZER_MUON, .schedule = &falls }, TRANSFORM },
        { "muon, clip norm, accumulation, average",
          { .kind = RF_OPTIMIZER_MUON,
            .schedule = &falls,
            .clip_norm = 0.2,
            .accumulation_steps = 2,
            .use_ema = true,
            .ema_momentum = 0.5 },
          APPLY },
        { "custom", { .kind = RF_OPTIMIZER_CUSTOM, .custom = &own, .schedule = &falls }, MINIMIZE },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        compare_ways(strategy, cases[i].name, &cases[i].params, cases[i].way);
}

/* One replica owns all; every replica updates all; memory that the host reaches only through copies. */
TEST(other_layouts)
{
    static const rf_optimizer_params params = { .kind = RF_OPTIMIZER_ADAM, .learning_rate = 0.01, .clip_norm = 0.2 };
    static const rf_optimizer_params muon = { .kind = RF_OPTIMIZER_MUON, .learning_rate = 0.01 };
    rf_strategy *strategy;
    OK(rf_strategy_create_central_storage(&(rf_central_storage_params){ .mirrored = { .devices = device_lists[3] } },
                                          &strategy));
    compare_ways(strategy, "central storage", &params, MINIMIZE);
    compare_ways(strategy, "central storage, muon", &muon, MINIMIZE);
    compare_ways(strategy, "central storage, transformed", &params, TRANSFORM);
    rf_strategy_destroy(&strategy);
    OK(rf_strategy_create_mirrored(&(rf_mirrored_params){ .devices = device_lists[3], .update_mode = RF_UPDATE_LOCAL },
                                   &strategy));
    compare_ways(strategy, "local updates", &params, MINIMIZE);
    compare_ways(strategy, "local updates, muon", &muon, MINIMIZE);
    rf_strategy_destroy(&strategy);
    assert_int_equal(setenv("RINGFIRE_TEST_STAGED", "all", 1), 0);
    OK(rf_strategy_create_mirrored(&(rf_mirrored_params){ .devices = device_lists[3] }, &strategy));
    assert_int_equal(unsetenv("RINGFIRE_TEST_STAGED"), 0);
    compare_ways(strategy, "staged", &params, MINIMIZE);
    compare_ways(strategy, "staged, muon", &muon, MINIMIZE);
    compare_ways(strategy, "staged, transformed", &params, TRANSFORM);
    compare_ways(strategy, "staged, transformed, muon", &muon, TRANSFORM);
    rf_strategy_destroy(&strategy);
}

/* ---- what can be read ---- */

/* Gradients come back as without; a fixed scale stays, and steps are skipped all the same. */
static void fixed_scale(rf_strategy *strategy)
{
    const rf_loss_scale_params scale = { .initial = 3, .fixed = true };
    const scaler fresh = { .scale = 3 }, after = { .scale = 3, .skipped = 1 };
    float gradients[2][KERNEL], before[NUMBERS], numbers[NUMBERS];
    rf_optimizer_params params = { .learning_rate = 0.1 };
    linear plain, scaled;
    linear_open(strategy, &params, MINIMIZE, &plain);
    params.loss_scale = &scale;
    linear_open(strategy, &params, MINIMIZE, &scaled);
    assert_scale(scaled.optimizer, &fresh);
    linear_run(&plain, 0, false);
    linear_run(&scaled, 0, false);
    OK(rf_variable_read_gradient(plain.kernel, gradients[0]));
    OK(rf_variable_read_gradient(scaled.kernel, gradients[1]));
    for (int i = 0; i < KERNEL; i++) assert_near(gradients[1][i], gradients[0][i], 1e-5, 1e-7, "gradient");
    linear_numbers(&scaled, before);
    linear_run(&scaled, 1, true);
    linear_numbers(&scaled, numbers);
    assert_memory_equal(numbers, before, sizeof(before));
    assert_scale(scaled.optimizer, &after);
    assert_int_equal(rf_optimizer_iterations(scaled.optimizer), 1);
    linear_run(&scaled, 2, false);
    linear_numbers(&scaled, numbers);
    assert_memory_not_equal(numbers, before, sizeof(before));
    linear_close(&plain);
    linear_close(&scaled);
}

static void defaults(rf_strategy *strategy)
{
    const scaler expected = { .scale = 32768, .finite = 1 };
    const rf_loss_scale_params scale = { 0 };
    linear l;
    linear_open(strategy, &(rf_optimizer_params){ .loss_scale = &scale }, APPLY, &l);
    linear_run(&l, 0, false);
    assert_scale(l.optimizer, &expected);
    linear_close(&l);
}

/* ---- checkpoints ---- */

static void resumed(rf_strategy *strategy)
{
    char folder[64], path[128];
    static const rf_loss_scale_params scale = { .initial = 512, .growth_steps = EVERY };
    static const rf_optimizer_params params = { .kind = RF_OPTIMIZER_ADAM,
                                                .learning_rate = 0.01,
                                                .loss_scale = &scale };
    rf_checkpoint *checkpoint;
    linear first, second;
    scaler expected = { .scale = 512 };
    float numbers[2][NUMBERS];
    snprintf(path, sizeof(path), "%s/x.rfck", scratch(folder));
    linear_open(strategy, &params, MINIMIZE, &first);
    OK(rf_checkpoint_create(strategy, &checkpoint));
    OK(rf_checkpoint_add_optimizer(checkpoint, "optimizer", first.optimizer));
    OK(rf_checkpoint_add_variable(checkpoint, "kernel", first.kernel));
    OK(rf_checkpoint_add_variable(checkpoint, "bias", first.bias));
    for (uint32_t i = 0; i < 8; i++) {
        linear_run(&first, i, is_bad(i));
        scaler_step(&expected, !is_bad(i));
    }
    OK(rf_checkpoint_save(checkpoint, path, NULL));
    rf_checkpoint_destroy(&checkpoint);
    linear_open(strategy, &params, MINIMIZE, &second);
    OK(rf_checkpoint_create(strategy, &checkpoint));
    OK(rf_checkpoint_add_optimizer(checkpoint, "optimizer", second.optimizer));
    OK(rf_checkpoint_add_variable(checkpoint, "kernel", second.kernel));
    OK(rf_checkpoint_add_variable(checkpoint, "bias", second.bias));
    OK(rf_checkpoint_restore(checkpoint, path, NULL));
    expected.skipped = 0;
    assert_scale(second.optimizer, &expected);
    assert_int_equal(rf_optimizer_iterations(second.optimizer), 6);
    for (uint32_t i = 8; i < ALL_STEPS; i++) {
        linear_run(&first, i, is_bad(i));
        linear_run(&second, i, is_bad(i));
        scaler_step(&expected, !is_bad(i));
    }
    assert_scale(second.optimizer, &expected);
    linear_numbers(&first, numbers[0]);
    linear_numbers(&second, numbers[1]);
    assert_memory_equal(numbers[0], numbers[1], sizeof(numbers[0]));
    rf_checkpoint_destroy(&checkpoint);
    scratch_remove(folder);
    linear_close(&first);
    linear_close(&second);
}

/* ---- steps that are submitted together ---- */

/* Calls of a program between two steps, each where a group has some of its runs. */
typedef struct between {
    linear l;
    rf_checkpoint *checkpoint;
    char path[128], second[128];
    double rates[ALL_STEPS];
    uint64_t iterations[ALL_STEPS];
    rf_function *alone; /* the same step, by itself, with the same optimizer */
} between;

static void act_between(between *b, uint32_t number)
{
    float numbers[NUMBERS];
    if (number == 4) OK(rf_optimizer_set_learning_rate(b->l.optimizer, 0.03));
    if (number == 5) b->rates[number] = rf_optimizer_learning_rate(b->l.optimizer);
    if (number == 8) OK(rf_checkpoint_save(b->checkpoint, b->path, NULL));
    if (number == 10) OK(rf_checkpoint_save(b->checkpoint, b->second, &(rf_save_params){ .async = true }));
    if (number == 13) linear_numbers(&b->l, numbers);
    if (number == 15) b->iterations[number] = rf_optimizer_iterations(b->l.optimizer);
    if (number == 17) OK(rf_checkpoint_restore(b->checkpoint, b->path, NULL));
}

static void between_open(rf_strategy *strategy, const rf_optimizer_params *params, uint32_t together,
                         const char *folder, between *b)
{
    *b = (between){ 0 };
    open_together(strategy, params, MINIMIZE, together, &b->l);
    const rf_function_params alone = { .step = linear_step, .user = &b->l, .num_outputs = 1, .training = true };
    OK(rf_function_create(strategy, &alone, &b->alone));
    snprintf(b->path, sizeof(b->path), "%s/%u.rfck", folder, together);
    snprintf(b->second, sizeof(b->second), "%s/%u-second.rfck", folder, together);
    OK(rf_checkpoint_create(strategy, &b->checkpoint));
    OK(rf_checkpoint_add_optimizer(b->checkpoint, "optimizer", b->l.optimizer));
    OK(rf_checkpoint_add_variable(b->checkpoint, "kernel", b->l.kernel));
    OK(rf_checkpoint_add_variable(b->checkpoint, "bias", b->l.bias));
}

static void between_run(between *b)
{
    for (uint32_t i = 0; i < ALL_STEPS; i++) {
        rf_function *together = b->l.function;
        if (i == 7 || i == 14) b->l.function = b->alone;
        linear_run(&b->l, i, is_bad(i));
        b->l.function = together;
        act_between(b, i);
    }
}

static void between_close(between *b)
{
    rf_function_destroy(&b->alone);
    rf_checkpoint_destroy(&b->checkpoint);
    linear_close(&b->l);
}

static void compare_between(rf_strategy *strategy, const rf_optimizer_params *params)
{
    static const uint32_t groups[] = { 2, 5, 32 };
    char folder[64];
    between one;
    scratch(folder);
    between_open(strategy, params, 1, folder, &one);
    between_run(&one);
    for (size_t g = 0; g < sizeof(groups) / sizeof(groups[0]); g++) {
        between many;
        rf_loss_scale a, b;
        between_open(strategy, params, groups[g], folder, &many);
        between_run(&many);
        OK(rf_optimizer_loss_scale(one.l.optimizer, &a));
        OK(rf_optimizer_loss_scale(many.l.optimizer, &b));
        assert_memory_equal(&a, &b, sizeof(a));
        assert_memory_equal(one.rates, many.rates, sizeof(one.rates));
        assert_memory_equal(one.iterations, many.iterations, sizeof(one.iterations));
        assert_same(&many.l, &one.l, true, "submitted together");
        between_close(&many);
    }
    between_close(&one);
    scratch_remove(folder);
}

static void together(rf_strategy *strategy)
{
    static const rf_loss_scale_params scale = { .initial = 1024, .growth_steps = EVERY };
    static const rf_schedule falls = {
        .kind = RF_SCHEDULE_EXPONENTIAL_DECAY, .initial = 0.1, .decay_rate = 0.5, .decay_steps = 2
    };
    rf_optimizer_params params = { .kind = RF_OPTIMIZER_NADAM, .schedule = &falls, .loss_scale = &scale };
    compare_between(strategy, &params);
    params.accumulation_steps = 3;
    compare_between(strategy, &params);
    params.clip_norm = 0.1; /* the host takes part in updates */
    compare_between(strategy, &params);
}

/* ---- a network ---- */

enum { SIDE = 8, IMAGES = 24, CLASSES = 5, BATCH = 8, MOST_WEIGHTS = 4096 };

static rf_model *network(rf_strategy *strategy)
{
    rf_layer *layers[9];
    uint32_t count = 0;
    rf_model *model;
    const rf_shape image = RF_SHAPE(SIDE, SIDE, 2);
    OK(rf_layer_conv2d(&(rf_conv2d_layer_params){ .filters = 6, .kernel_size = { 3 } }, &layers[count++]));
    OK(rf_layer_batch_norm(NULL, &layers[count++]));
    OK(rf_layer_activation(RF_ACTIVATION_RELU, &layers[count++]));
    OK(rf_layer_max_pool2d(NULL, &layers[count++]));
    OK(rf_layer_flatten(&layers[count++]));
    OK(rf_layer_dense(&(rf_dense_params){ .units = 16, .activation = RF_ACTIVATION_TANH }, &layers[count++]));
    OK(rf_layer_layer_norm(NULL, &layers[count++]));
    OK(rf_layer_dropout(0.25f, 0, &layers[count++]));
    OK(rf_layer_dense(&(rf_dense_params){ .units = CLASSES }, &layers[count++]));
    OK(rf_model_create_sequential(strategy, layers, count, &image, &model));
    const rf_variable_list list = rf_model_variables(model);
    assert_true(list.count > 0);
    for (uint32_t i = 0; i < list.count; i++) {
        static float values[MOST_WEIGHTS];
        fill_noise(values, MOST_WEIGHTS, 40 + i);
        OK(rf_variable_assign(list.items[i], values));
    }
    return model;
}

/* All of its variables after two epochs of fit. */
static size_t fit_network(rf_strategy *strategy, const rf_loss_scale_params *scale, float *weights)
{
    static float images[IMAGES * SIDE * SIDE * 2];
    static int32_t labels[IMAGES];
    fill_noise(images, sizeof(images) / sizeof(images[0]), 3);
    for (int i = 0; i < IMAGES; i++) labels[i] = i % CLASSES;
    const rf_array arrays[] = { array_f32(RF_SHAPE(IMAGES, SIDE, SIDE, 2), images),
                                array_i32(RF_SHAPE(IMAGES), labels) };
    rf_dataset *raw, *data;
    rf_optimizer *optimizer;
    OK(rf_dataset_from_arrays(&(rf_dataset_arrays_params){ .arrays = arrays, .num_arrays = 2 }, &raw));
    OK(rf_dataset_batch(raw, BATCH, RF_REMAINDER_KEEP, &data));
    rf_strategy_set_seed(strategy, 5);
    rf_model *model = network(strategy);
    OK(rf_optimizer_create(strategy, &(rf_optimizer_params){ .kind = RF_OPTIMIZER_ADAM, .loss_scale = scale },
                           &optimizer));
    OK(rf_model_compile(model, &(rf_compile_params){ .optimizer = optimizer,
                                                     .loss = { RF_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY, true } }));
    OK(rf_model_fit(model, &(rf_fit_params){ .data = data, .epochs = 2 }, NULL));
    assert_int_equal(rf_optimizer_iterations(optimizer), 2 * IMAGES / BATCH);
    const rf_variable_list list = rf_model_variables(model);
    size_t count = 0;
    for (uint32_t i = 0; i < list.count; i++) {
        assert_true(count + (size_t)rf_shape_count(rf_variable_shape(list.items[i])) <= MOST_WEIGHTS);
        OK(rf_variable_read(list.items[i], weights + count));
        count += (size_t)rf_shape_count(rf_variable_shape(list.items[i]));
    }
    rf_model_destroy(&model);
    rf_optimizer_destroy(&optimizer);
    rf_dataset_destroy(&data);
    rf_dataset_destroy(&raw);
    return count;
}

static void networks(rf_strategy *strategy)
{
    static float plain[MOST_WEIGHTS], scaled[MOST_WEIGHTS];
    const rf_loss_scale_params scale = { .growth_steps = 2 };
    const size_t count = fit_network(strategy, NULL, plain);
    assert_int_equal(fit_network(strategy, &scale, scaled), count);
    assert_memory_equal(scaled, plain, count * sizeof(plain[0]));
}

/* ---- mistakes ---- */

static rf_result unscaled_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    linear *l = user;
    (void)out;
    const rf_tensor kernel = rf_variable_tensor(t, l->kernel);
    const rf_tensor p = rf_matmul(t, in[0], kernel, RF_TRANSPOSE_NONE);
    const rf_tensor loss = rf_compute_average_loss(t, rf_mean_squared_error(t, in[1], p), NULL);
    rf_tensor gradient;
    const rf_result r = rf_gradients(t, loss, &kernel, 1, &gradient);
    return r < 0 ? r : rf_optimizer_apply_gradients(t, l->optimizer, &gradient, (rf_variable_list){ &l->kernel, 1 });
}

static void mistakes(rf_strategy *strategy)
{
    const rf_loss_scale_params scale = { 0 };
    rf_loss_scale is;
    linear l;
    rf_function *plain;
    linear_open(strategy, &(rf_optimizer_params){ .loss_scale = &scale }, MINIMIZE, &l);
    OK(rf_function_create(strategy, &(rf_function_params){ .step = unscaled_step, .user = &l, .training = true },
                          &plain));
    float x[ROWS * IN] = { 0 }, y[ROWS * OUT] = { 0 };
    const rf_element batch = { 2, { array_f32(RF_SHAPE(ROWS, IN), x), array_f32(RF_SHAPE(ROWS, OUT), y) } };
    FAILS(rf_strategy_run(strategy, plain, &batch, NULL), RF_ERROR_INVALID_ARGUMENT, "rf_optimizer_scale_loss()");
    linear_run(&l, 0, false);
    FAILS(rf_optimizer_loss_scale(l.optimizer, NULL), RF_ERROR_INVALID_ARGUMENT, "out is NULL");
    FAILS(rf_optimizer_loss_scale(NULL, &is), RF_ERROR_INVALID_ARGUMENT, "optimizer is NULL");
    rf_function_destroy(&plain);
    linear_close(&l);
    linear_open(strategy, NULL, MINIMIZE, &l);
    FAILS(rf_optimizer_loss_scale(l.optimizer, &is), RF_ERROR_INVALID_ARGUMENT, "create it with loss_scale");
    linear_close(&l);
}

TEST_ON_ONE(all_optimizers)
TEST_ON_TWO(all_optimizers)
TEST_ON_ALL(fixed_scale)
TEST_ON_ONE(defaults)
TEST_ON_ONE(together)
TEST_ON_TWO(together)
TEST_ON_ONE(resumed)
TEST_ON_TWO(resumed)
TEST_ON_ONE(networks)
TEST_ON_TWO(networks)
TEST_ON_ONE(mistakes)

TESTS(loss_scale, NULL, NULL)
