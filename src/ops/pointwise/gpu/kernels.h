/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of the tables of kernels (kernels.c). */
#ifndef RF_OPS_POINTWISE_GPU_KERNELS_H
#define RF_OPS_POINTWISE_GPU_KERNELS_H

#include "ops/kit.h"

rf_score_fn rf_gather_marks_score;
rf_plan_fn rf_gather_marks_plan;
rf_narrow_fn rf_gather_marks_narrow;

#endif
