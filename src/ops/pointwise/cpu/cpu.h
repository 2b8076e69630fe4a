/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels for software drivers, which run a subgroup as the lanes of a SIMD register: lists for the ops' tables. */
#ifndef RF_OPS_POINTWISE_CPU_CPU_H
#define RF_OPS_POINTWISE_CPU_CPU_H

#include "graph/op.h"

extern const rf_kernel_list rf_elementwise_cpu, rf_update_cpu, rf_sum_to_like_cpu;
extern const rf_kernel_list rf_copies_cpu, rf_transpose_cpu;
extern const rf_kernel_list rf_gather_cpu, rf_gather_grad_cpu;

#endif
