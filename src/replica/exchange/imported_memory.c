/* SPDX-License-Identifier: Apache-2.0 */
#include "replica/exchange/imported_memory.h"

#include "base/platform.h"
#include "replica/internal.h"

uint64_t rf_imported_memory_alignment(const rf_importing_device *devices, uint32_t count)
{
    uint64_t alignment = 1; /* powers of two: the largest suits all */
    bool staged = false;
    for (uint32_t i = 0; i < count; i++) {
        if (devices[i].import_alignment == 0) return 0;
        if (devices[i].import_alignment > alignment) alignment = devices[i].import_alignment;
        staged = staged || devices[i].staged;
    }
    return staged && count > 1 ? alignment : 0;
}

void rf_imported_memory_free(rf_strategy *s)
{
    rf_flat_free(s, &s->exchange.imported.arrays);
    rf_free(s->exchange.imported.memory);
    s->exchange.imported.memory = NULL;
}

/* One array for each replica and one for values, whole in units of all devices. */
static rf_result memory_create(rf_strategy *s, uint64_t capacity, uint64_t alignment)
{
    rf_imported_memory *m = &s->exchange.imported;
    const uint64_t size = rf_align_up((s->members.num_local + 1) * capacity * sizeof(float), alignment);
    m->memory = rf_calloc(size + alignment, 1);
    m->arrays.buffers = RF_NEW_ARRAY(rf_gpu_buffer *, s->members.num_local);
    if (!m->memory || !m->arrays.buffers) return RF_ERROR_OUT_OF_HOST_MEMORY;
    void *const aligned = (void *)(uintptr_t)rf_align_up((uintptr_t)m->memory, alignment);
    for (uint32_t r = 0; r < s->members.num_local; r++)
        RF_TRY(
            rf_gpu_buffer_import(s->members.replicas[r].device, aligned, size, m->arrays.name, &m->arrays.buffers[r]));
    m->arrays.capacity = capacity;
    return RF_OK;
}

static rf_result find_alignment(const rf_strategy *s, uint64_t *alignment)
{
    rf_importing_device *devices = RF_NEW_ARRAY(rf_importing_device, s->members.num_local);
    if (!devices) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t r = 0; r < s->members.num_local; r++)
        devices[r] = (rf_importing_device){ s->members.replicas[r].staged,
                                            rf_gpu_import_alignment(s->members.replicas[r].device) };
    *alignment = rf_imported_memory_alignment(devices, s->members.num_local);
    rf_free(devices);
    return RF_OK;
}

/* Workers of a job meet in their communicator; and replicas that update everything read what all others are about to
 * write. */
static bool exchanges_elsewhere(const rf_strategy *s)
{
    return s->members.num_local != s->members.num_replicas || s->update_mode != RF_UPDATE_SHARDED;
}

rf_result rf_imported_memory_ensure(rf_strategy *s)
{
    rf_imported_memory *m = &s->exchange.imported;
    const uint64_t capacity = rf_align_up(s->store.trainable.values.capacity, s->store.alignment);
    uint64_t alignment;
    if (m->refused || exchanges_elsewhere(s) || m->arrays.capacity == capacity) return RF_OK;
    RF_TRY(find_alignment(s, &alignment));
    if (alignment == 0) return RF_OK;
    rf_imported_memory_free(s);
    const rf_result r = memory_create(s, capacity, alignment);
    if (r >= 0) return RF_OK;
    rf_imported_memory_free(s);
    if (r == RF_ERROR_DEVICE_LOST) return r;
    /* The host copies, then, as between devices that cannot import. */
    rf_log_message(RF_LOG_INFO, "devices exchange gradients through copies of the host's: %s", rf_error_message());
    m->refused = true;
    return RF_OK;
}

void rf_imported_memory_leave_out(const rf_imported_memory *m, uint32_t replica, uint64_t begin, uint64_t end)
{
    float *array = rf_imported_memory_mapped(m) + rf_imported_memory_array(m, replica);
    for (uint64_t i = begin; i < end; i++) array[i] = -0.0f; /* 0.0f would make 0.0f of -0.0f */
}
