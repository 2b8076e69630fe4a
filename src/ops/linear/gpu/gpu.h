/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels for GPUs: lists for the ops' tables. Software runs them in tests alone. */
#ifndef RF_OPS_LINEAR_GPU_GPU_H
#define RF_OPS_LINEAR_GPU_GPU_H

#include "graph/op.h"

extern const rf_kernel_list rf_matmul_gpu, rf_matmul_quantized_gpu;
extern const rf_kernel_list rf_conv2d_gpu, rf_conv2d_data_gpu, rf_conv2d_filter_gpu;
extern const rf_kernel_list rf_rnn_gpu, rf_rnn_grad_gpu;
extern const rf_kernel_list rf_attention_gpu, rf_attention_grad_gpu;

#endif
