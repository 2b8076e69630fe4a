/* SPDX-License-Identifier: Apache-2.0 */
/* compile and fit: a CNN with a learning rate that falls in steps, a callback of our own, validation, and evaluation.
 */
#include <stdlib.h>

#include "common/common.h"

typedef struct epoch_bar {
    progress bar;
    char label[32];
    int64_t seen, total;
} epoch_bar;

static double decay(void *user, uint32_t epoch, double rate)
{
    (void)rate;
    const double initial = *(const double *)user;
    return epoch < 3 ? initial : epoch < 7 ? initial * 0.1 : initial * 0.01;
}

static rf_result print_rate(void *user, rf_fit_state *state, const rf_logs *logs)
{
    (void)user;
    (void)logs;
    printf("Learning rate for epoch %u is %g\n", state->epoch + 1, rf_optimizer_learning_rate(state->optimizer));
    return RF_OK;
}

static rf_result begin_bar(void *user, rf_fit_state *state)
{
    epoch_bar *e = user;
    snprintf(e->label, sizeof(e->label), "Epoch %u/%u", state->epoch + 1, state->num_epochs);
    e->seen = 0;
    progress_begin(&e->bar, e->label, e->total);
    return RF_OK;
}

static rf_result advance_bar(void *user, rf_fit_state *state, const rf_logs *logs)
{
    epoch_bar *e = user;
    double loss = 0, accuracy = 0;
    char status[64];
    e->seen += state->batch_examples;
    rf_logs_get(logs, "loss", &loss);
    rf_logs_get(logs, "accuracy", &accuracy);
    snprintf(status, sizeof(status), "loss %.4f  accuracy %.2f %%", loss, 100 * accuracy);
    progress_update(&e->bar, e->seen, status);
    return RF_OK;
}

static rf_result end_bar(void *user, rf_fit_state *state, const rf_logs *logs)
{
    epoch_bar *e = user;
    const double rate = progress_end(&e->bar);
    printf("Epoch %u/%u: ", state->epoch + 1, state->num_epochs);
    for (uint32_t i = 0; i < logs->count; i++) printf("%s%s: %.4g", i ? ", " : "", logs->name[i], logs->value[i]);
    printf("  (%.0f images/s)\n", rate);
    fflush(stdout);
    return RF_OK;
}

static int create_model(rf_strategy *strategy, rf_model **model)
{
    rf_layer *layers[5] = { NULL };
    TRY(rf_layer_conv2d(
        &(rf_conv2d_layer_params){ .filters = 32, .kernel_size = { 3 }, .activation = RF_ACTIVATION_RELU },
        &layers[0]));
    TRY(rf_layer_max_pool2d(NULL, &layers[1]));
    TRY(rf_layer_flatten(&layers[2]));
    TRY(rf_layer_dense(&(rf_dense_params){ .units = 64, .activation = RF_ACTIVATION_RELU }, &layers[3]));
    TRY(rf_layer_dense(&(rf_dense_params){ .units = 10 }, &layers[4]));
    const rf_shape image = RF_SHAPE(28, 28, 1);
    TRY(rf_model_create_sequential(strategy, layers, 5, &image, model));
    char *summary;
    TRY(rf_model_summary(*model, &summary));
    fputs(summary, stdout);
    rf_string_free(summary);
    return 0;
}

/* The seeds' pipeline: cache().shuffle().batch(). */
static int prepare(rf_dataset **data, uint32_t batch_size, uint64_t seed)
{
    rf_dataset *cached = NULL, *shuffled = NULL, *out = NULL;
    const int64_t count = rf_dataset_cardinality(*data);
    rf_result r = rf_dataset_cache(*data, &cached);
    if (r == RF_OK) r = rf_dataset_shuffle(cached, (uint64_t)count, seed, true, &shuffled);
    if (r == RF_OK) r = rf_dataset_batch(shuffled, batch_size, false, &out);
    rf_dataset_destroy(&cached);
    rf_dataset_destroy(&shuffled);
    rf_dataset_destroy(data);
    *data = out;
    TRY(r);
    return 0;
}

static int fit(const example_options *options, rf_model *model, const rf_dataset *train_data,
               const rf_dataset *test_data, int64_t num_examples)
{
    double initial_rate = options->learning_rate;
    epoch_bar bar = { .total = num_examples };
    rf_callback *callbacks[3];
    TRY(rf_callback_learning_rate_scheduler(decay, &initial_rate, &callbacks[0]));
    TRY(rf_callback_create(
        &(rf_callback_fns){ .on_epoch_begin = begin_bar, .on_batch_end = advance_bar, .on_epoch_end = end_bar }, &bar,
        &callbacks[1]));
    TRY(rf_callback_create(&(rf_callback_fns){ .on_epoch_end = print_rate }, NULL, &callbacks[2]));
    TRY(rf_model_fit(model,
                     &(rf_fit_params){ .data = train_data,
                                       .validation_data = test_data,
                                       .epochs = options->epochs,
                                       .callbacks = callbacks,
                                       .num_callbacks = 3 },
                     NULL));
    for (int i = 0; i < 3; i++) rf_callback_destroy(&callbacks[i]);
    rf_logs logs;
    TRY(rf_model_evaluate(model, test_data, &logs));
    double loss = 0, accuracy = 0;
    rf_logs_get(&logs, "loss", &loss);
    rf_logs_get(&logs, "accuracy", &accuracy);
    printf("Eval loss: %.4f, Eval accuracy: %.4f\n", loss, accuracy);
    return 0;
}

static int run(const example_options *options)
{
    rf_strategy *strategy = NULL;
    rf_dataset *train_data = NULL, *test_data = NULL, *test_batches = NULL;
    rf_model *model = NULL;
    rf_optimizer *optimizer = NULL;
    if (example_create_strategy(options, &strategy) < 0) return -1;
    if (example_load_images(options, &train_data, &test_data) < 0) return -1;
    const int64_t num_examples = rf_dataset_cardinality(train_data);
    const uint32_t batch = options->batch_size * rf_strategy_num_replicas_in_sync(strategy);
    if (prepare(&train_data, batch, options->seed) < 0) return -1;
    TRY(rf_dataset_batch(test_data, batch, false, &test_batches));
    if (create_model(strategy, &model) < 0) return -1;
    TRY(rf_optimizer_create(strategy, &(rf_optimizer_params){ .kind = RF_OPTIMIZER_ADAM }, &optimizer));
    const rf_metric_kind metrics[] = { RF_METRIC_SPARSE_CATEGORICAL_ACCURACY };
    /* Callbacks see every 20th batch: looking at the loss makes the host wait for the devices. */
    TRY(rf_model_compile(
        model, &(rf_compile_params){ .optimizer = optimizer,
                                     .loss = { RF_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY, true, RF_REDUCTION_AUTO },
                                     .metrics = metrics,
                                     .num_metrics = 1,
                                     .steps_per_execution = 20 }));
    const int result = fit(options, model, train_data, test_batches, num_examples);
    rf_model_destroy(&model);
    rf_optimizer_destroy(&optimizer);
    rf_dataset_destroy(&train_data);
    rf_dataset_destroy(&test_data);
    rf_dataset_destroy(&test_batches);
    rf_strategy_destroy(&strategy);
    return result;
}

int main(int argc, char **argv)
{
    example_options options = { .epochs = 12 };
    example_parse(argc, argv, "Trains a CNN with compile and fit: learning-rate steps, a callback, validation.",
                  "dDebsrn", &options);
    return run(&options) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
