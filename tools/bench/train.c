/* SPDX-License-Identifier: Apache-2.0 */
/* ringfire-bench train: training with several workers or devices on this host, gradients exchanged during the backward
 * pass and, for comparison, after it; and, where it is asked for, one replica that has nobody to exchange with, and as
 * many of those side by side as there are replicas, which is as fast as the machine allows. All alternate in one run,
 * and the best round of each counts, so that a busy moment of the machine does not matter. */
#include <argp.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bench/commands.h"
#include "bench/report.h"
#include "clock.h"
#include "net.h"
#include "options.h"
#include "ports.h"

enum { MAX_WORKERS = 16, ROUNDS = 7, WIDTH = 512, PIXELS = 784, CLASSES = 10, MAX_LAYERS = 64 };
enum { MODE_DURING, MODE_AFTER, MODE_APART, MODE_ALONE, MODES };

typedef struct train_options {
    uint32_t workers, batch, cores, megabytes;
    uint64_t bucket_bytes;
    bool alone;
    rf_compression compression;
    double top_k_share;
    const char *devices, *json_path;
    double seconds;
    uint16_t ports[MODES];
} train_options;

/* Averages of one round. */
typedef struct train_round {
    double step, exchange, exposed; /* seconds a step */
    double processor;               /* seconds a step of all threads: of use on a machine that does other things too */
    double bytes;                   /* exchanged in a step */
} train_round;

/* In memory that all workers share. */
typedef struct train_shared {
    uint32_t replicas;
    uint64_t parameter_bytes;
    char device[256];
    train_round rounds[MAX_WORKERS][MODES][ROUNDS];
} train_shared;

static const char *const mode_names[MODES] = { "during", "after", "apart", "one replica" };

static const struct argp_option argp_options[] = {
    { "workers", 'n', "N", 0, "Processes to start (default: 2, at most 16)", 0 },
    { "devices", 'd', "LIST", 0,
      "Devices of each worker (default: RINGFIRE_DEVICES, else what `ringfire devices` says)", 0 },
    { "batch", 'b', "N", 0, "Examples per replica and step (default: 64)", 0 },
    { "parameters", 'p', "MB", 0,
      "Train a multi-layer perceptron with that many megabytes of parameters (default: the small CNN of 'bench model')",
      0 },
    { "bucket", 'k', "KIB", 0, "Size of the buckets that are exchanged (default: the library's)", 0 },
    { "compression", 'x', "KIND", 0,
      "Gradients between workers: none, f16, bf16, or top-k for the largest hundredth (top-k=0.1: the largest tenth)",
      0 },
    { "cores-per-worker", 'c', "N", 0, "Keep each worker, and llvmpipe in it, on N processor cores of its own", 0 },
    { "alone", 'a', NULL, 0,
      "With one worker: also train one replica on its first device, llvmpipe on one thread, and one on each device "
      "that exchange nothing (apart), and give steps as multiples of that of the one",
      0 },
    { "seconds", 's', "X", 0, "Time spent measuring (default: 10)", 0 },
    JSON_OPTION,
    { 0 },
};

