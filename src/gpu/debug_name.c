/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/internal.h"

void rf_gpu_set_name(rf_gpu_device *device, VkObjectType type, uint64_t handle, const char *name)
{
    if (!device->gpu->debug_utils || !device->vk.SetDebugUtilsObjectNameEXT || !name) return;
    const VkDebugUtilsObjectNameInfoEXT info = {
        .sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_OBJECT_NAME_INFO_EXT,
        .objectType = type,
        .objectHandle = handle,
        .pObjectName = name,
    };
    rf_gpu_lock_drivers();
    (void)device->vk.SetDebugUtilsObjectNameEXT(device->device, &info); /* only a debugging aid */
    rf_gpu_unlock_drivers();
}
