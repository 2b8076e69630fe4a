/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/ops/cases/cases.h"

#define CASE(case_name, depth, low, high, ...)                                                                         \
    .name = case_name, .attr = &(const rf_one_hot_attr){ depth }, .n_in = 1,                                           \
    .in = { { .desc = RF_DESC(RF_I32, __VA_ARGS__), .fill = RF_FILL_INTEGER, .a = low, .b = high } }
static const rf_op_case one_hot_cases[] = {
    { CASE("scalar_3", 3, 1, 2, 0, 0) },
    { CASE("31_1", 1, -1, 2, 1, 31) },
    { CASE("out_of_range_257_5", 5, -3, 9, 1, 257) },
    { CASE("3x5_33", 33, 0, 33, 2, 3, 5) },
    { CASE("64_10", 10, 0, 10, 1, 64), .benchmark = true },
};

RF_OP_CASES(one_hot, one_hot_cases);
