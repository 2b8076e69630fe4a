/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/ops/cases/cases.h"

#define F32(...) RF_DESC(RF_F32, __VA_ARGS__)
#define SUM_CASE(label, x, like, tolerance, ...)                                                                       \
    {                                                                                                                  \
        .name = label, .n_in = 2, .in = { { x, RF_FILL_NORMAL, 0, 1 }, { like, RF_FILL_ZERO, 0, 0 } }, .rtol = 1e-5,   \
        .atol = tolerance, __VA_ARGS__                                                                                 \
    }
static const rf_op_case sum_cases[] = {
    SUM_CASE("scalar_from_1", F32(1, 1), F32(0, 0), 0, .check_gradient = true),
    SUM_CASE("scalar_from_257", F32(1, 257), F32(0, 0), 1e-4, .large = false),
    SUM_CASE("column_3x5", F32(2, 3, 5), F32(1, 5), 1e-5, .check_gradient = true),
    SUM_CASE("column_64x256", F32(2, 64, 256), F32(1, 256), 1e-4, .large = false),
    SUM_CASE("column_1009x10", F32(2, 1009, 10), F32(1, 10), 2e-4, .large = false),
    SUM_CASE("column_2047x64", F32(2, 2047, 64), F32(1, 64), 2e-4, .large = false),
    SUM_CASE("row_3x5", F32(2, 3, 5), F32(2, 3, 1), 1e-5, .check_gradient = true),
    SUM_CASE("row_255x257", F32(2, 255, 257), F32(2, 255, 1), 1e-4, .large = false),
    SUM_CASE("middle", F32(3, 3, 37, 5), F32(3, 3, 1, 5), 2e-5, .large = false),
    SUM_CASE("outer_and_inner", F32(4, 2, 3, 5, 7), F32(3, 3, 5, 1), 2e-5, .check_gradient = true),
    SUM_CASE("alternating", F32(6, 2, 3, 4, 3, 2, 5), F32(6, 1, 3, 1, 3, 1, 5), 2e-5, .large = false),
    SUM_CASE("alternating_inner", F32(6, 2, 3, 4, 3, 2, 5), F32(6, 2, 1, 4, 1, 2, 1), 2e-5, .large = false),
    SUM_CASE("same_shape", F32(2, 5, 7), F32(2, 5, 7), 0, .check_gradient = true),
    SUM_CASE("same_shape_1x512x512", F32(3, 1, 512, 512), F32(3, 1, 512, 512), 0, .large = false),
    SUM_CASE("row_3x131101", F32(2, 3, 131101), F32(2, 3, 1), 1e-2, .large = false),
    SUM_CASE("column_300001x1", F32(3, 2, 300001, 1), F32(3, 2, 1, 1), 2e-2, .large = false),
    SUM_CASE("all_1M", F32(2, 1024, 1024), F32(0, 0), 1e-2, .large = true, .benchmark = true),
    SUM_CASE("row_4096x1024", F32(2, 4096, 1024), F32(2, 4096, 1), 1e-3, .large = true, .benchmark = true),
    SUM_CASE("column_65536x64", F32(2, 65536, 64), F32(1, 64), 2e-3, .large = true, .benchmark = true),
};

static const float fill_value = 0.75f;
#define FILL_CASE(label, shape, ...)                                                                                   \
    {                                                                                                                  \
        .name = label, .attr = &fill_value, .n_in = 1, .in = { { shape, RF_FILL_ZERO, 0, 0 } }, __VA_ARGS__            \
    }
static const rf_op_case fill_cases[] = {
    FILL_CASE("scalar", F32(0, 0), .large = false),
    FILL_CASE("3", F32(1, 3), .large = false),
    FILL_CASE("5x51", F32(2, 5, 51), .large = false),
    FILL_CASE("3x1357", F32(2, 3, 1357), .large = false),
    FILL_CASE("1024", F32(1, 1024), .large = false),
    FILL_CASE("like_i32", RF_DESC(RF_I32, 1, 257), .large = false),
    FILL_CASE("4M", F32(1, 4194304), .large = true, .benchmark = true),
};

#define BROADCAST_CASE(label, x, like, ...)                                                                            \
    {                                                                                                                  \
        .name = label, .n_in = 2, .in = { { x, RF_FILL_NORMAL, 0, 1 }, { like, RF_FILL_ZERO, 0, 0 } }, __VA_ARGS__     \
    }
static const rf_op_case broadcast_cases[] = {
    BROADCAST_CASE("scalar_to_257", F32(0, 0), F32(1, 257), .large = false),
    BROADCAST_CASE("row", F32(1, 5), F32(2, 3, 5), .check_gradient = true),
    BROADCAST_CASE("column", F32(2, 3, 1), F32(2, 3, 5), .check_gradient = true),
    BROADCAST_CASE("row_vectors", F32(1, 64), F32(2, 33, 64), .large = false),
    BROADCAST_CASE("column_vectors", F32(2, 33, 1), F32(2, 33, 64), .large = false),
    BROADCAST_CASE("both_sides", F32(3, 1, 7, 1), F32(3, 5, 7, 3), .large = false),
    BROADCAST_CASE("alternating", F32(6, 2, 1, 4, 1, 2, 1), F32(6, 2, 3, 4, 3, 2, 5), .large = false),
    BROADCAST_CASE("same_shape_vectors", F32(2, 5, 8), F32(2, 5, 8), .large = false),
    BROADCAST_CASE("same_shape", F32(2, 5, 7), F32(2, 5, 7), .large = false),
    BROADCAST_CASE("scalar_to_70001", F32(0, 0), F32(1, 70001), .large = false),
    BROADCAST_CASE("row_of_3_1000x3", F32(1, 3), F32(2, 1000, 3), .large = false),
    BROADCAST_CASE("row_4M", F32(1, 1024), F32(2, 4096, 1024), .large = true, .benchmark = true),
};

RF_OP_CASES(sum_to_like, sum_cases);
RF_OP_CASES(fill_like, fill_cases);
RF_OP_CASES(broadcast_like, broadcast_cases);
