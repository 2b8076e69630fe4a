/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients of convolutions with respect to images of few channels, which are what a transposed convolution makes of
 * its last layer, too. As products they would leave most lanes of a column unused. On lavapipe, whose loads of texels
 * cost more than what is computed with them. */
#include <string.h>

#include "ops/linear/common/conv2d.h"
#include "rf_shaders.h"

enum { MOST_CHANNELS = 4, TILE = 4, WINDOW = 3, MOST_ELEMENTS = 1 << 30 };

/* Of shaders/linear/cpu/conv2d_small_channels_data.comp. The first word is the number of images. */
typedef struct push {
    int32_t images, tiles, across, channels, vectors, in_h, in_w, out_h, out_w, first_y, first_x;
} push;
_Static_assert(sizeof(push) <= RF_MAX_PUSH, "push constants of conv2d_small_channels_data.comp");

static bool make_job(const rf_op_call *call, const rf_device_caps *caps, rf_row_job *job)
{
    const rf_conv_geometry g = rf_conv_geometry_of(call);
    if (caps->driver != RF_DRIVER_LAVAPIPE || !rf_flat_texels(caps)) return false;
    if (g.groups > 1 || g.cin > MOST_CHANNELS || g.kh != WINDOW || g.kw != WINDOW) return false;
    if (g.sy != 1 || g.sx != 1 || g.dy != 1 || g.dx != 1) return false;
    const uint64_t x = (uint64_t)(g.h * g.w * g.cin), y = (uint64_t)(g.oh * g.ow * g.cout);
    const uint64_t kernel = (uint64_t)(WINDOW * WINDOW * g.cin * g.cout);
    const bool fours = g.cout % 4 == 0;
    const uint64_t at_once = fours ? 4 : 1, most = y > kernel ? y : kernel;
    if (most / at_once > caps->max_texel_elements || (uint64_t)g.n * (x > y ? x : y) > MOST_ELEMENTS) return false;
    const int64_t across = (g.w + TILE - 1) / TILE;
    const push p = { .tiles = (int32_t)((g.h + TILE - 1) / TILE * across),
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
                         .loops = (uint64_t)p.vectors,
                         .n_push = sizeof(p) / sizeof(uint32_t) };
    memcpy(job->push, &p, sizeof(p));
    rf_row_job_tensor(job, RF_BIND_INPUT, 0, y * sizeof(float));
    rf_row_job_tensor(job, RF_BIND_INPUT, 1, 0);
    rf_row_job_tensor(job, RF_BIND_OUTPUT, 0, x * sizeof(float));
    job->tensors[0].view = job->tensors[1].view = fours ? RF_VIEW_TEXEL_RGBA32F : RF_VIEW_TEXEL_R32F;
    return true;
}

static double score_of(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    rf_row_job job;
    if (!make_job(call, caps, &job) || rf_row_job_score(&job, caps) == RF_SCORE_NONE) return RF_SCORE_NONE;
    const rf_conv_geometry g = rf_conv_geometry_of(call);
    const double dispatches = (double)rf_div_up(job.rows, rf_row_job_chunk(&job, caps));
    const double pixels = (double)(job.rows * job.threads_per_row) * TILE * TILE; /* with those beyond edges */
    const double flops = 2 * pixels * WINDOW * WINDOW * (double)g.cout;
    return rf_score_of_time(flops / (g.cout % 4 == 0 ? 5e10 : 2e10) + 3e-5 * dispatches);
}

static rf_result plan_of(const rf_op_call *call, const rf_device_caps *caps, const void *data, rf_kernel_plan *plan)
{
    rf_row_job job;
    if (!make_job(call, caps, &job)) return RF_FAIL(RF_ERROR_INTERNAL, "%s: no image of few channels", call->op->name);
    return rf_row_job_plan(&job, caps, plan);
}

const rf_kernel rf_conv2d_data_grad_few = { "few", score_of, plan_of };
