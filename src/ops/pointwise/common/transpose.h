/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that the kernels of transpose share. */
#ifndef RF_OPS_POINTWISE_COMMON_TRANSPOSE_H
#define RF_OPS_POINTWISE_COMMON_TRANSPOSE_H

#include "ops/kit.h"
#include "ops/ops.h"

/* Dimensions in the output's order, innermost first, merged where they stay neighbours. */
typedef struct rf_transpose_layout {
    uint32_t rank;
    uint64_t size[RF_MAX_RANK], in_stride[RF_MAX_RANK], out_stride[RF_MAX_RANK];
} rf_transpose_layout;
void rf_transpose_layout_of(const rf_op_call *call, rf_transpose_layout *l);
uint32_t rf_transpose_outermost_input(const rf_transpose_layout *l);
/* One dispatch for the box of a0 <= index of the input's outermost dimension < a1, b0 <= index of the output's < b1;
 * `width` elements an invocation. */
rf_result rf_transpose_box_plan(const rf_transpose_layout *l, const rf_device_caps *caps, const rf_shader *shader,
                                uint32_t width, rf_kernel_plan *plan, uint64_t a0, uint64_t a1, uint64_t b0,
                                uint64_t b1);
/* Where the last dimension stays the last, elements of 16 bits are copied in words. */
rf_narrow_fn rf_transpose_narrow;
extern const rf_kernel_list rf_transpose_common;

#endif
