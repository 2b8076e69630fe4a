/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs whose STATE values are ranges of flat arrays: what programs between two steps are made of. */
#ifndef RF_REPLICA_SCHEDULE_RANGE_GRAPH_H
#define RF_REPLICA_SCHEDULE_RANGE_GRAPH_H

#include "exec/exec.h"
#include "replica/strategy.h"

typedef struct rf_range_graph {
    rf_graph *graph;
    struct {
        rf_location *items;
        uint32_t count, capacity;
    } states; /* by slot */
    struct {
        rf_value *items;
        uint32_t count, capacity;
    } results;
    struct {
        rf_program_placement *items;
        uint32_t count, capacity;
    } placements;
} rf_range_graph;

/* States are told apart by `object`. */
rf_result rf_range_graph_located(rf_range_graph *g, const void *object, rf_location at, rf_tensor_desc desc,
                                 rf_value *out);
/* f32 elements of a buffer, from `offset` on. */
rf_result rf_range_graph_shaped(rf_range_graph *g, const void *object, rf_gpu_buffer *buffer, uint64_t offset,
                                rf_shape shape, rf_value *out);
rf_result rf_range_graph_state(rf_range_graph *g, const void *object, rf_gpu_buffer *buffer, uint64_t offset,
                               uint64_t count, rf_value *out);
/* The host reads it when the program has run. */
rf_result rf_range_graph_result(rf_range_graph *g, rf_value v);
/* It is written there. */
rf_result rf_range_graph_place(rf_range_graph *g, rf_value v, rf_location at);
/* *out is NULL where nothing is computed. */
rf_result rf_range_graph_program(const rf_range_graph *g, rf_exec *exec, const char *name, bool picks_numbers,
                                 rf_program **out);
void rf_range_graph_free(rf_range_graph *g);

#endif
