/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What normalization does to each channel once its mean is known: (x - mean) * scale + shift. An op of its own for the
 * sake of its gradient, which takes two sums in one walk; it runs by the element-wise kernels, and fuses like them.
 */
#include "ops/kit.h"
#include "ops/pointwise/elementwise.h"

static rf_result normalize_infer(rf_op_call *call)
{
    RF_TRY(rf_expect_rows(call, 0));
    RF_TRY(rf_expect_not_empty(call, 0));
    const rf_shape channels = RF_SHAPE((int64_t)rf_desc_columns(&call->in[0]));
    for (uint32_t i = 1; i < call->n_in; i++) {
        RF_TRY(rf_expect_dtype(call, i, RF_F32));
        RF_TRY(rf_expect_shape(call, i, &channels, "a number for each channel"));
    }
    call->out[0] = call->in[0];
    return RF_OK;
}

rf_result rf_emit_normalize(rf_graph *g, rf_value x, rf_value mean, rf_value scale, rf_value shift, rf_value *out)
{
    return rf_graph_add(g, &rf_op_normalize, NULL, (rf_value[]){ x, mean, scale, shift }, 3 + (shift != 0), out);
}

static rf_result normalize_gradient(rf_grad_context *ctx)
{
    rf_graph *g = ctx->graph;
    rf_value products = 0, sums = 0;
    if (ctx->needed[0]) RF_TRY(rf_emit_binary(g, RF_FN_MULTIPLY, 0, ctx->dout[0], ctx->in[2], &ctx->din[0]));
    if (!ctx->needed[1] && !ctx->needed[2] && !(ctx->n_in > 3 && ctx->needed[3])) return RF_OK;
    RF_TRY(rf_emit_batch_sums(g, ctx->dout[0], ctx->in[0], ctx->in[1], &products, &sums));
    if (ctx->needed[1]) {
        RF_TRY(rf_emit_binary(g, RF_FN_MULTIPLY, 0, sums, ctx->in[2], &ctx->din[1]));
        RF_TRY(rf_emit_unary(g, RF_FN_NEGATIVE, 0, ctx->din[1], &ctx->din[1]));
    }
    if (ctx->needed[2]) ctx->din[2] = products;
    if (ctx->n_in > 3 && ctx->needed[3]) ctx->din[3] = sums;
    return RF_OK;
}

static rf_result normalize_reference(const rf_op_call *call, void *const *in, void *const *out)
{
    const float *x = in[0], *mean = in[1], *scale = in[2], *shift = call->n_in > 3 ? in[3] : NULL;
    const uint64_t rows = rf_desc_rows(&call->in[0]), columns = rf_desc_columns(&call->in[0]);
    for (uint64_t at = 0; at < rows * columns; at++) {
        const uint64_t c = at % columns;
        ((float *)out[0])[at] =
            (float)(((double)x[at] - (double)mean[c]) * (double)scale[c] + (shift ? (double)shift[c] : 0));
    }
    return RF_OK;
}

static rf_cost normalize_cost(const rf_op_call *call)
{
    return rf_cost_of(call, (double)(call->n_in - 1) * (double)rf_desc_count(&call->in[0]));
}

const rf_elementwise_attr *rf_normalize_program(uint32_t n_in)
{
    static const rf_elementwise_attr scaled = { 2, { { RF_FN_SUBTRACT, 0, 1, 0, 0 }, { RF_FN_MULTIPLY, 3, 2, 0, 0 } } };
    static const rf_elementwise_attr shifted = {
        3, { { RF_FN_SUBTRACT, 0, 1, 0, 0 }, { RF_FN_MULTIPLY, 4, 2, 0, 0 }, { RF_FN_ADD, 5, 3, 0, 0 } }
    };
    return n_in > 3 ? &shifted : &scaled;
}

/* ---- kernels ---- */

static rf_op_call as_program(const rf_op_call *call)
{
    rf_op_call program = *call;
    program.op = &rf_op_elementwise;
    program.attr = rf_normalize_program(call->n_in);
    return program;
}

static double program_score(const rf_op_call *call, const rf_device_caps *caps, uint32_t i)
{
    const rf_op_call program = as_program(call);
    return rf_elementwise_kernels[i]->score(&program, caps);
}

static rf_result program_plan(const rf_op_call *call, const rf_device_caps *caps, uint32_t i, rf_kernel_plan *plan)
{
    const rf_op_call program = as_program(call);
    return rf_elementwise_kernels[i]->plan(&program, caps, plan);
}

RF_VARIANT(static, kernel_0, "u64x8", program_score, program_plan, 0);
RF_NARROW_VARIANT(static, kernel_1, "vec4", program_score, program_plan, 1, rf_always_narrow);
RF_VARIANT(static, kernel_2, "strided", program_score, program_plan, 2);
RF_NARROW_VARIANT(static, kernel_3, "texel", program_score, program_plan, 3, rf_texels_narrow);
static const rf_kernel *const kernels[RF_ELEMENTWISE_NUM_KERNELS] = { &kernel_0, &kernel_1, &kernel_2, &kernel_3 };

/* ---- cases ---- */

#define X(...) RF_TENSOR(RF_F32, RF_FILL_NORMAL, 0, 1, __VA_ARGS__)
#define CASE(text, count, ...) .name = text, .n_in = count, .rtol = 1e-6, .atol = 1e-6, .in = { __VA_ARGS__ }
static const rf_op_case cases[] = {
    { CASE("1x1", 4, X(2, 1, 1), X(1, 1), X(1, 1), X(1, 1)) },
    { CASE("3x5", 4, X(2, 3, 5), X(1, 5), X(1, 5), X(1, 5)), .check_gradient = true },
    { CASE("scaled_2x3x4", 3, X(3, 2, 3, 4), X(1, 4), X(1, 4)), .check_gradient = true },
    { CASE("257x31", 3, X(2, 257, 31), X(1, 31), X(1, 31)) },
    { CASE("7x5x9x64", 4, X(4, 7, 5, 9, 64), X(1, 64), X(1, 64), X(1, 64)) },
    { CASE("64x28x28x16", 4, X(4, 64, 28, 28, 16), X(1, 16), X(1, 16), X(1, 16)), .large = true, .benchmark = true },
};

const rf_op rf_op_normalize = {
    .name = "normalize",
    .min_in = 3,
    .max_in = 4,
    .n_out = 1,
    .flags = RF_OP_INPLACE | RF_OP_NO_ONNX,
    .unbatched_in = 1u << 1 | 1u << 2 | 1u << 3,
    RF_STORES_16(1),
    .infer = normalize_infer,
    .gradient = normalize_gradient,
    .reference = normalize_reference,
    .cost = normalize_cost,
    .absorb_consumer = rf_elementwise_absorb,
    RF_KERNELS(kernels),
    RF_CASES(cases),
};
