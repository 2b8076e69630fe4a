/* SPDX-License-Identifier: Apache-2.0 */
/* Values, weights and the graph of a training for TensorBoard, under the names and in the directories that Keras gives
 * them. */
#include <ringfire/events.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/log_recent.h"
#include "base/memory.h"
#include "base/params.h"
#include "base/platform.h"
#include "persist/events/writer.h"
#include "step/step.h"
#include "train/callbacks/callback.h"
#include "train/fit/compile.h"
#include "train/model/model.h"

typedef struct tensorboard {
    char *directory;
    uint32_t histogram_freq, update_freq;
    bool write_graph, validates;         /* validates: there are values of a validation */
    rf_event_writer *train, *validation; /* open while fit runs, on the chief alone; validation: where it is needed */
    bool graph_written;
    uint64_t warnings;            /* that the log had when they were written last */
    char *memory;                 /* as it was written last; NULL: not yet */
    uint32_t since_update;        /* executions whose values were not written */
    uint64_t rate_steps, rate_ns; /* where and when the rate of steps was taken */
} tensorboard;

static void close_writers(tensorboard *b)
{
    rf_free(b->memory);
    b->memory = NULL;
    b->warnings = 0;
    rf_event_writer_destroy(&b->train);
    rf_event_writer_destroy(&b->validation);
}

static rf_result open_writer(const tensorboard *b, const char *part, rf_event_writer **out)
{
    char *directory = rf_asprintf("%s/%s", b->directory, part);
    if (!directory) return RF_ERROR_OUT_OF_HOST_MEMORY;
    const rf_result r = rf_event_writer_create(&(rf_event_writer_params){ .directory = directory }, out);
    rf_free(directory);
    return rf_error_context(r, "tensorboard");
}

static bool is_validation(const char *name)
{
    return strncmp(name, "val_", 4) == 0;
}

static rf_result write_value(rf_event_writer *w, const char *prefix, const char *name, int64_t step, double value)
{
    char tag[256];
    snprintf(tag, sizeof(tag), "%s_%s", prefix, name);
    return rf_event_writer_scalar(w, tag, step, value);
}

/* A line for each replica of the job. */
static rf_result write_devices(rf_event_writer *w, const rf_strategy *strategy)
{
    const uint32_t count = rf_strategy_num_replicas_in_sync(strategy);
    char *lines = rf_strdup("");
    for (uint32_t i = 0; lines && i < count; i++) {
        char *longer = rf_asprintf("%s%s (rank %u)\n", lines, rf_strategy_device_name(strategy, i),
                                   rf_strategy_replica_rank(strategy, i));
        rf_free(lines);
        lines = longer;
    }
    const rf_result r = lines ? rf_event_writer_text(w, "ringfire/devices", 0, lines) : RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_free(lines);
    return r;
}

/* A table of Markdown, which TensorBoard draws: memory of the devices of this worker, by what it is for. */
static char *memory_text(const rf_strategy *strategy)
{
    char *lines = rf_strdup("| replica | memory | bytes | most |\n|---|---|---|---|\n");
    const uint32_t count = rf_strategy_num_local_replicas(strategy);
    for (uint32_t i = 0; i < count; i++) {
        rf_memory_use use;
        for (uint32_t k = 0; lines && rf_strategy_memory_use(strategy, i, k, &use); k++) {
            char *longer = rf_asprintf("%s| %u | %s | %" PRIu64 " | %" PRIu64 " |\n", lines,
                                       rf_strategy_first_local_replica(strategy) + i, use.name, use.bytes, use.peak);
            rf_free(lines);
            lines = longer;
        }
    }
    return lines;
}

/* After the first epoch, and after others where something has changed. */
static rf_result write_memory(tensorboard *b, const rf_fit_state *state)
{
    char *text = memory_text(state->model->strategy);
    if (!text) return RF_ERROR_OUT_OF_HOST_MEMORY;
    if (b->memory && strcmp(b->memory, text) == 0) {
        rf_free(text);
        return RF_OK;
    }
    rf_free(b->memory);
    b->memory = text;
    return rf_event_writer_text(b->train, "ringfire/memory", state->epoch, text);
}

/* The latest warnings of the log, where there are new ones. */
static rf_result write_warnings(tensorboard *b, const rf_fit_state *state)
{
    rf_log_recent recent;
    rf_log_recent_get(&recent);
    if (recent.count == b->warnings) return RF_OK;
    b->warnings = recent.count;
    char *lines = rf_strdup("");
    for (uint32_t i = 0; lines && i < recent.num_texts; i++) {
        char *longer = rf_asprintf("%s%s\n", lines, recent.texts[i]);
        rf_free(lines);
        lines = longer;
    }
    const rf_result r =
        lines ? rf_event_writer_text(b->train, "ringfire/warnings", state->epoch, lines) : RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_free(lines);
    return r;
}

