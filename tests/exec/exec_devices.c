/* SPDX-License-Identifier: Apache-2.0 */
#include "exec_devices.h"

#include <stdlib.h>

#define MAX_DEVICES 8

rf_gpu_device *devices[MAX_DEVICES];
uint32_t num_devices;
static rf_gpu *gpu;

int open_all(void **state)
{
    (void)state;
    rf_device_info infos[MAX_DEVICES];
    uint32_t count = MAX_DEVICES;
    rf_result r = rf_gpu_create(&(rf_gpu_params){ .validation = getenv("RINGFIRE_VALIDATION") != NULL }, &gpu);
    if (r >= 0) r = rf_gpu_list(gpu, infos, &count);
    for (uint32_t i = 0; r >= 0 && i < count && i < MAX_DEVICES; i++) {
        if (!infos[i].usable) continue;
        r = rf_gpu_device_open(gpu, &(rf_gpu_device_params){ .index = infos[i].index }, &devices[num_devices]);
        num_devices += r >= 0;
    }
    if (r < 0) print_error("%s\n", rf_error_message());
    return r >= 0 && num_devices > 0 ? 0 : -1;
}

int close_all(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < num_devices; i++) rf_gpu_device_close(&devices[i]);
    const char *first = "";
    const uint64_t messages = rf_gpu_validation_messages(gpu, &first);
    if (messages > 0) print_error("validation: %s\n", first);
    rf_gpu_destroy(&gpu);
    return messages > 0 ? -1 : 0;
}

void everywhere(void (*body)(rf_exec *exec))
{
    for (uint32_t i = 0; i < num_devices; i++)
        for (int staging = 0; staging < 2; staging++) {
            rf_exec *exec;
            CHECK(rf_exec_create(&(rf_exec_params){ .device = devices[i], .force_staging = staging }, &exec));
            body(exec);
            rf_exec_destroy(&exec);
            assert_null(exec);
        }
}
