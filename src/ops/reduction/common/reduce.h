/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of the reduce op (reduce_kernels.c), which sum_to_like has as well. */
#ifndef RF_OPS_REDUCTION_COMMON_REDUCE_H
#define RF_OPS_REDUCTION_COMMON_REDUCE_H

#include "ops/kit.h"
#include "ops/ops.h"
#include "rf_shaders.h"

/* Bit i: axis i is reduced. Never 0 unless the input is a scalar. */
uint32_t rf_reduce_axes(const rf_op_call *call);

/* ---- kernels ---- */

/* As in shaders/reduction/common/reduce.glsl: a mean is a sum and a factor. */
enum { RF_KIND_SUM, RF_KIND_MAX, RF_KIND_SQUARES, RF_KIND_ABS, RF_KIND_MIN };
uint32_t rf_reduce_shader_kind(const rf_op_call *call);

/* The input as alternating groups of kept and reduced dimensions, in memory order; at most three of each. Entry 2 of an
 * array is the innermost group; groups that do not exist have size 1 and stride 0. */
typedef struct rf_reduce_groups {
    uint32_t n_kept, n_red;
    uint64_t kept[3], kept_stride[3], red[3], red_stride[3];
    uint64_t n_out, total; /* products of kept, of red */
    bool lead_reduced;     /* the outermost group is a reduced one */
    uint64_t lead;         /* its size */
} rf_reduce_groups;

void rf_reduce_groups_make(const rf_op_call *call, rf_reduce_groups *out);
float rf_reduce_scale(const rf_op_call *call, const rf_reduce_groups *groups);

/* Data of the kernels below. */
typedef struct rf_reduce_form {
    const rf_shader *shader;
    bool per_group;                     /* a workgroup, not an invocation, makes a result */
    uint32_t vector;                    /* results of one invocation */
    uint32_t slice_multiple, min_slice; /* slice lengths: multiples of the first, at least about the second */
    uint32_t cpu_target, gpu_target;    /* slice until so many invocations (workgroups) are busy */
    bool tail;                          /* the shader has a second view of the input at binding 2 */
    const rf_shader *whole;             /* adds up slices as well: of forms whose binding 0 is a texel buffer */
} rf_reduce_form;
extern const rf_reduce_form rf_reduce_any, rf_reduce_columns, rf_reduce_rows, rf_reduce_tree;
rf_score_fn rf_reduce_any_score, rf_reduce_columns_score, rf_reduce_rows_score, rf_reduce_tree_score;
rf_plan_fn rf_reduce_plan;
extern const rf_kernel_list rf_reduce_common;

#endif
