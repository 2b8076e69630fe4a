/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Filter gradients of convolutions with kernels of 3 x 3 and steps of one, by Winograd's F(3 x 3, 2 x 2), for drivers
 * whose subgroups are the lanes of a SIMD register: shaders/linear/lanes_winograd_grad.comp.
 *
 * Rounding errors. With numbers of x up to X, of dy up to D and N pixels of dy, a product's sum over N / 4 blocks adds
 * up to 4 N X D at most: those of numbers up to 4 X and 4 D, without the factors of 1/2 that belong to G. The sums of
 * which a tap is made, with the factors, add up to 9 N X D, where the direct form's add up to N X D. But N / 4 + 12
 * roundings follow each other, transforms included, instead of N. So the forward error bound is 2.25 (1 + 48 / N) times
 * that of the direct form. The cases' tolerances hold it as they are.
 */
#include "ops/linear/conv2d.h"
#include "rf_shaders.h"

/* Of shaders/linear/lanes_winograd_grad.comp. */
typedef struct strip_push {
    int32_t total, row_tiles, column_tiles, walks, split, line_strips, block_lines, h, w, oh, ow, pad_y, pad_x;
    int32_t a_pixel, b_pixel, c_split, bias_gradient_at;
} strip_push;
_Static_assert(sizeof(strip_push) <= RF_MAX_PUSH, "push constants of lanes_winograd_grad.comp");

/* Of the shader: channels and columns of a tile, pixels of dy that a strip has in a line, sums of four lanes. */
enum { TILE_SIZE = 16, STRIP_PIXELS = 8, QUARTER_SUMS = 4 * TILE_SIZE * TILE_SIZE };

/* How a gradient is taken apart. Walks: through all strips of an image that lie below each other. Sums: of four lanes,
 * over `split` walks; a workgroup makes two. */
typedef struct strip_plan {
    rf_conv_geometry g;
    int64_t line_strips, block_lines, walks, split, sums;
    int64_t row_tiles, column_tiles;
    uint64_t stride; /* floats from sums to sums */
} strip_plan;

static bool divide_strips(const rf_op_call *call, const rf_device_caps *caps, strip_plan *s)
{
    const rf_conv_geometry g = rf_conv_geometry_of(call);
    if (g.kh != 3 || g.kw != 3 || g.sy != 1 || g.sx != 1 || g.dy != 1 || g.dx != 1 || g.groups != 1) return false;
    if (g.pt >= 32768 || g.pl >= 32768) return false; /* as the direct form */
    *s = (strip_plan){ .g = g,
                       .line_strips = (g.ow + STRIP_PIXELS - 1) / STRIP_PIXELS,
                       .block_lines = (g.oh + 1) / 2,
                       .row_tiles = (g.cin + TILE_SIZE - 1) / TILE_SIZE,
                       .column_tiles = (g.cout + TILE_SIZE - 1) / TILE_SIZE };
    s->walks = g.n * s->line_strips;
    const uint64_t tiles = (uint64_t)(s->row_tiles * s->column_tiles);
    const int64_t parts =
        rf_lanes_parts(tiles * 4, 32, s->walks, 4, rf_loop_limit(caps) / (uint64_t)(s->block_lines + 2));
    s->split = (int64_t)rf_div_up((uint64_t)s->walks, (uint64_t)parts * 2);
    s->sums = (int64_t)rf_div_up((uint64_t)s->walks, (uint64_t)s->split * 2) * 2;
    s->stride = tiles * 4 * QUARTER_SUMS + (uint64_t)s->column_tiles * TILE_SIZE;
    return true;
}

static uint64_t strip_loops(const strip_plan *s)
{
    return (uint64_t)(s->split * (s->block_lines + 1) + 1);
}

static rf_result add_strip_sums(rf_lanes_plan *p, const strip_plan *s, rf_binding partial)
{
    const rf_conv_geometry *g = &s->g;
    const bool bias = p->call->n_out > 1;
    const uint64_t total = (uint64_t)(rf_lanes_fours(g->cout) * (g->cin + bias));
    const int32_t push[] = { (int32_t)total,
                             (int32_t)g->cin,
                             (int32_t)g->cout,
                             (int32_t)s->row_tiles,
                             (int32_t)s->sums,
                             (int32_t)(s->stride / 4),
                             (int32_t)(s->row_tiles * s->column_tiles * 4 * QUARTER_SUMS / 4) };
    rf_dispatch *d = rf_kernel_plan_add(p->plan, &rf_shader_winograd_sum, (uint64_t)s->sums + 1);
    if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_dispatch_spec(d, rf_local_size(p->caps, 32));
    rf_lanes_bind(d, partial, RF_VIEW_STORAGE, false);
    rf_bind_whole(d, RF_BIND_OUTPUT, 0);
    rf_bind_whole(d, RF_BIND_OUTPUT, bias ? 1 : 0);
    rf_dispatch_push(d, push, sizeof(push));
    rf_dispatch_items(d, p->caps, total);
    return RF_OK;
}

