/* SPDX-License-Identifier: Apache-2.0 */
/* ringfire-bench job: how long a job of many workers on this host takes to form, and what its heartbeats cost while
 * nobody calls anything. The command becomes `ringfire run` with itself as the workers' program; they compare times
 * with the moment at which it began, which they are given. */
#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "bench/commands.h"
#include "bench/report.h"
#include "clock.h"
#include "options.h"

enum { KEY_BEGUN = 1000 };
/* The last ranks to leave the barrier have gone to sleep by then. */
#define SETTLE_SECONDS 1.0

typedef struct job_options {
    uint32_t workers;
    double idle, begun; /* begun: 0 in the command that the user starts */
    const char *json_path;
} job_options;

static const struct argp_option argp_options[] = {
    { "workers", 'n', "N", 0, "Workers to start (default: 8)", 0 },
    { "idle", 'i', "SECONDS", 0, "How long they do nothing (default: 20)", 0 },
    { "begun", KEY_BEGUN, "SECONDS", OPTION_HIDDEN, NULL, 0 },
    JSON_OPTION,
    { 0 },
};

static error_t parse_option(int key, char *text, struct argp_state *state)
{
    job_options *o = state->input;
    switch (key) {
    case 'n': o->workers = (uint32_t)option_number(state, "--workers", text, 2, 1024); return 0;
    case 'i': o->idle = option_seconds(state, "--idle", text, 1e-6); return 0;
    case KEY_BEGUN: o->begun = option_seconds(state, "--begun", text, 1e-6); return 0;
    case 'j': o->json_path = text ? text : "-"; return 0;
    case ARGP_KEY_ARG: argp_error(state, "'%s' is not expected", text); return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

/* ---- a worker ---- */

/* In seconds; the processor's are those of all workers together, the others those of the last. */
typedef struct job_figures {
    float formed, processor, idle, wakes;
} job_figures;

/* How often this process has gone to sleep. */
static double count_sleeps(void)
{
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? (double)usage.ru_nvcsw : 0;
}

static void sleep_seconds(double seconds)
{
    struct timespec t = { .tv_sec = (time_t)seconds, .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9) };
    while (nanosleep(&t, &t) != 0 && errno == EINTR) continue;
}

static rf_result measure_job(const job_options *o, rf_comm **comm, job_figures *out)
{
    rf_result r = rf_comm_create(NULL, comm);
    if (r == RF_OK) r = rf_comm_barrier(*comm);
    if (r < 0) return r;
    out->formed = (float)(clock_seconds() - o->begun);
    out->processor = (float)clock_processor_seconds();
    sleep_seconds(SETTLE_SECONDS);
    const double before = clock_processor_seconds(), sleeps = count_sleeps();
    sleep_seconds(o->idle);
    out->idle = (float)(clock_processor_seconds() - before);
    out->wakes = (float)(count_sleeps() - sleeps - 1); /* but for this sleep */
    r = rf_comm_all_reduce(*comm, &out->formed, &out->formed, 1, RF_F32, RF_COMM_MAX, NULL);
    if (r < 0) return r;
    return rf_comm_all_reduce(*comm, &out->processor, &out->processor, 3, RF_F32, RF_COMM_SUM, NULL);
}

static int report_job(const job_options *o, const rf_comm *comm, const job_figures *figures)
{
    const uint32_t workers = rf_comm_world_size(comm);
    const double share = (double)figures->idle / o->idle, wakes = (double)figures->wakes / o->idle;
    char about[512];
    snprintf(about, sizeof(about),
             "%u workers on this host, data over %s.\n"
             "Formed after %.2f s: the last worker has left the first barrier. That took %.2f s of processors.\n"
             "Idle for %g s: %.2f %% of one processor and %.1f wakes a second, all workers together.",
             workers, rf_comm_transport(comm), (double)figures->formed, (double)figures->processor, o->idle,
             100 * share, wakes);
    json_t *result =
        json_pack("{s:i,s:s,s:f,s:f,s:f,s:f,s:f}", "workers", (int)workers, "provider", rf_comm_transport(comm),
                  "formed_seconds", (double)figures->formed, "formed_processor_seconds", (double)figures->processor,
                  "idle_seconds", o->idle, "idle_processor_share", share, "idle_wakes_per_second", wakes);
    return bench_report(o->json_path, about, NULL, result, true);
}

/* Rank 0 alone speaks, unless something fails. */
static int run_worker(const job_options *o)
{
    rf_comm *comm = NULL;
    job_figures figures = { 0 };
    int code = measure_job(o, &comm, &figures) < 0 ? command_fail() : CODE_OK;
    if (code == CODE_OK && rf_comm_rank(comm) == 0) code = report_job(o, comm, &figures);
    rf_comm_destroy(&comm);
    return code;
}

/* ---- the command ---- */

/* Returns only when it cannot. */
static int become_launcher(const job_options *o)
{
    char self[4096], launcher[4200], workers[16], idle[32], begun[32], json[4200];
    const ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);
    if (length <= 0 || length == sizeof(self) - 1) {
        fprintf(stderr, "ringfire-bench: cannot find out where this program is: %s\n", strerror(errno));
        return CODE_FAILED;
    }
    self[length] = '\0';
    snprintf(workers, sizeof(workers), "%u", o->workers);
    snprintf(idle, sizeof(idle), "%.9g", o->idle);
    snprintf(begun, sizeof(begun), "%.9f", clock_seconds());
    snprintf(json, sizeof(json), "--json=%s", o->json_path ? o->json_path : "");
    snprintf(launcher, sizeof(launcher), "%.*s/ringfire", (int)(strrchr(self, '/') - self), self);
    const char *const words[] = { launcher,
                                  "run",
                                  "--no-prefix",
                                  "-n",
                                  workers,
                                  "--",
                                  self,
                                  "job",
                                  "--idle",
                                  idle,
                                  "--begun",
                                  begun,
                                  o->json_path ? json : NULL,
                                  NULL };
    fflush(NULL);
    execv(launcher, (char *const *)words);
    fprintf(stderr, "ringfire-bench: cannot start %s: %s\n", launcher, strerror(errno));
    return CODE_FAILED;
}

int command_bench_job(int argc, char **argv)
{
    job_options o = { .workers = 8, .idle = 20 };
    const struct argp parser = {
        argp_options,
        parse_option,
        "",
        "Measures how long a job of N workers on this host takes to form, from the start of this command until all of "
        "them have left a first barrier, and how much of a processor their heartbeats take while they do nothing.",
        NULL,
        NULL,
        NULL
    };
    command_parse(&parser, argc, argv, 0, &o);
    if (o.begun > 0) return run_worker(&o);
    if (!json_can_write(o.json_path)) return CODE_FAILED;
    bench_forget_job_key();
    return become_launcher(&o);
}
