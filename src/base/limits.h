/* SPDX-License-Identifier: Apache-2.0 */
/* How much memory this process may have, where somebody has limited it: the cause of failures that look like others. */
#ifndef RF_BASE_LIMITS_H
#define RF_BASE_LIMITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* In bytes. */
typedef struct rf_memory_limit {
    uint64_t limit, used; /* UINT64_MAX: there is no limit */
} rf_memory_limit;

typedef struct rf_memory_limits {
    rf_memory_limit address_space, data; /* RLIMIT_AS, RLIMIT_DATA */
    rf_memory_limit group;               /* the tightest of the process's control groups */
} rf_memory_limits;

/* Allocates nothing. */
void rf_memory_limits_take(rf_memory_limits *out);
/* The limit within which `wanted` further bytes do not fit, and how it is raised, as a sentence without a full stop; ""
 * where all have room for them. Pure. Returns whether there is such a limit. */
bool rf_memory_limits_describe(const rf_memory_limits *limits, uint64_t wanted, char *text, size_t size);

#endif
