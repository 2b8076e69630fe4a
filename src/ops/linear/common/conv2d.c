/* SPDX-License-Identifier: Apache-2.0 */
/* Two-dimensional cross-correlation, NHWC images, kernels [kh, kw, cin / groups, cout]. */
#include "ops/linear/common/conv2d.h"
#include "ops/linear/cpu/cpu.h"
#include "ops/linear/gpu/gpu.h"
#include "rf_shaders.h"

static rf_result conv2d_infer(rf_op_call *call)
{
    rf_conv_geometry g;
    RF_TRY(rf_conv_geometry_make("conv2d", call->attr, &call->in[0], &call->in[1], &g));
    if (call->n_in == 3 &&
        (call->in[2].dtype != RF_F32 || !rf_shape_equal(call->in[2].shape, (rf_shape){ 1, { g.cout } }))) {
        char bias[96];
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "conv2d: bias %s %s must be f32 [%lld]",
                       rf_dtype_name(call->in[2].dtype), rf_shape_format(call->in[2].shape, bias, sizeof(bias)),
                       (long long)g.cout);
    }
    call->out[0] = (rf_tensor_desc){ RF_F32, { 4, { g.n, g.oh, g.ow, g.cout } } };
    call->n_out = 1;
    return ((const rf_conv2d_attr *)call->attr)->max_pool ? rf_conv2d_pool_infer(call) : RF_OK;
}

static rf_result conv2d_gradient(rf_grad_context *ctx)
{
    rf_conv2d_attr attr = *(const rf_conv2d_attr *)ctx->attr;
    if (ctx->n_in != 2 || attr.activation != RF_ACTIVATION_LINEAR || attr.max_pool)
        return RF_FAIL(RF_ERROR_NO_GRADIENT, "conv2d: a convolution with a fused bias, activation or pooling has no "
                                             "gradient; differentiate before the graph is optimised");
    const rf_value x = ctx->in[0], kernel = ctx->in[1], dy = ctx->dout[0];
    if (!dy) return RF_OK;
    if (ctx->needed[0])
        RF_TRY(rf_graph_add(ctx->graph, &rf_op_conv2d_data_grad, &attr, (const rf_value[]){ dy, kernel, x }, 3,
                            &ctx->din[0]));
    if (ctx->needed[1]) {
        rf_value out[RF_MAX_OUTPUTS];
        RF_TRY(rf_graph_add(ctx->graph, &rf_op_conv2d_filter_grad, &attr, (const rf_value[]){ x, dy, kernel }, 3, out));
        ctx->din[1] = out[0];
    }
    return RF_OK;
}

static rf_result conv2d_reference(const rf_op_call *call, void *const *in, void *const *out)
{
    const rf_conv_geometry g = rf_conv_geometry_of(call, RF_ROLE_FORWARD);
    const rf_conv2d_attr *attr = call->attr;
    const float *x = in[0], *kernel = in[1], *bias = call->n_in == 3 ? in[2] : NULL;
    float *y = out[0];
    double *sum = RF_NEW_ARRAY(double, g.cout);
    if (!sum) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (int64_t p = 0; p < g.n * g.oh * g.ow; p++) {
        const int64_t ox = p % g.ow, oy = p / g.ow % g.oh, image = p / g.ow / g.oh;
        for (int64_t co = 0; co < g.cout; co++) sum[co] = bias ? (double)bias[co] : 0;
        for (int64_t tap = 0; tap < g.kh * g.kw; tap++) {
            const int64_t iy = oy * g.sy + tap / g.kw * g.dy - g.pt, ix = ox * g.sx + tap % g.kw * g.dx - g.pl;
            if (iy < 0 || iy >= g.h || ix < 0 || ix >= g.w) continue;
            for (int64_t ci = 0; ci < g.cin; ci++) {
                const int64_t first = ci / g.cig * g.cog;
                const double s = (double)x[((image * g.h + iy) * g.w + ix) * g.cin + ci];
                const float *row = kernel + (tap * g.cig + ci % g.cig) * g.cout;
                for (int64_t co = first; co < first + g.cog; co++) sum[co] += s * (double)row[co];
            }
        }
        for (int64_t co = 0; co < g.cout; co++)
            y[p * g.cout + co] = (float)rf_linear_activate(attr->activation, sum[co]);
    }
    rf_free(sum);
    return attr->max_pool ? rf_conv2d_pool_reference(call, out) : RF_OK;
}

