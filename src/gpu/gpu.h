/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Vulkan behind a small interface: no other folder names a Vk type. One rf_gpu per loader instance, one rf_gpu_device
 * per opened device. A device and what belongs to it are used by one thread at a time; different devices by different
 * threads.
 */
#ifndef RF_GPU_GPU_H
#define RF_GPU_GPU_H

#include <ringfire/device.h>

#include "base/device_caps.h"
#include "base/shader.h"

typedef struct rf_gpu rf_gpu;
typedef struct rf_gpu_device rf_gpu_device;
typedef struct rf_gpu_buffer rf_gpu_buffer;
typedef struct rf_gpu_pipeline rf_gpu_pipeline;
typedef struct rf_gpu_recording rf_gpu_recording;

typedef struct rf_gpu_params {
    bool validation; /* (or RINGFIRE_VALIDATION=1) VK_LAYER_KHRONOS_validation with synchronisation validation; an error
                        when not installed */
} rf_gpu_params;
/* Opens the loader (through dlopen, under any of its names or the one that RINGFIRE_VULKAN_LIBRARY says) and creates an
 * instance. */
rf_result rf_gpu_create(const rf_gpu_params *params, rf_gpu **out);
/* After its devices. */
void rf_gpu_destroy(rf_gpu **gpu);
rf_result rf_gpu_list(rf_gpu *gpu, rf_device_info *infos, uint32_t *count); /* as rf_devices_list */
/* All of them in a new array, freed with rf_free. */
rf_result rf_gpu_list_all(rf_gpu *gpu, rf_device_info **infos, uint32_t *count);
/* The list, and which of it are meant: by `named`, else by RINGFIRE_DEVICES, else by default. A device that is missing
 * is explained (absence.h). Both arrays are freed with rf_free, after a failure too. */
rf_result rf_gpu_choose(rf_gpu *gpu, const char *named, rf_device_info **infos, uint32_t *num_infos, uint32_t **indices,
                        uint32_t *count);
/* The same for one device: the first entry, or the best of the default. */
rf_result rf_gpu_choose_one(rf_gpu *gpu, const char *named, uint32_t *index);
/* Warnings and errors of the validation layer so far, and the text of the first. Thread-safe. */
uint64_t rf_gpu_validation_messages(const rf_gpu *gpu, const char **first);

typedef struct rf_gpu_device_params {
    uint32_t index;
    bool clamp_limits; /* report and use only Vulkan's guaranteed minimum */
    bool shares_cpus;  /* more than this device computes on this host's processors: leave it to the system where
                          a driver's threads run (placement.h) */
    const char *cache_directory; /* NULL: no pipeline cache on disk */
    bool cache_read_only;
    bool explain; /* have the driver keep what it can say of its pipelines, where it can say something; such pipelines
                     may differ from others */
} rf_gpu_device_params;
rf_result rf_gpu_device_open(rf_gpu *gpu, const rf_gpu_device_params *params, rf_gpu_device **out);
/* Waits for idle, writes the pipeline cache (a failure to write is a logged warning), closes. */
void rf_gpu_device_close(rf_gpu_device **device);
const rf_device_caps *rf_gpu_caps(const rf_gpu_device *device);
const rf_device_info *rf_gpu_info(const rf_gpu_device *device);

/* ---- memory ---- */
typedef enum rf_gpu_memory {
    RF_GPU_MEMORY_DEVICE,   /* fastest for kernels; mapped when caps->host_visible */
    RF_GPU_MEMORY_UPLOAD,   /* always mapped; the host writes, what is submitted afterwards reads */
    RF_GPU_MEMORY_READBACK, /* always mapped, cached if possible; the device writes, the host only reads, after
                               rf_gpu_wait(): rf_gpu_watch() promises nothing about it */
} rf_gpu_memory;
/* A storage + uniform-texel + transfer buffer, zero-filled. The last, partly used caps->buffer_alignment bytes belong
 * to it whole: bindings, copies and fills may reach to their end. */
rf_result rf_gpu_buffer_create(rf_gpu_device *device, rf_gpu_memory memory, uint64_t size, const char *name,
                               rf_gpu_buffer **out);
/* Where a buffer can begin in host memory that it is made of, and what its size must be a multiple of; 0: the device
 * takes no such memory. */
uint64_t rf_gpu_import_alignment(const rf_gpu_device *device);
/* The same kind of buffer, in `memory`, which the caller keeps until the buffer is gone, and which stays as it is.
 * Devices that have imported the same memory and the host see each other's writes after a wait, and a submission after
 * that. RF_ERROR_UNSUPPORTED where the driver takes no such memory, or not this. */
