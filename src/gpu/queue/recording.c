/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "gpu/internal.h"

/* A descriptor pool serves this many dispatches, with so many descriptors each on average. */
#define POOL_SETS 64u
#define POOL_DESCRIPTORS 8u
#define QUERIES_PER_POOL 64u

#define DEVICE_STAGES (VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT)
#define DEVICE_WRITES (VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT)
#define DEVICE_ACCESS (VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_TRANSFER_READ_BIT | DEVICE_WRITES)

/* Orders what the device has done so far before what comes. */
static void recording_barrier(rf_gpu_recording *rec, VkPipelineStageFlags to, VkAccessFlags to_access)
{
    const VkMemoryBarrier memory = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
        .srcAccessMask = DEVICE_WRITES,
        .dstAccessMask = to_access,
    };
    rec->device->vk.CmdPipelineBarrier(rec->commands, DEVICE_STAGES, to, 0, 1, &memory, 0, NULL, 0, NULL);
    rec->commands_so_far.barriers++;
}

static rf_result commands_begin(rf_gpu_recording *rec)
{
    rf_gpu_device *device = rec->device;
    const VkCommandBufferBeginInfo begin = { .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                             .flags = rec->shared ? VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT : 0 };
    RF_VK_TRY(device, device->vk.BeginCommandBuffer(rec->commands, &begin), "beginning '%s'", rec->name);
    return RF_OK;
}

static rf_result recording_start(rf_gpu_recording *rec)
{
    rf_gpu_device *device = rec->device;
    const VkCommandPoolCreateInfo pool = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
        .queueFamilyIndex = device->plan.queue_family,
    };
    RF_VK_CREATE(device, rec->command_pool,
                 device->vk.CreateCommandPool(device->device, &pool, NULL, &rec->command_pool),
                 "creating a command pool for '%s'", rec->name);
    const VkCommandBufferAllocateInfo allocate = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
        .commandPool = rec->command_pool,
        .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
        .commandBufferCount = 1,
    };
    RF_VK_TRY(device, device->vk.AllocateCommandBuffers(device->device, &allocate, &rec->commands),
              "allocating a command buffer for '%s'", rec->name);
    rf_gpu_set_name(device, VK_OBJECT_TYPE_COMMAND_BUFFER, (uint64_t)(uintptr_t)rec->commands, rec->name);
    return commands_begin(rec);
}

rf_result rf_gpu_recording_restart(rf_gpu_recording *rec)
{
    rf_gpu_device *device = rec->device;
    RF_TRY(rf_gpu_check_lost(device));
    RF_TRY(rf_gpu_wait(device, rec->ticket, RF_GPU_TIMEOUT_NS));
    RF_VK_TRY(device, device->vk.ResetCommandPool(device->device, rec->command_pool, 0), "emptying '%s'", rec->name);
    rec->ended = false;
    rec->commands_so_far = (rf_gpu_commands){ 0 };
    return commands_begin(rec);
}

static rf_result recording_create(rf_gpu_device *device, const char *name, bool shared, rf_gpu_recording **out)
{
    RF_REQUIRE(out, "out is NULL");
    *out = NULL;
    RF_REQUIRE(device, "device is NULL");
    RF_TRY(rf_gpu_check_lost(device));
    rf_gpu_recording *rec = RF_NEW(rf_gpu_recording);
    if (!rec) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rec->device = device;
    rec->shared = shared;
    rec->name = rf_strdup(name ? name : "");
    rf_result r = rec->name ? recording_start(rec) : RF_ERROR_OUT_OF_HOST_MEMORY;
    if (r < 0)
        rf_gpu_recording_destroy(&rec);
    else
        *out = rec;
    return r;
}

rf_result rf_gpu_recording_begin(rf_gpu_device *device, const char *name, rf_gpu_recording **out)
{
    return recording_create(device, name, false, out);
}

rf_result rf_gpu_recording_begin_shared(rf_gpu_device *device, const char *name, rf_gpu_recording **out)
{
    return recording_create(device, name, true, out);
}

