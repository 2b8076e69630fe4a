/* SPDX-License-Identifier: Apache-2.0 */
#include "train/metrics/logs.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"

void rf_logs_add(rf_logs *logs, const char *name, double value)
{
    if (logs->count >= RF_MAX_LOGS) return;
    logs->name[logs->count] = name;
    logs->value[logs->count] = value;
    logs->count++;
}

bool rf_logs_get(const rf_logs *logs, const char *name, double *value)
{
    for (uint32_t i = 0; logs && name && i < logs->count; i++) {
        if (strcmp(logs->name[i], name) == 0) {
            if (value) *value = logs->value[i];
            return true;
        }
    }
    return false;
}

rf_result rf_logs_check_finite(const rf_logs *logs, const char *name, const char *where)
{
    double value = 0;
    if (!rf_logs_get(logs, name, &value) || isfinite(value)) return RF_OK;
    return RF_FAIL(RF_ERROR_NOT_FINITE,
                   "%s: the %s is %g; look for labels outside of the classes and for NaN in the data, or try a smaller "
                   "learning rate",
                   where, name, value);
}

rf_result rf_history_add(rf_history *history, const rf_logs *logs)
{
    rf_logs *epochs = RF_NEW_ARRAY(rf_logs, (size_t)history->num_epochs + 1);
    if (!epochs) return RF_ERROR_OUT_OF_HOST_MEMORY;
    if (history->num_epochs > 0) memcpy(epochs, history->epochs, history->num_epochs * sizeof(*epochs));
    epochs[history->num_epochs] = *logs;
    rf_free(history->epochs);
    history->epochs = epochs;
    history->num_epochs++;
    return RF_OK;
}

void rf_history_free(rf_history *history)
{
    if (!history) return;
    rf_free(history->epochs);
    *history = (rf_history){ 0 };
}
