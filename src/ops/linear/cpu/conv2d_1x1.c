/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Convolutions with kernels of 1 x 1 without strides, and their data gradients, for drivers whose subgroups are the
 * lanes of a SIMD register: products of as many rows as there are pixels, with short sums
 * (shaders/linear/cpu/lanes_1x1.comp).
 */
#include "ops/linear/common/conv2d.h"
#include "ops/linear/cpu/kernels.h"
#include "ops/linear/cpu/model.h"
#include "rf_shaders.h"

typedef struct product {
    int64_t rows, channels, columns;
    bool data;
} product;

/* By 48 and by 24 columns; of a data gradient b is transposed. */
typedef struct loop_tile {
    rf_lanes_tile tile;
    rf_cpu_loop loop;
} loop_tile;
static const loop_tile tiles_by_role[2][2] = {
    { { { &rf_shader_lanes8_texel_points_48, 32, 48 }, RF_CPU_LOOP_1X1_48 },
      { { &rf_shader_lanes8_texel_points_24, 32, 24 }, RF_CPU_LOOP_1X1_24 } },
    { { { &rf_shader_lanes8_texel_points_t_48, 32, 48 }, RF_CPU_LOOP_1X1_48 },
      { { &rf_shader_lanes8_texel_points_t_24, 32, 24 }, RF_CPU_LOOP_1X1_24 } },
};

/* Fours of channels in a turn of the loop. */
enum { TURN_FOURS = 3 };

/* The most turns of the loop that stores. */
enum { END_LOOPS = 8 };

static bool product_of(const rf_conv_geometry *geometry, product *p)
{
    const rf_conv_geometry g = *geometry;
    if (g.kh != 1 || g.kw != 1 || g.sy != 1 || g.sx != 1 || g.groups != 1 || g.h != g.oh || g.w != g.ow) return false;
    const bool data = g.role == RF_ROLE_DATA;
    *p = (product){
        .rows = g.n * g.h * g.w, .channels = data ? g.cout : g.cin, .columns = data ? g.cin : g.cout, .data = data
    };
    return g.pt == 0 && g.pl == 0 && g.cin % 4 == 0 && g.cout % 4 == 0;
}

static uint64_t count_turns(const product *g)
{
    return rf_div_up((uint64_t)g->channels, 4 * TURN_FOURS);
}

static uint64_t count_tiles(const product *g, const rf_lanes_tile *tile)
{
    return rf_div_up((uint64_t)g->rows, tile->rows) * rf_div_up((uint64_t)g->columns, tile->columns);
}

static double tile_seconds(const product *g, const loop_tile *t)
{
    return rf_cpu_loop_seconds(t->loop, (double)count_tiles(g, &t->tile), (double)count_turns(g));
}

static const loop_tile *choose_tile(const product *g)
{
    const loop_tile *tiles = tiles_by_role[g->data];
    return tile_seconds(g, &tiles[1]) < tile_seconds(g, &tiles[0]) ? &tiles[1] : &tiles[0];
}

rf_result rf_conv2d_1x1_plan(const rf_op_call *call, const rf_device_caps *caps, const void *data, rf_kernel_plan *plan)
{
    const rf_piece_kernel *kernel = data;
    const rf_conv_geometry conv = rf_conv_geometry_of(call, kernel->role);
    product g;
    if (!product_of(&conv, &g)) return RF_FAIL(RF_ERROR_INTERNAL, "%s: no kernel of 1 x 1", call->op->name);
    const rf_conv2d_attr *attr = call->attr;
    const rf_lanes_tile *tile = &choose_tile(&g)->tile;
    const rf_binding a = rf_linear_input(call, 0), b = rf_linear_input(call, 1);
    const bool bias = !g.data && call->n_in == 3;
    const uint64_t row_tiles = rf_div_up((uint64_t)g.rows, tile->rows);
    const uint64_t total = count_tiles(&g, tile);
    rf_dispatch *d = rf_kernel_plan_add(plan, tile->shader, count_turns(&g) + END_LOOPS);
    if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_dispatch_spec(d, kernel->set->lanes);
    rf_dispatch_spec(d, g.data ? 0 : attr->activation);
    rf_dispatch_spec(d, bias);
    rf_dispatch_spec(d, g.channels % (4 * TURN_FOURS) != 0);
    rf_dispatch_spec(d, g.columns % 8 == 0);
    const rf_push_lanes_1x1 push = { .total = (int32_t)total,
                                     .row_tiles = (int32_t)row_tiles,
                                     .rows = (int32_t)g.rows,
                                     .columns = (int32_t)(g.columns / 4),
                                     .channels = (int32_t)(g.channels / 4),
                                     .b_line = (int32_t)((g.data ? g.channels : g.columns) / 4) };
    rf_dispatch_push(d, &push, sizeof(push));
    rf_dispatch_groups(d, caps, total);
    rf_linear_bind(d, a, RF_VIEW_TEXEL_RGBA32F, false);
    rf_linear_bind(d, b, RF_VIEW_TEXEL_RGBA32F, false);
    rf_linear_bind(d, bias ? rf_linear_input(call, 2) : b, RF_VIEW_STORAGE, false);
    rf_bind_whole(d, RF_BIND_OUTPUT, 0);
    return RF_OK;
}

double rf_conv2d_1x1_seconds(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    const rf_piece_kernel *kernel = data;
    const rf_conv_geometry conv = rf_conv_geometry_of(call, kernel->role);
    product g;
    if (!caps->is_cpu || !product_of(&conv, &g) || !rf_lanes_usable(kernel->set, call, caps, 1)) return 0;
    if (count_turns(&g) + END_LOOPS > rf_loop_limit(caps)) return 0;
    const double own = tile_seconds(&g, choose_tile(&g)) * RF_CPU_MARGIN;
    return rf_cpu_seconds_beside(kernel->set, call, caps, &conv, own,
                                 rf_cpu_direct_1x1_loop_seconds(kernel->set, g.data, g.rows, g.columns, g.channels));
}
