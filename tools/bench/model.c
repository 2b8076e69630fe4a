/* SPDX-License-Identifier: Apache-2.0 */
/* ringfire-bench model: training speed of the CNN of the custom-loop example, on made-up images. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/memory.h"
#include "bench/commands.h"
#include "bench/report.h"
#include "clock.h"
#include "net.h"
#include "options.h"
#include "step/step.h"

typedef struct model_options {
    const char *device, *json_path;
    uint32_t batch;
    double seconds;
    bool profile, schedule;
    rf_dtype mixed; /* 0: f32 */
    uint32_t steps_per_execution;
} model_options;

typedef struct model_result {
    char device[256];
    double images_per_second, step_seconds, first_step_seconds, first_step_since_start;
    double step_cpu_seconds; /* that the processor takes for a step, all threads together */
    rf_bench_node *nodes;
    uint32_t num_nodes;
    rf_bench_commands commands;
} model_result;

static const struct argp_option argp_options[] = {
    { "device", 'd', "NAME", 0, "Device: index or part of a name (default: the first usable one, GPUs before software)",
      0 },
    { "batch", 'b', "N", 0, "Examples per step (default: 64)", 0 },
    { "steps-per-execution", 'e', "N", 0, "Steps that are submitted together (default: 1)", 0 },
    { "profile", 'p', NULL, 0, "Add the time of each operation of the step", 0 },
    { "schedule", 'S', NULL, 0, "Run one step and print its stages", 0 },
    { "mixed", 'x', "TYPE", 0, "Compute with f16 (and scaled losses) or bf16 where layers can", 0 },
    { "seconds", 's', "X", 0, "Time spent on measuring (default: 5)", 0 },
    JSON_OPTION,
    { 0 },
};

