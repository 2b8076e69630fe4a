/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/linear/common/conv2d.h"
#include "ops/linear/cpu/lanes.h"

/* Steps and offsets travel in 8 and 16 bits. */
static bool window_travels(const rf_conv_geometry *g)
{
    return g->sy < 256 && g->sx < 256 && g->kh < 32768 && g->kw < 32768 && g->dy < 32768 && g->dx < 32768 &&
           g->pt < 32768 && g->pl < 32768 && (g->kh - 1) * g->dy < 32768 && (g->kw - 1) * g->dx < 32768;
}

/* Groups are the innermost batch dimension. */
static rf_lanes_batch group_strides(const rf_conv_geometry *g, int64_t a, int64_t b, int64_t c, int64_t bias)
{
    return (rf_lanes_batch){
        .count = g->groups, .dim_1 = 1, .dim_2 = g->groups, .a = { 0, 0, a }, .b = { 0, 0, b }, .c = c, .bias = bias
    };
}

/* Channels of each group start at a multiple of four and fill one. */
static rf_result pad_groups(rf_lanes_plan *p, rf_binding *io, int64_t pixels, int64_t groups, int64_t channels)
{
    return rf_lanes_pad_rows(p, io, pixels * groups, channels);
}

/* What a product takes of the convolution alone, with groups of its channels as columns. */
static rf_lanes_gather gather_geometry(const rf_conv_geometry *g)
{
    return (rf_lanes_gather){ .rows = g->n * g->oh * g->ow,
                              .columns = g->cog,
                              .kh = g->kh,
                              .kw = g->kw,
                              .h = g->h,
                              .w = g->w,
                              .oh = g->oh,
                              .ow = g->ow,
                              .sy = g->sy,
                              .sx = g->sx,
                              .upy = 1,
                              .upx = 1,
                              .dy = g->dy,
                              .dx = g->dx,
                              .pt = g->pt,
                              .pl = g->pl,
                              .c_row = g->cout };
}

static rf_result plan_forward(rf_lanes_plan *p)
{
    const rf_conv_geometry g = rf_conv_geometry_of(p->call);
    const rf_conv2d_attr *attr = p->call->attr;
    rf_binding x = rf_lanes_input(p->call, 0), kernel = rf_lanes_input(p->call, 1);
    RF_TRY(pad_groups(p, &x, g.n * g.h * g.w, g.groups, g.cig));
    RF_TRY(pad_groups(p, &kernel, g.kh * g.kw * g.cig, g.groups, g.cog));
    const int64_t in = rf_lanes_fours(g.cig), out = rf_lanes_fours(g.cog);
    rf_lanes_gather product = gather_geometry(&g);
    product.channels = in;
    product.a_pixel = g.groups * in;
    product.b_tap = g.cig * g.groups * out;
    product.b_row = g.groups * out;
    product.b_last = g.cig - 1;
    product.z = group_strides(&g, in, out, g.cog, g.cog);
    product.activation = attr->activation;
    product.bias = p->call->n_in == 3;
    return rf_lanes_add_gather(p, &product, x, kernel);
}

/* Few channels: a's are read one by one, so that nothing is padded. */
static rf_result plan_forward_scalar(rf_lanes_plan *p)
{
    const rf_conv_geometry g = rf_conv_geometry_of(p->call);
    const rf_conv2d_attr *attr = p->call->attr;
    rf_binding x = rf_lanes_input(p->call, 0), kernel = rf_lanes_input(p->call, 1);
    RF_TRY(pad_groups(p, &kernel, g.kh * g.kw * g.cig, g.groups, g.cog));
    const int64_t out = rf_lanes_fours(g.cog);
    rf_lanes_gather product = gather_geometry(&g);
    product.channels = g.cig;
    product.a_pixel = g.cin;
    product.b_tap = g.cig * g.groups * out;
    product.b_row = g.groups * out;
    product.b_last = g.cig - 1;
    product.scalar = true;
    product.z = group_strides(&g, g.cig, out, g.cog, g.cog);
    product.activation = attr->activation;
    product.bias = p->call->n_in == 3;
    return rf_lanes_add_gather(p, &product, x, kernel);
}

