/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of kernels for software. */
#include "ops/pointwise/cpu/kernels.h"
#include "ops/pointwise/common/elementwise.h"
#include "ops/pointwise/common/gather.h"
#include "ops/pointwise/common/sum_to_like.h"
#include "ops/pointwise/common/update.h"
#include "ops/pointwise/cpu/cpu.h"
#include "ops/reduction/cpu/cpu.h"
#include "rf_shaders.h"

static const rf_kernel elementwise[] = {
    { "texel", rf_elementwise_texel_score, rf_elementwise_plan,
      &(const rf_elementwise_form){ RF_ELEMENTWISE_SHADERS(texel), 8, 4, true }, .narrow = rf_texels_narrow },
};
const rf_kernel_list rf_elementwise_cpu = RF_KERNEL_LIST(elementwise);

static const rf_kernel update[] = {
    { "texel", rf_update_texels_score, rf_update_plan, &(const rf_update_form){ 8, RF_UPDATE_SHADERS(_texel), true } },
};
const rf_kernel_list rf_update_cpu = RF_KERNEL_LIST(update);

static const rf_kernel sum_to_like[] = {
    { RF_SUM_KERNEL("columns_texel", rf_reduce_columns_score, rf_reduce_plan, &rf_reduce_columns_texel) },
};
const rf_kernel_list rf_sum_to_like_cpu = RF_KERNEL_LIST(sum_to_like);

static const rf_kernel copies[] = {
    { "texel", rf_copies_texels_score, rf_copies_texels_plan, .narrow = rf_copies_texels_narrow },
};
const rf_kernel_list rf_copies_cpu = RF_KERNEL_LIST(copies);

static const rf_kernel transpose[] = {
    { "texel", rf_transpose_texels_score, rf_transpose_texels_plan, .narrow = rf_transpose_texels_narrow },
};
const rf_kernel_list rf_transpose_cpu = RF_KERNEL_LIST(transpose);

static const rf_kernel gather[] = {
    { "texel", rf_gather_texels_score, rf_gather_plan,
      &(const rf_gather_form){ &rf_shader_gather_texel, &rf_shader_gather_lines }, .narrow = rf_gather_narrow },
};
const rf_kernel_list rf_gather_cpu = RF_KERNEL_LIST(gather);

static const rf_kernel gather_grad[] = { { "lists", rf_gather_lists_score, rf_gather_lists_plan } };
const rf_kernel_list rf_gather_grad_cpu = RF_KERNEL_LIST(gather_grad);
