/* SPDX-License-Identifier: Apache-2.0 */
/* Structs shared by the files of this folder. */
#ifndef RF_GPU_INTERNAL_H
#define RF_GPU_INTERNAL_H

#include <stdatomic.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/platform.h"
#include "gpu/device/plan.h"
#include "gpu/gpu.h"
#include "gpu/queue/precompile.h"
#include "gpu/vk_table.h"

#define RF_GPU_MAX_BINDINGS 32 /* texel_mask has that many bits */

struct rf_gpu {
    void *library;
    rf_vk_global global;
    rf_vk_instance vk;
    VkInstance instance;
    bool debug_utils;
    uint32_t layer_version;  /* of Vulkan that the validation layer knows; 0: it does not watch */
    atomic_bool told_of_off; /* that extensions are off because the layer does not know them */
    VkDebugUtilsMessengerEXT messenger;
    VkPhysicalDevice *physical_devices;
    uint32_t num_physical_devices;
    /* Written by the messenger from any thread; `first` is complete once first_ready is set. */
    atomic_uint_fast64_t num_messages;
    atomic_bool first_ready;
    char first[1024];
};

/* Descriptor set layout and pipeline layout for one form of shader interface. */
typedef struct rf_gpu_layout {
    struct rf_gpu_layout *next;
    uint32_t num_bindings, texel_mask, push_size;
    VkDescriptorSetLayout set_layout;
    VkPipelineLayout pipeline_layout;
} rf_gpu_layout;

/* A pipeline with one kind of texel buffers bound (precompile.h): what such a driver compiles at a time. */
typedef struct rf_gpu_variant {
    struct rf_gpu_variant *next;
    rf_gpu_pipeline *pipeline;
    rf_gpu_texel_forms forms;
    bool compiled;
} rf_gpu_variant;

struct rf_gpu_pipeline {
    rf_gpu_pipeline *next;
    uint64_t hash;
    const rf_shader *shader;
    rf_shader *own_shader; /* the same where it is a copy */
    uint32_t *spec;
    uint32_t num_spec;
    bool with_base;
    const rf_gpu_layout *layout;
    VkPipeline pipeline;
    rf_gpu_variant *variants; /* dispatched so far, where caps->compiles_at_dispatch */
};

/* Made for the first copy that needs it. */
typedef struct rf_gpu_staging {
    rf_gpu_buffer *buffer;
    rf_gpu_recording *copies[2]; /* one for each half of the buffer */
} rf_gpu_staging;

#define RF_GPU_MOST_VAIN_SPINS 8u
struct rf_gpu_device {
    rf_gpu *gpu;
    VkPhysicalDevice physical;
    VkDevice device;
    rf_vk_device vk;
    bool loaded;   /* `vk` is complete */
    bool explains; /* pipelines are made to be explained */
    VkQueue queue;
    rf_gpu_snapshot snapshot;
    rf_gpu_plan plan;
    rf_device_info info;

    VkSemaphore timeline;
    uint64_t submitted, completed; /* timeline values: last handed out, last seen done */
    uint32_t vain_spins;           /* in a row, that ended before the device had */
    uint64_t num_drains;           /* waits for the latest submission */
    bool holds;
    struct {
        VkCommandBuffer *items;
        uint32_t count, capacity;
    } held; /* go with the next submission, whose timeline value their tickets are */
    bool lost;
    rf_error_record lost_record; /* what every call returns once `lost` */

    int memory_type[3];           /* by rf_gpu_memory */
    rf_gpu_buffer *incoherent[3]; /* by rf_gpu_memory: mapped buffers of types that are not coherent */
    uint64_t invalidated;         /* timeline value up to which the host sees what such buffers hold */
    uint32_t num_allocations;
    rf_gpu_use uses[RF_GPU_MOST_USES];
    uint32_t num_uses;
    rf_gpu_staging staging;
    rf_gpu_recording *host_flush; /* a host barrier and nothing else */
    uint64_t flushed;             /* timeline value up to which device writes are visible to the host */
    bool has_clock;               /* a timestamp was read: */
    uint64_t clock_ticks;         /* it, with as many bits as timestamps have */
    int64_t clock_total;          /* it, counted on where they wrap around */

    rf_gpu_layout *layouts;
    rf_gpu_pipeline *pipelines;
    VkPipelineCache pipeline_cache;
    char *cache_path; /* NULL: not kept on disk */
    bool cache_read_only;
    uint64_t cache_hash;
};

