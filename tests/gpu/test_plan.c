/* SPDX-License-Identifier: Apache-2.0 */
/* Decisions about devices that are not at hand: made-up snapshots, no Vulkan needed. */
#include "gpu_test.h"

#include <stdio.h>
#include <string.h>

#include "gpu/device/plan.h"
#include "tests/room.h"

#define LOCAL VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT
#define GIB (1ull << 30)

static void add_heap(rf_gpu_snapshot *s, uint64_t size, bool local)
{
    s->memory.memoryHeaps[s->memory.memoryHeapCount++] =
        (VkMemoryHeap){ size, local ? VK_MEMORY_HEAP_DEVICE_LOCAL_BIT : 0 };
}

static void add_type(rf_gpu_snapshot *s, VkMemoryPropertyFlags flags, uint32_t heap)
{
    s->memory.memoryTypes[s->memory.memoryTypeCount++] = (VkMemoryType){ flags, heap };
}

static void add_family(rf_gpu_snapshot *s, VkQueueFlags flags, uint32_t timestamp_bits)
{
    s->families[s->num_families++] =
        (VkQueueFamilyProperties){ .queueFlags = flags, .queueCount = 1, .timestampValidBits = timestamp_bits };
}

/* A discrete card: 8 GiB of its own, a 256 MiB window into it, and the host's memory. */
static rf_gpu_snapshot discrete(void)
{
    rf_gpu_snapshot s = { 0 };
    VkPhysicalDeviceProperties *p = &s.properties;
    strcpy(p->deviceName, "Made-up 1000");
    p->apiVersion = VK_API_VERSION_1_3;
    p->deviceType = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
    p->vendorID = 0x1002;
    p->limits.maxComputeWorkGroupInvocations = 1024;
    p->limits.maxComputeSharedMemorySize = 65536;
    p->limits.maxPushConstantsSize = 256;
    p->limits.maxStorageBufferRange = UINT32_MAX;
    p->limits.maxTexelBufferElements = 1u << 27;
    p->limits.minStorageBufferOffsetAlignment = 4;
    p->limits.minTexelBufferOffsetAlignment = 16;
    p->limits.nonCoherentAtomSize = 64;
    for (int i = 0; i < 3; i++) {
        p->limits.maxComputeWorkGroupSize[i] = 1024;
        p->limits.maxComputeWorkGroupCount[i] = UINT32_MAX;
    }
    s.properties12.driverID = VK_DRIVER_ID_MESA_RADV;
    s.properties11.subgroupSize = 64;
    s.properties11.subgroupSupportedStages = VK_SHADER_STAGE_COMPUTE_BIT;
    s.properties11.subgroupSupportedOperations =
        VK_SUBGROUP_FEATURE_BASIC_BIT | VK_SUBGROUP_FEATURE_SHUFFLE_BIT | VK_SUBGROUP_FEATURE_ARITHMETIC_BIT;
    s.subgroup.minSubgroupSize = 32;
    s.subgroup.maxSubgroupSize = 64;
    s.subgroup.requiredSubgroupSizeStages = VK_SHADER_STAGE_COMPUTE_BIT;
    s.subgroup_features.subgroupSizeControl = s.subgroup_features.computeFullSubgroups = VK_TRUE;
    s.features.robustBufferAccess = s.features.shaderInt64 = VK_TRUE;
    s.features11.storageBuffer16BitAccess = VK_TRUE;
    s.features12.timelineSemaphore = s.features12.shaderFloat16 = VK_TRUE;
    s.max_buffer_size = 4 * GIB;
    s.properties11.maxMemoryAllocationSize = 2 * GIB;
    add_heap(&s, 8 * GIB, true);
    add_heap(&s, GIB / 4, true);
    add_heap(&s, 16 * GIB, false);
    add_type(&s, VISIBLE, 2);
    add_type(&s, LOCAL, 0);
    add_type(&s, LOCAL | VISIBLE, 1);
    add_type(&s, VISIBLE | CACHED, 2);
    add_type(&s, LOCAL | VISIBLE | VK_MEMORY_PROPERTY_DEVICE_COHERENT_BIT_AMD, 0);
    add_family(&s, VK_QUEUE_TRANSFER_BIT, 64);
    add_family(&s, VK_QUEUE_GRAPHICS_BIT | VK_QUEUE_COMPUTE_BIT | VK_QUEUE_TRANSFER_BIT, 64);
    add_family(&s, VK_QUEUE_COMPUTE_BIT | VK_QUEUE_TRANSFER_BIT, 64);
    return s;
}

