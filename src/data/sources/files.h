/* SPDX-License-Identifier: Apache-2.0 */
/* Sources of several files of one format, each of which is loaded when it is first needed and kept from then on. All
 * datasets and iterators made from a source share the loaded data. */
#ifndef RF_DATA_FILES_H
#define RF_DATA_FILES_H

#include <ringfire/dataset.h>

typedef struct rf_file_format {
    /* The examples of file number `file`: arrays [RF_MAX_COMPONENTS], zero before, of which the first ones are filled
     * in, all with the same dim[0]. The caller frees them with rf_array_free(), also when this fails. */
    rf_result (*read)(const void *user, uint32_t file, rf_array *arrays);
    /* For messages. */
    const char *(*name)(const void *user, uint32_t file);
    void (*free_user)(void *user);
    /* Examples of a file that were left out when it was read; NULL: none ever. */
    uint64_t (*left_out)(const void *user, uint32_t file);
} rf_file_format;

/* Reads each file once, to know how many examples it has. `user` belongs to the dataset, also when making it fails.
 * For positions, `fingerprint`: of what decides what is read, and `names`: rf_files_hash_names(). */
rf_result rf_dataset_from_files(const rf_file_format *format, void *user, uint32_t num_files, uint64_t fingerprint,
                                uint64_t names, rf_dataset **out);

/* ---- what all sources of files have in common (`select_files` of their kind) ---- */

/* Dataset `d` has the files number d->index, d->index + d->seed ... of its source, `num_files` of them. */
uint32_t rf_files_number(const rf_dataset *d, uint32_t file);
/* [num_files + 1]: the examples before each of its files, and all. NULL: no memory. Freed with rf_free(). */
uint64_t *rf_files_starts(const rf_dataset *d);
/* The file that has example `index` < starts[num_files]. */
uint32_t rf_files_find(const uint64_t *starts, uint32_t num_files, uint64_t index);
int64_t rf_files_examples(const rf_dataset *d);
/* A hash of the names and their order, below the directory that the files share: they may be moved together, and
 * compressed. Not 0. */
uint64_t rf_files_hash_names(const char *const *paths, uint32_t count);
/* The `select_files` of every kind. */
rf_result rf_files_select(const rf_dataset *dataset, uint32_t first, uint32_t step, rf_dataset **out);

#endif
