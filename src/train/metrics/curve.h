/* SPDX-License-Identifier: Apache-2.0 */
/* Areas under curves, from what is counted at thresholds. */
#ifndef RF_TRAIN_METRICS_CURVE_H
#define RF_TRAIN_METRICS_CURVE_H

#include <stdint.h>

/* Predictions of 1 at a threshold: how many of them are right, and all of them. */
typedef struct rf_curve_point {
    double hits, positives;
} rf_curve_point;

/* `count` thresholds from 0 to 1; the first is just below 0, where everything is predicted to be 1, and the last just
 * above 1. */
void rf_curve_thresholds(float *thresholds, uint32_t count);
/* True positives over false positives, by trapezoids. `points` are those of rf_curve_thresholds(). */
double rf_curve_area_roc(const rf_curve_point *points, uint32_t count);
/* Precision over recall. Between two points true and false positives are taken to grow in proportion, and the precision
 * that follows is integrated (J. Davis, M. Goadrich, "The relationship between precision-recall and ROC curves", 2006).
 */
double rf_curve_area_pr(const rf_curve_point *points, uint32_t count);

#endif
