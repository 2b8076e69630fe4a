/* SPDX-License-Identifier: Apache-2.0 */
/* The roles of the ops that share layer_norm's kernels, and these. */
#ifndef RF_OPS_REDUCTION_COMMON_LAYER_NORM_H
#define RF_OPS_REDUCTION_COMMON_LAYER_NORM_H

#include "ops/reduction/common/row_forms.h"

enum { RF_LAYER_NORM, RF_LAYER_NORM_GRAD };
/* The shaders of these roles, by the end of their names. */
#define RF_LAYER_NORM_SHADERS(end)                                                                                     \
    (const rf_shader *const[])                                                                                         \
    {                                                                                                                  \
        [RF_LAYER_NORM] = &rf_shader_layer_norm##end, [RF_LAYER_NORM_GRAD] = &rf_shader_layer_norm_grad##end           \
    }
extern const rf_kernel_list rf_layer_norm_common;

#endif
