/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers that the tests of src/gpu/ share. */
#ifndef RF_TESTS_GPU_TEST_H
#define RF_TESTS_GPU_TEST_H

#include "../skip.h"
#include "../support/expect.h"
#include "base/error.h"
#include "base/memory.h"
#include "gpu/gpu.h"
#include "test_push.h"
#include "tests/room.h"

extern const rf_shader rf_shader_test_axpy, rf_shader_test_axpy_r32, rf_shader_test_axpy_rgba32;
extern const rf_shader rf_shader_test_axpy_sg4, rf_shader_test_axpy_sg8;

/* Properties of memory in made-up devices. */
#define VISIBLE (VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT)
#define CACHED VK_MEMORY_PROPERTY_HOST_CACHED_BIT

#endif
