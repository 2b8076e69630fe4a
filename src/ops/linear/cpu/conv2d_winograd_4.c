/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Convolutions with kernels of 3 x 3 and steps of one, and their data gradients, by Winograd's F(4 x 4, 3 x 3), for
 * drivers whose subgroups are the lanes of a SIMD register: shaders/linear/cpu/winograd_lines.comp and
 * lanes_winograd_4.comp.
 *
 * Rounding errors. With numbers of x up to X, of the kernel up to K and C channels, a result's products add up to 537 C
 * X K at most (23.2 squared, from the lines of A, B and G), where those of the direct form add up to 9 C X K. But C +
 * 26 roundings follow each other, transforms included, instead of 9 C. So the forward error bound is 6.6 (1 + 26 / C)
 * times that of the direct form. With numbers of random sign the root of the mean square is 2.1 times that of the
 * direct form. The points 0, 1, -1, 2, -2, with which these transforms were published, have 4.3, and 0, 1, -1, 1/2, -2
 * have 2.7 (Lavin and Gray, Fast Algorithms for Convolutional Neural Networks, 2016; Barabasz, Anderson, Soodhalter and
 * Gregg, Error Analysis and Improving the Accuracy of Winograd Convolution for Deep Neural Networks, 2020, on choosing
 * them). The cases' tolerances hold it as they are, with the channels that it is left to.
 */
#include "ops/linear/cpu/conv2d_winograd_product.h"
#include "ops/linear/cpu/kernels.h"
#include "rf_shaders.h"

enum { SIDE = 6 /* pixels that a block is made of */, BLOCK = 4 /* that it makes */ };

/* Rows are blocks. */
static const rf_lanes_tile tile = { &rf_shader_lanes_texel_winograd_4, 16, 16 };
/* Fewer channels would make the errors of the transforms stand out against those of the sums. */
enum { FEWEST_CHANNELS = 16 };

static int64_t count_up(int64_t pixels)
{
    return (pixels + BLOCK - 1) / BLOCK;
}

static int64_t count_blocks(const rf_winograd_product *g)
{
    return g->conv.n * count_up(g->conv.oh) * count_up(g->conv.ow);
}

static int64_t count_eights(const rf_winograd_product *g)
{
    return (g->conv.cin + 7) / 8;
}

/* Eights of one of six matrices of lines; one line is of zeros. */
static uint64_t plane_eights(const rf_winograd_product *g)
{
    return (uint64_t)((g->conv.n * g->conv.h + 1) * count_up(g->conv.ow) * count_eights(g));
}

static uint64_t count_tiles(const rf_winograd_product *g, uint32_t rows)
{
    return rf_div_up((uint64_t)count_blocks(g), rows) * rf_div_up((uint64_t)g->conv.cout, tile.columns);
}

static uint64_t block_loops(const rf_winograd_product *g)
{
    return (uint64_t)rf_lanes_fours(g->conv.cin) * SIDE + 16;
}

/* d B of all lines of x. */
static rf_result add_lines(rf_lanes_plan *p, const rf_winograd_product *g, rf_binding *io)
{
    const uint64_t total = plane_eights(g);
    const rf_push_winograd_lines push = { .total = (int32_t)total,
                                          .eights = (int32_t)count_eights(g),
                                          .fours = (int32_t)rf_lanes_fours(g->conv.cin),
                                          .block_line = (int32_t)count_up(g->conv.ow),
                                          .lines = (int32_t)(g->conv.n * g->conv.h),
                                          .w = (int32_t)g->conv.w,
                                          .pad_x = (int32_t)g->conv.pl };
    const rf_binding to = rf_linear_workspace(p->plan, p->caps, total * SIDE * 32);
    rf_dispatch *d = rf_kernel_plan_add(p->plan, &rf_shader_winograd_lines, RF_NO_LOOPS);
    if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_dispatch_spec(d, rf_local_size(p->caps, 64));
    rf_linear_bind(d, *io, RF_VIEW_TEXEL_RGBA32F, false);
    rf_linear_bind(d, to, RF_VIEW_STORAGE, true);
    rf_dispatch_push(d, &push, sizeof(push));
    rf_dispatch_items(d, p->caps, total);
    *io = to;
    return RF_OK;
}

