/* SPDX-License-Identifier: Apache-2.0 */
/* A metric, for the files that make it up. */
#ifndef RF_TRAIN_METRICS_METRIC_OBJECT_H
#define RF_TRAIN_METRICS_METRIC_OBJECT_H

#include "train/metrics/metric.h"

struct rf_metric {
    uint32_t references; /* its maker's, and one of each checkpoint that has it */
    bool destroyed;      /* by its maker */
    rf_strategy *strategy;
    rf_metric_kind kind;
    float threshold; /* of predictions as they come: a logit where these are logits */
    bool from_logits;
    rf_metric_average average;
    bool largest; /* with an average of classes: the largest is predicted */
    uint32_t k, num_classes;
    bool ignores; /* labels that are `ignored` */
    int32_t ignored;
    rf_metric_normalize normalize;
    /* One for each threshold of a curve, two for each class that is counted, one for each place of a matrix, else 1. */
    uint32_t columns;
    char *name;
    rf_local_state *state;
};

/* An area under a curve: it has a column for each threshold. */
static inline bool rf_metric_is_curve(const rf_metric *metric)
{
    return metric->kind == RF_METRIC_AUC_ROC || metric->kind == RF_METRIC_AUC_PR;
}

#endif
