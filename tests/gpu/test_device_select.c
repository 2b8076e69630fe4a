/* SPDX-License-Identifier: Apache-2.0 */
/* Which devices are used by default and which a text means, on made-up lists. */
#include "gpu_test.h"

#include <string.h>

#include "gpu/device/device_select.h"
#include "tests/room.h"

#define GPU .type = RF_DEVICE_TYPE_DISCRETE_GPU, .usable = true
#define SOFTWARE .type = RF_DEVICE_TYPE_CPU, .usable = true
#define LLVMPIPE "llvmpipe (LLVM 15.0.6, 256 bits)"

/* ---- the default ---- */

typedef struct default_case {
    const char *what;
    rf_device_info list[4];
    const char *want[4]; /* of each device what left_out says; NULL: the list ends */
} default_case;

static const char *const software = "a software driver, and there is a GPU";
static const char *const as_0 = "the same device as 0 by another driver", *const as_1 =
                                                                              "the same device as 1 by another driver";

TEST(devices_by_default)
{
    const default_case cases[] = {
        { "GPUs of two vendors, and software",
          { { .name = LLVMPIPE, SOFTWARE, .uuid = { 1 } },
            { .name = "AMD Radeon RX 6800", GPU, .uuid = { 2 } },
            { .name = "NVIDIA GeForce RTX 3060", GPU, .uuid = { 3 } },
            { .name = "SwiftShader Device", SOFTWARE, .uuid = { 4 } } },
          { software, "", "", software } },
        { "a GPU that cannot be used leaves the work to software",
          { { .name = "Old Card", .type = RF_DEVICE_TYPE_DISCRETE_GPU, .unusable_reason = "Vulkan 1.0" },
            { .name = LLVMPIPE, SOFTWARE, .uuid = { 1 } },
            { .name = "SwiftShader Device", SOFTWARE, .uuid = { 4 } } },
          { "cannot be used: Vulkan 1.0", "", "" } },
        { "one software driver that two manifests name",
          { { .name = LLVMPIPE, SOFTWARE, .uuid = { 1 } }, { .name = LLVMPIPE, SOFTWARE, .uuid = { 1 } } },
          { "", as_0 } },
        { "devices without a UUID are different ones",
          { { .name = "SwiftShader Device", SOFTWARE }, { .name = LLVMPIPE, SOFTWARE } },
          { "", "" } },
        { "integrated, virtual and other devices are no software",
          { { .name = "Intel UHD", .type = RF_DEVICE_TYPE_INTEGRATED_GPU, .usable = true, .uuid = { 1 } },
            { .name = "Virtio", .type = RF_DEVICE_TYPE_VIRTUAL_GPU, .usable = true, .uuid = { 2 } },
            { .name = "Chip", .type = RF_DEVICE_TYPE_OTHER, .usable = true, .uuid = { 3 } },
            { .name = LLVMPIPE, SOFTWARE, .uuid = { 4 } } },
          { "", "", "", software } },
        { "RADV before AMD's driver",
          { { .name = "AMD Radeon RX 7900 XTX", .driver_name = "AMD open-source driver", GPU, .uuid = { 7 } },
            { .name = "AMD Radeon RX 7900 XTX (RADV NAVI31)", .driver_name = "radv", GPU, .uuid = { 7 } } },
          { as_1, "" } },
        { "what computes on matrix units before what does not",
          { { .name = "GPU", .driver_name = "one", GPU, .uuid = { 7 } },
            { .name = "GPU", .driver_name = "two", GPU, .uuid = { 7 }, .matrix_f16 = { 16, 16, 16 } } },
          { as_1, "" } },
        { "the newer Vulkan, of three",
          { { .name = "GPU", .driver_name = "one", GPU, .uuid = { 7 }, .api_version = 2 },
            { .name = "GPU", .driver_name = "two", GPU, .uuid = { 7 }, .api_version = 3 },
            { .name = "GPU", .driver_name = "three", GPU, .uuid = { 7 }, .api_version = 3 } },
          { as_1, "", as_1 } },
        { "the better driver cannot be used",
          { { .name = "GPU", .driver_name = "radv", .uuid = { 7 }, .unusable_reason = "no compute queue" },
            { .name = "GPU", .driver_name = "two", GPU, .uuid = { 7 } } },
          { "cannot be used: no compute queue", "" } },
        { "a driver that gives one UUID to two cards",
          { { .name = "GPU", GPU, .uuid = { 7 }, .pci_address = "0000:01:00.0" },
            { .name = "GPU", GPU, .uuid = { 7 }, .pci_address = "0000:02:00.0" } },
          { "", "" } },
        { "two drivers that make UUIDs of their own for one card",
          { { .name = "GPU", .driver_name = "one", GPU, .uuid = { 7 }, .pci_address = "0000:01:00.0" },
            { .name = "GPU", .driver_name = "two", GPU, .uuid = { 8 }, .pci_address = "0000:01:00.0" } },
          { "", as_0 } },
        { "parts of one card",
          { { .name = "GPU part", .driver_name = "one", GPU, .uuid = { 7 }, .pci_address = "0000:01:00.0" },
            { .name = "GPU part", .driver_name = "one", GPU, .uuid = { 8 }, .pci_address = "0000:01:00.0" } },
          { "", "" } },
    };
    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
        rf_device_info list[4];
        memcpy(list, cases[c].list, sizeof(list));
        uint32_t count = 0, used = 0, *got, num_got;
        while (count < 4 && cases[c].want[count]) count++;
        rf_device_choose_default(list, count);
        CHECK(rf_device_select(NULL, list, count, &got, &num_got));
        for (uint32_t i = 0; i < count; i++) {
            char text[256];
            if (strcmp(rf_device_left_out(&list[i], text, sizeof(text)), cases[c].want[i]) != 0)
                fail_msg("%s: device %u: '%s', not '%s'", cases[c].what, i, text, cases[c].want[i]);
            if (text[0]) continue;
            assert_in_range(used, 0, num_got - 1);
            assert_int_equal(got[used++], i);
        }
        assert_int_equal(used, num_got);
        rf_free(got);
    }
}

