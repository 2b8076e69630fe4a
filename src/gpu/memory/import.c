/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers in host memory that the library has allocated itself (VK_EXT_external_memory_host): devices of different
 * drivers meet there. */
#include "gpu/internal.h"

#define HOST_ALLOCATION VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT

uint64_t rf_gpu_import_alignment(const rf_gpu_device *device)
{
    return device->vk.GetMemoryHostPointerPropertiesEXT ? device->plan.import_alignment : 0;
}

static rf_result create_external_buffer(rf_gpu_buffer *buffer)
{
    rf_gpu_device *device = buffer->device;
    const VkExternalMemoryBufferCreateInfo external = {
        .sType = VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_BUFFER_CREATE_INFO,
        .handleTypes = HOST_ALLOCATION,
    };
    const VkBufferCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
        .pNext = &external,
        .size = buffer->size,
        .usage = RF_GPU_BUFFER_USAGE,
        .sharingMode = VK_SHARING_MODE_EXCLUSIVE,
    };
    RF_VK_CREATE(device, buffer->buffer, device->vk.CreateBuffer(device->device, &info, NULL, &buffer->buffer),
                 "creating buffer '%s' of %llu bytes", buffer->name, (unsigned long long)buffer->size);
    rf_gpu_set_name(device, VK_OBJECT_TYPE_BUFFER, (uint64_t)buffer->buffer, buffer->name);
    return RF_OK;
}

/* Both the memory and the buffer must be of the type; and it must be coherent, because the memory is nobody's in
 * particular, to be flushed by. -1: there is none. */
static int find_memory_type(rf_gpu_device *device, const rf_gpu_buffer *buffer, const void *memory)
{
    VkMemoryHostPointerPropertiesEXT host = { .sType = VK_STRUCTURE_TYPE_MEMORY_HOST_POINTER_PROPERTIES_EXT };
    VkMemoryRequirements need;
    if (device->vk.GetMemoryHostPointerPropertiesEXT(device->device, HOST_ALLOCATION, memory, &host) < 0) return -1;
    device->vk.GetBufferMemoryRequirements(device->device, buffer->buffer, &need);
    const VkPhysicalDeviceMemoryProperties *types = &device->snapshot.memory;
    for (uint32_t i = 0; need.size <= buffer->size && i < types->memoryTypeCount; i++)
        if ((host.memoryTypeBits & need.memoryTypeBits) >> i & 1 &&
            types->memoryTypes[i].propertyFlags & VK_MEMORY_PROPERTY_HOST_COHERENT_BIT)
            return (int)i;
    return -1;
}

static rf_result memory_import(rf_gpu_buffer *buffer, void *memory)
{
    rf_gpu_device *device = buffer->device;
    const int type = find_memory_type(device, buffer, memory);
    if (type < 0)
        return RF_FAIL(RF_ERROR_UNSUPPORTED, "%s: the driver takes no host memory of %llu bytes for buffer '%s'",
                       device->info.name, (unsigned long long)buffer->size, buffer->name);
    const VkImportMemoryHostPointerInfoEXT from = {
        .sType = VK_STRUCTURE_TYPE_IMPORT_MEMORY_HOST_POINTER_INFO_EXT,
        .handleType = HOST_ALLOCATION,
        .pHostPointer = memory,
    };
    const VkMemoryAllocateInfo info = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
        .pNext = &from,
        .allocationSize = buffer->size,
        .memoryTypeIndex = (uint32_t)type,
    };
    VkDeviceMemory imported = VK_NULL_HANDLE;
    RF_VK_TRY(device, device->vk.AllocateMemory(device->device, &info, NULL, &imported),
              "importing %llu bytes for buffer '%s'", (unsigned long long)buffer->size, buffer->name);
    buffer->memory = imported;
    device->num_allocations++;
    RF_VK_TRY(device, device->vk.BindBufferMemory(device->device, buffer->buffer, imported, 0), "binding buffer '%s'",
              buffer->name);
    return RF_OK;
}

rf_result rf_gpu_buffer_import(rf_gpu_device *device, void *memory, uint64_t size, const char *name,
                               rf_gpu_buffer **out)
{
    RF_REQUIRE(out, "out is NULL");
    *out = NULL;
    RF_REQUIRE(device && memory && size > 0, "buffer '%s': device, memory or size is missing", name);
    RF_TRY(rf_gpu_check_lost(device));
    const uint64_t alignment = rf_gpu_import_alignment(device);
    if (alignment == 0)
        return RF_FAIL(RF_ERROR_UNSUPPORTED, "%s: the driver takes no host memory for buffers", device->info.name);
    RF_REQUIRE((uintptr_t)memory % alignment == 0 && size % alignment == 0,
               "buffer '%s': %p and its %llu bytes are not multiples of %llu", name, memory, (unsigned long long)size,
               (unsigned long long)alignment);
    const uint64_t limit = device->plan.caps.max_allocation;
    if (size > limit)
        return RF_FAIL(RF_ERROR_UNSUPPORTED, "%s: buffer '%s' of %llu bytes is over the driver's limit of %llu",
                       device->info.name, name, (unsigned long long)size, (unsigned long long)limit);
    rf_gpu_buffer *buffer = RF_NEW(rf_gpu_buffer);
    if (!buffer) return RF_ERROR_OUT_OF_HOST_MEMORY;
    *buffer = (rf_gpu_buffer){ .device = device, .size = size, .capacity = size, .mapped = memory, .imported = true };
    buffer->name = rf_strdup(name);
    rf_result r = buffer->name ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
    if (r >= 0) r = create_external_buffer(buffer);
    if (r >= 0) r = memory_import(buffer, memory);
    if (r < 0)
        rf_gpu_buffer_destroy(&buffer);
    else
        *out = buffer;
    return r;
}
