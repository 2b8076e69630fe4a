/* SPDX-License-Identifier: Apache-2.0 */
/* Files that tests read: where they stood when the test was built, or, for programs that run elsewhere, in the folder
 * that RINGFIRE_TEST_FIXTURES names. */
#ifndef RF_TESTS_SUPPORT_FIXTURE_H
#define RF_TESTS_SUPPORT_FIXTURE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The path to open for one that was built in. Overwritten by the next call. */
static inline const char *fixture_path(const char *built_in)
{
    static char path[4096];
    const char *folder = getenv("RINGFIRE_TEST_FIXTURES"), *name = strrchr(built_in, '/');
    if (!folder || !name) return built_in;
    snprintf(path, sizeof(path), "%s%s", folder, name);
    return path;
}

#endif
