/* SPDX-License-Identifier: Apache-2.0 */
/* Cumulative products along the last dimension, and the linear recurrence that their gradient is made of. */
#include "ops/ops.h"
#include "ops/reduction/scan.h"
#include "rf_shaders.h"

#include <math.h>

/* ---- products, host side ---- */

static rf_result cumprod_infer(rf_op_call *call)
{
    RF_TRY(rf_expect_rows(call, 0));
    call->out[0] = call->in[0];
    return RF_OK;
}

rf_result rf_emit_cumprod(rf_graph *g, rf_value x, bool exclusive, bool reverse, rf_value *out)
{
    const rf_cumprod_attr attr = { .exclusive = exclusive, .reverse = reverse };
    return rf_graph_add(g, &rf_op_cumprod, &attr, &x, 1, out);
}

/* The product up to each element is a number about 1 times 2 to the power `after`, that of the elements before it
 * another one times 2 to the power `before`: whole numbers. From the first zero on they are 0. */
typedef struct exponents {
    rf_value after, before, less; /* less: before - after */
} exponents;

/* log2 |x|, 0 of zeros and NaN, and whether x is neither. */
static rf_result emit_logarithms(rf_graph *g, rf_value x, rf_value *logarithm, rf_value *is_factor)
{
    static const float limits[] = { 0, -127, 128 };
    rf_value size, limit[3];
    for (uint32_t i = 0; i < 3; i++)
        RF_TRY(rf_graph_constant(g, (rf_tensor_desc){ RF_F32, RF_SCALAR_SHAPE }, &limits[i], &limit[i]));
    RF_TRY(rf_emit_unary(g, RF_FN_ABS, 0, x, &size));
    RF_TRY(rf_emit_binary(g, RF_FN_GREATER, 0, size, limit[0], is_factor));
    RF_TRY(rf_emit_unary(g, RF_FN_LOG, 0, size, logarithm));
    RF_TRY(rf_emit_unary(g, RF_FN_MUL_IMM, 1.44269504f, *logarithm, logarithm));
    RF_TRY(rf_emit_binary(g, RF_FN_MAXIMUM, 0, *logarithm, limit[1], logarithm));
    RF_TRY(rf_emit_binary(g, RF_FN_MINIMUM, 0, *logarithm, limit[2], logarithm));
    return rf_emit_binary(g, RF_FN_WHERE, 0, *is_factor, *logarithm, logarithm);
}

static rf_result emit_exponents(rf_graph *g, rf_value x, bool reverse, exponents *out)
{
    rf_value logarithm, is_factor, whole[2], steps;
    RF_TRY(emit_logarithms(g, x, &logarithm, &is_factor));
    for (uint32_t exclusive = 0; exclusive < 2; exclusive++) {
        rf_value alive;
        RF_TRY(rf_emit_cumprod(g, is_factor, exclusive, reverse, &alive));
        RF_TRY(rf_emit_cumsum(g, logarithm, exclusive, reverse, &whole[exclusive]));
        RF_TRY(rf_emit_unary(g, RF_FN_ROUND, 0, whole[exclusive], &whole[exclusive]));
        RF_TRY(rf_emit_binary(g, RF_FN_WHERE, 0, alive, whole[exclusive], &whole[exclusive]));
    }
    /* Sums by different kernels need not round alike. The steps are what they are; their sums are exact. */
    RF_TRY(rf_emit_binary(g, RF_FN_SUBTRACT, 0, whole[0], whole[1], &steps));
    RF_TRY(rf_emit_cumsum(g, steps, false, reverse, &out->after));
    RF_TRY(rf_emit_binary(g, RF_FN_SUBTRACT, 0, out->after, steps, &out->before));
    return rf_emit_unary(g, RF_FN_NEGATIVE, 0, steps, &out->less);
}

/* Of numbers about 1, times powers of 2: of x' = x * 2^less, the products before each element lack 2^before, and what
 * follows it, which is made of dy * 2^after, has 2^after too much. */
static rf_result emit_scaled_gradient(rf_graph *g, const rf_cumprod_attr *attr, rf_value x, rf_value dy, rf_value *out)
{
    rf_value factors, before, s, scaled;
    exponents e;
    RF_TRY(emit_exponents(g, x, attr->reverse, &e));
    RF_TRY(rf_emit_binary(g, RF_FN_LDEXP, 0, x, e.less, &factors));
    RF_TRY(rf_emit_cumprod(g, factors, true, attr->reverse, &before));
    RF_TRY(rf_emit_binary(g, RF_FN_LDEXP, 0, dy, attr->exclusive ? e.before : e.after, &scaled));
    if (!attr->exclusive) RF_TRY(rf_emit_binary(g, RF_FN_MULTIPLY, 0, factors, scaled, &scaled));
    RF_TRY(rf_emit_recurrence(g, scaled, factors, !attr->reverse, &s));
    RF_TRY(rf_emit_binary(g, RF_FN_LDEXP, 0, s, e.less, &s));
    if (!attr->exclusive) {
        RF_TRY(rf_emit_binary(g, RF_FN_LDEXP, 0, dy, e.before, &scaled));
        RF_TRY(rf_emit_binary(g, RF_FN_ADD, 0, scaled, s, &s));
    }
    /* Behind a zero there is no gradient, whatever overflows there. */
    RF_TRY(rf_emit_binary(g, RF_FN_WHERE, 0, before, s, &s));
    return rf_emit_binary(g, RF_FN_MULTIPLY, 0, before, s, out);
}

