/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of the tables of kernels (kernels.c). */
#ifndef RF_OPS_REDUCTION_GPU_KERNELS_H
#define RF_OPS_REDUCTION_GPU_KERNELS_H

#include "ops/kit.h"

rf_score_fn rf_reduce_tiles_score, rf_batch_tiles_score;
rf_plan_fn rf_reduce_tiles_plan, rf_batch_tiles_plan;

#endif
