/* SPDX-License-Identifier: Apache-2.0 */
/* ringfire-bench observe: the cost of traces and event files in the training of the small CNN. The ways to train
 * alternate, an epoch each; each epoch is compared with the plain one of the same round, so that other load on the
 * machine cancels out. */
#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <ringfire/profile.h>

#include "bench/commands.h"
#include "bench/report.h"
#include "clock.h"
#include "folder.h"
#include "net.h"
#include "options.h"

enum { PLAIN, TRACE, EVENTS_STEP, EVENTS_EPOCH, NUM_MODES, MAX_TURNS = 256 };

typedef struct observe_options {
    const char *device, *directory, *json_path;
    uint32_t batch, steps;
    double seconds;
} observe_options;

typedef struct observer {
    const observe_options *options;
    bench_net net; /* its batch is the whole epoch's examples */
    rf_dataset *data;
    char *trace_path, *events_path;
    double begin, epoch; /* of the latest epoch: when it began, its seconds */
    double seconds[NUM_MODES][MAX_TURNS];
    uint32_t turns;
} observer;

static const struct argp_option argp_options[] = {
    { "device", 'd', "NAME", 0, "Device: index or part of a name (default: the first usable one, GPUs before software)",
      0 },
    { "directory", 'o', "DIR", 0, "Where trace and event files are written (default: a new one in /tmp)", 0 },
    { "batch", 'b', "N", 0, "Examples per step (default: 64)", 0 },
    { "steps", 'n', "N", 0, "Steps of an epoch (default: 16)", 0 },
    { "seconds", 's', "X", 0, "Time spent measuring (default: 40)", 0 },
    JSON_OPTION,
    { 0 },
};