void rf_gpu_recording_destroy(rf_gpu_recording **rec_pointer)
{
    rf_gpu_recording *rec = rec_pointer ? *rec_pointer : NULL;
    if (!rec) return;
    *rec_pointer = NULL;
    rf_gpu_device *device = rec->device;
    const rf_vk_device *vk = &device->vk;
    if (!rf_gpu_is_done(device, rec->ticket) && rf_gpu_wait(device, rec->ticket, RF_GPU_TIMEOUT_NS) < 0 &&
        !device->lost) {
        /* Freeing what the device still reads would be worse than losing it. */
        rf_log_message(RF_LOG_ERROR, "%s: '%s' never finished, its memory is not freed", device->info.name, rec->name);
        return;
    }
    for (uint32_t i = 0; i < rec->views.count; i++)
        vk->DestroyBufferView(device->device, rec->views.items[i].view, NULL);
    for (uint32_t i = 0; i < rec->descriptor_pools.count; i++)
        vk->DestroyDescriptorPool(device->device, (VkDescriptorPool)rec->descriptor_pools.items[i], NULL);
    for (uint32_t i = 0; i < rec->query_pools.count; i++)
        vk->DestroyQueryPool(device->device, (VkQueryPool)rec->query_pools.items[i], NULL);
    if (rec->command_pool) vk->DestroyCommandPool(device->device, rec->command_pool, NULL);
    rf_free(rec->uncompiled.items);
    rf_free(rec->views.items);
    rf_free(rec->descriptor_pools.items);
    rf_free(rec->query_pools.items);
    rf_free(rec->name);
    rf_free(rec);
}

static rf_result check_open(const rf_gpu_recording *rec)
{
    RF_REQUIRE(rec, "recording is NULL");
    RF_REQUIRE(!rec->ended, "recording '%s' has ended already", rec->name);
    return rf_gpu_check_lost(rec->device);
}

/* ---- descriptors ---- */

/* Room in the newest pool for one more set; a new pool when there is none. */
static rf_result reserve_descriptors(rf_gpu_recording *rec, uint32_t storage, uint32_t texel)
{
    if (rec->sets_left > 0 && rec->storage_left >= storage && rec->texel_left >= texel) return RF_OK;
    rf_gpu_device *device = rec->device;
    RF_TRY(RF_VEC_GROW(&rec->descriptor_pools));
    const VkDescriptorPoolSize sizes[] = {
        { VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, POOL_SETS * POOL_DESCRIPTORS },
        { VK_DESCRIPTOR_TYPE_UNIFORM_TEXEL_BUFFER, POOL_SETS * POOL_DESCRIPTORS },
    };
    const VkDescriptorPoolCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO,
        .maxSets = POOL_SETS,
        .poolSizeCount = 2,
        .pPoolSizes = sizes,
    };
    VkDescriptorPool pool;
    RF_VK_TRY(device, device->vk.CreateDescriptorPool(device->device, &info, NULL, &pool),
              "creating a descriptor pool for '%s'", rec->name);
    rec->descriptor_pools.items[rec->descriptor_pools.count++] = (uint64_t)pool;
    rec->sets_left = POOL_SETS;
    rec->storage_left = rec->texel_left = POOL_SETS * POOL_DESCRIPTORS;
    return RF_OK;
}

static rf_result get_view(rf_gpu_recording *rec, const rf_gpu_binding *binding, VkBufferView *out)
{
    const VkBuffer buffer = binding->buffer->buffer;
    const uint64_t span = rf_gpu_texel_span(rec->device, binding);
    for (uint32_t i = 0; i < rec->views.count; i++) {
        const rf_gpu_view *v = &rec->views.items[i];
        if (v->buffer == buffer && v->offset == binding->offset && v->size == span &&
            v->components == binding->texel_components && v->half == binding->texel_half) {
            *out = v->view;
            return RF_OK;
        }
    }
    static const VkFormat formats[2][2] = { { VK_FORMAT_R32_SFLOAT, VK_FORMAT_R32G32B32A32_SFLOAT },
                                            { VK_FORMAT_R16_SFLOAT, VK_FORMAT_R16G16B16A16_SFLOAT } };
    rf_gpu_device *device = rec->device;
    RF_TRY(RF_VEC_GROW(&rec->views));
    const VkBufferViewCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_BUFFER_VIEW_CREATE_INFO,
        .buffer = buffer,
        .format = formats[binding->texel_half][binding->texel_components == 4],
        .offset = binding->offset,
        .range = span,
    };
    RF_VK_TRY(device, device->vk.CreateBufferView(device->device, &info, NULL, out),
              "creating a texel view of buffer '%s'", binding->buffer->name);
    rec->views.items[rec->views.count++] = (rf_gpu_view){
        .buffer = buffer,
        .offset = binding->offset,
        .size = span,
        .components = binding->texel_components,
        .half = binding->texel_half,
        .view = *out,
    };
    return RF_OK;
}

