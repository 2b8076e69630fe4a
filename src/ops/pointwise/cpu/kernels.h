/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of the tables of kernels (kernels.c). */
#ifndef RF_OPS_POINTWISE_CPU_KERNELS_H
#define RF_OPS_POINTWISE_CPU_KERNELS_H

#include "ops/kit.h"

rf_score_fn rf_update_texels_score;
rf_score_fn rf_copies_texels_score;
rf_plan_fn rf_copies_texels_plan;
rf_narrow_fn rf_copies_texels_narrow;
rf_score_fn rf_gather_texels_score, rf_gather_lists_score;
rf_plan_fn rf_gather_lists_plan;
rf_score_fn rf_transpose_texels_score;
rf_plan_fn rf_transpose_texels_plan;
rf_narrow_fn rf_transpose_texels_narrow;

#endif