/* Every buffer has this usage, so that they all want the same memory. */
#define RF_GPU_BUFFER_USAGE                                                                                            \
    (VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_UNIFORM_TEXEL_BUFFER_BIT |                                   \
     VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT)

struct rf_gpu_buffer {
    rf_gpu_device *device;
    char *name;
    uint64_t size, capacity; /* asked for; rounded up */
    uint64_t allocated;      /* from the device's memory; 0: imported */
    uint64_t spare;          /* more that lies behind that, for texel views (variant.c) */
    VkBuffer buffer;
    VkDeviceMemory memory;
    void *mapped;
    rf_gpu_memory kind;
    bool imported;       /* `mapped` is memory of the caller's, and coherent */
    rf_gpu_buffer *next; /* in device->incoherent */
};

/* ---- errors (vk_error.c) ---- */
const char *rf_gpu_vk_result_name(VkResult result);
rf_result rf_gpu_map_result(VkResult result);
/* Fails with the code that fits `result`; the message is "<device>: <text>: VK_ERROR_..." and the fix where there is
 * one. `device` may be NULL. VK_ERROR_DEVICE_LOST makes the device lost for good. */
rf_result rf_gpu_fail(rf_gpu_device *device, VkResult result, const char *file, int line, const char *format, ...)
    RF_PRINTF(5, 6);
#define RF_GPU_FAIL(device, result, ...) rf_gpu_fail((device), (result), __FILE__, __LINE__, __VA_ARGS__)
#define RF_VK_TRY(device, expression, ...)                                                                             \
    do {                                                                                                               \
        const VkResult rf_vk_result_ = (expression);                                                                   \
        if (rf_vk_result_ < 0) return RF_GPU_FAIL((device), rf_vk_result_, __VA_ARGS__);                               \
    } while (0)
/* For vkCreate*: `handle` is null after a failure, so that it can be destroyed like any other. */
#define RF_VK_CREATE(device, handle, expression, ...)                                                                  \
    do {                                                                                                               \
        const VkResult rf_vk_result_ = (expression);                                                                   \
        if (rf_vk_result_ < 0) {                                                                                       \
            (handle) = VK_NULL_HANDLE;                                                                                 \
            return RF_GPU_FAIL((device), rf_vk_result_, __VA_ARGS__);                                                  \
        }                                                                                                              \
    } while (0)
/* Appends what the driver says about why the device was lost, and about whose the memory is: the end of a message, or
 * "". */
void rf_gpu_describe_fault(const rf_gpu_device *device, char *text, size_t size);
void rf_gpu_describe_memory(const rf_gpu_device *device, char *text, size_t size);
/* The same of a limit of the host's memory that the process has met. */
void rf_gpu_describe_limits(char *text, size_t size);
/* Warns where a software driver is about to be opened in less memory than it takes: such drivers end the program. */
void rf_gpu_warn_of_limits(const rf_gpu_device *device);
/* RF_OK, or the failure that lost the device. */
rf_result rf_gpu_check_lost(const rf_gpu_device *device);

/* ---- driver_lock.c ---- */
/* Drivers set up process-wide state when they are loaded or open a device (LLVM's options, for one), and nothing
 * promises that two instances may make them do so at once: loading, opening, closing and unloading happen one at a
 * time. So does what makes the loader look through the devices of all instances, namely asking for a device's entry
 * points and naming its objects: loaders keep that list without a lock, and hold half-made devices in it. */
void rf_gpu_lock_drivers(void);
void rf_gpu_unlock_drivers(void);

/* ---- device_list.c ---- */
void rf_gpu_take_snapshot(const rf_gpu *gpu, VkPhysicalDevice physical, rf_gpu_snapshot *out);

/* ---- debug_name.c ---- */
/* Sets the name by which validation messages and profilers call a Vulkan object. */
void rf_gpu_set_name(rf_gpu_device *device, VkObjectType type, uint64_t handle, const char *name);

/* ---- memory.c ---- */
rf_result rf_gpu_memory_setup(rf_gpu_device *device);
void rf_gpu_memory_teardown(rf_gpu_device *device);
/* For memory that is not coherent: lets the device see what the host has written to upload buffers, and the host what
 * work that has ended wrote to readback buffers. */
/* A buffer of this name has been given memory, or gives it back. */
void rf_gpu_memory_count(rf_gpu_device *device, const char *name, uint64_t given, uint64_t returned);
rf_result rf_gpu_memory_flush(rf_gpu_device *device);
rf_result rf_gpu_memory_invalidate(rf_gpu_device *device);
/* Buffers that take part, and one of them alone. */
void rf_gpu_memory_list(rf_gpu_buffer *buffer);
void rf_gpu_memory_unlist(const rf_gpu_buffer *buffer);
rf_result rf_gpu_memory_flush_buffer(const rf_gpu_buffer *buffer);

