/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of lines, file by file. */
#ifndef RF_TEXT_LINES_H
#define RF_TEXT_LINES_H

#include <ringfire/text.h>

#include "base/error.h"

/* Without lines; destroyed with rf_text_lines_destroy(). */
rf_result rf_text_lines_new(rf_text_lines **out);
/* The lines of one file's bytes. */
rf_result rf_text_lines_append(rf_text_lines *lines, const char *bytes, size_t size);

#endif
