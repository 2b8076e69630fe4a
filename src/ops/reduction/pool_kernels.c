/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of the pooling ops: one invocation per window or per input element, over whole images. */
#include "ops/reduction/pool.h"
#include "rf_shaders.h"

/* Larger images would leave the range in which the shaders' division by reciprocals is exact. */
#define MAX_IMAGE_VECTORS (1u << 22)

/* What an invocation stands for. */
typedef enum pool_walk { WALK_WINDOWS, WALK_ELEMENTS, WALK_QUADS /* 2 x 2 elements */ } pool_walk;
typedef enum pool_needs {
    NEEDS_NOTHING,
    NEEDS_SEPARATE, /* windows that do not overlap */
    NEEDS_2X2,      /* windows of 2 x 2 side by side, no padding */
} pool_needs;
typedef struct pool_variant {
    const rf_shader *shader;
    pool_walk walk;
    uint32_t vector;
    pool_needs needs;
    double score;
    bool texel; /* reads through texel buffers */
} pool_variant;

static bool pool_fits(const pool_variant *v, const rf_pool_geometry *p)
{
    if (p->channels % v->vector != 0) return false;
    switch (v->needs) {
    case NEEDS_NOTHING: break;
    case NEEDS_SEPARATE: return p->stride[0] >= p->window[0] && p->stride[1] >= p->window[1];
    case NEEDS_2X2:
        /* Then (size - 2) / 2 + 1 windows leave at most one row and one column over. */
        return p->window[0] == 2 && p->window[1] == 2 && p->stride[0] == 2 && p->stride[1] == 2 && p->pad_top == 0 &&
               p->pad_left == 0 && p->out_height == p->height / 2 && p->out_width == p->width / 2;
    }
    return true;
}

/* False when the variant cannot do the call. */
static bool pool_job(const rf_op_call *call, const rf_device_caps *caps, const pool_variant *v, rf_row_job *job)
{
    rf_pool_geometry p;
    if (rf_pool_geometry_make(call->op->name, call->attr, &call->in[rf_pool_x_input(call)], &p) != RF_OK) return false;
    const int64_t channels = p.channels / v->vector, image = p.height * p.width * channels;
    const int64_t rows = v->walk == WALK_WINDOWS ? p.out_height : v->walk == WALK_QUADS ? (p.height + 1) / 2 : p.height;
    const int64_t columns = v->walk == WALK_WINDOWS ? p.out_width : v->walk == WALK_QUADS ? (p.width + 1) / 2 : p.width;
    const int64_t threads = rows * columns * channels;
    if (!pool_fits(v, &p) || image > INT32_MAX || threads > INT32_MAX) return false;
    if (v->vector > 1 && threads >= MAX_IMAGE_VECTORS) return false;
    *job = (rf_row_job){ .shader = v->shader,
                         .grid = RF_GRID_IMAGES,
                         .local = rf_local_size(caps, 64),
                         .rows = (uint64_t)p.images,
                         .threads_per_row = (uint64_t)threads };
    for (uint32_t i = 0; i < call->n_in; i++)
        if (!(call->op->shape_only & 1u << i))
            rf_row_job_tensor(job, RF_BIND_INPUT, i, rf_tensor_bytes(&call->in[i]) / (uint64_t)p.images);
    for (uint32_t i = 0; v->texel && i < job->n_tensors; i++) job->tensors[i].view = RF_VIEW_TEXEL_RGBA32F;
    rf_row_job_tensor(job, RF_BIND_OUTPUT, 0, rf_tensor_bytes(&call->out[0]) / (uint64_t)p.images);
    const int64_t sizes[] = { p.images,    p.height,    p.width,     channels,    p.out_height, p.out_width,
                              p.window[0], p.window[1], p.stride[0], p.stride[1], p.pad_top,    p.pad_left };
    for (uint32_t i = 0; i < RF_COUNT_OF(sizes); i++) job->push[job->n_push++] = (uint32_t)sizes[i];
    job->push[job->n_push++] = rf_float_word(1.0f / (float)channels);
    job->push[job->n_push++] = rf_float_word(1.0f / (float)columns);
    job->push[job->n_push++] = p.relu_mask;
    return true;
}

static double pool_score(const rf_op_call *call, const rf_device_caps *caps, const pool_variant *v)
{
    rf_row_job job;
    if (!pool_job(call, caps, v, &job)) return 0;
    const uint64_t chunk = rf_row_job_chunk(&job, caps);
    /* Texel views gain where the driver makes single loads of vectors only; not when they are so small that a call
     * becomes many dispatches. */
    if (v->texel && (caps->driver != RF_DRIVER_LAVAPIPE || chunk < job.rows)) return chunk > 0 ? 0.5 : 0;
    return chunk > 0 ? v->score : 0;
}

