/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Filter gradients of convolutions with kernels of 3 x 3 and steps of one, by Winograd's F(3 x 3, 4 x 4), for drivers
 * whose subgroups are the lanes of a SIMD register. All lines are transformed first
 * (shaders/linear/cpu/winograd_walks.comp, lanes_winograd_grad_4.comp).
 *
 * Rounding errors. The rows of B^T add up numbers of x up to X to 3 to 7 X, those of A numbers of dy up to D to 1 to
 * 15 D, and G^T weighs their products so that a line of taps adds up to 35.3 X D, a block to 1248 X D: 78 N X D for N
 * pixels of dy, where the direct form's sums add up to N X D. But N / 16 + 30 roundings follow each other, transforms
 * included, instead of N. So the forward error bound is 4.9 (1 + 480 / N) times that of the direct form. The cases'
 * tolerances hold it as they are, but for sums over so few pixels that no time could be saved.
 */
#include "ops/linear/common/conv2d.h"
#include "ops/linear/cpu/kernels.h"
#include "ops/linear/cpu/model.h"
#include "rf_shaders.h"

enum { SIDE = 6 /* pixels that a block is made of */, BLOCK = 4 /* of dy */ };
/* The shaders' channels and columns of a tile, its sums, and blocks that lie side by side in a walk. */
enum { TILE_SIZE = 16, TILE_SUMS = SIDE * SIDE * TILE_SIZE * TILE_SIZE, WALK_BLOCKS = 4 };
/* Fewer channels or columns leave most of a tile empty; of fewer pixels the errors of the transforms stand out. */
enum { FEWEST_CHANNELS = 8, FEWEST_PIXELS = 64 };

/* Images of which walks are made: pixels, channels, how many pixels of the first block come before a line. */
typedef struct walk_lines {
    int64_t h, w, channels, pad;
} walk_lines;

/* How a gradient is taken apart. A walk goes through all blocks of an image that lie below each other, four side by
 * side. */
typedef struct walk_plan {
    rf_conv_geometry g;
    walk_lines x, dy;
    int64_t line_blocks, block_lines, positions, walks, steps /* of a walk */, split, parts;
    int64_t row_tiles, column_tiles, tiles, groups /* a part's */;
    uint64_t stride; /* floats from a part's sums to the next one's */
} walk_plan;

static bool divide_walks(const rf_op_call *call, const rf_device_caps *caps, walk_plan *s)
{
    const rf_conv_geometry g = rf_conv_geometry_of(call, RF_ROLE_FILTER);
    if (g.kh != 3 || g.kw != 3 || g.sy != 1 || g.sx != 1 || g.dy != 1 || g.dx != 1 || g.groups != 1) return false;
    *s = (walk_plan){ .g = g,
                      .x = { g.h, g.w, g.cin, g.pl },
                      .dy = { g.oh, g.ow, g.cout, 0 },
                      .line_blocks = (g.ow + BLOCK - 1) / BLOCK,
                      .block_lines = (g.oh + BLOCK - 1) / BLOCK,
                      .row_tiles = (g.cin + TILE_SIZE - 1) / TILE_SIZE,
                      .column_tiles = (g.cout + TILE_SIZE - 1) / TILE_SIZE };
    s->positions = g.n * s->line_blocks;
    s->steps = s->block_lines;
    s->walks = (s->positions + WALK_BLOCKS - 1) / WALK_BLOCKS;
    s->tiles = s->row_tiles * s->column_tiles;
    s->groups = s->tiles * SIDE;
    const int64_t parts =
        rf_linear_parts((uint64_t)s->groups, 36, s->walks, 4, rf_loop_limit(caps) / (uint64_t)(s->steps + 2));
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
    const rf_push_winograd_sum_4 push = { .total = (int32_t)total,
                                          .channels = (int32_t)g->cin,
                                          .columns = (int32_t)g->cout,
                                          .row_tiles = (int32_t)s->row_tiles,
                                          .num_parts = (int32_t)s->parts,
                                          .stride = (int32_t)(s->stride / 4),
                                          .bias_gradient_at = (int32_t)bias_place(s) };
    rf_dispatch *d = rf_kernel_plan_add(p->plan, &rf_shader_winograd_sum_4, (uint64_t)s->parts + 1);
    if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_dispatch_spec(d, rf_local_size(p->caps, 32));
    rf_linear_bind(d, partial, RF_VIEW_TEXEL_RGBA32F, false);
    rf_bind_whole(d, RF_BIND_OUTPUT, 0);
    rf_bind_whole(d, RF_BIND_OUTPUT, bias ? 1 : 0);
    rf_dispatch_push(d, &push, sizeof(push));
    rf_dispatch_items(d, p->caps, total);
    return RF_OK;
}

static rf_result add_walk_lines(rf_lanes_plan *p, const walk_plan *s, const walk_lines *l, const rf_shader *shader,
                                rf_binding *io)
{
    const int64_t eights = (l->channels + 7) / 8,
                  images = (int64_t)rf_div_up((uint64_t)(s->walks * WALK_BLOCKS), (uint64_t)s->line_blocks);
    const int64_t total = images * l->h * s->line_blocks * eights;
    const rf_magic by_eights = rf_magic_make((uint32_t)eights), by_h = rf_magic_make((uint32_t)l->h),
                   by_blocks = rf_magic_make((uint32_t)s->line_blocks);
    const rf_push_winograd_walks push = { .total = (int32_t)total,
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
                                          .eights_magic = by_eights.magic,
                                          .eights_shift = by_eights.shift,
                                          .h_magic = by_h.magic,
                                          .h_shift = by_h.shift,
                                          .blocks_magic = by_blocks.magic,
                                          .blocks_shift = by_blocks.shift };
    const rf_binding to = rf_linear_workspace(p->plan, p->caps, (uint64_t)plane_eights(s, l) * SIDE * 32);
    rf_dispatch *d = rf_kernel_plan_add(p->plan, shader, RF_NO_LOOPS);
    if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_dispatch_spec(d, rf_local_size(p->caps, 64));
    rf_linear_bind(d, *io, RF_VIEW_TEXEL_RGBA32F, false);
    rf_linear_bind(d, to, RF_VIEW_STORAGE, true);
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
    rf_dispatch_groups(d, p->caps, (uint64_t)(s->groups * s->parts) * (8 / p->set->lanes));
    return d;
}

