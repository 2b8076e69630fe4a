/* SPDX-License-Identifier: Apache-2.0 */
/* compile and fit: a CNN with a learning rate that falls in steps, a custom callback, validation, and evaluation.
 */
#include "common/common.h"
#include "common/epoch_bar.h"

enum { MAX_CALLBACKS = 7 };

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
    example_print("Learning rate for epoch %u is %g\n", state->epoch + 1, rf_optimizer_learning_rate(state->optimizer));
    return RF_OK;
}

static void print_speed(void *user, const rf_fit_state *state, double examples_per_second)
{
    (void)user;
    example_print("Speed in epoch %u: %.0f images/s\n", state->epoch + 1, examples_per_second);
}

typedef struct app {
    rf_strategy *strategy;
    rf_dataset *train_data, *test_data;
    rf_model *model;
    rf_optimizer *optimizer;
    rf_callback *callbacks[MAX_CALLBACKS];
    uint32_t num_callbacks;
    epoch_bar bar;
    double initial_rate;
} app;

static int create_layers(rf_layer *layers[5])
{
    TRY(rf_layer_conv2d(
        &(rf_conv2d_layer_params){ .filters = 32, .kernel_size = { 3 }, .activation = RF_ACTIVATION_RELU },
        &layers[0]));
    TRY(rf_layer_max_pool2d(NULL, &layers[1]));
    TRY(rf_layer_flatten(&layers[2]));
    TRY(rf_layer_dense(&(rf_dense_params){ .units = 64, .activation = RF_ACTIVATION_RELU }, &layers[3]));
    TRY(rf_layer_dense(&(rf_dense_params){ .units = 10 }, &layers[4]));
    return 0;
}

static int print_summary(const rf_model *model)
{
    char *summary;
    TRY(rf_model_summary(model, &summary));
    example_print("%s", summary);
    rf_string_free(summary);
    return 0;
}

/* cache(), shuffle() for the training set, batch(). */
static int prepare(rf_dataset **data, uint32_t batch_size, uint64_t seed, bool shuffle)
{
    rf_dataset *cached = NULL, *shuffled = NULL, *out = NULL;
    const int64_t count = rf_dataset_cardinality(*data);
    rf_result r = rf_dataset_cache(*data, &cached);
    if (r == RF_OK && shuffle) r = rf_dataset_shuffle(cached, (uint64_t)count, seed, RF_SHUFFLE_EACH_PASS, &shuffled);
    if (r == RF_OK) r = rf_dataset_batch(shuffle ? shuffled : cached, batch_size, RF_REMAINDER_KEEP, &out);
    rf_dataset_destroy(&cached);
    rf_dataset_destroy(&shuffled);
    rf_dataset_destroy(data);
    *data = out;
    TRY(r);
    return 0;
}

/* The weights after every epoch, as ckpt_1.rfck and so on; and what it takes to go on after an interruption. */
static int add_checkpoints(const example_options *options, app *a)
{
    char path[4096];
    snprintf(path, sizeof(path), "%s/ckpt_{epoch}", options->checkpoint_dir);
    TRY(rf_callback_model_checkpoint(&(rf_model_checkpoint_params){ .path = path, .save_weights_only = true },
                                     &a->callbacks[a->num_callbacks]));
    a->num_callbacks++;
    TRY(rf_callback_backup_and_restore(
        &(rf_backup_params){ .directory = options->checkpoint_dir, .save.sharded = options->sharded_checkpoints },
        &a->callbacks[a->num_callbacks]));
    a->num_callbacks++;
    return 0;
}

static int create_callbacks(const example_options *options, app *a)
{
    a->initial_rate = options->learning_rate;
    TRY(rf_callback_learning_rate_scheduler(decay, &a->initial_rate, &a->callbacks[a->num_callbacks]));
    a->num_callbacks++;
    TRY(epoch_bar_create_callback(&a->bar, &a->callbacks[a->num_callbacks]));
    a->num_callbacks++;
    TRY(rf_callback_create(&(rf_callback_fns){ .on_epoch_end = print_rate }, NULL, &a->callbacks[a->num_callbacks]));
    a->num_callbacks++;
    TRY(rf_callback_throughput(print_speed, NULL, &a->callbacks[a->num_callbacks]));
    a->num_callbacks++;
    if (options->checkpoint_dir && add_checkpoints(options, a) < 0) return -1;
    if (!options->logdir) return 0;
    /* Look at it with `ringfire plot DIR` or `tensorboard --logdir DIR`. */
    TRY(rf_callback_tensorboard(
        &(rf_tensorboard_params){ .directory = options->logdir, .histogram_freq = 1, .update_freq = 1 },
        &a->callbacks[a->num_callbacks]));
    a->num_callbacks++;
    return 0;
}

