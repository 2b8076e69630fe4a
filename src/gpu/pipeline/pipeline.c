/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/philox.h"
#include "base/threads.h"
#include "gpu/internal.h"

#define MAX_COMPILE_THREADS 7 /* besides the caller's */

/* ---- layouts ---- */

static rf_result create_layout(rf_gpu_device *device, rf_gpu_layout *layout)
{
    VkDescriptorSetLayoutBinding bindings[RF_GPU_MAX_BINDINGS];
    for (uint32_t i = 0; i < layout->num_bindings; i++)
        bindings[i] = (VkDescriptorSetLayoutBinding){
            .binding = i,
            .descriptorType = layout->texel_mask >> i & 1 ? VK_DESCRIPTOR_TYPE_UNIFORM_TEXEL_BUFFER
                                                          : VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
            .descriptorCount = 1,
            .stageFlags = VK_SHADER_STAGE_COMPUTE_BIT,
        };
    const VkDescriptorSetLayoutCreateInfo set = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO,
        .bindingCount = layout->num_bindings,
        .pBindings = bindings,
    };
    RF_VK_CREATE(device, layout->set_layout,
                 device->vk.CreateDescriptorSetLayout(device->device, &set, NULL, &layout->set_layout),
                 "creating a descriptor set layout");
    const VkPushConstantRange push = { .stageFlags = VK_SHADER_STAGE_COMPUTE_BIT, .size = layout->push_size };
    const VkPipelineLayoutCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
        .setLayoutCount = 1,
        .pSetLayouts = &layout->set_layout,
        .pushConstantRangeCount = layout->push_size > 0 ? 1 : 0,
        .pPushConstantRanges = &push,
    };
    RF_VK_CREATE(device, layout->pipeline_layout,
                 device->vk.CreatePipelineLayout(device->device, &info, NULL, &layout->pipeline_layout),
                 "creating a pipeline layout");
    return RF_OK;
}

static void destroy_layout(rf_gpu_device *device, rf_gpu_layout *layout)
{
    device->vk.DestroyPipelineLayout(device->device, layout->pipeline_layout, NULL);
    device->vk.DestroyDescriptorSetLayout(device->device, layout->set_layout, NULL);
    rf_free(layout);
}

static rf_result get_layout(rf_gpu_device *device, const rf_gpu_pipeline_params *p, const rf_gpu_layout **out)
{
    for (const rf_gpu_layout *l = device->layouts; l; l = l->next)
        if (l->num_bindings == p->num_bindings && l->texel_mask == p->texel_mask && l->push_size == p->push_size) {
            *out = l;
            return RF_OK;
        }
    rf_gpu_layout *layout = RF_NEW(rf_gpu_layout);
    if (!layout) return RF_ERROR_OUT_OF_HOST_MEMORY;
    layout->num_bindings = p->num_bindings;
    layout->texel_mask = p->texel_mask;
    layout->push_size = p->push_size;
    const rf_result r = create_layout(device, layout);
    if (r < 0) {
        destroy_layout(device, layout);
        return r;
    }
    layout->next = device->layouts;
    device->layouts = layout;
    *out = layout;
    return RF_OK;
}

/* ---- pipelines ---- */

/* The subgroup size that it asks for, 0: none. */
static uint32_t required_subgroup(const rf_gpu_device *device, const rf_shader *shader)
{
    return shader->subgroup_size == RF_FULL_SUBGROUPS ? device->plan.caps.subgroup_size : shader->subgroup_size;
}

