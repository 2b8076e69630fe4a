/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/ops/cases/cases.h"

#define F32(...) RF_DESC(RF_F32, __VA_ARGS__)
static const rf_regroup_attr joined = { .rank = 2, .axes = { 3, 4 }, .times = { 1, 1 } },
                             split = { .rank = 3, .from = { 1, 0, 1 }, .axes = { 2, 0, 4 }, .times = { 1, 2, 1 } };
static const rf_op_case regroup_cases[] = {
    { .name = "2x3_to_6",
      .attr = &joined,
      .n_in = 1,
      .in = { { F32(3, 2, 3, 5), RF_FILL_NORMAL, 0, 1 } },
      .check_gradient = true },
    { .name = "6x5_by_another",
      .attr = &split,
      .n_in = 2,
      .in = { { F32(2, 6, 5), RF_FILL_NORMAL, 0, 1 }, { F32(3, 2, 3, 5), RF_FILL_ZERO, 0, 0 } },
      .check_gradient = true },
};

RF_OP_CASES(regroup, regroup_cases);