/* ---- entries ---- */

static rf_device_info machine[] = {
    { .name = LLVMPIPE, .driver_name = "llvmpipe", SOFTWARE },
    { .name = "AMD Radeon RX 6800", .driver_name = "radv", GPU, .uuid = { 0xa1, 0xb2 }, .pci_address = "0000:03:00.0" },
    { .name = "Old Card",
      .driver_name = "ancient",
      .type = RF_DEVICE_TYPE_DISCRETE_GPU,
      .usable = false,
      .unusable_reason = "offers Vulkan 1.0 only" },
    { .name = "Intel UHD", .driver_name = "anv", .type = RF_DEVICE_TYPE_INTEGRATED_GPU, .usable = true },
    { .name = "NVIDIA GeForce RTX 3060 Ti",
      .driver_name = "NVIDIA",
      GPU,
      .uuid = { 4 },
      .pci_address = "0001:41:00.0" },
    { .name = "NVIDIA GeForce RTX 3060", .driver_name = "NVIDIA", GPU, .uuid = { 5 }, .pci_address = "0000:42:00.1" },
    { .name = "AMD Radeon RX 6800",
      .driver_name = "AMD open-source driver",
      GPU,
      .uuid = { 0xa1, 0xb2 },
      .pci_address = "0000:03:00.0" },
};
enum { NUM_DEVICES = sizeof(machine) / sizeof(machine[0]) };

static void check_selection(const char *entries, uint32_t n, const uint32_t *want)
{
    uint32_t *got, count;
    if (rf_device_select(entries, machine, NUM_DEVICES, &got, &count) < 0)
        fail_msg("'%s': %s", entries, rf_error_message());
    for (uint32_t i = 0; i < n && i < count; i++)
        if (got[i] != want[i]) fail_msg("'%s': entry %u is device %u, not %u", entries, i, got[i], want[i]);
    assert_int_equal(count, n);
    rf_free(got);
}

static void check_refusal(const char *entries, rf_result want, const char *part, const char *other)
{
    uint32_t *got, count;
    assert_int_equal(rf_device_select(entries, machine, NUM_DEVICES, &got, &count), want);
    assert_null(got);
    if (!strstr(rf_error_message(), part) || !strstr(rf_error_message(), other))
        fail_msg("message: %s", rf_error_message());
}

TEST(devices_by_entry)
{
    rf_device_choose_default(machine, NUM_DEVICES);
    check_selection("0", 1, (uint32_t[]){ 0 });
    check_selection("3,0", 2, (uint32_t[]){ 3, 0 });
    check_selection(" 1 , 0 ", 2, (uint32_t[]){ 1, 0 });
    check_selection("llvmpipe,llvmpipe,0", 3, (uint32_t[]){ 0, 0, 0 });
    check_selection("anv,radv", 2, (uint32_t[]){ 3, 1 });
    check_selection("all", 6, (uint32_t[]){ 0, 1, 3, 4, 5, 6 });
    check_selection(NULL, 4, (uint32_t[]){ 1, 3, 4, 5 });
    check_selection("all,0", 7, (uint32_t[]){ 0, 1, 3, 4, 5, 6, 0 });
    check_refusal("voodoo", RF_ERROR_NOT_FOUND, "'voodoo'", "1: AMD Radeon RX 6800 at 0000:03:00.0");
    check_refusal("0,9", RF_ERROR_NOT_FOUND, "'9'", "2: Old Card (not usable)");
    check_refusal("99999999999999999999", RF_ERROR_NOT_FOUND, "99999", "llvmpipe");
    check_refusal("2", RF_ERROR_UNSUPPORTED, "Old Card", "Vulkan 1.0");
    check_refusal("ancient", RF_ERROR_UNSUPPORTED, "Old Card", "Vulkan 1.0");
    check_refusal("0,,1", RF_ERROR_INVALID_ARGUMENT, "empty", "llvmpipe");
    check_refusal("", RF_ERROR_INVALID_ARGUMENT, "empty", "all");
}

