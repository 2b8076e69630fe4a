/* SPDX-License-Identifier: Apache-2.0 */
/* A Vulkan layer that gives devices other names, types, UUIDs and versions, by their places in the driver's list:
 * FAKE_DEVICES="0:type=2,0:name=GPU,1:uuid=7,1:api=1". */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vulkan/vk_layer.h>
#include <vulkan/vulkan.h>

enum { MOST = 16 };
static PFN_vkGetInstanceProcAddr next;
static VkInstance instance;
static PFN_vkEnumeratePhysicalDevices next_enumerate;
static PFN_vkGetPhysicalDeviceProperties next_properties;
static PFN_vkGetPhysicalDeviceProperties2 next_properties2;
static VkPhysicalDevice devices[MOST];

/* The text about a device, or NULL. */
static const char *said(VkPhysicalDevice device, const char *key, char text[64])
{
    int place = 0;
    while (place < MOST && devices[place] != device) place++;
    const char *all = getenv("FAKE_DEVICES");
    char wanted[32];
    snprintf(wanted, sizeof(wanted), "%d:%s=", place, key);
    const char *found = all ? strstr(all, wanted) : NULL;
    if (!found) return NULL;
    found += strlen(wanted);
    snprintf(text, 64, "%.*s", (int)strcspn(found, ","), found);
    return text;
}

static void change(VkPhysicalDevice device, VkPhysicalDeviceProperties *properties)
{
    char text[64];
    if (said(device, "type", text)) properties->deviceType = (VkPhysicalDeviceType)atoi(text);
    if (said(device, "name", text)) snprintf(properties->deviceName, sizeof(properties->deviceName), "%s", text);
    if (said(device, "api", text)) properties->apiVersion = VK_MAKE_API_VERSION(0, 1, (uint32_t)atoi(text), 0);
}

static VKAPI_ATTR void VKAPI_CALL get_properties(VkPhysicalDevice device, VkPhysicalDeviceProperties *out)
{
    next_properties(device, out);
    change(device, out);
}

static VKAPI_ATTR void VKAPI_CALL get_properties2(VkPhysicalDevice device, VkPhysicalDeviceProperties2 *out)
{
    char text[64];
    next_properties2(device, out);
    change(device, &out->properties);
    for (VkBaseOutStructure *s = out->pNext; s && said(device, "uuid", text); s = s->pNext)
        if (s->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_PROPERTIES)
            memset(((VkPhysicalDeviceVulkan11Properties *)(void *)s)->deviceUUID, atoi(text), VK_UUID_SIZE);
}

static VKAPI_ATTR VkResult VKAPI_CALL enumerate(VkInstance of, uint32_t *count, VkPhysicalDevice *out)
{
    const VkResult r = next_enumerate(of, count, out);
    for (uint32_t i = 0; out && i < *count && i < MOST; i++) devices[i] = out[i];
    return r;
}

static VKAPI_ATTR VkResult VKAPI_CALL create(const VkInstanceCreateInfo *info, const VkAllocationCallbacks *allocator,
                                             VkInstance *out)
{
    VkLayerInstanceCreateInfo *link = (VkLayerInstanceCreateInfo *)(size_t)info->pNext;
    while (link->sType != VK_STRUCTURE_TYPE_LOADER_INSTANCE_CREATE_INFO || link->function != VK_LAYER_LINK_INFO)
        link = (VkLayerInstanceCreateInfo *)(size_t)link->pNext;
    next = link->u.pLayerInfo->pfnNextGetInstanceProcAddr;
    link->u.pLayerInfo = link->u.pLayerInfo->pNext;
    const PFN_vkCreateInstance next_create = (PFN_vkCreateInstance)next(NULL, "vkCreateInstance");
    const VkResult r = next_create(info, allocator, out);
    if (r < 0) return r;
    instance = *out;
    next_enumerate = (PFN_vkEnumeratePhysicalDevices)next(instance, "vkEnumeratePhysicalDevices");
    next_properties = (PFN_vkGetPhysicalDeviceProperties)next(instance, "vkGetPhysicalDeviceProperties");
    next_properties2 = (PFN_vkGetPhysicalDeviceProperties2)next(instance, "vkGetPhysicalDeviceProperties2");
    return r;
}

/* Newer headers of Vulkan have no word for it. */
__attribute__((visibility("default"))) VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL vkGetInstanceProcAddr(VkInstance of,
                                                                                                      const char *name)
{
    static const struct {
        const char *name;
        PFN_vkVoidFunction function;
    } own[] = {
        { "vkGetInstanceProcAddr", (PFN_vkVoidFunction)vkGetInstanceProcAddr },
        { "vkCreateInstance", (PFN_vkVoidFunction)create },
        { "vkEnumeratePhysicalDevices", (PFN_vkVoidFunction)enumerate },
        { "vkGetPhysicalDeviceProperties", (PFN_vkVoidFunction)get_properties },
        { "vkGetPhysicalDeviceProperties2", (PFN_vkVoidFunction)get_properties2 },
    };
    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
        if (strcmp(own[i].name, name) == 0) return own[i].function;
    return next ? next(of ? of : instance, name) : NULL;
}