/* *fits: 1 where x is neither too large for a float nor too small, and times what *fits was. */
static rf_result emit_fits(rf_graph *g, rf_value x, rf_value *fits)
{
    static const float limits[] = { 1e-37f, 3e38f };
    for (uint32_t i = 0; i < 2; i++) {
        rf_value size, limit, inside;
        RF_TRY(rf_graph_constant(g, (rf_tensor_desc){ RF_F32, RF_SCALAR_SHAPE }, &limits[i], &limit));
        RF_TRY(rf_emit_unary(g, RF_FN_ABS, 0, x, &size));
        RF_TRY(rf_emit_binary(g, RF_FN_GREATER, 0, i ? limit : size, i ? size : limit, &inside));
        if (*fits) RF_TRY(rf_emit_binary(g, RF_FN_MULTIPLY, 0, *fits, inside, &inside));
        *fits = inside;
    }
    return RF_OK;
}

/*
 * An element is a factor of its own product and of all that follow. Its gradient is the product of those before it
 * times s, which comes from the other end: s[i] = dy[i] + x[i + 1] * s[i + 1], of exclusive products dy[i + 1] + x[i +
 * 1] * s[i + 1]. Nothing is divided by the element, so that zeros are factors like others. Where either of the two is
 * more or less than floats hold, the gradient may be neither: it is made in another way there.
 */
static rf_result cumprod_gradient(rf_grad_context *ctx)
{
    const rf_cumprod_attr *attr = ctx->attr;
    const rf_value x = ctx->in[0], dy = ctx->dout[0];
    rf_graph *g = ctx->graph;
    rf_value before, s, plain, scaled, fits = 0;
    if (dy == 0 || !ctx->needed[0]) return RF_OK;
    RF_TRY(rf_emit_cumprod(g, x, true, attr->reverse, &before));
    if (attr->exclusive) {
        RF_TRY(rf_emit_recurrence(g, dy, x, !attr->reverse, &s));
    } else {
        RF_TRY(rf_emit_binary(g, RF_FN_MULTIPLY, 0, x, dy, &s));
        RF_TRY(rf_emit_recurrence(g, s, x, !attr->reverse, &s));
        RF_TRY(rf_emit_binary(g, RF_FN_ADD, 0, dy, s, &s));
    }
    RF_TRY(rf_emit_binary(g, RF_FN_MULTIPLY, 0, before, s, &plain));
    RF_TRY(emit_fits(g, before, &fits));
    RF_TRY(emit_fits(g, s, &fits));
    RF_TRY(emit_scaled_gradient(g, attr, x, dy, &scaled));
    RF_TRY(rf_emit_binary(g, RF_FN_WHERE, 0, fits, plain, &plain));
    RF_TRY(rf_emit_binary(g, RF_FN_WHERE_NOT, 0, fits, scaled, &scaled));
    return rf_emit_binary(g, RF_FN_ADD, 0, plain, scaled, &ctx->din[0]);
}

/* Products keep exponents of their own, so that those of long rows fit on the way. */
static rf_result cumprod_reference(const rf_op_call *call, void *const *in, void *const *out)
{
    const rf_cumprod_attr *attr = call->attr;
    const uint64_t rows = rf_desc_rows(&call->in[0]), columns = rf_desc_columns(&call->in[0]);
    const float *x = in[0];
    float *y = out[0];
    for (uint64_t r = 0; r < rows; r++, x += columns, y += columns) {
        double product = 1;
        int exponent = 0;
        for (uint64_t i = 0; i < columns; i++) {
            const uint64_t c = attr->reverse ? columns - 1 - i : i;
            const double before = ldexp(product, exponent);
            int more = 0;
            product = frexp(product * (double)x[c], &more);
            exponent += isfinite(product) ? more : 0;
            y[c] = (float)(attr->exclusive ? before : ldexp(product, exponent));
        }
    }
    return RF_OK;
}

static rf_cost cumprod_cost(const rf_op_call *call)
{
    return rf_cost_of(call, (double)rf_desc_count(&call->in[0]));
}

/* ---- recurrence, host side ---- */

