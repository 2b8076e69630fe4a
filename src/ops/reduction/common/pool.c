/* SPDX-License-Identifier: Apache-2.0 */
/* Pooling of NHWC images over windows: maxima, means, their gradients. Kernels are in pool_kernels.c. */
#include <math.h>

#include "ops/linear/common/conv2d.h"
#include "ops/reduction/common/pool.h"
#include "ops/scalar.h"

/* ---- inference ---- */

static rf_shape pooled_shape(const rf_pool_geometry *p)
{
    return (rf_shape){ 4, { p->images, p->out_height, p->out_width, p->channels } };
}

static rf_result pool_infer(rf_op_call *call)
{
    rf_pool_geometry p;
    RF_TRY(rf_pool_geometry_make(call->op->name, call->attr, &call->in[0], &p));
    call->out[0] = (rf_tensor_desc){ .dtype = RF_F32, .shape = pooled_shape(&p) };
    return RF_OK;
}

static rf_result pool_grad_infer(rf_op_call *call)
{
    rf_pool_geometry p;
    RF_TRY(rf_pool_geometry_make(call->op->name, call->attr, &call->in[1], &p));
    const rf_shape pooled = pooled_shape(&p);
    RF_TRY(rf_expect_dtype(call, 0, RF_F32));
    RF_TRY(rf_expect_shape(call, 0, &pooled, "one gradient for each window"));
    if (call->n_in > 2) {
        RF_TRY(rf_expect_dtype(call, 2, RF_F32));
        RF_TRY(rf_expect_shape(call, 2, &pooled, "the pooled images"));
    }
    call->out[0] = call->in[1];
    return RF_OK;
}

/* ---- emission and gradients ---- */

static rf_result emit_pool(rf_graph *g, const rf_op *op, rf_value x, const rf_pool2d_params *params, rf_value *out)
{
    rf_pool2d_attr attr = { .window = { 2, 2 } };
    if (params != NULL) {
        attr.padding = (int32_t)params->padding;
        for (int i = 0; i < 2; i++) {
            if (params->window[i] != 0) attr.window[i] = params->window[i];
            attr.stride[i] = params->stride[i];
        }
        for (int i = 0; params->padding == RF_PADDING_EXPLICIT && i < 4; i++)
            attr.explicit_padding[i] = params->explicit_padding[i];
    }
    for (int i = 0; i < 2; i++)
        if (attr.stride[i] == 0) attr.stride[i] = attr.window[i];
    return rf_graph_add(g, op, &attr, &x, 1, out);
}

rf_result rf_emit_max_pool2d(rf_graph *g, rf_value x, const rf_pool2d_params *params, rf_value *out)
{
    return emit_pool(g, &rf_op_max_pool2d, x, params, out);
}

rf_result rf_emit_avg_pool2d(rf_graph *g, rf_value x, const rf_pool2d_params *params, rf_value *out)
{
    return emit_pool(g, &rf_op_avg_pool2d, x, params, out);
}

rf_result rf_emit_global_avg_pool2d(rf_graph *g, rf_value x, rf_value *out)
{
    static const int32_t axes[2] = { 1, 2 };
    const rf_shape shape = rf_graph_desc(g, x)->shape;
    char text[96];
    if (shape.rank != 4)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "global_avg_pool2d: needs images [n, h, w, c], got %s",
                       rf_shape_format(shape, text, sizeof(text)));
    return rf_emit_reduce(g, RF_REDUCE_KIND_MEAN, x, axes, 2, false, out);
}

static rf_result max_pool_gradient(rf_grad_context *ctx)
{
    const rf_value in[3] = { ctx->dout[0], ctx->in[0], ctx->out[0] };
    if (ctx->dout[0] == 0 || !ctx->needed[0]) return RF_OK;
    return rf_graph_add(ctx->graph, &rf_op_max_pool2d_grad, ctx->attr, in, 3, &ctx->din[0]);
}

static rf_result avg_pool_gradient(rf_grad_context *ctx)
{
    const rf_value in[2] = { ctx->dout[0], ctx->in[0] };
    if (ctx->dout[0] == 0 || !ctx->needed[0]) return RF_OK;
    return rf_graph_add(ctx->graph, &rf_op_avg_pool2d_grad, ctx->attr, in, 2, &ctx->din[0]);
}

/* The gradient of a ReLU in front of the pooling: the maximum is the only element of its window that gets a gradient,
 * and is positive exactly where the pooled value is, so the mask can be taken from there. */
