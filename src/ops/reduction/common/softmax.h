/* SPDX-License-Identifier: Apache-2.0 */
/* The roles of the ops that share softmax's kernels, and these. */
#ifndef RF_OPS_REDUCTION_COMMON_SOFTMAX_H
#define RF_OPS_REDUCTION_COMMON_SOFTMAX_H

#include "ops/reduction/common/row_forms.h"

enum { RF_SOFTMAX, RF_LOG_SOFTMAX, RF_SOFTMAX_GRAD, RF_LOG_SOFTMAX_GRAD };
/* The shaders of these roles, by the end of their names. */
#define RF_SOFTMAX_SHADERS(end)                                                                                        \
    (const rf_shader *const[])                                                                                         \
    {                                                                                                                  \
        [RF_SOFTMAX] = &rf_shader_softmax##end, [RF_LOG_SOFTMAX] = &rf_shader_log_softmax##end,                        \
        [RF_SOFTMAX_GRAD] = &rf_shader_softmax_grad##end, [RF_LOG_SOFTMAX_GRAD] = &rf_shader_log_softmax_grad##end     \
    }
extern const rf_kernel_list rf_softmax_common;

#endif
