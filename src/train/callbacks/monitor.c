/* SPDX-License-Identifier: Apache-2.0 */
#include "train/callbacks/monitor.h"

#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "base/memory.h"

rf_result rf_monitor_open(rf_monitor *monitor, const char *name, bool maximize, double min_delta)
{
    *monitor = (rf_monitor){ rf_strdup(name ? name : "val_loss"), min_delta, 0, maximize };
    rf_monitor_reset(monitor);
    return monitor->name ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
}

void rf_monitor_close(rf_monitor *monitor)
{
    rf_free(monitor->name);
    monitor->name = NULL;
}

void rf_monitor_reset(rf_monitor *monitor)
{
    monitor->best = monitor->maximize ? -INFINITY : INFINITY;
}

rf_result rf_monitor_check(const rf_monitor *monitor, const char *callback, const rf_logs *names)
{
    char list[512] = "";
    size_t used = 0;
    if (rf_logs_get(names, monitor->name, NULL)) return RF_OK;
    for (uint32_t i = 0; i < names->count && used < sizeof(list); i++)
        used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%s", i > 0 ? ", " : "", names->name[i]);
    return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s: no value '%s' among %s; set monitor, or give fit validation_data",
                   callback, monitor->name, list);
}

bool rf_monitor_better(const rf_monitor *monitor, double value, double than)
{
    return monitor->maximize ? value - monitor->min_delta > than : value + monitor->min_delta < than;
}

bool rf_monitor_improves(rf_monitor *monitor, double value)
{
    const bool better = rf_monitor_better(monitor, value, monitor->best);
    if (better) monitor->best = value;
    return better;
}
