/* SPDX-License-Identifier: Apache-2.0 */
/* Which kernels of scans take which rows: how long loops may be, and where fours are read. */
#include <string.h>

#include "../support/expect.h"
#include "ops/kit.h"
#include "ops/ops.h"
#include "tests/ops/cases/cases.h"
#include "tests/room.h"

static const rf_device_caps software_caps = { .driver = RF_DRIVER_LAVAPIPE,
                                              .is_cpu = true,
                                              .subgroup_size = 8,
                                              .max_workgroup_size = { 1024, 1024, 1024 },
                                              .max_workgroup_invocations = 1024,
                                              .max_push_constants = 128,
                                              .max_grid = { 65535, 65535, 65535 },
                                              .max_storage_range = 1u << 27,
                                              .max_texel_elements = 1u << 27,
                                              .buffer_alignment = 64 };

/* Rows that no single loop may walk on some device are left to the kernel that cuts them. */
static void check_scan_of_long_rows(const rf_op *op)
{
    rf_device_caps caps = software_caps;
    const uint32_t attr[2] = { 0 };
    for (int limited = 0; limited < 2; limited++) {
        caps.max_loop_iterations = limited ? 1002 : 0; /* 1000 and those of entering two loops */
        for (int32_t columns = 1000; columns <= 250001; columns += columns == 1000 ? 1 : 249000) {
            rf_op_call call = { .op = op, .attr = attr, .n_in = op->min_in, .n_out = 1 };
            for (uint32_t i = 0; i < call.n_in; i++) call.in[i] = (rf_tensor_desc)RF_DESC(RF_F32, 2, 2, columns);
            OK(op->infer(&call));
            for (uint32_t k = 0; k < rf_op_num_kernels(op); k++) {
                const rf_kernel *kernel = rf_op_kernel(op, k);
                const bool whole_row = strcmp(kernel->name, "row") == 0;
                const bool texels = strstr(kernel->name, "texel") != NULL; /* which this device cannot write */
                const bool expected = !texels && (!limited || columns <= (whole_row ? 1001 : 250000));
                if ((rf_kernel_score(kernel, &call, &caps) > 0) != expected)
                    fail_msg("%s/%s, %d columns, limit %u", op->name, kernel->name, (int)columns,
                             caps.max_loop_iterations);
            }
        }
    }
}

/* A loop over fours walks rows four times as long; rows that are no multiples of four are left to other kernels, but
 * for a single one. */
static void check_scan_of_fours(const rf_op *op)
{
    static const struct {
        int64_t rows, columns;
        bool row, blocked;
    } cases[] = { { 2, 3988, true, true }, { 2, 3992, false, true }, { 2, 3990, false, false }, { 1, 3987, true, true },
                  { 1, 3, false, false },  { 1, 3993, false, true }, { 2, 1000, true, true } };
    rf_device_caps caps = software_caps;
    const uint32_t attr[2] = { 0 };
    caps.int64 = caps.subgroup_shuffle = caps.full_subgroups = true;
    caps.max_texel_elements = 1u << 27;
    caps.max_loop_iterations = 1002; /* 997 fours, an end of up to three and those of entering the loops */
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        rf_op_call call = { .op = op, .attr = attr, .n_in = 1, .n_out = 1 };
        call.in[0] = (rf_tensor_desc)RF_DESC(RF_F32, 2, cases[i].rows, cases[i].columns);
        OK(op->infer(&call));
        for (uint32_t k = 0; k < rf_op_num_kernels(op); k++) {
            const rf_kernel *kernel = rf_op_kernel(op, k);
            if (!strstr(kernel->name, "texel")) continue;
            const bool expected = strcmp(kernel->name, "row_texel") == 0 ? cases[i].row : cases[i].blocked;
            if ((rf_kernel_score(kernel, &call, &caps) > 0) != expected)
                fail_msg("%s/%s, %d columns", op->name, kernel->name, (int)cases[i].columns);
        }
    }
}

TEST(test_scans_of_long_rows)
{
    check_scan_of_fours(&rf_op_cumsum);
    check_scan_of_fours(&rf_op_cumprod);
    check_scan_of_long_rows(&rf_op_cumsum);
    check_scan_of_long_rows(&rf_op_cumprod);
    check_scan_of_long_rows(&rf_op_recurrence);
}

TESTS(scan_host, NULL, NULL)
