/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions that take each channel by itself: as many groups as channels, and as many outputs. Little is computed
 * for what is read, so these kernels take several channels at once instead of tiles of a product. */
#include "ops/linear/common/conv2d.h"
#include "rf_shaders.h"

enum { VECTOR = 4, TILE = 4, WINDOW = 3 };
#define MOST_PIXEL_VECTORS (1ull << 28)

typedef rf_push_conv2d_depthwise push;

/* The convolution is a depthwise one that the shaders take, which have four channels an invocation. */
static bool is_depthwise(const rf_conv_geometry *g)
{
    if (g->cig != 1 || g->cog != 1 || g->cin % VECTOR) return false;
    const uint64_t x = (uint64_t)(g->h * g->w * g->cin), y = (uint64_t)(g->oh * g->ow * g->cin);
    const uint64_t kernel = (uint64_t)(g->kh * g->kw * g->cin), most = x > y ? x : y;
    return (uint64_t)g->n * most <= VECTOR * MOST_PIXEL_VECTORS && kernel <= VECTOR * MOST_PIXEL_VECTORS;
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

/* ---- the convolution, and its gradient with respect to the image ---- */

static bool make_job(const rf_op_call *call, const rf_device_caps *caps, rf_linear_role role, rf_row_job *job)
{
    const rf_conv_geometry g = rf_conv_geometry_of(call, role);
    const bool data = role == RF_ROLE_DATA;
    if (!is_depthwise(&g)) return false;
    const int64_t vectors = g.cin / VECTOR;
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
    static const rf_shader *const shaders[] = { &rf_shader_conv2d_depthwise_forward_w4,
                                                &rf_shader_conv2d_depthwise_data_w4,
                                                &rf_shader_conv2d_depthwise_window_w4 };
    if (threads > INT32_MAX) return false;
    *job = (rf_row_job){ .shader = shaders[window ? 2 : data],
                         .grid = RF_GRID_IMAGES,
                         .local = rf_local_size(caps, 64),
                         .rows = (uint64_t)g.n,
                         .threads_per_row = threads,
                         .loops = (uint64_t)(g.kh * (g.kw + 2) + 1) };
    RF_ROW_JOB_PUSH(job, p, images);
    rf_row_job_tensor(job, RF_BIND_INPUT, 0, (uint64_t)(p.in_h * p.in_w) * pixel);
    rf_row_job_tensor(job, RF_BIND_INPUT, 1, 0);
    if (!data || window) {
        const bool bias = !data && call->n_in == 3;
        job->spec[job->n_spec++] = data ? 0 : ((const rf_conv2d_attr *)call->attr)->activation;
        job->spec[job->n_spec++] = bias;
        rf_row_job_tensor(job, RF_BIND_INPUT, bias ? 2 : 1, 0);
    }
    rf_row_job_tensor(job, RF_BIND_OUTPUT, 0, (uint64_t)(p.out_h * p.out_w) * pixel);
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

static filter_parts parts_of(const rf_op_call *call, const rf_conv_geometry *g, const rf_device_caps *caps)
{
    filter_parts f = { .taps = (uint64_t)(g->kh * g->kw) + (call->n_out > 1) };
    const uint64_t invocations = f.taps * (uint64_t)(g->cin / VECTOR), all = (uint64_t)(g->n * g->oh);
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
    if (!is_depthwise(&g)) return RF_SCORE_NONE;
    const filter_parts f = parts_of(call, &g, caps);
    if (filter_loops(&f, &g) > rf_loop_limit(caps) || (uint64_t)f.parts + 1 > rf_loop_limit(caps)) return RF_SCORE_NONE;
    if (!rf_fits_storage(call, caps) || (uint64_t)f.parts * f.floats * sizeof(float) > caps->max_storage_range)
        return RF_SCORE_NONE;
    return score_of(call, caps, 2);
}

rf_result rf_conv2d_depthwise_filter_plan(const rf_op_call *call, const rf_device_caps *caps, const void *data,
                                          rf_kernel_plan *plan)
{
    const rf_conv_geometry g = rf_conv_geometry_of(call, RF_ROLE_FILTER);
    const filter_parts f = parts_of(call, &g, caps);
    push p = { .images = (int32_t)g.n,
               .vectors = (int32_t)(g.cin / VECTOR),
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
    static const rf_shader *const shaders[] = { &rf_shader_conv2d_depthwise_filter_w4,
                                                &rf_shader_conv2d_depthwise_filter_window_w4 };
    const bool window = shares_pixels(&g);
    const uint64_t each = (window ? (uint64_t)g.kh : f.taps) * (uint64_t)g.cin / VECTOR; /* invocations of a part */
    rf_dispatch *d = rf_kernel_plan_add(plan, shaders[window], filter_loops(&f, &g));
    if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_dispatch_spec(d, rf_local_size(caps, caps->is_cpu ? caps->subgroup_size : 64));
    rf_dispatch_push(d, &p, sizeof(p));
    rf_linear_bind(d, rf_linear_input(call, 0), RF_VIEW_STORAGE, false);
    rf_linear_bind(d, rf_linear_input(call, 1), RF_VIEW_STORAGE, false);
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
