/* SPDX-License-Identifier: Apache-2.0 */
/* Cumulative products along the last dimension, and the linear recurrence that their second gradient is made of. */
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

static rf_result cumprod_gradient(rf_grad_context *ctx)
{
    if (ctx->dout[0] == 0 || !ctx->needed[0]) return RF_OK;
    return rf_emit_cumprod_grad(ctx->graph, ctx->attr, ctx->dout[0], ctx->in[0], &ctx->din[0]);
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

/* ---- cases ---- */

static const rf_cumprod_attr plain = { 0, 0 }, exclusive = { 1, 0 }, reverse = { 0, 1 }, both = { 1, 1 };
/* Factors about 1, so that long products are numbers; about 0; and zeros among ones, twos and their negatives. */
#define NEAR_1(...) RF_TENSOR(RF_F32, RF_FILL_UNIFORM, 0.99f, 1.01f, __VA_ARGS__)
#define NORMAL(...) RF_TENSOR(RF_F32, RF_FILL_NORMAL, 0, 1, __VA_ARGS__)
#define WIDE(...) RF_TENSOR(RF_F32, RF_FILL_NORMAL, 0, 2, __VA_ARGS__)
#define ZEROS(...) RF_TENSOR(RF_F32, RF_FILL_INTEGER, -2, 3, __VA_ARGS__)
/* The rounding error grows with the length. Denormal products are zeros. */
#define CASE(text, attr_, rtol_, x) .name = text, .attr = &attr_, .n_in = 1, .in = { x }, .rtol = rtol_, .atol = 2e-38
static const rf_op_case cumprod_cases[] = {
    { CASE("1", plain, 1e-6, NORMAL(1, 1)) },
    { CASE("exclusive_1x1", exclusive, 1e-6, NORMAL(2, 1, 1)) },
    { CASE("5x1", reverse, 1e-6, NORMAL(2, 5, 1)) },
    { CASE("3x5", plain, 1e-5, NORMAL(2, 3, 5)), .check_gradient = true },
    { CASE("exclusive_2x2x7", exclusive, 1e-5, NORMAL(3, 2, 2, 7)), .check_gradient = true },
    { CASE("reverse_4x3", reverse, 1e-5, NORMAL(2, 4, 3)), .check_gradient = true },
    { CASE("both_17", both, 1e-5, NORMAL(1, 17)), .check_gradient = true },
    { CASE("zeros_9x5", plain, 1e-5, ZEROS(2, 9, 5)), .check_gradient = true },
    { CASE("zeros_exclusive_7x6", both, 1e-5, ZEROS(2, 7, 6)), .check_gradient = true },
    { CASE("7x63", exclusive, 1e-5, WIDE(2, 7, 63)) },
    { CASE("17x64", both, 1e-5, WIDE(2, 17, 64)) },
    { CASE("257x65", reverse, 1e-5, WIDE(2, 257, 65)) },
    /* beyond the range of floats and back */
    { CASE("33x1009", both, 1e-4, WIDE(2, 33, 1009)) },
    { CASE("zeros_5x1024", plain, 1e-5, ZEROS(2, 5, 1024)) },
    { CASE("64x10", plain, 1e-5, NORMAL(2, 64, 10)), .benchmark = true },
    { CASE("2x4096", exclusive, 1e-4, NEAR_1(2, 2, 4096)), .benchmark = true },
    { CASE("1024x1024", plain, 1e-4, NEAR_1(2, 1024, 1024)), .benchmark = true },
    { CASE("8x65536", plain, 1e-3, NEAR_1(2, 8, 65536)), .benchmark = true },
    /* rows longer than some drivers let one loop be */
    { CASE("70001", exclusive, 1e-3, NEAR_1(1, 70001)) },
    { CASE("3x131101", both, 1e-3, NEAR_1(2, 3, 131101)) },
    { CASE("1000003", reverse, 2e-3, NEAR_1(1, 1000003)), .benchmark = true, .large = true },
    /* more than one descriptor spans at the smallest limits: several dispatches */
    { CASE("34000x1024", plain, 1e-4, NEAR_1(2, 34000, 1024)), .large = true },
};

static const rf_recurrence_attr forwards = { 0 }, backwards = { 1 };
#define FADING(...) RF_TENSOR(RF_F32, RF_FILL_UNIFORM, -0.99f, 0.99f, __VA_ARGS__)
#define LASTING(...) RF_TENSOR(RF_F32, RF_FILL_UNIFORM, 0.95f, 1.0f, __VA_ARGS__)
#define STEPS(text, attr_, rtol_, x, factors)                                                                          \
    .name = text, .attr = &attr_, .n_in = 2, .in = { x, factors }, .rtol = rtol_, .atol = 20 * rtol_
/* Of an infinite factor and what cancels before it, blocks make NaN. */
static const rf_op_case recurrence_cases[] = {
    { STEPS("1", forwards, 1e-6, NORMAL(1, 1), NORMAL(1, 1)) },
    { STEPS("5x1", backwards, 1e-6, NORMAL(2, 5, 1), NORMAL(2, 5, 1)) },
    { STEPS("3x5", forwards, 1e-6, NORMAL(2, 3, 5), NORMAL(2, 3, 5)), .check_gradient = true },
    { STEPS("backwards_2x2x7", backwards, 1e-6, NORMAL(3, 2, 2, 7), NORMAL(3, 2, 2, 7)), .check_gradient = true },
    { STEPS("zeros_9x5", forwards, 1e-6, NORMAL(2, 9, 5), ZEROS(2, 9, 5)), .check_gradient = true },
    { STEPS("257x65", backwards, 1e-6, NORMAL(2, 257, 65), FADING(2, 257, 65)), .unattended = true },
    { STEPS("33x1009", forwards, 1e-5, NORMAL(2, 33, 1009), LASTING(2, 33, 1009)), .unattended = true },
    { STEPS("2x4096", backwards, 1e-5, NORMAL(2, 2, 4096), LASTING(2, 2, 4096)), .unattended = true,
      .benchmark = true },
    { STEPS("1024x1024", forwards, 1e-5, NORMAL(2, 1024, 1024), LASTING(2, 1024, 1024)), .unattended = true,
      .benchmark = true },
    { STEPS("3x131101", backwards, 1e-5, NORMAL(2, 3, 131101), LASTING(2, 3, 131101)), .unattended = true },
    { STEPS("34000x1024", forwards, 1e-5, NORMAL(2, 34000, 1024), FADING(2, 34000, 1024)), .unattended = true,
      .large = true },
};

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
    RF_CASES(cumprod_cases),
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
    RF_CASES(recurrence_cases),
};
