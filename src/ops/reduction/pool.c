/* SPDX-License-Identifier: Apache-2.0 */
/* Pooling of NHWC images over windows: maxima, means, their gradients. Kernels are in pool_kernels.c. */
#include <math.h>

#include "ops/linear/common/conv2d.h"
#include "ops/reduction/pool.h"
#include "ops/scalar.h"

/* ---- inference ---- */

static rf_result pool_padding(const char *op, const rf_pool2d_attr *attr, int axis, int64_t size, int64_t window,
                              int64_t stride, int64_t *out_size, int64_t *before)
{
    int64_t after = 0;
    *before = 0;
    switch (attr->padding) {
    case RF_PADDING_VALID: break;
    case RF_PADDING_SAME: {
        const int64_t total = ((size + stride - 1) / stride - 1) * stride + window - size;
        *before = total > 0 ? total / 2 : 0;
        after = total > 0 ? total - *before : 0;
        break;
    }
    case RF_PADDING_EXPLICIT:
        *before = attr->explicit_padding[2 * axis];
        after = attr->explicit_padding[2 * axis + 1];
        break;
    default: return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s: unknown padding %d", op, attr->padding);
    }
    if (*before < 0 || after < 0 || *before >= window || after >= window)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT,
                       "%s: padding %lld, %lld must be at least 0 and less than the window, %lld", op,
                       (long long)*before, (long long)after, (long long)window);
    const int64_t padded = size + *before + after;
    if (padded < window)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s: a window of %lld is larger than the padded image's %s, %lld", op,
                       (long long)window, axis == 0 ? "height" : "width", (long long)padded);
    *out_size = (padded - window) / stride + 1;
    return RF_OK;
}

rf_result rf_pool_geometry_make(const char *op, const rf_pool2d_attr *attr, const rf_tensor_desc *x,
                                rf_pool_geometry *out)
{
    static const rf_pool2d_attr none = { 0 };
    char text[96];
    if (attr == NULL) attr = &none;
    if (x->dtype != RF_F32 || x->shape.rank != 4 || rf_desc_count(x) == 0)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s: needs f32 images [n, h, w, c], got %s %s", op,
                       rf_dtype_name(x->dtype), rf_shape_format(x->shape, text, sizeof(text)));
    *out = (rf_pool_geometry){ .images = x->shape.dim[0],
                               .height = x->shape.dim[1],
                               .width = x->shape.dim[2],
                               .channels = x->shape.dim[3],
                               .relu_mask = attr->relu_mask };
    for (int i = 0; i < 2; i++) {
        if (attr->window[i] < 0 || attr->stride[i] < 0)
            return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s: window [%d,%d] and stride [%d,%d] must not be negative", op,
                           attr->window[0], attr->window[1], attr->stride[0], attr->stride[1]);
        out->window[i] = attr->window[i] != 0 ? attr->window[i] : 2;
        out->stride[i] = attr->stride[i] != 0 ? attr->stride[i] : out->window[i];
    }
    rf_result r =
        pool_padding(op, attr, 0, out->height, out->window[0], out->stride[0], &out->out_height, &out->pad_top);
    if (r == RF_OK)
        r = pool_padding(op, attr, 1, out->width, out->window[1], out->stride[1], &out->out_width, &out->pad_left);
    return rf_error_context(r, "images %s", rf_shape_format(x->shape, text, sizeof(text)));
}

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

/* What is done with one window of one image and channel, whose pooled element is number out_at. */
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

/* ---- cases ---- */

#define ATTR(wh, ww, sh, sw, ...)                                                                                      \
    .attr = &(const rf_pool2d_attr)                                                                                    \
    {                                                                                                                  \
        { wh, ww }, { sh, sw }, __VA_ARGS__                                                                            \
    }
