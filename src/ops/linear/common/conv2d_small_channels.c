/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions of few input channels, as first layers have. What is loaded is used for few products, so these kernels
 * keep windows of pixels and channels in registers, and make no tiles of a product. */
#include <string.h>

#include "ops/linear/common/conv2d.h"
#include "rf_shaders.h"

enum { MOST_CHANNELS = 4, CHANNELS_AT_ONCE = 8, SUMS = 16 /* of a lane */ };

/* How many lanes of a subgroup lie along channels, and the shaders for subgroups of 8 and of 16; 0: the form without
 * lanes. */
typedef struct variant {
    const rf_shader *shader, *shader_of_16;
    uint32_t column_lanes;
} variant;

/* Lanes of the device's subgroups; 0: none that these kernels are made for. */
static uint32_t lanes_of(const rf_device_caps *caps)
{
    return caps->subgroup_size == 8 || caps->subgroup_size == 16 ? caps->subgroup_size : 0;
}

static const rf_shader *shader_for(variant v, uint32_t lanes)
{
    return lanes == 16 ? v.shader_of_16 : v.shader;
}

/* Of shaders/linear/common/conv2d_small_channels.comp. The first word is the number of images. */
typedef struct push {
    int32_t images, units, column_units, line;
    uint32_t by_line, line_shift, by_columns, columns_shift;
    int32_t in_h, in_w, out_h, out_w, channels, columns, kernel_w, summands;
    int32_t stride_y, stride_x, step_y, step_x, first_y, first_x;
} push;
_Static_assert(sizeof(push) <= RF_MAX_PUSH, "push constants of conv2d_small_channels.comp");

/* `threads`: of a unit, one or the lanes of a subgroup. */
static bool make_push(const rf_conv_geometry *g, variant v, uint32_t threads, push *p, double *waste)
{
    const uint64_t lanes = v.column_lanes ? v.column_lanes : 1;
    const uint64_t at_once = v.column_lanes ? SUMS / 4 * (threads / lanes) : 1; /* windows */
    const uint64_t line = rf_div_up((uint64_t)g->ow, 2), windows = rf_div_up((uint64_t)g->oh, 2) * line;
    const uint64_t column_units = rf_div_up((uint64_t)g->cout, CHANNELS_AT_ONCE * lanes);
    const uint64_t units = rf_div_up(windows, at_once) * column_units;
    if (units * threads > INT32_MAX) return false;
    const rf_magic by_line = rf_magic_make((uint32_t)line), by_columns = rf_magic_make((uint32_t)column_units);
    *p = (push){ .units = (int32_t)units,
                 .column_units = (int32_t)column_units,
                 .line = (int32_t)line,
                 .by_line = by_line.magic,
                 .line_shift = by_line.shift,
                 .by_columns = by_columns.magic,
                 .columns_shift = by_columns.shift,
                 .in_h = (int32_t)g->h,
                 .in_w = (int32_t)g->w,
                 .out_h = (int32_t)g->oh,
                 .out_w = (int32_t)g->ow,
                 .channels = (int32_t)g->cin,
                 .columns = (int32_t)g->cout,
                 .kernel_w = (int32_t)g->kw,
                 .summands = (int32_t)(g->kh * g->kw * g->cin),
                 .stride_y = (int32_t)g->sy,
                 .stride_x = (int32_t)g->sx,
                 .step_y = (int32_t)g->dy,
                 .step_x = (int32_t)g->dx,
                 .first_y = -(int32_t)g->pt,
                 .first_x = -(int32_t)g->pl };
    *waste = (double)(units * at_once * 4 * CHANNELS_AT_ONCE * lanes) / (double)(g->oh * g->ow * g->cout);
    return true;
}

