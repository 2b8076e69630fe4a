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

/* `scalar`: a's few channels are read one by one, so that nothing of it is padded. */
static rf_result plan_forward(rf_lanes_plan *p, bool scalar)
{
    const rf_conv_geometry g = rf_conv_geometry_of(p->call, RF_ROLE_FORWARD);
    rf_binding x = rf_linear_input(p->call, 0), kernel = rf_linear_input(p->call, 1);
    if (!scalar) RF_TRY(pad_groups(p, &x, g.n * g.h * g.w, g.groups, g.cig));
    RF_TRY(pad_groups(p, &kernel, g.kh * g.kw * g.cig, g.groups, g.cog));
    const int64_t in = scalar ? g.cig : rf_lanes_fours(g.cig), out = rf_lanes_fours(g.cog);
    const rf_lanes_gather product = { .conv = g,
                                      .upy = 1,
                                      .upx = 1,
                                      .columns = g.cog,
                                      .channels = in,
                                      .a_pixel = g.groups * in,
                                      .b_tap = g.cig * g.groups * out,
                                      .b_row = g.groups * out,
                                      .b_last = g.cig - 1,
                                      .c_row = g.cout,
                                      .scalar = scalar,
                                      .z = group_strides(&g, in, out, g.cog, g.cog),
                                      .activation = ((const rf_conv2d_attr *)p->call->attr)->activation,
                                      .bias = p->call->n_in == 3 };
    return rf_lanes_add_gather(p, &product, x, kernel);
}

static rf_result plan_data(rf_lanes_plan *p)
{
    const rf_conv_geometry own = rf_conv_geometry_of(p->call, RF_ROLE_DATA), g = rf_conv_geometry_turned(&own);
    rf_binding dy = rf_linear_input(p->call, 0), kernel = rf_linear_input(p->call, 1);
    RF_TRY(pad_groups(p, &dy, g.n * g.h * g.w, g.groups, g.cig));
    RF_TRY(pad_groups(p, &kernel, g.kh * g.kw * g.cog, g.groups, g.cig));
    const int64_t in = rf_lanes_fours(g.cig), row = g.groups * in, tap = g.cog * row;
    const rf_lanes_gather product = { .conv = g,
                                      .upy = own.sy,
                                      .upx = own.sx,
                                      .columns = g.cog,
                                      .channels = in,
                                      .a_pixel = row,
                                      .b_base = (g.kh * g.kw - 1) * tap,
                                      .b_tap = -tap,
                                      .b_row = row,
                                      .b_last = g.cig - 1,
                                      .c_row = g.cout,
                                      .b_transposed = true,
                                      .z = group_strides(&g, in, in, g.cog, 0) };
    return rf_lanes_add_gather(p, &product, dy, kernel);
}

static rf_result plan_filter(rf_lanes_plan *p, bool scalar)
{
    const rf_conv_geometry g = rf_conv_geometry_of(p->call, RF_ROLE_FILTER);
    rf_binding x = rf_linear_input(p->call, 0), dy = rf_linear_input(p->call, 1);
    if (!scalar) RF_TRY(pad_groups(p, &x, g.n * g.h * g.w, g.groups, g.cig));
    RF_TRY(pad_groups(p, &dy, g.n * g.oh * g.ow, g.groups, g.cog));
    const int64_t in = scalar ? g.cig : rf_lanes_fours(g.cig), out = rf_lanes_fours(g.cog);
    const rf_lanes_grad product = { .conv = g,
                                    .loads = in,
                                    .channels = g.cig,
                                    .columns = g.cog,
                                    .a_pixel = g.groups * in,
                                    .b_pixel = g.groups * out,
                                    .c_row = g.cout,
                                    .scalar = scalar,
                                    .z = group_strides(&g, in, out, g.cog, g.cog),
                                    .bias_gradient = p->call->n_out > 1 };
    return rf_lanes_add_grad(p, &product, x, dy);
}

double rf_conv2d_lanes_seconds(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    const rf_piece_kernel *kernel = data;
    const rf_conv_geometry g = rf_conv_geometry_of(call, kernel->role);
    const int64_t channels = g.role == RF_ROLE_DATA ? g.cog : g.cig, taps = g.kh * g.kw;
    const bool scalar = kernel->scalar;
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
    return kernel->role == RF_ROLE_FILTER ? plan_filter(&p, kernel->scalar) : plan_forward(&p, kernel->scalar);
}
