/* SPDX-License-Identifier: Apache-2.0 */
/* The count of the memory that buffers take, by their names. */
#include <stdio.h>
#include <string.h>

#include "gpu/internal.h"
#include "tests/room.h"

static const rf_gpu_use *find_use(const rf_gpu_device *device, const char *name)
{
    uint32_t count;
    const rf_gpu_use *uses = rf_gpu_memory_uses(device, &count);
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(uses[i].name, name) == 0) return &uses[i];
    fail_msg("nothing is called '%s'", name);
    return NULL;
}

static void expect_use(const rf_gpu_device *device, const char *name, uint64_t bytes, uint64_t peak)
{
    const rf_gpu_use *use = find_use(device, name);
    assert_true(use->bytes == bytes && use->peak == peak);
}

TEST(test_uses)
{
    static rf_gpu_device device;
    uint32_t count;
    rf_gpu_memory_uses(&device, &count);
    assert_int_equal(count, 0);
    rf_gpu_memory_count(&device, "variables", 100, 0);
    rf_gpu_memory_count(&device, "gradients", 50, 0);
    rf_gpu_memory_count(&device, "variables", 300, 0);
    rf_gpu_memory_count(&device, "variables", 0, 100);
    expect_use(&device, "all", 350, 450);
    expect_use(&device, "variables", 300, 400);
    expect_use(&device, "gradients", 50, 50);
    rf_gpu_memory_uses(&device, &count);
    assert_int_equal(count, 3);
}

/* Names without a place are counted together, and long names by their beginnings. */
TEST(test_many_uses)
{
    static rf_gpu_device device;
    char name[64];
    for (int i = 0; i < 100; i++) {
        snprintf(name, sizeof(name), "buffer %d of a very long name that nobody wants to read", i);
        rf_gpu_memory_count(&device, name, 1, 0);
        rf_gpu_memory_count(&device, name, 1, 0);
    }
    expect_use(&device, "all", 200, 200);
    expect_use(&device, "buffer 0 of a very long name that nobod", 2, 2);
    expect_use(&device, "others", 200 - 2 * (RF_GPU_MOST_USES - 2), 200 - 2 * (RF_GPU_MOST_USES - 2));
}

TESTS(memory_uses, NULL, NULL)