static rf_result plan_strips(rf_lanes_plan *p)
{
    strip_plan s;
    if (!divide_strips(p->call, p->caps, &s))
        return RF_FAIL(RF_ERROR_INTERNAL, "%s: not for strips of blocks", p->call->op->name);
    const rf_conv_geometry *g = &s.g;
    rf_binding x = rf_lanes_input(p->call, 0), dy = rf_lanes_input(p->call, 1);
    RF_TRY(rf_lanes_pad_rows(p, &x, g->n * g->h * g->w, g->cin));
    RF_TRY(rf_lanes_pad_rows(p, &dy, g->n * g->oh * g->ow, g->cout));
    const rf_binding partial = rf_lanes_workspace(p, (uint64_t)s.sums * s.stride * sizeof(float));
    const uint64_t total = (uint64_t)(s.row_tiles * s.column_tiles * s.sums * 2);
    rf_dispatch *d = rf_kernel_plan_add(p->plan, &rf_shader_lanes8_texel_winograd_grad, strip_loops(&s));
    if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_dispatch_spec(d, p->set->lanes);
    const strip_push push = { .total = (int32_t)total,
                              .row_tiles = (int32_t)s.row_tiles,
                              .column_tiles = (int32_t)s.column_tiles,
                              .walks = (int32_t)s.walks,
                              .split = (int32_t)s.split,
                              .line_strips = (int32_t)s.line_strips,
                              .block_lines = (int32_t)s.block_lines,
                              .h = (int32_t)g->h,
                              .w = (int32_t)g->w,
                              .oh = (int32_t)g->oh,
                              .ow = (int32_t)g->ow,
                              .pad_y = (int32_t)g->pt,
                              .pad_x = (int32_t)g->pl,
                              .a_pixel = (int32_t)rf_lanes_fours(g->cin),
                              .b_pixel = (int32_t)rf_lanes_fours(g->cout),
                              .c_split = (int32_t)(s.stride / 4),
                              .bias_gradient_at = p->call->n_out > 1
                                                      ? (int32_t)(s.row_tiles * s.column_tiles * 4 * QUARTER_SUMS / 4)
                                                      : -1 };
    rf_dispatch_push(d, &push, sizeof(push));
    rf_dispatch_groups(d, p->caps, total);
    rf_lanes_bind(d, x, RF_VIEW_TEXEL_RGBA32F, false);
    rf_lanes_bind(d, dy, RF_VIEW_TEXEL_RGBA32F, false);
    rf_lanes_bind(d, partial, RF_VIEW_STORAGE, true);
    rf_lanes_bind(d, partial, RF_VIEW_STORAGE, true);
    return add_strip_sums(p, &s, partial);
}

/* Seconds of a processor, as measured beside other work. */
static double strip_seconds(const strip_plan *s)
{
    const double turn = 0.74e-6, sums = (double)s->sums * (double)s->stride * sizeof(float);
    const uint64_t turns = (uint64_t)(s->row_tiles * s->column_tiles) * 4 * (uint64_t)(s->walks / 2 * s->block_lines);
    return (double)turns * turn + sums / 8e9 + 60e-6;
}

/* A turn takes four pixels. */
double rf_conv2d_filter_seconds(const rf_lanes_set *set, const rf_conv_geometry *g)
{
    const int64_t rows = g->kh * g->kw * rf_lanes_fours(g->cin) * 4, pixels = g->n * g->oh * g->ow;
    const rf_lanes_tile *tile = rf_lanes_choose_grad(set, rows, g->cout, pixels);
    const uint64_t tiles = rf_div_up((uint64_t)rows, tile->rows) * rf_div_up((uint64_t)g->cout, tile->columns);
    const double turn = tile->columns > 32 ? 0.35e-6 : tile->columns > 16 ? 0.19e-6 : 0.208e-6;
    return (double)tiles * (double)pixels / 4 * turn;
}

/* The direct form's, by how much longer that takes. */
static double score_strips(const rf_lanes_set *set, const rf_op_call *call, const rf_device_caps *caps)
{
    strip_plan s;
    if (!caps->is_cpu || !rf_lanes_usable(set, call, caps) || !divide_strips(call, caps, &s)) return RF_SCORE_NONE;
    const uint64_t floats = (uint64_t)s.sums * s.stride;
    if (floats * sizeof(float) > caps->max_storage_range || floats > INT32_MAX ||
        strip_loops(&s) > rf_loop_limit(caps) || (uint64_t)s.sums + 1 > rf_loop_limit(caps))
        return RF_SCORE_NONE;
    const double margin = 1.15;
    return rf_conv2d_filter_grad_lanes8_texel.score(call, caps) * rf_conv2d_filter_seconds(set, &s.g) /
           (strip_seconds(&s) * margin);
}

RF_LANES_FUNCTIONS(conv2d_filter_grad, lanes8_texel, _winograd, score_strips, plan_strips)
const rf_kernel rf_conv2d_filter_grad_lanes8_texel_winograd = { .name = "lanes8_texel_winograd",
                                                                .score = conv2d_filter_grad_lanes8_texel_winograd_score,
                                                                .plan = conv2d_filter_grad_lanes8_texel_winograd_plan,
                                                                .cuts_up = true,
                                                                .block = 2 };
