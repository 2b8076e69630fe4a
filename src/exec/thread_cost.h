/* SPDX-License-Identifier: Apache-2.0 */
/* A software driver's threads in a small step: each dispatch wakes all of them, and waits for the last. Pure. */
#ifndef RF_EXEC_THREAD_COST_H
#define RF_EXEC_THREAD_COST_H

#include <stdint.h>

/* How many times as long a run of so many dispatches takes with the threads as without any, where one processor has
 * `seconds` of work in it; below 1 they gain something. */
double rf_threads_slowdown(uint32_t num_dispatches, double seconds, uint32_t num_threads);

#endif
