/* SPDX-License-Identifier: Apache-2.0 */
/* Losses and metrics of the caller in fit and evaluate, against those of the library that compute the same. */
#include "../support/folder.h"
#include "../support/strategies.h"
#include "tests/room.h"

enum { EXAMPLES = 24, FEATURES = 5, TARGETS = 2 };

static rf_model *build(rf_strategy *strategy)
{
    rf_model_builder *b;
    rf_model *model;
    rf_layer *both, *other;
    OK(rf_layer_dense(&(rf_dense_params){ .units = TARGETS, .kernel_initializer = { .seed = 5 }, .name = "both" },
                      &both));
    OK(rf_layer_dense(&(rf_dense_params){ .units = 1, .kernel_initializer = { .seed = 6 }, .name = "other" }, &other));
    OK(rf_model_builder_create(strategy, &b));
    const rf_symbol x = rf_model_builder_input(b, RF_F32, RF_SHAPE(FEATURES), NULL);
    const rf_symbol outputs[] = { rf_model_builder_call(b, both, x), rf_model_builder_call(b, other, x) };
    OK(rf_model_builder_finish(&b, outputs, 2, NULL, &model));
    return model;
}

/* The last component weighs the examples. */
static rf_dataset *examples(void)
{
    static float x[EXAMPLES * FEATURES], first[EXAMPLES * TARGETS], second[EXAMPLES], weight[EXAMPLES];
    rf_dataset *data, *batched;
    fill_noise(x, EXAMPLES * FEATURES, 3);
    for (int i = 0; i < EXAMPLES; i++) {
        first[2 * i] = x[i * FEATURES] + x[i * FEATURES + 1];
        first[2 * i + 1] = x[i * FEATURES + 2];
        second[i] = -x[i * FEATURES + 3];
        weight[i] = 0.5f + (float)(i % 3);
    }
    const rf_array arrays[] = { array_f32(RF_SHAPE(EXAMPLES, FEATURES), x),
                                array_f32(RF_SHAPE(EXAMPLES, TARGETS), first), array_f32(RF_SHAPE(EXAMPLES, 1), second),
                                array_f32(RF_SHAPE(EXAMPLES), weight) };
    OK(rf_dataset_from_arrays(&(rf_dataset_arrays_params){ .arrays = arrays, .num_arrays = 4 }, &data));
    OK(rf_dataset_batch(data, 7, RF_REMAINDER_KEEP, &batched)); /* the last batch is shorter */
    rf_dataset_destroy(&data);
    return batched;
}

/* The sum of both outputs' mean squared errors, the second one halved: of each example. */
static rf_tensor squared(rf_trace *t, const rf_tensor *labels, const rf_tensor *predictions, void *user)
{
    const float *factor = user;
    const int32_t last = 1;
    const rf_tensor first =
        rf_reduce_mean(t, rf_square(t, rf_subtract(t, predictions[0], labels[0])), &last, 1, RF_DROP_DIMS);
    const rf_tensor second =
        rf_reduce_mean(t, rf_square(t, rf_subtract(t, predictions[1], labels[1])), &last, 1, RF_DROP_DIMS);
    return rf_add(t, first, rf_multiply(t, second, rf_constant(t, *factor)));
}

static rf_tensor absolute(rf_trace *t, rf_tensor labels, rf_tensor predictions, void *user)
{
    const int32_t last = 1;
    (void)user;
    return rf_reduce_mean(t, rf_abs(t, rf_subtract(t, predictions, labels)), &last, 1, RF_DROP_DIMS);
}

static float half = 0.5f;
static const rf_loss losses[] = { { .kind = RF_LOSS_MEAN_SQUARED_ERROR }, { .kind = RF_LOSS_MEAN_SQUARED_ERROR } };
static const double weights[] = { 1.0, 0.5 };
static const rf_output_metric kinds[] = { { .output = 0,
                                            .metric = { .kind = RF_METRIC_MEAN_ABSOLUTE_ERROR, .name = "error" } } };
static const rf_output_metric functions[] = { { .output = 0, .metric = { .name = "error" }, .fn = absolute } };

static rf_compile_params params_of(rf_optimizer *optimizer, bool custom)
{
    rf_compile_params p = { .optimizer = optimizer,
                            .output_metrics = custom ? functions : kinds,
                            .num_output_metrics = 1 };
    if (custom) {
        p.loss_fn = squared;
        p.loss_user = &half;
        return p;
    }
    p.losses = losses;
    p.loss_weights = weights;
    p.num_losses = 2;
    return p;
}

