/* SPDX-License-Identifier: Apache-2.0 */
/* Memory, pipelines, recordings and submission. Every test runs on every usable device; with RINGFIRE_VALIDATION=1 the
 * whole run must not draw a single message from the validation layer. */
#include "device_test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../support/incoherent.h"
#include "tests/room.h"

rf_gpu *shared_gpu;
uint32_t device_index;

static int setup(void **state)
{
    fixture *f = calloc(1, sizeof(*f));
    assert_non_null(f);
    CHECK(rf_gpu_device_open(shared_gpu, &(rf_gpu_device_params){ .index = device_index }, &f->device));
    CHECK(rf_gpu_buffer_create(f->device, RF_GPU_MEMORY_DEVICE, COUNT * 4, "x", &f->x));
    CHECK(rf_gpu_buffer_create(f->device, RF_GPU_MEMORY_DEVICE, COUNT * 4, "y", &f->y));
    float x[COUNT];
    for (uint32_t i = 0; i < COUNT; i++) x[i] = (float)i;
    CHECK(rf_gpu_buffer_write(f->x, 0, x, sizeof(x)));
    CHECK(rf_gpu_recording_begin(f->device, "test", &f->rec));
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    rf_gpu_recording_destroy(&f->rec);
    rf_gpu_buffer_destroy(&f->x);
    rf_gpu_buffer_destroy(&f->y);
    rf_gpu_device_close(&f->device);
    free(f);
    return 0;
}

rf_gpu_pipeline_params axpy_params(const rf_shader *shader, const uint32_t *bias, bool texel)
{
    return (rf_gpu_pipeline_params){ .shader = shader,
                                     .spec = bias,
                                     .num_spec = 1,
                                     .num_bindings = 2,
                                     .texel_mask = texel ? 1 : 0,
                                     .push_size = sizeof(rf_push_axpy) };
}

static rf_gpu_pipeline *axpy(fixture *f, const rf_shader *shader, uint32_t bias, bool texel)
{
    rf_gpu_pipeline *pipeline;
    const rf_gpu_pipeline_params params = axpy_params(shader, &bias, texel);
    CHECK(rf_gpu_pipeline_get(f->device, &params, &pipeline));
    return pipeline;
}

static void record_axpy(fixture *f, rf_gpu_recording *rec, rf_gpu_pipeline *pipeline, uint32_t texel, rf_push_axpy push,
                        uint32_t lanes)
{
    const rf_gpu_binding bindings[] = { { f->x, 0, COUNT * 4, texel }, { f->y, 0, COUNT * 4, 0 } };
    const uint32_t grid[] = { (COUNT + lanes - 1) / lanes, 1, 1 };
    CHECK(rf_gpu_record_dispatch(rec, pipeline, bindings, &push, grid, "axpy"));
}

static void run(fixture *f, rf_gpu_recording *const *recs, uint32_t count)
{
    uint64_t ticket;
    CHECK(rf_gpu_submit(f->device, recs, count, &ticket));
    CHECK(rf_gpu_wait(f->device, ticket, RF_GPU_TIMEOUT_NS));
}

static void end_and_run(fixture *f)
{
    CHECK(rf_gpu_recording_end(f->rec));
    run(f, &f->rec, 1);
}

/* y = scale * i + bias for all i */
static void expect_y(fixture *f, float scale, float bias)
{
    float y[COUNT];
    CHECK(rf_gpu_buffer_read(f->y, 0, y, sizeof(y)));
    for (uint32_t i = 0; i < COUNT; i++)
        if (y[i] != scale * (float)i + bias)
            fail_msg("y[%u] is %g, not %g", i, (double)y[i], (double)(scale * (float)i + bias));
}

/* ---- caps ---- */

static void test_caps(void **state)
{
    fixture *f = *state;
    const rf_device_caps *c = rf_gpu_caps(f->device);
    const rf_device_info *info = rf_gpu_info(f->device);
    assert_int_equal(info->index, device_index);
    assert_true(info->usable);
    assert_true(info->name[0] && info->driver_name[0] && info->vendor_name[0]);
    assert_true(c->subgroup_size >= 1 && (c->subgroup_size & (c->subgroup_size - 1)) == 0);
    assert_true(c->buffer_alignment >= 64 && (c->buffer_alignment & (c->buffer_alignment - 1)) == 0);
    assert_true(c->max_workgroup_invocations >= 128);
    assert_true(c->max_shared_memory >= 16384);
    assert_true(c->max_push_constants >= 128);
    assert_true(c->max_storage_range >= 1u << 27);
    assert_true(c->memory_size > 0);
    assert_true(c->is_cpu == (info->type == RF_DEVICE_TYPE_CPU));
    if (c->is_cpu) assert_true(c->host_visible);
    if (strcmp(info->driver_name, "llvmpipe") == 0) assert_int_equal(c->driver, RF_DRIVER_LAVAPIPE);
    if (strstr(info->driver_name, "SwiftShader")) assert_int_equal(c->driver, RF_DRIVER_SWIFTSHADER);

    rf_gpu_device *clamped;
    CHECK(rf_gpu_device_open(shared_gpu, &(rf_gpu_device_params){ .index = device_index, .clamp_limits = true },
                             &clamped));
    assert_int_equal(rf_gpu_caps(clamped)->max_workgroup_invocations, 128);
    assert_int_equal(rf_gpu_caps(clamped)->max_push_constants, 128);
    rf_gpu_device_close(&clamped);
    assert_null(clamped);
}

/* ---- memory ---- */

static VKAPI_ATTR VkResult VKAPI_CALL fail_flush(VkDevice device, uint32_t count, const VkMappedMemoryRange *ranges)
{
    (void)device, (void)count, (void)ranges;
    return VK_ERROR_OUT_OF_HOST_MEMORY;
}