static bool make_job(const rf_op_call *call, const rf_device_caps *caps, variant v, rf_row_job *job, double *waste)
{
    const rf_conv_geometry g = rf_conv_geometry_of(call);
    const rf_conv2d_attr *attr = call->attr;
    const uint32_t threads = v.column_lanes ? lanes_of(caps) : 1;
    push p;
    if (threads == 0 || (v.column_lanes && !rf_flat_texels(caps))) return false;
    if (g.groups > 1 || g.cin > MOST_CHANNELS || !make_push(&g, v, threads, &p, waste)) return false;
    const uint64_t kernel = rf_tensor_bytes(&call->in[1]);
    if (v.column_lanes && kernel / sizeof(float) > caps->max_texel_elements) return false;
    const uint32_t step = v.column_lanes ? 9 : 3;
    *job = (rf_row_job){ .shader = shader_for(v, threads),
                         .grid = RF_GRID_IMAGES,
                         .local = v.column_lanes ? threads : rf_local_size(caps, 64),
                         .rows = (uint64_t)g.n,
                         .threads_per_row = (uint64_t)p.units * threads,
                         .loops = rf_div_up((uint64_t)p.summands, step) + 1,
                         .n_push = sizeof(p) / sizeof(uint32_t) };
    memcpy(job->push, &p, sizeof(p));
    const bool bias = call->n_in == 3, pool = call->n_out > 1;
    const uint32_t spec[] = { attr->activation,
                              bias,
                              rf_conv_reads_padding(&g),
                              g.cout % CHANNELS_AT_ONCE == 0,
                              pool,
                              (uint32_t)p.summands <= step };
    for (uint32_t i = 0; i < RF_LENGTH(spec); i++) job->spec[job->n_spec++] = spec[i];
    const uint64_t x = (uint64_t)(g.h * g.w * g.cin), y = (uint64_t)(g.oh * g.ow * g.cout);
    const uint64_t pooled = (uint64_t)((g.oh / 2) * (g.ow / 2) * g.cout);
    rf_row_job_tensor(job, RF_BIND_INPUT, 0, x * sizeof(float));
    rf_row_job_tensor(job, RF_BIND_INPUT, 1, 0);
    rf_row_job_tensor(job, RF_BIND_INPUT, 1, 0);
    if (v.column_lanes) {
        job->tensors[0].view = job->tensors[2].view = RF_VIEW_TEXEL_R32F;
        job->tensors[1].view = g.cout % 4 == 0 ? RF_VIEW_TEXEL_RGBA32F : RF_VIEW_TEXEL_R32F;
    }
    for (int i = 0; i < 2; i++) rf_row_job_tensor(job, RF_BIND_OUTPUT, 0, y * sizeof(float));
    for (int i = 0; i < 2; i++) rf_row_job_tensor(job, RF_BIND_OUTPUT, pool, (pool ? pooled : y) * sizeof(float));
    rf_row_job_tensor(job, RF_BIND_INPUT, bias ? 2 : 1, 0);
    if (v.column_lanes)
        job->tensors[7].view = g.cout % CHANNELS_AT_ONCE == 0 ? RF_VIEW_TEXEL_RGBA32F : RF_VIEW_TEXEL_R32F;
    return true;
}

static double score_of(const rf_op_call *call, const rf_device_caps *caps, variant v)
{
    rf_row_job job;
    double waste;
    if (rf_call_is_narrow(call)) return RF_SCORE_NONE;
    if (!make_job(call, caps, v, &job, &waste) || rf_row_job_score(&job, caps) == RF_SCORE_NONE) return RF_SCORE_NONE;
    const double dispatches = (double)rf_div_up(job.rows, rf_row_job_chunk(&job, caps));
    const double flops = call->op->cost(call).flops * waste;
    if (!caps->is_cpu) {
        /* A fifth of what a compute unit multiplies: 64 lanes at 1.5 GHz. */
        const double units = caps->compute_units > 0 ? caps->compute_units : 1;
        return rf_score_of_time(5e-6 * dispatches + flops / (units * 40e9)) * (v.column_lanes ? RF_SCORE_FOREIGN : 1);
    }
    double rate = caps->driver != RF_DRIVER_LAVAPIPE || v.column_lanes == 0 ? 4e9 : v.column_lanes == 4 ? 75e9 : 65e9;
    if (v.column_lanes > 0 && lanes_of(caps) == 16) rate *= 0.6;
    return rf_score_of_time(flops / rate + 3e-5 * dispatches);
}

