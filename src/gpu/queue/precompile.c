/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/queue/precompile.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/condition.h"
#include "base/threads.h"
#include "gpu/internal.h"

#define MAX_HELPERS 7u
#define VARIANTS_PER_HELPER 4u
#define PATIENCE_NS 10000000u /* reading a compiled shader from a cache takes a tenth of that, compiling more */

/* ---- decisions ---- */

uint32_t rf_gpu_precompile_helpers(uint32_t variants, uint32_t cpus)
{
    uint32_t helpers = variants / VARIANTS_PER_HELPER;
    if (helpers > cpus - 1) helpers = cpus - 1;
    return helpers < MAX_HELPERS ? helpers : MAX_HELPERS;
}

/* ---- compiling one ---- */

/* A device that compiles, and buffers that look to its compiler like those of any dispatch. */
typedef struct lane {
    rf_gpu_device *device;
    rf_gpu_buffer *plain, *power_of_two;
} lane;

#define PLAIN_SIZE 1536u
#define POWER_OF_TWO_SIZE (1024u - RF_GPU_TEXEL_SPARE)
#define LONG_SPAN 256u
#define SHORT_SPAN 16u

static rf_result open_lane(lane *l, rf_gpu_device *device)
{
    l->device = device;
    RF_TRY(rf_gpu_buffer_create(device, RF_GPU_MEMORY_DEVICE, PLAIN_SIZE, "precompile", &l->plain));
    RF_TRY(rf_gpu_buffer_create(device, RF_GPU_MEMORY_DEVICE, POWER_OF_TWO_SIZE, "precompile", &l->power_of_two));
    /* Views have the sizes that are asked for. */
    l->plain->spare = l->power_of_two->spare = 0;
    return RF_OK;
}

static void close_lane(lane *l)
{
    rf_gpu_buffer_destroy(&l->plain);
    rf_gpu_buffer_destroy(&l->power_of_two);
}

static rf_gpu_binding binding_like(const lane *l, const rf_gpu_variant *v, uint32_t i)
{
    if (!(v->pipeline->layout->texel_mask >> i & 1)) return (rf_gpu_binding){ l->plain, 0, SHORT_SPAN, 0 };
    return (rf_gpu_binding){ .buffer = v->forms.power_of_two >> i & 1 ? l->power_of_two : l->plain,
                             .size = v->forms.short_span >> i & 1 ? SHORT_SPAN : LONG_SPAN,
                             .texel_components = v->forms.rgba >> i & 1 ? 4 : 1,
                             .texel_half = v->forms.half >> i & 1 };
}

static rf_result compile_variant(const lane *l, const rf_gpu_variant *v)
{
    const rf_gpu_pipeline *known = v->pipeline;
    const rf_gpu_pipeline_params params = { .shader = known->shader,
                                            .spec = known->spec,
                                            .num_spec = known->num_spec,
                                            .num_bindings = known->layout->num_bindings,
                                            .texel_mask = known->layout->texel_mask,
                                            .push_size = known->layout->push_size,
                                            .with_base = known->with_base };
    rf_gpu_pipeline *pipeline;
    rf_gpu_recording *rec = NULL;
    rf_gpu_binding bindings[RF_GPU_MAX_BINDINGS];
    uint64_t ticket;
    for (uint32_t i = 0; i < params.num_bindings; i++) bindings[i] = binding_like(l, v, i);
    RF_TRY(rf_gpu_pipeline_get(l->device, &params, &pipeline));
    rf_result r;
    RF_TRY_GOTO(rf_gpu_recording_begin(l->device, "precompile", &rec), done);
    RF_TRY_GOTO(rf_gpu_record_empty_dispatch(rec, pipeline, bindings), done);
    RF_TRY_GOTO(rf_gpu_recording_end(rec), done);
    RF_TRY_GOTO(rf_gpu_queue_submit(l->device, &rec, 1, &ticket), done);
    r = rf_gpu_wait(l->device, ticket, RF_GPU_TIMEOUT_NS);
done:
    rf_gpu_recording_destroy(&rec);
    return r;
}

/* ---- compiling many ---- */

typedef struct job {
    rf_gpu_device *device;
    rf_gpu_variant **variants; /* longest shaders first */
    uint32_t count;
    pthread_mutex_t mutex; /* for what follows */
    pthread_cond_t ended;
    uint32_t next;
    uint64_t since; /* when the first device began with its present variant, 0: with none yet */
    bool over;      /* nothing is left to take */
} job;

static const rf_gpu_variant *job_take(job *j, bool first_device)
{
    pthread_mutex_lock(&j->mutex);
    const rf_gpu_variant *v = j->next < j->count ? j->variants[j->next++] : NULL;
    if (first_device) j->since = rf_now_ns();
    if (!v && !j->over) {
        j->over = true;
        pthread_cond_broadcast(&j->ended);
    }
    pthread_mutex_unlock(&j->mutex);
    return v;
}

/* Waits until the first device has spent longer on one variant than a cache would take; false when it never does. */
static bool wait_for_need(job *j)
{
    pthread_mutex_lock(&j->mutex);
    bool needed = false;
    while (!needed && !j->over) {
        (void)rf_condition_wait(&j->ended, &j->mutex, rf_now_ns() + PATIENCE_NS / 2);
        needed = !j->over && j->since > 0 && rf_now_ns() - j->since >= PATIENCE_NS;
    }
    pthread_mutex_unlock(&j->mutex);
    return needed;
}

