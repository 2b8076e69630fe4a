/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "gpu/internal.h"

static rf_result create_vk_buffer(rf_gpu_device *device, uint64_t size, const char *name, VkBuffer *out)
{
    const VkBufferCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
        .size = size,
        .usage = RF_GPU_BUFFER_USAGE,
        .sharingMode = VK_SHARING_MODE_EXCLUSIVE,
    };
    RF_VK_CREATE(device, *out, device->vk.CreateBuffer(device->device, &info, NULL, out),
                 "creating buffer '%s' of %llu bytes", name, (unsigned long long)size);
    return RF_OK;
}

/* RINGFIRE_TEST_STAGED. The memory of software drivers is all mapped; without this no machine without a card would copy
 * anything through staging. */
static bool is_kept_staged(const rf_gpu_device *device)
{
    const char *name = rf_env("RINGFIRE_TEST_STAGED");
    return name && (strcmp(name, "all") == 0 || strstr(device->info.name, name));
}

/* All our buffers have one usage, and Vulkan promises the same memory types for all of them: asking once is enough. */
static rf_result choose_memory_types(rf_gpu_device *device)
{
    VkBuffer probe;
    RF_TRY(create_vk_buffer(device, 256, "probe", &probe));
    VkMemoryRequirements need;
    device->vk.GetBufferMemoryRequirements(device->device, probe, &need);
    device->vk.DestroyBuffer(device->device, probe, NULL);
    for (int kind = 0; kind < 3; kind++) {
        device->memory_type[kind] = rf_gpu_plan_memory(&device->snapshot, (rf_gpu_memory)kind, need.memoryTypeBits);
        if (device->memory_type[kind] < 0)
            return RF_FAIL(RF_ERROR_UNSUPPORTED, "%s: no memory type for %s buffers", device->info.name,
                           kind == RF_GPU_MEMORY_DEVICE ? "device" : "mapped");
    }
    const VkMemoryPropertyFlags flags =
        device->snapshot.memory.memoryTypes[device->memory_type[RF_GPU_MEMORY_DEVICE]].propertyFlags;
    const VkMemoryPropertyFlags mapped = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    device->plan.caps.host_visible = (flags & mapped) == mapped && !is_kept_staged(device);
    return RF_OK;
}

rf_result rf_gpu_memory_setup(rf_gpu_device *device)
{
    RF_TRY(choose_memory_types(device));
    RF_TRY(rf_gpu_recording_begin(device, "host flush", &device->host_flush));
    return rf_gpu_recording_end(device->host_flush);
}

void rf_gpu_memory_teardown(rf_gpu_device *device)
{
    rf_gpu_recording_destroy(&device->host_flush);
}

/* ---- buffers ---- */

static rf_result buffer_allocate(rf_gpu_buffer *buffer, rf_gpu_memory kind)
{
    rf_gpu_device *device = buffer->device;
    if (device->num_allocations >= device->snapshot.properties.limits.maxMemoryAllocationCount)
        return RF_FAIL(RF_ERROR_OUT_OF_DEVICE_MEMORY,
                       "%s: buffer '%s' would be one more than the driver's %u allocations", device->info.name,
                       buffer->name, device->num_allocations);
    VkMemoryRequirements need;
    device->vk.GetBufferMemoryRequirements(device->device, buffer->buffer, &need);
    const VkMemoryAllocateInfo info = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
        .allocationSize = need.size,
        .memoryTypeIndex = (uint32_t)device->memory_type[kind],
    };
    VkDeviceMemory memory = VK_NULL_HANDLE;
    RF_VK_TRY(device, device->vk.AllocateMemory(device->device, &info, NULL, &memory),
              "allocating %llu bytes for buffer '%s'", (unsigned long long)need.size, buffer->name);
    buffer->memory = memory;
    buffer->allocated = need.size;
    device->num_allocations++;
    rf_gpu_memory_count(device, buffer->name, need.size, 0);
    RF_VK_TRY(device, device->vk.BindBufferMemory(device->device, buffer->buffer, memory, 0), "binding buffer '%s'",
              buffer->name);
    return RF_OK;
}

/* Software drivers compute in ordinary memory, which nobody has touched yet. Networks read each tensor long after it
 * was written, and rows far apart: on pages of 4 KiB it took as long to find where those are as to read them. */
static void want_large_pages(rf_gpu_buffer *buffer)
{
    const uint64_t least = 4ull << 20; /* of fewer bytes large pages would be a good part, or none */
    if (buffer->mapped && buffer->device->plan.caps.is_cpu && buffer->capacity >= least)
        rf_want_large_pages(buffer->mapped, buffer->capacity);
}