static rf_result plan_of(const rf_op_call *call, const rf_device_caps *caps, variant v, rf_kernel_plan *plan)
{
    rf_row_job job;
    double waste;
    if (!make_job(call, caps, v, &job, &waste))
        return RF_FAIL(RF_ERROR_INTERNAL, "%s: no convolution of few channels", call->op->name);
    return rf_row_job_plan(&job, caps, plan);
}

/* On devices with shared memory there are kernels that read and write 16 bits by themselves: such calls come here as
 * they are, and are left to those. */
static bool takes_narrow(const rf_op_call *call, const rf_device_caps *caps)
{
    (void)call;
    return !caps->is_cpu;
}

#define FEW(id, text, ...)                                                                                             \
    RF_VARIANT_THAT(, id, text, score_of, plan_of, ((variant){ __VA_ARGS__ }), .finishes = true, .narrow = takes_narrow)
FEW(rf_conv2d_few, "few", &rf_shader_conv2d_few, NULL, 0);
FEW(rf_conv2d_few_16, "few_16", &rf_shader_conv2d_few_lanes8_16, &rf_shader_conv2d_few_lanes16_16, 2);
FEW(rf_conv2d_few_32, "few_32", &rf_shader_conv2d_few_lanes8_32, &rf_shader_conv2d_few_lanes16_32, 4);

/* ---- the gradient by the kernel ---- */

/* Of shaders/linear/cpu/conv2d_small_channels_filter.comp. */
typedef struct filter_push {
    int32_t total, tap_units, column_units, windows, split, line, lines;
    uint32_t by_line, line_shift, by_lines, lines_shift;
    int32_t in_h, in_w, out_h, out_w, channels, columns, kernel_w, summands;
    int32_t stride_y, stride_x, step_y, step_x, first_y, first_x, part_size, bias_at;
} filter_push;
_Static_assert(sizeof(filter_push) <= RF_MAX_PUSH, "push constants of conv2d_small_channels_filter.comp");

enum { TAPS = 9 };

static bool is_pooled(const rf_op_call *call)
{
    return call->op == &rf_op_conv2d_pool_filter_grad;
}

/* Which tensors the shader reads as texels. */
static bool texels_fit(const rf_op_call *call, const rf_device_caps *caps)
{
    for (uint32_t i = 0; i < call->n_in; i++)
        if (!(call->op->shape_only >> i & 1) && rf_desc_count(&call->in[i]) > caps->max_texel_elements) return false;
    return rf_fits_storage(call, caps);
}

