/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Products of tensors that are larger than a descriptor. A kernel that takes only what it can bind at once computes
 * such a call piece by piece along the leading dimension: rows, images, matrices of a batch, or summands, whose partial
 * sums are then added in order.
 */
#ifndef RF_OPS_LINEAR_CPU_LARGE_TENSORS_H
#define RF_OPS_LINEAR_CPU_LARGE_TENSORS_H

#include "ops/linear/common/linear.h"

/* How pieces are computed. */
typedef struct rf_piece_form {
    rf_score_fn *seconds; /* 0: it does not take the piece */
    rf_plan_fn *plan;
} rf_piece_form;
/* A kernel of pieces, which is the data of a kernel of whole calls; its form's functions get it as their data. */
typedef struct rf_piece_kernel {
    const rf_piece_form *form;
    rf_linear_role role;
    const struct rf_lanes_set *set;
    bool scalar; /* reads single floats */
} rf_piece_kernel;

/* By its own seconds where it takes the whole call; else by those of all pieces. */
rf_score_fn rf_pieces_score;
rf_plan_fn rf_pieces_plan;

#endif
