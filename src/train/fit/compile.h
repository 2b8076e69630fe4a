/* SPDX-License-Identifier: Apache-2.0 */
/* rf_model_compile() prepares this: the train and evaluate functions with their meters. */
#ifndef RF_TRAIN_FIT_COMPILE_H
#define RF_TRAIN_FIT_COMPILE_H

#include <ringfire/train.h>

#include "train/metrics/metric.h"
#include "train/model/model.h"

/* A layer of the model, or of one that it calls and holds, and what it was when the model was compiled, or was found
 * where calls find layers only later. */
typedef struct rf_compiled_layer {
    rf_layer *layer;
    rf_layer_state state;
} rf_compiled_layer;

struct rf_compiled {
    rf_model *model;
    rf_optimizer *optimizer;           /* a reference */
    rf_loss losses[RF_MAX_COMPONENTS]; /* one for each output of the model */
    double loss_weights[RF_MAX_COMPONENTS];
    int32_t ignored[RF_MAX_COMPONENTS]; /* where ignore_class of the losses points */
    rf_loss_fn loss_fn;                 /* instead, where it is not NULL */
    void *loss_user;
    uint32_t steps_per_execution;
    rf_metric_params metrics[RF_MAX_COMPILED_METRICS]; /* those of the meters */
    int32_t metric_ignored[RF_MAX_COMPILED_METRICS];   /* where theirs points */
    uint32_t metric_outputs[RF_MAX_COMPILED_METRICS];  /* what each is of */
    const char *given_names[RF_MAX_COMPILED_METRICS];  /* what the program calls them; NULL: nothing */
    rf_metric_fn metric_fns[RF_MAX_COMPILED_METRICS];  /* NULL: the library's */
    void *metric_users[RF_MAX_COMPILED_METRICS];
    bool weighted[RF_MAX_COMPILED_METRICS]; /* by the sample weight */
    uint32_t num_metrics;
    rf_meters train_meters, evaluate_meters;
    /* "loss", those of outputs, metrics; in the model's arena */
    const char *names[1 + RF_MAX_COMPILED_METRICS];
    const char *val_names[1 + RF_MAX_COMPILED_METRICS]; /* the same with "val_" */
    rf_function *train, *evaluate;
    struct {
        rf_compiled_layer *items;
        uint32_t count, capacity;
    } layers;
    /* Components of the batches of the dataset in use. A change of it is a change of the input signature, so the steps,
     * which look at it, are traced anew. */
    uint32_t num_components;
    const rf_device_data *device_data; /* whose rows batches of `train` are; NULL: they hold examples */
};

/* Checks that a dataset is batched and has (inputs ..., label of each output ...[, sample weight]) of the types that
 * the model was built and compiled for, or at least the inputs where `labels` are not needed; `argument` is for the
 * message.
 */
rf_result rf_check_dataset(const rf_model *model, const rf_dataset *data, bool labels, const char *argument);
/* One pass over the dataset through the evaluate function; the meters hold the result. Fails for an empty one.
 * `stopped`: a stop was agreed meanwhile, by all workers after the same batch, and the pass ended there. A stop that
 * was agreed before is known to the caller, who evaluates all the same. */
rf_result rf_evaluate_pass(rf_compiled *compiled, const rf_dataset *data, const char *argument, bool *stopped);
/* Runs one batch and counts its examples. */
rf_result rf_run_batch(rf_compiled *compiled, rf_function *function, rf_meters *meters, const rf_element *batch);

#endif
