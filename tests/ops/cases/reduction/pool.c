/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/ops/cases/cases.h"

#define ATTR(wh, ww, sh, sw, ...)                                                                                      \
    .attr = &(const rf_pool2d_attr)                                                                                    \
    {                                                                                                                  \
        { wh, ww }, { sh, sw }, __VA_ARGS__                                                                            \
    }
#define VALID RF_PADDING_VALID, { 0 }, 0
#define SAME RF_PADDING_SAME, { 0 }, 0
#define EXPLICIT(t, b, l, r) RF_PADDING_EXPLICIT, { t, b, l, r }, 0
#define MASKED RF_PADDING_VALID, { 0 }, 1
#define MASKED_SAME RF_PADDING_SAME, { 0 }, 1
#define NORMAL(...) RF_TENSOR(RF_F32, RF_FILL_NORMAL, 0, 0, 4, __VA_ARGS__)
#define DISTINCT(...) RF_TENSOR(RF_F32, RF_FILL_DISTINCT, 0, 0, 4, __VA_ARGS__)
#define TIES(...) RF_TENSOR(RF_F32, RF_FILL_INTEGER, -2, 3, 4, __VA_ARGS__)

/* Forward: rows shared by maxima (exact) and means. */
#define FORWARD_CASES(fill, ...)                                                                                       \
    { .name = "default_1x2x2x1", .n_in = 1, .in = { fill(1, 2, 2, 1) }, __VA_ARGS__, .check_gradient = true },         \
        { .name = "2x2_2x5x4x3",                                                                                       \
          ATTR(2, 2, 2, 2, VALID),                                                                                     \
          .n_in = 1,                                                                                                   \
          .in = { fill(2, 5, 4, 3) },                                                                                  \
          __VA_ARGS__,                                                                                                 \
          .check_gradient = true },                                                                                    \
        { .name = "2x2_1x5x5x4",                                                                                       \
          ATTR(2, 2, 2, 2, VALID),                                                                                     \
          .n_in = 1,                                                                                                   \
          .in = { fill(1, 5, 5, 4) },                                                                                  \
          __VA_ARGS__,                                                                                                 \
          .check_gradient = true },                                                                                    \
        { .name = "3x3_s1_same_1x4x5x2",                                                                               \
          ATTR(3, 3, 1, 1, SAME),                                                                                      \
          .n_in = 1,                                                                                                   \
          .in = { fill(1, 4, 5, 2) },                                                                                  \
          __VA_ARGS__,                                                                                                 \
          .check_gradient = true },                                                                                    \
        { .name = "2x3_s3x1_same_2x5x4x4",                                                                             \
          ATTR(2, 3, 3, 1, SAME),                                                                                      \
          .n_in = 1,                                                                                                   \
          .in = { fill(2, 5, 4, 4) },                                                                                  \
          __VA_ARGS__,                                                                                                 \
          .check_gradient = true },                                                                                    \
        { .name = "1x1_s2_3x7x7x5", ATTR(1, 1, 2, 2, VALID), .n_in = 1, .in = { fill(3, 7, 7, 5) }, __VA_ARGS__ },     \
        { .name = "2x2_s3_2x11x11x8", ATTR(2, 2, 3, 3, VALID), .n_in = 1, .in = { fill(2, 11, 11, 8) }, __VA_ARGS__ }, \
        { .name = "3x3_s2_explicit_2x13x11x12",                                                                        \
          ATTR(3, 3, 2, 2, EXPLICIT(1, 2, 0, 1)),                                                                      \
          .n_in = 1,                                                                                                   \
          .in = { fill(2, 13, 11, 12) },                                                                               \
          __VA_ARGS__ },                                                                                               \
        { .name = "3x3_s3_same_3x17x16x4",                                                                             \
          ATTR(3, 3, 3, 3, SAME),                                                                                      \
          .n_in = 1,                                                                                                   \
          .in = { fill(3, 17, 16, 4) },                                                                                \
          __VA_ARGS__ },                                                                                               \
        { .name = "2x2_s2_explicit_2x7x7x4",                                                                           \
          ATTR(2, 2, 2, 2, EXPLICIT(1, 1, 1, 0)),                                                                      \
          .n_in = 1,                                                                                                   \
          .in = { fill(2, 7, 7, 4) },                                                                                  \
          __VA_ARGS__ },                                                                                               \
        { .name = "3x3_s2_walk_3x21x34x24",                                                                            \
          ATTR(3, 3, 2, 2, EXPLICIT(1, 2, 0, 1)),                                                                      \
          .n_in = 1,                                                                                                   \
          .in = { fill(3, 21, 34, 24) },                                                                               \
          __VA_ARGS__ },                                                                                               \
        { .name = "3x3_s2_walk_1x5x4x8", ATTR(3, 3, 2, 2, SAME), .n_in = 1, .in = { fill(1, 5, 4, 8) }, __VA_ARGS__ }, \
        { .name = "3x3_s2_2x33x31x31",                                                                                 \
          ATTR(3, 3, 2, 2, VALID),                                                                                     \
          .n_in = 1,                                                                                                   \
          .in = { fill(2, 33, 31, 31) },                                                                               \
          __VA_ARGS__ },                                                                                               \
        { .name = "7x7_s1_1x31x31x4", ATTR(7, 7, 1, 1, SAME), .n_in = 1, .in = { fill(1, 31, 31, 4) }, __VA_ARGS__ },  \
        { .name = "257_images_4x4x4", ATTR(2, 2, 2, 2, VALID), .n_in = 1, .in = { fill(257, 4, 4, 4) }, __VA_ARGS__ }, \
        { .name = "300x300_1x301x302x2",                                                                               \
          ATTR(300, 300, 1, 1, VALID),                                                                                 \
          .n_in = 1,                                                                                                   \
          .in = { fill(1, 301, 302, 2) },                                                                              \
          __VA_ARGS__ },                                                                                               \
        { .name = "40x50_s30x20_same_2x79x83x4",                                                                       \
          ATTR(40, 50, 30, 20, SAME),                                                                                  \
          .n_in = 1,                                                                                                   \
          .in = { fill(2, 79, 83, 4) },                                                                                \
          __VA_ARGS__ },                                                                                               \
        { .name = "64x26x26x32",                                                                                       \
          ATTR(2, 2, 2, 2, VALID),                                                                                     \
          .n_in = 1,                                                                                                   \
          .in = { fill(64, 26, 26, 32) },                                                                              \
          __VA_ARGS__,                                                                                                 \
          .benchmark = true },                                                                                         \
        { .name = "64x11x11x64",                                                                                       \
          ATTR(2, 2, 2, 2, VALID),                                                                                     \
          .n_in = 1,                                                                                                   \
          .in = { fill(64, 11, 11, 64) },                                                                              \
          __VA_ARGS__,                                                                                                 \
          .benchmark = true },                                                                                         \
    {                                                                                                                  \
        .name = "64x56x56x64_3x3_s2", ATTR(3, 3, 2, 2, SAME), .n_in = 1, .in = { fill(64, 56, 56, 64) }, __VA_ARGS__,  \
        .benchmark = true, .large = true                                                                               \
    }
