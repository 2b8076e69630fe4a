/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of sum_to_like that are those of the reduce op. */
#ifndef RF_OPS_POINTWISE_COMMON_SUM_TO_LIKE_H
#define RF_OPS_POINTWISE_COMMON_SUM_TO_LIKE_H

#include "ops/reduction/common/reduce.h"

/* The reduction's kernel: the data of these functions. */
typedef struct rf_sum_kernel {
    rf_score_fn *score;
    rf_plan_fn *plan;
    const void *form;
} rf_sum_kernel;
rf_score_fn rf_sum_score;
rf_plan_fn rf_sum_plan;
rf_narrow_fn rf_sum_narrow;
/* Rows of tables begin so. */
#define RF_SUM_KERNEL(text, ...)                                                                                       \
    text, rf_sum_score, rf_sum_plan, &(const rf_sum_kernel)                                                            \
    {                                                                                                                  \
        __VA_ARGS__                                                                                                    \
    }

#endif