/* ---- pipeline.c, pipeline_cache.c ---- */
void rf_gpu_pipelines_destroy(rf_gpu_device *device);
rf_result rf_gpu_pipeline_cache_open(rf_gpu_device *device, const char *directory, bool read_only);
void rf_gpu_pipeline_cache_close(rf_gpu_device *device);

/* ---- specialize.c ---- */
/* The module with its specialization constants set to these (by number; the others have their defaults) and without
 * what that makes unreachable or unused, in a new array for rf_free(); NULL where it has something that is not
 * understood: the driver's to specialize. */
typedef enum rf_module_rules {
    RF_KEEP_LOOPS = 1,   /* no loop asks to be unrolled */
    RF_PLAIN_STORES = 2, /* each lane writes for itself */
} rf_module_rules;
rf_result rf_gpu_specialize(const rf_shader *shader, const uint32_t *spec, uint32_t num_spec, uint32_t rules,
                            uint32_t **out, uint32_t *out_count);

/* ---- float_controls.c ---- */
/* The module with a request for signed zeros, infinities and NaNs as IEEE has them, in a new array for rf_free(); NULL
 * where it asks already, or is malformed and the driver's to refuse. */
rf_result rf_gpu_preserve_nans(const uint32_t *words, uint32_t count, uint32_t **out, uint32_t *out_count);

/* ---- variant.c ---- */
/* Bytes that a texel view of this binding spans. */
uint64_t rf_gpu_texel_span(const rf_gpu_device *device, const rf_gpu_binding *binding);
/* Notes that the recording dispatches `pipeline` with these bindings. */
rf_result rf_gpu_variant_note(rf_gpu_recording *rec, rf_gpu_pipeline *pipeline, const rf_gpu_binding *bindings);
void rf_gpu_variants_free(rf_gpu_pipeline *pipeline);

/* ---- queue.c ---- */
/* Submits without any check, and without compiling what the recordings dispatch (rf_gpu_submit() does both). */
rf_result rf_gpu_queue_submit(rf_gpu_device *device, rf_gpu_recording *const *recs, uint32_t count, uint64_t *ticket);
/* Waits for everything submitted; then device writes are visible to the host. */
rf_result rf_gpu_flush_to_host(rf_gpu_device *device);
/* Waits for everything, what is held included. */
rf_result rf_gpu_wait_all(rf_gpu_device *device);

/* ---- recording.c ---- */
typedef struct rf_gpu_view { /* a texel view, shared by the dispatches of a recording */
    VkBuffer buffer;
    uint64_t offset, size;
    uint32_t components;
    bool half;
    VkBufferView view;
} rf_gpu_view;
typedef struct rf_gpu_view_list {
    rf_gpu_view *items;
    uint32_t count, capacity;
} rf_gpu_view_list;
typedef struct rf_gpu_handle_list { /* VkDescriptorPool or VkQueryPool */
    uint64_t *items;
    uint32_t count, capacity;
} rf_gpu_handle_list;

struct rf_gpu_recording {
    rf_gpu_device *device;
    char *name;
    bool ended;
    bool shared;     /* may be submitted while it is in flight */
    uint64_t ticket; /* of its last submission */
    VkCommandPool command_pool;
    VkCommandBuffer commands;
    const rf_gpu_pipeline *bound;
    rf_gpu_handle_list descriptor_pools, query_pools;
    uint32_t sets_left, storage_left, texel_left; /* in the newest descriptor pool */
    uint32_t num_timestamps;
    rf_gpu_commands commands_so_far;
    rf_gpu_view_list views;
    struct {
        rf_gpu_variant **items;
        uint32_t count, capacity;
    } uncompiled; /* that it dispatches, as far as was known while recording */
};

/* Empties a recording of copies, which may have been submitted and is waited for then, to be recorded anew. */
rf_result rf_gpu_recording_restart(rf_gpu_recording *rec);
/* Dispatches nothing, with everything bound that a dispatch needs. */
rf_result rf_gpu_record_empty_dispatch(rf_gpu_recording *rec, const rf_gpu_pipeline *pipeline,
                                       const rf_gpu_binding *bindings);

/* ---- transfer.c ---- */
void rf_gpu_staging_teardown(rf_gpu_device *device);

#endif