/* A helper that fails only leaves more to the first device: what is not compiled now is compiled by its dispatch. */
static void *helper_main(void *argument)
{
    job *j = argument;
    if (!wait_for_need(j)) return NULL;
    rf_gpu_device *device = NULL;
    lane l = { 0 };
    rf_result r =
        rf_gpu_device_open(j->device->gpu, &(rf_gpu_device_params){ .index = j->device->info.index }, &device);
    if (r >= 0) r = open_lane(&l, device);
    for (const rf_gpu_variant *v; r >= 0 && (v = job_take(j, false));) r = compile_variant(&l, v);
    if (r < 0) rf_log_message(RF_LOG_WARN, "compiling with one thread fewer: %s", rf_error_message());
    close_lane(&l);
    rf_gpu_device_close(&device);
    return NULL;
}

static rf_result run_job(job *j, uint32_t helpers)
{
    pthread_t threads[MAX_HELPERS];
    uint32_t started = 0;
    while (started < helpers && pthread_create(&threads[started], NULL, helper_main, j) == 0) started++;
    lane l = { 0 };
    rf_result r = open_lane(&l, j->device);
    for (const rf_gpu_variant *v; r >= 0 && (v = job_take(j, true));) r = compile_variant(&l, v);
    close_lane(&l);
    pthread_mutex_lock(&j->mutex);
    j->next = j->count; /* after a failure the helpers stop too */
    j->over = true;
    pthread_cond_broadcast(&j->ended);
    pthread_mutex_unlock(&j->mutex);
    for (uint32_t i = 0; i < started; i++) pthread_join(threads[i], NULL);
    return r;
}

static int longest_first(const void *a, const void *b)
{
    const uint32_t x = (*(rf_gpu_variant *const *)a)->pipeline->shader->num_words;
    const uint32_t y = (*(rf_gpu_variant *const *)b)->pipeline->shader->num_words;
    return (x < y) - (x > y);
}

static rf_result compile_all(rf_gpu_device *device, rf_gpu_variant **variants, uint32_t count, uint32_t helpers)
{
    qsort(variants, count, sizeof(variants[0]), longest_first);
    /* Else the time that older work takes would be taken for that of compiling. */
    RF_TRY(rf_gpu_wait_all(device));
    job j = { .device = device, .variants = variants, .count = count };
    RF_TRY(rf_condition_init(&j.ended));
    pthread_mutex_init(&j.mutex, NULL);
    const rf_result r = run_job(&j, helpers);
    pthread_cond_destroy(&j.ended);
    pthread_mutex_destroy(&j.mutex);
    return r;
}

/* Has the driver compile what the recordings dispatch and nothing has dispatched before, on several CPUs. */
static rf_result compile_noted(rf_gpu_device *device, rf_gpu_recording *const *recs, uint32_t count)
{
    uint32_t most = 0, found = 0;
    for (uint32_t i = 0; i < count; i++) most += recs[i]->uncompiled.count;
    if (most == 0) return RF_OK;
    rf_gpu_variant **variants = RF_NEW_ARRAY(rf_gpu_variant *, most);
    if (!variants) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t k = 0; k < recs[i]->uncompiled.count; k++) {
            rf_gpu_variant *v = recs[i]->uncompiled.items[k];
            if (!v->compiled) variants[found++] = v;
            v->compiled = true; /* by this submission at the latest */
        }
        recs[i]->uncompiled.count = 0;
    }
    const uint32_t helpers = rf_gpu_precompile_helpers(found, rf_cpu_count());
    const rf_result r = helpers > 0 ? compile_all(device, variants, found, helpers) : RF_OK;
    rf_free(variants);
    if (r != RF_ERROR_OUT_OF_DEVICE_MEMORY && r != RF_ERROR_OUT_OF_HOST_MEMORY) return r;
    rf_log_message(RF_LOG_INFO, "kernels are compiled by the driver, one by one: %s", rf_error_message());
    return RF_OK; /* the work itself has its memory */
}

/* ---- submission ---- */

static rf_result check_recording(rf_gpu_device *device, const rf_gpu_recording *rec, uint32_t i)
{
    RF_REQUIRE(rec, "recording %u is NULL", i);
    RF_REQUIRE(rec->device == device, "recording '%s' belongs to another device", rec->name);
    RF_REQUIRE(rec->ended, "recording '%s' has not been ended", rec->name);
    RF_REQUIRE(rec->shared || rf_gpu_is_done(device, rec->ticket),
               "recording '%s' is still in flight; wait for its ticket first", rec->name);
    return RF_OK;
}

rf_result rf_gpu_submit(rf_gpu_device *device, rf_gpu_recording *const *recs, uint32_t count, uint64_t *ticket)
{
    RF_REQUIRE(device, "device is NULL");
    RF_REQUIRE(ticket, "ticket is NULL");
    RF_REQUIRE(recs || count == 0, "recs is NULL");
    *ticket = device->submitted;
    RF_TRY(rf_gpu_check_lost(device));
    if (count == 0) return RF_OK;
    for (uint32_t i = 0; i < count; i++) {
        RF_TRY(check_recording(device, recs[i], i));
        for (uint32_t k = 0; k < i; k++)
            RF_REQUIRE(recs[k] != recs[i], "recording '%s' is in one submission twice", recs[i]->name);
    }
    RF_TRY(compile_noted(device, recs, count));
    return rf_gpu_queue_submit(device, recs, count, ticket);
}
