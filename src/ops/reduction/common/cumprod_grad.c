/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gradient of cumulative products. An element is a factor of its own product and of all that follow: its gradient
 * is the product of those before it times s, which comes from the other end, s[i] = dy[i] + x[i + 1] * s[i + 1], of
 * exclusive products dy[i + 1] + x[i + 1] * s[i + 1]. Nothing is divided by the element, so that zeros are factors like
 * others. Either of the two may be more or less than floats hold where what they make together is a float.
 */
#include "ops/ops.h"
#include "ops/reduction/common/scan.h"
#include "rf_shaders.h"

#include <math.h>

/* ---- host side ---- */

static rf_result cumprod_grad_infer(rf_op_call *call)
{
    RF_TRY(rf_expect_rows(call, 0));
    RF_TRY(rf_expect_rows(call, 1));
    RF_TRY(rf_expect_shape(call, 1, &call->in[0].shape, "a factor for each gradient"));
    call->out[0] = call->in[0];
    return RF_OK;
}

rf_result rf_emit_cumprod_grad(rf_graph *g, const rf_cumprod_attr *attr, rf_value dy, rf_value x, rf_value *out)
{
    const rf_value in[] = { dy, x };
    return rf_graph_add(g, &rf_op_cumprod_grad, attr, in, 2, out);
}

/* By way of floats: x has a part in the products before an element, which are exclusive ones, and in s, a recurrence.
 */
static rf_result cumprod_grad_gradient(rf_grad_context *ctx)
{
    const rf_cumprod_attr *attr = ctx->attr, exclusive = { .exclusive = true, .reverse = attr->reverse };
    const rf_value dy = ctx->in[0], x = ctx->in[1], dd = ctx->dout[0];
    rf_graph *g = ctx->graph;
    rf_value before, s, d_before, d_s, q, through_s, through_before;
    if (dd == 0 || (!ctx->needed[0] && !ctx->needed[1])) return RF_OK;
    RF_TRY(rf_emit_cumprod(g, x, true, attr->reverse, &before));
    RF_TRY(rf_emit_binary(g, RF_FN_MULTIPLY, 0, dd, before, &d_s));
    RF_TRY(rf_emit_recurrence(g, d_s, x, attr->reverse, &q));
    if (ctx->needed[0] && attr->exclusive) ctx->din[0] = q;
    if (ctx->needed[0] && !attr->exclusive) {
        RF_TRY(rf_emit_binary(g, RF_FN_MULTIPLY, 0, x, q, &ctx->din[0]));
        RF_TRY(rf_emit_binary(g, RF_FN_ADD, 0, ctx->din[0], d_s, &ctx->din[0]));
    }
    if (!ctx->needed[1]) return RF_OK;
    if (attr->exclusive) {
        RF_TRY(rf_emit_recurrence(g, dy, x, !attr->reverse, &s));
    } else {
        RF_TRY(rf_emit_binary(g, RF_FN_MULTIPLY, 0, x, dy, &s));
        RF_TRY(rf_emit_recurrence(g, s, x, !attr->reverse, &s));
        RF_TRY(rf_emit_binary(g, RF_FN_ADD, 0, s, dy, &s));
    }
    RF_TRY(rf_emit_binary(g, RF_FN_MULTIPLY, 0, q, s, &through_s));
    RF_TRY(rf_emit_binary(g, RF_FN_MULTIPLY, 0, dd, s, &d_before));
    RF_TRY(rf_emit_cumprod_grad(g, &exclusive, d_before, x, &through_before));
    return rf_emit_binary(g, RF_FN_ADD, 0, through_s, through_before, &ctx->din[1]);
}

/* A number m * 2^e. */
typedef struct wide {
    double m;
    int e;
} wide;

static wide wide_times(wide a, double b)
{
    int more = 0;
    const double m = frexp(a.m * b, &more);
    return (wide){ m, a.e + (isfinite(m) ? more : 0) };
}

static wide wide_plus(wide a, double b)
{
    if (a.m == 0) return wide_times((wide){ 1, 0 }, b);
    if (b == 0) return a;
    int e = 0;
    const double m = frexp(b, &e);
    const int top = a.e > e ? a.e : e;
    return wide_times((wide){ ldexp(a.m, a.e - top) + ldexp(m, e - top), top }, 1);
}

static void grad_row(const rf_cumprod_attr *attr, const float *dy, const float *x, float *dx, wide *before, uint64_t n)
{
    wide product = { 1, 0 }, u = { 0, 0 };
    for (uint64_t i = 0; i < n; i++) {
        before[i] = product;
        product = wide_times(product, (double)x[attr->reverse ? n - 1 - i : i]);
    }
    for (uint64_t i = n; i-- > 0;) {
        const uint64_t c = attr->reverse ? n - 1 - i : i;
        const double own = (double)dy[c], by = (double)x[c];
        const wide with_own = wide_plus(u, own), s = attr->exclusive ? u : with_own;
        const wide d = wide_times((wide){ s.m, s.e + before[i].e }, before[i].m);
        if (!attr->exclusive)
            u = wide_times(with_own, by);
        else
            u = i + 1 == n ? wide_plus(u, own) : wide_plus(wide_times(u, by), own);
        /* Behind a zero there is no gradient, whatever is there. */
        dx[c] = before[i].m == 0 ? 0 : (float)ldexp(d.m, d.e);
    }
}

static rf_result cumprod_grad_reference(const rf_op_call *call, void *const *in, void *const *out)
{
    const uint64_t rows = rf_desc_rows(&call->in[0]), columns = rf_desc_columns(&call->in[0]);
    wide *before = RF_NEW_ARRAY(wide, columns);
    if (!before) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint64_t r = 0; r < rows; r++) {
        const uint64_t at = r * columns;
        grad_row(call->attr, (const float *)in[0] + at, (const float *)in[1] + at, (float *)out[0] + at, before,
                 columns);
    }
    rf_free(before);
    return RF_OK;
}

static rf_cost cumprod_grad_cost(const rf_op_call *call)
{
    return rf_cost_of(call, 4.0 * (double)rf_desc_count(&call->in[0]));
}

/* ---- kernels ---- */

static rf_scan cumprod_grad_scan(const rf_op_call *call)
{
    const rf_cumprod_attr *attr = call->attr;
    return (rf_scan){ .row = &rf_shader_cumprod_grad,
                      .totals = &rf_shader_cumprod_grad_totals,
                      .blocked = &rf_shader_cumprod_grad,
                      .total_words = 4,
                      .element_words = 2,
                      .exclusive = attr->exclusive,
                      .reverse = attr->reverse };
}

static const rf_kernel cumprod_grad_kernels[] = { RF_SCAN_KERNELS(cumprod_grad_scan) };

/* ---- the op ---- */

static const rf_attr_field cumprod_grad_fields[] = {
    RF_ATTR_FLAG(rf_cumprod_attr, exclusive),
    RF_ATTR_FLAG(rf_cumprod_attr, reverse),
};

const rf_op rf_op_cumprod_grad = {
    .name = "cumprod_grad",
    RF_ATTRIBUTES(rf_cumprod_attr, cumprod_grad_fields),
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .flags = RF_OP_INPLACE | RF_OP_LAST_AXIS | RF_OP_NO_ONNX,
    .infer = cumprod_grad_infer,
    .gradient = cumprod_grad_gradient,
    .reference = cumprod_grad_reference,
    .cost = cumprod_grad_cost,
    RF_KERNELS(cumprod_grad_kernels),
};
