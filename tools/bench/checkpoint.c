/* SPDX-License-Identifier: Apache-2.0 */
/* ringfire-bench checkpoint: saving and loading weights, compared with writing the same bytes uncompressed,
 * alternating. */
#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <ringfire/checkpoint.h>

#include "bench/commands.h"
#include "bench/report.h"
#include "bench/save.h"
#include "clock.h"
#include "options.h"

enum { MAX_ROUNDS = 32, RAW_WRITE = 0, SAVE, LOAD, VERIFY, NUM_STEPS };

typedef struct checkpoint_options {
    const char *directory, *json_path, *device;
    double gigabytes;
    uint32_t rounds, batch;
    bool training;
    rf_save_params save;
} checkpoint_options;

typedef struct checkpoint_bench {
    const checkpoint_options *options;
    char *path, *raw_path;
    float *weights, *loaded;
    uint64_t count, bytes, stored;
    double seconds[NUM_STEPS][MAX_ROUNDS];
} checkpoint_bench;

static const struct argp_option argp_options[] = {
    { "directory", 'd', "DIR", 0, "Where the files are written (default: the current directory)", 0 },
    { "size", 's', "GB", 0, "10^9 bytes of float32 weights (default: 1)", 0 },
    { "rounds", 'r', "N", 0, "Number of measurements; the medians are shown (default: 3)", 0 },
    { "level", 'l', "N", 0, "zstd's level (default: 1)", 0 },
    { "no-compression", 'n', NULL, 0, "Store the bytes uncompressed", 0 },
    { "training", 'T', NULL, 0,
      "Instead: save the weights of a model that is trained, blocking and asynchronously, and show how long training "
      "is delayed",
      0 },
    { "device", 'D', "NAME", 0, "training: device (default: the first usable one, GPUs before software)", 0 },
    { "batch", 'b', "N", 0, "training: examples per step (default: 32)", 0 },
    { "threads", 't', "N", 0, "Threads that compress (default: one per core, at most 8)", 0 },
    JSON_OPTION,
    { 0 },
};