static error_t parse_option(int key, char *text, struct argp_state *state)
{
    model_options *o = state->input;
    switch (key) {
    case 'd': o->device = text; return 0;
    case 'b': o->batch = (uint32_t)option_number(state, "--batch", text, 1, 1u << 20); return 0;
    case 'e':
        o->steps_per_execution = (uint32_t)option_number(state, "--steps-per-execution", text, 1, 1u << 20);
        return 0;
    case 'p': o->profile = true; return 0;
    case 'S': o->schedule = true; return 0;
    case 'x': o->mixed = bench_narrow_type(state, "--mixed", text); return 0;
    case 's': o->seconds = option_seconds(state, "--seconds", text, 1e-6); return 0;
    case 'j': o->json_path = text ? text : "-"; return 0;
    case ARGP_KEY_ARG: argp_error(state, "'%s' is not expected", text); return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static double boot_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_BOOTTIME, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* When this process began, on the same clock: field 22 of /proc/self/stat, in clock ticks since boot. */
static double process_start(double fallback)
{
    char text[1024];
    FILE *f = fopen("/proc/self/stat", "r");
    if (!f) return fallback;
    const size_t n = fread(text, 1, sizeof(text) - 1, f);
    fclose(f);
    text[n] = '\0';
    const char *p = strrchr(text, ')');
    unsigned long long ticks = 0;
    for (int field = 2; p && field < 22; field++) p = strchr(p + 1, ' ');
    if (!p || sscanf(p, " %llu", &ticks) != 1) return fallback;
    return (double)ticks / (double)sysconf(_SC_CLK_TCK);
}

/* Steps for about `seconds`; the best of five slices, so that a busy moment of the machine does not count. */
static rf_result net_measure(const model_options *o, bench_net *n, model_result *out)
{
    rf_per_replica *results[1];
    float loss;
    double best = 0;
    for (int slice = 0; slice < 5; slice++) {
        uint32_t steps = 0;
        const double start = boot_seconds(), cpu_start = clock_processor_seconds();
        do {
            TRY(rf_strategy_run(n->strategy, n->step, &n->batch, results));
            steps++;
        } while (boot_seconds() - start < o->seconds / 5);
        TRY(rf_strategy_reduce(n->strategy, RF_REDUCE_SUM, results[0], &loss));
        const double seconds = (boot_seconds() - start) / steps, cpu = (clock_processor_seconds() - cpu_start) / steps;
        if (slice == 0 || seconds < best) best = seconds;
        if (slice == 0 || cpu < out->step_cpu_seconds) out->step_cpu_seconds = cpu;
    }
    out->step_seconds = best;
    out->images_per_second = o->batch / best;
    return RF_OK;
}

static rf_result run_model(const model_options *o, bench_net *n, model_result *out)
{
    const double began = boot_seconds();
    n->steps_per_execution = o->steps_per_execution;
    TRY(bench_net_create_strategy(n, o->device, o->mixed));
    TRY(bench_net_create_cnn(n, o->batch, o->mixed));
    snprintf(out->device, sizeof(out->device), "%s", rf_strategy_device_name(n->strategy, 0));
    rf_per_replica *results[1];
    float loss;
    TRY(rf_strategy_run(n->strategy, n->step, &n->batch, results));
    TRY(rf_strategy_reduce(n->strategy, RF_REDUCE_SUM, results[0], &loss));
    out->first_step_seconds = boot_seconds() - began;
    out->first_step_since_start = boot_seconds() - process_start(began);
    TRY(net_measure(o, n, out));
    TRY(rf_bench_count_commands(n->step, o->batch, &out->commands));
    return o->profile ? rf_bench_function(n->step, o->batch, &out->nodes, &out->num_nodes) : RF_OK;
}

static rf_result model_measure(const model_options *o, model_result *out)
{
    bench_net n = { 0 };
    memset(out, 0, sizeof(*out));
    const rf_result r = run_model(o, &n, out);
    bench_net_destroy(&n);
    return r;
}

static int model_report(const model_options *o, double memcpy_rate)
{
    model_result m;
    if (model_measure(o, &m) < 0) return command_fail();
    table nodes;
    json_t *profile = NULL;
    const bool ok = bench_profile(m.nodes, m.num_nodes, &nodes, &profile);
    json_t *result =
        json_pack("{s:s,s:i,s:f,s:f,s:f,s:f,s:f,s:f,s:i,s:i,s:i,s:i,s:o}", "device", m.device, "batch", (int)o->batch,
                  "images_per_second", m.images_per_second, "first_step_seconds", m.first_step_seconds,
                  "first_step_since_start_seconds", m.first_step_since_start, "step_seconds", m.step_seconds,
                  "step_cpu_seconds", m.step_cpu_seconds, "memcpy_gbytes", memcpy_rate, "dispatches",
                  (int)m.commands.dispatches, "barriers", (int)m.commands.barriers, "copies", (int)m.commands.copies,
                  "submissions", (int)m.commands.submissions, "profile", profile);
    char about[512];
    snprintf(about, sizeof(about),
             "Device: %s\nImages per second (batch %u): %.0f\nStep: %.2f ms (%.1f us of the processor)\nFirst step: "
             "%.2f s (%.2f s after process "
             "start)\nCommands of a step: %u dispatches, %u barriers, %u copies in %u submissions",
             m.device, o->batch, m.images_per_second, m.step_seconds * 1e3, m.step_cpu_seconds * 1e6,
             m.first_step_seconds, m.first_step_since_start, m.commands.dispatches, m.commands.barriers,
             m.commands.copies, m.commands.submissions);
    const int code = bench_report(o->json_path, about, o->profile ? &nodes : NULL, result, ok);
    if (!o->profile) table_free(&nodes);
    rf_bench_nodes_free(m.nodes);
    return code;
}

static rf_result run_once(const model_options *o, bench_net *n, char **text)
{
    TRY(bench_net_create_strategy(n, o->device, o->mixed));
    TRY(bench_net_create_cnn(n, o->batch, o->mixed));
    TRY(rf_strategy_run(n->strategy, n->step, &n->batch, NULL));
    *text = rf_bench_function_schedule(n->step);
    return *text ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
}

static int print_schedule(const model_options *o)
{
    bench_net n = { 0 };
    char *text = NULL;
    const rf_result r = run_once(o, &n, &text);
    if (r >= 0) fputs(text, stdout);
    rf_free(text);
    bench_net_destroy(&n);
    return r < 0 ? command_fail() : CODE_OK;
}

int command_bench_model(int argc, char **argv)
{
    model_options o = { .batch = 64, .seconds = 5 };
    const struct argp parser = {
        argp_options,
        parse_option,
        NULL,
        "Measures the training of a small CNN on one device: Conv 32 - pool - Conv 64 - pool - Dense 64 - Dense 10 on "
        "28x28 images.",
        NULL,
        NULL,
        NULL
    };
    command_parse(&parser, argc, argv, 0, &o);
    if (o.schedule) return print_schedule(&o);
    if (!json_can_write(o.json_path)) return CODE_FAILED;
    return model_report(&o, rf_bench_memcpy(64u << 20));
}
