/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tolerances follow Vulkan's precision rules (appendix "Precision and Operation of SPIR-V Instructions"): exp within
 * 3 + 2 |x| units in the last place, log within 3 or 2^-21 near 1, division within 2.5, pow that of exp2(y log2 x).
 * Additions and the like are exact: tolerance 0.
 */
#include "tests/ops/cases/cases.h"

#define F32(...) RF_DESC(RF_F32, __VA_ARGS__)
#define NORMAL(...) RF_TENSOR(RF_F32, RF_FILL_NORMAL, 0, 1, __VA_ARGS__)
#define WIDE(...) RF_TENSOR(RF_F32, RF_FILL_NORMAL, 0, 30, __VA_ARGS__)
#define POSITIVE(...) RF_TENSOR(RF_F32, RF_FILL_UNIFORM, 0.1f, 4, __VA_ARGS__)
#define DISTINCT(...) RF_TENSOR(RF_F32, RF_FILL_DISTINCT, 0, 0, __VA_ARGS__)
#define EXPONENT(...) RF_TENSOR(RF_F32, RF_FILL_INTEGER, 0, 5, __VA_ARGS__)
#define I32(...) RF_TENSOR(RF_I32, RF_FILL_INTEGER, -3, 4, __VA_ARGS__)
/* From 2^24 on, neighbours are one number as f32. */
#define LARGE_I32(...) RF_TENSOR(RF_I32, RF_FILL_INTEGER, 16777214, 16777222, __VA_ARGS__)
#define SMALL_INT(...) RF_TENSOR(RF_F32, RF_FILL_INTEGER, -3, 4, __VA_ARGS__)

#define PROGRAM(name, n, ...) static const rf_elementwise_attr name = { n, { __VA_ARGS__ } }
#define UNARY(fn) PROGRAM(p_##fn, 1, { RF_FN_##fn, 0, 0, 0, 0 })
#define UNARY_IMM(fn, imm) PROGRAM(p_##fn, 1, { RF_FN_##fn, 0, 0, 0, imm })
#define BINARY(fn) PROGRAM(p_##fn, 1, { RF_FN_##fn, 0, 1, 0, 0 })
UNARY(COPY);
UNARY(NEGATIVE);
UNARY(ABS);
UNARY(SIGN);
UNARY(SQUARE);
UNARY(EXP);
UNARY(LOG);
UNARY(SQRT);
UNARY(TANH);
UNARY(SIGMOID);
UNARY(RELU);
UNARY(GELU_ERF);
UNARY(GELU_TANH);
UNARY(GELU_ERF_SLOPE);
UNARY(GELU_TANH_SLOPE);
UNARY(SIN);
UNARY(COS);
UNARY(FLOOR);
UNARY(ROUND);
UNARY(LOG1P);
UNARY(EXPM1);
UNARY(ERF);
UNARY_IMM(LEAKY_RELU, 0.2f);
UNARY_IMM(ADD_IMM, 1.5f);
UNARY_IMM(MUL_IMM, -0.75f);
BINARY(ADD);
BINARY(SUBTRACT);
BINARY(MULTIPLY);
BINARY(DIVIDE);
BINARY(POW);
BINARY(MAXIMUM);
BINARY(MINIMUM);
BINARY(GREATER);
BINARY(GREATER_EQUAL);
BINARY(EQUAL);
BINARY(RELU_GRAD);
BINARY(TANH_GRAD);
BINARY(SIGMOID_GRAD);
BINARY(SQRT_GRAD);
BINARY(POW_SLOPE);
BINARY(POW_LOG);
BINARY(WHERE);
BINARY(WHERE_NOT);
BINARY(WHOLE_GREATER);
BINARY(WHOLE_GREATER_EQUAL);
BINARY(WHOLE_EQUAL);
/* b where the i32 a is not c, else 0: labels that are not padding */
PROGRAM(masked, 2, { RF_FN_WHOLE_EQUAL, 0, 2, 0, 0 }, { RF_FN_WHERE_NOT, 3, 1, 0, 0 });
/* c where a is not 0, else d */
PROGRAM(choice, 3, { RF_FN_WHERE, 0, 1, 0, 0 }, { RF_FN_WHERE_NOT, 0, 2, 0, 0 }, { RF_FN_ADD, 3, 4, 0, 0 });
PROGRAM(p_LEAKY_RELU_GRAD, 1, { RF_FN_LEAKY_RELU_GRAD, 0, 1, 0, 0.2f });
/* a * b + c */
PROGRAM(chain2, 2, { RF_FN_MULTIPLY, 0, 1, 0, 0 }, { RF_FN_ADD, 3, 2, 0, 0 });
/* relu(a * b + c) - a */
PROGRAM(chain4, 4, { RF_FN_MULTIPLY, 0, 1, 0, 0 }, { RF_FN_ADD, 3, 2, 0, 0 }, { RF_FN_RELU, 4, 0, 0, 0 },
        { RF_FN_SUBTRACT, 5, 0, 0, 0 });
