/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/ops/cases/cases.h"

#define ALONG(axis, batch_dims)                                                                                        \
    .attr = &(const rf_gather_attr)                                                                                    \
    {                                                                                                                  \
        axis, batch_dims                                                                                               \
    }
#define IN_TYPE(type)                                                                                                  \
    .attr = &(const rf_gather_attr)                                                                                    \
    {                                                                                                                  \
        .dtype = type                                                                                                  \
    }
#define X(...) RF_TENSOR(RF_F32, RF_FILL_NORMAL, 0, 1, __VA_ARGS__)
#define U(...) RF_TENSOR(RF_U8, RF_FILL_INTEGER, 0, 256, __VA_ARGS__)
#define I(low, high, ...) RF_TENSOR(RF_I32, RF_FILL_INTEGER, low, high, __VA_ARGS__)
static const rf_op_case gather_cases[] = {
    { .name = "1x1_by_1", .n_in = 2, .in = { X(2, 1, 1), I(0, 1, 1, 1) }, .check_gradient = true },
    { .name = "5x3_by_scalar", .n_in = 2, .in = { X(2, 5, 3), I(2, 3, 0, 0) }, .check_gradient = true },
    { .name = "6x4_by_2x3", .n_in = 2, .in = { X(2, 6, 4), I(0, 6, 2, 2, 3) }, .check_gradient = true },
    { .name = "7_by_5", .n_in = 2, .in = { X(1, 7), I(0, 7, 1, 5) }, .check_gradient = true },
    { .name = "axis_1_of_2x5x3_by_4",
      ALONG(1, 0),
      .n_in = 2,
      .in = { X(3, 2, 5, 3), I(0, 5, 1, 4) },
      .check_gradient = true },
    { .name = "axis_2_of_3x2x5_by_2x2",
      ALONG(2, 0),
      .n_in = 2,
      .in = { X(3, 3, 2, 5), I(0, 5, 2, 2, 2) },
      .check_gradient = true },
    { .name = "positions_3x5x4_by_3x2",
      ALONG(1, 1),
      .n_in = 2,
      .in = { X(3, 3, 5, 4), I(0, 5, 2, 3, 2) },
      .check_gradient = true },
    { .name = "positions_2x3x5x7_by_2x3x4",
      ALONG(2, 2),
      .n_in = 2,
      .in = { X(4, 2, 3, 5, 7), I(0, 5, 3, 2, 3, 4) },
      .check_gradient = true },
    { .name = "of_each_33x9_by_33", ALONG(1, 1), .n_in = 2, .in = { X(2, 33, 9), I(0, 9, 1, 33) } },
    { .name = "out_of_range_13x8_by_257", .n_in = 2, .in = { X(2, 13, 8), I(-5, 17, 1, 257) } },
    { .name = "out_of_range_13x7_by_31x5", .n_in = 2, .in = { X(2, 13, 7), I(-5, 17, 2, 31, 5) } },
    { .name = "out_of_range_positions_9x31x5_by_9x17",
      ALONG(1, 1),
      .n_in = 2,
      .in = { X(3, 9, 31, 5), I(-9, 40, 2, 9, 17) } },
    { .name = "1009x33_by_257", .n_in = 2, .in = { X(2, 1009, 33), I(0, 1009, 1, 257) } },
    { .name = "31x1024_by_7x11", .n_in = 2, .in = { X(2, 31, 1024), I(0, 31, 2, 7, 11) } },
    { .name = "axis_1_of_64x1000_by_129", ALONG(1, 0), .n_in = 2, .in = { X(2, 64, 1000), I(-1, 1000, 1, 129) } },
    { .name = "u8_13x12_by_257", .n_in = 2, .in = { U(2, 13, 12), I(0, 13, 1, 257) } },
    { .name = "u8_60x28x28x1_by_64", .n_in = 2, .in = { U(4, 60, 28, 28, 1), I(0, 60, 1, 64) } },
    { .name = "u8_31x32x33_by_7x5", .n_in = 2, .in = { U(3, 31, 32, 33), I(0, 31, 2, 7, 5) } },
    { .name = "i32_101_by_67", .n_in = 2, .in = { I(-100, 1000, 1, 101), I(0, 101, 1, 67) } },
    { .name = "i32_17x40_by_33", .n_in = 2, .in = { I(-100, 1000, 2, 17, 40), I(0, 17, 1, 33) } },
    { .name = "13x12_to_f16_by_257", IN_TYPE(RF_F16), .n_in = 2, .in = { X(2, 13, 12), I(-5, 17, 1, 257) } },
    { .name = "31x40_to_bf16_by_7x11", IN_TYPE(RF_BF16), .n_in = 2, .in = { X(2, 31, 40), I(-1, 31, 2, 7, 11) } },
    { .name = "8192x128_by_32x64", .n_in = 2, .in = { X(2, 8192, 128), I(0, 8192, 2, 32, 64) }, .benchmark = true },
    { .name = "8192x128_to_bf16_by_32x64",
      IN_TYPE(RF_BF16),
      .n_in = 2,
      .in = { X(2, 8192, 128), I(0, 8192, 2, 32, 64) },
      .benchmark = true },
    { .name = "400x64_by_64x256", .n_in = 2, .in = { X(2, 400, 64), I(0, 400, 2, 64, 256) }, .benchmark = true },
    { .name = "positions_32x128x128_by_32x20",
      ALONG(1, 1),
      .n_in = 2,
      .in = { X(3, 32, 128, 128), I(0, 128, 2, 32, 20) },
      .benchmark = true },
    { .name = "34001x1024_by_301", .n_in = 2, .in = { X(2, 34001, 1024), I(-1, 34002, 1, 301) }, .large = true },
    { .name = "65x512_by_70001", .n_in = 2, .in = { X(2, 65, 512), I(-1, 66, 1, 70001) }, .large = true },
};

RF_OP_CASES(gather, gather_cases);
