/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels for software drivers, which run a subgroup as the lanes of a SIMD register: lists for the ops' tables. */
#ifndef RF_OPS_REDUCTION_CPU_CPU_H
#define RF_OPS_REDUCTION_CPU_CPU_H

#include "graph/op.h"

extern const rf_kernel_list rf_reduce_cpu, rf_batch_cpu;
extern const rf_kernel_list rf_softmax_cpu, rf_layer_norm_cpu, rf_loss_cpu;
extern const rf_kernel_list rf_cumsum_cpu, rf_cumprod_cpu;
extern const rf_kernel_list rf_max_pool_cpu, rf_max_pool_grad_cpu, rf_avg_pool_cpu, rf_avg_pool_grad_cpu;

#endif
