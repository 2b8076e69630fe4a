/* SPDX-License-Identifier: Apache-2.0 */
/* The files in a directory of the hub, or what a GGUF file has in place of them. */
#ifndef RF_PRETRAINED_FILES_H
#define RF_PRETRAINED_FILES_H

#include <ringfire/interchange.h>

#include "base/error.h"
#include "base/memory.h"
#include "persist/archive/writer.h"

#define RF_PRETRAINED_FILE "model.safetensors"
#define RF_PRETRAINED_INDEX "model.safetensors.index.json"

/* Which tensor is in which file, as an index says. */
typedef struct rf_shard_index {
    char **files; /* names in the directory, each once */
    uint32_t num_files;
    struct rf_shard_place {
        char *tensor;
        uint32_t file;
    } * places; /* in order of the tensors' names */
    uint32_t num_places;
} rf_shard_index;
/* The text need not end with a zero; `path` is for messages. Files are those of the same directory. Freed with
 * rf_shard_index_clear(), also when it fails. */
rf_result rf_shard_index_parse(rf_shard_index *index, const char *path, const char *text, size_t size);
void rf_shard_index_clear(rf_shard_index *index);

typedef struct rf_tensor_entry {
    rf_archive_entry is; /* the name is borrowed from the file; shape and name of a new head are the model's */
    uint32_t file;
} rf_tensor_entry;
typedef struct rf_made_text {
    const char *name;
    char *text;
} rf_made_text;
typedef struct rf_tensor_files {
    char *directory;
    rf_archive_source source;  /* of tensors' bytes; zeroed: the files */
    const rf_made_text *texts; /* in place of the directory's; borrowed. NULL: those of the directory */
    uint32_t num_texts;
    struct rf_tensor_file {
        char *name;           /* in the directory */
        rf_safetensors *file; /* NULL where there is a source */
    } * files;
    uint32_t num_files;
    rf_tensor_entry *entries; /* of all files, in order of their names */
    uint32_t num_entries;
    char **added; /* names of those that no file has yet */
    uint32_t num_added;
} rf_tensor_files;
/* Opens model.safetensors or, where there is none, the shards that an index names. Freed with rf_tensor_files_close(),
 * also when it fails. */
rf_result rf_tensor_files_open(rf_tensor_files *files, const char *directory);
/* Opens one file of the directory. Freed in the same way. */
rf_result rf_tensor_files_open_one(rf_tensor_files *files, const char *directory, const char *name);
void rf_tensor_files_close(rf_tensor_files *files);
/* Adds a tensor to the first file; entries move. */
rf_result rf_tensor_files_add(rf_tensor_files *files, const char *name, rf_shape shape, rf_dtype dtype);
/* Bytes of a tensor from an offset on. */
rf_result rf_tensor_files_read(const rf_tensor_files *files, const rf_tensor_entry *entry, uint64_t offset, void *data,
                               uint64_t size);
/* A text that belongs to the tensors, such as "config.json": rf_text_file_read(). */
rf_result rf_tensor_files_text(const rf_tensor_files *files, const char *name, uint64_t most, char **text,
                               size_t *size);
/* NULL: there is none of that name. */
const rf_tensor_entry *rf_tensor_files_find(const rf_tensor_files *files, const char *name);

/* A whole file of at most `most` bytes, which must be text and ends with a zero that does not count. */
rf_result rf_text_file_read(const char *path, uint64_t most, char **text, size_t *size);
/* "DIRECTORY/NAME"; NULL: out of memory. */
char *rf_path_in(const char *directory, const char *name);

#endif
