/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions that take each channel by itself: as many groups as channels, and as many outputs. Little is computed
 * for what is read, so these kernels take several channels at once instead of tiles of a product. */
#include "ops/linear/common/conv2d.h"
#include "rf_shaders.h"

enum { TILE = 4, WINDOW = 3, MOST_PIXEL_VECTORS = 1 << 28 };

typedef rf_push_conv2d_depthwise push;

/* Channels an invocation takes; 0: the convolution is no depthwise one, or its channels are no multiple of four. */
static uint32_t width_of(const rf_conv_geometry *g, const rf_device_caps *caps)
{
    if (g->cig != 1 || g->cog != 1 || g->cin % 4) return 0;
    const uint64_t x = (uint64_t)(g->h * g->w * g->cin), y = (uint64_t)(g->oh * g->ow * g->cin);
    const uint64_t kernel = (uint64_t)(g->kh * g->kw * g->cin), most = x > y ? x : y;
    if ((uint64_t)g->n * most > 4ull * MOST_PIXEL_VECTORS || kernel > 4ull * MOST_PIXEL_VECTORS) return 0;
    const bool wide = g->cin % 8 == 0 && caps->driver == RF_DRIVER_LAVAPIPE && caps->subgroup_size == 8 &&
                      rf_flat_texels(caps) && (most > kernel ? most : kernel) / 4 <= caps->max_texel_elements;
    return wide ? 8 : 4;
}

/* Neighbours along a line read the same pixels, in the way that some shaders are built for. */
static bool shares_pixels(const rf_conv_geometry *g)
{
    return g->kw == WINDOW && g->sx == 1 && g->dx == 1;
}

/* Flops in a second, and seconds of a dispatch, on two cores and as assumed of a GPU. */
#define CPU_FLOPS 8e9
#define CPU_DISPATCH 3e-5
#define GPU_FLOPS 1e12
#define GPU_DISPATCH 5e-6

static double score_of(const rf_op_call *call, const rf_device_caps *caps, uint64_t dispatches)
{
    const double rate = caps->is_cpu ? CPU_FLOPS : GPU_FLOPS, start = caps->is_cpu ? CPU_DISPATCH : GPU_DISPATCH;
    return rf_score_of_time(call->op->cost(call).flops / rate + start * (double)dispatches);
}

static void magic_split(int64_t divisor, uint32_t to[2])
{
    const rf_magic magic = rf_magic_make((uint32_t)divisor);
    to[0] = magic.magic;
    to[1] = magic.shift;
}

static void bind_rows(rf_row_job *job, rf_bind_kind kind, uint32_t index, uint64_t row_bytes, uint32_t width)
{
    rf_row_job_tensor(job, kind, index, row_bytes);
    if (width == 8 && kind == RF_BIND_INPUT) job->tensors[job->n_tensors - 1].view = RF_VIEW_TEXEL_RGBA32F;
}

/* ---- the convolution, and its gradient with respect to the image ---- */

