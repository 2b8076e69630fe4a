/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RF_TRAIN_METRICS_LOGS_H
#define RF_TRAIN_METRICS_LOGS_H

#include <ringfire/train.h>

/* Appends a value; the name is borrowed. Beyond RF_MAX_LOGS nothing is added: compile keeps the count below. */
void rf_logs_add(rf_logs *logs, const char *name, double value);
/* RF_ERROR_NOT_FINITE where the value of that name is infinite or NaN; `where` is for the message. */
rf_result rf_logs_check_finite(const rf_logs *logs, const char *name, const char *where);
/* Appends an epoch. */
rf_result rf_history_add(rf_history *history, const rf_logs *logs);

#endif
