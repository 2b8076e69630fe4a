/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * Metrics: values that are accumulated over batches on the devices. The rules of train.h for all of
 * its functions hold here as well.
 */
#ifndef RINGFIRE_METRICS_H
#define RINGFIRE_METRICS_H

#include <ringfire/common.h>
#include <ringfire/ops.h>
#include <ringfire/strategy.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A value that is accumulated over batches on the devices. */
typedef struct rf_metric rf_metric;

/** The values that a metric accumulates. */
typedef enum rf_metric_kind {
    RF_METRIC_MEAN,
    RF_METRIC_SUM,
    RF_METRIC_SPARSE_CATEGORICAL_ACCURACY,
    RF_METRIC_CATEGORICAL_ACCURACY,
    RF_METRIC_BINARY_ACCURACY, /**< of single elements */
    RF_METRIC_PRECISION, /**< of what is predicted to be 1, the part that is; labels are 0 or 1 */
    RF_METRIC_RECALL,    /**< of what is 1, the part that is predicted to be */
    /** The label's class is among the k with the largest predictions; ties count as being among. */
    RF_METRIC_SPARSE_TOP_K_CATEGORICAL_ACCURACY,
    RF_METRIC_TOP_K_CATEGORICAL_ACCURACY,
    RF_METRIC_MEAN_SQUARED_ERROR,
    RF_METRIC_MEAN_ABSOLUTE_ERROR,
    /** Harmonic mean of precision and recall, of all elements together; labels are 0 or 1. */
    RF_METRIC_F1,
    /**
     * Area under the curve of true over false positives, or of precision over recall, of
     * probabilities with labels 0 or 1, by counts at `num_thresholds` thresholds as in Keras. The
     * first sums trapezoids, the second interpolates as Davis & Goadrich 2006 do.
     */
    RF_METRIC_AUC_ROC,
    RF_METRIC_AUC_PR,
    /** e to the mean of the sparse categorical crossentropy; sample_weight masks padding. */
    RF_METRIC_PERPLEXITY,
    /**
     * Metrics of rankings: predictions are scores of candidates, the label is the number of the
     * true one. Its rank is the number of scores that are not below its own, so that ties count
     * against it. HIT_RATE is the part whose rank is k at most, NDCG the mean of log 2 / log(rank +
     * 1) where it is, else 0. Candidates to leave out have the score -infinity.
     */
    RF_METRIC_HIT_RATE,
    RF_METRIC_NDCG,
    /**
     * How often each class is taken for each, of class numbers and predictions of at least two
     * classes: row i, column j counts labels i whose largest prediction is that of class j. Its one
     * value, for logs, is the part on the diagonal: the accuracy.
     */
    RF_METRIC_CONFUSION_MATRIX,
} rf_metric_kind;
/**
 * How precision, recall and F1 become one value, as `average` of Keras' F1Score. With all but the
 * first, the last axis of predictions is that of classes, and labels are one-hot, or classes i32
 * with an axis less.
 */
typedef enum rf_metric_average {
    RF_METRIC_AVERAGE_ELEMENTS, /**< all elements together, each above the threshold or not */
    RF_METRIC_AVERAGE_NONE,     /**< a value of each class: rf_metric_results() */
    RF_METRIC_AVERAGE_MICRO,    /**< of the counts of all classes together */
    RF_METRIC_AVERAGE_MACRO,    /**< the mean over classes, also those that never occur */
    RF_METRIC_AVERAGE_WEIGHTED, /**< the mean over classes, weighted by how often labels are of it
                                 */
} rf_metric_average;
/** Divisors of the counts in a confusion matrix; a row, column or matrix without any stays 0. */
typedef enum rf_metric_normalize {
    RF_METRIC_NORMALIZE_NONE,        /**< counts, or sums of sample weights */
    RF_METRIC_NORMALIZE_LABELS,      /**< each row by its sum: the diagonal has the recalls */
    RF_METRIC_NORMALIZE_PREDICTIONS, /**< each column by its sum: it has the precisions */
    RF_METRIC_NORMALIZE_ALL,         /**< all by the sum of all */
} rf_metric_normalize;
/** A metric before it is created. */
typedef struct rf_metric_params {
    rf_metric_kind kind;
    const char *name; /**< NULL: that of the kind */
    /**
     * BINARY_ACCURACY, PRECISION, RECALL, F1: above it, a probability is taken for 1. 0: 0.5, and
     * with an average of classes as in Keras the largest of an example is
     */
    float threshold;
    bool from_logits;        /**< of the same four, both AUC, PERPLEXITY: predictions are logits */
    uint32_t k;              /**< both TOP_K; 0: 5. HIT_RATE and NDCG; 0: 10 */
    uint64_t num_thresholds; /**< both AUC: 3 to 10000, evenly over [0, 1]; 0: 200 */
    rf_metric_average average; /**< PRECISION, RECALL, F1 */
    /** With an average of classes: 1 to 10000, required; CONFUSION_MATRIX: 2 to 255, required */
    uint32_t num_classes;
    /**
     * SPARSE_CATEGORICAL_ACCURACY, SPARSE_TOP_K, PERPLEXITY, CONFUSION_MATRIX: labels of this
     * number, such as -100, do not count. Copied. NULL: none
     */
    const int32_t *ignore_class;
    rf_metric_normalize normalize; /**< CONFUSION_MATRIX */
    uint64_t reserved[2];          /**< zero: room for later fields */
} rf_metric_params;
/**
 * Creates a metric. Values are accumulated on the devices, as sums and counts that stay exact
 * beyond 2^24. Reading it sums over replicas. `params` is required.
 */
