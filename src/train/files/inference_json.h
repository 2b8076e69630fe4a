/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs for inference as text; docs/reference/checkpoint-format.md has the form. Readers trust nothing. */
#ifndef RF_TRAIN_FILES_INFERENCE_JSON_H
#define RF_TRAIN_FILES_INFERENCE_JSON_H

#include "persist/json.h"
#include "train/files/inference_graph.h"

/* Where a reader gets what the text only names. */
typedef struct rf_inference_tensors {
    void *user;
    /* The bytes of a constant, owned by the caller. The file is not to be believed: check before allocating. */
    rf_result (*constant)(void *user, const char *tensor, const rf_tensor_desc *desc, void **data);
    /* A variable, and the object that stands for it in the graph. */
    rf_result (*variable)(void *user, const char *tensor, const char *name, const rf_tensor_desc *desc, void **object);
} rf_inference_tensors;

/* tensors[v]: the tensor of each state and constant. One line; rf_free(). */
rf_result rf_inference_graph_to_text(const rf_inference_graph *g, char *const *tensors, char **text);
/* RF_ERROR_CORRUPT_DATA and RF_ERROR_UNSUPPORTED name the thing. */
rf_result rf_inference_graph_from_text(const char *text, size_t size, const rf_inference_tensors *tensors,
                                       rf_inference_graph *out);

/* Attributes of an op; fields that are zero are left out. NULL: out of memory. */
json_t *rf_attributes_to_json(const rf_op *op, const void *attr);
/* Fills op->attr_size zeroed bytes. `object` may be NULL: all zero. */
rf_result rf_attributes_from_json(const rf_op *op, const json_t *object, void *attr);

#endif
