/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "gpu/device/absence.h"
#include "gpu/device/device_select.h"
#include "gpu/internal.h"

/* Which of the extensions that matter the device has. None is required, so a failure leaves them off. */
static void find_extensions(const rf_gpu *gpu, VkPhysicalDevice physical, rf_gpu_extensions *out)
{
    uint32_t count = 0;
    if (gpu->vk.EnumerateDeviceExtensionProperties(physical, NULL, &count, NULL) < 0 || count == 0) return;
    VkExtensionProperties *list = RF_NEW_ARRAY(VkExtensionProperties, count);
    if (!list) return;
    if (gpu->vk.EnumerateDeviceExtensionProperties(physical, NULL, &count, list) < 0) count = 0;
    const struct {
        const char *name;
        bool *flag;
    } wanted[] = {
        { VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME, &out->subgroup_size_control },
        { VK_KHR_MAINTENANCE_4_EXTENSION_NAME, &out->maintenance4 },
        { VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME, &out->external_memory_host },
        { VK_KHR_SHADER_BFLOAT16_EXTENSION_NAME, &out->bfloat16 },
        { VK_NV_SHADER_SM_BUILTINS_EXTENSION_NAME, &out->sm_builtins },
        { VK_AMD_SHADER_CORE_PROPERTIES_2_EXTENSION_NAME, &out->core_properties },
        { VK_ARM_SHADER_CORE_BUILTINS_EXTENSION_NAME, &out->core_builtins },
        { VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME, &out->cooperative_matrix },
        { "VK_KHR_portability_subset", &out->portability_subset },
        { VK_EXT_MEMORY_BUDGET_EXTENSION_NAME, &out->memory_budget },
        { VK_EXT_PCI_BUS_INFO_EXTENSION_NAME, &out->pci_bus_info },
        { VK_EXT_DEVICE_FAULT_EXTENSION_NAME, &out->device_fault },
        { VK_KHR_PIPELINE_EXECUTABLE_PROPERTIES_EXTENSION_NAME, &out->executable_properties },
    };
    for (uint32_t i = 0; i < count; i++)
        for (size_t k = 0; k < sizeof(wanted) / sizeof(wanted[0]); k++)
            if (strcmp(list[i].extensionName, wanted[k].name) == 0) *wanted[k].flag = true;
    rf_free(list);
}

static void take_properties(const rf_gpu *gpu, VkPhysicalDevice physical, bool size_control, bool maintenance4,
                            rf_gpu_snapshot *out)
{
    VkPhysicalDevicePCIBusInfoPropertiesEXT pci = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PCI_BUS_INFO_PROPERTIES_EXT,
    };
    VkPhysicalDeviceMaintenance4Properties m4 = { .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_PROPERTIES };
    out->subgroup.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES;
    out->properties12 = (VkPhysicalDeviceVulkan12Properties){
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_PROPERTIES,
    };
    out->properties11 = (VkPhysicalDeviceVulkan11Properties){
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_PROPERTIES,
        .pNext = &out->properties12,
    };
    VkPhysicalDeviceProperties2 p2 = { .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2,
                                       .pNext = &out->properties11 };
    void **tail = &out->properties12.pNext;
    if (size_control) {
        *tail = &out->subgroup;
        tail = &out->subgroup.pNext;
    }
    if (maintenance4) {
        *tail = &m4;
        tail = &m4.pNext;
    }
    if (out->extensions.pci_bus_info) *tail = &pci;
    gpu->vk.GetPhysicalDeviceProperties2(physical, &p2);
    const rf_gpu_pci_address address = { pci.pciDomain, pci.pciBus, pci.pciDevice, pci.pciFunction };
    out->pci = address;
    out->max_buffer_size = maintenance4 ? m4.maxBufferSize : out->properties11.maxMemoryAllocationSize;
    out->properties11.pNext = out->properties12.pNext = out->subgroup.pNext = NULL;
}

static uint32_t count_compute_units(const rf_gpu *gpu, VkPhysicalDevice physical, const rf_gpu_extensions *have)
{
    VkPhysicalDeviceShaderSMBuiltinsPropertiesNV nv = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_SM_BUILTINS_PROPERTIES_NV,
    };
    VkPhysicalDeviceShaderCoreProperties2AMD amd = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_CORE_PROPERTIES_2_AMD,
    };
    VkPhysicalDeviceShaderCoreBuiltinsPropertiesARM arm = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_CORE_BUILTINS_PROPERTIES_ARM,
    };
    VkPhysicalDeviceProperties2 p2 = { .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2 };
    p2.pNext = have->sm_builtins       ? (void *)&nv
               : have->core_properties ? (void *)&amd
               : have->core_builtins   ? (void *)&arm
                                       : NULL;
    if (!p2.pNext) return 0;
    gpu->vk.GetPhysicalDeviceProperties2(physical, &p2);
    return nv.shaderSMCount + amd.activeComputeUnitCount + arm.shaderCoreCount; /* two of them are 0 */
}

/* The alignment of host memory that buffers like ours can be made of. Some drivers have the extension and take such
 * memory for images alone. */
