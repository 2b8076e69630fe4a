/* SPDX-License-Identifier: Apache-2.0 */
/* Which threads of lavapipe are bound to processors: on made-up lists, and on a device. */
#include "gpu_test.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/platform.h"
#include "gpu/device/placement.h"
#include "gpu/gpu.h"
#include "tests/room.h"

#define LENGTH(array) ((uint32_t)(sizeof(array) / sizeof((array)[0])))

/* Thread 10 of a program opens the device: 11 submits, 12 and 13 draw, 14 and 15 compute, 16 writes files. */
static const rf_thread opened[] = {
    { 10, "program" }, { 11, "program" }, { 12, "llvmpipe-0" },     { 13, "llvmpipe-1" },
    { 14, "program" }, { 15, "program" }, { 16, "program:disk$0" },
};

/* Changes one thread of `opened`, opens with `known` of its threads there before, and returns the first worker's id. */
static int64_t first_worker(uint32_t changed, const rf_thread *to, uint32_t known, int64_t opener, uint32_t cpus)
{
    rf_thread after[LENGTH(opened)], before[LENGTH(opened)];
    memcpy(after, opened, sizeof(after));
    memcpy(before, opened, sizeof(before));
    if (to) after[changed] = *to;
    const rf_thread_list a = { .items = before, .count = known }, b = { .items = after, .count = LENGTH(opened) };
    const rf_thread *found = rf_gpu_find_workers(&a, &b, opener, cpus);
    return found ? found->id : 0;
}

TEST(workers_by_list)
{
    assert_int_equal(first_worker(0, NULL, 1, 10, 2), 14);
    assert_int_equal(first_worker(1, &(rf_thread){ 11, "other" }, 2, 10, 2), 14); /* one that was there before */
    assert_int_equal(first_worker(6, &(rf_thread){ 16, "other" }, 1, 10, 2), 14);
    /* Not one for each processor. */
    assert_int_equal(first_worker(0, NULL, 1, 10, 1), 0);
    assert_int_equal(first_worker(0, NULL, 1, 10, 4), 0);
    assert_int_equal(first_worker(0, NULL, 1, 10, 0), 0);
    /* Fewer or more that have the opener's name than threads that draw. */
    assert_int_equal(first_worker(5, &(rf_thread){ 15, "named" }, 1, 10, 2), 0);
    assert_int_equal(first_worker(6, &(rf_thread){ 16, "program" }, 1, 10, 2), 0);
    /* The second device of an instance: only what submits is new, or nothing. */
    assert_int_equal(first_worker(0, NULL, 6, 10, 2), 0);
    assert_int_equal(first_worker(0, NULL, LENGTH(opened), 10, 2), 0);
    /* Where the system began again from low ids they do not follow those that draw. */
    assert_int_equal(first_worker(2, &(rf_thread){ 12, "program" }, 1, 10, 2), 0);
    assert_int_equal(first_worker(4, &(rf_thread){ 14, "llvmpipe-2" }, 1, 10, 2), 0);
    /* Opened by a thread of another name, or by one that is not there. */
    assert_int_equal(first_worker(0, NULL, 1, 16, 2), 0);
    assert_int_equal(first_worker(0, NULL, 1, 99, 2), 0);
    const rf_thread_list none = { 0 };
    assert_null(rf_gpu_find_workers(&none, &none, 10, 0));
}

/* Whether the threads of `opened` are settled, the first `unnamed` of those that draw being without a name. */
static bool settled(uint32_t unnamed, uint32_t known)
{
    rf_thread after[LENGTH(opened)];
    memcpy(after, opened, sizeof(after));
    for (uint32_t i = 0; i < unnamed; i++) memcpy(after[2 + i].name, "program", sizeof("program"));
    const rf_thread_list a = { .items = after, .count = known }, b = { .items = after, .count = LENGTH(opened) };
    return rf_gpu_workers_settled(&a, &b, 10);
}

TEST(settled_by_names)
{
    assert_true(settled(0, 1));
    assert_false(settled(1, 1));
    assert_false(settled(2, 1));
    assert_true(settled(0, 6)); /* a second device */
    assert_true(settled(0, LENGTH(opened)));
}

