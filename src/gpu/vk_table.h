/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every Vulkan entry point the library calls, once. Each list becomes a struct of function pointers: global ones belong
 * to the loader, instance ones to an rf_gpu, device ones to an rf_gpu_device. OPTIONAL ones come from extensions and
 * may be NULL.
 */
#ifndef RF_GPU_VK_TABLE_H
#define RF_GPU_VK_TABLE_H

#define VK_NO_PROTOTYPES 1
#include <vulkan/vulkan_core.h>

#include "gpu/vk_cooperative.h"

#define RF_VK_GLOBAL_FUNCTIONS(REQUIRED, OPTIONAL)                                                                     \
    REQUIRED(EnumerateInstanceExtensionProperties)                                                                     \
    REQUIRED(EnumerateInstanceLayerProperties)                                                                         \
    REQUIRED(CreateInstance)                                                                                           \
    OPTIONAL(EnumerateInstanceVersion) /* absent from Vulkan 1.0 loaders */

#define RF_VK_INSTANCE_FUNCTIONS(REQUIRED, OPTIONAL)                                                                   \
    REQUIRED(DestroyInstance)                                                                                          \
    REQUIRED(EnumeratePhysicalDevices)                                                                                 \
    REQUIRED(EnumerateDeviceExtensionProperties)                                                                       \
    REQUIRED(GetPhysicalDeviceProperties)                                                                              \
    REQUIRED(GetPhysicalDeviceProperties2)                                                                             \
    REQUIRED(GetPhysicalDeviceFeatures2)                                                                               \
    REQUIRED(GetPhysicalDeviceMemoryProperties)                                                                        \
    REQUIRED(GetPhysicalDeviceMemoryProperties2)                                                                       \
    REQUIRED(GetPhysicalDeviceQueueFamilyProperties)                                                                   \
    REQUIRED(CreateDevice)                                                                                             \
    REQUIRED(GetDeviceProcAddr)                                                                                        \
    OPTIONAL(GetPhysicalDeviceCooperativeMatrixPropertiesKHR)                                                          \
    OPTIONAL(GetPhysicalDeviceExternalBufferProperties)                                                                \
    OPTIONAL(CreateDebugUtilsMessengerEXT)                                                                             \
    OPTIONAL(DestroyDebugUtilsMessengerEXT)

#define RF_VK_DEVICE_FUNCTIONS(REQUIRED, OPTIONAL)                                                                     \
    REQUIRED(DestroyDevice)                                                                                            \
    REQUIRED(DeviceWaitIdle)                                                                                           \
    REQUIRED(GetDeviceQueue)                                                                                           \
    REQUIRED(QueueSubmit)                                                                                              \
    REQUIRED(CreateSemaphore)                                                                                          \
    REQUIRED(DestroySemaphore)                                                                                         \
    REQUIRED(WaitSemaphores)                                                                                           \
    REQUIRED(GetSemaphoreCounterValue)                                                                                 \
    REQUIRED(CreateBuffer)                                                                                             \
    REQUIRED(DestroyBuffer)                                                                                            \
    REQUIRED(GetBufferMemoryRequirements)                                                                              \
    REQUIRED(AllocateMemory)                                                                                           \
    REQUIRED(FreeMemory)                                                                                               \
    REQUIRED(BindBufferMemory)                                                                                         \
    REQUIRED(MapMemory)                                                                                                \
    REQUIRED(FlushMappedMemoryRanges)                                                                                  \
    REQUIRED(InvalidateMappedMemoryRanges)                                                                             \
    REQUIRED(CreateBufferView)                                                                                         \
    REQUIRED(DestroyBufferView)                                                                                        \
    REQUIRED(CreateShaderModule)                                                                                       \
    REQUIRED(DestroyShaderModule)                                                                                      \
    REQUIRED(CreateDescriptorSetLayout)                                                                                \
    REQUIRED(DestroyDescriptorSetLayout)                                                                               \
    REQUIRED(CreatePipelineLayout)                                                                                     \
    REQUIRED(DestroyPipelineLayout)                                                                                    \
    REQUIRED(CreateComputePipelines)                                                                                   \
    REQUIRED(DestroyPipeline)                                                                                          \
    REQUIRED(CreatePipelineCache)                                                                                      \
    REQUIRED(DestroyPipelineCache)                                                                                     \
    REQUIRED(GetPipelineCacheData)                                                                                     \
    REQUIRED(CreateDescriptorPool)                                                                                     \
    REQUIRED(DestroyDescriptorPool)                                                                                    \
    REQUIRED(AllocateDescriptorSets)                                                                                   \
    REQUIRED(UpdateDescriptorSets)                                                                                     \
    REQUIRED(CreateCommandPool)                                                                                        \
    REQUIRED(ResetCommandPool)                                                                                         \
    REQUIRED(DestroyCommandPool)                                                                                       \
    REQUIRED(AllocateCommandBuffers)                                                                                   \
    REQUIRED(BeginCommandBuffer)                                                                                       \
    REQUIRED(EndCommandBuffer)                                                                                         \
    REQUIRED(CmdBindPipeline)                                                                                          \
    REQUIRED(CmdBindDescriptorSets)                                                                                    \
    REQUIRED(CmdPushConstants)                                                                                         \
    REQUIRED(CmdDispatch)                                                                                              \
    REQUIRED(CmdDispatchBase)                                                                                          \
    REQUIRED(CmdCopyBuffer)                                                                                            \
    REQUIRED(CmdFillBuffer)                                                                                            \
    REQUIRED(CmdPipelineBarrier)                                                                                       \
    REQUIRED(CreateQueryPool)                                                                                          \
    REQUIRED(DestroyQueryPool)                                                                                         \
    REQUIRED(GetQueryPoolResults)                                                                                      \
    REQUIRED(CmdResetQueryPool)                                                                                        \
    REQUIRED(CmdWriteTimestamp)                                                                                        \
    OPTIONAL(GetDeviceFaultInfoEXT)                                                                                    \
    OPTIONAL(GetMemoryHostPointerPropertiesEXT)                                                                        \
    OPTIONAL(GetPipelineExecutablePropertiesKHR)                                                                       \
    OPTIONAL(GetPipelineExecutableStatisticsKHR)                                                                       \
    OPTIONAL(GetPipelineExecutableInternalRepresentationsKHR)                                                          \
    OPTIONAL(SetDebugUtilsObjectNameEXT)                                                                               \
    OPTIONAL(CmdBeginDebugUtilsLabelEXT)                                                                               \
    OPTIONAL(CmdEndDebugUtilsLabelEXT)

#define RF_VK_MEMBER(name) PFN_vk##name name;
typedef struct rf_vk_global {
    PFN_vkGetInstanceProcAddr GetInstanceProcAddr;
    RF_VK_GLOBAL_FUNCTIONS(RF_VK_MEMBER, RF_VK_MEMBER)
} rf_vk_global;
typedef struct rf_vk_instance {
    RF_VK_INSTANCE_FUNCTIONS(RF_VK_MEMBER, RF_VK_MEMBER)
} rf_vk_instance;
typedef struct rf_vk_device {
    RF_VK_DEVICE_FUNCTIONS(RF_VK_MEMBER, RF_VK_MEMBER)
} rf_vk_device;

#endif
