/* SPDX-License-Identifier: Apache-2.0 */
/* ringfire bench: what this machine's devices reach, each by itself and all together, in about a minute. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "commands.h"
#include "json_output.h"
#include "net.h"
#include "options.h"
#include "table.h"
#include "text.h"

/* The best of so many slices counts, so that a busy moment of the machine does not. */
enum { MOST_DEVICES = 64, SLICES = 5, TOGETHER = 8 };
/* Sides of the matrices, and megabytes that are read. More than a cache holds, less than any device has. */
enum { SIDE_OF_CPU = 512, SIDE_OF_GPU = 4096, MEGABYTES_OF_CPU = 64, MEGABYTES_OF_GPU = 256, EXCHANGED_MEGABYTES = 16 };

typedef struct machine_options {
    const char *devices, *json_path;
    double seconds;
    uint32_t batch;
} machine_options;

/* A step over variables, of one example on each replica. */
typedef struct probe {
    rf_strategy *strategy;
    rf_variable *a, *b;
    rf_function *function;
    rf_element batch;
    float examples[MOST_DEVICES];
} probe;

typedef struct device_row {
    char name[256];
    double products, memory; /* GFLOP/s, GB/s */
    double step_seconds;
} device_row;

typedef struct machine {
    const machine_options *options;
    rf_device_info *infos;
    uint32_t num_infos;
    uint32_t indices[MOST_DEVICES], count;
    char entries[MOST_DEVICES * 12]; /* the devices as a list of indices */
    device_row rows[MOST_DEVICES];
    double step_seconds; /* of all together; 0: there is one */
    double sum_seconds;  /* of an all-reduce; 0: as well */
    bool progress;
} machine;

static const struct argp_option argp_options[] = {
    { "devices", 'd', "LIST", 0,
      "Devices: indices, parts of names, or all, as RINGFIRE_DEVICES (default: those that programs use)", 0 },
    { "batch", 'b', "N", 0, "Images per step and device (default: 64)", 0 },
    { "seconds", 's', "X", 0, "Time spent per measurement (default: 3)", 0 },
    JSON_OPTION,
    { 0 },
};

static error_t parse_option(int key, char *text, struct argp_state *state)
{
    machine_options *o = state->input;
    switch (key) {
    case 'd': o->devices = text; return 0;
    case 'b': o->batch = (uint32_t)option_number(state, "--batch", text, 1, 65536); return 0;
    case 's': o->seconds = option_seconds(state, "--seconds", text, 1e-6); return 0;
    case 'j': o->json_path = text ? text : "-"; return 0;
    case ARGP_KEY_ARG: argp_error(state, "'%s' is not expected", text); return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static void tell_progress(const machine *m, const char *device, const char *what)
{
    if (m->progress) fprintf(stderr, "\r\033[K%s: %s", device, what);
}

/* ---- measuring ---- */

/* Seconds of a step, after a first one, which compiles. */
static rf_result measure_steps(const machine *m, rf_strategy *strategy, rf_function *step, const rf_element *batch,
                               double *best)
{
    rf_per_replica *results[1];
    float value;
    TRY(rf_strategy_run(strategy, step, batch, results));
    TRY(rf_strategy_reduce(strategy, RF_REDUCE_SUM, results[0], &value));
    for (int slice = 0; slice < SLICES; slice++) {
        uint32_t steps = 0;
        const double start = clock_seconds();
        do {
            TRY(rf_strategy_run(strategy, step, batch, results));
            steps++;
        } while (clock_seconds() - start < m->options->seconds / SLICES);
        TRY(rf_strategy_reduce(strategy, RF_REDUCE_SUM, results[0], &value));
        const double seconds = (clock_seconds() - start) / steps;
        if (slice == 0 || seconds < *best) *best = seconds;
    }
    return RF_OK;
}

static rf_result product_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const probe *p = user;
    (void)in;
    const rf_tensor product = rf_matmul(t, rf_variable_tensor(t, p->a), rf_variable_tensor(t, p->b), RF_TRANSPOSE_NONE);
    out[0] = rf_reduce_sum(t, product, NULL, 0, RF_DROP_DIMS);
    return rf_trace_status(t);
}

static rf_result read_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const probe *p = user;
    (void)in;
    out[0] = rf_reduce_sum(t, rf_variable_tensor(t, p->a), NULL, 0, RF_DROP_DIMS);
    return rf_trace_status(t);
}

static rf_result exchange_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const probe *p = user;
    (void)in;
    const rf_tensor sum = rf_all_replica_sum(t, rf_variable_tensor(t, p->a));
    out[0] = rf_reduce_sum(t, rf_slice(t, sum, (int64_t[]){ 0 }, (int64_t[]){ 1 }, NULL, 1), NULL, 0, RF_DROP_DIMS);
    return rf_trace_status(t);
}

