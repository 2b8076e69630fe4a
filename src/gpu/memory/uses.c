/* SPDX-License-Identifier: Apache-2.0 */
/* A count of the memory that buffers take, by what they are for. */
#include <stdio.h>
#include <string.h>

#include "gpu/internal.h"

static rf_gpu_use *use_of(rf_gpu_device *device, const char *name)
{
    for (uint32_t i = 1; i < device->num_uses; i++)
        if (strncmp(device->uses[i].name, name, RF_GPU_USE_NAME - 1) == 0) return &device->uses[i];
    if (device->num_uses < RF_GPU_MOST_USES - 1) {
        rf_gpu_use *added = &device->uses[device->num_uses++];
        snprintf(added->name, sizeof(added->name), "%s", name);
        return added;
    }
    device->num_uses = RF_GPU_MOST_USES;
    rf_gpu_use *others = &device->uses[RF_GPU_MOST_USES - 1];
    strcpy(others->name, "others");
    return others;
}

static void use_change(rf_gpu_use *use, uint64_t given, uint64_t returned)
{
    use->bytes += given - returned;
    if (use->bytes > use->peak) use->peak = use->bytes;
}

void rf_gpu_memory_count(rf_gpu_device *device, const char *name, uint64_t given, uint64_t returned)
{
    if (device->num_uses == 0) {
        device->num_uses = 1;
        strcpy(device->uses[0].name, "all");
    }
    use_change(&device->uses[0], given, returned);
    use_change(use_of(device, name), given, returned);
}

const rf_gpu_use *rf_gpu_memory_uses(const rf_gpu_device *device, uint32_t *count)
{
    *count = device->num_uses;
    return device->uses;
}
