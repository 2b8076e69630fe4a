/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of kernels for GPUs. */
#include "ops/pointwise/gpu/kernels.h"
#include "ops/pointwise/common/sum_to_like.h"
#include "ops/pointwise/gpu/gpu.h"
#include "ops/reduction/gpu/kernels.h"

static const rf_kernel sum_to_like[] = {
    { RF_SUM_KERNEL("strips", rf_reduce_tiles_score, rf_reduce_tiles_plan, NULL), .narrow = rf_sum_narrow },
};
const rf_kernel_list rf_sum_to_like_gpu = RF_KERNEL_LIST(sum_to_like);

static const rf_kernel gather_grad[] = {
    { "marks", rf_gather_marks_score, rf_gather_marks_plan, .narrow = rf_gather_marks_narrow },
};
const rf_kernel_list rf_gather_grad_gpu = RF_KERNEL_LIST(gather_grad);
