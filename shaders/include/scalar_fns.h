/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every scalar function of the element-wise op, for C and for GLSL: X(number, symbol, name, operands, C, GLSL).
 * The C form works on doubles a, b, imm and is the reference; the GLSL form works on vec4 a, b and float imm, with the
 * helpers of scalar_math.glsl. The operands of WHOLE_... are i32, whose bits shaders carry in floats. Numbers are those
 * of rf_scalar_fn (checked at compile time in src/ops/pointwise/common/elementwise_table.c).
 *
 * The rule for numbers that are none, here and in all other ops, alone or fused, on every device: a diverging training
 * must not look healthy.
 *   NaN        Whatever a NaN operand has a part in is NaN. maximum, minimum, reduce_max and max pooling give NaN where
 *              any operand is NaN. Among several, argmax tells the first, and max pooling's gradient goes to the last,
 * as in PyTorch. The gradients of relu, maximum and minimum are NaN where an operand is, and so is that of clipping,
 * which keeps NaN. Exceptions: comparisons are false, as in C; pow(NaN, 0) and pow(1, NaN) are 1, as in C; what where
 * does not take has no part, nor have classes of weight 0 and elements that dropout drops; integers have no NaN, casts
 * give 0. infinity   As C has it. In sums of products kernels pad with zeros: where the operand whose columns become
 * the output's (matmul's second, the kernel) has an infinity, the outputs of its column may be NaN instead.
 *              Convolutions by blocks of 2 x 2 results (lanes_winograd.comp) make all of them NaN, or infinite, where a
 *              pixel that one of them depends on is NaN or infinite.
 *   zero       0 and -0 are equal; their signs show in what is divided by them and in powers. Which of them a sum,
 *              a maximum or relu gives is not said.
 *   denormals  Devices may take them for zeros of their sign, as operands and as results.
 * tests/ops/special.c feeds them to every kernel of every op (test_ops --special).
 */
#ifndef RF_SCALAR_FNS_H
#define RF_SCALAR_FNS_H

