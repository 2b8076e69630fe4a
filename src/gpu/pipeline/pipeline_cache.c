/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver's VkPipelineCache on disk. Drivers trust this data, so the file carries a header of its own (size and
 * hash), and Vulkan's header is compared with the device before anything reaches the driver. An invalid file is
 * ignored: the cost is compiling again.
 */
#include <stdio.h>
#include <string.h>

#include "base/philox.h"
#include "gpu/internal.h"

#define FILE_MAGIC 0x31435052u /* "RPC1" */
#define MAX_FILE_SIZE ((size_t)256 << 20)

typedef struct file_header {
    uint32_t magic, reserved;
    uint64_t size, hash; /* of what follows */
} file_header;

/* "vulkan-<device uuid>-<driver version>-<hash of the driver's text>.bin": some drivers never raise their number. */
static char *file_path(const rf_gpu_device *device, const char *directory)
{
    char uuid[2 * VK_UUID_SIZE + 1];
    for (unsigned i = 0; i < VK_UUID_SIZE; i++) snprintf(uuid + 2 * i, 3, "%02x", device->info.uuid[i]);
    const uint64_t hash = rf_hash_bytes(device->info.driver_info, strlen(device->info.driver_info), 0);
    return rf_asprintf("%s/" RF_CACHE_PIPELINES "%s-%08x-%016llx.bin", directory, uuid, device->info.driver_version,
                       (unsigned long long)hash);
}

/* NULL when `data` is a whole file made for this device, else what is wrong. */
static const char *find_fault(const rf_gpu_device *device, const void *data, size_t size)
{
    file_header header;
    VkPipelineCacheHeaderVersionOne vulkan;
    if (size < sizeof(header)) return "it is too short";
    memcpy(&header, data, sizeof(header));
    const char *body = (const char *)data + sizeof(header);
    if (header.magic != FILE_MAGIC) return "it is not a pipeline cache";
    if (header.size != size - sizeof(header)) return "it is truncated";
    if (header.hash != rf_hash_bytes(body, header.size, FILE_MAGIC)) return "its hash does not match";
    if (header.size < sizeof(vulkan)) return "it is too short";
    memcpy(&vulkan, body, sizeof(vulkan));
    const VkPhysicalDeviceProperties *p = &device->snapshot.properties;
    if (vulkan.headerVersion != VK_PIPELINE_CACHE_HEADER_VERSION_ONE || vulkan.vendorID != p->vendorID ||
        vulkan.deviceID != p->deviceID || memcmp(vulkan.pipelineCacheUUID, p->pipelineCacheUUID, VK_UUID_SIZE) != 0)
        return "it was written by another driver";
    return NULL;
}

/* The file's content when it can be used; *data NULL otherwise. */
static void cache_load(rf_gpu_device *device, void **data, size_t *size)
{
    *data = NULL;
    *size = 0;
    rf_error_record before;
    rf_error_save(&before);
    const rf_result r = rf_file_read(device->cache_path, MAX_FILE_SIZE, data, size);
    if (r < 0) {
        if (r != RF_ERROR_NOT_FOUND) rf_log_message(RF_LOG_WARN, "pipeline cache ignored: %s", rf_error_message());
        (void)rf_error_restore(&before); /* not a failure of the caller's */
        *data = NULL;
        return;
    }
    const char *fault = find_fault(device, *data, *size);
    if (!fault) return;
    rf_log_message(RF_LOG_WARN, "pipeline cache '%s' ignored: %s", device->cache_path, fault);
    rf_free(*data);
    *data = NULL;
    *size = 0;
}

rf_result rf_gpu_pipeline_cache_open(rf_gpu_device *device, const char *directory, bool read_only)
{
    device->cache_read_only = read_only;
    void *data = NULL;
    size_t size = 0;
    if (directory) {
        device->cache_path = file_path(device, directory);
        if (!device->cache_path) return RF_ERROR_OUT_OF_HOST_MEMORY;
        cache_load(device, &data, &size);
    }
    const size_t body_size = data ? size - sizeof(file_header) : 0;
    const void *body = data ? (const char *)data + sizeof(file_header) : NULL;
    if (data) device->cache_hash = rf_hash_bytes(body, body_size, FILE_MAGIC);
    /* CPU drivers keep nothing behind the header, and SwiftShader puts another one in front with every round trip. */
    const bool worth_it = body_size > sizeof(VkPipelineCacheHeaderVersionOne);
    VkPipelineCacheCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO,
        .initialDataSize = worth_it ? body_size : 0,
        .pInitialData = worth_it ? body : NULL,
    };
    VkResult r = device->vk.CreatePipelineCache(device->device, &info, NULL, &device->pipeline_cache);
    if (r < 0 && worth_it) { /* the driver does not like it after all */
        rf_log_message(RF_LOG_WARN, "pipeline cache '%s' ignored: %s", device->cache_path, rf_gpu_vk_result_name(r));
        info.initialDataSize = 0;
        info.pInitialData = NULL;
        r = device->vk.CreatePipelineCache(device->device, &info, NULL, &device->pipeline_cache);
    }
    rf_free(data);
    if (r < 0) {
        device->pipeline_cache = VK_NULL_HANDLE;
        return RF_GPU_FAIL(device, r, "creating a pipeline cache");
    }
    return RF_OK;
}

static rf_result cache_store(rf_gpu_device *device)
{
    size_t size = 0;
    RF_VK_TRY(device, device->vk.GetPipelineCacheData(device->device, device->pipeline_cache, &size, NULL),
              "reading the pipeline cache");
    if (size == 0) return RF_OK;
    char *data = rf_calloc(1, sizeof(file_header) + size);
    if (!data) return RF_ERROR_OUT_OF_HOST_MEMORY;
    const VkResult got =
        device->vk.GetPipelineCacheData(device->device, device->pipeline_cache, &size, data + sizeof(file_header));
    file_header header = { .magic = FILE_MAGIC, .size = size };
    header.hash = rf_hash_bytes(data + sizeof(header), size, FILE_MAGIC);
    memcpy(data, &header, sizeof(header));
    rf_result r = RF_OK;
    if (got < 0)
        r = RF_GPU_FAIL(device, got, "reading the pipeline cache");
    else if (header.hash != device->cache_hash) /* else the file holds just this */
        r = rf_file_write_atomic(device->cache_path, data, sizeof(header) + size);
    rf_free(data);
    return r;
}

void rf_gpu_pipeline_cache_close(rf_gpu_device *device)
{
    if (!device->pipeline_cache) return;
    if (device->cache_path && !device->cache_read_only && device->pipelines && !device->lost) {
        char *slash = strrchr(device->cache_path, '/');
        *slash = '\0';
        rf_result r = rf_make_directories(device->cache_path, 0700);
        *slash = '/';
        if (r == RF_OK) r = cache_store(device);
        if (r < 0) rf_log_message(RF_LOG_WARN, "pipeline cache not saved: %s", rf_error_message());
    }
    device->vk.DestroyPipelineCache(device->device, device->pipeline_cache, NULL);
    device->pipeline_cache = VK_NULL_HANDLE;
}
