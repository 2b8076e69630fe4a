/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/report.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ringfire/profile.h>

#include "bench/commands.h"
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

static bool wait_for_ranks(pid_t *pids, uint32_t started, bool ok)
{
    for (uint32_t left = started; left > 0; left--) {
        int status;
        for (uint32_t i = 0; i < started && !ok; i++)
            if (pids[i] > 0) kill(pids[i], SIGKILL);
        const pid_t pid = wait(&status);
        for (uint32_t i = 0; i < started; i++) {
            if (pids[i] != pid) continue;
            pids[i] = 0;
            if (ok && pid > 0 && WIFSIGNALED(status))
                fprintf(stderr, "ringfire-bench: rank %u was ended by signal %d (%s)\n", i, WTERMSIG(status),
                        strsignal(WTERMSIG(status)));
        }
        if (pid < 0 || status != 0) ok = false;
    }
    return ok;
}

bool bench_run_ranks(uint32_t count, int (*run)(void *user, uint32_t rank), void *user)
{
    pid_t pids[BENCH_MOST_RANKS];
    const pid_t parent = getpid();
    bool ok = true;
    uint32_t started = 0;
    fflush(NULL);
    while (started < count && ok) {
        pids[started] = fork();
        if (pids[started] == 0) {
            /* The signal comes for a parent that ends from now on, not for one that has ended. */
            if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent) _exit(CODE_FAILED);
            bench_exit_child(run(user, started));
        }
        if (pids[started] < 0) {
            fprintf(stderr, "ringfire-bench: no process for rank %u: %s\n", started, strerror(errno));
            ok = false;
        } else {
            started++;
        }
    }
    return wait_for_ranks(pids, started, ok);
}