static rf_gpu_snapshot integrated(void)
{
    rf_gpu_snapshot s = discrete();
    s.properties.deviceType = VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU;
    memset(&s.memory, 0, sizeof(s.memory));
    add_heap(&s, 12 * GIB, true);
    add_type(&s, LOCAL, 0);
    add_type(&s, LOCAL | VISIBLE, 0);
    add_type(&s, LOCAL | VISIBLE | CACHED, 0);
    return s;
}

static int memory_type(const rf_gpu_snapshot *s, rf_gpu_memory kind)
{
    return rf_gpu_plan_memory(s, kind, UINT32_MAX);
}

TEST(test_discrete)
{
    const rf_gpu_snapshot s = discrete();
    rf_gpu_plan plan;
    rf_gpu_plan_device(&s, false, &plan);
    assert_string_equal(plan.unusable_reason, "");
    assert_int_equal(plan.queue_family, 2);
    assert_int_equal(plan.timestamp_bits, 64);
    assert_int_equal(memory_type(&s, RF_GPU_MEMORY_DEVICE), 1);
    assert_int_equal(memory_type(&s, RF_GPU_MEMORY_UPLOAD), 0);
    assert_int_equal(memory_type(&s, RF_GPU_MEMORY_READBACK), 3);
    const rf_device_caps *c = &plan.caps;
    assert_int_equal(c->driver, RF_DRIVER_AMD);
    assert_false(c->host_visible);
    assert_false(c->is_cpu);
    assert_true(c->full_subgroups && c->subgroup_shuffle && c->subgroup_arithmetic && !c->subgroup_ballot);
    assert_int_equal(c->subgroup_size, 64);
    assert_int_equal(c->min_subgroup_size, 32);
    assert_int_equal(c->max_subgroup_size, 64);
    assert_true(c->fp16 && c->int64 && !c->int8);
    assert_int_equal(c->buffer_alignment, 64);
    assert_int_equal(c->memory_size, 8 * GIB + GIB / 4);
    assert_int_equal(c->max_allocation, 2 * GIB);
    assert_int_equal(c->max_storage_range, UINT32_MAX);
    /* Features that cost or are not used stay off. */
    assert_false(plan.features.robustBufferAccess);
    assert_true(plan.features.shaderInt64);
    assert_true(plan.features12.timelineSemaphore);
}

TEST(test_compute_units)
{
    const rf_gpu_snapshot made[] = { discrete(), integrated() };
    uint32_t assumed[2];
    for (int i = 0; i < 2; i++) {
        rf_gpu_snapshot s = made[i];
        rf_gpu_plan plan;
        rf_gpu_plan_device(&s, false, &plan);
        assumed[i] = plan.caps.compute_units;
        s.compute_units = 132; /* what the device says counts */
        rf_gpu_plan_device(&s, false, &plan);
        assert_int_equal(plan.caps.compute_units, 132);
    }
    assert_true(assumed[1] > 0 && assumed[0] > assumed[1]);
}

TEST(test_discrete_resizable_bar)
{
    rf_gpu_snapshot s = discrete();
    s.memory.memoryTypes[2].heapIndex = 0; /* the window covers everything: kernels still get the unmapped type */
    assert_int_equal(memory_type(&s, RF_GPU_MEMORY_DEVICE), 1);
    /* ... unless it is the only one. */
    assert_int_equal(rf_gpu_plan_memory(&s, RF_GPU_MEMORY_DEVICE, 1u << 0 | 1u << 2), 2);
    assert_int_equal(rf_gpu_plan_memory(&s, RF_GPU_MEMORY_DEVICE, 1u << 4), -1);
}

TEST(test_integrated)
{
    rf_gpu_snapshot s = integrated();
    rf_gpu_plan plan;
    rf_gpu_plan_device(&s, false, &plan);
    assert_string_equal(plan.unusable_reason, "");
    assert_true(plan.caps.host_visible);
    assert_int_equal(memory_type(&s, RF_GPU_MEMORY_DEVICE), 2);
    assert_int_equal(memory_type(&s, RF_GPU_MEMORY_UPLOAD), 1);
    assert_int_equal(memory_type(&s, RF_GPU_MEMORY_READBACK), 2);
    /* A carve-out whose mapped window is small: the big heap wins. */
    add_heap(&s, GIB / 4, true);
    s.memory.memoryTypes[1].heapIndex = s.memory.memoryTypes[2].heapIndex = 1;
    assert_int_equal(memory_type(&s, RF_GPU_MEMORY_DEVICE), 0);
    rf_gpu_plan_device(&s, false, &plan);
    assert_false(plan.caps.host_visible);
}