static rf_result check_params(const rf_gpu_device *device, const rf_gpu_pipeline_params *p)
{
    RF_REQUIRE(p && p->shader && p->shader->num_words > 0, "pipeline: no shader");
    const char *name = p->shader->name;
    const rf_device_caps *caps = &device->plan.caps;
    const VkPhysicalDeviceLimits *limits = &device->snapshot.properties.limits;
    RF_REQUIRE(p->spec || p->num_spec == 0, "%s: spec is NULL", name);
    RF_REQUIRE(p->num_bindings <= RF_GPU_MAX_BINDINGS, "%s: %u bindings are more than %d", name, p->num_bindings,
               RF_GPU_MAX_BINDINGS);
    RF_REQUIRE(p->num_bindings == RF_GPU_MAX_BINDINGS || p->texel_mask >> p->num_bindings == 0,
               "%s: texel_mask names a binding beyond %u", name, p->num_bindings);
    RF_REQUIRE(p->push_size % 4 == 0, "%s: push_size %u is not a multiple of 4", name, p->push_size);
    const uint32_t texels = (uint32_t)__builtin_popcount(p->texel_mask);
    if (p->push_size > caps->max_push_constants ||
        p->num_bindings - texels > limits->maxPerStageDescriptorStorageBuffers ||
        texels > limits->maxPerStageDescriptorSampledImages)
        return RF_FAIL(RF_ERROR_UNSUPPORTED,
                       "%s: %s: %u storage buffers, %u texel buffers and %u bytes of push constants are more than the "
                       "device's %u, %u and %u",
                       device->info.name, name, p->num_bindings - texels, texels, p->push_size,
                       limits->maxPerStageDescriptorStorageBuffers, limits->maxPerStageDescriptorSampledImages,
                       caps->max_push_constants);
    const uint32_t size = required_subgroup(device, p->shader);
    const VkPhysicalDeviceSubgroupSizeControlProperties *range = &device->snapshot.subgroup;
    if (size > 0 && (!caps->full_subgroups || size < range->minSubgroupSize || size > range->maxSubgroupSize))
        return RF_FAIL(RF_ERROR_UNSUPPORTED, "%s: %s needs full subgroups of %u, the device offers %s%u to %u",
                       device->info.name, name, size, caps->full_subgroups ? "" : "no full ones, sizes ",
                       range->minSubgroupSize, range->maxSubgroupSize);
    return RF_OK;
}

static VkResult create_module(const rf_gpu_device *device, const rf_gpu_pipeline *p, VkShaderModule *out)
{
    uint32_t *words = NULL, num_words = 0, *own = NULL, num_own = 0;
    const uint32_t rules =
        (device->plan.keep_loops ? RF_KEEP_LOOPS : 0u) | (device->plan.plain_stores ? RF_PLAIN_STORES : 0u);
    rf_result r = rf_gpu_specialize(p->shader, p->spec, p->num_spec, rules, &words, &num_words);
    if (r == RF_OK && !words) {
        num_words = p->shader->num_words;
        r = rf_shader_read(p->shader, &words);
    }
    if (r == RF_OK && device->plan.preserve_nans) r = rf_gpu_preserve_nans(words, num_words, &own, &num_own);
    const VkShaderModuleCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
        .codeSize = (own ? num_own : num_words) * sizeof(uint32_t),
        .pCode = own ? own : words,
    };
    VkResult made = r == RF_ERROR_OUT_OF_HOST_MEMORY ? VK_ERROR_OUT_OF_HOST_MEMORY : VK_ERROR_UNKNOWN;
    if (r == RF_OK) made = device->vk.CreateShaderModule(device->device, &info, NULL, out);
    rf_free(own);
    rf_free(words);
    return made;
}

/* Touches nothing of the device that another thread might change. */
static VkResult pipeline_compile(const rf_gpu_device *device, const rf_gpu_pipeline *p, VkPipeline *out)
{
    VkSpecializationMapEntry *entries = RF_NEW_ARRAY(VkSpecializationMapEntry, p->num_spec);
    if (!entries) return VK_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; i < p->num_spec; i++)
        entries[i] = (VkSpecializationMapEntry){ .constantID = i, .offset = i * 4, .size = 4 };
    const VkSpecializationInfo specialization = {
        /* of modules that are not specialized here */
        .mapEntryCount = p->num_spec,
        .pMapEntries = entries,
        .dataSize = p->num_spec * sizeof(uint32_t),
        .pData = p->spec,
    };
    const VkPipelineShaderStageRequiredSubgroupSizeCreateInfo subgroup = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO,
        .requiredSubgroupSize = required_subgroup(device, p->shader),
    };
    const bool full = subgroup.requiredSubgroupSize > 0;
    VkComputePipelineCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
        .stage = {
            .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
            .pNext = full ? &subgroup : NULL,
            .flags = full ? VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT : 0,
            .stage = VK_SHADER_STAGE_COMPUTE_BIT,
            .pName = "main",
            .pSpecializationInfo = p->num_spec > 0 ? &specialization : NULL,
        },
        .flags = (p->with_base ? VK_PIPELINE_CREATE_DISPATCH_BASE : 0u) |
                 (device->explains ? VK_PIPELINE_CREATE_CAPTURE_STATISTICS_BIT_KHR |
                                         VK_PIPELINE_CREATE_CAPTURE_INTERNAL_REPRESENTATIONS_BIT_KHR
                                   : 0u),
        .layout = p->layout->pipeline_layout,
    };
    VkResult r = create_module(device, p, &info.stage.module);
    if (r >= 0) {
        r = device->vk.CreateComputePipelines(device->device, device->pipeline_cache, 1, &info, NULL, out);
        device->vk.DestroyShaderModule(device->device, info.stage.module, NULL);
    }
    if (r < 0) *out = VK_NULL_HANDLE;
    rf_free(entries);
    return r;
}

