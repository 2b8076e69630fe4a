/* SPDX-License-Identifier: Apache-2.0 */
/* Convolution kernels that run on any device, image range by image range where a tensor is larger than a descriptor may
 * span. */
#include "ops/linear/conv2d.h"
#include "rf_shaders.h"

typedef struct push {
    int32_t n, h, w, cin, oh, ow, cout, kh, kw;
    int32_t cig, cog, sy, sx, dy, dx, pt, pl;
    int32_t total, x_base, y_base, out_base, bias_base, accumulate;
} push;

static push push_make(const rf_conv_geometry *g)
{
    return (push){ (int32_t)g->n,    (int32_t)g->h,  (int32_t)g->w,  (int32_t)g->cin, (int32_t)g->oh,  (int32_t)g->ow,
                   (int32_t)g->cout, (int32_t)g->kh, (int32_t)g->kw, (int32_t)g->cig, (int32_t)g->cog, (int32_t)g->sy,
                   (int32_t)g->sx,   (int32_t)g->dy, (int32_t)g->dx, (int32_t)g->pt,  (int32_t)g->pl };
}

/* Images that one dispatch may cover; 0: not even one, or the kernel does not fit. */
static uint64_t images_per_dispatch(const rf_conv_geometry *g, const rf_device_caps *caps)
{
    if (caps->max_storage_range <= caps->buffer_alignment) return 0;
    const uint64_t limit = rf_linear_min(caps->max_storage_range - caps->buffer_alignment, INT32_MAX) / sizeof(float);
    if ((uint64_t)(g->kh * g->kw * g->cig * g->cout) > limit) return 0;
    const uint64_t x = (uint64_t)(g->h * g->w * g->cin), y = (uint64_t)(g->oh * g->ow * g->cout);
    return rf_linear_min((uint64_t)g->n, limit / (x > y ? x : y));
}

static double score(const rf_op_call *call, const rf_device_caps *caps)
{
    const rf_conv_geometry g = rf_conv_geometry_of(call);
    const uint64_t taps = (uint64_t)(g.kh * g.kw), channels = (uint64_t)(g.cig > g.cog ? g.cig : g.cog);
    const bool short_enough = taps * (channels + 2) <= rf_loop_limit(caps);
    return short_enough && images_per_dispatch(&g, caps) > 0 ? rf_linear_naive_score(call, caps) : 0;
}

/* The filter gradient's loops run over pixels: once for the kernel and, in neighbours that may share a SIMD register,
 * once for the bias. */
static uint64_t filter_images_per_dispatch(const rf_conv_geometry *g, const rf_device_caps *caps)
{
    const uint64_t loops = 2 * (uint64_t)(g->oh * (g->ow + 2));
    return rf_linear_min(images_per_dispatch(g, caps), rf_loop_limit(caps) / loops);
}

static double filter_score(const rf_op_call *call, const rf_device_caps *caps)
{
    const rf_conv_geometry g = rf_conv_geometry_of(call);
    return filter_images_per_dispatch(&g, caps) > 0 ? rf_linear_naive_score(call, caps) : 0;
}

/* A dispatch for images [first, first + count) with spans of x and y made. */
static rf_dispatch *add(rf_kernel_plan *plan, const rf_shader *shader, const rf_conv_geometry *g,
                        const rf_device_caps *caps, uint64_t first, uint64_t count, push *p, rf_linear_span *x,
                        rf_linear_span *y)
{
    const uint64_t xs = (uint64_t)(g->h * g->w * g->cin), ys = (uint64_t)(g->oh * g->ow * g->cout);
    *x = rf_linear_part(caps, first * xs, count * xs);
    *y = rf_linear_part(caps, first * ys, count * ys);
    *p = push_make(g);
    p->n = (int32_t)count;
    p->x_base = x->base;
    p->y_base = y->base;
    rf_dispatch *d = rf_kernel_plan_add(plan, shader);
    if (d) rf_dispatch_spec(d, rf_linear_local_size(caps));
    return d;
}

static void finish(rf_dispatch *d, const rf_device_caps *caps, push *p, uint64_t total)
{
    p->total = (int32_t)total;
    rf_dispatch_push(d, p, sizeof(*p));
    rf_linear_grid(d, caps, rf_div_up(total, d->spec[0]));
}

