/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Filter gradients of convolutions with kernels of 1 x 1 without strides, for drivers whose subgroups are the lanes of
 * a SIMD register: products of few rows and columns over as many summands as there are pixels
 * (shaders/linear/lanes_points_grad.comp).
 */
#include "ops/linear/conv2d.h"
#include "rf_shaders.h"

/* Of shaders/linear/lanes_points_grad.comp. */
typedef struct points_push {
    int32_t total, row_tiles, column_tiles, rows, columns, pixels, split, c_row, c_column, c_split;
} points_push;
_Static_assert(sizeof(points_push) <= RF_MAX_PUSH, "push constants of lanes_points_grad.comp");

/* Of the shader: its tile, and pixels that each half of the lanes takes in a turn of the loop. */
enum { TILE_ROWS = 12, TILE_COLUMNS = 48, HALVES = 2, TURN_PIXELS = 4 };

/* How a gradient is taken apart; `swapped`: rows are dy's channels, not the image's. */
typedef struct outer_plan {
    int64_t rows, columns, pixels, row_tiles, column_tiles, split, parts;
    bool swapped;
} outer_plan;

static bool outer_fits(const rf_op_call *call)
{
    const rf_conv_geometry g = rf_conv_geometry_of(call);
    return g.kh == 1 && g.kw == 1 && g.sy == 1 && g.sx == 1 && g.groups == 1 && g.h == g.oh && g.w == g.ow &&
           g.pt == 0 && g.pl == 0 && g.cin % 4 == 0 && g.cout % 4 == 0 && call->n_out == 1;
}

/* Seconds of a processor, as measured. */
static double outer_seconds(const outer_plan *o)
{
    const double turn = 0.3e-6, turns = (double)o->pixels / (TURN_PIXELS * HALVES);
    return (double)(o->row_tiles * o->column_tiles) * turns * turn + 60e-6;
}

static bool divide_outer(const rf_op_call *call, const rf_device_caps *caps, outer_plan *best)
{
    if (!outer_fits(call)) return false;
    const rf_conv_geometry g = rf_conv_geometry_of(call);
    for (int swapped = 0; swapped < 2; swapped++) {
        outer_plan o = { .rows = swapped ? g.cout : g.cin,
                         .columns = swapped ? g.cin : g.cout,
                         .pixels = g.n * g.h * g.w,
                         .swapped = swapped == 1 };
        o.row_tiles = (int64_t)rf_div_up((uint64_t)o.rows, TILE_ROWS);
        o.column_tiles = (int64_t)rf_div_up((uint64_t)o.columns, TILE_COLUMNS);
        if (!swapped || outer_seconds(&o) < outer_seconds(best)) *best = o;
    }
    const uint64_t tiles = (uint64_t)(best->row_tiles * best->column_tiles);
    const int64_t halves = HALVES * rf_lanes_parts(tiles, 32, best->pixels / HALVES, 128, rf_loop_limit(caps));
    const int64_t turn = (int64_t)rf_div_up(rf_div_up((uint64_t)best->pixels, (uint64_t)halves), TURN_PIXELS);
    best->split = turn * TURN_PIXELS;
    best->parts = (int64_t)rf_div_up((uint64_t)best->pixels, (uint64_t)best->split * HALVES) * HALVES;
    return true;
}

static rf_result plan_outer(rf_lanes_plan *p)
{
    outer_plan o;
    if (!divide_outer(p->call, p->caps, &o)) return RF_FAIL(RF_ERROR_INTERNAL, "%s: not of points", p->call->op->name);
    const rf_conv_geometry g = rf_conv_geometry_of(p->call);
    const uint64_t count = (uint64_t)(o.rows * o.columns);
    const uint64_t total = (uint64_t)(o.row_tiles * o.column_tiles * o.parts / HALVES);
    const rf_binding partial = rf_lanes_workspace(p, (uint64_t)o.parts * count * sizeof(float));
    rf_dispatch *d = rf_kernel_plan_add(p->plan, &rf_shader_lanes8_texel_points_grad, (uint64_t)o.split / TURN_PIXELS);
    if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_dispatch_spec(d, p->set->lanes);
    const points_push push = { .total = (int32_t)total,
                               .row_tiles = (int32_t)o.row_tiles,
                               .column_tiles = (int32_t)o.column_tiles,
                               .rows = (int32_t)(o.rows / 4),
                               .columns = (int32_t)(o.columns / 4),
                               .pixels = (int32_t)o.pixels,
                               .split = (int32_t)o.split,
                               .c_row = o.swapped ? 1 : (int32_t)g.cout,
                               .c_column = o.swapped ? (int32_t)g.cout : 1,
                               .c_split = (int32_t)count };
    rf_dispatch_push(d, &push, sizeof(push));
    rf_dispatch_groups(d, p->caps, total);
    rf_lanes_bind(d, rf_lanes_input(p->call, o.swapped ? 1 : 0), RF_VIEW_TEXEL_RGBA32F, false);
    rf_lanes_bind(d, rf_lanes_input(p->call, o.swapped ? 0 : 1), RF_VIEW_TEXEL_RGBA32F, false);
    rf_lanes_bind(d, partial, RF_VIEW_STORAGE, true);
    return rf_lanes_add_sum(p, partial, o.parts, count, count, 0, g.cout, RF_ACTIVATION_LINEAR, false);
}

/* The direct form's, by how much longer that takes. */
static double score_outer(const rf_lanes_set *set, const rf_op_call *call, const rf_device_caps *caps)
{
    outer_plan o;
    if (!caps->is_cpu || !rf_lanes_usable(set, call, caps) || !divide_outer(call, caps, &o)) return RF_SCORE_NONE;
    const uint64_t floats = (uint64_t)(o.parts * o.rows * o.columns);
    if (floats * sizeof(float) > caps->max_storage_range || floats > INT32_MAX ||
        (uint64_t)o.split / TURN_PIXELS > rf_loop_limit(caps) || (uint64_t)o.parts + 1 > rf_loop_limit(caps))
        return RF_SCORE_NONE;
    const rf_conv_geometry g = rf_conv_geometry_of(call);
    const double margin = 1.05;
    return rf_conv2d_filter_grad_lanes8_texel.score(call, caps) * rf_conv2d_filter_seconds(set, &g) /
           (outer_seconds(&o) * margin);
}

RF_LANES_FUNCTIONS(conv2d_filter_grad, lanes8_texel, _points, score_outer, plan_outer)
const rf_kernel rf_conv2d_filter_grad_lanes8_texel_points = { .name = "lanes8_texel_points",
                                                              .score = conv2d_filter_grad_lanes8_texel_points_score,
                                                              .plan = conv2d_filter_grad_lanes8_texel_points_plan,
                                                              .cuts_up = true };
