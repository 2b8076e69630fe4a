/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/ops/cases/cases.h"

#define NORM_VECTOR(n) RF_TENSOR(RF_F32, RF_FILL_NORMAL, 0, 1, 1, n)
#define LAMB_NORMS_CASE(n, ...)                                                                                        \
    {                                                                                                                  \
        .name = #n, .n_in = 4, .rtol = 1e-5, .atol = 1e-5,                                                             \
        .in = { NORM_VECTOR(n), NORM_VECTOR(n), RF_TENSOR(RF_F32, RF_FILL_UNIFORM, 0.01f, 1, 1, n),                    \
                RF_TENSOR(RF_F32, RF_FILL_UNIFORM, 0.1f, 0.9f, 1, RF_HYPER_COUNT) },                                   \
        __VA_ARGS__                                                                                                    \
    }
static const rf_op_case lamb_norms_cases[] = {
    LAMB_NORMS_CASE(1, ),
    LAMB_NORMS_CASE(65, ),
    LAMB_NORMS_CASE(1023, ),
    LAMB_NORMS_CASE(1024, ),
    LAMB_NORMS_CASE(1025, ),
    LAMB_NORMS_CASE(121930, .large = true, .benchmark = true),
    LAMB_NORMS_CASE(4194304, .large = true, .benchmark = true),
};

#define BLOCK_SQUARES_CASE(n, ...)                                                                                     \
    {                                                                                                                  \
        .name = #n, .n_in = 1, .rtol = 1e-5, .atol = 1e-5, .in = { NORM_VECTOR(n) }, __VA_ARGS__                       \
    }
static const rf_op_case block_squares_cases[] = {
    BLOCK_SQUARES_CASE(1, ),
    BLOCK_SQUARES_CASE(65, ),
    BLOCK_SQUARES_CASE(1023, ),
    BLOCK_SQUARES_CASE(1024, ),
    BLOCK_SQUARES_CASE(1025, ),
    BLOCK_SQUARES_CASE(121930, .large = true, .benchmark = true),
    BLOCK_SQUARES_CASE(4194304, .large = true, .benchmark = true),
};

RF_OP_CASES(block_squares, block_squares_cases);
RF_OP_CASES(lamb_norms, lamb_norms_cases);