#define VALID RF_PADDING_VALID, { 0 }, 0
#define SAME RF_PADDING_SAME, { 0 }, 0
#define EXPLICIT(t, b, l, r) RF_PADDING_EXPLICIT, { t, b, l, r }, 0
#define MASKED RF_PADDING_VALID, { 0 }, 1
#define MASKED_SAME RF_PADDING_SAME, { 0 }, 1
#define NORMAL(...) RF_TENSOR(RF_F32, RF_FILL_NORMAL, 0, 0, 4, __VA_ARGS__)
#define DISTINCT(...) RF_TENSOR(RF_F32, RF_FILL_DISTINCT, 0, 0, 4, __VA_ARGS__)
#define TIES(...) RF_TENSOR(RF_F32, RF_FILL_INTEGER, -2, 3, 4, __VA_ARGS__)

/* Forward: rows shared by maxima (exact) and means. */
#define FORWARD_CASES(fill, ...)                                                                                       \
    { .name = "default_1x2x2x1", .n_in = 1, .in = { fill(1, 2, 2, 1) }, __VA_ARGS__, .check_gradient = true },         \
        { .name = "2x2_2x5x4x3",                                                                                       \
          ATTR(2, 2, 2, 2, VALID),                                                                                     \
          .n_in = 1,                                                                                                   \
          .in = { fill(2, 5, 4, 3) },                                                                                  \
          __VA_ARGS__,                                                                                                 \
          .check_gradient = true },                                                                                    \
        { .name = "2x2_1x5x5x4",                                                                                       \
          ATTR(2, 2, 2, 2, VALID),                                                                                     \
          .n_in = 1,                                                                                                   \
          .in = { fill(1, 5, 5, 4) },                                                                                  \
          __VA_ARGS__,                                                                                                 \
          .check_gradient = true },                                                                                    \
        { .name = "3x3_s1_same_1x4x5x2",                                                                               \
          ATTR(3, 3, 1, 1, SAME),                                                                                      \
          .n_in = 1,                                                                                                   \
          .in = { fill(1, 4, 5, 2) },                                                                                  \
          __VA_ARGS__,                                                                                                 \
          .check_gradient = true },                                                                                    \
        { .name = "2x3_s3x1_same_2x5x4x4",                                                                             \
          ATTR(2, 3, 3, 1, SAME),                                                                                      \
          .n_in = 1,                                                                                                   \
          .in = { fill(2, 5, 4, 4) },                                                                                  \
          __VA_ARGS__,                                                                                                 \
          .check_gradient = true },                                                                                    \
        { .name = "1x1_s2_3x7x7x5", ATTR(1, 1, 2, 2, VALID), .n_in = 1, .in = { fill(3, 7, 7, 5) }, __VA_ARGS__ },     \
        { .name = "2x2_s3_2x11x11x8", ATTR(2, 2, 3, 3, VALID), .n_in = 1, .in = { fill(2, 11, 11, 8) }, __VA_ARGS__ }, \
        { .name = "3x3_s2_explicit_2x13x11x12",                                                                        \
          ATTR(3, 3, 2, 2, EXPLICIT(1, 2, 0, 1)),                                                                      \
          .n_in = 1,                                                                                                   \
          .in = { fill(2, 13, 11, 12) },                                                                               \
          __VA_ARGS__ },                                                                                               \
        { .name = "3x3_s3_same_3x17x16x4",                                                                             \
          ATTR(3, 3, 3, 3, SAME),                                                                                      \
          .n_in = 1,                                                                                                   \
          .in = { fill(3, 17, 16, 4) },                                                                                \
          __VA_ARGS__ },                                                                                               \
        { .name = "2x2_s2_explicit_2x7x7x4",                                                                           \
          ATTR(2, 2, 2, 2, EXPLICIT(1, 1, 1, 0)),                                                                      \
          .n_in = 1,                                                                                                   \
          .in = { fill(2, 7, 7, 4) },                                                                                  \
          __VA_ARGS__ },                                                                                               \
        { .name = "3x3_s2_walk_3x21x34x24",                                                                            \
          ATTR(3, 3, 2, 2, EXPLICIT(1, 2, 0, 1)),                                                                      \
          .n_in = 1,                                                                                                   \
          .in = { fill(3, 21, 34, 24) },                                                                               \
          __VA_ARGS__ },                                                                                               \
        { .name = "3x3_s2_walk_1x5x4x8", ATTR(3, 3, 2, 2, SAME), .n_in = 1, .in = { fill(1, 5, 4, 8) }, __VA_ARGS__ }, \
        { .name = "3x3_s2_2x33x31x31",                                                                                 \
          ATTR(3, 3, 2, 2, VALID),                                                                                     \
          .n_in = 1,                                                                                                   \
          .in = { fill(2, 33, 31, 31) },                                                                               \
          __VA_ARGS__ },                                                                                               \
        { .name = "7x7_s1_1x31x31x4", ATTR(7, 7, 1, 1, SAME), .n_in = 1, .in = { fill(1, 31, 31, 4) }, __VA_ARGS__ },  \
        { .name = "257_images_4x4x4", ATTR(2, 2, 2, 2, VALID), .n_in = 1, .in = { fill(257, 4, 4, 4) }, __VA_ARGS__ }, \
        { .name = "300x300_1x301x302x2",                                                                               \
          ATTR(300, 300, 1, 1, VALID),                                                                                 \
          .n_in = 1,                                                                                                   \
          .in = { fill(1, 301, 302, 2) },                                                                              \
          __VA_ARGS__ },                                                                                               \
        { .name = "40x50_s30x20_same_2x79x83x4",                                                                       \
          ATTR(40, 50, 30, 20, SAME),                                                                                  \
          .n_in = 1,                                                                                                   \
          .in = { fill(2, 79, 83, 4) },                                                                                \
          __VA_ARGS__ },                                                                                               \
        { .name = "64x26x26x32",                                                                                       \
          ATTR(2, 2, 2, 2, VALID),                                                                                     \
          .n_in = 1,                                                                                                   \
          .in = { fill(64, 26, 26, 32) },                                                                              \
          __VA_ARGS__,                                                                                                 \
          .benchmark = true },                                                                                         \
        { .name = "64x11x11x64",                                                                                       \
          ATTR(2, 2, 2, 2, VALID),                                                                                     \
          .n_in = 1,                                                                                                   \
          .in = { fill(64, 11, 11, 64) },                                                                              \
          __VA_ARGS__,                                                                                                 \
          .benchmark = true },                                                                                         \
    {                                                                                                                  \
        .name = "64x56x56x64_3x3_s2", ATTR(3, 3, 2, 2, SAME), .n_in = 1, .in = { fill(64, 56, 56, 64) }, __VA_ARGS__,  \
        .benchmark = true, .large = true                                                                               \
    }
