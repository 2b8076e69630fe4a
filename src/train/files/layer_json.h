/* SPDX-License-Identifier: Apache-2.0 */
/* Layers as JSON: an object of their kind, their name and the fields of the kind. */
#ifndef RF_TRAIN_FILES_LAYER_JSON_H
#define RF_TRAIN_FILES_LAYER_JSON_H

#include "persist/json.h"
#include "train/layers/layer.h"

/* False where it is code. */
bool rf_layer_is_describable(const rf_layer *layer);
/* Describes a describable layer that has a name. The reference is the caller's. */
rf_result rf_layer_to_json(const rf_layer *layer, json_t **out);
/* Layers of a description that have been read. */
typedef struct rf_layer_row {
    rf_layer *const *layers;
    uint32_t count;
} rf_layer_row;
/* A layer that no model owns, not built; its name is that of the object. It may refer to one of those before it.
 * RF_ERROR_CORRUPT_DATA where the object describes none. */
rf_result rf_layer_from_json(const json_t *object, const rf_layer_row *before, rf_layer **out);

#endif
