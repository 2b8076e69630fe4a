/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Custom training loop under a mirrored strategy: a small CNN on Fashion-MNIST. The user writes the step; the strategy
 * runs it on every device, sums gradients and keeps the variables identical.
 */
#include "common/loop.h"

typedef struct app {
    rf_strategy *strategy;
    rf_dataset *train_data, *test_data;
    rf_device_data *kept; /* the training set on the devices; NULL: batches come from the host */
    rf_function *train_function, *test_function;
    rf_model *model;
    rf_optimizer *optimizer;
    rf_metric *train_loss, *train_accuracy, *test_loss, *test_accuracy;
    /* Checkpoints hold besides: */
    rf_iterator *train_iterator; /* NULL between epochs */
    uint64_t epoch;              /* of the training that goes on */
    rf_checkpoint *checkpoint;   /* NULL: none are kept */
    rf_checkpoint_manager *manager;
} app;

static const rf_loss loss_object = {
    .kind = RF_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY,
    .from_logits = true,
    .reduction = RF_REDUCTION_NONE, /* summed and divided by the global batch below */
};

static const rf_tensor no_tensor = { 0 };

/* Traced once, replayed on every replica. in[0]: images, in[1]: labels; or numbers of rows of the data on the devices.
 */
static rf_result train_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const app *a = user;
    rf_tensor of_rows[2];
    if (a->kept) {
        if (rf_device_data_take(t, a->kept, in[0], of_rows) < 0) return rf_trace_status(t);
        in = of_rows;
    }
    const rf_tensor predictions = rf_model_call(t, a->model, in[0], RF_TRAINING);
    const rf_tensor losses = rf_loss_call(t, &loss_object, in[1], predictions);
    out[0] = rf_compute_average_loss(t, losses, NULL);
    rf_optimizer_minimize(t, a->optimizer, out[0], rf_model_variables(a->model));
    rf_metric_update(t, a->train_loss, no_tensor, losses, no_tensor);
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

/* One pass over the training set, or what is left of it after a restart: nothing where a test was interrupted. Metrics
 * are over the whole pass: checkpoints hold them. */
static int train_epoch(rf_strategy *strategy, rf_function *step, const rf_dataset *data, app *a, double *rate)
{
    if (!a->train_iterator) TRY(rf_iterator_create(data, a->epoch, &a->train_iterator));
    char label[32];
    snprintf(label, sizeof(label), "Epoch %u", (unsigned)a->epoch + 1);
    progress bar;
    const int64_t batches = rf_dataset_cardinality(data);
    progress_begin(&bar, label, batches > 0 ? batches * rf_dataset_batch_size(data) : -1,
                   rf_strategy_is_chief(strategy));

    int64_t seen = 0;
    const rf_element *batch;
    rf_result r;
    while ((r = rf_iterator_next(a->train_iterator, &batch)) == RF_OK) {
        rf_per_replica *results[1];
        float step_loss;
        if ((r = rf_strategy_run(strategy, step, batch, results)) < 0) break;
        if ((r = rf_strategy_reduce(strategy, RF_REDUCE_SUM, results[0], &step_loss)) < 0) break;
        if (example_check_loss((double)step_loss, a->epoch + 1, rf_optimizer_iterations(a->optimizer)) < 0) return -1;
        seen += rf_element_global_rows(batch); /* of all workers */
        if (rf_strategy_stop_agreed(strategy)) break;
        char status[64] = "";
        if (progress_due(&bar)) {
            /* The clock decides whether this is called: it must not wait for other workers. */
            double accuracy;
            if ((r = rf_metric_local_result(a->train_accuracy, &accuracy)) < 0) break;
            snprintf(status, sizeof(status), "loss %.4f  accuracy %.2f %%", (double)step_loss, 100 * accuracy);
        }
        progress_update(&bar, seen, status);
    }
    *rate = progress_end(&bar);
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
        if ((r = rf_strategy_run(strategy, step, batch, NULL)) < 0 || rf_strategy_stop_agreed(strategy)) break;
    rf_iterator_destroy(&it);
    TRY(r);
    return 0;
}

/* Everything that a restarted program needs; goes on from the latest checkpoint where there is one. */
static int open_checkpoints(const example_options *options, app *a)
{
    if (!options->checkpoint_dir) return 0;
    TRY(rf_checkpoint_create(a->strategy, &a->checkpoint));
    TRY(rf_checkpoint_add_model(a->checkpoint, "model", a->model));
    TRY(rf_checkpoint_add_optimizer(a->checkpoint, "optimizer", a->optimizer));
    TRY(rf_checkpoint_add_function(a->checkpoint, "train_step", a->train_function));
    TRY(rf_checkpoint_add_metric(a->checkpoint, "train_loss", a->train_loss));
    TRY(rf_checkpoint_add_metric(a->checkpoint, "train_accuracy", a->train_accuracy));
    TRY(rf_checkpoint_add_iterator(a->checkpoint, "train_iterator", &a->train_iterator, a->train_data));
    TRY(rf_checkpoint_add_counter(a->checkpoint, "epoch", &a->epoch));
    const int restored = example_open_manager(options, a->checkpoint, &a->manager);
    if (restored > 0 && a->epoch < options->epochs) example_print("Continuing in epoch %u\n", (unsigned)a->epoch + 1);
    return restored < 0 ? -1 : 0;
}

