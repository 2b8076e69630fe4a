/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of drivers that fail: on every usable device, by replacing entry points of it. */
#include "device_test.h"

#include "../support/lost_queue.h"

#include <stdio.h>
#include <string.h>

static VKAPI_ATTR VkResult VKAPI_CALL fail_allocate(VkDevice device, const VkMemoryAllocateInfo *info,
                                                    const VkAllocationCallbacks *callbacks, VkDeviceMemory *out)
{
    (void)device, (void)info, (void)callbacks, (void)out;
    return VK_ERROR_OUT_OF_DEVICE_MEMORY;
}

static VKAPI_ATTR VkResult VKAPI_CALL fail_map(VkDevice device, VkDeviceMemory memory, VkDeviceSize offset,
                                               VkDeviceSize size, VkMemoryMapFlags flags, void **out)
{
    (void)device, (void)memory, (void)offset, (void)size, (void)flags, (void)out;
    return VK_ERROR_MEMORY_MAP_FAILED;
}

static VKAPI_ATTR VkResult VKAPI_CALL fail_compile(VkDevice device, VkPipelineCache cache, uint32_t count,
                                                   const VkComputePipelineCreateInfo *infos,
                                                   const VkAllocationCallbacks *callbacks, VkPipeline *out)
{
    (void)device, (void)cache, (void)count, (void)infos, (void)callbacks, (void)out;
    return VK_ERROR_OUT_OF_HOST_MEMORY;
}

void test_out_of_memory(void **state)
{
    fixture *f = *state;
    rf_gpu_buffer *buffer;
    const rf_vk_device vk = f->device->vk;
    f->device->vk.AllocateMemory = fail_allocate;
    assert_int_equal(rf_gpu_buffer_create(f->device, RF_GPU_MEMORY_DEVICE, 4096, "weights", &buffer),
                     RF_ERROR_OUT_OF_DEVICE_MEMORY);
    rf_error_info info;
    rf_error_get(&info);
    assert_string_equal(info.native_domain, "vulkan");
    assert_int_equal(info.native_code, VK_ERROR_OUT_OF_DEVICE_MEMORY);
    assert_non_null(strstr(rf_error_message(), "'weights'"));
    f->device->vk = vk;
    f->device->vk.MapMemory = fail_map;
    assert_int_equal(rf_gpu_buffer_create(f->device, RF_GPU_MEMORY_UPLOAD, 64, "up", &buffer),
                     RF_ERROR_OUT_OF_DEVICE_MEMORY);
    f->device->vk = vk;
    f->device->vk.CreateComputePipelines = fail_compile;
    const uint32_t bias = 77;
    const rf_gpu_pipeline_params params = axpy_params(&rf_shader_test_axpy, &bias, false);
    rf_gpu_pipeline *pipeline;
    assert_int_equal(rf_gpu_pipeline_get(f->device, &params, &pipeline), RF_ERROR_OUT_OF_HOST_MEMORY);
    f->device->vk = vk;
    /* Nothing of that stays. */
    CHECK(rf_gpu_pipeline_get(f->device, &params, &pipeline));
    CHECK(rf_gpu_buffer_create(f->device, RF_GPU_MEMORY_DEVICE, 4096, "weights", &buffer));
    rf_gpu_buffer_destroy(&buffer);
}

/* The device has 24 GiB, of which this process may use 4 and uses 3. */
static VKAPI_ATTR void VKAPI_CALL small_budget(VkPhysicalDevice physical, VkPhysicalDeviceMemoryProperties2 *out)
{
    (void)physical;
    out->memoryProperties = (VkPhysicalDeviceMemoryProperties){ .memoryHeapCount = 2 };
    out->memoryProperties.memoryHeaps[0] = (VkMemoryHeap){ 99ull << 30, 0 };
    out->memoryProperties.memoryHeaps[1] = (VkMemoryHeap){ 24ull << 30, VK_MEMORY_HEAP_DEVICE_LOCAL_BIT };
    VkPhysicalDeviceMemoryBudgetPropertiesEXT *budget = out->pNext;
    budget->heapBudget[1] = 4ull << 30;
    budget->heapUsage[1] = 3ull << 30;
}

