/* SPDX-License-Identifier: Apache-2.0 */
/* Which devices a text means, on made-up lists. */
#include "gpu_test.h"

#include <string.h>

#include "gpu/device_select.h"
#include "tests/room.h"

static const rf_device_info machine[] = {
    { .name = "llvmpipe (LLVM 15.0.6, 256 bits)",
      .driver_name = "llvmpipe",
      .type = RF_DEVICE_TYPE_CPU,
      .usable = true },
    { .name = "AMD Radeon RX 6800", .driver_name = "radv", .type = RF_DEVICE_TYPE_DISCRETE_GPU, .usable = true },
    { .name = "Old Card",
      .driver_name = "ancient",
      .type = RF_DEVICE_TYPE_DISCRETE_GPU,
      .usable = false,
      .unusable_reason = "offers Vulkan 1.0 only" },
    { .name = "Intel UHD", .driver_name = "anv", .type = RF_DEVICE_TYPE_INTEGRATED_GPU, .usable = true },
};

static void check_selection(const char *entries, uint32_t n, const uint32_t *want)
{
    uint32_t *got, count;
    if (rf_device_select(entries, machine, 4, &got, &count) < 0) fail_msg("'%s': %s", entries, rf_error_message());
    assert_int_equal(count, n);
    for (uint32_t i = 0; i < n; i++) assert_int_equal(got[i], want[i]);
    rf_free(got);
}

static void check_refusal(const char *entries, rf_result want, const char *part, const char *other)
{
    uint32_t *got, count;
    assert_int_equal(rf_device_select(entries, machine, 4, &got, &count), want);
    assert_null(got);
    if (!strstr(rf_error_message(), part) || !strstr(rf_error_message(), other))
        fail_msg("message: %s", rf_error_message());
}

static void devices_by_entry(void **state)
{
    (void)state;
    check_selection("0", 1, (uint32_t[]){ 0 });
    check_selection("3,0", 2, (uint32_t[]){ 3, 0 });
    check_selection(" 1 , 0 ", 2, (uint32_t[]){ 1, 0 });
    check_selection("llvmpipe,llvmpipe,0", 3, (uint32_t[]){ 0, 0, 0 });
    check_selection("RADEON", 1, (uint32_t[]){ 1 });
    check_selection("anv,radv", 2, (uint32_t[]){ 3, 1 });
    check_selection("all", 3, (uint32_t[]){ 0, 1, 3 });
    check_selection(NULL, 3, (uint32_t[]){ 0, 1, 3 });
    check_selection("all,0", 4, (uint32_t[]){ 0, 1, 3, 0 });
    check_refusal("nvidia", RF_ERROR_NOT_FOUND, "'nvidia'", "1: AMD Radeon RX 6800");
    check_refusal("0,9", RF_ERROR_NOT_FOUND, "'9'", "2: Old Card (not usable)");
    check_refusal("99999999999999999999", RF_ERROR_NOT_FOUND, "99999", "llvmpipe");
    check_refusal("2", RF_ERROR_UNSUPPORTED, "Old Card", "Vulkan 1.0");
    check_refusal("ancient", RF_ERROR_UNSUPPORTED, "Old Card", "Vulkan 1.0");
    check_refusal("0,,1", RF_ERROR_INVALID_ARGUMENT, "empty", "llvmpipe");
    check_refusal("", RF_ERROR_INVALID_ARGUMENT, "empty", "all");
}

static void one_device_prefers_gpus(void **state)
{
    (void)state;
    uint32_t index;
    assert_int_equal(rf_device_select_one(NULL, machine, 4, &index), RF_OK);
    assert_int_equal(index, 1);
    assert_int_equal(rf_device_select_one("All", machine, 4, &index), RF_OK);
    assert_int_equal(index, 1);
    assert_int_equal(rf_device_select_one(" llvmpipe ", machine, 4, &index), RF_OK);
    assert_int_equal(index, 0);
    /* What follows the first entry does not count. */
    assert_int_equal(rf_device_select_one("anv,nonsense", machine, 4, &index), RF_OK);
    assert_int_equal(index, 3);
    assert_int_equal(rf_device_select_one("nonsense,anv", machine, 4, &index), RF_ERROR_NOT_FOUND);
    assert_int_equal(rf_device_select_one("", machine, 4, &index), RF_ERROR_INVALID_ARGUMENT);
    assert_int_equal(rf_device_select_one(NULL, machine, 1, &index), RF_OK);
    assert_int_equal(index, 0);
    assert_int_equal(rf_device_select_one(NULL, &machine[2], 1, &index), RF_ERROR_UNSUPPORTED);
    assert_int_equal(rf_device_select_one(NULL, machine, 0, &index), RF_ERROR_NOT_FOUND);
}

TEST_PROGRAM(device_select)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(devices_by_entry),
        cmocka_unit_test(one_device_prefers_gpus),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
