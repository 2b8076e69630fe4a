/* SPDX-License-Identifier: Apache-2.0 */
/* A device's report of itself as a text, one line for each property that decisions depend on: so that devices that are
 * not at hand can be tests' cases (tests/gpu/snapshots, which `./dev fleet --snapshots` writes). */
#ifndef RF_TESTS_GPU_SNAPSHOT_H
#define RF_TESTS_GPU_SNAPSHOT_H

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "gpu/device/plan.h"

typedef struct snapshot_field {
    const char *name;
    size_t offset, size, count; /* of one number, and how many there are; size 0: text */
} snapshot_field;

#define SNAPSHOT_PART(member, bytes, n)                                                                                \
    {                                                                                                                  \
#member, offsetof(rf_gpu_snapshot, member), bytes, n                                                           \
    }
#define SNAPSHOT_U32(member) SNAPSHOT_PART(member, 4, sizeof(((rf_gpu_snapshot *)0)->member) / 4)
#define SNAPSHOT_U64(member) SNAPSHOT_PART(member, 8, 1)
#define SNAPSHOT_BOOL(member) SNAPSHOT_PART(member, 1, 1)
#define SNAPSHOT_TEXT(member) SNAPSHOT_PART(member, 0, sizeof(((rf_gpu_snapshot *)0)->member))
#define SNAPSHOT_LIMIT32(name) SNAPSHOT_U32(properties.limits.name)
#define SNAPSHOT_LIMIT64(name) SNAPSHOT_U64(properties.limits.name)

static const snapshot_field snapshot_fields[] = {
    SNAPSHOT_TEXT(properties.deviceName),
    SNAPSHOT_TEXT(properties12.driverName),
    SNAPSHOT_TEXT(properties12.driverInfo),
    SNAPSHOT_U32(properties12.driverID),
    SNAPSHOT_U32(properties.apiVersion),
    SNAPSHOT_U32(properties.driverVersion),
    SNAPSHOT_U32(properties.vendorID),
    SNAPSHOT_U32(properties.deviceID),
    SNAPSHOT_U32(properties.deviceType),
    SNAPSHOT_LIMIT32(maxComputeWorkGroupSize),
    SNAPSHOT_LIMIT32(maxComputeWorkGroupInvocations),
    SNAPSHOT_LIMIT32(maxComputeWorkGroupCount),
    SNAPSHOT_LIMIT32(maxComputeSharedMemorySize),
    SNAPSHOT_LIMIT32(maxPushConstantsSize),
    SNAPSHOT_LIMIT32(maxStorageBufferRange),
    SNAPSHOT_LIMIT32(maxTexelBufferElements),
    SNAPSHOT_LIMIT32(maxMemoryAllocationCount),
    SNAPSHOT_LIMIT32(maxPerStageDescriptorStorageBuffers),
    SNAPSHOT_LIMIT32(maxPerStageDescriptorSampledImages),
    SNAPSHOT_LIMIT64(minStorageBufferOffsetAlignment),
    SNAPSHOT_LIMIT64(minTexelBufferOffsetAlignment),
    SNAPSHOT_LIMIT64(nonCoherentAtomSize),
    SNAPSHOT_LIMIT64(optimalBufferCopyOffsetAlignment),
    SNAPSHOT_U32(properties11.subgroupSize),
    SNAPSHOT_U32(properties11.subgroupSupportedStages),
    SNAPSHOT_U32(properties11.subgroupSupportedOperations),
    SNAPSHOT_U64(properties11.maxMemoryAllocationSize),
    SNAPSHOT_U32(properties12.shaderSignedZeroInfNanPreserveFloat32),
    SNAPSHOT_U32(subgroup.minSubgroupSize),
    SNAPSHOT_U32(subgroup.maxSubgroupSize),
    SNAPSHOT_U32(subgroup.requiredSubgroupSizeStages),
    SNAPSHOT_U64(max_buffer_size),
    SNAPSHOT_U32(compute_units),
    SNAPSHOT_U64(import_alignment),
    SNAPSHOT_U32(features.shaderInt64),
    SNAPSHOT_U32(features.shaderInt16),
    SNAPSHOT_U32(features11.storageBuffer16BitAccess),
    SNAPSHOT_U32(features12.timelineSemaphore),
    SNAPSHOT_U32(features12.storageBuffer8BitAccess),
    SNAPSHOT_U32(features12.shaderFloat16),
    SNAPSHOT_U32(features12.shaderInt8),
    SNAPSHOT_U32(features12.scalarBlockLayout),
    SNAPSHOT_U32(features12.shaderSubgroupExtendedTypes),
    SNAPSHOT_U32(features12.subgroupBroadcastDynamicId),
    SNAPSHOT_U32(features12.vulkanMemoryModel),
    SNAPSHOT_U32(subgroup_features.subgroupSizeControl),
    SNAPSHOT_U32(subgroup_features.computeFullSubgroups),
    SNAPSHOT_BOOL(cooperative_matrix),
    SNAPSHOT_BOOL(bfloat16_matrix),
    SNAPSHOT_BOOL(extensions.subgroup_size_control),
    SNAPSHOT_BOOL(extensions.maintenance4),
    SNAPSHOT_BOOL(extensions.external_memory_host),
    SNAPSHOT_BOOL(extensions.bfloat16),
    SNAPSHOT_BOOL(extensions.cooperative_matrix),
    SNAPSHOT_BOOL(extensions.portability_subset),
    SNAPSHOT_BOOL(extensions.executable_properties),
};
enum { NUM_SNAPSHOT_FIELDS = sizeof(snapshot_fields) / sizeof(snapshot_fields[0]) };

#endif