rf_result rf_winograd_4_plan(const rf_op_call *call, const rf_device_caps *caps, const void *data, rf_kernel_plan *plan)
{
    const rf_piece_kernel *kernel = data;
    const rf_conv_geometry own = rf_conv_geometry_of(call, kernel->role);
    rf_lanes_plan p = { kernel->set, call, caps, plan };
    rf_winograd_product g;
    if (!rf_winograd_product_of(call, &own, &g))
        return RF_FAIL(RF_ERROR_INTERNAL, "%s: not for blocks", call->op->name);
    rf_binding x = rf_linear_input(call, 0), weights = rf_linear_input(call, 1);
    RF_TRY(rf_lanes_pad_rows(&p, &x, g.conv.n * g.conv.h * g.conv.w, g.conv.cin));
    RF_TRY(rf_winograd_add_kernels(&p, &g, &rf_shader_winograd_pack_6, tile.columns, SIDE, &weights));
    RF_TRY(add_lines(&p, &g, &x));
    const uint32_t rows = rf_winograd_rows(&p, &tile);
    const uint64_t total = count_tiles(&g, rows);
    rf_dispatch *d = rf_kernel_plan_add(plan, tile.shader, block_loops(&g));
    if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_winograd_bind(&p, d, &g, x, weights);
    const rf_push_lanes_winograd_4 push = { .total = (int32_t)total,
                                            .row_tiles = (int32_t)rf_div_up((uint64_t)count_blocks(&g), rows),
                                            .blocks = (int32_t)count_blocks(&g),
                                            .columns = (int32_t)g.conv.cout,
                                            .channels = (int32_t)rf_lanes_fours(g.conv.cin),
                                            .lines = (int32_t)(g.conv.n * g.conv.h),
                                            .h = (int32_t)g.conv.h,
                                            .out_h = (int32_t)g.conv.oh,
                                            .out_w = (int32_t)g.conv.ow,
                                            .block_lines = (int32_t)count_up(g.conv.oh),
                                            .block_line = (int32_t)count_up(g.conv.ow),
                                            .pad_y = (int32_t)g.conv.pt,
                                            .a_block = (int32_t)count_eights(&g) * 2,
                                            .a_plane = (int32_t)plane_eights(&g) * 2,
                                            .c_row = (int32_t)g.conv.cout };
    rf_dispatch_push(d, &push, sizeof(push));
    rf_dispatch_groups(d, caps, total);
    return RF_OK;
}

/* Whether a slope that changes at zero follows, or a maximum. Where all inputs of a result are zero, as at the edges of
 * images, the direct form and blocks of 2 x 2 make exactly zero of them, and these blocks what is left of sums of their
 * neighbours. That is no larger than other errors, but would let half of such pixels take part in a gradient. */
static bool has_kink(const rf_op_call *call, rf_linear_role role)
{
    const rf_conv2d_attr *attr = call->attr;
    return role == RF_ROLE_FORWARD &&
           (attr->max_pool || attr->activation == RF_ACTIVATION_RELU || attr->activation == RF_ACTIVATION_LEAKY_RELU);
}

double rf_winograd_4_seconds(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    const rf_piece_kernel *kernel = data;
    const rf_conv_geometry own = rf_conv_geometry_of(call, kernel->role);
    rf_winograd_product g;
    if (!caps->is_cpu || !rf_winograd_product_of(call, &own, &g) || !rf_lanes_usable(kernel->set, call, caps, 1) ||
        !rf_flat_texels(caps))
        return 0;
    if (g.conv.cout <= RF_WINOGRAD_FEW_COLUMNS || g.conv.cin < FEWEST_CHANNELS || has_kink(call, own.role)) return 0;
    const uint64_t weights = rf_winograd_kernel_fours(&g, tile.columns, SIDE), lines = plane_eights(&g) * SIDE * 2;
    const uint64_t most = weights > lines ? weights : lines;
    if (most * 16 > caps->max_storage_range || most > caps->max_texel_elements || most > INT32_MAX ||
        block_loops(&g) > rf_loop_limit(caps))
        return 0;
    const double transforms = rf_cpu_pass_seconds(RF_CPU_PASS_KERNELS_4, (double)weights * 16) +
                              rf_cpu_pass_seconds(RF_CPU_PASS_LINES, (double)plane_eights(&g)) + RF_CPU_ONCE_WINOGRAD_4;
    const double loop = rf_cpu_loop_seconds(RF_CPU_LOOP_WINOGRAD_4, (double)count_tiles(&g, tile.rows),
                                            (double)rf_lanes_fours(g.conv.cin) * SIDE);
    return rf_winograd_seconds_of(kernel->set, call, caps, &own, &g, loop * RF_CPU_MARGIN + transforms);
}