static uint64_t find_import_alignment(const rf_gpu *gpu, VkPhysicalDevice physical)
{
    if (!gpu->vk.GetPhysicalDeviceExternalBufferProperties) return 0;
    const VkPhysicalDeviceExternalBufferInfo info = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_BUFFER_INFO,
        .usage = RF_GPU_BUFFER_USAGE,
        .handleType = VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT,
    };
    VkExternalBufferProperties buffers = { .sType = VK_STRUCTURE_TYPE_EXTERNAL_BUFFER_PROPERTIES };
    gpu->vk.GetPhysicalDeviceExternalBufferProperties(physical, &info, &buffers);
    const VkExternalMemoryFeatureFlags features = buffers.externalMemoryProperties.externalMemoryFeatures;
    if (!(features & VK_EXTERNAL_MEMORY_FEATURE_IMPORTABLE_BIT) ||
        features & VK_EXTERNAL_MEMORY_FEATURE_DEDICATED_ONLY_BIT)
        return 0;
    VkPhysicalDeviceExternalMemoryHostPropertiesEXT host = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_MEMORY_HOST_PROPERTIES_EXT,
    };
    VkPhysicalDeviceProperties2 p2 = { .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, .pNext = &host };
    gpu->vk.GetPhysicalDeviceProperties2(physical, &p2);
    return host.minImportedHostPointerAlignment;
}

static void take_features(const rf_gpu *gpu, VkPhysicalDevice physical, bool size_control, rf_gpu_snapshot *out)
{
    out->subgroup_features.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES;
    out->features12 = (VkPhysicalDeviceVulkan12Features){
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES,
        .pNext = size_control ? &out->subgroup_features : NULL,
    };
    out->features11 = (VkPhysicalDeviceVulkan11Features){
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES,
        .pNext = &out->features12,
    };
    VkPhysicalDeviceFaultFeaturesEXT fault = { .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FAULT_FEATURES_EXT,
                                               .pNext = &out->features11 };
    VkPhysicalDeviceFeatures2 f2 = { .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, .pNext = &out->features11 };
    if (out->extensions.device_fault) f2.pNext = &fault;
    gpu->vk.GetPhysicalDeviceFeatures2(physical, &f2);
    out->features = f2.features;
    out->device_fault = fault.deviceFault;
    out->features11.pNext = out->features12.pNext = NULL;
}

/* AMD's processors take a lane out of a register of 512 bits that was just stored, whichever lane it is. It is not
 * known of other makers' processors. */
static bool processor_forwards_stores(void)
{
#if defined(__x86_64__) && defined(__GNUC__)
    __builtin_cpu_init();
    return __builtin_cpu_is("amd");
#else
    return false;
#endif
}

void rf_gpu_take_snapshot(const rf_gpu *gpu, VkPhysicalDevice physical, rf_gpu_snapshot *out)
{
    memset(out, 0, sizeof(*out));
    gpu->vk.GetPhysicalDeviceProperties(physical, &out->properties);
    gpu->vk.GetPhysicalDeviceMemoryProperties(physical, &out->memory);
    if (out->properties.apiVersion < VK_API_VERSION_1_2) return;

    find_extensions(gpu, physical, &out->extensions);
    out->extensions.unvalidated = rf_gpu_leave_unvalidated(gpu->layer_version, &out->extensions);
    const bool vulkan13 = out->properties.apiVersion >= VK_API_VERSION_1_3;
    const bool size_control = vulkan13 || out->extensions.subgroup_size_control;
    take_properties(gpu, physical, size_control, vulkan13 || out->extensions.maintenance4, out);
    take_features(gpu, physical, size_control, out);
    out->compute_units = count_compute_units(gpu, physical, &out->extensions);
    if (out->extensions.external_memory_host) out->import_alignment = find_import_alignment(gpu, physical);
    rf_gpu_matrices_take(gpu, physical, out);
    uint32_t count = RF_GPU_MAX_QUEUE_FAMILIES;
    gpu->vk.GetPhysicalDeviceQueueFamilyProperties(physical, &count, out->families);
    out->num_families = count;
    out->forwards_stores = processor_forwards_stores();
}

rf_result rf_gpu_list(rf_gpu *gpu, rf_device_info *infos, uint32_t *count)
{
    RF_REQUIRE(gpu, "gpu is NULL");
    RF_REQUIRE(count, "count is NULL");
    const uint32_t capacity = infos ? *count : 0, all = *count = gpu->num_physical_devices;
    if (capacity == 0) return RF_OK;
    rf_gpu_snapshot *snapshot = RF_NEW(rf_gpu_snapshot);
    rf_device_info *list = RF_NEW_ARRAY(rf_device_info, all);
    if (!snapshot || !list) {
        rf_free(snapshot);
        rf_free(list);
        return RF_ERROR_OUT_OF_HOST_MEMORY;
    }
    for (uint32_t i = 0; i < all; i++) {
        rf_gpu_take_snapshot(gpu, gpu->physical_devices[i], snapshot);
        rf_gpu_describe(snapshot, i, &list[i]);
    }
    rf_device_choose_default(list, all);
    memcpy(infos, list, (all < capacity ? all : capacity) * sizeof(*list));
    rf_free(snapshot);
    rf_free(list);
    return RF_OK;
}

