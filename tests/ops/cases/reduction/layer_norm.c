/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/ops/cases/cases.h"

static const rf_layer_norm_attr both = { 1e-3f, 0, 1, 1 }, plain = { 1e-5f, 0, 0, 0 }, scaled = { 1e-3f, 0, 1, 0 },
                                shifted = { 1e-12f, 0, 0, 1 }, rms = { 1e-6f, 1, 1, 0 }, rms_plain = { 1e-6f, 1, 0, 0 };
#define X(mean, sd, ...) RF_TENSOR(RF_F32, RF_FILL_NORMAL, mean, sd, __VA_ARGS__)
#define INVERSE(...) RF_TENSOR(RF_F32, RF_FILL_UNIFORM, 0.5f, 1.5f, __VA_ARGS__)
#define CASE(text, attr_, count, tolerance, ...)                                                                       \
    .name = text, .attr = &attr_, .n_in = count, .rtol = tolerance, .atol = tolerance, .in = { __VA_ARGS__ }
#define ROWS(r, c) X(0, 1, 2, r, c)
#define VECTOR(c) X(1, 1, 1, c)
static const rf_op_case norm_cases[] = {
    { CASE("1x1", both, 3, 1e-5, ROWS(1, 1), VECTOR(1), VECTOR(1)) },
    { CASE("3x5", both, 3, 1e-5, ROWS(3, 5), VECTOR(5), VECTOR(5)), .check_gradient = true },
    { CASE("2x2x4", both, 3, 1e-5, X(0, 1, 3, 2, 2, 4), VECTOR(4), VECTOR(4)), .check_gradient = true },
    { CASE("plain_4x6", plain, 1, 1e-5, ROWS(4, 6)), .check_gradient = true },
    { CASE("scaled_7", scaled, 2, 1e-5, X(0, 1, 1, 7), VECTOR(7)), .check_gradient = true },
    { CASE("shifted_3x4", shifted, 2, 1e-5, ROWS(3, 4), VECTOR(4)), .check_gradient = true },
    { CASE("rms_3x5", rms, 2, 1e-5, ROWS(3, 5), VECTOR(5)), .check_gradient = true },
    { CASE("rms_plain_2x8", rms_plain, 1, 1e-5, ROWS(2, 8)), .check_gradient = true },
    { CASE("off_centre_33x64", both, 3, 2e-4, X(100, 1, 2, 33, 64), VECTOR(64), VECTOR(64)) },
    { CASE("257x31", both, 3, 2e-5, ROWS(257, 31), VECTOR(31), VECTOR(31)) },
    { CASE("rms_65x1009", rms, 2, 2e-5, ROWS(65, 1009), VECTOR(1009)) },
    { CASE("31x1024", scaled, 2, 2e-5, ROWS(31, 1024), VECTOR(1024)) },
    { CASE("131x100", both, 3, 2e-5, ROWS(131, 100), VECTOR(100), VECTOR(100)) },
    { CASE("rms_517x36", rms, 2, 2e-5, ROWS(517, 36), VECTOR(36)) },
    { CASE("2048x128", both, 3, 2e-5, ROWS(2048, 128), VECTOR(128), VECTOR(128)), .benchmark = true },
    /* rows longer than some drivers let one invocation walk */
    { CASE("3x70001", both, 3, 2e-5, ROWS(3, 70001), VECTOR(70001), VECTOR(70001)) },
    { CASE("rms_2x70004", rms, 2, 2e-5, ROWS(2, 70004), VECTOR(70004)) },
};
#define GRAD(r, c) ROWS(r, c), ROWS(r, c), X(0, 0.1f, 2, r, 1), INVERSE(2, r, 1)
static const rf_op_case grad_cases[] = {
    { CASE("1x1", both, 5, 1e-5, GRAD(1, 1), VECTOR(1)) },
    { CASE("3x5", both, 5, 1e-5, GRAD(3, 5), VECTOR(5)) },
    { CASE("plain_4x6", plain, 4, 1e-5, GRAD(4, 6)) },
    { CASE("rms_7x12", rms, 5, 1e-5, GRAD(7, 12), VECTOR(12)) },
    { CASE("257x31", both, 5, 2e-5, GRAD(257, 31), VECTOR(31)) },
    { CASE("rms_65x1009", rms, 5, 2e-5, GRAD(65, 1009), VECTOR(1009)) },
    { CASE("31x1024", scaled, 5, 2e-5, GRAD(31, 1024), VECTOR(1024)) },
    { CASE("131x100", both, 5, 2e-5, GRAD(131, 100), VECTOR(100)) },
    { CASE("rms_517x36", rms, 5, 2e-5, GRAD(517, 36), VECTOR(36)) },
    { CASE("2048x128", both, 5, 2e-5, GRAD(2048, 128), VECTOR(128)), .benchmark = true },
    { CASE("3x70001", both, 5, 5e-5, GRAD(3, 70001), VECTOR(70001)) },
    { CASE("rms_plain_2x70004", rms_plain, 4, 5e-5, GRAD(2, 70004)) },
};

RF_OP_CASES(layer_norm, norm_cases);
RF_OP_CASES(layer_norm_grad, grad_cases);
