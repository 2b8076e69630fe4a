/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checkpoints and models of earlier versions stay restorable. fixtures/<name>.rfck were written by
 *     test_checkpoint_fixture write DIRECTORY
 * of the version they are from; what they hold follows from the formulas below. "checkpoint1-kindless" is as
 * they were before the optimizer's kind and settings were saved.
 */
#include "run_state.h"

#include "tests/room.h"
#include "train/files/model_json.h"
#include "train/files/training_json.h"
#include "train/metrics/metric.h"
#include "train/optimizer/optimizer.h"

static const char *fixtures;

/* Exact in f32. `salt` differs from tensor to tensor. */
static float number(uint32_t salt, uint64_t i)
{
    return (float)((int)((i * 7919 + salt * 104729u) % 2000) - 1000) / 512.0f;
}

static float *numbers(uint32_t salt, uint64_t count)
{
    float *values = malloc(count * sizeof(*values));
    assert_non_null(values);
    for (uint64_t i = 0; i < count; i++) values[i] = number(salt, i);
    return values;
}

static void assert_numbers(const float *values, uint32_t salt, uint64_t count, const char *what)
{
    for (uint64_t i = 0; i < count; i++)
        if (values[i] != number(salt, i))
            fail_msg("%s: number %llu is %.9g, not %.9g", what, (unsigned long long)i, (double)values[i],
                     (double)number(salt, i));
}

/* Variables, slots and sums of a list, each by its own salt from `salt` on. */
static void set_state(rf_variable_list list, rf_updater *u, uint32_t salt)
{
    OK(rf_updater_learn(u, list.items, list.count));
    for (uint32_t v = 0; v < list.count; v++) {
        const uint64_t count = (uint64_t)rf_shape_count(rf_variable_shape(list.items[v]));
        float *values = numbers(salt++, count);
        OK(rf_variable_assign(list.items[v], values));
        free(values);
        for (uint32_t k = 0; k < rf_updater_parameters(u)->num_slots; k++) {
            values = numbers(salt++, count);
            OK(rf_updater_write_slot(u, k, list.items[v], values));
            free(values);
        }
        if (rf_updater_parameters(u)->accumulation_steps == 1) continue;
        values = numbers(salt++, count);
        OK(rf_updater_write_totals(u, list.items[v], values));
        free(values);
    }
}

static void check_state(rf_variable_list list, rf_updater *u, uint32_t salt)
{
    for (uint32_t v = 0; v < list.count; v++) {
        const uint64_t count = (uint64_t)rf_shape_count(rf_variable_shape(list.items[v]));
        float *values = numbers(0, count);
        OK(rf_variable_read(list.items[v], values));
        assert_numbers(values, salt++, count, rf_variable_name(list.items[v]));
        for (uint32_t k = 0; k < rf_updater_parameters(u)->num_slots; k++) {
            OK(rf_updater_read_slot(u, k, list.items[v], values));
            assert_numbers(values, salt++, count, "slot");
        }
        if (rf_updater_parameters(u)->accumulation_steps > 1) {
            OK(rf_updater_read_totals(u, list.items[v], values));
            assert_numbers(values, salt++, count, "accumulated gradient");
        }
        free(values);
    }
}

/* ---- a run ---- */

static const rf_schedule schedule = { .kind = RF_SCHEDULE_PIECEWISE_CONSTANT,
                                      .num_boundaries = 2,
                                      .boundaries = { 10, 40 },
                                      .values = { 0.5, 0.25, 0.125 } };

