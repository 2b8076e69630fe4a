/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/ops/cases/cases.h"

/* One example for each row, or as the names say. */
static const rf_dropout_attr common = { 0.5f, 0, 0, 0, 0 }, half = { 0.5f, 0, 0, 1, 1 }, rows_5 = { 0.2f, 7, 0, 1, 5 },
                             rows_64 = { 0.2f, 7, 0, 1, 64 }, none = { 0, 1, 0, 1, 52 },
                             nearly_all = { 0.99999994f, 2, 0, 1, 52 },
                             rows_257 = { 0.3f, 3, 0x123456789abcdef0ull, 1, 257 },
                             rows_260 = { 0.3f, 3, 0x123456789abcdef0ull, 1, 260 }, of_steps = { 0.5f, 4, 0, 1, 15 },
                             steps_first = { 0.5f, 4, 0, 3, 5 }, in_the_middle = { 0.3f, 5, 0, 7, 8 },
                             last = { 0.3f, 5, 99, 31, 1 }, large = { 0.5f, 0, 0, 1, 1024 },
                             large_last = { 0.5f, 0, 0, 1024, 1 };
#define F32(...) RF_DESC(RF_F32, __VA_ARGS__)
#define DROPOUT_CASE(label, attributes, shape, ...)                                                                    \
    {                                                                                                                  \
        .name = label, .attr = &attributes, .n_in = 2, __VA_ARGS__,                                                    \
        .in = { { shape, RF_FILL_NORMAL, 0, 1 }, { RF_DESC(RF_I32, 1, 6), RF_FILL_INTEGER, 0, 1000000 } },             \
        .rtol = 1e-6                                                                                                   \
    }
static const rf_op_case cases[] = {
    DROPOUT_CASE("scalar", common, F32(0, 0), .check_gradient = true),
    DROPOUT_CASE("3", half, F32(1, 3), .check_gradient = true),
    DROPOUT_CASE("4", half, F32(1, 4), .large = false),
    DROPOUT_CASE("5x1", half, F32(2, 5, 1), .check_gradient = true),
    DROPOUT_CASE("3x5", rows_5, F32(2, 3, 5), .large = false),
    DROPOUT_CASE("255", common, F32(1, 255), .large = false),
    DROPOUT_CASE("common_8x4", common, F32(2, 8, 4), .large = false),
    DROPOUT_CASE("64x64", rows_64, F32(2, 64, 64), .large = false),
    DROPOUT_CASE("7x257", rows_257, F32(2, 7, 257), .large = false),
    DROPOUT_CASE("7x260", rows_260, F32(2, 7, 260), .large = false),
    DROPOUT_CASE("steps_6x5", of_steps, F32(2, 6, 5), .check_gradient = true),
    DROPOUT_CASE("steps_first_6x5", steps_first, F32(2, 6, 5), .check_gradient = true),
    DROPOUT_CASE("middle_7x6x8", in_the_middle, F32(3, 7, 6, 8), .large = false),
    DROPOUT_CASE("last_31x9", last, F32(2, 31, 9), .large = false),
    DROPOUT_CASE("rate_0", none, F32(2, 5, 52), .large = false),
    DROPOUT_CASE("rate_near_1", nearly_all, F32(2, 5, 52), .large = false),
    DROPOUT_CASE("4M", large, F32(2, 4096, 1024), .large = true, .benchmark = true),
    DROPOUT_CASE("4M_last", large_last, F32(2, 1024, 4096), .large = true),
};

static const rf_op_case uniform_cases[] = {
    DROPOUT_CASE("scalar", common, F32(0, 0), .large = false),
    DROPOUT_CASE("3x5", rows_5, F32(2, 3, 5), .large = false),
    DROPOUT_CASE("7x257", rows_257, F32(2, 7, 257), .large = false),
    DROPOUT_CASE("7x260", rows_260, F32(2, 7, 260), .large = false),
    DROPOUT_CASE("steps_6x5", of_steps, F32(2, 6, 5), .large = false),
    DROPOUT_CASE("middle_7x6x8", in_the_middle, F32(3, 7, 6, 8), .large = false),
    DROPOUT_CASE("last_31x9", last, F32(2, 31, 9), .large = false),
    DROPOUT_CASE("4M", large, F32(2, 4096, 1024), .large = true, .benchmark = true),
};

RF_OP_CASES(random_uniform, uniform_cases);
RF_OP_CASES(dropout, cases);
RF_OP_CASES(dropout_grad, cases);
