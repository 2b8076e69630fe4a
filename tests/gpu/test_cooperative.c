/* SPDX-License-Identifier: Apache-2.0 */
/* Which cooperative matrices kernels use, on made-up devices that list what drivers do. No Vulkan needed. */
#include "gpu_test.h"

#include <string.h>

#include "gpu/device/plan.h"
#include "tests/room.h"

enum { F16 = 0, F32 = 1, S8 = 3, S32 = 5, BF16 = VK_COMPONENT_TYPE_BFLOAT16_KHR, SUBGROUP = 3, WORKGROUP = 2 };

/* A device that has all that products of f16 take, in a list of one. */
static rf_gpu_snapshot device(VkDriverId driver, VkPhysicalDeviceType type, uint32_t subgroup, uint32_t least,
                              uint32_t most)
{
    rf_gpu_snapshot s = { 0 };
    s.properties.apiVersion = VK_API_VERSION_1_3;
    s.properties.deviceType = type;
    s.properties12.driverID = driver;
    s.properties11.subgroupSize = subgroup;
    s.subgroup.minSubgroupSize = least;
    s.subgroup.maxSubgroupSize = most;
    s.subgroup.requiredSubgroupSizeStages = VK_SHADER_STAGE_COMPUTE_BIT;
    s.subgroup_features.subgroupSizeControl = s.subgroup_features.computeFullSubgroups = VK_TRUE;
    s.features.shaderInt16 = VK_TRUE;
    s.features11.storageBuffer16BitAccess = VK_TRUE;
    s.features12.timelineSemaphore = s.features12.shaderFloat16 = s.features12.vulkanMemoryModel = VK_TRUE;
    s.memory.memoryHeapCount = s.memory.memoryTypeCount = 1;
    s.memory.memoryHeaps[0] = (VkMemoryHeap){ 1ull << 30, VK_MEMORY_HEAP_DEVICE_LOCAL_BIT };
    s.memory.memoryTypes[0] = (VkMemoryType){ VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT | VISIBLE, 0 };
    s.families[s.num_families++] = (VkQueueFamilyProperties){ VK_QUEUE_COMPUTE_BIT, 1, 64, { 0 } };
    s.cooperative_matrix = true;
    return s;
}

static void add_matrix(rf_gpu_snapshot *s, uint32_t m, uint32_t n, uint32_t k, uint32_t operands, uint32_t sums)
{
    s->matrices[s->num_matrices++] = (rf_gpu_matrix){ m, n, k, operands, operands, sums, sums, SUBGROUP };
}

static rf_gpu_plan plan_of(const rf_gpu_snapshot *s)
{
    rf_gpu_plan plan;
    rf_gpu_plan_device(s, false, &plan);
    assert_string_equal(plan.unusable_reason, "");
    assert_int_equal(plan.cooperative_matrix, plan.caps.matrix_f16.m > 0 || plan.caps.matrix_bf16.m > 0);
    assert_int_equal(plan.bfloat16_matrix, plan.caps.matrix_bf16.m > 0);
    assert_int_equal(plan.features12.vulkanMemoryModel, plan.cooperative_matrix);
    return plan;
}

static void expect_shape(const rf_matrix_shape *got, uint32_t m, uint32_t n, uint32_t k, uint32_t subgroup)
{
    const rf_matrix_shape expected = { m, n, k, subgroup };
    assert_memory_equal(got, &expected, sizeof(expected));
}

static void expect_none(const rf_gpu_snapshot *s)
{
    const rf_gpu_plan plan = plan_of(s);
    expect_shape(&plan.caps.matrix_f16, 0, 0, 0, 0);
    expect_shape(&plan.caps.matrix_bf16, 0, 0, 0, 0);
}

static rf_gpu_snapshot lavapipe(uint32_t lanes)
{
    rf_gpu_snapshot s = device(VK_DRIVER_ID_MESA_LLVMPIPE, VK_PHYSICAL_DEVICE_TYPE_CPU, lanes, lanes, lanes);
    add_matrix(&s, 8, 8, 8, S8, S32);
    add_matrix(&s, 8, 8, 8, F16, F16);
    add_matrix(&s, 8, 8, 8, F16, F32);
    return s;
}

static rf_gpu_snapshot rdna3(void)
{
    rf_gpu_snapshot s = device(VK_DRIVER_ID_MESA_RADV, VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU, 64, 32, 64);
    add_matrix(&s, 16, 16, 16, F16, F32);
    add_matrix(&s, 16, 16, 16, F16, F16);
    return s;
}

static rf_gpu_snapshot nvidia(void)
{
    rf_gpu_snapshot s = device(VK_DRIVER_ID_NVIDIA_PROPRIETARY, VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU, 32, 32, 32);
    add_matrix(&s, 16, 8, 8, F16, F32);
    add_matrix(&s, 16, 8, 16, F16, F32);
    add_matrix(&s, 16, 16, 16, F16, F16);
    add_matrix(&s, 16, 16, 16, F16, F32);
    add_matrix(&s, 16, 16, 16, BF16, F32);
    add_matrix(&s, 16, 8, 32, S8, S32);
    s.bfloat16_matrix = true;
    return s;
}

