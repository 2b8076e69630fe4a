/* SPDX-License-Identifier: Apache-2.0 */
/* ringfire bench allreduce: the communicator's all-reduce among forked ranks, beside a ring over plain sockets and a
 * bare copy through them, taking turns in the same run. */
#include <argp.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench/report.h"
#include "bench/ring.h"
#include "clock.h"
#include "commands.h"
#include "ports.h"

enum { MAX_SIZES = 16, MAX_METHODS = 8, ROUNDS = 15, PLAIN = 100, COPY = 101 };

typedef struct allreduce_options {
    uint32_t ranks;
    uint64_t sizes[MAX_SIZES];
    uint32_t num_sizes;
    int methods[MAX_METHODS]; /* rf_comm_algorithm, PLAIN or COPY */
    uint32_t num_methods;
    rf_dtype wire;
    bool encrypt;
    double seconds;
    const char *provider, *json_path;
    char key_file[64];
    uint16_t port;
} allreduce_options;

/* In memory that all ranks share. */
typedef struct allreduce_shared {
    pthread_barrier_t barrier;
    uint32_t repeats;
    char provider[64];
    double seconds[MAX_SIZES][MAX_METHODS][ROUNDS][BENCH_MAX_RANKS];
    double processor[MAX_SIZES][MAX_METHODS][ROUNDS][BENCH_MAX_RANKS];
} allreduce_shared;

static const struct {
    const char *name;
    int method;
} algorithms[] = { { "auto", RF_COMM_AUTO },
                   { "ring", RF_COMM_RING },
                   { "doubling", RF_COMM_RECURSIVE_DOUBLING },
                   { "halving", RF_COMM_RECURSIVE_HALVING },
                   { "hierarchical", RF_COMM_HIERARCHICAL },
                   { "plain socket ring", PLAIN },
                   { "raw TCP, both ways", COPY } };
enum { NUM_ALGORITHMS = 5, NUM_NAMES = sizeof(algorithms) / sizeof(algorithms[0]) };

static const char *method_name(int method)
{
    for (int i = 0; i < NUM_NAMES; i++)
        if (algorithms[i].method == method) return algorithms[i].name;
    return "";
}

static const struct argp_option argp_options[] = {
    { "ranks", 'n', "N", 0, "Processes to start (default: 2, at most 16)", 0 },
    { "size", 's', "BYTES", 0, "Size to measure, e.g. 4K or 16M; may be repeated (default: 4K 64K 1M 16M 64M 256M)",
      0 },
    { "algorithm", 'a', "NAME", 0,
      "auto, ring, doubling, halving, hierarchical or all; may be repeated (default: auto)", 0 },
    { "wire", 'w', "TYPE", 0, "Send f32 as f16 or bf16", 0 },
    { "encrypt", 'e', NULL, 0, "Encrypt the data", 0 },
    { "provider", 'p', "NAME", 0, "libfabric provider", 0 },
    { "seconds", 't', "X", 0, "Time spent per size and algorithm (default: 1)", 0 },
    BENCH_JSON_OPTION,
    { 0 },
};

static bool parse_size(const char *text, uint64_t *out)
{
    char *end;
    const unsigned long long n = strtoull(text, &end, 10);
    int shift = 0;
    if (*end == 'K' || *end == 'k') shift = 10;
    if (*end == 'M' || *end == 'm') shift = 20;
    if (*end == 'G' || *end == 'g') shift = 30;
    if (end == text || (shift ? end[1] : end[0]) || n == 0 || n > (UINT64_C(4) << 30) >> shift) return false;
    *out = ((uint64_t)n << shift) / sizeof(float) * sizeof(float);
    return *out > 0;
}

static bool add_algorithm(allreduce_options *o, const char *name)
{
    const bool all = strcmp(name, "all") == 0;
    bool found = false;
    for (int i = 0; i < NUM_ALGORITHMS; i++) {
        if (!all && strcmp(name, algorithms[i].name) != 0) continue;
        if (o->num_methods + 2 >= MAX_METHODS) return false;
        o->methods[o->num_methods++] = algorithms[i].method;
        found = true;
    }
    return found;
}

