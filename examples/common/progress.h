/* SPDX-License-Identifier: Apache-2.0 */
/* A progress line: bar, rate, time left, and a text of the caller, cut to the width of the terminal. It is drawn only
 * on a terminal, a few times a second. */
#ifndef EXAMPLE_PROGRESS_H
#define EXAMPLE_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct progress {
    const char *label;
    int64_t total; /* -1: unknown */
    int64_t done;
    double start, last_drawn;
    bool terminal;
} progress;

double seconds_now(void);
/* `label` is kept, not copied. Units are examples. Without `visible` (workers other than the chief) nothing is drawn.
 */
void progress_begin(progress *p, const char *label, int64_t total, bool visible);
/* `status` is shown at the end of the line, e.g. "loss 0.412  accuracy 85.1 %". */
void progress_update(progress *p, int64_t done, const char *status);
/* Whether an update now would be drawn: reading a loss from the device for nothing costs time. */
bool progress_due(const progress *p);
/* Removes the line; returns the rate in units per second since the beginning. */
double progress_end(progress *p);
/* Begins a new line where a progress line is left open: before anything else is printed. Signal handlers may call it.
 */
void progress_break(void);

#endif
