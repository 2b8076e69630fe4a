/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RINGFIRE_CLOCK_H
#define RINGFIRE_CLOCK_H

#include <time.h>

/* Seconds of a clock that never goes back. */
static inline double clock_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Processor time of all threads of this process: hardly disturbed by what else the machine does. */
static inline double clock_processor_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#endif
