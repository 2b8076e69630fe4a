/* SPDX-License-Identifier: Apache-2.0 */
/* Sequential and functional models as text. */
#ifndef RF_TRAIN_FILES_MODEL_JSON_H
#define RF_TRAIN_FILES_MODEL_JSON_H

#include "persist/json.h"
#include "train/model/model.h"

/* ---- the texts alone, without a device ---- */

typedef struct rf_architecture {
    rf_shape input;    /* of a sequential model: of an example, */
    rf_dtype dtype;    /* and of its numbers */
    rf_layer **layers; /* none is built; free with rf_architecture_free() */
    uint32_t count;
    rf_layer_graph *graph; /* of a functional model; NULL: the layers are a sequence */
    const char *input_names[RF_MAX_COMPONENTS], *output_names[RF_MAX_COMPONENTS];
    rf_arena names;
} rf_architecture;
/* RF_ERROR_CORRUPT_DATA where it is none; `out` is empty then. */
rf_result rf_architecture_parse(const char *text, size_t size, rf_architecture *out);
/* rf_free(). */
rf_result rf_architecture_text(const rf_architecture *architecture, char **text);
/* Layers that a model has taken over stay. */
void rf_architecture_free(rf_architecture *architecture);

/* ---- of models ---- */

/* RF_ERROR_UNSUPPORTED where a model is code; `function` is for messages. */
rf_result rf_model_check_describable(const rf_model *model, const char *function);
/* Layers and how they are connected. rf_free(). */
rf_result rf_model_describe(const rf_model *model, char **text);
/* A built model; names of layers as they were. */
rf_result rf_model_from_description(rf_strategy *strategy, const char *text, rf_model **out);

#endif