/* Everything that a checkpoint can hold, set to what follows from `salt`. */
static void make_run(run_state *run, uint32_t salt, const rf_schedule *rates)
{
    const rf_optimizer_params params = {
        .kind = RF_OPTIMIZER_ADAM, .schedule = rates, .beta_1 = 0.75, .accumulation_steps = 2
    };
    if (!run_create(run, "llvmpipe", 900000000000ull + salt, &params)) SKIP("not installed: llvmpipe");
    rf_updater *u = rf_optimizer_updater(run->optimizer);
    set_state(rf_model_variables(run->model), u, salt);
    rf_updater_set_iterations(u, 40 + salt);
    rf_updater_set_accumulated(u, 1);
    rf_local_state *state = rf_metric_state(run->accuracy);
    float *values = numbers(salt + 50, rf_local_state_count(state));
    OK(rf_local_state_write(state, values));
    free(values);
    rf_function_set_step(run->step, 60 + salt);
    run->epoch = 70 + salt;
    run->batch = 80 + salt;
    OK(rf_iterator_create(run->data, salt, &run->iterator));
    for (uint32_t i = 0; i < salt + 2; i++) {
        const rf_element *batch;
        OK(rf_iterator_next(run->iterator, &batch));
    }
}

/* Checks for what make_run() gives for salt 1. */
static void check_run(run_state *run)
{
    static const int32_t labels[RUN_BATCH] = { 3, 1, 1, 0, 3, 2 };
    rf_updater *u = rf_optimizer_updater(run->optimizer);
    check_state(rf_model_variables(run->model), u, 1);
    assert_int_equal(rf_updater_iterations(u), 41);
    assert_int_equal(rf_updater_accumulated(u), 1);
    assert_true(rf_optimizer_learning_rate(run->optimizer) == 0.125);
    rf_local_state *state = rf_metric_state(run->accuracy);
    float *values = numbers(0, rf_local_state_count(state));
    OK(rf_local_state_read(state, values));
    assert_numbers(values, 51, rf_local_state_count(state), "metric");
    free(values);
    assert_int_equal(rf_function_step(run->step), 61);
    assert_int_equal(run->epoch, 71);
    assert_int_equal(run->batch, 81);
    assert_int_equal(rf_strategy_seed(run->strategy), 900000000001ull);
    const rf_element *batch;
    OK(rf_iterator_next(run->iterator, &batch)); /* the fourth one of pass 1 */
    assert_int_equal(batch->component[1].shape.dim[0], RUN_BATCH);
    const int32_t *found = batch->component[1].data;
    for (int i = 0; i < RUN_BATCH; i++)
        if (found[i] != labels[i]) fail_msg("label %d of the next batch is %d, not %d", i, found[i], labels[i]);
}

static void restores(const char *name)
{
    char path[256], *report;
    run_state run;
    make_run(&run, 2, NULL); /* nothing is as it was saved */
    snprintf(path, sizeof(path), "%s/%s.rfck", fixtures, name);
    OK(rf_checkpoint_restore(run.checkpoint, path, &(rf_restore_params){ .report = &report }));
    assert_string_equal(report, "");
    rf_string_free(report);
    check_run(&run);
    run_destroy(&run);
}

TEST(checkpoint)
{
    restores("checkpoint1");
}

TEST(checkpoint_without_kind)
{
    restores("checkpoint1-kindless");
}

/* ---- a model ---- */

typedef struct described {
    rf_model *model;
    rf_optimizer *optimizer;
} described;

