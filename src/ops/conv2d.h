/* SPDX-License-Identifier: Apache-2.0 */
/* The pieces of conv2d and its gradients, which stand in several files. */
#ifndef RF_OPS_CONV2D_H
#define RF_OPS_CONV2D_H

#include "ops/linear.h"

extern const rf_kernel rf_conv2d_naive, rf_conv2d_data_grad_naive, rf_conv2d_filter_grad_naive;
extern const rf_kernel rf_conv2d_lanes8_texel, rf_conv2d_data_grad_lanes8_texel, rf_conv2d_filter_grad_lanes8_texel;

#define RF_CONV2D_NUM_CASES 29
#define RF_CONV2D_DATA_GRAD_NUM_CASES 22
#define RF_CONV2D_FILTER_GRAD_NUM_CASES 22
extern const rf_op_case rf_conv2d_cases[RF_CONV2D_NUM_CASES];
extern const rf_op_case rf_conv2d_data_grad_cases[RF_CONV2D_DATA_GRAD_NUM_CASES];
extern const rf_op_case rf_conv2d_filter_grad_cases[RF_CONV2D_FILTER_GRAD_NUM_CASES];

#endif
