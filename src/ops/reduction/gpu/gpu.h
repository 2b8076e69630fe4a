/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels for GPUs: lists for the ops' tables. Software runs them in tests alone. */
#ifndef RF_OPS_REDUCTION_GPU_GPU_H
#define RF_OPS_REDUCTION_GPU_GPU_H

#include "graph/op.h"

extern const rf_kernel_list rf_reduce_gpu, rf_batch_gpu;
extern const rf_kernel_list rf_softmax_gpu, rf_layer_norm_gpu;

#endif
