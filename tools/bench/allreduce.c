/* SPDX-License-Identifier: Apache-2.0 */
/* ringfire-bench allreduce: the communicator's all-reduce, in the job that a launcher has started this process in, or
 * among forked ranks, there compared with rings over plain sockets and plain shared memory and a bare copy through the
 * sockets, alternating in the same run.
 */
#include <argp.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "bench/commands.h"
#include "bench/report.h"
#include "bench/ring.h"
#include "bench/shared_ring.h"
#include "bench/units.h"
#include "clock.h"
#include "folder.h"
#include "options.h"
#include "ports.h"

enum { MAX_SIZES = 16, MAX_METHODS = 9, ROUNDS = 15, PLAIN = 100, COPY = 101, SHARED = 102 };

typedef struct allreduce_options {
    uint32_t ranks; /* 0: not said */
    uint64_t sizes[MAX_SIZES];
    uint32_t num_sizes;
    int methods[MAX_METHODS]; /* rf_comm_algorithm, PLAIN, SHARED or COPY */
    uint32_t num_methods;
    rf_dtype wire;
    bool encrypt;
    double seconds;
    const char *provider, *json_path;
    char key_file[64];
    uint16_t port;
} allreduce_options;

/* Measured seconds, a column for each rank of this host. In a job there is one column, of the slowest rank. */
typedef struct allreduce_results {
    uint32_t hosts, columns;
    char provider[64];
    double seconds[MAX_SIZES][MAX_METHODS][ROUNDS][BENCH_MAX_RANKS];
    double processor[MAX_SIZES][MAX_METHODS][ROUNDS][BENCH_MAX_RANKS];
} allreduce_results;

/* In memory that forked ranks share. */
typedef struct allreduce_shared {
    pthread_barrier_t barrier;
    uint32_t repeats;
    allreduce_results results;
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
                   { "plain shared-memory ring", SHARED },
                   { "raw TCP, both ways", COPY } };
enum { NUM_ALGORITHMS = 5, NUM_NAMES = sizeof(algorithms) / sizeof(algorithms[0]) };

static const char *method_name(int method)
{
    for (int i = 0; i < NUM_NAMES; i++)
        if (algorithms[i].method == method) return algorithms[i].name;
    return "";
}

static const struct argp_option argp_options[] = {
    { "ranks", 'n', "N", 0,
      "Processes to start (default: 2, at most 16); in a job of a launcher its own ranks are measured", 0 },
    { "size", 's', "BYTES", 0, "Size to measure, e.g. 4K or 16M; may be repeated (default: 4K 64K 1M 16M 64M 256M)",
      0 },
    { "algorithm", 'a', "NAME", 0,
      "auto, ring, doubling, halving, hierarchical or all; may be repeated (default: auto)", 0 },
    { "wire", 'w', "TYPE", 0, "Send f32 as f16 or bf16", 0 },
    { "encrypt", 'e', NULL, 0, "Encrypt the data", 0 },
    { "provider", 'p', "NAME", 0, "libfabric provider, for all data: nothing goes through shared memory", 0 },
    { "seconds", 't', "X", 0, "Time spent per size and algorithm (default: 1)", 0 },
    JSON_OPTION,
    { 0 },
};

static bool add_algorithm(allreduce_options *o, const char *name)
{
    const bool all = strcmp(name, "all") == 0;
    bool found = false;
    for (int i = 0; i < NUM_ALGORITHMS; i++) {
        if (!all && strcmp(name, algorithms[i].name) != 0) continue;
        if (o->num_methods + 3 >= MAX_METHODS) return false;
        o->methods[o->num_methods++] = algorithms[i].method;
        found = true;
    }
    return found;
}

static bool parse_wire(const char *text, rf_dtype *wire)
{
    const bool f16 = strcmp(text, "f16") == 0;
    *wire = f16 ? RF_F16 : RF_BF16;
    return f16 || strcmp(text, "bf16") == 0;
}

