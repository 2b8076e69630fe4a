/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A model as the graph of its forward pass: operations as they were traced, not fused, and what they read. Model files
 * and ONNX contain it, and rf_inference runs it.
 */
#ifndef RF_TRAIN_FILES_INFERENCE_GRAPH_H
#define RF_TRAIN_FILES_INFERENCE_GRAPH_H

#include <ringfire/train.h>

#include "replica/strategy.h"

/* Leaves are inputs; states, whose object is a rf_variable or whatever the reader put there; constants; and the host
 * value "global_batch". */
typedef struct rf_inference_graph {
    rf_graph *graph;         /* owned; only what the outputs need, and all inputs; shapes are those of two examples */
    rf_shape *shapes, *more; /* [values], owned: dimensions that follow the batch are -1; shapes of three examples */
    /* The same graph of other sizes in the place of those that the model leaves open: where shapes differ, `shapes` has
     * -1. Owned; NULL: there are none. */
    rf_graph *other;
    uint32_t num_inputs, num_outputs;
    rf_value inputs[RF_MAX_COMPONENTS], outputs[RF_MAX_COMPONENTS];
    const char *input_names[RF_MAX_COMPONENTS], *output_names[RF_MAX_COMPONENTS]; /* the graph's */
} rf_inference_graph;

enum { RF_INFERENCE_BATCH = 2 }; /* examples that the graph's shapes are for */

/* The part of a graph, traced for any batch, on which `outputs` depend. Names are copied. RF_ERROR_UNSUPPORTED names
 * what a file cannot hold. */
rf_result rf_inference_graph_make(const rf_graph *traced, const rf_value *outputs, uint32_t num_outputs,
                                  const char *const *input_names, const char *const *output_names,
                                  rf_inference_graph *out);
/* After graph, inputs, outputs and names are set: finds `shapes`. `batched`: dimension 0 of every input is the batch.
 */
rf_result rf_inference_graph_finish(rf_inference_graph *g, bool batched);
/* After that, of a graph that was read: `open[k]` is the shape of input k, -1 where it is open. Opens what follows. */
rf_result rf_inference_graph_open(rf_inference_graph *g, const rf_shape *open);
/* The attribute of a reshape, for all sizes of the inputs: RF_RESHAPE_KEEP and -1 where a size is open. */
rf_result rf_inference_reshape(const rf_inference_graph *g, const rf_node_info *node, rf_shape *to);
void rf_inference_graph_free(rf_inference_graph *g);

/* Traces the forward pass of a built model, training off. Collective. Dimensions that the model leaves open are open in
 * `shapes`; RF_ERROR_UNSUPPORTED names an operation that has their size in itself. */
rf_result rf_inference_graph_of_model(rf_model *model, rf_inference_graph *out);

#endif