/* Names in the logs are the model's, which the caller destroys. */
static rf_model *train(rf_strategy *strategy, bool custom, rf_history *history, rf_logs *evaluation)
{
    rf_model *model = build(strategy);
    rf_dataset *data = examples();
    rf_optimizer *optimizer;
    const rf_optimizer_params sgd = { .kind = RF_OPTIMIZER_SGD, .learning_rate = 0.1 };
    OK(rf_optimizer_create(strategy, &sgd, &optimizer));
    const rf_compile_params params = params_of(optimizer, custom);
    OK(rf_model_compile(model, &params));
    OK(rf_model_fit(model, &(rf_fit_params){ .data = data, .epochs = 3, .validation_data = data }, history));
    OK(rf_model_evaluate(model, data, evaluation));
    rf_dataset_destroy(&data);
    rf_optimizer_destroy(&optimizer);
    return model;
}

static void assert_same(const rf_logs *is, const rf_logs *expected, const char *name)
{
    double a = 0, b = 0;
    assert_true(rf_logs_get(is, name, &a));
    assert_true(rf_logs_get(expected, name, &b));
    assert_near(a, b, 1e-5, 0, name);
}

static void compare(rf_strategy *strategy)
{
    rf_history kept[2];
    rf_logs evaluations[2];
    rf_model *models[2];
    double value;
    for (int i = 0; i < 2; i++) models[i] = train(strategy, i == 1, &kept[i], &evaluations[i]);
    for (uint32_t e = 0; e < 3; e++) {
        const rf_logs *is = &kept[1].epochs[e], *expected = &kept[0].epochs[e];
        assert_same(is, expected, "loss");
        assert_same(is, expected, "output_0_error");
        assert_same(is, expected, "val_loss");
        assert_same(is, expected, "val_output_0_error");
        assert_false(rf_logs_get(is, "output_0_loss", &value)); /* there is one loss */
        assert_true(rf_logs_get(expected, "output_0_loss", &value));
    }
    assert_same(&evaluations[1], &evaluations[0], "loss");
    for (int i = 0; i < 2; i++) {
        rf_history_free(&kept[i]);
        rf_model_destroy(&models[i]);
    }
}
TEST_ON_ONE(compare)
TEST_ON_TWO(compare)

/* ---- mistakes ---- */

static rf_tensor scalar(rf_trace *t, const rf_tensor *labels, const rf_tensor *predictions, void *user)
{
    (void)labels;
    (void)user;
    return rf_reduce_sum(t, predictions[0], NULL, 0, RF_DROP_DIMS);
}

static void mistakes(rf_strategy *strategy)
{
    char folder[SCRATCH_PATH], path[64];
    rf_model *model = build(strategy);
    rf_dataset *data = examples();
    rf_optimizer *optimizer;
    OK(rf_optimizer_create(strategy, NULL, &optimizer));
    rf_compile_params params = params_of(optimizer, true);
    params.loss_weights = weights;
    FAILS(rf_model_compile(model, &params), RF_ERROR_INVALID_ARGUMENT, "loss_fn is set beside loss");
    params = params_of(optimizer, true);
    const rf_output_metric nameless = { .fn = absolute };
    params.output_metrics = &nameless;
    FAILS(rf_model_compile(model, &params), RF_ERROR_INVALID_ARGUMENT, "needs a name");
    const rf_output_metric both = { .fn = absolute, .metric = { .kind = RF_METRIC_F1, .name = "f" } };
    params.output_metrics = &both;
    FAILS(rf_model_compile(model, &params), RF_ERROR_INVALID_ARGUMENT, "no kind");
    params = params_of(optimizer, true);
    params.loss_fn = scalar;
    OK(rf_model_compile(model, &params));
    FAILS(rf_model_fit(model, &(rf_fit_params){ .data = data }, NULL), RF_ERROR_INVALID_ARGUMENT,
          "loss_fn gave f32 [], not losses");
    snprintf(path, sizeof(path), "%s/net.rfck", scratch(folder));
    FAILS(rf_model_save(model, path, NULL), RF_ERROR_UNSUPPORTED, "is code, which a file cannot hold");
    OK(rf_model_save_weights(model, path, NULL));
    scratch_remove(folder);
    rf_dataset_destroy(&data);
    rf_model_destroy(&model);
    rf_optimizer_destroy(&optimizer);
}
TEST_ON_ONE(mistakes)

TESTS(custom_fit, NULL, NULL)