static int create_functions(app *a)
{
    TRY(rf_function_create(
        a->strategy,
        &(rf_function_params){
            .step = train_step, .user = a, .num_outputs = 1, .name = "train_step", .training = true },
        &a->train_function));
    TRY(rf_function_create(a->strategy, &(rf_function_params){ .step = test_step, .user = a, .name = "test_step" },
                           &a->test_function));
    return 0;
}

/* Over the test set; what the metrics held is forgotten. */
static int test(app *a, double *loss, double *accuracy)
{
    if (test_epoch(a->strategy, a->test_function, a->test_data) < 0) return -1;
    TRY(rf_metric_result(a->test_loss, loss));
    TRY(rf_metric_result(a->test_accuracy, accuracy));
    TRY(rf_metric_reset(a->test_loss));
    TRY(rf_metric_reset(a->test_accuracy));
    return 0;
}

static int train(const example_options *options, app *a)
{
    double loss, accuracy, test_loss, test_accuracy, rate;
    bool tested = false; /* not where a run that had ended is started again */
    while (a->epoch < options->epochs) {
        if (train_epoch(a->strategy, a->train_function, a->train_data, a, &rate) < 0) return -1;
        if (rf_strategy_stop_agreed(a->strategy))
            return example_stop(a->checkpoint, a->manager, a->optimizer, a->epoch);
        if (test(a, &test_loss, &test_accuracy) < 0) return -1;
        if (rf_strategy_stop_agreed(a->strategy))
            return example_stop(a->checkpoint, a->manager, a->optimizer, a->epoch); /* the test is made again */
        rf_iterator_destroy(&a->train_iterator);
        tested = true;
        TRY(rf_metric_result(a->train_loss, &loss));
        TRY(rf_metric_result(a->train_accuracy, &accuracy));
        a->epoch++;
        example_print("Epoch %u, Loss: %.4f, Accuracy: %.2f, Test Loss: %.4f, Test Accuracy: %.2f  (%.0f images/s)\n",
                      (unsigned)a->epoch, loss, 100 * accuracy, test_loss, 100 * test_accuracy, rate);
        TRY(rf_metric_reset(a->train_loss));
        TRY(rf_metric_reset(a->train_accuracy));
        if ((a->epoch % 2 == 0 || a->epoch == options->epochs) && example_save(a->manager, a->optimizer) < 0) return -1;
    }
    if (!tested && test(a, &test_loss, &test_accuracy) < 0) return -1;
    if (rf_strategy_stop_agreed(a->strategy)) return example_stopped();
    example_print("Test accuracy: %.2f %%\n", 100 * test_accuracy);
    if (a->checkpoint) TRY(rf_checkpoint_wait(a->checkpoint));
    return 0;
}

static int batched(rf_dataset **data, uint32_t batch_size, uint64_t shuffle_seed, bool shuffle)
{
    rf_dataset *in = *data, *out = NULL;
    rf_result r = RF_OK;
    if (shuffle)
        r = rf_dataset_shuffle(in, (uint64_t)rf_dataset_cardinality(in), shuffle_seed, RF_SHUFFLE_EACH_PASS, &out);
    if (shuffle && r == RF_OK) {
        rf_dataset_destroy(&in);
        in = out;
    }
    if (r == RF_OK) r = rf_dataset_batch(in, batch_size, RF_REMAINDER_KEEP, &out);
    rf_dataset_destroy(&in);
    *data = NULL;
    if (r == RF_OK) r = rf_dataset_prefetch(out, 2, data);
    rf_dataset_destroy(&out);
    TRY(r);
    return 0;
}

