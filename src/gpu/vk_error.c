/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stdio.h>

#include "gpu/internal.h"

#include "base/numbers.h"

const char *rf_gpu_vk_result_name(VkResult result)
{
    switch (result) {
#define NAME(code)                                                                                                     \
    case code: return #code
        NAME(VK_SUCCESS);
        NAME(VK_NOT_READY);
        NAME(VK_TIMEOUT);
        NAME(VK_INCOMPLETE);
        NAME(VK_ERROR_OUT_OF_HOST_MEMORY);
        NAME(VK_ERROR_OUT_OF_DEVICE_MEMORY);
        NAME(VK_ERROR_INITIALIZATION_FAILED);
        NAME(VK_ERROR_DEVICE_LOST);
        NAME(VK_ERROR_MEMORY_MAP_FAILED);
        NAME(VK_ERROR_LAYER_NOT_PRESENT);
        NAME(VK_ERROR_EXTENSION_NOT_PRESENT);
        NAME(VK_ERROR_FEATURE_NOT_PRESENT);
        NAME(VK_ERROR_INCOMPATIBLE_DRIVER);
        NAME(VK_ERROR_TOO_MANY_OBJECTS);
        NAME(VK_ERROR_FRAGMENTED_POOL);
        NAME(VK_ERROR_OUT_OF_POOL_MEMORY);
        NAME(VK_ERROR_FRAGMENTATION);
        NAME(VK_ERROR_INVALID_SHADER_NV);
        NAME(VK_ERROR_UNKNOWN);
#undef NAME
    default: return "an unlisted VkResult";
    }
}

rf_result rf_gpu_map_result(VkResult result)
{
    switch (result) {
    case VK_ERROR_OUT_OF_HOST_MEMORY: return RF_ERROR_OUT_OF_HOST_MEMORY;
    case VK_ERROR_OUT_OF_DEVICE_MEMORY:
    case VK_ERROR_TOO_MANY_OBJECTS:
    case VK_ERROR_MEMORY_MAP_FAILED:
    case VK_ERROR_FRAGMENTED_POOL:
    case VK_ERROR_OUT_OF_POOL_MEMORY:
    case VK_ERROR_FRAGMENTATION: return RF_ERROR_OUT_OF_DEVICE_MEMORY;
    case VK_ERROR_DEVICE_LOST: return RF_ERROR_DEVICE_LOST;
    case VK_TIMEOUT:
    case VK_NOT_READY: return RF_ERROR_TIMEOUT;
    case VK_ERROR_INCOMPATIBLE_DRIVER: return RF_ERROR_NOT_FOUND;
    case VK_ERROR_INITIALIZATION_FAILED:
    case VK_ERROR_LAYER_NOT_PRESENT:
    case VK_ERROR_EXTENSION_NOT_PRESENT:
    case VK_ERROR_FEATURE_NOT_PRESENT: return RF_ERROR_UNSUPPORTED;
    default: return RF_ERROR_INTERNAL;
    }
}

static const char *result_advice(VkResult result)
{
    switch (result) {
    case VK_ERROR_OUT_OF_DEVICE_MEMORY: return "; use a smaller batch or model, or free the device for this job";
    case VK_ERROR_DEVICE_LOST:
        return "; the driver reset the device (a hang, a fault or too long a dispatch): see the kernel log";
    case VK_ERROR_INITIALIZATION_FAILED: return "; the driver could not start: check its installation and permissions";
    default: return "";
    }
}

rf_result rf_gpu_fail(rf_gpu_device *device, VkResult result, const char *file, int line, const char *format, ...)
{
    char text[512], said[384] = "";
    va_list args;
    va_start(args, format);
    rf_number_vprint(text, sizeof(text), format, args);
    va_end(args);
    if (device && result == VK_ERROR_DEVICE_LOST && !device->lost) rf_gpu_describe_fault(device, said, sizeof(said));
    const bool host = result == VK_ERROR_OUT_OF_HOST_MEMORY, of_device = result == VK_ERROR_OUT_OF_DEVICE_MEMORY;
    if (device && (host || (of_device && device->plan.caps.is_cpu))) rf_gpu_describe_limits(said, sizeof(said));
    if (device && of_device && !said[0]) rf_gpu_describe_memory(device, said, sizeof(said));
    rf_error_set(rf_gpu_map_result(result), "vulkan", result, file, line, "%s%s%s: %s%s%s",
                 device ? device->info.name : "", device ? ": " : "", text, rf_gpu_vk_result_name(result), said,
                 result_advice(result));
    if (device && result == VK_ERROR_DEVICE_LOST && !device->lost) {
        device->lost = true;
        rf_error_save(&device->lost_record);
    }
    return rf_gpu_map_result(result);
}

rf_result rf_gpu_check_lost(const rf_gpu_device *device)
{
    return device->lost ? rf_error_restore(&device->lost_record) : RF_OK;
}
