/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/ops/cases/cases.h"

#define ATTR(kind_, mask, keep)                                                                                        \
    &(const rf_reduce_attr)                                                                                            \
    {                                                                                                                  \
        RF_REDUCE_KIND_##kind_, mask, keep                                                                             \
    }
#define CASE_WITHIN(tolerance, case_name, kind_, mask, keep, ...)                                                      \
    .name = case_name, .attr = ATTR(kind_, mask, keep), .n_in = 1, .in = { { .desc = RF_DESC(RF_F32, __VA_ARGS__) } }, \
    .rtol = 1e-5, .atol = tolerance
#define CASE(...) CASE_WITHIN(1e-5, __VA_ARGS__)
/* Small, with a finite-difference check; no ties, so that the maximum has a derivative. */
#define GRADIENT_CASE(case_name, kind_, mask, keep, ...)                                                               \
    .name = case_name, .attr = ATTR(kind_, mask, keep), .n_in = 1,                                                     \
    .in = { { .desc = RF_DESC(RF_F32, __VA_ARGS__), .fill = RF_FILL_DISTINCT } }, .rtol = 1e-5, .atol = 1e-5,          \
    .check_gradient = true
#define TIES_CASE(case_name, kind_, mask, keep, ...)                                                                   \
    .name = case_name, .attr = ATTR(kind_, mask, keep), .n_in = 1,                                                     \
    .in = { { .desc = RF_DESC(RF_F32, __VA_ARGS__), .fill = RF_FILL_INTEGER, .a = -3, .b = 4 } }

