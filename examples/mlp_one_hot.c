/* SPDX-License-Identifier: Apache-2.0 */
/* A multi-layer perceptron with softmax output and one-hot labels, through compile and fit. */
#include <stdlib.h>

#include "common/common.h"

static rf_result print_epoch(void *user, rf_fit_state *state, const rf_logs *logs)
{
    (void)user;
    printf("Epoch %u/%u: ", state->epoch + 1, state->num_epochs);
    for (uint32_t i = 0; i < logs->count; i++) printf("%s%s: %.4g", i ? ", " : "", logs->name[i], logs->value[i]);
    printf("  (%.1f s)\n", state->seconds);
    fflush(stdout);
    return RF_OK;
}

/* Labels become one-hot rows; then shuffle (training set only) and batch. */
static int prepare(rf_dataset **data, uint32_t batch_size, uint64_t seed, bool shuffle)
{
    rf_dataset *one_hot = NULL, *shuffled = NULL, *out = NULL;
    const int64_t count = rf_dataset_cardinality(*data);
    rf_result r = rf_dataset_map_one_hot(*data, 1, 10, &one_hot);
    if (r == RF_OK && shuffle) r = rf_dataset_shuffle(one_hot, (uint64_t)count, seed, true, &shuffled);
    if (r == RF_OK) r = rf_dataset_batch(shuffle ? shuffled : one_hot, batch_size, false, &out);
    rf_dataset_destroy(&one_hot);
    rf_dataset_destroy(&shuffled);
    rf_dataset_destroy(data);
    *data = out;
    TRY(r);
    return 0;
}

static int create_model(rf_strategy *strategy, rf_model **model)
{
    rf_layer *layers[3] = { NULL };
    TRY(rf_layer_flatten(&layers[0]));
    TRY(rf_layer_dense(&(rf_dense_params){ .units = 128, .activation = RF_ACTIVATION_RELU }, &layers[1]));
    TRY(rf_layer_dense(&(rf_dense_params){ .units = 10, .activation = RF_ACTIVATION_SOFTMAX }, &layers[2]));
    const rf_shape image = RF_SHAPE(28, 28, 1);
    TRY(rf_model_create_sequential(strategy, layers, 3, &image, model));
    return 0;
}

static int run(const example_options *options)
{
    rf_strategy *strategy = NULL;
    rf_dataset *train_data = NULL, *test_data = NULL;
    rf_model *model = NULL;
    rf_optimizer *optimizer = NULL;
    rf_callback *printer = NULL;
    if (example_create_strategy(options, &strategy) < 0) return -1;
    if (example_load_images(options, &train_data, &test_data) < 0) return -1;
    const uint32_t batch = options->batch_size * rf_strategy_num_replicas_in_sync(strategy);
    if (prepare(&train_data, batch, options->seed, true) < 0 || prepare(&test_data, batch, 0, false) < 0) return -1;
    if (create_model(strategy, &model) < 0) return -1;
    TRY(rf_optimizer_create(
        strategy, &(rf_optimizer_params){ .kind = RF_OPTIMIZER_ADAM, .learning_rate = options->learning_rate },
        &optimizer));
    const rf_metric_kind metrics[] = { RF_METRIC_CATEGORICAL_ACCURACY };
    TRY(rf_model_compile(model, &(rf_compile_params){ .optimizer = optimizer,
                                                      .loss = { .kind = RF_LOSS_CATEGORICAL_CROSSENTROPY },
                                                      .metrics = metrics,
                                                      .num_metrics = 1 }));
    TRY(rf_callback_create(&(rf_callback_fns){ .on_epoch_end = print_epoch }, NULL, &printer));
    TRY(rf_model_fit(model,
                     &(rf_fit_params){ .data = train_data,
                                       .validation_data = test_data,
                                       .epochs = options->epochs,
                                       .callbacks = &printer,
                                       .num_callbacks = 1 },
                     NULL));
    rf_callback_destroy(&printer);
    rf_model_destroy(&model);
    rf_optimizer_destroy(&optimizer);
    rf_dataset_destroy(&train_data);
    rf_dataset_destroy(&test_data);
    rf_strategy_destroy(&strategy);
    return 0;
}

int main(int argc, char **argv)
{
    example_options options = { .epochs = 5 };
    example_parse(argc, argv, "Trains a multi-layer perceptron on one-hot labels with compile and fit.", "dDebsrn",
                  &options);
    return run(&options) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
