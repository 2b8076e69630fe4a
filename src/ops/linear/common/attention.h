/* SPDX-License-Identifier: Apache-2.0 */
/* The shape of an attention call, or of its gradient's, as its kernels see it. */
#ifndef RF_OPS_LINEAR_COMMON_ATTENTION_H
#define RF_OPS_LINEAR_COMMON_ATTENTION_H

#include "ops/linear/common/linear.h"

typedef struct rf_attention_geometry {
    int64_t items, heads; /* items: examples * heads */
    int64_t t, s, k, v;   /* queries, keys; widths of both, of values */
    bool gradient, causal;
    float scale;
    uint32_t query, mask;                               /* numbers of inputs: the first of three; 0: there is none */
    int64_t mask_item, mask_head, mask_query, mask_key; /* strides, 0 where the mask has one for all */
} rf_attention_geometry;
/* The shapes of the call were checked by inference. */
rf_attention_geometry rf_attention_geometry_of(const rf_op_call *call, bool gradient);
/* Key k is attended to by query i if k <= i + this, where order counts. */
static inline int64_t rf_attention_last_key(const rf_attention_geometry *g)
{
    return g->s - g->t;
}

/* attention_rows.c: for any shape. */
rf_score_fn rf_attention_rows_score, rf_attention_grad_rows_score;
rf_plan_fn rf_attention_rows_plan, rf_attention_grad_rows_plan;

#endif
