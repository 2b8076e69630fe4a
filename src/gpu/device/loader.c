/* SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "gpu/device/absence.h"
#include "gpu/internal.h"

#define VALIDATION_LAYER "VK_LAYER_KHRONOS_validation"
#define PORTABILITY_ENUMERATION "VK_KHR_portability_enumeration"

/* ---- entry points ---- */

/* The loader's names, in the order in which they are tried. MoltenVK is a driver that exports what a loader does. */
static const char *const loader_names[] = {
    "libvulkan.so.1",    /* Linux, BSD */
    "libvulkan.so",      /* Android */
    "libvulkan.1.dylib", /* macOS */
    "libMoltenVK.dylib", /* macOS without Vulkan's SDK */
    "vulkan-1.dll",      /* Cygwin */
};
enum { NUM_LOADER_NAMES = sizeof(loader_names) / sizeof(loader_names[0]) };

static rf_result no_loader(const char *named, const char *why)
{
    if (named)
        return RF_FAIL(RF_ERROR_UNSUPPORTED,
                       "no Vulkan loader: '%s' of RINGFIRE_VULKAN_LIBRARY cannot be opened%s%s; correct or unset it",
                       named, why[0] ? ": " : "", why);
    char tried[128] = "";
    for (size_t i = 0; i < NUM_LOADER_NAMES; i++) {
        const size_t used = strlen(tried);
        snprintf(tried + used, sizeof(tried) - used, "%s%s", i > 0 ? ", " : "", loader_names[i]);
    }
    return RF_FAIL(RF_ERROR_UNSUPPORTED,
                   "no Vulkan loader: tried %s%s%s; install libvulkan1 (vulkan-loader, vulkan-icd-loader), or name the "
                   "library in RINGFIRE_VULKAN_LIBRARY",
                   tried, why[0] ? ": " : "", why);
}

static rf_result open_library(rf_gpu *gpu)
{
    const char *named = rf_env("RINGFIRE_VULKAN_LIBRARY");
    const char *const *names = named ? &named : loader_names;
    const size_t count = named ? 1 : NUM_LOADER_NAMES;
    char why[256] = ""; /* the first one's: that of a loader that is there but broken, on most systems */
    const char *name = NULL;
    for (size_t i = 0; i < count && !gpu->library; i++) {
        name = names[i];
        gpu->library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
        const char *text = gpu->library ? NULL : dlerror();
        if (text && i == 0) snprintf(why, sizeof(why), "%s", text);
    }
    if (!gpu->library) return no_loader(named, why);
    *(void **)&gpu->global.GetInstanceProcAddr = dlsym(gpu->library, "vkGetInstanceProcAddr");
    const PFN_vkGetInstanceProcAddr get = gpu->global.GetInstanceProcAddr;
    if (!get)
        return RF_FAIL(RF_ERROR_UNSUPPORTED, "%s has no vkGetInstanceProcAddr, so it is no Vulkan loader; %s", name,
                       named ? "correct or unset RINGFIRE_VULKAN_LIBRARY" : "reinstall the Vulkan loader");
    const char *missing = NULL;
#define LOAD_OPTIONAL(name) gpu->global.name = (PFN_vk##name)get(NULL, "vk" #name);
#define LOAD_REQUIRED(name)                                                                                            \
    LOAD_OPTIONAL(name)                                                                                                \
    if (!gpu->global.name) missing = "vk" #name;
    RF_VK_GLOBAL_FUNCTIONS(LOAD_REQUIRED, LOAD_OPTIONAL)
#undef LOAD_REQUIRED
#undef LOAD_OPTIONAL
    if (missing) return RF_FAIL(RF_ERROR_UNSUPPORTED, "the Vulkan loader lacks %s; update libvulkan1", missing);
    return RF_OK;
}

static rf_result load_instance_functions(rf_gpu *gpu)
{
    const char *missing = NULL;
#define LOAD_OPTIONAL(name) gpu->vk.name = (PFN_vk##name)gpu->global.GetInstanceProcAddr(gpu->instance, "vk" #name);
#define LOAD_REQUIRED(name)                                                                                            \
    LOAD_OPTIONAL(name)                                                                                                \
    if (!gpu->vk.name) missing = "vk" #name;
    RF_VK_INSTANCE_FUNCTIONS(LOAD_REQUIRED, LOAD_OPTIONAL)
#undef LOAD_REQUIRED
#undef LOAD_OPTIONAL
    if (missing) return RF_FAIL(RF_ERROR_UNSUPPORTED, "the Vulkan loader lacks %s; update libvulkan1", missing);
    return RF_OK;
}