static bool absorb_consumer(const rf_graph *graph, rf_node producer, rf_node consumer, rf_fused *fused)
{
    return rf_linear_absorb(graph, producer, consumer, offsetof(rf_conv2d_attr, activation), fused);
}

rf_result rf_conv2d_add(rf_graph *g, const rf_conv2d_attr *attr, rf_value x, rf_value kernel, rf_value *out)
{
    rf_value made[RF_MAX_OUTPUTS];
    RF_TRY(rf_graph_add(g, &rf_op_conv2d, attr, (const rf_value[]){ x, kernel }, 2, made));
    *out = made[0];
    return RF_OK;
}

rf_conv2d_attr rf_conv2d_attr_of(const rf_conv2d_params *params)
{
    const rf_conv2d_params p = params ? *params : (rf_conv2d_params){ 0 };
    rf_conv2d_attr attr = { .padding = p.padding, .groups = p.groups ? p.groups : 1 };
    for (int i = 0; i < 2; i++) {
        attr.stride[i] = p.stride[i] ? p.stride[i] : 1;
        attr.dilation[i] = p.dilation[i] ? p.dilation[i] : 1;
    }
    for (int i = 0; i < 4 && p.padding == RF_PADDING_EXPLICIT; i++) attr.explicit_padding[i] = p.explicit_padding[i];
    return attr;
}

rf_result rf_emit_conv2d(rf_graph *g, rf_value x, rf_value kernel, const rf_conv2d_params *params, rf_value *out)
{
    const rf_conv2d_attr attr = rf_conv2d_attr_of(params);
    return rf_conv2d_add(g, &attr, x, kernel, out);
}

const rf_attr_field rf_conv2d_fields[] = {
    RF_ATTR_NAMED(rf_conv2d_attr, padding, RF_PADDING_EXPLICIT, rf_padding_name),
    RF_ATTR_INTS(rf_conv2d_attr, stride[0], "stride", 2, 1, INT32_MAX),
    RF_ATTR_INTS(rf_conv2d_attr, dilation[0], "dilation", 2, 1, INT32_MAX),
    RF_ATTR_INT(rf_conv2d_attr, groups, 1, INT32_MAX),
    RF_ATTR_INTS(rf_conv2d_attr, explicit_padding[0], "explicit_padding", 4, 0, INT32_MAX),
    RF_ATTR_NAMED(rf_conv2d_attr, activation, RF_ACTIVATION_SOFTMAX, rf_activation_name),
    RF_ATTR_FLAG(rf_conv2d_attr, relu_mask),
    RF_ATTR_FLAG(rf_conv2d_attr, bias_gradient),
    RF_ATTR_FLAG(rf_conv2d_attr, max_pool),
    RF_ATTR_FLAG(rf_conv2d_attr, f32),
};

static rf_cost conv2d_cost(const rf_op_call *call)
{
    return rf_conv_cost(call, RF_ROLE_FORWARD);
}

static const rf_linear_role forward_role = RF_ROLE_FORWARD;
static const rf_kernel kernels[] = {
    { "naive", rf_conv2d_naive_score, rf_conv2d_naive_plan, &forward_role, .last_resort = true },
    { "depthwise", rf_conv2d_depthwise_score, rf_conv2d_depthwise_plan, &forward_role },
    { "few", rf_small_channels_score, rf_small_channels_plan,
      &(const rf_small_channels){ .shader = &rf_shader_conv2d_few }, .finishes = true,
      .narrow = rf_small_channels_narrow },
};
static const rf_kernel_list common = RF_KERNEL_LIST(kernels);

const rf_op rf_op_conv2d = {
    .name = "conv2d",
    RF_ATTRIBUTES(rf_conv2d_attr, rf_conv2d_fields),
    .min_in = 2,
    .max_in = 3,
    .n_out = 2,
    .unbatched_in = 1u << 1 | 1u << 2,
    .met_by_padding = rf_linear_met_column,
    RF_STORES_16(3),
    .finish = rf_conv2d_pool_finish,
    .infer = conv2d_infer,
    .gradient = conv2d_gradient,
    .reference = conv2d_reference,
    .cost = conv2d_cost,
    .absorb_consumer = absorb_consumer,
    .absorb_sibling = rf_conv2d_pool_absorb,
    .families = { &common, RF_SOFTWARE(&rf_conv2d_cpu), RF_GPU(&rf_conv2d_gpu) },
};
