/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which dimensions of a graph's values count the batch. All shapes are inferred for two other batches as well: no size
 * that is fixed equals a dimension in both. They are multiples of the traced one by two primes, which can be divided
 * into whatever the traced batch is divided into.
 */
#ifndef RF_GRAPH_BATCH_DIMS_H
#define RF_GRAPH_BATCH_DIMS_H

#include "graph/graph.h"

/* Bit d of *out: dimension d of the value is another number with another batch. Works while the graph is traced: only
 * what was appended since the last question is inferred. A node that fits no other batch makes fixed dimensions. */
rf_result rf_graph_batch_dims(rf_graph *graph, rf_value v, uint32_t *out);

/* The shape for another batch: decisions that look at sizes, such as at a 1, hold for all batches if they hold there.
 */
rf_result rf_graph_other_shape(rf_graph *graph, rf_value v, rf_shape *out);

/* Whether two values have one shape, whatever the batch. */
rf_result rf_graph_same_shapes(rf_graph *graph, rf_value a, rf_value b, bool *same);

/* A dimension of per_example * batch + fixed elements. */
typedef struct rf_batch_dim {
    int64_t per_example, fixed;
} rf_batch_dim;
/* *linear is false where the dimension is no such number: a square, or a rounded quotient. */
rf_result rf_graph_batch_dim(rf_graph *graph, rf_value v, int32_t d, rf_batch_dim *out, bool *linear);

/* Notes whether what the results and updates of a complete graph need fits other batches than the traced one:
 * graph->fixed_by becomes a message that says which call of the step does not, and why, else it stays NULL. From then
 * on rf_graph_specialize() refuses other batches with this message. `results` NULL: all live nodes are needed. */
rf_result rf_graph_check_batches(rf_graph *graph, const rf_value *results, uint32_t num_results);

#endif
