/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The multi-layer perceptron of mlp_one_hot.c with parameter servers: every task of the cluster runs this program, and
 * TF_CONFIG tells it which task it is. Servers hold the parameters and run Adam, workers compute gradients on batches
 * of the training set, the chief schedules an epoch of steps, waits for them, and evaluates.
 */
#include "common/common.h"

typedef struct app {
    rf_cluster_task task;
    rf_strategy *strategy;
    rf_dataset *train_data, *test_data;
    rf_model *model;
    rf_optimizer *optimizer;
    rf_function *train_function;
    rf_coordinator *coordinator;
} app;

/* in[0]: images, in[1]: one-hot labels. */
static rf_result train_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    static const rf_loss loss = { .kind = RF_LOSS_CATEGORICAL_CROSSENTROPY, .reduction = RF_REDUCTION_NONE };
    const app *a = user;
    const rf_tensor predictions = rf_model_call(t, a->model, in[0], RF_TRAINING);
    out[0] = rf_compute_average_loss(t, rf_loss_call(t, &loss, in[1], predictions), NULL);
    rf_optimizer_minimize(t, a->optimizer, out[0], rf_model_variables(a->model));
    return rf_trace_status(t);
}

/* Labels become one-hot rows. All workers have the whole training set, in one order. */
static int prepare(rf_dataset **data, uint32_t batch_size, uint64_t seed, bool training)
{
    rf_dataset *one_hot = NULL, *shuffled = NULL, *out = NULL;
    const uint64_t count = (uint64_t)rf_dataset_cardinality(*data);
    rf_result r = rf_dataset_map_one_hot(*data, 1, 10, &one_hot);
    if (r == RF_OK && training) r = rf_dataset_shuffle(one_hot, count, seed, RF_SHUFFLE_EACH_PASS, &shuffled);
    if (r == RF_OK) r = rf_dataset_batch(training ? shuffled : one_hot, batch_size, RF_REMAINDER_KEEP, &out);
    rf_dataset_destroy(&one_hot);
    rf_dataset_destroy(&shuffled);
    rf_dataset_destroy(data);
    *data = out;
    TRY(r);
    return 0;
}

static int create_layers(rf_layer *layers[3])
{
    TRY(rf_layer_flatten(&layers[0]));
    TRY(rf_layer_dense(&(rf_dense_params){ .units = 128, .activation = RF_ACTIVATION_RELU }, &layers[1]));
    TRY(rf_layer_dense(&(rf_dense_params){ .units = 10, .activation = RF_ACTIVATION_SOFTMAX }, &layers[2]));
    return 0;
}

/* The part that chief and workers have in common: one program, so that the variables have the same names and shapes. */
static int create_model(const example_options *options, app *a)
{
    rf_layer *layers[3] = { NULL };
    TRY(rf_strategy_create_mirrored(&(rf_mirrored_params){ .devices = options->devices }, &a->strategy));
    rf_strategy_set_seed(a->strategy, options->seed);
    if (example_create_model(a->strategy, create_layers(layers), layers, 3, &a->model) < 0) return -1;
    TRY(rf_optimizer_create_remote(a->strategy, &a->optimizer)); /* updates are the servers' */
    return example_load_images(options, &a->train_data, &a->test_data);
}

static int run_worker(const example_options *options, app *a)
{
    if (create_model(options, a) < 0) return -1;
    const uint32_t batch = options->batch_size * rf_strategy_num_replicas_in_sync(a->strategy);
    if (prepare(&a->train_data, batch, options->seed, true) < 0) return -1;
    TRY(rf_function_create(
        a->strategy,
        &(rf_function_params){ .step = train_step, .user = a, .num_outputs = 1, .name = "train", .training = true },
        &a->train_function));
    const rf_worker_function functions[] = {
        { .name = "train", .function = a->train_function, .num_results = 1, .data = a->train_data, .whole_data = true },
    };
    TRY(rf_worker_run(&(rf_worker_params){ .strategy = a->strategy,
                                           .variables = rf_model_variables(a->model),
                                           .functions = functions,
                                           .num_functions = 1 }));
    return 0;
}

static int evaluate(app *a, uint32_t epoch, uint32_t num_epochs)
{
    rf_logs logs;
    rf_coordinator_stats stats;
    double loss = 0, accuracy = 0;
    TRY(rf_coordinator_read_variables(a->coordinator));
    TRY(rf_model_evaluate(a->model, a->test_data, &logs));
    rf_coordinator_get_stats(a->coordinator, &stats);
    rf_logs_get(&logs, "loss", &loss);
    if (example_check_loss(loss, epoch + 1, 0) < 0) return -1;
    rf_logs_get(&logs, "accuracy", &accuracy);
    example_print(
        "Epoch %u/%u: test loss %.4f, test accuracy %.4f; %u workers, staleness %.2f on average, at most %llu\n",
        epoch + 1, num_epochs, loss, accuracy, stats.num_workers, stats.mean_staleness,
        (unsigned long long)stats.max_staleness);
    return 0;
}

