/* SPDX-License-Identifier: Apache-2.0 */
/* Convolution kernels that run on any device, image range by image range where a tensor is larger than a descriptor may
 * span. */
#include "ops/linear/common/conv2d.h"
#include "rf_shaders.h"

typedef rf_push_conv2d_naive push;

static push push_make(const rf_conv_geometry *g)
{
    return (push){ .n = (int32_t)g->n,
                   .h = (int32_t)g->h,
                   .w = (int32_t)g->w,
                   .cin = (int32_t)g->cin,
                   .oh = (int32_t)g->oh,
                   .ow = (int32_t)g->ow,
                   .cout = (int32_t)g->cout,
                   .kh = (int32_t)g->kh,
                   .kw = (int32_t)g->kw,
                   .cig = (int32_t)g->cig,
                   .cog = (int32_t)g->cog,
                   .sy = (int32_t)g->sy,
                   .sx = (int32_t)g->sx,
                   .dy = (int32_t)g->dy,
                   .dx = (int32_t)g->dx,
                   .pt = (int32_t)g->pt,
                   .pl = (int32_t)g->pl };
}

/* Elements of one image in x and in y. */
static uint64_t x_image(const rf_conv_geometry *g)
{
    return (uint64_t)(g->h * g->w * g->cin);
}
static uint64_t y_image(const rf_conv_geometry *g)
{
    return (uint64_t)(g->oh * g->ow * g->cout);
}

/* Images that one dispatch may cover; 0: not even one, or the kernel does not fit. */
static uint64_t images_per_dispatch(const rf_conv_geometry *g, const rf_device_caps *caps)
{
    if (caps->max_storage_range <= caps->buffer_alignment) return 0;
    const uint64_t limit = rf_min(caps->max_storage_range - caps->buffer_alignment, INT32_MAX) / sizeof(float);
    if ((uint64_t)(g->kh * g->kw * g->cig * g->cout) > limit) return 0;
    const uint64_t x = x_image(g), y = y_image(g);
    return rf_min((uint64_t)g->n, limit / (x > y ? x : y));
}

/* How much of the loops over y, x and channels (the innermost) one dispatch takes; 0 channels: one for each pixel. */
typedef struct steps {
    uint64_t y, x, c;
} steps;

/* Iterations for a chunk of this size. */
static uint64_t loops_of(steps s)
{
    return s.y * (2 + s.x * (1 + (s.c ? s.c + 1 : 0))) + 1;
}

static uint64_t extent_clamp(uint64_t value, uint64_t most)
{
    return value < 1 ? 1 : value > most ? most : value;
}

/* The largest chunk, the inner loops first, of at most `limit` iterations. False where not even one summand is
 * possible. */
static bool steps_make(steps whole, uint64_t limit, steps *out)
{
    *out = whole;
    if (loops_of(whole) <= limit) return true;
    if (limit < 8) return false;
    if (whole.c) out->c = extent_clamp(limit - 6, whole.c);
    const uint64_t pixel = 1 + (out->c ? out->c + 1 : 0);
    out->x = extent_clamp((limit - 3) / pixel, whole.x);
    out->y = out->x < whole.x ? 1 : extent_clamp((limit - 1) / (2 + out->x * pixel), whole.y);
    return loops_of(*out) <= limit;
}

/* Sums go over the kernel's taps and the channels of one group. */
static bool tap_steps(const rf_conv_geometry *g, const rf_device_caps *caps, int64_t channels, steps *out)
{
    return steps_make((steps){ (uint64_t)g->kh, (uint64_t)g->kw, (uint64_t)channels }, rf_loop_limit(caps), out);
}

/* The filter gradient's loops run over pixels: once for the kernel and, in neighbours that may share a SIMD register,
 * once for the bias. */
