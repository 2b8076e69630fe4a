/* SPDX-License-Identifier: Apache-2.0 */
/* What all of `ringfire bench` has in common: options that are numbers, and where results go. */
#ifndef RINGFIRE_BENCH_REPORT_H
#define RINGFIRE_BENCH_REPORT_H

#include <argp.h>
#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "table.h"

#define BENCH_JSON_OPTION                                                                                              \
    {                                                                                                                  \
        "json", 'j', "FILE", 0, "Write the results to FILE as JSON ('-': standard output, instead of the table)", 0    \
    }

/* A whole number from 1 to `most`; else argp_error(). */
uint32_t bench_number(struct argp_state *state, const char *text, unsigned long most);
/* A time that is not zero; else argp_error(). */
double bench_seconds(struct argp_state *state, const char *text);

/* Whether results go to standard output as JSON, and nothing else. `json_path` is the option, or NULL. */
bool bench_json_only(const char *json_path);
/* Before minutes are spent on results that have no place. What the file holds stays until they are there. */
bool bench_can_report(const char *json_path);
/* The line `about` and the table, either NULL for none, and the results as JSON where that was asked for. Takes `rows`
 * and `result`. Returns the exit status: EXIT_FAILURE when something cannot be written, or not `ok`. */
int bench_report(const char *json_path, const char *about, table *rows, json_t *result, bool ok);

/* Of an even count, the mean of the two in the middle. */
double bench_median(const double *values, uint32_t count);

#endif
