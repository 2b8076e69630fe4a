/* SPDX-License-Identifier: Apache-2.0 */
/* The device benchmark: what launching, waiting, copying and computing cost by themselves. */
#include "bench/measure/measure.h"

#include "base/platform.h"
#include "bench/measure/open.h"
#include "bench_push.h"
#include "exec/internal.h"

extern const rf_shader rf_shader_bench_empty, rf_shader_bench_fma, rf_shader_bench_shared;
extern const rf_shader rf_shader_bench_memory_read, rf_shader_bench_memory_copy;

#define LOCAL 128u /* every device has workgroups this large */
#define GROUPS_OF_GPU 8192u
#define GROUPS_OF_CPU 64u

typedef struct rates rates;
typedef rf_result (*record_fn)(rates *b, rf_gpu_recording *rec);

struct rates {
    rf_bench_rate_fn fn;
    void *user;
    rf_bench_device on;
    rf_clock clock;
    double min_seconds;
    rf_gpu_buffer *x, *y, *host; /* two on the device; the copy's other end */
    uint64_t size;               /* of each */
    uint64_t bytes;              /* of the copy that is measured */
    uint32_t groups;
    rf_gpu_pipeline *empty, *fma, *read, *copy, *shared;
};

static rf_result rate_report(rates *b, const char *what, uint64_t bytes, double value, const char *unit)
{
    const rf_bench_rate row = { rf_gpu_info(b->on.device)->name, what, unit, bytes, value };
    const uint64_t before = rf_error_count();
    return rf_error_context(rf_error_of_user(b->fn(b->user, &row), before, "the function"), "rf_bench_rates: %s", what);
}

/* ---- timing ---- */

static rf_result record_runs(rates *b, record_fn record, bool barriers, uint32_t runs, rf_gpu_recording **rec)
{
    uint32_t index;
    RF_TRY(rf_gpu_recording_begin(b->on.device, "device benchmark", rec));
    if (b->clock == RF_CLOCK_DEVICE) RF_TRY(rf_gpu_record_timestamp(*rec, &index));
    for (uint32_t i = 0; i < runs; i++) {
        RF_TRY(record(b, *rec));
        if (barriers) rf_gpu_record_barrier(*rec);
    }
    if (b->clock == RF_CLOCK_DEVICE) RF_TRY(rf_gpu_record_timestamp(*rec, &index));
    return rf_gpu_recording_end(*rec);
}

static rf_result run_once(rates *b, rf_gpu_recording *rec, double *seconds)
{
    uint64_t ticket, ns[2] = { 0 };
    const uint64_t start = rf_now_ns();
    RF_TRY(rf_gpu_submit(b->on.device, &rec, 1, &ticket));
    RF_TRY(rf_gpu_wait(b->on.device, ticket, RF_GPU_TIMEOUT_NS));
    ns[1] = rf_now_ns() - start;
    if (b->clock == RF_CLOCK_DEVICE) RF_TRY(rf_gpu_recording_timestamps(rec, ns, 2));
    *seconds = (double)(ns[1] ? ns[1] : 1) * 1e-9;
    rf_warmth_add(&b->on.exec->warmth, rf_now_ns(), *seconds);
    return RF_OK;
}

/* Records as many runs as take a millisecond. */
static rf_result find_runs_of(rates *b, record_fn record, bool barriers, uint32_t *runs, rf_gpu_recording **rec,
                              double *best)
{
    for (;;) {
        double seconds;
        rf_gpu_recording_destroy(rec);
        RF_TRY(record_runs(b, record, barriers, *runs, rec));
        RF_TRY(run_once(b, *rec, best));
        RF_TRY(run_once(b, *rec, &seconds)); /* something else may have held up the other */
        if (seconds < *best) *best = seconds;
        const uint32_t more = rf_timing_runs(*runs, *best);
        if (more == *runs) return RF_OK;
        *runs = more;
    }
}

