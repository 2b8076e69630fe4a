/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/ops/cases/cases.h"

#define X(mean, ...) RF_TENSOR(RF_F32, RF_FILL_NORMAL, mean, 1, __VA_ARGS__)
static const rf_op_case moments_cases[] = {
    { RF_CASE_WITHIN("1x1", 1, 1e-6, X(0, 2, 1, 1)) },
    { RF_CASE_WITHIN("5", 1, 1e-6, X(0, 1, 5)) },
    { RF_CASE_WITHIN("3x5", 1, 1e-6, X(0, 2, 3, 5)), .check_gradient = true },
    { RF_CASE_WITHIN("2x3x4", 1, 1e-6, X(0, 3, 2, 3, 4)), .check_gradient = true },
    { RF_CASE_WITHIN("17x8", 1, 1e-5, X(0, 2, 17, 8)) },
    { RF_CASE_WITHIN("131x17", 1, 1e-5, X(0, 2, 131, 17)) },
    { RF_CASE_WITHIN("33x2048", 1, 1e-5, X(0, 2, 33, 2048)) },
    { RF_CASE_WITHIN("1201x516", 1, 1e-5, X(2, 2, 1201, 516)) },
    /* the mean is a thousand deviations */
    { RF_CASE_WITHIN("off_centre_1009x12", 1, 1e-5, X(1000, 2, 1009, 12)) },
    { RF_CASE_WITHIN("7x5x9x67", 1, 1e-5, X(1, 4, 7, 5, 9, 67)) },
    { RF_CASE_WITHIN("20011x3", 1, 1e-5, X(0, 2, 20011, 3)) },
    { RF_CASE_WITHIN("300007x4", 1, 1e-5, X(3, 2, 300007, 4)), .large = true },
    { RF_CASE_WITHIN("8500001x1", 1, 1e-5, X(3, 2, 8500001, 1)), .large = true },
    { RF_CASE_WITHIN("64x28x28x16", 1, 1e-5, X(0, 4, 64, 28, 28, 16)), .large = true, .benchmark = true },
    { RF_CASE_WITHIN("64x7x7x256", 1, 1e-5, X(0, 4, 64, 7, 7, 256)), .large = true, .benchmark = true },
};
static const rf_batch_averages_attr moving = { 1e-3f, 0.75f, 0.25f, 0 }, moving_scaled = { 1e-3f, 0.9f, 0.1f, 1 };
#define AVERAGES(text, tolerance, columns, ...)                                                                        \
    .attr = &moving, RF_CASE_WITHIN(text, 3, tolerance, __VA_ARGS__, X(1, 1, columns),                                 \
                                    RF_TENSOR(RF_F32, RF_FILL_UNIFORM, 0.25, 4, 1, columns))
#define SCALED_AVERAGES(text, tolerance, columns, ...)                                                                 \
    .attr = &moving_scaled, RF_CASE_WITHIN(text, 4, tolerance, __VA_ARGS__, X(1, 1, columns),                          \
                                           RF_TENSOR(RF_F32, RF_FILL_UNIFORM, 0.25, 4, 1, columns), X(0, 1, columns))
static const rf_op_case averages_cases[] = {
    { AVERAGES("1x1", 1e-6, 1, X(0, 2, 1, 1)) },
    { AVERAGES("3x5", 1e-5, 5, X(0, 2, 3, 5)) },
    { AVERAGES("17x8", 1e-5, 8, X(0, 2, 17, 8)) },
    { AVERAGES("33x2048", 1e-5, 2048, X(0, 2, 33, 2048)) },
    { SCALED_AVERAGES("scaled_2x3x4", 1e-5, 4, X(0, 3, 2, 3, 4)) },
    { SCALED_AVERAGES("scaled_131x17", 1e-5, 17, X(0, 2, 131, 17)) },
    { SCALED_AVERAGES("scaled_1201x516", 1e-5, 516, X(2, 2, 1201, 516)) },
    { SCALED_AVERAGES("scaled_20011x3", 1e-5, 3, X(0, 2, 20011, 3)) },
    { SCALED_AVERAGES("scaled_64x28x28x16", 1e-5, 16, X(0, 4, 64, 28, 28, 16)), .large = true, .benchmark = true },
};
static const rf_batch_sums_attr usual = { 1e-3f, 0 }, behind_relu = { 1e-3f, 1 };
#define SUMS(text, tolerance, columns, ...)                                                                            \
    .attr = &usual, RF_CASE_WITHIN(text, 5, tolerance, X(0, __VA_ARGS__), X(1, __VA_ARGS__), X(1, 1, columns),         \
                                   X(0, 1, columns), RF_TENSOR(RF_F32, RF_FILL_UNIFORM, 0.25, 4, 1, columns))
#define RELU_SUMS(text, tolerance, columns, ...)                                                                       \
    .attr = &behind_relu, .by_sign = true,                                                                             \
    RF_CASE_WITHIN(text, 6, tolerance, X(0, __VA_ARGS__), X(1, __VA_ARGS__), X(1, 1, columns), X(0, 1, columns),       \
                   RF_TENSOR(RF_F32, RF_FILL_UNIFORM, 0.25, 4, 1, columns), X(0, 1, columns))
static const rf_op_case sums_cases[] = {
    { SUMS("1x1", 1e-6, 1, 2, 1, 1) },
    { SUMS("3x5", 1e-5, 5, 2, 3, 5) },
    { SUMS("2x3x4", 1e-5, 4, 3, 2, 3, 4) },
    { SUMS("17x8", 1e-5, 8, 2, 17, 8) },
    { SUMS("131x17", 1e-4, 17, 2, 131, 17) },
    { SUMS("33x2048", 1e-4, 2048, 2, 33, 2048) },
    { SUMS("1009x12", 1e-4, 12, 2, 1009, 12) },
    { SUMS("2003x67", 2e-4, 67, 2, 2003, 67) },
    { SUMS("20011x3", 1e-3, 3, 2, 20011, 3) },
    { RELU_SUMS("relu_1x1", 1e-6, 1, 2, 1, 1) },
    { RELU_SUMS("relu_2x3x4", 1e-5, 4, 3, 2, 3, 4) },
    { RELU_SUMS("relu_131x17", 1e-4, 17, 2, 131, 17) },
    { RELU_SUMS("relu_33x2048", 1e-4, 2048, 2, 33, 2048) },
    { RELU_SUMS("relu_1009x12", 1e-4, 12, 2, 1009, 12) },
    { RELU_SUMS("relu_20011x3", 1e-3, 3, 2, 20011, 3) },
    { RELU_SUMS("relu_64x28x28x48", 2e-3, 48, 4, 64, 28, 28, 48), .large = true, .benchmark = true },
    { SUMS("64x28x28x16", 2e-3, 16, 4, 64, 28, 28, 16), .large = true, .benchmark = true },
    { SUMS("64x7x7x256", 1e-3, 256, 4, 64, 7, 7, 256), .large = true, .benchmark = true },
};

RF_OP_CASES(batch_moments, moments_cases);
RF_OP_CASES(batch_averages, averages_cases);
RF_OP_CASES(batch_sums, sums_cases);
