/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/ops/cases/cases.h"

#define F32(...) RF_TENSOR(RF_F32, RF_FILL_NORMAL, 0, 1, __VA_ARGS__)
#define I32(...) RF_TENSOR(RF_I32, RF_FILL_INTEGER, -400, 70000, __VA_ARGS__)
#define JOIN(label, n, tensors, axis, ...)                                                                             \
    {                                                                                                                  \
        .name = label, .attr = &(const rf_concat_attr){ axis, 0 }, .n_in = n, .in = { tensors }, __VA_ARGS__           \
    }
#define TENSORS(...) __VA_ARGS__
static const rf_op_case concat_cases[] = {
    JOIN("one_5", 1, TENSORS(F32(1, 5)), 0, .check_gradient = true),
    JOIN("rows_1_2x3", 2, TENSORS(F32(2, 1, 3), F32(2, 2, 3)), 0, .check_gradient = true),
    JOIN("columns_3x5_7_1", 3, TENSORS(F32(2, 3, 5), F32(2, 3, 7), F32(2, 3, 1)), 1, .check_gradient = true),
    JOIN("middle_2x1_4_2x3", 3, TENSORS(F32(3, 2, 1, 3), F32(3, 2, 4, 3), F32(3, 2, 2, 3)), 1, .check_gradient = true),
    JOIN("seven_2x1_to_7", 7,
         TENSORS(F32(2, 2, 1), F32(2, 2, 2), F32(2, 2, 3), F32(2, 2, 4), F32(2, 2, 5), F32(2, 2, 6), F32(2, 2, 7)), 1,
         .check_gradient = true),
    JOIN("channels_2x9x11x24_12", 2, TENSORS(F32(4, 2, 9, 11, 24), F32(4, 2, 9, 11, 12)), 3, .large = false),
    JOIN("channels_3x5x7x16_8_4", 3, TENSORS(F32(4, 3, 5, 7, 16), F32(4, 3, 5, 7, 8), F32(4, 3, 5, 7, 4)), 3,
         .large = false),
    JOIN("odd_channels_3x17x13x5_11", 2, TENSORS(F32(4, 3, 17, 13, 5), F32(4, 3, 17, 13, 11)), 3, .large = false),
    JOIN("odd_21x9_13_8_15", 4, TENSORS(F32(2, 21, 9), F32(2, 21, 13), F32(2, 21, 8), F32(2, 21, 15)), 1,
         .large = false),
    JOIN("off_fours_31x8_6_8", 3, TENSORS(F32(2, 31, 8), F32(2, 31, 6), F32(2, 31, 8)), 1, .large = false),
    JOIN("rank6", 2, TENSORS(F32(6, 2, 3, 4, 5, 2, 3), F32(6, 2, 3, 4, 1, 2, 3)), 3, .large = false),
    JOIN("i32_31x33_2", 2, TENSORS(I32(2, 31, 33), I32(2, 31, 2)), 1, .large = false),
    JOIN("i32_fours", 2, TENSORS(I32(2, 31, 32), I32(2, 31, 4)), 1, .large = false),
    JOIN("70001_and_3", 2, TENSORS(F32(1, 70001), F32(1, 3)), 0, .large = false),
    JOIN("3x131101_1", 2, TENSORS(F32(2, 3, 131101), F32(2, 3, 1)), 1, .large = false),
    JOIN("34000x512_513", 2, TENSORS(F32(2, 34000, 512), F32(2, 34000, 513)), 1, .large = true),
    JOIN("channels_64x28x28x24_12", 2, TENSORS(F32(4, 64, 28, 28, 24), F32(4, 64, 28, 28, 12)), 3, .large = true,
         .benchmark = true),
    JOIN("channels_64x28x28x84_12", 2, TENSORS(F32(4, 64, 28, 28, 84), F32(4, 64, 28, 28, 12)), 3, .large = true,
         .benchmark = true),
    JOIN("odd_channels_64x28x28x25_13", 2, TENSORS(F32(4, 64, 28, 28, 25), F32(4, 64, 28, 28, 13)), 3, .large = true,
         .benchmark = true),
    JOIN("rows_2x1024x1024", 2, TENSORS(F32(2, 1024, 1024), F32(2, 1024, 1024)), 0, .large = true, .benchmark = true),
};
#define PART(label, n, tensors, axis, left_out, ...)                                                                   \
    {                                                                                                                  \
        .name = label, .attr = &(const rf_concat_attr){ axis, left_out }, .n_in = n, .in = { tensors }, __VA_ARGS__    \
    }