static bool absorb_relu_grad(const rf_graph *graph, rf_node producer, rf_node consumer, rf_fused *fused)
{
    if (rf_conv2d_pool_grad_absorb(graph, producer, consumer, fused)) return true;
    const rf_node_info *grad = &graph->nodes.items[producer], *next = &graph->nodes.items[consumer];
    const rf_pool2d_attr *attr = grad->attr;
    if (next->op != &rf_op_elementwise || next->n_in != 2 || attr->relu_mask) return false;
    const rf_elementwise_attr *program = next->attr;
    const rf_scalar_step step = program->steps[0];
    if (program->n_steps != 1 || step.fn != RF_FN_RELU_GRAD || step.a >= 2 || step.b >= 2) return false;
    if (next->in[step.a] != grad->out[0] || next->in[step.b] != grad->in[1]) return false;
    *fused = (rf_fused){ .op = grad->op, .n_in = grad->n_in };
    for (uint32_t i = 0; i < grad->n_in; i++) fused->in[i] = grad->in[i];
    rf_pool2d_attr *masked = (rf_pool2d_attr *)(void *)fused->attr;
    *masked = *attr;
    masked->relu_mask = 1;
    return true;
}

/* ---- references ---- */

/* Rows and columns of one window, without its padding. */
typedef struct window_range {
    int64_t row, end_row, column, end_column;
} window_range;

static window_range window_of(const rf_pool_geometry *p, int64_t out_row, int64_t out_column)
{
    const int64_t top = out_row * p->stride[0] - p->pad_top, left = out_column * p->stride[1] - p->pad_left;
    const int64_t bottom = top + p->window[0], right = left + p->window[1];
    return (window_range){ top < 0 ? 0 : top, bottom > p->height ? p->height : bottom, left < 0 ? 0 : left,
                           right > p->width ? p->width : right };
}

/* A visit of one window of one image and channel, whose pooled element is number out_at. */
typedef void (*window_visit)(const rf_pool_geometry *p, window_range w, int64_t image, int64_t channel, int64_t out_at,
                             void *const *in, float *out);

static rf_result for_windows(const rf_op_call *call, void *const *in, float *out, window_visit visit)
{
    rf_pool_geometry p;
    RF_TRY(rf_pool_geometry_make(call->op->name, call->attr, &call->in[rf_pool_x_input(call)], &p));
    int64_t out_at = 0;
    for (int64_t n = 0; n < p.images; n++)
        for (int64_t row = 0; row < p.out_height; row++)
            for (int64_t column = 0; column < p.out_width; column++)
                for (int64_t c = 0; c < p.channels; c++) visit(&p, window_of(&p, row, column), n, c, out_at++, in, out);
    return RF_OK;
}

static int64_t element_at(const rf_pool_geometry *p, int64_t image, int64_t row, int64_t column, int64_t channel)
{
    return ((image * p->height + row) * p->width + column) * p->channels + channel;
}

static int64_t first_maximum(const rf_pool_geometry *p, window_range w, int64_t image, int64_t channel, const float *x)
{
    int64_t best = element_at(p, image, w.row, w.column, channel);
    for (int64_t row = w.row; row < w.end_row; row++) {
        for (int64_t column = w.column; column < w.end_column; column++) {
            const int64_t at = element_at(p, image, row, column, channel);
            if (x[at] > x[best] || isnan(x[at])) best = at;
        }
    }
    return best;
}

static void visit_max(const rf_pool_geometry *p, window_range w, int64_t image, int64_t channel, int64_t out_at,
                      void *const *in, float *out)
{
    const float *x = in[0];
    out[out_at] = x[first_maximum(p, w, image, channel, x)];
}

static void visit_max_grad(const rf_pool_geometry *p, window_range w, int64_t image, int64_t channel, int64_t out_at,
                           void *const *in, float *out)
{
    const float *dy = in[0], *x = in[1];
    const int64_t best = first_maximum(p, w, image, channel, x);
    out[best] += p->relu_mask ? (float)rf_relu_grad(dy[out_at], x[best]) : dy[out_at];
}

static double window_size(window_range w)
{
    return (double)((w.end_row - w.row) * (w.end_column - w.column));
}

static void visit_avg(const rf_pool_geometry *p, window_range w, int64_t image, int64_t channel, int64_t out_at,
                      void *const *in, float *out)
{
    const float *x = in[0];
    double sum = 0;
    for (int64_t row = w.row; row < w.end_row; row++)
        for (int64_t column = w.column; column < w.end_column; column++)
            sum += x[element_at(p, image, row, column, channel)];
    out[out_at] = (float)(sum / window_size(w));
}