static const rf_op_case max_pool_cases[] = {
    FORWARD_CASES(DISTINCT, .rtol = 0),
    { .name = "ties_2x2_3x8x9x4", ATTR(2, 2, 2, 2, VALID), .n_in = 1, .in = { TIES(3, 8, 9, 4) } },
};
static const rf_op_case avg_pool_cases[] = {
    FORWARD_CASES(NORMAL, .rtol = 2e-6, .atol = 1e-6),
};

/* Gradients: images and the sizes that pooling makes of them. */
#define GRAD_CASES(CASE)                                                                                               \
    CASE("default_1x2x2x1", .attr = NULL, (1, 1, 1, 1), (1, 2, 2, 1)),                                                 \
        CASE("2x2_2x5x4x3", ATTR(2, 2, 2, 2, VALID), (2, 2, 2, 3), (2, 5, 4, 3)),                                      \
        CASE("2x2_3x9x11x8", ATTR(2, 2, 2, 2, VALID), (3, 4, 5, 8), (3, 9, 11, 8)),                                    \
        CASE("2x2_21x8x10x4", ATTR(2, 2, 2, 2, VALID), (21, 4, 5, 4), (21, 8, 10, 4)),                                 \
        CASE("3x3_s2_same_70x7x5x3", ATTR(3, 3, 2, 2, SAME), (70, 4, 3, 3), (70, 7, 5, 3)),                            \
        CASE("2x2_3x8x11x4", ATTR(2, 2, 2, 2, VALID), (3, 4, 5, 4), (3, 8, 11, 4)),                                    \
        CASE("3x3_s1_same_2x5x6x3", ATTR(3, 3, 1, 1, SAME), (2, 5, 6, 3), (2, 5, 6, 3)),                               \
        CASE("3x3_s1_same_2x5x6x4", ATTR(3, 3, 1, 1, SAME), (2, 5, 6, 4), (2, 5, 6, 4)),                               \
        CASE("1x1_s2_3x7x7x5", ATTR(1, 1, 2, 2, VALID), (3, 4, 4, 5), (3, 7, 7, 5)),                                   \
        CASE("2x2_s3_2x11x13x8", ATTR(2, 2, 3, 3, VALID), (2, 4, 4, 8), (2, 11, 13, 8)),                               \
        CASE("3x3_s2_explicit_2x13x11x12", ATTR(3, 3, 2, 2, EXPLICIT(1, 2, 0, 1)), (2, 7, 5, 12), (2, 13, 11, 12)),    \
        CASE("3x3_s3_same_3x17x16x4", ATTR(3, 3, 3, 3, SAME), (3, 6, 6, 4), (3, 17, 16, 4)),                           \
        CASE("2x2_s2_explicit_2x7x7x4", ATTR(2, 2, 2, 2, EXPLICIT(1, 1, 1, 0)), (2, 4, 4, 4), (2, 7, 7, 4)),           \
        CASE("3x3_s2_walk_3x21x34x24", ATTR(3, 3, 2, 2, EXPLICIT(1, 2, 0, 1)), (3, 11, 17, 24), (3, 21, 34, 24)),      \
        CASE("3x3_s2_walk_2x22x9x16", ATTR(3, 3, 2, 2, EXPLICIT(2, 0, 1, 2)), (2, 11, 5, 16), (2, 22, 9, 16)),         \
        CASE("2x2_s2_walk_2x23x38x8", ATTR(2, 2, 2, 2, EXPLICIT(1, 0, 0, 1)), (2, 12, 19, 8), (2, 23, 38, 8)),         \
        CASE("3x3_s2_2x33x31x31", ATTR(3, 3, 2, 2, VALID), (2, 16, 15, 31), (2, 33, 31, 31)),                          \
        CASE("257_images_4x4x4", ATTR(2, 2, 2, 2, VALID), (257, 2, 2, 4), (257, 4, 4, 4)),                             \
        CASE("16x16_s1_1x37x38x3", ATTR(16, 16, 1, 1, VALID), (1, 22, 23, 3), (1, 37, 38, 3)),                         \
        CASE("40x50_s30x20_same_1x44x53x4", ATTR(40, 50, 30, 20, SAME), (1, 2, 3, 4), (1, 44, 53, 4)),                 \
        CASE("300x300_s300_1x601x600x1", ATTR(300, 300, 300, 300, VALID), (1, 2, 2, 1), (1, 601, 600, 1))
