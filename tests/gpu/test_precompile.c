/* SPDX-License-Identifier: Apache-2.0 */
/* Many pipelines at once: made side by side, and compiled ahead on drivers that compile at the first dispatch. */
#include "gpu_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/threads.h"
#include "gpu/internal.h"
#include "tests/room.h"

#define COUNT 256u
#define PIPELINES 12u

/* ---- decisions ---- */

TEST(test_helpers)
{
    assert_int_equal(rf_gpu_precompile_helpers(0, 8), 0);
    assert_int_equal(rf_gpu_precompile_helpers(3, 8), 0);
    assert_int_equal(rf_gpu_precompile_helpers(100, 1), 0);
    assert_int_equal(rf_gpu_precompile_helpers(4, 2), 1);
    assert_int_equal(rf_gpu_precompile_helpers(100, 2), 1);
    assert_int_equal(rf_gpu_precompile_helpers(100, 64), 7);
    assert_true(rf_cpu_count() >= 1);
}

TEST(test_texel_forms)
{
    rf_gpu_texel_forms f = { 0 };
    static const struct {
        rf_gpu_binding binding;
        uint64_t buffer_size;
    } bound[] = { { { .size = 256, .texel_components = 1 }, 1536 },
                  { { .size = 256, .texel_components = 4 }, 1536 },
                  { { .size = 512, .texel_components = 1 }, 4096 },
                  { { .size = 16, .texel_components = 1, .texel_half = true }, 1536 },
                  { { .size = 1u << 16, .texel_components = 4 }, 1u << 20 } };
    for (uint32_t i = 0; i < 5; i++) {
        rf_gpu_texel_forms_add(&f, i, &bound[i].binding, bound[i].buffer_size);
        if (i == 0) assert_true(f.rgba == 0 && f.half == 0 && f.power_of_two == 0 && f.short_span == 0);
    }
    assert_int_equal(f.half, 1u << 3);
    assert_int_equal(f.rgba, 1u << 1 | 1u << 4);
    assert_int_equal(f.power_of_two, 1u << 2 | 1u << 4);
    assert_int_equal(f.short_span, 1u << 3 | 1u << 4);
}