rf_result rf_gpu_list_all(rf_gpu *gpu, rf_device_info **infos, uint32_t *count)
{
    *infos = NULL;
    *count = 0;
    RF_TRY(rf_gpu_list(gpu, NULL, count));
    *infos = RF_NEW_ARRAY(rf_device_info, *count);
    if (!*infos) return RF_ERROR_OUT_OF_HOST_MEMORY;
    return rf_gpu_list(gpu, *infos, count);
}

rf_result rf_devices_list(rf_device_info *infos, uint32_t *count)
{
    RF_REQUIRE(count, "count is NULL");
    rf_gpu *gpu = NULL;
    rf_result r = rf_gpu_create(NULL, &gpu);
    if (r == RF_OK) r = rf_gpu_list(gpu, infos, count);
    rf_gpu_destroy(&gpu);
    return r;
}

/* Says at the log what the default leaves out, and what keeps GPUs away where it has to do with software. */
static void tell_of_default(const rf_device_info *infos, uint32_t num_infos)
{
    char why[768];
    bool gpu = false;
    for (uint32_t i = 0; i < num_infos; i++) {
        gpu |= infos[i].type != RF_DEVICE_TYPE_CPU;
        if (rf_device_left_out(&infos[i], why, sizeof(why))[0])
            rf_log_message(RF_LOG_INFO, "device %u (%s) is left out: %s", i, infos[i].name, why);
    }
    rf_absence_facts *facts = gpu ? NULL : malloc(sizeof(*facts));
    if (!facts) return;
    rf_absence_take_facts(RF_ABSENCE_BY_DEFAULT, facts);
    if (rf_absence_explain(RF_ABSENCE_BY_DEFAULT, facts, why, sizeof(why)))
        rf_log_message(RF_LOG_WARN, "no GPU is used: %s", why);
    free(facts);
}

static rf_result explain_choice(rf_result r, const rf_device_info *infos, uint32_t num_infos)
{
    if (r != RF_ERROR_NOT_FOUND) return r;
    bool gpu = false;
    for (uint32_t i = 0; i < num_infos; i++) gpu |= infos[i].type != RF_DEVICE_TYPE_CPU;
    return rf_absence_add_cause(gpu ? RF_ABSENCE_OF_ANOTHER : RF_ABSENCE_OF_GPUS, r);
}

rf_result rf_gpu_choose(rf_gpu *gpu, const char *named, rf_device_info **infos, uint32_t *num_infos, uint32_t **indices,
                        uint32_t *count)
{
    *indices = NULL;
    const char *entries = named ? named : rf_env("RINGFIRE_DEVICES");
    RF_TRY(rf_gpu_list_all(gpu, infos, num_infos));
    const rf_result r = rf_device_select(entries, *infos, *num_infos, indices, count);
    if (r >= 0 && !entries) tell_of_default(*infos, *num_infos);
    return explain_choice(r, *infos, *num_infos);
}

rf_result rf_gpu_choose_one(rf_gpu *gpu, const char *named, uint32_t *index)
{
    const char *entries = named ? named : rf_env("RINGFIRE_DEVICES");
    rf_device_info *infos;
    uint32_t num_infos;
    rf_result r = rf_gpu_list_all(gpu, &infos, &num_infos);
    if (r >= 0 && named && rf_device_is_list(named, infos, num_infos))
        r = RF_FAIL(RF_ERROR_INVALID_ARGUMENT,
                    "device '%s' is a list; name one, or use rf_strategy_create_mirrored() for several", named);
    if (r >= 0) r = explain_choice(rf_device_select_one(entries, infos, num_infos, index), infos, num_infos);
    rf_free(infos);
    return r;
}

RF_API rf_result rf_devices_select(const char *entries, uint32_t *indices, uint32_t *count)
{
    RF_REQUIRE(count, "count is NULL");
    const uint32_t capacity = indices ? *count : 0;
    rf_gpu *gpu;
    RF_TRY(rf_gpu_create(NULL, &gpu));
    rf_device_info *infos;
    uint32_t num_infos, *chosen;
    const rf_result r = rf_gpu_choose(gpu, entries, &infos, &num_infos, &chosen, count);
    if (r == RF_OK && indices) memcpy(indices, chosen, (*count < capacity ? *count : capacity) * sizeof(*chosen));
    rf_free(chosen);
    rf_free(infos);
    rf_gpu_destroy(&gpu);
    return r;
}

const char *rf_device_type_name(rf_device_type type)
{
    switch (type) {
    case RF_DEVICE_TYPE_INTEGRATED_GPU: return "integrated";
    case RF_DEVICE_TYPE_DISCRETE_GPU: return "discrete";
    case RF_DEVICE_TYPE_VIRTUAL_GPU: return "virtual";
    case RF_DEVICE_TYPE_CPU: return "cpu";
    case RF_DEVICE_TYPE_OTHER: break;
    }
    return "other";
}
