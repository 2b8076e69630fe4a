/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/ops/cases/cases.h"

static const rf_cumprod_attr plain = { 0, 0 }, exclusive = { 1, 0 }, reverse = { 0, 1 }, both = { 1, 1 };
/* Factors about 1, so that long products are numbers; about 0; and zeros among ones, twos and their negatives. */
#define NEAR_1(...) RF_TENSOR(RF_F32, RF_FILL_UNIFORM, 0.99f, 1.01f, __VA_ARGS__)
#define NORMAL(...) RF_TENSOR(RF_F32, RF_FILL_NORMAL, 0, 1, __VA_ARGS__)
#define WIDE(...) RF_TENSOR(RF_F32, RF_FILL_NORMAL, 0, 2, __VA_ARGS__)
#define ZEROS(...) RF_TENSOR(RF_F32, RF_FILL_INTEGER, -2, 3, __VA_ARGS__)
/* The rounding error grows with the length. Denormal products are zeros. */
#define CASE(text, attr_, rtol_, x) .name = text, .attr = &attr_, .n_in = 1, .in = { x }, .rtol = rtol_, .atol = 2e-38
static const rf_op_case cumprod_cases[] = {
    { CASE("1", plain, 1e-6, NORMAL(1, 1)) },
    { CASE("exclusive_1x1", exclusive, 1e-6, NORMAL(2, 1, 1)) },
    { CASE("5x1", reverse, 1e-6, NORMAL(2, 5, 1)) },
    { CASE("3x5", plain, 1e-5, NORMAL(2, 3, 5)), .check_gradient = true },
    { CASE("exclusive_2x2x7", exclusive, 1e-5, NORMAL(3, 2, 2, 7)), .check_gradient = true },
    { CASE("reverse_4x3", reverse, 1e-5, NORMAL(2, 4, 3)), .check_gradient = true },
    { CASE("both_17", both, 1e-5, NORMAL(1, 17)), .check_gradient = true },
    { CASE("zeros_9x5", plain, 1e-5, ZEROS(2, 9, 5)), .check_gradient = true },
    { CASE("zeros_exclusive_7x6", both, 1e-5, ZEROS(2, 7, 6)), .check_gradient = true },
    { CASE("7x63", exclusive, 1e-5, WIDE(2, 7, 63)) },
    { CASE("17x64", both, 1e-5, WIDE(2, 17, 64)) },
    { CASE("257x65", reverse, 1e-5, WIDE(2, 257, 65)) },
    /* beyond the range of floats and back */
    { CASE("33x1009", both, 1e-4, WIDE(2, 33, 1009)) },
    { CASE("zeros_5x1024", plain, 1e-5, ZEROS(2, 5, 1024)) },
    { CASE("64x10", plain, 1e-5, NORMAL(2, 64, 10)), .benchmark = true },
    { CASE("2x4096", exclusive, 1e-4, NEAR_1(2, 2, 4096)), .benchmark = true },
    { CASE("1024x1024", plain, 1e-4, NEAR_1(2, 1024, 1024)), .benchmark = true },
    { CASE("8x65536", plain, 1e-3, NEAR_1(2, 8, 65536)), .benchmark = true },
    /* rows longer than some drivers let one loop be */
    { CASE("70001", exclusive, 1e-3, NEAR_1(1, 70001)) },
    { CASE("3x131101", both, 1e-3, NEAR_1(2, 3, 131101)) },
    { CASE("1000003", reverse, 2e-3, NEAR_1(1, 1000003)), .benchmark = true, .large = true },
    /* more than one descriptor spans at the smallest limits: several dispatches */
    { CASE("34000x1024", plain, 1e-4, NEAR_1(2, 34000, 1024)), .large = true },
};

#define POSITIVE(...) RF_TENSOR(RF_F32, RF_FILL_UNIFORM, 0.5f, 1, __VA_ARGS__)
#define FAR(...) RF_TENSOR(RF_F32, RF_FILL_UNIFORM, 0, 1e5f, __VA_ARGS__)
/* Blocks make NaN of an infinite factor and what cancels before it. The rounding error grows with the length, and is
 * of the largest addend. */
#define GRAD_CASE(text, attr_, rtol_, atol_, dy, x)                                                                    \
    .name = text, .attr = &attr_, .n_in = 2, .in = { dy, x }, .rtol = rtol_, .atol = atol_
