/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/ops/cases/cases.h"

#define RTOL_NEAREST 0
#define RTOL_BILINEAR 1e-6
#define FACTOR(h, w, kind)                                                                                             \
    .attr = &(const rf_upsample_attr)                                                                                  \
    {                                                                                                                  \
        { h, w }, RF_INTERPOLATION_##kind                                                                              \
    }
#define F32(...) RF_TENSOR(RF_F32, RF_FILL_NORMAL, 0, 1, __VA_ARGS__)
/* Geometries for both ops: the factors, the images and what they become. Repeated numbers are exact, sums are not. */
#define CASES(CASE)                                                                                                    \
    CASE("nearest_1_1x1x1x1", 1, 1, NEAREST, (4, 1, 1, 1, 1), (4, 1, 1, 1, 1), .check_gradient = true),                \
        CASE("nearest_2_2x3x4x3", 2, 2, NEAREST, (4, 2, 3, 4, 3), (4, 2, 6, 8, 3), .check_gradient = true),            \
        CASE("nearest_3x1_1x2x5x4", 3, 1, NEAREST, (4, 1, 2, 5, 4), (4, 1, 6, 5, 4), .check_gradient = true),          \
        CASE("bilinear_1_1x2x2x1", 1, 1, BILINEAR, (4, 1, 2, 2, 1), (4, 1, 2, 2, 1), .check_gradient = true),          \
        CASE("bilinear_2_2x3x4x3", 2, 2, BILINEAR, (4, 2, 3, 4, 3), (4, 2, 6, 8, 3), .check_gradient = true),          \
        CASE("bilinear_3x2_1x2x3x4", 3, 2, BILINEAR, (4, 1, 2, 3, 4), (4, 1, 6, 6, 4), .check_gradient = true),        \
        CASE("bilinear_5x4_1x1x2x1", 5, 4, BILINEAR, (4, 1, 1, 2, 1), (4, 1, 5, 8, 1), .check_gradient = true),        \
        CASE("bilinear_1x3_3x2x1x2", 1, 3, BILINEAR, (4, 3, 2, 1, 2), (4, 3, 2, 3, 2), .check_gradient = true),        \
        CASE("nearest_7x5_3x11x13x5", 7, 5, NEAREST, (4, 3, 11, 13, 5), (4, 3, 77, 65, 5), .large = false),            \
        CASE("bilinear_7x5_3x11x13x5", 7, 5, BILINEAR, (4, 3, 11, 13, 5), (4, 3, 77, 65, 5), .large = false),          \
        CASE("bilinear_8_2x5x4x8", 8, 8, BILINEAR, (4, 2, 5, 4, 8), (4, 2, 40, 32, 8), .large = false),                \
        CASE("nearest_9x8_2x5x4x7", 9, 8, NEAREST, (4, 2, 5, 4, 7), (4, 2, 45, 32, 7), .large = false),                \
        CASE("nearest_512x1_1x2x1x2", 512, 1, NEAREST, (4, 1, 2, 1, 2), (4, 1, 1024, 1, 2), .large = false),           \
        CASE("bilinear_1x512_1x1x3x1", 1, 512, BILINEAR, (4, 1, 1, 3, 1), (4, 1, 1, 1536, 1), .large = false),         \
        CASE("bilinear_200_1x2x2x1", 200, 200, BILINEAR, (4, 1, 2, 2, 1), (4, 1, 400, 400, 1), .large = false),        \
        CASE("nearest_2_walk_3x5x19x24", 2, 2, NEAREST, (4, 3, 5, 19, 24), (4, 3, 10, 38, 24), .large = false),        \
        CASE("bilinear_2_walk_2x7x33x16", 2, 2, BILINEAR, (4, 2, 7, 33, 16), (4, 2, 14, 66, 16), .large = false),      \
        CASE("bilinear_2_walk_1x1x2x8", 2, 2, BILINEAR, (4, 1, 1, 2, 8), (4, 1, 2, 4, 8), .large = false),             \
        CASE("nearest_2_32x28x28x16", 2, 2, NEAREST, (4, 32, 28, 28, 16), (4, 32, 56, 56, 16), .large = true,          \
             .benchmark = true),                                                                                       \
        CASE("bilinear_2_32x28x28x16", 2, 2, BILINEAR, (4, 32, 28, 28, 16), (4, 32, 56, 56, 16), .large = true,        \
             .benchmark = true),                                                                                       \
        CASE("bilinear_4_8x64x64x3", 4, 4, BILINEAR, (4, 8, 64, 64, 3), (4, 8, 256, 256, 3), .large = true,            \
             .benchmark = true)
#define FORWARD_CASE(label, h, w, kind, image, result, ...)                                                            \
    {                                                                                                                  \
        .name = label, FACTOR(h, w, kind), .n_in = 1, .in = { F32 image }, .rtol = RTOL_##kind, .atol = RTOL_##kind,   \
        __VA_ARGS__                                                                                                    \
    }
#define GRAD_CASE(label, h, w, kind, image, result, ...)                                                               \
    {                                                                                                                  \
        .name = label, FACTOR(h, w, kind), .n_in = 2, .in = { F32 result, F32 image }, .rtol = 1e-5,                   \
        .atol = 1e-6 * (h) * (w), __VA_ARGS__                                                                          \
    }

static const rf_op_case upsample_cases[] = { CASES(FORWARD_CASE) };
static const rf_op_case upsample_grad_cases[] = {
    CASES(GRAD_CASE),
    GRAD_CASE("bilinear_3x4_columns_1x21x5x3", 3, 4, BILINEAR, (4, 1, 21, 5, 3), (4, 1, 63, 20, 3), .large = false),
    GRAD_CASE("bilinear_4x3_columns_2x19x3x8", 4, 3, BILINEAR, (4, 2, 19, 3, 8), (4, 2, 76, 9, 8), .large = false)
};

RF_OP_CASES(upsample2d, upsample_cases);
RF_OP_CASES(upsample2d_grad, upsample_grad_cases);