static rf_result plan_forward(const rf_op_call *call, const rf_device_caps *caps, rf_kernel_plan *plan)
{
    const rf_conv_geometry g = rf_conv_geometry_of(call);
    const rf_conv2d_attr *attr = call->attr;
    const uint64_t step = images_per_dispatch(&g, caps), n = (uint64_t)g.n;
    for (uint64_t at = 0; at < n; at += step) {
        const uint64_t count = rf_linear_min(step, n - at);
        push p;
        rf_linear_span x, y;
        rf_dispatch *d = add(plan, &rf_shader_conv2d_naive, &g, caps, at, count, &p, &x, &y);
        if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
        rf_dispatch_spec(d, attr->activation);
        rf_dispatch_spec(d, call->n_in == 3);
        rf_linear_bind_part(d, RF_BIND_INPUT, 0, false, x);
        rf_dispatch_bind(d, RF_BIND_INPUT, 1, RF_VIEW_STORAGE, false);
        rf_dispatch_bind(d, RF_BIND_INPUT, call->n_in == 3 ? 2 : 1, RF_VIEW_STORAGE, false);
        rf_linear_bind_part(d, RF_BIND_OUTPUT, 0, true, y);
        finish(d, caps, &p, count * (uint64_t)(g.oh * g.ow * g.cout));
        d->concurrent = at > 0;
    }
    return RF_OK;
}

static rf_result plan_data(const rf_op_call *call, const rf_device_caps *caps, rf_kernel_plan *plan)
{
    const rf_conv_geometry g = rf_conv_geometry_of(call);
    const uint64_t step = images_per_dispatch(&g, caps), n = (uint64_t)g.n;
    for (uint64_t at = 0; at < n; at += step) {
        const uint64_t count = rf_linear_min(step, n - at);
        push p;
        rf_linear_span x, y;
        rf_dispatch *d = add(plan, &rf_shader_conv2d_data_grad_naive, &g, caps, at, count, &p, &x, &y);
        if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
        rf_linear_bind_part(d, RF_BIND_INPUT, 0, false, y);
        rf_dispatch_bind(d, RF_BIND_INPUT, 1, RF_VIEW_STORAGE, false);
        rf_linear_bind_part(d, RF_BIND_OUTPUT, 0, true, x);
        finish(d, caps, &p, count * (uint64_t)(g.h * g.w * g.cin));
        d->concurrent = at > 0;
    }
    return RF_OK;
}

static rf_result plan_filter(const rf_op_call *call, const rf_device_caps *caps, rf_kernel_plan *plan)
{
    const rf_conv_geometry g = rf_conv_geometry_of(call);
    const uint64_t step = filter_images_per_dispatch(&g, caps), n = (uint64_t)g.n;
    const uint64_t weights = (uint64_t)(g.kh * g.kw * g.cig * g.cout);
    for (uint64_t at = 0; at < n; at += step) {
        push p;
        rf_linear_span x, y;
        rf_dispatch *d =
            add(plan, &rf_shader_conv2d_filter_grad_naive, &g, caps, at, rf_linear_min(step, n - at), &p, &x, &y);
        if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
        p.out_base = (int32_t)weights;
        p.accumulate = at > 0;
        rf_linear_bind_part(d, RF_BIND_INPUT, 0, false, x);
        rf_linear_bind_part(d, RF_BIND_INPUT, 1, false, y);
        rf_dispatch_bind(d, RF_BIND_OUTPUT, 0, RF_VIEW_STORAGE, true);
        rf_dispatch_bind(d, RF_BIND_OUTPUT, call->n_out - 1, RF_VIEW_STORAGE, true);
        finish(d, caps, &p, weights + (call->n_out > 1 ? (uint64_t)g.cout : 0));
    }
    return RF_OK;
}

const rf_kernel rf_conv2d_naive = { "naive", score, plan_forward };
const rf_kernel rf_conv2d_data_grad_naive = { "naive", score, plan_data };
const rf_kernel rf_conv2d_filter_grad_naive = { "naive", filter_score, plan_filter };
