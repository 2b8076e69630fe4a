/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of kernels for software. */
#include "ops/reduction/common/batch.h"
#include "ops/reduction/common/layer_norm.h"
#include "ops/reduction/cpu/cpu.h"

const rf_reduce_form rf_reduce_columns_texel = { .shader = &rf_shader_reduce_columns_texel,
                                                 .whole = &rf_shader_reduce_columns_whole,
                                                 .vector = 4,
                                                 .slice_multiple = 1,
                                                 .min_slice = 32,
                                                 .cpu_target = 128,
                                                 .gpu_target = 16384 };
static const rf_kernel reduce[] = {
    { "columns_texel", rf_reduce_columns_score, rf_reduce_plan, &rf_reduce_columns_texel },
};
const rf_kernel_list rf_reduce_cpu = RF_KERNEL_LIST(reduce);

static const rf_batch_form batch_texels = { .width = 4,
                                            .score = RF_SCORE_DRIVER,
                                            .sums = &rf_shader_batch_sums_texel,
                                            .products = &rf_shader_batch_products_texel,
                                            .texels = true,
                                            .joined = { [RF_BATCH_MOMENTS] = &rf_shader_batch_joined_moments,
                                                        [RF_BATCH_AVERAGES] = &rf_shader_batch_joined_averages,
                                                        [RF_BATCH_SUMS] = &rf_shader_batch_joined_products } };
static const rf_kernel batch[] = { { "texel", rf_batch_score, rf_batch_plan, &batch_texels } };
const rf_kernel_list rf_batch_cpu = RF_KERNEL_LIST(batch);

static const rf_kernel layer_norm[] = {
    { RF_ROW_FORM("row_texel", rf_layer_norm_job, .fours = true, .texels = true,
                  .shaders = RF_LAYER_NORM_SHADERS(_texel)) },
};
const rf_kernel_list rf_layer_norm_cpu = RF_KERNEL_LIST(layer_norm);
