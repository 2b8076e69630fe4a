/* SPDX-License-Identifier: Apache-2.0 */
/* Diagnoses: a driver's words about a failure beyond its code, as the end of a message. Every text is "" where it says
 * nothing. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "gpu/internal.h"

#include "base/numbers.h"

enum { MAX_FAULTS = 4 }; /* of each kind, that a message tells */

static void text_append(char *text, size_t size, const char *format, ...) RF_PRINTF(3, 4);
static void text_append(char *text, size_t size, const char *format, ...)
{
    const size_t used = strlen(text);
    va_list args;
    va_start(args, format);
    rf_number_vprint(text + used, size - used, format, args);
    va_end(args);
}

/* ---- a lost device ---- */

static const char *address_type(VkDeviceFaultAddressTypeEXT type)
{
    switch (type) {
    case VK_DEVICE_FAULT_ADDRESS_TYPE_READ_INVALID_EXT: return "invalid read";
    case VK_DEVICE_FAULT_ADDRESS_TYPE_WRITE_INVALID_EXT: return "invalid write";
    case VK_DEVICE_FAULT_ADDRESS_TYPE_EXECUTE_INVALID_EXT: return "invalid execution";
    case VK_DEVICE_FAULT_ADDRESS_TYPE_INSTRUCTION_POINTER_UNKNOWN_EXT:
    case VK_DEVICE_FAULT_ADDRESS_TYPE_INSTRUCTION_POINTER_INVALID_EXT:
    case VK_DEVICE_FAULT_ADDRESS_TYPE_INSTRUCTION_POINTER_FAULT_EXT: return "fault of an instruction";
    default: return "fault";
    }
}

void rf_gpu_describe_fault(const rf_gpu_device *device, char *text, size_t size)
{
    text[0] = '\0';
    if (!device->plan.device_fault || !device->vk.GetDeviceFaultInfoEXT) return;
    VkDeviceFaultAddressInfoEXT addresses[MAX_FAULTS] = { 0 };
    VkDeviceFaultVendorInfoEXT vendors[MAX_FAULTS] = { 0 };
    VkDeviceFaultCountsEXT counts = { .sType = VK_STRUCTURE_TYPE_DEVICE_FAULT_COUNTS_EXT };
    VkDeviceFaultInfoEXT info = { .sType = VK_STRUCTURE_TYPE_DEVICE_FAULT_INFO_EXT,
                                  .pAddressInfos = addresses,
                                  .pVendorInfos = vendors };
    if (device->vk.GetDeviceFaultInfoEXT(device->device, &counts, NULL) < 0) return;
    if (counts.addressInfoCount > MAX_FAULTS) counts.addressInfoCount = MAX_FAULTS;
    if (counts.vendorInfoCount > MAX_FAULTS) counts.vendorInfoCount = MAX_FAULTS;
    counts.vendorBinarySize = 0;
    if (device->vk.GetDeviceFaultInfoEXT(device->device, &counts, &info) < 0) return;
    text_append(text, size, "; the driver reports: %.128s", info.description[0] ? info.description : "a fault");
    for (uint32_t i = 0; i < counts.addressInfoCount && i < MAX_FAULTS; i++)
        text_append(text, size, ", %s at 0x%llx", address_type(addresses[i].addressType),
                    (unsigned long long)addresses[i].reportedAddress);
    for (uint32_t i = 0; i < counts.vendorInfoCount && i < MAX_FAULTS; i++)
        text_append(text, size, ", %.64s (code 0x%llx)", vendors[i].description,
                    (unsigned long long)vendors[i].vendorFaultCode);
    rf_error_one_line(text);
}

/* ---- memory that is used up ---- */

#define DRIVER_ROOM (256ull << 20) /* what a failed allocation of a driver may have been */

static bool describe_limits(char *text, size_t size)
{
    rf_memory_limits limits;
    rf_memory_limits_take(&limits);
    return rf_memory_limits_describe(&limits, DRIVER_ROOM, text, size);
}

void rf_gpu_describe_limits(char *text, size_t size)
{
    char why[256];
    text[0] = '\0';
    if (describe_limits(why, sizeof(why))) snprintf(text, size, "; %s", why);
}

void rf_gpu_describe_memory(const rf_gpu_device *device, char *text, size_t size)
{
    text[0] = '\0';
    if (!device->snapshot.extensions.memory_budget) return;
    VkPhysicalDeviceMemoryBudgetPropertiesEXT budget = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT,
    };
    VkPhysicalDeviceMemoryProperties2 memory = { .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2,
                                                 .pNext = &budget };
    device->gpu->vk.GetPhysicalDeviceMemoryProperties2(device->physical, &memory);
    const VkPhysicalDeviceMemoryProperties *m = &memory.memoryProperties;
    uint32_t heap = VK_MAX_MEMORY_HEAPS;
    for (uint32_t i = 0; i < m->memoryHeapCount; i++)
        if ((m->memoryHeaps[i].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) &&
            (heap == VK_MAX_MEMORY_HEAPS || m->memoryHeaps[i].size > m->memoryHeaps[heap].size))
            heap = i;
    if (heap == VK_MAX_MEMORY_HEAPS) return;
    /* The budget is what this process may use in all, what it uses already included. */
    const uint64_t whole = m->memoryHeaps[heap].size, ours = budget.heapBudget[heap];
    const double gib = 1.0 / (double)(1u << 30);
    text_append(text, size, "; of the device's %.1f GiB others use %.1f, this process uses %.1f", (double)whole * gib,
                (double)(whole > ours ? whole - ours : 0) * gib, (double)budget.heapUsage[heap] * gib);
}

void rf_gpu_warn_of_limits(const rf_gpu_device *device)
{
    char why[256];
    if (device->plan.caps.is_cpu && describe_limits(why, sizeof(why)))
        rf_log_message(RF_LOG_WARN, "%s: the driver may end the program for want of memory: %s", device->info.name,
                       why);
}
