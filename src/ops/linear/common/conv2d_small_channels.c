/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions of few input channels, as first layers have. Loads are used for few products, so these kernels
 * keep windows of pixels and channels in registers, and make no tiles of a product. */
#include "ops/linear/common/conv2d.h"
#include "rf_shaders.h"

enum { SUMS = 16 /* of a lane */ };

typedef rf_push_conv2d_small_channels push;

/* `threads`: of a unit, one or the lanes of a subgroup. */
static bool make_push(const rf_conv_geometry *g, const rf_small_channels *v, uint32_t threads, push *p, double *waste)
{
    const uint64_t lanes = v->column_lanes ? v->column_lanes : 1;
    const uint64_t at_once = v->column_lanes ? SUMS / 4 * (threads / lanes) : 1; /* windows */
    const uint64_t line = rf_div_up((uint64_t)g->ow, 2), windows = rf_div_up((uint64_t)g->oh, 2) * line;
    const uint64_t column_units = rf_div_up((uint64_t)g->cout, RF_SMALL_CHANNELS_AT_ONCE * lanes);
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
    *waste = (double)(units * at_once * 4 * RF_SMALL_CHANNELS_AT_ONCE * lanes) / (double)(g->oh * g->ow * g->cout);
    return true;
}

bool rf_small_channels_job(const rf_op_call *call, const rf_device_caps *caps, const rf_small_channels *v,
                           rf_row_job *job, double *waste)
{
    const rf_conv_geometry g = rf_conv_geometry_of(call, RF_ROLE_FORWARD);
    const rf_conv2d_attr *attr = call->attr;
    const uint32_t threads = v->column_lanes ? caps->subgroup_size : 1;
    push p;
    if (v->column_lanes && !rf_flat_texels(caps)) return false;
    if (g.groups > 1 || g.cin > RF_SMALL_CHANNELS || !make_push(&g, v, threads, &p, waste)) return false;
    const uint64_t kernel = rf_tensor_bytes(&call->in[1]);
    if (v->column_lanes && kernel / sizeof(float) > caps->max_texel_elements) return false;
    const uint32_t step = v->column_lanes ? 9 : 3;
    *job = (rf_row_job){ .shader = v->shader,
                         .grid = RF_GRID_IMAGES,
                         .local = v->column_lanes ? threads : rf_local_size(caps, 64),
                         .rows = (uint64_t)g.n,
                         .threads_per_row = (uint64_t)p.units * threads,
                         .loops = rf_div_up((uint64_t)p.summands, step) + 1 };
    RF_ROW_JOB_PUSH(job, p, images);
    const bool bias = call->n_in == 3, pool = call->n_out > 1;
    const uint32_t spec[] = { attr->activation,
                              bias,
                              rf_conv_reads_padding(&g),
                              g.cout % RF_SMALL_CHANNELS_AT_ONCE == 0,
                              pool,
                              (uint32_t)p.summands <= step };
    for (uint32_t i = 0; i < RF_LENGTH(spec); i++) job->spec[job->n_spec++] = spec[i];
    const uint64_t x = (uint64_t)(g.h * g.w * g.cin), y = (uint64_t)(g.oh * g.ow * g.cout);
    const uint64_t pooled = (uint64_t)((g.oh / 2) * (g.ow / 2) * g.cout);
    rf_row_job_tensor(job, RF_BIND_INPUT, 0, x * sizeof(float));
    rf_row_job_tensor(job, RF_BIND_INPUT, 1, 0);
    rf_row_job_tensor(job, RF_BIND_INPUT, 1, 0);
    if (v->column_lanes) {
        job->tensors[0].view = job->tensors[2].view = RF_VIEW_TEXEL_R32F;
        job->tensors[1].view = g.cout % 4 == 0 ? RF_VIEW_TEXEL_RGBA32F : RF_VIEW_TEXEL_R32F;
    }
    for (int i = 0; i < 2; i++) rf_row_job_tensor(job, RF_BIND_OUTPUT, 0, y * sizeof(float));
    for (int i = 0; i < 2; i++) rf_row_job_tensor(job, RF_BIND_OUTPUT, pool, (pool ? pooled : y) * sizeof(float));
    rf_row_job_tensor(job, RF_BIND_INPUT, bias ? 2 : 1, 0);
    if (v->column_lanes)
        job->tensors[7].view = g.cout % RF_SMALL_CHANNELS_AT_ONCE == 0 ? RF_VIEW_TEXEL_RGBA32F : RF_VIEW_TEXEL_R32F;
    return true;
}

/* Flops in a second and seconds of a dispatch, without lanes along channels. On a GPU a fifth of what a compute unit
 * multiplies: 64 lanes at 1.5 GHz. */
#define CPU_FLOPS 4e9
#define CPU_DISPATCH 3e-5
#define GPU_UNIT_FLOPS 40e9
#define GPU_DISPATCH 5e-6

double rf_small_channels_score(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    rf_row_job job;
    double waste;
    if (rf_call_is_narrow(call)) return RF_SCORE_NONE;
    if (!rf_small_channels_job(call, caps, data, &job, &waste) || rf_row_job_score(&job, caps) == RF_SCORE_NONE)
        return RF_SCORE_NONE;
    const double dispatches = (double)rf_div_up(job.rows, rf_row_job_chunk(&job, caps));
    const double flops = call->op->cost(call).flops * waste;
    const double units = caps->compute_units > 0 ? caps->compute_units : 1;
    return rf_score_of_time(caps->is_cpu ? flops / CPU_FLOPS + CPU_DISPATCH * dispatches
                                         : GPU_DISPATCH * dispatches + flops / (units * GPU_UNIT_FLOPS));
}

rf_result rf_small_channels_plan(const rf_op_call *call, const rf_device_caps *caps, const void *data,
                                 rf_kernel_plan *plan)
{
    rf_row_job job;
    double waste;
    if (!rf_small_channels_job(call, caps, data, &job, &waste))
        return RF_FAIL(RF_ERROR_INTERNAL, "%s: no convolution of few channels", call->op->name);
    return rf_row_job_plan(&job, caps, plan);
}

/* On devices with shared memory there are kernels that read and write 16 bits by themselves: such calls come here as
 * they are, and are left to those. */
bool rf_small_channels_narrow(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    (void)call;
    return !caps->is_cpu;
}