static void check_memory(fixture *f, rf_gpu_memory kind, bool mapped)
{
    /* Four parts of a staged copy, so that both halves are used again, and no round number. */
    const uint64_t size = (13u << 20) + 13;
    uint8_t *bytes = malloc(size), *back = malloc(size);
    assert_true(bytes && back);
    rf_gpu_buffer *buffer;
    CHECK(rf_gpu_buffer_create(f->device, kind, size, "bytes", &buffer));
    assert_int_equal(rf_gpu_buffer_size(buffer), size);
    assert_true((rf_gpu_buffer_mapped(buffer) != NULL) == mapped);
    memset(back, 1, size);
    CHECK(rf_gpu_buffer_read(buffer, 0, back, size));
    for (uint64_t i = 0; i < size; i++)
        if (back[i] != 0) fail_msg("byte %llu of a new buffer is %u", (unsigned long long)i, back[i]);
    for (uint64_t i = 0; i < size; i++) bytes[i] = (uint8_t)(i * 131 + (i >> 9) + (i >> 22) * 37);
    CHECK(rf_gpu_buffer_write(buffer, 0, bytes, size));
    CHECK(rf_gpu_buffer_read(buffer, 0, back, size));
    assert_memory_equal(bytes, back, size);
    CHECK(rf_gpu_buffer_write(buffer, 3, "xyz", 3));
    CHECK(rf_gpu_buffer_read(buffer, 1, back, 7));
    assert_memory_equal(back + 2, "xyz", 3);
    assert_memory_equal(back, bytes + 1, 2);
    assert_memory_equal(back + 5, bytes + 6, 2);
    assert_int_equal(rf_gpu_buffer_read(buffer, size, back, 1), RF_ERROR_INVALID_ARGUMENT);
    assert_int_equal(rf_gpu_buffer_write(buffer, UINT64_MAX, bytes, 2), RF_ERROR_INVALID_ARGUMENT);
    rf_gpu_buffer_destroy(&buffer);
    assert_null(buffer);
    rf_gpu_buffer_destroy(&buffer);
    free(bytes);
    free(back);
}

static void test_memory(void **state)
{
    fixture *f = *state;
    check_memory(f, RF_GPU_MEMORY_DEVICE, rf_gpu_caps(f->device)->host_visible);
    check_memory(f, RF_GPU_MEMORY_UPLOAD, true);
    check_memory(f, RF_GPU_MEMORY_READBACK, true);
}

/* Memory as on a discrete GPU: device memory cannot be mapped. */
static void test_staged_memory(void **state)
{
    fixture *f = *state;
    f->device->plan.caps.host_visible = false;
    check_memory(f, RF_GPU_MEMORY_DEVICE, false);
}

/* Through the mapped pointers as frames use them: the host writes, submits, waits and reads, several times over. */
static void check_incoherent_rounds(fixture *f, rf_gpu_buffer *up, rf_gpu_buffer *down)
{
    rf_gpu_pipeline *pipeline = axpy(f, &rf_shader_test_axpy, 3, false);
    const rf_gpu_binding bindings[] = { { up, 0, COUNT * 4, 0 }, { down, 0, COUNT * 4, 0 } };
    CHECK(rf_gpu_record_dispatch(f->rec, pipeline, bindings, &(rf_push_axpy){ COUNT, 1.0f, 0 },
                                 (uint32_t[]){ (COUNT + 63) / 64, 1, 1 }, "axpy"));
    CHECK(rf_gpu_recording_end(f->rec));
    float *x = rf_gpu_buffer_mapped(up), sum[COUNT] = { 0 };
    const float *y = rf_gpu_buffer_mapped(down);
    for (uint32_t round = 0; round < 4; round++) {
        for (uint32_t i = 0; i < COUNT; i++) {
            x[i] = (float)(i + round);
            sum[i] += x[i] + 3;
        }
        uint64_t ticket;
        CHECK(rf_gpu_submit(f->device, &f->rec, 1, &ticket));
        while (round == 3 && !rf_gpu_is_done(f->device, ticket)) {
            /* the device is seen to be done before anybody waits */
        }
        CHECK(rf_gpu_wait(f->device, ticket, RF_GPU_TIMEOUT_NS));
        for (uint32_t i = 0; i < COUNT; i++)
            if (y[i] != sum[i]) fail_msg("round %u: y[%u] is %g, not %g", round, i, (double)y[i], (double)sum[i]);
    }
}

