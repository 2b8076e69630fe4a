/* SPDX-License-Identifier: Apache-2.0 */
/* Text that comes from files, fit for terminals and drawings. */
#ifndef RINGFIRE_PRINTABLE_H
#define RINGFIRE_PRINTABLE_H

#include <stdio.h>

/* The text with "\x1b" and the like in place of bytes that are no UTF-8 or belong to control characters (or to the two
 * codes that XML has not); free(). NULL: out of memory. */
char *printable(const char *text);
/* Prints it, filled up with spaces to `width` bytes. */
void print_printable(FILE *out, const char *text, int width);

#endif