/* Measures a step over one matrix, or two. */
static rf_result probe_measure(const machine *m, probe *p, rf_shape shape, uint32_t variables, rf_step_fn step,
                               double *seconds)
{
    const rf_variable_params params = { .shape = shape,
                                        .initializer = { .kind = RF_INIT_RANDOM_UNIFORM, .a = -1, .b = 1 },
                                        .not_trainable = true };
    const uint32_t replicas = rf_strategy_num_local_replicas(p->strategy);
    p->batch = (rf_element){ 1, { { RF_F32, RF_SHAPE((int64_t)replicas), p->examples } } };
    TRY(rf_variable_create(p->strategy, &params, &p->a));
    if (variables > 1) TRY(rf_variable_create(p->strategy, &params, &p->b));
    const rf_function_params function = {
        .step = step, .user = p, .num_outputs = 1, .name = "bench", .steps_per_execution = TOGETHER
    };
    TRY(rf_function_create(p->strategy, &function, &p->function));
    return measure_steps(m, p->strategy, p->function, &p->batch, seconds);
}

static void probe_destroy(probe *p)
{
    rf_function_destroy(&p->function);
    rf_strategy_destroy(&p->strategy);
}

static rf_result measure_variables(const machine *m, const char *device, rf_shape shape, uint32_t variables,
                                   rf_step_fn step, double *seconds)
{
    probe p = { 0 };
    rf_result r = rf_strategy_create_one_device(&(rf_one_device_params){ .device = device }, &p.strategy);
    if (r >= 0) r = probe_measure(m, &p, shape, variables, step, seconds);
    probe_destroy(&p);
    return r;
}

/* Takes the strategy. */
static rf_result measure_cnn(const machine *m, rf_strategy *strategy, uint32_t devices, double *seconds)
{
    bench_net n = { .strategy = strategy };
    rf_result r = bench_net_create_cnn(&n, m->options->batch * devices, RF_F32);
    if (r >= 0) r = measure_steps(m, n.strategy, n.step, &n.batch, seconds);
    bench_net_destroy(&n);
    return r;
}

static rf_result measure_device(machine *m, uint32_t i)
{
    const rf_device_info *info = &m->infos[m->indices[i]];
    const bool cpu = info->type == RF_DEVICE_TYPE_CPU;
    const int64_t side = cpu ? SIDE_OF_CPU : SIDE_OF_GPU;
    const int64_t rows = (int64_t)(cpu ? MEGABYTES_OF_CPU : MEGABYTES_OF_GPU) << 8; /* of 1,024 floats */
    device_row *row = &m->rows[i];
    char device[16];
    double seconds;
    rf_strategy *strategy;
    snprintf(device, sizeof(device), "%" PRIu32, info->index);
    snprintf(row->name, sizeof(row->name), "%s", info->name);
    tell_progress(m, info->name, "products of matrices");
    TRY(measure_variables(m, device, RF_SHAPE(side, side), 2, product_step, &seconds));
    row->products = 2.0 * (double)side * (double)side * (double)side / seconds * 1e-9;
    tell_progress(m, info->name, "memory");
    TRY(measure_variables(m, device, RF_SHAPE(rows, 1024), 1, read_step, &seconds));
    row->memory = (double)rows * 4096 / seconds * 1e-9;
    tell_progress(m, info->name, "training");
    TRY(rf_strategy_create_one_device(&(rf_one_device_params){ .device = device }, &strategy));
    return measure_cnn(m, strategy, 1, &row->step_seconds);
}

static rf_result measure_together(machine *m)
{
    const rf_mirrored_params params = { .devices = m->entries };
    rf_strategy *strategy;
    probe p = { 0 };
    if (m->count < 2) return RF_OK;
    tell_progress(m, "all together", "training");
    TRY(rf_strategy_create_mirrored(&params, &strategy));
    TRY(measure_cnn(m, strategy, m->count, &m->step_seconds));
    tell_progress(m, "all together", "all-reduce");
    rf_result r = rf_strategy_create_mirrored(&params, &p.strategy);
    const rf_shape shape = RF_SHAPE(EXCHANGED_MEGABYTES << 8, 1024);
    if (r >= 0) r = probe_measure(m, &p, shape, 1, exchange_step, &m->sum_seconds);
    probe_destroy(&p);
    return r;
}

static rf_result find_devices(machine *m)
{
    TRY(rf_devices_list(NULL, &m->num_infos));
    m->infos = calloc(m->num_infos, sizeof(*m->infos));
    if (!m->infos) return RF_ERROR_OUT_OF_HOST_MEMORY;
    uint32_t found = m->num_infos;
    TRY(rf_devices_list(m->infos, &found));
    m->count = MOST_DEVICES;
    TRY(rf_devices_select(m->options->devices, m->indices, &m->count));
    if (m->count > MOST_DEVICES) m->count = MOST_DEVICES;
    size_t at = 0;
    for (uint32_t i = 0; i < m->count; i++)
        at += (size_t)snprintf(m->entries + at, sizeof(m->entries) - at, "%s%" PRIu32, i > 0 ? "," : "", m->indices[i]);
    return RF_OK;
}