static void test_incoherent_memory(void **state)
{
    fixture *f = *state;
    assert_true(!f->device->incoherent[RF_GPU_MEMORY_UPLOAD] && !f->device->incoherent[RF_GPU_MEMORY_READBACK]);
    rf_gpu_buffer_destroy(&f->x);
    rf_gpu_buffer_destroy(&f->y);
    rf_gpu_recording_destroy(&f->rec);
    rf_gpu_device_close(&f->device);
    incoherent_begin(shared_gpu);
    CHECK(rf_gpu_device_open(shared_gpu, &(rf_gpu_device_params){ .index = device_index }, &f->device));
    incoherent_end(shared_gpu);
    assert_false(rf_gpu_caps(f->device)->host_visible);
    check_memory(f, RF_GPU_MEMORY_DEVICE, false);
    check_memory(f, RF_GPU_MEMORY_UPLOAD, true);
    check_memory(f, RF_GPU_MEMORY_READBACK, true);
    CHECK(rf_gpu_buffer_create(f->device, RF_GPU_MEMORY_UPLOAD, COUNT * 4, "up", &f->x));
    CHECK(rf_gpu_buffer_create(f->device, RF_GPU_MEMORY_READBACK, COUNT * 4, "down", &f->y));
    CHECK(rf_gpu_recording_begin(f->device, "test", &f->rec));
    check_incoherent_rounds(f, f->x, f->y);
    assert_true(incoherent.flushes > 4 && incoherent.invalidations > 4);
    /* A driver that cannot do it says so, and nothing is submitted or taken for valid. */
    uint64_t ticket;
    const uint64_t before = f->device->submitted;
    f->device->vk.FlushMappedMemoryRanges = fail_flush;
    assert_int_equal(rf_gpu_submit(f->device, &f->rec, 1, &ticket), RF_ERROR_OUT_OF_HOST_MEMORY);
    assert_non_null(strstr(rf_error_message(), "flushing buffer 'up'"));
    assert_int_equal(f->device->submitted, before);
    f->device->vk.FlushMappedMemoryRanges = incoherent_flush;
    CHECK(rf_gpu_submit(f->device, &f->rec, 1, &ticket));
    f->device->vk.InvalidateMappedMemoryRanges = fail_flush;
    for (int i = 0; i < 2; i++)
        assert_int_equal(rf_gpu_wait(f->device, ticket, RF_GPU_TIMEOUT_NS), RF_ERROR_OUT_OF_HOST_MEMORY);
    assert_non_null(strstr(rf_error_message(), "invalidating buffer"));
    f->device->vk.InvalidateMappedMemoryRanges = incoherent_invalidate;
    CHECK(rf_gpu_wait(f->device, ticket, RF_GPU_TIMEOUT_NS));
}

static void test_memory_limits(void **state)
{
    fixture *f = *state;
    rf_gpu_buffer *buffer;
    assert_int_equal(rf_gpu_buffer_create(f->device, RF_GPU_MEMORY_DEVICE, 0, "none", &buffer),
                     RF_ERROR_INVALID_ARGUMENT);
    assert_null(buffer);
    assert_int_equal(rf_gpu_buffer_create(f->device, RF_GPU_MEMORY_DEVICE, UINT64_MAX, "huge", &buffer),
                     RF_ERROR_OUT_OF_DEVICE_MEMORY);
    assert_non_null(strstr(rf_error_message(), "huge"));
    const uint32_t before = f->device->num_allocations;
    f->device->snapshot.properties.limits.maxMemoryAllocationCount = before;
    assert_int_equal(rf_gpu_buffer_create(f->device, RF_GPU_MEMORY_DEVICE, 64, "one more", &buffer),
                     RF_ERROR_OUT_OF_DEVICE_MEMORY);
    assert_int_equal(f->device->num_allocations, before);
}

/* ---- dispatches ---- */

static void test_dispatch(void **state)
{
    fixture *f = *state;
    record_axpy(f, f->rec, axpy(f, &rf_shader_test_axpy, 5, false), 0, (rf_push_axpy){ COUNT, 2.0f, 0 }, 64);
    end_and_run(f);
    expect_y(f, 2.0f, 5.0f);
}

static void set_y(fixture *f, float value)
{
    float y[COUNT];
    for (uint32_t i = 0; i < COUNT; i++) y[i] = value;
    CHECK(rf_gpu_buffer_write(f->y, 0, y, sizeof(y)));
}

/* How many elements come out wrong when a dispatch is recorded in parts. */
static uint32_t run_parts(fixture *f, rf_gpu_pipeline *parts, float bias)
{
    const uint32_t groups = (COUNT + 63) / 64;
    const rf_gpu_binding bindings[] = { { f->x, 0, COUNT * 4, 0 }, { f->y, 0, COUNT * 4, 0 } };
    const rf_push_axpy push = { COUNT, 2.0f, 0 };
    uint32_t base[3] = { 0 }, wrong = 0;
    rf_gpu_recording *rec;
    set_y(f, 0);
    CHECK(rf_gpu_recording_begin(f->device, "parts", &rec));
    for (uint32_t size = 1; base[0] < groups; base[0] += size, size = size * 2 + 1) {
        const uint32_t grid[3] = { base[0] + size < groups ? size : groups - base[0], 1, 1 };
        CHECK(rf_gpu_record_dispatch_part(rec, parts, bindings, &push, base, grid, "part"));
    }
    CHECK(rf_gpu_recording_end(rec));
    uint64_t ticket;
    CHECK(rf_gpu_submit(f->device, &rec, 1, &ticket));
    CHECK(rf_gpu_wait(f->device, ticket, RF_GPU_TIMEOUT_NS));
    float y[COUNT];
    CHECK(rf_gpu_buffer_read(f->y, 0, y, sizeof(y)));
    for (uint32_t i = 0; i < COUNT; i++) wrong += y[i] != 2 * (float)i + bias;
    rf_gpu_recording_destroy(&rec);
    return wrong;
}

