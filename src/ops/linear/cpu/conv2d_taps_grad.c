/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Filter gradients of convolutions with few channels, for drivers whose subgroups are the lanes of a SIMD register: for
 * each tap a product of few rows and columns over as many summands as there are pixels
 * (shaders/linear/cpu/lanes_taps_grad.comp).
 */
#include "ops/linear/common/conv2d.h"
#include "ops/linear/cpu/kernels.h"
#include "ops/linear/cpu/model.h"
#include "rf_shaders.h"

/* Rows of the shader's tiles, and pixels that each half of the lanes takes in a turn of the loop. */
enum { TILE_ROWS = 12, HALVES = 2, TURN_PIXELS = 4 };

/* Taps and columns of a tile. Beside several taps stand as many columns as keep the loop within a processor's cache of
 * instructions: with 48 of them it took a quarter longer a product. */
typedef struct taps_tile {
    const rf_shader *shader;
    int64_t taps, columns;
} taps_tile;
static const taps_tile single_tile = { &rf_shader_lanes8_texel_taps_grad_1, 1, 48 },
                       line_tile = { &rf_shader_lanes8_texel_taps_grad_3, 3, 16 };

/* How a gradient is taken apart; `swapped`: rows are dy's channels, not the image's. */
typedef struct taps_plan {
    const taps_tile *tile;
    int64_t taps, rows, columns, pixels, row_tiles, column_tiles, tiles, split, parts;
    bool swapped;
} taps_plan;

static double taps_seconds(const taps_plan *t)
{
    /* A part's pixels are shared by both halves, which end together. */
    const double tiles = (double)t->tiles * (double)t->parts / HALVES;
    const double turns = (double)t->pixels / (TURN_PIXELS * (double)t->parts);
    return rf_cpu_loop_seconds(RF_CPU_LOOP_TAPS, tiles, turns) + RF_CPU_ONCE_TAPS;
}

/* Whether each pixel of dy meets the image's pixel there, and no other. */
static bool meets_points(const rf_conv_geometry *g)
{
    return g->kh == 1 && g->kw == 1 && g->sy == 1 && g->sx == 1 && g->h == g->oh && g->w == g->ow && g->pt == 0 &&
           g->pl == 0;
}

/* Whether three taps lie side by side on pixels that follow dy's at a fixed distance. */
static bool has_lines_of_three(const rf_conv_geometry *g)
{
    return g->kw == 3 && g->sy == 1 && g->sx == 1 && g->dx == 1 && g->h == g->oh && g->w == g->ow;
}

static bool divide_taps(const rf_op_call *call, const rf_device_caps *caps, taps_plan *best)
{
    const rf_conv_geometry g = rf_conv_geometry_of(call, RF_ROLE_FILTER);
    if (g.groups != 1 || g.cin % 4 != 0 || g.cout % 4 != 0 || call->n_out > 1) return false;
    for (int swapped = 0; swapped < 2; swapped++) {
        taps_plan t = { .taps = g.kh * g.kw,
                        .tile = has_lines_of_three(&g) ? &line_tile : &single_tile,
                        .rows = swapped ? g.cout : g.cin,
                        .columns = swapped ? g.cin : g.cout,
                        .pixels = g.n * g.oh * g.ow,
                        .swapped = swapped == 1 };
        t.row_tiles = (int64_t)rf_div_up((uint64_t)t.rows, TILE_ROWS);
        t.column_tiles = (int64_t)rf_div_up((uint64_t)t.columns, (uint64_t)t.tile->columns);
        t.tiles = t.taps / t.tile->taps * t.row_tiles * t.column_tiles;
        if (!swapped || t.tiles < best->tiles) *best = t;
    }
    /* Parts of several taps are short, so that the pixels that these share stay in a cache. */
    const uint64_t tiles = (uint64_t)best->tiles, wanted = best->taps > 1 ? tiles * 12 : 32;
    const int64_t least = best->taps > 1 ? 512 : 128;
    const int64_t halves = HALVES * rf_linear_parts(tiles, wanted, best->pixels / HALVES, least, rf_loop_limit(caps));
    const int64_t turns = (int64_t)rf_div_up(rf_div_up((uint64_t)best->pixels, (uint64_t)halves), TURN_PIXELS);
    best->split = turns * TURN_PIXELS;
    best->parts = (int64_t)rf_div_up((uint64_t)best->pixels, (uint64_t)best->split * HALVES) * HALVES;
    return true;
}