/* The speed of the epoch, and what part of a batch each replica gets after it. */
static rf_result write_speed(rf_event_writer *w, const rf_fit_state *state)
{
    const rf_strategy *strategy = state->model->strategy;
    const uint32_t count = rf_strategy_num_replicas_in_sync(strategy);
    if (state->timed_examples > 0 && state->train_seconds > 0)
        RF_TRY(write_value(w, "epoch", "examples_per_second", state->epoch,
                           (double)state->timed_examples / state->train_seconds));
    for (uint32_t i = 0; count > 1 && i < count; i++) {
        char tag[32];
        snprintf(tag, sizeof(tag), "replica_%u/share", i);
        RF_TRY(rf_event_writer_scalar(w, tag, state->epoch, rf_strategy_share(strategy, i)));
    }
    return RF_OK;
}

static rf_result on_train_begin(void *user, rf_fit_state *state)
{
    tensorboard *b = user;
    close_writers(b); /* an earlier fit ended with an error */
    b->graph_written = false;
    b->since_update = 0;
    b->rate_steps = rf_optimizer_iterations(state->optimizer);
    b->rate_ns = rf_now_ns();
    if (state->rank != 0) return RF_OK;
    RF_TRY(open_writer(b, "train", &b->train));
    RF_TRY(write_devices(b->train, state->model->strategy));
    return b->validates ? open_writer(b, "validation", &b->validation) : RF_OK;
}

static rf_result check_names(void *user, const rf_logs *names)
{
    tensorboard *b = user;
    b->validates = false;
    for (uint32_t i = 0; i < names->count; i++) b->validates = b->validates || is_validation(names->name[i]);
    return RF_OK;
}

static rf_result write_epoch(tensorboard *b, int64_t epoch, const rf_logs *logs)
{
    for (uint32_t i = 0; i < logs->count; i++) {
        const bool validation = is_validation(logs->name[i]);
        RF_TRY(write_value(validation ? b->validation : b->train, "epoch", logs->name[i] + (validation ? 4 : 0), epoch,
                           logs->value[i]));
    }
    return RF_OK;
}

/* Collective. As code, in which TensorBoard keeps the columns below each other. */
static rf_result write_matrix(tensorboard *b, rf_metric *metric, const char *name, int64_t epoch)
{
    char *table;
    RF_TRY(rf_metric_table(metric, NULL, &table));
    char *tag = rf_asprintf("ringfire/confusion/%s", name), *text = rf_asprintf("```\n%s```\n", table);
    rf_result r = tag && text ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
    if (r >= 0 && b->train) r = rf_event_writer_text(b->train, tag, epoch, text);
    rf_free(tag);
    rf_free(text);
    rf_string_free(table);
    return r;
}

/* Confusion matrices of the validation, in epochs without one of the training. */
static rf_result write_matrices(tensorboard *b, const rf_fit_state *state, const rf_logs *logs)
{
    const rf_compiled *c = state->model->compiled;
    const uint32_t first = 1 + c->train_meters.num_output_losses;
    for (uint32_t i = 0; i < c->num_metrics; i++) {
        double part;
        const bool validated = rf_logs_get(logs, c->val_names[first + i], &part);
        if (c->metric_fns[i] || c->metrics[i].kind != RF_METRIC_CONFUSION_MATRIX) continue;
        RF_TRY(write_matrix(b, validated ? c->evaluate_meters.metrics[i] : c->train_meters.metrics[i],
                            validated ? c->val_names[first + i] : c->names[first + i], state->epoch));
    }
    return RF_OK;
}

static rf_result write_histograms(const tensorboard *b, const rf_model *model, int64_t epoch)
{
    for (uint32_t i = 0; i < model->tracked.count; i++) {
        const rf_variable *variable = model->tracked.items[i].variable;
        const uint64_t count = (uint64_t)rf_shape_count(rf_variable_shape(variable));
        float *values = RF_NEW_ARRAY(float, count);
        char *tag = rf_asprintf("%s/histogram", model->tracked.items[i].name);
        rf_result r = values && tag ? rf_variable_read(variable, values) : RF_ERROR_OUT_OF_HOST_MEMORY;
        if (r >= 0) r = rf_event_writer_histogram(b->train, tag, epoch, values, count);
        rf_free(values);
        rf_free(tag);
        RF_TRY(r);
    }
    return RF_OK;
}