static const rf_op_case max_pool_cases[] = {
    FORWARD_CASES(DISTINCT, .rtol = 0),
    { .name = "ties_2x2_3x8x9x4", ATTR(2, 2, 2, 2, VALID), .n_in = 1, .in = { TIES(3, 8, 9, 4) } },
};
static const rf_op_case avg_pool_cases[] = {
    FORWARD_CASES(NORMAL, .rtol = 2e-6, .atol = 1e-6),
};

/* Gradients: images and the sizes that pooling makes of them. */
#define GRAD_CASES(CASE)                                                                                               \
    CASE("default_1x2x2x1", .attr = NULL, (1, 1, 1, 1), (1, 2, 2, 1)),                                                 \
        CASE("2x2_2x5x4x3", ATTR(2, 2, 2, 2, VALID), (2, 2, 2, 3), (2, 5, 4, 3)),                                      \
        CASE("2x2_3x9x11x8", ATTR(2, 2, 2, 2, VALID), (3, 4, 5, 8), (3, 9, 11, 8)),                                    \
        CASE("2x2_21x8x10x4", ATTR(2, 2, 2, 2, VALID), (21, 4, 5, 4), (21, 8, 10, 4)),                                 \
        CASE("3x3_s2_same_70x7x5x3", ATTR(3, 3, 2, 2, SAME), (70, 4, 3, 3), (70, 7, 5, 3)),                            \
        CASE("2x2_3x8x11x4", ATTR(2, 2, 2, 2, VALID), (3, 4, 5, 4), (3, 8, 11, 4)),                                    \
        CASE("3x3_s1_same_2x5x6x3", ATTR(3, 3, 1, 1, SAME), (2, 5, 6, 3), (2, 5, 6, 3)),                               \
        CASE("3x3_s1_same_2x5x6x4", ATTR(3, 3, 1, 1, SAME), (2, 5, 6, 4), (2, 5, 6, 4)),                               \
        CASE("1x1_s2_3x7x7x5", ATTR(1, 1, 2, 2, VALID), (3, 4, 4, 5), (3, 7, 7, 5)),                                   \
        CASE("2x2_s3_2x11x13x8", ATTR(2, 2, 3, 3, VALID), (2, 4, 4, 8), (2, 11, 13, 8)),                               \
        CASE("3x3_s2_explicit_2x13x11x12", ATTR(3, 3, 2, 2, EXPLICIT(1, 2, 0, 1)), (2, 7, 5, 12), (2, 13, 11, 12)),    \
        CASE("3x3_s3_same_3x17x16x4", ATTR(3, 3, 3, 3, SAME), (3, 6, 6, 4), (3, 17, 16, 4)),                           \
        CASE("2x2_s2_explicit_2x7x7x4", ATTR(2, 2, 2, 2, EXPLICIT(1, 1, 1, 0)), (2, 4, 4, 4), (2, 7, 7, 4)),           \
        CASE("3x3_s2_walk_3x21x34x24", ATTR(3, 3, 2, 2, EXPLICIT(1, 2, 0, 1)), (3, 11, 17, 24), (3, 21, 34, 24)),      \
        CASE("3x3_s2_walk_2x22x9x16", ATTR(3, 3, 2, 2, EXPLICIT(2, 0, 1, 2)), (2, 11, 5, 16), (2, 22, 9, 16)),         \
        CASE("2x2_s2_walk_2x23x38x8", ATTR(2, 2, 2, 2, EXPLICIT(1, 0, 0, 1)), (2, 12, 19, 8), (2, 23, 38, 8)),         \
        CASE("3x3_s2_2x33x31x31", ATTR(3, 3, 2, 2, VALID), (2, 16, 15, 31), (2, 33, 31, 31)),                          \
        CASE("257_images_4x4x4", ATTR(2, 2, 2, 2, VALID), (257, 2, 2, 4), (257, 4, 4, 4)),                             \
        CASE("16x16_s1_1x37x38x3", ATTR(16, 16, 1, 1, VALID), (1, 22, 23, 3), (1, 37, 38, 3)),                         \
        CASE("40x50_s30x20_same_1x44x53x4", ATTR(40, 50, 30, 20, SAME), (1, 2, 3, 4), (1, 44, 53, 4)),                 \
        CASE("300x300_s300_1x601x600x1", ATTR(300, 300, 300, 300, VALID), (1, 2, 2, 1), (1, 601, 600, 1))
