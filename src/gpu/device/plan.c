/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/device/plan.h"

#include <stdio.h>
#include <string.h>

#define MIN_API_VERSION VK_API_VERSION_1_2
/* Not in the oldest headers we build with. */
#define DRIVER_ID_MESA_NVK 24

const char *rf_gpu_leave_unvalidated(uint32_t layer, rf_gpu_extensions *extensions)
{
    /* The headers in which they first stood: 1.3.255 and 1.4.311. */
    const bool matrix = extensions->cooperative_matrix && layer > 0 && layer < VK_MAKE_API_VERSION(0, 1, 3, 255);
    const bool bfloat16 = extensions->bfloat16 && layer > 0 && layer < VK_MAKE_API_VERSION(0, 1, 4, 311);
    if (matrix) extensions->cooperative_matrix = false;
    if (bfloat16) extensions->bfloat16 = false;
    return matrix && bfloat16 ? "VK_KHR_cooperative_matrix and VK_KHR_shader_bfloat16"
           : matrix           ? "VK_KHR_cooperative_matrix"
           : bfloat16         ? "VK_KHR_shader_bfloat16"
                              : NULL;
}

static rf_driver driver_of(const rf_gpu_snapshot *s)
{
    switch ((int)s->properties12.driverID) {
    case VK_DRIVER_ID_MESA_LLVMPIPE: return RF_DRIVER_LAVAPIPE;
    case VK_DRIVER_ID_GOOGLE_SWIFTSHADER: return RF_DRIVER_SWIFTSHADER;
    case VK_DRIVER_ID_AMD_PROPRIETARY:
    case VK_DRIVER_ID_AMD_OPEN_SOURCE:
    case VK_DRIVER_ID_MESA_RADV: return RF_DRIVER_AMD;
    case VK_DRIVER_ID_NVIDIA_PROPRIETARY:
    case DRIVER_ID_MESA_NVK: return RF_DRIVER_NVIDIA;
    case VK_DRIVER_ID_INTEL_PROPRIETARY_WINDOWS:
    case VK_DRIVER_ID_INTEL_OPEN_SOURCE_MESA: return RF_DRIVER_INTEL;
    default: return RF_DRIVER_OTHER;
    }
}

static const char *vendor_of(uint32_t id)
{
    static const struct {
        uint32_t id;
        const char *name;
    } vendors[] = {
        /* PCI vendor ids, and from 0x10000 on VkVendorId. */
        { 0x1002, "AMD" },          { 0x1010, "Imagination" }, { 0x106B, "Apple" },         { 0x10DE, "NVIDIA" },
        { 0x13B5, "ARM" },          { 0x144D, "Samsung" },     { 0x14E4, "Broadcom" },      { 0x15AD, "VMware" },
        { 0x1AE0, "Google" },       { 0x1AF4, "Red Hat" },     { 0x19E5, "Huawei" },        { 0x5143, "Qualcomm" },
        { 0x8086, "Intel" },        { 0x1414, "Microsoft" },   { 0x1ED5, "Moore Threads" }, { 0x10001, "Vivante" },
        { 0x10002, "VeriSilicon" }, { 0x10003, "Kazan" },      { 0x10004, "Codeplay" },     { 0x10005, "Mesa" },
        { 0x10006, "PoCL" },        { 0x10007, "Mobileye" },
    };
    for (size_t i = 0; i < sizeof(vendors) / sizeof(vendors[0]); i++)
        if (vendors[i].id == id) return vendors[i].name;
    return NULL;
}

static rf_device_type type_of(VkPhysicalDeviceType type)
{
    switch (type) {
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU: return RF_DEVICE_TYPE_INTEGRATED_GPU;
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU: return RF_DEVICE_TYPE_DISCRETE_GPU;
    case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU: return RF_DEVICE_TYPE_VIRTUAL_GPU;
    case VK_PHYSICAL_DEVICE_TYPE_CPU: return RF_DEVICE_TYPE_CPU;
    default: return RF_DEVICE_TYPE_OTHER;
    }
}

