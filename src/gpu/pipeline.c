/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/philox.h"
#include "gpu/internal.h"

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

static rf_result check_params(const rf_gpu_device *device, const rf_gpu_pipeline_params *p)
{
    RF_REQUIRE(p && p->shader && p->shader->words && p->shader->num_words > 0, "pipeline: no shader");
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
    const uint32_t size = p->shader->subgroup_size;
    const VkPhysicalDeviceSubgroupSizeControlProperties *range = &device->snapshot.subgroup;
    if (size > 0 && (!caps->full_subgroups || size < range->minSubgroupSize || size > range->maxSubgroupSize))
        return RF_FAIL(RF_ERROR_UNSUPPORTED, "%s: %s needs full subgroups of %u, the device offers %s%u to %u",
                       device->info.name, name, size, caps->full_subgroups ? "" : "no full ones, sizes ",
                       range->minSubgroupSize, range->maxSubgroupSize);
    return RF_OK;
}

static rf_result compile(rf_gpu_device *device, const rf_gpu_pipeline_params *p, const rf_gpu_layout *layout,
                         VkPipeline *out)
{
    const VkShaderModuleCreateInfo module_info = {
        .sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
        .codeSize = p->shader->num_words * sizeof(uint32_t),
        .pCode = p->shader->words,
    };
    VkSpecializationMapEntry *entries = RF_NEW_ARRAY(VkSpecializationMapEntry, p->num_spec);
    if (!entries) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; i < p->num_spec; i++)
        entries[i] = (VkSpecializationMapEntry){ .constantID = i, .offset = i * 4, .size = 4 };
    const VkSpecializationInfo specialization = {
        .mapEntryCount = p->num_spec,
        .pMapEntries = entries,
        .dataSize = p->num_spec * sizeof(uint32_t),
        .pData = p->spec,
    };
    const VkPipelineShaderStageRequiredSubgroupSizeCreateInfo subgroup = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO,
        .requiredSubgroupSize = p->shader->subgroup_size,
    };
    const bool full = p->shader->subgroup_size > 0;
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
        .layout = layout->pipeline_layout,
    };
    VkResult r = device->vk.CreateShaderModule(device->device, &module_info, NULL, &info.stage.module);
    if (r >= 0) {
        r = device->vk.CreateComputePipelines(device->device, device->pipeline_cache, 1, &info, NULL, out);
        device->vk.DestroyShaderModule(device->device, info.stage.module, NULL);
    }
    rf_free(entries);
    RF_VK_TRY(device, r, "compiling shader %s", p->shader->name);
    return RF_OK;
}

static uint64_t hash_params(const rf_gpu_pipeline_params *p)
{
    const uint64_t key[] = { (uintptr_t)p->shader, p->num_bindings, p->texel_mask, p->push_size, p->num_spec };
    return rf_hash_bytes(p->spec, p->num_spec * sizeof(uint32_t), rf_hash_bytes(key, sizeof(key), 0));
}

static bool same_params(const rf_gpu_pipeline *a, const rf_gpu_pipeline_params *p)
{
    return a->shader == p->shader && a->num_spec == p->num_spec && a->layout->num_bindings == p->num_bindings &&
           a->layout->texel_mask == p->texel_mask && a->layout->push_size == p->push_size &&
           (p->num_spec == 0 || memcmp(a->spec, p->spec, p->num_spec * sizeof(uint32_t)) == 0);
}

static void destroy_pipeline(rf_gpu_device *device, rf_gpu_pipeline *pipeline)
{
    device->vk.DestroyPipeline(device->device, pipeline->pipeline, NULL);
    rf_free(pipeline->spec);
    rf_free(pipeline);
}

static rf_result create_pipeline(rf_gpu_device *device, const rf_gpu_pipeline_params *params, rf_gpu_pipeline *pipeline)
{
    pipeline->shader = params->shader;
    pipeline->num_spec = params->num_spec;
    pipeline->spec = RF_NEW_ARRAY(uint32_t, params->num_spec);
    if (!pipeline->spec) return RF_ERROR_OUT_OF_HOST_MEMORY;
    if (params->num_spec > 0) memcpy(pipeline->spec, params->spec, params->num_spec * sizeof(uint32_t));
    RF_TRY(get_layout(device, params, &pipeline->layout));
    RF_TRY(compile(device, params, pipeline->layout, &pipeline->pipeline));
    rf_gpu_set_name(device, VK_OBJECT_TYPE_PIPELINE, (uint64_t)pipeline->pipeline, params->shader->name);
    return RF_OK;
}

rf_result rf_gpu_pipeline_get(rf_gpu_device *device, const rf_gpu_pipeline_params *params, rf_gpu_pipeline **out)
{
    RF_REQUIRE(out, "out is NULL");
    *out = NULL;
    RF_REQUIRE(device, "device is NULL");
    RF_TRY(rf_gpu_check_lost(device));
    RF_TRY(check_params(device, params));
    const uint64_t hash = hash_params(params);
    for (rf_gpu_pipeline *p = device->pipelines; p; p = p->next)
        if (p->hash == hash && same_params(p, params)) {
            *out = p;
            return RF_OK;
        }
    rf_gpu_pipeline *pipeline = RF_NEW(rf_gpu_pipeline);
    if (!pipeline) return RF_ERROR_OUT_OF_HOST_MEMORY;
    pipeline->hash = hash;
    const rf_result r = create_pipeline(device, params, pipeline);
    if (r < 0) {
        destroy_pipeline(device, pipeline);
        return r;
    }
    pipeline->next = device->pipelines;
    device->pipelines = pipeline;
    *out = pipeline;
    return RF_OK;
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
