/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/ops/cases/cases.h"

#define VECTOR(n) RF_TENSOR(RF_F32, RF_FILL_NORMAL, 0, 1, 1, n)
#define POSITIVE(n) RF_TENSOR(RF_F32, RF_FILL_UNIFORM, 0.01f, 1, 1, n)
/* Hyperparameters are random too, within bounds that keep the results of every rule moderate. */
#define HYPER RF_TENSOR(RF_F32, RF_FILL_UNIFORM, 0.1f, 0.9f, 1, RF_HYPER_COUNT)
#define SKIP RF_TENSOR(RF_F32, RF_FILL_UNIFORM, 1, 1.5f, 1, RF_HYPER_COUNT)
#define UPDATE_CASES(rule, n_inputs, inputs, ...)                                                                      \
    static const rf_op_case rule##_cases[] = {                                                                         \
        { .name = "1", .n_in = n_inputs, .in = inputs(1, HYPER), .rtol = 1e-5, .atol = 1e-5 },                         \
        { .name = "3", .n_in = n_inputs, .in = inputs(3, HYPER), .rtol = 1e-5, .atol = 1e-5 },                         \
        { .name = "5", .n_in = n_inputs, .in = inputs(5, HYPER), .rtol = 1e-5, .atol = 1e-5 },                         \
        { .name = "8", .n_in = n_inputs, .in = inputs(8, HYPER), .rtol = 1e-5, .atol = 1e-5 },                         \
        { .name = "255", .n_in = n_inputs, .in = inputs(255, HYPER), .rtol = 1e-5, .atol = 1e-5 },                     \
        { .name = "2048", .n_in = n_inputs, .in = inputs(2048, HYPER), .rtol = 1e-5, .atol = 1e-5 },                   \
        { .name = "2051", .n_in = n_inputs, .in = inputs(2051, HYPER), .rtol = 1e-5, .atol = 1e-5 },                   \
        { .name = "121930",                                                                                            \
          .n_in = n_inputs,                                                                                            \
          .in = inputs(121930, HYPER),                                                                                 \
          .rtol = 1e-5,                                                                                                \
          .atol = 1e-5,                                                                                                \
          .large = true,                                                                                               \
          .benchmark = true },                                                                                         \
        { .name = "4M",                                                                                                \
          .n_in = n_inputs,                                                                                            \
          .in = inputs(4194304, HYPER),                                                                                \
          .rtol = 1e-5,                                                                                                \
          .atol = 1e-5,                                                                                                \
          .large = true,                                                                                               \
          .benchmark = true },                                                                                         \
        __VA_ARGS__                                                                                                    \
    }
/* Shadows: one rounding to 16 bits of what may differ in its last bits. */
#define SHADOW_F16(n) RF_TENSOR(RF_F16, RF_FILL_NORMAL, 0, 1, 1, n)
#define SHADOW_BF16(n) RF_TENSOR(RF_BF16, RF_FILL_NORMAL, 0, 1, 1, n)
#define ROUNDED(label, n_inputs, tolerance, ...)                                                                       \
    {                                                                                                                  \
        .name = label, .n_in = n_inputs + 1, .in = __VA_ARGS__, .rtol = tolerance, .atol = tolerance * 1e-2            \
    }
#define SHADOWED(n_inputs, inputs, f16, bf16)                                                                          \
    ROUNDED("f16_1", n_inputs, f16, inputs(1, HYPER, SHADOW_F16(1))),                                                  \
        ROUNDED("f16_3", n_inputs, f16, inputs(3, HYPER, SHADOW_F16(3))),                                              \
        ROUNDED("f16_255", n_inputs, f16, inputs(255, HYPER, SHADOW_F16(255))),                                        \
        ROUNDED("f16_2051", n_inputs, f16, inputs(2051, HYPER, SHADOW_F16(2051))),                                     \
        ROUNDED("bf16_7", n_inputs, bf16, inputs(7, HYPER, SHADOW_BF16(7))),                                           \
        ROUNDED("bf16_2048", n_inputs, bf16, inputs(2048, HYPER, SHADOW_BF16(2048)))
#define SKIPPED_SHADOW(n_inputs, inputs) ROUNDED("f16_skipped_261", n_inputs, 0, inputs(261, SKIP, SHADOW_F16(261)))
#define CHANGES_PARAMETER(n_inputs, inputs)                                                                            \
    SKIPPED(n_inputs, inputs), SHADOWED(n_inputs, inputs, 0x1p-10, 0x1p-7), SKIPPED_SHADOW(n_inputs, inputs)
#define SKIPPED(n_inputs, inputs)                                                                                      \
    {                                                                                                                  \
        .name = "skipped_261", .n_in = n_inputs, .in = inputs(261, SKIP)                                               \
    }
#define SGD_IN(n, ...)                                                                                                 \
    {                                                                                                                  \
        VECTOR(n), VECTOR(n), __VA_ARGS__                                                                              \
    }
#define MOMENTUM_IN(n, ...)                                                                                            \
    {                                                                                                                  \
        VECTOR(n), VECTOR(n), VECTOR(n), __VA_ARGS__                                                                   \
    }
