/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of temporary files: "<path>.tmp-<host>-<process>-<number>", beside the file that they become. A
 * killed process leaves them behind. The name tells which process wrote them, so that the next writer in the directory
 * can distinguish leftovers from files that another process is writing.
 */
#ifndef RF_BASE_TEMPORARY_H
#define RF_BASE_TEMPORARY_H

#include <ringfire/common.h>

#define RF_TEMPORARY_INFIX ".tmp-"
/* Names of a directory that a writer looks at for leftovers: more would take longer than the write. */
enum { RF_TEMPORARY_MOST_NAMES = 10000 };

/* Stands for this host since it started, and in a container for its processes: process numbers mean something within
 * it only. */
uint32_t rf_file_host(void);
/* The name of this process's `number`-th temporary file for `path`. rf_free(); NULL: no memory. */
char *rf_temporary_name(const char *path, unsigned number);
/* Whether a temporary file, or a part file of a checkpoint, has lost its writer: its process was one of this host and
 * is gone, or it is another host's and was not modified for a day. `writer` begins with "<host>-<process>-"; `modified`
 * is in seconds since 1970. */
bool rf_temporary_abandoned(const char *writer, double modified);
/* The writer in the name of a temporary file; NULL when it is no such name. */
const char *rf_temporary_writer(const char *name);

#endif
