/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Filter gradients of convolutions with kernels of 3 x 3 and steps of one, by Winograd's F(3 x 3, 4 x 4), for drivers
 * whose subgroups are the lanes of a SIMD register: shaders/linear/winograd_lines.comp and lanes_winograd_grad_4.comp.
 */
#include "ops/linear/conv2d_winograd.h"
#include "rf_shaders.h"

/* Of shaders/linear/lanes_winograd_grad_4.comp. */
typedef struct walk_push {
    int32_t total, row_tiles, column_tiles, positions, walks, split, block_lines, line_blocks, h, oh, lines, out_lines;
    int32_t pad_y, a_block, b_block, a_fours, b_fours, a_plane, b_plane, c_split, bias_gradient_at;
} walk_push;
_Static_assert(sizeof(walk_push) <= RF_MAX_PUSH, "push constants of lanes_winograd_grad_4.comp");

/* Of the shader: channels and columns of a tile, blocks that lie side by side in a walk, sums of a workgroup. */
enum { TILE_SIZE = 16, WALK_BLOCKS = 4, COLUMN_SUMS = RF_BLOCK_SIDE * TILE_SIZE * TILE_SIZE };
/* Fewer would make the errors of the transforms stand out, and leave most of a tile empty. */
enum { FEWEST_CHANNELS = 8 };

/* How a gradient is taken apart. Walks: through all blocks of an image that lie below each other, four side by side. */
typedef struct walk_plan {
    rf_conv_geometry g;
    rf_block_lines x, dy;
    int64_t block_lines, positions, walks, split, parts;
    int64_t row_tiles, column_tiles, tiles;
    uint64_t stride; /* floats from a part's sums to the next one's */
} walk_plan;

static bool divide_walks(const rf_op_call *call, const rf_device_caps *caps, walk_plan *s)
{
    const rf_conv_geometry g = rf_conv_geometry_of(call);
    if (g.kh != 3 || g.kw != 3 || g.sy != 1 || g.sx != 1 || g.dy != 1 || g.dx != 1 || g.groups != 1) return false;
    const int64_t line_blocks = (g.ow + RF_BLOCK_PIXELS - 1) / RF_BLOCK_PIXELS;
    *s = (walk_plan){ .g = g,
                      .x = { g.n * g.h, g.w, line_blocks, g.cin, g.pl },
                      .dy = { g.n * g.oh, g.ow, line_blocks, g.cout, 0 },
                      .block_lines = (g.oh + RF_BLOCK_PIXELS - 1) / RF_BLOCK_PIXELS,
                      .positions = g.n * line_blocks,
                      .row_tiles = (g.cin + TILE_SIZE - 1) / TILE_SIZE,
                      .column_tiles = (g.cout + TILE_SIZE - 1) / TILE_SIZE };
    s->tiles = s->row_tiles * s->column_tiles;
    s->walks = (s->positions + WALK_BLOCKS - 1) / WALK_BLOCKS;
    const int64_t parts = rf_lanes_parts((uint64_t)s->tiles * RF_BLOCK_SIDE, 32, s->walks, 4,
                                         rf_loop_limit(caps) / (uint64_t)(s->block_lines + 2));
    s->split = (int64_t)rf_div_up((uint64_t)s->walks, (uint64_t)parts);
    s->parts = (int64_t)rf_div_up((uint64_t)s->walks, (uint64_t)s->split);
    s->stride = (uint64_t)s->tiles * RF_BLOCK_SIDE * COLUMN_SUMS + (uint64_t)s->column_tiles * TILE_SIZE;
    return true;
}

static uint64_t walk_loops(const walk_plan *s)
{
    return (uint64_t)(s->split * (s->block_lines + 1) + 1);
}

/* Where the bias' gradient stands among a part's sums, in fours. */
static int64_t bias_place(const walk_plan *s)
{
    return s->tiles * RF_BLOCK_SIDE * COLUMN_SUMS / 4;
}

static rf_result add_walk_sums(rf_lanes_plan *p, const walk_plan *s, rf_binding partial)
{
    const rf_conv_geometry *g = &s->g;
    const bool bias = p->call->n_out > 1;
    const uint64_t total = (uint64_t)(rf_lanes_fours(g->cout) * (g->cin + bias));
    const int32_t push[] = {
        (int32_t)total,    (int32_t)g->cin,           (int32_t)g->cout,       (int32_t)s->row_tiles,
        (int32_t)s->parts, (int32_t)(s->stride / 4), (int32_t)bias_place(s),
    };
    rf_dispatch *d = rf_kernel_plan_add(p->plan, &rf_shader_winograd_sum_4, (uint64_t)s->parts + 1);
    if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_dispatch_spec(d, rf_local_size(p->caps, 32));
    rf_lanes_bind(d, partial, RF_VIEW_TEXEL_RGBA32F, false);
    rf_bind_whole(d, RF_BIND_OUTPUT, 0);
    rf_bind_whole(d, RF_BIND_OUTPUT, bias ? 1 : 0);
    rf_dispatch_push(d, push, sizeof(push));
    rf_dispatch_items(d, p->caps, total);
    return RF_OK;
}

/* Of a pixel, in fours. */
static int32_t block_fours(const rf_block_lines *l)
{
    return (int32_t)((l->channels + 7) / 8 * 2);
}