/* Eight steps over six inputs: each register read at least once. */
PROGRAM(chain8, 8, { RF_FN_ADD, 0, 1, 0, 0 }, { RF_FN_MULTIPLY, 2, 3, 0, 0 }, { RF_FN_SUBTRACT, 6, 7, 0, 0 },
        { RF_FN_TANH, 8, 0, 0, 0 }, { RF_FN_MUL_IMM, 9, 0, 0, 0.5f }, { RF_FN_ADD, 10, 4, 0, 0 },
        { RF_FN_MAXIMUM, 11, 5, 0, 0 }, { RF_FN_ADD_IMM, 12, 0, 0, 0.25f });
/* (x - mean) * factor * gamma + beta: what normalisation is made of */
PROGRAM(normalise, 4, { RF_FN_SUBTRACT, 0, 1, 0, 0 }, { RF_FN_MULTIPLY, 5, 2, 0, 0 }, { RF_FN_MULTIPLY, 6, 3, 0, 0 },
        { RF_FN_ADD, 7, 4, 0, 0 });
/* A program of dy, x, mean, scale, shift, slope and level: the gradient of batch normalization behind a ReLU. Eight
 * steps over seven inputs. */
PROGRAM(behind_relu, 8, { RF_FN_SUBTRACT, 1, 2, 0, 0 }, { RF_FN_MULTIPLY, 7, 3, 0, 0 }, { RF_FN_ADD, 8, 4, 0, 0 },
        { RF_FN_RELU_GRAD, 0, 9, 0, 0 }, { RF_FN_MULTIPLY, 7, 5, 0, 0 }, { RF_FN_ADD, 11, 6, 0, 0 },
        { RF_FN_MULTIPLY, 10, 3, 0, 0 }, { RF_FN_ADD, 13, 12, 0, 0 });

/* Tolerances: exact, a few units in the last place, a chain of those. */
#define EXACT .rtol = 0, .atol = 0
#define ULPS .rtol = 1e-6, .atol = 1e-37
#define LOOSE .rtol = 4e-6, .atol = 2e-6

#define ONE(label, program, x, ...)                                                                                    \
    {                                                                                                                  \
        .name = label, .attr = &program, .n_in = 1, .in = { x }, __VA_ARGS__                                           \
    }
#define TWO(label, program, x, y, ...)                                                                                 \
    {                                                                                                                  \
        .name = label, .attr = &program, .n_in = 2, .in = { x, y }, __VA_ARGS__                                        \
    }
#define GRADIENT .check_gradient = true
#define BENCHMARK .large = true, .benchmark = true

#define BEHIND_RELU(label, columns, ...)                                                                               \
    .name = label, .attr = &behind_relu, .n_in = 7, .rtol = 4e-6, .atol = 4e-6, .by_sign = true,                       \
    .in = { NORMAL(__VA_ARGS__), NORMAL(__VA_ARGS__), NORMAL(1, columns), NORMAL(1, columns),                          \
            NORMAL(1, columns),  NORMAL(1, columns),  NORMAL(1, columns) }
