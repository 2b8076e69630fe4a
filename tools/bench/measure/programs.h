/* SPDX-License-Identifier: Apache-2.0 */
/* The programs of a step. */
#ifndef BENCH_MEASURE_PROGRAMS_H
#define BENCH_MEASURE_PROGRAMS_H

#include "bench/measure/measure.h"

/* Calls `fn` with each program of the function's latest run on replica 0: the step's, with its batch, and those of
 * variables' updates, which have none. The function must have run with `examples` examples there; `caller` begins the
 * message where it has not. */
typedef rf_result (*rf_bench_program_fn)(void *user, rf_program *program, uint32_t batch);
rf_result rf_bench_programs(const rf_function *function, uint32_t examples, const char *caller, rf_bench_program_fn fn,
                            void *user);

#endif