/* Many phones have cached memory that is not coherent. Reading is worth an invalidation, writing no flush. */
TEST(test_incoherent)
{
    rf_gpu_plan plan;
    rf_gpu_snapshot s = integrated();
    s.memory.memoryTypes[2].propertyFlags = LOCAL | CACHED | VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT;
    assert_int_equal(memory_type(&s, RF_GPU_MEMORY_DEVICE), 1);
    assert_int_equal(memory_type(&s, RF_GPU_MEMORY_UPLOAD), 1);
    assert_int_equal(memory_type(&s, RF_GPU_MEMORY_READBACK), 2);
    rf_gpu_plan_device(&s, false, &plan);
    assert_true(plan.caps.host_visible);
    /* Nothing coherent at all: everything goes through flushes, and device memory is not mapped. */
    s.memory.memoryTypes[1].propertyFlags = LOCAL | VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT;
    assert_int_equal(memory_type(&s, RF_GPU_MEMORY_UPLOAD), 1);
    assert_int_equal(memory_type(&s, RF_GPU_MEMORY_READBACK), 2);
    rf_gpu_plan_device(&s, false, &plan);
    assert_string_equal(plan.unusable_reason, "");
    assert_false(plan.caps.host_visible);
    /* A card keeps what it had: its cached type is coherent. */
    s = discrete();
    add_type(&s, CACHED | VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT, 2);
    assert_int_equal(memory_type(&s, RF_GPU_MEMORY_UPLOAD), 0);
    assert_int_equal(memory_type(&s, RF_GPU_MEMORY_READBACK), 3);
}

TEST(test_queue_family)
{
    rf_gpu_snapshot s = discrete();
    rf_gpu_plan plan;
    s.families[2].timestampValidBits = 0; /* a clock is worth more than a queue of its own */
    rf_gpu_plan_device(&s, false, &plan);
    assert_int_equal(plan.queue_family, 1);
    s.families[1].timestampValidBits = 0;
    rf_gpu_plan_device(&s, false, &plan);
    assert_int_equal(plan.queue_family, 2);
    assert_int_equal(plan.timestamp_bits, 0);
    s.num_families = 1;
    rf_gpu_plan_device(&s, false, &plan);
    assert_string_equal(plan.unusable_reason, "no compute queue");
}

TEST(test_unusable)
{
    rf_gpu_plan plan;
    rf_device_info info;
    rf_gpu_snapshot s = discrete();
    s.properties.apiVersion = VK_MAKE_API_VERSION(0, 1, 1, 131);
    rf_gpu_describe(&s, 3, &info);
    assert_false(info.usable);
    assert_string_equal(info.unusable_reason, "Vulkan 1.1, but 1.2 is needed: update the driver");
    s = discrete();
    s.features12.timelineSemaphore = VK_FALSE;
    rf_gpu_plan_device(&s, false, &plan);
    assert_string_equal(plan.unusable_reason, "no timeline semaphores: update the driver");
    s = discrete();
    s.memory.memoryTypes[0].propertyFlags = s.memory.memoryTypes[3].propertyFlags = 0;
    s.memory.memoryTypes[2].propertyFlags = LOCAL;
    rf_gpu_plan_device(&s, false, &plan);
    assert_string_equal(plan.unusable_reason, "no memory that the host can map");
}

TEST(test_subgroups)
{
    rf_gpu_plan plan;
    rf_gpu_snapshot s = discrete();
    s.subgroup_features.computeFullSubgroups = VK_FALSE;
    rf_gpu_plan_device(&s, false, &plan);
    assert_false(plan.caps.full_subgroups);
    s = discrete();
    s.subgroup.requiredSubgroupSizeStages = VK_SHADER_STAGE_FRAGMENT_BIT;
    rf_gpu_plan_device(&s, false, &plan);
    assert_false(plan.caps.full_subgroups);
    s = discrete();
    s.properties11.subgroupSupportedStages = VK_SHADER_STAGE_FRAGMENT_BIT;
    rf_gpu_plan_device(&s, false, &plan);
    assert_false(plan.caps.subgroup_shuffle || plan.caps.subgroup_arithmetic);
}