static rf_result plan_walks(rf_lanes_plan *p)
{
    walk_plan s;
    if (!divide_walks(p->call, p->caps, &s))
        return RF_FAIL(RF_ERROR_INTERNAL, "%s: not for blocks", p->call->op->name);
    const rf_conv_geometry *g = &s.g;
    rf_binding x = rf_lanes_input(p->call, 0), dy = rf_lanes_input(p->call, 1);
    RF_TRY(rf_lanes_pad_rows(p, &x, g->n * g->h * g->w, g->cin));
    RF_TRY(rf_lanes_pad_rows(p, &dy, g->n * g->oh * g->ow, g->cout));
    RF_TRY(rf_block_add_lines(p, &s.x, &rf_shader_winograd_lines, &x));
    RF_TRY(rf_block_add_lines(p, &s.dy, &rf_shader_winograd_lines_outputs, &dy));
    p->plan->items[p->plan->count - 1].concurrent = true; /* with the other lines */
    const rf_binding partial = rf_lanes_workspace(p, (uint64_t)s.parts * s.stride * sizeof(float));
    const uint64_t total = (uint64_t)(s.tiles * s.parts * RF_BLOCK_SIDE);
    rf_dispatch *d = rf_kernel_plan_add(p->plan, &rf_shader_lanes8_texel_winograd_grad_4, walk_loops(&s));
    if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_dispatch_spec(d, p->set->lanes);
    const walk_push push = { .total = (int32_t)total,
                             .row_tiles = (int32_t)s.row_tiles,
                             .column_tiles = (int32_t)s.column_tiles,
                             .positions = (int32_t)s.positions,
                             .walks = (int32_t)s.walks,
                             .split = (int32_t)s.split,
                             .block_lines = (int32_t)s.block_lines,
                             .line_blocks = (int32_t)s.x.line_blocks,
                             .h = (int32_t)g->h,
                             .oh = (int32_t)g->oh,
                             .lines = (int32_t)s.x.lines,
                             .out_lines = (int32_t)s.dy.lines,
                             .pad_y = (int32_t)g->pt,
                             .a_block = block_fours(&s.x),
                             .b_block = block_fours(&s.dy),
                             .a_fours = (int32_t)rf_lanes_fours(g->cin),
                             .b_fours = (int32_t)rf_lanes_fours(g->cout),
                             .a_plane = (int32_t)rf_block_line_eights(&s.x) * 2,
                             .b_plane = (int32_t)rf_block_line_eights(&s.dy) * 2,
                             .c_split = (int32_t)(s.stride / 4),
                             .bias_gradient_at = p->call->n_out > 1 ? (int32_t)bias_place(&s) : -1 };
    rf_dispatch_push(d, &push, sizeof(push));
    rf_dispatch_groups(d, p->caps, total);
    rf_lanes_bind(d, x, RF_VIEW_TEXEL_RGBA32F, false);
    rf_lanes_bind(d, dy, RF_VIEW_TEXEL_RGBA32F, false);
    rf_lanes_bind(d, partial, RF_VIEW_STORAGE, true);
    rf_lanes_bind(d, partial, RF_VIEW_STORAGE, true);
    return add_walk_sums(p, &s, partial);
}

/* Seconds of a processor, as measured beside other work: of a turn (four blocks, six of the 36 products of a tile), of
 * eight channels of a block's line of pixels. */
static double walk_seconds(const walk_plan *s)
{
    const double turn = 0.6e-6, line = 30e-9, sums = (double)s->parts * (double)s->stride * sizeof(float);
    const uint64_t turns = (uint64_t)s->tiles * RF_BLOCK_SIDE * (uint64_t)(s->walks * s->block_lines);
    const uint64_t eights = rf_block_line_eights(&s->x) + rf_block_line_eights(&s->dy);
    return (double)turns * turn + (double)eights * line + sums / 8e9 + 100e-6;
}

/* The direct form's, by how much longer that takes. */
static double score_walks(const rf_lanes_set *set, const rf_op_call *call, const rf_device_caps *caps)
{
    walk_plan s;
    if (!caps->is_cpu || !caps->int64 || !rf_lanes_usable(set, call, caps) || !rf_flat_texels(caps) ||
        !divide_walks(call, caps, &s))
        return RF_SCORE_NONE;
    if (s.g.cin < FEWEST_CHANNELS || s.g.cout < FEWEST_CHANNELS) return RF_SCORE_NONE;
    const uint64_t x = rf_block_line_eights(&s.x), dy = rf_block_line_eights(&s.dy);
    const uint64_t lines = (x > dy ? x : dy) * RF_BLOCK_SIDE * 2, sums = (uint64_t)s.parts * s.stride / 4;
    const uint64_t most = lines > sums ? lines : sums;
    if (most * 16 > caps->max_storage_range || most > caps->max_texel_elements || most > INT32_MAX / 4 ||
        walk_loops(&s) > rf_loop_limit(caps) || (uint64_t)s.parts + 1 > rf_loop_limit(caps))
        return RF_SCORE_NONE;
    const double margin = 1.15;
    return rf_conv2d_filter_grad_lanes8_texel.score(call, caps) * rf_conv2d_filter_seconds(set, &s.g) /
           (walk_seconds(&s) * margin);
}

RF_LANES_FUNCTIONS(conv2d_filter_grad, lanes8_texel, _winograd_4, score_walks, plan_walks)
const rf_kernel rf_conv2d_filter_grad_lanes8_texel_winograd_4 = {
    .name = "lanes8_texel_winograd_4",
    .score = conv2d_filter_grad_lanes8_texel_winograd_4_score,
    .plan = conv2d_filter_grad_lanes8_texel_winograd_4_plan,
    .cuts_up = true,
    .blocks = true
};
