/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/ops/cases/cases.h"

static const uint32_t to_f32 = RF_F32, to_f16 = RF_F16, to_bf16 = RF_BF16, to_i32 = RF_I32, to_u8 = RF_U8;
#define CAST_CASE(label, attributes, type, size, fill, a, b, ...)                                                      \
    {                                                                                                                  \
        .name = label, .attr = &attributes, .n_in = 1, .in = { { RF_DESC(type, 1, size), fill, a, b } }, __VA_ARGS__   \
    }
/* A type to all types: an awkward size for each. */
#define CAST_FROM(from, name, fill, a, b)                                                                              \
    CAST_CASE(name "_to_f32", to_f32, from, 257, fill, a, b, .large = false),                                          \
        CAST_CASE(name "_to_f16", to_f16, from, 1021, fill, a, b, .large = false),                                     \
        CAST_CASE(name "_to_bf16", to_bf16, from, 1022, fill, a, b, .large = false),                                   \
        CAST_CASE(name "_to_i32", to_i32, from, 255, fill, a, b, .large = false),                                      \
        CAST_CASE(name "_to_u8", to_u8, from, 1023, fill, a, b, .saturates = from != RF_U8)
static const rf_op_case cases[] = {
    CAST_FROM(RF_F32, "f32", RF_FILL_NORMAL, 3, 200),
    CAST_FROM(RF_F16, "f16", RF_FILL_NORMAL, 3, 200),
    CAST_FROM(RF_BF16, "bf16", RF_FILL_NORMAL, 3, 200),
    CAST_FROM(RF_I32, "i32", RF_FILL_INTEGER, -400, 70000),
    CAST_FROM(RF_U8, "u8", RF_FILL_INTEGER, 0, 256),
    CAST_CASE("f32_tiny_to_f16", to_f16, RF_F32, 4096, RF_FILL_NORMAL, 0, 3e-7f, .large = false),
    CAST_CASE("f32_huge_to_f16", to_f16, RF_F32, 4096, RF_FILL_NORMAL, 0, 60000, .saturates = true),
    CAST_CASE("f32_huge_to_i32", to_i32, RF_F32, 4096, RF_FILL_NORMAL, 0, 2e9f, .saturates = true),
    CAST_CASE("u8_4112_to_f32", to_f32, RF_U8, 4112, RF_FILL_INTEGER, 0, 256, .large = false),
    CAST_CASE("u8_16_to_f32", to_f32, RF_U8, 16, RF_FILL_INTEGER, 0, 256, .large = false),
    CAST_CASE("u8_1_to_f32", to_f32, RF_U8, 1, RF_FILL_INTEGER, 0, 256, .large = false),
    CAST_CASE("f32_1_to_u8", to_u8, RF_F32, 1, RF_FILL_UNIFORM, 0, 256, .large = false),
    CAST_CASE("f32_3_to_u8", to_u8, RF_F32, 3, RF_FILL_UNIFORM, 0, 256, .large = false),
    CAST_CASE("f32_5_to_f16", to_f16, RF_F32, 5, RF_FILL_NORMAL, 0, 1, .large = false),
    CAST_CASE("f32_3_to_f16", to_f16, RF_F32, 3, RF_FILL_NORMAL, 0, 1, .large = false),
    CAST_CASE("u8_to_f32_4M", to_f32, RF_U8, 4194304, RF_FILL_INTEGER, 0, 256, .large = true, .benchmark = true),
    CAST_CASE("f16_to_f32_4M", to_f32, RF_F16, 4194304, RF_FILL_NORMAL, 0, 1, .large = true, .benchmark = true),
    CAST_CASE("f32_to_bf16_4M", to_bf16, RF_F32, 4194304, RF_FILL_NORMAL, 0, 1, .large = true, .benchmark = true),
    CAST_CASE("f32_to_f16_4M", to_f16, RF_F32, 4194304, RF_FILL_NORMAL, 0, 1, .large = true, .benchmark = true),
};

RF_OP_CASES(cast, cases);