/* Model, optimizer and metrics on the strategy of `a`. */
static int create_objects(const example_options *options, app *a)
{
    rf_layer *layers[7] = { NULL };
    if (example_create_model(a->strategy, create_layers(layers), layers, 7, &a->model) < 0) return -1;
    TRY(rf_optimizer_create(
        a->strategy, &(rf_optimizer_params){ .kind = RF_OPTIMIZER_ADAM, .learning_rate = options->learning_rate },
        &a->optimizer));
    const rf_metric_kind accuracy = RF_METRIC_SPARSE_CATEGORICAL_ACCURACY;
    TRY(rf_metric_create(a->strategy, &(rf_metric_params){ .kind = RF_METRIC_MEAN, .name = "train_loss" },
                         &a->train_loss));
    TRY(rf_metric_create(a->strategy, &(rf_metric_params){ .kind = accuracy, .name = "train_accuracy" },
                         &a->train_accuracy));
    TRY(rf_metric_create(a->strategy, &(rf_metric_params){ .kind = RF_METRIC_MEAN, .name = "test_loss" },
                         &a->test_loss));
    TRY(rf_metric_create(a->strategy, &(rf_metric_params){ .kind = accuracy, .name = "test_accuracy" },
                         &a->test_accuracy));
    return create_functions(a);
}

/* Chooses what this worker reads of the training set, which may lie on the devices. */
static int distribute_training(const example_options *options, app *a)
{
    const rf_device_data_params params = { .policy = options->device_cache };
    TRY(rf_device_data_create(a->strategy, a->train_data, &params, &a->kept));
    if (!a->kept) return example_distribute(a->strategy, &a->train_data);
    rf_dataset_destroy(&a->train_data);
    TRY(rf_strategy_distribute_dataset(a->strategy, rf_device_data_rows(a->kept), NULL, &a->train_data));
    return 0;
}

static int run(const example_options *options, app *a)
{
    if (example_create_strategy(options, &a->strategy) < 0) return -1;
    if (example_load_images(options, &a->train_data, &a->test_data) < 0) return -1;
    const uint32_t global_batch = options->batch_size * rf_strategy_num_replicas_in_sync(a->strategy);
    if (batched(&a->train_data, global_batch, options->seed, true) < 0) return -1;
    if (batched(&a->test_data, global_batch, 0, false) < 0) return -1;
    if (distribute_training(options, a) < 0) return -1;
    if (example_distribute(a->strategy, &a->test_data) < 0) return -1;
    if (create_objects(options, a) < 0) return -1;
    example_print("%llu parameters, global batch %u\n", (unsigned long long)rf_model_num_params(a->model),
                  global_batch);
    if (open_checkpoints(options, a) < 0) return -1;
    return train(options, a);
}

/* A new model on one device gets what the latest checkpoint has of it, whatever strategy saved it. */
static int restore_without_strategy(const example_options *options, app *a)
{
    char *latest;
    double loss, accuracy;
    TRY(rf_checkpoint_latest(options->checkpoint_dir, NULL, &latest));
    rf_result r = rf_strategy_create_one_device(NULL, &a->strategy);
    if (r >= 0 && create_objects(options, a) < 0) {
        rf_string_free(latest);
        return -1;
    }
    if (r >= 0) r = rf_checkpoint_create(a->strategy, &a->checkpoint);
    if (r >= 0) r = rf_checkpoint_add_model(a->checkpoint, "model", a->model);
    if (r >= 0) r = rf_checkpoint_restore(a->checkpoint, latest, &(rf_restore_params){ .partial = true });
    rf_string_free(latest);
    TRY(r);
    if (example_load_images(options, &a->train_data, &a->test_data) < 0) return -1;
    if (batched(&a->test_data, options->batch_size, 0, false) < 0) return -1;
    if (test(a, &loss, &accuracy) < 0) return -1;
    example_print("Accuracy after restoring the saved model without strategy: %.2f\n", 100 * accuracy);
    return 0;
}

/* Whatever there is of it. */
static void destroy(app *a)
{
    rf_checkpoint_manager_destroy(&a->manager);
    rf_checkpoint_destroy(&a->checkpoint);
    rf_iterator_destroy(&a->train_iterator);
    rf_function_destroy(&a->test_function);
    rf_function_destroy(&a->train_function);
    rf_metric_destroy(&a->test_accuracy);
    rf_metric_destroy(&a->test_loss);
    rf_metric_destroy(&a->train_accuracy);
    rf_metric_destroy(&a->train_loss);
    rf_optimizer_destroy(&a->optimizer);
    rf_model_destroy(&a->model);
    rf_dataset_destroy(&a->train_data);
    rf_dataset_destroy(&a->test_data);
    rf_device_data_destroy(&a->kept);
    example_destroy_strategy(&a->strategy);
}

int main(int argc, char **argv)
{
    example_options options = { .epochs = 10 };
    example_parse(argc, argv,
                  "Trains a CNN on Fashion-MNIST with a custom training loop on all Vulkan devices at once.",
                  "dDebsrncPBk", &options);
    app a = { 0 }, restored = { 0 };
    int result = run(&options, &a);
    const bool chief = rf_strategy_is_chief(a.strategy);
    destroy(&a);
    if (result == 0 && options.checkpoint_dir && chief) {
        result = restore_without_strategy(&options, &restored);
        destroy(&restored);
    }
    return example_exit_status(result);
}
