/* SPDX-License-Identifier: Apache-2.0 */
/* `ringfire top`: what a status of a job looks like, and a terminal to show it on. */
#ifndef RINGFIRE_TOP_H
#define RINGFIRE_TOP_H

#include <stdbool.h>
#include <stdio.h>

#include <jansson.h>

/* Prints the status as lines of at most `columns` characters, and at most `rows` lines (0: all): where there are more
 * replicas, some are left out and counted. Parts that the status does not have are left out. */
void top_print(FILE *out, const json_t *status, int columns, int rows);

/* The whole terminal, until top_screen_close(). `note` (NULL: none) is the first line, before the status. */
typedef struct top_screen top_screen;
/* NULL: standard output is no terminal that can be drawn on. */
top_screen *top_screen_open(void);
void top_screen_close(top_screen *screen);
void top_screen_draw(top_screen *screen, const json_t *status, const char *note);
/* Waits; draws again by itself when the size changes. False: the user wants to leave (q, Ctrl-C, a signal). */
bool top_screen_wait(top_screen *screen, double seconds);

#endif
