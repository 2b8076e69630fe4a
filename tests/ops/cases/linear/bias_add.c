/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/ops/cases/cases.h"

#define VEC(a) RF_TENSOR(RF_F32, RF_FILL_NORMAL, 0, 0, 1, a)
#define MAT(a, b) RF_TENSOR(RF_F32, RF_FILL_NORMAL, 0, 0, 2, a, b)
#define IMAGES(a, b, c, d) RF_TENSOR(RF_F32, RF_FILL_NORMAL, 0, 0, 4, a, b, c, d)
static const rf_op_case cases[] = {
    { .name = "one", .n_in = 2, .in = { MAT(1, 1), VEC(1) } },
    { .name = "vector", .n_in = 2, .in = { VEC(5), VEC(5) }, .check_gradient = true, .rtol = 1e-6 },
    { .name = "rows", .n_in = 2, .in = { MAT(7, 3), VEC(3) }, .check_gradient = true, .rtol = 1e-6 },
    { .name = "images", .n_in = 2, .in = { IMAGES(2, 3, 2, 4), VEC(4) }, .check_gradient = true, .rtol = 1e-6 },
    { .name = "prime", .n_in = 2, .in = { MAT(1009, 127), VEC(127) } },
    { .name = "logits", .n_in = 2, .in = { MAT(64, 10), VEC(10) }, .benchmark = true },
    { .name = "activations", .n_in = 2, .in = { IMAGES(64, 26, 26, 32), VEC(32) }, .benchmark = true },
};

RF_OP_CASES(bias_add, cases);