/* Parts of a dispatch do what the whole does, each invocation once. */
static void test_dispatch_parts(void **state)
{
    fixture *f = *state;
    const uint32_t biases[] = { 3, 4 }, most = rf_gpu_caps(f->device)->max_grid[0];
    rf_gpu_pipeline_params params = axpy_params(&rf_shader_test_axpy, &biases[0], false);
    rf_gpu_pipeline *whole, *parts, *again, *alone;
    CHECK(rf_gpu_pipeline_get(f->device, &params, &whole));
    params.with_base = true;
    CHECK(rf_gpu_pipeline_get(f->device, &params, &parts));
    CHECK(rf_gpu_pipeline_get(f->device, &params, &again));
    assert_true(whole != parts && parts == again);
    params.spec = &biases[1]; /* the driver never saw it as a whole: its caches may take one for the other */
    CHECK(rf_gpu_pipeline_get(f->device, &params, &alone));
    const rf_gpu_binding bindings[] = { { f->x, 0, COUNT * 4, 0 }, { f->y, 0, COUNT * 4, 0 } };
    const rf_push_axpy push = { COUNT, 2.0f, 0 };
    const uint32_t none[3] = { 0 }, one[3] = { 1, 1, 1 }, last[3] = { most, 0, 0 };
    assert_int_equal(rf_gpu_record_dispatch_part(f->rec, whole, bindings, &push, none, one, NULL),
                     RF_ERROR_INVALID_ARGUMENT);
    assert_int_equal(rf_gpu_record_dispatch_part(f->rec, parts, bindings, &push, last, one, NULL),
                     RF_ERROR_INVALID_ARGUMENT);
    assert_int_equal(rf_gpu_record_dispatch_part(f->rec, parts, bindings, &push, NULL, one, NULL),
                     RF_ERROR_INVALID_ARGUMENT);
    const uint32_t wrong = run_parts(f, parts, 3), wrong_alone = run_parts(f, alone, 4);
    if (rf_gpu_caps(f->device)->whole_dispatches)
        SKIP("parts are not relied on here: %u of %d elements wrong, %u where the whole was never made", wrong, COUNT,
             wrong_alone);
    assert_int_equal(wrong, 0);
    assert_int_equal(wrong_alone, 0);
}

/* As on GPUs: the same shader with a request for IEEE's special numbers. */
static void test_preserve_nans(void **state)
{
    fixture *f = *state;
    if (!f->device->snapshot.properties12.shaderSignedZeroInfNanPreserveFloat32) SKIP("the device does not offer it");
    f->device->plan.preserve_nans = true;
    float x[COUNT], y[COUNT];
    for (uint32_t i = 0; i < COUNT; i++) x[i] = i % 3 == 0 ? NAN : i % 3 == 1 ? INFINITY : -0.0f;
    CHECK(rf_gpu_buffer_write(f->x, 0, x, sizeof(x)));
    for (uint32_t i = 0; i < COUNT; i++) y[i] = -0.0f;
    CHECK(rf_gpu_buffer_write(f->y, 0, y, sizeof(y)));
    record_axpy(f, f->rec, axpy(f, &rf_shader_test_axpy, 0, false), 0, (rf_push_axpy){ COUNT, -1.0f, 0 }, 64);
    end_and_run(f);
    CHECK(rf_gpu_buffer_read(f->y, 0, y, sizeof(y)));
    for (uint32_t i = 0; i < COUNT; i++)
        if (i % 3 == 0 ? !isnan(y[i]) : i % 3 == 1 ? y[i] != -INFINITY : y[i] != 0)
            fail_msg("y[%u] is %g", i, (double)y[i]);
}

static void test_texel_views(void **state)
{
    fixture *f = *state;
    rf_gpu_pipeline *one = axpy(f, &rf_shader_test_axpy_r32, 1, true);
    rf_gpu_pipeline *four = axpy(f, &rf_shader_test_axpy_rgba32, 2, true);
    const rf_push_axpy push = { COUNT, 1.0f, 0 };
    record_axpy(f, f->rec, one, 1, push, 64);
    rf_gpu_record_barrier(f->rec);
    record_axpy(f, f->rec, four, 4, push, 64);
    rf_gpu_record_barrier(f->rec);
    record_axpy(f, f->rec, one, 1, push, 64);
    assert_int_equal(f->rec->views.count, 2); /* the third dispatch shares the first one's */
    end_and_run(f);
    expect_y(f, 3.0f, 4.0f);
}

static void test_full_subgroups(void **state)
{
    fixture *f = *state;
    const rf_device_caps *caps = rf_gpu_caps(f->device);
    const uint32_t bias = 0;
    const rf_shader *shaders[] = { &rf_shader_test_axpy_sg4, &rf_shader_test_axpy_sg8 };
    uint32_t runs = 0;
    for (int i = 0; i < 2; i++) {
        const rf_gpu_pipeline_params params = axpy_params(shaders[i], &bias, false);
        const uint32_t lanes = shaders[i]->subgroup_size;
        rf_gpu_pipeline *pipeline;
        if (caps->full_subgroups && lanes >= f->device->snapshot.subgroup.minSubgroupSize &&
            lanes <= f->device->snapshot.subgroup.maxSubgroupSize) {
            CHECK(rf_gpu_pipeline_get(f->device, &params, &pipeline));
            record_axpy(f, f->rec, pipeline, 0, (rf_push_axpy){ COUNT, 1.0f, 0 }, lanes);
            rf_gpu_record_barrier(f->rec);
            runs++;
        } else {
            assert_int_equal(rf_gpu_pipeline_get(f->device, &params, &pipeline), RF_ERROR_UNSUPPORTED);
            assert_null(pipeline);
            assert_non_null(strstr(rf_error_message(), shaders[i]->name));
        }
    }
    end_and_run(f);
    expect_y(f, (float)runs, 0.0f);
}

