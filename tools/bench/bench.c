/* SPDX-License-Identifier: Apache-2.0 */
/* ringfire bench: `ops` walks the op table's benchmark cases, `model` trains a small CNN on made-up images; the others
 * are in files of their own. */
#include <argp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/model.h"
#include "bench/net.h"
#include "bench/report.h"
#include "commands.h"
#include "options.h"

#define BENCHES "ops, kernels, device, model, zoo, attention, allreduce, job, checkpoint, observe, scale and train"

typedef struct bench_options {
    const char *what, *device, *op, *json_path;
    bool all_kernels, tune, profile;
    rf_dtype mixed;
    rf_bench_clock clock;
    double seconds;
    uint32_t batch, steps_per_execution;
} bench_options;

static const struct argp_option argp_options[] = {
    { "device", 'd', "NAME", 0, "Device: index or part of a name (default: the first usable one, GPUs before software)",
      0 },
    { "op", 'o', "NAME", 0, "ops: only operations whose name contains NAME; =NAME: the one of this name", 0 },
    { "all-kernels", 'a', NULL, 0, "ops: every eligible kernel, not only the one that would be chosen", 0 },
    { "tune", 't', NULL, 0, "ops: store the fastest kernels in the cache", 0 },
    { "clock", 'c', "CLOCK", 0,
      "ops: whose clock to measure by, device or host (default: the device's where it has timestamps)", 0 },
    { "batch", 'b', "N", 0, "model: examples per step (default: 64)", 0 },
    { "steps-per-execution", 'e', "N", 0, "model: steps that are submitted together (default: 1)", 0 },
    { "profile", 'p', NULL, 0, "model: add the time of each operation of the step", 0 },
    { "mixed", 'x', "TYPE", 0,
      "model: compute with f16 (and scaled losses) or bf16 where layers can; ops: "
      "store the cases' floats in f16 or bf16",
      0 },
    { "seconds", 's', "X", 0, "Time spent per measurement (default: 0.2 for ops, 5 for model)", 0 },
    JSON_OPTION,
    { 0 },
};

