/* SPDX-License-Identifier: Apache-2.0 */
/* Element-wise operations of ONNX. Whole numbers are computed in f32, exact up to 2^24, and become whole again. */
#include <math.h>
#include <string.h>

#include "train/onnx/op.h"

#define X rf_import_float_of(c, 0)
#define NUM(value) rf_import_scalar(c, value)

/* ---- of one operand ---- */

static rf_tensor reciprocal_of(rf_import_call *c, rf_tensor x)
{
    return rf_divide(c->t, NUM(1), x);
}

static rf_tensor affine_of(rf_import_call *c, rf_tensor x, double scale, double offset)
{
    return rf_add(c->t, rf_multiply(c->t, x, NUM(scale)), NUM(offset));
}

static rf_tensor ceil_of(rf_import_call *c, rf_tensor x)
{
    return rf_negative(c->t, rf_floor(c->t, rf_negative(c->t, x)));
}

/* (exp(x) + sign * exp(-x)) / 2, the difference by expm1(), which loses no digits near 0. */
static rf_tensor sinh_of(rf_import_call *c, rf_tensor x)
{
    const rf_tensor both = rf_subtract(c->t, rf_expm1(c->t, x), rf_expm1(c->t, rf_negative(c->t, x)));
    return rf_multiply(c->t, both, NUM(0.5));
}

static rf_tensor cosh_of(rf_import_call *c, rf_tensor x)
{
    const rf_tensor both = rf_add(c->t, rf_exp(c->t, x), rf_exp(c->t, rf_negative(c->t, x)));
    return rf_multiply(c->t, both, NUM(0.5));
}

/* sign(x) * log(|x| + sqrt(x^2 + 1)) */
static rf_tensor asinh_of(rf_import_call *c, rf_tensor x)
{
    const rf_tensor a = rf_abs(c->t, x), root = rf_sqrt(c->t, rf_add(c->t, rf_square(c->t, a), NUM(1)));
    return rf_multiply(c->t, rf_sign(c->t, x), rf_log(c->t, rf_add(c->t, a, root)));
}

static rf_tensor acosh_of(rf_import_call *c, rf_tensor x)
{
    const rf_tensor root = rf_sqrt(c->t, rf_subtract(c->t, rf_square(c->t, x), NUM(1)));
    return rf_log(c->t, rf_add(c->t, x, root));
}

static rf_tensor atanh_of(rf_import_call *c, rf_tensor x)
{
    const rf_tensor both = rf_subtract(c->t, rf_log1p(c->t, x), rf_log1p(c->t, rf_negative(c->t, x)));
    return rf_multiply(c->t, both, NUM(0.5));
}

static rf_tensor celu_of(rf_import_call *c, rf_tensor x)
{
    const double alpha = rf_import_real(c, "alpha", 1);
    const rf_tensor low = rf_multiply(c->t, rf_expm1(c->t, rf_multiply(c->t, x, NUM(1 / alpha))), NUM(alpha));
    return rf_add(c->t, rf_maximum(c->t, x, NUM(0)), rf_minimum(c->t, low, NUM(0)));
}

/* alpha and gamma may be other ones than those of the original work. */
static rf_tensor selu_of(rf_import_call *c, rf_tensor x)
{
    const double alpha = rf_import_real(c, "alpha", 1.67326319217681884765625),
                 gamma = rf_import_real(c, "gamma", 1.05070102214813232421875);
    if (alpha < 0) rf_import_call_fail(c, "has a negative alpha");
    return rf_multiply(c->t, rf_elu(c->t, x, (float)(alpha < 0 ? 0 : alpha)), NUM(gamma));
}

static rf_tensor elu_of(rf_import_call *c, rf_tensor x)
{
    const double alpha = rf_import_real(c, "alpha", 1);
    if (alpha < 0) rf_import_call_fail(c, "has a negative alpha");
    return rf_elu(c->t, x, (float)(alpha < 0 ? 0 : alpha));
}

static rf_tensor leaky_relu_of(rf_import_call *c, rf_tensor x)
{
    const double alpha = rf_import_real(c, "alpha", 0.01);
    if (alpha >= 0) return rf_leaky_relu(c->t, x, (float)alpha);
    return rf_where(c->t, rf_compare(c->t, RF_GREATER, x, NUM(0)), x, rf_multiply(c->t, x, NUM(alpha)));
}

