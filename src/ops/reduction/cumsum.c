/* SPDX-License-Identifier: Apache-2.0 */
/* Cumulative sums along the last dimension. */
#include "ops/ops.h"
#include "ops/reduction/scan.h"
#include "rf_shaders.h"

/* ---- host side ---- */

static rf_result cumsum_infer(rf_op_call *call)
{
    RF_TRY(rf_expect_rows(call, 0));
    call->out[0] = call->in[0];
    return RF_OK;
}

rf_result rf_emit_cumsum(rf_graph *g, rf_value x, bool exclusive, bool reverse, rf_value *out)
{
    const rf_cumsum_attr attr = { .exclusive = exclusive, .reverse = reverse };
    return rf_graph_add(g, &rf_op_cumsum, &attr, &x, 1, out);
}

/* An element is part of its own sum and of all that follow: its gradient is the sum of theirs, added from the other
 * end. */
static rf_result cumsum_gradient(rf_grad_context *ctx)
{
    const rf_cumsum_attr *attr = ctx->attr;
    if (ctx->dout[0] == 0 || !ctx->needed[0]) return RF_OK;
    return rf_emit_cumsum(ctx->graph, ctx->dout[0], attr->exclusive, !attr->reverse, &ctx->din[0]);
}

static rf_result cumsum_reference(const rf_op_call *call, void *const *in, void *const *out)
{
    const rf_cumsum_attr *attr = call->attr;
    const uint64_t rows = rf_desc_rows(&call->in[0]), columns = rf_desc_columns(&call->in[0]);
    const float *x = in[0];
    float *y = out[0];
    for (uint64_t r = 0; r < rows; r++, x += columns, y += columns) {
        double sum = 0;
        for (uint64_t i = 0; i < columns; i++) {
            const uint64_t c = attr->reverse ? columns - 1 - i : i;
            const double before = sum;
            sum += x[c];
            y[c] = (float)(attr->exclusive ? before : sum);
        }
    }
    return RF_OK;
}

static rf_cost cumsum_cost(const rf_op_call *call)
{
    return rf_cost_of(call, (double)rf_desc_count(&call->in[0]));
}

/* ---- kernels ---- */

static rf_scan cumsum_scan(const rf_op_call *call)
{
    const rf_cumsum_attr *attr = call->attr;
    return (rf_scan){ .row = &rf_shader_cumsum,
                      .totals = &rf_shader_cumsum_totals,
                      .blocked = &rf_shader_cumsum_blocked,
                      RF_SCAN_FOURS(cumsum),
                      .total_words = 1,
                      .exclusive = attr->exclusive,
                      .reverse = attr->reverse };
}

RF_SCAN_KERNELS_OF_FOURS(cumsum, cumsum_scan(call));

/* ---- cases ---- */

static const rf_cumsum_attr plain = { 0, 0 }, exclusive = { 1, 0 }, reverse = { 0, 1 }, both = { 1, 1 };
#define NORMAL(...)                                                                                                    \
    {                                                                                                                  \
        {                                                                                                              \
            .desc = RF_DESC(RF_F32, __VA_ARGS__), .fill = RF_FILL_NORMAL                                               \
        }                                                                                                              \
    }
/* Sums cancel: the rounding error grows with the length, not with the result. */
#define CASE(text, attr_, atol_, ...)                                                                                  \
    .name = text, .attr = &attr_, .n_in = 1, .in = NORMAL(__VA_ARGS__), .rtol = 1e-5, .atol = atol_
static const rf_op_case cumsum_cases[] = {
    { CASE("1", plain, 1e-6, 1, 1) },
    { CASE("exclusive_1x1", exclusive, 1e-6, 2, 1, 1) },
    { CASE("5x1", reverse, 1e-6, 2, 5, 1) },
    { CASE("3x5", plain, 1e-5, 2, 3, 5), .check_gradient = true },
    { CASE("exclusive_2x2x7", exclusive, 1e-5, 3, 2, 2, 7), .check_gradient = true },
    { CASE("reverse_4x3", reverse, 1e-5, 2, 4, 3), .check_gradient = true },
    { CASE("both_17", both, 1e-5, 1, 17), .check_gradient = true },
    /* about the 64 addends of a partial sum */
    { CASE("7x63", exclusive, 2e-5, 2, 7, 63) },
    { CASE("17x64", both, 2e-5, 2, 17, 64) },
    { CASE("257x65", reverse, 2e-5, 2, 257, 65) },
    { CASE("33x1009", both, 1e-4, 2, 33, 1009) },
    /* of fours: several blocks, a last block of a few elements, ends of single rows */
    { CASE("67x68", exclusive, 2e-5, 2, 67, 68) },
    { CASE("33x1012", both, 1e-4, 2, 33, 1012) },
    { CASE("5x2044", reverse, 2e-4, 2, 5, 2044) },
    { CASE("2050", both, 2e-4, 1, 2050) },
    { CASE("4225", plain, 2e-4, 1, 4225) },
    { CASE("64x10", plain, 1e-5, 2, 64, 10), .benchmark = true },
    { CASE("2x4096", exclusive, 2e-4, 2, 2, 4096), .benchmark = true },
    { CASE("1024x1024", plain, 1e-4, 2, 1024, 1024), .benchmark = true },
    { CASE("8x65536", plain, 1e-3, 2, 8, 65536), .benchmark = true },
    /* rows longer than some drivers let one loop be */
    { CASE("70001", exclusive, 1e-3, 1, 70001) },
    { CASE("3x131101", both, 1e-3, 2, 3, 131101) },
    { CASE("1000003", reverse, 5e-3, 1, 1000003), .benchmark = true, .large = true },
    /* more than one descriptor spans at the smallest limits: several dispatches */
    { CASE("34000x1024", plain, 1e-4, 2, 34000, 1024), .large = true },
};

static const rf_attr_field cumsum_fields[] = {
    RF_ATTR_FLAG(rf_cumsum_attr, exclusive),
    RF_ATTR_FLAG(rf_cumsum_attr, reverse),
};

const rf_op rf_op_cumsum = {
    .name = "cumsum",
    RF_ATTRIBUTES(rf_cumsum_attr, cumsum_fields),
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .flags = RF_OP_INPLACE | RF_OP_LAST_AXIS,
    .infer = cumsum_infer,
    .gradient = cumsum_gradient,
    .reference = cumsum_reference,
    .cost = cumsum_cost,
    RF_KERNELS(cumsum_kernels),
    RF_CASES(cumsum_cases),
};
