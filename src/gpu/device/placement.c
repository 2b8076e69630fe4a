/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/device/placement.h"

#include <string.h>
#include <time.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/platform.h"

static const rf_thread *thread_by_id(const rf_thread_list *list, int64_t id)
{
    for (uint32_t i = 0; i < list->count; i++)
        if (list->items[i].id == id) return &list->items[i];
    return NULL;
}

/* lavapipe's threads that draw name themselves, after Vulkan has returned. */
static const char drawing[] = "llvmpipe-";

static bool is_drawing(const rf_thread *thread)
{
    return strncmp(thread->name, drawing, sizeof(drawing) - 1) == 0;
}

bool rf_gpu_workers_settled(const rf_thread_list *before, const rf_thread_list *after, int64_t opener)
{
    const rf_thread *me = thread_by_id(after, opener);
    uint32_t num_drawing = 0, num_like_me = 0;
    for (uint32_t i = 0; me && i < after->count; i++) {
        const rf_thread *thread = &after->items[i];
        if (thread == me || thread_by_id(before, thread->id)) continue;
        num_drawing += is_drawing(thread);
        num_like_me += strcmp(thread->name, me->name) == 0;
    }
    return num_like_me <= num_drawing + 1; /* the one more submits */
}

const rf_thread *rf_gpu_find_workers(const rf_thread_list *before, const rf_thread_list *after, int64_t opener,
                                     uint32_t num_cpus)
{
    const rf_thread *me = thread_by_id(after, opener);
    uint32_t num_drawing = 0, first = 0, count = 0;
    for (uint32_t i = 0; me && i < after->count; i++) {
        const rf_thread *thread = &after->items[i];
        if (thread_by_id(before, thread->id)) continue;
        if (is_drawing(thread)) {
            num_drawing++;
            first = i + 1;
            count = 0;
        } else if (first > 0 && i == first + count && strcmp(thread->name, me->name) == 0) {
            count++;
        }
    }
    return count > 0 && count == num_drawing && count == num_cpus ? &after->items[first] : NULL;
}

bool rf_gpu_placement_wanted(bool shares_cpus)
{
    const char *value = rf_env("RINGFIRE_PIN_THREADS");
    return value ? strcmp(value, "0") != 0 : !shares_cpus;
}

void rf_gpu_placement_begin(rf_thread_list *before)
{
    if (rf_threads_list(before) < 0) before->count = 0;
}

/* Lists the threads, once more while those that came have no names of their own yet. */
static rf_result settled_threads(const rf_thread_list *before, rf_thread_list *after)
{
    enum { TRIES = 100 };
    for (uint32_t i = 0;; i++) {
        rf_free(after->items);
        RF_TRY(rf_threads_list(after));
        if (i == TRIES || rf_gpu_workers_settled(before, after, rf_thread_id())) return RF_OK;
        (void)nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    }
}

void rf_gpu_placement_end(rf_thread_list *before, const char *device_name)
{
    enum { MOST_CPUS = 64 }; /* more than lavapipe has threads for */
    uint32_t cpus[MOST_CPUS];
    const uint32_t num_cpus = rf_thread_cpus(cpus, MOST_CPUS);
    rf_thread_list after = { 0 };
    const rf_thread *workers = NULL;
    if (before->count > 0 && num_cpus <= MOST_CPUS && settled_threads(before, &after) >= 0)
        workers = rf_gpu_find_workers(before, &after, rf_thread_id(), num_cpus);
    uint32_t bound = 0;
    for (uint32_t i = 0; workers && i < num_cpus; i++) bound += rf_thread_pin(workers[i].id, cpus[i]);
    if (bound > 0) rf_log_message(RF_LOG_DEBUG, "%s: %u threads are bound to a processor each", device_name, bound);
    rf_free(after.items);
    rf_free(before->items);
    *before = (rf_thread_list){ 0 };
}
