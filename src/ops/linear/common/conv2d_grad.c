/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients of conv2d with respect to its image and its kernel. Both are linear in both operands, so each one's
 * gradient is made of the other two. */
#include "ops/linear/common/conv2d.h"
#include "ops/linear/cpu/cpu.h"
#include "ops/linear/gpu/gpu.h"

#include <string.h>

/* dy must have the shape that the convolution of x with kernel gives. */
static rf_result operands_check(const char *op, const rf_op_call *call, const rf_tensor_desc *x,
                                const rf_tensor_desc *dy, const rf_tensor_desc *kernel)
{
    const rf_conv2d_attr *attr = call->attr;
    rf_conv_geometry g;
    RF_TRY(rf_conv_geometry_make(op, attr, x, kernel, &g));
    if (attr->activation != RF_ACTIVATION_LINEAR || attr->max_pool)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s: takes no activation and no pooling", op);
    if (dy->dtype != RF_F32 || !rf_shape_equal(dy->shape, (rf_shape){ 4, { g.n, g.oh, g.ow, g.cout } })) {
        char dys[96];
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s: dy %s %s must be f32 [%lld,%lld,%lld,%lld]", op,
                       rf_dtype_name(dy->dtype), rf_shape_format(dy->shape, dys, sizeof(dys)), (long long)g.n,
                       (long long)g.oh, (long long)g.ow, (long long)g.cout);
    }
    return RF_OK;
}

/* ---- with respect to the image ---- */

static rf_result data_infer(rf_op_call *call)
{
    RF_TRY(operands_check("conv2d_data_grad", call, &call->in[2], &call->in[0], &call->in[1]));
    call->out[0] = call->in[2];
    return RF_OK;
}

static rf_result data_gradient(rf_grad_context *ctx)
{
    const rf_value dy = ctx->in[0], kernel = ctx->in[1], d = ctx->dout[0];
    if (!d) return RF_OK;
    if (ctx->needed[0]) RF_TRY(rf_conv2d_add(ctx->graph, ctx->attr, d, kernel, &ctx->din[0]));
    if (ctx->needed[1]) {
        rf_value out[RF_MAX_OUTPUTS];
        RF_TRY(rf_graph_add(ctx->graph, &rf_op_conv2d_filter_grad, ctx->attr, (const rf_value[]){ d, dy, kernel }, 3,
                            out));
        ctx->din[1] = out[0];
    }
    return RF_OK;
}

rf_result rf_conv2d_data_reference(const rf_op_call *call, void *const *in, void *const *out)
{
    const rf_conv_geometry g = rf_conv_geometry_of(call, RF_ROLE_DATA);
    const float *dy = in[0], *kernel = in[1];
    float *dx = out[0];
    const int64_t image_size = g.h * g.w * g.cin;
    double *sum = RF_NEW_ARRAY(double, image_size);
    if (!sum) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (int64_t image = 0; image < g.n; image++) {
        memset(sum, 0, sizeof(*sum) * (size_t)image_size);
        for (int64_t p = 0; p < g.oh * g.ow; p++)
            for (int64_t tap = 0; tap < g.kh * g.kw; tap++) {
                const int64_t iy = p / g.ow * g.sy + tap / g.kw * g.dy - g.pt;
                const int64_t ix = p % g.ow * g.sx + tap % g.kw * g.dx - g.pl;
                if (iy < 0 || iy >= g.h || ix < 0 || ix >= g.w) continue;
                for (int64_t ci = 0; ci < g.cin; ci++) {
                    const int64_t first = ci / g.cig * g.cog;
                    const float *row = kernel + (tap * g.cig + ci % g.cig) * g.cout;
                    const float *d = dy + (image * g.oh * g.ow + p) * g.cout;
                    double s = 0;
                    for (int64_t co = first; co < first + g.cog; co++) s += (double)d[co] * (double)row[co];
                    sum[(iy * g.w + ix) * g.cin + ci] += s;
                }
            }
        for (int64_t i = 0; i < image_size; i++) dx[image * image_size + i] = (float)sum[i];
    }
    rf_free(sum);
    return RF_OK;
}

rf_cost rf_conv2d_data_cost(const rf_op_call *call)
{
    return rf_conv_cost(call, RF_ROLE_DATA);
}

