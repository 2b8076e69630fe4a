/* SPDX-License-Identifier: Apache-2.0 */
/* Memory, pipelines, recordings and submission on every device found. Runs each test on each device. */
#include "gpu_test.h"

#include <stdlib.h>
#include <string.h>

#define COUNT 1000u

typedef struct fixture {
    rf_gpu *gpu;
    rf_gpu_device *device;
    rf_gpu_buffer *x, *y;
} fixture;

static rf_gpu *shared_gpu;
static uint32_t device_index;

static int setup(void **state)
{
    fixture *f = calloc(1, sizeof(*f));
    assert_non_null(f);
    f->gpu = shared_gpu;
    CHECK(rf_gpu_device_open(shared_gpu, &(rf_gpu_device_params){ .index = device_index }, &f->device));
    CHECK(rf_gpu_buffer_create(f->device, RF_GPU_MEMORY_DEVICE, COUNT * 4, "x", &f->x));
    CHECK(rf_gpu_buffer_create(f->device, RF_GPU_MEMORY_DEVICE, COUNT * 4, "y", &f->y));
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    rf_gpu_buffer_destroy(&f->x);
    rf_gpu_buffer_destroy(&f->y);
    rf_gpu_device_close(&f->device);
    free(f);
    return 0;
}

static rf_gpu_pipeline *axpy(fixture *f, const rf_shader *shader, uint32_t bias, bool texel)
{
    rf_gpu_pipeline *pipeline;
    CHECK(rf_gpu_pipeline_get(f->device,
                              &(rf_gpu_pipeline_params){ .shader = shader,
                                                         .spec = &bias,
                                                         .num_spec = 1,
                                                         .num_bindings = 2,
                                                         .texel_mask = texel ? 1 : 0,
                                                         .push_size = sizeof(axpy_push) },
                              &pipeline));
    return pipeline;
}

static void dispatch(fixture *f, rf_gpu_recording *rec, rf_gpu_pipeline *pipeline, uint32_t texel, float scale,
                     uint32_t lanes)
{
    const rf_gpu_binding bindings[] = { { f->x, 0, COUNT * 4, texel }, { f->y, 0, COUNT * 4, 0 } };
    const axpy_push push = { COUNT, scale, 0 };
    const uint32_t grid[] = { (COUNT + lanes - 1) / lanes, 1, 1 };
    CHECK(rf_gpu_record_dispatch(rec, pipeline, bindings, &push, grid, "axpy"));
}

static void run(fixture *f, rf_gpu_recording *const *recs, uint32_t count)
{
    uint64_t ticket;
    CHECK(rf_gpu_submit(f->device, recs, count, &ticket));
    CHECK(rf_gpu_wait(f->device, ticket, RF_GPU_TIMEOUT_NS));
}

static void fill_x(fixture *f)
{
    float x[COUNT];
    for (uint32_t i = 0; i < COUNT; i++) x[i] = (float)i;
    CHECK(rf_gpu_buffer_write(f->x, 0, x, sizeof(x)));
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

static void test_dispatch(void **state)
{
    fixture *f = *state;
    fill_x(f);
    rf_gpu_recording *rec;
    CHECK(rf_gpu_recording_begin(f->device, "dispatch", &rec));
    dispatch(f, rec, axpy(f, &rf_shader_test_axpy, 5, false), 0, 2.0f, 64);
    CHECK(rf_gpu_recording_end(rec));
    run(f, &rec, 1);
    expect_y(f, 2.0f, 5.0f);
    rf_gpu_recording_destroy(&rec);
}

int main(void)
{
    CHECK(rf_gpu_create(NULL, &shared_gpu));
    uint32_t count = 0;
    CHECK(rf_gpu_list(shared_gpu, NULL, &count));
    int failed = 0;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_dispatch, setup, teardown),
    };
    for (device_index = 0; device_index < count; device_index++) failed += cmocka_run_group_tests(tests, NULL, NULL);
    rf_gpu_destroy(&shared_gpu);
    return failed;
}