static rf_result check_binding(const rf_gpu_recording *rec, const char *shader, uint32_t i, const rf_gpu_binding *b,
                               bool texel)
{
    const rf_gpu_device *device = rec->device;
    const VkPhysicalDeviceLimits *limits = &device->snapshot.properties.limits;
    RF_REQUIRE(b->buffer, "%s: binding %u has no buffer", shader, i);
    RF_REQUIRE(b->buffer->device == device, "%s: binding %u: buffer '%s' belongs to another device", shader, i,
               b->buffer->name);
    RF_REQUIRE(texel ? b->texel_components == 1 || b->texel_components == 4 : b->texel_components == 0,
               "%s: binding %u: texel_components is %u, but the pipeline has %s there", shader, i, b->texel_components,
               texel ? "a texel buffer" : "a storage buffer");
    RF_REQUIRE(b->size > 0 && b->offset <= b->buffer->capacity && b->size <= b->buffer->capacity - b->offset,
               "%s: binding %u: %llu bytes at %llu do not lie in buffer '%s' of %llu", shader, i,
               (unsigned long long)b->size, (unsigned long long)b->offset, b->buffer->name,
               (unsigned long long)b->buffer->size);
    const uint64_t alignment = texel ? limits->minTexelBufferOffsetAlignment : limits->minStorageBufferOffsetAlignment;
    RF_REQUIRE(b->offset % alignment == 0, "%s: binding %u: offset %llu is not a multiple of %llu", shader, i,
               (unsigned long long)b->offset, (unsigned long long)alignment);
    if (texel) {
        const uint64_t element = (b->texel_half ? 2ull : 4ull) * b->texel_components;
        RF_REQUIRE(b->size % element == 0, "%s: binding %u: %llu bytes are not a whole number of texels", shader, i,
                   (unsigned long long)b->size);
        RF_REQUIRE(b->size / element <= device->plan.caps.max_texel_elements,
                   "%s: binding %u: %llu texels are more than the device's %u", shader, i,
                   (unsigned long long)(b->size / element), device->plan.caps.max_texel_elements);
    } else {
        RF_REQUIRE(b->size <= device->plan.caps.max_storage_range,
                   "%s: binding %u: %llu bytes are more than one descriptor's %llu; bind a part", shader, i,
                   (unsigned long long)b->size, (unsigned long long)device->plan.caps.max_storage_range);
    }
    return RF_OK;
}

/* Shaders see arrays of words: the last one counts although only a part of it was asked for. */
static uint64_t storage_range(const rf_gpu_binding *b)
{
    const uint64_t whole = rf_align_up(b->size, 4);
    return whole <= b->buffer->capacity - b->offset ? whole : b->size;
}

static rf_result bind_descriptors(rf_gpu_recording *rec, const rf_gpu_pipeline *pipeline,
                                  const rf_gpu_binding *bindings)
{
    const rf_gpu_layout *layout = pipeline->layout;
    rf_gpu_device *device = rec->device;
    const uint32_t n = layout->num_bindings;
    const uint32_t texels = (uint32_t)__builtin_popcount(layout->texel_mask);
    RF_TRY(reserve_descriptors(rec, n - texels, texels));

    VkDescriptorBufferInfo buffers[RF_GPU_MAX_BINDINGS];
    VkBufferView views[RF_GPU_MAX_BINDINGS];
    VkWriteDescriptorSet writes[RF_GPU_MAX_BINDINGS];
    VkDescriptorSet set;
    for (uint32_t i = 0; i < n; i++) {
        const bool texel = layout->texel_mask >> i & 1;
        if (texel) {
            RF_TRY(get_view(rec, &bindings[i], &views[i]));
        } else {
            buffers[i] = (VkDescriptorBufferInfo){
                .buffer = bindings[i].buffer->buffer,
                .offset = bindings[i].offset,
                .range = storage_range(&bindings[i]),
            };
        }
        writes[i] = (VkWriteDescriptorSet){
            .sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
            .dstBinding = i,
            .descriptorCount = 1,
            .descriptorType = texel ? VK_DESCRIPTOR_TYPE_UNIFORM_TEXEL_BUFFER : VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
            .pBufferInfo = texel ? NULL : &buffers[i],
            .pTexelBufferView = texel ? &views[i] : NULL,
        };
    }
    const VkDescriptorSetAllocateInfo info = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
        .descriptorPool = (VkDescriptorPool)rec->descriptor_pools.items[rec->descriptor_pools.count - 1],
        .descriptorSetCount = 1,
        .pSetLayouts = &layout->set_layout,
    };
    RF_VK_TRY(device, device->vk.AllocateDescriptorSets(device->device, &info, &set), "allocating descriptors for '%s'",
              rec->name);
    rec->sets_left--;
    rec->storage_left -= n - texels;
    rec->texel_left -= texels;
    for (uint32_t i = 0; i < n; i++) writes[i].dstSet = set;
    device->vk.UpdateDescriptorSets(device->device, n, writes, 0, NULL);
    device->vk.CmdBindDescriptorSets(rec->commands, VK_PIPELINE_BIND_POINT_COMPUTE, layout->pipeline_layout, 0, 1, &set,
                                     0, NULL);
    return RF_OK;
}

