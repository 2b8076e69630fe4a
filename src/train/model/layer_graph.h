/* SPDX-License-Identifier: Apache-2.0 */
/* How the layers of a functional model are connected. Values are numbered: the model's inputs, then the outputs of each
 * call in turn; a call uses values of lower numbers only. */
#ifndef RF_TRAIN_MODEL_LAYER_GRAPH_H
#define RF_TRAIN_MODEL_LAYER_GRAPH_H

#include "train/model/model.h"

/* One application of a layer. */
typedef struct rf_layer_use {
    uint32_t layer;                 /* number in the model */
    uint32_t first_operand, num_in; /* in `operands` of the graph */
    uint32_t mask;                  /* a value; RF_NO_VALUE: none */
    uint32_t num_out;               /* their values follow those of the use before */
} rf_layer_use;

#define RF_NO_VALUE UINT32_MAX

struct rf_layer_graph {
    uint32_t num_inputs;
    rf_tensor_desc inputs[RF_MAX_COMPONENTS]; /* of an example */
    struct {
        rf_layer_use *items;
        uint32_t count, capacity;
    } uses;
    struct {
        uint32_t *items;
        uint32_t count, capacity;
    } operands;
    uint32_t num_values;
    uint32_t outputs[RF_MAX_COMPONENTS], num_outputs;
};

/* Appends a use of a layer, whose operands are copied. The first of its outputs is value num_values from before. */
rf_result rf_layer_graph_add(rf_layer_graph *graph, uint32_t layer, const uint32_t *in, uint32_t num_in, uint32_t mask,
                             uint32_t num_out);
/* A pure check of a whole graph for `layers`: values are made before they are used, layers take what they get, and
 * inputs and layers all have a part in an output. Messages name layers; `input_names` has one for each input. */
rf_result rf_layer_graph_check(const rf_layer_graph *graph, rf_layer *const *layers, uint32_t num_layers,
                               const char *const *input_names);
/* rf_model_apply_fn; `user` is the graph. */
rf_result rf_layer_graph_apply(rf_trace *t, rf_model *model, const rf_tensor *in, rf_tensor *out, rf_mode mode,
                               void *user);
/* NULL does nothing. */
void rf_layer_graph_free(rf_layer_graph *graph);

#endif