static bool filter_push_make(const rf_op_call *call, const rf_device_caps *caps, variant v, filter_push *p,
                             int64_t *parts)
{
    const rf_conv_geometry g = rf_conv_geometry_of(call);
    const int64_t lanes = lanes_of(caps);
    if (g.groups > 1 || g.cin > MOST_CHANNELS || lanes == 0 || !caps->full_subgroups || !caps->subgroup_shuffle ||
        !texels_fit(call, caps))
        return false;
    const int64_t over = is_pooled(call) ? 0 : 1, line = (g.ow + over) / 2, lines = (g.oh + over) / 2;
    const int64_t windows = g.n * line * lines, abreast = lanes / v.column_lanes, summands = g.kh * g.kw * g.cin;
    const uint64_t tap_units = rf_div_up((uint64_t)summands, TAPS);
    const uint64_t column_units = rf_div_up((uint64_t)g.cout, CHANNELS_AT_ONCE * v.column_lanes);
    if (windows > INT32_MAX / (2 * abreast)) return false;
    *parts = rf_lanes_parts(tap_units * column_units, 32, windows, 32 * abreast,
                            rf_loop_limit(caps) / 2 * (uint64_t)abreast);
    const int64_t split = (int64_t)rf_div_up((uint64_t)windows, (uint64_t)(*parts * abreast));
    *parts = (int64_t)rf_div_up((uint64_t)windows, (uint64_t)(split * abreast));
    const uint64_t total = (uint64_t)*parts * tap_units * column_units;
    const int64_t size = rf_align_up((uint64_t)((summands + (call->n_out > 1)) * g.cout), 4);
    if (total > INT32_MAX || (uint64_t)(*parts * size) * sizeof(float) > caps->max_storage_range) return false;
    const rf_magic by_line = rf_magic_make((uint32_t)line), by_lines = rf_magic_make((uint32_t)lines);
    *p = (filter_push){ .total = (int32_t)total,
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

static double filter_score(const rf_op_call *call, const rf_device_caps *caps, variant v)
{
    filter_push p;
    int64_t parts;
    if (!filter_push_make(call, caps, v, &p, &parts) || (uint64_t)parts + 1 > rf_loop_limit(caps)) return RF_SCORE_NONE;
    /* Seconds of a turn, as measured: loads take as long as products. More lanes along columns share them better. */
    double turn = is_pooled(call) ? 0.2e-6 : 0.27e-6;
    if (p.columns % CHANNELS_AT_ONCE != 0) turn *= 1.4;
    if (v.column_lanes == 2) turn *= 1.1;
    if (caps->driver != RF_DRIVER_LAVAPIPE) turn *= 10;
    if (lanes_of(caps) == 16) turn *= 3; /* twice as many windows in each */
    return rf_score_of_time((double)p.total * p.split * turn + 6e-5);
}

static rf_result filter_plan(const rf_op_call *call, const rf_device_caps *caps, variant v, rf_kernel_plan *plan)
{
    const rf_conv_geometry g = rf_conv_geometry_of(call);
    filter_push p;
    int64_t parts;
    if (!filter_push_make(call, caps, v, &p, &parts))
        return RF_FAIL(RF_ERROR_INTERNAL, "%s: no convolution of few channels", call->op->name);
    const bool pooled = is_pooled(call);
    rf_lanes_plan lanes = { .call = call, .caps = caps, .plan = plan };
    const rf_binding partial = rf_lanes_workspace(&lanes, (uint64_t)(parts * p.part_size) * sizeof(float));
    rf_dispatch *d = rf_kernel_plan_add(plan, shader_for(v, lanes_of(caps)), (uint64_t)p.split + 1);
    if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_dispatch_spec(d, lanes_of(caps));
    rf_dispatch_spec(d, rf_conv_reads_padding(&g));
    rf_dispatch_spec(d, g.cout % CHANNELS_AT_ONCE == 0);
    rf_dispatch_spec(d, pooled);
    rf_dispatch_spec(d, pooled && ((const rf_conv2d_attr *)call->attr)->relu_mask);
    rf_dispatch_push(d, &p, sizeof(p));
    rf_lanes_bind(d, rf_lanes_input(call, 0), RF_VIEW_TEXEL_R32F, false);
    rf_lanes_bind(d, rf_lanes_input(call, 1), RF_VIEW_TEXEL_RGBA32F, false);
    rf_lanes_bind(d, rf_lanes_input(call, pooled ? 3 : 1), RF_VIEW_TEXEL_RGBA32F, false);
    rf_lanes_bind(d, partial, RF_VIEW_STORAGE, true);
    rf_dispatch_groups(d, caps, (uint64_t)p.total);
    const uint64_t extra = call->n_out > 1 ? (uint64_t)g.cout : 0;
    return rf_lanes_add_sum(&lanes, partial, parts, (uint64_t)p.part_size, (uint64_t)(p.summands * p.columns) + extra,
                            extra, g.cout, RF_ACTIVATION_LINEAR, false);
}

RF_VARIANT(, rf_conv2d_filter_grad_few_16, "few_16", filter_score, filter_plan,
           ((variant){ &rf_shader_conv2d_few_filter_lanes8_16, &rf_shader_conv2d_few_filter_lanes16_16, 2 }));
RF_VARIANT(, rf_conv2d_filter_grad_few_32, "few_32", filter_score, filter_plan,
           ((variant){ &rf_shader_conv2d_few_filter_lanes8_32, &rf_shader_conv2d_few_filter_lanes16_32, 4 }));
