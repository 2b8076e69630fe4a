/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Filter gradients of convolutions with kernels of 3 x 3 and steps of one, by Winograd's F(3 x 3, 4 x 4), for drivers
 * whose subgroups are the lanes of a SIMD register. Two kernels: one transforms all lines first
 * (shaders/linear/cpu/winograd_walks.comp, lanes_winograd_grad_4.comp), the other reads the images as they are
 * (lanes_winograd_grad_pairs.comp), which is less work where there are few tiles.
 *
 * Rounding errors. The rows of B^T add up numbers of x up to X to 3 to 7 X, those of A numbers of dy up to D to 1 to
 * 15 D, and G^T weighs their products so that a line of taps adds up to 35.3 X D, a block to 1248 X D: 78 N X D for N
 * pixels of dy, where the direct form's sums add up to N X D. But N / 16 + 30 roundings follow each other, transforms
 * included, instead of N. So the forward error bound is 4.9 (1 + 480 / N) times that of the direct form. The cases'
 * tolerances hold it as they are, but for sums over so few pixels that no time could be saved.
 */
#include "ops/linear/common/conv2d.h"
#include "rf_shaders.h"

/* Of shaders/linear/cpu/winograd_walks.comp. */
typedef struct line_push {
    int32_t total, eights, fours, images, h, w, walks, line_blocks, pad_x, tile, plane;
    rf_magic eights_magic, h_magic, blocks_magic;
} line_push;
/* Of shaders/linear/cpu/lanes_winograd_grad_4.comp. */
typedef struct walk_push {
    int32_t total, row_tiles, column_tiles, walks, split, block_lines, h, oh, pad_y, a_tile, b_tile, a_plane, b_plane;
    int32_t c_split, bias_gradient_at;
} walk_push;
/* Of shaders/linear/cpu/lanes_winograd_grad_pairs.comp. */
typedef struct pair_push {
    int32_t total, row_tiles, column_tiles, positions, walks, split, block_lines, line_blocks, h, w, oh, ow, pad_y,
        pad_x;
    int32_t a_pixel, b_pixel, c_split, bias_gradient_at;
} pair_push;
_Static_assert(sizeof(pair_push) <= RF_MAX_PUSH, "push constants of lanes_winograd_grad_pairs.comp");

enum { SIDE = 6 /* pixels that a block is made of */, BLOCK = 4 /* of dy */ };
/* Of the shaders: channels and columns of a tile, its sums, blocks that lie side by side in a walk, and the same and
 * the workgroups of a tile where the images are read as they are. */
enum { TILE_SIZE = 16, TILE_SUMS = SIDE * SIDE * TILE_SIZE * TILE_SIZE, WALK_BLOCKS = 4, PAIR_BLOCKS = 2, PAIRS = 3 };
/* Fewer channels or columns leave most of a tile empty; of fewer pixels the errors of the transforms stand out. */
enum { FEWEST_CHANNELS = 8, FEWEST_PIXELS = 64 };

/* Images of which walks are made: pixels, channels, how many pixels of the first block come before a line. */
typedef struct walk_lines {
    int64_t h, w, channels, pad;
} walk_lines;

/* How a gradient is taken apart. Walks: through all blocks of an image that lie below each other, four side by
 * side; or, where the images are read as they are, beside each other, two lines of them. */
typedef struct walk_plan {
    rf_conv_geometry g;
    bool pairs; /* reads the images as they are */
    walk_lines x, dy;
    int64_t line_blocks, block_lines, positions, walks, steps /* of a walk */, split, parts;
    int64_t row_tiles, column_tiles, tiles, groups /* a part's */;
    uint64_t stride; /* floats from a part's sums to the next one's */
} walk_plan;

static bool divide_walks(const rf_op_call *call, const rf_device_caps *caps, bool pairs, walk_plan *s)
{
    const rf_conv_geometry g = rf_conv_geometry_of(call);
    if (g.kh != 3 || g.kw != 3 || g.sy != 1 || g.sx != 1 || g.dy != 1 || g.dx != 1 || g.groups != 1) return false;
    *s = (walk_plan){ .g = g,
                      .pairs = pairs,
                      .x = { g.h, g.w, g.cin, g.pl },
                      .dy = { g.oh, g.ow, g.cout, 0 },
                      .line_blocks = (g.ow + BLOCK - 1) / BLOCK,
                      .block_lines = (g.oh + BLOCK - 1) / BLOCK,
                      .row_tiles = (g.cin + TILE_SIZE - 1) / TILE_SIZE,
                      .column_tiles = (g.cout + TILE_SIZE - 1) / TILE_SIZE };
    const int64_t blocks = pairs ? PAIR_BLOCKS : WALK_BLOCKS;
    s->positions = g.n * (pairs ? s->block_lines : s->line_blocks);
    s->steps = pairs ? s->line_blocks : s->block_lines;
    s->walks = (s->positions + blocks - 1) / blocks;
    s->tiles = s->row_tiles * s->column_tiles;
    s->groups = s->tiles * (pairs ? PAIRS : SIDE);
    const int64_t parts =
        rf_lanes_parts((uint64_t)s->groups, 36, s->walks, 4, rf_loop_limit(caps) / (uint64_t)(s->steps + 2));
    s->split = (int64_t)rf_div_up((uint64_t)s->walks, (uint64_t)parts);
    s->parts = (int64_t)rf_div_up((uint64_t)s->walks, (uint64_t)s->split);
    s->stride = (uint64_t)s->tiles * TILE_SUMS + (uint64_t)s->column_tiles * TILE_SIZE;
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
    return (uint64_t)(s->split * (s->steps + 1) + 1);
}