void test_memory_budget(void **state)
{
    fixture *f = *state;
    rf_gpu_buffer *buffer;
    const rf_vk_instance real = shared_gpu->vk;
    const bool offered = f->device->snapshot.extensions.memory_budget;
    f->device->vk.AllocateMemory = fail_allocate;
    for (int told = 0; told < 2; told++) {
        f->device->snapshot.extensions.memory_budget = told;
        shared_gpu->vk.GetPhysicalDeviceMemoryProperties2 = small_budget;
        assert_int_equal(rf_gpu_buffer_create(f->device, RF_GPU_MEMORY_DEVICE, 4096, "weights", &buffer),
                         RF_ERROR_OUT_OF_DEVICE_MEMORY);
        shared_gpu->vk = real;
        assert_true(told ==
                    (strstr(rf_error_message(), "VK_ERROR_OUT_OF_DEVICE_MEMORY; of the device's 24.0 GiB others "
                                                "use 20.0, this process uses 3.0; use a smaller") != NULL));
    }
    if (!offered) return;
    /* The driver's own words. */
    char text[256];
    rf_gpu_describe_memory(f->device, text, sizeof(text));
    assert_int_equal(strncmp(text, "; of the device's ", 18), 0);
}

static VKAPI_ATTR VkResult VKAPI_CALL page_fault(VkDevice device, VkDeviceFaultCountsEXT *counts,
                                                 VkDeviceFaultInfoEXT *info)
{
    (void)device;
    if (!info) {
        counts->addressInfoCount = 9;
        counts->vendorInfoCount = 1;
        counts->vendorBinarySize = 1000;
        return VK_SUCCESS;
    }
    if (counts->addressInfoCount == 9 || counts->vendorBinarySize != 0 || info->pVendorBinaryData)
        return VK_ERROR_UNKNOWN; /* there is no room for that */
    counts->addressInfoCount = 1;
    strcpy(info->description, "A page fault\nof a shader");
    info->pAddressInfos[0].addressType = VK_DEVICE_FAULT_ADDRESS_TYPE_WRITE_INVALID_EXT;
    info->pAddressInfos[0].reportedAddress = 0xabc000;
    strcpy(info->pVendorInfos[0].description, "MMU");
    info->pVendorInfos[0].vendorFaultCode = 0x17;
    return VK_INCOMPLETE;
}

void test_device_fault(void **state)
{
    fixture *f = *state;
    CHECK(rf_gpu_recording_end(f->rec));
    const rf_vk_device vk = f->device->vk;
    f->device->vk.QueueSubmit = lose_submit;
    f->device->vk.GetDeviceFaultInfoEXT = page_fault;
    f->device->plan.device_fault = true;
    uint64_t ticket;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(rf_gpu_submit(f->device, &f->rec, 1, &ticket), RF_ERROR_DEVICE_LOST);
        assert_non_null(strstr(rf_error_message(),
                               "VK_ERROR_DEVICE_LOST; the driver reports: A page fault?of a shader, invalid write at "
                               "0xabc000, MMU (code 0x17); the driver reset the device"));
        f->device->vk = vk;
    }
}

void test_device_lost_sticks(void **state)
{
    fixture *f = *state;
    CHECK(rf_gpu_recording_end(f->rec));
    const rf_vk_device vk = f->device->vk;
    f->device->vk.QueueSubmit = lose_submit;
    uint64_t ticket;
    assert_int_equal(rf_gpu_submit(f->device, &f->rec, 1, &ticket), RF_ERROR_DEVICE_LOST);
    f->device->vk = vk;
    char first[256];
    snprintf(first, sizeof(first), "%s", rf_error_message());
    assert_non_null(strstr(first, "VK_ERROR_DEVICE_LOST"));
    rf_gpu_buffer *buffer;
    rf_gpu_recording *rec;
    rf_gpu_pipeline *pipeline;
    float word;
    const uint32_t bias = 0;
    const rf_gpu_pipeline_params params = axpy_params(&rf_shader_test_axpy, &bias, false);
    assert_int_equal(rf_gpu_submit(f->device, &f->rec, 1, &ticket), RF_ERROR_DEVICE_LOST);
    assert_int_equal(rf_gpu_wait(f->device, 0, 0), RF_ERROR_DEVICE_LOST);
    assert_int_equal(rf_gpu_buffer_create(f->device, RF_GPU_MEMORY_DEVICE, 64, "late", &buffer), RF_ERROR_DEVICE_LOST);
    assert_int_equal(rf_gpu_buffer_read(f->y, 0, &word, 4), RF_ERROR_DEVICE_LOST);
    assert_int_equal(rf_gpu_buffer_write(f->y, 0, &word, 4), RF_ERROR_DEVICE_LOST);
    assert_int_equal(rf_gpu_recording_begin(f->device, "late", &rec), RF_ERROR_DEVICE_LOST);
    assert_int_equal(rf_gpu_pipeline_get(f->device, &params, NULL), RF_ERROR_INVALID_ARGUMENT);
    assert_int_equal(rf_gpu_pipeline_get(f->device, &params, &pipeline), RF_ERROR_DEVICE_LOST);
    assert_memory_equal(rf_error_message(), first, strlen(first)); /* the cause, not the latest symptom */
}