#define ADAM_IN(n, ...)                                                                                                \
    {                                                                                                                  \
        VECTOR(n), VECTOR(n), VECTOR(n), POSITIVE(n), __VA_ARGS__                                                      \
    }
#define RMSPROP_IN(n, ...)                                                                                             \
    {                                                                                                                  \
        VECTOR(n), VECTOR(n), POSITIVE(n), VECTOR(n), __VA_ARGS__                                                      \
    }
#define ADAGRAD_IN(n, ...)                                                                                             \
    {                                                                                                                  \
        VECTOR(n), VECTOR(n), POSITIVE(n), __VA_ARGS__                                                                 \
    }
#define ACCUMULATE_IN(n, hyper)                                                                                        \
    {                                                                                                                  \
        VECTOR(n), VECTOR(n)                                                                                           \
    }
#define ASSIGN_IN(n, hyper, ...)                                                                                       \
    {                                                                                                                  \
        VECTOR(n), VECTOR(n), __VA_ARGS__                                                                              \
    }
UPDATE_CASES(sgd, 3, SGD_IN, CHANGES_PARAMETER(3, SGD_IN));
UPDATE_CASES(adam, 5, ADAM_IN, CHANGES_PARAMETER(5, ADAM_IN));
UPDATE_CASES(rmsprop, 5, RMSPROP_IN, CHANGES_PARAMETER(5, RMSPROP_IN));
UPDATE_CASES(adagrad, 4, ADAGRAD_IN, CHANGES_PARAMETER(4, ADAGRAD_IN));
UPDATE_CASES(lion, 4, MOMENTUM_IN, CHANGES_PARAMETER(4, MOMENTUM_IN));
UPDATE_CASES(nadam, 5, ADAM_IN, CHANGES_PARAMETER(5, ADAM_IN));
UPDATE_CASES(lamb_moments, 4, ADAGRAD_IN, SKIPPED(4, ADAGRAD_IN));
UPDATE_CASES(lamb, 4, ADAGRAD_IN, CHANGES_PARAMETER(4, ADAGRAD_IN));
UPDATE_CASES(muon, 3, SGD_IN, CHANGES_PARAMETER(3, SGD_IN));
UPDATE_CASES(average, 3, SGD_IN, SKIPPED(3, SGD_IN));
UPDATE_CASES(overwrite, 3, SGD_IN, CHANGES_PARAMETER(3, SGD_IN));
UPDATE_CASES(assign, 2, ACCUMULATE_IN, SHADOWED(2, ASSIGN_IN, 0, 0));
UPDATE_CASES(accumulate, 2, ACCUMULATE_IN, );
static const rf_update_attr nesterov = { 1 };
UPDATE_CASES(
    muon_momentum, 4, MOMENTUM_IN, SKIPPED(4, MOMENTUM_IN),
    { .name = "nesterov_3", .attr = &nesterov, .n_in = 4, .in = MOMENTUM_IN(3, HYPER), .rtol = 1e-5, .atol = 1e-5 },
    { .name = "nesterov_2051",
      .attr = &nesterov,
      .n_in = 4,
      .in = MOMENTUM_IN(2051, HYPER),
      .rtol = 1e-5,
      .atol = 1e-5 });
static const rf_op_case momentum_cases[] = {
    CHANGES_PARAMETER(4, MOMENTUM_IN),
    { .name = "1", .n_in = 4, .in = MOMENTUM_IN(1, HYPER), .rtol = 1e-5, .atol = 1e-5 },
    { .name = "255", .n_in = 4, .in = MOMENTUM_IN(255, HYPER), .rtol = 1e-5, .atol = 1e-5 },
    { .name = "2048", .n_in = 4, .in = MOMENTUM_IN(2048, HYPER), .rtol = 1e-5, .atol = 1e-5 },
    { .name = "nesterov_3", .attr = &nesterov, .n_in = 4, .in = MOMENTUM_IN(3, HYPER), .rtol = 1e-5, .atol = 1e-5 },
    { .name = "nesterov_2051",
      .attr = &nesterov,
      .n_in = 4,
      .in = MOMENTUM_IN(2051, HYPER),
      .rtol = 1e-5,
      .atol = 1e-5 },
    { .name = "4M",
      .n_in = 4,
      .in = MOMENTUM_IN(4194304, HYPER),
      .rtol = 1e-5,
      .atol = 1e-5,
      .large = true,
      .benchmark = true },
};

RF_OP_CASES(sgd_update, sgd_cases);
RF_OP_CASES(momentum_update, momentum_cases);
RF_OP_CASES(adam_update, adam_cases);
RF_OP_CASES(rmsprop_update, rmsprop_cases);
RF_OP_CASES(adagrad_update, adagrad_cases);
RF_OP_CASES(lion_update, lion_cases);
RF_OP_CASES(nadam_update, nadam_cases);
RF_OP_CASES(lamb_moments, lamb_moments_cases);
RF_OP_CASES(lamb_update, lamb_cases);
RF_OP_CASES(muon_momentum, muon_momentum_cases);
RF_OP_CASES(muon_update, muon_cases);
RF_OP_CASES(average_update, average_cases);
RF_OP_CASES(overwrite, overwrite_cases);
RF_OP_CASES(assign, assign_cases);
RF_OP_CASES(accumulate, accumulate_cases);
