/* SPDX-License-Identifier: Apache-2.0 */
#include "job.h"
#include "../support/clock.h"
#include "../support/noise.h"
#include "../support/port.h"

#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "replica/internal.h"

typedef struct shared {
    report reports[MAX_WORKERS];
    volatile uint32_t words[MAX_NUMBERS];
} shared;

rf_result job_failure(worker *w, const char *file, int line, const char *what)
{
    snprintf(w->report->message, sizeof(w->report->message), "%s:%d: %s", file, line, what);
    return RF_ERROR_INTERNAL;
}

rf_result job_unexpected(worker *w, int line, const char *what, rf_result got)
{
    snprintf(w->report->message, sizeof(w->report->message), "line %d: %s: %s: %s", line, what, rf_result_name(got),
             rf_error_message());
    return RF_ERROR_INTERNAL;
}

uint32_t num_devices(const char *list)
{
    uint32_t count = 1;
    for (; *list; list++) count += *list == ',';
    return count;
}

static rf_result create_strategy(const job_params *p, uint32_t rank, uint16_t port, rf_strategy **out)
{
    rf_multi_worker_params params = { .mirrored = p->mirrored,
                                      .compression = p->compression,
                                      .top_k_share = p->top_k_share };
    params.mirrored.devices = p->devices[rank];
    params.mirrored.shares = p->shares[rank];
    if (p->shares[rank]) params.mirrored.num_shares = num_devices(p->devices[rank]);
    if (p->num_workers > 1)
        params.comm = (rf_comm_params){ .world_size = p->num_workers,
                                        .rank = rank,
                                        .master_address = "127.0.0.1",
                                        .master_port = port,
                                        .insecure = true,
                                        .bootstrap_timeout = 20,
                                        .peer_timeout = p->peer_timeout,
                                        .operation_timeout = 60 };
    return rf_strategy_create_multi_worker(&params, out);
}

static void work(const job_params *p, uint32_t rank, uint16_t port, worker_fn body, shared *all)
{
    report *mine = &all->reports[rank];
    char text[16];
    snprintf(text, sizeof(text), "%u", p->perturb - 1);
    if (p->perturb) setenv("RINGFIRE_TEST_PERTURB", text, 1);
    worker w = { .rank = rank, .world_size = p->num_workers, .user = p->user, .report = mine, .shared = all->words };
    rf_result r = create_strategy(p, rank, port, &w.strategy);
    const double start = seconds_now();
    if (r >= 0) {
        rf_strategy_set_seed(w.strategy, 7);
        for (uint32_t i = 0; p->staged && i < w.strategy->members.num_local; i++)
            w.strategy->members.replicas[i].staged = true;
        r = body(&w);
    }
    if (r < 0 && !mine->message[0]) snprintf(mine->message, sizeof(mine->message), "%s", rf_error_message());
    mine->seconds = seconds_now() - start;
    mine->result = r;
    rf_strategy_destroy(&w.strategy);
}

/* Kills a worker when the job says so. */
static void watch(const job_params *p, const pid_t *children, const shared *all)
{
    while (p->kill_rank) {
        const struct timespec pause = { 0, 5000000 };
        nanosleep(&pause, NULL);
        int status;
        if (waitpid(children[p->kill_rank - 1], &status, WNOHANG) != 0) return;
        if (!all->words[0]) continue;
        kill(children[p->kill_rank - 1], SIGKILL);
        return;
    }
}

void run_job(const job_params *params, worker_fn body, report reports[MAX_WORKERS])
{
    shared *all = mmap(NULL, sizeof(*all), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(all != MAP_FAILED);
    const uint16_t port = params->num_workers > 1 ? free_port() : 0;
    pid_t children[MAX_WORKERS];
    for (uint32_t r = 0; r < params->num_workers; r++) {
        all->reports[r].result = RF_ERROR_CANCELLED; /* stays where the process ends early */
        children[r] = fork();
        assert_true(children[r] >= 0);
        if (children[r] > 0) continue;
        alarm(900); /* a worker that hangs is a failure, not a hanging test */
        work(params, r, port, body, all);
        _exit(0);
    }
    watch(params, children, all);
    for (uint32_t r = 0; r < params->num_workers; r++) {
        int status;
        if (waitpid(children[r], &status, 0) != children[r] || !WIFSIGNALED(status)) continue;
        /* One that had done its work died while it left. */
        if (all->reports[r].result == RF_OK) all->reports[r].result = RF_ERROR_INTERNAL;
        snprintf(all->reports[r].message, sizeof(all->reports[r].message), "ended by signal %d", WTERMSIG(status));
    }
    memcpy(reports, all->reports, sizeof(all->reports));
    munmap(all, sizeof(*all));
    for (uint32_t r = 0; r < params->num_workers; r++) {
        if (reports[r].result != RF_ERROR_NOT_FOUND ||
            (!strstr(reports[r].message, "'llvmpipe'") && !strstr(reports[r].message, "'SwiftShader'")))
            continue;
        SKIP("%s", reports[r].message);
    }
}

void check_job(const report *reports, uint32_t num_workers)
{
    bool ok = true;
    for (uint32_t r = 0; r < num_workers; r++) {
        if (reports[r].result == RF_OK) continue;
        print_error("rank %u: %s: %s\n", r, rf_result_name(reports[r].result), reports[r].message);
        ok = false;
    }
    if (!ok) fail(); /* all have been told: what one says of another is often not the cause */
}

uint32_t job_rows(uint32_t number, uint32_t full)
{
    return number % 4 == 3 ? 1 : full - number % 3;
}

rf_result job_run_noise(rf_strategy *s, rf_function *step, uint32_t number, uint32_t rows, uint32_t inputs,
                        uint32_t classes, float *loss, float *agreed)
{
    float *x = calloc((size_t)rows * inputs, sizeof(x[0]));
    int32_t *labels = calloc(rows, sizeof(labels[0]));
    if (!x || !labels) {
        free(x);
        free(labels);
        return RF_ERROR_OUT_OF_HOST_MEMORY;
    }
    noise_batch(number, rows, inputs, classes, x, labels);
    const rf_element batch = { .num_components = 2,
                               .component = { { RF_F32, RF_SHAPE((int64_t)rows, (int64_t)inputs), x },
                                              { RF_I32, RF_SHAPE((int64_t)rows), labels } } };
    rf_per_replica *results[2];
    const rf_result r = rf_strategy_run(s, step, &batch, results);
    free(x);
    free(labels);
    GO(r);
    GO(rf_strategy_reduce(s, RF_REDUCE_SUM, results[0], loss));
    return rf_strategy_reduce(s, RF_REDUCE_MEAN, results[1], agreed);
}
