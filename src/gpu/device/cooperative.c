/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/device/cooperative.h"

#include "gpu/internal.h"

/* ---- what the device has ---- */

static void take_features(const rf_gpu *gpu, VkPhysicalDevice physical, rf_gpu_snapshot *out)
{
    VkPhysicalDeviceShaderBfloat16FeaturesKHR bfloat16 = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_BFLOAT16_FEATURES_KHR,
    };
    VkPhysicalDeviceCooperativeMatrixFeaturesKHR matrix = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR,
        .pNext = out->extensions.bfloat16 ? &bfloat16 : NULL,
    };
    VkPhysicalDeviceFeatures2 f2 = { .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, .pNext = &matrix };
    gpu->vk.GetPhysicalDeviceFeatures2(physical, &f2);
    out->cooperative_matrix = matrix.cooperativeMatrix;
    out->bfloat16_matrix = bfloat16.shaderBFloat16Type && bfloat16.shaderBFloat16CooperativeMatrix;
}

void rf_gpu_matrices_take(const rf_gpu *gpu, VkPhysicalDevice physical, rf_gpu_snapshot *out)
{
    if (!out->extensions.cooperative_matrix || !gpu->vk.GetPhysicalDeviceCooperativeMatrixPropertiesKHR) return;
    take_features(gpu, physical, out);
    VkCooperativeMatrixPropertiesKHR list[RF_GPU_MAX_MATRICES] = { { 0 } };
    for (uint32_t i = 0; i < RF_GPU_MAX_MATRICES; i++)
        list[i].sType = VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_KHR;
    uint32_t count = RF_GPU_MAX_MATRICES;
    if (gpu->vk.GetPhysicalDeviceCooperativeMatrixPropertiesKHR(physical, &count, list) < 0) count = 0;
    for (uint32_t i = 0; i < count; i++)
        out->matrices[i] = (rf_gpu_matrix){ list[i].MSize,
                                            list[i].NSize,
                                            list[i].KSize,
                                            (uint32_t)list[i].AType,
                                            (uint32_t)list[i].BType,
                                            (uint32_t)list[i].CType,
                                            (uint32_t)list[i].ResultType,
                                            (uint32_t)list[i].scope };
    out->num_matrices = count;
}

/* ---- which of them kernels use ---- */

/* Where the extension is there and does harm. */
static bool is_refused(const rf_gpu_snapshot *s, const rf_device_caps *caps)
{
    /* Xe-HPG, the first Arc, which has subgroups of 8: products get slower. */
    if (caps->driver == RF_DRIVER_INTEL && s->subgroup.minSubgroupSize < 16) return true;
    /* AMD's own driver on integrated devices: crashes. */
    if (s->properties12.driverID == VK_DRIVER_ID_AMD_PROPRIETARY &&
        s->properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU)
        return true;
    /* lavapipe's compiler crashes where registers have 16 lanes. */
    return caps->driver == RF_DRIVER_LAVAPIPE && caps->subgroup_size != 8;
}

/* The subgroup that kernels ask for, or rely on where there is but one size: the one that the matrix units are made
 * for. */
static uint32_t subgroup_for(const rf_device_caps *caps)
{
    const uint32_t size = caps->driver == RF_DRIVER_AMD     ? 32
                          : caps->driver == RF_DRIVER_INTEL ? 16
                                                            : caps->subgroup_size;
    if (size != 8 && size != 16 && size != 32) return 0; /* that there are shaders for */
    if (!caps->full_subgroups) return caps->driver == RF_DRIVER_NVIDIA ? size : 0;
    return size >= caps->min_subgroup_size && size <= caps->max_subgroup_size ? size : 0;
}

static bool is_power(uint32_t x)
{
    return x > 0 && (x & (x - 1)) == 0;
}

/* Whether the kernels' tiles can be made of it: it divides 16 x 16, 32 summands and whole vectors of four for each
 * lane. */
static bool is_usable(const rf_gpu_matrix *m, uint32_t type, uint32_t subgroup)
{
    return m->a == type && m->b == type && m->c == VK_COMPONENT_TYPE_FLOAT32_KHR &&
           m->result == VK_COMPONENT_TYPE_FLOAT32_KHR && m->scope == VK_SCOPE_SUBGROUP_KHR && is_power(m->m) &&
           is_power(m->n) && is_power(m->k) && m->m >= 8 && m->m <= 16 && m->n >= 8 && m->n <= 16 && m->k >= 8 &&
           m->k <= 32 && m->m * m->n % (4 * subgroup) == 0;
}

/* The largest, and of equal ones the first. */
static rf_matrix_shape choose_shape(const rf_gpu_snapshot *s, uint32_t type, uint32_t subgroup)
{
    rf_matrix_shape best = { 0 };
    for (uint32_t i = 0; i < s->num_matrices; i++) {
        const rf_gpu_matrix *m = &s->matrices[i];
        if (is_usable(m, type, subgroup) && m->m * m->n * m->k > best.m * best.n * best.k)
            best = (rf_matrix_shape){ m->m, m->n, m->k, subgroup };
    }
    return best;
}

void rf_gpu_matrices_plan(const rf_gpu_snapshot *s, rf_gpu_plan *plan)
{
    rf_device_caps *caps = &plan->caps;
    const uint32_t subgroup = subgroup_for(caps);
    if (!s->cooperative_matrix || !s->features12.vulkanMemoryModel || !s->features.shaderInt16 || !caps->fp16 ||
        subgroup == 0 || is_refused(s, caps))
        return;
    caps->matrix_f16 = choose_shape(s, VK_COMPONENT_TYPE_FLOAT16_KHR, subgroup);
    if (s->bfloat16_matrix) caps->matrix_bf16 = choose_shape(s, VK_COMPONENT_TYPE_BFLOAT16_KHR, subgroup);
    plan->cooperative_matrix = caps->matrix_f16.m > 0 || caps->matrix_bf16.m > 0;
    plan->bfloat16_matrix = caps->matrix_bf16.m > 0;
    plan->features12.vulkanMemoryModel = plan->cooperative_matrix;
    /* Atomics of kernels without matrices are of the device's scope, which the model forbids without this. */
    plan->features12.vulkanMemoryModelDeviceScope =
        plan->cooperative_matrix && s->features12.vulkanMemoryModelDeviceScope;
}
