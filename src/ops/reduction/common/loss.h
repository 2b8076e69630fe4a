/* SPDX-License-Identifier: Apache-2.0 */
/* The roles of cross-entropies, their kernels, and fusions into their gradients. */
#ifndef RF_OPS_REDUCTION_COMMON_LOSS_H
#define RF_OPS_REDUCTION_COMMON_LOSS_H

#include "graph/graph.h"
#include "ops/ops.h"
#include "ops/reduction/common/row_forms.h"

enum { RF_LOSS_SPARSE, RF_LOSS_DENSE };
/* The attributes of a call, which may have none. */
const rf_loss_attr *rf_loss_attr_of(const rf_op_call *call);
extern const rf_kernel_list rf_loss_common;

/* A gradient that is the same number for all rows is read as that number: broadcast_like's hook. */
bool rf_loss_absorb_dloss(const rf_graph *graph, rf_node producer, rf_node consumer, rf_fused *fused);
/* The losses of the same predictions become the gradient's second output; where they are added up, and whether
 * predictions are right, further ones. */
bool rf_loss_absorb(const rf_graph *graph, rf_node self, rf_node other, rf_fused *fused, uint32_t *other_out);

#endif