static int fit(const example_options *options, app *a)
{
    if (create_callbacks(options, a) < 0) return -1;
    TRY(rf_model_fit(a->model,
                     &(rf_fit_params){ .data = a->train_data,
                                       .validation_data = a->test_data,
                                       .epochs = options->epochs,
                                       .device_cache = options->device_cache,
                                       .callbacks = a->callbacks,
                                       .num_callbacks = a->num_callbacks },
                     NULL));
    if (rf_strategy_stop_agreed(a->strategy)) {
        example_print("Stopped on request\n");
        return options->checkpoint_dir ? STOPPED : 0;
    }
    if (options->checkpoint_dir) {
        char *latest;
        TRY(rf_checkpoint_latest(options->checkpoint_dir, "ckpt_{epoch}", &latest));
        const rf_result r = rf_model_load_weights(a->model, latest);
        rf_string_free(latest);
        TRY(r);
    }
    rf_logs logs;
    /* There is nothing to go on from when training has ended. */
    const int result = example_outcome(rf_model_evaluate(a->model, a->test_data, &logs));
    if (result != 0) return result == STOPPED ? 0 : -1;
    double loss = 0, accuracy = 0;
    rf_logs_get(&logs, "loss", &loss);
    rf_logs_get(&logs, "accuracy", &accuracy);
    example_print("Eval loss: %.4f, Eval accuracy: %.4f\n", loss, accuracy);
    return 0;
}

static int run(const example_options *options, app *a)
{
    if (example_create_strategy(options, &a->strategy) < 0) return -1;
    if (example_load_images(options, &a->train_data, &a->test_data) < 0) return -1;
    a->bar.visible = rf_strategy_is_chief(a->strategy);
    a->bar.total = rf_dataset_cardinality(a->train_data);
    const uint32_t batch = options->batch_size * rf_strategy_num_replicas_in_sync(a->strategy);
    if (prepare(&a->train_data, batch, options->seed, true) < 0) return -1;
    if (prepare(&a->test_data, batch, 0, false) < 0) return -1;
    rf_layer *layers[5] = { NULL };
    if (example_create_model(a->strategy, create_layers(layers), layers, 5, &a->model) < 0) return -1;
    if (print_summary(a->model) < 0) return -1;
    TRY(rf_optimizer_create(
        a->strategy, &(rf_optimizer_params){ .kind = RF_OPTIMIZER_ADAM, .loss_scale = example_loss_scale(options) },
        &a->optimizer));
    const rf_metric_kind metrics[] = { RF_METRIC_SPARSE_CATEGORICAL_ACCURACY };
    /* Callbacks see every 20th batch: looking at the loss makes the host wait for the devices. */
    TRY(rf_model_compile(
        a->model, &(rf_compile_params){ .optimizer = a->optimizer,
                                        .loss = { RF_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY, true, RF_REDUCTION_AUTO },
                                        .metrics = metrics,
                                        .num_metrics = 1,
                                        .steps_per_execution = 20 }));
    return fit(options, a);
}

static void destroy(app *a)
{
    for (uint32_t i = 0; i < a->num_callbacks; i++) rf_callback_destroy(&a->callbacks[i]);
    rf_model_destroy(&a->model);
    rf_optimizer_destroy(&a->optimizer);
    rf_dataset_destroy(&a->train_data);
    rf_dataset_destroy(&a->test_data);
    example_destroy_strategy(&a->strategy);
}

int main(int argc, char **argv)
{
    example_options options = { .epochs = 12 };
    example_parse(argc, argv, "Trains a CNN with compile and fit: learning-rate steps, a callback, validation.",
                  "dDebsrnlcPBmk", &options);
    app a = { 0 };
    const int result = run(&options, &a);
    destroy(&a);
    return example_exit_status(result);
}
