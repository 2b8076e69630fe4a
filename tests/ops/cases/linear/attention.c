/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/ops/cases/cases.h"

static const rf_attention_attr plain = { .scale = 0.5f }, causal = { .scale = 0.5f, .causal = 1 },
                               masked = { .scale = 0.5f, .mask = 1 }, both = { .scale = 0.25f, .causal = 1, .mask = 1 },
                               eighth = { .scale = 0.125f }, causal_eighth = { .scale = 0.125f, .causal = 1 },
                               quarter = { .scale = 0.25f };
#define X(...) RF_TENSOR(RF_F32, RF_FILL_NORMAL, 0, 1, __VA_ARGS__)
#define SMALL(...) RF_TENSOR(RF_F32, RF_FILL_NORMAL, 0, 0.5f, __VA_ARGS__)
#define WHOLE(...) RF_TENSOR(RF_F32, RF_FILL_INTEGER, 0, 64, __VA_ARGS__)
#define MASK(...) RF_TENSOR(RF_F32, RF_FILL_INTEGER, 0, 2, __VA_ARGS__)
#define CASE(text, which, count, tolerance, ...)                                                                       \
    .name = text, .attr = &which, .n_in = count, .rtol = tolerance, .atol = tolerance, .in = { __VA_ARGS__ }
#define QKV(n, h, t, s, k, v) X(4, n, h, t, k), X(4, n, h, s, k), X(4, n, h, s, v)
static const rf_op_case attention_cases[] = {
    { CASE("1x1x1x1", plain, 3, 1e-5, QKV(1, 1, 1, 1, 1, 1)), .check_gradient = true },
    { CASE("2x1x3x4", plain, 3, 1e-5, QKV(2, 1, 3, 4, 2, 3)), .check_gradient = true },
    { CASE("causal_1x2x4x4", causal, 3, 1e-5, QKV(1, 2, 4, 4, 4, 4)), .check_gradient = true, .unattended = true },
    /* The first queries attend to nothing: the logarithms of their sums are too large for differences. */
    { CASE("causal_1x1x5x3", causal, 3, 1e-5, QKV(1, 1, 5, 3, 4, 4)), .unattended = true },
    { CASE("masked_2x2x3x5", masked, 4, 1e-5, QKV(2, 2, 3, 5, 3, 2), MASK(4, 2, 1, 1, 5)), .check_gradient = true,
      .unattended = true },
    { CASE("both_2x3x33x65", both, 4, 2e-5, QKV(2, 3, 33, 65, 8, 12), MASK(4, 1, 3, 33, 65)), .unattended = true },
    { CASE("masked_3x1x31x9", masked, 4, 2e-5, QKV(3, 1, 31, 9, 4, 4), MASK(4, 3, 1, 31, 1)), .unattended = true },
    { CASE("masked_2x3x33x13", masked, 4, 2e-5, QKV(2, 3, 33, 13, 8, 12), MASK(4, 2, 1, 1, 13)), .unattended = true },
    { CASE("1x3x67x31x20x36", plain, 3, 2e-5, QKV(1, 3, 67, 31, 20, 36)) },
    { CASE("1x2x21x19x40x8", eighth, 3, 2e-5, QKV(1, 2, 21, 19, 40, 8)) },
    { CASE("causal_2x2x64x64", causal_eighth, 3, 2e-5, QKV(2, 2, 64, 64, 64, 64)), .unattended = true },
    { CASE("causal_1x2x37x101", causal, 3, 2e-5, QKV(1, 2, 37, 101, 16, 32)), .unattended = true },
    { CASE("1x2x9x17x70x5", eighth, 3, 2e-5, QKV(1, 2, 9, 17, 70, 5)) },
    { CASE("both_1x2x37x45x96x128", both, 4, 2e-5, QKV(1, 2, 37, 45, 96, 128), MASK(4, 1, 2, 37, 45)),
      .unattended = true },
    /* Scores up to 16,000, of whole numbers, so that they are exact. */
    { CASE("large_scores_1x2x37x45x8", plain, 3, 2e-5, WHOLE(4, 1, 2, 37, 8), WHOLE(4, 1, 2, 45, 8),
           X(4, 1, 2, 45, 8)) },
    /* Many tiles, so that they are large ones. */
    { CASE("4x16x64x32", eighth, 3, 2e-5, QKV(4, 16, 64, 64, 32, 32)) },
    { CASE("causal_2x32x32x128", causal_eighth, 3, 2e-5, QKV(2, 32, 32, 32, 128, 128)), .unattended = true },
    { CASE("1x1x40x1000", eighth, 3, 2e-5, QKV(1, 1, 40, 1000, 16, 8)) },
    { CASE("causal_2x4x512x64", causal_eighth, 3, 2e-5, QKV(2, 4, 512, 512, 64, 64)), .large = true, .benchmark = true,
      .unattended = true },
    { CASE("2x4x512x64", eighth, 3, 2e-5, QKV(2, 4, 512, 512, 64, 64)), .large = true, .benchmark = true },
    { CASE("masked_2x4x512x64", masked, 4, 2e-5, QKV(2, 4, 512, 512, 64, 64), MASK(4, 2, 1, 1, 512)), .large = true,
      .benchmark = true, .unattended = true },
};
/* Beyond those of random scores, so that weights stay small. */
#define SUMS(...) RF_TENSOR(RF_F32, RF_FILL_UNIFORM, 2, 3, __VA_ARGS__)
#define FLOWS(n, h, t, s, k, v)                                                                                        \
    X(4, n, h, t, v), SMALL(4, n, h, t, k), SMALL(4, n, h, s, k), X(4, n, h, s, v), X(4, n, h, t, v),                  \
        SUMS(4, n, h, t, 2)
