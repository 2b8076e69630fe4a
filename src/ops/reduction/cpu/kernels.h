/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of the tables of kernels (kernels.c). */
#ifndef RF_OPS_REDUCTION_CPU_KERNELS_H
#define RF_OPS_REDUCTION_CPU_KERNELS_H

#include "ops/kit.h"

/* The data is an rf_scan_kernel of fours. */
rf_score_fn rf_scan_group_score;
rf_plan_fn rf_scan_group_plan;

typedef struct rf_pool_walk_form {
    const rf_shader *shaders[2]; /* for subgroups of 8 and of 16 */
    int32_t window;
    bool gradient; /* tiles are lines of dx, not of windows */
} rf_pool_walk_form;
rf_row_make_fn rf_pool_walk_job;

#endif