rf_result rf_taps_grad_plan(const rf_op_call *call, const rf_device_caps *caps, const void *data, rf_kernel_plan *plan)
{
    const rf_piece_kernel *kernel = data;
    taps_plan t;
    if (!divide_taps(call, caps, &t)) return RF_FAIL(RF_ERROR_INTERNAL, "%s: not by taps", call->op->name);
    const rf_conv_geometry g = rf_conv_geometry_of(call, RF_ROLE_FILTER);
    const uint64_t count = (uint64_t)(t.taps * t.rows * t.columns), total = (uint64_t)(t.tiles * t.parts / HALVES);
    const rf_binding partial = rf_linear_workspace(plan, caps, (uint64_t)t.parts * count * sizeof(float));
    rf_dispatch *d = rf_kernel_plan_add(plan, t.tile->shader, (uint64_t)t.split / TURN_PIXELS);
    if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_dispatch_spec(d, kernel->set->lanes);
    rf_dispatch_spec(d, meets_points(&g));
    rf_dispatch_spec(d, t.swapped);
    const rf_push_lanes_taps_grad push = { .total = (int32_t)total,
                                           .row_tiles = (int32_t)t.row_tiles,
                                           .column_tiles = (int32_t)t.column_tiles,
                                           .tap_tiles = (int32_t)(t.taps / t.tile->taps),
                                           .rows = (int32_t)(t.rows / 4),
                                           .columns = (int32_t)(t.columns / 4),
                                           .pixels = (int32_t)t.pixels,
                                           .split = (int32_t)t.split,
                                           .c_row = t.swapped ? 1 : (int32_t)g.cout,
                                           .c_column = t.swapped ? (int32_t)g.cout : 1,
                                           .c_tap = (int32_t)(t.rows * t.columns),
                                           .c_split = (int32_t)count,
                                           .h = (int32_t)g.h,
                                           .w = (int32_t)g.w,
                                           .oh = (int32_t)g.oh,
                                           .ow = (int32_t)g.ow,
                                           .wide = (int32_t)g.kw,
                                           .stride_y = (int32_t)g.sy,
                                           .stride_x = (int32_t)g.sx,
                                           .dilation_y = (int32_t)g.dy,
                                           .dilation_x = (int32_t)g.dx,
                                           .pad_y = (int32_t)g.pt,
                                           .pad_x = (int32_t)g.pl };
    rf_dispatch_push(d, &push, sizeof(push));
    rf_dispatch_groups(d, caps, total);
    rf_linear_bind(d, rf_linear_input(call, t.swapped ? 1 : 0), RF_VIEW_TEXEL_RGBA32F, false);
    rf_linear_bind(d, rf_linear_input(call, t.swapped ? 0 : 1), RF_VIEW_TEXEL_RGBA32F, false);
    rf_linear_bind(d, partial, RF_VIEW_STORAGE, true);
    return rf_linear_add_sum(
        plan, call, caps,
        &(rf_linear_sum){ .partial = partial, .parts = t.parts, .stride = count, .count = count, .columns = g.cout });
}

double rf_taps_grad_seconds(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    const rf_lanes_set *set = ((const rf_piece_kernel *)data)->set;
    taps_plan t;
    if (!caps->is_cpu || !rf_lanes_usable(set, call, caps, 1) || !divide_taps(call, caps, &t)) return 0;
    const uint64_t floats = (uint64_t)(t.parts * t.taps * t.rows * t.columns);
    if (floats * sizeof(float) > caps->max_storage_range || floats > INT32_MAX ||
        (uint64_t)t.split / TURN_PIXELS > rf_loop_limit(caps) || (uint64_t)t.parts + 1 > rf_loop_limit(caps))
        return 0;
    const rf_conv_geometry g = rf_conv_geometry_of(call, RF_ROLE_FILTER);
    return rf_cpu_seconds_beside(set, call, caps, &g, taps_seconds(&t) * RF_CPU_MARGIN,
                                 rf_cpu_direct_filter_loop_seconds(set, &g));
}
