/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every scalar function of the element-wise op, for C and for GLSL: X(number, symbol, name, operands, C, GLSL).
 * The C form works on doubles a, b, imm and is the reference; the GLSL form works on vec4 a, b and float imm, with the
 * helpers of scalar_math.glsl. Numbers are those of rf_scalar_fn (checked at compile time in
 * src/ops/pointwise/elementwise_table.c).
 *
 * Comparisons are written so that a NaN operand of relu comes out as NaN: a diverging training must not look healthy.
 */
#ifndef RF_SCALAR_FNS_H
#define RF_SCALAR_FNS_H

#define RF_SCALAR_FNS(X)                                                                                               \
    X(0, COPY, "copy", 1, a, a)                                                                                        \
    X(1, NEGATIVE, "negative", 1, -a, -a)                                                                              \
    X(2, ABS, "abs", 1, fabs(a), abs(a))                                                                               \
    X(3, SIGN, "sign", 1, (double)((a > 0) - (a < 0)), sign(a))                                                        \
    X(4, SQUARE, "square", 1, a *a, a *a)                                                                              \
    X(5, EXP, "exp", 1, exp(a), rf_exp(a))                                                                             \
    X(6, LOG, "log", 1, log(a), rf_log(a))                                                                             \
    X(7, SQRT, "sqrt", 1, sqrt(a), sqrt(a))                                                                            \
    X(8, TANH, "tanh", 1, tanh(a), rf_tanh(a))                                                                         \
    X(9, SIGMOID, "sigmoid", 1, 1 / (1 + exp(-a)), rf_sigmoid(a))                                                      \
    X(10, RELU, "relu", 1, a < 0 ? 0 : a, mix(a, vec4(0), lessThan(a, vec4(0))))                                       \
    X(11, LEAKY_RELU, "leaky_relu", 1, a > 0 ? a : imm * a, mix(imm * a, a, greaterThan(a, vec4(0))))                  \
    X(12, GELU_ERF, "gelu", 1, a *rf_normal_cdf(a), a *rf_normal_cdf(a))                                               \
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
    X(23, MAXIMUM, "maximum", 2, a < b ? b : a, mix(a, b, lessThan(a, b)))                                             \
    X(24, MINIMUM, "minimum", 2, a > b ? b : a, mix(a, b, greaterThan(a, b)))                                          \
    X(25, GREATER, "greater", 2, a > b ? 1 : 0, mix(vec4(0), vec4(1), greaterThan(a, b)))                              \
    X(26, GREATER_EQUAL, "greater_equal", 2, a >= b ? 1 : 0, mix(vec4(0), vec4(1), greaterThanEqual(a, b)))            \
    X(27, EQUAL, "equal", 2, a == b ? 1 : 0, mix(vec4(0), vec4(1), equal(a, b)))                                       \
    X(28, RELU_GRAD, "relu_grad", 2, b > 0 ? a : 0, mix(vec4(0), a, greaterThan(b, vec4(0))))                          \
    X(29, LEAKY_RELU_GRAD, "leaky_relu_grad", 2, b > 0 ? a : imm * a, mix(imm * a, a, greaterThan(b, vec4(0))))        \
    X(30, TANH_GRAD, "tanh_grad", 2, a *(1 - b * b), a *(1.0 - b * b))                                                 \
    X(31, SIGMOID_GRAD, "sigmoid_grad", 2, a *b *(1 - b), a *b *(1.0 - b))                                             \
    X(32, SQRT_GRAD, "sqrt_grad", 2, 0.5 * a / b, 0.5 * a / b)

#endif
