/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/ops/cases/cases.h"

/* Begin, end and step of three axes; a step of 0 is a whole axis. */
#define RANGES(...) RANGES_OF(__VA_ARGS__)
#define RANGES_OF(b0, e0, s0, b1, e1, s1, b2, e2, s2)                                                                  \
    .attr = &(const rf_slice_attr)                                                                                     \
    {                                                                                                                  \
        { b0, b1, b2 }, { e0, e1, e2 },                                                                                \
        {                                                                                                              \
            s0, s1, s2                                                                                                 \
        }                                                                                                              \
    }
#define WHOLE 0, 0, 0
#define F32(...) RF_TENSOR(RF_F32, RF_FILL_NORMAL, 0, 1, __VA_ARGS__)
/* Geometries for both ops: the ranges, the tensor and the slice that they give. The last one is more than a descriptor
 * spans at the smallest limits; tests/ops/test_small_limits.c cuts smaller ones along any dimension. */
#define CASES(CASE)                                                                                                    \
    CASE("whole_5x7", RANGES(WHOLE, WHOLE, WHOLE), (2, 5, 7), (2, 5, 7), .check_gradient = true),                      \
        CASE("one_of_1", RANGES(0, 1, 1, WHOLE, WHOLE), (1, 1), (1, 1), .check_gradient = true),                       \
        CASE("middle_17", RANGES(3, 14, 1, WHOLE, WHOLE), (1, 17), (1, 11), .check_gradient = true),                   \
        CASE("every_third_20", RANGES(1, INT64_MAX, 3, WHOLE, WHOLE), (1, 20), (1, 7), .check_gradient = true),        \
        CASE("backwards_9", RANGES(INT64_MAX, INT64_MIN, -1, WHOLE, WHOLE), (1, 9), (1, 9), .check_gradient = true),   \
        CASE("backwards_by_4_of_5x31", RANGES(WHOLE, -2, 1, -4, WHOLE), (2, 5, 31), (2, 5, 7),                         \
             .check_gradient = true),                                                                                  \
        CASE("from_the_end_2x3x4", RANGES(-1, INT64_MAX, 1, -2, INT64_MAX, 1, -3, -1, 1), (3, 2, 3, 4), (3, 1, 2, 2),  \
             .check_gradient = true),                                                                                  \
        CASE("beyond_the_ends_6x5", RANGES(-100, 100, 2, 100, -100, -3, WHOLE), (2, 6, 5), (2, 3, 2),                  \
             .check_gradient = true),                                                                                  \
        CASE("rows_64x32", RANGES(8, 40, 1, WHOLE, WHOLE), (2, 64, 32), (2, 32, 32), .large = false),                  \
        CASE("rows_back_33x12", RANGES(-1, INT64_MIN, -2, WHOLE, WHOLE), (2, 33, 12), (2, 17, 12), .large = false),    \
        CASE("fours_7x64", RANGES(WHOLE, 4, 36, 1, WHOLE), (2, 7, 64), (2, 7, 32), .large = false),                    \
        CASE("off_fours_7x64", RANGES(WHOLE, 3, 35, 1, WHOLE), (2, 7, 64), (2, 7, 32), .large = false),                \
        CASE("channels_2x9x11x5", RANGES(WHOLE, 1, -1, 2, INT64_MIN, INT64_MAX, 5), (4, 2, 9, 11, 5), (4, 2, 4, 3, 5), \
             .large = false),                                                                                          \
        CASE("prime_257x255", RANGES(2, 251, 1, 1, 254, 2, WHOLE), (2, 257, 255), (2, 249, 127), .large = false),      \
        CASE("rank6", RANGES(WHOLE, 0, INT64_MAX, 2, INT64_MAX, INT64_MIN, -1), (6, 2, 3, 4, 5, 2, 3),                 \
             (6, 2, 2, 4, 5, 2, 3), .large = false),                                                                   \
        CASE("70001", RANGES(1, INT64_MAX, 1, WHOLE, WHOLE), (1, 70001), (1, 70000), .large = false),                  \
        CASE("3x131101", RANGES(WHOLE, INT64_MAX, INT64_MIN, -3, WHOLE), (2, 3, 131101), (2, 3, 43701),                \
             .large = false),                                                                                          \
        CASE("half_of_2048x2048", RANGES(WHOLE, 1024, INT64_MAX, 1, WHOLE), (2, 2048, 2048), (2, 2048, 1024),          \
             .large = true, .benchmark = true),                                                                        \
        CASE("every_second_of_4096x1024", RANGES(0, INT64_MAX, 2, 1, INT64_MAX, 2, WHOLE), (2, 4096, 1024),            \
             (2, 2048, 512), .large = true, .benchmark = true),                                                        \
        CASE("34000x1024", RANGES(1, INT64_MAX, 1, 1, INT64_MAX, 2, WHOLE), (2, 34000, 1024), (2, 33999, 512),         \
             .large = true)
#define FORWARD_CASE(label, ranges, tensor, slice, ...)                                                                \
    {                                                                                                                  \
        .name = label, ranges, .n_in = 1, .in = { F32 tensor }, __VA_ARGS__                                            \
    }
#define GRAD_CASE(label, ranges, tensor, slice, ...)                                                                   \
    {                                                                                                                  \
        .name = label, ranges, .n_in = 2, .in = { F32 slice, F32 tensor }, __VA_ARGS__                                 \
    }
static const rf_op_case slice_cases[] = {
    CASES(FORWARD_CASE),
    { .name = "i32_31x33",
      RANGES(30, 0, -3, 1, 30, 4, WHOLE),
      .n_in = 1,
      .in = { RF_TENSOR(RF_I32, RF_FILL_INTEGER, -400, 70000, 2, 31, 33) } },
};
static const rf_op_case slice_grad_cases[] = { CASES(GRAD_CASE) };

RF_OP_CASES(slice, slice_cases);
RF_OP_CASES(slice_grad, slice_grad_cases);
