/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients of convolutions with respect to images of few channels, which are what a transposed convolution makes of
 * its last layer, too. As products they would leave most lanes of a column unused. On lavapipe, whose loads of texels
 * cost more than what is computed with them. */
#include "ops/linear/common/conv2d.h"
#include "ops/linear/cpu/kernels.h"
#include "ops/linear/cpu/model.h"
#include "rf_shaders.h"

enum { TILE = 4, WINDOW = 3, MOST_ELEMENTS = 1 << 30 };

static bool make_job(const rf_op_call *call, const rf_device_caps *caps, rf_row_job *job)
{
    const rf_conv_geometry g = rf_conv_geometry_of(call, RF_ROLE_DATA);
    if (caps->driver != RF_DRIVER_LAVAPIPE || !rf_flat_texels(caps)) return false;
    if (g.groups > 1 || g.cin > RF_SMALL_CHANNELS || g.kh != WINDOW || g.kw != WINDOW) return false;
    if (g.sy != 1 || g.sx != 1 || g.dy != 1 || g.dx != 1) return false;
    const uint64_t x = (uint64_t)(g.h * g.w * g.cin), y = (uint64_t)(g.oh * g.ow * g.cout);
    const uint64_t kernel = (uint64_t)(WINDOW * WINDOW * g.cin * g.cout);
    const bool fours = g.cout % 4 == 0;
    const uint64_t at_once = fours ? 4 : 1, most = y > kernel ? y : kernel;
    if (most / at_once > caps->max_texel_elements || (uint64_t)g.n * (x > y ? x : y) > MOST_ELEMENTS) return false;
    const int64_t across = (g.w + TILE - 1) / TILE;
    const rf_push_conv2d_small_channels_data p = { .tiles = (int32_t)((g.h + TILE - 1) / TILE * across),
                                                   .across = (int32_t)across,
                                                   .channels = (int32_t)g.cin,
                                                   .vectors = (int32_t)((uint64_t)g.cout / at_once),
                                                   .in_h = (int32_t)g.oh,
                                                   .in_w = (int32_t)g.ow,
                                                   .out_h = (int32_t)g.h,
                                                   .out_w = (int32_t)g.w,
                                                   .first_y = (int32_t)(g.pt - (WINDOW - 1)),
                                                   .first_x = (int32_t)(g.pl - (WINDOW - 1)) };
    *job = (rf_row_job){ .shader = fours ? &rf_shader_conv2d_few_data_fours : &rf_shader_conv2d_few_data,
                         .grid = RF_GRID_IMAGES,
                         .local = rf_local_size(caps, caps->subgroup_size),
                         .rows = (uint64_t)g.n,
                         .threads_per_row = (uint64_t)p.tiles * (uint64_t)g.cin,
                         .loops = (uint64_t)p.vectors };
    RF_ROW_JOB_PUSH(job, p, images);
    rf_row_job_tensor(job, RF_BIND_INPUT, 0, y * sizeof(float));
    rf_row_job_tensor(job, RF_BIND_INPUT, 1, 0);
    rf_row_job_tensor(job, RF_BIND_OUTPUT, 0, x * sizeof(float));
    job->tensors[0].view = job->tensors[1].view = fours ? RF_VIEW_TEXEL_RGBA32F : RF_VIEW_TEXEL_R32F;
    return true;
}

double rf_small_channels_data_score(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    rf_row_job job;
    if (!make_job(call, caps, &job) || rf_row_job_score(&job, caps) == RF_SCORE_NONE) return RF_SCORE_NONE;
    const rf_conv_geometry g = rf_conv_geometry_of(call, RF_ROLE_DATA);
    const double dispatches = (double)rf_div_up(job.rows, rf_row_job_chunk(&job, caps));
    const double pixels = (double)(job.rows * job.threads_per_row) * TILE * TILE; /* with those beyond edges */
    const double flops = 2 * pixels * WINDOW * WINDOW * (double)g.cout;
    return rf_score_of_time(rf_cpu_small_channels_data_seconds(flops, g.cout % 4 == 0, dispatches));
}

rf_result rf_small_channels_data_plan(const rf_op_call *call, const rf_device_caps *caps, const void *data,
                                      rf_kernel_plan *plan)
{
    rf_row_job job;
    if (!make_job(call, caps, &job)) return RF_FAIL(RF_ERROR_INTERNAL, "%s: no image of few channels", call->op->name);
    return rf_row_job_plan(&job, caps, plan);
}