static error_t parse_option(int key, char *text, struct argp_state *state)
{
    train_options *o = state->input;
    switch (key) {
    case 'n': o->workers = (uint32_t)option_number(state, "--workers", text, 1, MAX_WORKERS); return 0;
    case 'd': o->devices = text; return 0;
    case 'b': o->batch = (uint32_t)option_number(state, "--batch", text, 1, 1u << 16); return 0;
    case 'p': o->megabytes = (uint32_t)option_number(state, "--parameters", text, 1, MAX_LAYERS - 4); return 0;
    case 'k': o->bucket_bytes = (uint64_t)option_number(state, "--bucket", text, 1, 1u << 20) << 10; return 0;
    case 'c': o->cores = (uint32_t)option_number(state, "--cores-per-worker", text, 1, 1024); return 0;
    case 'x':
        if (rf_compression_parse(text, &o->compression, &o->top_k_share) < 0)
            argp_error(state, "--compression: %s", rf_error_message());
        return 0;
    case 'a': o->alone = true; return 0;
    case 's': o->seconds = option_seconds(state, "--seconds", text, 1e-6); return 0;
    case 'j': o->json_path = text ? text : "-"; return 0;
    case ARGP_KEY_ARG: argp_error(state, "'%s' is not expected", text); return 0;
    case ARGP_KEY_END:
        if (o->compression && o->workers == 1)
            argp_error(state, "--compression is for several workers: add --workers 2");
        if (o->alone && o->workers > 1) argp_error(state, "--alone is for one worker: add --workers 1");
        if (o->alone && (!o->devices || strcmp(o->devices, "all") == 0))
            argp_error(state, "--alone trains the first of --devices: name them");
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

/* ---- one way to train ---- */

typedef struct trainer {
    const train_options *options;
    bench_net net;
    /* MODE_APART has trainers on the other devices, each with a thread of its own while it runs. */
    struct trainer *others;
    uint32_t num_others, steps;
    pthread_t thread;
    rf_result result;
    char failure[256];
} trainer;

/* One matrix of 512 x 512 for each MiB. */
static rf_result dense_layers(uint32_t megabytes, rf_layer **layers, uint32_t *count)
{
    TRY(rf_layer_flatten(&layers[(*count)++]));
    for (uint32_t i = 0; i < megabytes; i++)
        TRY(rf_layer_dense(&(rf_dense_params){ .units = WIDTH, .activation = RF_ACTIVATION_RELU },
                           &layers[(*count)++]));
    return rf_layer_dense(&(rf_dense_params){ .units = BENCH_CLASSES }, &layers[(*count)++]);
}

static rf_result create_model(trainer *b)
{
    const rf_shape image = RF_SHAPE(BENCH_SIDE, BENCH_SIDE, 1);
    rf_layer *layers[MAX_LAYERS] = { NULL };
    uint32_t count = b->options->megabytes ? 0 : BENCH_CNN_LAYERS;
    TRY(b->options->megabytes ? dense_layers(b->options->megabytes, layers, &count) : bench_cnn_layers(layers));
    TRY(rf_model_create_sequential(b->net.strategy, layers, count, &image, &b->net.model));
    TRY(rf_optimizer_create(b->net.strategy, &(rf_optimizer_params){ .kind = RF_OPTIMIZER_ADAM, .learning_rate = 1e-4 },
                            &b->net.optimizer));
    return bench_net_create_step(&b->net);
}

static rf_result create_strategy(trainer *b, uint32_t rank, int mode)
{
    const train_options *o = b->options;
    rf_multi_worker_params params = {
        .mirrored = { .devices = o->devices, .bucket_bytes = o->bucket_bytes, .no_overlap = mode == MODE_AFTER },
        .compression = o->compression,
        .top_k_share = o->top_k_share
    };
    if (o->workers > 1)
        params.comm = (rf_comm_params){ .world_size = o->workers,
                                        .rank = rank,
                                        .master_address = "127.0.0.1",
                                        .master_port = o->ports[mode],
                                        .bind_address = "127.0.0.1",
                                        .job = "bench",
                                        .insecure = true };
    return o->workers > 1 ? rf_strategy_create_multi_worker(&params, &b->net.strategy)
                          : rf_strategy_create_mirrored(&params.mirrored, &b->net.strategy);
}

/* Names one of a list by its number among all devices. */
static rf_result find_device(const char *list, uint32_t position, char *device, size_t size)
{
    uint32_t count = position + 1, *indices = calloc(count, sizeof(*indices));
    if (!indices) return RF_ERROR_OUT_OF_HOST_MEMORY;
    const rf_result r = rf_devices_select(list, indices, &count);
    snprintf(device, size, "%u", indices[position]);
    free(indices);
    return r;
}

/* Creates the strategy of one device by itself, with one processor core where it is llvmpipe. */
static rf_result create_alone(trainer *b, uint32_t index)
{
    char device[16], threads[16] = "";
    const char *before = getenv("LP_NUM_THREADS");
    TRY(find_device(b->options->devices, index, device, sizeof(device)));
    if (before) snprintf(threads, sizeof(threads), "%s", before);
    setenv("LP_NUM_THREADS", "1", 1);
    const rf_result r = rf_strategy_create_mirrored(&(rf_mirrored_params){ .devices = device }, &b->net.strategy);
    if (before)
        setenv("LP_NUM_THREADS", threads, 1);
    else
        unsetenv("LP_NUM_THREADS");
    return r;
}

static rf_result create_rest(trainer *b)
{
    TRY(create_model(b));
    return bench_net_make_batch(&b->net, b->options->batch * rf_strategy_num_replicas_in_sync(b->net.strategy),
                                RF_SHAPE(-1, BENCH_SIDE, BENCH_SIDE, 1), BENCH_CLASSES);
}

static rf_result create_others(trainer *b)
{
    uint32_t count = 0;
    TRY(rf_devices_select(b->options->devices, NULL, &count));
    b->others = calloc(count, sizeof(*b->others));
    if (!b->others) return RF_ERROR_OUT_OF_HOST_MEMORY;
    while (b->num_others + 1 < count) {
        trainer *other = &b->others[b->num_others++];
        other->options = b->options;
        TRY(create_alone(other, b->num_others));
        TRY(create_rest(other));
    }
    return RF_OK;
}

static rf_result create_trainer(trainer *b, const train_options *o, uint32_t rank, int mode)
{
    b->options = o;
    TRY(mode >= MODE_APART ? create_alone(b, 0) : create_strategy(b, rank, mode));
    TRY(create_rest(b));
    return mode == MODE_APART ? create_others(b) : RF_OK;
}

static void destroy_trainer(trainer *b)
{
    for (uint32_t i = 0; i < b->num_others; i++) bench_net_destroy(&b->others[i].net);
    free(b->others);
    bench_net_destroy(&b->net);
}

static rf_result run_net(trainer *b, uint32_t steps)
{
    rf_per_replica *results[1] = { NULL };
    float loss;
    for (uint32_t i = 0; i < steps; i++) TRY(rf_strategy_run(b->net.strategy, b->net.step, &b->net.batch, results));
    return rf_strategy_reduce(b->net.strategy, RF_REDUCE_SUM, results[0], &loss);
}

/* Errors are their thread's. */
static void *run_other(void *user)
{
    trainer *b = user;
    b->result = run_net(b, b->steps);
    if (b->result < 0) snprintf(b->failure, sizeof(b->failure), "%s", rf_error_message());
    return NULL;
}

static rf_result run_steps(trainer *b, uint32_t steps, double *seconds)
{
    const double start = clock_seconds();
    uint32_t started = 0;
    for (; started < b->num_others; started++) {
        b->others[started].steps = steps;
        if (pthread_create(&b->others[started].thread, NULL, run_other, &b->others[started]) != 0) break;
    }
    b->steps = steps;
    (void)run_other(b);
    for (uint32_t i = 0; i < started; i++) pthread_join(b->others[i].thread, NULL);
    *seconds = (clock_seconds() - start) / steps;
    for (uint32_t i = 0; i < started && b->result >= 0; i++) {
        b->result = b->others[i].result;
        memcpy(b->failure, b->others[i].failure, sizeof(b->failure));
    }
    if (started < b->num_others) {
        b->result = RF_ERROR_OUT_OF_HOST_MEMORY;
        snprintf(b->failure, sizeof(b->failure), "no threads for %u replicas apart", b->num_others + 1);
    }
    return b->result;
}

static rf_result measure_round(trainer *b, uint32_t steps, train_round *out)
{
    rf_exchange_stats stats;
    rf_strategy_reset_exchange_stats(b->net.strategy);
    const double begun = clock_processor_seconds();
    TRY(run_steps(b, steps, &out->step));
    out->processor = (clock_processor_seconds() - begun) / steps;
    rf_strategy_exchange_stats(b->net.strategy, &stats);
    out->exchange = stats.seconds / steps;
    out->exposed = stats.exposed_seconds / steps;
    out->bytes = (double)stats.bytes / steps;
    return RF_OK;
}

/* ---- a worker ---- */

static int count_modes(const train_options *o)
{
    return o->alone ? MODES : MODE_APART;
}

/* Steps of a round: what rank 0 finds. */
static rf_result agree_on_steps(trainer *b, double step_seconds, uint32_t *steps)
{
    int32_t count = (int32_t)(b->options->seconds / (count_modes(b->options) * ROUNDS) / step_seconds) + 1;
    rf_comm *comm = rf_strategy_comm(b->net.strategy);
    if (comm) TRY(rf_comm_broadcast(comm, &count, 1, RF_I32, 0, NULL));
    *steps = (uint32_t)count;
    return RF_OK;
}

static void trainer_describe(const trainer *b, train_shared *shared)
{
    const rf_variable_list variables = rf_model_variables(b->net.model);
    for (uint32_t i = 0; i < variables.count; i++)
        shared->parameter_bytes += (uint64_t)rf_shape_count(rf_variable_shape(variables.items[i])) * sizeof(float);
    shared->replicas = rf_strategy_num_replicas_in_sync(b->net.strategy);
    snprintf(shared->device, sizeof(shared->device), "%s", rf_strategy_device_name(b->net.strategy, 0));
}

static rf_result train_rounds(const train_options *o, uint32_t rank, train_shared *shared, trainer *trainers)
{
    double seconds;
    uint32_t steps = 1;
    for (int mode = 0; mode < count_modes(o); mode++) {
        TRY(create_trainer(&trainers[mode], o, rank, mode));
        TRY(run_steps(&trainers[mode], 3, &seconds)); /* compiles */
        TRY(run_steps(&trainers[mode], 3, &seconds));
    }
    if (rank == 0) trainer_describe(&trainers[0], shared);
    TRY(agree_on_steps(&trainers[0], seconds, &steps));
    for (int round = 0; round < ROUNDS; round++)
        for (int mode = 0; mode < count_modes(o); mode++)
            TRY(measure_round(&trainers[mode], steps, &shared->rounds[rank][mode][round]));
    return RF_OK;
}

/* The worker's share of the cores that this process may use. llvmpipe starts as many threads as LP_NUM_THREADS says. */
static bool pin_worker(const train_options *o, uint32_t rank)
{
    cpu_set_t all, mine;
    if (o->cores == 0) return true;
    CPU_ZERO(&mine);
    if (sched_getaffinity(0, sizeof(all), &all) != 0) return false;
    uint32_t skip = rank * o->cores, left = o->cores;
    for (int i = 0; i < CPU_SETSIZE && left > 0; i++) {
        if (!CPU_ISSET(i, &all) || (skip > 0 && skip-- > 0)) continue;
        CPU_SET(i, &mine);
        left--;
    }
    char text[16];
    snprintf(text, sizeof(text), "%u", o->cores);
    if (left > 0) errno = EINVAL;
    return left == 0 && sched_setaffinity(0, sizeof(mine), &mine) == 0 && setenv("LP_NUM_THREADS", text, 1) == 0;
}

typedef struct train_job {
    const train_options *options;
    train_shared *shared;
} train_job;

static int run_worker(void *user, uint32_t rank)
{
    const train_job *job = user;
    const train_options *o = job->options;
    if (!pin_worker(o, rank)) {
        fprintf(stderr, "ringfire-bench: worker %u cannot have %u cores of its own: %s\n", rank, o->cores,
                strerror(errno));
        return CODE_FAILED;
    }
    trainer trainers[MODES] = { { .options = o } };
    const rf_result r = train_rounds(o, rank, job->shared, trainers);
    const char *failure = rf_error_message();
    for (int mode = 0; mode < MODES; mode++)
        if (trainers[mode].result < 0 && trainers[mode].failure[0]) failure = trainers[mode].failure;
    if (r < 0) fprintf(stderr, "ringfire-bench: worker %u: %s\n", rank, failure);
    for (int mode = 0; mode < MODES; mode++) destroy_trainer(&trainers[mode]);
    return r < 0 ? CODE_FAILED : CODE_OK;
}

/* ---- results ---- */

static int by_step(const void *a, const void *b)
{
    const double x = ((const train_round *)a)->step, y = ((const train_round *)b)->step;
    return (x > y) - (x < y);
}

/* The best round; of the workers, the one with most time exposed. */
static train_round round_summarize(const train_options *o, train_shared *shared, int mode)
{
    train_round worst = { 0 };
    for (uint32_t r = 0; r < o->workers; r++) {
        train_round *rounds = shared->rounds[r][mode];
        qsort(rounds, ROUNDS, sizeof(rounds[0]), by_step);
        if (r == 0 || rounds[0].exposed > worst.exposed) worst = rounds[0];
    }
    return worst;
}

static bool report_mode(const train_options *o, const train_shared *shared, train_round m, int mode,
                        const train_round *alone, double after, table *t, json_t *list)
{
    const double images = o->batch * (mode == MODE_ALONE ? 1 : shared->replicas) / m.step;
    const bool exchanges = mode < MODE_APART;
    char cells[8][32];
    snprintf(cells[0], 32, "%.0f", images);
    snprintf(cells[1], 32, "%.2f", m.step * 1e3);
    snprintf(cells[2], 32, "%.2f", m.processor * 1e3);
    snprintf(cells[3], 32, "%.2f", m.exchange * 1e3);
    snprintf(cells[4], 32, "%.2f", m.exposed * 1e3);
    snprintf(cells[5], 32, after > 0 && exchanges ? "%.2f" : "-", m.exposed / after);
    snprintf(cells[6], 32, "%.2f", m.bytes * 1e-6);
    snprintf(cells[7], 32, "%.2f", m.step / alone->step); /* shown where it was measured */
    json_t *row = json_pack("{s:s,s:f,s:f,s:f,s:f,s:f,s:f}", "exchange", mode_names[mode], "images_per_second", images,
                            "step_seconds", m.step, "processor_seconds", m.processor, "exchange_seconds", m.exchange,
                            "exposed_seconds", m.exposed, "bytes", m.bytes);
    if (o->alone) json_object_set_new(row, "of_one_replica", json_real(m.step / alone->step));
    json_array_append_new(list, row);
    return table_row(t, (const char *[]){ mode_names[mode], cells[0], cells[1], cells[2], cells[3], cells[4], cells[5],
                                          cells[6], cells[7] });
}

static int train_report(const train_options *o, train_shared *shared)
{
    static const char *const headings[] = { "Exchange",          ">Images/s",     ">Step ms",
                                            ">Processor ms",     ">Exchange ms",  ">of it exposed",
                                            ">Exposed of total", ">Exchanged MB", ">Step of one's" };
    table t;
    json_t *list = json_array();
    bool ok = table_begin(&t, headings, o->alone ? 9 : 8);
    train_round rounds[MODES] = { 0 };
    for (int mode = 0; mode < count_modes(o); mode++) rounds[mode] = round_summarize(o, shared, mode);
    for (int mode = count_modes(o) - 1; mode >= 0; mode--)
        ok &= report_mode(o, shared, rounds[mode], mode, &rounds[MODE_ALONE], rounds[MODE_AFTER].exchange, &t, list);
    json_t *result = json_pack("{s:s,s:i,s:i,s:i,s:I,s:o}", "device", shared->device, "workers", (int)o->workers,
                               "replicas", (int)shared->replicas, "batch", (int)o->batch, "parameter_bytes",
                               (json_int_t)shared->parameter_bytes, "results", list);
    char about[700];
    snprintf(
        about, sizeof(about),
        "%u workers, %u replicas (%s), %.2f MB of parameters, batch %u per replica. Gradients are exchanged after or "
        "during the backward pass%s; processor: time of a worker's threads; exposed: while the worker's devices have "
        "no "
        "work; of total: of the exchange after it.",
        o->workers, shared->replicas, shared->device, (double)shared->parameter_bytes * 1e-6, o->batch,
        o->alone ? ", or not at all (apart)" : "");
    return bench_report(o->json_path, about, &t, result, ok);
}

int command_bench_train(int argc, char **argv)
{
    train_options o = { .workers = 2, .batch = 64, .seconds = 10 };
    const struct argp parser = { argp_options,
                                 parse_option,
                                 "",
                                 "Measures training with several workers on this host: how fast it is, and how much of "
                                 "the exchange of gradients and parameters computing hides.",
                                 NULL,
                                 NULL,
                                 NULL };
    command_parse(&parser, argc, argv, 0, &o);
    if (!json_can_write(o.json_path)) return CODE_FAILED;
    bench_forget_job_key();
    train_shared *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED || !free_ports(o.ports, MODES)) {
        fprintf(stderr, "ringfire-bench: no memory or no free port: %s\n", strerror(errno));
        return CODE_FAILED;
    }
    const int code =
        bench_run_ranks(o.workers, run_worker, &(train_job){ &o, shared }) ? train_report(&o, shared) : CODE_FAILED;
    munmap(shared, sizeof(*shared));
    return code;
}
