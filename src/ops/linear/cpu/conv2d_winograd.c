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
#include "ops/linear/cpu/kernels.h"
#include "rf_shaders.h"

enum { SIDE = 4 /* pixels that a block is made of */ };

typedef struct block_tile {
    rf_lanes_tile tile; /* rows are blocks */
    rf_cpu_loop loop;
} block_tile;
static const block_tile wide = { { &rf_shader_lanes8_texel_winograd_32, 16, 32 }, RF_CPU_LOOP_WINOGRAD_32 },
                        narrow = { { &rf_shader_lanes_texel_winograd_16, 32, 16 }, RF_CPU_LOOP_WINOGRAD_16 };

static int64_t count_blocks(const rf_winograd_product *g)
{
    return g->conv.n * ((g->conv.oh + 1) / 2) * ((g->conv.ow + 1) / 2);
}

static double tile_seconds(const rf_winograd_product *g, const block_tile *t)
{
    const uint64_t tiles =
        rf_div_up((uint64_t)count_blocks(g), t->tile.rows) * rf_div_up((uint64_t)g->conv.cout, t->tile.columns);
    return rf_cpu_loop_seconds(t->loop, (double)tiles, (double)rf_lanes_fours(g->conv.cin) * 4);
}

/* The wide tile is for eight lanes alone. */
static const block_tile *choose_tile(const rf_lanes_set *set, const rf_winograd_product *g)
{
    return set->lanes < 8 || tile_seconds(g, &narrow) < tile_seconds(g, &wide) ? &narrow : &wide;
}

static uint64_t block_loops(const rf_winograd_product *g)
{
    return (uint64_t)rf_lanes_fours(g->conv.cin) * 4 + 12;
}

rf_result rf_winograd_plan(const rf_op_call *call, const rf_device_caps *caps, const void *data, rf_kernel_plan *plan)
{
    const rf_piece_kernel *kernel = data;
    const rf_conv_geometry own = rf_conv_geometry_of(call, kernel->role);
    rf_lanes_plan p = { kernel->set, call, caps, plan };
    rf_winograd_product g;
    if (!rf_winograd_product_of(call, &own, &g))
        return RF_FAIL(RF_ERROR_INTERNAL, "%s: not for blocks", call->op->name);
    const rf_lanes_tile *tile = &choose_tile(kernel->set, &g)->tile;
    rf_binding x = rf_linear_input(call, 0), weights = rf_linear_input(call, 1);
    RF_TRY(rf_lanes_pad_rows(&p, &x, g.conv.n * g.conv.h * g.conv.w, g.conv.cin));
    RF_TRY(rf_winograd_add_kernels(&p, &g, &rf_shader_winograd_pack, tile->columns, SIDE, &weights));
    const uint64_t row_tiles = rf_div_up((uint64_t)count_blocks(&g), rf_winograd_rows(&p, tile));
    const uint64_t total = row_tiles * rf_div_up((uint64_t)g.conv.cout, tile->columns);
    rf_dispatch *d = rf_kernel_plan_add(plan, tile->shader, block_loops(&g));
    if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_winograd_bind(&p, d, &g, x, weights);
    const rf_push_lanes_winograd push = { .total = (int32_t)total,
                                          .row_tiles = (int32_t)row_tiles,
                                          .blocks = (int32_t)count_blocks(&g),
                                          .columns = (int32_t)g.conv.cout,
                                          .channels = (int32_t)rf_lanes_fours(g.conv.cin),
                                          .h = (int32_t)g.conv.h,
                                          .w = (int32_t)g.conv.w,
                                          .out_h = (int32_t)g.conv.oh,
                                          .out_w = (int32_t)g.conv.ow,
                                          .block_lines = (int32_t)(g.conv.oh + 1) / 2,
                                          .block_line = (int32_t)(g.conv.ow + 1) / 2,
                                          .padding = rf_lanes_pair(g.conv.pt, g.conv.pl),
                                          .a_pixel = (int32_t)rf_lanes_fours(g.conv.cin),
                                          .c_row = (int32_t)g.conv.cout };
    rf_dispatch_push(d, &push, sizeof(push));
    rf_dispatch_groups(d, caps, total);
    return RF_OK;
}

/* The direct form leaves out taps of padding, of small images many: that is not counted. */
double rf_winograd_seconds(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    const rf_piece_kernel *kernel = data;
    const rf_conv_geometry own = rf_conv_geometry_of(call, kernel->role);
    rf_winograd_product g;
    if (!caps->is_cpu || !rf_winograd_product_of(call, &own, &g) || !rf_lanes_usable(kernel->set, call, caps, 1))
        return 0;
    if (g.conv.cout <= RF_WINOGRAD_FEW_COLUMNS) return 0;
    const block_tile *t = choose_tile(kernel->set, &g);
    const uint64_t fours = rf_winograd_kernel_fours(&g, t->tile.columns, SIDE);
    if (fours * 16 > caps->max_storage_range || fours > caps->max_texel_elements || fours > INT32_MAX ||
        block_loops(&g) > rf_loop_limit(caps))
        return 0;
    const double transform = rf_cpu_pass_seconds(RF_CPU_PASS_KERNELS_2, (double)fours * 16) + RF_CPU_ONCE_WINOGRAD;
    return rf_winograd_seconds_of(kernel->set, call, caps, &own, &g, tile_seconds(&g, t) * RF_CPU_MARGIN + transform);
}
