/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many writers on one terminal: whole lines, each with the writer's label in front. A line that ends with a carriage
 * return, as those of progress bars do, stays on a terminal until something else is written; elsewhere it is a line.
 */
#ifndef RINGFIRE_OUTPUT_H
#define RINGFIRE_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct output_lines {
    int fd;
    bool raw; /* bytes as they come */
    bool terminal;
    enum {
        LINE_PLAIN,
        LINE_AFTER_TEXT,
        LINE_AFTER_NOTHING
    } begun; /* by a new line; by a carriage return behind text */
    char prefix[300];
    char *line;
    size_t used, capacity;
    char last[400]; /* the last line that was not empty, shortened */
} output_lines;

/* `number` chooses the colour where `fd` is a terminal. */
void output_init(output_lines *o, int fd, const char *label, uint32_t number, bool raw);
/* False when it cannot be written (errno). */
bool output_feed(output_lines *o, const char *data, size_t length);
/* Ends a line that has no end yet. */
bool output_finish(output_lines *o);
void output_free(output_lines *o);

#endif