static const rf_op_case reduce_cases[] = {
    /* every kind along every kind of axes, gradients too */
    { GRADIENT_CASE("sum_all_3x4", SUM, 0, 0, 2, 3, 4) },
    { GRADIENT_CASE("sum_0_3x4", SUM, 1, 0, 2, 3, 4) },
    { GRADIENT_CASE("sum_1_3x4", SUM, 2, 0, 2, 3, 4) },
    { GRADIENT_CASE("sum_1_keep_3x4", SUM, 2, 1, 2, 3, 4) },
    { GRADIENT_CASE("sum_02_2x3x4", SUM, 5, 0, 3, 2, 3, 4) },
    { GRADIENT_CASE("sum_1_2x3x4", SUM, 2, 0, 3, 2, 3, 4) },
    { GRADIENT_CASE("mean_all_5", MEAN, 0, 0, 1, 5) },
    { GRADIENT_CASE("mean_12_2x3x3x4", MEAN, 6, 0, 4, 2, 3, 3, 4) },
    { GRADIENT_CASE("mean_12_keep_2x3x3x4", MEAN, 6, 1, 4, 2, 3, 3, 4) },
    { GRADIENT_CASE("max_all_7", MAX, 0, 0, 1, 7) },
    { GRADIENT_CASE("max_0_5x4", MAX, 1, 0, 2, 5, 4) },
    { GRADIENT_CASE("max_1_5x3", MAX, 2, 0, 2, 5, 3) },
    { GRADIENT_CASE("max_1_keep_2x5x3", MAX, 2, 1, 3, 2, 5, 3) },
    { GRADIENT_CASE("min_all_7", MIN, 0, 0, 1, 7) },
    { GRADIENT_CASE("min_1_keep_2x5x3", MIN, 2, 1, 3, 2, 5, 3) },
    { GRADIENT_CASE("squares_all_3x5", SUM_SQUARES, 0, 0, 2, 3, 5) },
    { GRADIENT_CASE("squares_1_3x5", SUM_SQUARES, 2, 0, 2, 3, 5) },
    { GRADIENT_CASE("abs_1_keep_3x5", SUM_ABS, 2, 1, 2, 3, 5) },
    { GRADIENT_CASE("abs_0_3x5", SUM_ABS, 1, 0, 2, 3, 5) },
    /* one element, and nothing to reduce */
    { CASE("sum_scalar", SUM, 0, 0, 0, 0) },
    { CASE("max_1x1", MAX, 0, 0, 2, 1, 1) },
    { CASE("mean_1_8x1x4", MEAN, 2, 0, 3, 8, 1, 4) },
    /* around block, lane and workgroup sizes */
    { CASE("sum_all_31", SUM, 0, 0, 1, 31) },
    { CASE("sum_1_33x33", SUM, 2, 0, 2, 33, 33) },
    { CASE("sum_1_31x64", SUM, 2, 0, 2, 31, 64) },
    { CASE("sum_0_257x32", SUM, 1, 0, 2, 257, 32) },
    { CASE("mean_0_2053x17", MEAN, 1, 0, 2, 2053, 17) },
    { CASE_WITHIN(1e-4, "squares_0_1301x260", SUM_SQUARES, 1, 0, 2, 1301, 260) },
    { CASE("sum_1_3x5x4104", SUM, 2, 0, 3, 3, 5, 4104) },
    { CASE("max_0_255x31", MAX, 1, 0, 2, 255, 31) },
    { CASE("min_1_33x64", MIN, 2, 0, 2, 33, 64) },
    { CASE("max_1_21x512", MAX, 2, 0, 2, 21, 512) },
    { CASE("sum_1_130x3072", SUM, 2, 0, 2, 130, 3072) },
    { CASE("abs_1_5x256", SUM_ABS, 2, 0, 2, 5, 256) },
    { CASE("mean_1_3x1009", MEAN, 2, 0, 2, 3, 1009) },
    { CASE("squares_all_4099", SUM_SQUARES, 0, 0, 1, 4099) },
    /* axes in every arrangement of six dimensions */
    { CASE("sum_024_3x2x5x3x4x7", SUM, 0x15, 0, 6, 3, 2, 5, 3, 4, 7) },
    { CASE("sum_135_3x2x5x3x4x7", SUM, 0x2a, 0, 6, 3, 2, 5, 3, 4, 7) },
    { CASE("max_0235_keep_3x2x5x3x4x7", MAX, 0x2d, 1, 6, 3, 2, 5, 3, 4, 7) },
    { CASE("mean_1_7x11x13x8", MEAN, 2, 0, 4, 7, 11, 13, 8) },
    { CASE("sum_13_7x11x13x8", SUM, 0xa, 0, 4, 7, 11, 13, 8) },
    { CASE("mean_12_4x49x49x8", MEAN, 6, 0, 4, 4, 49, 49, 8) },
    /* equal elements, exact sums */
    { TIES_CASE("max_ties_1_17x23", MAX, 2, 0, 2, 17, 23) },
    { TIES_CASE("min_ties_0_1031x12", MIN, 1, 0, 2, 1031, 12) },
    { TIES_CASE("sum_exact_all_16x257", SUM, 0, 0, 2, 16, 257) },
    { TIES_CASE("sum_exact_0_1031x12", SUM, 1, 0, 2, 1031, 12) },
    /* bias gradients of a small network, softmax-sized rows, norms over all parameters */
    { CASE_WITHIN(2e-3, "sum_0_43264x32", SUM, 1, 0, 2, 43264, 32), .benchmark = true },
    { CASE_WITHIN(1e-3, "sum_0_7744x64", SUM, 1, 0, 2, 7744, 64), .benchmark = true },
    { CASE("sum_0_64x10", SUM, 1, 0, 2, 64, 10), .benchmark = true },
    { CASE("squares_all_121930", SUM_SQUARES, 0, 0, 1, 121930), .benchmark = true },
    { CASE("max_1_4096x1024", MAX, 2, 0, 2, 4096, 1024), .benchmark = true, .large = true },
    { CASE_WITHIN(1e-1, "sum_all_4194301", SUM, 0, 0, 1, 4194301), .benchmark = true, .large = true },
    /* longer than some drivers let one invocation loop; results enough to keep many of them busy without slices */
    { CASE_WITHIN(5e-2, "sum_1_130x131076", SUM, 2, 0, 2, 130, 131076), .large = true },
    { CASE_WITHIN(1e-2, "mean_1_3x131101", MEAN, 2, 0, 2, 3, 131101) },
    /* beyond one descriptor on a device with the smallest limits */
    { CASE_WITHIN(1e-3, "sum_1_34000x1024", SUM, 2, 0, 2, 34000, 1024), .large = true },
};

#define SCALE_CASE(case_name, n, m)                                                                                    \
    .name = case_name, .n_in = 2, .in = { { .desc = RF_DESC(RF_F32, 1, n) }, { .desc = RF_DESC(RF_F32, 2, n, m) } },   \
    .rtol = 1e-6, .atol = 1e-30
static const rf_op_case mean_scale_cases[] = {
    { SCALE_CASE("1", 1, 3), .check_gradient = true },
    { SCALE_CASE("31", 31, 7) },
    { SCALE_CASE("257", 257, 2) },
};

RF_OP_CASES(reduce, reduce_cases);
RF_OP_CASES(mean_scale, mean_scale_cases);
