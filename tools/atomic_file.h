/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Output files of commands: written as "<path>.tmp", synced, renamed. Whatever goes wrong, the existing file is kept. A
 * lock distinguishes a file that another process is writing from one that a killed process left, which the next writer
 * of the same path takes over. A path that is no regular file (/dev/stdout, a pipe) is written to directly.
 */
#ifndef RINGFIRE_ATOMIC_FILE_H
#define RINGFIRE_ATOMIC_FILE_H

#include <stdbool.h>
#include <stdio.h>

typedef struct atomic_file {
    FILE *stream;
    char *target, *temporary; /* NULL: written directly */
} atomic_file;

/* False: errno says why; there is nothing to abandon. EBUSY: another process is writing this file. */
bool atomic_file_begin(atomic_file *file, const char *path);
/* False: errno says why, and the file is as it was. */
bool atomic_file_commit(atomic_file *file);
void atomic_file_abandon(atomic_file *file);

#endif
