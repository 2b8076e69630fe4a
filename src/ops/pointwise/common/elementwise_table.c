/* SPDX-License-Identifier: Apache-2.0 */
/* The scalar functions: names, references, derivatives. */
#include <math.h>

#include "ops/pointwise/common/elementwise.h"
#include "ops/scalar.h"

#include "shaders/include/scalar_fns.h"

static double rf_sign_of(double a)
{
    return isnan(a) ? a : (double)((a > 0) - (a < 0));
}
static double rf_leaky_relu_grad(double dy, double a, double slope)
{
    return a > 0 ? dy : isnan(a) ? a : slope * dy;
}
static double rf_if_set(double mask, double b)
{
    return isnan(mask) ? mask : fabs(mask) < 0x1p-126 ? 0 : b;
}
static double rf_unless_set(double mask, double b)
{
    return isnan(mask) ? mask : fabs(mask) < 0x1p-126 ? b : 0;
}
static double rf_normal_cdf(double a)
{
    return 0.5 * erfc(-a * 0.70710678118654752440);
}
static double rf_normal_pdf(double a)
{
    return 0.39894228040143267794 * exp(-0.5 * a * a);
}
static double rf_gelu_gate(double a)
{
    return 1 / (1 + exp(-2 * 0.79788456080286535588 * (a + 0.044715 * a * a * a)));
}
static double rf_gelu_tanh_slope(double a)
{
    const double s = rf_gelu_gate(a);
    if (isinf(a)) return s; /* what follows is 0 there, and 0 times infinity on the way */
    return s + a * s * (1 - s) * 2 * 0.79788456080286535588 * (1 + 3 * 0.044715 * a * a);
}

