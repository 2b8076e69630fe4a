/* SPDX-License-Identifier: Apache-2.0 */
/* Geometry of pooling (pool.c) and its kernels (pool_kernels.c). */
#ifndef RF_OPS_REDUCTION_COMMON_POOL_H
#define RF_OPS_REDUCTION_COMMON_POOL_H

#include "ops/kit.h"
#include "ops/ops.h"
#include "rf_shaders.h"

typedef struct rf_pool_geometry {
    int64_t images, height, width, channels, out_height, out_width;
    int64_t window[2], stride[2], pad_top, pad_left;
    bool relu_mask;
} rf_pool_geometry;
/* Sizes of a pooling of `x`; fails with a message that names `op`. */
rf_result rf_pool_geometry_make(const char *op, const rf_pool2d_attr *attr, const rf_tensor_desc *x,
                                rf_pool_geometry *out);

/* Which of a forward call's or a gradient call's inputs is the unpooled tensor. */
static inline uint32_t rf_pool_x_input(const rf_op_call *call)
{
    return call->n_in > 1 ? 1 : 0;
}

/* All that is read and written is stored in 16 bits. */
bool rf_pool_is_narrow(const rf_op_call *call);

/* ---- kernels ---- */

/* An invocation makes one of these. */
typedef enum rf_pool_walk { WALK_WINDOWS, WALK_ELEMENTS, WALK_QUADS /* 2 x 2 elements */ } rf_pool_walk;
typedef enum rf_pool_needs {
    NEEDS_NOTHING,
    NEEDS_SEPARATE, /* windows that do not overlap */
    NEEDS_2X2,      /* windows of 2 x 2 side by side, no padding */
} rf_pool_needs;
/* An invocation loops over one of these. */
typedef enum rf_pool_loop {
    LOOPS_NONE,
    LOOPS_WINDOW,
    LOOPS_COVERING, /* the windows that cover an element */
    LOOPS_BOTH,     /* all elements of each of them */
    LOOPS_CELL,     /* a window, then what lies between it and the next */
} rf_pool_loop;
typedef struct rf_pool_form {
    const rf_shader *shader;
    rf_pool_walk walk;
    rf_pool_loop loops;
    uint32_t vector;
    rf_pool_needs needs;
    int score;
    bool fixed;            /* made for windows and strides that are specialization constants */
    bool texel;            /* reads through texel buffers */
    const rf_shader *wide; /* that of subgroups of 16, where `shader` is that of 8 */
} rf_pool_form;
/* Makes the job of a kernel whose form it is given. */
rf_row_make_fn rf_pool_job;
/* The kernel reads and writes 16 bits where everything is stored so, through texels on drivers that keep the bits. */
rf_narrow_fn rf_pool_narrow, rf_pool_texels_narrow;

/* Small windows that overlap: the shaders of two steps, which find where each window's maximum is, and who has it. */
typedef struct rf_pool_places {
    const rf_shader *windows, *grad;
    uint32_t vector;
    bool texel;
    int score;
} rf_pool_places;
rf_score_fn rf_pool_places_score;
rf_plan_fn rf_pool_places_plan;

extern const rf_kernel_list rf_max_pool_common, rf_max_pool_grad_common, rf_avg_pool_common, rf_avg_pool_grad_common;

#endif
