/* SPDX-License-Identifier: Apache-2.0 */
/* Every file operation of this layer, so that tests can record them, inject failures and replay crashes. Each behaves
 * like the system call of the same name: -1 and errno, short counts, EINTR. */
#ifndef RF_PERSIST_FILE_OPS_H
#define RF_PERSIST_FILE_OPS_H

#include <ringfire/common.h>
#include <sys/types.h>

#include "base/temporary.h"

typedef bool (*rf_name_fn)(void *argument, const char *name);

typedef struct rf_file_ops {
    int (*create)(void *user, const char *path); /* a new file to write; EEXIST when there is one */
    int (*open)(void *user, const char *path);   /* a file to read */
    int (*open_directory)(void *user, const char *path);
    int64_t (*size)(void *user, int fd); /* EINVAL: no regular file */
    ssize_t (*pread)(void *user, int fd, void *data, size_t size, uint64_t offset);
    ssize_t (*pwrite)(void *user, int fd, const void *data, size_t size, uint64_t offset);
    int (*fsync)(void *user, int fd);
    void (*start_writeback)(void *user, int fd, uint64_t offset, uint64_t size); /* a hint; promises nothing */
    int (*close)(void *user, int fd);
    int (*rename)(void *user, const char *from, const char *to);
    int (*unlink)(void *user, const char *path);
    /* Calls `visit` for every name in a directory, in no order, until it returns false. */
    int (*list)(void *user, const char *directory, rf_name_fn visit, void *argument);
    int (*modified)(void *user, const char *path, double *seconds); /* since 1970; EINVAL: no regular file */
    void *user;
} rf_file_ops;

extern const rf_file_ops rf_system_file_ops;

/* A regular file that is to be read, and how large it is. *fd is -1 where this fails. RF_ERROR_NOT_FOUND / IO with the
 * path. */
rf_result rf_file_open_sized(const rf_file_ops *ops, const char *path, int *fd, uint64_t *size);
/* All of it; `path` is for the message. Reading past the end is RF_ERROR_CORRUPT_DATA. */
rf_result rf_file_read_at(const rf_file_ops *ops, int fd, const char *path, void *data, uint64_t size, uint64_t offset);
rf_result rf_file_write_at(const rf_file_ops *ops, int fd, const char *path, const void *data, uint64_t size,
                           uint64_t offset);
rf_result rf_file_sync(const rf_file_ops *ops, int fd, const char *path);
/* Removes a file that nobody needs any more; warns and gives false where it is there and stays. */
bool rf_file_discard(const rf_file_ops *ops, const char *path);
/* The path of a file of that name in the same directory; NULL: out of memory. */
char *rf_path_beside(const char *path, const char *name);

/*
 * A file that appears under `path` when it is complete. Begin makes it under a temporary name in the same directory
 * (base/temporary.h), and removes what killed processes left there of such files. Commit syncs, renames and syncs the
 * directory; on failure before the rename the temporary file is gone. When only the last step fails, the file is in its
 * place, complete, but may be gone again after a power failure: the message says so.
 */
typedef struct rf_new_file {
    const rf_file_ops *ops;
    const char *path; /* borrowed */
    char *temporary;
    int fd, directory;
} rf_new_file;
rf_result rf_new_file_begin(rf_new_file *file, const rf_file_ops *ops, const char *path);
rf_result rf_new_file_commit(rf_new_file *file);
void rf_new_file_abandon(rf_new_file *file);
/* Whether such a file could be begun now: for those who will write one much later. */
rf_result rf_new_file_try(const rf_file_ops *ops, const char *path);

#endif
