/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Custom training loop under a mirrored strategy: a small CNN on Fashion-MNIST. The user writes the step; the strategy
 * runs it on every device, sums gradients and keeps the variables identical.
 */
#include "common/common.h"

typedef struct app {
    rf_strategy *strategy;
    rf_dataset *train_data, *test_data;
    rf_function *train_function, *test_function;
    rf_model *model;
    rf_optimizer *optimizer;
    rf_metric *train_accuracy, *test_accuracy, *test_loss;
} app;

static const rf_loss loss_object = {
    .kind = RF_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY,
    .from_logits = true,
    .reduction = RF_REDUCTION_NONE, /* summed and divided by the global batch below */
};

static const rf_tensor no_tensor = { 0 };

/* Traced once, replayed on every replica. in[0]: images, in[1]: labels. */
static rf_result train_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const app *a = user;
    const rf_tensor predictions = rf_model_call(t, a->model, in[0], RF_TRAINING);
    const rf_tensor losses = rf_loss_call(t, &loss_object, in[1], predictions);
    out[0] = rf_compute_average_loss(t, losses, NULL);
    rf_optimizer_minimize(t, a->optimizer, out[0], rf_model_variables(a->model));
    rf_metric_update(t, a->train_accuracy, in[1], predictions, no_tensor);
    return rf_trace_status(t);
}

static rf_result test_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const app *a = user;
    (void)out;
    const rf_tensor predictions = rf_model_call(t, a->model, in[0], RF_INFERENCE);
    rf_metric_update(t, a->test_loss, no_tensor, rf_loss_call(t, &loss_object, in[1], predictions), no_tensor);
    rf_metric_update(t, a->test_accuracy, in[1], predictions, no_tensor);
    return rf_trace_status(t);
}

static int create_layers(rf_layer *layers[7])
{
    TRY(rf_layer_conv2d(
        &(rf_conv2d_layer_params){ .filters = 32, .kernel_size = { 3 }, .activation = RF_ACTIVATION_RELU },
        &layers[0]));
    TRY(rf_layer_max_pool2d(NULL, &layers[1]));
    TRY(rf_layer_conv2d(
        &(rf_conv2d_layer_params){ .filters = 64, .kernel_size = { 3 }, .activation = RF_ACTIVATION_RELU },
        &layers[2]));
    TRY(rf_layer_max_pool2d(NULL, &layers[3]));
    TRY(rf_layer_flatten(&layers[4]));
    TRY(rf_layer_dense(&(rf_dense_params){ .units = 64, .activation = RF_ACTIVATION_RELU }, &layers[5]));
    TRY(rf_layer_dense(&(rf_dense_params){ .units = 10 }, &layers[6]));
    return 0;
}

/* One pass over the training set; *loss is the mean of the steps' losses. */
static int train_epoch(rf_strategy *strategy, rf_function *step, const rf_dataset *data, uint32_t epoch, app *a,
                       double *loss, double *rate)
{
    rf_iterator *it;
    TRY(rf_iterator_create(data, epoch, &it));
    char label[32];
    snprintf(label, sizeof(label), "Epoch %u", epoch + 1);
    progress bar;
    const int64_t batches = rf_dataset_cardinality(data);
    progress_begin(&bar, label, batches > 0 ? batches * rf_dataset_batch_size(data) : -1,
                   rf_strategy_is_chief(strategy));

    double total = 0;
    int64_t num_batches = 0, seen = 0;
    const rf_element *batch;
    rf_result r;
    while ((r = rf_iterator_next(it, &batch)) == RF_OK) {
        rf_per_replica *results[1];
        float step_loss;
        if ((r = rf_strategy_run(strategy, step, batch, results)) < 0) break;
        if ((r = rf_strategy_reduce(strategy, RF_REDUCE_SUM, results[0], &step_loss)) < 0) break;
        total += (double)step_loss;
        num_batches++;
        seen += batch->component[0].shape.dim[0];
        if (rf_strategy_stop_agreed(strategy)) break;
        char status[64] = "";
        if (progress_due(&bar)) {
            /* The clock decides whether this is called: it must not wait for other workers. */
            double accuracy;
            if ((r = rf_metric_local_result(a->train_accuracy, &accuracy)) < 0) break;
            snprintf(status, sizeof(status), "loss %.4f  accuracy %.2f %%", total / (double)num_batches,
                     100 * accuracy);
        }
        progress_update(&bar, seen, status);
    }
    rf_iterator_destroy(&it);
    *rate = progress_end(&bar);
    *loss = num_batches ? total / (double)num_batches : 0;
    TRY(r);
    return 0;
}

static int test_epoch(rf_strategy *strategy, rf_function *step, const rf_dataset *data)
{
    rf_iterator *it;
    TRY(rf_iterator_create(data, 0, &it));
    const rf_element *batch;
    rf_result r;
    while ((r = rf_iterator_next(it, &batch)) == RF_OK)
        if ((r = rf_strategy_run(strategy, step, batch, NULL)) < 0) break;
    rf_iterator_destroy(&it);
    TRY(r);
    return 0;
}

