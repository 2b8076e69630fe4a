/* SPDX-License-Identifier: Apache-2.0 */
/* A queue that loses its device, to be put in the place of a device's vkQueueSubmit. */
#ifndef RF_TESTS_SUPPORT_LOST_QUEUE_H
#define RF_TESTS_SUPPORT_LOST_QUEUE_H

#include "gpu/internal.h"

static inline VKAPI_ATTR VkResult VKAPI_CALL lose_submit(VkQueue queue, uint32_t count, const VkSubmitInfo *infos,
                                                         VkFence fence)
{
    (void)queue, (void)count, (void)infos, (void)fence;
    return VK_ERROR_DEVICE_LOST;
}

#endif
