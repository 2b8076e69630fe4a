/* SPDX-License-Identifier: Apache-2.0 */
/* Products with matrices in 8 and 4 bits as their kernels see them. */
#ifndef RF_OPS_LINEAR_COMMON_QUANTIZED_H
#define RF_OPS_LINEAR_COMMON_QUANTIZED_H

#include "base/quantize.h"
#include "ops/linear/common/linear.h"

/* y [rows, columns] = x [rows, summands] W, or W^T. */
typedef struct rf_quantized_product {
    rf_quantized_layout w;
    uint64_t rows, summands, columns;
    bool transposed;
    uint32_t kind;
} rf_quantized_product;
/* The call is one whose shapes were checked by inference. */
rf_quantized_product rf_quantized_product_of(const rf_op_call *call);
/* Binds lines [first, first + count) of input `index`: its codes, then its scales. *codes is where the first word
 * stands in what is bound, *scales where the first half of a word does. */
void rf_quantized_bind(rf_dispatch *d, const rf_device_caps *caps, const rf_quantized_layout *w, uint32_t index,
                       uint64_t first, uint64_t count, int32_t *codes, int32_t *scales);

/* quantized_kernels.c */
rf_score_fn rf_quantized_naive_score, rf_quantized_unpacked_score, rf_quantized_gather_score;
rf_plan_fn rf_quantized_naive_plan, rf_quantized_unpacked_plan, rf_quantized_gather_plan;

#endif
