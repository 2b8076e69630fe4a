/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every scalar function of the element-wise op, for C and for GLSL: X(number, symbol, name, operands, C, GLSL).
 * The C form works on doubles a, b, imm and is the reference; the GLSL form works on vec4 a, b and float imm, with the
 * helpers of scalar_math.glsl. The operands of WHOLE_... are i32, whose bits shaders carry in floats. Numbers are those
 * of rf_scalar_fn (checked at compile time in src/ops/pointwise/elementwise_table.c).
 *
 * The rule for numbers that are none, here and in all other ops, alone or fused, on every device: a diverging training
 * must not look healthy.
 *   NaN        Whatever a NaN operand has a part in is NaN. maximum, minimum, reduce_max and max pooling give NaN where
 *              any operand is NaN. Of several, argmax tells the first, and max pooling's gradient goes to the last, as
 *              in PyTorch. Relu's gradient is NaN where its operand is. Clipping keeps NaN. Exceptions: comparisons are
 *              false, as in C, and so are the factors that select maximum's gradient; pow(NaN, 0) and pow(1, NaN) are
 *              1, as in C; what where does not take has no part, nor have classes of weight 0 and elements that dropout
 *              drops; integers have no NaN, casts give 0.
 *   infinity   As C has it. In sums of products kernels pad with zeros: where the operand whose columns become the
 *              output's (matmul's second, the kernel) has an infinity, the outputs of its column may be NaN instead.
 *   zero       0 and -0 are equal; their signs show in what is divided by them and in powers. Which of them a sum,
 *              a maximum or relu gives is not said.
 *   denormals  Devices may take them for zeros of their sign, as operands and as results.
 * tests/ops/special.c feeds them to every kernel of every op (test_ops --special).
 */
#ifndef RF_SCALAR_FNS_H
#define RF_SCALAR_FNS_H

#define RF_SCALAR_FNS(X)                                                                                               \
    X(0, COPY, "copy", 1, a, a)                                                                                        \
    X(1, NEGATIVE, "negative", 1, -a, -a)                                                                              \
    X(2, ABS, "abs", 1, fabs(a), abs(a))                                                                               \
    X(3, SIGN, "sign", 1, rf_sign(a), rf_sign(a))                                                                      \
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
    X(16, ADD_IMM, "add_immediate", 1, a + imm, a + imm)                                                               \
    X(17, MUL_IMM, "multiply_immediate", 1, a *imm, a *imm)                                                            \
    X(18, ADD, "add", 2, a + b, a + b)                                                                                 \
    X(19, SUBTRACT, "subtract", 2, a - b, a - b)                                                                       \
    X(20, MULTIPLY, "multiply", 2, a *b, a *b)                                                                         \
    X(21, DIVIDE, "divide", 2, a / b, a / b)                                                                           \
    X(22, POW, "pow", 2, pow(a, b), rf_pow(a, b))                                                                      \
    X(23, MAXIMUM, "maximum", 2, rf_larger(a, b), rf_larger(a, b))                                                     \
    X(24, MINIMUM, "minimum", 2, rf_smaller(a, b), rf_smaller(a, b))                                                   \
    X(25, GREATER, "greater", 2, a > b ? 1 : 0, mix(vec4(0), vec4(1), greaterThan(a, b)))                              \
    X(26, GREATER_EQUAL, "greater_equal", 2, a >= b ? 1 : 0, mix(vec4(0), vec4(1), greaterThanEqual(a, b)))            \
    X(27, EQUAL, "equal", 2, a == b ? 1 : 0, mix(vec4(0), vec4(1), equal(a, b)))                                       \
    X(28, RELU_GRAD, "relu_grad", 2, rf_relu_grad(a, b), rf_relu_grad(a, b))                                           \
    X(29, LEAKY_RELU_GRAD, "leaky_relu_grad", 2, rf_leaky_relu_grad(a, b, imm), rf_leaky_relu_grad(a, b, imm))         \
    X(30, TANH_GRAD, "tanh_grad", 2, a *(1 - b * b), a *(1.0 - b * b))                                                 \
    X(31, SIGMOID_GRAD, "sigmoid_grad", 2, a *b *(1 - b), a *b *(1.0 - b))                                             \
    X(32, SQRT_GRAD, "sqrt_grad", 2, 0.5 * a / b, 0.5 * a / b)                                                         \
    X(33, POW_SLOPE, "pow_slope", 2, b == 0 ? 0 : b * pow(a, b - 1), rf_pow_slope(a, b))                               \
    X(34, POW_LOG, "pow_log", 2, a == 0 && b >= 0 ? 0 : log(a), rf_pow_log(a, b))                                      \
    X(35, WHERE, "where", 2, rf_if_set(a, b), rf_if_set(a, b))                                                         \
    X(36, WHERE_NOT, "where_not", 2, rf_unless_set(a, b), rf_unless_set(a, b))                                         \
    X(37, WHOLE_GREATER, "whole_greater", 2, a > b ? 1 : 0,                                                            \
      mix(vec4(0), vec4(1), greaterThan(floatBitsToInt(a), floatBitsToInt(b))))                                        \
    X(38, WHOLE_GREATER_EQUAL, "whole_greater_equal", 2, a >= b ? 1 : 0,                                               \
      mix(vec4(0), vec4(1), greaterThanEqual(floatBitsToInt(a), floatBitsToInt(b))))                                   \
    X(39, WHOLE_EQUAL, "whole_equal", 2, a == b ? 1 : 0,                                                               \
      mix(vec4(0), vec4(1), equal(floatBitsToInt(a), floatBitsToInt(b))))

#endif
