/* SPDX-License-Identifier: Apache-2.0 */
/* Confusion matrices of `classes` rows, the labels, and as many columns, the predictions. */
#ifndef RF_TRAIN_METRICS_CONFUSION_H
#define RF_TRAIN_METRICS_CONFUSION_H

#include <ringfire/metrics.h>

enum { RF_MOST_CONFUSED = 255 }; /* so that a metric's state has a column for each place */

/* The part on the diagonal; 0 where all is 0. */
double rf_confusion_accuracy(const double *matrix, uint32_t classes);
void rf_confusion_normalize(double *matrix, uint32_t classes, rf_metric_normalize normalize);
/* A table; numbers for NULL names. rf_free(). */
rf_result rf_confusion_format(const double *matrix, uint32_t classes, const char *const *names, char **text);

#endif
