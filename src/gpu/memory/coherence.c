/* SPDX-License-Identifier: Apache-2.0 */
/* Mapped memory that is not coherent: written back before each submission, read anew after each wait. */
#include "gpu/internal.h"

static bool is_coherent(const rf_gpu_device *device, rf_gpu_memory kind)
{
    return device->snapshot.memory.memoryTypes[device->memory_type[kind]].propertyFlags &
           VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
}

/* The whole of it: buffers have allocations of their own, and Vulkan takes parts only in units of nonCoherentAtomSize.
 */
static VkMappedMemoryRange whole_range(const rf_gpu_buffer *buffer)
{
    return (VkMappedMemoryRange){
        .sType = VK_STRUCTURE_TYPE_MAPPED_MEMORY_RANGE,
        .memory = buffer->memory,
        .size = VK_WHOLE_SIZE,
    };
}

rf_result rf_gpu_memory_flush_buffer(const rf_gpu_buffer *buffer)
{
    if (buffer->imported || is_coherent(buffer->device, buffer->kind)) return RF_OK;
    const VkMappedMemoryRange range = whole_range(buffer);
    RF_VK_TRY(buffer->device, buffer->device->vk.FlushMappedMemoryRanges(buffer->device->device, 1, &range),
              "flushing buffer '%s'", buffer->name);
    return RF_OK;
}

static rf_result invalidate_buffer(const rf_gpu_buffer *buffer)
{
    const VkMappedMemoryRange range = whole_range(buffer);
    RF_VK_TRY(buffer->device, buffer->device->vk.InvalidateMappedMemoryRanges(buffer->device->device, 1, &range),
              "invalidating buffer '%s'", buffer->name);
    return RF_OK;
}

rf_result rf_gpu_memory_flush(rf_gpu_device *device)
{
    for (const rf_gpu_buffer *b = device->incoherent[RF_GPU_MEMORY_UPLOAD]; b; b = b->next)
        RF_TRY(rf_gpu_memory_flush_buffer(b));
    return RF_OK;
}

rf_result rf_gpu_memory_invalidate(rf_gpu_device *device)
{
    if (device->invalidated == device->completed) return RF_OK;
    for (const rf_gpu_buffer *b = device->incoherent[RF_GPU_MEMORY_READBACK]; b; b = b->next)
        RF_TRY(invalidate_buffer(b));
    device->invalidated = device->completed;
    return RF_OK;
}

void rf_gpu_memory_list(rf_gpu_buffer *buffer)
{
    if (!buffer->mapped || buffer->imported || is_coherent(buffer->device, buffer->kind)) return;
    buffer->next = buffer->device->incoherent[buffer->kind];
    buffer->device->incoherent[buffer->kind] = buffer;
}

void rf_gpu_memory_unlist(const rf_gpu_buffer *buffer)
{
    rf_gpu_buffer **at = &buffer->device->incoherent[buffer->kind];
    while (*at && *at != buffer) at = &(*at)->next;
    if (*at) *at = buffer->next;
}
