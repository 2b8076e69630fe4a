/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels decide and plan with these facts about a device. They are plain data: plans are tested without a GPU. */
#ifndef RF_BASE_DEVICE_CAPS_H
#define RF_BASE_DEVICE_CAPS_H

#include <ringfire/common.h>

typedef enum rf_driver {
    RF_DRIVER_OTHER,
    RF_DRIVER_LAVAPIPE,    /* Mesa llvmpipe */
    RF_DRIVER_SWIFTSHADER, /* Google */
    RF_DRIVER_AMD,         /* RADV, AMDVLK, proprietary */
    RF_DRIVER_NVIDIA,
    RF_DRIVER_INTEL,
} rf_driver;

/* A product of cooperative matrices with sums in f32, by one subgroup; m 0: none. */
typedef struct rf_matrix_shape {
    uint32_t m, n, k;
    uint32_t subgroup; /* the size that kernels ask for, or without full_subgroups the only one */
} rf_matrix_shape;

typedef struct rf_device_caps {
    rf_driver driver;
    uint32_t driver_version;
    bool is_cpu;            /* software device: kernels made for SIMD lanes, not for shared memory */
    uint32_t subgroup_size; /* the size every dispatch runs with */
    bool subgroup_shuffle, subgroup_ballot, subgroup_arithmetic, subgroup_quad; /* in compute shaders */
    bool full_subgroups; /* computeFullSubgroups + size control: a workgroup of subgroup_size is one subgroup */
    uint32_t min_subgroup_size, max_subgroup_size; /* that a shader may ask for; 0 without full_subgroups */
    uint32_t invocation_registers; /* of 32 bits that an invocation may have, where they are few; 0 elsewhere */
    uint32_t compute_units; /* that run workgroups side by side, as the device reports them or assumed from its kind */
    uint32_t max_workgroup_size[3], max_workgroup_invocations, max_grid[3];
    uint32_t max_shared_memory, max_push_constants;
    uint64_t max_storage_range;  /* bytes that one descriptor may span */
    uint32_t max_texel_elements; /* elements of one uniform texel buffer */
    uint32_t buffer_alignment;   /* every tensor offset is a multiple; >= storage, texel and copy alignments, >= 64 */
    uint32_t
        max_loop_iterations;   /* of all loops of an invocation together, and of invocations that share a SIMD register
                                  and branch apart; 0: no limit. lavapipe leaves loops silently after 65535 by its own
                                  count, which nested loops reach early: half of that is what plans rely on. */
    bool whole_dispatches;     /* parts of dispatches (rf_kernel_plan_split()) come out wrong */
    bool compiles_at_dispatch; /* creating a pipeline compiles nothing; its first dispatch does, one after the other */
    bool fp16, int8, int64;    /* shader arithmetic */
    rf_matrix_shape matrix_f16, matrix_bf16; /* of operands in these types */
    bool host_visible;                       /* device memory can be mapped: no staging copies */
    uint64_t memory_size;
    uint64_t max_allocation; /* bytes of one buffer: what is larger takes several */
} rf_device_caps;

static inline uint64_t rf_loop_limit(const rf_device_caps *caps)
{
    return caps->max_loop_iterations ? caps->max_loop_iterations : UINT64_MAX;
}

/* Vulkan's guaranteed minimum for the fields that have one; the others stay. Used by clamp_limits and by tests. */
void rf_device_caps_clamp(rf_device_caps *caps);

#endif
