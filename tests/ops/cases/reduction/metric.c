/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/ops/cases/cases.h"

#define STATE RF_TENSOR(RF_F32, RF_FILL_ZERO, 0, 0, 1, 4)
#define VALUES(n) RF_TENSOR(RF_F32, RF_FILL_UNIFORM, 0, 3, 1, n)
#define CASE(case_name, n, tolerance)                                                                                  \
    .name = case_name, .n_in = 2, .in = { STATE, VALUES(n) }, .rtol = 1e-6, .atol = tolerance
#define WEIGHTED_CASE(case_name, n)                                                                                    \
    .name = case_name, .n_in = 3, .in = { STATE, VALUES(n), VALUES(n) }, .rtol = 1e-6, .atol = 1e-4
static const rf_op_case metric_cases[] = {
    { CASE("1", 1, 1e-4) },
    { CASE("31", 31, 1e-4) },
    { CASE("257", 257, 1e-4) },
    { CASE("65537", 65537, 1e-2) },
    /* from a state that is not zero: total, compensation, weight are read */
    { .name = "running_64",
      .n_in = 2,
      .in = { { .desc = RF_DESC(RF_F32, 1, 4), .fill = RF_FILL_INTEGER, .a = 1, .b = 9 }, VALUES(64) },
      .rtol = 1e-6,
      .atol = 1e-4 },
    { WEIGHTED_CASE("weighted_5", 5) },
    { WEIGHTED_CASE("weighted_1009", 1009) },
    { .name = "columns_7x1009",
      .n_in = 3,
      .in = { { .desc = RF_DESC(RF_F32, 1, 28), .fill = RF_FILL_INTEGER, .a = 1, .b = 9 },
              RF_TENSOR(RF_F32, RF_FILL_UNIFORM, 0, 3, 2, 1009, 7),
              RF_TENSOR(RF_F32, RF_FILL_UNIFORM, 0, 3, 2, 1009, 7) },
      .rtol = 1e-6,
      .atol = 1e-3 },
    { CASE("64", 64, 1e-4), .benchmark = true },
    /* more than some drivers let the invocations of one dispatch loop over */
    { CASE("2200001", 2200001, 1), .large = true },
};

RF_OP_CASES(metric_accumulate, metric_cases);
