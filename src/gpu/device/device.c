/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>

#include "gpu/device/placement.h"
#include "gpu/internal.h"

static rf_result load_device_functions(rf_gpu_device *device)
{
    const PFN_vkGetDeviceProcAddr get = device->gpu->vk.GetDeviceProcAddr;
    const char *missing = NULL;
#define LOAD_OPTIONAL(name) device->vk.name = (PFN_vk##name)get(device->device, "vk" #name);
#define LOAD_REQUIRED(name)                                                                                            \
    LOAD_OPTIONAL(name)                                                                                                \
    if (!device->vk.name) missing = "vk" #name;
    RF_VK_DEVICE_FUNCTIONS(LOAD_REQUIRED, LOAD_OPTIONAL)
#undef LOAD_REQUIRED
#undef LOAD_OPTIONAL
    if (missing) return RF_FAIL(RF_ERROR_UNSUPPORTED, "%s: the driver lacks %s; update it", device->info.name, missing);
    device->loaded = true;
    return RF_OK;
}

static rf_result create_device(rf_gpu_device *device, bool shares_cpus)
{
    const rf_gpu_snapshot *snapshot = &device->snapshot;
    rf_gpu_plan *plan = &device->plan;
    const char *extensions[7];
    uint32_t num_extensions = 0;
    const bool size_control = plan->subgroup_features.subgroupSizeControl;
    if (size_control && snapshot->properties.apiVersion < VK_API_VERSION_1_3)
        extensions[num_extensions++] = VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME;
    /* Where it exists, Vulkan wants it enabled. */
    if (snapshot->extensions.portability_subset) extensions[num_extensions++] = "VK_KHR_portability_subset";
    if (device->explains) extensions[num_extensions++] = VK_KHR_PIPELINE_EXECUTABLE_PROPERTIES_EXTENSION_NAME;

    if (plan->device_fault) extensions[num_extensions++] = VK_EXT_DEVICE_FAULT_EXTENSION_NAME;
    if (plan->import_alignment) extensions[num_extensions++] = VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME;

    if (plan->cooperative_matrix) extensions[num_extensions++] = VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME;
    if (plan->bfloat16_matrix) extensions[num_extensions++] = VK_KHR_SHADER_BFLOAT16_EXTENSION_NAME;

    VkPhysicalDeviceShaderBfloat16FeaturesKHR bfloat16 = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_BFLOAT16_FEATURES_KHR,
        .shaderBFloat16Type = VK_TRUE,
        .shaderBFloat16CooperativeMatrix = VK_TRUE,
    };
    VkPhysicalDeviceCooperativeMatrixFeaturesKHR matrices = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR,
        .pNext = plan->bfloat16_matrix ? &bfloat16 : NULL,
        .cooperativeMatrix = VK_TRUE,
    };
    VkPhysicalDeviceSubgroupSizeControlFeatures subgroups = plan->subgroup_features;
    subgroups.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES;
    subgroups.pNext = plan->cooperative_matrix ? &matrices : NULL;
    VkPhysicalDeviceVulkan12Features features12 = plan->features12;
    features12.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES;
    features12.pNext = size_control ? (void *)&subgroups : subgroups.pNext;
    VkPhysicalDeviceVulkan11Features features11 = plan->features11;
    features11.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES;
    features11.pNext = &features12;
    const VkPhysicalDeviceFaultFeaturesEXT fault = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FAULT_FEATURES_EXT,
        .pNext = &features11,
        .deviceFault = VK_TRUE,
    };
    const void *features = plan->device_fault ? (const void *)&fault : &features11;
    const VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR explaining = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_EXECUTABLE_PROPERTIES_FEATURES_KHR,
        .pNext = (void *)(uintptr_t)features,
        .pipelineExecutableInfo = VK_TRUE,
    };
    const float priority = 1.0f;
    const VkDeviceQueueCreateInfo queue = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
        .queueFamilyIndex = plan->queue_family,
        .queueCount = 1,
        .pQueuePriorities = &priority,
    };
    const VkDeviceCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
        .pNext = device->explains ? &explaining : features,
        .queueCreateInfoCount = 1,
        .pQueueCreateInfos = &queue,
        .enabledExtensionCount = num_extensions,
        .ppEnabledExtensionNames = extensions,
        .pEnabledFeatures = &plan->features,
    };
    const bool places = plan->caps.driver == RF_DRIVER_LAVAPIPE && rf_gpu_placement_wanted(shares_cpus);
    rf_thread_list threads = { 0 };
    rf_gpu_lock_drivers();
    if (places) rf_gpu_placement_begin(&threads);
    const VkResult created = device->gpu->vk.CreateDevice(device->physical, &info, NULL, &device->device);
    if (places) rf_gpu_placement_end(&threads, device->info.name);
    const rf_result r = created < 0 ? RF_OK : load_device_functions(device);
    rf_gpu_unlock_drivers();
    if (created < 0) {
        device->device = VK_NULL_HANDLE;
        return RF_GPU_FAIL(device, created, "opening the device");
    }
    RF_TRY(r);
    device->vk.GetDeviceQueue(device->device, plan->queue_family, 0, &device->queue);
    return RF_OK;
}

