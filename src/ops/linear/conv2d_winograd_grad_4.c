/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Filter gradients of convolutions with kernels of 3 x 3 and steps of one, by Winograd's F(3 x 3, 4 x 4), for drivers
 * whose subgroups are the lanes of a SIMD register: shaders/linear/winograd_walks.comp and lanes_winograd_grad_4.comp.
 *
 * Rounding errors. The rows of B^T add up numbers of x up to X to 3 to 7 X, those of A numbers of dy up to D to 1 to
 * 15 D, and G^T weighs their products so that a line of taps adds up to 35.3 X D, a block to 1248 X D: 78 N X D for N
 * pixels of dy, where the direct form's sums add up to N X D. But N / 16 + 30 roundings follow each other, transforms
 * included, instead of N. So the forward error bound is 4.9 (1 + 480 / N) times that of the direct form. The cases'
 * tolerances hold it as they are, but for sums over so few pixels that no time could be saved.
 */
#include "ops/linear/conv2d.h"
#include "rf_shaders.h"

/* Of shaders/linear/winograd_walks.comp. */
typedef struct line_push {
    int32_t total, eights, fours, images, h, w, walks, line_blocks, pad_x, tile, plane;
    rf_magic eights_magic, h_magic, blocks_magic;
} line_push;
/* Of shaders/linear/lanes_winograd_grad_4.comp. */
typedef struct walk_push {
    int32_t total, row_tiles, column_tiles, walks, split, block_lines, h, oh, pad_y, a_tile, b_tile, a_plane, b_plane;
    int32_t c_split, bias_gradient_at;
} walk_push;

enum { SIDE = 6 /* pixels that a block is made of */, BLOCK = 4 /* of dy */ };
/* Of the shader: channels and columns of a tile, blocks that lie side by side in a walk, sums of a workgroup. */
enum { TILE_SIZE = 16, WALK_BLOCKS = 4, COLUMN_SUMS = SIDE * TILE_SIZE * TILE_SIZE };
/* Fewer channels or columns leave most of a tile empty; of fewer pixels the errors of the transforms stand out. */
enum { FEWEST_CHANNELS = 8, FEWEST_PIXELS = 64 };

/* Images of which walks are made: pixels, channels, how many pixels of the first block come before a line. */
typedef struct walk_lines {
    int64_t h, w, channels, pad;
} walk_lines;

/* How a gradient is taken apart. Walks: through all blocks of an image that lie below each other, four side by side. */
typedef struct walk_plan {
    rf_conv_geometry g;
    walk_lines x, dy;
    int64_t line_blocks, block_lines, positions, walks, split, parts;
    int64_t row_tiles, column_tiles, tiles;
    uint64_t stride; /* floats from a part's sums to the next one's */
} walk_plan;

static bool divide_walks(const rf_op_call *call, const rf_device_caps *caps, walk_plan *s)
{
    const rf_conv_geometry g = rf_conv_geometry_of(call);
    if (g.kh != 3 || g.kw != 3 || g.sy != 1 || g.sx != 1 || g.dy != 1 || g.dx != 1 || g.groups != 1) return false;
    *s = (walk_plan){ .g = g,
                      .x = { g.h, g.w, g.cin, g.pl },
                      .dy = { g.oh, g.ow, g.cout, 0 },
                      .line_blocks = (g.ow + BLOCK - 1) / BLOCK,
                      .block_lines = (g.oh + BLOCK - 1) / BLOCK,
                      .row_tiles = (g.cin + TILE_SIZE - 1) / TILE_SIZE,
                      .column_tiles = (g.cout + TILE_SIZE - 1) / TILE_SIZE };
    s->positions = g.n * s->line_blocks;
    s->tiles = s->row_tiles * s->column_tiles;
    s->walks = (s->positions + WALK_BLOCKS - 1) / WALK_BLOCKS;
    const int64_t parts = rf_lanes_parts((uint64_t)s->tiles * SIDE, 32, s->walks, 4,
                                         rf_loop_limit(caps) / (uint64_t)(s->block_lines + 2));
    s->split = (int64_t)rf_div_up((uint64_t)s->walks, (uint64_t)parts);
    s->parts = (int64_t)rf_div_up((uint64_t)s->walks, (uint64_t)s->split);
    s->stride = (uint64_t)s->tiles * SIDE * COLUMN_SUMS + (uint64_t)s->column_tiles * TILE_SIZE;
    return true;
}

