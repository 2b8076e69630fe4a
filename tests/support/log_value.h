/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RF_TESTS_SUPPORT_LOG_VALUE_H
#define RF_TESTS_SUPPORT_LOG_VALUE_H

#include <math.h>

#include "tests/room.h"
#include <ringfire/train.h>

/* A value that the logs must have. */
static inline double log_value(const rf_logs *logs, const char *name)
{
    double value = NAN;
    if (!rf_logs_get(logs, name, &value)) fail_msg("there is no '%s'", name);
    return value;
}

#endif