static bool make_job(const rf_op_call *call, const rf_device_caps *caps, rf_linear_role role, rf_row_job *job)
{
    const rf_conv_geometry g = rf_conv_geometry_of(call, role);
    const bool data = role == RF_ROLE_DATA;
    const uint32_t width = width_of(&g, caps);
    if (width == 0) return false;
    const int64_t vectors = g.cin / width;
    push p = { .vectors = (int32_t)vectors,
               .in_h = (int32_t)g.h,
               .in_w = (int32_t)g.w,
               .out_h = (int32_t)g.oh,
               .out_w = (int32_t)g.ow,
               .kernel_h = (int32_t)g.kh,
               .kernel_w = (int32_t)g.kw,
               .stride_y = (int32_t)g.sy,
               .stride_x = (int32_t)g.sx,
               .step_y = (int32_t)g.dy,
               .step_x = (int32_t)g.dx,
               .first_y = -(int32_t)g.pt,
               .first_x = -(int32_t)g.pl };
    if (data) {
        p.in_h = (int32_t)g.oh;
        p.in_w = (int32_t)g.ow;
        p.out_h = (int32_t)g.h;
        p.out_w = (int32_t)g.w;
        p.step_y = -p.step_y;
        p.step_x = -p.step_x;
        p.first_y = -p.first_y;
        p.first_x = -p.first_x;
    }
    magic_split(g.sy, p.by_y);
    magic_split(g.sx, p.by_x);
    const bool window = shares_pixels(&g) && (!data || g.sy == 1);
    p.tiles = (p.out_w + TILE - 1) / TILE;
    const uint64_t threads = (uint64_t)p.out_h * (uint64_t)p.tiles * (uint64_t)vectors;
    const uint64_t pixel = (uint64_t)g.cin * sizeof(float);
    static const rf_shader *const shaders[3][2] = {
        { &rf_shader_conv2d_depthwise_forward_w4, &rf_shader_conv2d_depthwise_forward_texel8 },
        { &rf_shader_conv2d_depthwise_data_w4, &rf_shader_conv2d_depthwise_data_texel8 },
        { &rf_shader_conv2d_depthwise_window_w4, &rf_shader_conv2d_depthwise_window_texel8 },
    };
    if (threads > INT32_MAX) return false;
    *job = (rf_row_job){ .shader = shaders[window ? 2 : data][width == 8],
                         .grid = RF_GRID_IMAGES,
                         .local = rf_local_size(caps, 64),
                         .rows = (uint64_t)g.n,
                         .threads_per_row = threads,
                         .loops = (uint64_t)(g.kh * (g.kw + 2) + 1) };
    RF_ROW_JOB_PUSH(job, p, images);
    bind_rows(job, RF_BIND_INPUT, 0, (uint64_t)(p.in_h * p.in_w) * pixel, width);
    bind_rows(job, RF_BIND_INPUT, 1, 0, width);
    if (!data || window) {
        const bool bias = !data && call->n_in == 3;
        job->spec[job->n_spec++] = data ? 0 : ((const rf_conv2d_attr *)call->attr)->activation;
        job->spec[job->n_spec++] = bias;
        bind_rows(job, RF_BIND_INPUT, bias ? 2 : 1, 0, 4);
    }
    bind_rows(job, RF_BIND_OUTPUT, 0, (uint64_t)(p.out_h * p.out_w) * pixel, width);
    return true;
}

double rf_conv2d_depthwise_score(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    rf_row_job job;
    if (!make_job(call, caps, *(const rf_linear_role *)data, &job) || rf_row_job_score(&job, caps) == RF_SCORE_NONE)
        return RF_SCORE_NONE;
    return score_of(call, caps, rf_div_up(job.rows, rf_row_job_chunk(&job, caps)));
}

rf_result rf_conv2d_depthwise_plan(const rf_op_call *call, const rf_device_caps *caps, const void *data,
                                   rf_kernel_plan *plan)
{
    rf_row_job job;
    if (!make_job(call, caps, *(const rf_linear_role *)data, &job))
        return RF_FAIL(RF_ERROR_INTERNAL, "%s: no depthwise convolution", call->op->name);
    return rf_row_job_plan(&job, caps, plan);
}

/* ---- with respect to the kernel ---- */

typedef struct filter_parts {
    int64_t parts, lines;  /* of dy: all of them, lines in each */
    uint64_t taps, floats; /* with the bias'; of a part's sums */
} filter_parts;

static filter_parts parts_of(const rf_op_call *call, const rf_conv_geometry *g, const rf_device_caps *caps,
                             uint32_t width)
{
    filter_parts f = { .taps = (uint64_t)(g->kh * g->kw) + (call->n_out > 1) };
    const uint64_t invocations = f.taps * (uint64_t)(g->cin / width), all = (uint64_t)(g->n * g->oh);
    const uint64_t longest = rf_loop_limit(caps) / ((uint64_t)g->ow + 2);
    f.parts = rf_linear_parts(invocations, caps->is_cpu ? 512 : 65536, (int64_t)all, 4, longest ? longest : 1);
    f.lines = (int64_t)rf_div_up(all, (uint64_t)f.parts);
    f.floats = f.taps * (uint64_t)g->cin;
    return f;
}

