/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * Vulkan devices: which ones there are, and how to name them.
 */
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

/**
 * Name of a device type: "cpu", "discrete", "integrated", "virtual" or "other".
 * The string is static. Thread-safe.
 */
RF_API const char *rf_device_type_name(rf_device_type type);

/** Whether programs that name no devices use one. */
typedef enum rf_device_default {
    RF_DEVICE_DEFAULT_USED,
    RF_DEVICE_DEFAULT_UNUSABLE,  /**< for `unusable_reason` */
    RF_DEVICE_DEFAULT_SOFTWARE,  /**< there is a usable GPU, beside which it would only be slow */
    RF_DEVICE_DEFAULT_DUPLICATE, /**< device `same_as` is the same hardware by a better driver */
} rf_device_default;

/** Facts about a device that a user wants to know before using it. All sizes are in bytes. */
typedef struct rf_device_info {
    uint32_t index;        /**< position in the list, to which `devices = "0,2"` refers */
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
    bool usable; /**< meets the minimum: Vulkan 1.2, a compute queue, timeline semaphores, ... */
    char unusable_reason[160]; /**< what is missing when the device is not usable, else "" */
    /** The products of matrices (rows, columns, summands) that its matrix units make of f16 and of
     * bf16 with sums in f32, as kernels use them; 0: they use none. A driver whose products turn
     * out wrong is left without them later. */
    uint32_t matrix_f16[3], matrix_bf16[3];
    /** Among all devices of the list: the usable GPUs, each of them once, or the software drivers
     * where there is no usable GPU. */
    rf_device_default by_default;
    uint32_t same_as;     /**< its own index but for RF_DEVICE_DEFAULT_DUPLICATE */
    char pci_address[16]; /**< "0000:01:00.0"; "": the driver tells none */
    uint64_t reserved[2]; /**< zero until a later version has more to say */
} rf_device_info;

/**
 * Lists the Vulkan devices that the loader finds, usable or not.
 * The loader honours VK_DRIVER_FILES and VK_ICD_FILENAMES.
 * Blocking: it loads the drivers, which takes tens of milliseconds. Thread-safe.
 * @param[out] infos array of the caller; NULL only counts the devices.
 * @param[in,out] count capacity of `infos` on entry, the number of devices on return. That number
 *   can exceed the capacity; only as many entries as fit are written.
 * @return RF_ERROR_UNSUPPORTED when there is no Vulkan loader or it is too old, RF_ERROR_NOT_FOUND
 *   when no driver offers a device.
 * @since 0.1
 */
RF_API RF_MUST_USE rf_result rf_devices_list(rf_device_info *infos, uint32_t *count);

/**
 * Which devices a text as in rf_mirrored_params::devices means.
 * Blocking, as rf_devices_list(); opens none of them. Thread-safe.
 * @param entries comma-separated; NULL: RINGFIRE_DEVICES, else the devices that are used by
 *   default.
 * @param[out] indices of the devices, in the order of the entries; an array of the caller, NULL
 *   only counts.
 * @param[in,out] count capacity of `indices` on entry, the number of devices on return. That number
 *   can exceed the capacity; only as many indices as fit are written.
 * @return as rf_devices_list(); RF_ERROR_NOT_FOUND also names an entry that matches nothing,
 *   RF_ERROR_UNSUPPORTED a device that is not usable; RF_ERROR_INVALID_ARGUMENT an empty entry.
 * @since 0.1
 */
RF_API RF_MUST_USE rf_result rf_devices_select(const char *entries, uint32_t *indices,
                                               uint32_t *count);

/**
 * Why programs that name no devices leave this one out, for people: "a software driver, and there
 * is a GPU".
 * Thread-safe.
 * @param[out] text "" where they use it; cut to `size` bytes.
 * @return `text`
 * @since 0.1
 */
RF_API const char *rf_device_left_out(const rf_device_info *info, char *text, size_t size);

#ifdef __cplusplus
}
#endif
#endif
