/* SPDX-License-Identifier: Apache-2.0 */
/* Regular expressions as tokenizer.json has them (Oniguruma's, in Ruby's syntax), by PCRE2. */
#ifndef RF_TEXT_PIPELINE_REGEX_H
#define RF_TEXT_PIPELINE_REGEX_H

#include "base/error.h"

typedef struct rf_regex rf_regex;
/* RF_ERROR_UNSUPPORTED names what both libraries understand differently, or only one of them. */
rf_result rf_regex_compile(const char *pattern, size_t size, rf_regex **out);
void rf_regex_free(rf_regex **regex);

/* One thread's searches in one text: its memory, and the time that they may take. Zeroed before the first one. */
typedef struct rf_matcher {
    void *data, *context;
    uint64_t start_ns, seen_ns, budget_ns; /* of this thread's processor */
    uint32_t calls;
} rf_matcher;
/* `size` of the text that the time depends on. */
void rf_matcher_begin(rf_matcher *m, size_t size);
void rf_matcher_free(rf_matcher *m);
/* The first match at `from` or later, which may be empty. The text must be UTF-8. RF_END: there is none.
 * RF_ERROR_UNSUPPORTED: the expression takes more steps or more time than any in use. */
rf_result rf_regex_find(const rf_regex *regex, rf_matcher *m, const char *text, size_t size, size_t from, size_t *begin,
                        size_t *end);

#endif