static int run_chief(const example_options *options, app *a)
{
    if (create_model(options, a) < 0) return -1;
    const uint64_t examples = (uint64_t)rf_dataset_cardinality(a->train_data);
    if (prepare(&a->test_data, options->batch_size, 0, false) < 0) return -1;
    const rf_metric_kind metrics[] = { RF_METRIC_CATEGORICAL_ACCURACY };
    TRY(rf_model_compile(a->model, &(rf_compile_params){ .optimizer = a->optimizer,
                                                         .loss = { .kind = RF_LOSS_CATEGORICAL_CROSSENTROPY },
                                                         .metrics = metrics,
                                                         .num_metrics = 1 }));
    const rf_optimizer_params adam = { .kind = RF_OPTIMIZER_ADAM, .learning_rate = options->learning_rate };
    TRY(rf_coordinator_create(&(rf_coordinator_params){ .variables = rf_model_variables(a->model),
                                                        .optimizer = &adam,
                                                        .synchronous = options->synchronous,
                                                        .max_ahead = options->synchronous ? 0 : 4 },
                              &a->coordinator));
    example_print("%u workers, %u parameter servers, %s\n", a->task.num_workers, a->task.num_servers,
                  options->synchronous ? "synchronous" : "asynchronous");
    /* A synchronous step takes a batch of every worker. */
    const uint64_t step = (uint64_t)options->batch_size * (options->synchronous ? a->task.num_workers : 1);
    for (uint32_t epoch = 0; epoch < options->epochs; epoch++) {
        for (uint64_t first = 0; first < examples; first += step)
            TRY(rf_coordinator_schedule(a->coordinator, "train", 0, 0, NULL));
        TRY(rf_coordinator_join(a->coordinator));
        if (evaluate(a, epoch, options->epochs) < 0) return -1;
    }
    return 0;
}

static int run_server(const example_options *options)
{
    TRY(rf_parameter_server_run(&(rf_parameter_server_params){ .device = { .device = options->devices } }));
    return 0;
}

static int run(const example_options *options, app *a)
{
    TRY(rf_cluster_task_get(&a->task));
    switch (a->task.role) {
    case RF_ROLE_CHIEF: return run_chief(options, a);
    case RF_ROLE_WORKER: return run_worker(options, a);
    case RF_ROLE_PARAMETER_SERVER: return run_server(options);
    case RF_ROLE_EVALUATOR: break;
    }
    return 0; /* the chief evaluates */
}

static void destroy(app *a)
{
    rf_coordinator_destroy(&a->coordinator);
    rf_function_destroy(&a->train_function);
    rf_model_destroy(&a->model);
    rf_optimizer_destroy(&a->optimizer);
    rf_dataset_destroy(&a->train_data);
    rf_dataset_destroy(&a->test_data);
    example_destroy_strategy(&a->strategy);
}

int main(int argc, char **argv)
{
    example_options options = { .epochs = 5 };
    example_parse(argc, argv,
                  "Trains a multi-layer perceptron on one-hot labels with parameter servers.\v"
                  "Every task of the cluster runs this program; TF_CONFIG says which. On one machine, in four "
                  "terminals, each with RINGFIRE_INSECURE=1 (or the key of `ringfire keygen`):\n\n"
                  "C='{\"chief\":[\"127.0.0.1:7000\"],\n"
                  "    \"worker\":[\"127.0.0.1:7001\",\"127.0.0.1:7002\"],\n"
                  "    \"ps\":[\"127.0.0.1:7003\"]}'\n"
                  "task() { export TF_CONFIG=\"{\\\"cluster\\\":$C,\n"
                  "    \\\"task\\\":{\\\"type\\\":\\\"$1\\\",\\\"index\\\":$2}}\"; }\n\n"
                  "task ps 0;     parameter_server\n"
                  "task worker 0; parameter_server\n"
                  "task worker 1; parameter_server\n"
                  "task chief 0;  parameter_server\n\n"
                  "or all at once: run_parameter_server.sh. A worker may be killed and started again.",
                  "dDebsrnS", &options);
    app a = { 0 };
    const int result = run(&options, &a);
    destroy(&a);
    return example_exit_status(result);
}
