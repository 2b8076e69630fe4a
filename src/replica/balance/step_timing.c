/* SPDX-License-Identifier: Apache-2.0 */
#include "replica/balance/step_timing.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "base/memory.h"
#include "base/platform.h"

typedef struct watcher {
    rf_step_timing *timing;
    pthread_t thread;
    bool started; /* the thread exists */
    double factor;
    uint64_t begin_ns;
    /* under the lock: */
    const rf_gpu_device *device; /* to watch; NULL: idle */
    uint64_t ticket;
    double seconds; /* of the latest step */
} watcher;

struct rf_step_timing {
    pthread_mutex_t lock;
    pthread_cond_t work, idle;
    bool ending;
    uint32_t count;
    watcher watchers[];
};

rf_result rf_test_aid(const char *name, uint32_t *replica, double *number)
{
    *replica = UINT32_MAX;
    *number = 0;
    const char *text = rf_env(name);
    if (!text) return RF_OK;
    char *end, *last;
    const unsigned long which = strtoul(text, &end, 10);
    RF_REQUIRE(end != text && *end == ':', "%s is '%s', not replica:number", name, text);
    *number = rf_number_parse(end + 1, &last);
    RF_REQUIRE(last != end + 1 && !*last && *number >= 0 && isfinite(*number), "%s is '%s', not replica:number", name,
               text);
    *replica = (uint32_t)which;
    return RF_OK;
}

static void sleep_for(double seconds)
{
    if (!(seconds > 0)) return;
    struct timespec t = { (time_t)seconds, (long)((seconds - floor(seconds)) * 1e9) };
    while (nanosleep(&t, &t) < 0) {}
}

/* 0 where the device failed: whatever waits for it next reports the failure. */
static double watch_ticket(const watcher *w, const rf_gpu_device *device, uint64_t ticket)
{
    if (rf_gpu_watch(device, ticket, RF_GPU_TIMEOUT_NS) < 0) return 0;
    const double own = (double)(rf_now_ns() - w->begin_ns) * 1e-9;
    sleep_for((w->factor - 1) * own);
    return w->factor > 1 ? w->factor * own : own;
}

static void *run_watcher(void *argument)
{
    watcher *w = argument;
    rf_step_timing *timing = w->timing;
    pthread_mutex_lock(&timing->lock);
    while (!timing->ending || w->device) {
        if (!w->device) {
            pthread_cond_wait(&timing->work, &timing->lock);
            continue;
        }
        const rf_gpu_device *device = w->device;
        const uint64_t ticket = w->ticket;
        pthread_mutex_unlock(&timing->lock);
        const double seconds = watch_ticket(w, device, ticket);
        pthread_mutex_lock(&timing->lock);
        w->seconds = seconds;
        w->device = NULL;
        pthread_cond_broadcast(&timing->idle);
    }
    pthread_mutex_unlock(&timing->lock);
    return NULL;
}

rf_result rf_step_timing_create(uint32_t first, uint32_t count, rf_step_timing **out)
{
    uint32_t slow;
    double factor;
    RF_TRY(rf_test_aid("RINGFIRE_TEST_SLOW", &slow, &factor));
    rf_step_timing *timing = *out = rf_calloc(1, sizeof(*timing) + count * sizeof(timing->watchers[0]));
    if (!timing) return RF_ERROR_OUT_OF_HOST_MEMORY;
    pthread_mutex_init(&timing->lock, NULL);
    pthread_cond_init(&timing->work, NULL);
    pthread_cond_init(&timing->idle, NULL);
    timing->count = count;
    for (uint32_t r = 0; r < count; r++) {
        watcher *w = &timing->watchers[r];
        w->timing = timing;
        w->factor = first + r == slow ? factor : 1;
        w->started = pthread_create(&w->thread, NULL, run_watcher, w) == 0;
        if (w->started) continue;
        rf_step_timing_destroy(out);
        return RF_FAIL(RF_ERROR_OUT_OF_HOST_MEMORY, "cannot start a thread that times replica %u", first + r);
    }
    return RF_OK;
}

void rf_step_timing_destroy(rf_step_timing **timing)
{
    rf_step_timing *p = *timing;
    if (!p) return;
    pthread_mutex_lock(&p->lock);
    p->ending = true;
    pthread_cond_broadcast(&p->work);
    pthread_mutex_unlock(&p->lock);
    for (uint32_t r = 0; r < p->count; r++)
        if (p->watchers[r].started) pthread_join(p->watchers[r].thread, NULL);
    pthread_cond_destroy(&p->work);
    pthread_cond_destroy(&p->idle);
    pthread_mutex_destroy(&p->lock);
    rf_free(p);
    *timing = NULL;
}

/* With the lock held. */
static void wait_until_idle(rf_step_timing *timing, uint32_t index)
{
    while (timing->watchers[index].device) pthread_cond_wait(&timing->idle, &timing->lock);
}

void rf_step_timing_begin(rf_step_timing *timing, uint32_t index)
{
    pthread_mutex_lock(&timing->lock);
    wait_until_idle(timing, index);
    pthread_mutex_unlock(&timing->lock);
    timing->watchers[index].begin_ns = rf_now_ns();
}

void rf_step_timing_submitted(rf_step_timing *timing, uint32_t index, const rf_gpu_device *device, uint64_t ticket)
{
    pthread_mutex_lock(&timing->lock);
    timing->watchers[index].device = device;
    timing->watchers[index].ticket = ticket;
    pthread_cond_broadcast(&timing->work);
    pthread_mutex_unlock(&timing->lock);
}

void rf_step_timing_wait_for_slow(rf_step_timing *timing)
{
    pthread_mutex_lock(&timing->lock);
    for (uint32_t r = 0; r < timing->count; r++)
        if (timing->watchers[r].factor > 1) wait_until_idle(timing, r);
    pthread_mutex_unlock(&timing->lock);
}

void rf_step_timing_take(rf_step_timing *timing, double *seconds)
{
    pthread_mutex_lock(&timing->lock);
    for (uint32_t r = 0; r < timing->count; r++) {
        wait_until_idle(timing, r);
        seconds[r] = timing->watchers[r].seconds;
        timing->watchers[r].seconds = 0;
    }
    pthread_mutex_unlock(&timing->lock);
}