/* Where the bias' gradient stands among a part's sums, in fours. */
static int64_t bias_place(const walk_plan *s)
{
    return s->tiles * TILE_SUMS / 4;
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

/* The dispatch of all products, whose operands the caller binds; the sums are bound after those. */
static rf_dispatch *add_walk_products(rf_lanes_plan *p, const walk_plan *s, const rf_shader *shader)
{
    rf_dispatch *d = rf_kernel_plan_add(p->plan, shader, walk_loops(s));
    if (!d) return NULL;
    rf_dispatch_spec(d, p->set->lanes);
    rf_dispatch_groups(d, p->caps, (uint64_t)(s->groups * s->parts));
    return d;
}

static rf_result finish_walks(rf_lanes_plan *p, const walk_plan *s, rf_dispatch *d, rf_binding x, rf_binding dy)
{
    const rf_binding partial = rf_lanes_workspace(p, (uint64_t)s->parts * s->stride * sizeof(float));
    rf_lanes_bind(d, x, RF_VIEW_TEXEL_RGBA32F, false);
    rf_lanes_bind(d, dy, RF_VIEW_TEXEL_RGBA32F, false);
    rf_lanes_bind(d, partial, RF_VIEW_STORAGE, true);
    rf_lanes_bind(d, partial, RF_VIEW_STORAGE, true);
    return add_walk_sums(p, s, partial);
}

static rf_result plan_walks(rf_lanes_plan *p)
{
    walk_plan s;
    if (!divide_walks(p->call, p->caps, false, &s))
        return RF_FAIL(RF_ERROR_INTERNAL, "%s: not for blocks", p->call->op->name);
    const rf_conv_geometry *g = &s.g;
    rf_binding x = rf_lanes_input(p->call, 0), dy = rf_lanes_input(p->call, 1);
    RF_TRY(rf_lanes_pad_rows(p, &x, g->n * g->h * g->w, g->cin));
    RF_TRY(rf_lanes_pad_rows(p, &dy, g->n * g->oh * g->ow, g->cout));
    RF_TRY(add_walk_lines(p, &s, &s.x, &rf_shader_winograd_walks, &x));
    RF_TRY(add_walk_lines(p, &s, &s.dy, &rf_shader_winograd_walks_outputs, &dy));
    p->plan->items[p->plan->count - 1].concurrent = true; /* with the other lines */
    rf_dispatch *d = add_walk_products(p, &s, &rf_shader_lanes8_texel_winograd_grad_4);
    if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
    const walk_push push = { .total = (int32_t)(s.groups * s.parts),
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
    return finish_walks(p, &s, d, x, dy);
}

static rf_result plan_pairs(rf_lanes_plan *p)
{
    walk_plan s;
    if (!divide_walks(p->call, p->caps, true, &s))
        return RF_FAIL(RF_ERROR_INTERNAL, "%s: not for pairs of lines", p->call->op->name);
    const rf_conv_geometry *g = &s.g;
    rf_binding x = rf_lanes_input(p->call, 0), dy = rf_lanes_input(p->call, 1);
    RF_TRY(rf_lanes_pad_rows(p, &x, g->n * g->h * g->w, g->cin));
    RF_TRY(rf_lanes_pad_rows(p, &dy, g->n * g->oh * g->ow, g->cout));
    rf_dispatch *d = add_walk_products(p, &s, &rf_shader_lanes8_texel_winograd_grad_pairs);
    if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
    const pair_push push = { .total = (int32_t)(s.groups * s.parts),
                             .row_tiles = (int32_t)s.row_tiles,
                             .column_tiles = (int32_t)s.column_tiles,
                             .positions = (int32_t)s.positions,
                             .walks = (int32_t)s.walks,
                             .split = (int32_t)s.split,
                             .block_lines = (int32_t)s.block_lines,
                             .line_blocks = (int32_t)s.line_blocks,
                             .h = (int32_t)g->h,
                             .w = (int32_t)g->w,
                             .oh = (int32_t)g->oh,
                             .ow = (int32_t)g->ow,
                             .pad_y = (int32_t)g->pt,
                             .pad_x = (int32_t)g->pl,
                             .a_pixel = (int32_t)rf_lanes_fours(g->cin),
                             .b_pixel = (int32_t)rf_lanes_fours(g->cout),
                             .c_split = (int32_t)(s.stride / 4),
                             .bias_gradient_at = p->call->n_out > 1 ? (int32_t)bias_place(&s) : -1 };
    rf_dispatch_push(d, &push, sizeof(push));
    return finish_walks(p, &s, d, x, dy);
}

/* Seconds of a processor, as measured: of a turn (six of the 36 products of a tile for four blocks, or twelve for two),
 * of what each plan does once, and of eight channels of a block's line of pixels, more where the matrices are more than
 * a cache holds. */
static double walk_seconds(const walk_plan *s)
{
    const double sums = (double)s->parts * (double)s->stride * sizeof(float) / 4e9;
    const double turns = (double)(s->groups * s->walks) * (double)s->steps;
    /* Of more channels than a tile has, what a workgroup reads lies further apart. */
    if (s->pairs) return turns * (s->tiles == 1 ? 0.71e-6 : 1e-6) + sums + 150e-6;
    const double eights = (double)(plane_eights(s, &s->x) + plane_eights(s, &s->dy));
    const double line = eights * SIDE * 32 < 16e6 ? 50e-9 : 75e-9;
    return turns * 0.36e-6 + eights * line + sums + 250e-6;
}

/* The most fours that a buffer of it holds. */
static uint64_t most_fours(const walk_plan *s)
{
    const uint64_t sums = (uint64_t)s->parts * s->stride / 4;
    const int64_t x = plane_eights(s, &s->x), dy = plane_eights(s, &s->dy);
    const uint64_t lines = s->pairs ? 0 : (uint64_t)(x > dy ? x : dy) * SIDE * 2;
    return lines > sums ? lines : sums;
}

/* The direct form's, by how much longer that takes. */
static double score_forms(const rf_lanes_set *set, const rf_op_call *call, const rf_device_caps *caps, bool pairs)
{
    walk_plan s;
    if (!caps->is_cpu || !rf_lanes_usable(set, call, caps) || !rf_flat_texels(caps) ||
        !divide_walks(call, caps, pairs, &s))
        return RF_SCORE_NONE;
    if (s.g.cin < FEWEST_CHANNELS || s.g.cout < FEWEST_CHANNELS || s.g.n * s.g.oh * s.g.ow < FEWEST_PIXELS)
        return RF_SCORE_NONE;
    const uint64_t most = most_fours(&s);
    if (most * 16 > caps->max_storage_range || most > caps->max_texel_elements || most > INT32_MAX / 4 ||
        walk_loops(&s) > rf_loop_limit(caps) || (uint64_t)s.parts + 1 > rf_loop_limit(caps))
        return RF_SCORE_NONE;
    /* Places in the images add up with NOWHERE of lanes_winograd_grad_pairs.comp. */
    const int64_t x = s.g.n * s.g.h * s.g.w * rf_lanes_fours(s.g.cin), dy = s.g.n * s.g.oh * s.g.ow;
    if (x >= 1 << 30 || dy * rf_lanes_fours(s.g.cout) >= 1 << 30) return RF_SCORE_NONE;
    const double margin = 1.1;
    return rf_conv2d_filter_grad_lanes8_texel.score(call, caps, rf_conv2d_filter_grad_lanes8_texel.data) *
           rf_conv2d_filter_seconds(set, &s.g) / (walk_seconds(&s) * margin);
}

static double score_walks(const rf_lanes_set *set, const rf_op_call *call, const rf_device_caps *caps)
{
    return score_forms(set, call, caps, false);
}

static double score_pairs(const rf_lanes_set *set, const rf_op_call *call, const rf_device_caps *caps)
{
    return score_forms(set, call, caps, true);
}

#define BLOCK_KERNEL(suffix, score_form, plan_form)                                                                    \
    RF_LANES_FUNCTIONS(conv2d_filter_grad, lanes8_texel, suffix, score_form, plan_form)                                \
    const rf_kernel rf_conv2d_filter_grad_lanes8_texel##suffix = {                                                     \
        .name = "lanes8_texel" #suffix,                                                                                \
        .score = conv2d_filter_grad_lanes8_texel##suffix##_score,                                                      \
        .plan = conv2d_filter_grad_lanes8_texel##suffix##_plan,                                                        \
        .cuts_up = true,                                                                                               \
        .block = BLOCK                                                                                                 \
    }

BLOCK_KERNEL(_winograd_4, score_walks, plan_walks);
BLOCK_KERNEL(_winograd_pairs, score_pairs, plan_pairs);
