/* SPDX-License-Identifier: Apache-2.0 */
/* Declarations that only the files of src/graph/ share. */
#ifndef RF_GRAPH_INTERNAL_H
#define RF_GRAPH_INTERNAL_H

#include "graph/graph.h"

/* True when node input i is read for its bytes, not only for its shape. */
static inline bool rf_op_reads(const rf_op *op, uint32_t i)
{
    return !(op->shape_only >> i & 1);
}

/* Calls op->infer and checks what it made. call->in, attr and op are given. Errors name the op. */
rf_result rf_op_infer(rf_op_call *call);
/* Like rf_graph_add's checks: arity and sizes that the op declares. */
rf_result rf_op_check(const rf_op *op, uint32_t n_in);

/* Copy of the attributes that lives as long as the graph; NULL + record on failure. */
const void *rf_graph_keep_attr(rf_graph *graph, const rf_op *op, const void *attr);
/* ---- batch_dims.c: shapes for two other batches, of all values so far ---- */
rf_result rf_batch_shapes_update(rf_graph *graph);
void rf_batch_shapes_forget(rf_graph *graph);
/* The op, its attributes and inputs for the other batch 0 or 1. */
void rf_batch_shapes_call(const rf_graph *graph, const rf_node_info *node, uint32_t other, rf_op_call *call);
/* Whether a call makes of the values `in` what the values `out` are with the other batches, too (0: new ones). `made`
 * gets the shapes of all its outputs. */
bool rf_batch_shapes_fit(const rf_graph *graph, const rf_op_call *call, const rf_value *in, const rf_value *out,
                         rf_batch_shapes *made);

/* Adds `sign` (1 or -1) to the use count of each value the node reads. */
void rf_graph_count_uses(rf_graph *graph, const rf_node_info *node, int sign);
/* Takes a node out: flag and use counts. */
void rf_graph_remove_node(rf_graph *graph, rf_node node);
/* RF_ERROR_INVALID_ARGUMENT unless all values exist. `what` names the array in the message. */
rf_result rf_graph_check_values(const rf_graph *graph, const char *what, const rf_value *values, uint32_t count);

/* The slot of an equal leaf or node in a table of such, else the empty one (0) where it belongs; valid until the next
 * reservation. Leaves are equal by identity (input slot, object), constants by contents, nodes by op, attributes and
 * inputs. */
uint32_t *rf_graph_index_leaf(const rf_graph *graph, const rf_graph_index *index, const rf_value_info *leaf);
uint32_t *rf_graph_index_node(const rf_graph *graph, const rf_graph_index *index, const rf_node_info *node);
/* Makes room for one more entry. */
rf_result rf_graph_index_reserve(const rf_graph *graph, rf_graph_index *index);
/* Into a slot that was found. */
void rf_graph_index_put(rf_graph_index *index, uint32_t *slot, uint32_t number, bool is_node);
rf_result rf_graph_index_copy(const rf_graph_index *from, rf_graph_index *to);
/* The value or node that a slot's contents (not 0) stand for. */
static inline uint32_t rf_graph_index_number(uint32_t entry)
{
    return (entry - 1) >> 1;
}

#endif
