/* SPDX-License-Identifier: Apache-2.0 */
/* Fields of layers' descriptions as JSON. Absent members leave what they are read into as it is. */
#ifndef RF_TRAIN_FILES_LAYER_FIELDS_H
#define RF_TRAIN_FILES_LAYER_FIELDS_H

#include "train/files/layer_json.h"

#define RF_NAME_COUNT(names) ((int)(sizeof(names) / sizeof((names)[0])))

/* How layers of a kind are described, beside their kind and name. */
typedef struct rf_layer_describer {
    const char *kind;
    rf_result (*to_json)(const rf_layer *layer, json_t *object);
    rf_result (*from_json)(const json_t *object, const char *name, rf_layer **out);
    rf_result (*create)(rf_layer **out); /* of layers without fields, instead of both */
    /* Instead of from_json for layers that refer to others. */
    rf_result (*from_json_after)(const json_t *object, const char *name, const rf_layer_row *before, rf_layer **out);
} rf_layer_describer;
/* Describers of layers over images and sequences; the last one has no kind. */
extern const rf_layer_describer rf_window_describers[];

/* A list of `count` 32-bit integers. */
json_t *rf_list_to_json(const int32_t *values, size_t count);
rf_result rf_list_from_json(const json_t *object, const char *name, int32_t *values, size_t count);
json_t *rf_initializer_to_json(const rf_initializer *i);
rf_result rf_initializer_from_json(const json_t *object, const char *name, rf_initializer *out);
json_t *rf_regularizer_to_json(rf_regularizer r);
rf_result rf_regularizer_from_json(const json_t *object, const char *name, rf_regularizer *out);

/* Fields that dense and convolution have in common. */
typedef struct rf_affine_fields {
    int activation;
    bool use_bias;
    rf_initializer kernel, bias;
    rf_regularizer regularizer;
} rf_affine_fields;
rf_result rf_affine_to_json(const rf_layer *layer, const rf_affine *affine, json_t *object);
rf_result rf_affine_from_json(const json_t *object, rf_affine_fields *out);
/* How a kernel moves over an image. */
rf_result rf_conv2d_to_json(const rf_conv2d_params *conv, json_t *object);
rf_result rf_conv2d_from_json(const json_t *object, rf_conv2d_params *out);

#endif