static described make_model(rf_strategy *strategy)
{
    described d;
    rf_layer *layers[7];
    const rf_shape input = RF_SHAPE(6, 5, 2);
    uint32_t n = 0;
    OK(rf_layer_conv2d(&(rf_conv2d_layer_params){ .filters = 3,
                                                  .kernel_size = { 3, 2 },
                                                  .conv = { .padding = RF_PADDING_SAME, .stride = { 1, 1 } },
                                                  .activation = RF_ACTIVATION_LEAKY_RELU,
                                                  .kernel_regularizer = { .l2 = 0.01f },
                                                  .name = "first" },
                       &layers[n++]));
    OK(rf_layer_activation(RF_ACTIVATION_TANH, &layers[n++]));
    OK(rf_layer_avg_pool2d(&(rf_pool2d_params){ .window = { 2, 2 }, .stride = { 1, 1 } }, &layers[n++]));
    OK(rf_layer_dropout(0.25f, 12345678901234567ull, &layers[n++]));
    OK(rf_layer_reshape(RF_SHAPE(-1, 3), &layers[n++]));
    OK(rf_layer_flatten(&layers[n++]));
    OK(rf_layer_dense(&(rf_dense_params){ .units = 4, .kernel_initializer = { .kind = RF_INIT_HE_NORMAL, .seed = 7 } },
                      &layers[n++]));
    OK(rf_model_create_sequential(strategy, layers, n, &input, &d.model));
    const rf_optimizer_params params = {
        .kind = RF_OPTIMIZER_RMSPROP, .schedule = &schedule, .momentum = 0.5, .global_clip_norm = 3
    };
    OK(rf_optimizer_create(strategy, &params, &d.optimizer));
    const rf_metric_kind metrics[] = { RF_METRIC_SPARSE_CATEGORICAL_ACCURACY };
    OK(rf_model_compile(d.model, &(rf_compile_params){ .optimizer = d.optimizer,
                                                       .loss = { RF_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY, true, 0 },
                                                       .metrics = metrics,
                                                       .num_metrics = 1,
                                                       .steps_per_execution = 2 }));
    rf_updater *u = rf_optimizer_updater(d.optimizer);
    set_state(rf_model_variables(d.model), u, 100);
    rf_updater_set_iterations(u, 12);
    return d;
}

TEST(model)
{
    char path[256], *here, *there;
    rf_strategy *strategy = open_devices("llvmpipe");
    if (!strategy) SKIP("not installed: llvmpipe");
    described d = make_model(strategy);
    rf_model *loaded;
    snprintf(path, sizeof(path), "%s/model1.rfck", fixtures);
    OK(rf_model_load(strategy, path, &loaded));
    OK(rf_model_describe(d.model, &here));
    OK(rf_model_describe(loaded, &there));
    assert_string_equal(there, here);
    rf_string_free(here);
    rf_string_free(there);
    OK(rf_compiled_describe(d.model->compiled, &here));
    OK(rf_compiled_describe(loaded->compiled, &there));
    assert_string_equal(there, here);
    rf_string_free(here);
    rf_string_free(there);
    rf_updater *u = rf_optimizer_updater(rf_model_optimizer(loaded));
    check_state(rf_model_variables(loaded), u, 100);
    assert_int_equal(rf_updater_iterations(u), 12);
    assert_true(rf_optimizer_learning_rate(rf_model_optimizer(loaded)) == 0.25);
    rf_model_destroy(&loaded);
    rf_model_destroy(&d.model);
    rf_optimizer_destroy(&d.optimizer);
    rf_strategy_destroy(&strategy);
}

/* ---- writing ---- */

static room_test *writing_tests;

TEST_OF(writing_tests, write_all)
{
    char path[256];
    const rf_save_params params = { .threads = 1 };
    run_state run;
    make_run(&run, 1, &schedule);
    snprintf(path, sizeof(path), "%s/checkpoint1.rfck", fixtures);
    OK(rf_checkpoint_save(run.checkpoint, path, &params));
    const rf_element *batch;
    OK(rf_iterator_next(run.iterator, &batch));
    for (int i = 0; i < RUN_BATCH; i++) print_message("%d, ", ((const int32_t *)batch->component[1].data)[i]);
    described d = make_model(run.strategy);
    snprintf(path, sizeof(path), "%s/model1.rfck", fixtures);
    OK(rf_model_save(d.model, path, &params));
    rf_model_destroy(&d.model);
    rf_optimizer_destroy(&d.optimizer);
    run_destroy(&run);
}

TEST_PROGRAM(checkpoint_fixture)
{
    fixtures = argv[argc - 1];
    if (argc > 2 && strcmp(argv[1], "write") == 0) return room_tests_run(writing_tests, NULL, NULL);
    return room_tests_run(own_tests, NULL, NULL);
}
