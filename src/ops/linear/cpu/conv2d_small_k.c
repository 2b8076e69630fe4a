/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions whose sums have nine summands, as first layers of one channel have, 32 columns at a time, for
 * SwiftShader: one dispatch for each 32. */
#include "ops/linear/common/conv2d.h"
#include "ops/linear/cpu/kernels.h"
#include "ops/linear/cpu/model.h"
#include "rf_shaders.h"

enum { SUMMANDS = 9, COLUMNS = 32, MOST_COLUMNS = 256 };

static bool small_k_push_of(const rf_op_call *call, const rf_device_caps *caps, rf_push_conv2d_small_k *p)
{
    const rf_conv_geometry g = rf_conv_geometry_of(call, RF_ROLE_FORWARD);
    if (g.groups > 1 || g.kh * g.kw * g.cin != SUMMANDS || !rf_fits_storage(call, caps)) return false;
    if (g.cout % COLUMNS != 0 || g.cout > MOST_COLUMNS) return false;
    if (g.cout > COLUMNS && COLUMNS * sizeof(float) % caps->buffer_alignment != 0) return false;
    const int64_t line = (g.ow + 1) / 2, lines = (g.oh + 1) / 2, windows = g.n * lines * line;
    const int64_t lanes = caps->subgroup_size;
    if (windows > INT32_MAX / 2 || lanes == 0) return false;
    const uint64_t turns = rf_div_up((uint64_t)windows, (uint64_t)lanes);
    const int64_t parts = rf_linear_parts(1, 32, (int64_t)turns, 8, rf_loop_limit(caps) / 2);
    const uint64_t split = rf_div_up(turns, (uint64_t)parts);
    const rf_magic by_line = rf_magic_make((uint32_t)line), by_lines = rf_magic_make((uint32_t)lines);
    *p = (rf_push_conv2d_small_k){ .total = (int32_t)rf_div_up(turns, split),
                                   .windows = (int32_t)windows,
                                   .split = (int32_t)split,
                                   .line = (int32_t)line,
                                   .lines = (int32_t)lines,
                                   .by_line = by_line.magic,
                                   .line_shift = by_line.shift,
                                   .by_lines = by_lines.magic,
                                   .lines_shift = by_lines.shift,
                                   .in_h = (int32_t)g.h,
                                   .in_w = (int32_t)g.w,
                                   .out_h = (int32_t)g.oh,
                                   .out_w = (int32_t)g.ow,
                                   .channels = (int32_t)g.cin,
                                   .columns = (int32_t)g.cout,
                                   .kernel_w = (int32_t)g.kw,
                                   .stride_y = (int32_t)g.sy,
                                   .stride_x = (int32_t)g.sx,
                                   .step_y = (int32_t)g.dy,
                                   .step_x = (int32_t)g.dx,
                                   .first_y = -(int32_t)g.pt,
                                   .first_x = -(int32_t)g.pl };
    return true;
}

double rf_small_k_score(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    rf_push_conv2d_small_k p;
    /* Each sum carries its activation: only those that are short. */
    if (!caps->is_cpu || rf_call_is_narrow(call) ||
        ((const rf_conv2d_attr *)call->attr)->activation > RF_ACTIVATION_LEAKY_RELU || !small_k_push_of(call, caps, &p))
        return RF_SCORE_NONE;
    const double flops = (double)p.windows * 4 * p.columns * 2 * SUMMANDS;
    return rf_score_of_time(rf_cpu_small_k_seconds(caps, flops));
}

static rf_result add_columns(rf_lanes_plan *lanes, const rf_push_conv2d_small_k *p, rf_binding kernel)
{
    const rf_op_call *call = lanes->call;
    const rf_conv_geometry g = rf_conv_geometry_of(call, RF_ROLE_FORWARD);
    const bool bias = call->n_in == 3, pool = call->n_out > 1;
    rf_dispatch *d = rf_kernel_plan_add(lanes->plan, &rf_shader_conv2d_nine, (uint64_t)p->split + 1);
    if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_dispatch_spec(d, lanes->caps->subgroup_size);
    rf_dispatch_spec(d, ((const rf_conv2d_attr *)call->attr)->activation);
    rf_dispatch_spec(d, bias);
    rf_dispatch_spec(d, rf_conv_reads_padding(&g));
    rf_dispatch_spec(d, pool);
    rf_dispatch_push(d, p, sizeof(*p));
    rf_dispatch_groups(d, lanes->caps, (uint64_t)p->total);
    d->concurrent = p->first_column > 0; /* beside the columns before */
    rf_binding add = kernel;
    if (bias) {
        add = rf_linear_input(call, 2);
        add.offset = (uint64_t)p->first_column * sizeof(float);
        add.size = COLUMNS * sizeof(float);
    }
    rf_linear_bind(d, rf_linear_input(call, 0), RF_VIEW_STORAGE, false);
    rf_linear_bind(d, kernel, RF_VIEW_STORAGE, false);
    rf_linear_bind(d, add, RF_VIEW_STORAGE, false);
    rf_bind_whole(d, RF_BIND_OUTPUT, 0);
    rf_bind_whole(d, RF_BIND_OUTPUT, pool);
    return RF_OK;
}

rf_result rf_small_k_plan(const rf_op_call *call, const rf_device_caps *caps, const void *data, rf_kernel_plan *plan)
{
    rf_push_conv2d_small_k p;
    if (!small_k_push_of(call, caps, &p))
        return RF_FAIL(RF_ERROR_INTERNAL, "%s: no convolution of nine summands", call->op->name);
    rf_lanes_plan lanes = { .set = &rf_lanes4_quad, .call = call, .caps = caps, .plan = plan };
    rf_binding kernel = rf_linear_input(call, 1);
    const int64_t tiles = p.columns / COLUMNS;
    if (tiles > 1)
        RF_TRY(rf_lanes_pack(&lanes, &kernel, (const int64_t[]){ 1, tiles, SUMMANDS, COLUMNS },
                             (const int64_t[]){ 0, COLUMNS, p.columns, 1 }));
    kernel.size = SUMMANDS * COLUMNS * sizeof(float);
    for (int64_t i = 0; i < tiles; i++) {
        p.first_column = (int32_t)(i * COLUMNS);
        RF_TRY(add_columns(&lanes, &p, kernel));
        kernel.offset += kernel.size;
    }
    return RF_OK;
}
