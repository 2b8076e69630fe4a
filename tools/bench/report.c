/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/report.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include <ringfire/profile.h>

#include "commands.h"
#include "text.h"

int bench_report(const char *json_path, const char *about, table *rows, json_t *result, bool ok)
{
    const bool text = !json_replaces_text(json_path);
    if (about && text) print_wrapped(stdout, about, 0, text_columns(stdout));
    if (rows && text) table_print(rows, stdout);
    ok &= json_write(json_path, result);
    if (rows) table_free(rows);
    return ok ? CODE_OK : CODE_FAILED;
}

bool bench_profile(const rf_bench_node *nodes, uint32_t count, table *rows, json_t **list)
{
    static const char *const headings[] = { "Op", "Kernel", ">ms", ">GFLOP/s", ">GB/s" };
    bool ok = table_begin(rows, headings, 5);
    *list = json_array();
    for (uint32_t i = 0; i < count; i++) {
        const rf_bench_node *n = &nodes[i];
        char time[32], gflops[32], gbytes[32];
        snprintf(time, sizeof(time), "%.3f", n->seconds * 1e3);
        snprintf(gflops, sizeof(gflops), "%.1f", n->gflops);
        snprintf(gbytes, sizeof(gbytes), "%.1f", n->gbytes);
        ok &= table_row(rows, (const char *[]){ n->op, n->kernel, time, gflops, gbytes });
        json_array_append_new(*list, json_pack("{s:s,s:s,s:f,s:f,s:f}", "op", n->op, "kernel", n->kernel, "seconds",
                                               n->seconds, "gflops", n->gflops, "gbytes", n->gbytes));
    }
    return ok;
}

void bench_forget_job_key(void)
{
    unsetenv("RINGFIRE_KEY_FILE");
    unsetenv("RINGFIRE_INSECURE");
    unsetenv("RINGFIRE_ENCRYPT");
}

/* The value that has `rank` others before it in order of size. */
static double value_ranked(const double *values, uint32_t count, uint32_t rank)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t less = 0, same = 0;
        for (uint32_t k = 0; k < count; k++) {
            less += values[k] < values[i];
            same += values[k] == values[i];
        }
        if (less <= rank && rank < less + same) return values[i];
    }
    return NAN; /* some values are NaN */
}

double bench_median(const double *values, uint32_t count)
{
    return (value_ranked(values, count, (count - 1) / 2) + value_ranked(values, count, count / 2)) / 2;
}

void bench_exit_child(int code)
{
    (void)rf_profiler_stop(); /* fails where there is none */
    _exit(code);
}