static uint64_t hash_params(const rf_gpu_pipeline_params *p)
{
    const uint64_t shader = p->shader->content ? p->shader->content : (uintptr_t)p->shader;
    const uint64_t key[] = { shader, p->num_bindings, p->texel_mask, p->push_size, p->num_spec, p->with_base };
    return rf_hash_bytes(p->spec, p->num_spec * sizeof(uint32_t), rf_hash_bytes(key, sizeof(key), 0));
}

static bool same_params(const rf_gpu_pipeline *a, const rf_gpu_pipeline_params *p)
{
    return rf_shader_equal(a->shader, p->shader) && a->num_spec == p->num_spec && a->with_base == p->with_base &&
           a->layout->num_bindings == p->num_bindings && a->layout->texel_mask == p->texel_mask &&
           a->layout->push_size == p->push_size &&
           (p->num_spec == 0 || memcmp(a->spec, p->spec, p->num_spec * sizeof(uint32_t)) == 0);
}

static void destroy_pipeline(rf_gpu_device *device, rf_gpu_pipeline *pipeline)
{
    device->vk.DestroyPipeline(device->device, pipeline->pipeline, NULL);
    rf_gpu_variants_free(pipeline);
    rf_free(pipeline->spec);
    rf_free(pipeline->own_shader);
    rf_free(pipeline);
}

static rf_gpu_pipeline *find_pipeline(rf_gpu_pipeline *list, uint64_t hash, const rf_gpu_pipeline_params *params)
{
    while (list && !(list->hash == hash && same_params(list, params))) list = list->next;
    return list;
}

/* Everything but the compiled shader. */
static rf_result pipeline_describe(rf_gpu_device *device, const rf_gpu_pipeline_params *params,
                                   rf_gpu_pipeline *pipeline)
{
    const rf_shader *shader = params->shader;
    if (shader->content) {
        pipeline->own_shader = rf_shader_copy(shader->name, shader->words, shader->num_words, shader->subgroup_size);
        if (!pipeline->own_shader) return RF_ERROR_OUT_OF_HOST_MEMORY;
        shader = pipeline->own_shader;
    }
    pipeline->shader = shader;
    pipeline->num_spec = params->num_spec;
    pipeline->with_base = params->with_base;
    pipeline->spec = RF_NEW_ARRAY(uint32_t, params->num_spec);
    if (!pipeline->spec) return RF_ERROR_OUT_OF_HOST_MEMORY;
    if (params->num_spec > 0) memcpy(pipeline->spec, params->spec, params->num_spec * sizeof(uint32_t));
    return get_layout(device, params, &pipeline->layout);
}

/* Pipelines still to be compiled, by several threads. */
typedef struct compilation {
    const rf_gpu_device *device;
    rf_gpu_pipeline **pipelines;
    VkResult *results;
    uint32_t count;
    atomic_uint next;
} compilation;

static void *compile_some(void *argument)
{
    compilation *c = argument;
    for (uint32_t i; (i = atomic_fetch_add(&c->next, 1)) < c->count;)
        c->results[i] = pipeline_compile(c->device, c->pipelines[i], &c->pipelines[i]->pipeline);
    return NULL;
}

/* The longest first: none is left to one thread at the end while the others have nothing to do. */
static int compare_lengths(const void *a, const void *b)
{
    const size_t one = (*(rf_gpu_pipeline *const *)a)->shader->num_words,
                 two = (*(rf_gpu_pipeline *const *)b)->shader->num_words;
    return (one < two) - (one > two);
}