static rf_result finish_walks(rf_lanes_plan *p, const walk_plan *s, rf_dispatch *d, rf_binding x, rf_binding dy)
{
    const rf_binding partial = rf_linear_workspace(p->plan, p->caps, (uint64_t)s->parts * s->stride * sizeof(float));
    rf_linear_bind(d, x, RF_VIEW_TEXEL_RGBA32F, false);
    rf_linear_bind(d, dy, RF_VIEW_TEXEL_RGBA32F, false);
    rf_linear_bind(d, partial, RF_VIEW_STORAGE, true);
    rf_linear_bind(d, partial, RF_VIEW_STORAGE, true);
    return add_walk_sums(p, s, partial);
}

static rf_result plan_walks(rf_lanes_plan *p)
{
    walk_plan s;
    if (!divide_walks(p->call, p->caps, &s)) return RF_FAIL(RF_ERROR_INTERNAL, "%s: not for blocks", p->call->op->name);
    const rf_conv_geometry *g = &s.g;
    rf_binding x = rf_linear_input(p->call, 0), dy = rf_linear_input(p->call, 1);
    RF_TRY(rf_lanes_pad_rows(p, &x, g->n * g->h * g->w, g->cin));
    RF_TRY(rf_lanes_pad_rows(p, &dy, g->n * g->oh * g->ow, g->cout));
    RF_TRY(add_walk_lines(p, &s, &s.x, &rf_shader_winograd_walks, &x));
    RF_TRY(add_walk_lines(p, &s, &s.dy, &rf_shader_winograd_walks_outputs, &dy));
    p->plan->items[p->plan->count - 1].concurrent = true; /* with the other lines */
    rf_dispatch *d = add_walk_products(p, &s, &rf_shader_lanes_texel_winograd_grad_4);
    if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
    const rf_push_lanes_winograd_grad_4 push = { .total = (int32_t)(s.groups * s.parts),
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
                                                 .bias_gradient_at =
                                                     p->call->n_out > 1 ? (int32_t)bias_place(&s) : -1 };
    rf_dispatch_push(d, &push, sizeof(push));
    return finish_walks(p, &s, d, x, dy);
}

rf_result rf_winograd_grad_plan(const rf_op_call *call, const rf_device_caps *caps, const void *data,
                                rf_kernel_plan *plan)
{
    const rf_piece_kernel *kernel = data;
    rf_lanes_plan p = { kernel->set, call, caps, plan };
    return plan_walks(&p);
}

/* Matrices of lines of so many bytes stay in a cache. */
#define CACHED_BYTES 16e6

static double walk_seconds(const walk_plan *s)
{
    const double sums = rf_cpu_pass_seconds(RF_CPU_PASS_SUMS, (double)s->parts * (double)s->stride * sizeof(float));
    const double walks = (double)(s->groups * s->walks), steps = (double)s->steps;
    const double eights = (double)(plane_eights(s, &s->x) + plane_eights(s, &s->dy));
    const bool cached = eights * SIDE * 32 < CACHED_BYTES;
    return rf_cpu_loop_seconds(RF_CPU_LOOP_WALK, walks, steps) +
           rf_cpu_pass_seconds(cached ? RF_CPU_PASS_WALKS : RF_CPU_PASS_WALKS_LARGE, eights) + sums + RF_CPU_ONCE_WALKS;
}

/* The most fours that a buffer of it holds. */
static uint64_t most_fours(const walk_plan *s)
{
    const uint64_t sums = (uint64_t)s->parts * s->stride / 4;
    const int64_t x = plane_eights(s, &s->x), dy = plane_eights(s, &s->dy);
    const uint64_t lines = (uint64_t)(x > dy ? x : dy) * SIDE * 2;
    return lines > sums ? lines : sums;
}

double rf_winograd_grad_seconds(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    const rf_piece_kernel *kernel = data;
    walk_plan s;
    if (!caps->is_cpu || !rf_lanes_usable(kernel->set, call, caps, 1) || !rf_flat_texels(caps) ||
        !divide_walks(call, caps, &s))
        return 0;
    if (s.g.cin < FEWEST_CHANNELS || s.g.cout < FEWEST_CHANNELS || s.g.n * s.g.oh * s.g.ow < FEWEST_PIXELS) return 0;
    const uint64_t most = most_fours(&s);
    if (most * 16 > caps->max_storage_range || most > caps->max_texel_elements || most > INT32_MAX / 4 ||
        walk_loops(&s) > rf_loop_limit(caps) || (uint64_t)s.parts + 1 > rf_loop_limit(caps))
        return 0;
    return rf_cpu_seconds_beside(kernel->set, call, caps, &s.g, walk_seconds(&s) * RF_CPU_WALK_MARGIN,
                                 rf_cpu_direct_filter_loop_seconds(kernel->set, &s.g));
}
