/* SPDX-License-Identifier: Apache-2.0 */
/* Sequential models and the arguments of rf_model_compile(), as text. */
#ifndef RF_TRAIN_FILES_MODEL_JSON_H
#define RF_TRAIN_FILES_MODEL_JSON_H

#include "train/files/config_json.h"
#include "train/metric.h"
#include "train/model.h"

/* ---- the texts alone, without a device ---- */

typedef struct rf_architecture {
    rf_shape input;    /* of an example */
    rf_dtype dtype;    /* of its numbers */
    rf_layer **layers; /* none is built; free with rf_architecture_free() */
    uint32_t count;
} rf_architecture;
/* RF_ERROR_CORRUPT_DATA where it is none; `out` is empty then. */
rf_result rf_architecture_parse(const char *text, size_t size, rf_architecture *out);
/* rf_free(). */
rf_result rf_architecture_text(const rf_architecture *architecture, char **text);
/* Layers that a model has taken over stay. */
void rf_architecture_free(rf_architecture *architecture);

typedef struct rf_training {
    rf_optimizer_params optimizer; /* its schedule is the one below */
    rf_schedule schedule;
    rf_loss loss;
    rf_metric_kind metrics[RF_MAX_COMPILED_METRICS];
    uint32_t num_metrics, steps_per_execution;
} rf_training;
/* RF_ERROR_CORRUPT_DATA where it is none. Whether the optimizer's numbers make sense, rf_optimizer_configure() tells.
 */
/* To be freed with rf_optimizer_params_free(&out->optimizer). */
rf_result rf_training_parse(const char *text, size_t size, rf_training *out);
/* rf_free(). */
rf_result rf_training_text(const rf_training *training, char **text);

/* ---- of models ---- */

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
