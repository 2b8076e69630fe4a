/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions that take each channel by itself, with kernels of 3 x 3 and 5 x 5 in steps of one and two: on lavapipe,
 * whose loads cost more than what is computed with them. An invocation walks along a strip of a few lines. */
#include "ops/linear/common/conv2d.h"
#include "ops/linear/cpu/kernels.h"
#include "ops/linear/cpu/model.h"
#include "rf_shaders.h"

enum { LANES = 8, VECTOR = 8, MOST_ELEMENTS = 1 << 30, WANTED = 1024, LEAST_COLUMNS = 8 };

typedef rf_push_conv2d_depthwise_walk push;

static const rf_shader *shader_of(rf_linear_role role, const rf_conv_geometry *g)
{
#define SHADER(name) &rf_shader_conv2d_walk_##name##_texel8
    static const rf_shader *const shaders[3][2][2] = {
        { { SHADER(forward_3), SHADER(forward_3_s2) }, { SHADER(forward_5), SHADER(forward_5_s2) } },
        { { SHADER(forward_3), SHADER(data_3_s2) }, { SHADER(forward_5), SHADER(data_5_s2) } },
        { { SHADER(filter_3), SHADER(filter_3_s2) }, { SHADER(filter_5), SHADER(filter_5_s2) } },
    };
    return shaders[role][g->kh == 5][g->sy == 2];
}

static bool can_walk(const rf_conv_geometry *g, const rf_device_caps *caps)
{
    if (g->cig != 1 || g->cog != 1 || g->cin % VECTOR) return false;
    if (g->kh != g->kw || (g->kh != 3 && g->kh != 5) || g->sy != g->sx || g->sy > 2) return false;
    if (g->dy != 1 || g->dx != 1 || caps->driver != RF_DRIVER_LAVAPIPE || caps->subgroup_size != LANES ||
        !rf_flat_texels(caps))
        return false;
    const uint64_t x = (uint64_t)(g->h * g->w * g->cin), y = (uint64_t)(g->oh * g->ow * g->cin), most = x > y ? x : y;
    return most / 4 <= caps->max_texel_elements && (uint64_t)g->n * most <= MOST_ELEMENTS;
}

/* Lines that are taken at once. */
static int32_t tile_of(const rf_conv_geometry *g)
{
    return g->kh == 3 ? 4 : 2;
}

static double score_of(const rf_op_call *call, uint64_t dispatches)
{
    return rf_score_of_time(rf_cpu_depthwise_walk_seconds(call->op->cost(call).flops, (double)dispatches));
}

static void bind_rows(rf_row_job *job, rf_bind_kind kind, uint32_t index, uint64_t row_bytes)
{
    rf_row_job_tensor(job, kind, index, row_bytes);
    if (kind == RF_BIND_INPUT) job->tensors[job->n_tensors - 1].view = RF_VIEW_TEXEL_RGBA32F;
}

/* ---- the convolution, and its gradient with respect to the image ---- */

static push forward_push(const rf_conv_geometry *g)
{
    return (push){ .in_h = (int32_t)g->h,
                   .in_w = (int32_t)g->w,
                   .out_h = (int32_t)g->oh,
                   .out_w = (int32_t)g->ow,
                   .first_y = -(int32_t)g->pt,
                   .first_x = -(int32_t)g->pl };
}

/* In steps of one it is a convolution with the kernel read backwards. */
static push data_push(const rf_conv_geometry *g)
{
    const bool steps = g->sy == 2;
    return (push){ .in_h = (int32_t)g->oh,
                   .in_w = (int32_t)g->ow,
                   .out_h = (int32_t)g->h,
                   .out_w = (int32_t)g->w,
                   .first_y = (int32_t)(steps ? g->pt / 2 : g->pt - g->kh + 1),
                   .first_x = (int32_t)(steps ? g->pl / 2 : g->pl - g->kw + 1),
                   .skip_y = (int32_t)(steps ? g->pt % 2 : 0),
                   .skip_x = (int32_t)(steps ? g->pl % 2 : 0),
                   .flip = !steps };
}

static bool make_job(const rf_op_call *call, const rf_device_caps *caps, rf_linear_role role, rf_row_job *job)
{
    const rf_conv_geometry g = rf_conv_geometry_of(call, role);
    if (!can_walk(&g, caps)) return false;
    push p = role == RF_ROLE_DATA ? data_push(&g) : forward_push(&g);
    const int32_t at_once = role == RF_ROLE_DATA && g.sy == 2 ? 2 : 1; /* columns that a turn finishes */
    const int32_t turns = (p.out_w + p.skip_x + at_once - 1) / at_once;
    p.vectors = (int32_t)(g.cin / VECTOR);
    p.tiles = (p.out_h + p.skip_y + tile_of(&g) - 1) / tile_of(&g);
    /* Strips as long as there is enough to do side by side: what lies between two of them is read twice. */
    const uint64_t across = (uint64_t)p.tiles * (uint64_t)p.vectors;
    const uint64_t strips = rf_min(rf_div_up(WANTED, (uint64_t)g.n * across), (uint64_t)turns / LEAST_COLUMNS);
    p.columns = (int32_t)rf_div_up((uint64_t)turns, strips > 1 ? strips : 1);
    p.strips = (int32_t)rf_div_up((uint64_t)turns, (uint64_t)p.columns);
    const uint64_t pixel = (uint64_t)g.cin * sizeof(float), threads = across * (uint64_t)p.strips;
    if (threads > INT32_MAX) return false;
    *job = (rf_row_job){ .shader = shader_of(role, &g),
                         .grid = RF_GRID_IMAGES,
                         .local = rf_local_size(caps, caps->subgroup_size),
                         .rows = (uint64_t)g.n,
                         .threads_per_row = threads,
                         .loops = (uint64_t)(p.columns + g.kw) };
    RF_ROW_JOB_PUSH(job, p, images);
    const bool bias = role == RF_ROLE_FORWARD && call->n_in == 3;
    job->spec[job->n_spec++] = role == RF_ROLE_FORWARD ? ((const rf_conv2d_attr *)call->attr)->activation : 0;
    job->spec[job->n_spec++] = bias;
    bind_rows(job, RF_BIND_INPUT, 0, (uint64_t)(p.in_h * p.in_w) * pixel);
    bind_rows(job, RF_BIND_INPUT, 1, 0);
    rf_row_job_tensor(job, RF_BIND_INPUT, bias ? 2 : 1, 0);
    bind_rows(job, RF_BIND_OUTPUT, 0, (uint64_t)(p.out_h * p.out_w) * pixel);
    return true;
}

