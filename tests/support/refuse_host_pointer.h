/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RF_TESTS_SUPPORT_REFUSE_HOST_POINTER_H
#define RF_TESTS_SUPPORT_REFUSE_HOST_POINTER_H

#include "gpu/vk_table.h"

/* vkGetMemoryHostPointerPropertiesEXT of a driver that takes no host memory, or not this. */
static inline VkResult refuse_host_pointer(VkDevice device, VkExternalMemoryHandleTypeFlagBits type,
                                           const void *pointer, VkMemoryHostPointerPropertiesEXT *properties)
{
    (void)device, (void)type, (void)pointer, (void)properties;
    return VK_ERROR_INVALID_EXTERNAL_HANDLE;
}

#endif
