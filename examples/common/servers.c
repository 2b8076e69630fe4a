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

int servers_count_batch(const example_options *options, const rf_strategy *strategy, uint64_t *examples)
{
    rf_cluster_task task;
    TRY(rf_cluster_task_get(&task));
    *examples = (uint64_t)options->batch_size * rf_strategy_num_replicas_in_sync(strategy);
    if (options->synchronous) *examples *= task.num_workers;
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
    if (rank > 1) losses = rf_reduce_mean(t, losses, axes, rank - 1, RF_DROP_DIMS); /* of an example, as fit does */
    const rf_tensor penalty = rf_scale_regularization_loss(t, rf_model_regularization_loss(t, s->model));
    out[0] = rf_add(t, rf_compute_average_loss(t, losses, NULL), penalty);
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
        .name = "train_step",
        .function = s->step ? s->step : own,
        .num_results = 1,
        .data = s->data,
        .whole_data = true /* any worker can compute what a lost one has left */
    };
    const rf_result r = rf_worker_run(&(rf_worker_params){ .strategy = s->strategy,
                                                           .variables = rf_model_variables(s->model),
                                                           .state_variables = rf_model_state_variables(s->model),
                                                           .functions = &function,
                                                           .num_functions = 1,
                                                           .global_clip_norm = s->optimizer->global_clip_norm });
    rf_function_destroy(&own);
    TRY(r);
    return SERVED;
}

/* ---- the chief ---- */

typedef struct leader {
    const server_training *training;
    rf_cluster_task task;
    uint64_t batch; /* examples of a step */
    uint64_t epoch; /* done */
    /* NULL where no checkpoints are kept: */
    rf_optimizer *optimizer; /* has the state of that of the servers after each epoch */
    rf_checkpoint *checkpoint;
    rf_checkpoint_manager *manager;
    rf_coordinator *coordinator;
} leader;

/* Goes on from the latest checkpoint where there is one. */
static int open_checkpoints(const rf_optimizer_params *optimizer, leader *l)
{
    const server_training *s = l->training;
    if (!s->options->checkpoint_dir) return 0;
    TRY(rf_optimizer_create(s->strategy, optimizer, &l->optimizer));
    TRY(rf_checkpoint_create(s->strategy, &l->checkpoint));
    TRY(rf_checkpoint_add_model(l->checkpoint, "model", s->model));
    TRY(rf_checkpoint_add_optimizer(l->checkpoint, "optimizer", l->optimizer));
    TRY(rf_checkpoint_add_counter(l->checkpoint, "epoch", &l->epoch));
    TRY(rf_checkpoint_manager_create(
        l->checkpoint, &(rf_checkpoint_manager_params){ .directory = s->options->checkpoint_dir }, &l->manager));
    const rf_result r = rf_checkpoint_manager_restore(l->manager, NULL, NULL);
    if (r == RF_ERROR_NOT_FOUND) return 0;
    TRY(r);
    example_print("Continuing after epoch %u\n", (unsigned)l->epoch);
    return 0;
}

static int open_coordinator(leader *l)
{
    const server_training *s = l->training;
    rf_optimizer_params optimizer = *s->optimizer;
    optimizer.global_clip_norm = 0; /* no server has whole gradients */
    if (open_checkpoints(&optimizer, l) < 0) return -1;
    TRY(rf_coordinator_create(&(rf_coordinator_params){ .variables = rf_model_variables(s->model),
                                                        .state_variables = rf_model_state_variables(s->model),
                                                        .optimizer = l->optimizer ? NULL : &optimizer,
                                                        .local_optimizer = l->optimizer,
                                                        .synchronous = s->options->synchronous,
                                                        .max_ahead = s->options->synchronous ? 0 : MOST_AHEAD },
                              &l->coordinator));
    return 0;
}

static void close_leader(leader *l)
{
    rf_coordinator_destroy(&l->coordinator);
    rf_checkpoint_manager_destroy(&l->manager);
    rf_checkpoint_destroy(&l->checkpoint);
    rf_optimizer_destroy(&l->optimizer);
}

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

/* Makes the cluster's steps from `first` on: each takes the batches that are due. */
static rf_result train_steps(const leader *l, const char *label, uint64_t first, uint64_t steps, double *loss)
{
    rf_remote_value **values = calloc(steps, sizeof(rf_remote_value *));
    uint64_t count = 0;
    rf_result r = values ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
    for (; count < steps && r >= 0; count++)
        r = rf_coordinator_schedule(l->coordinator, "train_step", first + count, 0, &values[count]);
    if (r >= 0) r = fetch_losses(label, values, steps, l->batch, loss);
    if (r >= 0) r = rf_coordinator_join(l->coordinator);
    if (r >= 0) r = rf_coordinator_read_variables(l->coordinator);
    if (r >= 0 && l->optimizer) r = rf_coordinator_read_optimizer(l->coordinator);
    for (uint64_t i = 0; i < count; i++) rf_remote_value_destroy(&values[i]);
    free(values);
    return r;
}

static int train_epoch(leader *l, uint64_t first, uint64_t steps)
{
    const server_training *s = l->training;
    double loss = 0;
    char label[32];
    snprintf(label, sizeof(label), "Epoch %u/%u", (unsigned)l->epoch + 1, s->epochs);
    TRY(train_steps(l, label, first, steps, &loss));
    if (example_check_loss(loss, l->epoch + 1, 0) < 0) return -1;
    example_print("%s: loss: %.4f\n", label, loss);
    const int result = s->end_epoch ? s->end_epoch(s->user, (uint32_t)l->epoch) : 0;
    if (result != 0) return result;
    l->epoch++;
    if (l->manager) TRY(rf_checkpoint_manager_save(l->manager, l->epoch));
    return 0;
}

static int lead(leader *l)
{
    const server_training *s = l->training;
    if (servers_count_batch(s->options, s->strategy, &l->batch) < 0 || open_coordinator(l) < 0) return -1;
    const uint64_t steps = s->steps ? s->steps : (s->examples + l->batch - 1) / l->batch;
    example_print("%u workers, %u parameter servers, %s\n", l->task.num_workers, l->task.num_servers,
                  s->options->synchronous ? "synchronous" : "asynchronous");
    while (l->epoch < s->epochs) {
        const uint64_t first = l->epoch * steps;
        const bool shorter = s->most_steps && s->most_steps - first < steps;
        const int result = train_epoch(l, first, shorter ? s->most_steps - first : steps);
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
    leader l = { .training = s };
    if (build_model(s) < 0) return -1;
    TRY(rf_cluster_task_get(&l.task));
    if (l.task.role == RF_ROLE_WORKER) return work(s);
    const int result = lead(&l);
    close_leader(&l);
    return result;
}
