/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels for GPUs: lists for the ops' tables. Software runs them in tests alone. */
#ifndef RF_OPS_POINTWISE_GPU_GPU_H
#define RF_OPS_POINTWISE_GPU_GPU_H

#include "graph/op.h"

extern const rf_kernel_list rf_sum_to_like_gpu, rf_gather_grad_gpu;

#endif
