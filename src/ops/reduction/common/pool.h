/* SPDX-License-Identifier: Apache-2.0 */
/* Geometry of pooling (pool.c) and its kernels (pool_kernels.c). */
#ifndef RF_OPS_REDUCTION_COMMON_POOL_H
#define RF_OPS_REDUCTION_COMMON_POOL_H

#include "ops/kit.h"
#include "ops/ops.h"

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

extern const rf_kernel_list rf_max_pool_common, rf_max_pool_grad_common, rf_avg_pool_common, rf_avg_pool_grad_common;

#endif
