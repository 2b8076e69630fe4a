/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/linear/cpu/conv2d_winograd_product.h"
#include "rf_shaders.h"

bool rf_winograd_product_of(const rf_op_call *call, const rf_conv_geometry *own, rf_winograd_product *p)
{
    const bool forward = own->role == RF_ROLE_FORWARD;
    const rf_conv_geometry g = forward ? *own : rf_conv_geometry_turned(own);
    if (own->kh != 3 || own->kw != 3 || own->sy != 1 || own->sx != 1 || own->dy != 1 || own->dx != 1 ||
        own->groups != 1)
        return false;
    if (own->pt >= 32768 || own->pl >= 32768) return false; /* they travel in 16 bits */
    const int64_t tap = g.cin * g.cout;
    *p = (rf_winograd_product){ .conv = g,
                                .base = forward ? 0 : 8 * tap,
                                .tap = forward ? tap : -tap,
                                .row = forward ? g.cout : 1,
                                .column = forward ? 1 : g.cin,
                                .activation = forward ? ((const rf_conv2d_attr *)call->attr)->activation : 0,
                                .bias = forward && call->n_in == 3 };
    return true;
}

double rf_winograd_seconds_of(const rf_lanes_set *set, const rf_op_call *call, const rf_device_caps *caps,
                              const rf_conv_geometry *own, const rf_winograd_product *p, double seconds)
{
    const double direct =
        rf_cpu_direct_3x3_loop_seconds(p->conv.n * p->conv.oh * p->conv.ow, p->conv.cout, p->conv.cin);
    return rf_cpu_seconds_beside(set, call, caps, own, seconds, direct);
}

uint64_t rf_winograd_kernel_fours(const rf_winograd_product *g, uint32_t tile_columns, uint32_t side)
{
    return (uint64_t)rf_lanes_fours(g->conv.cin) * side * side * rf_align_up((uint64_t)g->conv.cout, tile_columns);
}

rf_result rf_winograd_add_kernels(rf_lanes_plan *p, const rf_winograd_product *g, const rf_shader *shader,
                                  uint32_t tile_columns, uint32_t side, rf_binding *io)
{
    const uint64_t fours = rf_winograd_kernel_fours(g, tile_columns, side), total = fours / (side * side);
    const int64_t tile_fours = tile_columns / 4, tile_channels = tile_fours * rf_lanes_fours(g->conv.cin) * 4;
    const rf_push_winograd_pack push = { .total = (int32_t)total,
                                         .tile = (int32_t)tile_fours,
                                         .tile_channels = (int32_t)tile_channels,
                                         .channels = (int32_t)g->conv.cin,
                                         .columns = (int32_t)g->conv.cout,
                                         .base = (int32_t)g->base,
                                         .tap = (int32_t)g->tap,
                                         .row = (int32_t)g->row,
                                         .column = (int32_t)g->column };
    const rf_binding to = rf_linear_workspace(p->plan, p->caps, fours * 16);
    rf_dispatch *d = rf_kernel_plan_add(p->plan, shader, RF_NO_LOOPS);
    if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_dispatch_spec(d, rf_local_size(p->caps, 128));
    rf_linear_bind(d, *io, RF_VIEW_TEXEL_R32F, false);
    rf_linear_bind(d, to, RF_VIEW_STORAGE, true);
    rf_dispatch_push(d, &push, sizeof(push));
    rf_dispatch_items(d, p->caps, total);
    d->concurrent = p->plan->count > 1; /* with what pads the images */
    *io = to;
    return RF_OK;
}

void rf_winograd_bind(rf_lanes_plan *p, rf_dispatch *d, const rf_winograd_product *g, rf_binding images,
                      rf_binding kernels)
{
    rf_dispatch_spec(d, p->set->lanes);
    rf_dispatch_spec(d, g->activation);
    rf_dispatch_spec(d, g->bias);
    rf_dispatch_spec(d, rf_lanes_row_width(g->conv.cout));
    rf_linear_bind(d, images, RF_VIEW_TEXEL_RGBA32F, false);
    rf_linear_bind(d, kernels, RF_VIEW_TEXEL_RGBA32F, false);
    rf_linear_bind(d, g->bias ? rf_linear_input(p->call, 2) : kernels, RF_VIEW_STORAGE, false);
    rf_bind_whole(d, RF_BIND_OUTPUT, 0);
    rf_bind_whole(d, RF_BIND_OUTPUT, 0);
}
