/* SPDX-License-Identifier: Apache-2.0 */
/* Pooling over small windows in steps of two on lavapipe, whose loads cost more than what is computed with them. An
 * invocation walks along a strip of a few lines. */
#include <string.h>

#include "ops/reduction/common/pool.h"
#include "rf_shaders.h"

enum { TILE = 4, VECTOR = 8, STEP = 2, WANTED = 1024, LEAST_COLUMNS = 8 };

/* Of shaders/reduction/cpu/pool_walk.comp. The first word is the number of images. */
typedef struct push {
    int32_t images, vectors, height, width, out_height, out_width, pad_top, pad_left, tiles, strips, columns;
} push;

typedef struct walk_variant {
    const rf_shader *shaders[2]; /* for subgroups of 8 and of 16 */
    int32_t window;
    bool gradient; /* tiles are lines of dx, not of windows */
} walk_variant;

static push push_of(const rf_pool_geometry *g, bool gradient)
{
    push p = { .vectors = (int32_t)(g->channels / VECTOR),
               .height = (int32_t)g->height,
               .width = (int32_t)g->width,
               .out_height = (int32_t)g->out_height,
               .out_width = (int32_t)g->out_width,
               .pad_top = (int32_t)g->pad_top,
               .pad_left = (int32_t)g->pad_left };
    /* Of gradients a turn finishes as many columns as there are in a step. */
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

/* False when the variant cannot do the call. */
static bool walk_job(const rf_op_call *call, const rf_device_caps *caps, const walk_variant *v, rf_row_job *job)
{
    rf_pool_geometry g;
    const rf_op_call wide = rf_call_widened(call);
    if (caps->driver != RF_DRIVER_LAVAPIPE || !rf_flat_texels(caps)) return false;
    if (rf_pool_geometry_make(call->op->name, call->attr, &wide.in[rf_pool_x_input(call)], &g) != RF_OK) return false;
    if (g.window[0] != v->window || g.window[1] != v->window || g.stride[0] != STEP || g.stride[1] != STEP)
        return false;
    if (g.channels % VECTOR != 0 || g.height * g.width * g.channels > INT32_MAX / 8) return false;
    const push p = push_of(&g, v->gradient);
    *job = (rf_row_job){ .shader = v->shaders[caps->subgroup_size != 8],
                         .grid = RF_GRID_IMAGES,
                         .local = rf_local_size(caps, caps->subgroup_size),
                         .rows = (uint64_t)g.images,
                         .threads_per_row = (uint64_t)p.tiles * (uint64_t)p.strips * (uint64_t)p.vectors,
                         .loops = (uint64_t)(p.columns + v->window + 1),
                         .n_push = sizeof(p) / sizeof(uint32_t) };
    memcpy(job->push, &p, sizeof(p));
    job->spec[job->n_spec++] = g.relu_mask;
    job->spec[job->n_spec++] = rf_pool_is_narrow(call) ? rf_type_word(call->out[0].dtype, caps) : 0;
    for (uint32_t i = 0; i < call->n_in; i++)
        if (!(call->op->shape_only >> i & 1))
            rf_row_job_tensor(job, RF_BIND_INPUT, i, rf_tensor_bytes(&call->in[i]) / (uint64_t)g.images);
    for (uint32_t i = 0; i < job->n_tensors; i++) job->tensors[i].view = RF_VIEW_TEXEL_RGBA32F;
    rf_row_job_tensor(job, RF_BIND_OUTPUT, 0, rf_tensor_bytes(&call->out[0]) / (uint64_t)g.images);
    return true;
}

static double walk_score(const rf_op_call *call, const rf_device_caps *caps, const walk_variant *v)
{
    rf_row_job job;
    if (!walk_job(call, caps, v, &job)) return RF_SCORE_NONE;
    const uint64_t chunk = rf_row_job_chunk(&job, caps);
    if (chunk == 0 || job.loops > rf_loop_limit(caps)) return RF_SCORE_NONE;
    return chunk < job.rows ? RF_SCORE_RESERVE : RF_SCORE_DRIVER + 1; /* also measured against those for any window */
}

static rf_result walk_plan(const rf_op_call *call, const rf_device_caps *caps, const walk_variant *v,
                           rf_kernel_plan *plan)
{
    rf_row_job job;
    if (!walk_job(call, caps, v, &job))
        return RF_FAIL(RF_ERROR_INTERNAL, "%s: no pooling to walk through", call->op->name);
    return rf_row_job_plan(&job, caps, plan);
}

static bool walk_narrow(const rf_op_call *call, const rf_device_caps *caps)
{
    return rf_pool_is_narrow(call) && rf_texels_narrow(call, caps);
}

#define KERNEL(id, role, side, is_gradient)                                                                            \
    static const walk_variant id##_variant = { { &rf_shader_pool_walk_##role##_##side##_texel8,                        \
                                                 &rf_shader_pool_walk_##role##_##side##_texel16 },                     \
                                               side,                                                                   \
                                               is_gradient };                                                          \
    RF_NARROW_VARIANT(, rf_pool_walk_##id, "walk_" #side, walk_score, walk_plan, &id##_variant, walk_narrow)
KERNEL(max, max, 3, false);
KERNEL(max_grad, max_grad, 3, true);
KERNEL(avg, avg, 3, false);
KERNEL(avg_grad, avg_grad, 3, true);
KERNEL(avg_grad_2, avg_grad, 2, true);
