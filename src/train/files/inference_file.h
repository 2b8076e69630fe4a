/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs for inference in files: the text, weights and constants. */
#ifndef RF_TRAIN_FILES_INFERENCE_FILE_H
#define RF_TRAIN_FILES_INFERENCE_FILE_H

#include "train/files/inference_graph.h"

typedef struct rf_inference_variables {
    rf_variable **items; /* owned */
    uint32_t count, capacity;
} rf_inference_variables;

/* Reads a file that holds a graph; *found is false where it holds something else. The object of a state in the graph is
 * the rf_variable, which is made on the strategy. Collective. Free both also after a failure. */
rf_result rf_inference_file_read(rf_strategy *strategy, const char *path, bool *found, rf_inference_graph *graph,
                                 rf_inference_variables *variables);
void rf_inference_variables_free(rf_inference_variables *variables);

#endif