static const rf_op_case concat_grad_cases[] = {
    PART("one_5", 2, TENSORS(F32(1, 5), F32(1, 5)), 0, 0, .check_gradient = true),
    PART("columns_3x5_7_1", 4, TENSORS(F32(2, 3, 13), F32(2, 3, 5), F32(2, 3, 7), F32(2, 3, 1)), 1, 0,
         .check_gradient = true),
    PART("second_of_columns_3x5_7_1", 4, TENSORS(F32(2, 3, 13), F32(2, 3, 5), F32(2, 3, 7), F32(2, 3, 1)), 1, 5,
         .check_gradient = true),
    PART("all_but_second_of_rows", 4, TENSORS(F32(2, 6, 3), F32(2, 1, 3), F32(2, 2, 3), F32(2, 3, 3)), 0, 2,
         .check_gradient = true),
    PART("channels_2x9x11x24_12", 3, TENSORS(F32(4, 2, 9, 11, 36), F32(4, 2, 9, 11, 24), F32(4, 2, 9, 11, 12)), 3, 0,
         .large = false),
    PART("off_fours_31x8_6_8", 4, TENSORS(F32(2, 31, 22), F32(2, 31, 8), F32(2, 31, 6), F32(2, 31, 8)), 1, 0,
         .large = false),
    PART("channels_64x28x28x24_12", 3, TENSORS(F32(4, 64, 28, 28, 36), F32(4, 64, 28, 28, 24), F32(4, 64, 28, 28, 12)),
         3, 0, .large = true, .benchmark = true),
    PART("odd_channels_64x28x28x25_13", 3,
         TENSORS(F32(4, 64, 28, 28, 38), F32(4, 64, 28, 28, 25), F32(4, 64, 28, 28, 13)), 3, 0, .large = true,
         .benchmark = true),
};
#define SPLIT(label, tensor, axis, n, weights, ...)                                                                    \
    {                                                                                                                  \
        .name = label, .attr = &(const rf_split_attr){ axis, n, { weights } }, .n_in = 1, .in = { tensor },            \
        __VA_ARGS__                                                                                                    \
    }
#define WEIGHTS(...) __VA_ARGS__
static const rf_op_case split_cases[] = {
    SPLIT("one_5", F32(1, 5), 0, 1, WEIGHTS(1), .check_gradient = true),
    SPLIT("rows_6x3", F32(2, 6, 3), 0, 3, WEIGHTS(1, 1, 1), .check_gradient = true),
    SPLIT("columns_3x14", F32(2, 3, 14), 1, 7, WEIGHTS(1, 1, 1, 1, 1, 1, 1), .check_gradient = true),
    SPLIT("weights_2x12x3", F32(3, 2, 12, 3), 1, 3, WEIGHTS(3, 2, 1), .check_gradient = true),
    SPLIT("heads_5x37x48", F32(3, 5, 37, 48), 2, 3, WEIGHTS(1, 1, 1), .large = false),
    SPLIT("odd_257x15", F32(2, 257, 15), 1, 5, WEIGHTS(1, 1, 1, 1, 1), .large = false),
    SPLIT("i32_31x32", I32(2, 31, 32), 1, 4, WEIGHTS(1, 1, 1, 1), .large = false),
    SPLIT("140002", F32(1, 140002), 0, 2, WEIGHTS(1, 1), .large = false),
    SPLIT("query_key_value_8x256x768", F32(3, 8, 256, 768), 2, 3, WEIGHTS(1, 1, 1), .large = true, .benchmark = true),
};

RF_OP_CASES(concat, concat_cases);
RF_OP_CASES(concat_grad, concat_grad_cases);
RF_OP_CASES(split, split_cases);
