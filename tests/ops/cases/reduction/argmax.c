/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/ops/cases/cases.h"

#define NORMAL(...) RF_TENSOR(RF_F32, RF_FILL_NORMAL, 0, 1, __VA_ARGS__)
#define TIES(...) RF_TENSOR(RF_F32, RF_FILL_INTEGER, -2, 3, __VA_ARGS__)
static const rf_op_case argmax_cases[] = {
    { .name = "1", .n_in = 1, .in = { NORMAL(1, 1) } },
    { .name = "5x3", .n_in = 1, .in = { NORMAL(2, 5, 3) } },
    { .name = "ties_257x10", .n_in = 1, .in = { TIES(2, 257, 10) } },
    { .name = "ties_2x3x33", .n_in = 1, .in = { TIES(3, 2, 3, 33) } },
    { .name = "equal_31x4", .n_in = 1, .in = { RF_TENSOR(RF_F32, RF_FILL_ZERO, 0, 0, 2, 31, 4) } },
    { .name = "64x10", .n_in = 1, .in = { NORMAL(2, 64, 10) }, .benchmark = true },
    { .name = "1024x1009", .n_in = 1, .in = { NORMAL(2, 1024, 1009) }, .benchmark = true },
    /* rows longer than some drivers let one loop be */
    { .name = "2x70001", .n_in = 1, .in = { NORMAL(2, 2, 70001) } },
    { .name = "ties_3x131101", .n_in = 1, .in = { TIES(2, 3, 131101) } },
    { .name = "1x1000003", .n_in = 1, .in = { NORMAL(2, 1, 1000003) }, .large = true },
    /* more than one descriptor spans at the smallest limits: several dispatches */
    { .name = "34000x1024", .n_in = 1, .in = { TIES(2, 34000, 1024) }, .large = true },
};

static const rf_op_case accuracy_cases[] = {
    { .name = "1x1", .n_in = 2, .in = { RF_INTEGERS(0, 1, 1, 1), NORMAL(2, 1, 1) } },
    { .name = "33x4", .n_in = 2, .in = { RF_INTEGERS(0, 4, 1, 33), TIES(2, 33, 4) } },
    { .name = "out_of_range_257x3", .n_in = 2, .in = { RF_INTEGERS(-2, 6, 1, 257), NORMAL(2, 257, 3) } },
    { .name = "3x5x7", .n_in = 2, .in = { RF_INTEGERS(0, 7, 2, 3, 5), NORMAL(3, 3, 5, 7) } },
    { .name = "one_hot_31x5", .n_in = 2, .in = { TIES(2, 31, 5), TIES(2, 31, 5) } },
    { .name = "64x10", .n_in = 2, .in = { RF_INTEGERS(0, 10, 1, 64), NORMAL(2, 64, 10) }, .benchmark = true },
    { .name = "1024x1009",
      .n_in = 2,
      .in = { RF_INTEGERS(0, 1009, 1, 1024), NORMAL(2, 1024, 1009) },
      .benchmark = true },
    /* rows longer than some drivers let one loop be */
    { .name = "3x70001", .n_in = 2, .in = { RF_INTEGERS(0, 70001, 1, 3), NORMAL(2, 3, 70001) } },
    { .name = "one_hot_5x70001", .n_in = 2, .in = { TIES(2, 5, 70001), TIES(2, 5, 70001) } },
};

RF_OP_CASES(argmax, argmax_cases);
RF_OP_CASES(accuracy, accuracy_cases);