static const rf_op_case cumprod_grad_cases[] = {
    { GRAD_CASE("1", plain, 1e-6, 1e-6, NORMAL(1, 1), NORMAL(1, 1)) },
    { GRAD_CASE("exclusive_1x1", exclusive, 1e-6, 1e-6, NORMAL(2, 1, 1), NORMAL(2, 1, 1)) },
    { GRAD_CASE("5x1", reverse, 1e-6, 1e-6, NORMAL(2, 5, 1), NORMAL(2, 5, 1)) },
    { GRAD_CASE("3x5", plain, 1e-5, 1e-5, NORMAL(2, 3, 5), NORMAL(2, 3, 5)), .check_gradient = true },
    { GRAD_CASE("exclusive_2x2x7", exclusive, 1e-5, 1e-5, NORMAL(3, 2, 2, 7), NORMAL(3, 2, 2, 7)),
      .check_gradient = true, .unattended = true },
    { GRAD_CASE("reverse_4x3", reverse, 1e-5, 1e-5, NORMAL(2, 4, 3), NORMAL(2, 4, 3)), .check_gradient = true },
    { GRAD_CASE("both_9", both, 1e-5, 1e-5, NORMAL(1, 9), NORMAL(1, 9)), .check_gradient = true, .unattended = true },
    { GRAD_CASE("zeros_9x5", plain, 1e-5, 1e-4, NORMAL(2, 9, 5), ZEROS(2, 9, 5)), .check_gradient = true },
    { GRAD_CASE("zeros_exclusive_7x6", both, 1e-5, 1e-4, NORMAL(2, 7, 6), ZEROS(2, 7, 6)), .check_gradient = true },
    /* beyond the range of floats */
    { GRAD_CASE("far_257x65", plain, 1e-4, 2e-38, POSITIVE(2, 257, 65), FAR(2, 257, 65)), .unattended = true },
    { GRAD_CASE("fading_17x2050", both, 1e-3, 2e-38, POSITIVE(2, 17, 2050), POSITIVE(2, 17, 2050)),
      .unattended = true },
    { GRAD_CASE("zeros_5x1024", reverse, 1e-5, 1e-4, NORMAL(2, 5, 1024), ZEROS(2, 5, 1024)), .unattended = true },
    { GRAD_CASE("64x10", plain, 1e-5, 1e-4, NORMAL(2, 64, 10), NORMAL(2, 64, 10)), .benchmark = true },
    { GRAD_CASE("1024x1024", exclusive, 1e-4, 1e-2, NORMAL(2, 1024, 1024), NEAR_1(2, 1024, 1024)), .unattended = true,
      .benchmark = true },
    { GRAD_CASE("3x131101", both, 1e-3, 0.1, NORMAL(2, 3, 131101), NEAR_1(2, 3, 131101)), .unattended = true },
    { GRAD_CASE("17000x1024", plain, 1e-4, 1e-2, NORMAL(2, 17000, 1024), NEAR_1(2, 17000, 1024)), .unattended = true,
      .large = true },
};

static const rf_recurrence_attr forwards = { 0 }, backwards = { 1 };
#define FADING(...) RF_TENSOR(RF_F32, RF_FILL_UNIFORM, -0.99f, 0.99f, __VA_ARGS__)
#define LASTING(...) RF_TENSOR(RF_F32, RF_FILL_UNIFORM, 0.95f, 1.0f, __VA_ARGS__)
#define STEPS(text, attr_, rtol_, x, factors)                                                                          \
    .name = text, .attr = &attr_, .n_in = 2, .in = { x, factors }, .rtol = rtol_, .atol = 20 * rtol_
/* Blocks make NaN of an infinite factor and what cancels before it. */
static const rf_op_case recurrence_cases[] = {
    { STEPS("1", forwards, 1e-6, NORMAL(1, 1), NORMAL(1, 1)) },
    { STEPS("5x1", backwards, 1e-6, NORMAL(2, 5, 1), NORMAL(2, 5, 1)) },
    { STEPS("3x5", forwards, 1e-6, NORMAL(2, 3, 5), NORMAL(2, 3, 5)), .check_gradient = true },
    { STEPS("backwards_2x2x7", backwards, 1e-6, NORMAL(3, 2, 2, 7), NORMAL(3, 2, 2, 7)), .check_gradient = true },
    { STEPS("zeros_9x5", forwards, 1e-6, NORMAL(2, 9, 5), ZEROS(2, 9, 5)), .check_gradient = true },
    { STEPS("257x65", backwards, 1e-6, NORMAL(2, 257, 65), FADING(2, 257, 65)), .unattended = true },
    { STEPS("33x1009", forwards, 1e-5, NORMAL(2, 33, 1009), LASTING(2, 33, 1009)), .unattended = true },
    { STEPS("2x4096", backwards, 1e-5, NORMAL(2, 2, 4096), LASTING(2, 2, 4096)), .unattended = true,
      .benchmark = true },
    { STEPS("1024x1024", forwards, 1e-5, NORMAL(2, 1024, 1024), LASTING(2, 1024, 1024)), .unattended = true,
      .benchmark = true },
    { STEPS("3x131101", backwards, 1e-5, NORMAL(2, 3, 131101), LASTING(2, 3, 131101)), .unattended = true },
    { STEPS("34000x1024", forwards, 1e-5, NORMAL(2, 34000, 1024), FADING(2, 34000, 1024)), .unattended = true,
      .large = true },
};

RF_OP_CASES(cumprod, cumprod_cases);
RF_OP_CASES(cumprod_grad, cumprod_grad_cases);
RF_OP_CASES(recurrence, recurrence_cases);
