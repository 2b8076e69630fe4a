/* SPDX-License-Identifier: Apache-2.0 */
/* Text in lines that fit. */
#ifndef RINGFIRE_TOOLS_TEXT_H
#define RINGFIRE_TOOLS_TEXT_H

#include <stddef.h>
#include <stdio.h>

/* Characters in a line of the terminal, or as COLUMNS says; 80 elsewhere. At least 40. */
int text_columns(FILE *out);
/* Characters of UTF-8. */
int text_width(const char *text);
/* At most `width` characters, the last ones "..." where some are left out. */
void print_cut(FILE *out, const char *text, int width);
/* Lines of at most `columns` characters, broken at new lines and at spaces where there are some; each begins with
 * `indent` spaces and ends in a new line. */
void print_wrapped(FILE *out, const char *text, int indent, int columns);

#endif