static error_t parse_option(int key, char *text, struct argp_state *state)
{
    checkpoint_options *o = state->input;
    char *end;
    switch (key) {
    case 'd': o->directory = text; return 0;
    case 's': o->gigabytes = option_real(state, "--size", text, 0.001, 1000); return 0;
    case 'r': o->rounds = (uint32_t)option_number(state, "--rounds", text, 1, MAX_ROUNDS); return 0;
    case 'l':
        o->save.level = (int32_t)strtol(text, &end, 10);
        if (end == text || *end || o->save.level < -100 || o->save.level > 22)
            argp_error(state, "--level is '%s', not a number of -100 to 22", text);
        return 0;
    case 'n': o->save.no_compression = true; return 0;
    case 't': o->save.threads = (uint32_t)option_number(state, "--threads", text, 1, 64); return 0;
    case 'T': o->training = true; return 0;
    case 'D': o->device = text; return 0;
    case 'b': o->batch = (uint32_t)option_number(state, "--batch", text, 1, 1u << 16); return 0;
    case 'j': o->json_path = text ? text : "-"; return 0;
    case ARGP_KEY_ARG: argp_error(state, "'%s' is not expected", text); return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

/* Random normal values (Box-Muller); the words come from a linear congruential generator of 64 bits. */
static void make_weights(float *weights, uint64_t count)
{
    uint64_t state = 1;
    for (uint64_t i = 0; i < count; i += 2) {
        uint32_t word[2];
        for (int k = 0; k < 2; k++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            word[k] = (uint32_t)(state >> 32);
        }
        const float radius = sqrtf(-2 * logf(((float)(word[0] >> 8) + 0.5f) * 0x1p-24f));
        const float angle = 6.2831853f * (float)(word[1] >> 8) * 0x1p-24f;
        weights[i] = radius * cosf(angle);
        if (i + 1 < count) weights[i + 1] = radius * sinf(angle);
    }
}

static bool raw_write(const checkpoint_bench *b)
{
    const int fd = open(b->raw_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    bool ok = fd >= 0;
    for (uint64_t at = 0; ok && at < b->bytes;) {
        const uint64_t left = b->bytes - at;
        const ssize_t n = write(fd, (const char *)b->weights + at, left < 8u << 20 ? left : 8u << 20);
        ok = n > 0 || (n < 0 && errno == EINTR);
        if (n > 0) at += (uint64_t)n;
    }
    ok = ok && fsync(fd) == 0;
    if (!ok) fprintf(stderr, "ringfire-bench: %s: cannot write: %s\n", b->raw_path, strerror(errno));
    if (fd >= 0) close(fd);
    unlink(b->raw_path);
    return ok;
}

static rf_result archive_load(checkpoint_bench *b)
{
    rf_archive *archive;
    rf_result r = rf_archive_open(b->path, &archive);
    if (r == RF_OK) r = rf_archive_read(archive, "weights", b->loaded, b->bytes);
    rf_archive_close(&archive);
    return r;
}

static rf_result checkpoint_verify(checkpoint_bench *b)
{
    rf_archive *archive;
    rf_archive_entry entry = { 0 };
    rf_result r = rf_archive_open(b->path, &archive);
    if (r == RF_OK) r = rf_archive_verify(archive);
    if (r == RF_OK) r = rf_archive_find(archive, "weights", &entry);
    b->stored = entry.stored_bytes;
    rf_archive_close(&archive);
    return r;
}

static bool run_round(checkpoint_bench *b, uint32_t round)
{
    const rf_archive_tensor weights = { "weights", RF_F32, { 1, { (int64_t)b->count } }, b->weights };
    for (int step = 0; step < NUM_STEPS; step++) {
        const double start = clock_seconds();
        rf_result r = RF_OK;
        if (step == RAW_WRITE && !raw_write(b)) return false;
        if (step == SAVE) r = rf_archive_save(b->path, &weights, 1, &b->options->save);
        if (step == LOAD) r = archive_load(b);
        if (step == VERIFY) r = checkpoint_verify(b);
        if (r < 0) {
            command_fail();
            return false;
        }
        b->seconds[step][round] = clock_seconds() - start;
    }
    if (memcmp(b->weights, b->loaded, b->bytes) == 0) return true;
    fprintf(stderr, "ringfire-bench: the loaded data differs from the saved data\n");
    return false;
}

static int checkpoint_report(checkpoint_bench *b)
{
    static const char *const headings[] = { "What", ">s", ">GB/s", ">of raw write" };
    static const char *const names[] = { "raw write + fsync", "save", "load", "verify" };
    static const char *const keys[] = { "raw_write_seconds", "save_seconds", "load_seconds", "verify_seconds" };
    table rows;
    bool ok = table_begin(&rows, headings, 4);
    json_t *result =
        json_pack("{s:I,s:f}", "bytes", (json_int_t)b->bytes, "ratio", (double)b->bytes / (double)b->stored);
    double raw = 0;
    for (int step = 0; step < NUM_STEPS; step++) {
        const double median = bench_median(b->seconds[step], b->options->rounds);
        if (step == RAW_WRITE) raw = median;
        char seconds[32], rate[32], share[32] = "";
        snprintf(seconds, sizeof(seconds), "%.3f", median);
        snprintf(rate, sizeof(rate), "%.2f", (double)b->bytes / median / 1e9);
        if (step == SAVE) snprintf(share, sizeof(share), "%.2f", median / raw);
        const char *cells[] = { names[step], seconds, rate, share };
        ok &= table_row(&rows, cells);
        json_object_set_new(result, keys[step], json_real(median));
    }
    char about[256];
    snprintf(about, sizeof(about),
             "%.3f GB of random normal float32, in the page cache when loaded; ratio %.3f; medians of %u",
             (double)b->bytes / 1e9, (double)b->bytes / (double)b->stored, b->options->rounds);
    return bench_report(b->options->json_path, about, &rows, result, ok);
}

/* ---- saves of a training ---- */

static double median_of(const bench_save_round *rounds, uint32_t from, uint32_t to, size_t field)
{
    double values[MAX_ROUNDS];
    for (uint32_t i = from; i < to; i++) memcpy(&values[i - from], (const char *)&rounds[i] + field, sizeof(double));
    return bench_median(values, to - from);
}

/* The first asynchronous save gets memory for its copy, which later ones use again. */
static int report_training(const checkpoint_options *o, const bench_save_result *m)
{
    static const char *const headings[] = { "What", ">ms", ">of blocking save" };
    const bench_save_round *r = m->rounds;
    const uint32_t later = o->rounds > 1;
#define MEDIAN(from, field) median_of(r, from, o->rounds, offsetof(bench_save_round, field))
    const double blocking = MEDIAN(0, blocking), step = MEDIAN(0, step);
    const struct {
        const char *name, *key;
        double seconds;
    } lines[] = {
        { "blocking save", "blocking_seconds", blocking },
        { "asynchronous save returns, first", "call_first_seconds", r[0].call },
        { "asynchronous save returns, later", "call_seconds", MEDIAN(later, call) },
        { "next step is longer by, first", "longer_first_seconds", r[0].next - step },
        { "next step is longer by, later", "longer_seconds", MEDIAN(later, next) - step },
        { "the file is there after", "written_seconds", MEDIAN(later, written) },
    };
#undef MEDIAN
    table rows;
    bool ok = table_begin(&rows, headings, 3);
    json_t *result = json_pack("{s:s,s:I,s:i,s:f}", "device", m->device, "bytes", (json_int_t)m->bytes, "batch",
                               (int)o->batch, "step_seconds", step);
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        char ms[32], share[32];
        snprintf(ms, sizeof(ms), "%.1f", lines[i].seconds * 1e3);
        snprintf(share, sizeof(share), "%.1f %%", 100 * lines[i].seconds / blocking);
        const char *cells[] = { lines[i].name, ms, share };
        ok &= table_row(&rows, cells);
        json_object_set_new(result, lines[i].key, json_real(lines[i].seconds));
    }
    char about[512];
    snprintf(about, sizeof(about), "%.3f GB of variables on %s; a step of %u examples takes %.1f ms; %u rounds",
             (double)m->bytes / 1e9, m->device, o->batch, step * 1e3, o->rounds);
    return bench_report(o->json_path, about, &rows, result, ok);
}

static int bench_training(const checkpoint_options *o)
{
    const size_t size = strlen(o->directory) + 64;
    char *path = malloc(size);
    if (!path) return CODE_FAILED;
    bench_save_round rounds[MAX_ROUNDS];
    bench_save_result result = { .rounds = rounds };
    snprintf(path, size, "%s/ringfire-bench-%ld.rfck", o->directory, (long)getpid());
    const bench_save_params params = { .device = o->device,
                                       .path = path,
                                       .bytes = (uint64_t)(o->gigabytes * 1e9),
                                       .batch = o->batch,
                                       .rounds = o->rounds,
                                       .save = o->save };
    const rf_result r = bench_save_run(&params, &result);
    free(path);
    return r < 0 ? command_fail() : report_training(o, &result);
}

int command_bench_checkpoint(int argc, char **argv)
{
    checkpoint_options o = { .directory = ".", .gigabytes = 1, .rounds = 3, .batch = 32 };
    const struct argp parser = { argp_options,
                                 parse_option,
                                 "",
                                 "Measures saving, loading and verifying a checkpoint of random normal weights, "
                                 "compared with writing and syncing the same bytes uncompressed.",
                                 NULL,
                                 NULL,
                                 NULL };
    command_parse(&parser, argc, argv, 0, &o);
    if (!json_can_write(o.json_path)) return CODE_FAILED;
    if (o.training) return bench_training(&o);
    checkpoint_bench b = { .options = &o, .count = (uint64_t)(o.gigabytes * 1e9) / sizeof(float) };
    b.bytes = b.count * sizeof(float);
    const size_t size = strlen(o.directory) + 64;
    b.path = malloc(size);
    b.raw_path = malloc(size);
    b.weights = malloc(b.bytes);
    b.loaded = malloc(b.bytes);
    int code = CODE_FAILED;
    if (b.path && b.raw_path && b.weights && b.loaded) {
        snprintf(b.path, size, "%s/ringfire-bench-%ld.rfck", o.directory, (long)getpid());
        snprintf(b.raw_path, size, "%s/ringfire-bench-%ld.raw", o.directory, (long)getpid());
        make_weights(b.weights, b.count);
        memset(b.loaded, 1, b.bytes); /* pages are there when loading is measured */
        uint32_t round = 0;
        while (round < o.rounds && run_round(&b, round)) round++;
        unlink(b.path);
        if (round == o.rounds) code = checkpoint_report(&b);
    } else {
        fprintf(stderr, "ringfire-bench: no memory for %.1f GB twice\n", o.gigabytes);
    }
    free(b.path);
    free(b.raw_path);
    free(b.weights);
    free(b.loaded);
    return code;
}