rf_result rf_gpu_buffer_import(rf_gpu_device *device, void *memory, uint64_t size, const char *name,
                               rf_gpu_buffer **out);
void rf_gpu_buffer_destroy(rf_gpu_buffer **buffer);
void *rf_gpu_buffer_mapped(const rf_gpu_buffer *buffer); /* NULL when not mapped */
uint64_t rf_gpu_buffer_size(const rf_gpu_buffer *buffer);
/* Memory of the device that buffers of one name have been given, without imported memory. */
enum { RF_GPU_MOST_USES = 24, RF_GPU_USE_NAME = 40 };
typedef struct rf_gpu_use {
    char name[RF_GPU_USE_NAME];
    uint64_t bytes, peak; /* now, and the most there were at once */
} rf_gpu_use;
/* The first is of all buffers; names follow in the order in which they came, and what has no place is "others". */
const rf_gpu_use *rf_gpu_memory_uses(const rf_gpu_device *device, uint32_t *count);
/* Blocking convenience copies, through staging where needed. Both wait first for everything submitted to the device, so
 * they see its writes and never disturb its reads. */
rf_result rf_gpu_buffer_write(rf_gpu_buffer *buffer, uint64_t offset, const void *data, uint64_t size);
rf_result rf_gpu_buffer_read(rf_gpu_buffer *buffer, uint64_t offset, void *data, uint64_t size);

/* ---- pipelines ---- */
/* Specialised pipelines are cached by (shader, spec): the same pointer comes back. Owned by the device. `num_bindings`,
 * and `texel_mask` (bit i: binding i is a uniform texel buffer), fix the layout. `with_base`: for
 * rf_gpu_record_dispatch_part(), else not the same pipeline. */
typedef struct rf_gpu_pipeline_params {
    const rf_shader *shader;
    const uint32_t *spec;
    uint32_t num_spec, num_bindings, texel_mask, push_size;
    bool with_base;
} rf_gpu_pipeline_params;
rf_result rf_gpu_pipeline_get(rf_gpu_device *device, const rf_gpu_pipeline_params *params, rf_gpu_pipeline **out);
/* Several at once, those that are new compiled side by side in as many threads as there are CPUs. All or none. */
rf_result rf_gpu_pipelines_get(rf_gpu_device *device, const rf_gpu_pipeline_params *params, uint32_t count,
                               rf_gpu_pipeline **out);

/* ---- recordings: built once, submitted many times ---- */
/* A binding is as long as `size` says, storage buffers rounded up to whole words. */
typedef struct rf_gpu_binding {
    rf_gpu_buffer *buffer;
    uint64_t offset, size;
    uint32_t texel_components; /* 0: storage buffer, 1: r32f texel view, 4: rgba32f texel view */
    bool texel_half;           /* r16f and rgba16f instead */
} rf_gpu_binding;
rf_result rf_gpu_recording_begin(rf_gpu_device *device, const char *name, rf_gpu_recording **out);
/* The same for one that is submitted again while it is in flight: copies that several runs make. */
rf_result rf_gpu_recording_begin_shared(rf_gpu_device *device, const char *name, rf_gpu_recording **out);
/* Refuses what the device cannot do or the pipeline does not have. A grid with a zero in it records nothing. */
rf_result rf_gpu_record_dispatch(rf_gpu_recording *rec, rf_gpu_pipeline *pipeline, const rf_gpu_binding *bindings,
                                 const void *push, const uint32_t grid[3], const char *label);
/* The workgroups from number `base` on, `grid` of them: a part of a larger dispatch. Shaders see the numbers that they
 * would have in the whole, but the part's gl_NumWorkGroups: parts must agree in x where shaders count through y. */
rf_result rf_gpu_record_dispatch_part(rf_gpu_recording *rec, rf_gpu_pipeline *pipeline, const rf_gpu_binding *bindings,
                                      const void *push, const uint32_t base[3], const uint32_t grid[3],
                                      const char *label);
rf_result rf_gpu_record_copy(rf_gpu_recording *rec, rf_gpu_buffer *from, uint64_t from_offset, rf_gpu_buffer *to,
                             uint64_t to_offset, uint64_t size);
/* Several copies between two buffers at once. Within one buffer what is read and what is written lie apart as a whole.
 */
