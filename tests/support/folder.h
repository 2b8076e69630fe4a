/* SPDX-License-Identifier: Apache-2.0 */
/* A directory for the files of a test. */
#ifndef RF_TESTS_SUPPORT_FOLDER_H
#define RF_TESTS_SUPPORT_FOLDER_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/room.h"

enum { SCRATCH_PATH = 32 };

/* Makes a new one; returns its path. */
static inline const char *scratch(char path[SCRATCH_PATH])
{
    strcpy(path, "/tmp/ringfire-test-XXXXXX");
    assert_non_null(mkdtemp(path));
    return path;
}

/* With all that is in it. */
static inline void scratch_remove(const char *path)
{
    char command[128];
    snprintf(command, sizeof(command), "rm -rf '%s'", path);
    assert_int_equal(system(command), 0);
}

/* Writes a file that has this text. */
static inline void scratch_write(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* Files in it, but for those whose names begin with a dot. */
static inline uint32_t scratch_count(const char *path)
{
    DIR *dir = opendir(path);
    uint32_t count = 0;
    assert_non_null(dir);
    for (const struct dirent *e; (e = readdir(dir));) count += e->d_name[0] != '.';
    closedir(dir);
    return count;
}

#endif