/* ---- commands ---- */

static rf_result recording_bind(rf_gpu_recording *rec, const rf_gpu_pipeline *pipeline, const rf_gpu_binding *bindings,
                                const void *push)
{
    const rf_vk_device *vk = &rec->device->vk;
    const rf_gpu_layout *layout = pipeline->layout;
    if (layout->num_bindings > 0) RF_TRY(bind_descriptors(rec, pipeline, bindings));
    if (rec->bound != pipeline) {
        vk->CmdBindPipeline(rec->commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline->pipeline);
        rec->bound = pipeline;
    }
    if (layout->push_size > 0)
        vk->CmdPushConstants(rec->commands, layout->pipeline_layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, layout->push_size,
                             push);
    return RF_OK;
}

rf_result rf_gpu_record_empty_dispatch(rf_gpu_recording *rec, const rf_gpu_pipeline *pipeline,
                                       const rf_gpu_binding *bindings)
{
    void *zeros = rf_calloc(1, pipeline->layout->push_size);
    if (!zeros) return RF_ERROR_OUT_OF_HOST_MEMORY;
    const rf_result r = recording_bind(rec, pipeline, bindings, zeros);
    rf_free(zeros);
    if (r >= 0) rec->device->vk.CmdDispatch(rec->commands, 0, 1, 1);
    return r;
}

/* `base`: NULL for a whole dispatch. */
static rf_result check_grid(const rf_gpu_recording *rec, const rf_gpu_pipeline *pipeline, const uint32_t *base,
                            const uint32_t grid[3])
{
    const char *shader = pipeline->shader->name;
    RF_REQUIRE(!base || pipeline->with_base, "%s: the pipeline was not made for parts of dispatches", shader);
    for (int i = 0; i < 3; i++) {
        const uint32_t limit = rec->device->plan.caps.max_grid[i];
        RF_REQUIRE(grid[i] <= limit, "%s: grid[%d] is %u, the device's limit is %u", shader, i, grid[i], limit);
        RF_REQUIRE(!base || base[i] <= limit - grid[i],
                   "%s: %u workgroups from number %u on are more than the device's %u", shader, grid[i], base[i],
                   limit);
    }
    return RF_OK;
}