static const rf_linear_role data_role = RF_ROLE_DATA, filter_role = RF_ROLE_FILTER;
static const rf_kernel data_kernels[] = {
    { "naive", rf_conv2d_naive_score, rf_conv2d_naive_plan, &data_role, .last_resort = true },
    { "depthwise", rf_conv2d_depthwise_score, rf_conv2d_depthwise_plan, &data_role },
};
const rf_kernel_list rf_conv2d_data_common = RF_KERNEL_LIST(data_kernels);

rf_elements rf_conv2d_met_channel(const rf_op_call *call, int64_t i)
{
    const rf_shape *filter = &call->in[1].shape, *out = &call->out[0].shape;
    const int64_t channel = i % out->dim[out->rank - 1];
    return (rf_elements){ channel % filter->dim[2] * filter->dim[3], 1, rf_shape_count(*filter) };
}

const rf_op rf_op_conv2d_data_grad = {
    .name = "conv2d_data_grad",
    RF_ATTRIBUTES(rf_conv2d_attr, rf_conv2d_fields),
    .min_in = 3,
    .max_in = 3,
    .n_out = 1,
    .shape_only = 1u << 2,
    .flags = RF_OP_NO_ONNX,
    .unbatched_in = 1u << 1,
    .met_by_padding = rf_conv2d_met_channel,
    RF_STORES_16(1),
    .infer = data_infer,
    .gradient = data_gradient,
    .reference = rf_conv2d_data_reference,
    .cost = rf_conv2d_data_cost,
    .families = { &rf_conv2d_data_common, RF_SOFTWARE(&rf_conv2d_data_cpu), RF_GPU(&rf_conv2d_data_gpu) },
};

/* ---- with respect to the kernel; the bias' comes along because dy is being read anyway ---- */

static rf_result filter_infer(rf_op_call *call)
{
    RF_TRY(operands_check("conv2d_filter_grad", call, &call->in[0], &call->in[1], &call->in[2]));
    call->out[0] = call->in[2];
    call->n_out = ((const rf_conv2d_attr *)call->attr)->bias_gradient ? 2 : 1;
    call->out[1] = (rf_tensor_desc){ RF_F32, { 1, { call->in[2].shape.dim[3] } } };
    return RF_OK;
}

static rf_result filter_gradient(rf_grad_context *ctx)
{
    const rf_value x = ctx->in[0], dy = ctx->in[1], d = ctx->dout[0], dbias = ctx->n_out > 1 ? ctx->dout[1] : 0;
    rf_conv2d_attr attr = *(const rf_conv2d_attr *)ctx->attr;
    attr.bias_gradient = 0;
    if (d && ctx->needed[0])
        RF_TRY(
            rf_graph_add(ctx->graph, &rf_op_conv2d_data_grad, &attr, (const rf_value[]){ dy, d, x }, 3, &ctx->din[0]));
    if (!ctx->needed[1]) return RF_OK;
    rf_value from_kernel = 0, from_bias = 0;
    if (d) RF_TRY(rf_conv2d_add(ctx->graph, &attr, x, d, &from_kernel));
    if (dbias) RF_TRY(rf_emit_broadcast_like(ctx->graph, dbias, dy, &from_bias));
    if (from_kernel && from_bias) return rf_emit_binary(ctx->graph, RF_FN_ADD, 0, from_kernel, from_bias, &ctx->din[1]);
    ctx->din[1] = from_kernel ? from_kernel : from_bias;
    return RF_OK;
}