static rf_tensor thresholded_of(rf_import_call *c, rf_tensor x)
{
    return rf_where(c->t, rf_compare(c->t, RF_GREATER, x, NUM(rf_import_real(c, "alpha", 1))), x, NUM(0));
}

static rf_tensor hard_sigmoid_of(rf_import_call *c, rf_tensor x)
{
    return rf_clip(c->t, affine_of(c, x, rf_import_real(c, "alpha", 0.2), rf_import_real(c, "beta", 0.5)), 0, 1);
}

static rf_tensor gelu_of(rf_import_call *c, rf_tensor x)
{
    return rf_gelu(c->t, x, strcmp(rf_import_text(c, "approximate", "none"), "tanh") == 0 ? RF_GELU_TANH : RF_GELU_ERF);
}

static rf_tensor shrink_of(rf_import_call *c, rf_tensor x)
{
    const double lambd = rf_import_real(c, "lambd", 0.5), bias = rf_import_real(c, "bias", 0);
    const rf_tensor low = rf_compare(c->t, RF_LESS, x, NUM(-lambd)), high = rf_compare(c->t, RF_GREATER, x, NUM(lambd));
    const rf_tensor inner = rf_where(c->t, high, rf_subtract(c->t, x, NUM(bias)), NUM(0));
    return rf_where(c->t, low, rf_add(c->t, x, NUM(bias)), inner);
}

static rf_tensor softsign_of(rf_import_call *c, rf_tensor x)
{
    return rf_divide(c->t, x, rf_add(c->t, rf_abs(c->t, x), NUM(1)));
}

static rf_tensor tan_of(rf_import_call *c, rf_tensor x)
{
    return rf_divide(c->t, rf_sin(c->t, x), rf_cos(c->t, x));
}

static rf_tensor not_of(rf_import_call *c, rf_tensor x)
{
    return rf_compare(c->t, RF_EQUAL, x, NUM(0));
}

static rf_tensor is_nan_of(rf_import_call *c, rf_tensor x)
{
    return not_of(c, rf_compare(c->t, RF_EQUAL, x, x));
}

static rf_tensor is_inf_of(rf_import_call *c, rf_tensor x)
{
    const bool up = rf_import_int(c, "detect_positive", 1), down = rf_import_int(c, "detect_negative", 1);
    const rf_tensor of = up && down ? rf_abs(c->t, x) : up ? x : rf_negative(c->t, x);
    if (!up && !down) return rf_compare(c->t, RF_NOT_EQUAL, NUM(0), rf_multiply_no_nan(c->t, x, NUM(0)));
    return rf_compare(c->t, RF_EQUAL, of, NUM(INFINITY));
}

typedef rf_tensor (*plain_fn)(rf_trace *t, rf_tensor x);
typedef rf_tensor (*other_fn)(rf_import_call *c, rf_tensor x);
static const struct {
    const char *name;
    plain_fn plain;
    other_fn other;
} unary[] = {
    { "Abs", rf_abs, NULL },
    { "Neg", rf_negative, NULL },
    { "Exp", rf_exp, NULL },
    { "Log", rf_log, NULL },
    { "Sqrt", rf_sqrt, NULL },
    { "Sin", rf_sin, NULL },
    { "Cos", rf_cos, NULL },
    { "Tanh", rf_tanh, NULL },
    { "Sigmoid", rf_sigmoid, NULL },
    { "Relu", rf_relu, NULL },
    { "Erf", rf_erf, NULL },
    { "Sign", rf_sign, NULL },
    { "Floor", rf_floor, NULL },
    { "Round", rf_round, NULL },
    { "Softplus", rf_softplus, NULL },
    { "Mish", rf_mish, NULL },
    { "HardSwish", rf_hard_silu, NULL },
    { "Expm1", rf_expm1, NULL },
    { "Log1p", rf_log1p, NULL },
    { "Ceil", NULL, ceil_of },
    { "Reciprocal", NULL, reciprocal_of },
    { "Sinh", NULL, sinh_of },
    { "Cosh", NULL, cosh_of },
    { "Asinh", NULL, asinh_of },
    { "Acosh", NULL, acosh_of },
    { "Atanh", NULL, atanh_of },
    { "Celu", NULL, celu_of },
    { "Selu", NULL, selu_of },
    { "Elu", NULL, elu_of },
    { "LeakyRelu", NULL, leaky_relu_of },
    { "Gelu", NULL, gelu_of },
    { "Shrink", NULL, shrink_of },
    { "Softsign", NULL, softsign_of },
    { "Tan", NULL, tan_of },
    { "Not", NULL, not_of },
    { "IsNaN", NULL, is_nan_of },
    { "IsInf", NULL, is_inf_of },
    { "HardSigmoid", NULL, hard_sigmoid_of },
    { "ThresholdedRelu", NULL, thresholded_of },
};