static bool pixel_steps(const rf_conv_geometry *g, const rf_device_caps *caps, steps *out, uint64_t *images)
{
    const uint64_t limit = rf_loop_limit(caps) / 2 - 3; /* of one side, for one image at least */
    if (!steps_make((steps){ (uint64_t)g->oh, (uint64_t)g->ow, 0 }, limit, out)) return false;
    *images = images_per_dispatch(g, caps);
    const bool whole = out->y == (uint64_t)g->oh && out->x == (uint64_t)g->ow;
    *images = whole ? rf_min(*images, limit / (loops_of(*out) + 1)) : rf_min(*images, 1);
    return *images > 0;
}

double rf_conv2d_naive_score(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    const rf_conv_geometry g = rf_conv_geometry_of(call, *(const rf_linear_role *)data);
    steps s;
    uint64_t images = images_per_dispatch(&g, caps);
    const bool fits = g.role == RF_ROLE_FILTER ? pixel_steps(&g, caps, &s, &images)
                                               : tap_steps(&g, caps, g.cig > g.cog ? g.cig : g.cog, &s) && images > 0;
    return fits ? rf_score_of_time(rf_linear_naive_seconds(call, caps)) : RF_SCORE_NONE;
}

/* ---- plans ---- */

/* Images [first, first + count), and the chunk of the sums that starts at `from`. */
typedef struct chunk {
    uint64_t first, count;
    steps from, step, end;
} chunk;

/* The next chunk, images first, then channels, columns and lines; false after the last. */
static bool chunk_next(chunk *p, uint64_t images, uint64_t step)
{
    p->first += p->count;
    if (p->first >= images) {
        p->first = 0;
        p->from.c += p->step.c;
        if (p->from.c >= p->end.c) {
            p->from.c = 0;
            p->from.x += p->step.x;
        }
        if (p->from.x >= p->end.x) {
            p->from.x = 0;
            p->from.y += p->step.y;
        }
    }
    p->count = rf_min(step, images - p->first);
    return p->from.y < p->end.y;
}

/* A dispatch for a chunk. */
static rf_dispatch *naive_dispatch_add(rf_kernel_plan *plan, const rf_shader *shader, const rf_conv_geometry *g,
                                       const rf_device_caps *caps, const chunk *a, uint64_t loops, push *p)
{
    *p = push_make(g);
    p->n = (int32_t)a->count;
    p->x_base = (int32_t)rf_element_base(caps, a->first * x_image(g));
    p->y_base = (int32_t)rf_element_base(caps, a->first * y_image(g));
    p->from_y = (int32_t)a->from.y;
    p->from_x = (int32_t)a->from.x;
    p->from_c = (int32_t)a->from.c;
    p->to_y = (int32_t)rf_min(a->from.y + a->step.y, a->end.y);
    p->to_x = (int32_t)rf_min(a->from.x + a->step.x, a->end.x);
    p->to_c = (int32_t)rf_min(a->from.c + a->step.c, a->end.c);
    p->accumulate = a->from.y + a->from.x + a->from.c > 0;
    p->last =
        a->from.y + a->step.y >= a->end.y && a->from.x + a->step.x >= a->end.x && a->from.c + a->step.c >= a->end.c;
    rf_dispatch *d = rf_kernel_plan_add(plan, shader, loops);
    if (!d) return NULL;
    d->concurrent = a->first > 0;
    rf_dispatch_spec(d, rf_local_size(caps, 128));
    return d;
}

static void bind_images(rf_dispatch *d, const rf_device_caps *caps, rf_bind_kind kind, uint32_t index, const chunk *a,
                        uint64_t image)
{
    rf_bind_elements(d, caps, kind, index, a->first * image, a->count * image);
}

static void naive_dispatch_finish(rf_dispatch *d, const rf_device_caps *caps, push *p, uint64_t total)
{
    p->total = (int32_t)total;
    rf_dispatch_push(d, p, sizeof(*p));
    rf_dispatch_items(d, caps, total);
}