static uint64_t device_memory_size(const VkPhysicalDeviceMemoryProperties *memory)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < memory->memoryHeapCount; i++)
        if (memory->memoryHeaps[i].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) sum += memory->memoryHeaps[i].size;
    return sum;
}

/* A compute queue that reports time; of those one without graphics, so that a desktop does not stand in the way. */
static int choose_queue_family(const rf_gpu_snapshot *s)
{
    int best = -1, best_score = -1;
    for (uint32_t i = 0; i < s->num_families; i++) {
        const VkQueueFamilyProperties *f = &s->families[i];
        if (!(f->queueFlags & VK_QUEUE_COMPUTE_BIT) || f->queueCount == 0) continue;
        const int score = (f->timestampValidBits > 0 ? 2 : 0) + (f->queueFlags & VK_QUEUE_GRAPHICS_BIT ? 0 : 1);
        if (score > best_score) {
            best = (int)i;
            best_score = score;
        }
    }
    return best;
}

static uint64_t largest_device_heap(const VkPhysicalDeviceMemoryProperties *memory)
{
    uint64_t largest = 0;
    for (uint32_t i = 0; i < memory->memoryHeapCount; i++)
        if ((memory->memoryHeaps[i].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) && memory->memoryHeaps[i].size > largest)
            largest = memory->memoryHeaps[i].size;
    return largest;
}

/* Higher is better, 0: will not do. */
static int memory_score(const rf_gpu_snapshot *s, rf_gpu_memory kind, uint32_t type)
{
    const VkMemoryType *t = &s->memory.memoryTypes[type];
    const VkMemoryPropertyFlags flags = t->propertyFlags;
    const VkMemoryPropertyFlags mapped = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    /* Protected, lazily allocated and the vendors' uncached types need features or are slow. */
    const VkMemoryPropertyFlags plain =
        mapped | VK_MEMORY_PROPERTY_HOST_CACHED_BIT | VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
    if (flags & ~plain) return 0;
    const bool local = flags & VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, cached = flags & VK_MEMORY_PROPERTY_HOST_CACHED_BIT;
    const bool visible = (flags & mapped) == mapped;

    /* Memory that is not coherent needs flushes and invalidations (memory.c). For writing that is a last resort; for
     * reading it is worth it where the coherent types are not cached, which reads tens of times slower. */
    if (kind != RF_GPU_MEMORY_DEVICE && !(flags & VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT)) return 0;
    if (kind == RF_GPU_MEMORY_UPLOAD) return 1 + (visible ? 4 : 0) + (local ? 0 : 2) + (cached ? 0 : 1);
    if (kind == RF_GPU_MEMORY_READBACK) return 1 + (cached ? 4 : 0) + (visible ? 2 : 0) + (local ? 0 : 1);

    /* On a discrete GPU a mapped type lies behind the bus window: plain device-local memory is for kernels. Where
     * memory is shared anyway mapping saves the staging copies, unless the mapped heap is a small window. */
    const bool unified = s->properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU ||
                         s->properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU;
    const bool big = s->memory.memoryHeaps[t->heapIndex].size >= largest_device_heap(&s->memory) / 2;
    int score = 1 + (local ? 16 : 0) + (big ? 8 : 0);
    if (unified)
        score += (visible ? 4 : 0) + (visible && cached ? 2 : 0);
    else
        score += flags & VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT ? 0 : 4;
    return score;
}

int rf_gpu_plan_memory(const rf_gpu_snapshot *s, rf_gpu_memory kind, uint32_t allowed_bits)
{
    int best = -1, best_score = 0;
    for (uint32_t i = 0; i < s->memory.memoryTypeCount; i++) {
        if (!(allowed_bits >> i & 1)) continue;
        const int score = memory_score(s, kind, i);
        if (score > best_score) {
            best = (int)i;
            best_score = score;
        }
    }
    return best;
}

