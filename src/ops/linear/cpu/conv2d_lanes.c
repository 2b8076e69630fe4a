/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/linear/common/conv2d.h"
#include "ops/linear/cpu/kernels.h"
#include "ops/linear/cpu/model.h"

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

/* The part of a product that follows from the convolution alone, with groups of its channels as columns. */
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
    const rf_conv_geometry g = rf_conv_geometry_of(p->call, RF_ROLE_FORWARD);
    const rf_conv2d_attr *attr = p->call->attr;
    rf_binding x = rf_linear_input(p->call, 0), kernel = rf_linear_input(p->call, 1);
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
    const rf_conv_geometry g = rf_conv_geometry_of(p->call, RF_ROLE_FORWARD);
    const rf_conv2d_attr *attr = p->call->attr;
    rf_binding x = rf_linear_input(p->call, 0), kernel = rf_linear_input(p->call, 1);
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
    const rf_conv_geometry own = rf_conv_geometry_of(p->call, RF_ROLE_DATA), g = rf_conv_geometry_turned(&own);
    rf_binding dy = rf_linear_input(p->call, 0), kernel = rf_linear_input(p->call, 1);
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
    const rf_conv_geometry g = rf_conv_geometry_of(p->call, RF_ROLE_FILTER);
    rf_binding x = rf_linear_input(p->call, 0), dy = rf_linear_input(p->call, 1);
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
    const rf_conv_geometry g = rf_conv_geometry_of(p->call, RF_ROLE_FILTER);
    rf_binding x = rf_linear_input(p->call, 0), dy = rf_linear_input(p->call, 1);
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

double rf_conv2d_lanes_seconds(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    const rf_piece_kernel *kernel = data;
    const rf_conv_geometry g = rf_conv_geometry_of(call, kernel->role);
    const int64_t channels = g.role == RF_ROLE_DATA ? g.cog : g.cig, taps = g.kh * g.kw;
    const bool scalar = kernel->option;
    if (g.role != RF_ROLE_FILTER &&
        !rf_lanes_gather_fits(call, caps, taps, scalar ? channels : rf_lanes_fours(channels), scalar))
        return 0;
    if (!window_travels(&g) || !rf_lanes_usable(kernel->set, call, caps, g.groups)) return 0;
    return rf_cpu_direct_seconds(kernel->set, call, caps, &g, scalar);
}

rf_result rf_conv2d_lanes_plan(const rf_op_call *call, const rf_device_caps *caps, const void *data,
                               rf_kernel_plan *plan)
{
    const rf_piece_kernel *kernel = data;
    rf_lanes_plan p = { kernel->set, call, caps, plan };
    if (kernel->role == RF_ROLE_DATA) return plan_data(&p);
    if (kernel->role == RF_ROLE_FILTER) return kernel->option ? plan_filter_scalar(&p) : plan_filter(&p);
    return kernel->option ? plan_forward_scalar(&p) : plan_forward(&p);
}
