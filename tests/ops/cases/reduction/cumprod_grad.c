/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/ops/cases/cases.h"

static const rf_cumprod_attr plain = { 0, 0 }, exclusive = { 1, 0 }, reverse = { 0, 1 }, both = { 1, 1 };
#define NEAR_1(...) RF_TENSOR(RF_F32, RF_FILL_UNIFORM, 0.99f, 1.01f, __VA_ARGS__)
#define NORMAL(...) RF_TENSOR(RF_F32, RF_FILL_NORMAL, 0, 1, __VA_ARGS__)
#define POSITIVE(...) RF_TENSOR(RF_F32, RF_FILL_UNIFORM, 0.5f, 1, __VA_ARGS__)
#define FAR(...) RF_TENSOR(RF_F32, RF_FILL_UNIFORM, 0, 1e5f, __VA_ARGS__)
#define ZEROS(...) RF_TENSOR(RF_F32, RF_FILL_INTEGER, -2, 3, __VA_ARGS__)
/* Blocks make NaN of an infinite factor and what cancels before it. The rounding error grows with the length, and is
 * of the largest addend. */
#define CASE(text, attr_, rtol_, atol_, dy, x)                                                                         \
    .name = text, .attr = &attr_, .n_in = 2, .in = { dy, x }, .rtol = rtol_, .atol = atol_
static const rf_op_case cumprod_grad_cases[] = {
    { CASE("1", plain, 1e-6, 1e-6, NORMAL(1, 1), NORMAL(1, 1)) },
    { CASE("exclusive_1x1", exclusive, 1e-6, 1e-6, NORMAL(2, 1, 1), NORMAL(2, 1, 1)) },
    { CASE("5x1", reverse, 1e-6, 1e-6, NORMAL(2, 5, 1), NORMAL(2, 5, 1)) },
    { CASE("3x5", plain, 1e-5, 1e-5, NORMAL(2, 3, 5), NORMAL(2, 3, 5)), .check_gradient = true },
    { CASE("exclusive_2x2x7", exclusive, 1e-5, 1e-5, NORMAL(3, 2, 2, 7), NORMAL(3, 2, 2, 7)), .check_gradient = true,
      .unattended = true },
    { CASE("reverse_4x3", reverse, 1e-5, 1e-5, NORMAL(2, 4, 3), NORMAL(2, 4, 3)), .check_gradient = true },
    { CASE("both_9", both, 1e-5, 1e-5, NORMAL(1, 9), NORMAL(1, 9)), .check_gradient = true, .unattended = true },
    { CASE("zeros_9x5", plain, 1e-5, 1e-4, NORMAL(2, 9, 5), ZEROS(2, 9, 5)), .check_gradient = true },
    { CASE("zeros_exclusive_7x6", both, 1e-5, 1e-4, NORMAL(2, 7, 6), ZEROS(2, 7, 6)), .check_gradient = true },
    /* beyond the range of floats */
    { CASE("far_257x65", plain, 1e-4, 2e-38, POSITIVE(2, 257, 65), FAR(2, 257, 65)), .unattended = true },
    { CASE("fading_17x2050", both, 1e-3, 2e-38, POSITIVE(2, 17, 2050), POSITIVE(2, 17, 2050)), .unattended = true },
    { CASE("zeros_5x1024", reverse, 1e-5, 1e-4, NORMAL(2, 5, 1024), ZEROS(2, 5, 1024)), .unattended = true },
    { CASE("64x10", plain, 1e-5, 1e-4, NORMAL(2, 64, 10), NORMAL(2, 64, 10)), .benchmark = true },
    { CASE("1024x1024", exclusive, 1e-4, 1e-2, NORMAL(2, 1024, 1024), NEAR_1(2, 1024, 1024)), .unattended = true,
      .benchmark = true },
    { CASE("3x131101", both, 1e-3, 0.1, NORMAL(2, 3, 131101), NEAR_1(2, 3, 131101)), .unattended = true },
    { CASE("17000x1024", plain, 1e-4, 1e-2, NORMAL(2, 17000, 1024), NEAR_1(2, 17000, 1024)), .unattended = true,
      .large = true },
};

RF_OP_CASES(cumprod_grad, cumprod_grad_cases);