TEST(test_preserve_nans)
{
    rf_gpu_plan plan;
    rf_gpu_snapshot s = discrete();
    rf_gpu_plan_device(&s, false, &plan);
    assert_false(plan.preserve_nans); /* not offered */
    s.properties12.shaderSignedZeroInfNanPreserveFloat32 = VK_TRUE;
    rf_gpu_plan_device(&s, false, &plan);
    assert_true(plan.preserve_nans);
    s.properties.deviceType = VK_PHYSICAL_DEVICE_TYPE_CPU;
    rf_gpu_plan_device(&s, false, &plan);
    assert_false(plan.preserve_nans);
}

TEST(test_keep_loops)
{
    rf_gpu_plan plan;
    rf_gpu_snapshot s = discrete();
    rf_gpu_plan_device(&s, false, &plan);
    assert_false(plan.keep_loops);
    s.properties12.driverID = VK_DRIVER_ID_GOOGLE_SWIFTSHADER;
    rf_gpu_plan_device(&s, false, &plan);
    assert_true(plan.keep_loops);
}

/* lavapipe's code runs on this processor, a GPU's does not. */
TEST(test_plain_stores)
{
    rf_gpu_plan plan;
    rf_gpu_snapshot s = discrete();
    s.forwards_stores = true;
    rf_gpu_plan_device(&s, false, &plan);
    assert_false(plan.plain_stores);
    s.properties12.driverID = VK_DRIVER_ID_MESA_LLVMPIPE;
    rf_gpu_plan_device(&s, false, &plan);
    assert_true(plan.plain_stores);
    s.forwards_stores = false;
    rf_gpu_plan_device(&s, false, &plan);
    assert_false(plan.plain_stores);
    s.properties11.subgroupSize = 4; /* no lane is four further on */
    rf_gpu_plan_device(&s, false, &plan);
    assert_true(plan.plain_stores);
}

TEST(test_alignment)
{
    rf_gpu_plan plan;
    rf_gpu_snapshot s = discrete();
    s.properties.limits.minTexelBufferOffsetAlignment = 256;
    s.properties.limits.optimalBufferCopyOffsetAlignment = 128;
    rf_gpu_plan_device(&s, false, &plan);
    assert_int_equal(plan.caps.buffer_alignment, 256);
}

TEST(test_texels)
{
    static const struct {
        VkDriverId driver;
        uint32_t lanes;
        const char *info;
        bool kept;
    } cases[] = {
        { VK_DRIVER_ID_MESA_LLVMPIPE, 16, "Mesa 22.3.6 (LLVM 15.0.6)", true },
        { VK_DRIVER_ID_MESA_LLVMPIPE, 16, "Mesa 23.0.0 (LLVM 15.0.6)", false },
        { VK_DRIVER_ID_MESA_LLVMPIPE, 16, "Mesa 25.0.7-2+deb13u1 (LLVM 19.1.7)", false },
        { VK_DRIVER_ID_MESA_LLVMPIPE, 8, "Mesa 25.0.7-2+deb13u1 (LLVM 19.1.7)", true },
        { VK_DRIVER_ID_MESA_LLVMPIPE, 16, "Mesa 26.0.0-devel", true },
        { VK_DRIVER_ID_MESA_LLVMPIPE, 16, "unknown", true },
        { VK_DRIVER_ID_MESA_RADV, 64, "Mesa 25.0.7", true },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        rf_gpu_plan plan;
        rf_gpu_snapshot s = discrete();
        s.properties12.driverID = cases[i].driver;
        s.properties11.subgroupSize = cases[i].lanes;
        snprintf(s.properties12.driverInfo, sizeof(s.properties12.driverInfo), "%s", cases[i].info);
        rf_gpu_plan_device(&s, false, &plan);
        assert_int_equal(plan.caps.max_texel_elements, cases[i].kept ? 1u << 27 : 0);
    }
}

