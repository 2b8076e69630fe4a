/* SPDX-License-Identifier: Apache-2.0 */
/* Merging traces: what `ringfire trace merge` does between reading and writing files. */
#ifndef RINGFIRE_TRACE_MERGE_H
#define RINGFIRE_TRACE_MERGE_H

#include <stdbool.h>
#include <stdio.h>

#include <jansson.h>

typedef struct trace_file {
    const char *path;
    json_t *events;
    json_int_t wall_ns; /* when its times are zero */
    json_int_t pid;     /* the rank */
    bool has_clock, empty;
    bool cut;    /* it was not ended */
    bool merged; /* by an earlier merge */
} trace_file;

/* A trace that was not ended, too. NULL: fine, and `events` is the caller's; else what is wrong with it. */
const char *trace_read(FILE *file, trace_file *out);
/* All events with their times from the same zero and a process for each file. The files' events are changed for it.
 * NULL: out of memory. */
json_t *trace_merge(trace_file *files, int count);

#endif