static rf_result recurrence_infer(rf_op_call *call)
{
    RF_TRY(rf_expect_rows(call, 0));
    RF_TRY(rf_expect_rows(call, 1));
    RF_TRY(rf_expect_shape(call, 1, &call->in[0].shape, "a factor for each element of x"));
    call->out[0] = call->in[0];
    return RF_OK;
}

rf_result rf_emit_recurrence(rf_graph *g, rf_value x, rf_value factors, bool reverse, rf_value *out)
{
    const rf_recurrence_attr attr = { .reverse = reverse };
    const rf_value in[] = { x, factors };
    return rf_graph_add(g, &rf_op_recurrence, &attr, in, 2, out);
}

/* The gradient by x[i] is dy[i + 1] and, through y[i + 1], the factor's part of the next one: the same recurrence. */
static rf_result recurrence_gradient(rf_grad_context *ctx)
{
    const rf_recurrence_attr *attr = ctx->attr;
    rf_value dx;
    if (ctx->dout[0] == 0 || (!ctx->needed[0] && !ctx->needed[1])) return RF_OK;
    RF_TRY(rf_emit_recurrence(ctx->graph, ctx->dout[0], ctx->in[1], !attr->reverse, &dx));
    if (ctx->needed[0]) ctx->din[0] = dx;
    if (!ctx->needed[1]) return RF_OK;
    return rf_emit_binary(ctx->graph, RF_FN_MULTIPLY, 0, dx, ctx->out[0], &ctx->din[1]);
}

static rf_result recurrence_reference(const rf_op_call *call, void *const *in, void *const *out)
{
    const rf_recurrence_attr *attr = call->attr;
    const uint64_t rows = rf_desc_rows(&call->in[0]), columns = rf_desc_columns(&call->in[0]);
    const float *x = in[0], *factors = in[1];
    float *y = out[0];
    for (uint64_t r = 0; r < rows; r++, x += columns, factors += columns, y += columns) {
        double last = 0;
        for (uint64_t i = 0; i < columns; i++) {
            const uint64_t c = attr->reverse ? columns - 1 - i : i;
            y[c] = (float)last;
            last = (double)x[c] + (i > 0 ? (double)factors[c] * last : 0);
        }
    }
    return RF_OK;
}

static rf_cost recurrence_cost(const rf_op_call *call)
{
    return rf_cost_of(call, 2.0 * (double)rf_desc_count(&call->in[0]));
}

/* ---- kernels ---- */

static rf_scan cumprod_scan(const rf_op_call *call)
{
    const rf_cumprod_attr *attr = call->attr;
    return (rf_scan){ .row = &rf_shader_cumprod,
                      .totals = &rf_shader_cumprod_totals,
                      .blocked = &rf_shader_cumprod_blocked,
                      RF_SCAN_FOURS(cumprod),
                      .total_words = 2,
                      .exclusive = attr->exclusive,
                      .reverse = attr->reverse };
}

static rf_scan recurrence_scan(const rf_op_call *call)
{
    const rf_recurrence_attr *attr = call->attr;
    return (rf_scan){ .row = &rf_shader_recurrence,
                      .totals = &rf_shader_recurrence_totals,
                      .blocked = &rf_shader_recurrence_blocked,
                      .total_words = 3,
                      .exclusive = true,
                      .reverse = attr->reverse };
}

RF_SCAN_KERNELS_OF_FOURS(cumprod, cumprod_scan(call));
RF_SCAN_KERNELS(recurrence, recurrence_scan(call));

/* ---- the ops ---- */

static const rf_attr_field cumprod_fields[] = {
    RF_ATTR_FLAG(rf_cumprod_attr, exclusive),
    RF_ATTR_FLAG(rf_cumprod_attr, reverse),
};

const rf_op rf_op_cumprod = {
    .name = "cumprod",
    RF_ATTRIBUTES(rf_cumprod_attr, cumprod_fields),
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .flags = RF_OP_INPLACE | RF_OP_LAST_AXIS | RF_OP_NO_ONNX,
    .infer = cumprod_infer,
    .gradient = cumprod_gradient,
    .reference = cumprod_reference,
    .cost = cumprod_cost,
    RF_KERNELS(cumprod_kernels),
};

static const rf_attr_field recurrence_fields[] = { RF_ATTR_FLAG(rf_recurrence_attr, reverse) };

const rf_op rf_op_recurrence = {
    .name = "recurrence",
    RF_ATTRIBUTES(rf_recurrence_attr, recurrence_fields),
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .flags = RF_OP_INPLACE | RF_OP_LAST_AXIS | RF_OP_NO_ONNX,
    .infer = recurrence_infer,
    .gradient = recurrence_gradient,
    .reference = recurrence_reference,
    .cost = recurrence_cost,
    RF_KERNELS(recurrence_kernels),
};