static int train(const example_options *options, app *a)
{
    TRY(rf_function_create(
        a->strategy,
        &(rf_function_params){
            .step = train_step, .user = a, .num_outputs = 1, .name = "train_step", .training = true },
        &a->train_function));
    TRY(rf_function_create(a->strategy, &(rf_function_params){ .step = test_step, .user = a, .name = "test_step" },
                           &a->test_function));
    double accuracy, test_accuracy = 0, test_loss;
    for (uint32_t epoch = 0; epoch < options->epochs; epoch++) {
        double loss, rate;
        if (train_epoch(a->strategy, a->train_function, a->train_data, epoch, a, &loss, &rate) < 0) return -1;
        if (rf_strategy_stop_agreed(a->strategy)) {
            example_print("Stopped on request in epoch %u\n", epoch + 1);
            return 0;
        }
        if (test_epoch(a->strategy, a->test_function, a->test_data) < 0) return -1;
        TRY(rf_metric_result(a->train_accuracy, &accuracy));
        TRY(rf_metric_result(a->test_accuracy, &test_accuracy));
        TRY(rf_metric_result(a->test_loss, &test_loss));
        example_print("Epoch %u, Loss: %.4f, Accuracy: %.2f, Test Loss: %.4f, Test Accuracy: %.2f  (%.0f images/s)\n",
                      epoch + 1, loss, 100 * accuracy, test_loss, 100 * test_accuracy, rate);
        TRY(rf_metric_reset(a->train_accuracy));
        TRY(rf_metric_reset(a->test_accuracy));
        TRY(rf_metric_reset(a->test_loss));
    }
    example_print("Test accuracy: %.2f %%\n", 100 * test_accuracy);
    return 0;
}

static int batched(rf_dataset **data, uint32_t batch_size, uint64_t shuffle_seed, bool shuffle)
{
    rf_dataset *in = *data, *out = NULL;
    rf_result r = RF_OK;
    if (shuffle) r = rf_dataset_shuffle(in, (uint64_t)rf_dataset_cardinality(in), shuffle_seed, true, &out);
    if (shuffle && r == RF_OK) {
        rf_dataset_destroy(&in);
        in = out;
    }
    if (r == RF_OK) r = rf_dataset_batch(in, batch_size, false, &out);
    rf_dataset_destroy(&in);
    *data = NULL;
    if (r == RF_OK) r = rf_dataset_prefetch(out, 2, data);
    rf_dataset_destroy(&out);
    TRY(r);
    return 0;
}

static int run(const example_options *options, app *a)
{
    if (example_create_strategy(options, &a->strategy) < 0) return -1;
    if (example_load_images(options, &a->train_data, &a->test_data) < 0) return -1;
    const uint32_t global_batch = options->batch_size * rf_strategy_num_replicas_in_sync(a->strategy);
    if (batched(&a->train_data, global_batch, options->seed, true) < 0) return -1;
    if (batched(&a->test_data, global_batch, 0, false) < 0) return -1;
    rf_layer *layers[7] = { NULL };
    if (example_create_model(a->strategy, create_layers(layers), layers, 7, &a->model) < 0) return -1;
    TRY(rf_optimizer_create(
        a->strategy, &(rf_optimizer_params){ .kind = RF_OPTIMIZER_ADAM, .learning_rate = options->learning_rate },
        &a->optimizer));
    const rf_metric_kind accuracy = RF_METRIC_SPARSE_CATEGORICAL_ACCURACY;
    TRY(rf_metric_create(a->strategy, accuracy, "train_accuracy", &a->train_accuracy));
    TRY(rf_metric_create(a->strategy, accuracy, "test_accuracy", &a->test_accuracy));
    TRY(rf_metric_create(a->strategy, RF_METRIC_MEAN, "test_loss", &a->test_loss));
    example_print("%llu parameters, global batch %u\n", (unsigned long long)rf_model_count_params(a->model),
                  global_batch);
    return train(options, a);
}

/* Whatever there is of it. */
static void destroy(app *a)
{
    rf_function_destroy(&a->test_function);
    rf_function_destroy(&a->train_function);
    rf_metric_destroy(&a->test_loss);
    rf_metric_destroy(&a->test_accuracy);
    rf_metric_destroy(&a->train_accuracy);
    rf_optimizer_destroy(&a->optimizer);
    rf_model_destroy(&a->model);
    rf_dataset_destroy(&a->train_data);
    rf_dataset_destroy(&a->test_data);
    example_destroy_strategy(&a->strategy);
}

int main(int argc, char **argv)
{
    example_options options = { .epochs = 10 };
    example_parse(argc, argv,
                  "Trains a CNN on Fashion-MNIST with a custom training loop on all Vulkan devices at once.", "dDebsrn",
                  &options);
    app a = { 0 };
    const int result = run(&options, &a);
    destroy(&a);
    return example_exit_status(result);
}