static rf_result pool_plan(const rf_op_call *call, const rf_device_caps *caps, const pool_variant *v,
                           rf_kernel_plan *plan)
{
    rf_row_job job;
    if (!pool_job(call, caps, v, &job))
        return RF_FAIL(RF_ERROR_UNSUPPORTED, "%s: not a pooling that kernel %s does", call->op->name, v->shader->name);
    return rf_row_job_plan(&job, caps, plan);
}

#define KERNEL(id, text, ...)                                                                                          \
    static const pool_variant id##_variant = { __VA_ARGS__ };                                                          \
    static double id##_score(const rf_op_call *call, const rf_device_caps *caps)                                       \
    {                                                                                                                  \
        return pool_score(call, caps, &id##_variant);                                                                  \
    }                                                                                                                  \
    static rf_result id##_plan(const rf_op_call *call, const rf_device_caps *caps, rf_kernel_plan *plan)               \
    {                                                                                                                  \
        return pool_plan(call, caps, &id##_variant, plan);                                                             \
    }                                                                                                                  \
    static const rf_kernel id = { text, id##_score, id##_plan };

KERNEL(max_any, "any", &rf_shader_pool_max, WALK_WINDOWS, 1, NEEDS_NOTHING, 1)
KERNEL(max_vec4, "vec4", &rf_shader_pool_max_vec4, WALK_WINDOWS, 4, NEEDS_NOTHING, 2)
KERNEL(max_2x2, "2x2", &rf_shader_pool_max_2x2, WALK_WINDOWS, 4, NEEDS_2X2, 3)
KERNEL(max_2x2_texel, "2x2_texel", &rf_shader_pool_max_2x2_texel, WALK_WINDOWS, 4, NEEDS_2X2, 4, true)
const rf_kernel *const rf_max_pool_kernels[RF_NUM_MAX_POOL_KERNELS] = { &max_any, &max_vec4, &max_2x2, &max_2x2_texel };

KERNEL(max_grad_gather, "gather", &rf_shader_pool_max_grad_gather, WALK_ELEMENTS, 1, NEEDS_NOTHING, 1)
KERNEL(max_grad_gather_vec4, "gather_vec4", &rf_shader_pool_max_grad_gather_vec4, WALK_ELEMENTS, 4, NEEDS_NOTHING, 2)
KERNEL(max_grad_cells, "cells", &rf_shader_pool_max_grad_cells, WALK_WINDOWS, 1, NEEDS_SEPARATE, 1.5)
KERNEL(max_grad_cells_vec4, "cells_vec4", &rf_shader_pool_max_grad_cells_vec4, WALK_WINDOWS, 4, NEEDS_SEPARATE, 3)
KERNEL(max_grad_2x2, "2x2", &rf_shader_pool_max_grad_2x2, WALK_QUADS, 4, NEEDS_2X2, 4)
KERNEL(max_grad_2x2_texel, "2x2_texel", &rf_shader_pool_max_grad_2x2_texel, WALK_QUADS, 4, NEEDS_2X2, 5, true)
const rf_kernel *const rf_max_pool_grad_kernels[RF_NUM_MAX_POOL_GRAD_KERNELS] = {
    &max_grad_gather, &max_grad_gather_vec4, &max_grad_cells, &max_grad_cells_vec4, &max_grad_2x2, &max_grad_2x2_texel
};

KERNEL(avg_any, "any", &rf_shader_pool_avg, WALK_WINDOWS, 1, NEEDS_NOTHING, 1)
KERNEL(avg_vec4, "vec4", &rf_shader_pool_avg_vec4, WALK_WINDOWS, 4, NEEDS_NOTHING, 2)
const rf_kernel *const rf_avg_pool_kernels[RF_NUM_AVG_POOL_KERNELS] = { &avg_any, &avg_vec4 };

KERNEL(avg_grad_any, "any", &rf_shader_pool_avg_grad, WALK_ELEMENTS, 1, NEEDS_NOTHING, 1)
KERNEL(avg_grad_vec4, "vec4", &rf_shader_pool_avg_grad_vec4, WALK_ELEMENTS, 4, NEEDS_NOTHING, 2)
const rf_kernel *const rf_avg_pool_grad_kernels[RF_NUM_AVG_POOL_GRAD_KERNELS] = { &avg_grad_any, &avg_grad_vec4 };