static error_t parse_option(int key, char *text, struct argp_state *state)
{
    allreduce_options *o = state->input;
    switch (key) {
    case 'n': o->ranks = (uint32_t)option_number(state, "--ranks", text, 2, BENCH_MAX_RANKS); return 0;
    case 's':
        if (o->num_sizes == MAX_SIZES) argp_error(state, "--size %s: at most %d sizes are measured", text, MAX_SIZES);
        if (!parse_size(text, &o->sizes[o->num_sizes]))
            argp_error(state, "--size is '%s', not a size of 4 bytes to 4G such as 64K or 16M", text);
        o->num_sizes++;
        return 0;
    case 'a':
        if (!add_algorithm(o, text))
            argp_error(state,
                       "--algorithm is '%s', not auto, ring, doubling, halving, hierarchical or all (or one too many)",
                       text);
        return 0;
    case 'w':
        if (!parse_wire(text, &o->wire)) argp_error(state, "--wire is '%s', not f16 or bf16", text);
        return 0;
    case 'e': o->encrypt = true; return 0;
    case 'p': o->provider = text; return 0;
    case 't': o->seconds = option_seconds(state, "--seconds", text, 1e-6); return 0;
    case 'j': o->json_path = text ? text : "-"; return 0;
    case ARGP_KEY_ARG: argp_error(state, "'%s' is not expected", text); return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

/* ---- the report ---- */

/* The slowest rank of each round. */
static void slowest_ranks(const allreduce_results *results, const double rounds[ROUNDS][BENCH_MAX_RANKS],
                          double out[ROUNDS])
{
    for (int r = 0; r < ROUNDS; r++) {
        out[r] = 0;
        for (uint32_t i = 0; i < results->columns; i++)
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

static bool report_size(const allreduce_options *o, const allreduce_results *results, uint32_t s, table *t,
                        json_t *list)
{
    double all[MAX_METHODS][ROUNDS], seconds[MAX_METHODS], processor[MAX_METHODS];
    uint32_t plain = MAX_METHODS, common = MAX_METHODS;
    for (uint32_t m = 0; m < o->num_methods; m++) {
        slowest_ranks(results, results->processor[s][m], all[m]);
        processor[m] = bench_median(all[m], ROUNDS);
        slowest_ranks(results, results->seconds[s][m], all[m]);
        seconds[m] = bench_median(all[m], ROUNDS);
        if (o->methods[m] == PLAIN) plain = m;
        if (o->methods[m] == SHARED) common = m;
    }
    char size[32];
    const uint64_t bytes = o->sizes[s];
    print_size(size, sizeof(size), bytes);
    bool ok = true;
    for (uint32_t m = 0; m < o->num_methods; m++) {
        char time[32], rate[32], cost[32], ratio[32] = "", of_shared[32] = "";
        const double gbytes = (double)bytes / seconds[m] * 1e-9;
        const bool compared = plain < MAX_METHODS && o->methods[m] != COPY;
        const double times = compared ? times_plain(all[plain], all[m]) : 0;
        const double times_shared = compared ? times_plain(all[common], all[m]) : 0;
        snprintf(time, sizeof(time), seconds[m] < 1e-3 ? "%.4f" : "%.3f", seconds[m] * 1e3);
        snprintf(rate, sizeof(rate), "%.3f", gbytes);
        snprintf(cost, sizeof(cost), processor[m] < 1e-3 ? "%.4f" : "%.3f", processor[m] * 1e3);
        if (compared) snprintf(ratio, sizeof(ratio), "%.2f", times);
        if (compared) snprintf(of_shared, sizeof(of_shared), "%.2f", times_shared);
        ok &= table_row(t, (const char *[]){ size, method_name(o->methods[m]), time, rate, cost, ratio, of_shared });
        json_t *row =
            json_pack("{s:I,s:s,s:f,s:f,s:f}", "bytes", (json_int_t)bytes, "algorithm", method_name(o->methods[m]),
                      "seconds", seconds[m], "gbytes", gbytes, "processor_seconds", processor[m]);
        if (compared) json_object_set_new(row, "ratio_to_plain_ring", json_real(times));
        if (compared) json_object_set_new(row, "ratio_to_shared_ring", json_real(times_shared));
        json_array_append_new(list, row);
    }
    return ok;
}

static int allreduce_report(const allreduce_options *o, const allreduce_results *results)
{
    static const char *const headings[] = { "Size",           "Algorithm", ">ms", ">GB/s", ">CPU ms", ">of socket ring",
                                            ">of shared ring" };
    table t;
    json_t *list = json_array();
    const bool job = results->hosts > 0; /* without the plain rings, which are this host's */
    bool ok = table_begin(&t, headings, job ? 5 : 7);
    for (uint32_t s = 0; s < o->num_sizes; s++) ok &= report_size(o, results, s, &t, list);
    json_t *result = json_pack("{s:s,s:i,s:i,s:b,s:s,s:o}", "provider", results->provider, "ranks", (int)o->ranks,
                               "hosts", job ? (int)results->hosts : 1, "encrypted", o->encrypt, "wire",
                               rf_dtype_name(o->wire ? o->wire : RF_F32), "results", list);
    char about[256], where[64] = "on this host";
    if (job) snprintf(where, sizeof(where), "of this job on %u host%s", results->hosts, results->hosts == 1 ? "" : "s");
    snprintf(about, sizeof(about),
             "%u ranks %s, data over %s, f32%s%s, in place%s.\nGB/s: bytes of the result / time; CPU: of one "
             "rank.",
             o->ranks, where, results->provider, o->wire ? " as " : "", o->wire ? rf_dtype_name(o->wire) : "",
             o->encrypt ? ", encrypted" : "");
    return bench_report(o->json_path, about, &t, result, ok);
}

/* ---- one rank ---- */

typedef struct allreduce_rank {
    const allreduce_options *options;
    allreduce_shared *shared; /* NULL: in a job, where ranks agree through `comm` */
    allreduce_results *results;
    uint32_t rank, size, column;
    bench_ring ring; /* forked ranks only */
    bench_shared_ring shared_ring;
    rf_comm *comm;
    float *data, *other;
} allreduce_rank;

static bool create_buffers(allreduce_rank *k)
{
    uint64_t largest = sizeof(float);
    for (uint32_t s = 0; s < k->options->num_sizes; s++)
        if (k->options->sizes[s] > largest) largest = k->options->sizes[s];
    k->data = malloc(largest);
    k->other = k->shared ? calloc(1, largest) : NULL; /* what the bare copy receives */
    return k->data && (k->other || !k->shared);
}

static void free_buffers(allreduce_rank *k)
{
    free(k->data);
    free(k->other);
}

static bool wait_for_others(allreduce_rank *k)
{
    if (!k->shared) return rf_comm_barrier(k->comm) >= 0;
    pthread_barrier_wait(&k->shared->barrier);
    return true;
}

static bool run_once(allreduce_rank *k, int method, uint64_t count)
{
    if (method == PLAIN) return bench_ring_all_reduce(&k->ring, k->data, count);
    if (method == SHARED) bench_shared_ring_all_reduce(&k->shared_ring, k->data, count);
    if (method == SHARED) return true;
    if (method == COPY) return bench_ring_copy(&k->ring, k->data, k->other, count);
    return rf_comm_all_reduce(
               k->comm, k->data, k->data, count, RF_F32, RF_COMM_SUM,
               &(rf_collective_params){ .algorithm = (rf_comm_algorithm)method, .wire = k->options->wire }) == RF_OK;
}

/* Small whole numbers, whose sums are exact; on narrow wires as long as they are below 256 (bf16 has 8 bits). */
static bool allreduce_verify(allreduce_rank *k, int method, uint64_t count)
{
    enum { VALUES = 7 };
    float sums[VALUES] = { 0 };
    for (uint32_t v = 0; v < VALUES; v++)
        for (uint32_t r = 0; r < k->size; r++) sums[v] += (float)((v + r) % VALUES);
    const float slack = k->options->wire && k->size * (VALUES - 1) > 256 ? sums[0] / 64 : 0;
    for (uint64_t i = 0; i < count; i++) k->data[i] = (float)((i + k->rank) % VALUES);
    if (!run_once(k, method, count)) return false;
    for (uint64_t i = 0; i < count && method != COPY; i++) {
        const float off = k->data[i] - sums[i % VALUES];
        if (off <= slack && -off <= slack) continue;
        fprintf(stderr, "ringfire-bench: %s: rank %u: element %llu is wrong\n", method_name(method), k->rank,
                (unsigned long long)i);
        return false;
    }
    memset(k->data, 0, count * sizeof(float)); /* sums of zeros never overflow */
    return true;
}

static bool time_calls(allreduce_rank *k, int method, uint64_t count, uint32_t repeats, double *seconds,
                       double *processor)
{
    if (!wait_for_others(k)) return false;
    const double start = clock_seconds(), began = clock_processor_seconds();
    for (uint32_t i = 0; i < repeats; i++)
        if (!run_once(k, method, count)) return false;
    *seconds = (clock_seconds() - start) / repeats;
    *processor = (clock_processor_seconds() - began) / repeats;
    return true;
}

/* Every rank takes the number that rank 0 finds. */
static bool agree_on_repeats(allreduce_rank *k, double seconds, uint32_t *repeats)
{
    const double fit = k->options->seconds / ROUNDS / seconds;
    *repeats = fit < 1 ? 1 : fit > 100000 ? 100000 : (uint32_t)fit;
    if (!k->shared) return rf_comm_broadcast(k->comm, repeats, 1, RF_I32, 0, NULL) >= 0;
    if (k->rank == 0) k->shared->repeats = *repeats;
    pthread_barrier_wait(&k->shared->barrier);
    *repeats = k->shared->repeats;
    pthread_barrier_wait(&k->shared->barrier);
    return true;
}

static bool measure_size(allreduce_rank *k, uint32_t s)
{
    const allreduce_options *o = k->options;
    const uint64_t count = o->sizes[s] / sizeof(float);
    uint32_t repeats[MAX_METHODS];
    for (uint32_t m = 0; m < o->num_methods; m++) {
        double seconds, unused;
        if (!allreduce_verify(k, o->methods[m], count) || !time_calls(k, o->methods[m], count, 3, &seconds, &unused) ||
            !agree_on_repeats(k, seconds, &repeats[m]))
            return false;
    }
    /* There and back, so that none always comes after the same other. */
    for (uint32_t round = 0; round < ROUNDS; round++)
        for (uint32_t i = 0; i < o->num_methods; i++) {
            const uint32_t m = round % 2 == 0 ? i : o->num_methods - 1 - i;
            if (!time_calls(k, o->methods[m], count, repeats[m], &k->results->seconds[s][m][round][k->column],
                            &k->results->processor[s][m][round][k->column]))
                return false;
        }
    return true;
}

/* ---- a rank of a job ---- */

/* Puts the slowest rank's times in place of this rank's. */
static bool collect_size(allreduce_rank *k, uint32_t s)
{
    float times[MAX_METHODS][ROUNDS][2] = { 0 };
    for (int m = 0; m < MAX_METHODS; m++)
        for (int r = 0; r < ROUNDS; r++) {
            times[m][r][0] = (float)k->results->seconds[s][m][r][0];
            times[m][r][1] = (float)k->results->processor[s][m][r][0];
        }
    if (rf_comm_all_reduce(k->comm, times, times, sizeof(times) / sizeof(float), RF_F32, RF_COMM_MAX, NULL) < 0)
        return false;
    for (int m = 0; m < MAX_METHODS; m++)
        for (int r = 0; r < ROUNDS; r++) {
            k->results->seconds[s][m][r][0] = times[m][r][0];
            k->results->processor[s][m][r][0] = times[m][r][1];
        }
    return true;
}

/* Hosts are counted by their first ranks. Minutes are not spent on results that rank 0 cannot write. */
static bool begin_job(allreduce_rank *k, int32_t *code)
{
    int32_t hosts = rf_comm_local_rank(k->comm) == 0;
    *code = k->rank > 0 || json_can_write(k->options->json_path) ? CODE_OK : CODE_FAILED;
    if (rf_comm_all_reduce(k->comm, &hosts, &hosts, 1, RF_I32, RF_COMM_SUM, NULL) < 0 ||
        rf_comm_broadcast(k->comm, code, 1, RF_I32, 0, NULL) < 0)
        return false;
    k->results->hosts = (uint32_t)hosts;
    k->results->columns = 1;
    snprintf(k->results->provider, sizeof(k->results->provider), "%s", rf_comm_transport(k->comm));
    return true;
}

static bool measure_job(allreduce_rank *k, int32_t *code)
{
    if (!begin_job(k, code)) return false;
    if (*code != CODE_OK) return true;
    for (uint32_t s = 0; s < k->options->num_sizes; s++)
        if (!measure_size(k, s) || !collect_size(k, s)) return false;
    if (k->rank == 0) *code = allreduce_report(k->options, k->results);
    return rf_comm_broadcast(k->comm, code, 1, RF_I32, 0, NULL) >= 0;
}

/* Rank 0 alone speaks, unless something fails; all end with its exit code. */
static int run_in_job(allreduce_options *o, rf_comm *comm)
{
    allreduce_rank k = { .options = o, .rank = rf_comm_rank(comm), .size = rf_comm_world_size(comm), .comm = comm };
    int32_t code = CODE_USAGE;
    if (o->ranks > 0 && o->ranks != k.size) {
        if (k.rank == 0)
            fprintf(stderr, "ringfire-bench: --ranks is %u, but a launcher has started this job with %u ranks\n",
                    o->ranks, k.size);
        return code;
    }
    o->ranks = k.size;
    k.results = calloc(1, sizeof(*k.results));
    bool ok = k.results && create_buffers(&k);
    if (!ok) fprintf(stderr, "ringfire-bench: rank %u: no memory\n", k.rank);
    if (ok && !measure_job(&k, &code)) {
        ok = false;
        fprintf(stderr, "ringfire-bench: rank %u: %s\n", k.rank, rf_error_message());
    }
    if (!ok) {
        code = CODE_FAILED;
        rf_comm_abort(comm, "the measurement failed");
    }
    free_buffers(&k);
    free(k.results);
    return code;
}

/* ---- a forked rank ---- */

typedef struct allreduce_job {
    const allreduce_options *options;
    allreduce_shared *shared;
    int to[BENCH_MAX_RANKS], from[BENCH_MAX_RANKS]; /* sockets of the plain ring */
    bench_lane *lanes;
} allreduce_job;

static int run_rank(void *user, uint32_t rank)
{
    const allreduce_job *job = user;
    const allreduce_options *o = job->options;
    allreduce_shared *shared = job->shared;
    allreduce_rank k = {
        .options = o, .shared = shared, .results = &shared->results, .rank = rank, .size = o->ranks, .column = rank
    };
    if (!create_buffers(&k) || !bench_ring_begin(&k.ring, rank, o->ranks, job->to, job->from)) {
        fprintf(stderr, "ringfire-bench: no memory\n");
        return CODE_FAILED;
    }
    k.shared_ring = bench_shared_ring_begin(job->lanes, rank, o->ranks);
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
    if (ok && rank == 0)
        snprintf(shared->results.provider, sizeof(shared->results.provider), "%s", rf_comm_transport(k.comm));
    for (uint32_t s = 0; s < o->num_sizes && ok; s++) ok = measure_size(&k, s);
    if (!ok) fprintf(stderr, "ringfire-bench: rank %u: %s\n", rank, rf_error_message());
    rf_comm_destroy(&k.comm);
    bench_ring_end(&k.ring);
    free_buffers(&k);
    return ok ? CODE_OK : CODE_FAILED;
}

/* ---- all of them ---- */

static bool run_ranks(const allreduce_options *o, allreduce_shared *shared)
{
    allreduce_job job = { .options = o, .shared = shared, .lanes = bench_shared_ring_create(o->ranks) };
    if (!job.lanes || !bench_ring_connect(o->ranks, job.to, job.from)) {
        fprintf(stderr, "ringfire-bench: no memory or no connections over loopback: %s\n", strerror(errno));
        return false;
    }
    const bool ok = bench_run_ranks(o->ranks, run_rank, &job);
    for (uint32_t i = 0; i < o->ranks; i++) {
        close(job.to[i]);
        close(job.from[i]);
    }
    bench_shared_ring_destroy(job.lanes, o->ranks);
    return ok;
}

static bool make_key(allreduce_options *o, char directory[FOLDER_SIZE])
{
    if (!folder_make(directory, &(unsigned){ 0 })) {
        fprintf(stderr, "ringfire-bench: no directory for a key can be made: %s; name one with TMPDIR\n",
                strerror(errno));
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
}

/* Ranks of this command's own, on this host. */
static int run_alone(allreduce_options *o)
{
    if (o->ranks == 0) o->ranks = 2;
    o->methods[o->num_methods++] = PLAIN;
    o->methods[o->num_methods++] = SHARED;
    o->methods[o->num_methods++] = COPY;
    bench_forget_job_key();
    if (!json_can_write(o->json_path)) return CODE_FAILED;
    allreduce_shared *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED || !free_ports(&o->port, 1)) {
        fprintf(stderr, "ringfire-bench: no memory or no free port: %s\n", strerror(errno));
        return CODE_FAILED;
    }
    pthread_barrierattr_t attributes;
    pthread_barrierattr_init(&attributes);
    pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&shared->barrier, &attributes, o->ranks);
    shared->results.columns = o->ranks;
    char directory[FOLDER_SIZE] = "";
    int code = CODE_FAILED;
    if ((!o->encrypt || make_key(o, directory)) && run_ranks(o, shared)) code = allreduce_report(o, &shared->results);
    if (o->key_file[0]) unlink(o->key_file);
    if (directory[0]) rmdir(directory);
    munmap(shared, sizeof(*shared));
    return code;
}

int command_bench_allreduce(int argc, char **argv)
{
    allreduce_options o = { .seconds = 1 };
    const struct argp parser = {
        argp_options,
        parse_option,
        "",
        "Measures the all-reduce between processes of this host, beside rings over plain TCP sockets and plain shared "
        "memory and a bare copy through the sockets.\vStarted as the workers of a job ('ringfire run', mpirun, srun, "
        "torchrun, TF_CONFIG), it "
        "measures that job instead, on all its hosts: rank 0 prints the table, and all ranks end with the same exit "
        "code.",
        NULL,
        NULL,
        NULL
    };
    command_parse(&parser, argc, argv, 0, &o);
    set_defaults(&o);
    if (o.provider) setenv("RINGFIRE_SHARED_MEMORY", "0", 0);
    rf_comm *comm;
    if (rf_comm_create(&(rf_comm_params){ .encrypt = o.encrypt, .provider = o.provider }, &comm) < 0)
        return command_fail();
    const bool alone = rf_comm_world_size(comm) == 1;
    const char *encrypt = getenv("RINGFIRE_ENCRYPT");
    if (encrypt && strcmp(encrypt, "1") == 0) o.encrypt = true;
    const int code = alone ? CODE_OK : run_in_job(&o, comm);
    rf_comm_destroy(&comm);
    return alone ? run_alone(&o) : code;
}
