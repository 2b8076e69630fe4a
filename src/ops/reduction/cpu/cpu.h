/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels for software drivers, which run a subgroup as the lanes of a SIMD register: lists for the ops' tables. */
#ifndef RF_OPS_REDUCTION_CPU_CPU_H
#define RF_OPS_REDUCTION_CPU_CPU_H

#include "ops/reduction/common/reduce.h"

extern const rf_kernel_list rf_reduce_cpu, rf_batch_cpu, rf_layer_norm_cpu;
/* Data of kernels that reduce columns. */
extern const rf_reduce_form rf_reduce_columns_texel;

#endif