/* Views of one form as far as there is room, on drivers that compile each form. */
TEST(test_texel_span)
{
    rf_gpu_device *device = calloc(1, sizeof(*device));
    assert_non_null(device);
    rf_gpu gpu = { 0 };
    device->gpu = &gpu;
    device->plan.caps = (rf_device_caps){ .compiles_at_dispatch = true, .max_texel_elements = 1u << 20 };
    rf_gpu_buffer spared = { .device = device, .capacity = 1u << 23, .spare = RF_GPU_TEXEL_SPARE };
    rf_gpu_buffer given = { .device = device, .capacity = 1u << 16 };
    const struct {
        rf_gpu_binding binding;
        uint64_t span;
    } cases[] = {
        { { &spared, 0, 16, 1 }, 16 + RF_GPU_TEXEL_SPARE },
        { { &spared, 0, 256, 1 }, 256 },
        { { &spared, 512, 1u << 16, 4 }, (1u << 16) + RF_GPU_TEXEL_SPARE },
        { { &spared, 0, 1u << 23, 4 }, (1u << 23) + RF_GPU_TEXEL_SPARE },
        { { &spared, 0, 1u << 22, 1 }, 1u << 22 }, /* as many texels as there may be */
        { { &given, 0, 1u << 16, 4 }, 1u << 16 },
        { { &given, 1u << 15, 64, 4 }, 64 + RF_GPU_TEXEL_SPARE },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        if (rf_gpu_texel_span(device, &cases[i].binding) != cases[i].span)
            fail_msg("case %zu spans %llu bytes", i, (unsigned long long)rf_gpu_texel_span(device, &cases[i].binding));
    gpu.layer_version = VK_API_VERSION_1_3;
    assert_int_equal(rf_gpu_texel_span(device, &cases[0].binding), 16);
    gpu.layer_version = 0;
    device->plan.caps.compiles_at_dispatch = false;
    assert_int_equal(rf_gpu_texel_span(device, &cases[0].binding), 16);
    free(device);
}

/* ---- devices ---- */

typedef struct fixture {
    rf_gpu *gpu;
    rf_gpu_device *device;
    rf_gpu_buffer *x, *y;
} fixture;

static bool open_fixture(fixture *f, uint32_t index)
{
    CHECK(rf_gpu_create(NULL, &f->gpu));
    rf_device_info infos[16];
    uint32_t count = 16;
    CHECK(rf_gpu_list(f->gpu, infos, &count));
    if (index >= count || !infos[index].usable) {
        rf_gpu_destroy(&f->gpu);
        return false;
    }
    CHECK(rf_gpu_device_open(f->gpu, &(rf_gpu_device_params){ .index = index }, &f->device));
    CHECK(rf_gpu_buffer_create(f->device, RF_GPU_MEMORY_UPLOAD, COUNT * 4, "x", &f->x));
    CHECK(rf_gpu_buffer_create(f->device, RF_GPU_MEMORY_DEVICE, COUNT * 4, "y", &f->y));
    float *x = rf_gpu_buffer_mapped(f->x);
    for (uint32_t i = 0; i < COUNT; i++) x[i] = (float)i;
    return true;
}

static void close_fixture(fixture *f)
{
    rf_gpu_buffer_destroy(&f->x);
    rf_gpu_buffer_destroy(&f->y);
    rf_gpu_device_close(&f->device);
    rf_gpu_destroy(&f->gpu);
}

/* y += x + bias: three shaders, biases 0 to 3. */
static const rf_shader *const shaders[3] = { &rf_shader_test_axpy, &rf_shader_test_axpy_r32,
                                             &rf_shader_test_axpy_rgba32 };
static const uint32_t components[3] = { 0, 1, 4 }, biases[4] = { 0, 1, 2, 3 };

static void make_pipelines(fixture *f, rf_gpu_pipeline *pipelines[PIPELINES])
{
    rf_gpu_pipeline_params params[PIPELINES + 2];
    rf_gpu_pipeline *made[PIPELINES + 2];
    for (uint32_t i = 0; i < PIPELINES; i++)
        params[i] = (rf_gpu_pipeline_params){ .shader = shaders[i % 3],
                                              .spec = &biases[i / 3],
                                              .num_spec = 1,
                                              .num_bindings = 2,
                                              .texel_mask = i % 3 ? 1 : 0,
                                              .push_size = sizeof(rf_push_axpy) };
    /* Two that occur before. */
    params[PIPELINES] = params[0];
    params[PIPELINES + 1] = params[5];
    CHECK(rf_gpu_pipelines_get(f->device, params, PIPELINES + 2, made));
    for (uint32_t i = 0; i < PIPELINES; i++) {
        for (uint32_t k = 0; k < i; k++) assert_ptr_not_equal(made[i], made[k]);
        rf_gpu_pipeline *again;
        CHECK(rf_gpu_pipeline_get(f->device, &params[i], &again));
        assert_ptr_equal(again, made[i]);
        pipelines[i] = made[i];
    }
    assert_ptr_equal(made[PIPELINES], made[0]);
    assert_ptr_equal(made[PIPELINES + 1], made[5]);

    /* One that will not do: none is made. */
    params[1].spec = &(uint32_t){ 77 };
    params[2].texel_mask = 1u << 5;
    assert_int_equal(rf_gpu_pipelines_get(f->device, params, PIPELINES, made), RF_ERROR_INVALID_ARGUMENT);
    for (uint32_t i = 0; i < PIPELINES; i++) assert_null(made[i]);
    for (rf_gpu_pipeline *p = f->device->pipelines; p; p = p->next) assert_true(p->spec[0] != 77);
}

static void record(fixture *f, rf_gpu_pipeline *const pipelines[PIPELINES], rf_gpu_recording **rec)
{
    CHECK(rf_gpu_recording_begin(f->device, "many", rec));
    for (uint32_t i = 0; i < PIPELINES; i++) {
        CHECK(rf_gpu_record_dispatch(
            *rec, pipelines[i],
            (rf_gpu_binding[]){ { f->x, 0, COUNT * 4, components[i % 3] }, { f->y, 0, COUNT * 4, 0 } },
            &(rf_push_axpy){ COUNT, 1.0f, 0 }, (uint32_t[]){ COUNT / 64, 1, 1 }, "axpy"));
        rf_gpu_record_barrier(*rec);
    }
    CHECK(rf_gpu_recording_end(*rec));
}

static uint32_t count_compiled(const fixture *f)
{
    uint32_t compiled = 0;
    for (const rf_gpu_pipeline *p = f->device->pipelines; p; p = p->next)
        for (const rf_gpu_variant *v = p->variants; v; v = v->next) compiled += v->compiled;
    return compiled;
}

static void expect_sum(fixture *f, uint32_t rounds)
{
    float y[COUNT];
    CHECK(rf_gpu_buffer_read(f->y, 0, y, sizeof(y)));
    for (uint32_t i = 0; i < COUNT; i++) {
        const float expected = (float)rounds * (PIPELINES * (float)i + 18.0f);
        if (y[i] != expected) fail_msg("y[%u] is %g, not %g", i, (double)y[i], (double)expected);
    }
}

TEST(test_many_pipelines)
{
    for (uint32_t index = 0; index < 16; index++) {
        fixture f = { 0 };
        if (!open_fixture(&f, index)) continue;
        const bool ahead = rf_gpu_caps(f.device)->compiles_at_dispatch;
        rf_gpu_pipeline *pipelines[PIPELINES];
        rf_gpu_recording *recs[2];
        uint64_t ticket;
        make_pipelines(&f, pipelines);
        record(&f, pipelines, &recs[0]);
        record(&f, pipelines, &recs[1]);
        assert_int_equal(recs[0]->uncompiled.count, ahead ? PIPELINES : 0);
        assert_int_equal(count_compiled(&f), 0);
        CHECK(rf_gpu_submit(f.device, recs, 2, &ticket));
        assert_int_equal(count_compiled(&f), ahead ? PIPELINES : 0);
        assert_int_equal(recs[0]->uncompiled.count + recs[1]->uncompiled.count, 0);
        expect_sum(&f, 2);
        CHECK(rf_gpu_submit(f.device, recs, 1, &ticket));
        expect_sum(&f, 3);
        rf_gpu_recording_destroy(&recs[1]);
        record(&f, pipelines, &recs[1]);
        assert_int_equal(recs[1]->uncompiled.count, 0);
        rf_gpu_recording_destroy(&recs[0]);
        rf_gpu_recording_destroy(&recs[1]);
        close_fixture(&f);
    }
}

TEST_PROGRAM(precompile)
{
    /* So that there is something to compile in every run. */
    setenv("MESA_SHADER_CACHE_DISABLE", "true", 1);
    uint32_t count = 0;
    if (rf_devices_list(NULL, &count) < 0) {
        fprintf(stderr, "skipped: %s\n", rf_error_message());
        return 77;
    }
    return room_tests_run(own_tests, NULL, NULL);
}
