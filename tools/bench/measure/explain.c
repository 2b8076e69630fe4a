/* SPDX-License-Identifier: Apache-2.0 */
/* Statistics and machine code of pipelines, by the driver's compiler (VK_KHR_pipeline_executable_properties). */
#include <stdio.h>
#include <string.h>

#include "bench/measure/statistics.h"
#include "gpu/internal.h"

/* Drivers call the text that is nearest to the machine's instructions by names that contain one of these. The best
 * first. */
static const char *const code_names[] = { "Assembly", "assembly", "SASS", "AGX", "NAK", "disassembly", "ISA" };

static double value_of(const VkPipelineExecutableStatisticKHR *s)
{
    switch (s->format) {
    case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_BOOL32_KHR: return s->value.b32 ? 1 : 0;
    case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_INT64_KHR: return (double)s->value.i64;
    case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_UINT64_KHR: return (double)s->value.u64;
    case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_FLOAT64_KHR: return s->value.f64;
    default: return 0;
    }
}

static rf_result add_statistics(rf_gpu_device *device, const VkPipelineExecutableInfoKHR *executable,
                                rf_gpu_explanation *out)
{
    uint32_t count = 0;
    RF_VK_TRY(device, device->vk.GetPipelineExecutableStatisticsKHR(device->device, executable, &count, NULL),
              "asking for a pipeline's statistics");
    VkPipelineExecutableStatisticKHR *list = RF_NEW_ARRAY(VkPipelineExecutableStatisticKHR, count);
    rf_gpu_statistic *all = RF_NEW_ARRAY(rf_gpu_statistic, out->num_statistics + count);
    rf_result r = list && all ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; list && i < count; i++) list[i].sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_STATISTIC_KHR;
    if (r >= 0) {
        const VkResult got = device->vk.GetPipelineExecutableStatisticsKHR(device->device, executable, &count, list);
        if (got < 0) r = RF_GPU_FAIL(device, got, "asking for a pipeline's statistics");
    }
    if (r >= 0) {
        if (out->num_statistics > 0) memcpy(all, out->statistics, out->num_statistics * sizeof(*all));
        for (uint32_t i = 0; i < count; i++) {
            rf_gpu_statistic *s = &all[out->num_statistics++];
            snprintf(s->name, sizeof(s->name), "%s", list[i].name);
            s->value = value_of(&list[i]);
        }
        rf_free(out->statistics);
        out->statistics = all;
        all = NULL;
    }
    rf_free(all);
    rf_free(list);
    return r;
}

/* The index of the text that is the machine's code; `count` where none is. */
static uint32_t find_code(const VkPipelineExecutableInternalRepresentationKHR *list, uint32_t count)
{
    for (size_t k = 0; k < sizeof(code_names) / sizeof(code_names[0]); k++)
        for (uint32_t i = 0; i < count; i++)
            if (list[i].isText && strstr(list[i].name, code_names[k])) return i;
    return count;
}

static rf_result take_code(rf_gpu_device *device, const VkPipelineExecutableInfoKHR *executable, uint32_t count,
                           VkPipelineExecutableInternalRepresentationKHR *list, rf_gpu_explanation *out)
{
    RF_VK_TRY(device,
              device->vk.GetPipelineExecutableInternalRepresentationsKHR(device->device, executable, &count, list),
              "asking for a pipeline's code");
    const uint32_t found = find_code(list, count);
    if (found == count || out->code) return RF_OK;
    const size_t size = list[found].dataSize;
    out->code = rf_calloc(size + 1, 1);
    if (!out->code) return RF_ERROR_OUT_OF_HOST_MEMORY;
    list[found].pData = out->code; /* of the others only the size is asked for once more */
    RF_VK_TRY(device,
              device->vk.GetPipelineExecutableInternalRepresentationsKHR(device->device, executable, &count, list),
              "asking for a pipeline's code");
    return RF_OK;
}

static rf_result add_code(rf_gpu_device *device, const VkPipelineExecutableInfoKHR *executable, rf_gpu_explanation *out)
{
    uint32_t count = 0;
    RF_VK_TRY(device,
              device->vk.GetPipelineExecutableInternalRepresentationsKHR(device->device, executable, &count, NULL),
              "asking for a pipeline's code");
    if (count == 0) return RF_OK;
    VkPipelineExecutableInternalRepresentationKHR *list =
        RF_NEW_ARRAY(VkPipelineExecutableInternalRepresentationKHR, count);
    if (!list) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; i < count; i++)
        list[i].sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INTERNAL_REPRESENTATION_KHR;
    const rf_result r = take_code(device, executable, count, list, out);
    rf_free(list);
    return r;
}

rf_result rf_gpu_pipeline_explain(rf_gpu_device *device, const rf_gpu_pipeline *pipeline, rf_gpu_explanation *out)
{
    *out = (rf_gpu_explanation){ 0 };
    if (!device->explains) return RF_OK;
    const VkPipelineInfoKHR info = { .sType = VK_STRUCTURE_TYPE_PIPELINE_INFO_KHR, .pipeline = pipeline->pipeline };
    uint32_t count = 0;
    RF_VK_TRY(device, device->vk.GetPipelineExecutablePropertiesKHR(device->device, &info, &count, NULL),
              "asking for a pipeline's parts");
    VkPipelineExecutablePropertiesKHR *parts = RF_NEW_ARRAY(VkPipelineExecutablePropertiesKHR, count);
    if (!parts) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; i < count; i++) parts[i].sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_PROPERTIES_KHR;
    rf_result r = RF_OK;
    const VkResult got = device->vk.GetPipelineExecutablePropertiesKHR(device->device, &info, &count, parts);
    if (got < 0) r = RF_GPU_FAIL(device, got, "asking for a pipeline's parts");
    for (uint32_t i = 0; r >= 0 && i < count; i++) {
        const VkPipelineExecutableInfoKHR executable = {
            .sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INFO_KHR,
            .pipeline = pipeline->pipeline,
            .executableIndex = i,
        };
        if (parts[i].subgroupSize > 0) out->subgroup_size = parts[i].subgroupSize;
        r = add_statistics(device, &executable, out);
        if (r >= 0) r = add_code(device, &executable, out);
    }
    rf_free(parts);
    return r;
}

void rf_gpu_explanation_free(rf_gpu_explanation *explanation)
{
    rf_free(explanation->statistics);
    rf_free(explanation->code);
    *explanation = (rf_gpu_explanation){ 0 };
}