#define MAX_GRAD(case_name, attr_, pooled, images)                                                                     \
    {                                                                                                                  \
        .name = case_name, attr_, .n_in = 3, .in = { NORMAL pooled, TIES images, NORMAL pooled }, .rtol = 2e-6,        \
        .atol = 1e-6                                                                                                   \
    }
#define AVG_GRAD(case_name, attr_, pooled, images)                                                                     \
    {                                                                                                                  \
        .name = case_name, attr_, .n_in = 2, .in = { NORMAL pooled, NORMAL images }, .rtol = 2e-6, .atol = 1e-6        \
    }

static const rf_op_case max_pool_grad_cases[] = {
    GRAD_CASES(MAX_GRAD),
    MAX_GRAD("masked_40x50_s30x20_1x44x53x3", ATTR(40, 50, 30, 20, MASKED), (1, 1, 1, 3), (1, 44, 53, 3)),
    /* an element lies in more windows than some drivers let an invocation visit */
    { .name = "190x190_s1_1x379x379x1",
      ATTR(190, 190, 1, 1, VALID),
      .n_in = 3,
      .in = { NORMAL(1, 190, 190, 1), TIES(1, 379, 379, 1), NORMAL(1, 190, 190, 1) },
      .rtol = 2e-5,
      .atol = 1e-3,
      .large = true },
    MAX_GRAD("masked_2x2_3x9x11x8", ATTR(2, 2, 2, 2, MASKED), (3, 4, 5, 8), (3, 9, 11, 8)),
    MAX_GRAD("masked_same_3x3_s2_2x9x8x3", ATTR(3, 3, 2, 2, MASKED_SAME), (2, 5, 4, 3), (2, 9, 8, 3)),
    MAX_GRAD("masked_same_3x3_s2_2x9x8x16", ATTR(3, 3, 2, 2, MASKED_SAME), (2, 5, 4, 16), (2, 9, 8, 16)),
    MAX_GRAD("masked_same_3x3_s3_2x9x8x4", ATTR(3, 3, 3, 3, MASKED_SAME), (2, 3, 3, 4), (2, 9, 8, 4)),
    { .name = "64x26x26x32",
      ATTR(2, 2, 2, 2, MASKED),
      .n_in = 3,
      .in = { NORMAL(64, 13, 13, 32), NORMAL(64, 26, 26, 32), NORMAL(64, 13, 13, 32) },
      .benchmark = true },
    { .name = "64x11x11x64",
      ATTR(2, 2, 2, 2, MASKED),
      .n_in = 3,
      .in = { NORMAL(64, 5, 5, 64), NORMAL(64, 11, 11, 64), NORMAL(64, 5, 5, 64) },
      .benchmark = true },
    { .name = "64x56x56x64_3x3_s2",
      ATTR(3, 3, 2, 2, SAME),
      .n_in = 3,
      .in = { NORMAL(64, 28, 28, 64), NORMAL(64, 56, 56, 64), NORMAL(64, 28, 28, 64) },
      .rtol = 2e-6,
      .atol = 1e-6,
      .benchmark = true,
      .large = true },
};
static const rf_op_case avg_pool_grad_cases[] = {
    GRAD_CASES(AVG_GRAD),
    { .name = "190x190_s1_1x379x379x1",
      ATTR(190, 190, 1, 1, VALID),
      .n_in = 2,
      .in = { NORMAL(1, 190, 190, 1), NORMAL(1, 379, 379, 1) },
      .rtol = 2e-5,
      .atol = 1e-5,
      .large = true },
    { .name = "64x26x26x32",
      ATTR(2, 2, 2, 2, VALID),
      .n_in = 2,
      .in = { NORMAL(64, 13, 13, 32), NORMAL(64, 26, 26, 32) },
      .rtol = 2e-6,
      .atol = 1e-6,
      .benchmark = true },
    { .name = "64x56x56x64_3x3_s2",
      ATTR(3, 3, 2, 2, SAME),
      .n_in = 2,
      .in = { NORMAL(64, 28, 28, 64), NORMAL(64, 56, 56, 64) },
      .rtol = 2e-6,
      .atol = 1e-6,
      .benchmark = true,
      .large = true },
};

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
    RF_KERNELS(rf_max_pool_kernels),
    RF_CASES(max_pool_cases),
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
    RF_KERNELS(rf_max_pool_grad_kernels),
    RF_CASES(max_pool_grad_cases),
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
    RF_KERNELS(rf_avg_pool_kernels),
    RF_CASES(avg_pool_cases),
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
    RF_KERNELS(rf_avg_pool_grad_kernels),
    RF_CASES(avg_pool_grad_cases),
};