static const rf_op_case elementwise_cases[] = {
    { BEHIND_RELU("behind_relu_1x1", 1, 2, 1, 1) },
    { BEHIND_RELU("behind_relu_3x5", 5, 2, 3, 5) },
    { BEHIND_RELU("behind_relu_2x3x4", 4, 3, 2, 3, 4) },
    { BEHIND_RELU("behind_relu_257x31", 31, 2, 257, 31) },
    { BEHIND_RELU("behind_relu_7x5x9x48", 48, 4, 7, 5, 9, 48) },
    { BEHIND_RELU("behind_relu_64x28x28x48", 48, 4, 64, 28, 28, 48), BENCHMARK },
    /* one operand, at sizes around vectors and workgroups */
    ONE("copy_1", p_COPY, NORMAL(1, 1), EXACT),
    ONE("copy_scalar", p_COPY, NORMAL(0, 0), EXACT, GRADIENT),
    ONE("negative_3", p_NEGATIVE, NORMAL(1, 3), EXACT, GRADIENT),
    ONE("abs_5", p_ABS, NORMAL(1, 5), EXACT, GRADIENT),
    ONE("sign_255", p_SIGN, SMALL_INT(1, 255), EXACT),
    ONE("square_257", p_SQUARE, NORMAL(1, 257), EXACT),
    ONE("square_5", p_SQUARE, NORMAL(1, 5), EXACT, GRADIENT),
    ONE("exp_1021", p_EXP, NORMAL(1, 1021), LOOSE),
    ONE("exp_wide", p_EXP, WIDE(1, 1024), .rtol = 4e-5, .atol = 1e-37),
    ONE("exp_4", p_EXP, NORMAL(1, 4), LOOSE, GRADIENT),
    ONE("log_1021", p_LOG, POSITIVE(1, 1021), LOOSE),
    ONE("log_4", p_LOG, POSITIVE(1, 4), LOOSE, GRADIENT),
    ONE("sqrt_256", p_SQRT, POSITIVE(1, 256), ULPS),
    ONE("sqrt_5", p_SQRT, POSITIVE(1, 5), ULPS, GRADIENT),
    ONE("tanh_1021", p_TANH, NORMAL(1, 1021), LOOSE),
    ONE("tanh_wide", p_TANH, WIDE(1, 1024), LOOSE),
    ONE("tanh_5", p_TANH, NORMAL(1, 5), LOOSE, GRADIENT),
    ONE("sigmoid_1021", p_SIGMOID, NORMAL(1, 1021), LOOSE),
    ONE("sigmoid_wide", p_SIGMOID, WIDE(1, 1024), LOOSE),
    ONE("sigmoid_5", p_SIGMOID, NORMAL(1, 5), LOOSE, GRADIENT),
    ONE("relu_1", p_RELU, NORMAL(1, 1), EXACT),
    ONE("relu_7", p_RELU, NORMAL(1, 7), EXACT, GRADIENT),
    ONE("relu_2047", p_RELU, NORMAL(1, 2047), EXACT),
    ONE("relu_2048", p_RELU, NORMAL(1, 2048), EXACT),
    ONE("relu_2049", p_RELU, NORMAL(1, 2049), EXACT),
    ONE("leaky_relu_7", p_LEAKY_RELU, NORMAL(1, 7), ULPS, GRADIENT),
    ONE("gelu_1021", p_GELU_ERF, NORMAL(1, 1021), .rtol = 1e-6, .atol = 1e-6),
    ONE("gelu_wide", p_GELU_ERF, WIDE(1, 1024), .rtol = 1e-6, .atol = 1e-6),
    ONE("gelu_5", p_GELU_ERF, NORMAL(1, 5), LOOSE, GRADIENT),
    ONE("gelu_tanh_1021", p_GELU_TANH, NORMAL(1, 1021), LOOSE),
    ONE("gelu_tanh_wide", p_GELU_TANH, WIDE(1, 1024), LOOSE),
    ONE("gelu_tanh_5", p_GELU_TANH, NORMAL(1, 5), LOOSE, GRADIENT),
    ONE("gelu_slope_1021", p_GELU_ERF_SLOPE, NORMAL(1, 1021), LOOSE),
    ONE("gelu_slope_5", p_GELU_ERF_SLOPE, NORMAL(1, 5), LOOSE, GRADIENT),
    ONE("gelu_tanh_slope_1021", p_GELU_TANH_SLOPE, WIDE(1, 1021), LOOSE),
    /* tests/ops/test_accuracy.c and derivatives in test_elementwise_host.c know more of these. */
    ONE("sin_37", p_SIN, WIDE(1, 37), LOOSE),
    ONE("cos_37", p_COS, WIDE(1, 37), LOOSE),
    ONE("floor_257", p_FLOOR, WIDE(1, 257), EXACT),
    ONE("round_255", p_ROUND, WIDE(1, 255), .rtol = 1e-6, .atol = 0),
    ONE("log1p_37", p_LOG1P, POSITIVE(1, 37), LOOSE),
    ONE("expm1_37", p_EXPM1, NORMAL(1, 37), LOOSE),
    ONE("erf_37", p_ERF, NORMAL(1, 37), LOOSE),
    ONE("add_immediate_3", p_ADD_IMM, NORMAL(1, 3), EXACT, GRADIENT),
    ONE("multiply_immediate_9", p_MUL_IMM, NORMAL(1, 9), EXACT, GRADIENT),

    /* two operands of one shape */
    TWO("add_3x5x7", p_ADD, NORMAL(3, 3, 5, 7), NORMAL(3, 3, 5, 7), EXACT, GRADIENT),
    TWO("subtract_8", p_SUBTRACT, NORMAL(1, 8), NORMAL(1, 8), EXACT, GRADIENT),
    TWO("multiply_13", p_MULTIPLY, NORMAL(1, 13), NORMAL(1, 13), EXACT, GRADIENT),
    TWO("divide_9", p_DIVIDE, NORMAL(1, 9), POSITIVE(1, 9), ULPS, GRADIENT),
    TWO("divide_1021", p_DIVIDE, NORMAL(1, 1021), POSITIVE(1, 1021), ULPS),
    TWO("pow_1021", p_POW, POSITIVE(1, 1021), NORMAL(1, 1021), .rtol = 1e-5, .atol = 1e-6),
    TWO("pow_negative_base", p_POW, SMALL_INT(1, 255), EXPONENT(1, 255), .rtol = 1e-5, .atol = 1e-6),
    TWO("pow_5", p_POW, POSITIVE(1, 5), NORMAL(1, 5), .rtol = 1e-5, .atol = 1e-6, GRADIENT),
    TWO("pow_slope_17", p_POW_SLOPE, POSITIVE(1, 17), NORMAL(1, 17), .rtol = 1e-5, .atol = 1e-6, GRADIENT),
    TWO("pow_slope_negative_base", p_POW_SLOPE, SMALL_INT(1, 255), EXPONENT(1, 255), .rtol = 1e-5, .atol = 1e-6),
    TWO("pow_log_17", p_POW_LOG, POSITIVE(1, 17), NORMAL(1, 17), LOOSE, GRADIENT),
    TWO("maximum_257", p_MAXIMUM, NORMAL(1, 257), NORMAL(1, 257), EXACT),
    TWO("maximum_11", p_MAXIMUM, NORMAL(1, 11), NORMAL(1, 11), EXACT, GRADIENT),
    TWO("minimum_11", p_MINIMUM, NORMAL(1, 11), NORMAL(1, 11), EXACT, GRADIENT),
    TWO("greater_255", p_GREATER, SMALL_INT(1, 255), SMALL_INT(1, 255), EXACT),
    TWO("greater_equal_255", p_GREATER_EQUAL, SMALL_INT(1, 255), SMALL_INT(1, 255), EXACT),
    TWO("where_255", p_WHERE, SMALL_INT(1, 255), NORMAL(1, 255), EXACT),
    TWO("where_17", p_WHERE, NORMAL(1, 17), NORMAL(1, 17), EXACT, GRADIENT),
    TWO("where_not_257", p_WHERE_NOT, SMALL_INT(1, 257), NORMAL(1, 257), EXACT),
    { .name = "choice_33x64",
      .attr = &choice,
      .n_in = 3,
      .in = { SMALL_INT(2, 33, 1), NORMAL(2, 33, 64), NORMAL(1, 64) },
      EXACT },
    TWO("whole_greater_257", p_WHOLE_GREATER, I32(1, 257), I32(1, 257), EXACT),
    TWO("whole_greater_equal_33x12", p_WHOLE_GREATER_EQUAL, LARGE_I32(2, 33, 12), LARGE_I32(1, 12), EXACT),
    TWO("whole_equal_outer", p_WHOLE_EQUAL, I32(2, 37, 1), I32(1, 13), EXACT),
    { .name = "masked_33x64",
      .attr = &masked,
      .n_in = 3,
      .in = { I32(2, 33, 64), NORMAL(2, 33, 64), I32(0, 0) },
      EXACT },
    TWO("equal_255", p_EQUAL, SMALL_INT(1, 255), SMALL_INT(1, 255), EXACT),
    TWO("relu_grad_17", p_RELU_GRAD, NORMAL(1, 17), NORMAL(1, 17), EXACT, GRADIENT),
    TWO("leaky_relu_grad_17", p_LEAKY_RELU_GRAD, NORMAL(1, 17), NORMAL(1, 17), ULPS, GRADIENT),
    TWO("tanh_grad_17", p_TANH_GRAD, NORMAL(1, 17), NORMAL(1, 17), LOOSE, GRADIENT),
    TWO("sigmoid_grad_17", p_SIGMOID_GRAD, NORMAL(1, 17), NORMAL(1, 17), LOOSE, GRADIENT),
    TWO("sqrt_grad_17", p_SQRT_GRAD, NORMAL(1, 17), POSITIVE(1, 17), LOOSE, GRADIENT),

    /* broadcasting */
    TWO("scalar_right", p_SUBTRACT, NORMAL(2, 3, 5), NORMAL(0, 0), EXACT, GRADIENT),
    TWO("scalar_left", p_SUBTRACT, NORMAL(0, 0), NORMAL(1, 257), EXACT),
    TWO("row_of_vectors", p_ADD, NORMAL(2, 33, 64), NORMAL(1, 64), EXACT),
    TWO("row_of_4", p_ADD, NORMAL(2, 33, 4), NORMAL(1, 4), EXACT),
    TWO("row_odd", p_ADD, NORMAL(2, 33, 13), NORMAL(1, 13), EXACT),
    TWO("row_gradient", p_MULTIPLY, NORMAL(2, 3, 5), NORMAL(1, 5), EXACT, GRADIENT),
    TWO("row_left_gradient", p_DIVIDE, NORMAL(1, 5), POSITIVE(2, 3, 5), ULPS, GRADIENT),
    TWO("column_of_vectors", p_MULTIPLY, NORMAL(2, 33, 64), NORMAL(2, 33, 1), EXACT),
    TWO("column_odd", p_MULTIPLY, NORMAL(2, 37, 13), NORMAL(2, 37, 1), EXACT, .check_gradient = false),
    TWO("column_gradient", p_MULTIPLY, NORMAL(2, 3, 5), NORMAL(2, 3, 1), EXACT, GRADIENT),
    TWO("outer_sum", p_ADD, NORMAL(2, 37, 1), NORMAL(1, 13), EXACT),
    TWO("outer_gradient", p_MULTIPLY, NORMAL(2, 3, 1), NORMAL(1, 4), EXACT, GRADIENT),
    TWO("middle", p_ADD, NORMAL(3, 5, 7, 8), NORMAL(3, 1, 7, 1), EXACT),
    TWO("middle_gap", p_ADD, NORMAL(3, 5, 7, 9), NORMAL(3, 5, 1, 9), EXACT),
    TWO("gap_of_vectors", p_ADD, NORMAL(3, 5, 7, 16), NORMAL(3, 5, 1, 16), EXACT),
    TWO("gap_of_4", p_MULTIPLY, NORMAL(3, 3, 5, 12), NORMAL(3, 3, 1, 12), EXACT),
    TWO("gap_of_matrices", p_ADD, NORMAL(4, 2, 3, 5, 8), NORMAL(4, 2, 1, 5, 8), EXACT),
    TWO("gap_and_row", p_DIVIDE, NORMAL(3, 5, 1, 9), POSITIVE(3, 5, 7, 9), ULPS),
    TWO("gap_gradient", p_MULTIPLY, NORMAL(3, 2, 3, 2), NORMAL(3, 2, 1, 2), EXACT, GRADIENT),
    TWO("both_gaps", p_SUBTRACT, NORMAL(4, 3, 1, 5, 1), NORMAL(4, 1, 7, 1, 4), EXACT),
    TWO("alternating_rank6", p_SUBTRACT, NORMAL(6, 2, 1, 3, 1, 2, 1), NORMAL(6, 1, 3, 1, 4, 1, 5), EXACT),

    /* programs */
    { .name = "chain2_1021",
      .attr = &chain2,
      .n_in = 3,
      .in = { NORMAL(1, 1021), NORMAL(1, 1021), NORMAL(1, 1021) },
      LOOSE },
    { .name = "chain2_row",
      .attr = &chain2,
      .n_in = 3,
      .in = { NORMAL(2, 3, 4), NORMAL(1, 4), NORMAL(0, 0) },
      LOOSE,
      GRADIENT },
    { .name = "chain2_gap",
      .attr = &chain2,
      .n_in = 3,
      .in = { NORMAL(3, 3, 1, 5), NORMAL(3, 1, 7, 1), NORMAL(3, 3, 7, 5) },
      LOOSE },
    { .name = "chain2_1020",
      .attr = &chain2,
      .n_in = 3,
      .in = { NORMAL(1, 1020), NORMAL(1, 1020), NORMAL(1, 1020) },
      LOOSE },
    { .name = "chain4_1021",
      .attr = &chain4,
      .n_in = 3,
      .in = { NORMAL(1, 1021), NORMAL(1, 1021), NORMAL(1, 1021) },
      LOOSE },
    { .name = "chain4_row",
      .attr = &chain4,
      .n_in = 3,
      .in = { NORMAL(2, 3, 4), NORMAL(1, 4), NORMAL(0, 0) },
      LOOSE,
      GRADIENT },
    { .name = "chain8_515",
      .attr = &chain8,
      .n_in = 6,
      .in = { NORMAL(1, 515), NORMAL(1, 515), NORMAL(1, 515), NORMAL(1, 515), NORMAL(1, 515), NORMAL(1, 515) },
      LOOSE },
    { .name = "chain8_516",
      .attr = &chain8,
      .n_in = 6,
      .in = { NORMAL(1, 516), NORMAL(1, 516), NORMAL(1, 516), NORMAL(1, 516), NORMAL(1, 516), NORMAL(1, 516) },
      LOOSE },
    { .name = "chain8_mixed",
      .attr = &chain8,
      .n_in = 6,
      .in = { NORMAL(2, 6, 16), NORMAL(1, 16), NORMAL(2, 6, 1), NORMAL(0, 0), NORMAL(1, 1), NORMAL(2, 6, 16) },
      LOOSE,
      .large = true },
    { .name = "chain8_gradient",
      .attr = &chain8,
      .n_in = 6,
      .in = { NORMAL(2, 2, 3), NORMAL(1, 3), NORMAL(2, 2, 1), NORMAL(0, 0), NORMAL(1, 1), DISTINCT(2, 2, 3) },
      LOOSE,
      GRADIENT },
    { .name = "chain8_rank3",
      .attr = &chain8,
      .n_in = 6,
      .in = { NORMAL(3, 4, 5, 6), NORMAL(1, 6), NORMAL(3, 4, 1, 6), NORMAL(2, 5, 1), NORMAL(3, 4, 1, 1), NORMAL(0, 0) },
      LOOSE,
      .large = true },
    { .name = "normalise_64x32",
      .attr = &normalise,
      .n_in = 5,
      .in = { NORMAL(2, 64, 32), NORMAL(1, 32), POSITIVE(1, 32), NORMAL(1, 32), NORMAL(1, 32) },
      LOOSE },
    { .name = "normalise_rows_7x12",
      .attr = &normalise,
      .n_in = 5,
      .in = { NORMAL(2, 7, 12), NORMAL(2, 7, 1), POSITIVE(2, 7, 1), NORMAL(1, 12), NORMAL(1, 12) },
      LOOSE },

    /* benchmarks */
    TWO("add_4M", p_ADD, NORMAL(1, 4194304), NORMAL(1, 4194304), EXACT, BENCHMARK),
    TWO("add_4M_less_1", p_ADD, NORMAL(1, 4194303), NORMAL(1, 4194303), EXACT, BENCHMARK),
    TWO("add_row_4M", p_ADD, NORMAL(2, 65536, 64), NORMAL(1, 64), EXACT, BENCHMARK),
    TWO("multiply_column_4M", p_MULTIPLY, NORMAL(2, 65536, 64), NORMAL(2, 65536, 1), EXACT, BENCHMARK),
    TWO("gap_4M", p_MULTIPLY, NORMAL(3, 64, 1024, 64), NORMAL(3, 64, 1, 64), EXACT, BENCHMARK),
    ONE("relu_4M", p_RELU, NORMAL(1, 4194304), EXACT, BENCHMARK),
    ONE("gelu_4M", p_GELU_ERF, NORMAL(1, 4194304), .rtol = 1e-6, .atol = 1e-6, BENCHMARK),
    { .name = "chain4_4M",
      .attr = &chain4,
      .n_in = 3,
      .in = { NORMAL(1, 4194304), NORMAL(1, 4194304), NORMAL(1, 4194304) },
      LOOSE,
      BENCHMARK },
};

RF_OP_CASES(elementwise, elementwise_cases);
