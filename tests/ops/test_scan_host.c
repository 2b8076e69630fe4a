/* SPDX-License-Identifier: Apache-2.0 */
/* Which kernels of scans take which rows: how long loops may be. */
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
                const bool expected = !limited || columns <= (whole_row ? 1001 : 250000);
                if ((rf_kernel_score(kernel, &call, &caps) > 0) != expected)
                    fail_msg("%s/%s, %d columns, limit %u", op->name, kernel->name, (int)columns,
                             caps.max_loop_iterations);
            }
        }
    }
}

TEST(test_scans_of_long_rows)
{
    check_scan_of_long_rows(&rf_op_cumsum);
    check_scan_of_long_rows(&rf_op_cumprod);
    check_scan_of_long_rows(&rf_op_recurrence);
}

TESTS(scan_host, NULL, NULL)
