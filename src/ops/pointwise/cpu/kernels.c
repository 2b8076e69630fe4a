/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of kernels for software. */
#include "ops/pointwise/cpu/kernels.h"
#include "ops/pointwise/common/elementwise.h"
#include "ops/pointwise/common/sum_to_like.h"
#include "ops/pointwise/common/update.h"
#include "ops/pointwise/cpu/cpu.h"

static const rf_kernel elementwise[] = {
    { "texel", rf_elementwise_texel_score, rf_elementwise_texel_plan, .narrow = rf_texels_narrow },
};
const rf_kernel_list rf_elementwise_cpu = RF_KERNEL_LIST(elementwise);

static const rf_kernel update[] = {
    { "texel", rf_update_texels_score, rf_update_plan,
      &(const rf_update_form){ 8, RF_UPDATE_SHADERS(_texel8), RF_UPDATE_SHADERS(_texel16) } },
};
const rf_kernel_list rf_update_cpu = RF_KERNEL_LIST(update);

static const rf_kernel sum_to_like[] = {
    { RF_SUM_KERNEL("columns_texel", rf_reduce_columns_score, rf_reduce_plan, &rf_reduce_columns_texel) },
    { RF_SUM_KERNEL("rows_texel", rf_reduce_rows_score, rf_reduce_plan, &rf_reduce_rows_texel) },
};
const rf_kernel_list rf_sum_to_like_cpu = RF_KERNEL_LIST(sum_to_like);

static const rf_kernel copies[] = {
    { "texel", rf_copies_texels_score, rf_copies_texels_plan, .narrow = rf_copies_texels_narrow },
};
const rf_kernel_list rf_copies_cpu = RF_KERNEL_LIST(copies);

static const rf_kernel concat[] = {
    { "texel", rf_copies_texels_score, rf_copies_texels_plan, .narrow = rf_copies_texels_narrow },
    { "ones", rf_concat_ones_score, rf_concat_ones_plan },
    { "eights", rf_concat_eights_score, rf_concat_eights_plan },
};
const rf_kernel_list rf_concat_cpu = RF_KERNEL_LIST(concat);

static const rf_kernel transpose[] = {
    { "blocks_texel", rf_transpose_blocks_texels_score, rf_transpose_blocks_texels_plan },
    { "texel", rf_transpose_texels_score, rf_transpose_texels_plan, .narrow = rf_transpose_texels_narrow },
};
const rf_kernel_list rf_transpose_cpu = RF_KERNEL_LIST(transpose);

static const rf_kernel upsample[] = {
    { RF_ROW_KERNEL("texel", rf_upsample_texels_job) },
    { RF_ROW_KERNEL("lines", rf_upsample_lines_job) },
};
const rf_kernel_list rf_upsample_cpu = RF_KERNEL_LIST(upsample);

static const rf_kernel upsample_grad[] = {
    { RF_ROW_KERNEL("texel", rf_upsample_texels_job) },
    { RF_ROW_KERNEL("walk", rf_upsample_walk_job) },
    { RF_ROW_KERNEL("columns", rf_upsample_columns_job) },
};
const rf_kernel_list rf_upsample_grad_cpu = RF_KERNEL_LIST(upsample_grad);

static const rf_kernel gather_grad[] = { { "lists", rf_gather_lists_score, rf_gather_lists_plan } };
const rf_kernel_list rf_gather_grad_cpu = RF_KERNEL_LIST(gather_grad);