/* ---- what the loader offers ---- */

/* *version: of Vulkan that the layer was written for; 0: there is no such layer. */
static rf_result find_layer(const rf_gpu *gpu, const char *name, uint32_t *version)
{
    *version = 0;
    uint32_t count = 0;
    RF_VK_TRY(NULL, gpu->global.EnumerateInstanceLayerProperties(&count, NULL), "listing Vulkan layers");
    VkLayerProperties *list = RF_NEW_ARRAY(VkLayerProperties, count);
    if (!list) return RF_ERROR_OUT_OF_HOST_MEMORY;
    const VkResult r = gpu->global.EnumerateInstanceLayerProperties(&count, list);
    for (uint32_t i = 0; r >= 0 && i < count; i++)
        if (strcmp(list[i].layerName, name) == 0) *version = list[i].specVersion;
    rf_free(list);
    RF_VK_TRY(NULL, r, "listing Vulkan layers");
    return RF_OK;
}

/* Extensions of the loader and its drivers (layer NULL) or of one layer. */
static rf_result has_instance_extension(const rf_gpu *gpu, const char *layer, const char *name, bool *found)
{
    *found = false;
    uint32_t count = 0;
    RF_VK_TRY(NULL, gpu->global.EnumerateInstanceExtensionProperties(layer, &count, NULL), "listing Vulkan extensions");
    VkExtensionProperties *list = RF_NEW_ARRAY(VkExtensionProperties, count);
    if (!list) return RF_ERROR_OUT_OF_HOST_MEMORY;
    const VkResult r = gpu->global.EnumerateInstanceExtensionProperties(layer, &count, list);
    for (uint32_t i = 0; r >= 0 && i < count; i++)
        if (strcmp(list[i].extensionName, name) == 0) *found = true;
    rf_free(list);
    RF_VK_TRY(NULL, r, "listing Vulkan extensions");
    return RF_OK;
}

/* ---- validation ---- */

static VKAPI_ATTR VkBool32 VKAPI_CALL on_message(VkDebugUtilsMessageSeverityFlagBitsEXT severity,
                                                 VkDebugUtilsMessageTypeFlagsEXT types,
                                                 const VkDebugUtilsMessengerCallbackDataEXT *data, void *user)
{
    rf_gpu *gpu = user;
    const char *text = data->pMessage ? data->pMessage : "(no text)";
    /* General messages are the loader's remarks on what is installed, not about what this program does. */
    if (!(types & ~(VkDebugUtilsMessageTypeFlagsEXT)VK_DEBUG_UTILS_MESSAGE_TYPE_GENERAL_BIT_EXT)) {
        rf_log_message(RF_LOG_INFO, "vulkan: %s", text);
        return VK_FALSE;
    }
    /* Newer layers leave the name of the broken rule out of the text. */
    const bool named = !data->pMessageIdName || strstr(text, data->pMessageIdName);
    const char *rule = named ? "" : data->pMessageIdName, *colon = named ? "" : ": ";
    rf_log_message(severity & VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT ? RF_LOG_ERROR : RF_LOG_WARN,
                   "vulkan: %s%s%s", rule, colon, text);
    if (atomic_fetch_add(&gpu->num_messages, 1) == 0) {
        snprintf(gpu->first, sizeof(gpu->first), "%s%s%s", rule, colon, text);
        atomic_store(&gpu->first_ready, true);
    }
    return VK_FALSE;
}

uint64_t rf_gpu_validation_messages(const rf_gpu *gpu, const char **first)
{
    if (first) *first = gpu && atomic_load(&gpu->first_ready) ? gpu->first : "";
    return gpu ? atomic_load(&gpu->num_messages) : 0;
}

static bool validation_wanted(const rf_gpu_params *params)
{
    if (params && params->validation) return true;
    const char *value = rf_env("RINGFIRE_VALIDATION");
    return value && strcmp(value, "0") != 0;
}

