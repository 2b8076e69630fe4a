/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of upsample2d and its gradient for every device. */
#include "ops/pointwise/common/upsample.h"

rf_enlargement rf_enlargement_of(const rf_op_call *call)
{
    const rf_upsample_attr *attr = call->attr;
    const rf_shape *x = call->op->role == RF_UPSAMPLE ? &call->in[0].shape : &call->in[1].shape;
    return (rf_enlargement){ .images = x->dim[0],
                             .height = x->dim[1],
                             .width = x->dim[2],
                             .channels = x->dim[3],
                             .factor = { attr->factor[0], attr->factor[1] },
                             .bilinear = attr->interpolation == RF_INTERPOLATION_BILINEAR };
}

/* Iterations over what takes from an element along an axis. */
static uint64_t side_loops(const rf_enlargement *e, int axis)
{
    const uint64_t factor = (uint64_t)e->factor[axis];
    return e->bilinear ? factor + factor / 2 * 2 : factor;
}

bool rf_upsample_job(const rf_enlargement *e, const rf_device_caps *caps, uint32_t vector, bool gradient,
                     rf_row_job *job)
{
    const int64_t lines = e->bilinear ? e->height : 1, channels = e->channels / vector;
    const int64_t pixels = lines * e->width, results = pixels * e->factor[0] * e->factor[1];
    if (e->channels % vector != 0 || results > INT32_MAX / e->channels) return false;
    const rf_magic by_channels = rf_magic_make((uint32_t)channels), by_height = rf_magic_make((uint32_t)lines),
                   by_y = rf_magic_make((uint32_t)e->factor[0]), by_x = rf_magic_make((uint32_t)e->factor[1]);
    const uint32_t columns = (uint32_t)(gradient ? e->width : e->width * e->factor[1]);
    const rf_magic by_columns = rf_magic_make(columns);
    const rf_push_upsample push = { .threads = (uint32_t)((gradient ? pixels : results) * channels),
                                    .channels = (uint32_t)channels,
                                    .channels_magic = by_channels.magic,
                                    .channels_shift = by_channels.shift,
                                    .columns = columns,
                                    .columns_magic = by_columns.magic,
                                    .columns_shift = by_columns.shift,
                                    .height = (uint32_t)lines,
                                    .height_magic = by_height.magic,
                                    .height_shift = by_height.shift,
                                    .width = (uint32_t)e->width,
                                    .factor_y = (uint32_t)e->factor[0],
                                    .y_magic = by_y.magic,
                                    .y_shift = by_y.shift,
                                    .factor_x = (uint32_t)e->factor[1],
                                    .x_magic = by_x.magic,
                                    .x_shift = by_x.shift,
                                    .per_y = 0.5f / (float)e->factor[0],
                                    .per_x = 0.5f / (float)e->factor[1] };
    *job = (rf_row_job){ .shader = gradient ? vector == 4 ? &rf_shader_upsample_grad_w4 : &rf_shader_upsample_grad_w1
                                   : vector == 4 ? &rf_shader_upsample_w4
                                                 : &rf_shader_upsample_w1,
                         .grid = RF_GRID_THREADS,
                         .local = rf_local_size(caps, caps->is_cpu ? 64 : RF_FLAT_LOCAL),
                         .rows = (uint64_t)(e->images * e->height / lines),
                         .threads_per_row = push.threads,
                         .loops = gradient ? side_loops(e, 0) * (side_loops(e, 1) + 2) + 1 : RF_NO_LOOPS,
                         .n_spec = 1,
                         .spec = { e->bilinear },
                         .score = vector == 4 ? RF_SCORE_WIDE : RF_SCORE_ANY };
    RF_ROW_JOB_PUSH(job, push, rows);
    const uint64_t element = (uint64_t)e->channels * sizeof(float);
    rf_row_job_tensor(job, RF_BIND_INPUT, 0, (uint64_t)(gradient ? results : pixels) * element);
    rf_row_job_tensor(job, RF_BIND_OUTPUT, 0, (uint64_t)(gradient ? pixels : results) * element);
    return true;
}

/* The data is how many neighbours an invocation makes. */
static bool direct_job(const rf_op_call *call, const rf_device_caps *caps, const void *vector, rf_row_job *job)
{
    const rf_enlargement e = rf_enlargement_of(call);
    return rf_upsample_job(&e, caps, *(const uint32_t *)vector, call->op->role == RF_UPSAMPLE_GRAD, job);
}

/* ---- gradients for large factors: along the lines, then across them ---- */

#define LARGE_AREA 64 /* results for each element: from here on there is less to add up so */

/* As the gradients of two enlargements: the second one made images wider, the first one higher. */
static bool make_sides(const rf_op_call *call, const rf_device_caps *caps, rf_row_job jobs[2])
{
    const rf_enlargement e = rf_enlargement_of(call);
    rf_enlargement wide = e, high = e;
    wide.height *= e.factor[0];
    wide.factor[0] = high.factor[1] = 1;
    const uint32_t vector = e.channels % 4 == 0 ? 4 : 1;
    if (e.height > INT32_MAX / RF_MAX_UPSAMPLE_FACTOR || !rf_upsample_job(&wide, caps, vector, true, &jobs[0]) ||
        !rf_upsample_job(&high, caps, vector, true, &jobs[1]))
        return false;
    jobs[0].tensors[1].kind = jobs[1].tensors[0].kind = RF_BIND_WORKSPACE;
    return true;
}

static double score_sides(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    const rf_upsample_attr *attr = call->attr;
    rf_row_job jobs[2];
    if (!make_sides(call, caps, jobs) || rf_row_job_score(&jobs[0], caps) == RF_SCORE_NONE ||
        rf_row_job_score(&jobs[1], caps) == RF_SCORE_NONE)
        return RF_SCORE_NONE;
    return (int64_t)attr->factor[0] * attr->factor[1] >= LARGE_AREA ? RF_SCORE_EXACT : RF_SCORE_RESERVE;
}

static rf_result plan_sides(const rf_op_call *call, const rf_device_caps *caps, const void *data, rf_kernel_plan *plan)
{
    rf_row_job jobs[2];
    if (!make_sides(call, caps, jobs))
        return RF_FAIL(RF_ERROR_UNSUPPORTED, "%s: the images are too large", call->op->name);
    plan->workspace = jobs[1].rows * jobs[1].tensors[0].row_bytes;
    RF_TRY(rf_row_job_plan(&jobs[0], caps, plan));
    return rf_row_job_plan(&jobs[1], caps, plan);
}

/* ---- the tables ---- */

#define DIRECT                                                                                                         \
    { RF_ROW_KERNEL("any", direct_job, &(const uint32_t){ 1 }) },                                                      \
    {                                                                                                                  \
        RF_ROW_KERNEL("vec4", direct_job, &(const uint32_t){ 4 })                                                      \
    }
static const rf_kernel forward[] = { DIRECT };
const rf_kernel_list rf_upsample_common = RF_KERNEL_LIST(forward);
static const rf_kernel gradient[] = { DIRECT, { "sides", score_sides, plan_sides } };
const rf_kernel_list rf_upsample_grad_common = RF_KERNEL_LIST(gradient);