RF_API RF_MUST_USE rf_result rf_metric_create(rf_strategy *strategy, const rf_metric_params *params,
                                              rf_metric **out);
/** Releases a metric. A function that has traced it keeps its state alive. */
RF_API void rf_metric_destroy(rf_metric **metric);
/**
 * In a step: adds the values of this batch to the metric.
 * Accuracies of classes take labels and predictions (logits or probabilities) of at least two
 * classes, and so do perplexity and rankings, and precision, recall and F1 with an average of
 * classes. Those of single elements, otherwise precision, recall, F1, AUC
 * and errors take labels and predictions of one shape; labels [n] match predictions [n, 1]. MEAN
 * and SUM take the value as `predictions` and the invalid tensor as `labels`. `sample_weight` is
 * zeroed for none.
 */
RF_API rf_result rf_metric_update(rf_trace *t, rf_metric *metric, rf_tensor labels,
                                  rf_tensor predictions, rf_tensor sample_weight);
/**
 * Value over all replicas; 0 when nothing was accumulated. For ::RF_METRIC_AVERAGE_NONE it is the
 * mean of the values, which fit logs. Collective; blocking.
 */
RF_API RF_MUST_USE rf_result rf_metric_result(rf_metric *metric, double *out);
/**
 * All values over all replicas: of ::RF_METRIC_AVERAGE_NONE one for each class, of a confusion
 * matrix all of it, row after row, of others the one of rf_metric_result(). Collective; blocking.
 * @param[out] out has room for `capacity` values.
 * @param[out] count number of values; NULL: not wanted.
 * @return RF_ERROR_INVALID_ARGUMENT when they do not fit; `*count` is then set all the same.
 */
RF_API RF_MUST_USE rf_result rf_metric_results(rf_metric *metric, double *out, uint32_t capacity,
                                               uint32_t *count);
/**
 * A confusion matrix as a table of text, a line for each row below a line of the columns' names.
 * Collective; blocking.
 * @param names of the classes, as many as there are; NULL: their numbers
 * @param[out] text owned by the caller, who frees it with rf_string_free().
 * @return RF_ERROR_INVALID_ARGUMENT for other metrics.
 */
RF_API RF_MUST_USE rf_result rf_metric_table(rf_metric *metric, const char *const *names,
                                             char **text);
/**
 * Value over the replicas of this worker only: for progress lines, which are drawn by the clock.
 * Not collective; blocking.
 */
RF_API RF_MUST_USE rf_result rf_metric_local_result(rf_metric *metric, double *out);
/** Sets a metric to nothing on the replicas of this worker; every worker must do it. Blocking. */
RF_API RF_MUST_USE rf_result rf_metric_reset(rf_metric *metric);
/** Name of a metric, owned by it. */
RF_API const char *rf_metric_name(const rf_metric *metric);

/**
 * BLEU of a corpus (Papineni, Roukos, Ward & Zhu 2002) on the host: the geometric mean of the
 * precisions of 1 to 4 tokens in a row. Each is counted at most as often as in its reference, and
 * counts are added up over all pairs. The mean is multiplied by the penalty exp(1 - r / c) where
 * the candidates' length c is below the references' r. It is between 0 and 1; without a match of 4
 * in a row it is 0. Nothing is smoothed. The tokens are compared as numbers: leave out those that
 * begin, end and pad a sentence.
 * @param candidates `num_pairs` arrays of tokens; that of an empty one may be NULL
 * @param candidate_lengths numbers of tokens in each
 * @param references as `candidates`
 * @param reference_lengths as `candidate_lengths`
 * Not collective; any thread may call it.
 */
RF_API RF_MUST_USE rf_result rf_bleu(const int32_t *const *candidates,
                                     const uint32_t *candidate_lengths,
                                     const int32_t *const *references,
                                     const uint32_t *reference_lengths, uint32_t num_pairs,
                                     double *out);

#ifdef __cplusplus
}
#endif
#endif
