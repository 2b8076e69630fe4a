/* SPDX-License-Identifier: Apache-2.0 */
/* The roles of upsample2d and its gradient, and their kernels. */
#ifndef RF_OPS_POINTWISE_COMMON_UPSAMPLE_H
#define RF_OPS_POINTWISE_COMMON_UPSAMPLE_H

#include "ops/kit.h"
#include "ops/ops.h"
#include "rf_shaders.h"

enum { RF_UPSAMPLE, RF_UPSAMPLE_GRAD };

/* Images and how they are enlarged: the op's, or one axis of it. */
typedef struct rf_enlargement {
    int64_t images, height, width, channels;
    int32_t factor[2];
    bool bilinear;
} rf_enlargement;
rf_enlargement rf_enlargement_of(const rf_op_call *call);
/* A job of invocations that make `vector` neighbours each. A row is an image; of repeated pixels a line, which has no
 * neighbours. False where the shader cannot count so far. */
bool rf_upsample_job(const rf_enlargement *e, const rf_device_caps *caps, uint32_t vector, bool gradient,
                     rf_row_job *job);
extern const rf_kernel_list rf_upsample_common, rf_upsample_grad_common;

#endif
