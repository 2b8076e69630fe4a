/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/ops/cases/cases.h"

static const rf_cumsum_attr plain = { 0, 0 }, exclusive = { 1, 0 }, reverse = { 0, 1 }, both = { 1, 1 };
#define NORMAL(...)                                                                                                    \
    {                                                                                                                  \
        {                                                                                                              \
            .desc = RF_DESC(RF_F32, __VA_ARGS__), .fill = RF_FILL_NORMAL                                               \
        }                                                                                                              \
    }
/* Sums cancel: the rounding error grows with the length, not with the result. */
#define CASE(text, attr_, atol_, ...)                                                                                  \
    .name = text, .attr = &attr_, .n_in = 1, .in = NORMAL(__VA_ARGS__), .rtol = 1e-5, .atol = atol_
static const rf_op_case cumsum_cases[] = {
    { CASE("1", plain, 1e-6, 1, 1) },
    { CASE("exclusive_1x1", exclusive, 1e-6, 2, 1, 1) },
    { CASE("5x1", reverse, 1e-6, 2, 5, 1) },
    { CASE("3x5", plain, 1e-5, 2, 3, 5), .check_gradient = true },
    { CASE("exclusive_2x2x7", exclusive, 1e-5, 3, 2, 2, 7), .check_gradient = true },
    { CASE("reverse_4x3", reverse, 1e-5, 2, 4, 3), .check_gradient = true },
    { CASE("both_17", both, 1e-5, 1, 17), .check_gradient = true },
    /* about the 64 addends of a partial sum */
    { CASE("7x63", exclusive, 2e-5, 2, 7, 63) },
    { CASE("17x64", both, 2e-5, 2, 17, 64) },
    { CASE("257x65", reverse, 2e-5, 2, 257, 65) },
    { CASE("33x1009", both, 1e-4, 2, 33, 1009) },
    /* of fours: several blocks, a last block of a few elements, ends of single rows */
    { CASE("67x68", exclusive, 2e-5, 2, 67, 68) },
    { CASE("33x1012", both, 1e-4, 2, 33, 1012) },
    { CASE("5x2044", reverse, 2e-4, 2, 5, 2044) },
    { CASE("2050", both, 2e-4, 1, 2050) },
    { CASE("4225", plain, 2e-4, 1, 4225) },
    { CASE("64x10", plain, 1e-5, 2, 64, 10), .benchmark = true },
    { CASE("2x4096", exclusive, 2e-4, 2, 2, 4096), .benchmark = true },
    { CASE("1024x1024", plain, 1e-4, 2, 1024, 1024), .benchmark = true },
    { CASE("8x65536", plain, 1e-3, 2, 8, 65536), .benchmark = true },
    /* rows longer than some drivers let one loop be */
    { CASE("70001", exclusive, 1e-3, 1, 70001) },
    { CASE("3x131101", both, 1e-3, 2, 3, 131101) },
    { CASE("1000003", reverse, 5e-3, 1, 1000003), .benchmark = true, .large = true },
    /* more than one descriptor spans at the smallest limits: several dispatches */
    { CASE("34000x1024", plain, 1e-4, 2, 34000, 1024), .large = true },
};

RF_OP_CASES(cumsum, cumsum_cases);
