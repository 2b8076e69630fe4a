/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which example of the batch each element of a value belongs to. Random numbers follow it: an element draws those of
 * its example, whichever replica computes that, and wherever in a tensor the batch stands. Sizes alone do not tell, as
 * [4 * n, 8] may be four batches or examples of four rows each, so nodes are followed from the inputs on. Pure.
 */
#ifndef RF_GRAPH_EXAMPLES_H
#define RF_GRAPH_EXAMPLES_H

#include "graph/graph.h"

typedef enum rf_examples_kind {
    RF_EXAMPLES_NONE,    /* the shape does not depend on the batch */
    RF_EXAMPLES_EACH,    /* every element belongs to one example: see rf_examples */
    RF_EXAMPLES_UNKNOWN, /* elements belong to several examples, or to one that is not known */
} rf_examples_kind;

/* Dimension of `outer` * n * `inner` rows, n being the batch: row (o * n + example) * inner + i. Both are 0 where the
 * dimension does not depend on the batch. */
typedef struct rf_examples_dim {
    int64_t outer, inner; /* -1: which example a row belongs to is not known */
} rf_examples_dim;

struct rf_examples {
    rf_examples_kind kind;
    int64_t outer, inner; /* of EACH: element (o * n + example) * inner + i belongs to `example` */
    const char *lost_by;  /* of UNKNOWN: the call with which it began */
    rf_shape shape;
    uint32_t follows;             /* bit d: dimension d depends on the batch */
    int64_t batches[RF_MAX_RANK]; /* such a dimension is so many times n; 0: it is not */
    rf_examples_dim dim[RF_MAX_RANK];
};

/* The examples of all values of a graph, as far as they were followed. Zeroed before first use. */
typedef struct rf_examples_map {
    rf_examples *items; /* [num_values] */
    uint32_t capacity, num_values, num_nodes;
} rf_examples_map;

/* Follows what the graph has got since the last call. */
rf_result rf_examples_follow(rf_examples_map *map, rf_graph *graph);
void rf_examples_map_free(rf_examples_map *map);

/* For rf_op.examples: what dimension `axis` of the op's output is, and with it the whole. */
void rf_examples_set_dim(rf_examples *out, int32_t axis, rf_examples_dim dim);
#define RF_EXAMPLES_DIM_UNKNOWN ((rf_examples_dim){ -1, -1 })

#endif