static rf_gpu_snapshot intel(uint32_t least)
{
    rf_gpu_snapshot s =
        device(VK_DRIVER_ID_INTEL_OPEN_SOURCE_MESA, VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU, 32, least, 32);
    add_matrix(&s, 8, 16, 16, F16, F32);
    add_matrix(&s, 8, 16, 16, BF16, F32);
    s.bfloat16_matrix = true;
    return s;
}

TEST(test_shapes)
{
    rf_gpu_snapshot s = lavapipe(8);
    rf_gpu_plan plan = plan_of(&s);
    expect_shape(&plan.caps.matrix_f16, 8, 8, 8, 8);
    expect_shape(&plan.caps.matrix_bf16, 0, 0, 0, 0);
    s = rdna3();
    plan = plan_of(&s);
    expect_shape(&plan.caps.matrix_f16, 16, 16, 16, 32);
    s = nvidia();
    plan = plan_of(&s);
    expect_shape(&plan.caps.matrix_f16, 16, 16, 16, 32);
    expect_shape(&plan.caps.matrix_bf16, 16, 16, 16, 32);
    s.num_matrices = 2; /* those of 16 x 8 alone */
    plan = plan_of(&s);
    expect_shape(&plan.caps.matrix_f16, 16, 8, 16, 32);
    s = intel(16);
    plan = plan_of(&s);
    expect_shape(&plan.caps.matrix_f16, 8, 16, 16, 16);
    expect_shape(&plan.caps.matrix_bf16, 8, 16, 16, 16);
}

/* NVK cannot be asked for a subgroup's size, and has but one; others without that choice are left alone. */
TEST(test_without_size_control)
{
    rf_gpu_snapshot s = nvidia();
    s.subgroup.requiredSubgroupSizeStages = 0;
    rf_gpu_plan plan = plan_of(&s);
    assert_false(plan.caps.full_subgroups);
    expect_shape(&plan.caps.matrix_f16, 16, 16, 16, 32);
    s = rdna3();
    s.subgroup.requiredSubgroupSizeStages = 0;
    expect_none(&s);
    s = rdna3();
    s.subgroup.minSubgroupSize = 64; /* no 32 to ask for */
    expect_none(&s);
}

TEST(test_refused)
{
    rf_gpu_snapshot s = intel(8); /* Xe-HPG */
    expect_none(&s);
    s = lavapipe(16);
    expect_none(&s);
    s = rdna3();
    s.properties12.driverID = VK_DRIVER_ID_AMD_PROPRIETARY;
    assert_true(plan_of(&s).cooperative_matrix);
    s.properties.deviceType = VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU;
    expect_none(&s);
}

TEST(test_features)
{
    rf_gpu_snapshot s = rdna3();
    s.cooperative_matrix = false; /* a list alone says nothing */
    expect_none(&s);
    s = rdna3();
    s.features12.vulkanMemoryModel = VK_FALSE;
    expect_none(&s);
    s = rdna3();
    s.features12.shaderFloat16 = VK_FALSE;
    expect_none(&s);
    s = rdna3();
    s.features11.storageBuffer16BitAccess = VK_FALSE;
    expect_none(&s);
    s = nvidia();
    s.bfloat16_matrix = false;
    const rf_gpu_plan plan = plan_of(&s);
    expect_shape(&plan.caps.matrix_f16, 16, 16, 16, 32);
    expect_shape(&plan.caps.matrix_bf16, 0, 0, 0, 0);
}

/* Shapes that tiles are not made of. */
TEST(test_unusable_shapes)
{
    rf_gpu_snapshot s = nvidia();
    s.num_matrices = 0;
    add_matrix(&s, 32, 32, 16, F16, F32);
    add_matrix(&s, 16, 12, 16, F16, F32);
    add_matrix(&s, 8, 8, 16, F16, F32); /* less than four elements for each lane */
    add_matrix(&s, 16, 16, 64, F16, F32);
    add_matrix(&s, 16, 16, 16, F16, F16);
    add_matrix(&s, 16, 16, 16, F16, F32);
    s.matrices[5].scope = WORKGROUP;
    expect_none(&s);
}

TEST(test_clamp)
{
    const rf_gpu_snapshot s = nvidia();
    rf_gpu_plan plan;
    rf_gpu_plan_device(&s, true, &plan);
    expect_shape(&plan.caps.matrix_f16, 0, 0, 0, 0);
    expect_shape(&plan.caps.matrix_bf16, 0, 0, 0, 0);
}

TEST(test_describe)
{
    const rf_gpu_snapshot s = nvidia(), none = intel(8);
    rf_device_info info;
    const uint32_t expected[3] = { 16, 16, 16 }, nothing[3] = { 0 };
    rf_gpu_describe(&s, 0, &info);
    assert_memory_equal(info.matrix_f16, expected, sizeof(expected));
    assert_memory_equal(info.matrix_bf16, expected, sizeof(expected));
    rf_gpu_describe(&none, 0, &info);
    assert_memory_equal(info.matrix_f16, nothing, sizeof(nothing));
}

TESTS(cooperative, NULL, NULL)
