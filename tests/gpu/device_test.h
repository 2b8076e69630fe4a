/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers that the files of test_gpu share: an open device with two buffers and a recording, and a shader for them. */
#ifndef RF_TESTS_GPU_DEVICE_TEST_H
#define RF_TESTS_GPU_DEVICE_TEST_H

#include "gpu_test.h"

#include "gpu/internal.h"

#define COUNT 1000u

typedef struct fixture {
    rf_gpu_device *device;
    rf_gpu_buffer *x, *y;
    rf_gpu_recording *rec;
} fixture;

extern rf_gpu *shared_gpu;
extern uint32_t device_index;

rf_gpu_pipeline_params axpy_params(const rf_shader *shader, const uint32_t *bias, bool texel);

/* test_failures.c */
void test_out_of_memory(void **state);
void test_memory_budget(void **state);
void test_device_fault(void **state);
void test_device_lost_sticks(void **state);
void test_every_failure(void **state);

/* test_import.c */
void test_import(void **state);
void test_import_refused(void **state);

#endif
