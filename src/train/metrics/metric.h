/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RF_TRAIN_METRICS_METRIC_H
#define RF_TRAIN_METRICS_METRIC_H

#include <ringfire/train.h>

#include "replica/strategy.h"

enum { RF_METRIC_KINDS = RF_METRIC_CONFUSION_MATRIX + 1 };
/* By kind: what files, logs and messages call it. */
extern const char *const rf_metric_kind_names[RF_METRIC_KINDS];
/* "sparse_categorical_accuracy", ...; NULL when there is no such kind. */
const char *rf_metric_kind_name(rf_metric_kind kind);
rf_metric_kind rf_metric_kind_of(const rf_metric *metric);
/* For checkpoints: the state, its strategy, and states of other replicas made into those of `num_replicas` here: the
 * numbers as they are where there are as many, else all in the first. Each has `count` numbers. */
struct rf_local_state *rf_metric_state(rf_metric *metric);
rf_strategy *rf_metric_strategy(const rf_metric *metric);
/* For those that keep it: it stays in memory until they release it, even when its maker has destroyed it. */
rf_metric *rf_metric_retain(rf_metric *metric);
void rf_metric_release(rf_metric *metric);
/* Fails, in the name of the public function, when its maker has destroyed it. */
rf_result rf_metric_check_alive(const rf_metric *metric, const char *function);
void rf_metric_spread(const float *saved, uint32_t num_saved, float *states, uint32_t num_replicas, uint32_t count);
/* True for kinds that compare labels with predictions. */
bool rf_metric_compares(rf_metric_kind kind);
/* True for those that may leave out labels of one number. */
bool rf_metric_ignores(rf_metric_kind kind);
/* True for those that fit calls "accuracy" where there is one. */
bool rf_metric_is_accuracy(rf_metric_kind kind);

/* How a metric takes predictions beside the loss of its output (NULL: a function of the caller). */
typedef enum rf_reads_logits {
    RF_READS_PREDICTIONS, /* as they are: no probabilities are meant, or the metric says itself what they are */
    RF_READS_LOGITS,      /* as logits of single elements, which rf_metric_params::from_logits means */
    RF_READS_SOFTMAX,     /* after a softmax */
    RF_READS_ORDER        /* before or after one: as the loss does, so that both are made in one pass */
} rf_reads_logits;
rf_reads_logits rf_metric_reads_logits(const rf_metric_params *params, const rf_loss *loss);

enum { RF_MAX_COMPILED_METRICS = (RF_MAX_LOGS - 3) / 2 }; /* loss and metrics, twice for validation, and the rate */

/* The loss and the metrics of fit or evaluate. */
typedef struct rf_meters {
    rf_metric *loss;                             /* sum over steps of (loss of the global batch * its examples) */
    rf_metric *output_losses[RF_MAX_COMPONENTS]; /* the same of each output, where there are several */
    uint32_t num_output_losses;
    rf_metric *metrics[RF_MAX_COMPILED_METRICS];
    uint32_t num_metrics;
    uint64_t examples; /* since the last reset, counted on the host */
} rf_meters;
rf_result rf_meters_create(rf_strategy *strategy, const rf_metric_params *metrics, uint32_t num_metrics,
                           uint32_t num_output_losses, rf_meters *out);
void rf_meters_destroy(rf_meters *meters);
rf_result rf_meters_reset(rf_meters *meters);
/* In a step, for each term of the loss: the elements of `losses` over all replicas add up to the term of the global
 * batch times its examples. Weighing each step's loss by its examples makes an epoch's value the mean over examples,
 * short batches included. */
rf_result rf_meters_add_loss(rf_trace *t, rf_meters *meters, rf_tensor losses);
/* In a step: the loss of one output, in the same measure. */
rf_result rf_meters_add_output_loss(rf_trace *t, rf_meters *meters, uint32_t output, rf_tensor losses);
/* In a step: one of the metrics. */
rf_result rf_meters_update(rf_trace *t, rf_meters *meters, uint32_t metric, rf_tensor labels, rf_tensor predictions,
                           rf_tensor weight);
/* Number of values that rf_meters_read() appends: the loss, those of the outputs, metrics. */
uint32_t rf_meters_count(const rf_meters *meters);
/* Appends the values under `names`. Blocking. */
rf_result rf_meters_read(rf_meters *meters, const char *const *names, rf_logs *logs);

#endif
