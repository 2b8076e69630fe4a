/* SPDX-License-Identifier: Apache-2.0 */
/* The arguments of rf_model_compile(), as text. */
#ifndef RF_TRAIN_FILES_TRAINING_JSON_H
#define RF_TRAIN_FILES_TRAINING_JSON_H

#include "persist/json.h"
#include "train/metrics/metric.h"
#include "train/model/model.h"

/* The text alone, without a device. */
typedef struct rf_training {
    rf_optimizer_params optimizer; /* its schedule is the one below */
    rf_schedule schedule;
    rf_loss losses[RF_MAX_COMPONENTS]; /* one for each output of the model */
    double loss_weights[RF_MAX_COMPONENTS];
    uint32_t num_losses;
    int32_t ignored[RF_MAX_COMPONENTS]; /* where ignore_class of the losses points, of a text that was read */
    int32_t metric_ignored[RF_MAX_COMPILED_METRICS];
    rf_output_metric metrics[RF_MAX_COMPILED_METRICS];
    uint32_t num_metrics, steps_per_execution;
    rf_arena names; /* of metrics */
} rf_training;
/* RF_ERROR_CORRUPT_DATA where it is none. Whether the optimizer's numbers make sense, rf_optimizer_configure() tells.
 * Free with rf_training_free(). */
rf_result rf_training_parse(const char *text, size_t size, rf_training *out);
void rf_training_free(rf_training *training);
/* rf_free(). */
rf_result rf_training_text(const rf_training *training, char **text);

/* Optimizer (without state), losses, metrics. */
rf_result rf_compiled_describe(const rf_compiled *compiled, char **text);
/* Compiles the model with an optimizer that it owns. */
rf_result rf_model_compile_from_description(rf_model *model, const char *text);

#endif
