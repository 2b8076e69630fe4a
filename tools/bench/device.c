/* SPDX-License-Identifier: Apache-2.0 */
/* ringfire-bench device: what launching, waiting and copying cost on a device, and what it reaches at most. */
#include <argp.h>
#include <stdio.h>
#include <unistd.h>

#include "bench/commands.h"
#include "bench/report.h"
#include "options.h"

typedef struct device_options {
    const char *device, *json_path;
    double seconds;
} device_options;

static const struct argp_option argp_options[] = {
    { "device", 'd', "NAME", 0, "Device: index or part of a name (default: the first usable one, GPUs before software)",
      0 },
    { "seconds", 's', "X", 0, "Time spent per measurement (default: 0.1)", 0 },
    JSON_OPTION,
    { 0 },
};

static error_t parse_option(int key, char *text, struct argp_state *state)
{
    device_options *o = state->input;
    switch (key) {
    case 'd': o->device = text; return 0;
    case 's': o->seconds = option_seconds(state, "--seconds", text, 1e-6); return 0;
    case 'j': o->json_path = text ? text : "-"; return 0;
    case ARGP_KEY_ARG: argp_error(state, "'%s' is not expected", text); return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

typedef struct device_report {
    table rows;
    json_t *list;
    char device[256];
    bool progress, ok;
} device_report;

static rf_result add_rate(void *user, const rf_bench_rate *rate)
{
    device_report *report = user;
    char bytes[32] = "", value[32];
    if (rate->bytes >= 1u << 20)
        snprintf(bytes, sizeof(bytes), "%.0f MiB", (double)rate->bytes / (1u << 20));
    else if (rate->bytes > 0)
        snprintf(bytes, sizeof(bytes), "%.0f KiB", (double)rate->bytes / 1024);
    snprintf(value, sizeof(value), rate->value < 10 ? "%.2f" : "%.1f", rate->value);
    snprintf(report->device, sizeof(report->device), "%s", rate->device);
    report->ok &= table_row(&report->rows, (const char *[]){ rate->what, bytes, value, rate->unit });
    json_array_append_new(report->list, json_pack("{s:s,s:I,s:f,s:s}", "what", rate->what, "bytes",
                                                  (json_int_t)rate->bytes, "value", rate->value, "unit", rate->unit));
    if (report->progress) fprintf(stderr, "\r\033[K%s %s", rate->what, bytes);
    return RF_OK;
}

int command_bench_device(int argc, char **argv)
{
    static const char *const headings[] = { "Measured", ">Size", ">Value", "Unit" };
    device_options o = { 0 };
    const struct argp parser = { argp_options,
                                 parse_option,
                                 NULL,
                                 "Measures what launching, waiting and copying cost on a device, and what it reaches "
                                 "at most: times of the device's own clock where it has one.",
                                 NULL,
                                 NULL,
                                 NULL };
    command_parse(&parser, argc, argv, 0, &o);
    if (!json_can_write(o.json_path)) return CODE_FAILED;
    device_report report = { .progress = isatty(STDERR_FILENO) != 0, .list = json_array() };
    report.ok = table_begin(&report.rows, headings, 4);
    const rf_result r =
        rf_bench_rates(&(rf_bench_rates_params){ .device = o.device, .min_seconds = o.seconds }, add_rate, &report);
    if (report.progress) fprintf(stderr, "\r\033[K");
    json_t *result = json_pack("{s:s,s:o}", "device", report.device, "rates", report.list);
    if (r < 0) {
        json_decref(result);
        table_free(&report.rows);
        return command_fail();
    }
    char about[300];
    snprintf(about, sizeof(about), "Device: %s", report.device);
    return bench_report(o.json_path, about, &report.rows, result, report.ok);
}
