/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions of few input channels by lanes of a subgroup that lie along channels, and their gradients by the
 * kernel. */
#include "ops/linear/common/conv2d.h"
#include "ops/linear/cpu/kernels.h"
#include "ops/linear/cpu/model.h"
#include "rf_shaders.h"

double rf_small_channels_lanes_score(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    const rf_small_channels *kernel = data;
    rf_row_job job;
    double waste;
    if (rf_call_is_narrow(call)) return RF_SCORE_NONE;
    if (!rf_small_channels_job(call, caps, kernel, &job, &waste) || rf_row_job_score(&job, caps) == RF_SCORE_NONE)
        return RF_SCORE_NONE;
    return rf_score_of_time(rf_cpu_small_channels_seconds(caps, call->op->cost(call).flops * waste,
                                                          (double)rf_div_up(job.rows, rf_row_job_chunk(&job, caps))));
}

/* ---- the gradient by the kernel ---- */

enum { TAPS = 9 };

/* Which tensors the shader reads as texels. */
static bool texels_fit(const rf_op_call *call, const rf_device_caps *caps)
{
    for (uint32_t i = 0; i < call->n_in; i++)
        if (!(call->op->shape_only >> i & 1) && rf_desc_count(&call->in[i]) > caps->max_texel_elements) return false;
    return rf_fits_storage(call, caps);
}

static bool filter_push_make(const rf_op_call *call, const rf_device_caps *caps, const rf_small_channels *v,
                             rf_push_conv2d_small_channels_filter *p, int64_t *parts)
{
    const rf_conv_geometry g = rf_conv_geometry_of(call, RF_ROLE_FILTER);
    if (g.groups > 1 || g.cin > RF_SMALL_CHANNELS || !rf_few_lanes(caps) || !caps->full_subgroups ||
        !caps->subgroup_shuffle || !texels_fit(call, caps))
        return false;
    const int64_t over = v->pooled ? 0 : 1, line = (g.ow + over) / 2, lines = (g.oh + over) / 2;
    const int64_t windows = g.n * line * lines, abreast = caps->subgroup_size / v->column_lanes,
                  summands = g.kh * g.kw * g.cin;
    const uint64_t tap_units = rf_div_up((uint64_t)summands, TAPS);
    const uint64_t column_units = rf_div_up((uint64_t)g.cout, RF_SMALL_CHANNELS_AT_ONCE * v->column_lanes);
    if (windows > INT32_MAX / (2 * abreast)) return false;
    *parts = rf_linear_parts(tap_units * column_units, 32, windows, 32 * abreast,
                             rf_loop_limit(caps) / 2 * (uint64_t)abreast);
    const int64_t split = (int64_t)rf_div_up((uint64_t)windows, (uint64_t)(*parts * abreast));
    *parts = (int64_t)rf_div_up((uint64_t)windows, (uint64_t)(split * abreast));
    const uint64_t total = (uint64_t)*parts * tap_units * column_units;
    const int64_t size = (int64_t)rf_align_up((uint64_t)((summands + (call->n_out > 1)) * g.cout), 4);
    if (total > INT32_MAX || (uint64_t)(*parts * size) * sizeof(float) > caps->max_storage_range) return false;
    const rf_magic by_line = rf_magic_make((uint32_t)line), by_lines = rf_magic_make((uint32_t)lines);
    *p = (rf_push_conv2d_small_channels_filter){ .total = (int32_t)total,
                                                 .tap_units = (int32_t)tap_units,
                                                 .column_units = (int32_t)column_units,
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
                                                 .summands = (int32_t)summands,
                                                 .stride_y = (int32_t)g.sy,
                                                 .stride_x = (int32_t)g.sx,
                                                 .step_y = (int32_t)g.dy,
                                                 .step_x = (int32_t)g.dx,
                                                 .first_y = -(int32_t)g.pt,
                                                 .first_x = -(int32_t)g.pl,
                                                 .part_size = (int32_t)size,
                                                 .bias_at = call->n_out > 1 ? (int32_t)(summands * g.cout) : -1 };
    return true;
}

double rf_small_channels_filter_score(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    const rf_small_channels *v = data;
    rf_push_conv2d_small_channels_filter p;
    int64_t parts;
    if (!filter_push_make(call, caps, v, &p, &parts) || (uint64_t)parts + 1 > rf_loop_limit(caps)) return RF_SCORE_NONE;
    return rf_score_of_time(rf_cpu_small_channels_filter_seconds(
        caps, v->pooled, p.columns % RF_SMALL_CHANNELS_AT_ONCE == 0, (double)p.total * p.split));
}

rf_result rf_small_channels_filter_plan(const rf_op_call *call, const rf_device_caps *caps, const void *data,
                                        rf_kernel_plan *plan)
{
    const rf_small_channels *v = data;
    const rf_conv_geometry g = rf_conv_geometry_of(call, RF_ROLE_FILTER);
    rf_push_conv2d_small_channels_filter p;
    int64_t parts;
    if (!filter_push_make(call, caps, v, &p, &parts))
        return RF_FAIL(RF_ERROR_INTERNAL, "%s: no convolution of few channels", call->op->name);
    const bool pooled = v->pooled;
    const rf_binding partial = rf_linear_workspace(plan, caps, (uint64_t)(parts * p.part_size) * sizeof(float));
    rf_dispatch *d = rf_kernel_plan_add(plan, v->shader, (uint64_t)p.split + 1);
    if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_dispatch_spec(d, caps->subgroup_size);
    rf_dispatch_spec(d, rf_conv_reads_padding(&g));
    rf_dispatch_spec(d, g.cout % RF_SMALL_CHANNELS_AT_ONCE == 0);
    rf_dispatch_spec(d, pooled);
    rf_dispatch_spec(d, pooled && ((const rf_conv2d_attr *)call->attr)->relu_mask);
    rf_dispatch_push(d, &p, sizeof(p));
    rf_linear_bind(d, rf_linear_input(call, 0), RF_VIEW_TEXEL_R32F, false);
    rf_linear_bind(d, rf_linear_input(call, 1), RF_VIEW_TEXEL_RGBA32F, false);
    rf_linear_bind(d, rf_linear_input(call, pooled ? 3 : 1), RF_VIEW_TEXEL_RGBA32F, false);
    rf_linear_bind(d, partial, RF_VIEW_STORAGE, true);
    rf_dispatch_groups(d, caps, (uint64_t)p.total);
    const uint64_t extra = call->n_out > 1 ? (uint64_t)g.cout : 0;
    return rf_linear_add_sum(plan, call, caps,
                             &(rf_linear_sum){ .partial = partial,
                                               .parts = parts,
                                               .stride = (uint64_t)p.part_size,
                                               .count = (uint64_t)(p.summands * p.columns) + extra,
                                               .extra = extra,
                                               .columns = g.cout });
}
