/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Convolutions with kernels of 1 x 1 without strides, and their data gradients, for drivers whose subgroups are the
 * lanes of a SIMD register: products of as many rows as there are pixels, with short sums
 * (shaders/linear/cpu/lanes_1x1.comp).
 */
#include "ops/linear/common/conv2d.h"
#include "rf_shaders.h"

/* Of shaders/linear/cpu/lanes_1x1.comp. */
typedef struct point_push {
    int32_t total, row_tiles, rows, columns, channels, b_line;
} point_push;
_Static_assert(sizeof(point_push) <= RF_MAX_PUSH, "push constants of lanes_1x1.comp");

typedef struct point_product {
    int64_t rows, channels, columns;
    bool data;
} point_product;

/* Seconds of a processor, as measured beside other work: of a turn of the loop and of the rest of a tile. */
typedef struct point_tile {
    rf_lanes_tile tile;
    double turn, rest;
} point_tile;
static const point_tile point_tiles[2][2] = {
    { { { &rf_shader_lanes8_texel_points_48, 32, 48 }, 1.2e-6, 1.4e-6 },
      { { &rf_shader_lanes8_texel_points_24, 32, 24 }, 0.56e-6, 0.95e-6 } },
    { { { &rf_shader_lanes8_texel_points_t_48, 32, 48 }, 1.2e-6, 1.4e-6 },
      { { &rf_shader_lanes8_texel_points_t_24, 32, 24 }, 0.56e-6, 0.95e-6 } },
};

/* Fours of channels in a turn of the loop. */
enum { TURN_FOURS = 3 };

/* The most turns of the loop that stores. */
enum { END_LOOPS = 8 };

static bool point_product_of(const rf_op_call *call, point_product *p)
{
    const rf_conv_geometry g = rf_conv_geometry_of(call);
    if (g.kh != 1 || g.kw != 1 || g.sy != 1 || g.sx != 1 || g.groups != 1 || g.h != g.oh || g.w != g.ow) return false;
    const bool data = call->op != &rf_op_conv2d;
    *p = (point_product){
        .rows = g.n * g.h * g.w, .channels = data ? g.cout : g.cin, .columns = data ? g.cin : g.cout, .data = data
    };
    return g.pt == 0 && g.pl == 0 && g.cin % 4 == 0 && g.cout % 4 == 0;
}

static uint64_t point_turns(const point_product *g)
{
    return rf_div_up((uint64_t)g->channels, 4 * TURN_FOURS);
}

static uint64_t count_tiles(const point_product *g, const rf_lanes_tile *tile)
{
    return rf_div_up((uint64_t)g->rows, tile->rows) * rf_div_up((uint64_t)g->columns, tile->columns);
}

static double points_seconds(const point_product *g, const point_tile *t)
{
    return (double)count_tiles(g, &t->tile) * ((double)point_turns(g) * t->turn + t->rest);
}

static const point_tile *choose_points(const point_product *g)
{
    const point_tile *tiles = point_tiles[g->data];
    return points_seconds(g, &tiles[1]) < points_seconds(g, &tiles[0]) ? &tiles[1] : &tiles[0];
}

/* The same of the direct form, whose turns are of four channels. */
static double gather_seconds(const rf_lanes_set *set, const point_product *g)
{
    const rf_lanes_tile *tile =
        rf_lanes_choose(set, g->data ? set->gather_transposed : set->gather, g->rows, g->columns);
    const double turn = 0.36e-6 / 2048 * tile->rows * tile->columns, rest = 2.8e-6;
    return (double)count_tiles(g, tile) * ((double)rf_lanes_fours(g->channels) * turn + rest);
}

static rf_result plan_points(rf_lanes_plan *p)
{
    point_product g;
    if (!point_product_of(p->call, &g)) return RF_FAIL(RF_ERROR_INTERNAL, "%s: not of points", p->call->op->name);
    const rf_conv2d_attr *attr = p->call->attr;
    const rf_lanes_tile *tile = &choose_points(&g)->tile;
    const rf_binding a = rf_lanes_input(p->call, 0), b = rf_lanes_input(p->call, 1);
    const bool bias = !g.data && p->call->n_in == 3;
    const uint64_t row_tiles = rf_div_up((uint64_t)g.rows, tile->rows);
    const uint64_t total = count_tiles(&g, tile);
    rf_dispatch *d = rf_kernel_plan_add(p->plan, tile->shader, point_turns(&g) + END_LOOPS);
    if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_dispatch_spec(d, p->set->lanes);
    rf_dispatch_spec(d, g.data ? 0 : attr->activation);
    rf_dispatch_spec(d, bias);
    rf_dispatch_spec(d, g.channels % (4 * TURN_FOURS) != 0);
    rf_dispatch_spec(d, g.columns % 8 == 0);
    const point_push push = { .total = (int32_t)total,
                              .row_tiles = (int32_t)row_tiles,
                              .rows = (int32_t)g.rows,
                              .columns = (int32_t)(g.columns / 4),
                              .channels = (int32_t)(g.channels / 4),
                              .b_line = (int32_t)((g.data ? g.channels : g.columns) / 4) };
    rf_dispatch_push(d, &push, sizeof(push));
    rf_dispatch_groups(d, p->caps, total);
    rf_lanes_bind(d, a, RF_VIEW_TEXEL_RGBA32F, false);
    rf_lanes_bind(d, b, RF_VIEW_TEXEL_RGBA32F, false);
    rf_lanes_bind(d, bias ? rf_lanes_input(p->call, 2) : b, RF_VIEW_STORAGE, false);
    rf_bind_whole(d, RF_BIND_OUTPUT, 0);
    return RF_OK;
}

/* The direct form's, by how much longer that takes: more of short sums, and of columns that fill none of its tiles. */
static double score_points(const rf_lanes_set *set, const rf_op_call *call, const rf_device_caps *caps)
{
    const rf_kernel *direct = call->op == &rf_op_conv2d ? &rf_conv2d_lanes8_texel : &rf_conv2d_data_grad_lanes8_texel;
    point_product g;
    if (!caps->is_cpu || !point_product_of(call, &g) || !rf_lanes_usable(set, call, caps)) return RF_SCORE_NONE;
    if (point_turns(&g) + END_LOOPS > rf_loop_limit(caps)) return RF_SCORE_NONE;
    const double margin = 1.05;
    return direct->score(call, caps, direct->data) * gather_seconds(set, &g) /
           (points_seconds(&g, choose_points(&g)) * margin);
}

#define POINT_KERNEL(op)                                                                                               \
    RF_LANES_FUNCTIONS(op, lanes8_texel, _points, score_points, plan_points)                                           \
    const rf_kernel rf_##op##_lanes8_texel_points = { .name = "lanes8_texel_points",                                   \
                                                      .score = op##_lanes8_texel_points_score,                         \
                                                      .plan = op##_lanes8_texel_points_plan,                           \
                                                      .cuts_up = true }

POINT_KERNEL(conv2d);
POINT_KERNEL(conv2d_data_grad);
