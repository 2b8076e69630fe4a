/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels for software drivers, which run a subgroup as the lanes of a SIMD register: lists for the ops' tables. */
#ifndef RF_OPS_LINEAR_CPU_CPU_H
#define RF_OPS_LINEAR_CPU_CPU_H

#include "graph/op.h"

extern const rf_kernel_list rf_matmul_cpu;
extern const rf_kernel_list rf_conv2d_cpu, rf_conv2d_data_cpu, rf_conv2d_filter_cpu, rf_conv2d_pool_filter_cpu;
extern const rf_kernel_list rf_rnn_cpu, rf_rnn_grad_cpu;
extern const rf_kernel_list rf_attention_cpu, rf_attention_grad_cpu;

#endif