/* There is a graph once a batch has gone through the step. */
static rf_result write_graph(tensorboard *b, const rf_model *model)
{
    const rf_graph *graph = b->write_graph && !b->graph_written ? rf_function_graph(model->compiled->train) : NULL;
    if (!graph) return RF_OK;
    b->graph_written = true;
    return rf_event_writer_traced_graph(b->train, graph);
}

static rf_result on_epoch_end(void *user, rf_fit_state *state, const rf_logs *logs)
{
    tensorboard *b = user;
    RF_TRY(write_matrices(b, state, logs));
    if (!b->train) return RF_OK;
    RF_TRY(write_graph(b, state->model));
    RF_TRY(write_epoch(b, state->epoch, logs));
    RF_TRY(write_speed(b->train, state));
    RF_TRY(write_memory(b, state));
    RF_TRY(write_warnings(b, state));
    if (b->histogram_freq > 0 && state->epoch % b->histogram_freq == 0)
        RF_TRY(write_histograms(b, state->model, state->epoch));
    if (b->validation) RF_TRY(rf_event_writer_flush(b->validation));
    return rf_event_writer_flush(b->train);
}

static rf_result on_batch_end(void *user, rf_fit_state *state, const rf_logs *logs)
{
    tensorboard *b = user;
    if (!b->train || ++b->since_update < b->update_freq) return RF_OK;
    b->since_update = 0;
    const uint64_t steps = rf_optimizer_iterations(state->optimizer), now = rf_now_ns();
    for (uint32_t i = 0; i < logs->count; i++)
        RF_TRY(write_value(b->train, "batch", logs->name[i], (int64_t)steps, logs->value[i]));
    const double seconds = 1e-9 * (double)(now - b->rate_ns);
    if (steps > b->rate_steps && seconds > 0)
        RF_TRY(write_value(b->train, "batch", "steps_per_second", (int64_t)steps,
                           (double)(steps - b->rate_steps) / seconds));
    b->rate_steps = steps;
    b->rate_ns = now;
    return RF_OK;
}

/* Neither the epoch's end nor the validation counts as time of the next step. */
static rf_result on_epoch_begin(void *user, rf_fit_state *state)
{
    tensorboard *b = user;
    b->rate_steps = rf_optimizer_iterations(state->optimizer);
    b->rate_ns = rf_now_ns();
    return RF_OK;
}

static rf_result on_train_end(void *user, rf_fit_state *state, const rf_logs *logs)
{
    tensorboard *b = user;
    (void)state;
    (void)logs;
    rf_result r = b->train ? rf_event_writer_flush(b->train) : RF_OK;
    if (r >= 0 && b->validation) r = rf_event_writer_flush(b->validation);
    close_writers(b);
    return r;
}

static const rf_callback_extras extras = { .check = check_names };

static void tensorboard_destroy(void *user)
{
    tensorboard *b = user;
    close_writers(b);
    rf_free(b->directory);
    rf_free(b);
}

rf_result rf_callback_tensorboard(const rf_tensorboard_params *params, rf_callback **out)
{
    RF_REQUIRE(out, "rf_callback_tensorboard: out is NULL");
    *out = NULL;
    RF_TRY(RF_PARAMS_CHECK(rf_tensorboard_params, params));
    const rf_tensorboard_params p = params ? *params : (rf_tensorboard_params){ 0 };
    RF_REQUIRE(!p.directory || p.directory[0], "rf_callback_tensorboard: directory is empty");
    tensorboard *b = RF_NEW(tensorboard);
    if (!b) return RF_ERROR_OUT_OF_HOST_MEMORY;
    b->histogram_freq = p.histogram_freq;
    b->update_freq = p.update_freq;
    b->write_graph = !p.no_graph;
    b->directory = rf_strdup(p.directory ? p.directory : "logs");
    /* Values after batches are read only for callbacks that want to see them. */
    const rf_callback_fns fns = { .on_train_begin = on_train_begin,
                                  .on_epoch_begin = p.update_freq > 0 ? on_epoch_begin : NULL,
                                  .on_batch_end = p.update_freq > 0 ? on_batch_end : NULL,
                                  .on_epoch_end = on_epoch_end,
                                  .on_train_end = on_train_end,
                                  .destroy = tensorboard_destroy };
    const rf_result r = b->directory ? rf_callback_create(&fns, b, out) : RF_ERROR_OUT_OF_HOST_MEMORY;
    if (r < 0) {
        tensorboard_destroy(b);
        return r;
    }
    (*out)->extras = &extras;
    return RF_OK;
}
