/* SPDX-License-Identifier: Apache-2.0 */
/* Einstein sums as a list of operations: a pure function of the equation and of shapes. */
#ifndef RF_TRACE_EINSUM_PLAN_H
#define RF_TRACE_EINSUM_PLAN_H

#include <ringfire/common.h>

enum { RF_EINSUM_OPERANDS = 8, RF_EINSUM_STEPS = 256 };

typedef enum rf_einsum_kind {
    RF_EINSUM_SQUEEZE,   /* axes[0] */
    RF_EINSUM_EXPAND,    /* axes[0], of the result */
    RF_EINSUM_SUM,       /* over the axes */
    RF_EINSUM_TRANSPOSE, /* by the axes */
    RF_EINSUM_RESHAPE,   /* to `sizes` */
    RF_EINSUM_MULTIPLY,
    RF_EINSUM_MATMUL
} rf_einsum_kind;

/* The product of some dimensions of a value, whatever they are in the batch at hand: a bit each. None: 1. */
typedef struct rf_einsum_size {
    uint32_t of, axes;
} rf_einsum_size;

/* Values are numbered: the operands, then what the steps make. */
typedef struct rf_einsum_step {
    rf_einsum_kind kind;
    uint32_t a, b;
    uint32_t num_axes;
    int32_t axes[RF_MAX_RANK];
    bool transpose_a, transpose_b;
    uint32_t num_sizes;
    rf_einsum_size sizes[RF_MAX_RANK];
} rf_einsum_step;

typedef struct rf_einsum_plan {
    uint32_t count, result; /* steps, and the value that is the sum */
    rf_einsum_step steps[RF_EINSUM_STEPS];
} rf_einsum_plan;

/*
 * Operands are contracted in pairs, from left to right unless that makes products of too many dimensions, each pair by
 * one product of matrices, or by multiplying elements where no letter is summed, or none is left beside those of both.
 * The steps hold no sizes: they fit whatever batch the dimensions follow. RF_ERROR_INVALID_ARGUMENT with a message that
 * names the equation.
 */
rf_result rf_einsum_plan_make(const char *equation, const rf_shape *shapes, uint32_t num_operands,
                              rf_einsum_plan *plan);

#endif