static void test_pipelines_are_cached(void **state)
{
    fixture *f = *state;
    rf_gpu_pipeline *a = axpy(f, &rf_shader_test_axpy, 1, false);
    assert_ptr_equal(a, axpy(f, &rf_shader_test_axpy, 1, false));
    assert_ptr_not_equal(a, axpy(f, &rf_shader_test_axpy, 2, false));
    rf_gpu_pipeline *wider;
    CHECK(rf_gpu_pipeline_get(
        f->device, &(rf_gpu_pipeline_params){ .shader = &rf_shader_test_axpy, .num_bindings = 3, .push_size = 16 },
        &wider));
    assert_ptr_not_equal(a, wider);
    rf_gpu_pipeline *none;
    assert_int_equal(rf_gpu_pipeline_get(f->device, &(rf_gpu_pipeline_params){ .num_bindings = 1 }, &none),
                     RF_ERROR_INVALID_ARGUMENT);
    assert_int_equal(
        rf_gpu_pipeline_get(f->device,
                            &(rf_gpu_pipeline_params){ .shader = &rf_shader_test_axpy, .push_size = 1u << 20 }, &none),
        RF_ERROR_UNSUPPORTED);
}

/* The device keeps what it compiled of a shader that may go: another one at the same address is another one, and the
 * same one at another address is the same. */
static void test_pipelines_outlive_shaders(void **state)
{
    fixture *f = *state;
    const rf_shader *built_in = &rf_shader_test_axpy;
    rf_shader place;
    uint32_t *own;
    CHECK(rf_shader_read(built_in, &own));
    rf_gpu_pipeline *pipelines[4];
    for (int i = 0; i < 4; i++) {
        rf_shader *words = rf_shader_copy("axpy", own, built_in->num_words, 0);
        assert_non_null(words);
        if (i == 1) ((uint32_t *)(uintptr_t)words->words)[2] ^= 1; /* the generator's number, of no meaning */
        rf_shader *shader = rf_shader_copy(i == 2 ? "other" : "axpy", words->words, words->num_words, 0);
        assert_non_null(shader);
        place = *shader;
        pipelines[i] = axpy(f, &place, 0, false);
        rf_free(shader);
        rf_free(words);
    }
    rf_free(own);
    for (int i = 0; i < 3; i++) {
        assert_ptr_not_equal(pipelines[i], axpy(f, built_in, 0, false));
        for (int k = 0; k < i; k++) assert_ptr_not_equal(pipelines[i], pipelines[k]);
    }
    assert_ptr_equal(pipelines[0], pipelines[3]);
}

/* A chain in which every link needs the one before: copies, fills and dispatches, over several descriptor pools. */
static void test_barriers(void **state)
{
    fixture *f = *state;
    rf_gpu_pipeline *pipeline = axpy(f, &rf_shader_test_axpy, 0, false);
    rf_gpu_pipeline *texel = axpy(f, &rf_shader_test_axpy_r32, 0, true);
    CHECK(rf_gpu_record_fill(f->rec, f->y, 0, COUNT * 4, 0));
    for (int i = 0; i < 200; i++) {
        rf_gpu_record_barrier(f->rec);
        record_axpy(f, f->rec, i % 2 ? pipeline : texel, i % 2 ? 0 : 1, (rf_push_axpy){ COUNT, 1.0f, 0 }, 64);
    }
    assert_true(f->rec->descriptor_pools.count > 1);
    rf_gpu_record_barrier(f->rec);
    CHECK(rf_gpu_record_copy(f->rec, f->y, 0, f->x, 0, COUNT * 4)); /* x = 200 i */
    rf_gpu_record_barrier(f->rec);
    CHECK(rf_gpu_record_fill(f->rec, f->y, 0, COUNT * 4, 0));
    rf_gpu_record_barrier(f->rec);
    record_axpy(f, f->rec, pipeline, 0, (rf_push_axpy){ COUNT, 0.5f, 0 }, 64);
    end_and_run(f);
    expect_y(f, 100.0f, 0.0f);
}

static void test_resubmission(void **state)
{
    fixture *f = *state;
    record_axpy(f, f->rec, axpy(f, &rf_shader_test_axpy, 1, false), 0, (rf_push_axpy){ COUNT, 1.0f, 0 }, 64);
    CHECK(rf_gpu_recording_end(f->rec));
    for (int i = 0; i < 100; i++) run(f, &f->rec, 1);
    expect_y(f, 100.0f, 100.0f);
}

/* y = (1 * i + 1) * 2 ... needs the order; many to pass the array on the stack. */
static void test_several_recordings(void **state)
{
    fixture *f = *state;
    enum { N = 40 };
    rf_gpu_recording *recs[N];
    rf_gpu_pipeline *pipeline = axpy(f, &rf_shader_test_axpy, 1, false);
    for (int i = 0; i < N; i++) {
        CHECK(rf_gpu_recording_begin(f->device, "part", &recs[i]));
        if (i % 2 == 0)
            record_axpy(f, recs[i], pipeline, 0, (rf_push_axpy){ COUNT, 1.0f, 0 }, 64);
        else /* x = y: doubles with every pair */
            CHECK(rf_gpu_record_copy(recs[i], f->y, 0, f->x, 0, COUNT * 4));
        CHECK(rf_gpu_recording_end(recs[i]));
    }
    run(f, recs, N);
    float y[COUNT];
    CHECK(rf_gpu_buffer_read(f->y, 0, y, sizeof(y)));
    float expected = 0, x = 3;
    for (int i = 0; i < N / 2; i++) {
        expected += x + 1;
        x = expected;
    }
    assert_true(y[3] == expected);
    uint64_t ticket;
    assert_int_equal(rf_gpu_submit(f->device, (rf_gpu_recording *[]){ recs[0], recs[0] }, 2, &ticket),
                     RF_ERROR_INVALID_ARGUMENT);
    CHECK(rf_gpu_submit(f->device, recs, 0, &ticket)); /* nothing: the ticket of what was last */
    CHECK(rf_gpu_wait(f->device, ticket, 0));
    for (int i = 0; i < N; i++) rf_gpu_recording_destroy(&recs[i]);
}