/* Only what kernels use; robustBufferAccess stays off, it costs time in every load. */
static void choose_features(const rf_gpu_snapshot *s, rf_gpu_plan *plan)
{
    plan->features.shaderInt64 = s->features.shaderInt64;
    plan->features.shaderInt16 = s->features.shaderInt16;
    plan->features11.storageBuffer16BitAccess = s->features11.storageBuffer16BitAccess;
    plan->features12.timelineSemaphore = VK_TRUE;
    plan->features12.storageBuffer8BitAccess = s->features12.storageBuffer8BitAccess;
    plan->features12.shaderFloat16 = s->features12.shaderFloat16;
    plan->features12.shaderInt8 = s->features12.shaderInt8;
    plan->features12.scalarBlockLayout = s->features12.scalarBlockLayout;
    plan->features12.shaderSubgroupExtendedTypes = s->features12.shaderSubgroupExtendedTypes;
    plan->features12.subgroupBroadcastDynamicId = s->features12.subgroupBroadcastDynamicId;
    plan->subgroup_features.subgroupSizeControl = s->subgroup_features.subgroupSizeControl;
    plan->subgroup_features.computeFullSubgroups = s->subgroup_features.computeFullSubgroups;
}

/* "Mesa 25.0.7 (LLVM 19.1.7)": 25. The number in the properties is 1 for every lavapipe. 0: not known. */
static unsigned mesa_version(const rf_gpu_snapshot *s)
{
    unsigned major = 0;
    return sscanf(s->properties12.driverInfo, "Mesa %3u.", &major) == 1 ? major : 0;
}

/* lavapipe of Mesa 23 to 25 reads wrong elements of texel buffers where registers have 16 lanes (25.0.7, whose kernels
 * are right with 8 lanes); 22.3 and 26.1 do not. */
static bool misreads_texels(const rf_gpu_snapshot *s, const rf_device_caps *caps)
{
    const unsigned mesa = mesa_version(s);
    return caps->driver == RF_DRIVER_LAVAPIPE && caps->subgroup_size > 8 && mesa >= 23 && mesa <= 25;
}

/* NVIDIA's own driver (580.159 on an H200): parts of a dispatch are right where their pipeline alone was made, and most
 * elements are wrong where that of the whole was made before, as if a cache of the driver's took no notice of
 * VK_PIPELINE_CREATE_DISPATCH_BASE. Only programs that a watchdog may stop take dispatches apart, which are few there.
 */
static bool misplaces_parts(const rf_gpu_snapshot *s)
{
    return s->properties12.driverID == VK_DRIVER_ID_NVIDIA_PROPRIETARY;
}

