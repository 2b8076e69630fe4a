/* SPDX-License-Identifier: Apache-2.0 */
#include "train/metrics/scores.h"

static double divide_safely(double a, double b)
{
    return b != 0.0 ? a / b : 0.0;
}

double rf_class_score(rf_metric_kind kind, const rf_class_counts *counts)
{
    if (kind == RF_METRIC_PRECISION) return divide_safely(counts->hits, counts->predicted);
    if (kind == RF_METRIC_RECALL) return divide_safely(counts->hits, counts->labelled);
    return divide_safely(2.0 * counts->hits, counts->predicted + counts->labelled);
}

double rf_class_scores_average(rf_metric_kind kind, rf_metric_average average, const rf_class_counts *counts,
                               uint32_t num_classes)
{
    rf_class_counts all = { 0 };
    double sum = 0.0, weighted = 0.0;
    for (uint32_t c = 0; c < num_classes; c++) {
        const double score = rf_class_score(kind, &counts[c]);
        all.hits += counts[c].hits;
        all.predicted += counts[c].predicted;
        all.labelled += counts[c].labelled;
        sum += score;
        weighted += score * counts[c].labelled;
    }
    if (average == RF_METRIC_AVERAGE_MICRO) return rf_class_score(kind, &all);
    if (average == RF_METRIC_AVERAGE_WEIGHTED) return divide_safely(weighted, all.labelled);
    return sum / num_classes;
}