static void test_empty_shapes(void **state)
{
    fixture *f = *state;
    const rf_gpu_binding bindings[] = { { f->x, 0, COUNT * 4, 0 }, { f->y, 0, COUNT * 4, 0 } };
    CHECK(rf_gpu_record_dispatch(f->rec, axpy(f, &rf_shader_test_axpy, 5, false), bindings,
                                 &(rf_push_axpy){ COUNT, 1.0f, 0 }, (uint32_t[]){ 0, 1, 1 }, NULL));
    CHECK(rf_gpu_record_copy(f->rec, f->x, 0, f->y, 0, 0));
    CHECK(rf_gpu_record_fill(f->rec, f->y, 0, 0, 1));
    end_and_run(f);
    expect_y(f, 0.0f, 0.0f);
}

/* A last word that was asked for in part is there for shaders that read whole words; offsets inside a buffer work. */
static void test_ranges(void **state)
{
    fixture *f = *state;
    const uint32_t step = rf_gpu_caps(f->device)->buffer_alignment;
    rf_gpu_buffer *small;
    CHECK(rf_gpu_buffer_create(f->device, RF_GPU_MEMORY_DEVICE, step + 7, "small", &small));
    const rf_gpu_binding bindings[] = { { f->x, step, 8, 0 }, { small, step, 7, 0 } };
    CHECK(rf_gpu_record_dispatch(f->rec, axpy(f, &rf_shader_test_axpy, 0, false), bindings,
                                 &(rf_push_axpy){ 2, 1.0f, 0 }, (uint32_t[]){ 1, 1, 1 }, "two words"));
    end_and_run(f);
    float y[2] = { 0 };
    CHECK(rf_gpu_buffer_read(small, step, y, 7));
    assert_true(y[0] == (float)step / 4.0f);
    CHECK(rf_gpu_buffer_read(small, step, y, 7));
    uint8_t third;
    const float expected = (float)(step / 4 + 1);
    CHECK(rf_gpu_buffer_read(small, step + 6, &third, 1));
    assert_int_equal(third, ((const uint8_t *)&expected)[2]);
    rf_gpu_buffer_destroy(&small);
}

static void test_misuse(void **state)
{
    fixture *f = *state;
    rf_gpu_pipeline *pipeline = axpy(f, &rf_shader_test_axpy, 0, false);
    rf_gpu_pipeline *texel = axpy(f, &rf_shader_test_axpy_r32, 0, true);
    const rf_push_axpy push = { COUNT, 1.0f, 0 };
    const uint32_t grid[] = { 1, 1, 1 };
    const rf_gpu_binding y = { f->y, 0, COUNT * 4, 0 };
    const struct {
        rf_gpu_binding x;
        rf_gpu_pipeline *pipeline;
    } wrong[] = {
        { { NULL, 0, 4, 0 }, pipeline },      { { f->x, 0, COUNT * 4, 1 }, pipeline },
        { { f->x, 0, COUNT * 4, 0 }, texel }, { { f->x, 0, 1u << 20, 0 }, pipeline },
        { { f->x, 1, 4, 0 }, pipeline },      { { f->x, 0, 0, 0 }, pipeline },
        { { f->x, 0, 7, 1 }, texel },         { { f->x, UINT64_MAX, 4, 0 }, pipeline },
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        const rf_gpu_binding bindings[] = { wrong[i].x, y };
        if (rf_gpu_record_dispatch(f->rec, wrong[i].pipeline, bindings, &push, grid, NULL) != RF_ERROR_INVALID_ARGUMENT)
            fail_msg("binding %zu was accepted", i);
    }
    const rf_gpu_binding good[] = { { f->x, 0, COUNT * 4, 0 }, y };
    assert_int_equal(rf_gpu_record_dispatch(f->rec, pipeline, good, NULL, grid, NULL), RF_ERROR_INVALID_ARGUMENT);
    const uint64_t too_many = (uint64_t)rf_gpu_caps(f->device)->max_grid[1] + 1;
    if (too_many <= UINT32_MAX)
        assert_int_equal(
            rf_gpu_record_dispatch(f->rec, pipeline, good, &push, (uint32_t[]){ 1, (uint32_t)too_many, 1 }, NULL),
            RF_ERROR_INVALID_ARGUMENT);
    assert_int_equal(rf_gpu_record_copy(f->rec, f->x, 0, f->x, 4, 8), RF_ERROR_INVALID_ARGUMENT);
    const rf_gpu_region crossed[] = { { 0, 8, 4 }, { 8, 16, 4 } }, empty = { 0, 0, 0 },
                        beyond = { 0, UINT64_MAX - 3, 4 };
    assert_int_equal(rf_gpu_record_regions(f->rec, f->x, f->x, crossed, 2), RF_ERROR_INVALID_ARGUMENT);
    assert_int_equal(rf_gpu_record_regions(f->rec, f->x, f->y, &empty, 1), RF_ERROR_INVALID_ARGUMENT);
    assert_int_equal(rf_gpu_record_regions(f->rec, f->x, f->y, &beyond, 1), RF_ERROR_INVALID_ARGUMENT);
    assert_int_equal(rf_gpu_record_fill(f->rec, f->x, 2, 4, 0), RF_ERROR_INVALID_ARGUMENT);
    uint64_t ticket;
    assert_int_equal(rf_gpu_submit(f->device, &f->rec, 1, &ticket), RF_ERROR_INVALID_ARGUMENT); /* not ended */
    CHECK(rf_gpu_recording_end(f->rec));
    assert_int_equal(rf_gpu_recording_end(f->rec), RF_ERROR_INVALID_ARGUMENT);
    assert_int_equal(rf_gpu_record_dispatch(f->rec, pipeline, good, &push, grid, NULL), RF_ERROR_INVALID_ARGUMENT);
    assert_int_equal(rf_gpu_wait(f->device, ticket + 1, 0), RF_ERROR_INVALID_ARGUMENT); /* would never come */
}

