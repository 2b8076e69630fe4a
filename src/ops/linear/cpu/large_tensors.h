/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Products of tensors that are larger than a descriptor. A kernel that takes only what it can bind at once computes
 * such a call piece by piece along the leading dimension: rows, images, matrices of a batch, or summands, whose partial
 * sums are then added in order.
 */
#ifndef RF_OPS_LINEAR_CPU_LARGE_TENSORS_H
#define RF_OPS_LINEAR_CPU_LARGE_TENSORS_H

#include "graph/op.h"

typedef double (*rf_piece_score)(const rf_op_call *call, const rf_device_caps *caps, const void *data);
typedef rf_result (*rf_piece_plan)(const rf_op_call *call, const rf_device_caps *caps, const void *data,
                                   rf_kernel_plan *plan);

/* The kernel's own score where it takes the whole call; else what its pieces add up to, 0 where there are none. */
double rf_chunked_score(const rf_op_call *call, const rf_device_caps *caps, const void *data, rf_piece_score score);
rf_result rf_chunked_plan(const rf_op_call *call, const rf_device_caps *caps, const void *data, rf_kernel_plan *plan,
                          rf_piece_score score, rf_piece_plan piece);

#endif
