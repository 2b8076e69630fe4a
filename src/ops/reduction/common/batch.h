/* SPDX-License-Identifier: Apache-2.0 */
/* The roles of the ops that sum over a batch, and their kernels. */
#ifndef RF_OPS_REDUCTION_COMMON_BATCH_H
#define RF_OPS_REDUCTION_COMMON_BATCH_H

#include "ops/kit.h"
#include "ops/ops.h"
#include "rf_shaders.h"

enum { RF_BATCH_MOMENTS, RF_BATCH_AVERAGES, RF_BATCH_SUMS, RF_BATCH_ROLES };

/* How a kernel sums slices of rows: its data. */
typedef struct rf_batch_form {
    uint32_t width; /* columns of an invocation */
    int score;
    const rf_shader *sums, *products;
    bool texels;
    /* By role: the workgroup that comes last puts the slices together. NULL: none does. */
    const rf_shader *joined[RF_BATCH_ROLES];
} rf_batch_form;
rf_score_fn rf_batch_score;
rf_plan_fn rf_batch_plan;
rf_narrow_fn rf_batch_narrow;
extern const rf_kernel_list rf_batch_common;

/* The numbers that shaders make something of each column's sums with. */
typedef struct rf_batch_end {
    bool products, averages, scaled;
    float epsilon, keep, take;
} rf_batch_end;
rf_batch_end rf_batch_end_of(const rf_op_call *call);

#endif
