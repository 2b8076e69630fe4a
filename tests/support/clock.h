/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RF_TESTS_SUPPORT_CLOCK_H
#define RF_TESTS_SUPPORT_CLOCK_H

#include <stdlib.h>
#include <time.h>

/* A clock that only goes forward. */
static inline double seconds_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Processor time of all threads of this process: hardly disturbed by what else the machine does. */
static inline double processor_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* How many times as long as on a processor things may take here: 1, or what tests/arm64 says of qemu. */
static inline unsigned slowness(void)
{
    const char *factor = getenv("TEST_SLOWNESS");
    return factor ? (unsigned)strtoul(factor, NULL, 10) : 1;
}

#endif
