/* SPDX-License-Identifier: Apache-2.0 */
/* ringfire-bench scale --workers: steps of one worker and of several, on a network that the command makes. Computing is
 * a sleep of the stated length, because the workers share this host's processors, and what is measured is the network:
 * the collectives are real, and stand in the order of a strategy's (scale_model.h). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "bench/commands.h"
#include "bench/report.h"
#include "bench/scale.h"
#include "bench/scale_net.h"
#include "bench/units.h"
#include "clock.h"
#include "net.h"

enum { PORT = 29400, MESSAGES = 60 }; /* the namespaces' own ports; the smallest all-reduces that are timed */

/* One worker's figures, in seconds a step. */
typedef struct scale_figures {
    double step, exchange, processor;
} scale_figures;

/* In memory that the workers share. */
typedef struct scale_shared {
    uint32_t steps;
    double message; /* seconds from one worker to another */
    scale_figures workers[BENCH_MOST_RANKS];
} scale_shared;

typedef struct scale_job {
    const scale_options *options;
    const scale_net *net;
    uint32_t workers, buckets;
    bool messages; /* of two workers, in place of steps */
    scale_shared *shared;
} scale_job;

/* ---- a worker ---- */

typedef struct scale_worker {
    const scale_job *job;
    uint32_t rank;
    rf_comm *comm;
    uint64_t *begins, *counts; /* of each bucket, and the end; of each bucket and rank, in elements */
    float *gradients, *values;
    rf_comm_request **reductions, **gatherings; /* of each bucket */
} scale_worker;

static bool worker_allocate(scale_worker *w)
{
    const uint32_t buckets = w->job->buckets, workers = w->job->workers;
    const uint64_t count = w->job->options->gradients[0] / sizeof(float);
    w->begins = calloc(buckets + 1, sizeof(*w->begins));
    w->counts = calloc((size_t)buckets * workers, sizeof(*w->counts));
    w->gradients = calloc(count, sizeof(float));
    w->values = calloc(count, sizeof(float));
    w->reductions = calloc(buckets, sizeof(*w->reductions));
    w->gatherings = calloc(buckets, sizeof(*w->gatherings));
    if (!w->begins || !w->counts || !w->gradients || !w->values || !w->reductions || !w->gatherings) return false;
    for (uint32_t b = 0; b < buckets; b++) {
        w->begins[b + 1] = count * (b + 1) / buckets;
        const uint64_t size = w->begins[b + 1] - w->begins[b];
        for (uint32_t r = 0; r < workers; r++)
            w->counts[(size_t)b * workers + r] = size / workers + (r < size % workers);
    }
    return true;
}

static void worker_free(scale_worker *w)
{
    rf_comm_destroy(&w->comm);
    free(w->begins);
    free(w->counts);
    free(w->gradients);
    free(w->values);
    free(w->reductions);
    free(w->gatherings);
}

static void sleep_until(double when)
{
    const struct timespec t = { .tv_sec = (time_t)when, .tv_nsec = (long)((when - (double)(time_t)when) * 1e9) };
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR) continue;
}

/* The rank's shard is summed in its place among the gradients, as a call in place allows, and gathered from there. */
static float *worker_shard(const scale_worker *w, uint32_t bucket)
{
    const uint64_t *counts = &w->counts[(size_t)bucket * w->job->workers];
    float *shard = &w->gradients[w->begins[bucket]];
    for (uint32_t r = 0; r < w->rank; r++) shard += counts[r];
    return shard;
}

static rf_result start_reduction(scale_worker *w, uint32_t bucket)
{
    return rf_comm_start_reduce_scatter(w->comm, &w->gradients[w->begins[bucket]], worker_shard(w, bucket),
                                        &w->counts[(size_t)bucket * w->job->workers], RF_F32, RF_COMM_SUM, NULL,
                                        &w->reductions[bucket]);
}

static rf_result start_gathering(scale_worker *w, uint32_t bucket)
{
    return rf_comm_start_all_gather(w->comm, worker_shard(w, bucket), &w->values[w->begins[bucket]],
                                    &w->counts[(size_t)bucket * w->job->workers], RF_F32, NULL, &w->gatherings[bucket]);
}

/* The turns of src/replica/update/overlap_plan.c. Computing goes on while the worker waits for a reduction, as a
 * device's does: a bucket is ready at its time after the step's begin. */
static rf_result run_step(scale_worker *w)
{
    const uint32_t buckets = w->job->buckets;
    const double begun = clock_seconds();
    for (uint32_t turn = 0; turn < buckets + 2; turn++) {
        if (turn < buckets) {
            sleep_until(begun + scale_bucket_ready(w->job->options->compute, buckets, turn));
            TRY(start_reduction(w, turn));
        }
        if (turn >= 2) TRY(start_gathering(w, turn - 2));
        if (turn >= 1 && turn <= buckets) TRY(rf_comm_wait(&w->reductions[turn - 1]));
    }
    for (uint32_t b = 0; b < buckets; b++) TRY(rf_comm_wait(&w->gatherings[b]));
    return RF_OK;
}