static rf_result compile_list(rf_gpu_device *device, rf_gpu_pipeline *list, uint32_t count)
{
    compilation c = { .device = device, .count = count };
    c.pipelines = RF_NEW_ARRAY(rf_gpu_pipeline *, count);
    c.results = RF_NEW_ARRAY(VkResult, count);
    rf_result r = c.pipelines && c.results ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
    if (r >= 0) {
        for (uint32_t i = 0; i < count; i++, list = list->next) c.pipelines[i] = list;
        qsort(c.pipelines, count, sizeof(*c.pipelines), compare_lengths);
        pthread_t threads[MAX_COMPILE_THREADS];
        const uint32_t cpus = rf_cpu_count(), wanted = count < cpus ? count : cpus;
        uint32_t started = 0; /* besides this one */
        while (started < MAX_COMPILE_THREADS && started + 1 < wanted &&
               pthread_create(&threads[started], NULL, compile_some, &c) == 0)
            started++;
        compile_some(&c);
        for (uint32_t i = 0; i < started; i++) pthread_join(threads[i], NULL);
        for (uint32_t i = 0; r >= 0 && i < count; i++)
            if (c.results[i] < 0)
                r = RF_GPU_FAIL(device, c.results[i], "compiling shader %s", c.pipelines[i]->shader->name);
    }
    rf_free(c.pipelines);
    rf_free(c.results);
    return r;
}

/* Puts what the device does not have yet in front of *fresh. */
static rf_result pipeline_collect(rf_gpu_device *device, const rf_gpu_pipeline_params *params, rf_gpu_pipeline **fresh,
                                  uint32_t *num_fresh, rf_gpu_pipeline **out)
{
    RF_TRY(check_params(device, params));
    const uint64_t hash = hash_params(params);
    *out = find_pipeline(device->pipelines, hash, params);
    if (!*out) *out = find_pipeline(*fresh, hash, params);
    if (*out) return RF_OK;
    rf_gpu_pipeline *pipeline = RF_NEW(rf_gpu_pipeline);
    if (!pipeline) return RF_ERROR_OUT_OF_HOST_MEMORY;
    pipeline->hash = hash;
    pipeline->next = *fresh;
    *fresh = *out = pipeline;
    ++*num_fresh;
    return pipeline_describe(device, params, pipeline);
}

rf_result rf_gpu_pipelines_get(rf_gpu_device *device, const rf_gpu_pipeline_params *params, uint32_t count,
                               rf_gpu_pipeline **out)
{
    RF_REQUIRE(out || count == 0, "out is NULL");
    for (uint32_t i = 0; i < count; i++) out[i] = NULL;
    RF_REQUIRE(device, "device is NULL");
    RF_REQUIRE(params || count == 0, "params is NULL");
    RF_TRY(rf_gpu_check_lost(device));
    rf_gpu_pipeline *fresh = NULL;
    uint32_t num_fresh = 0;
    rf_result r = RF_OK;
    for (uint32_t i = 0; r >= 0 && i < count; i++)
        r = pipeline_collect(device, &params[i], &fresh, &num_fresh, &out[i]);
    const uint64_t start = rf_now_ns();
    if (r >= 0 && num_fresh > 0) r = compile_list(device, fresh, num_fresh);
    if (r >= 0 && num_fresh > 0)
        rf_log_message(RF_LOG_DEBUG, "%s: %u of %u pipelines are new, created in %.3f s", device->info.name, num_fresh,
                       count, (double)(rf_now_ns() - start) * 1e-9);
    for (uint32_t i = 0; r < 0 && i < count; i++) out[i] = NULL;
    while (fresh) {
        rf_gpu_pipeline *pipeline = fresh;
        fresh = pipeline->next;
        if (r < 0) {
            destroy_pipeline(device, pipeline);
            continue;
        }
        rf_gpu_set_name(device, VK_OBJECT_TYPE_PIPELINE, (uint64_t)pipeline->pipeline, pipeline->shader->name);
        pipeline->next = device->pipelines;
        device->pipelines = pipeline;
    }
    return r;
}

rf_result rf_gpu_pipeline_get(rf_gpu_device *device, const rf_gpu_pipeline_params *params, rf_gpu_pipeline **out)
{
    return rf_gpu_pipelines_get(device, params, 1, out);
}

void rf_gpu_pipelines_destroy(rf_gpu_device *device)
{
    while (device->pipelines) {
        rf_gpu_pipeline *next = device->pipelines->next;
        destroy_pipeline(device, device->pipelines);
        device->pipelines = next;
    }
    while (device->layouts) {
        rf_gpu_layout *next = device->layouts->next;
        destroy_layout(device, device->layouts);
        device->layouts = next;
    }
}