static error_t parse_option(int key, char *text, struct argp_state *state)
{
    allreduce_options *o = state->input;
    switch (key) {
    case 'n':
        o->ranks = bench_number(state, text, BENCH_MAX_RANKS);
        if (o->ranks < 2) argp_error(state, "one rank has nothing to exchange");
        return 0;
    case 's':
        if (o->num_sizes == MAX_SIZES || !parse_size(text, &o->sizes[o->num_sizes]))
            argp_error(state, "'%s' is no size (or one too many)", text);
        o->num_sizes++;
        return 0;
    case 'a':
        if (!add_algorithm(o, text)) argp_error(state, "'%s' is no algorithm (or one too many)", text);
        return 0;
    case 'w':
        if (strcmp(text, "f16") != 0 && strcmp(text, "bf16") != 0) argp_error(state, "the wire is f16 or bf16");
        o->wire = strcmp(text, "f16") == 0 ? RF_F16 : RF_BF16;
        return 0;
    case 'e': o->encrypt = true; return 0;
    case 'p': o->provider = text; return 0;
    case 't': o->seconds = bench_seconds(state, text); return 0;
    case 'j': o->json_path = text; return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

/* Processor time of this process: hardly disturbed by what else the machine does. */
static double processor_time(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- one rank ---- */

typedef struct allreduce_rank {
    const allreduce_options *options;
    allreduce_shared *shared;
    uint32_t rank;
    bench_ring ring;
    rf_comm *comm;
    float *data, *other;
} allreduce_rank;

static bool once(allreduce_rank *k, int method, uint64_t count)
{
    if (method == PLAIN) return bench_ring_all_reduce(&k->ring, k->data, count);
    if (method == COPY) return bench_ring_copy(&k->ring, k->data, k->other, count);
    return rf_comm_all_reduce(
               k->comm, k->data, k->data, count, RF_F32, RF_COMM_SUM,
               &(rf_collective_params){ .algorithm = (rf_comm_algorithm)method, .wire = k->options->wire }) == RF_OK;
}

/* Small whole numbers: their sums are exact, on narrow wires too. */
static bool verify(allreduce_rank *k, int method, uint64_t count)
{
    const uint32_t n = k->options->ranks;
    const uint64_t of_ranks = (uint64_t)n * (n - 1) / 2;
    for (uint64_t i = 0; i < count; i++) k->data[i] = (float)(i % 7 + k->rank);
    if (!once(k, method, count)) return false;
    for (uint64_t i = 0; i < count && method != COPY; i++) {
        if (k->data[i] == (float)(i % 7 * n + of_ranks)) continue;
        fprintf(stderr, "ringfire: %s: rank %u: element %llu is wrong\n", method_name(method), k->rank,
                (unsigned long long)i);
        return false;
    }
    memset(k->data, 0, count * sizeof(float)); /* sums of zeros never overflow */
    return true;
}

static bool timed(allreduce_rank *k, int method, uint64_t count, uint32_t repeats, double *seconds, double *processor)
{
    pthread_barrier_wait(&k->shared->barrier);
    const double start = now(), began = processor_time();
    for (uint32_t i = 0; i < repeats; i++)
        if (!once(k, method, count)) return false;
    *seconds = (now() - start) / repeats;
    *processor = (processor_time() - began) / repeats;
    return true;
}

static bool measure_size(allreduce_rank *k, uint32_t s)
{
    const allreduce_options *o = k->options;
    const uint64_t count = o->sizes[s] / sizeof(float);
    uint32_t repeats[MAX_METHODS];
    for (uint32_t m = 0; m < o->num_methods; m++) {
        double seconds, unused;
        if (!verify(k, o->methods[m], count) || !timed(k, o->methods[m], count, 3, &seconds, &unused)) return false;
        if (k->rank == 0) {
            const double fit = o->seconds / ROUNDS / seconds;
            k->shared->repeats = fit < 1 ? 1 : fit > 100000 ? 100000 : (uint32_t)fit;
        }
        pthread_barrier_wait(&k->shared->barrier);
        repeats[m] = k->shared->repeats;
        pthread_barrier_wait(&k->shared->barrier);
    }
    /* There and back, so that none always comes after the same other. */
    for (uint32_t round = 0; round < ROUNDS; round++)
        for (uint32_t i = 0; i < o->num_methods; i++) {
            const uint32_t m = round % 2 == 0 ? i : o->num_methods - 1 - i;
            if (!timed(k, o->methods[m], count, repeats[m], &k->shared->seconds[s][m][round][k->rank],
                       &k->shared->processor[s][m][round][k->rank]))
                return false;
        }
    return true;
}

static int run_rank(const allreduce_options *o, allreduce_shared *shared, uint32_t rank, const int *to, const int *from)
{
    allreduce_rank k = { .options = o, .shared = shared, .rank = rank };
    uint64_t largest = sizeof(float);
    for (uint32_t s = 0; s < o->num_sizes; s++)
        if (o->sizes[s] > largest) largest = o->sizes[s];
    k.data = malloc(largest);
    k.other = calloc(1, largest);
    if (!k.data || !k.other || !bench_ring_begin(&k.ring, rank, o->ranks, to, from)) {
        fprintf(stderr, "ringfire: no memory\n");
        return EXIT_FAILURE;
    }
    const rf_comm_params params = { .world_size = o->ranks,
                                    .rank = rank,
                                    .master_address = "127.0.0.1",
                                    .master_port = o->port,
                                    .bind_address = "127.0.0.1",
                                    .job = "bench",
                                    .key_file = o->key_file[0] ? o->key_file : NULL,
                                    .insecure = !o->key_file[0],
                                    .encrypt = o->encrypt,
                                    .provider = o->provider };
    bool ok = rf_comm_create(&params, &k.comm) == RF_OK;
    if (ok && rank == 0) snprintf(shared->provider, sizeof(shared->provider), "%s", rf_comm_provider(k.comm));
    for (uint32_t s = 0; s < o->num_sizes && ok; s++) ok = measure_size(&k, s);
    if (!ok) fprintf(stderr, "ringfire: rank %u: %s\n", rank, rf_error_message());
    rf_comm_destroy(&k.comm);
    bench_ring_end(&k.ring);
    free(k.data);
    free(k.other);
    return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* ---- all of them ---- */

static bool run_ranks(const allreduce_options *o, allreduce_shared *shared)
{
    int to[BENCH_MAX_RANKS], from[BENCH_MAX_RANKS];
    pid_t pids[BENCH_MAX_RANKS];
    if (!bench_ring_connect(o->ranks, to, from)) {
        fprintf(stderr, "ringfire: no connections over loopback: %s\n", strerror(errno));
        return false;
    }
    fflush(NULL);
    bool ok = true;
    uint32_t started = 0;
    for (; started < o->ranks; started++) {
        pids[started] = fork();
        if (pids[started] < 0) {
            fprintf(stderr, "ringfire: no process for rank %u: %s\n", started, strerror(errno));
            ok = false;
            break;
        }
        if (pids[started] == 0) _exit(run_rank(o, shared, started, to, from));
    }
    for (uint32_t i = 0; i < o->ranks; i++) {
        close(to[i]);
        close(from[i]);
    }
    /* One that failed leaves the others waiting. */
    for (uint32_t left = started; left > 0; left--) {
        int status;
        if (!ok)
            for (uint32_t i = 0; i < started; i++)
                if (pids[i] > 0) kill(pids[i], SIGKILL);
        const pid_t pid = wait(&status);
        for (uint32_t i = 0; i < started; i++)
            if (pids[i] == pid) pids[i] = 0;
        if (pid < 0 || status != 0) ok = false;
    }
    return ok;
}

/* Of each round the slowest rank. */
static void slowest(const allreduce_options *o, double rounds[ROUNDS][BENCH_MAX_RANKS], double out[ROUNDS])
{
    for (int r = 0; r < ROUNDS; r++) {
        out[r] = 0;
        for (uint32_t i = 0; i < o->ranks; i++)
            if (rounds[r][i] > out[r]) out[r] = rounds[r][i];
    }
}

/* How many times as fast as the plain ring: the median over the rounds, because the machine may be faster or slower as
 * a whole from one round to the next. */
static double times_plain(const double plain[ROUNDS], const double seconds[ROUNDS])
{
    double ratios[ROUNDS];
    for (int r = 0; r < ROUNDS; r++) ratios[r] = plain[r] / seconds[r];
    return bench_median(ratios, ROUNDS);
}

static bool report_size(const allreduce_options *o, allreduce_shared *shared, uint32_t s, table *t, json_t *list)
{
    double all[MAX_METHODS][ROUNDS], seconds[MAX_METHODS], processor[MAX_METHODS];
    uint32_t plain = 0;
    for (uint32_t m = 0; m < o->num_methods; m++) {
        slowest(o, shared->processor[s][m], all[m]);
        processor[m] = bench_median(all[m], ROUNDS);
        slowest(o, shared->seconds[s][m], all[m]);
        seconds[m] = bench_median(all[m], ROUNDS);
        if (o->methods[m] == PLAIN) plain = m;
    }
    char size[32];
    const uint64_t bytes = o->sizes[s];
    if (bytes % (1u << 20) == 0)
        snprintf(size, sizeof(size), "%llu MiB", (unsigned long long)(bytes >> 20));
    else if (bytes % 1024 == 0)
        snprintf(size, sizeof(size), "%llu KiB", (unsigned long long)(bytes >> 10));
    else
        snprintf(size, sizeof(size), "%llu B", (unsigned long long)bytes);
    bool ok = true;
    for (uint32_t m = 0; m < o->num_methods; m++) {
        char time[32], rate[32], cost[32], ratio[32] = "";
        const double gbytes = (double)bytes / seconds[m] * 1e-9;
        const double times = o->methods[m] == COPY ? 0 : times_plain(all[plain], all[m]);
        snprintf(time, sizeof(time), seconds[m] < 1e-3 ? "%.4f" : "%.3f", seconds[m] * 1e3);
        snprintf(rate, sizeof(rate), "%.3f", gbytes);
        snprintf(cost, sizeof(cost), processor[m] < 1e-3 ? "%.4f" : "%.3f", processor[m] * 1e3);
        if (o->methods[m] != COPY) snprintf(ratio, sizeof(ratio), "%.2f", times);
        ok &= table_row(t, (const char *[]){ size, method_name(o->methods[m]), time, rate, cost, ratio });
        json_array_append_new(list, json_pack("{s:I,s:s,s:f,s:f,s:f,s:f}", "bytes", (json_int_t)bytes, "algorithm",
                                              method_name(o->methods[m]), "seconds", seconds[m], "gbytes", gbytes,
                                              "processor_seconds", processor[m], "ratio_to_plain_ring", times));
    }
    return ok;
}

static int report(const allreduce_options *o, allreduce_shared *shared)
{
    static const char *const headings[] = { "Size", "Algorithm", ">ms", ">GB/s", ">CPU ms", ">of plain ring" };
    table t;
    json_t *list = json_array();
    bool ok = table_begin(&t, headings, 6);
    for (uint32_t s = 0; s < o->num_sizes; s++) ok &= report_size(o, shared, s, &t, list);
    json_t *result =
        json_pack("{s:s,s:i,s:b,s:s,s:o}", "provider", shared->provider, "ranks", (int)o->ranks, "encrypted",
                  o->encrypt, "wire", rf_dtype_name(o->wire ? o->wire : RF_F32), "results", list);
    char about[256];
    snprintf(
        about, sizeof(about),
        "%u ranks on this host, libfabric provider %s, f32%s%s, in place. GB/s: bytes of the result / time; CPU: of "
        "one rank.",
        o->ranks, shared->provider, o->wire ? " as " : "", o->wire ? rf_dtype_name(o->wire) : "");
    return bench_report(o->json_path, about, &t, result, ok);
}

static bool make_key(allreduce_options *o, char directory[32])
{
    snprintf(directory, 32, "/tmp/ringfire-bench-XXXXXX");
    if (!mkdtemp(directory)) {
        directory[0] = '\0';
        fprintf(stderr, "ringfire: no directory in /tmp for a key: %s\n", strerror(errno));
        return false;
    }
    snprintf(o->key_file, sizeof(o->key_file), "%s/job.key", directory);
    if (rf_key_file_create(o->key_file) == RF_OK) return true;
    command_fail();
    return false;
}

static void set_defaults(allreduce_options *o)
{
    static const uint64_t sizes[] = { 4 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20, 256 << 20 };
    if (o->num_sizes == 0) {
        o->num_sizes = sizeof(sizes) / sizeof(sizes[0]);
        memcpy(o->sizes, sizes, sizeof(sizes));
    }
    if (o->num_methods == 0) o->methods[o->num_methods++] = RF_COMM_AUTO;
    o->methods[o->num_methods++] = PLAIN;
    o->methods[o->num_methods++] = COPY;
}

int command_bench_allreduce(int argc, char **argv)
{
    allreduce_options o = { .ranks = 2, .seconds = 1 };
    const struct argp parser = {
        argp_options,
        parse_option,
        "",
        "Measures the all-reduce between processes of this host, beside a ring over plain TCP sockets "
        "and a bare copy through them.",
        NULL,
        NULL,
        NULL
    };
    argp_parse(&parser, argc, argv, 0, NULL, &o);
    if (!bench_can_report(o.json_path)) return EXIT_FAILURE;
    set_defaults(&o);
    allreduce_shared *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED || !free_ports(&o.port, 1)) {
        fprintf(stderr, "ringfire: no memory or no free port: %s\n", strerror(errno));
        return EXIT_FAILURE;
    }
    pthread_barrierattr_t attributes;
    pthread_barrierattr_init(&attributes);
    pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&shared->barrier, &attributes, o.ranks);
    char directory[32] = "";
    int code = EXIT_FAILURE;
    if ((!o.encrypt || make_key(&o, directory)) && run_ranks(&o, shared)) code = report(&o, shared);
    if (o.key_file[0]) unlink(o.key_file);
    if (directory[0]) rmdir(directory);
    munmap(shared, sizeof(*shared));
    return code;
}
