/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers in the caller's memory, in which several devices meet. */
#include "device_test.h"

#include <stdlib.h>
#include <string.h>

#include "../support/refuse_host_pointer.h"

enum { SIZE = 1 << 20 }; /* a multiple of every alignment that there is */

static float *room_allocate(const rf_gpu_device *device)
{
    const uint64_t alignment = rf_gpu_import_alignment(device);
    assert_true(alignment >= 64 && SIZE % alignment == 0);
    float *room = aligned_alloc(alignment, SIZE);
    assert_non_null(room);
    return room;
}

static void run_copy(rf_gpu_device *device, rf_gpu_buffer *from, rf_gpu_buffer *to, uint64_t to_offset)
{
    rf_gpu_recording *rec;
    uint64_t ticket;
    CHECK(rf_gpu_recording_begin(device, "copy", &rec));
    CHECK(rf_gpu_record_copy(rec, from, 0, to, to_offset, COUNT * 4));
    CHECK(rf_gpu_recording_end(rec));
    CHECK(rf_gpu_submit(device, &rec, 1, &ticket));
    CHECK(rf_gpu_wait(device, ticket, RF_GPU_TIMEOUT_NS));
    rf_gpu_recording_destroy(&rec);
}

/* Another device reads what one device and the host write there, and the memory is the caller's again at the end. */
void test_import(void **state)
{
    fixture *f = *state;
    if (rf_gpu_import_alignment(f->device) == 0) SKIP("the driver takes no host memory for buffers");
    rf_gpu_device *other;
    rf_gpu_buffer *here, *there;
    float *room = room_allocate(f->device), got[COUNT];
    const uint32_t before = f->device->num_allocations;
    CHECK(rf_gpu_device_open(shared_gpu, &(rf_gpu_device_params){ .index = device_index }, &other));
    room[COUNT] = 5; /* kept, not cleared as the memory of other buffers */
    CHECK(rf_gpu_buffer_import(f->device, room, SIZE, "room", &here));
    CHECK(rf_gpu_buffer_import(other, room, SIZE, "room", &there));
    assert_ptr_equal(rf_gpu_buffer_mapped(here), room);
    assert_int_equal(rf_gpu_buffer_size(there), SIZE);
    assert_int_equal((int)room[COUNT], 5);
    for (int round = 0; round < 2; round++) {
        run_copy(f->device, f->x, here, 0); /* x[i] = i */
        for (uint32_t i = 0; i < COUNT; i++) assert_true(room[i] == (float)i);
        for (uint32_t i = 0; i < COUNT; i++) room[i] += 0.5f;
        rf_gpu_buffer *y;
        CHECK(rf_gpu_buffer_create(other, RF_GPU_MEMORY_DEVICE, COUNT * 4, "y", &y));
        run_copy(other, there, y, 0);
        CHECK(rf_gpu_buffer_read(y, 0, got, sizeof(got)));
        for (uint32_t i = 0; i < COUNT; i++) assert_true(got[i] == (float)i + 0.5f);
        rf_gpu_buffer_destroy(&y);
    }
    rf_gpu_buffer_destroy(&here);
    rf_gpu_buffer_destroy(&there);
    rf_gpu_device_close(&other);
    assert_int_equal(f->device->num_allocations, before);
    assert_true(room[1] == 1.5f);
    free(room);
}

/* A device that takes no host memory, memory that no device takes, and a driver that does not take this. */
void test_import_refused(void **state)
{
    fixture *f = *state;
    rf_gpu_buffer *buffer;
    char byte;
    const uint64_t alignment = rf_gpu_import_alignment(f->device);
    f->device->plan.import_alignment = 0;
    assert_int_equal(rf_gpu_buffer_import(f->device, &byte, SIZE, "room", &buffer), RF_ERROR_UNSUPPORTED);
    assert_non_null(strstr(rf_error_message(), "takes no host memory"));
    assert_null(buffer);
    if (alignment == 0) return;
    f->device->plan.import_alignment = alignment;
    float *room = room_allocate(f->device);
    assert_int_equal(rf_gpu_buffer_import(f->device, room + 1, SIZE, "room", &buffer), RF_ERROR_INVALID_ARGUMENT);
    assert_int_equal(rf_gpu_buffer_import(f->device, room, SIZE - 4, "room", &buffer), RF_ERROR_INVALID_ARGUMENT);
    assert_int_equal(rf_gpu_buffer_import(f->device, NULL, SIZE, "room", &buffer), RF_ERROR_INVALID_ARGUMENT);
    const uint64_t limit = f->device->plan.caps.max_allocation;
    f->device->plan.caps.max_allocation = SIZE / 2;
    assert_int_equal(rf_gpu_buffer_import(f->device, room, SIZE, "room", &buffer), RF_ERROR_UNSUPPORTED);
    assert_non_null(strstr(rf_error_message(), "over the driver's limit"));
    f->device->plan.caps.max_allocation = limit;
    const uint32_t before = f->device->num_allocations;
    f->device->vk.GetMemoryHostPointerPropertiesEXT = refuse_host_pointer;
    assert_int_equal(rf_gpu_buffer_import(f->device, room, SIZE, "room", &buffer), RF_ERROR_UNSUPPORTED);
    assert_non_null(strstr(rf_error_message(), "'room'"));
    assert_null(buffer);
    assert_int_equal(f->device->num_allocations, before);
    free(room);
}