/* Between two workers, which send each other one number. Among more the times would be those of processors that all of
 * them wait for. The median, because now and then one of two does, too. */
static rf_result measure_message(scale_worker *w)
{
    double times[MESSAGES];
    float value = 0;
    for (int i = -MESSAGES / 4; i < MESSAGES; i++) { /* the first ones do not count */
        const double begun = clock_seconds();
        TRY(rf_comm_all_reduce(w->comm, &value, &value, 1, RF_F32, RF_COMM_SUM, NULL));
        if (i >= 0) times[i] = clock_seconds() - begun;
    }
    if (w->rank == 0) w->job->shared->message = bench_median(times, MESSAGES);
    return RF_OK;
}

static rf_result measure_steps(scale_worker *w)
{
    scale_figures *out = &w->job->shared->workers[w->rank];
    double begun = clock_seconds();
    TRY(run_step(w)); /* connects what is not connected yet */
    TRY(run_step(w));
    int32_t steps = (int32_t)(2 * w->job->options->seconds / (clock_seconds() - begun)) + 1;
    TRY(rf_comm_broadcast(w->comm, &steps, 1, RF_I32, 0, NULL));
    if (w->rank == 0) w->job->shared->steps = (uint32_t)steps;
    const double exchange = rf_comm_seconds(w->comm), processor = clock_processor_seconds();
    begun = clock_seconds();
    for (int32_t i = 0; i < steps; i++) TRY(run_step(w));
    out->step = (clock_seconds() - begun) / steps;
    out->exchange = (rf_comm_seconds(w->comm) - exchange) / steps;
    out->processor = (clock_processor_seconds() - processor) / steps;
    return rf_comm_barrier(w->comm);
}

static int run_worker(void *user, uint32_t rank)
{
    const scale_job *job = user;
    scale_worker w = { .job = job, .rank = rank };
    char own[16], master[16];
    scale_net_address(rank, own);
    scale_net_address(0, master);
    if (!scale_net_enter(job->net, rank)) return CODE_FAILED;
    if (!worker_allocate(&w) || setenv("RINGFIRE_SHARED_MEMORY", "0", 1) != 0) {
        fprintf(stderr, "ringfire-bench: worker %u: no memory\n", rank);
        worker_free(&w);
        return CODE_FAILED;
    }
    const rf_comm_params params = { .world_size = job->workers,
                                    .rank = rank,
                                    .master_address = master,
                                    .master_port = PORT,
                                    .bind_address = own,
                                    .job = "bench",
                                    .insecure = true };
    rf_result r = rf_comm_create(&params, &w.comm);
    if (r == RF_OK) r = job->messages ? measure_message(&w) : measure_steps(&w);
    if (r < 0) fprintf(stderr, "ringfire-bench: worker %u: %s\n", rank, rf_error_message());
    worker_free(&w);
    return r < 0 ? CODE_FAILED : CODE_OK;
}

/* ---- the report ---- */

/* The slowest worker's of everything but the processor's time, which is that of all together. */
static scale_figures figures_summarize(const scale_shared *shared, uint32_t workers)
{
    scale_figures all = { 0 };
    for (uint32_t i = 0; i < workers; i++) {
        const scale_figures *one = &shared->workers[i];
        if (one->step > all.step) all.step = one->step;
        if (one->exchange > all.exchange) all.exchange = one->exchange;
        all.processor += one->processor;
    }
    return all;
}

/* The model predicts a step from one worker's step, the bandwidth that was asked for and the latency that was
 * measured. */
static scale_step predict_step(const scale_options *o, uint32_t workers, uint32_t buckets, double alone, double message)
{
    scale_network network = o->network;
    network.between.latency = message;
    network.per_host = 1;
    const double bytes = (double)o->gradients[0] / buckets;
    return scale_sharded_step(&network, workers, alone, buckets, bytes);
}

