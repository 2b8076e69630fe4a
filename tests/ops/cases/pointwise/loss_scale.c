/* SPDX-License-Identifier: Apache-2.0 */
#include <float.h>

#include "tests/ops/cases/cases.h"

#define NUMBERS(n, least, end) RF_TENSOR(RF_F32, RF_FILL_INTEGER, least, end, 1, n)

/* The note of what is found begins as none, as on the device. */
#define UNSCALE_CASE(n, ...)                                                                                           \
    {                                                                                                                  \
        .name = #n, .n_in = 2, .in = { RF_TENSOR(RF_F32, RF_FILL_NORMAL, 0, 1, 1, n), NUMBERS(RF_SCALE_TALLY, 0, 2) }, \
        .rtol = 1e-6, __VA_ARGS__                                                                                      \
    }
static const rf_op_case unscale_cases[] = {
    UNSCALE_CASE(1, ),
    UNSCALE_CASE(3, ),
    UNSCALE_CASE(4, ),
    UNSCALE_CASE(257, ),
    UNSCALE_CASE(2051, ),
    UNSCALE_CASE(121930, .large = true, .benchmark = true),
    { .name = "overflow", /* some are infinite afterwards */
      .n_in = 2,
      .in = { RF_TENSOR(RF_F32, RF_FILL_UNIFORM, 1e38f, 3e38f, 1, 61), NUMBERS(RF_SCALE_TALLY, 2, 3) },
      .rtol = 1e-6 },
};

/* Inverses are 1 or 2, or as said; the note begins as none or one. */
static const rf_overflow_check_attr any_finite = { .most = FLT_MAX }, below_three = { .most = 3 };
#define CHECK_CASE(label, attributes, least, end, n, tally, ...)                                                       \
    {                                                                                                                  \
        .name = label, .attr = &attributes, .n_in = 2,                                                                 \
        .in = { RF_TENSOR(RF_F32, RF_FILL_UNIFORM, least, end, 1, n), tally }, __VA_ARGS__                             \
    }
static const rf_op_case overflow_check_cases[] = {
    CHECK_CASE("1", any_finite, -1, 1, 1, NUMBERS(RF_SCALE_TALLY, 0, 1), ),
    CHECK_CASE("finite_257", any_finite, -1e38f, 1e38f, 257, NUMBERS(RF_SCALE_TALLY, 1, 2), ),
    CHECK_CASE("infinite_divided_61", any_finite, 2e38f, 3e38f, 61, NUMBERS(RF_SCALE_TALLY, 2, 3), ),
    CHECK_CASE("small_2051", below_three, -1, 1, 2051, NUMBERS(RF_SCALE_TALLY, 0, 1), ),
    CHECK_CASE("negative_2051", below_three, -3.002f, 0, 2051, NUMBERS(RF_SCALE_TALLY, 0, 1), ),
    CHECK_CASE("divided_5", below_three, -2, 1.9f, 5, NUMBERS(RF_SCALE_TALLY, 2, 3), ),
    CHECK_CASE("all_too_large_3", below_three, 3.5f, 4, 3, NUMBERS(RF_SCALE_TALLY, 0, 1), ),
    CHECK_CASE("121930", below_three, -2, 2, 121930, NUMBERS(RF_SCALE_TALLY, 1, 2), .large = true, .benchmark = true),
};

static const rf_loss_scale_attr every_step = { .growth_steps = 1 }, second_step = { .growth_steps = 2 },
                                stays = { .growth_steps = 1, .is_fixed = 1 };
#define SCALE_CASE(label, attributes, scale, tally, others)                                                            \
    {                                                                                                                  \
        .name = label, .attr = &attributes, .n_in = 3, .in = {                                                         \
            RF_TENSOR(RF_F32, RF_FILL_UNIFORM, scale, scale, 1, 1),                                                    \
            tally,                                                                                                     \
            NUMBERS(1, others, others + 1)                                                                             \
        }                                                                                                              \
    }
static const rf_op_case loss_scale_cases[] = {
    SCALE_CASE("finite", second_step, 32768, NUMBERS(RF_SCALE_TALLY, 0, 1), 0),
    SCALE_CASE("grows", every_step, 32768, NUMBERS(RF_SCALE_TALLY, 0, 1), 0),
    SCALE_CASE("found", second_step, 3, NUMBERS(RF_SCALE_TALLY, 1, 2), 0),
    SCALE_CASE("found_elsewhere", every_step, 3, NUMBERS(RF_SCALE_TALLY, 0, 1), 1),
    SCALE_CASE("fixed_found", stays, 1024, NUMBERS(RF_SCALE_TALLY, 1, 2), 0),
    SCALE_CASE("fixed_finite", stays, 1024, NUMBERS(RF_SCALE_TALLY, 0, 1), 0),
    SCALE_CASE("most", every_step, 0x1p100f, NUMBERS(RF_SCALE_TALLY, 0, 1), 0),
    SCALE_CASE("least", every_step, 0x1p-100f, NUMBERS(RF_SCALE_TALLY, 5, 6), 1),
};

/* The host's number stands among the rows, so that it is a random one of these numbers too. */
#define NUMBERS_CASE(label, rows, first)                                                                               \
    {                                                                                                                  \
        .name = label, .n_in = 2, .in = { NUMBERS((rows)*RF_HYPER_COUNT + 1, 4, 9), NUMBERS(2, first, first + 1) }     \
    }
static const rf_op_case update_numbers_cases[] = {
    NUMBERS_CASE("0", 3, 0),   NUMBERS_CASE("5", 3, 5),       NUMBERS_CASE("7", 3, 7),         NUMBERS_CASE("8", 3, 8),
    NUMBERS_CASE("11", 3, 11), NUMBERS_CASE("one_row", 1, 7), NUMBERS_CASE("64_rows", 64, 40),
};

RF_OP_CASES(unscale, unscale_cases);
RF_OP_CASES(overflow_check, overflow_check_cases);
RF_OP_CASES(loss_scale, loss_scale_cases);
RF_OP_CASES(update_numbers, update_numbers_cases);