/* Vulkan gives memory as it is; buffers start as zeros. */
static rf_result buffer_clear(rf_gpu_buffer *buffer)
{
    if (buffer->mapped) {
        memset(buffer->mapped, 0, buffer->capacity + buffer->spare);
        return rf_gpu_memory_flush_buffer(buffer);
    }
    rf_gpu_recording *rec = NULL;
    uint64_t ticket;
    rf_result r;
    RF_TRY(rf_gpu_recording_begin(buffer->device, "clear", &rec));
    RF_TRY_GOTO(rf_gpu_record_fill(rec, buffer, 0, buffer->capacity, 0), done);
    RF_TRY_GOTO(rf_gpu_recording_end(rec), done);
    RF_TRY_GOTO(rf_gpu_queue_submit(buffer->device, &rec, 1, &ticket), done);
    r = rf_gpu_wait(buffer->device, ticket, RF_GPU_TIMEOUT_NS);
done:
    rf_gpu_recording_destroy(&rec);
    return r;
}

rf_result rf_gpu_buffer_create(rf_gpu_device *device, rf_gpu_memory memory, uint64_t size, const char *name,
                               rf_gpu_buffer **out)
{
    RF_REQUIRE(out, "out is NULL");
    *out = NULL;
    RF_REQUIRE(device, "device is NULL");
    RF_TRY(rf_gpu_check_lost(device));
    if (!name) name = "";
    RF_REQUIRE(size > 0, "buffer '%s': size is 0", name);
    RF_REQUIRE((unsigned)memory <= RF_GPU_MEMORY_READBACK, "buffer '%s': unknown memory kind %d", name, (int)memory);
    const uint64_t limit = device->plan.caps.max_allocation;
    const uint64_t capacity = size <= limit ? rf_align_up(size, device->plan.caps.buffer_alignment) : size;
    if (capacity > limit)
        return RF_FAIL(RF_ERROR_OUT_OF_DEVICE_MEMORY,
                       "%s: buffer '%s' of %llu bytes is over the driver's limit of %llu; use a smaller batch or model",
                       device->info.name, name, (unsigned long long)size, (unsigned long long)limit);

    rf_gpu_buffer *buffer = RF_NEW(rf_gpu_buffer);
    if (!buffer) return RF_ERROR_OUT_OF_HOST_MEMORY;
    buffer->device = device;
    buffer->size = size;
    buffer->capacity = capacity;
    buffer->spare =
        device->plan.caps.compiles_at_dispatch && capacity + RF_GPU_TEXEL_SPARE <= limit ? RF_GPU_TEXEL_SPARE : 0;
    buffer->kind = memory;
    rf_result r = RF_OK;
    buffer->name = rf_strdup(name);
    if (!buffer->name) {
        r = RF_ERROR_OUT_OF_HOST_MEMORY;
        goto error;
    }
    RF_TRY_GOTO(create_vk_buffer(device, capacity + buffer->spare, name, &buffer->buffer), error);
    rf_gpu_set_name(device, VK_OBJECT_TYPE_BUFFER, (uint64_t)buffer->buffer, name);
    RF_TRY_GOTO(buffer_allocate(buffer, memory), error);
    if (memory != RF_GPU_MEMORY_DEVICE || device->plan.caps.host_visible) {
        const VkResult mapped =
            device->vk.MapMemory(device->device, buffer->memory, 0, VK_WHOLE_SIZE, 0, &buffer->mapped);
        if (mapped < 0) {
            buffer->mapped = NULL;
            r = RF_GPU_FAIL(device, mapped, "mapping buffer '%s' of %llu bytes", name, (unsigned long long)size);
            goto error;
        }
    }
    want_large_pages(buffer);
    RF_TRY_GOTO(buffer_clear(buffer), error);
    rf_gpu_memory_list(buffer);
    *out = buffer;
    return RF_OK;
error:
    rf_gpu_buffer_destroy(&buffer);
    return r;
}

void rf_gpu_buffer_destroy(rf_gpu_buffer **buffer_pointer)
{
    rf_gpu_buffer *buffer = buffer_pointer ? *buffer_pointer : NULL;
    if (!buffer) return;
    *buffer_pointer = NULL;
    rf_gpu_device *device = buffer->device;
    rf_gpu_memory_unlist(buffer);
    if (buffer->buffer) device->vk.DestroyBuffer(device->device, buffer->buffer, NULL);
    if (buffer->memory) {
        device->vk.FreeMemory(device->device, buffer->memory, NULL);
        device->num_allocations--;
    }
    if (buffer->allocated > 0) rf_gpu_memory_count(device, buffer->name, 0, buffer->allocated);
    rf_free(buffer->name);
    rf_free(buffer);
}

void *rf_gpu_buffer_mapped(const rf_gpu_buffer *buffer)
{
    return buffer->mapped;
}

uint64_t rf_gpu_buffer_size(const rf_gpu_buffer *buffer)
{
    return buffer->size;
}