/* Whether the layer also builds checks of each access to a buffer into the shaders. */
static bool assisted_wanted(void)
{
    const char *value = rf_env("RINGFIRE_VALIDATION");
    return value && strcmp(value, "gpu") == 0;
}

static rf_result require_validation_layer(rf_gpu *gpu)
{
    bool features = false;
    RF_TRY(find_layer(gpu, VALIDATION_LAYER, &gpu->layer_version));
    const bool layer = gpu->layer_version > 0;
    if (layer)
        RF_TRY(has_instance_extension(gpu, VALIDATION_LAYER, VK_EXT_VALIDATION_FEATURES_EXTENSION_NAME, &features));
    if (!layer || !features)
        return RF_FAIL(RF_ERROR_UNSUPPORTED,
                       "the Vulkan validation layer " VALIDATION_LAYER
                       " is %s; install vulkan-validationlayers, or unset RINGFIRE_VALIDATION",
                       layer ? "too old" : "not installed");
    return RF_OK;
}

/* ---- instance ---- */

static rf_result instance_failure(VkResult result)
{
    if (result == VK_ERROR_INCOMPATIBLE_DRIVER)
        return RF_FAIL_NATIVE(
            RF_ERROR_NOT_FOUND, "vulkan", result,
            "no Vulkan driver found; install mesa-vulkan-drivers or the GPU vendor's driver, or correct "
            "VK_DRIVER_FILES");
    return RF_GPU_FAIL(NULL, result, "creating a Vulkan instance");
}

static rf_result create_instance(rf_gpu *gpu, bool validation)
{
    uint32_t version = VK_API_VERSION_1_0;
    if (gpu->global.EnumerateInstanceVersion) gpu->global.EnumerateInstanceVersion(&version);
    if (version < VK_API_VERSION_1_2)
        return RF_FAIL(RF_ERROR_UNSUPPORTED, "the Vulkan loader knows version %u.%u, 1.2 is needed; update libvulkan1",
                       VK_API_VERSION_MAJOR(version), VK_API_VERSION_MINOR(version));

    bool debug_in_layer = false, portability;
    RF_TRY(has_instance_extension(gpu, NULL, VK_EXT_DEBUG_UTILS_EXTENSION_NAME, &gpu->debug_utils));
    RF_TRY(has_instance_extension(gpu, NULL, PORTABILITY_ENUMERATION, &portability));
    if (validation) {
        RF_TRY(require_validation_layer(gpu));
        RF_TRY(has_instance_extension(gpu, VALIDATION_LAYER, VK_EXT_DEBUG_UTILS_EXTENSION_NAME, &debug_in_layer));
        gpu->debug_utils = gpu->debug_utils || debug_in_layer;
    }

    const char *extensions[3];
    uint32_t num_extensions = 0;
    if (gpu->debug_utils) extensions[num_extensions++] = VK_EXT_DEBUG_UTILS_EXTENSION_NAME;
    if (portability) extensions[num_extensions++] = PORTABILITY_ENUMERATION;
    if (validation) extensions[num_extensions++] = VK_EXT_VALIDATION_FEATURES_EXTENSION_NAME;

    const VkValidationFeatureEnableEXT checks[] = {
        VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT,
        VK_VALIDATION_FEATURE_ENABLE_GPU_ASSISTED_EXT,
        VK_VALIDATION_FEATURE_ENABLE_GPU_ASSISTED_RESERVE_BINDING_SLOT_EXT,
    };
    const VkValidationFeaturesEXT features = {
        .sType = VK_STRUCTURE_TYPE_VALIDATION_FEATURES_EXT,
        .enabledValidationFeatureCount = assisted_wanted() ? sizeof(checks) / sizeof(checks[0]) : 1,
        .pEnabledValidationFeatures = checks,
    };
    /* Chained to the instance as well, so that creating and destroying it is watched too. */
    const VkDebugUtilsMessengerCreateInfoEXT messenger = {
        .sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT,
        .pNext = &features,
        .messageSeverity =
            VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT,
        .messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_GENERAL_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT |
                       VK_DEBUG_UTILS_MESSAGE_TYPE_PERFORMANCE_BIT_EXT,
        .pfnUserCallback = on_message,
        .pUserData = gpu,
    };
    const VkApplicationInfo application = {
        .sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
        .pEngineName = "Ringfire",
        .apiVersion = version >= VK_API_VERSION_1_3 ? VK_API_VERSION_1_3 : VK_API_VERSION_1_2,
    };
    const char *layers[] = { VALIDATION_LAYER };
    const VkInstanceCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
        .pNext = validation ? (gpu->debug_utils ? (const void *)&messenger : (const void *)&features) : NULL,
        .flags = portability ? 1u /* VK_INSTANCE_CREATE_ENUMERATE_PORTABILITY_BIT_KHR */ : 0,
        .pApplicationInfo = &application,
        .enabledLayerCount = validation ? 1 : 0,
        .ppEnabledLayerNames = layers,
        .enabledExtensionCount = num_extensions,
        .ppEnabledExtensionNames = extensions,
    };
    const VkResult created = gpu->global.CreateInstance(&info, NULL, &gpu->instance);
    if (created < 0) {
        gpu->instance = VK_NULL_HANDLE;
        return instance_failure(created);
    }
    RF_TRY(load_instance_functions(gpu));
    if (validation && gpu->debug_utils && gpu->vk.CreateDebugUtilsMessengerEXT) {
        VkDebugUtilsMessengerCreateInfoEXT own = messenger;
        own.pNext = NULL;
        RF_VK_CREATE(NULL, gpu->messenger,
                     gpu->vk.CreateDebugUtilsMessengerEXT(gpu->instance, &own, NULL, &gpu->messenger),
                     "creating the validation messenger");
    }
    return RF_OK;
}

