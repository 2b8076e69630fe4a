/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/ops/cases/cases.h"

#define F32(...) RF_DESC(RF_F32, __VA_ARGS__)
static const rf_shape to_15 = { 1, { -1 } }, to_5x3 = { 2, { 5, -1 } }, to_scalar = { 0, { 0 } };
#define VIEW_CASE(label, attributes, shape)                                                                            \
    {                                                                                                                  \
        .name = label, .attr = attributes, .n_in = 1, .in = { { shape, RF_FILL_NORMAL, 0, 1 } },                       \
        .check_gradient = true                                                                                         \
    }
static const rf_op_case reshape_cases[] = {
    VIEW_CASE("flat", &to_15, F32(2, 3, 5)),
    VIEW_CASE("swapped", &to_5x3, F32(2, 3, 5)),
    VIEW_CASE("to_scalar", &to_scalar, F32(2, 1, 1)),
};

static const rf_op_case reshape_like_cases[] = {
    { .name = "3x5_to_15",
      .n_in = 2,
      .in = { { F32(2, 3, 5), RF_FILL_NORMAL, 0, 1 }, { F32(1, 15), RF_FILL_ZERO, 0, 0 } },
      .check_gradient = true },
};

static const rf_axis_attr axis_0 = { 0 }, axis_1 = { 1 }, axis_2 = { 2 };
static const rf_op_case expand_dims_cases[] = {
    VIEW_CASE("before_2x3", &axis_0, F32(2, 2, 3)),
    VIEW_CASE("within_2x3", &axis_1, F32(2, 2, 3)),
    VIEW_CASE("after_2x3", &axis_2, F32(2, 2, 3)),
    VIEW_CASE("scalar", &axis_0, F32(0, 0)),
};
static const rf_op_case squeeze_cases[] = {
    VIEW_CASE("1x3", &axis_0, F32(2, 1, 3)),
    VIEW_CASE("2x1x3", &axis_1, F32(3, 2, 1, 3)),
    VIEW_CASE("to_scalar", &axis_0, F32(1, 1)),
};

static const rf_op_case stop_cases[] = {
    { .name = "257", .n_in = 1, .in = { { F32(1, 257), RF_FILL_NORMAL, 0, 1 } } },
};

static const rf_transpose_attr swap2 = { { 1, 0 } }, swap3 = { { 0, 2, 1 } }, rotate3 = { { 2, 0, 1 } },
                               outer3 = { { 1, 0, 2 } }, heads = { { 0, 2, 1, 3 } }, same3 = { { 0, 1, 2 } },
                               reverse6 = { { 5, 4, 3, 2, 1, 0 } }, mixed6 = { { 3, 0, 5, 1, 4, 2 } },
                               channels = { { 0, 3, 1, 2 } };
#define TRANSPOSE_CASE(label, attributes, shape, ...)                                                                  \
    {                                                                                                                  \
        .name = label, .attr = &attributes, .n_in = 1, .in = { { shape, RF_FILL_NORMAL, 0, 1 } }, __VA_ARGS__          \
    }
static const rf_op_case transpose_cases[] = {
    TRANSPOSE_CASE("1x1", swap2, F32(2, 1, 1), .large = false),
    TRANSPOSE_CASE("3x5", swap2, F32(2, 3, 5), .check_gradient = true),
    TRANSPOSE_CASE("4x4", swap2, F32(2, 4, 4), .large = false),
    TRANSPOSE_CASE("64x256", swap2, F32(2, 64, 256), .large = false),
    TRANSPOSE_CASE("68x60", swap2, F32(2, 68, 60), .large = false),
    TRANSPOSE_CASE("257x255", swap2, F32(2, 257, 255), .large = false),
    TRANSPOSE_CASE("batch_3x8x12", swap3, F32(3, 3, 8, 12), .large = false),
    TRANSPOSE_CASE("batch_3x7x5", swap3, F32(3, 3, 7, 5), .check_gradient = true),
    TRANSPOSE_CASE("rotate", rotate3, F32(3, 2, 3, 4), .check_gradient = true),
    TRANSPOSE_CASE("outer_of_vectors", outer3, F32(3, 5, 7, 8), .large = false),
    TRANSPOSE_CASE("outer_odd", outer3, F32(3, 5, 7, 3), .large = false),
    TRANSPOSE_CASE("same", same3, F32(3, 5, 7, 3), .large = false),
    TRANSPOSE_CASE("reverse_rank6", reverse6, F32(6, 2, 3, 4, 5, 2, 3), .large = false),
    TRANSPOSE_CASE("mixed_rank6", mixed6, F32(6, 2, 3, 4, 5, 2, 3), .check_gradient = false),
    TRANSPOSE_CASE("nhwc_to_nchw", channels, F32(4, 2, 7, 9, 5), .large = false),
    TRANSPOSE_CASE("i32", swap2, RF_DESC(RF_I32, 2, 31, 33), .large = false),
    TRANSPOSE_CASE("heads_3x17x5x16", heads, F32(4, 3, 17, 5, 16), .large = false),
    TRANSPOSE_CASE("heads_8x128x8x64", heads, F32(4, 8, 128, 8, 64), .large = true, .benchmark = true),
    TRANSPOSE_CASE("2048x2048", swap2, F32(2, 2048, 2048), .large = true, .benchmark = true),
    TRANSPOSE_CASE("64x26x26x32_to_nchw", channels, F32(4, 64, 26, 26, 32), .large = true, .benchmark = true),
};

RF_OP_CASES(reshape, reshape_cases);
RF_OP_CASES(reshape_like, reshape_like_cases);
RF_OP_CASES(expand_dims, expand_dims_cases);
RF_OP_CASES(squeeze, squeeze_cases);
RF_OP_CASES(stop_gradient, stop_cases);
RF_OP_CASES(transpose, transpose_cases);