static void unary_trace(rf_import_call *c)
{
    for (size_t i = 0; i < sizeof(unary) / sizeof(unary[0]); i++) {
        if (strcmp(unary[i].name, c->op) != 0) continue;
        const rf_tensor x = X;
        const rf_tensor y = unary[i].plain ? unary[i].plain(c->t, x) : unary[i].other(c, x);
        c->out[0] = rf_import_back(c, 0, y);
    }
}

/* ---- of several ---- */

static rf_tensor div_of(rf_import_call *c, rf_tensor a, rf_tensor b)
{
    rf_tensor y = rf_divide(c->t, a, b);
    if (!rf_import_is_whole(c, 0)) return y;
    return rf_multiply(c->t, rf_sign(c->t, y), rf_floor(c->t, rf_abs(c->t, y)));
}

/* The sign is the divisor's, with `fmod` the dividend's. */
static rf_tensor mod_of(rf_import_call *c, rf_tensor a, rf_tensor b)
{
    const rf_tensor q = rf_divide(c->t, a, b);
    const rf_tensor part = rf_import_int(c, "fmod", 0)
                               ? rf_multiply(c->t, rf_sign(c->t, q), rf_floor(c->t, rf_abs(c->t, q)))
                               : rf_floor(c->t, q);
    return rf_subtract(c->t, a, rf_multiply(c->t, part, b));
}

/* By powers of 2, as products and quotients of whole numbers. */
static rf_tensor shift_of(rf_import_call *c, rf_tensor a, rf_tensor b)
{
    const rf_tensor factor = rf_round(c->t, rf_pow(c->t, NUM(2), b));
    return rf_import_text(c, "direction", "")[0] == 'L' ? rf_multiply(c->t, a, factor) : div_of(c, a, factor);
}

static rf_tensor and_of(rf_import_call *c, rf_tensor a, rf_tensor b)
{
    return rf_multiply(c->t, a, b);
}

static rf_tensor or_of(rf_import_call *c, rf_tensor a, rf_tensor b)
{
    return rf_maximum(c->t, a, b);
}

static rf_tensor xor_of(rf_import_call *c, rf_tensor a, rf_tensor b)
{
    return rf_compare(c->t, RF_NOT_EQUAL, a, b);
}

static rf_tensor prelu_of(rf_import_call *c, rf_tensor a, rf_tensor b)
{
    return rf_where(c->t, rf_compare(c->t, RF_GREATER, a, NUM(0)), a, rf_multiply(c->t, a, b));
}

typedef rf_tensor (*plain2_fn)(rf_trace *t, rf_tensor a, rf_tensor b);
typedef rf_tensor (*other2_fn)(rf_import_call *c, rf_tensor a, rf_tensor b);
static const struct {
    const char *name;
    plain2_fn plain;
    other2_fn other;
} binary[] = {
    { "Add", rf_add, NULL },     { "Sub", rf_subtract, NULL }, { "Mul", rf_multiply, NULL },   { "Pow", rf_pow, NULL },
    { "Max", rf_maximum, NULL }, { "Min", rf_minimum, NULL },  { "Sum", rf_add, NULL },        { "Mean", rf_add, NULL },
    { "Div", NULL, div_of },     { "Mod", NULL, mod_of },      { "And", NULL, and_of },        { "Or", NULL, or_of },
    { "Xor", NULL, xor_of },     { "PRelu", NULL, prelu_of },  { "BitShift", NULL, shift_of },
};

static void binary_trace(rf_import_call *c)
{
    for (size_t i = 0; i < sizeof(binary) / sizeof(binary[0]); i++) {
        if (strcmp(binary[i].name, c->op) != 0) continue;
        rf_tensor y = X;
        for (uint32_t k = 1; k < c->num_in; k++) {
            const rf_tensor b = rf_import_float_of(c, k);
            y = binary[i].plain ? binary[i].plain(c->t, y, b) : binary[i].other(c, y, b);
        }
        if (c->op[0] == 'M' && c->op[1] == 'e') y = rf_multiply(c->t, y, NUM(1.0 / c->num_in));
        c->out[0] = rf_import_back(c, 0, y);
    }
}

