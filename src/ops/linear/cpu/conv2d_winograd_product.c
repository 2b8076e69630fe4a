/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/linear/cpu/conv2d_winograd_product.h"

bool rf_block_product_of(const rf_op_call *call, rf_block_product *p)
{
    const bool forward = call->op == &rf_op_conv2d;
    const rf_conv_geometry own = rf_conv_geometry_of(call), g = forward ? own : rf_conv_geometry_turned(&own);
    if (own.kh != 3 || own.kw != 3 || own.sy != 1 || own.sx != 1 || own.dy != 1 || own.dx != 1 || own.groups != 1)
        return false;
    if (own.pt >= 32768 || own.pl >= 32768) return false; /* they travel in 16 bits */
    const int64_t tap = g.cin * g.cout;
    *p = (rf_block_product){ .n = g.n,
                             .h = g.h,
                             .w = g.w,
                             .oh = g.oh,
                             .ow = g.ow,
                             .pt = g.pt,
                             .pl = g.pl,
                             .channels = g.cin,
                             .columns = g.cout,
                             .base = forward ? 0 : 8 * tap,
                             .tap = forward ? tap : -tap,
                             .row = forward ? g.cout : 1,
                             .column = forward ? 1 : g.cin,
                             .activation =
                                 forward ? ((const rf_conv2d_attr *)call->attr)->activation : RF_ACTIVATION_LINEAR,
                             .bias = forward && call->n_in == 3 };
    return true;
}

/* A turn is a tap of four channels. */
double rf_block_direct_seconds(const rf_block_product *g)
{
    const bool narrow = g->columns <= 16;
    const uint64_t tiles =
        rf_div_up((uint64_t)(g->n * g->oh * g->ow), 64) * rf_div_up((uint64_t)g->columns, narrow ? 16 : 32);
    const double turn = narrow ? 0.17e-6 : 0.31e-6, rest = narrow ? 2.5e-6 : 2.8e-6;
    return (double)tiles * ((double)rf_lanes_fours(g->channels) * 9 * turn + rest);
}

uint64_t rf_block_kernel_fours(const rf_block_product *g, uint32_t tile_columns, uint32_t side)
{
    return (uint64_t)rf_lanes_fours(g->channels) * side * side * rf_align_up((uint64_t)g->columns, tile_columns);
}

rf_result rf_block_add_kernels(rf_lanes_plan *p, const rf_block_product *g, const rf_shader *shader,
                               uint32_t tile_columns, uint32_t side, rf_binding *io)
{
    const uint64_t fours = rf_block_kernel_fours(g, tile_columns, side), total = fours / (side * side);
    const int64_t tile_fours = tile_columns / 4, tile_channels = tile_fours * rf_lanes_fours(g->channels) * 4;
    const int32_t push[] = { (int32_t)total,       (int32_t)tile_fours, (int32_t)tile_channels,
                             (int32_t)g->channels, (int32_t)g->columns, (int32_t)g->base,
                             (int32_t)g->tap,      (int32_t)g->row,     (int32_t)g->column };
    const rf_binding to = rf_lanes_workspace(p, fours * 16);
    rf_dispatch *d = rf_kernel_plan_add(p->plan, shader, RF_NO_LOOPS);
    if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_dispatch_spec(d, rf_local_size(p->caps, 128));
    rf_lanes_bind(d, *io, RF_VIEW_TEXEL_R32F, false);
    rf_lanes_bind(d, to, RF_VIEW_STORAGE, true);
    rf_dispatch_push(d, push, sizeof(push));
    rf_dispatch_items(d, p->caps, total);
    d->concurrent = p->plan->count > 1; /* with what pads the images */
    *io = to;
    return RF_OK;
}

void rf_block_bind(rf_lanes_plan *p, rf_dispatch *d, const rf_block_product *g, rf_binding images, rf_binding kernels)
{
    rf_dispatch_spec(d, p->set->lanes);
    rf_dispatch_spec(d, g->activation);
    rf_dispatch_spec(d, g->bias);
    rf_dispatch_spec(d, rf_lanes_row_width(g->columns));
    rf_lanes_bind(d, images, RF_VIEW_TEXEL_RGBA32F, false);
    rf_lanes_bind(d, kernels, RF_VIEW_TEXEL_RGBA32F, false);
    rf_lanes_bind(d, g->bias ? rf_lanes_input(p->call, 2) : kernels, RF_VIEW_STORAGE, false);
    rf_bind_whole(d, RF_BIND_OUTPUT, 0);
    rf_bind_whole(d, RF_BIND_OUTPUT, 0);
}