static error_t parse_option(int key, char *text, struct argp_state *state)
{
    observe_options *o = state->input;
    switch (key) {
    case 'd': o->device = text; return 0;
    case 'o': o->directory = text; return 0;
    case 'b': o->batch = (uint32_t)option_number(state, "--batch", text, 1, 1u << 16); return 0;
    case 'n': o->steps = (uint32_t)option_number(state, "--steps", text, 1, 1u << 12); return 0;
    case 's': o->seconds = option_seconds(state, "--seconds", text, 1e-6); return 0;
    case 'j': o->json_path = text ? text : "-"; return 0;
    case ARGP_KEY_ARG: argp_error(state, "'%s' is not expected", text); return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

/* ---- the training ---- */

static rf_result create_model(observer *b)
{
    const rf_shape image = RF_SHAPE(BENCH_SIDE, BENCH_SIDE, 1);
    rf_layer *layers[BENCH_CNN_LAYERS] = { NULL };
    TRY(bench_cnn_layers(layers));
    TRY(rf_model_create_sequential(b->net.strategy, layers, BENCH_CNN_LAYERS, &image, &b->net.model));
    TRY(rf_optimizer_create(b->net.strategy, &(rf_optimizer_params){ .kind = RF_OPTIMIZER_ADAM }, &b->net.optimizer));
    const rf_metric_kind metrics[] = { RF_METRIC_SPARSE_CATEGORICAL_ACCURACY };
    return rf_model_compile(b->net.model, &(rf_compile_params){ .optimizer = b->net.optimizer,
                                                                .loss = { RF_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY, true,
                                                                          RF_REDUCTION_AUTO },
                                                                .metrics = metrics,
                                                                .num_metrics = 1 });
}

static rf_result create_data(observer *b)
{
    TRY(bench_net_make_batch(&b->net, b->options->batch * b->options->steps, RF_SHAPE(-1, BENCH_SIDE, BENCH_SIDE, 1),
                             BENCH_CLASSES));
    const rf_dataset_arrays_params arrays = { .arrays = b->net.batch.component, .num_arrays = 2 };
    rf_dataset *examples;
    TRY(rf_dataset_from_arrays(&arrays, &examples));
    const rf_result r = rf_dataset_batch(examples, b->options->batch, RF_REMAINDER_KEEP, &b->data);
    rf_dataset_destroy(&examples);
    return r;
}

static void observer_destroy(observer *b)
{
    rf_dataset_destroy(&b->data);
    bench_net_destroy(&b->net);
    free(b->trace_path);
    free(b->events_path);
}

/* ---- measuring ---- */

static rf_result epoch_begins(void *user, rf_fit_state *state)
{
    observer *b = user;
    (void)state;
    b->begin = clock_seconds();
    return RF_OK;
}

static rf_result epoch_ends(void *user, rf_fit_state *state, const rf_logs *logs)
{
    observer *b = user;
    (void)state;
    (void)logs;
    b->epoch = clock_seconds() - b->begin;
    return RF_OK;
}

/* The clock comes last: what the callback before it does at the epoch's end counts. */
static rf_result observer_train(observer *b, rf_callback *observing)
{
    rf_callback *callbacks[2] = { observing }, *clock;
    const uint32_t count = observing ? 2 : 1;
    TRY(rf_callback_create(&(rf_callback_fns){ .on_epoch_begin = epoch_begins, .on_epoch_end = epoch_ends }, b,
                           &clock));
    callbacks[count - 1] = clock;
    const rf_result r = rf_model_fit(
        b->net.model, &(rf_fit_params){ .data = b->data, .callbacks = callbacks, .num_callbacks = count }, NULL);
    rf_callback_destroy(&clock);
    return r;
}

static rf_result train_as(observer *b, int mode)
{
    rf_callback *events = NULL;
    /* Single operations are timed in every epoch, so oftener than by default where epochs are short. */
    const rf_profiler_params trace = { .path = b->trace_path,
                                       .op_interval = b->options->steps < 64 ? b->options->steps : 64 };
    if (mode == TRACE) TRY(rf_profiler_start(&trace));
    if (mode == EVENTS_STEP || mode == EVENTS_EPOCH)
        TRY(rf_callback_tensorboard(
            &(rf_tensorboard_params){ .directory = b->events_path, .update_freq = mode == EVENTS_STEP }, &events));
    rf_result r = observer_train(b, events);
    if (mode == TRACE && r >= 0) r = rf_profiler_stop();
    rf_callback_destroy(&events);
    return r;
}

static rf_result observer_measure(observer *b)
{
    TRY(rf_strategy_create_one_device(&(rf_one_device_params){ .device = b->options->device }, &b->net.strategy));
    TRY(create_model(b));
    TRY(create_data(b));
    for (int mode = 0; mode < NUM_MODES; mode++) TRY(train_as(b, mode)); /* compiles */
    const double start = clock_seconds();
    do {
        for (int i = 0; i < NUM_MODES; i++) {
            const int mode = (i + (int)b->turns) % NUM_MODES;
            TRY(train_as(b, mode));
            b->seconds[mode][b->turns] = b->epoch;
        }
        b->turns++;
    } while (b->turns < MAX_TURNS && clock_seconds() - start < b->options->seconds);
    return RF_OK;
}

/* ---- results ---- */

static int observer_report(const observer *b)
{
    static const char *const headings[] = { "Training", ">Images/s", ">Step ms", ">Cost" };
    static const char *const names[] = { "plain", "trace", "events after each step", "events after each epoch" };
    static const char *const keys[] = { "plain", "trace", "events_step", "events_epoch" };
    const observe_options *o = b->options;
    table rows;
    bool ok = table_begin(&rows, headings, 4);
    json_t *list = json_array();
    for (int mode = 0; mode < NUM_MODES; mode++) {
        double costs[MAX_TURNS];
        for (uint32_t t = 0; t < b->turns; t++) costs[t] = b->seconds[mode][t] / b->seconds[PLAIN][t] - 1;
        const double step = bench_median(b->seconds[mode], b->turns) / o->steps, cost = bench_median(costs, b->turns);
        char images[32], ms[32], percent[32] = "";
        snprintf(images, sizeof(images), "%.0f", o->batch / step);
        snprintf(ms, sizeof(ms), "%.2f", step * 1e3);
        if (mode != PLAIN) snprintf(percent, sizeof(percent), "%.2f %%", 100 * cost);
        ok &= table_row(&rows, (const char *[]){ names[mode], images, ms, percent });
        json_array_append_new(list, json_pack("{s:s,s:f,s:f,s:f}", "training", keys[mode], "images_per_second",
                                              o->batch / step, "step_seconds", step, "cost", cost));
    }
    json_t *result = json_pack("{s:s,s:i,s:i,s:i,s:o}", "device", rf_strategy_device_name(b->net.strategy, 0), "batch",
                               (int)o->batch, "steps", (int)o->steps, "turns", (int)b->turns, "results", list);
    char about[512];
    snprintf(
        about, sizeof(about),
        "%s, batch %u; medians of %u turns with an epoch of %u steps each; cost: of time, beside the plain epoch of "
        "the same turn",
        rf_strategy_device_name(b->net.strategy, 0), o->batch, b->turns, o->steps);
    return bench_report(o->json_path, about, &rows, result, ok);
}

static char *join_path(const char *directory, const char *name)
{
    const size_t size = strlen(directory) + strlen(name) + 2;
    char *path = malloc(size);
    if (path) snprintf(path, size, "%s/%s", directory, name);
    return path;
}

int command_bench_observe(int argc, char **argv)
{
    observe_options o = { .batch = 64, .steps = 16, .seconds = 40 };
    const struct argp parser = {
        argp_options,
        parse_option,
        "",
        "Measures the cost of a trace and of TensorBoard's event files in the training of the small CNN "
        "of 'bench model' with rf_model_fit(). The files are left where --directory says.",
        NULL,
        NULL,
        NULL
    };
    command_parse(&parser, argc, argv, 0, &o);
    if (!json_can_write(o.json_path)) return CODE_FAILED;
    char folder[FOLDER_SIZE];
    if (!o.directory && folder_make(folder, &(unsigned){ 0 })) o.directory = folder;
    if (!o.directory) {
        fprintf(stderr, "ringfire-bench: no directory can be made: %s; use --directory\n", strerror(errno));
        return CODE_FAILED;
    }
    observer *b = calloc(1, sizeof(*b));
    if (!b) return CODE_FAILED;
    b->options = &o;
    b->trace_path = join_path(o.directory, "trace.json");
    b->events_path = join_path(o.directory, "events");
    const rf_result r = b->trace_path && b->events_path ? observer_measure(b) : RF_ERROR_OUT_OF_HOST_MEMORY;
    const int code = r < 0 ? command_fail() : observer_report(b);
    observer_destroy(b);
    free(b);
    return code;
}