static rf_result plan_data(rf_lanes_plan *p)
{
    const rf_conv_geometry own = rf_conv_geometry_of(p->call), g = rf_conv_geometry_turned(&own);
    rf_binding dy = rf_lanes_input(p->call, 0), kernel = rf_lanes_input(p->call, 1);
    RF_TRY(pad_groups(p, &dy, g.n * g.h * g.w, g.groups, g.cig));
    RF_TRY(pad_groups(p, &kernel, g.kh * g.kw * g.cog, g.groups, g.cig));
    const int64_t in = rf_lanes_fours(g.cig), row = g.groups * in, tap = g.cog * row;
    rf_lanes_gather product = gather_geometry(&g);
    product.channels = in;
    product.upy = own.sy;
    product.upx = own.sx;
    product.a_pixel = row;
    product.b_base = (g.kh * g.kw - 1) * tap;
    product.b_tap = -tap;
    product.b_row = row;
    product.b_last = g.cig - 1;
    product.b_transposed = true;
    product.z = group_strides(&g, in, in, g.cog, 0);
    return rf_lanes_add_gather(p, &product, dy, kernel);
}

static rf_result plan_filter(rf_lanes_plan *p)
{
    const rf_conv_geometry g = rf_conv_geometry_of(p->call);
    rf_binding x = rf_lanes_input(p->call, 0), dy = rf_lanes_input(p->call, 1);
    RF_TRY(pad_groups(p, &x, g.n * g.h * g.w, g.groups, g.cig));
    RF_TRY(pad_groups(p, &dy, g.n * g.oh * g.ow, g.groups, g.cog));
    const int64_t in = rf_lanes_fours(g.cig), out = rf_lanes_fours(g.cog);
    const rf_lanes_grad product = { .kh = g.kh,
                                    .kw = g.kw,
                                    .loads = in,
                                    .channels = g.cig,
                                    .columns = g.cog,
                                    .n = g.n,
                                    .h = g.h,
                                    .w = g.w,
                                    .oh = g.oh,
                                    .ow = g.ow,
                                    .sy = g.sy,
                                    .sx = g.sx,
                                    .dy = g.dy,
                                    .dx = g.dx,
                                    .pt = g.pt,
                                    .pl = g.pl,
                                    .a_pixel = g.groups * in,
                                    .b_pixel = g.groups * out,
                                    .c_row = g.cout,
                                    .z = group_strides(&g, in, out, g.cog, g.cog),
                                    .bias_gradient = p->call->n_out > 1 };
    return rf_lanes_add_grad(p, &product, x, dy);
}

static rf_result plan_filter_scalar(rf_lanes_plan *p)
{
    const rf_conv_geometry g = rf_conv_geometry_of(p->call);
    rf_binding x = rf_lanes_input(p->call, 0), dy = rf_lanes_input(p->call, 1);
    RF_TRY(pad_groups(p, &dy, g.n * g.oh * g.ow, g.groups, g.cog));
    const int64_t out = rf_lanes_fours(g.cog);
    const rf_lanes_grad product = { .kh = g.kh,
                                    .kw = g.kw,
                                    .loads = g.cig,
                                    .channels = g.cig,
                                    .columns = g.cog,
                                    .n = g.n,
                                    .h = g.h,
                                    .w = g.w,
                                    .oh = g.oh,
                                    .ow = g.ow,
                                    .sy = g.sy,
                                    .sx = g.sx,
                                    .dy = g.dy,
                                    .dx = g.dx,
                                    .pt = g.pt,
                                    .pl = g.pl,
                                    .a_pixel = g.cin,
                                    .b_pixel = g.groups * out,
                                    .c_row = g.cout,
                                    .scalar = true,
                                    .z = group_strides(&g, g.cig, out, g.cog, g.cog),
                                    .bias_gradient = p->call->n_out > 1 };
    return rf_lanes_add_grad(p, &product, x, dy);
}

/* `a`: channels that are summed over or become rows, per group; `columns`: those that become columns. */
static double lanes_conv2d_score(const rf_lanes_set *set, const rf_op_call *call, const rf_device_caps *caps,
                                 const rf_lanes_tile tiles[RF_LANES_SHAPES], int64_t rows, int64_t a, int64_t columns,
                                 bool pack_second)
{
    const rf_conv_geometry g = rf_conv_geometry_of(call);
    if (!window_travels(&g) || !rf_lanes_usable(set, call, caps)) return 0;
    const rf_lanes_tile *tile = rf_lanes_choose(set, tiles, rows, columns);
    const double waste = (double)rf_align_up((uint64_t)a, 4) / (double)a *
                         (double)rf_align_up((uint64_t)columns, tile->columns) / (double)columns;
    const double packed = (a % 4 ? (double)rf_tensor_bytes(&call->in[0]) * 4 / (double)(a < 4 ? a : 4) : 0) +
                          (pack_second ? (double)rf_tensor_bytes(&call->in[1]) : 0);
    return rf_lanes_score(set, caps, call->op->cost(call).flops * waste, packed, 1u + (a % 4 != 0) + pack_second);
}

