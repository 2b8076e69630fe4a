/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by all of `ringfire-bench`: where results go, and jobs that it starts itself. */
#ifndef RINGFIRE_BENCH_REPORT_H
#define RINGFIRE_BENCH_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/measure/measure.h"

#include "json_output.h"
#include "table.h"

/* The line `about` and the table, either NULL for none, and the results as JSON where that was asked for. Takes `rows`
 * and `result`. Returns the exit code: CODE_FAILED when something cannot be written, or not `ok`. */
int bench_report(const char *json_path, const char *about, table *rows, json_t *result, bool ok);

/* Begins a table of what the nodes of a step took and makes a list of the same for JSON. */
bool bench_profile(const rf_bench_node *nodes, uint32_t count, table *rows, json_t **list);

/* Keeps a job key of the environment, which is other jobs', away from workers that this process forks: they have a key
 * of their own, or none. */
void bench_forget_job_key(void);

/* Ends a forked process without the exit handlers, which are its parent's, but with a whole trace where the environment
 * asked for one. */
_Noreturn void bench_exit_child(int code);

/* Forks `count` ranks, at most BENCH_MOST_RANKS, that end with what `run` returns, and waits for them. When one fails
 * the others, which would wait for it, are killed; when this process ends they end with it. False when any failed, or
 * after a message. */
enum { BENCH_MOST_RANKS = 64 };
bool bench_run_ranks(uint32_t count, int (*run)(void *user, uint32_t rank), void *user);

/* The median of an even count is the mean of the two in the middle. */
double bench_median(const double *values, uint32_t count);

#endif