/* Best seconds of one run among so many. */
static rf_result best_of(rates *b, record_fn record, bool barriers, uint32_t *runs, rf_gpu_recording **rec,
                         double *best)
{
    double seconds;
    bool cold = false;
    RF_TRY(find_runs_of(b, record, barriers, runs, rec, best));
    const uint64_t start = rf_now_ns();
    for (; rf_warmth_wanted(&b->on.exec->warmth, &b->on.exec->caps, start, rf_now_ns()); cold = true)
        RF_TRY(run_once(b, *rec, &seconds));
    if (cold) RF_TRY(find_runs_of(b, record, barriers, runs, rec, best));
    const uint64_t begin = rf_now_ns();
    for (uint32_t i = 0; rf_timing_goes_on(i, (double)(rf_now_ns() - begin) * 1e-9, b->min_seconds); i++) {
        RF_TRY(run_once(b, *rec, &seconds));
        if (seconds < *best) *best = seconds;
    }
    *best /= *runs;
    return RF_OK;
}

static rf_result rates_measure(rates *b, record_fn record, bool barriers, double *seconds)
{
    uint32_t runs = 1;
    rf_gpu_recording *rec = NULL;
    const rf_result r = best_of(b, record, barriers, &runs, &rec, seconds);
    rf_gpu_recording_destroy(&rec);
    return r;
}

/* ---- launching ---- */

static rf_result record_empty(rates *b, rf_gpu_recording *rec)
{
    return rf_gpu_record_dispatch(rec, b->empty, NULL, NULL, (uint32_t[]){ 1, 1, 1 }, NULL);
}

static rf_result measure_launches(rates *b)
{
    double chain, free;
    RF_TRY(rates_measure(b, record_empty, true, &chain));
    RF_TRY(rate_report(b, "empty dispatch and barrier", 0, chain * 1e6, "us"));
    RF_TRY(rates_measure(b, record_empty, false, &free));
    return rate_report(b, "empty dispatch", 0, free * 1e6, "us");
}

/* The smallest step of the device's clock that shows. */
static rf_result measure_clock(rates *b)
{
    enum { COUNT = 256 };
    uint64_t ns[COUNT], ticket, least = UINT64_MAX;
    uint32_t index;
    rf_gpu_recording *rec = NULL;
    rf_result r;
    RF_TRY_GOTO(rf_gpu_recording_begin(b->on.device, "timestamps", &rec), done);
    for (uint32_t i = 0; i < COUNT; i++) RF_TRY_GOTO(rf_gpu_record_timestamp(rec, &index), done);
    RF_TRY_GOTO(rf_gpu_recording_end(rec), done);
    RF_TRY_GOTO(rf_gpu_submit(b->on.device, &rec, 1, &ticket), done);
    RF_TRY_GOTO(rf_gpu_wait(b->on.device, ticket, RF_GPU_TIMEOUT_NS), done);
    RF_TRY_GOTO(rf_gpu_recording_timestamps(rec, ns, COUNT), done);
    for (uint32_t i = 1; i < COUNT; i++)
        if (ns[i] > ns[i - 1] && ns[i] - ns[i - 1] < least) least = ns[i] - ns[i - 1];
    r = least < UINT64_MAX ? rate_report(b, "timestamp step", 0, (double)least, "ns") : RF_OK;
done:
    rf_gpu_recording_destroy(&rec);
    return r;
}

/* Best microseconds of a submission, and of one with the wait for it. */
static rf_result time_submissions(rates *b, rf_gpu_recording *rec, uint64_t spin_ns, double *submit, double *both)
{
    const uint64_t begin = rf_now_ns();
    *submit = *both = 1e9;
    for (uint32_t i = 0; i < 20 || (double)(rf_now_ns() - begin) * 1e-9 < b->min_seconds; i++) {
        uint64_t ticket;
        const uint64_t start = rf_now_ns();
        RF_TRY(rf_gpu_submit(b->on.device, &rec, 1, &ticket));
        const double submitted = (double)(rf_now_ns() - start) * 1e-3;
        RF_TRY(rf_gpu_wait_spinning(b->on.device, ticket, spin_ns, RF_GPU_TIMEOUT_NS));
        const double done = (double)(rf_now_ns() - start) * 1e-3;
        if (submitted < *submit) *submit = submitted;
        if (done < *both) *both = done;
    }
    return RF_OK;
}