#define MAX_GRAD(case_name, attr_, pooled, images)                                                                     \
    {                                                                                                                  \
        .name = case_name, attr_, .n_in = 3, .in = { NORMAL pooled, TIES images, NORMAL pooled }, .rtol = 2e-6,        \
        .atol = 1e-6                                                                                                   \
    }
#define AVG_GRAD(case_name, attr_, pooled, images)                                                                     \
    {                                                                                                                  \
        .name = case_name, attr_, .n_in = 2, .in = { NORMAL pooled, NORMAL images }, .rtol = 2e-6, .atol = 1e-6        \
    }

static const rf_op_case max_pool_grad_cases[] = {
    GRAD_CASES(MAX_GRAD),
    MAX_GRAD("masked_40x50_s30x20_1x44x53x3", ATTR(40, 50, 30, 20, MASKED), (1, 1, 1, 3), (1, 44, 53, 3)),
    /* an element lies in more windows than some drivers let an invocation visit */
    { .name = "190x190_s1_1x379x379x1",
      ATTR(190, 190, 1, 1, VALID),
      .n_in = 3,
      .in = { NORMAL(1, 190, 190, 1), TIES(1, 379, 379, 1), NORMAL(1, 190, 190, 1) },
      .rtol = 2e-5,
      .atol = 1e-3,
      .large = true },
    MAX_GRAD("masked_2x2_3x9x11x8", ATTR(2, 2, 2, 2, MASKED), (3, 4, 5, 8), (3, 9, 11, 8)),
    MAX_GRAD("masked_same_3x3_s2_2x9x8x3", ATTR(3, 3, 2, 2, MASKED_SAME), (2, 5, 4, 3), (2, 9, 8, 3)),
    MAX_GRAD("masked_same_3x3_s2_2x9x8x16", ATTR(3, 3, 2, 2, MASKED_SAME), (2, 5, 4, 16), (2, 9, 8, 16)),
    MAX_GRAD("masked_same_3x3_s3_2x9x8x4", ATTR(3, 3, 3, 3, MASKED_SAME), (2, 3, 3, 4), (2, 9, 8, 4)),
    { .name = "64x26x26x32",
      ATTR(2, 2, 2, 2, MASKED),
      .n_in = 3,
      .in = { NORMAL(64, 13, 13, 32), NORMAL(64, 26, 26, 32), NORMAL(64, 13, 13, 32) },
      .benchmark = true },
    { .name = "64x11x11x64",
      ATTR(2, 2, 2, 2, MASKED),
      .n_in = 3,
      .in = { NORMAL(64, 5, 5, 64), NORMAL(64, 11, 11, 64), NORMAL(64, 5, 5, 64) },
      .benchmark = true },
    { .name = "64x56x56x64_3x3_s2",
      ATTR(3, 3, 2, 2, SAME),
      .n_in = 3,
      .in = { NORMAL(64, 28, 28, 64), NORMAL(64, 56, 56, 64), NORMAL(64, 28, 28, 64) },
      .rtol = 2e-6,
      .atol = 1e-6,
      .benchmark = true,
      .large = true },
};
static const rf_op_case avg_pool_grad_cases[] = {
    GRAD_CASES(AVG_GRAD),
    { .name = "190x190_s1_1x379x379x1",
      ATTR(190, 190, 1, 1, VALID),
      .n_in = 2,
      .in = { NORMAL(1, 190, 190, 1), NORMAL(1, 379, 379, 1) },
      .rtol = 2e-5,
      .atol = 1e-5,
      .large = true },
    { .name = "64x26x26x32",
      ATTR(2, 2, 2, 2, VALID),
      .n_in = 2,
      .in = { NORMAL(64, 13, 13, 32), NORMAL(64, 26, 26, 32) },
      .rtol = 2e-6,
      .atol = 1e-6,
      .benchmark = true },
    { .name = "64x56x56x64_3x3_s2",
      ATTR(3, 3, 2, 2, SAME),
      .n_in = 2,
      .in = { NORMAL(64, 28, 28, 64), NORMAL(64, 56, 56, 64) },
      .rtol = 2e-6,
      .atol = 1e-6,
      .benchmark = true,
      .large = true },
};

RF_OP_CASES(max_pool2d, max_pool_cases);
RF_OP_CASES(max_pool2d_grad, max_pool_grad_cases);
RF_OP_CASES(avg_pool2d, avg_pool_cases);
RF_OP_CASES(avg_pool2d_grad, avg_pool_grad_cases);