/* The convolution, or its gradient by the image. */
static rf_result plan_taps(const rf_op_call *call, const rf_device_caps *caps, rf_linear_role role,
                           rf_kernel_plan *plan)
{
    const rf_conv_geometry g = rf_conv_geometry_of(call, role);
    const bool forward = role == RF_ROLE_FORWARD, bias = forward && call->n_in == 3;
    const uint64_t step = images_per_dispatch(&g, caps), n = (uint64_t)g.n, x = x_image(&g), y = y_image(&g);
    chunk a = { .end = { (uint64_t)g.kh, (uint64_t)g.kw, (uint64_t)(forward ? g.cig : g.cog) } };
    if (!tap_steps(&g, caps, forward ? g.cig : g.cog, &a.step))
        return RF_FAIL(RF_ERROR_UNSUPPORTED, "%s: one summand takes more iterations than the device allows",
                       forward ? "conv2d" : "conv2d_data_grad");
    for (a.count = rf_min(step, n); a.from.y < a.end.y;) {
        push p;
        rf_dispatch *d = naive_dispatch_add(plan, forward ? &rf_shader_conv2d_naive : &rf_shader_conv2d_data_grad_naive,
                                            &g, caps, &a, loops_of(a.step), &p);
        if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
        if (forward) rf_dispatch_spec(d, ((const rf_conv2d_attr *)call->attr)->activation);
        if (forward) rf_dispatch_spec(d, bias);
        bind_images(d, caps, RF_BIND_INPUT, 0, &a, forward ? x : y);
        rf_bind_whole(d, RF_BIND_INPUT, 1);
        if (forward) rf_bind_whole(d, RF_BIND_INPUT, bias ? 2 : 1);
        bind_images(d, caps, RF_BIND_OUTPUT, 0, &a, forward ? y : x);
        naive_dispatch_finish(d, caps, &p, a.count * (forward ? y : x));
        if (!chunk_next(&a, n, step)) break;
    }
    return RF_OK;
}

static rf_result plan_filter(const rf_op_call *call, const rf_device_caps *caps, rf_kernel_plan *plan)
{
    const rf_conv_geometry g = rf_conv_geometry_of(call, RF_ROLE_FILTER);
    const uint64_t n = (uint64_t)g.n, weights = (uint64_t)(g.kh * g.kw * g.cig * g.cout);
    chunk a = { .end = { (uint64_t)g.oh, (uint64_t)g.ow, 1 } };
    uint64_t step;
    if (!pixel_steps(&g, caps, &a.step, &step))
        return RF_FAIL(RF_ERROR_UNSUPPORTED,
                       "conv2d_filter_grad: one summand takes more iterations than the device allows");
    const uint64_t loops = 2 * (step * (loops_of(a.step) + 1) + 1);
    a.step.c = 1;
    for (a.count = rf_min(step, n); a.from.y < a.end.y;) {
        push p;
        rf_dispatch *d = naive_dispatch_add(plan, &rf_shader_conv2d_filter_grad_naive, &g, caps, &a, loops, &p);
        if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
        p.out_base = (int32_t)weights;
        p.accumulate = p.accumulate || a.first > 0;
        d->concurrent = false; /* all chunks add to the same sums */
        bind_images(d, caps, RF_BIND_INPUT, 0, &a, x_image(&g));
        bind_images(d, caps, RF_BIND_INPUT, 1, &a, y_image(&g));
        rf_bind_whole(d, RF_BIND_OUTPUT, 0);
        rf_bind_whole(d, RF_BIND_OUTPUT, call->n_out - 1);
        naive_dispatch_finish(d, caps, &p, weights + (call->n_out > 1 ? (uint64_t)g.cout : 0));
        if (!chunk_next(&a, n, step)) break;
    }
    return RF_OK;
}

rf_result rf_conv2d_naive_plan(const rf_op_call *call, const rf_device_caps *caps, const void *data,
                               rf_kernel_plan *plan)
{
    const rf_linear_role role = *(const rf_linear_role *)data;
    return role == RF_ROLE_FILTER ? plan_filter(call, caps, plan) : plan_taps(call, caps, role, plan);
}
