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
} rf_file_format;

/* Reads each file once, to know how many examples it has. `user` belongs to the dataset, also when making it fails.
 * `fingerprint`: of what decides what is read, for positions. */
rf_result rf_dataset_from_files(const rf_file_format *format, void *user, uint32_t num_files, uint64_t fingerprint,
                                rf_dataset **out);

#endif