static const rf_op_case grad_cases[] = {
    { CASE("1x1x1x1", plain, 6, 1e-5, FLOWS(1, 1, 1, 1, 1, 1)) },
    { CASE("2x1x3x4", plain, 6, 1e-5, FLOWS(2, 1, 3, 4, 2, 3)) },
    { CASE("causal_1x1x5x3", causal, 6, 1e-5, FLOWS(1, 1, 5, 3, 4, 4)), .unattended = true },
    { CASE("both_2x3x33x65", both, 7, 5e-5, FLOWS(2, 3, 33, 65, 8, 12), MASK(4, 1, 3, 33, 65)), .unattended = true },
    { CASE("2x2x7x5", quarter, 6, 5e-5, FLOWS(2, 2, 7, 5, 4, 8)) },
    { CASE("masked_3x1x31x9", masked, 7, 5e-5, FLOWS(3, 1, 31, 9, 4, 4), MASK(4, 3, 1, 1, 9)), .unattended = true },
    { CASE("1x3x67x31x20x36", plain, 6, 5e-5, FLOWS(1, 3, 67, 31, 20, 36)) },
    { CASE("1x2x21x19x40x8", eighth, 6, 5e-5, FLOWS(1, 2, 21, 19, 40, 8)) },
    { CASE("causal_2x2x64x64", causal_eighth, 6, 5e-5, FLOWS(2, 2, 64, 64, 64, 64)), .unattended = true },
    { CASE("causal_1x2x37x101", causal, 6, 5e-5, FLOWS(1, 2, 37, 101, 16, 32)), .unattended = true },
    { CASE("1x2x9x17x70x5", eighth, 6, 5e-5, FLOWS(1, 2, 9, 17, 70, 5)) },
    { CASE("both_1x2x37x45x96x128", both, 7, 5e-5, FLOWS(1, 2, 37, 45, 96, 128), MASK(4, 1, 2, 37, 45)),
      .unattended = true },
    /* More items, and more keys, than the workspace of the lanes kernel holds. */
    { CASE("causal_3x9x20x90", causal, 6, 5e-5, FLOWS(3, 9, 20, 90, 4, 8)), .unattended = true },
    { CASE("both_1x4x40x560", both, 7, 5e-5, FLOWS(1, 4, 40, 560, 8, 4), MASK(4, 1, 4, 1, 560)), .unattended = true },
    { CASE("causal_1x4x610x580", causal, 6, 1e-4, FLOWS(1, 4, 610, 580, 4, 8)), .unattended = true },
    { CASE("causal_2x4x512x64", causal_eighth, 6, 1e-4, FLOWS(2, 4, 512, 512, 64, 64)), .large = true,
      .benchmark = true, .unattended = true },
    { CASE("2x4x512x64", eighth, 6, 1e-4, FLOWS(2, 4, 512, 512, 64, 64)), .large = true, .benchmark = true },
    { CASE("masked_2x4x512x64", masked, 7, 1e-4, FLOWS(2, 4, 512, 512, 64, 64), MASK(4, 2, 1, 1, 512)), .large = true,
      .benchmark = true, .unattended = true },
};

RF_OP_CASES(attention, attention_cases);
RF_OP_CASES(attention_grad, grad_cases);
