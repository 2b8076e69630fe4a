/* SPDX-License-Identifier: Apache-2.0 */
/* ringfire-bench ops: the op table's benchmark cases, kernel by kernel. */
#include <argp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/commands.h"
#include "bench/report.h"
#include "net.h"
#include "options.h"

typedef struct ops_options {
    const char *device, *op, *json_path;
    bool all_kernels, tune;
    rf_dtype mixed;
    rf_bench_clock clock;
    double seconds;
} ops_options;

static const struct argp_option argp_options[] = {
    { "device", 'd', "NAME", 0, "Device: index or part of a name (default: the first usable one, GPUs before software)",
      0 },
    { "op", 'o', "NAME", 0, "Only operations whose name contains NAME; =NAME: the one of this name", 0 },
    { "all-kernels", 'a', NULL, 0, "Every eligible kernel, not only the one that would be chosen", 0 },
    { "tune", 't', NULL, 0, "Store the fastest kernels in the cache", 0 },
    { "clock", 'c', "CLOCK", 0,
      "Whose clock to measure by, device or host (default: the device's where it has timestamps)", 0 },
    { "mixed", 'x', "TYPE", 0, "Store the cases' floats in f16 or bf16", 0 },
    { "seconds", 's', "X", 0, "Time spent per measurement (default: 0.2)", 0 },
    JSON_OPTION,
    { 0 },
};

static error_t parse_option(int key, char *text, struct argp_state *state)
{
    ops_options *o = state->input;
    switch (key) {
    case 'd': o->device = text; return 0;
    case 'o': o->op = text; return 0;
    case 'a': o->all_kernels = true; return 0;
    case 't': o->tune = true; return 0;
    case 'x': o->mixed = bench_narrow_type(state, "--mixed", text); return 0;
    case 'c':
        if (strcmp(text, "device") != 0 && strcmp(text, "host") != 0)
            argp_error(state, "--clock %s: possible are device and host", text);
        o->clock = strcmp(text, "device") == 0 ? RF_BENCH_CLOCK_DEVICE : RF_BENCH_CLOCK_HOST;
        return 0;
    case 'j': o->json_path = text ? text : "-"; return 0;
    case 's': o->seconds = option_seconds(state, "--seconds", text, 1e-6); return 0;
    case ARGP_KEY_ARG: argp_error(state, "'%s' is not expected", text); return 0;
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

static int bench_ops(const ops_options *o, double memcpy_rate)
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

int command_bench_ops(int argc, char **argv)
{
    ops_options o = { .seconds = 0.2 };
    const struct argp parser = {
        argp_options, parse_option,
        NULL,         "Measures single operations on one device, with the sizes of their benchmark cases.",
        NULL,         NULL,
        NULL
    };
    command_parse(&parser, argc, argv, 0, &o);
    if (!json_can_write(o.json_path)) return CODE_FAILED;
    const double rate = rf_bench_memcpy(64u << 20);
    if (!json_replaces_text(o.json_path))
        printf("This machine now: memcpy %.1f GB/s (read + write, one thread, 64 MiB)\n", rate);
    return bench_ops(&o, rate);
}
