/* SPDX-License-Identifier: Apache-2.0 */
/* Updates with slots in few bits. */
#include "base/state_form.h"
#include "tests/ops/cases/cases.h"

#define VECTOR(n) RF_TENSOR(RF_F32, RF_FILL_NORMAL, 0, 1, 1, n)
#define HYPER RF_TENSOR(RF_F32, RF_FILL_HYPER, 0.1f, 0.9f, 1, RF_HYPER_COUNT)
#define SKIP RF_TENSOR(RF_F32, RF_FILL_UNIFORM, 1, 1.5f, 1, RF_HYPER_COUNT)
#define SHADOW(type, n) RF_TENSOR(type, RF_FILL_NORMAL, 0, 1, 1, n)
#define WORDS(type, n) ((n) / RF_STATE_BLOCK * (RF_OPTIMIZER_STATE_##type == RF_OPTIMIZER_STATE_8BIT ? 65 : 128))
/* a: words of others before the blocks. b: whether numbers are positive. */
#define SLOT(type, n, before, positive) RF_TENSOR(RF_I32, RF_FILL_STATE, before, positive, 1, WORDS(type, n) + before)
#define ATTR(type, nesterov, first)                                                                                    \
    .attr = &(const rf_packed_update_attr)                                                                             \
    {                                                                                                                  \
        RF_OPTIMIZER_STATE_##type, nesterov, first                                                                     \
    }
#define ONE(text, type, n, before, nesterov, first, hyper)                                                             \
    .name = text, ATTR(type, nesterov, first), .n_in = 4,                                                              \
    .in = { VECTOR(n), VECTOR(n), SLOT(type, n, before, 0), hyper }, .rtol = 1e-5, .atol = 1e-5
#define TWO(text, type, n, before, first, hyper)                                                                       \
    .name = text, ATTR(type, 0, first), .n_in = 5,                                                                     \
    .in = { VECTOR(n), VECTOR(n), SLOT(type, n, before, 0), SLOT(type, n, before, 1), hyper }, .rtol = 1e-5,           \
    .atol = 1e-5
#define TWO_SHADOWED(text, type, n, shadow, tolerance)                                                                 \
    .name = text, ATTR(type, 0, 0), .n_in = 6,                                                                         \
    .in = { VECTOR(n), VECTOR(n), SLOT(type, n, 0, 0), SLOT(type, n, 0, 1), HYPER, SHADOW(shadow, n) },                \
    .rtol = tolerance, .atol = tolerance * 1e-2

static const rf_op_case adam_cases[] = {
    { TWO("8bit_256", 8BIT, 256, 0, 0, HYPER) },
    { TWO("8bit_768_after_63", 8BIT, 768, 63, 1024, HYPER) },
    { TWO("bf16_256", BF16, 256, 0, 0, HYPER) },
    { TWO("bf16_1280_after_64", BF16, 1280, 64, UINT64_C(0x3fffffe00), HYPER) },
    { TWO("8bit_skipped_512", 8BIT, 512, 1, 0, SKIP) },
    { TWO("bf16_skipped_512", BF16, 512, 0, 0, SKIP) },
    { TWO_SHADOWED("8bit_f16_512", 8BIT, 512, RF_F16, 0x1p-10) },
    { TWO_SHADOWED("8bit_bf16_2048", 8BIT, 2048, RF_BF16, 0x1p-7) },
    { TWO_SHADOWED("bf16_bf16_768", BF16, 768, RF_BF16, 0x1p-7) },
    { TWO("8bit_1M", 8BIT, 1048576, 0, 0, HYPER), .large = true, .benchmark = true },
    { TWO("bf16_1M", BF16, 1048576, 0, 0, HYPER), .large = true, .benchmark = true },
};
static const rf_op_case adam_gpu_cases[] = {
    { TWO("8bit_64M", 8BIT, 67108864, 0, 0, HYPER) },
    { TWO("bf16_64M", BF16, 67108864, 0, 0, HYPER) },
};
static const rf_op_case momentum_cases[] = {
    { ONE("8bit_256", 8BIT, 256, 0, 0, 0, HYPER) },
    { ONE("8bit_nesterov_1024_after_7", 8BIT, 1024, 7, 1, 4096, HYPER) },
    { ONE("bf16_512", BF16, 512, 0, 0, 256, HYPER) },
    { ONE("bf16_nesterov_768", BF16, 768, 0, 1, 0, HYPER) },
    { ONE("8bit_skipped_256", 8BIT, 256, 0, 0, 0, SKIP) },
};
static const rf_op_case lion_cases[] = {
    { ONE("8bit_256", 8BIT, 256, 0, 0, 0, HYPER) },
    { ONE("8bit_1024_after_7", 8BIT, 1024, 7, 0, 4096, HYPER) },
    { ONE("bf16_512", BF16, 512, 0, 0, 256, HYPER) },
    { ONE("bf16_skipped_256", BF16, 256, 0, 0, 0, SKIP) },
};

RF_OP_AND_GPU_CASES(adam_packed, adam_cases, adam_gpu_cases);
RF_OP_CASES(momentum_packed, momentum_cases);
RF_OP_CASES(lion_packed, lion_cases);