static rf_result record_dispatch(rf_gpu_recording *rec, rf_gpu_pipeline *pipeline, const rf_gpu_binding *bindings,
                                 const void *push, const uint32_t *base, const uint32_t grid[3], const char *label)
{
    RF_TRY(check_open(rec));
    RF_REQUIRE(pipeline, "recording '%s': pipeline is NULL", rec->name);
    const rf_gpu_layout *layout = pipeline->layout;
    const char *shader = pipeline->shader->name;
    RF_REQUIRE(grid, "%s: grid is NULL", shader);
    RF_REQUIRE(bindings || layout->num_bindings == 0, "%s: bindings is NULL", shader);
    RF_REQUIRE(push || layout->push_size == 0, "%s: push is NULL", shader);
    RF_TRY(check_grid(rec, pipeline, base, grid));
    for (uint32_t i = 0; i < layout->num_bindings; i++)
        RF_TRY(check_binding(rec, shader, i, &bindings[i], layout->texel_mask >> i & 1));
    if (grid[0] == 0 || grid[1] == 0 || grid[2] == 0) return RF_OK;

    const rf_vk_device *vk = &rec->device->vk;
    RF_TRY(rf_gpu_variant_note(rec, pipeline, bindings));
    RF_TRY(recording_bind(rec, pipeline, bindings, push));
    const bool labelled =
        label && rec->device->gpu->debug_utils && vk->CmdBeginDebugUtilsLabelEXT && vk->CmdEndDebugUtilsLabelEXT;
    if (labelled) {
        const VkDebugUtilsLabelEXT info = { .sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_LABEL_EXT, .pLabelName = label };
        vk->CmdBeginDebugUtilsLabelEXT(rec->commands, &info);
    }
    if (base)
        vk->CmdDispatchBase(rec->commands, base[0], base[1], base[2], grid[0], grid[1], grid[2]);
    else
        vk->CmdDispatch(rec->commands, grid[0], grid[1], grid[2]);
    rec->commands_so_far.dispatches++;
    if (labelled) vk->CmdEndDebugUtilsLabelEXT(rec->commands);
    return RF_OK;
}

rf_result rf_gpu_record_dispatch(rf_gpu_recording *rec, rf_gpu_pipeline *pipeline, const rf_gpu_binding *bindings,
                                 const void *push, const uint32_t grid[3], const char *label)
{
    return record_dispatch(rec, pipeline, bindings, push, NULL, grid, label);
}

rf_result rf_gpu_record_dispatch_part(rf_gpu_recording *rec, rf_gpu_pipeline *pipeline, const rf_gpu_binding *bindings,
                                      const void *push, const uint32_t base[3], const uint32_t grid[3],
                                      const char *label)
{
    RF_REQUIRE(base, "base is NULL");
    return record_dispatch(rec, pipeline, bindings, push, base, grid, label);
}

static rf_result check_span(const rf_gpu_recording *rec, const char *what, const rf_gpu_buffer *buffer, uint64_t offset,
                            uint64_t size)
{
    RF_REQUIRE(buffer, "recording '%s': %s buffer is NULL", rec->name, what);
    RF_REQUIRE(buffer->device == rec->device, "recording '%s': buffer '%s' belongs to another device", rec->name,
               buffer->name);
    RF_REQUIRE(offset <= buffer->capacity && size <= buffer->capacity - offset,
               "recording '%s': %s: %llu bytes at %llu do not lie in buffer '%s' of %llu", rec->name, what,
               (unsigned long long)size, (unsigned long long)offset, buffer->name, (unsigned long long)buffer->size);
    return RF_OK;
}

rf_result rf_gpu_record_copy(rf_gpu_recording *rec, rf_gpu_buffer *from, uint64_t from_offset, rf_gpu_buffer *to,
                             uint64_t to_offset, uint64_t size)
{
    RF_TRY(check_open(rec));
    RF_TRY(check_span(rec, "copy from", from, from_offset, size));
    RF_TRY(check_span(rec, "copy to", to, to_offset, size));
    RF_REQUIRE(from != to || from_offset + size <= to_offset || to_offset + size <= from_offset,
               "recording '%s': copy within buffer '%s' overlaps itself", rec->name, from->name);
    if (size == 0) return RF_OK;
    const VkBufferCopy region = { .srcOffset = from_offset, .dstOffset = to_offset, .size = size };
    rec->device->vk.CmdCopyBuffer(rec->commands, from->buffer, to->buffer, 1, &region);
    rec->commands_so_far.copies++;
    return RF_OK;
}

/* Copies that one command takes from the stack. */
#define REGIONS_AT_ONCE 128u