static uint64_t filter_loops(const filter_parts *f, const rf_conv_geometry *g)
{
    return (uint64_t)f->lines * ((uint64_t)g->ow + 2) + 1;
}

double rf_conv2d_depthwise_filter_score(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    const rf_conv_geometry g = rf_conv_geometry_of(call, RF_ROLE_FILTER);
    const uint32_t width = width_of(&g, caps);
    if (width == 0) return RF_SCORE_NONE;
    const filter_parts f = parts_of(call, &g, caps, width);
    const uint64_t texels = (uint64_t)(g.n * (g.h * g.w > g.oh * g.ow ? g.h * g.w : g.oh * g.ow) * g.cin / 4);
    if (filter_loops(&f, &g) > rf_loop_limit(caps) || (uint64_t)f.parts + 1 > rf_loop_limit(caps)) return RF_SCORE_NONE;
    if (!rf_fits_storage(call, caps) || (uint64_t)f.parts * f.floats * sizeof(float) > caps->max_storage_range)
        return RF_SCORE_NONE;
    if (width == 8 && texels > caps->max_texel_elements) return RF_SCORE_NONE;
    return score_of(call, caps, 2);
}

rf_result rf_conv2d_depthwise_filter_plan(const rf_op_call *call, const rf_device_caps *caps, const void *data,
                                          rf_kernel_plan *plan)
{
    const rf_conv_geometry g = rf_conv_geometry_of(call, RF_ROLE_FILTER);
    const uint32_t width = width_of(&g, caps);
    const filter_parts f = parts_of(call, &g, caps, width);
    push p = { .images = (int32_t)g.n,
               .vectors = (int32_t)(g.cin / width),
               .in_h = (int32_t)g.h,
               .in_w = (int32_t)g.w,
               .out_h = (int32_t)g.oh,
               .out_w = (int32_t)g.ow,
               .kernel_h = (int32_t)g.kh,
               .kernel_w = (int32_t)g.kw,
               .stride_y = (int32_t)g.sy,
               .stride_x = (int32_t)g.sx,
               .step_y = (int32_t)g.dy,
               .step_x = (int32_t)g.dx,
               .first_y = -(int32_t)g.pt,
               .first_x = -(int32_t)g.pl,
               .tiles = (int32_t)f.parts,
               .lines = (int32_t)f.lines,
               .bias_tap = call->n_out > 1 };
    magic_split(g.oh, p.by_height);
    const rf_binding partial = rf_linear_workspace(plan, caps, (uint64_t)f.parts * f.floats * sizeof(float));
    static const rf_shader *const shaders[2][2] = {
        { &rf_shader_conv2d_depthwise_filter_w4, &rf_shader_conv2d_depthwise_filter_w8 },
        { &rf_shader_conv2d_depthwise_filter_window_w4, &rf_shader_conv2d_depthwise_filter_window_w8 },
    };
    const bool window = shares_pixels(&g);
    const uint64_t each = (window ? (uint64_t)g.kh : f.taps) * (uint64_t)g.cin / width; /* invocations of a part */
    rf_dispatch *d = rf_kernel_plan_add(plan, shaders[window][width == 8], filter_loops(&f, &g));
    if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_dispatch_spec(d, rf_local_size(caps, caps->is_cpu ? caps->subgroup_size : 64));
    rf_dispatch_push(d, &p, sizeof(p));
    const rf_bind_view view = width == 8 ? RF_VIEW_TEXEL_RGBA32F : RF_VIEW_STORAGE;
    rf_linear_bind(d, rf_linear_input(call, 0), view, false);
    rf_linear_bind(d, rf_linear_input(call, 1), view, false);
    rf_linear_bind(d, partial, RF_VIEW_STORAGE, true);
    rf_dispatch_items(d, caps, (uint64_t)f.parts * each);
    return rf_linear_add_sum(plan, call, caps,
                             &(rf_linear_sum){ .partial = partial,
                                               .parts = f.parts,
                                               .stride = f.floats,
                                               .count = f.floats,
                                               .extra = call->n_out > 1 ? (uint64_t)g.cin : 0,
                                               .columns = g.cin });
}
