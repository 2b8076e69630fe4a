/* SPDX-License-Identifier: Apache-2.0 */
/* The shape of a matmul call as its kernels see it. */
#ifndef RF_OPS_LINEAR_COMMON_MATMUL_H
#define RF_OPS_LINEAR_COMMON_MATMUL_H

#include "ops/linear/common/linear.h"

#define RF_MATMUL_BATCH_DIMS (RF_MAX_RANK - 2)

typedef struct rf_matmul_geometry {
    int64_t m, n, k;
    bool ta, tb, bias, bias_gradient, relu_mask;
    uint32_t activation;
    int64_t batch; /* product of dim[] */
    /* Batch dimensions, outermost first, neighbours of equal broadcasting merged; strides in elements, 0 where the
     * operand is repeated. Unused ones are 1 with stride 0, in front. */
    int64_t dim[RF_MATMUL_BATCH_DIMS], a_stride[RF_MATMUL_BATCH_DIMS], b_stride[RF_MATMUL_BATCH_DIMS];
} rf_matmul_geometry;
/* Dimension i of `shape` counted within `rank` batch dimensions aligned at their last. */
int64_t rf_matmul_batch_dim(const rf_shape *shape, int32_t rank, int32_t i);
/* A call whose shapes were checked by inference. Batches of a over one matrix b become rows of one product. */
rf_matmul_geometry rf_matmul_geometry_of(const rf_op_call *call);
/* First element of batch item z in a and in b. */
void rf_matmul_batch_offset(const rf_matmul_geometry *g, int64_t z, int64_t *a, int64_t *b);

/* matmul_naive.c */
rf_score_fn rf_matmul_naive_score;
rf_plan_fn rf_matmul_naive_plan;
/* matmul_parts.c */
rf_score_fn rf_matmul_parts_score;
rf_plan_fn rf_matmul_parts_plan;

#endif