/* Entry points that can fail, each made to fail for good from the start: whatever needs it must say so and clean up. */
static const char *failing, *missing;
static PFN_vkGetDeviceProcAddr real_proc_addr;

static VKAPI_ATTR VkResult VKAPI_CALL fail_any(void)
{
    return VK_ERROR_OUT_OF_HOST_MEMORY;
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL faulty_proc_addr(VkDevice device, const char *name)
{
    if (missing && strcmp(name, missing) == 0) return NULL;
    if (failing && strcmp(name, failing) == 0) return (PFN_vkVoidFunction)fail_any;
    return real_proc_addr(device, name);
}

/* A bit of everything; passes on the first failure. */
static rf_result do_everything(void)
{
    rf_gpu_device *device = NULL;
    rf_gpu_buffer *x = NULL;
    rf_gpu_recording *rec = NULL;
    rf_gpu_pipeline *pipeline;
    const uint32_t bias = 0;
    const rf_gpu_pipeline_params params = axpy_params(&rf_shader_test_axpy_r32, &bias, true);
    uint32_t index;
    uint64_t ticket;
    rf_result r;
    RF_TRY_GOTO(rf_gpu_device_open(shared_gpu, &(rf_gpu_device_params){ .index = device_index }, &device), done);
    RF_TRY_GOTO(rf_gpu_buffer_create(device, RF_GPU_MEMORY_UPLOAD, 512, "x", &x), done);
    RF_TRY_GOTO(rf_gpu_pipeline_get(device, &params, &pipeline), done);
    RF_TRY_GOTO(rf_gpu_recording_begin(device, "everything", &rec), done);
    if (device->plan.timestamp_bits > 0) RF_TRY_GOTO(rf_gpu_record_timestamp(rec, &index), done);
    RF_TRY_GOTO(rf_gpu_record_dispatch(rec, pipeline, (rf_gpu_binding[]){ { x, 0, 256, 1 }, { x, 256, 256, 0 } },
                                       &(rf_push_axpy){ 64, 1.0f, 0 }, (uint32_t[]){ 1, 1, 1 }, NULL),
                done);
    RF_TRY_GOTO(rf_gpu_recording_end(rec), done);
    RF_TRY_GOTO(rf_gpu_submit(device, &rec, 1, &ticket), done);
    r = rf_gpu_wait(device, ticket, RF_GPU_TIMEOUT_NS);
done:
    rf_gpu_recording_destroy(&rec);
    rf_gpu_buffer_destroy(&x);
    rf_gpu_device_close(&device);
    return r;
}

void test_every_failure(void **state)
{
    (void)state;
    static const char *const names[] = {
        "vkCreateSemaphore",
        "vkCreateBuffer",
        "vkAllocateMemory",
        "vkBindBufferMemory",
        "vkMapMemory",
        "vkCreateBufferView",
        "vkCreateShaderModule",
        "vkCreateDescriptorSetLayout",
        "vkCreatePipelineLayout",
        "vkCreateComputePipelines",
        "vkCreatePipelineCache",
        "vkCreateDescriptorPool",
        "vkAllocateDescriptorSets",
        "vkCreateCommandPool",
        "vkAllocateCommandBuffers",
        "vkBeginCommandBuffer",
        "vkEndCommandBuffer",
        "vkCreateQueryPool",
        "vkQueueSubmit",
    };
    real_proc_addr = shared_gpu->vk.GetDeviceProcAddr;
    shared_gpu->vk.GetDeviceProcAddr = faulty_proc_addr;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        failing = names[i];
        const rf_result r = do_everything();
        const bool not_needed = r == RF_OK && strcmp(failing, "vkCreateQueryPool") == 0; /* no timestamps here */
        if (r != RF_ERROR_OUT_OF_HOST_MEMORY && !not_needed)
            fail_msg("%s failed, but the result is %s", failing, rf_result_name(r));
        failing = NULL;
        if (i % 6 > 0) continue;
        missing = names[i];
        assert_int_equal(do_everything(), RF_ERROR_UNSUPPORTED);
        assert_non_null(strstr(rf_error_message(), missing));
        missing = NULL;
    }
    CHECK(do_everything());
    shared_gpu->vk.GetDeviceProcAddr = real_proc_addr;
}
