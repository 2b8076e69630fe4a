/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/ops/cases/cases.h"

#define X(...) RF_TENSOR(RF_F32, RF_FILL_NORMAL, 0, 1, __VA_ARGS__)
#define CASE(text, how, count, ...)                                                                                    \
    .name = text, .attr = &how, .n_in = count, .rtol = 1e-6, .atol = 1e-6, .in = { __VA_ARGS__ }
#define C(n) X(1, n)
/* The divisor of x is not known to a case, so that finite differences of one input say nothing of the gradient: a test
 * of the graph compares it with those of the whole normalization. */
static const rf_normalize_attr both = { 1e-3f, 1, 1 }, plain = { 1e-3f, 0, 0 }, scaled_only = { 1e-3f, 1, 0 },
                               shifted_only = { 1e-3f, 0, 1 };
static const rf_op_case cases[] = {
    { CASE("1x1", both, 6, X(2, 1, 1), C(1), C(1), C(1), C(1), C(1)) },
    { CASE("3x5", both, 6, X(2, 3, 5), C(5), C(5), C(5), C(5), C(5)) },
    { CASE("plain_2x3x4", plain, 4, X(3, 2, 3, 4), C(4), C(4), C(4)) },
    { CASE("scaled_2x3x4", scaled_only, 5, X(3, 2, 3, 4), C(4), C(4), C(4), C(4)) },
    { CASE("shifted_17x8", shifted_only, 5, X(2, 17, 8), C(8), C(8), C(8), C(8)) },
    { CASE("257x31", plain, 4, X(2, 257, 31), C(31), C(31), C(31)) },
    { CASE("7x5x9x64", both, 6, X(4, 7, 5, 9, 64), C(64), C(64), C(64), C(64), C(64)) },
    { CASE("64x28x28x16", both, 6, X(4, 64, 28, 28, 16), C(16), C(16), C(16), C(16), C(16)), .large = true,
      .benchmark = true },
};

RF_OP_CASES(normalize, cases);