static rf_result check_regions(const rf_gpu_recording *rec, const rf_gpu_buffer *from, const rf_gpu_buffer *to,
                               const rf_gpu_region *regions, uint32_t count)
{
    uint64_t from_begin = UINT64_MAX, from_end = 0, to_begin = UINT64_MAX, to_end = 0;
    for (uint32_t i = 0; i < count; i++) {
        const rf_gpu_region *r = &regions[i];
        RF_TRY(check_span(rec, "copy from", from, r->from, r->size));
        RF_TRY(check_span(rec, "copy to", to, r->to, r->size));
        RF_REQUIRE(r->size > 0, "recording '%s': copy %u of several has no bytes", rec->name, i);
        if (r->from < from_begin) from_begin = r->from;
        if (r->to < to_begin) to_begin = r->to;
        if (r->from + r->size > from_end) from_end = r->from + r->size;
        if (r->to + r->size > to_end) to_end = r->to + r->size;
    }
    RF_REQUIRE(from != to || from_end <= to_begin || to_end <= from_begin,
               "recording '%s': copies within buffer '%s' overlap themselves", rec->name, from->name);
    return RF_OK;
}

rf_result rf_gpu_record_regions(rf_gpu_recording *rec, rf_gpu_buffer *from, rf_gpu_buffer *to,
                                const rf_gpu_region *regions, uint32_t count)
{
    RF_TRY(check_open(rec));
    RF_TRY(check_regions(rec, from, to, regions, count));
    for (uint32_t at = 0; at < count; at += REGIONS_AT_ONCE) {
        VkBufferCopy copies[REGIONS_AT_ONCE];
        const uint32_t n = count - at < REGIONS_AT_ONCE ? count - at : REGIONS_AT_ONCE;
        for (uint32_t i = 0; i < n; i++) {
            const rf_gpu_region *r = &regions[at + i];
            copies[i] = (VkBufferCopy){ .srcOffset = r->from, .dstOffset = r->to, .size = r->size };
        }
        rec->device->vk.CmdCopyBuffer(rec->commands, from->buffer, to->buffer, n, copies);
        rec->commands_so_far.copies++;
    }
    return RF_OK;
}

rf_result rf_gpu_record_fill(rf_gpu_recording *rec, rf_gpu_buffer *buffer, uint64_t offset, uint64_t size,
                             uint32_t word)
{
    RF_TRY(check_open(rec));
    RF_TRY(check_span(rec, "fill", buffer, offset, size));
    RF_REQUIRE(offset % 4 == 0 && size % 4 == 0,
               "recording '%s': fill of buffer '%s': offset and size must be multiples of 4", rec->name, buffer->name);
    if (size == 0) return RF_OK;
    rec->device->vk.CmdFillBuffer(rec->commands, buffer->buffer, offset, size, word);
    rec->commands_so_far.copies++;
    return RF_OK;
}

void rf_gpu_record_barrier(rf_gpu_recording *rec)
{
    if (!rec || rec->ended) return;
    recording_barrier(rec, DEVICE_STAGES, DEVICE_ACCESS);
}

rf_gpu_commands rf_gpu_recording_commands(const rf_gpu_recording *rec)
{
    return rec->commands_so_far;
}

rf_result rf_gpu_recording_end(rf_gpu_recording *rec)
{
    RF_TRY(check_open(rec));
    rf_gpu_device *device = rec->device;
    /* Whatever the device does next comes after this, and sees what was written; so does the host. All that is
     * submitted later sees what the host has written. */
    recording_barrier(rec, DEVICE_STAGES | VK_PIPELINE_STAGE_HOST_BIT, DEVICE_ACCESS | VK_ACCESS_HOST_READ_BIT);
    RF_VK_TRY(device, device->vk.EndCommandBuffer(rec->commands), "ending '%s'", rec->name);
    rec->ended = true;
    return RF_OK;
}

/* ---- timestamps ---- */

rf_result rf_gpu_record_timestamp(rf_gpu_recording *rec, uint32_t *index)
{
    RF_TRY(check_open(rec));
    RF_REQUIRE(index, "recording '%s': index is NULL", rec->name);
    rf_gpu_device *device = rec->device;
    if (device->plan.timestamp_bits == 0)
        return RF_FAIL(RF_ERROR_UNSUPPORTED, "%s: the queue has no timestamps", device->info.name);
    const uint32_t slot = rec->num_timestamps % QUERIES_PER_POOL;
    if (slot == 0) {
        RF_TRY(RF_VEC_GROW(&rec->query_pools));
        const VkQueryPoolCreateInfo info = {
            .sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO,
            .queryType = VK_QUERY_TYPE_TIMESTAMP,
            .queryCount = QUERIES_PER_POOL,
        };
        VkQueryPool pool;
        RF_VK_TRY(device, device->vk.CreateQueryPool(device->device, &info, NULL, &pool),
                  "creating a query pool for '%s'", rec->name);
        rec->query_pools.items[rec->query_pools.count++] = (uint64_t)pool;
        device->vk.CmdResetQueryPool(rec->commands, pool, 0, QUERIES_PER_POOL);
    }
    device->vk.CmdWriteTimestamp(rec->commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT,
                                 (VkQueryPool)rec->query_pools.items[rec->query_pools.count - 1], slot);
    *index = rec->num_timestamps++;
    return RF_OK;
}