static rf_result devices_enumerate(rf_gpu *gpu)
{
    uint32_t count = 0;
    VkResult r = gpu->vk.EnumeratePhysicalDevices(gpu->instance, &count, NULL);
    if (r == VK_ERROR_INITIALIZATION_FAILED || (r >= 0 && count == 0))
        return RF_FAIL_NATIVE(
            RF_ERROR_NOT_FOUND, "vulkan", r,
            "no Vulkan driver offers a device; install mesa-vulkan-drivers or the GPU vendor's driver, or "
            "correct VK_DRIVER_FILES");
    RF_VK_TRY(NULL, r, "listing Vulkan devices");
    gpu->physical_devices = RF_NEW_ARRAY(VkPhysicalDevice, count);
    if (!gpu->physical_devices) return RF_ERROR_OUT_OF_HOST_MEMORY;
    RF_VK_TRY(NULL, gpu->vk.EnumeratePhysicalDevices(gpu->instance, &count, gpu->physical_devices),
              "listing Vulkan devices");
    gpu->num_physical_devices = count;
    return RF_OK;
}

rf_result rf_gpu_create(const rf_gpu_params *params, rf_gpu **out)
{
    RF_REQUIRE(out, "out is NULL");
    *out = NULL;
    rf_gpu *gpu = RF_NEW(rf_gpu);
    if (!gpu) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_gpu_lock_drivers();
    rf_result r = open_library(gpu);
    if (r == RF_OK) r = create_instance(gpu, validation_wanted(params));
    if (r == RF_OK) r = devices_enumerate(gpu);
    rf_gpu_unlock_drivers();
    if (r == RF_OK) *out = gpu;
    if (r < 0) rf_gpu_destroy(&gpu);
    return r == RF_ERROR_NOT_FOUND || r == RF_ERROR_OUT_OF_HOST_MEMORY ? rf_absence_add_cause(RF_ABSENCE_OF_ALL, r) : r;
}

void rf_gpu_destroy(rf_gpu **gpu_pointer)
{
    rf_gpu *gpu = gpu_pointer ? *gpu_pointer : NULL;
    if (!gpu) return;
    *gpu_pointer = NULL;
    rf_gpu_lock_drivers();
    if (gpu->messenger && gpu->vk.DestroyDebugUtilsMessengerEXT)
        gpu->vk.DestroyDebugUtilsMessengerEXT(gpu->instance, gpu->messenger, NULL);
    if (gpu->instance && gpu->vk.DestroyInstance) gpu->vk.DestroyInstance(gpu->instance, NULL);
    if (gpu->library) dlclose(gpu->library);
    rf_gpu_unlock_drivers();
    rf_free(gpu->physical_devices);
    rf_free(gpu);
}
