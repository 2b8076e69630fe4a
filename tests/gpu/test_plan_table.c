/* SPDX-License-Identifier: Apache-2.0 */
/* Choices and plans are those that tests/gpu/plans.txt was written with. Usage: test_plan_table SNAPSHOTS PLANS */
#include "gpu_test.h"
#include "plan_table.h"

#include <stdlib.h>
#include <string.h>

#include "tests/room.h"

static const char *directory, *expected;

/* Whether the library has the kernels of the device that a name or a line begins with. */
static bool has_kernels(const char *device)
{
#ifdef RF_NO_SOFTWARE_KERNELS
    return strncmp(device, "lavapipe", 8) != 0 && strncmp(device, "swiftshader", 11) != 0;
#else
    (void)device;
    return true;
#endif
}

TEST(same_as_before)
{
    char *text;
    size_t size;
    FILE *now = open_memstream(&text, &size), *before = fopen(expected, "r");
    assert_non_null(now);
    assert_non_null(before);
    for (int i = 0; i < NUM_PLANNED_DEVICES; i++)
        if (has_kernels(planned_devices[i])) write_plan_table(directory, planned_devices[i], true, now);
    fclose(now);
    char line[256], *rest = text;
    uint32_t different = 0;
    while (fgets(line, sizeof(line), before)) {
        if (!has_kernels(line)) continue;
        char *end = strchr(rest, '\n');
        const size_t length = end ? (size_t)(end - rest) + 1 : strlen(rest);
        if (length != strlen(line) || memcmp(line, rest, length) != 0) {
            print_error("expected %sbut it is %.*s", line, (int)length, rest);
            different++;
        }
        rest += length;
    }
    if (different > 0 || *rest)
        fail_msg(
            "Choices or plans changed. `dump_plans SNAPSHOTS` of both trees shows where; if that is meant, write %s "
            "anew with `dump_plans --digests SNAPSHOTS`.",
            expected);
    fclose(before);
    free(text);
}

TEST_PROGRAM(plan_table)
{
    if (argc != 3) {
        fprintf(stderr, "usage: test_plan_table SNAPSHOTS PLANS\n");
        return 2;
    }
    directory = argv[1];
    expected = argv[2];
    return room_tests_run(own_tests, NULL, NULL);
}
