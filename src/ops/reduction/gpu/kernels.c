/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of kernels for GPUs. */
#include "ops/reduction/gpu/kernels.h"
#include "ops/reduction/common/batch.h"
#include "ops/reduction/common/layer_norm.h"
#include "ops/reduction/common/softmax.h"
#include "ops/reduction/gpu/gpu.h"

static const rf_kernel reduce[] = {
    { "strips", rf_reduce_tiles_score, rf_reduce_tiles_plan, .narrow = rf_always_narrow },
};
const rf_kernel_list rf_reduce_gpu = RF_KERNEL_LIST(reduce);

static const rf_kernel batch[] = {
    { "strips", rf_batch_tiles_score, rf_batch_tiles_plan, .narrow = rf_batch_narrow },
};
const rf_kernel_list rf_batch_gpu = RF_KERNEL_LIST(batch);

static const rf_kernel softmax[] = {
    { RF_ROW_FORM("lanes_vec4", rf_softmax_job, RF_ROW_LANES, .fours = true,
                  .shaders = RF_SOFTMAX_SHADERS(_lanes_vec4)),
      .narrow = rf_always_narrow },
    { RF_ROW_FORM("lanes", rf_softmax_job, RF_ROW_LANES, .shaders = RF_SOFTMAX_SHADERS(_lanes)) },
};
const rf_kernel_list rf_softmax_gpu = RF_KERNEL_LIST(softmax);

static const rf_kernel layer_norm[] = {
    { RF_ROW_FORM("lanes_vec4", rf_layer_norm_job, RF_ROW_LANES, .fours = true,
                  .shaders = RF_LAYER_NORM_SHADERS(_lanes_vec4)),
      .narrow = rf_layer_norm_narrow },
    { RF_ROW_FORM("lanes", rf_layer_norm_job, RF_ROW_LANES, .shaders = RF_LAYER_NORM_SHADERS(_lanes)) },
};
const rf_kernel_list rf_layer_norm_gpu = RF_KERNEL_LIST(layer_norm);