static rf_result create_timeline(rf_gpu_device *device)
{
    const VkSemaphoreTypeCreateInfo type = {
        .sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
        .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE,
    };
    const VkSemaphoreCreateInfo info = { .sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, .pNext = &type };
    RF_VK_CREATE(device, device->timeline, device->vk.CreateSemaphore(device->device, &info, NULL, &device->timeline),
                 "creating the timeline semaphore");
    return RF_OK;
}

/* Once for all devices of an instance. */
static void tell_of_unvalidated(rf_gpu_device *device)
{
    const char *names = device->snapshot.extensions.unvalidated;
    const uint32_t version = device->gpu->layer_version;
    if (names && !atomic_exchange(&device->gpu->told_of_off, true))
        rf_log_message(RF_LOG_INFO,
                       "%s: %s left off, which the validation layer, for Vulkan %u.%u.%u, does not know; install a "
                       "newer one to validate them",
                       device->info.name, names, VK_API_VERSION_MAJOR(version), VK_API_VERSION_MINOR(version),
                       VK_API_VERSION_PATCH(version));
}

/* Whether the driver says what it makes of pipelines. */
static bool can_explain(const rf_gpu *gpu, VkPhysicalDevice physical, const rf_gpu_snapshot *snapshot)
{
    if (!snapshot->extensions.executable_properties) return false;
    VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR info = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_EXECUTABLE_PROPERTIES_FEATURES_KHR,
    };
    VkPhysicalDeviceFeatures2 f2 = { .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, .pNext = &info };
    gpu->vk.GetPhysicalDeviceFeatures2(physical, &f2);
    return info.pipelineExecutableInfo;
}

rf_result rf_gpu_device_open(rf_gpu *gpu, const rf_gpu_device_params *params, rf_gpu_device **out)
{
    RF_REQUIRE(out, "out is NULL");
    *out = NULL;
    RF_REQUIRE(gpu, "gpu is NULL");
    const rf_gpu_device_params defaults = { 0 };
    if (!params) params = &defaults;
    if (params->index >= gpu->num_physical_devices)
        return RF_FAIL(RF_ERROR_NOT_FOUND, "no Vulkan device %u: there %s %u, numbered from 0", params->index,
                       gpu->num_physical_devices == 1 ? "is" : "are", gpu->num_physical_devices);

    rf_gpu_device *device = RF_NEW(rf_gpu_device);
    if (!device) return RF_ERROR_OUT_OF_HOST_MEMORY;
    device->gpu = gpu;
    device->physical = gpu->physical_devices[params->index];
    rf_gpu_take_snapshot(gpu, device->physical, &device->snapshot);
    rf_gpu_describe(&device->snapshot, params->index, &device->info);
    rf_gpu_plan_device(&device->snapshot, params->clamp_limits, &device->plan);
    rf_result r;
    if (device->plan.unusable_reason[0]) {
        r = RF_FAIL(RF_ERROR_UNSUPPORTED, "Vulkan device %u (%s) cannot be used: %s", params->index, device->info.name,
                    device->plan.unusable_reason);
        goto error;
    }
    device->explains = params->explain && can_explain(gpu, device->physical, &device->snapshot);
    tell_of_unvalidated(device);
    rf_gpu_warn_of_limits(device);
    RF_TRY_GOTO(create_device(device, params->shares_cpus), error);
    RF_TRY_GOTO(create_timeline(device), error);
    RF_TRY_GOTO(rf_gpu_memory_setup(device), error);
    RF_TRY_GOTO(rf_gpu_pipeline_cache_open(device, params->cache_directory, params->cache_read_only), error);
    rf_log_message(RF_LOG_DEBUG,
                   "%s: opened as Vulkan device %u (%s): subgroups of %u, descriptors of %" PRIu64 " MiB, %s memory",
                   device->info.name, params->index, device->info.driver_info, device->plan.caps.subgroup_size,
                   device->plan.caps.max_storage_range >> 20, device->plan.caps.host_visible ? "mapped" : "staged");
    *out = device;
    return RF_OK;
error:
    rf_gpu_device_close(&device);
    return r;
}

void rf_gpu_device_close(rf_gpu_device **device_pointer)
{
    rf_gpu_device *device = device_pointer ? *device_pointer : NULL;
    if (!device) return;
    *device_pointer = NULL;
    if (device->loaded) {
        if (rf_gpu_wait_all(device) == RF_ERROR_TIMEOUT) {
            /* Freeing what the device still uses would be worse than losing it. */
            rf_log_message(RF_LOG_ERROR, "%s: work never finished, the device is left open", device->info.name);
            return;
        }
        device->vk.DeviceWaitIdle(device->device);
        rf_gpu_pipeline_cache_close(device);
        rf_gpu_pipelines_destroy(device);
        rf_gpu_staging_teardown(device);
        rf_gpu_memory_teardown(device);
        device->vk.DestroySemaphore(device->device, device->timeline, NULL);
    }
    if (device->device && device->vk.DestroyDevice) {
        rf_gpu_lock_drivers();
        device->vk.DestroyDevice(device->device, NULL);
        rf_gpu_unlock_drivers();
    }
    rf_free(device->held.items);
    rf_free(device->cache_path);
    rf_free(device);
}

const rf_device_caps *rf_gpu_caps(const rf_gpu_device *device)
{
    return &device->plan.caps;
}

const rf_device_info *rf_gpu_info(const rf_gpu_device *device)
{
    return &device->info;
}
