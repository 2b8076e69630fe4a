/* SPDX-License-Identifier: Apache-2.0 */
/* A handful of operations on f32 with which the graph layer is tested without the real ones. */
#ifndef RF_TESTS_GRAPH_TOY_H
#define RF_TESTS_GRAPH_TOY_H

#include <string.h>

#include "../support/expect.h"
#include "base/error.h"
#include "base/philox.h"
#include "graph/graph.h"
#include "tests/room.h"

#define F32(...) ((rf_tensor_desc){ RF_F32, RF_SHAPE(__VA_ARGS__) })
#define SCALAR ((rf_tensor_desc){ RF_F32, RF_SCALAR_SHAPE })

/* add, mul: a, b of one shape. In-place. mul followed by add fuses into muladd. */
extern const rf_op toy_add, toy_mul, toy_muladd;
/* scale: x * attr. In-place. Two in a row fuse into one. */
extern const rf_op toy_scale;
extern const rf_op toy_sin, toy_cos;
/* square: takes a scale of the same x as its sibling: square_scale makes both. */
extern const rf_op toy_square, toy_square_scale;
/* split: 2x and x^2. */
extern const rf_op toy_split;
/* fan: x, 2x, 3x, ... to as many outputs as an op may have. */
extern const rf_op toy_fan;
/* sum: to a scalar; expand_like: a scalar to the shape of the second input. */
extern const rf_op toy_sum, toy_expand_like, toy_fill_like;
/* Views: flatten to [n, rest], the shape of another value, a fixed shape (attr: rf_shape). */
extern const rf_op toy_flatten, toy_reshape_like, toy_reshape;
extern const rf_op toy_floor;      /* no gradient declared */
extern const rf_op toy_stop;       /* gradient stops */
extern const rf_op toy_accumulate; /* state += x */
extern const rf_core_ops toy_core;

/* A graph with an input x and a state w, both [2, 2]. */
rf_graph *toy_graph(rf_value *x, rf_value *w);
rf_value toy1(rf_graph *g, const rf_op *op, rf_value x);
rf_value toy2(rf_graph *g, const rf_op *op, rf_value a, rf_value b);
rf_value toy_scaled(rf_graph *g, rf_value x, float by);
void toy_accumulated(rf_graph *g, rf_value state, rf_value x);
uint32_t toy_live_nodes(const rf_graph *g);
uint32_t toy_count(const rf_graph *g, const rf_op *op);
/* Every live node comes after what it reads, and use counts are true. */
void toy_check_order(const rf_graph *g);

/* A random graph: inputs [batch, 3], two states, `nodes` nodes of all kinds, some of which update a state. *results
 * gets `num_results` values. */
rf_graph *toy_random(rf_rng *rng, uint32_t nodes, int64_t batch, rf_value *results, uint32_t num_results);
/* New bytes for every leaf that is not a constant, the same for the same seed; from the arena. */
void **toy_fill_leaves(const rf_graph *g, rf_arena *arena, uint64_t seed);

/* Two NaN are the same. */
static inline bool same_numbers(const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (a[i] != b[i] && (a[i] == a[i] || b[i] == b[i])) return false;
    }
    return true;
}

#endif
