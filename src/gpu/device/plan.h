/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The properties of a physical device, copied out of Vulkan once (snapshot), and every decision that follows from them
 * (plan). The plan is a pure function, so that machines that are not at hand can be tested with made-up snapshots.
 */
#ifndef RF_GPU_PLAN_H
#define RF_GPU_PLAN_H

#include <ringfire/device.h>

#include "base/device_caps.h"
#include "gpu/device/cooperative.h"
#include "gpu/gpu.h"
#include "gpu/vk_table.h"

#define RF_GPU_MAX_QUEUE_FAMILIES 16

typedef struct rf_gpu_extensions {
    bool subgroup_size_control, maintenance4, external_memory_host, bfloat16, cooperative_matrix, portability_subset,
        executable_properties, memory_budget, device_fault, pci_bus_info;
    const char *unvalidated;                          /* what rf_gpu_leave_unvalidated() has left off */
    bool sm_builtins, core_properties, core_builtins; /* of NVIDIA, AMD and ARM: they count compute units */
} rf_gpu_extensions;

typedef struct rf_gpu_pci_address {
    uint32_t domain, bus, device, function;
} rf_gpu_pci_address;

/* Below Vulkan 1.2 only `properties` and `memory` are filled in. Chains (pNext) are always NULL here. */
typedef struct rf_gpu_snapshot {
    VkPhysicalDeviceProperties properties;
    VkPhysicalDeviceMemoryProperties memory;
    VkPhysicalDeviceVulkan11Properties properties11;
    VkPhysicalDeviceVulkan12Properties properties12;
    VkPhysicalDeviceSubgroupSizeControlProperties subgroup; /* zero without size control */
    uint64_t max_buffer_size;
    rf_gpu_pci_address pci;    /* with extensions.pci_bus_info */
    uint32_t compute_units;    /* 0 where no extension tells */
    bool device_fault;         /* the feature of that extension */
    bool forwards_stores;      /* of the host's processor: see RF_WRITE of shaders/include/wide.glsl */
    uint64_t import_alignment; /* of host memory that buffers can be made of; 0: of none */
    VkPhysicalDeviceFeatures features;
    VkPhysicalDeviceVulkan11Features features11;
    VkPhysicalDeviceVulkan12Features features12;
    VkPhysicalDeviceSubgroupSizeControlFeatures subgroup_features;
    VkQueueFamilyProperties families[RF_GPU_MAX_QUEUE_FAMILIES];
    uint32_t num_families;
    bool cooperative_matrix, bfloat16_matrix;    /* features; the second of bf16 as the type of such matrices */
    rf_gpu_matrix matrices[RF_GPU_MAX_MATRICES]; /* of subgroups or workgroups; drivers list some without the feature */
    uint32_t num_matrices;
    rf_gpu_extensions extensions;
} rf_gpu_snapshot;

typedef struct rf_gpu_plan {
    char unusable_reason[160]; /* "" when usable; nothing below counts otherwise */
    uint32_t queue_family;
    uint32_t timestamp_bits; /* 0: no timestamps */
    /* Features to enable: a subset of the snapshot's. */
    VkPhysicalDeviceFeatures features;
    VkPhysicalDeviceVulkan11Features features11;
    VkPhysicalDeviceVulkan12Features features12;
    VkPhysicalDeviceSubgroupSizeControlFeatures subgroup_features;
    bool cooperative_matrix, bfloat16_matrix; /* the extensions as well */
    bool preserve_nans;                       /* shaders ask for signed zeros, infinities and NaNs (float_controls.c) */
    bool keep_loops;                          /* modules ask for no loop to be unrolled (specialize.c) */
    bool plain_stores;                        /* each lane writes for itself (shaders/include/wide.glsl) */
    bool device_fault;                        /* the driver is asked why it lost the device (diagnosis.c) */
    uint64_t import_alignment; /* buffers can be made of host memory at its multiples (import.c); 0: they cannot */
    rf_device_caps caps;       /* host_visible as far as the memory types alone tell */
} rf_gpu_plan;

/*
 * A validation layer that is older than an extension takes it for a mistake at every device that is opened with it,
 * and kernels that use it for more of them. With validation on, such extensions are therefore left off, so that
 * messages are about the rest. `layer`: the version of Vulkan that the layer knows, 0 where it does not watch.
 * Returns what is left off, as a text; NULL: nothing.
 */
const char *rf_gpu_leave_unvalidated(uint32_t layer, rf_gpu_extensions *extensions);
void rf_gpu_plan_device(const rf_gpu_snapshot *snapshot, bool clamp_limits, rf_gpu_plan *out);
/* Best memory type for a kind among those in `allowed_bits`; -1 when none will do. */
int rf_gpu_plan_memory(const rf_gpu_snapshot *snapshot, rf_gpu_memory kind, uint32_t allowed_bits);
/* The public description. unusable_reason comes from a plan. */
void rf_gpu_describe(const rf_gpu_snapshot *snapshot, uint32_t index, rf_device_info *out);

#endif
