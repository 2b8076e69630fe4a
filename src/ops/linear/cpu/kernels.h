/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of the tables of kernels (kernels.c). Those called _seconds are of pieces (large_tensors.h). */
#ifndef RF_OPS_LINEAR_CPU_KERNELS_H
#define RF_OPS_LINEAR_CPU_KERNELS_H

#include "ops/linear/common/linear.h"

/* The data is an rf_small_channels. */
rf_score_fn rf_small_channels_lanes_score, rf_small_channels_filter_score;
rf_plan_fn rf_small_channels_filter_plan;
/* The data is a bool: they make the gradient. */
rf_score_fn rf_rnn_lanes_score, rf_attention_lanes_score;
rf_plan_fn rf_rnn_lanes_plan, rf_rnn_grad_lanes_plan, rf_attention_lanes_plan, rf_attention_grad_lanes_plan;
/* Pieces. */
rf_score_fn rf_matmul_lanes_seconds, rf_conv2d_lanes_seconds;
rf_plan_fn rf_matmul_lanes_plan, rf_conv2d_lanes_plan;
rf_score_fn rf_winograd_seconds, rf_winograd_4_seconds, rf_resident_seconds;
rf_plan_fn rf_winograd_plan, rf_winograd_4_plan, rf_resident_plan;
rf_score_fn rf_winograd_grad_seconds, rf_resident_filter_seconds;
rf_plan_fn rf_winograd_grad_plan, rf_resident_filter_plan;

#endif
