/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of the tables of kernels (kernels.c). */
#ifndef RF_OPS_POINTWISE_CPU_KERNELS_H
#define RF_OPS_POINTWISE_CPU_KERNELS_H

#include "ops/kit.h"

rf_score_fn rf_update_texels_score;
rf_score_fn rf_copies_texels_score, rf_concat_ones_score, rf_concat_eights_score;
rf_plan_fn rf_copies_texels_plan, rf_concat_ones_plan, rf_concat_eights_plan;
rf_narrow_fn rf_copies_texels_narrow;
rf_score_fn rf_transpose_texels_score, rf_transpose_blocks_texels_score;
rf_plan_fn rf_transpose_texels_plan, rf_transpose_blocks_texels_plan;
rf_narrow_fn rf_transpose_texels_narrow;
rf_row_make_fn rf_upsample_texels_job, rf_upsample_lines_job, rf_upsample_walk_job, rf_upsample_columns_job;
rf_score_fn rf_gather_lists_score;
rf_plan_fn rf_gather_lists_plan;

#endif
