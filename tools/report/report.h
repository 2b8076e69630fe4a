/* SPDX-License-Identifier: Apache-2.0 */
/* `ringfire report`: all that a run has left behind, and the page that shows it. */
#ifndef RINGFIRE_REPORT_H
#define RINGFIRE_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "plot/plot.h"

/* Spans of one name in all traces: on the host, or of an operation on a device. */
typedef struct report_span {
    char *name;
    double seconds;
    uint64_t count;
} report_span;
typedef struct report_spans {
    report_span *items;
    size_t count, capacity;
} report_spans;

/* Memory of a device, by what it is for. */
typedef struct report_memory {
    char *name;
    uint32_t replica;
    uint64_t bytes, most;
} report_memory;

/* A confusion matrix as text, of the latest epoch. */
typedef struct report_matrix {
    char *name, *text;
} report_matrix;

typedef struct report_file {
    char *name; /* below the run's directory */
    uint64_t bytes, tensors;
    double written; /* seconds since 1970 */
} report_file;

typedef struct report_run {
    const char *path;
    plot_data curves;
    char *devices; /* lines "replica: device"; NULL: nobody has written them */
    report_memory *memory;
    size_t num_memory;
    report_matrix *matrices;
    size_t num_matrices;
    double begun, ended; /* seconds since 1970, of the first and the last value; 0: not known */
    report_spans host, operations;
    uint32_t traces;
    report_file *checkpoints;
    size_t num_checkpoints;
    char **warnings;
    size_t num_warnings;
} report_run;

/* Reads what stands in a directory and below it. False after a message; what cannot be read to its end becomes a
 * warning of the run. */
bool report_gather(report_run *run, const char *path);
void report_free(report_run *run);
/* Adds a warning to the page. False: out of memory. */
bool report_warn(report_run *run, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Writes the page; one file that needs no other. */
bool report_write(const report_run *run, const char *path);

#endif