double rf_depthwise_walk_score(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    rf_row_job job;
    if (!make_job(call, caps, *(const rf_linear_role *)data, &job) || rf_row_job_score(&job, caps) == RF_SCORE_NONE)
        return RF_SCORE_NONE;
    return score_of(call, rf_div_up(job.rows, rf_row_job_chunk(&job, caps)));
}

rf_result rf_depthwise_walk_plan(const rf_op_call *call, const rf_device_caps *caps, const void *data,
                                 rf_kernel_plan *plan)
{
    rf_row_job job;
    if (!make_job(call, caps, *(const rf_linear_role *)data, &job))
        return RF_FAIL(RF_ERROR_INTERNAL, "%s: no depthwise convolution to walk through", call->op->name);
    return rf_row_job_plan(&job, caps, plan);
}

/* ---- with respect to the kernel ---- */

typedef struct filter_parts {
    int64_t parts, units;  /* tiles in each of these */
    uint64_t taps, floats; /* with the bias'; of a part's sums */
} filter_parts;

static filter_parts parts_of(const rf_op_call *call, const rf_conv_geometry *g, const rf_device_caps *caps)
{
    filter_parts f = { .taps = (uint64_t)(g->kh * g->kw) + (call->n_out > 1) };
    const int64_t units = g->n * ((g->oh + tile_of(g) - 1) / tile_of(g));
    const uint64_t longest = rf_loop_limit(caps) / (uint64_t)(g->ow + g->kw + 1);
    f.parts = rf_linear_parts((uint64_t)(g->cin / VECTOR), WANTED / 2, units, 1, longest ? longest : 1);
    f.units = (int64_t)rf_div_up((uint64_t)units, (uint64_t)f.parts);
    f.floats = f.taps * (uint64_t)g->cin;
    return f;
}

static uint64_t filter_loops(const filter_parts *f, const rf_conv_geometry *g)
{
    return (uint64_t)f->units * (uint64_t)(g->ow + g->kw + 1) + 1;
}

double rf_depthwise_walk_filter_score(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    const rf_conv_geometry g = rf_conv_geometry_of(call, RF_ROLE_FILTER);
    if (!can_walk(&g, caps) || !rf_fits_storage(call, caps)) return RF_SCORE_NONE;
    const filter_parts f = parts_of(call, &g, caps);
    const uint64_t most = (uint64_t)(g.n * (g.h * g.w > g.oh * g.ow ? g.h * g.w : g.oh * g.ow) * g.cin);
    if (most / 4 > caps->max_texel_elements) return RF_SCORE_NONE;
    if (filter_loops(&f, &g) > rf_loop_limit(caps) || (uint64_t)f.parts + 1 > rf_loop_limit(caps)) return RF_SCORE_NONE;
    if ((uint64_t)f.parts * f.floats * sizeof(float) > caps->max_storage_range) return RF_SCORE_NONE;
    return score_of(call, 2);
}

rf_result rf_depthwise_walk_filter_plan(const rf_op_call *call, const rf_device_caps *caps, const void *data,
                                        rf_kernel_plan *plan)
{
    const rf_conv_geometry g = rf_conv_geometry_of(call, RF_ROLE_FILTER);
    const filter_parts f = parts_of(call, &g, caps);
    push p = forward_push(&g);
    p.images = (int32_t)g.n;
    p.vectors = (int32_t)(g.cin / VECTOR);
    p.tiles = (int32_t)((g.oh + tile_of(&g) - 1) / tile_of(&g));
    p.parts = (int32_t)f.parts;
    p.units = (int32_t)f.units;
    p.bias_tap = call->n_out > 1;
    const rf_binding partial = rf_linear_workspace(plan, caps, (uint64_t)f.parts * f.floats * sizeof(float));
    rf_dispatch *d = rf_kernel_plan_add(plan, shader_of(RF_ROLE_FILTER, &g), filter_loops(&f, &g));
    if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_dispatch_spec(d, rf_local_size(caps, caps->subgroup_size));
    rf_dispatch_spec(d, g.oh % tile_of(&g) != 0);
    rf_dispatch_push(d, &p, sizeof(p));
    rf_linear_bind(d, rf_linear_input(call, 0), RF_VIEW_TEXEL_RGBA32F, false);
    rf_linear_bind(d, rf_linear_input(call, 1), RF_VIEW_TEXEL_RGBA32F, false);
    rf_linear_bind(d, partial, RF_VIEW_STORAGE, true);
    rf_dispatch_items(d, caps, (uint64_t)f.parts * (uint64_t)p.vectors);
    return rf_linear_add_sum(plan, call, caps,
                             &(rf_linear_sum){ .partial = partial,
                                               .parts = f.parts,
                                               .stride = f.floats,
                                               .count = f.floats,
                                               .extra = call->n_out > 1 ? (uint64_t)g.cin : 0,
                                               .columns = g.cin });
}