static bool add_row(const scale_options *o, const scale_job *job, double alone, table *t, json_t *list)
{
    const scale_figures m = figures_summarize(job->shared, job->workers);
    const scale_step model = predict_step(o, job->workers, job->buckets, alone, job->shared->message);
    const double exposed = m.step - alone, cores = (double)sysconf(_SC_NPROCESSORS_ONLN),
                 busy = m.processor / m.step / cores;
    char cells[10][32];
    snprintf(cells[0], 32, "%u", job->workers);
    const double ms[] = { m.step, m.exchange, exposed, model.step, model.communication, model.exposed };
    static const int columns[] = { 1, 3, 4, 5, 7, 8 };
    for (int i = 0; i < 6; i++) snprintf(cells[columns[i]], 32, "%.1f", ms[i] * 1e3);
    snprintf(cells[2], 32, "%.0f", 100 * alone / m.step);
    snprintf(cells[6], 32, "%.0f", 100 * alone / model.step);
    snprintf(cells[9], 32, "%.0f", 100 * busy);
    json_array_append_new(list,
                          json_pack("{s:i,s:i,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:f}", "workers", (int)job->workers, "steps",
                                    (int)job->shared->steps, "step_seconds", m.step, "efficiency", alone / m.step,
                                    "exchange_seconds", m.exchange, "exposed_seconds", exposed, "processor_share", busy,
                                    "model_step_seconds", model.step, "model_exchange_seconds", model.communication,
                                    "model_exposed_seconds", model.exposed));
    return table_row(t, (const char *[]){ cells[0], cells[1], cells[2], cells[3], cells[4], cells[5], cells[6],
                                          cells[7], cells[8], cells[9] });
}

static int measure_report(const scale_options *o, const scale_job *job, double alone, table *t, json_t *list, bool ok)
{
    char about[1024], size[32];
    const scale_link *link = &o->network.between;
    print_size(size, sizeof(size), o->gradients[0]);
    snprintf(
        about, sizeof(about),
        "Workers in namespaces of this host, each with a link of %g Gbit/s%s. Computing is a sleep of %g ms (one "
        "worker "
        "alone: a step of %.1f ms) and costs no processor; the collectives are real: %s of gradients in %u bucket%s, "
        "sharded. Times in ms, then what the model says for that bandwidth and the %.0f us that a message between two "
        "workers took. "
        "Exchange: in collectives, waits for others included; exposed: what a step takes longer than one "
        "worker's; %%: efficiency; CPU: of all cores, by the workers.",
        link->bandwidth * 8e-9,
        link->latency == 0  ? ""
        : job->net->relayed ? ", whose messages a process of this command delays"
                            : ", whose messages netem delays",
        o->compute * 1e3, alone * 1e3, size, job->buckets, job->buckets == 1 ? "" : "s", job->shared->message * 1e6);
    json_t *result = json_pack("{s:s,s:f,s:f,s:s?,s:f,s:I,s:i,s:f,s:f,s:f,s:o}", "kind", "measurement", "bandwidth",
                               link->bandwidth, "latency", link->latency, "delayed_by",
                               link->latency == 0  ? NULL
                               : job->net->relayed ? "relay"
                                                   : "netem",
                               "sum_rate", o->network.sum_rate, "gradient_bytes", (json_int_t)o->gradients[0],
                               "buckets", (int)job->buckets, "compute_seconds", o->compute, "alone_step_seconds", alone,
                               "message_seconds", job->shared->message, "results", list);
    return bench_report(o->json_path, about, t, result, ok);
}

/* ---- all of them ---- */

static bool measure_all(const scale_options *o, scale_job *job, double *alone, table *t, json_t *list)
{
    job->workers = 1;
    if (!bench_run_ranks(1, run_worker, job)) return false;
    *alone = job->shared->workers[0].step;
    job->workers = 2;
    job->messages = true;
    bool ok = bench_run_ranks(2, run_worker, job);
    job->messages = false;
    for (uint32_t i = 0; i < o->num_workers && ok; i++) {
        job->workers = o->workers[i];
        ok = bench_run_ranks(job->workers, run_worker, job) && add_row(o, job, *alone, t, list);
    }
    return ok;
}

int scale_measure(const scale_options *o)
{
    static const char *const headings[] = { ">Workers",    ">Step", ">%",        ">Exchange", ">Exposed",
                                            ">Model step", ">%",    ">Exchange", ">Exposed",  ">CPU %" };
    scale_net net;
    uint32_t most = 2;
    for (uint32_t i = 0; i < o->num_workers; i++)
        if (o->workers[i] > most) most = o->workers[i];
    bench_forget_job_key();
    if (!scale_net_create(&net, most, &o->network.between)) return CODE_FAILED;
    scale_job job = { .options = o, .net = &net };
    (void)scale_cut(o, o->gradients[0], &job.buckets);
    job.shared = mmap(NULL, sizeof(*job.shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (job.shared == MAP_FAILED) {
        fprintf(stderr, "ringfire-bench: no memory: %s\n", strerror(errno));
        return CODE_FAILED;
    }
    table t;
    json_t *list = json_array();
    double alone = 0;
    bool ok = table_begin(&t, headings, 10);
    if (measure_all(o, &job, &alone, &t, list)) {
        const int code = measure_report(o, &job, alone, &t, list, ok);
        munmap(job.shared, sizeof(*job.shared));
        return code;
    }
    json_decref(list);
    table_free(&t);
    munmap(job.shared, sizeof(*job.shared));
    return CODE_FAILED;
}