/* Eights of a tile's lines in one of six matrices, and of the whole matrix: a line of zeros is the last. */
static int64_t tile_eights(const walk_plan *s, const walk_lines *l)
{
    return s->walks * l->h * WALK_BLOCKS * (TILE_SIZE / 8);
}

static int64_t plane_eights(const walk_plan *s, const walk_lines *l)
{
    return tile_eights(s, l) * ((l->channels + TILE_SIZE - 1) / TILE_SIZE) + WALK_BLOCKS * (TILE_SIZE / 8);
}

static uint64_t walk_loops(const walk_plan *s)
{
    return (uint64_t)(s->split * (s->block_lines + 1) + 1);
}

/* Where the bias' gradient stands among a part's sums, in fours. */
static int64_t bias_place(const walk_plan *s)
{
    return s->tiles * SIDE * COLUMN_SUMS / 4;
}

static rf_result add_walk_sums(rf_lanes_plan *p, const walk_plan *s, rf_binding partial)
{
    const rf_conv_geometry *g = &s->g;
    const bool bias = p->call->n_out > 1;
    const uint64_t total = (uint64_t)(rf_lanes_fours(g->cout) * (g->cin + bias));
    const int32_t push[] = {
        (int32_t)total,    (int32_t)g->cin,          (int32_t)g->cout,       (int32_t)s->row_tiles,
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

static rf_result add_walk_lines(rf_lanes_plan *p, const walk_plan *s, const walk_lines *l, const rf_shader *shader,
                                rf_binding *io)
{
    const int64_t eights = (l->channels + 7) / 8,
                  images = (int64_t)rf_div_up((uint64_t)(s->walks * WALK_BLOCKS), (uint64_t)s->line_blocks);
    const int64_t total = images * l->h * s->line_blocks * eights;
    const line_push push = { .total = (int32_t)total,
                             .eights = (int32_t)eights,
                             .fours = (int32_t)rf_lanes_fours(l->channels),
                             .images = (int32_t)s->g.n,
                             .h = (int32_t)l->h,
                             .w = (int32_t)l->w,
                             .walks = (int32_t)s->walks,
                             .line_blocks = (int32_t)s->line_blocks,
                             .pad_x = (int32_t)l->pad,
                             .tile = (int32_t)tile_eights(s, l),
                             .plane = (int32_t)plane_eights(s, l),
                             .eights_magic = rf_magic_make((uint32_t)eights),
                             .h_magic = rf_magic_make((uint32_t)l->h),
                             .blocks_magic = rf_magic_make((uint32_t)s->line_blocks) };
    const rf_binding to = rf_lanes_workspace(p, (uint64_t)plane_eights(s, l) * SIDE * 32);
    rf_dispatch *d = rf_kernel_plan_add(p->plan, shader, RF_NO_LOOPS);
    if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_dispatch_spec(d, rf_local_size(p->caps, 64));
    rf_lanes_bind(d, *io, RF_VIEW_TEXEL_RGBA32F, false);
    rf_lanes_bind(d, to, RF_VIEW_STORAGE, true);
    rf_dispatch_push(d, &push, sizeof(push));
    rf_dispatch_items(d, p->caps, (uint64_t)(total + WALK_BLOCKS * (TILE_SIZE / 8)));
    *io = to;
    return RF_OK;
}

static rf_result plan_walks(rf_lanes_plan *p)
{
    walk_plan s;
    if (!divide_walks(p->call, p->caps, &s)) return RF_FAIL(RF_ERROR_INTERNAL, "%s: not for blocks", p->call->op->name);
    const rf_conv_geometry *g = &s.g;
    rf_binding x = rf_lanes_input(p->call, 0), dy = rf_lanes_input(p->call, 1);
    RF_TRY(rf_lanes_pad_rows(p, &x, g->n * g->h * g->w, g->cin));
    RF_TRY(rf_lanes_pad_rows(p, &dy, g->n * g->oh * g->ow, g->cout));
    RF_TRY(add_walk_lines(p, &s, &s.x, &rf_shader_winograd_walks, &x));
    RF_TRY(add_walk_lines(p, &s, &s.dy, &rf_shader_winograd_walks_outputs, &dy));
    p->plan->items[p->plan->count - 1].concurrent = true; /* with the other lines */
    const rf_binding partial = rf_lanes_workspace(p, (uint64_t)s.parts * s.stride * sizeof(float));
    const uint64_t total = (uint64_t)(s.tiles * s.parts * SIDE);
    rf_dispatch *d = rf_kernel_plan_add(p->plan, &rf_shader_lanes8_texel_winograd_grad_4, walk_loops(&s));
    if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_dispatch_spec(d, p->set->lanes);
    const walk_push push = { .total = (int32_t)total,
                             .row_tiles = (int32_t)s.row_tiles,
                             .column_tiles = (int32_t)s.column_tiles,
                             .walks = (int32_t)s.walks,
                             .split = (int32_t)s.split,
                             .block_lines = (int32_t)s.block_lines,
                             .h = (int32_t)g->h,
                             .oh = (int32_t)g->oh,
                             .pad_y = (int32_t)g->pt,
                             .a_tile = (int32_t)tile_eights(&s, &s.x) * 2,
                             .b_tile = (int32_t)tile_eights(&s, &s.dy) * 2,
                             .a_plane = (int32_t)plane_eights(&s, &s.x) * 2,
                             .b_plane = (int32_t)plane_eights(&s, &s.dy) * 2,
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

/* Seconds of a processor, as measured: of a turn (four blocks, six of the 36 products of a tile), and of eight channels
 * of a block's line of pixels, more where the matrices are more than a cache holds. */
static double walk_seconds(const walk_plan *s)
{
    const uint64_t turns = (uint64_t)(s->tiles * SIDE * s->walks * s->block_lines);
    const double eights = (double)(plane_eights(s, &s->x) + plane_eights(s, &s->dy)), bytes = eights * SIDE * 32;
    const double turn = 0.36e-6, line = bytes < 16e6 ? 50e-9 : 75e-9;
    const double sums = (double)s->parts * (double)s->stride * sizeof(float);
    return (double)turns * turn + eights * line + sums / 4e9 + 250e-6;
}

/* The direct form's, by how much longer that takes. */
static double score_walks(const rf_lanes_set *set, const rf_op_call *call, const rf_device_caps *caps)
{
    walk_plan s;
    if (!caps->is_cpu || !caps->int64 || !rf_lanes_usable(set, call, caps) || !rf_flat_texels(caps) ||
        !divide_walks(call, caps, &s))
        return RF_SCORE_NONE;
    if (s.g.cin < FEWEST_CHANNELS || s.g.cout < FEWEST_CHANNELS || s.g.n * s.g.oh * s.g.ow < FEWEST_PIXELS)
        return RF_SCORE_NONE;
    const uint64_t x = (uint64_t)plane_eights(&s, &s.x), dy = (uint64_t)plane_eights(&s, &s.dy);
    const uint64_t lines = (x > dy ? x : dy) * SIDE * 2, sums = (uint64_t)s.parts * s.stride / 4;
    const uint64_t most = lines > sums ? lines : sums;
    if (most * 16 > caps->max_storage_range || most > caps->max_texel_elements || most > INT32_MAX / 4 ||
        walk_loops(&s) > rf_loop_limit(caps) || (uint64_t)s.parts + 1 > rf_loop_limit(caps))
        return RF_SCORE_NONE;
    const double margin = 1.1;
    return rf_conv2d_filter_grad_lanes8_texel.score(call, caps) * rf_conv2d_filter_seconds(set, &s.g) /
           (walk_seconds(&s) * margin);
}

RF_LANES_FUNCTIONS(conv2d_filter_grad, lanes8_texel, _winograd_4, score_walks, plan_walks)
const rf_kernel rf_conv2d_filter_grad_lanes8_texel_winograd_4 = { .name = "lanes8_texel_winograd_4",
                                                                  .score =
                                                                      conv2d_filter_grad_lanes8_texel_winograd_4_score,
                                                                  .plan =
                                                                      conv2d_filter_grad_lanes8_texel_winograd_4_plan,
                                                                  .cuts_up = true,
                                                                  .blocks = true };
