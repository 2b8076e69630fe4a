/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing archives: frames of tensors, then a msgpack header; docs/reference/checkpoint-format.md has the layout. The
 * file appears under its name only when it is complete and on the disk.
 */
#ifndef RF_PERSIST_ARCHIVE_WRITER_H
#define RF_PERSIST_ARCHIVE_WRITER_H

#include <ringfire/checkpoint.h>

#include "base/error.h"
#include "persist/file_ops.h"

/* A small value; kind decides which field counts. */
typedef enum rf_archive_value_kind {
    RF_VALUE_UINT,
    RF_VALUE_DOUBLE,
    RF_VALUE_STRING,
    RF_VALUE_BYTES
} rf_archive_value_kind;
typedef struct rf_archive_value {
    const char *name;
    rf_archive_value_kind kind;
    uint64_t number;
    double real;
    const void *bytes; /* strings too, without their end; strings are UTF-8 */
    uint64_t size;
} rf_archive_value;

typedef struct rf_archive_contents {
    const char *type;                 /* "checkpoint", "model", ... */
    const rf_archive_tensor *tensors; /* in any order */
    uint64_t num_tensors;
    const rf_archive_value *values;
    uint64_t num_values;
} rf_archive_contents;

/* Blocking, whatever params->async says; `params` may be NULL. Nothing is left behind on failure; an older file of that
 * name stays as it is. (Where only the directory could not be synced after the rename, the new file is in its place and
 * the message says so.) Names: components between '/' that are neither empty nor "." nor "..", UTF-8, no control
 * characters, at most 1024 bytes, no two the same. All values and the list of tensors together have room in 16 MiB. A
 * killed process leaves "<path>.tmp-<host>-<process>-<number>" (RF_TEMPORARY_INFIX). */
rf_result rf_archive_write(const char *path, const rf_archive_contents *contents, const rf_save_params *params);
/* The same with other file operations. */
rf_result rf_archive_write_with(const rf_file_ops *ops, const char *path, const rf_archive_contents *contents,
                                const rf_save_params *params);

/*
 * One archive in several files. The main file has the type, the values and a description of every tensor; the elements
 * lie in parts beside it: archives of type "part" without values, whose tensor of the same name and type has one
 * dimension and the elements of all its extents, one after another. The main file is written last: with it, all is
 * there.
 */
typedef struct rf_archive_identity {
    uint64_t size, hash; /* of the file; of its preamble, which has the hash of the header, which has those of frames */
} rf_archive_identity;
typedef struct rf_archive_part {
    const char *name; /* of a file in the main file's directory, without '/' */
    rf_archive_identity is;
} rf_archive_part;
typedef struct rf_archive_extent {
    uint32_t part;
    uint64_t count; /* elements */
} rf_archive_extent;
typedef struct rf_archive_extents {
    rf_archive_extent *items;
    uint32_t count, capacity;
} rf_archive_extents;
typedef struct rf_archive_split {
    const rf_archive_part *parts; /* in order of their names, no two the same */
    uint32_t num_parts;
    const rf_archive_extents *extents; /* of each tensor of the contents, in the order of its elements */
} rf_archive_split;
#define RF_ARCHIVE_PART_TYPE "part"
#define RF_ARCHIVE_PART_INFIX ".part-" /* in the names of all parts, and of nothing else */
/* As rf_archive_write_with(). With `split` (NULL: none) it writes the main file; the tensors' data do not count. `*is`
 * (NULL: not wanted) is what the file was to be, also when the commit fails. */
rf_result rf_archive_write_split(const rf_file_ops *ops, const char *path, const rf_archive_contents *contents,
                                 const rf_archive_split *split, const rf_save_params *params, rf_archive_identity *is);

/* Tensors whose bytes are read while they are written: in memory of a few blocks, whatever their size. Called from
 * several threads at once. */
typedef struct rf_archive_source {
    rf_result (*read)(void *user, const char *name, uint64_t offset, void *data, uint64_t size);
    void *user;
} rf_archive_source;
/* As rf_archive_write(); the tensors' data do not count. */
rf_result rf_archive_write_from(const char *path, const rf_archive_contents *contents, const rf_archive_source *source,
                                const rf_save_params *params);

/* Values of an open archive, by name; `out` borrows. RF_ERROR_NOT_FOUND names it. */
rf_result rf_archive_value_get(const rf_archive *archive, const char *name, rf_archive_value *out);

#endif
