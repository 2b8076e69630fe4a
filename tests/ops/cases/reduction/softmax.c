/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/ops/cases/cases.h"

#define X(sd, ...) RF_TENSOR(RF_F32, RF_FILL_NORMAL, 0, sd, __VA_ARGS__)
#define PROBABILITIES(...) RF_TENSOR(RF_F32, RF_FILL_PROBABILITY, 0, 0, __VA_ARGS__)
#define LOG_PROBABILITIES(...) RF_TENSOR(RF_F32, RF_FILL_UNIFORM, -8, 0, __VA_ARGS__)

static const rf_op_case softmax_cases[] = {
    { .name = "1x1", .n_in = 1, .in = { X(1, 2, 1, 1) }, .rtol = 1e-5, .atol = 1e-7 },
    { .name = "3x5", .n_in = 1, .in = { X(1, 2, 3, 5) }, .rtol = 1e-5, .atol = 1e-7, .check_gradient = true },
    { .name = "2x2x4", .n_in = 1, .in = { X(1, 3, 2, 2, 4) }, .rtol = 1e-5, .atol = 1e-7, .check_gradient = true },
    { .name = "10", .n_in = 1, .in = { X(1, 1, 10) }, .rtol = 1e-5, .atol = 1e-7 },
    { .name = "257x31", .n_in = 1, .in = { X(3, 2, 257, 31) }, .rtol = 2e-5, .atol = 1e-7 },
    { .name = "33x1009", .n_in = 1, .in = { X(3, 2, 33, 1009) }, .rtol = 2e-5, .atol = 1e-7 },
    { .name = "large_logits_65x32", .n_in = 1, .in = { X(300, 2, 65, 32) }, .rtol = 1e-4, .atol = 1e-6 },
    { .name = "huge_logits_17x12", .n_in = 1, .in = { X(1e37f, 2, 17, 12) }, .rtol = 1e-4, .atol = 1e-6 },
    { .name = "64x10", .n_in = 1, .in = { X(1, 2, 64, 10) }, .rtol = 1e-5, .atol = 1e-7, .benchmark = true },
    { .name = "4096x1024",
      .n_in = 1,
      .in = { X(1, 2, 4096, 1024) },
      .rtol = 2e-5,
      .atol = 1e-7,
      .benchmark = true,
      .large = true },
    /* rows that a subgroup holds, some of whose lanes have less than others */
    { .name = "37x100", .n_in = 1, .in = { X(3, 2, 37, 100) }, .rtol = 2e-5, .atol = 5e-6 },
    { .name = "37x102", .n_in = 1, .in = { X(3, 2, 37, 102) }, .rtol = 2e-5, .atol = 5e-6 },
    { .name = "9x1021", .n_in = 1, .in = { X(3, 2, 9, 1021) }, .rtol = 2e-5, .atol = 5e-6 },
    /* rows longer than some drivers let one invocation walk */
    { .name = "3x70001", .n_in = 1, .in = { X(3, 2, 3, 70001) }, .rtol = 2e-5, .atol = 1e-7 },
    { .name = "2x70004", .n_in = 1, .in = { X(3, 2, 2, 70004) }, .rtol = 2e-5, .atol = 1e-7 },
    { .name = "1x1000003", .n_in = 1, .in = { X(3, 2, 1, 1000003) }, .rtol = 2e-5, .atol = 1e-7, .large = true },
};
static const rf_op_case log_softmax_cases[] = {
    { .name = "1x1", .n_in = 1, .in = { X(1, 2, 1, 1) }, .rtol = 1e-5, .atol = 1e-6 },
    { .name = "3x5", .n_in = 1, .in = { X(1, 2, 3, 5) }, .rtol = 1e-5, .atol = 1e-6, .check_gradient = true },
    { .name = "2x2x4", .n_in = 1, .in = { X(1, 3, 2, 2, 4) }, .rtol = 1e-5, .atol = 1e-6, .check_gradient = true },
    { .name = "257x31", .n_in = 1, .in = { X(3, 2, 257, 31) }, .rtol = 1e-5, .atol = 5e-6 },
    { .name = "33x1009", .n_in = 1, .in = { X(3, 2, 33, 1009) }, .rtol = 1e-5, .atol = 5e-6 },
    { .name = "large_logits_65x32", .n_in = 1, .in = { X(300, 2, 65, 32) }, .rtol = 1e-5, .atol = 1e-4 },
    { .name = "64x10", .n_in = 1, .in = { X(1, 2, 64, 10) }, .rtol = 1e-5, .atol = 1e-6, .benchmark = true },
    /* rows that a subgroup holds, some of whose lanes have less than others */
    { .name = "37x100", .n_in = 1, .in = { X(3, 2, 37, 100) }, .rtol = 2e-5, .atol = 5e-6 },
    { .name = "37x102", .n_in = 1, .in = { X(3, 2, 37, 102) }, .rtol = 2e-5, .atol = 5e-6 },
    { .name = "9x1021", .n_in = 1, .in = { X(3, 2, 9, 1021) }, .rtol = 2e-5, .atol = 5e-6 },
    /* rows longer than some drivers let one invocation walk */
    { .name = "3x70001", .n_in = 1, .in = { X(3, 2, 3, 70001) }, .rtol = 1e-5, .atol = 1e-5 },
    { .name = "2x70004", .n_in = 1, .in = { X(3, 2, 2, 70004) }, .rtol = 1e-5, .atol = 1e-5 },
    { .name = "1x1000003", .n_in = 1, .in = { X(3, 2, 1, 1000003) }, .rtol = 1e-5, .atol = 1e-5, .large = true },
};
#define GRAD_CASES(second, sd)                                                                                         \
    { .name = "1x1", .n_in = 2, .in = { X(1, 2, 1, 1), second(2, 1, 1) }, .rtol = sd, .atol = sd },                    \
        { .name = "5x3", .n_in = 2, .in = { X(1, 2, 5, 3), second(2, 5, 3) }, .rtol = sd, .atol = sd },                \
        { .name = "2x3x32", .n_in = 2, .in = { X(1, 3, 2, 3, 32), second(3, 2, 3, 32) }, .rtol = sd, .atol = sd },     \
        { .name = "257x33", .n_in = 2, .in = { X(1, 2, 257, 33), second(2, 257, 33) }, .rtol = sd, .atol = sd },       \
        { .name = "37x100", .n_in = 2, .in = { X(1, 2, 37, 100), second(2, 37, 100) }, .rtol = sd, .atol = sd },       \
        { .name = "37x102", .n_in = 2, .in = { X(1, 2, 37, 102), second(2, 37, 102) }, .rtol = sd, .atol = sd },       \
        { .name = "31x1009",                                                                                           \
          .n_in = 2,                                                                                                   \
          .in = { X(1, 2, 31, 1009), second(2, 31, 1009) },                                                            \
          .rtol = sd,                                                                                                  \
          .atol = 10 * sd },                                                                                           \
        { .name = "3x70001",                                                                                           \
          .n_in = 2,                                                                                                   \
          .in = { X(1, 2, 3, 70001), second(2, 3, 70001) },                                                            \
          .rtol = sd,                                                                                                  \
          .atol = 10 * sd },                                                                                           \
    {                                                                                                                  \
        .name = "1024x1024", .n_in = 2, .in = { X(1, 2, 1024, 1024), second(2, 1024, 1024) }, .rtol = sd,              \
        .atol = 10 * sd, .benchmark = true, .large = true                                                              \
    }
static const rf_op_case softmax_grad_cases[] = { GRAD_CASES(PROBABILITIES, 1e-5) };
static const rf_op_case log_softmax_grad_cases[] = { GRAD_CASES(LOG_PROBABILITIES, 2e-5) };

RF_OP_CASES(softmax, softmax_cases);
RF_OP_CASES(log_softmax, log_softmax_cases);
RF_OP_CASES(softmax_grad, softmax_grad_cases);
RF_OP_CASES(log_softmax_grad, log_softmax_grad_cases);