TEST(test_clamp)
{
    rf_gpu_plan plan;
    const rf_gpu_snapshot s = discrete();
    rf_gpu_plan_device(&s, true, &plan);
    const rf_device_caps *c = &plan.caps;
    assert_int_equal(c->max_workgroup_invocations, 128);
    assert_int_equal(c->max_shared_memory, 16384);
    assert_int_equal(c->max_push_constants, 128);
    assert_int_equal(c->max_storage_range, 1u << 27);
    assert_int_equal(c->max_texel_elements, 65536);
    assert_int_equal(c->max_grid[2], 65535);
    assert_false(c->full_subgroups || c->fp16 || c->int64);
}

TEST(test_describe)
{
    static const struct {
        uint32_t id;
        const char *name;
    } vendors[] = { { 0x1002, "AMD" },    { 0x10DE, "NVIDIA" }, { 0x8086, "Intel" },    { 0x10005, "Mesa" },
                    { 0x1AE0, "Google" }, { 0x13B5, "ARM" },    { 0x5143, "Qualcomm" }, { 0x1010, "Imagination" },
                    { 0x106B, "Apple" },  { 0xABCD, "0xABCD" } };
    rf_device_info info;
    rf_gpu_snapshot s = discrete();
    for (size_t i = 0; i < sizeof(vendors) / sizeof(vendors[0]); i++) {
        s.properties.vendorID = vendors[i].id;
        rf_gpu_describe(&s, 7, &info);
        assert_string_equal(info.vendor_name, vendors[i].name);
    }
    assert_int_equal(info.index, 7);
    assert_string_equal(info.name, "Made-up 1000");
    assert_int_equal(info.type, RF_DEVICE_TYPE_DISCRETE_GPU);
    assert_true(info.usable && info.has_fp16 && !info.has_int8);
    assert_string_equal(info.pci_address, "");
    s.extensions.pci_bus_info = true;
    s.pci = (rf_gpu_pci_address){ 0x10000, 0xc1, 2, 1 };
    rf_gpu_describe(&s, 7, &info);
    assert_string_equal(info.pci_address, "10000:c1:02.1");
    assert_string_equal(rf_device_type_name(info.type), "discrete");
    assert_string_equal(rf_device_type_name(RF_DEVICE_TYPE_CPU), "cpu");
    assert_string_equal(rf_device_type_name((rf_device_type)99), "other");
}

static const char *left_off(uint32_t layer, bool matrix, bool bfloat16, bool matrix_stays, bool bfloat16_stays)
{
    rf_gpu_extensions e = { .cooperative_matrix = matrix, .bfloat16 = bfloat16, .device_fault = true };
    const char *names = rf_gpu_leave_unvalidated(layer, &e);
    assert_int_equal(e.cooperative_matrix, matrix_stays);
    assert_int_equal(e.bfloat16, bfloat16_stays);
    assert_true(e.device_fault);
    return names ? names : "";
}

TEST(test_unvalidated)
{
    const uint32_t debian12 = VK_MAKE_API_VERSION(0, 1, 3, 239), debian13 = VK_MAKE_API_VERSION(0, 1, 4, 309);
    assert_string_equal(left_off(0, true, true, true, true), ""); /* nothing watches */
    assert_string_equal(left_off(debian12, true, true, false, false),
                        "VK_KHR_cooperative_matrix and VK_KHR_shader_bfloat16");
    assert_string_equal(left_off(debian12, true, false, false, false), "VK_KHR_cooperative_matrix");
    assert_string_equal(left_off(debian12, false, false, false, false), "");
    assert_string_equal(left_off(VK_MAKE_API_VERSION(0, 1, 3, 255), true, false, true, false), "");
    assert_string_equal(left_off(debian13, true, true, true, false), "VK_KHR_shader_bfloat16");
    assert_string_equal(left_off(VK_MAKE_API_VERSION(0, 1, 4, 311), true, true, true, true), "");
}

/* Parts of dispatches, which NVIDIA's own driver gets wrong, and Mesa's for the same devices does not. */
TEST(test_parts)
{
    rf_gpu_plan plan;
    rf_gpu_snapshot s = discrete();
    rf_gpu_plan_device(&s, false, &plan);
    assert_false(plan.caps.whole_dispatches);
    s.properties12.driverID = VK_DRIVER_ID_NVIDIA_PROPRIETARY;
    rf_gpu_plan_device(&s, false, &plan);
    assert_true(plan.caps.whole_dispatches);
    s.properties12.driverID = 24; /* NVK */
    rf_gpu_plan_device(&s, false, &plan);
    assert_false(plan.caps.whole_dispatches);
}

TESTS(plan, NULL, NULL)