static uint32_t max_u32(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

/* The figure of a middling device of its kind, where no extension tells it. Software counts as a small GPU: kernels for
 * GPUs are the last choice there, and run as they do on one. */
static uint32_t assumed_compute_units(const rf_gpu_snapshot *s)
{
    const VkPhysicalDeviceType type = s->properties.deviceType;
    return type == VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU || type == VK_PHYSICAL_DEVICE_TYPE_CPU ? 8 : 40;
}

/* A limit that compilers do not say, beyond which they were seen to spill: ANV in subgroups of the least size, Turnip
 * on Adreno 6xx, whose devices it numbers by generation. */
static uint32_t few_registers(const rf_gpu_snapshot *s)
{
    const bool adreno6 = s->properties.vendorID == 0x5143 && s->properties.deviceID >> 24 == 6;
    return adreno6 || driver_of(s) == RF_DRIVER_INTEL ? 128 : 0;
}

static void fill_caps(const rf_gpu_snapshot *s, const rf_gpu_plan *plan, rf_device_caps *caps)
{
    const VkPhysicalDeviceLimits *l = &s->properties.limits;
    caps->driver = driver_of(s);
    caps->driver_version = s->properties.driverVersion;
    caps->is_cpu = s->properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU;
    caps->max_loop_iterations = caps->driver == RF_DRIVER_LAVAPIPE ? 32767 : 0;
    caps->whole_dispatches = misplaces_parts(s);
    caps->compiles_at_dispatch = caps->driver == RF_DRIVER_LAVAPIPE;
    caps->subgroup_size = max_u32(s->properties11.subgroupSize, 1);
    const VkSubgroupFeatureFlags ops = s->properties11.subgroupSupportedStages & VK_SHADER_STAGE_COMPUTE_BIT
                                           ? s->properties11.subgroupSupportedOperations
                                           : 0;
    caps->subgroup_shuffle = ops & VK_SUBGROUP_FEATURE_SHUFFLE_BIT;
    caps->subgroup_ballot = ops & VK_SUBGROUP_FEATURE_BALLOT_BIT;
    caps->subgroup_arithmetic = ops & VK_SUBGROUP_FEATURE_ARITHMETIC_BIT;
    caps->subgroup_quad = ops & VK_SUBGROUP_FEATURE_QUAD_BIT;
    caps->full_subgroups =
        plan->subgroup_features.subgroupSizeControl && plan->subgroup_features.computeFullSubgroups &&
        (s->subgroup.requiredSubgroupSizeStages & VK_SHADER_STAGE_COMPUTE_BIT) &&
        s->subgroup.minSubgroupSize <= caps->subgroup_size && caps->subgroup_size <= s->subgroup.maxSubgroupSize;
    caps->min_subgroup_size = caps->full_subgroups ? s->subgroup.minSubgroupSize : 0;
    caps->max_subgroup_size = caps->full_subgroups ? s->subgroup.maxSubgroupSize : 0;
    caps->invocation_registers = few_registers(s);
    caps->compute_units = s->compute_units > 0 ? s->compute_units : assumed_compute_units(s);
    for (int i = 0; i < 3; i++) {
        caps->max_workgroup_size[i] = l->maxComputeWorkGroupSize[i];
        caps->max_grid[i] = l->maxComputeWorkGroupCount[i];
    }
    caps->max_workgroup_invocations = l->maxComputeWorkGroupInvocations;
    caps->max_shared_memory = l->maxComputeSharedMemorySize;
    caps->max_push_constants = l->maxPushConstantsSize;
    caps->max_storage_range = l->maxStorageBufferRange;
    caps->max_texel_elements = misreads_texels(s, caps) ? 0 : l->maxTexelBufferElements;
    uint64_t alignment = 64;
    const uint64_t wanted[] = { l->minStorageBufferOffsetAlignment, l->minTexelBufferOffsetAlignment,
                                l->nonCoherentAtomSize, l->optimalBufferCopyOffsetAlignment };
    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++)
        if (wanted[i] > alignment) alignment = wanted[i];
    caps->buffer_alignment = (uint32_t)alignment; /* all are powers of two */
    caps->fp16 = plan->features12.shaderFloat16 && plan->features11.storageBuffer16BitAccess;
    caps->int8 = plan->features12.shaderInt8 && plan->features12.storageBuffer8BitAccess;
    caps->int64 = plan->features.shaderInt64;
    caps->memory_size = device_memory_size(&s->memory);
    const uint64_t allocation = s->properties11.maxMemoryAllocationSize;
    caps->max_allocation = s->max_buffer_size < allocation ? s->max_buffer_size : allocation;
    const int type = rf_gpu_plan_memory(s, RF_GPU_MEMORY_DEVICE, UINT32_MAX);
    const VkMemoryPropertyFlags mapped = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    caps->host_visible = type >= 0 && (s->memory.memoryTypes[type].propertyFlags & mapped) == mapped;
}

