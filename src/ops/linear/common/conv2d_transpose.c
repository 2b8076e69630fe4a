/* SPDX-License-Identifier: Apache-2.0 */
/* Transposed convolution: what flows back through conv2d from an output to its image, as an operation of its own. It
 * has the kernels of conv2d_data_grad; its image is as large as it can be said from its output. */
#include "ops/linear/common/conv2d.h"
#include "ops/linear/cpu/cpu.h"
#include "ops/linear/gpu/gpu.h"

/* The size of the image along an axis of `size` outputs. Where sizes are rounded down, the smallest that loses none of
 * the kernel's taps. */
static int64_t image_size(const rf_conv2d_attr *attr, int axis, int64_t size, int64_t kernel)
{
    const int64_t stride = attr->stride[axis], extent = (kernel - 1) * attr->dilation[axis] + 1;
    const int32_t *padding = &attr->explicit_padding[2 * axis];
    switch (attr->padding) {
    case RF_PADDING_SAME: return size * stride;
    case RF_PADDING_VALID: return size * stride + (extent > stride ? extent - stride : 0);
    default: return (size - 1) * stride + extent - padding[0] - padding[1];
    }
}

static rf_result conv2d_transpose_infer(rf_op_call *call)
{
    const rf_conv2d_attr *attr = call->attr;
    const rf_tensor_desc *x = &call->in[0], *kernel = &call->in[1];
    const int64_t *xd = x->shape.dim, *kd = kernel->shape.dim;
    rf_conv_geometry g;
    char xs[96], ks[96];
    rf_shape_format(x->shape, xs, sizeof(xs));
    rf_shape_format(kernel->shape, ks, sizeof(ks));
    if (x->dtype != RF_F32 || x->shape.rank != 4 || kernel->shape.rank != 4 || xd[3] != kd[3])
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT,
                       "conv2d_transpose: image %s %s and kernel %s do not fit: they must be f32 [n,h,w,cin] and "
                       "[kh,kw,cout/groups,cin]",
                       rf_dtype_name(x->dtype), xs, ks);
    for (int i = 0; i < 2; i++)
        if (xd[1 + i] < 1 || xd[1 + i] > INT32_MAX || kd[i] < 1 || kd[i] > INT32_MAX || attr->stride[i] < 1 ||
            image_size(attr, i, xd[1 + i], kd[i]) < 1)
            return RF_FAIL(RF_ERROR_INVALID_ARGUMENT,
                           "conv2d_transpose: nothing is left of image %s with kernel %s, stride %dx%d and the padding",
                           xs, ks, attr->stride[0], attr->stride[1]);
    const int64_t h = image_size(attr, 0, xd[1], kd[0]), w = image_size(attr, 1, xd[2], kd[1]);
    const rf_tensor_desc image = { RF_F32, { 4, { xd[0], h, w, kd[2] * attr->groups } } };
    RF_TRY(rf_conv_geometry_make("conv2d_transpose", attr, &image, kernel, &g));
    if (attr->activation != RF_ACTIVATION_LINEAR || attr->max_pool)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "conv2d_transpose: takes no activation and no pooling");
    call->out[0] = image;
    return RF_OK;
}

static rf_result conv2d_transpose_gradient(rf_grad_context *ctx)
{
    const rf_value x = ctx->in[0], kernel = ctx->in[1], d = ctx->dout[0];
    if (!d) return RF_OK;
    if (ctx->needed[0]) RF_TRY(rf_conv2d_add(ctx->graph, ctx->attr, d, kernel, &ctx->din[0]));
    if (ctx->needed[1]) {
        rf_value out[RF_MAX_OUTPUTS];
        RF_TRY(
            rf_graph_add(ctx->graph, &rf_op_conv2d_filter_grad, ctx->attr, (const rf_value[]){ d, x, kernel }, 3, out));
        ctx->din[1] = out[0];
    }
    return RF_OK;
}

rf_result rf_emit_conv2d_transpose(rf_graph *g, rf_value x, rf_value kernel, const rf_conv2d_params *params,
                                   rf_value *out)
{
    const rf_conv2d_attr attr = rf_conv2d_attr_of(params);
    return rf_graph_add(g, &rf_op_conv2d_transpose, &attr, (const rf_value[]){ x, kernel }, 2, out);
}

const rf_op rf_op_conv2d_transpose = {
    .name = "conv2d_transpose",
    RF_ATTRIBUTES(rf_conv2d_attr, rf_conv2d_fields),
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .unbatched_in = 1u << 1,
    .met_by_padding = rf_conv2d_met_channel,
    RF_STORES_16(1),
    .infer = conv2d_transpose_infer,
    .gradient = conv2d_transpose_gradient,
    .reference = rf_conv2d_data_reference,
    .cost = rf_conv2d_data_cost,
    .families = { &rf_conv2d_data_common, RF_SOFTWARE(&rf_conv2d_data_cpu), RF_GPU(&rf_conv2d_data_gpu) },
};