static double score_forward(const rf_lanes_set *set, const rf_op_call *call, const rf_device_caps *caps)
{
    const rf_conv_geometry g = rf_conv_geometry_of(call);
    if (!rf_lanes_gather_fits(call, caps, g.kh * g.kw, rf_lanes_fours(g.cig), false)) return 0;
    return lanes_conv2d_score(set, call, caps, set->gather, g.n * g.oh * g.ow, g.cig, g.cog, g.cog % 4 != 0);
}

static double score_data(const rf_lanes_set *set, const rf_op_call *call, const rf_device_caps *caps)
{
    const rf_conv_geometry g = rf_conv_geometry_of(call);
    if (!rf_lanes_gather_fits(call, caps, g.kh * g.kw, rf_lanes_fours(g.cog), false)) return 0;
    return lanes_conv2d_score(set, call, caps, set->gather_transposed, g.n * g.h * g.w, g.cog, g.cig, g.cog % 4 != 0) /
           (double)(g.sy * g.sx);
}

static double score_filter(const rf_lanes_set *set, const rf_op_call *call, const rf_device_caps *caps)
{
    const rf_conv_geometry g = rf_conv_geometry_of(call);
    return lanes_conv2d_score(set, call, caps, set->grad, g.kh * g.kw * g.cig, g.cig, g.cog, g.cog % 4 != 0);
}

/* Without padding, but loads cost four times as much. */
static double score_scalar(const rf_lanes_set *set, const rf_op_call *call, const rf_device_caps *caps,
                           const rf_lanes_tile tiles[RF_LANES_SHAPES], int64_t rows)
{
    const rf_conv_geometry g = rf_conv_geometry_of(call);
    if (!window_travels(&g) || !rf_lanes_usable(set, call, caps)) return 0;
    const rf_lanes_tile *tile = rf_lanes_choose(set, tiles, rows, g.cog);
    const double waste = (double)rf_align_up((uint64_t)g.cog, tile->columns) / (double)g.cog *
                         (double)rf_align_up((uint64_t)rows, tile->rows) / (double)rows;
    const double packed = g.cog % 4 ? (double)rf_tensor_bytes(&call->in[1]) : 0;
    return rf_lanes_score(set, caps, call->op->cost(call).flops * waste * 2.5, packed, 1u + (g.cog % 4 != 0));
}

static double score_forward_scalar(const rf_lanes_set *set, const rf_op_call *call, const rf_device_caps *caps)
{
    const rf_conv_geometry g = rf_conv_geometry_of(call);
    if (!rf_lanes_gather_fits(call, caps, g.kh * g.kw, g.cig, true)) return 0;
    return score_scalar(set, call, caps, set->gather_scalar, g.n * g.oh * g.ow);
}

static double score_filter_scalar(const rf_lanes_set *set, const rf_op_call *call, const rf_device_caps *caps)
{
    const rf_conv_geometry g = rf_conv_geometry_of(call);
    return score_scalar(set, call, caps, set->grad_scalar, g.kh * g.kw * g.cig);
}

#define CONV_KERNELS(set)                                                                                              \
    RF_LANES_KERNEL(conv2d, set, , score_forward, plan_forward);                                                       \
    RF_LANES_KERNEL(conv2d, set, _scalar, score_forward_scalar, plan_forward_scalar);                                  \
    RF_LANES_KERNEL(conv2d_data_grad, set, , score_data, plan_data);                                                   \
    RF_LANES_KERNEL(conv2d_filter_grad, set, , score_filter, plan_filter);                                             \
    RF_LANES_KERNEL(conv2d_filter_grad, set, _scalar, score_filter_scalar, plan_filter_scalar)

CONV_KERNELS(lanes8_texel);
CONV_KERNELS(lanes8_storage);
CONV_KERNELS(lanes4_storage);
CONV_KERNELS(lanes4_quad);
CONV_KERNELS(lanes16_texel);

/* As measured beside other work. A turn takes four pixels. */
double rf_conv2d_filter_seconds(const rf_lanes_set *set, const rf_conv_geometry *g)
{
    const int64_t rows = g->kh * g->kw * rf_lanes_fours(g->cin) * 4, pixels = g->n * g->oh * g->ow;
    const rf_lanes_tile *tile = rf_lanes_choose_grad(set, rows, g->cout, pixels);
    const uint64_t tiles = rf_div_up((uint64_t)rows, tile->rows) * rf_div_up((uint64_t)g->cout, tile->columns);
    const double turn = tile->columns > 32 ? 0.35e-6 : tile->columns > 16 ? 0.19e-6 : 0.208e-6;
    return (double)tiles * (double)pixels / 4 * turn;
}
