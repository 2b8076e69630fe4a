/* SPDX-License-Identifier: Apache-2.0 */
/* What matmul, bias_add and the convolutions share: geometry, epilogues, fusion hooks and steps of kernel plans. */
#ifndef RF_OPS_LINEAR_COMMON_LINEAR_H
#define RF_OPS_LINEAR_COMMON_LINEAR_H

#include "ops/kit.h"
#include "ops/ops.h"

/* ---- epilogue: y = activation(x + bias) ---- */
bool rf_linear_activation_known(uint32_t activation); /* LINEAR .. GELU: what the kernels can apply */
double rf_linear_activate(uint32_t activation, double x);

/* Does `consumer` add a bias to, or apply one known activation to, the output of `producer`? With `attr_activation` the
 * activation field inside the producer's (copied) attributes. Fills in *fused: the producer's op and inputs with more.
 */
bool rf_linear_absorb(const rf_graph *graph, rf_node producer, rf_node consumer, size_t activation_offset,
                      rf_fused *fused);

/* Does `other` convert output 0 of `self` to f32? Fills in *fused: `self` with its field `f32`, which makes it so. */
bool rf_linear_absorb_cast(const rf_graph *graph, rf_node self, rf_node other, size_t f32_offset, rf_fused *fused);

/* ---- convolution geometry ---- */
typedef struct rf_conv_geometry {
    int64_t n, h, w, cin, oh, ow, cout, kh, kw;
    int64_t groups, cig, cog; /* channels of one group: in and out */
    int64_t sy, sx, dy, dx;   /* stride, dilation */
    int64_t pt, pl;           /* padding at the top and left */
} rf_conv_geometry;
/* Checks attributes against the image and kernel shapes; messages start with `op`. */
rf_result rf_conv_geometry_make(const char *op, const rf_conv2d_attr *attr, const rf_tensor_desc *x,
                                const rf_tensor_desc *kernel, rf_conv_geometry *out);
/* The same from a call of conv2d or one of its gradients whose shapes were checked by inference. */
rf_conv_geometry rf_conv_geometry_of(const rf_op_call *call);
/* The convolution that the data gradient of such a one is: of dy, its pixels spread out by the steps of `g`, with the
 * kernel turned by 180 degrees and its channels exchanged. Its own steps are one. */
rf_conv_geometry rf_conv_geometry_turned(const rf_conv_geometry *g);
bool rf_conv_reads_padding(const rf_conv_geometry *g); /* some tap of some output falls outside of the image */
rf_cost rf_conv_cost(const rf_op_call *call);

/* rf_op.met_by_padding of products whose output's last dimension is that of input 1. */
rf_elements rf_linear_met_column(const rf_op_call *call, int64_t i);
/* Score of a one-lane-per-element kernel: what drivers reach without reuse of what they load. */
double rf_linear_naive_score(const rf_op_call *call, const rf_device_caps *caps);

/* The sums of input 1 over all dimensions but the last, which are output 1, may be a row of a product of ones. Its
 * parts add up one summand after the other, no more than this: more of them round too much. */
enum { RF_LONGEST_RIDE = 1024 };
/* Appends the kernel that makes them by themselves. */
rf_result rf_linear_append_sums(const rf_op_call *call, const rf_device_caps *caps, rf_kernel_plan *plan);

#endif
