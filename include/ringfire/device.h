/* SPDX-License-Identifier: Apache-2.0 */
/** @file Vulkan devices: what there is and how to name it. */
#ifndef RINGFIRE_DEVICE_H
#define RINGFIRE_DEVICE_H

#include <ringfire/common.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Kind of a physical device, after VkPhysicalDeviceType. */
typedef enum rf_device_type {
    RF_DEVICE_TYPE_OTHER,
    RF_DEVICE_TYPE_INTEGRATED_GPU,
    RF_DEVICE_TYPE_DISCRETE_GPU,
    RF_DEVICE_TYPE_VIRTUAL_GPU,
    RF_DEVICE_TYPE_CPU, /**< a software driver such as lavapipe or SwiftShader */
} rf_device_type;

/** "cpu", "discrete", ... */
RF_API const char *rf_device_type_name(rf_device_type type);

/** What a user wants to know of a device before using it. All sizes in bytes. */
typedef struct rf_device_info {
    uint32_t index;        /**< position in the list; what `devices = "0,2"` refers to */
    char name[256];        /**< VkPhysicalDeviceProperties::deviceName */
    char driver_name[256]; /**< e.g. "llvmpipe" */
    char driver_info[256]; /**< e.g. "Mesa 22.3.6 (LLVM 15.0.6)" */
    char vendor_name[32];  /**< "AMD", "Mesa", "Google", ... or the PCI vendor id in hex */
    uint32_t vendor_id, device_id;
    uint32_t api_version;    /**< Vulkan version, VK_MAKE_API_VERSION encoding */
    uint32_t driver_version; /**< vendor-specific encoding */
    uint8_t uuid[16];        /**< device UUID */
    rf_device_type type;
    uint64_t memory_size; /**< sum of the device-local heaps */
    uint32_t subgroup_size;
    uint32_t max_workgroup_invocations;
    uint32_t max_shared_memory;
    uint32_t max_push_constants;
    uint64_t max_storage_buffer_range;
    uint32_t max_texel_buffer_elements;
    bool has_fp16, has_bf16, has_int8, has_cooperative_matrix, has_external_memory_host;
    bool usable; /**< meets the floor: Vulkan 1.2, a compute queue, timeline semaphores, ... */
    char unusable_reason[160]; /**< when not usable: what is missing, "" otherwise */
    uint64_t reserved[8];      /**< zero until a later version has more to say */
} rf_device_info;

/**
 * Lists the Vulkan devices that the loader finds (VK_DRIVER_FILES / VK_ICD_FILENAMES are honoured),
 * usable or not.
 * @param[out] infos     NULL to only count.
 * @param[in,out] count  capacity of `infos` in, number of devices out (all of them, also when more
 * than the capacity). Blocking: loads drivers, tens of milliseconds. Thread-safe.
 * @return RF_ERROR_UNSUPPORTED when there is no Vulkan loader, RF_ERROR_NOT_FOUND when no driver
 * offers a device.
 * @since 0.1
 */
RF_API RF_MUST_USE rf_result rf_devices_list(rf_device_info *infos, uint32_t *count);

#ifdef __cplusplus
}
#endif
#endif
