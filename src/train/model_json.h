/* SPDX-License-Identifier: Apache-2.0 */
/* Sequential models and what they were compiled with, as text. */
#ifndef RF_TRAIN_MODEL_JSON_H
#define RF_TRAIN_MODEL_JSON_H

#include "train/config_json.h"
#include "train/model.h"

/* RF_ERROR_UNSUPPORTED where a model is code; `function` is for messages. */
rf_result rf_model_check_describable(const rf_model *model, const char *function);
/* Layers and the shape of an example. rf_free(). */
rf_result rf_model_describe(const rf_model *model, char **text);
/* A built model; names of layers as they were. */
rf_result rf_model_from_description(rf_strategy *strategy, const char *text, rf_model **out);

/* Optimizer (without state), loss, metrics. */
rf_result rf_compiled_describe(const rf_compiled *compiled, char **text);
/* Compiles the model with an optimizer that it owns. */
rf_result rf_model_compile_from_description(rf_model *model, const char *text);

#endif