static error_t parse_option(int key, char *text, struct argp_state *state)
{
    bench_options *o = state->input;
    switch (key) {
    case 'd': o->device = text; return 0;
    case 'o': o->op = text; return 0;
    case 'a': o->all_kernels = true; return 0;
    case 't': o->tune = true; return 0;
    case 'p': o->profile = true; return 0;
    case 'x': o->mixed = bench_narrow_type(state, "--mixed", text); return 0;
    case 'c':
        if (strcmp(text, "device") != 0 && strcmp(text, "host") != 0)
            argp_error(state, "--clock %s: possible are device and host", text);
        o->clock = strcmp(text, "device") == 0 ? RF_BENCH_CLOCK_DEVICE : RF_BENCH_CLOCK_HOST;
        return 0;
    case 'j': o->json_path = text ? text : "-"; return 0;
    case 'b': o->batch = (uint32_t)option_number(state, "--batch", text, 1, 1u << 20); return 0;
    case 'e':
        o->steps_per_execution = (uint32_t)option_number(state, "--steps-per-execution", text, 1, 1u << 20);
        return 0;
    case 's': o->seconds = option_seconds(state, "--seconds", text, 1e-6); return 0;
    case ARGP_KEY_ARG:
        if (o->what) argp_error(state, "'%s' is not expected", text);
        o->what = text;
        return 0;
    case ARGP_KEY_END:
        if (!o->what) argp_error(state, "say what to measure: " BENCHES);
        if (strcmp(o->what, "ops") != 0 && strcmp(o->what, "model") != 0)
            argp_error(state, "'%s' cannot be measured; possible are " BENCHES, o->what);
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

typedef struct ops_report {
    table rows;
    json_t *list;
    bool progress, ok;
} ops_report;

static rf_result add_op(void *user, const rf_bench_row *row)
{
    ops_report *report = user;
    char time[32], median[32], overlapped[32], gflops[32], gbytes[32], part[32];
    snprintf(time, sizeof(time), "%.4f", row->seconds * 1e3);
    snprintf(median, sizeof(median), "%.4f", row->median_seconds * 1e3);
    snprintf(overlapped, sizeof(overlapped), row->overlapped_seconds > 0 ? "%.4f" : "-", row->overlapped_seconds * 1e3);
    snprintf(gflops, sizeof(gflops), row->gflops > 0 ? "%.1f" : "-", row->gflops);
    const double products = row->product_gflops > 0 ? row->gflops / row->product_gflops : 0;
    snprintf(part, sizeof(part), products > 0 ? "%.2f" : "-", products);
    snprintf(gbytes, sizeof(gbytes), "%.1f", row->gbytes);
    const char *cells[] = { row->op,    row->case_name, row->kernel, time,   median,
                            overlapped, gflops,         part,        gbytes, row->chosen ? "*" : "" };
    report->ok &= table_row(&report->rows, cells);
    json_array_append_new(
        report->list,
        json_pack("{s:s,s:s,s:s,s:s,s:f,s:f,s:f,s:f,s:f,s:b,s:s,s:f}", "device", row->device, "op", row->op, "case",
                  row->case_name, "kernel", row->kernel, "seconds", row->seconds, "median_seconds", row->median_seconds,
                  "overlapped_seconds", row->overlapped_seconds, "gflops", row->gflops, "gbytes", row->gbytes, "chosen",
                  row->chosen, "clock", row->device_clock ? "device" : "host", "product_gflops", row->product_gflops));
    if (report->progress) fprintf(stderr, "\r\033[K%s %s %s", row->op, row->case_name, row->kernel);
    return RF_OK;
}

static int bench_ops(const bench_options *o, double memcpy_rate)
{
    static const char *const headings[] = { "Op",          "Case",     "Kernel",       ">ms",   ">Median",
                                            ">Overlapped", ">GFLOP/s", ">Of products", ">GB/s", "Chosen" };
    ops_report report = { .progress = isatty(STDERR_FILENO) != 0, .ok = true, .list = json_array() };
    report.ok = table_begin(&report.rows, headings, 10);
    const rf_result r = rf_bench_ops(&(rf_bench_ops_params){ .device = o->device,
                                                             .op = o->op,
                                                             .all_kernels = o->all_kernels,
                                                             .tune = o->tune,
                                                             .clock = o->clock,
                                                             .type = o->mixed,
                                                             .min_seconds = o->seconds },
                                     add_op, &report);
    if (report.progress) fprintf(stderr, "\r\033[K");
    json_t *result = json_pack("{s:f,s:o}", "memcpy_gbytes", memcpy_rate, "ops", report.list);
    if (r >= 0) return bench_report(o->json_path, NULL, &report.rows, result, report.ok);
    json_decref(result);
    table_free(&report.rows);
    return command_fail();
}

static int bench_model(const bench_options *o, double memcpy_rate)
{
    bench_model_result m;
    if (bench_model_run(&(bench_model_params){ .device = o->device,
                                               .batch = o->batch,
                                               .seconds = o->seconds,
                                               .profile = o->profile,
                                               .mixed = o->mixed,
                                               .steps_per_execution = o->steps_per_execution },
                        &m) < 0)
        return command_fail();
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
    bench_model_free(&m);
    return code;
}

int command_bench(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(int argc, char **argv);
    } others[] = { { "allreduce", command_bench_allreduce },   { "attention", command_bench_attention },
                   { "checkpoint", command_bench_checkpoint }, { "job", command_bench_job },
                   { "kernels", command_bench_kernels },       { "device", command_bench_device },
                   { "observe", command_bench_observe },       { "scale", command_bench_scale },
                   { "train", command_bench_train },           { "zoo", command_bench_zoo } };
    for (size_t i = 0; argc > 1 && i < sizeof(others) / sizeof(others[0]); i++) {
        if (strcmp(argv[1], others[i].name) != 0) continue;
        char name[64];
        snprintf(name, sizeof(name), "ringfire bench %s", others[i].name);
        argv[1] = name; /* what the option parser calls the program */
        return others[i].run(argc - 1, argv + 1);
    }
    bench_options o = { .batch = 64 };
    const struct argp parser = {
        argp_options,
        parse_option,
        "ops\nkernels\ndevice\nmodel\nzoo\nattention\nallreduce\njob\ncheckpoint\nobserve\nscale\ntrain",
        "Measures single operations (ops), or the training of a small CNN on one device (model: Conv 32 - pool - Conv "
        "64 - pool - Dense 64 - Dense 10 on 28x28 images).\v'kernels' tells what the driver's compiler makes of the "
        "operations' kernels, 'device' measures what a device costs and reaches by itself, 'zoo' measures the networks "
        "of the examples, 'attention' "
        "its two forms, 'allreduce' "
        "the exchange between workers, 'job' how workers come together and what their heartbeats cost, 'checkpoint' "
        "saving and loading, 'observe' traces and event files, 'scale' what "
        "many workers gain by a model of the network or "
        "on networks that it makes, 'train' "
        "training with several workers; they have options of their own: 'ringfire bench train --help'.",
        NULL,
        NULL,
        NULL
    };
    command_parse(&parser, argc, argv, 0, &o);
    const bool model = strcmp(o.what, "model") == 0;
    if (!(o.seconds > 0)) o.seconds = model ? 5 : 0.2;
    if (!json_can_write(o.json_path)) return CODE_FAILED;
    const double rate = model ? 0 : rf_bench_memcpy(64u << 20);
    if (!model && !json_replaces_text(o.json_path))
        printf("This machine now: memcpy %.1f GB/s (read + write, one thread, 64 MiB)\n", rate);
    return model ? bench_model(&o, rf_bench_memcpy(64u << 20)) : bench_ops(&o, rate);
}
