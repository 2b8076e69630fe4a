/* SPDX-License-Identifier: Apache-2.0 */
/* Under RINGFIRE_VALIDATION=1 a message of the validation layer ends the test, whichever strategy, process or moment it
 * comes from: tests have nothing to ask for. Included by what tests with devices share. */
#ifndef RF_TESTS_VALIDATION_H
#define RF_TESTS_VALIDATION_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ringfire/common.h>

static inline void rf_test_on_log(void *user, rf_log_level level, const char *message)
{
    (void)user;
    (void)level;
    if (strncmp(message, "vulkan: ", 8) != 0) return;
    fprintf(stderr, "validation layer: %s\n", message + 8);
    abort();
}

__attribute__((constructor)) static void rf_test_watch_validation(void)
{
    rf_log_set(rf_test_on_log, NULL, RF_LOG_WARN);
}

#endif
