/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by matmul, bias_add and the convolutions: geometry, epilogues, fusion hooks and steps of kernel plans. */
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

/* ---- kernels ---- */

/* Which product the calls of a kernel are: part of its data, because kernels do not know ops. */
typedef enum rf_linear_role {
    RF_ROLE_FORWARD, /* conv2d */
    RF_ROLE_DATA,    /* its gradient by the image, which conv2d_transpose makes as well */
    RF_ROLE_FILTER,  /* its gradient by the kernel */
    RF_ROLE_MATMUL,
    RF_ROLE_QUANTIZED, /* matmul_quantized */
} rf_linear_role;

/* ---- convolution geometry ---- */
typedef struct rf_conv_geometry {
    rf_linear_role role;
    int64_t n, h, w, cin, oh, ow, cout, kh, kw;
    int64_t groups, cig, cog; /* channels of one group: in and out */
    int64_t sy, sx, dy, dx;   /* stride, dilation */
    int64_t pt, pl;           /* padding at the top and left */
} rf_conv_geometry;
/* Checks attributes against the image and kernel shapes; messages start with `op`. */
rf_result rf_conv_geometry_make(const char *op, const rf_conv2d_attr *attr, const rf_tensor_desc *x,
                                const rf_tensor_desc *kernel, rf_conv_geometry *out);
/* The same from a call of conv2d or one of its gradients whose shapes were checked by inference. */
rf_conv_geometry rf_conv_geometry_of(const rf_op_call *call, rf_linear_role role);
/* The convolution that the data gradient of such a one is: of dy, its pixels spread out by the steps of `g`, with the
 * kernel turned by 180 degrees and its channels exchanged. Its own steps are one. */
rf_conv_geometry rf_conv_geometry_turned(const rf_conv_geometry *g);
bool rf_conv_reads_padding(const rf_conv_geometry *g); /* some tap of some output falls outside of the image */
rf_cost rf_conv_cost(const rf_op_call *call, rf_linear_role role);

/* rf_op.met_by_padding of products whose output's last dimension is that of input 1. */
rf_elements rf_linear_met_column(const rf_op_call *call, int64_t i);
/* Seconds of a kernel with an invocation for each element: drivers reach no more without reuse of what they load. */
double rf_linear_naive_seconds(const rf_op_call *call, const rf_device_caps *caps);

/* The sums of input 1 over all dimensions but the last, which are output 1, may be a row of a product of ones. Its
 * parts add up one summand after the other, no more than this: more of them round too much. */
enum { RF_LONGEST_RIDE = 1024 };
/* Appends the kernel that makes them by themselves. */
rf_result rf_linear_append_sums(const rf_op_call *call, const rf_device_caps *caps, rf_kernel_plan *plan);

/* ---- steps of kernel plans ---- */

/* A whole tensor of the call; new room at the end of the workspace. */
rf_binding rf_linear_input(const rf_op_call *call, uint32_t index);
rf_binding rf_linear_workspace(rf_kernel_plan *plan, const rf_device_caps *caps, uint64_t bytes);
void rf_linear_bind(rf_dispatch *d, rf_binding binding, rf_bind_view view, bool write);
/* Parts that a long sum is cut into so that there is enough to do side by side, and no more than `longest` in one. */
int64_t rf_linear_parts(uint64_t tiles, uint64_t wanted, int64_t length, int64_t shortest, uint64_t longest);

/* Partial sums that are to be added up into an output. */
typedef struct rf_linear_sum {
    rf_binding partial; /* lists of `count` sums, `stride` elements apart */
    int64_t parts;
    uint64_t stride, count;
    uint64_t extra; /* of these, the last ones, which go into output 1 */
    int64_t columns;
    uint32_t activation, output;
    bool bias; /* input 2 */
} rf_linear_sum;
rf_result rf_linear_add_sum(rf_kernel_plan *plan, const rf_op_call *call, const rf_device_caps *caps,
                            const rf_linear_sum *sum);
/* Binds whole outputs 0 and `extra`; or room for `parts` lists of sums, `stride` elements apart, where there are
 * several. */
rf_binding rf_linear_bind_sums(rf_dispatch *d, rf_kernel_plan *plan, const rf_device_caps *caps, int64_t parts,
                               uint64_t stride, uint32_t extra);

#endif
