/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Convolutions with kernels of 3 x 3 and steps of one, and their data gradients, by Winograd's F(2 x 2, 3 x 3), for
 * drivers whose subgroups are the lanes of a SIMD register: shaders/linear/cpu/lanes_winograd.comp.
 *
 * Rounding errors. With numbers of x up to X, of the kernel up to K and C channels, the products of a block are of
 * numbers up to 4 X and 2.25 K, and a result's add up to 64 C X K at most, where those of the direct form add up to 9 C
 * X K. But C + 12 roundings follow each other, transforms included, instead of 9 C. So the forward error bound is 64 /
 * 81 (1 + 12 / C) times that of the direct form: less from 46 channels on, 3.2 times as much with four. The cases'
 * tolerances hold it as they are. conv2d_winograd_4.c has larger blocks, whose products add up to 8.4 times as much.
 */
#include "ops/linear/cpu/conv2d_winograd_product.h"
#include "rf_shaders.h"

enum { SIDE = 4 /* pixels that a block is made of */ };

/* Of shaders/linear/cpu/lanes_winograd.comp. */
typedef struct block_push {
    int32_t total, row_tiles, blocks, columns, channels, h, w, out_h, out_w, block_lines, block_line, padding;
    int32_t a_pixel, c_row;
} block_push;
_Static_assert(sizeof(block_push) <= RF_MAX_PUSH, "push constants of lanes_winograd.comp");

/* Seconds of a processor, as measured beside other work: of a turn (four channels, four of the 16 products) and of the
 * rest of a tile. */
typedef struct block_tile {
    rf_lanes_tile tile; /* rows are blocks */
    double turn, rest;
} block_tile;
static const block_tile block_tiles[] = {
    { { &rf_shader_lanes8_texel_winograd_32, 16, 32 }, 0.56e-6, 3.4e-6 },
    { { &rf_shader_lanes8_texel_winograd_16, 32, 16 }, 0.64e-6, 5.2e-6 },
};

static int64_t count_blocks(const rf_block_product *g)
{
    return g->n * ((g->oh + 1) / 2) * ((g->ow + 1) / 2);
}

static double tile_seconds(const rf_block_product *g, const block_tile *t)
{
    const uint64_t tiles =
        rf_div_up((uint64_t)count_blocks(g), t->tile.rows) * rf_div_up((uint64_t)g->columns, t->tile.columns);
    return (double)tiles * ((double)rf_lanes_fours(g->channels) * 4 * t->turn + t->rest);
}

static const block_tile *choose_tile(const rf_block_product *g)
{
    const block_tile *wide = &block_tiles[0], *narrow = &block_tiles[1];
    return tile_seconds(g, narrow) < tile_seconds(g, wide) ? narrow : wide;
}

static uint64_t block_loops(const rf_block_product *g)
{
    return (uint64_t)rf_lanes_fours(g->channels) * 4 + 12;
}

static rf_result plan_blocks(rf_lanes_plan *p)
{
    rf_block_product g;
    if (!rf_block_product_of(p->call, &g)) return RF_FAIL(RF_ERROR_INTERNAL, "%s: not for blocks", p->call->op->name);
    const rf_lanes_tile *tile = &choose_tile(&g)->tile;
    rf_binding x = rf_lanes_input(p->call, 0), kernel = rf_lanes_input(p->call, 1);
    RF_TRY(rf_lanes_pad_rows(p, &x, g.n * g.h * g.w, g.channels));
    RF_TRY(rf_block_add_kernels(p, &g, &rf_shader_winograd_pack, tile->columns, SIDE, &kernel));
    const uint64_t row_tiles = rf_div_up((uint64_t)count_blocks(&g), tile->rows);
    const uint64_t total = row_tiles * rf_div_up((uint64_t)g.columns, tile->columns);
    rf_dispatch *d = rf_kernel_plan_add(p->plan, tile->shader, block_loops(&g));
    if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_block_bind(p, d, &g, x, kernel);
    const block_push push = { .total = (int32_t)total,
                              .row_tiles = (int32_t)row_tiles,
                              .blocks = (int32_t)count_blocks(&g),
                              .columns = (int32_t)g.columns,
                              .channels = (int32_t)rf_lanes_fours(g.channels),
                              .h = (int32_t)g.h,
                              .w = (int32_t)g.w,
                              .out_h = (int32_t)g.oh,
                              .out_w = (int32_t)g.ow,
                              .block_lines = (int32_t)(g.oh + 1) / 2,
                              .block_line = (int32_t)(g.ow + 1) / 2,
                              .padding = (int32_t)((uint32_t)(g.pt & 0xffff) | (uint32_t)(g.pl & 0xffff) << 16),
                              .a_pixel = (int32_t)rf_lanes_fours(g.channels),
                              .c_row = (int32_t)g.columns };
    rf_dispatch_push(d, &push, sizeof(push));
    rf_dispatch_groups(d, p->caps, total);
    return RF_OK;
}

/* The direct form's, by how much longer that takes. Of small images it leaves out taps of padding, which is not
 * counted. */
static double score_blocks(const rf_lanes_set *set, const rf_op_call *call, const rf_device_caps *caps)
{
    const rf_kernel *direct = call->op == &rf_op_conv2d ? &rf_conv2d_lanes8_texel : &rf_conv2d_data_grad_lanes8_texel;
    rf_block_product g;
    if (!caps->is_cpu || !rf_block_product_of(call, &g) || !rf_lanes_usable(set, call, caps)) return RF_SCORE_NONE;
    if (g.columns <= RF_BLOCK_FEW_COLUMNS) return RF_SCORE_NONE;
    const block_tile *t = choose_tile(&g);
    const uint64_t fours = rf_block_kernel_fours(&g, t->tile.columns, SIDE);
    if (fours * 16 > caps->max_storage_range || fours > caps->max_texel_elements || fours > INT32_MAX ||
        block_loops(&g) > rf_loop_limit(caps))
        return RF_SCORE_NONE;
    const double transform = (double)fours * 16 / 1e9 + 60e-6, margin = 1.05;
    return direct->score(call, caps, direct->data) * rf_block_direct_seconds(&g) /
           (tile_seconds(&g, t) * margin + transform);
}

#define BLOCK_KERNEL(op)                                                                                               \
    RF_LANES_FUNCTIONS(op, lanes8_texel, _winograd, score_blocks, plan_blocks)                                         \
    const rf_kernel rf_##op##_lanes8_texel_winograd = { .name = "lanes8_texel_winograd",                               \
                                                        .score = op##_lanes8_texel_winograd_score,                     \
                                                        .plan = op##_lanes8_texel_winograd_plan,                       \
                                                        .cuts_up = true,                                               \
                                                        .block = 2 }

BLOCK_KERNEL(conv2d);
BLOCK_KERNEL(conv2d_data_grad);
