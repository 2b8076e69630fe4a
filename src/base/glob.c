/* SPDX-License-Identifier: Apache-2.0 */
#include "base/glob.h"

#include <stdint.h>

/* Where a later part fails, the latest star takes one character more: earlier ones need not be tried again. */
bool rf_glob_matches(const char *pattern, size_t length, const char *text)
{
    size_t p = 0, star = SIZE_MAX;
    const char *after_star = NULL;
    while (*text) {
        if (p < length && pattern[p] == '*') {
            star = p++;
            after_star = text;
        } else if (p < length && (pattern[p] == '?' || pattern[p] == *text)) {
            p++;
            text++;
        } else if (star != SIZE_MAX) {
            p = star + 1;
            text = ++after_star;
        } else {
            return false;
        }
    }
    while (p < length && pattern[p] == '*') p++;
    return p == length;
}
