/* SPDX-License-Identifier: Apache-2.0 */
/* A multi-layer perceptron with softmax output and one-hot labels, through compile and fit. */
#include "common/common.h"

static rf_result print_epoch(void *user, rf_fit_state *state, const rf_logs *logs)
{
    (void)user;
    example_print("Epoch %u/%u: ", state->epoch + 1, state->num_epochs);
    for (uint32_t i = 0; i < logs->count; i++)
        example_print("%s%s: %.4g", i ? ", " : "", logs->name[i], logs->value[i]);
    example_print("  (%.1f s)\n", state->seconds);
    return RF_OK;
}

/* Labels become one-hot rows; then shuffle (training set only) and batch. */
static int prepare(rf_dataset **data, uint32_t batch_size, uint64_t seed, bool shuffle)
{
    rf_dataset *one_hot = NULL, *shuffled = NULL, *out = NULL;
    const int64_t count = rf_dataset_cardinality(*data);
    rf_result r = rf_dataset_map_one_hot(*data, 1, 10, &one_hot);
    if (r == RF_OK && shuffle) r = rf_dataset_shuffle(one_hot, (uint64_t)count, seed, RF_SHUFFLE_EACH_PASS, &shuffled);
    if (r == RF_OK) r = rf_dataset_batch(shuffle ? shuffled : one_hot, batch_size, RF_REMAINDER_KEEP, &out);
    rf_dataset_destroy(&one_hot);
    rf_dataset_destroy(&shuffled);
    rf_dataset_destroy(data);
    *data = out;
    TRY(r);
    return 0;
}

typedef struct app {
    rf_strategy *strategy;
    rf_dataset *train_data, *test_data;
    rf_model *model;
    rf_optimizer *optimizer;
    rf_callback *printer;
} app;

static int create_layers(rf_layer *layers[3])
{
    TRY(rf_layer_flatten(&layers[0]));
    TRY(rf_layer_dense(&(rf_dense_params){ .units = 128, .activation = RF_ACTIVATION_RELU }, &layers[1]));
    TRY(rf_layer_dense(&(rf_dense_params){ .units = 10, .activation = RF_ACTIVATION_SOFTMAX }, &layers[2]));
    return 0;
}

static int run(const example_options *options, app *a)
{
    if (example_create_strategy(options, &a->strategy) < 0) return -1;
    if (example_load_images(options, &a->train_data, &a->test_data) < 0) return -1;
    const uint32_t batch = options->batch_size * rf_strategy_num_replicas_in_sync(a->strategy);
    if (prepare(&a->train_data, batch, options->seed, true) < 0) return -1;
    if (prepare(&a->test_data, batch, 0, false) < 0) return -1;
    rf_layer *layers[3] = { NULL };
    if (example_create_model(a->strategy, create_layers(layers), layers, 3, &a->model) < 0) return -1;
    TRY(rf_optimizer_create(
        a->strategy, &(rf_optimizer_params){ .kind = RF_OPTIMIZER_ADAM, .learning_rate = options->learning_rate },
        &a->optimizer));
    const rf_metric_kind metrics[] = { RF_METRIC_CATEGORICAL_ACCURACY };
    TRY(rf_model_compile(a->model, &(rf_compile_params){ .optimizer = a->optimizer,
                                                         .loss = { .kind = RF_LOSS_CATEGORICAL_CROSSENTROPY },
                                                         .metrics = metrics,
                                                         .num_metrics = 1 }));
    TRY(rf_callback_create(&(rf_callback_fns){ .on_epoch_end = print_epoch }, NULL, &a->printer));
    TRY(rf_model_fit(a->model,
                     &(rf_fit_params){ .data = a->train_data,
                                       .validation_data = a->test_data,
                                       .epochs = options->epochs,
                                       .callbacks = &a->printer,
                                       .num_callbacks = 1 },
                     NULL));
    return 0;
}

static void destroy(app *a)
{
    rf_callback_destroy(&a->printer);
    rf_model_destroy(&a->model);
    rf_optimizer_destroy(&a->optimizer);
    rf_dataset_destroy(&a->train_data);
    rf_dataset_destroy(&a->test_data);
    example_destroy_strategy(&a->strategy);
}

int main(int argc, char **argv)
{
    example_options options = { .epochs = 5 };
    example_parse(argc, argv, "Trains a multi-layer perceptron on one-hot labels with compile and fit.", "dDebsrnB",
                  &options);
    app a = { 0 };
    const int result = run(&options, &a);
    destroy(&a);
    return example_exit_status(result);
}
