/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that the files of conv2d and its gradients share. */
#ifndef RF_OPS_LINEAR_COMMON_CONV2D_H
#define RF_OPS_LINEAR_COMMON_CONV2D_H

#include "ops/linear/common/linear.h"

/* Kernels whose data is a role. */
rf_score_fn rf_conv2d_naive_score, rf_conv2d_depthwise_score;
rf_plan_fn rf_conv2d_naive_plan, rf_conv2d_depthwise_plan, rf_conv2d_depthwise_filter_plan;
rf_score_fn rf_conv2d_depthwise_filter_score;

/* conv2d_small_channels.c: windows of pixels and eight channels stay in registers. The data of a kernel: its shader,
 * and how many of a subgroup's eight lanes lie along channels. 0: the form without lanes, which is for every device. */
enum { RF_SMALL_CHANNELS = 4, RF_SMALL_CHANNELS_AT_ONCE = 8 };
typedef struct rf_small_channels {
    const rf_shader *shader;
    uint32_t column_lanes;
    bool pooled; /* of gradients by the kernel: of conv2d_pool_filter_grad */
} rf_small_channels;
/* *waste: results that the job's padded tiles compute for each one of the call. False: it does not take the call. */
bool rf_small_channels_job(const rf_op_call *call, const rf_device_caps *caps, const rf_small_channels *kernel,
                           rf_row_job *job, double *waste);
rf_score_fn rf_small_channels_score;
rf_plan_fn rf_small_channels_plan;
bool rf_small_channels_narrow(const rf_op_call *call, const rf_device_caps *caps, const void *data);

extern const rf_kernel_list rf_conv2d_data_common; /* also of conv2d_transpose */
rf_cost rf_conv2d_data_cost(const rf_op_call *call);
rf_elements rf_conv2d_met_channel(const rf_op_call *call, int64_t i); /* met_by_padding of those that have them */
rf_result rf_conv2d_data_reference(const rf_op_call *call, void *const *in, void *const *out);

/* rf_graph_add() of a convolution with one output. */
rf_result rf_conv2d_add(rf_graph *g, const rf_conv2d_attr *attr, rf_value x, rf_value kernel, rf_value *out);

/* The part of an op's functions that makes the maxima of windows beside a convolution. */
rf_result rf_conv2d_pool_infer(rf_op_call *call);
rf_result rf_conv2d_pool_reference(const rf_op_call *call, void *const *out);
bool rf_conv2d_pool_absorb(const rf_graph *graph, rf_node self, rf_node other, rf_fused *fused, uint32_t *other_out);
rf_result rf_conv2d_pool_finish(const rf_op_call *call, const rf_device_caps *caps, rf_kernel_plan *plan);

/* absorb_consumer of max_pool2d_grad. */
bool rf_conv2d_pool_grad_absorb(const rf_graph *graph, rf_node pool_grad, rf_node consumer, rf_fused *fused);

bool rf_conv2d_makes_f32(const rf_op_call *call);                 /* makes_f32 of gradients by the kernel */
rf_conv2d_attr rf_conv2d_attr_of(const rf_conv2d_params *params); /* NULL: the defaults */

#endif