/* ---- reporting ---- */

static bool add_row(table *t, const char *name, const double *numbers)
{
    static const char *const formats[] = { "%.1f", "%.1f", "%.1f", "%.0f" };
    char cells[4][32];
    for (int i = 0; i < 4; i++) {
        if (numbers[i] > 0)
            snprintf(cells[i], sizeof(cells[i]), formats[i], numbers[i]);
        else
            snprintf(cells[i], sizeof(cells[i]), "-");
    }
    return table_row(t, (const char *[]){ name, cells[0], cells[1], cells[2], cells[3] });
}

static bool print_text(const machine *m)
{
    static const char *const headings[] = { "Device", ">GFLOP/s", ">GB/s", ">Steps/s", ">Images/s" };
    const double batch = m->options->batch;
    table t;
    bool ok = table_begin(&t, headings, 5);
    for (uint32_t i = 0; i < m->count; i++) {
        const device_row *d = &m->rows[i];
        ok &= add_row(&t, d->name, (double[]){ d->products, d->memory, 1 / d->step_seconds, batch / d->step_seconds });
    }
    if (m->count > 1)
        ok &= add_row(&t, "all together", (double[]){ 0, 0, 1 / m->step_seconds, batch * m->count / m->step_seconds });
    table_print(&t, stdout);
    table_free(&t);
    if (m->count > 1)
        printf("All-reduce of %d MiB between them: %.2f ms, %.2f GB/s\n", EXCHANGED_MEGABYTES, m->sum_seconds * 1e3,
               (EXCHANGED_MEGABYTES << 20) / m->sum_seconds * 1e-9);
    print_wrapped(stdout,
                  "GFLOP/s: products of matrices. GB/s: reading memory. Steps and images: training a small CNN, "
                  "images per step as --batch says on each device.",
                  0, text_columns(stdout));
    return ok;
}

static json_t *training_json(double step_seconds, double images)
{
    return json_pack("{s:f,s:f,s:f}", "step_seconds", step_seconds, "steps_per_second", 1 / step_seconds,
                     "images_per_second", images / step_seconds);
}

static json_t *machine_json(const machine *m)
{
    const double batch = m->options->batch;
    json_t *list = json_array();
    for (uint32_t i = 0; i < m->count; i++) {
        const device_row *d = &m->rows[i];
        json_array_append_new(list, json_pack("{s:i,s:o,s:f,s:f,s:o}", "index", (int)m->indices[i], "device",
                                              json_text(d->name), "products_gflops", d->products, "memory_gbytes",
                                              d->memory, "training", training_json(d->step_seconds, batch)));
    }
    if (m->count < 2)
        return json_pack("{s:i,s:o,s:n,s:n}", "batch", (int)m->options->batch, "devices", list, "together",
                         "all_reduce");
    const double bytes = EXCHANGED_MEGABYTES << 20;
    return json_pack("{s:i,s:o,s:o,s:{s:f,s:f,s:f}}", "batch", (int)m->options->batch, "devices", list, "together",
                     training_json(m->step_seconds, batch * m->count), "all_reduce", "bytes", bytes, "seconds",
                     m->sum_seconds, "gbytes", bytes / m->sum_seconds * 1e-9);
}

int command_bench(int argc, char **argv)
{
    machine_options o = { .batch = 64, .seconds = 3 };
    machine m = { .options = &o, .progress = isatty(STDERR_FILENO) != 0 };
    const struct argp parser = {
        argp_options,
        parse_option,
        NULL,
        "Measures this machine in about a minute: products of matrices, memory and the training of a small CNN on each "
        "device, training and all-reduce on all of them together.",
        NULL,
        NULL,
        NULL
    };
    command_parse(&parser, argc, argv, 0, &o);
    if (!json_can_write(o.json_path)) return CODE_FAILED;
    rf_result r = find_devices(&m);
    for (uint32_t i = 0; r >= 0 && i < m.count; i++) r = measure_device(&m, i);
    if (r >= 0) r = measure_together(&m);
    if (m.progress) fprintf(stderr, "\r\033[K");
    bool ok = r >= 0;
    if (!ok) command_fail();
    if (ok && !json_replaces_text(o.json_path)) ok = print_text(&m);
    if (ok && o.json_path) ok = json_write(o.json_path, machine_json(&m));
    free(m.infos);
    return ok ? CODE_OK : CODE_FAILED;
}
