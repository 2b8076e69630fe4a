/* SPDX-License-Identifier: Apache-2.0 */
/* Precision, recall and F1 of classes, from what is counted of each. */
#ifndef RF_TRAIN_METRICS_SCORES_H
#define RF_TRAIN_METRICS_SCORES_H

#include <ringfire/metrics.h>

typedef struct rf_class_counts {
    double hits, predicted, labelled; /* hits are both */
} rf_class_counts;

/* 0 where nothing is predicted or labelled. */
double rf_class_score(rf_metric_kind kind, const rf_class_counts *counts);
/* The average over all classes; for RF_METRIC_AVERAGE_NONE their mean. */
double rf_class_scores_average(rf_metric_kind kind, rf_metric_average average, const rf_class_counts *counts,
                               uint32_t num_classes);

#endif