static void visit_avg_grad(const rf_pool_geometry *p, window_range w, int64_t image, int64_t channel, int64_t out_at,
                           void *const *in, float *out)
{
    const float *dy = in[0];
    for (int64_t row = w.row; row < w.end_row; row++)
        for (int64_t column = w.column; column < w.end_column; column++)
            out[element_at(p, image, row, column, channel)] += (float)(dy[out_at] / window_size(w));
}

static rf_result grad_reference(const rf_op_call *call, void *const *in, void *const *out, window_visit visit)
{
    float *dx = out[0];
    for (uint64_t i = 0; i < rf_desc_count(&call->out[0]); i++) dx[i] = 0;
    return for_windows(call, in, dx, visit);
}

static rf_result max_pool_reference(const rf_op_call *call, void *const *in, void *const *out)
{
    return for_windows(call, in, out[0], visit_max);
}
static rf_result avg_pool_reference(const rf_op_call *call, void *const *in, void *const *out)
{
    return for_windows(call, in, out[0], visit_avg);
}
static rf_result max_pool_grad_reference(const rf_op_call *call, void *const *in, void *const *out)
{
    return grad_reference(call, in, out, visit_max_grad);
}
static rf_result avg_pool_grad_reference(const rf_op_call *call, void *const *in, void *const *out)
{
    return grad_reference(call, in, out, visit_avg_grad);
}

static rf_cost pool_cost(const rf_op_call *call)
{
    const rf_pool2d_attr *attr = call->attr;
    const double window = attr == NULL || attr->window[0] == 0 ? 4 : (double)attr->window[0] * attr->window[1];
    const rf_tensor_desc *pooled = call->n_in > 1 ? &call->in[0] : &call->out[0];
    return rf_cost_of(call, window * (double)rf_desc_count(pooled));
}

/* ---- the ops ---- */

static const rf_attr_field pool_fields[] = {
    RF_ATTR_INTS(rf_pool2d_attr, window[0], "window", 2, 0, INT32_MAX),
    RF_ATTR_INTS(rf_pool2d_attr, stride[0], "stride", 2, 0, INT32_MAX),
    RF_ATTR_NAMED(rf_pool2d_attr, padding, RF_PADDING_EXPLICIT, rf_padding_name),
    RF_ATTR_INTS(rf_pool2d_attr, explicit_padding[0], "explicit_padding", 4, 0, INT32_MAX),
    RF_ATTR_FLAG(rf_pool2d_attr, relu_mask),
};

const rf_op rf_op_max_pool2d = {
    .name = "max_pool2d",
    RF_ATTRIBUTES(rf_pool2d_attr, pool_fields),
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    RF_STORES_16(1),
    .infer = pool_infer,
    .gradient = max_pool_gradient,
    .reference = max_pool_reference,
    .cost = pool_cost,
    .families = { &rf_max_pool_common },
};

/* The kernels find the maxima again instead of reading y: less memory traffic, and y can be freed earlier. */
const rf_op rf_op_max_pool2d_grad = {
    .name = "max_pool2d_grad",
    RF_ATTRIBUTES(rf_pool2d_attr, pool_fields),
    .min_in = 3,
    .max_in = 3,
    .n_out = 1,
    .shape_only = 1u << 2,
    .flags = RF_OP_NO_ONNX,
    RF_STORES_16(1),
    .infer = pool_grad_infer,
    .reference = max_pool_grad_reference,
    .cost = pool_cost,
    .absorb_consumer = absorb_relu_grad,
    .families = { &rf_max_pool_grad_common },
};

const rf_op rf_op_avg_pool2d = {
    .name = "avg_pool2d",
    RF_ATTRIBUTES(rf_pool2d_attr, pool_fields),
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    RF_STORES_16(1),
    .infer = pool_infer,
    .gradient = avg_pool_gradient,
    .reference = avg_pool_reference,
    .cost = pool_cost,
    .families = { &rf_avg_pool_common },
};

const rf_op rf_op_avg_pool2d_grad = {
    .name = "avg_pool2d_grad",
    RF_ATTRIBUTES(rf_pool2d_attr, pool_fields),
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .shape_only = 1u << 1,
    .flags = RF_OP_NO_ONNX,
    RF_STORES_16(1),
    .infer = pool_grad_infer,
    .reference = avg_pool_grad_reference,
    .cost = pool_cost,
    .families = { &rf_avg_pool_grad_common },
};