TEST(devices_by_name)
{
    /* Names with commas, alone and among other entries. */
    check_selection(LLVMPIPE, 1, (uint32_t[]){ 0 });
    check_selection("1, " LLVMPIPE " ,anv," LLVMPIPE, 4, (uint32_t[]){ 1, 0, 3, 0 });
    check_selection("LLVM 15.0.6, 256", 1, (uint32_t[]){ 0 });
    assert_false(rf_device_is_list(" " LLVMPIPE, machine, NUM_DEVICES));
    assert_true(rf_device_is_list(LLVMPIPE ",0", machine, NUM_DEVICES));
    assert_true(rf_device_is_list("0,1", machine, NUM_DEVICES));
    /* A whole name is not a part of a longer one. */
    check_selection("NVIDIA GeForce RTX 3060", 1, (uint32_t[]){ 5 });
    check_selection("nvidia geforce rtx 3060,NVIDIA GeForce RTX 3060", 2, (uint32_t[]){ 5, 5 });
    /* Parts: each device once before any of them twice, and the better driver of a card first. */
    check_selection("rtx 3060,rtx 3060,rtx 3060", 3, (uint32_t[]){ 4, 5, 4 });
    check_selection("4,RTX 3060", 2, (uint32_t[]){ 4, 5 });
    check_selection("RADEON,radeon,radeon", 3, (uint32_t[]){ 1, 6, 1 });
    check_selection("open-source", 1, (uint32_t[]){ 6 });
    /* A number is a part where it is no index, but not a piece of a number or a version. */
    check_selection("3060,6800,256", 3, (uint32_t[]){ 4, 1, 0 });
    check_refusal("306", RF_ERROR_NOT_FOUND, "'306'", "3060");
    check_refusal("15", RF_ERROR_NOT_FOUND, "'15'", "llvmpipe");
}

TEST(devices_by_hardware)
{
    /* The same card each time, by its better driver. */
    check_selection("a1b20000000000000000000000000000,GPU-A1B20000-0000-0000-0000-000000000000", 2,
                    (uint32_t[]){ 1, 1 });
    check_selection("0000:03:00.0,03:00.0,00000000:03:00.0", 3, (uint32_t[]){ 1, 1, 1 });
    check_selection("1:41:0.0, 42:00.1", 2, (uint32_t[]){ 4, 5 });
    check_refusal("41:00.0", RF_ERROR_NOT_FOUND, "'41:00.0'", "4: NVIDIA GeForce RTX 3060 Ti at 0001:41:00.0");
    check_refusal("a1b20000000000000000000000000001", RF_ERROR_NOT_FOUND, "0001'", "ringfire devices");
}

TEST(one_device_prefers_gpus)
{
    uint32_t index;
    assert_int_equal(rf_device_select_one(NULL, machine, 4, &index), RF_OK);
    assert_int_equal(index, 1);
    assert_int_equal(rf_device_select_one("All", machine, 4, &index), RF_OK);
    assert_int_equal(index, 1);
    assert_int_equal(rf_device_select_one(" llvmpipe ", machine, 4, &index), RF_OK);
    assert_int_equal(index, 0);
    assert_int_equal(rf_device_select_one(LLVMPIPE, machine, 4, &index), RF_OK);
    assert_int_equal(index, 0);
    /* Entries after the first do not count. */
    assert_int_equal(rf_device_select_one("anv,nonsense", machine, 4, &index), RF_OK);
    assert_int_equal(index, 3);
    assert_int_equal(rf_device_select_one("nonsense,anv", machine, 4, &index), RF_ERROR_NOT_FOUND);
    assert_int_equal(rf_device_select_one("", machine, 4, &index), RF_ERROR_INVALID_ARGUMENT);
    rf_device_info alone[] = { machine[0] };
    rf_device_choose_default(alone, 1);
    assert_int_equal(rf_device_select_one(NULL, alone, 1, &index), RF_OK);
    assert_int_equal(index, 0);
    assert_int_equal(rf_device_select_one(NULL, &machine[2], 1, &index), RF_ERROR_UNSUPPORTED);
    assert_non_null(
        strstr(rf_error_message(), "no Vulkan device can be used; there are these: 0: Old Card (offers Vulkan 1.0"));
    assert_int_equal(rf_device_select_one(NULL, machine, 0, &index), RF_ERROR_NOT_FOUND);
}

TESTS(device_select, NULL, NULL)