/* The functions of programs of any length. */
#define RF_FUSED_SCALAR_FNS(X)                                                                                         \
    X(0, COPY, "copy", 1, a, a)                                                                                        \
    X(1, NEGATIVE, "negative", 1, -a, -a)                                                                              \
    X(2, ABS, "abs", 1, fabs(a), abs(a))                                                                               \
    X(3, SIGN, "sign", 1, rf_sign_of(a), rf_sign(a))                                                                   \
    X(4, SQUARE, "square", 1, a *a, a *a)                                                                              \
    X(5, EXP, "exp", 1, exp(a), rf_exp(a))                                                                             \
    X(6, LOG, "log", 1, log(a), rf_log(a))                                                                             \
    X(7, SQRT, "sqrt", 1, sqrt(a), sqrt(a))                                                                            \
    X(8, TANH, "tanh", 1, tanh(a), rf_tanh(a))                                                                         \
    X(9, SIGMOID, "sigmoid", 1, 1 / (1 + exp(-a)), rf_sigmoid(a))                                                      \
    X(10, RELU, "relu", 1, a < 0 ? 0 : a, rf_relu(a))                                                                  \
    X(11, LEAKY_RELU, "leaky_relu", 1, a > 0 ? a : imm * a, rf_leaky_relu(a, imm))                                     \
    X(12, GELU_ERF, "gelu", 1, a *rf_normal_cdf(a), rf_gelu(a))                                                        \
    X(13, GELU_TANH, "gelu_tanh", 1, a *rf_gelu_gate(a), a *rf_gelu_gate(a))                                           \
    X(14, GELU_ERF_SLOPE, "gelu_slope", 1, rf_normal_cdf(a) + a * rf_normal_pdf(a),                                    \
      rf_normal_cdf(a) + a * rf_normal_pdf(a))                                                                         \
    X(15, GELU_TANH_SLOPE, "gelu_tanh_slope", 1, rf_gelu_tanh_slope(a), rf_gelu_tanh_slope(a))                         \
    X(23, ADD_IMM, "add_immediate", 1, a + imm, a + imm)                                                               \
    X(24, MUL_IMM, "multiply_immediate", 1, a *imm, a *imm)                                                            \
    X(25, ADD, "add", 2, a + b, a + b)                                                                                 \
    X(26, SUBTRACT, "subtract", 2, a - b, a - b)                                                                       \
    X(27, MULTIPLY, "multiply", 2, a *b, a *b)                                                                         \
    X(28, DIVIDE, "divide", 2, a / b, a / b)                                                                           \
    X(30, MAXIMUM, "maximum", 2, rf_larger(a, b), rf_larger(a, b))                                                     \
    X(31, MINIMUM, "minimum", 2, rf_smaller(a, b), rf_smaller(a, b))                                                   \
    X(32, GREATER, "greater", 2, a > b ? 1 : 0, mix(vec4(0), vec4(1), greaterThan(a, b)))                              \
    X(33, GREATER_EQUAL, "greater_equal", 2, a >= b ? 1 : 0, mix(vec4(0), vec4(1), greaterThanEqual(a, b)))            \
    X(34, EQUAL, "equal", 2, a == b ? 1 : 0, mix(vec4(0), vec4(1), equal(a, b)))                                       \
    X(35, RELU_GRAD, "relu_grad", 2, rf_relu_grad(a, b), rf_relu_grad(a, b))                                           \
    X(36, LEAKY_RELU_GRAD, "leaky_relu_grad", 2, rf_leaky_relu_grad(a, b, imm), rf_leaky_relu_grad(a, b, imm))         \
    X(37, TANH_GRAD, "tanh_grad", 2, a *(1 - b * b), a *(1.0 - b * b))                                                 \
    X(38, SIGMOID_GRAD, "sigmoid_grad", 2, a *b *(1 - b), a *b *(1.0 - b))                                             \
    X(39, SQRT_GRAD, "sqrt_grad", 2, 0.5 * a / b, 0.5 * a / b)                                                         \
    X(42, WHERE, "where", 2, rf_if_set(a, b), rf_if_set(a, b))                                                         \
    X(43, WHERE_NOT, "where_not", 2, rf_unless_set(a, b), rf_unless_set(a, b))                                         \
    X(44, WHOLE_GREATER, "whole_greater", 2, a > b ? 1 : 0,                                                            \
      mix(vec4(0), vec4(1), greaterThan(floatBitsToInt(a), floatBitsToInt(b))))                                        \
    X(45, WHOLE_GREATER_EQUAL, "whole_greater_equal", 2, a >= b ? 1 : 0,                                               \
      mix(vec4(0), vec4(1), greaterThanEqual(floatBitsToInt(a), floatBitsToInt(b))))                                   \
    X(46, WHOLE_EQUAL, "whole_equal", 2, a == b ? 1 : 0,                                                               \
      mix(vec4(0), vec4(1), equal(floatBitsToInt(a), floatBitsToInt(b))))

/* The functions of programs of one step alone: what these would cost the shaders of longer ones, in each of their
 * steps, and those who wait for drivers to compile them, is more than they gain. */
#define RF_LONE_SCALAR_FNS(X)                                                                                          \
    X(16, SIN, "sin", 1, sin(a), rf_sine(a, 0))                                                                        \
    X(17, COS, "cos", 1, cos(a), rf_sine(a, 1))                                                                        \
    X(18, FLOOR, "floor", 1, floor(a), rf_keep_nan(floor(a), a))                                                       \
    X(19, ROUND, "round", 1, rint(a), rf_keep_nan(roundEven(a), a))                                                    \
    X(20, LOG1P, "log1p", 1, log1p(a), rf_log1p(a))                                                                    \
    X(21, EXPM1, "expm1", 1, expm1(a), rf_expm1(a))                                                                    \
    X(22, ERF, "erf", 1, erf(a), rf_erf(a))                                                                            \
    X(29, POW, "pow", 2, pow(a, b), rf_pow(a, b))                                                                      \
    X(40, POW_SLOPE, "pow_slope", 2, b == 0 ? 0 : b * pow(a, b - 1), rf_pow_slope(a, b))                               \
    X(41, POW_LOG, "pow_log", 2, a == 0 && b >= 0 ? 0 : log(a), rf_pow_log(a, b))

#define RF_SCALAR_FNS(X) RF_FUSED_SCALAR_FNS(X) RF_LONE_SCALAR_FNS(X)

#endif