static rf_result filter_reference(const rf_op_call *call, void *const *in, void *const *out)
{
    const rf_conv_geometry g = rf_conv_geometry_of(call, RF_ROLE_FILTER);
    const float *x = in[0], *dy = in[1];
    float *dkernel = out[0], *dbias = call->n_out > 1 ? out[1] : NULL;
    const int64_t size = g.kh * g.kw * g.cig * g.cout;
    double *sum = RF_NEW_ARRAY(double, size + g.cout);
    if (!sum) return RF_ERROR_OUT_OF_HOST_MEMORY;
    double *bias = sum + size;
    for (int64_t p = 0; p < g.n * g.oh * g.ow; p++) {
        const int64_t ox = p % g.ow, oy = p / g.ow % g.oh, image = p / g.ow / g.oh;
        const float *d = dy + p * g.cout;
        for (int64_t co = 0; co < g.cout; co++) bias[co] += (double)d[co];
        for (int64_t tap = 0; tap < g.kh * g.kw; tap++) {
            const int64_t iy = oy * g.sy + tap / g.kw * g.dy - g.pt, ix = ox * g.sx + tap % g.kw * g.dx - g.pl;
            if (iy < 0 || iy >= g.h || ix < 0 || ix >= g.w) continue;
            for (int64_t ci = 0; ci < g.cin; ci++) {
                const int64_t first = ci / g.cig * g.cog;
                const double s = (double)x[((image * g.h + iy) * g.w + ix) * g.cin + ci];
                double *row = sum + (tap * g.cig + ci % g.cig) * g.cout;
                for (int64_t co = first; co < first + g.cog; co++) row[co] += s * (double)d[co];
            }
        }
    }
    for (int64_t i = 0; i < size; i++) dkernel[i] = (float)sum[i];
    for (int64_t i = 0; dbias && i < g.cout; i++) dbias[i] = (float)bias[i];
    rf_free(sum);
    return RF_OK;
}

/* The bias' gradient, a sum of the same dy over all axes but the last, becomes output 1. */
static bool filter_absorb_sums(const rf_graph *graph, rf_node self, rf_node other, rf_fused *fused, uint32_t *other_out)
{
    const rf_node_info *s = &graph->nodes.items[self], *o = &graph->nodes.items[other];
    if (o->op != &rf_op_reduce || o->in[0] != s->in[1]) return false;
    const rf_reduce_attr *reduce = o->attr;
    if (reduce->kind != RF_REDUCE_KIND_SUM || reduce->axes_mask != 7 || reduce->keep_dims) return false;
    rf_conv2d_attr attr = *(const rf_conv2d_attr *)s->attr;
    if (attr.bias_gradient) return false;
    attr.bias_gradient = 1;
    memset(fused, 0, sizeof(*fused));
    fused->op = s->op;
    fused->n_in = s->n_in;
    memcpy(fused->in, s->in, sizeof(*s->in) * s->n_in);
    memcpy(fused->attr, &attr, sizeof(attr));
    *other_out = 1;
    return true;
}

static bool filter_absorb_sibling(const rf_graph *graph, rf_node self, rf_node other, rf_fused *fused,
                                  uint32_t *other_out)
{
    *other_out = 0;
    return rf_linear_absorb_cast(graph, self, other, offsetof(rf_conv2d_attr, f32), fused) ||
           filter_absorb_sums(graph, self, other, fused, other_out);
}

bool rf_conv2d_makes_f32(const rf_op_call *call)
{
    return ((const rf_conv2d_attr *)call->attr)->f32;
}

static rf_cost filter_cost(const rf_op_call *call)
{
    return rf_conv_cost(call, RF_ROLE_FILTER);
}

static const rf_kernel filter_kernels[] = {
    { "naive", rf_conv2d_naive_score, rf_conv2d_naive_plan, &filter_role, .last_resort = true },
    { "depthwise", rf_conv2d_depthwise_filter_score, rf_conv2d_depthwise_filter_plan },
};
static const rf_kernel_list filter_common = RF_KERNEL_LIST(filter_kernels);

const rf_op rf_op_conv2d_filter_grad = {
    .name = "conv2d_filter_grad",
    RF_ATTRIBUTES(rf_conv2d_attr, rf_conv2d_fields),
    .min_in = 3,
    .max_in = 3,
    .n_out = 2,
    .shape_only = 1u << 2,
    .flags = RF_OP_NO_ONNX,
    .unbatched_in = 1u << 2,
    .met_by_padding = rf_linear_met_column,
    .unbatched_out = 1u << 0 | 1u << 1,
    RF_STORES_16(1),
    .makes_f32 = rf_conv2d_makes_f32,
    .infer = filter_infer,
    .gradient = filter_gradient,
    .reference = filter_reference,
    .cost = filter_cost,
    .absorb_sibling = filter_absorb_sibling,
    .families = { &filter_common, RF_SOFTWARE(&rf_conv2d_filter_cpu), RF_GPU(&rf_conv2d_filter_gpu) },
};
