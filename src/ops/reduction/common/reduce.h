/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the reduce op share: reduce.c (host side), reduce_kernels.c. */
#ifndef RF_OPS_REDUCTION_COMMON_REDUCE_H
#define RF_OPS_REDUCTION_COMMON_REDUCE_H

#include "ops/kit.h"
#include "ops/ops.h"
#include "rf_shaders.h"

/* Bit i: axis i is reduced. Never 0 unless the input is a scalar. */
uint32_t rf_reduce_axes(const rf_op_call *call);

enum {
    RF_REDUCE_ANY,
    RF_REDUCE_COLUMNS,
    RF_REDUCE_COLUMNS_TEXEL,
    RF_REDUCE_ROWS,
    RF_REDUCE_ROWS_TEXEL,
    RF_REDUCE_TREE,
    RF_REDUCE_STRIPS,
    RF_NUM_REDUCE_KERNELS
};
extern const rf_kernel *const rf_reduce_kernels[RF_NUM_REDUCE_KERNELS];

#endif
