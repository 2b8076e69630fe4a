/* SPDX-License-Identifier: Apache-2.0 */
/* The shape of a matmul call as its kernels see it. */
#ifndef RF_OPS_LINEAR_COMMON_MATMUL_H
#define RF_OPS_LINEAR_COMMON_MATMUL_H

#include "ops/linear/cpu/lanes.h"

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
/* Of a call whose shapes were checked by inference. Batches of a over one matrix b become rows of one product. */
rf_matmul_geometry rf_matmul_geometry_of(const rf_op_call *call);
/* First element of batch item z in a and in b. */
void rf_matmul_batch_offset(const rf_matmul_geometry *g, int64_t z, int64_t *a, int64_t *b);

extern const rf_kernel rf_matmul_naive, rf_matmul_naive_texel, rf_matmul_vector, rf_matmul_thin, rf_matmul_small,
    rf_matmul_panels;
/* Whether rf_matmul_small is for it. */
bool rf_matmul_is_small(const rf_op_call *call, const rf_device_caps *caps);
/* Whether rf_matmul_vector takes it. */
bool rf_matmul_is_vector(const rf_op_call *call, const rf_device_caps *caps);
RF_LANES_DECLARE(matmul, );

#endif