/* ---- time ---- */

static VKAPI_ATTR VkResult VKAPI_CALL lose_queries(VkDevice device, VkQueryPool pool, uint32_t first, uint32_t count,
                                                   size_t size, void *data, VkDeviceSize stride,
                                                   VkQueryResultFlags flags)
{
    (void)device, (void)pool, (void)first, (void)count, (void)size, (void)data, (void)stride;
    return flags & VK_QUERY_RESULT_WAIT_BIT ? VK_ERROR_DEVICE_LOST : VK_NOT_READY;
}

/* A driver that has none of a run that has finished: that costs the times, not the device. */
static void test_lost_timestamps(void **state)
{
    fixture *f = *state;
    uint64_t ns;
    uint32_t index;
    if (f->device->plan.timestamp_bits == 0) SKIP("the device has no timestamps");
    CHECK(rf_gpu_record_timestamp(f->rec, &index));
    CHECK(rf_gpu_recording_end(f->rec));
    run(f, &f->rec, 1);
    const PFN_vkGetQueryPoolResults real = f->device->vk.GetQueryPoolResults;
    f->device->vk.GetQueryPoolResults = lose_queries;
    assert_int_equal(rf_gpu_recording_timestamps(f->rec, &ns, 1), RF_ERROR_UNSUPPORTED);
    f->device->vk.GetQueryPoolResults = real;
    CHECK(rf_gpu_recording_timestamps(f->rec, &ns, 1));
    run(f, &f->rec, 1);
}

static void test_timestamps(void **state)
{
    fixture *f = *state;
    rf_gpu_pipeline *pipeline = axpy(f, &rf_shader_test_axpy, 0, false);
    enum { N = 70 }; /* more than one query pool */
    uint64_t ns[N];
    uint32_t index;
    if (f->device->plan.timestamp_bits == 0) {
        assert_int_equal(rf_gpu_record_timestamp(f->rec, &index), RF_ERROR_UNSUPPORTED);
        return;
    }
    for (uint32_t i = 0; i < N; i++) {
        CHECK(rf_gpu_record_timestamp(f->rec, &index));
        assert_int_equal(index, i);
        record_axpy(f, f->rec, pipeline, 0, (rf_push_axpy){ COUNT, 1.0f, i == 0 ? 20000 : 0 }, 64);
        rf_gpu_record_barrier(f->rec);
    }
    CHECK(rf_gpu_recording_end(f->rec));
    assert_int_equal(rf_gpu_recording_timestamps(f->rec, ns, N), RF_ERROR_INVALID_ARGUMENT); /* never submitted */
    for (int round = 0; round < 2; round++) {
        const uint64_t before = rf_now_ns();
        run(f, &f->rec, 1);
        const uint64_t elapsed = rf_now_ns() - before;
        CHECK(rf_gpu_recording_timestamps(f->rec, ns, N));
        assert_int_equal(ns[0], 0);
        for (int i = 1; i < N; i++) assert_true(ns[i] >= ns[i - 1]);
        assert_true(ns[1] > 10000); /* the long dispatch: 20000 rounds take some time on anything */
        assert_true(ns[N - 1] <= elapsed);
    }
    assert_int_equal(rf_gpu_recording_timestamps(f->rec, ns, N + 1), RF_ERROR_INVALID_ARGUMENT);
}

static void test_no_timestamps(void **state)
{
    fixture *f = *state;
    f->device->plan.timestamp_bits = 0;
    uint32_t index;
    assert_int_equal(rf_gpu_record_timestamp(f->rec, &index), RF_ERROR_UNSUPPORTED);
}

/* A wait looks for as long as it may, then sleeps; only the time that it takes tells the two apart. */
static void test_spinning(void **state)
{
    fixture *f = *state;
    rf_gpu_pipeline *pipeline = axpy(f, &rf_shader_test_axpy, 0, false);
    record_axpy(f, f->rec, pipeline, 0, (rf_push_axpy){ COUNT, 1.0f, 20000 }, 64);
    CHECK(rf_gpu_recording_end(f->rec));
    static const uint64_t spins[] = { 0, 1, RF_GPU_TIMEOUT_NS };
    for (uint32_t i = 0; i < 3; i++) {
        uint64_t ticket;
        CHECK(rf_gpu_submit(f->device, &f->rec, 1, &ticket));
        CHECK(rf_gpu_wait_spinning(f->device, ticket, spins[i], RF_GPU_TIMEOUT_NS));
        assert_int_equal(f->device->completed, ticket);
    }
    rf_device_caps caps = { .is_cpu = true };
    assert_int_equal(rf_gpu_spin_ns(&caps, RF_GPU_TIMEOUT_NS), 0);
    caps.is_cpu = false;
    assert_int_equal(rf_gpu_spin_ns(&caps, RF_GPU_TIMEOUT_NS), 30000);
    assert_int_equal(rf_gpu_spin_ns(&caps, 200), 200);
    assert_int_equal(rf_gpu_spin_ns(&caps, 0), 0); /* only look */
}