static rf_result measure_submissions(rates *b)
{
    rf_gpu_recording *rec = NULL;
    double submit, blocking, spinning, unused;
    rf_result r;
    RF_TRY_GOTO(rf_gpu_recording_begin(b->on.device, "nothing", &rec), done);
    RF_TRY_GOTO(record_empty(b, rec), done);
    RF_TRY_GOTO(rf_gpu_recording_end(rec), done);
    RF_TRY_GOTO(time_submissions(b, rec, 0, &submit, &blocking), done);
    RF_TRY_GOTO(time_submissions(b, rec, RF_GPU_TIMEOUT_NS, &unused, &spinning), done);
    RF_TRY_GOTO(rate_report(b, "submit", 0, submit, "us"), done);
    RF_TRY_GOTO(rate_report(b, "submit and wait, blocking", 0, blocking, "us"), done);
    r = rate_report(b, "submit and wait, spinning", 0, spinning, "us");
done:
    rf_gpu_recording_destroy(&rec);
    return r;
}

/* ---- copying ---- */

static rf_result record_up(rates *b, rf_gpu_recording *rec)
{
    return rf_gpu_record_copy(rec, b->host, 0, b->x, 0, b->bytes);
}
static rf_result record_down(rates *b, rf_gpu_recording *rec)
{
    return rf_gpu_record_copy(rec, b->x, 0, b->host, 0, b->bytes);
}
static rf_result record_within(rates *b, rf_gpu_recording *rec)
{
    return rf_gpu_record_copy(rec, b->x, 0, b->y, 0, b->bytes);
}

static rf_result measure_copies(rates *b, rf_gpu_memory memory, record_fn record, const char *what)
{
    if (memory != RF_GPU_MEMORY_DEVICE) RF_TRY(rf_gpu_buffer_create(b->on.device, memory, b->size, "copies", &b->host));
    rf_result r = RF_OK;
    for (b->bytes = 4096; r >= 0 && b->bytes <= b->size; b->bytes *= 16) {
        double seconds;
        r = rates_measure(b, record, true, &seconds);
        if (r >= 0) r = rate_report(b, what, b->bytes, (double)b->bytes / seconds * 1e-9, "GB/s");
    }
    rf_gpu_buffer_destroy(&b->host);
    return r;
}

/* ---- computing ---- */

static uint32_t rates_rounds(const rates *b)
{
    return rf_gpu_caps(b->on.device)->is_cpu ? 64 : 256;
}

static rf_result record_fma(rates *b, rf_gpu_recording *rec)
{
    const rf_push_fma push = { .rounds = rates_rounds(b), .factor = 0.5f, .summand = 0.25f };
    return rf_gpu_record_dispatch(rec, b->fma, &(rf_gpu_binding){ b->y, 0, LOCAL * 4, 0 }, &push,
                                  (uint32_t[]){ b->groups, 1, 1 }, NULL);
}

static rf_result record_shared(rates *b, rf_gpu_recording *rec)
{
    const rf_push_shared push = { .rounds = rates_rounds(b), .step = LOCAL };
    return rf_gpu_record_dispatch(rec, b->shared, &(rf_gpu_binding){ b->y, 0, LOCAL * 16, 0 }, &push,
                                  (uint32_t[]){ b->groups, 1, 1 }, NULL);
}

/* Both walk the buffers with at most so many workgroups, so that no invocation of a software device loops long. */
static rf_result record_walk(rates *b, rf_gpu_recording *rec, rf_gpu_pipeline *pipeline)
{
    const uint32_t count = (uint32_t)(b->size / 16), most = count / LOCAL;
    const uint32_t groups = b->groups * 4 < most ? b->groups * 4 : most;
    const rf_push_memory push = { .count = count, .stride = groups * LOCAL };
    const rf_gpu_binding bindings[2] = { { b->x, 0, b->size, 0 }, { b->y, 0, b->size, 0 } };
    return rf_gpu_record_dispatch(rec, pipeline, bindings, &push, (uint32_t[]){ groups, 1, 1 }, NULL);
}
static rf_result record_read(rates *b, rf_gpu_recording *rec)
{
    return record_walk(b, rec, b->read);
}
static rf_result record_copy(rates *b, rf_gpu_recording *rec)
{
    return record_walk(b, rec, b->copy);
}

