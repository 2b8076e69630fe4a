/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of conv2d and its gradients share. */
#ifndef RF_OPS_LINEAR_COMMON_CONV2D_H
#define RF_OPS_LINEAR_COMMON_CONV2D_H

#include "ops/linear/cpu/lanes.h"

extern const rf_kernel rf_conv2d_naive, rf_conv2d_data_grad_naive, rf_conv2d_filter_grad_naive;
extern const rf_kernel rf_conv2d_depthwise, rf_conv2d_data_grad_depthwise, rf_conv2d_filter_grad_depthwise;
extern const rf_kernel rf_conv2d_walk, rf_conv2d_data_grad_walk, rf_conv2d_filter_grad_walk;
extern const rf_kernel rf_conv2d_nine;
extern const rf_kernel rf_conv2d_few, rf_conv2d_few_16, rf_conv2d_few_32, rf_conv2d_data_grad_few;
/* Also of conv2d_pool_filter_grad. */
extern const rf_kernel rf_conv2d_filter_grad_few_16, rf_conv2d_filter_grad_few_32;
RF_LANES_DECLARE(conv2d, );
RF_LANES_DECLARE(conv2d, _scalar);
RF_LANES_DECLARE(conv2d_data_grad, );
RF_LANES_DECLARE(conv2d_filter_grad, );
RF_LANES_DECLARE(conv2d_filter_grad, _scalar);

extern const rf_kernel rf_conv2d_lanes8_texel_points, rf_conv2d_data_grad_lanes8_texel_points;
extern const rf_kernel rf_conv2d_lanes8_texel_winograd, rf_conv2d_data_grad_lanes8_texel_winograd;
extern const rf_kernel rf_conv2d_lanes8_texel_winograd_4, rf_conv2d_data_grad_lanes8_texel_winograd_4;
extern const rf_kernel rf_conv2d_lanes4_quad_held, rf_conv2d_data_grad_lanes4_quad_held;
extern const rf_kernel rf_conv2d_filter_grad_lanes4_quad_held;
extern const rf_kernel rf_conv2d_filter_grad_lanes8_texel_taps;
extern const rf_kernel rf_conv2d_filter_grad_lanes8_texel_winograd_4, rf_conv2d_filter_grad_lanes8_texel_winograd_pairs;
/* conv2d_lanes.c: what the direct form of a filter gradient takes, in seconds of a processor. */
double rf_conv2d_filter_seconds(const rf_lanes_set *set, const rf_conv_geometry *g);

#define RF_CONV2D_DATA_NUM_KERNELS 22
/* What conv2d_data_grad and conv2d_transpose share. */
extern const rf_kernel *const rf_conv2d_data_kernels[RF_CONV2D_DATA_NUM_KERNELS];
rf_elements rf_conv2d_met_channel(const rf_op_call *call, int64_t i); /* met_by_padding of those that have them */
rf_result rf_conv2d_data_reference(const rf_op_call *call, void *const *in, void *const *out);

/* rf_graph_add() of a convolution with one output. */
rf_result rf_conv2d_add(rf_graph *g, const rf_conv2d_attr *attr, rf_value x, rf_value kernel, rf_value *out);

/* Of a convolution with the maxima of windows: what its op's functions do beyond the convolution itself. */
rf_result rf_conv2d_pool_infer(rf_op_call *call);
rf_result rf_conv2d_pool_reference(const rf_op_call *call, void *const *out);
bool rf_conv2d_pool_absorb(const rf_graph *graph, rf_node self, rf_node other, rf_fused *fused, uint32_t *other_out);
rf_result rf_conv2d_pool_finish(const rf_op_call *call, const rf_device_caps *caps, rf_kernel_plan *plan);

/* absorb_consumer of max_pool2d_grad. */
bool rf_conv2d_pool_grad_absorb(const rf_graph *graph, rf_node pool_grad, rf_node consumer, rf_fused *fused);

bool rf_conv2d_makes_f32(const rf_op_call *call);                 /* makes_f32 of gradients by the kernel */
rf_conv2d_attr rf_conv2d_attr_of(const rf_conv2d_params *params); /* NULL: the defaults */

#endif
