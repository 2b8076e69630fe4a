/* SPDX-License-Identifier: Apache-2.0 */
/* Pooling over small windows in steps of two on lavapipe, whose loads cost more than what is computed with them. An
 * invocation walks along a strip of a few lines. */
#include "ops/reduction/common/pool.h"
#include "ops/reduction/cpu/kernels.h"

enum { TILE = 4, VECTOR = 8, STEP = 2, WANTED = 1024, LEAST_COLUMNS = 8 };

static rf_push_pool_walk push_of(const rf_pool_geometry *g, bool gradient)
{
    rf_push_pool_walk p = { .vectors = (int32_t)(g->channels / VECTOR),
                            .height = (int32_t)g->height,
                            .width = (int32_t)g->width,
                            .out_height = (int32_t)g->out_height,
                            .out_width = (int32_t)g->out_width,
                            .pad_top = (int32_t)g->pad_top,
                            .pad_left = (int32_t)g->pad_left };
    /* A turn of a gradient finishes as many columns as there are in a step. */
    const int32_t lines = gradient ? p.height + p.pad_top % STEP : p.out_height;
    const int32_t turns = gradient ? (p.width + p.pad_left % STEP + STEP - 1) / STEP : p.out_width;
    p.tiles = (lines + TILE - 1) / TILE;
    /* Strips as long as there is enough to do side by side: what lies between two of them is read twice. */
    const uint64_t across = (uint64_t)g->images * (uint64_t)p.tiles * (uint64_t)p.vectors;
    const uint64_t strips = rf_min(rf_div_up(WANTED, across), (uint64_t)turns / LEAST_COLUMNS);
    p.columns = (int32_t)rf_div_up((uint64_t)turns, strips > 1 ? strips : 1);
    p.strips = (int32_t)rf_div_up((uint64_t)turns, (uint64_t)p.columns);
    return p;
}

bool rf_pool_walk_job(const rf_op_call *call, const rf_device_caps *caps, const void *data, rf_row_job *job)
{
    const rf_pool_walk_form *v = data;
    rf_pool_geometry g;
    const rf_op_call wide = rf_call_widened(call);
    if (caps->driver != RF_DRIVER_LAVAPIPE || !rf_flat_texels(caps)) return false;
    if (rf_pool_geometry_make(call->op->name, call->attr, &wide.in[rf_pool_x_input(call)], &g) != RF_OK) return false;
    if (g.window[0] != v->window || g.window[1] != v->window || g.stride[0] != STEP || g.stride[1] != STEP)
        return false;
    if (g.channels % VECTOR != 0 || g.height * g.width * g.channels > INT32_MAX / 8) return false;
    const rf_push_pool_walk p = push_of(&g, v->gradient);
    *job = (rf_row_job){ .shader = v->shaders[caps->subgroup_size != 8],
                         .grid = RF_GRID_IMAGES,
                         .local = rf_local_size(caps, caps->subgroup_size),
                         .rows = (uint64_t)g.images,
                         .threads_per_row = (uint64_t)p.tiles * (uint64_t)p.strips * (uint64_t)p.vectors,
                         .loops = (uint64_t)(p.columns + v->window + 1) };
    RF_ROW_JOB_PUSH(job, p, images);
    job->spec[job->n_spec++] = g.relu_mask;
    job->spec[job->n_spec++] = rf_pool_is_narrow(call) ? rf_type_word(call->out[0].dtype, caps) : 0;
    for (uint32_t i = 0; i < call->n_in; i++)
        if (!(call->op->shape_only >> i & 1))
            rf_row_job_tensor(job, RF_BIND_INPUT, i, rf_tensor_bytes(&call->in[i]) / (uint64_t)g.images);
    for (uint32_t i = 0; i < job->n_tensors; i++) job->tensors[i].view = RF_VIEW_TEXEL_RGBA32F;
    rf_row_job_tensor(job, RF_BIND_OUTPUT, 0, rf_tensor_bytes(&call->out[0]) / (uint64_t)g.images);
    rf_row_job_texels(job, caps, RF_SCORE_DRIVER + 1); /* also measured against those for any window */
    return true;
}