static rf_result measure_peaks(rates *b)
{
    const double invocations = (double)b->groups * LOCAL * rates_rounds(b);
    double seconds;
    RF_TRY(rates_measure(b, record_fma, true, &seconds));
    RF_TRY(rate_report(b, "multiply-adds", 0, invocations * 64 * 2 / seconds * 1e-9, "GFLOP/s"));
    RF_TRY(rates_measure(b, record_shared, true, &seconds));
    RF_TRY(rate_report(b, "shared memory, read", 0, invocations * 8 * 16 / seconds * 1e-9, "GB/s"));
    RF_TRY(rates_measure(b, record_read, true, &seconds));
    RF_TRY(rate_report(b, "memory, read", b->size, (double)b->size / seconds * 1e-9, "GB/s"));
    RF_TRY(rates_measure(b, record_copy, true, &seconds));
    return rate_report(b, "memory, read and write", b->size, 2 * (double)b->size / seconds * 1e-9, "GB/s");
}

/* ---- the whole ---- */

static rf_result make_pipeline(rates *b, const rf_shader *shader, uint32_t bindings, rf_gpu_pipeline **out)
{
    const uint32_t spec[] = { LOCAL };
    const rf_gpu_pipeline_params params = {
        .shader = shader, .spec = spec, .num_spec = 1, .num_bindings = bindings, .push_size = shader->push_size
    };
    return rf_gpu_pipeline_get(b->on.device, &params, out);
}

static rf_result rates_prepare(rates *b)
{
    const rf_device_caps *caps = rf_gpu_caps(b->on.device);
    b->clock = rf_timing_clock(rf_gpu_has_timestamps(b->on.device));
    b->groups = caps->is_cpu ? GROUPS_OF_CPU : GROUPS_OF_GPU;
    /* More than any cache holds, less than any device has. */
    b->size = (caps->is_cpu ? 64ull : 256ull) << 20;
    while (b->size > caps->max_storage_range || b->size > caps->memory_size / 8) b->size /= 2;
    RF_TRY(rf_gpu_buffer_create(b->on.device, RF_GPU_MEMORY_DEVICE, b->size, "x", &b->x));
    RF_TRY(rf_gpu_buffer_create(b->on.device, RF_GPU_MEMORY_DEVICE, b->size, "y", &b->y));
    RF_TRY(make_pipeline(b, &rf_shader_bench_empty, 0, &b->empty));
    RF_TRY(make_pipeline(b, &rf_shader_bench_fma, 1, &b->fma));
    RF_TRY(make_pipeline(b, &rf_shader_bench_shared, 1, &b->shared));
    RF_TRY(make_pipeline(b, &rf_shader_bench_memory_read, 2, &b->read));
    return make_pipeline(b, &rf_shader_bench_memory_copy, 2, &b->copy);
}

static rf_result measure_all(rates *b)
{
    RF_TRY(rates_prepare(b));
    if (b->clock == RF_CLOCK_DEVICE) RF_TRY(measure_clock(b));
    RF_TRY(measure_launches(b));
    RF_TRY(measure_submissions(b));
    RF_TRY(measure_copies(b, RF_GPU_MEMORY_UPLOAD, record_up, "copy to the device"));
    RF_TRY(measure_copies(b, RF_GPU_MEMORY_READBACK, record_down, "copy from the device"));
    RF_TRY(measure_copies(b, RF_GPU_MEMORY_DEVICE, record_within, "copy on the device"));
    RF_TRY(measure_peaks(b));
    return rf_bench_device_check(&b->on);
}

rf_result rf_bench_rates(const rf_bench_rates_params *params, rf_bench_rate_fn fn, void *user)
{
    RF_REQUIRE(fn, "rf_bench_rates: fn is NULL");
    const rf_bench_rates_params defaults = { 0 };
    if (!params) params = &defaults;
    rates b = { .fn = fn, .user = user, .min_seconds = params->min_seconds > 0 ? params->min_seconds : 0.1 };
    rf_result r =
        rf_bench_device_open(&(rf_bench_open_params){ .device = params->device, .options = &params->options }, &b.on);
    if (r >= 0) r = measure_all(&b);
    rf_gpu_buffer_destroy(&b.x);
    rf_gpu_buffer_destroy(&b.y);
    rf_gpu_buffer_destroy(&b.host);
    rf_bench_device_close(&b.on);
    return r;
}