/* x * x has a function of its own, which has one operand. */
static void mul_trace(rf_import_call *c)
{
    if (c->num_in == 2 && c->in[0].tensor.id && c->in[0].tensor.id == c->in[1].tensor.id && !rf_import_is_whole(c, 0))
        c->out[0] = rf_square(c->t, c->in[0].tensor);
    else
        binary_trace(c);
}

static void compare_trace(rf_import_call *c)
{
    static const char *const names[] = { "Equal", "", "Less", "LessOrEqual", "Greater", "GreaterOrEqual" };
    const bool whole = rf_import_is_whole(c, 0) && rf_import_is_whole(c, 1);
    const rf_tensor a = whole ? rf_import_tensor_of(c, 0) : X;
    const rf_tensor b = whole ? rf_import_tensor_of(c, 1) : rf_import_float_of(c, 1);
    for (int i = 0; i < 6; i++)
        if (strcmp(names[i], c->op) == 0) c->out[0] = rf_compare(c->t, (rf_comparison)i, a, b);
}

static void where_trace(rf_import_call *c)
{
    const rf_tensor mask = X, a = rf_import_float_of(c, 1), b = rf_import_float_of(c, 2);
    c->out[0] = rf_import_back(c, 1, rf_where(c->t, mask, a, b));
}

/* Bounds are attributes before opset 11, then operands. */
static void clip_trace(rf_import_call *c)
{
    rf_tensor y = X;
    const bool fixed = (!rf_import_has(c, 1) || !c->in[1].tensor.id) && (!rf_import_has(c, 2) || !c->in[2].tensor.id);
    if (fixed) {
        const double low = rf_import_number(c, 1, rf_import_real(c, "min", -INFINITY)),
                     high = rf_import_number(c, 2, rf_import_real(c, "max", INFINITY));
        /* Which bound goes before where they cross is the file's choice. */
        y = low <= high ? rf_clip(c->t, y, (float)low, (float)high)
                        : rf_add(c->t, rf_multiply(c->t, y, NUM(0)), NUM(high));
    } else {
        if (rf_import_has(c, 1)) y = rf_maximum(c->t, y, rf_import_float_of(c, 1));
        if (rf_import_has(c, 2)) y = rf_minimum(c->t, y, rf_import_float_of(c, 2));
    }
    c->out[0] = rf_import_back(c, 0, y);
}

static void identity_trace(rf_import_call *c)
{
    c->out[0] = rf_import_tensor_of(c, 0);
}

/* In training as the file says; the ratio is an attribute before opset 12. */
static void dropout_trace(rf_import_call *c)
{
    const double rate = rf_import_number(c, 1, rf_import_real(c, "ratio", 0.5));
    if (rate < 0 || rate >= 1) rf_import_call_fail(c, "has a ratio that is not in [0, 1)");
    c->out[0] = c->mode == RF_TRAINING && rate >= 0 && rate < 1 ? rf_dropout(c->t, X, (float)rate, 0) : X;
    if (c->num_out > 1) c->out[1] = rf_compare(c->t, RF_EQUAL, c->out[0], c->out[0]);
}

static void cast_trace(rf_import_call *c)
{
    const char *to = rf_import_text(c, "kind", "float");
    const rf_tensor x = rf_import_tensor_of(c, 0);
    const bool whole = rf_tensor_dtype(c->t, x) == RF_I32;
    if (strcmp(to, "whole") == 0)
        c->out[0] = whole ? x : rf_cast(c->t, x, RF_I32);
    else if (strcmp(to, "truth") == 0)
        c->out[0] = rf_compare(c->t, RF_NOT_EQUAL, rf_import_float_of(c, 0), NUM(0));
    else
        c->out[0] = rf_import_float_of(c, 0);
}

/* A vector along the axis, in a shape that broadcasts. */
static rf_tensor along_axis(rf_import_call *c, uint32_t i, int32_t rank)
{
    const rf_tensor v = rf_import_float_of(c, i);
    const rf_shape shape = rf_tensor_shape(c->t, v);
    if (shape.rank != 1 || shape.dim[0] == 1) return v;
    const int32_t axis = rf_import_axis(c, rf_import_int(c, "axis", 1), rank);
    rf_shape to = { .rank = rank };
    for (int32_t d = 0; d < rank; d++) to.dim[d] = d == axis ? shape.dim[0] : 1;
    return rf_reshape(c->t, v, to);
}

