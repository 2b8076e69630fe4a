/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RF_TRAIN_CALLBACKS_MONITOR_H
#define RF_TRAIN_CALLBACKS_MONITOR_H

#include <ringfire/train.h>

/* The value that a callback watches, and the best one so far. */
typedef struct rf_monitor {
    char *name;
    double min_delta; /* what must be gained to be better */
    double best;
    bool maximize;
} rf_monitor;

/* `name` NULL: "val_loss". rf_monitor_close() also after a failure. */
rf_result rf_monitor_open(rf_monitor *monitor, const char *name, bool maximize, double min_delta);
void rf_monitor_close(rf_monitor *monitor);
/* Forgets the best value. */
void rf_monitor_reset(rf_monitor *monitor);
/* Before training: RF_ERROR_INVALID_ARGUMENT says which values there are. */
rf_result rf_monitor_check(const rf_monitor *monitor, const char *callback, const rf_logs *names);
bool rf_monitor_better(const rf_monitor *monitor, double value, double than);
/* A new best value is kept. */
bool rf_monitor_improves(rf_monitor *monitor, double value);

#endif