#define FN(number, symbol, name, operands, c, glsl)                                                                    \
    _Static_assert(RF_FN_##symbol == number, "scalar_fns.h and rf_scalar_fn disagree");                                \
    static double reference_##symbol(double a, double b, double imm)                                                   \
    {                                                                                                                  \
        (void)a, (void)b, (void)imm;                                                                                   \
        return c;                                                                                                      \
    }
RF_SCALAR_FNS(FN)
#undef FN

#define DY RF_REG_DY
#define A RF_REG_A
#define B RF_REG_B
#define Y RF_REG_Y
#define R(i) (RF_REG_STEP + (i))
#define OWN_IMM NAN
#define OP1(fn, a)                                                                                                     \
    {                                                                                                                  \
        RF_FN_##fn, a, 0, 0, 0                                                                                         \
    }
#define OPI(fn, a, imm)                                                                                                \
    {                                                                                                                  \
        RF_FN_##fn, a, 0, 0, imm                                                                                       \
    }
#define OP2(fn, a, b)                                                                                                  \
    {                                                                                                                  \
        RF_FN_##fn, a, b, 0, 0                                                                                         \
    }
#define ZERO                                                                                                           \
    {                                                                                                                  \
        RF_DERIVATIVE_ZERO, 0,                                                                                         \
        {                                                                                                              \
            {                                                                                                          \
                0                                                                                                      \
            }                                                                                                          \
        }                                                                                                              \
    }
#define SAME                                                                                                           \
    {                                                                                                                  \
        RF_DERIVATIVE_PROGRAM, 0,                                                                                      \
        {                                                                                                              \
            {                                                                                                          \
                0                                                                                                      \
            }                                                                                                          \
        }                                                                                                              \
    }
#define PROGRAM(n, ...)                                                                                                \
    {                                                                                                                  \
        RF_DERIVATIVE_PROGRAM, n,                                                                                      \
        {                                                                                                              \
            __VA_ARGS__                                                                                                \
        }                                                                                                              \
    }

/* dy where the comparison holds, else 0; NaN, as 0 / 0, where y is. */
#define TAKEN(comparison, a, b)                                                                                        \
    PROGRAM(4, OP2(comparison, a, b), OP2(EQUAL, Y, Y), OP2(DIVIDE, R(0), R(1)), OP2(MULTIPLY, DY, R(2)))

/* Derivatives where a function has a kink are TensorFlow's: 0 for relu and abs at 0, the first operand's for equal
 * operands of maximum and minimum. Those of pow are PyTorch's: 0 by the base where the exponent is 0, 0 by the exponent
 * where the base is 0 (and the exponent not negative), NaN by the exponent where the base is negative. */
static const rf_scalar_derivative derivatives[RF_FN_COUNT][2] = {
    [RF_FN_COPY] = { SAME },
    [RF_FN_NEGATIVE] = { PROGRAM(1, OP1(NEGATIVE, DY)) },
    [RF_FN_ABS] = { PROGRAM(2, OP1(SIGN, A), OP2(MULTIPLY, DY, R(0))) },
    [RF_FN_SIGN] = { ZERO },
    [RF_FN_SQUARE] = { PROGRAM(2, OPI(MUL_IMM, A, 2), OP2(MULTIPLY, DY, R(0))) },
    [RF_FN_EXP] = { PROGRAM(1, OP2(MULTIPLY, DY, Y)) },
    [RF_FN_LOG] = { PROGRAM(1, OP2(DIVIDE, DY, A)) },
    [RF_FN_SQRT] = { PROGRAM(1, OP2(SQRT_GRAD, DY, Y)) },
    [RF_FN_TANH] = { PROGRAM(1, OP2(TANH_GRAD, DY, Y)) },
    [RF_FN_SIGMOID] = { PROGRAM(1, OP2(SIGMOID_GRAD, DY, Y)) },
    [RF_FN_RELU] = { PROGRAM(1, OP2(RELU_GRAD, DY, Y)) },
    [RF_FN_LEAKY_RELU] = { PROGRAM(1, { RF_FN_LEAKY_RELU_GRAD, DY, Y, 0, OWN_IMM }) },
    [RF_FN_GELU_ERF] = { PROGRAM(2, OP1(GELU_ERF_SLOPE, A), OP2(MULTIPLY, DY, R(0))) },
    [RF_FN_GELU_TANH] = { PROGRAM(2, OP1(GELU_TANH_SLOPE, A), OP2(MULTIPLY, DY, R(0))) },
    /* (2 - a^2) times the density */
    [RF_FN_GELU_ERF_SLOPE] = { PROGRAM(7, OP1(SQUARE, A), OPI(MUL_IMM, R(0), -0.5f), OP1(EXP, R(1)),
                                       OPI(MUL_IMM, R(0), -0.398942280401f), OPI(ADD_IMM, R(3), 0.797884560803f),
                                       OP2(MULTIPLY, R(2), R(4)), OP2(MULTIPLY, DY, R(5))) },
    [RF_FN_SIN] = { PROGRAM(2, OP1(COS, A), OP2(MULTIPLY, DY, R(0))) },
    [RF_FN_COS] = { PROGRAM(3, OP1(SIN, A), OP2(MULTIPLY, DY, R(0)), OP1(NEGATIVE, R(1))) },
    [RF_FN_FLOOR] = { ZERO },
    [RF_FN_ROUND] = { ZERO },
    [RF_FN_LOG1P] = { PROGRAM(2, OPI(ADD_IMM, A, 1), OP2(DIVIDE, DY, R(0))) },
    [RF_FN_EXPM1] = { PROGRAM(2, OP1(EXP, A), OP2(MULTIPLY, DY, R(0))) },
    [RF_FN_ERF] = { PROGRAM(5, OP1(SQUARE, A), OP1(NEGATIVE, R(0)), OP1(EXP, R(1)), OPI(MUL_IMM, R(2), 1.12837916710f),
                            OP2(MULTIPLY, DY, R(3))) },
    [RF_FN_ADD_IMM] = { SAME },
    [RF_FN_MUL_IMM] = { PROGRAM(1, OPI(MUL_IMM, DY, OWN_IMM)) },
    [RF_FN_ADD] = { SAME, SAME },
    [RF_FN_SUBTRACT] = { SAME, PROGRAM(1, OP1(NEGATIVE, DY)) },
    [RF_FN_MULTIPLY] = { PROGRAM(1, OP2(MULTIPLY, DY, B)), PROGRAM(1, OP2(MULTIPLY, DY, A)) },
    [RF_FN_DIVIDE] = { PROGRAM(1, OP2(DIVIDE, DY, B)),
                       PROGRAM(3, OP2(DIVIDE, Y, B), OP2(MULTIPLY, DY, R(0)), OP1(NEGATIVE, R(1))) },
    [RF_FN_POW] = { PROGRAM(2, OP2(POW_SLOPE, A, B), OP2(MULTIPLY, DY, R(0))),
                    PROGRAM(3, OP2(POW_LOG, A, B), OP2(MULTIPLY, Y, R(0)), OP2(MULTIPLY, DY, R(1))) },
    [RF_FN_MAXIMUM] = { TAKEN(GREATER_EQUAL, A, B), TAKEN(GREATER, B, A) },
    [RF_FN_MINIMUM] = { TAKEN(GREATER_EQUAL, B, A), TAKEN(GREATER, A, B) },
    [RF_FN_GREATER] = { ZERO, ZERO },
    [RF_FN_GREATER_EQUAL] = { ZERO, ZERO },
    [RF_FN_EQUAL] = { ZERO, ZERO },
    [RF_FN_RELU_GRAD] = { PROGRAM(1, OP2(RELU_GRAD, DY, B)), ZERO },
    [RF_FN_LEAKY_RELU_GRAD] = { PROGRAM(1, { RF_FN_LEAKY_RELU_GRAD, DY, B, 0, OWN_IMM }), ZERO },
    [RF_FN_TANH_GRAD] = { PROGRAM(1, OP2(TANH_GRAD, DY, B)),
                          PROGRAM(3, OP2(MULTIPLY, A, B), OPI(MUL_IMM, R(0), -2), OP2(MULTIPLY, DY, R(1))) },
    [RF_FN_SIGMOID_GRAD] = { PROGRAM(1, OP2(SIGMOID_GRAD, DY, B)),
                             PROGRAM(4, OPI(MUL_IMM, B, -2), OPI(ADD_IMM, R(0), 1), OP2(MULTIPLY, A, R(1)),
                                     OP2(MULTIPLY, DY, R(2))) },
    [RF_FN_SQRT_GRAD] = { PROGRAM(1, OP2(SQRT_GRAD, DY, B)),
                          PROGRAM(3, OP2(DIVIDE, Y, B), OP2(MULTIPLY, DY, R(0)), OP1(NEGATIVE, R(1))) },
    /* b (b - 1) a^(b - 2); a^(b - 1) (1 + b log a) */
    [RF_FN_POW_SLOPE] = { PROGRAM(4, OPI(ADD_IMM, B, -1), OP2(POW_SLOPE, A, R(0)), OP2(MULTIPLY, B, R(1)),
                                  OP2(MULTIPLY, DY, R(2))),
                          PROGRAM(7, OP2(POW_LOG, A, B), OP2(MULTIPLY, B, R(0)), OPI(ADD_IMM, R(1), 1),
                                  OPI(ADD_IMM, B, -1), OP2(POW, A, R(3)), OP2(MULTIPLY, R(2), R(4)),
                                  OP2(MULTIPLY, DY, R(5))) },
    [RF_FN_POW_LOG] = { PROGRAM(1, OP2(DIVIDE, DY, A)), ZERO },
    [RF_FN_WHERE] = { ZERO, PROGRAM(1, OP2(WHERE, A, DY)) },
    [RF_FN_WHERE_NOT] = { ZERO, PROGRAM(1, OP2(WHERE_NOT, A, DY)) },
    [RF_FN_WHOLE_GREATER] = { ZERO, ZERO },
    [RF_FN_WHOLE_GREATER_EQUAL] = { ZERO, ZERO },
    [RF_FN_WHOLE_EQUAL] = { ZERO, ZERO },
};

#define USES_IMM(fn)                                                                                                   \
    ((fn) == RF_FN_LEAKY_RELU || (fn) == RF_FN_LEAKY_RELU_GRAD || (fn) == RF_FN_ADD_IMM || (fn) == RF_FN_MUL_IMM)
#define INFO(number, symbol, name, operands, lone)                                                                     \
    [number] = { name, operands, USES_IMM(number), lone, reference_##symbol, derivatives[number] },
#define FUSED(number, symbol, name, operands, c, glsl) INFO(number, symbol, name, operands, false)
#define LONE(number, symbol, name, operands, c, glsl) INFO(number, symbol, name, operands, true)
const rf_scalar_info rf_scalar_table[RF_FN_COUNT] = { RF_FUSED_SCALAR_FNS(FUSED) RF_LONE_SCALAR_FNS(LONE) };
