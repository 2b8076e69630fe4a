/* SPDX-License-Identifier: Apache-2.0 */
#include "servers.h"

#include <stdlib.h>

enum { MOST_AHEAD = 4 }; /* steps that a worker may be ahead of the slowest */

int servers_create_optimizer(const example_options *options, rf_strategy *strategy, const rf_optimizer_params *params,
                             rf_optimizer **out)
{
    const bool remote = options->strategy == STRATEGY_PARAMETER_SERVER;
    TRY(remote ? rf_optimizer_create_remote(strategy, out) : rf_optimizer_create(strategy, params, out));
    return 0;
}

int servers_take_part(const example_options *options, rf_dataset **data)
{
    rf_cluster_task task;
    rf_dataset *part;
    if (options->strategy != STRATEGY_PARAMETER_SERVER) return 0;
    TRY(rf_cluster_task_get(&task));
    if (task.role != RF_ROLE_WORKER) return 0;
    const rf_result r = rf_dataset_shard(*data, task.num_workers, task.index, &part);
    rf_dataset_destroy(data);
    TRY(r);
    *data = part;
    return 0;
}

/* ---- workers ---- */

static rf_result train_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const server_training *s = user;
    const uint32_t num_inputs = rf_model_num_inputs(s->model);
    rf_loss each = *s->loss;
    rf_tensor predictions;
    each.reduction = RF_REDUCTION_NONE;
    (void)rf_model_apply(t, s->model, in, num_inputs, RF_TRAINING, &predictions, 1);
    rf_tensor losses = rf_loss_call(t, &each, in[num_inputs], predictions);
    int32_t axes[RF_MAX_RANK];
    const uint32_t rank = (uint32_t)rf_tensor_shape(t, losses).rank;
    for (uint32_t i = 1; i < rank; i++) axes[i - 1] = (int32_t)i;
    if (rank > 1) losses = rf_reduce_mean(t, losses, axes, rank - 1, false); /* of an example, as fit does */
    out[0] = rf_compute_average_loss(t, losses, NULL);
    rf_optimizer_minimize(t, s->minimizer, out[0], rf_model_variables(s->model));
    return rf_trace_status(t);
}

static int work(const server_training *s)
{
    rf_function *own = NULL;
    const rf_function_params params = {
        .step = train_step, .user = (void *)(uintptr_t)s, .num_outputs = 1, .name = "train_step", .training = true
    };
    if (!s->step) TRY(rf_function_create(s->strategy, &params, &own));
    const rf_worker_function function = {
        .name = "train_step", .function = s->step ? s->step : own, .num_results = 1, .data = s->data
    };
    const rf_result r = rf_worker_run(&(rf_worker_params){ .strategy = s->strategy,
                                                           .variables = rf_model_variables(s->model),
                                                           .functions = &function,
                                                           .num_functions = 1,
                                                           .global_clip_norm = s->optimizer->global_clip_norm });
    rf_function_destroy(&own);
    TRY(r);
    return SERVED;
}

/* ---- the chief ---- */

/* In their order; the mean of the losses, each as much as another. */
static rf_result fetch_losses(const char *label, rf_remote_value *const *values, uint64_t count, uint64_t batch,
                              double *mean)
{
    rf_result r = RF_OK;
    progress bar;
    *mean = 0;
    progress_begin(&bar, label, (int64_t)(count * batch), true);
    for (uint64_t i = 0; i < count && r >= 0; i++) {
        float loss = 0;
        char status[32];
        r = rf_remote_value_fetch(values[i], &loss, 1);
        *mean += (double)loss / (double)count;
        snprintf(status, sizeof(status), "loss %.4f", (double)loss);
        progress_update(&bar, (int64_t)((i + 1) * batch), status);
    }
    (void)progress_end(&bar);
    return r;
}

static rf_result train_epoch(rf_coordinator *coordinator, const char *label, uint64_t steps, uint64_t batch,
                             double *loss)
{
    rf_remote_value **values = calloc(steps, sizeof(rf_remote_value *));
    uint64_t count = 0;
    rf_result r = values ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
    for (; count < steps && r >= 0; count++)
        r = rf_coordinator_schedule(coordinator, "train_step", 0, 0, &values[count]);
    if (r >= 0) r = fetch_losses(label, values, steps, batch, loss);
    if (r >= 0) r = rf_coordinator_join(coordinator);
    if (r >= 0) r = rf_coordinator_read_variables(coordinator);
    for (uint64_t i = 0; i < count; i++) rf_remote_value_destroy(&values[i]);
    free(values);
    return r;
}

static int lead(const server_training *s, const rf_cluster_task *task, rf_coordinator *coordinator)
{
    /* A synchronous step takes a batch of every worker; their replicas are taken to be as many as the chief's. */
    const uint64_t own = (uint64_t)s->options->batch_size * rf_strategy_num_replicas_in_sync(s->strategy);
    const uint64_t batch = own * (s->options->synchronous ? task->num_workers : 1);
    const uint64_t steps = s->steps ? s->steps : (s->examples + batch - 1) / batch;
    example_print("%u workers, %u parameter servers, %s\n", task->num_workers, task->num_servers,
                  s->options->synchronous ? "synchronous" : "asynchronous");
    for (uint32_t epoch = 0; epoch < s->epochs; epoch++) {
        double loss = 0;
        char label[32];
        snprintf(label, sizeof(label), "Epoch %u/%u", epoch + 1, s->epochs);
        TRY(train_epoch(coordinator, label, steps, batch, &loss));
        if (example_check_loss(loss, epoch + 1, 0) < 0) return -1;
        example_print("%s: loss: %.4f\n", label, loss);
        const int result = s->end_epoch ? s->end_epoch(s->user, epoch) : 0;
        if (result != 0) return result;
    }
    return 0;
}

/* Servers hold variables from the beginning, where fit makes those of some models with the first batch. */
static int build_model(const server_training *s)
{
    rf_element_spec spec;
    rf_dataset_spec(s->data, &spec);
    if (rf_model_variables(s->model).count == 0) TRY(rf_model_build_inputs(s->model, &spec));
    return 0;
}

int servers_train(const server_training *s)
{
    rf_cluster_task task;
    rf_coordinator *coordinator;
    if (build_model(s) < 0) return -1;
    TRY(rf_cluster_task_get(&task));
    if (task.role == RF_ROLE_WORKER) return work(s);
    rf_optimizer_params optimizer = *s->optimizer;
    optimizer.global_clip_norm = 0; /* no server has whole gradients */
    TRY(rf_coordinator_create(&(rf_coordinator_params){ .variables = rf_model_variables(s->model),
                                                        .optimizer = &optimizer,
                                                        .synchronous = s->options->synchronous,
                                                        .max_ahead = s->options->synchronous ? 0 : MOST_AHEAD },
                              &coordinator));
    const int result = lead(s, &task, coordinator);
    rf_coordinator_destroy(&coordinator);
    return result;
}