typedef struct rf_gpu_region {
    uint64_t from, to, size;
} rf_gpu_region;
rf_result rf_gpu_record_regions(rf_gpu_recording *rec, rf_gpu_buffer *from, rf_gpu_buffer *to,
                                const rf_gpu_region *regions, uint32_t count);
rf_result rf_gpu_record_fill(rf_gpu_recording *rec, rf_gpu_buffer *buffer, uint64_t offset, uint64_t size,
                             uint32_t word);
/* Execution and memory barrier: everything before against everything after (compute and transfer). */
void rf_gpu_record_barrier(rf_gpu_recording *rec);
/* GPU clock after the commands so far; *index is its number within the recording. RF_ERROR_UNSUPPORTED without. */
rf_result rf_gpu_record_timestamp(rf_gpu_recording *rec, uint32_t *index);
/* Every recording ends with a barrier against what is submitted later, and for the host, which may then read. */
rf_result rf_gpu_recording_end(rf_gpu_recording *rec);
/* The number of commands recorded so far. */
typedef struct rf_gpu_commands {
    uint32_t dispatches, barriers, copies; /* copies: fills as well */
} rf_gpu_commands;
rf_gpu_commands rf_gpu_recording_commands(const rf_gpu_recording *rec);
/* Waits for its last submission. The buffers it names must outlive that. */
void rf_gpu_recording_destroy(rf_gpu_recording **rec);
/* After the submission is done. ns[i] relative to the first. */
rf_result rf_gpu_recording_timestamps(rf_gpu_recording *rec, uint64_t *ns, uint32_t count);
/* The same, all relative to one moment of the device's own: comparable between recordings. */
rf_result rf_gpu_recording_times(rf_gpu_recording *rec, uint64_t *ns, uint32_t count);
/* Whether rf_gpu_record_timestamp() works. */
bool rf_gpu_has_timestamps(const rf_gpu_device *device);

/* ---- execution: one queue, in order, one timeline semaphore per device ---- */
/* Submits recordings in order (a full barrier stands between them) and gives the timeline value that means "done". A
 * recording still in flight is refused, unless it is shared. */
rf_result rf_gpu_submit(rf_gpu_device *device, rf_gpu_recording *const *recs, uint32_t count, uint64_t *ticket);
/*
 * From now on submissions are held back, and go to the device together: with the next one that is made after `hold` was
 * taken back, with rf_gpu_flush(), or when something waits for one of them. They share a ticket. Order, and the
 * barriers between recordings, are those of submissions by themselves.
 */
void rf_gpu_hold(rf_gpu_device *device, bool hold);
/* Submits what is held. After a failure that does not lose the device it is still held. */
rf_result rf_gpu_flush(rf_gpu_device *device);
bool rf_gpu_has_held(const rf_gpu_device *device);
/* How many times something was submitted since the device was opened. */
uint64_t rf_gpu_num_submissions(const rf_gpu_device *device);
/* How many times something waited until the device had nothing left to do. */
uint64_t rf_gpu_num_drains(const rf_gpu_device *device);
/* True when the timeline has reached `ticket`, as far as can be told without waiting; results can then be read. */
bool rf_gpu_is_done(rf_gpu_device *device, uint64_t ticket);
/* RF_ERROR_TIMEOUT after timeout_ns (0: only look). Device loss sticks. */
rf_result rf_gpu_wait(rf_gpu_device *device, uint64_t ticket, uint64_t timeout_ns);
/* The same, and how long the calling thread may look again and again before it sleeps. */
rf_result rf_gpu_wait_spinning(rf_gpu_device *device, uint64_t ticket, uint64_t spin_ns, uint64_t timeout_ns);
/* How long rf_gpu_wait() does so. Pure. */
uint64_t rf_gpu_spin_ns(const rf_device_caps *caps, uint64_t timeout_ns);
/* The same as rf_gpu_wait() for a second thread, while the first submits and waits: looks at nothing but the timeline,
 * changes nothing, leaves no error record. The ticket must have been submitted. */
rf_result rf_gpu_watch(const rf_gpu_device *device, uint64_t ticket, uint64_t timeout_ns);
/* Submits what makes all writes so far visible to the host; from `*ticket` on another thread may read mapped memory, as
 * long as nothing that writes to it is submitted. */
rf_result rf_gpu_submit_host_flush(rf_gpu_device *device, uint64_t *ticket);
#define RF_GPU_TIMEOUT_NS (120ull * 1000000000ull) /* deadline of waits that have no other one */

#endif