TEST(wanted_by_variable)
{
    unsetenv("RINGFIRE_PIN_THREADS");
    assert_true(rf_gpu_placement_wanted(false));
    assert_false(rf_gpu_placement_wanted(true));
    setenv("RINGFIRE_PIN_THREADS", "1", 1);
    assert_true(rf_gpu_placement_wanted(true));
    setenv("RINGFIRE_PIN_THREADS", "0", 1);
    assert_false(rf_gpu_placement_wanted(false));
    unsetenv("RINGFIRE_PIN_THREADS");
}

/* The processors that threads of this process are bound to, when it can run on several: one entry for each thread. */
static uint32_t bound_threads(cpu_set_t *together)
{
    rf_thread_list threads;
    CHECK(rf_threads_list(&threads));
    uint32_t count = 0;
    CPU_ZERO(together);
    for (uint32_t i = 0; i < threads.count; i++) {
        cpu_set_t set;
        assert_int_equal(sched_getaffinity((pid_t)threads.items[i].id, sizeof(set), &set), 0);
        if (CPU_COUNT(&set) > 1) continue;
        CPU_OR(together, together, &set);
        count++;
    }
    rf_free(threads.items);
    return count;
}

static void open_and_expect(const rf_gpu_device_params *params, uint32_t first, uint32_t second)
{
    rf_gpu *gpu;
    rf_gpu_device *device, *again;
    cpu_set_t together;
    CHECK(rf_gpu_create(NULL, &gpu));
    CHECK(rf_gpu_device_open(gpu, params, &device));
    assert_int_equal(bound_threads(&together), first);
    assert_int_equal(CPU_COUNT(&together), first);
    CHECK(rf_gpu_device_open(gpu, params, &again));
    assert_int_equal(bound_threads(&together), second);
    rf_gpu_device_close(&again);
    rf_gpu_device_close(&device);
    rf_gpu_destroy(&gpu);
}

TEST(bound_on_device)
{
    rf_gpu *gpu;
    rf_device_info *infos;
    uint32_t count, index = 0;
    CHECK(rf_gpu_create(NULL, &gpu));
    CHECK(rf_gpu_list_all(gpu, &infos, &count));
    rf_gpu_destroy(&gpu);
    while (index < count && strcmp(infos[index].driver_name, "llvmpipe") != 0) index++;
    rf_free(infos);
    const uint32_t cpus = rf_cpu_count();
    if (index == count) SKIP("no lavapipe");
    if (cpus < 2 || cpus > 16) SKIP("one processor, or more than lavapipe has threads");
    unsetenv("LP_NUM_THREADS");
    unsetenv("RINGFIRE_PIN_THREADS");
    open_and_expect(&(rf_gpu_device_params){ .index = index }, cpus, cpus);
    open_and_expect(&(rf_gpu_device_params){ .index = index, .shares_cpus = true }, 0, 0);
    setenv("RINGFIRE_PIN_THREADS", "0", 1);
    open_and_expect(&(rf_gpu_device_params){ .index = index }, 0, 0);
    unsetenv("RINGFIRE_PIN_THREADS");
    setenv("LP_NUM_THREADS", "1", 1);
    open_and_expect(&(rf_gpu_device_params){ .index = index }, 0, 0);
    unsetenv("LP_NUM_THREADS");
}

TEST(processors_and_threads)
{
    uint32_t cpus[64];
    const uint32_t count = rf_thread_cpus(cpus, LENGTH(cpus));
    assert_int_equal(count, rf_cpu_count());
    for (uint32_t i = 1; i < count && i < LENGTH(cpus); i++) assert_true(cpus[i] > cpus[i - 1]);
    rf_thread_list threads;
    CHECK(rf_threads_list(&threads));
    uint32_t mine = 0;
    for (uint32_t i = 0; i < threads.count; i++) {
        if (i > 0) assert_true(threads.items[i].id > threads.items[i - 1].id);
        if (threads.items[i].id == rf_thread_id()) mine++;
    }
    assert_int_equal(mine, 1);
    rf_free(threads.items);
    assert_false(rf_thread_pin(rf_thread_id(), UINT32_MAX));
    cpu_set_t set;
    assert_int_equal(sched_getaffinity(0, sizeof(set), &set), 0);
    assert_true(rf_thread_pin(rf_thread_id(), cpus[0]));
    assert_int_equal(rf_cpu_count(), 1);
    assert_int_equal(sched_setaffinity(0, sizeof(set), &set), 0);
}

TESTS(placement, NULL, NULL)