/* Ticks of the first timestamps. */
static rf_result read_ticks(rf_gpu_recording *rec, uint64_t *ns, uint32_t count)
{
    RF_REQUIRE(rec, "recording is NULL");
    RF_REQUIRE(ns || count == 0, "recording '%s': ns is NULL", rec->name);
    RF_REQUIRE(count <= rec->num_timestamps, "recording '%s': %u timestamps asked for, %u recorded", rec->name, count,
               rec->num_timestamps);
    rf_gpu_device *device = rec->device;
    RF_TRY(rf_gpu_check_lost(device));
    RF_REQUIRE(rec->ticket > 0 && rf_gpu_is_done(device, rec->ticket),
               "recording '%s': no timestamps before a submission of it has finished", rec->name);
    for (uint32_t first = 0; first < count; first += QUERIES_PER_POOL) {
        const uint32_t n = count - first < QUERIES_PER_POOL ? count - first : QUERIES_PER_POOL;
        /* The submission has finished, so they are there: a driver that was asked to wait for those that it lost would
         * take the device for lost, too. */
        const VkResult vk = device->vk.GetQueryPoolResults(
            device->device, (VkQueryPool)rec->query_pools.items[first / QUERIES_PER_POOL], 0, n, n * sizeof(*ns),
            ns + first, sizeof(*ns), VK_QUERY_RESULT_64_BIT);
        if (vk == VK_NOT_READY)
            return RF_FAIL(RF_ERROR_UNSUPPORTED,
                           "recording '%s': the driver has no timestamps of a finished submission", rec->name);
        RF_VK_TRY(device, vk, "reading the timestamps of '%s'", rec->name);
    }
    return RF_OK;
}

static uint64_t tick_mask(const rf_gpu_device *device)
{
    const uint32_t bits = device->plan.timestamp_bits;
    return bits >= 64 ? UINT64_MAX : (1ull << bits) - 1;
}

rf_result rf_gpu_recording_timestamps(rf_gpu_recording *rec, uint64_t *ns, uint32_t count)
{
    RF_TRY(read_ticks(rec, ns, count));
    const uint64_t mask = tick_mask(rec->device);
    const double period = rec->device->snapshot.properties.limits.timestampPeriod;
    const uint64_t start_ticks = count > 0 ? ns[0] : 0;
    for (uint32_t i = 0; i < count; i++) ns[i] = (uint64_t)((double)((ns[i] - start_ticks) & mask) * period);
    return RF_OK;
}

/* Each timestamp is taken to lie within half a turn of the one read before it. */
static uint64_t ticks_unwrap(rf_gpu_device *device, uint64_t ticks)
{
    const uint64_t mask = tick_mask(device);
    if (!device->has_clock) {
        device->has_clock = true;
        device->clock_total = INT64_MAX / 4; /* earlier ones may be read later */
    } else {
        const uint64_t ahead = (ticks - device->clock_ticks) & mask;
        device->clock_total += ahead <= mask / 2 ? (int64_t)ahead : -(int64_t)((device->clock_ticks - ticks) & mask);
    }
    device->clock_ticks = ticks & mask;
    return (uint64_t)device->clock_total;
}

rf_result rf_gpu_recording_times(rf_gpu_recording *rec, uint64_t *ns, uint32_t count)
{
    RF_TRY(read_ticks(rec, ns, count));
    const double period = rec->device->snapshot.properties.limits.timestampPeriod;
    const uint64_t base = INT64_MAX / 4;
    for (uint32_t i = 0; i < count; i++) {
        const int64_t since = (int64_t)(ticks_unwrap(rec->device, ns[i]) - base);
        ns[i] = base + (uint64_t)(int64_t)((double)since * period);
    }
    return RF_OK;
}

bool rf_gpu_has_timestamps(const rf_gpu_device *device)
{
    return device->plan.timestamp_bits > 0;
}
