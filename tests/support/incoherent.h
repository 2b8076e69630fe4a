/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the devices of an rf_gpu look, and behave, as if none of their memory were coherent: what the host maps is a
 * copy, which a flush writes to the memory itself and an invalidation reads from it. A flush or an invalidation that
 * is missing gives wrong results on any driver.
 */
#ifndef RF_TESTS_SUPPORT_INCOHERENT_H
#define RF_TESTS_SUPPORT_INCOHERENT_H

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/internal.h"

typedef struct incoherent_memory {
    struct incoherent_memory *next;
    VkDeviceMemory memory;
    uint64_t size;
    void *real;
    unsigned char *copy; /* NULL: not mapped */
} incoherent_memory;

static struct {
    pthread_mutex_t mutex;
    incoherent_memory *list;
    rf_vk_instance real;
    unsigned flushes, invalidations;
} incoherent = { .mutex = PTHREAD_MUTEX_INITIALIZER };

#define INCOHERENT_REAL(device, entry) ((PFN_vk##entry)incoherent.real.GetDeviceProcAddr(device, "vk" #entry))

static incoherent_memory *incoherent_find(VkDeviceMemory memory)
{
    incoherent_memory *m = incoherent.list;
    while (m && m->memory != memory) m = m->next;
    return m;
}

static VKAPI_ATTR VkResult VKAPI_CALL incoherent_allocate(VkDevice device, const VkMemoryAllocateInfo *info,
                                                          const VkAllocationCallbacks *callbacks, VkDeviceMemory *out)
{
    const VkResult r = INCOHERENT_REAL(device, AllocateMemory)(device, info, callbacks, out);
    incoherent_memory *m = r >= 0 ? calloc(1, sizeof(*m)) : NULL;
    if (!m) return r;
    m->memory = *out;
    m->size = info->allocationSize;
    pthread_mutex_lock(&incoherent.mutex);
    m->next = incoherent.list;
    incoherent.list = m;
    pthread_mutex_unlock(&incoherent.mutex);
    return r;
}

static VKAPI_ATTR void VKAPI_CALL incoherent_free(VkDevice device, VkDeviceMemory memory,
                                                  const VkAllocationCallbacks *callbacks)
{
    pthread_mutex_lock(&incoherent.mutex);
    incoherent_memory **at = &incoherent.list;
    while (*at && (*at)->memory != memory) at = &(*at)->next;
    incoherent_memory *m = *at;
    if (m) *at = m->next;
    pthread_mutex_unlock(&incoherent.mutex);
    if (m) free(m->copy);
    free(m);
    INCOHERENT_REAL(device, FreeMemory)(device, memory, callbacks);
}

static VKAPI_ATTR VkResult VKAPI_CALL incoherent_map(VkDevice device, VkDeviceMemory memory, VkDeviceSize offset,
                                                     VkDeviceSize size, VkMemoryMapFlags flags, void **out)
{
    void *real;
    const VkResult r = INCOHERENT_REAL(device, MapMemory)(device, memory, offset, size, flags, &real);
    if (r < 0) return r;
    pthread_mutex_lock(&incoherent.mutex);
    incoherent_memory *m = incoherent_find(memory);
    if (m) {
        m->real = real;
        m->copy = malloc(m->size);
        if (m->copy) memset(m->copy, 0xA5, m->size);
    }
    *out = m && m->copy ? (void *)m->copy : real;
    pthread_mutex_unlock(&incoherent.mutex);
    return r;
}

static VKAPI_ATTR VkResult VKAPI_CALL incoherent_flush(VkDevice device, uint32_t count,
                                                       const VkMappedMemoryRange *ranges)
{
    pthread_mutex_lock(&incoherent.mutex);
    for (uint32_t i = 0; i < count; i++) {
        const incoherent_memory *m = incoherent_find(ranges[i].memory);
        memcpy(m->real, m->copy, m->size);
        incoherent.flushes++;
    }
    pthread_mutex_unlock(&incoherent.mutex);
    return INCOHERENT_REAL(device, FlushMappedMemoryRanges)(device, count, ranges);
}

static VKAPI_ATTR VkResult VKAPI_CALL incoherent_invalidate(VkDevice device, uint32_t count,
                                                            const VkMappedMemoryRange *ranges)
{
    const VkResult r = INCOHERENT_REAL(device, InvalidateMappedMemoryRanges)(device, count, ranges);
    pthread_mutex_lock(&incoherent.mutex);
    for (uint32_t i = 0; i < count; i++) {
        const incoherent_memory *m = incoherent_find(ranges[i].memory);
        memcpy(m->copy, m->real, m->size);
        incoherent.invalidations++;
    }
    pthread_mutex_unlock(&incoherent.mutex);
    return r;
}

static VKAPI_ATTR void VKAPI_CALL incoherent_memory_types(VkPhysicalDevice physical,
                                                          VkPhysicalDeviceMemoryProperties *out)
{
    incoherent.real.GetPhysicalDeviceMemoryProperties(physical, out);
    for (uint32_t i = 0; i < out->memoryTypeCount; i++)
        out->memoryTypes[i].propertyFlags &= ~(VkMemoryPropertyFlags)VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL incoherent_proc_addr(VkDevice device, const char *name)
{
    static const struct {
        const char *name;
        PFN_vkVoidFunction function;
    } instead[] = {
        { "vkAllocateMemory", (PFN_vkVoidFunction)incoherent_allocate },
        { "vkFreeMemory", (PFN_vkVoidFunction)incoherent_free },
        { "vkMapMemory", (PFN_vkVoidFunction)incoherent_map },
        { "vkFlushMappedMemoryRanges", (PFN_vkVoidFunction)incoherent_flush },
        { "vkInvalidateMappedMemoryRanges", (PFN_vkVoidFunction)incoherent_invalidate },
    };
    for (size_t i = 0; i < sizeof(instead) / sizeof(instead[0]); i++)
        if (strcmp(name, instead[i].name) == 0) return instead[i].function;
    return incoherent.real.GetDeviceProcAddr(device, name);
}

/* For devices that are opened from now on, until incoherent_end(). */
static void incoherent_begin(rf_gpu *gpu)
{
    incoherent.real = gpu->vk;
    incoherent.flushes = incoherent.invalidations = 0;
    gpu->vk.GetPhysicalDeviceMemoryProperties = incoherent_memory_types;
    gpu->vk.GetDeviceProcAddr = incoherent_proc_addr;
}

static void incoherent_end(rf_gpu *gpu)
{
    gpu->vk = incoherent.real;
}

#endif
