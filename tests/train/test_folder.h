/* SPDX-License-Identifier: Apache-2.0 */
/* A folder of files that a group of tests, or each of them, makes and removes. */
#ifndef RINGFIRE_TEST_FOLDER_H
#define RINGFIRE_TEST_FOLDER_H

#include "run_state.h"

static char folder[64];

/* Until the next call. */
static inline const char *in_folder(const char *name)
{
    static char path[160];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

static inline int make_folder(void **state)
{
    (void)state;
    scratch(folder);
    return 0;
}

static inline int remove_folder(void **state)
{
    (void)state;
    scratch_remove(folder);
    return 0;
}

#endif