void rf_gpu_plan_device(const rf_gpu_snapshot *s, bool clamp_limits, rf_gpu_plan *out)
{
    memset(out, 0, sizeof(*out));
    const uint32_t api = s->properties.apiVersion;
    if (api < MIN_API_VERSION) {
        snprintf(out->unusable_reason, sizeof(out->unusable_reason),
                 "Vulkan %u.%u, but 1.2 is needed: update the driver", VK_API_VERSION_MAJOR(api),
                 VK_API_VERSION_MINOR(api));
        return;
    }
    const int family = choose_queue_family(s);
    const char *missing = NULL;
    if (family < 0)
        missing = "no compute queue";
    else if (!s->features12.timelineSemaphore)
        missing = "no timeline semaphores: update the driver";
    else if (rf_gpu_plan_memory(s, RF_GPU_MEMORY_DEVICE, UINT32_MAX) < 0 ||
             rf_gpu_plan_memory(s, RF_GPU_MEMORY_UPLOAD, UINT32_MAX) < 0 ||
             rf_gpu_plan_memory(s, RF_GPU_MEMORY_READBACK, UINT32_MAX) < 0)
        missing = "no memory that the host can map";
    if (missing) {
        snprintf(out->unusable_reason, sizeof(out->unusable_reason), "%s", missing);
        return;
    }
    out->queue_family = (uint32_t)family;
    out->timestamp_bits = s->families[family].timestampValidBits;
    choose_features(s, out);
    /* Software drivers keep them unasked: the walk over special numbers holds them to that. */
    out->preserve_nans = s->properties12.shaderSignedZeroInfNanPreserveFloat32 &&
                         s->properties.deviceType != VK_PHYSICAL_DEVICE_TYPE_CPU;
    out->keep_loops = s->properties12.driverID == VK_DRIVER_ID_GOOGLE_SWIFTSHADER;
    out->plain_stores = s->properties12.driverID == VK_DRIVER_ID_MESA_LLVMPIPE &&
                        (s->forwards_stores || s->properties11.subgroupSize < 8);
    out->device_fault = s->device_fault;
    out->import_alignment = s->import_alignment;
    fill_caps(s, out, &out->caps);
    rf_gpu_matrices_plan(s, out);
    if (clamp_limits) rf_device_caps_clamp(&out->caps);
}

void rf_gpu_describe(const rf_gpu_snapshot *s, uint32_t index, rf_device_info *out)
{
    memset(out, 0, sizeof(*out));
    const VkPhysicalDeviceProperties *p = &s->properties;
    out->index = index;
    snprintf(out->name, sizeof(out->name), "%s", p->deviceName);
    snprintf(out->driver_name, sizeof(out->driver_name), "%s", s->properties12.driverName);
    snprintf(out->driver_info, sizeof(out->driver_info), "%s", s->properties12.driverInfo);
    const char *vendor = vendor_of(p->vendorID);
    if (vendor)
        snprintf(out->vendor_name, sizeof(out->vendor_name), "%s", vendor);
    else
        snprintf(out->vendor_name, sizeof(out->vendor_name), "0x%04X", p->vendorID);
    out->vendor_id = p->vendorID;
    out->device_id = p->deviceID;
    out->api_version = p->apiVersion;
    out->driver_version = p->driverVersion;
    memcpy(out->uuid, s->properties11.deviceUUID, sizeof(out->uuid));
    if (s->extensions.pci_bus_info)
        snprintf(out->pci_address, sizeof(out->pci_address), "%04x:%02x:%02x.%x", s->pci.domain, s->pci.bus & 0xff,
                 s->pci.device & 0xff, s->pci.function & 0xf);
    out->type = type_of(p->deviceType);
    out->memory_size = device_memory_size(&s->memory);
    out->subgroup_size = s->properties11.subgroupSize;
    out->max_workgroup_invocations = p->limits.maxComputeWorkGroupInvocations;
    out->max_shared_memory = p->limits.maxComputeSharedMemorySize;
    out->max_push_constants = p->limits.maxPushConstantsSize;
    out->max_storage_buffer_range = p->limits.maxStorageBufferRange;
    out->max_texel_buffer_elements = p->limits.maxTexelBufferElements;
    out->has_fp16 = s->features12.shaderFloat16;
    out->has_bf16 = s->extensions.bfloat16;
    out->has_int8 = s->features12.shaderInt8;
    out->has_cooperative_matrix = s->extensions.cooperative_matrix;
    out->has_external_memory_host = s->extensions.external_memory_host;
    rf_gpu_plan plan;
    rf_gpu_plan_device(s, false, &plan);
    const rf_matrix_shape *f16 = &plan.caps.matrix_f16, *bf16 = &plan.caps.matrix_bf16;
    memcpy(out->matrix_f16, (const uint32_t[]){ f16->m, f16->n, f16->k }, sizeof(out->matrix_f16));
    memcpy(out->matrix_bf16, (const uint32_t[]){ bf16->m, bf16->n, bf16->k }, sizeof(out->matrix_bf16));
    out->usable = plan.unusable_reason[0] == '\0';
    memcpy(out->unusable_reason, plan.unusable_reason, sizeof(out->unusable_reason));
}