/* To f32: whole numbers that the type has, but as f32. */
static void quantize_trace(rf_import_call *c)
{
    const rf_tensor x = X;
    const int32_t rank = rf_tensor_shape(c->t, x).rank;
    const bool to = strcmp(c->op, "QuantizeLinear") == 0;
    const rf_tensor scale = along_axis(c, 1, rank);
    rf_tensor y = x;
    if (rf_import_int(c, "block_size", 0) != 0) rf_import_call_fail(c, "has blocks");
    if (to) {
        y = rf_round(c->t, rf_divide(c->t, y, scale));
        if (rf_import_has(c, 2)) y = rf_add(c->t, y, along_axis(c, 2, rank));
        y = rf_clip(c->t, y, (float)rf_import_int(c, "lowest", 0), (float)rf_import_int(c, "highest", 255));
    } else {
        if (rf_import_has(c, 2)) y = rf_subtract(c->t, y, along_axis(c, 2, rank));
        y = rf_multiply(c->t, y, scale);
    }
    c->out[0] = y;
}

#define E(name, fn, in_least, in_most, rank, truth)                                                                    \
    {                                                                                                                  \
        name, fn, RF_IMPORT_ELEMENTS, in_least, in_most, 1, rank, truth                                                \
    }
#define U(name) E(name, unary_trace, 1, 1, RF_IMPORT_RANK_SAME, 0)
#define UT(name) E(name, unary_trace, 1, 1, RF_IMPORT_RANK_SAME, 1)
#define B(name) E(name, binary_trace, 2, 2, RF_IMPORT_RANK_WIDEST, 0)
#define BT(name) E(name, binary_trace, 2, 2, RF_IMPORT_RANK_WIDEST, 1)
#define V(name) E(name, binary_trace, 1, 0, RF_IMPORT_RANK_WIDEST, 0)
#define C(name) E(name, compare_trace, 2, 2, RF_IMPORT_RANK_WIDEST, 1)
static const rf_import_op ops[] = {
    U("Abs"),
    U("Neg"),
    U("Exp"),
    U("Log"),
    U("Sqrt"),
    U("Sin"),
    U("Cos"),
    U("Tanh"),
    U("Sigmoid"),
    U("Relu"),
    U("Erf"),
    U("Sign"),
    U("Floor"),
    U("Round"),
    U("Softplus"),
    U("Mish"),
    U("HardSwish"),
    U("Expm1"),
    U("Log1p"),
    U("Ceil"),
    U("Reciprocal"),
    U("Sinh"),
    U("Cosh"),
    U("Asinh"),
    U("Acosh"),
    U("Atanh"),
    U("Celu"),
    U("Selu"),
    U("Elu"),
    U("LeakyRelu"),
    U("Gelu"),
    U("Shrink"),
    U("Softsign"),
    U("Tan"),
    UT("Not"),
    UT("IsNaN"),
    UT("IsInf"),
    U("HardSigmoid"),
    U("ThresholdedRelu"),
    B("Add"),
    B("Sub"),
    B("Pow"),
    B("Div"),
    B("Mod"),
    B("PRelu"),
    B("BitShift"),
    BT("And"),
    BT("Or"),
    BT("Xor"),
    V("Max"),
    V("Min"),
    V("Sum"),
    V("Mean"),
    C("Equal"),
    C("Less"),
    C("LessOrEqual"),
    C("Greater"),
    C("GreaterOrEqual"),
    E("Mul", mul_trace, 2, 2, RF_IMPORT_RANK_WIDEST, 0),
    E("Where", where_trace, 3, 3, RF_IMPORT_RANK_WIDEST, 0),
    E("Clip", clip_trace, 1, 3, RF_IMPORT_RANK_SAME, 0),
    E("Identity", identity_trace, 1, 1, RF_IMPORT_RANK_SAME, 0),
    E("Cast", cast_trace, 1, 1, RF_IMPORT_RANK_SAME, 0),
    { "Dropout", dropout_trace, RF_IMPORT_ELEMENTS, 1, 3, 2, RF_IMPORT_RANK_SAME, 0 },
    { "QuantizeLinear", quantize_trace, RF_IMPORT_AXES, 2, 3, 1, RF_IMPORT_RANK_SAME, 0 },
    { "DequantizeLinear", quantize_trace, RF_IMPORT_AXES, 2, 3, 1, RF_IMPORT_RANK_SAME, 0 },
};
const rf_import_op_list rf_import_element_ops = { ops, sizeof(ops) / sizeof(ops[0]) };
