/* SPDX-License-Identifier: Apache-2.0 */
/* A Vulkan driver without devices that keeps memory, as lavapipe does on some processors: some that it allocates when
 * it is loaded, some with each instance. The Vulkan loader unloads it with the last instance. */
#include <stdlib.h>
#include <string.h>

#include <vulkan/vk_icd.h>
#include <vulkan/vulkan.h>

#define LEAK_BYTES 128

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL vk_icdGetInstanceProcAddr(VkInstance instance, const char *name);
VKAPI_ATTR VkResult VKAPI_CALL vk_icdNegotiateLoaderICDInterfaceVersion(uint32_t *version);

/* Volatile, so that the allocations are not optimised away. */
static void *volatile kept;

static void leak(void)
{
    kept = malloc(LEAK_BYTES);
    kept = NULL;
}

__attribute__((constructor)) static void on_load(void)
{
    leak();
}

static VKAPI_ATTR VkResult VKAPI_CALL create_instance(const VkInstanceCreateInfo *info,
                                                      const VkAllocationCallbacks *callbacks, VkInstance *out)
{
    (void)info;
    (void)callbacks;
    leak();
    VK_LOADER_DATA *instance = calloc(1, sizeof(*instance));
    if (!instance) return VK_ERROR_OUT_OF_HOST_MEMORY;
    set_loader_magic_value(instance);
    *out = (VkInstance)instance;
    return VK_SUCCESS;
}

static VKAPI_ATTR void VKAPI_CALL destroy_instance(VkInstance instance, const VkAllocationCallbacks *callbacks)
{
    (void)callbacks;
    free(instance);
}

static VKAPI_ATTR VkResult VKAPI_CALL enumerate_extensions(const char *layer, uint32_t *count,
                                                           VkExtensionProperties *properties)
{
    (void)layer;
    (void)properties;
    *count = 0;
    return VK_SUCCESS;
}

static VKAPI_ATTR VkResult VKAPI_CALL enumerate_physical_devices(VkInstance instance, uint32_t *count,
                                                                 VkPhysicalDevice *devices)
{
    (void)instance;
    (void)devices;
    *count = 0;
    return VK_SUCCESS;
}

/* The loader asks an instance for every function; the others cannot be called without a device. */
static VKAPI_ATTR void VKAPI_CALL never_called(void)
{
    abort();
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL vk_icdGetInstanceProcAddr(VkInstance instance, const char *name)
{
    static const struct {
        const char *name;
        PFN_vkVoidFunction function;
    } functions[] = {
        { "vkCreateInstance", (PFN_vkVoidFunction)create_instance },
        { "vkDestroyInstance", (PFN_vkVoidFunction)destroy_instance },
        { "vkEnumerateInstanceExtensionProperties", (PFN_vkVoidFunction)enumerate_extensions },
        { "vkEnumeratePhysicalDevices", (PFN_vkVoidFunction)enumerate_physical_devices },
        { "vkGetInstanceProcAddr", (PFN_vkVoidFunction)vk_icdGetInstanceProcAddr },
    };
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++)
        if (strcmp(functions[i].name, name) == 0) return functions[i].function;
    return instance ? never_called : NULL;
}

VKAPI_ATTR VkResult VKAPI_CALL vk_icdNegotiateLoaderICDInterfaceVersion(uint32_t *version)
{
    if (*version > 5) *version = 5;
    return VK_SUCCESS;
}
