/* SPDX-License-Identifier: Apache-2.0 */
/* A file system in memory behind rf_file_ops: records what is done to it, fails where it is told to, and can show what
 * a crash would have left. */
#ifndef TEST_PERSIST_MEMORY_FILES_H
#define TEST_PERSIST_MEMORY_FILES_H

#include <stdatomic.h>

#include "base/philox.h"
#include "persist/file_ops.h"

enum { MEMORY_FILES = 32, MEMORY_NAME = 128, MEMORY_OPEN = 32 };

typedef struct memory_change {
    enum { CHANGE_CREATE, CHANGE_WRITE, CHANGE_SYNC, CHANGE_SYNC_DIRECTORY, CHANGE_RENAME, CHANGE_UNLINK } kind;
    int file;
    uint64_t offset, size;
    uint8_t *bytes;
    char from[MEMORY_NAME], to[MEMORY_NAME];
} memory_change;

typedef struct memory_files {
    struct {
        uint8_t *bytes;
        uint64_t size, capacity;
    } file[MEMORY_FILES];
    int num_files;
    struct {
        char name[MEMORY_NAME];
        int file;
    } name[MEMORY_FILES];
    int num_names;
    int open[MEMORY_OPEN]; /* file + 2, 1 the directory, 0 free */

    bool record;
    memory_change *changes;
    uint32_t num_changes, capacity;

    uint32_t max_transfer;   /* bytes per pread and pwrite; 0: all */
    uint64_t calls, fail_at; /* the call that fails, from 1; 0: none */
    int fail_code;
    bool fail_from_there; /* and every create, write and sync after it */
    bool ignore_sync;     /* as a writer that forgets fsync */
    _Atomic uint64_t bytes_read;
    uint64_t read_begin, read_end; /* of preads in one thread, besides the first and the last 64 bytes */
} memory_files;

rf_file_ops memory_file_ops(memory_files *files);
void memory_files_free(memory_files *files);
void memory_files_put(memory_files *files, const char *name, const void *bytes, uint64_t size);
/* A copy without files that have no name, with nothing recorded and no failures. */
void memory_files_copy(const memory_files *from, memory_files *to);
/* -1: not there. */
int memory_files_find(const memory_files *files, const char *name);
/* Whether no files of these names and contents were asked about before; `seen` is zeroed at first. */
enum { MEMORY_STATES = 1 << 17 };
bool memory_files_are_new(uint64_t seen[MEMORY_STATES], const memory_files *files);
/* A state that a crash after the first `count` changes may leave: what was synced is there, of the rest any part of any
 * write, and any of the changes to names since the directory was synced: a file system may write them in another order
 * than they were made in. `before` is what there was at the beginning. */
void memory_files_crash(const memory_files *before, const memory_files *recorded, uint32_t count, rf_rng *rng,
                        memory_files *out);

#endif
