/* SPDX-License-Identifier: Apache-2.0 */
/* The latest warnings, errors and pieces of advice of the log, whether or not the program shows them. */
#ifndef RF_BASE_LOG_RECENT_H
#define RF_BASE_LOG_RECENT_H

#include <stdint.h>

enum { RF_LOG_RECENT = 4, RF_LOG_RECENT_BYTES = 400 };

typedef struct rf_log_recent {
    uint64_t count; /* since the process began */
    uint32_t num_texts;
    char texts[RF_LOG_RECENT][RF_LOG_RECENT_BYTES]; /* the oldest first; long ones are cut */
} rf_log_recent;

void rf_log_recent_get(rf_log_recent *out);

#endif