static void test_timeout(void **state)
{
    fixture *f = *state;
    const rf_push_axpy push = { COUNT, 1.0f,
                                rf_gpu_caps(f->device)->is_cpu ? 100000 : 4000000 }; /* tens of milliseconds */
    record_axpy(f, f->rec, axpy(f, &rf_shader_test_axpy, 0, false), 0, push, 64);
    CHECK(rf_gpu_recording_end(f->rec));
    uint64_t ticket, again;
    CHECK(rf_gpu_submit(f->device, &f->rec, 1, &ticket));
    assert_int_equal(rf_gpu_wait(f->device, ticket, 0), RF_ERROR_TIMEOUT);
    assert_int_equal(rf_gpu_wait(f->device, ticket, 1000000), RF_ERROR_TIMEOUT);
    assert_non_null(strstr(rf_error_message(), "1 ms"));
    assert_int_equal(rf_gpu_submit(f->device, &f->rec, 1, &again), RF_ERROR_INVALID_ARGUMENT); /* still in flight */
    CHECK(rf_gpu_wait(f->device, ticket, RF_GPU_TIMEOUT_NS));
    CHECK(rf_gpu_wait(f->device, ticket, 0));
    /* Destroying what still runs waits for it. */
    CHECK(rf_gpu_submit(f->device, &f->rec, 1, &ticket));
    rf_gpu_recording_destroy(&f->rec);
    CHECK(rf_gpu_wait(f->device, ticket, 0));
}

/* Submitted several times while it is in flight, and held back twice for one submission. */
static void test_shared_recording(void **state)
{
    fixture *f = *state;
    rf_gpu_recording *rec;
    uint64_t ticket;
    CHECK(rf_gpu_recording_begin_shared(f->device, "shared", &rec));
    record_axpy(f, rec, axpy(f, &rf_shader_test_axpy, 1, false), 0, (rf_push_axpy){ COUNT, 1.0f, 0 }, 64);
    CHECK(rf_gpu_recording_end(rec));
    for (uint32_t i = 0; i < 2; i++) CHECK(rf_gpu_submit(f->device, &rec, 1, &ticket));
    rf_gpu_hold(f->device, true);
    for (uint32_t i = 0; i < 2; i++) CHECK(rf_gpu_submit(f->device, &rec, 1, &ticket));
    rf_gpu_hold(f->device, false);
    CHECK(rf_gpu_wait(f->device, ticket, RF_GPU_TIMEOUT_NS));
    expect_y(f, 4.0f, 4.0f);
    rf_gpu_recording_destroy(&rec);
}

static void test_nulls(void **state)
{
    (void)state;
    rf_gpu *gpu = NULL;
    rf_gpu_device *device = NULL;
    rf_gpu_buffer *buffer = NULL;
    rf_gpu_recording *rec = NULL;
    rf_gpu_destroy(&gpu);
    rf_gpu_destroy(NULL);
    rf_gpu_device_close(&device);
    rf_gpu_buffer_destroy(&buffer);
    rf_gpu_recording_destroy(&rec);
    assert_int_equal(rf_gpu_buffer_create(NULL, RF_GPU_MEMORY_DEVICE, 4, "x", &buffer), RF_ERROR_INVALID_ARGUMENT);
    assert_int_equal(rf_gpu_device_open(NULL, NULL, &device), RF_ERROR_INVALID_ARGUMENT);
}

TEST_PROGRAM(gpu)
{
    const rf_result created = rf_gpu_create(NULL, &shared_gpu);
    if (created == RF_ERROR_UNSUPPORTED || created == RF_ERROR_NOT_FOUND) {
        fprintf(stderr, "skipped: %s\n", rf_error_message());
        return 77;
    }
    CHECK(created);
    uint32_t count = 16;
    rf_device_info infos[16];
    CHECK(rf_gpu_list(shared_gpu, infos, &count));
    if (count > 16) count = 16;
#define DEVICE_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        DEVICE_TEST(test_caps),
        DEVICE_TEST(test_memory),
        DEVICE_TEST(test_staged_memory),
        DEVICE_TEST(test_incoherent_memory),
        DEVICE_TEST(test_memory_limits),
        DEVICE_TEST(test_import),
        DEVICE_TEST(test_import_refused),
        DEVICE_TEST(test_dispatch),
        DEVICE_TEST(test_dispatch_parts),
        DEVICE_TEST(test_preserve_nans),
        DEVICE_TEST(test_texel_views),
        DEVICE_TEST(test_full_subgroups),
        DEVICE_TEST(test_pipelines_are_cached),
        DEVICE_TEST(test_pipelines_outlive_shaders),
        DEVICE_TEST(test_barriers),
        DEVICE_TEST(test_resubmission),
        DEVICE_TEST(test_several_recordings),
        DEVICE_TEST(test_empty_shapes),
        DEVICE_TEST(test_ranges),
        DEVICE_TEST(test_misuse),
        DEVICE_TEST(test_timestamps),
        DEVICE_TEST(test_lost_timestamps),
        DEVICE_TEST(test_no_timestamps),
        DEVICE_TEST(test_spinning),
        DEVICE_TEST(test_timeout),
        DEVICE_TEST(test_shared_recording),
        DEVICE_TEST(test_out_of_memory),
        DEVICE_TEST(test_memory_budget),
        DEVICE_TEST(test_device_fault),
        DEVICE_TEST(test_device_lost_sticks),
        cmocka_unit_test(test_every_failure),
        cmocka_unit_test(test_nulls),
    };
    int failed = 0;
    for (device_index = 0; device_index < count; device_index++) {
        if (!infos[device_index].usable) continue;
        fprintf(stderr, "device %u: %s\n", device_index, infos[device_index].name);
        failed += cmocka_run_group_tests(tests, NULL, NULL);
    }
    const char *first;
    const uint64_t messages = rf_gpu_validation_messages(shared_gpu, &first);
    if (messages > 0) fprintf(stderr, "%llu validation messages, the first: %s\n", (unsigned long long)messages, first);
    rf_gpu_destroy(&shared_gpu);
    return failed > 0 || messages > 0;
}
