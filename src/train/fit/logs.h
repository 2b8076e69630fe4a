/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RF_TRAIN_FIT_LOGS_H
#define RF_TRAIN_FIT_LOGS_H

#include <ringfire/train.h>

/* Appends a value; the name is borrowed. Beyond RF_MAX_LOGS nothing is added: compile keeps the count below. */
void rf_logs_add(rf_logs *logs, const char *name, double value);
/* Appends an epoch. */
rf_result rf_history_add(rf_history *history, const rf_logs *logs);

#endif
