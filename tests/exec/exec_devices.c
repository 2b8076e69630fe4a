/* SPDX-License-Identifier: Apache-2.0 */
#include "exec_devices.h"

#include <stdlib.h>

#include "../support/incoherent.h"

#define MAX_DEVICES 8

rf_gpu_device *devices[MAX_DEVICES];
uint32_t num_devices;
static rf_gpu_device *incoherent_devices[MAX_DEVICES]; /* the same ones again */
static rf_gpu *gpu;

static rf_result open_device(uint32_t index, uint32_t place)
{
    const rf_gpu_device_params params = { .index = index };
    RF_TRY(rf_gpu_device_open(gpu, &params, &devices[place]));
    incoherent_begin(gpu);
    const rf_result r = rf_gpu_device_open(gpu, &params, &incoherent_devices[place]);
    incoherent_end(gpu);
    return r;
}

int open_all(void **state)
{
    (void)state;
    rf_device_info infos[MAX_DEVICES];
    uint32_t count = MAX_DEVICES;
    rf_result r = rf_gpu_create(&(rf_gpu_params){ .validation = getenv("RINGFIRE_VALIDATION") != NULL }, &gpu);
    if (r >= 0) r = rf_gpu_list(gpu, infos, &count);
    for (uint32_t i = 0; r >= 0 && i < count && i < MAX_DEVICES; i++) {
        if (!infos[i].usable) continue;
        r = open_device(infos[i].index, num_devices);
        num_devices += r >= 0;
    }
    if (r < 0) print_error("%s\n", rf_error_message());
    return r >= 0 && num_devices > 0 ? 0 : -1;
}

int close_all(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < num_devices; i++) {
        rf_gpu_device_close(&devices[i]);
        rf_gpu_device_close(&incoherent_devices[i]);
    }
    const char *first = "";
    const uint64_t messages = rf_gpu_validation_messages(gpu, &first);
    if (messages > 0) print_error("validation: %s\n", first);
    rf_gpu_destroy(&gpu);
    return messages > 0 ? -1 : 0;
}

void everywhere(void (*body)(rf_exec *exec))
{
    for (uint32_t i = 0; i < num_devices; i++)
        for (int way = 0; way < 3; way++) {
            rf_exec *exec;
            rf_gpu_device *device = way == 2 ? incoherent_devices[i] : devices[i];
            CHECK(rf_exec_create(&(rf_exec_params){ .device = device, .force_staging = way == 1 }, &exec));
            body(exec);
            rf_exec_destroy(&exec);
            assert_null(exec);
        }
}

void fill_floats(void *bytes, size_t count, uint32_t seed)
{
    /* Small integers: every sum below is exact, so results can be compared bit for bit. */
    for (size_t i = 0; i < count; i++) ((float *)bytes)[i] = (float)((i * 7 + seed * 13) % 17) - 8;
}

void run_frame(rf_exec *exec, rf_frame *frame)
{
    uint64_t ticket;
    CHECK(rf_frames_submit(exec, &frame, 1, &ticket));
    CHECK(rf_gpu_wait(rf_exec_device(exec), ticket, RF_GPU_TIMEOUT_NS));
}

void check_floats(const void *got, const void *expected, size_t count)
{
    assert_memory_equal(got, expected, count * sizeof(float));
}
