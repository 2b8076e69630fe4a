/* SPDX-License-Identifier: Apache-2.0 */
/* The files that make_records.py wrote, and others that are made of them: what the tests of records share. */
#ifndef RF_TESTS_DATA_RECORDS_H
#define RF_TESTS_DATA_RECORDS_H

#include <stdio.h>

#include <ringfire/readers.h>
#include <zlib.h>

#include "../support/folder.h"
#include "base/error.h"
#include "base/record.h"
#include "combined.h"

static char records_folder[SCRATCH_PATH];

enum { PARTS = 3, NUMBERED = 26, FIRST_PART = 12, SECOND_PART = 5, FORMS = 3 };
static const char *const endings[FORMS] = { "", ".gz", ".zlib" };

/* The feature that most tests ask for. */
static const rf_tfrecord_feature id = { .name = "id", .dtype = RF_I32 };

static inline rf_result open_files(const char *const *paths, uint32_t num_paths, const rf_tfrecord_feature *features,
                                   uint32_t num_features, rf_dataset **out)
{
    return rf_dataset_from_tfrecord(
        &(rf_tfrecord_params){
            .paths = paths, .num_paths = num_paths, .features = features, .num_features = num_features },
        out);
}

static inline rf_result open_path(const char *path, const rf_tfrecord_feature *feature, rf_dataset **out)
{
    return open_files(&path, 1, feature, 1, out);
}

/* A file that was made for this test. */
static inline rf_result open_made(const char *name, const rf_tfrecord_feature *feature, rf_dataset **out)
{
    char path[512];
    snprintf(path, sizeof(path), "%s/%s", RECORDS, name);
    return open_path(path, feature, out);
}

static inline uint8_t *load(const char *name, size_t *size)
{
    static uint8_t bytes[1 << 16];
    char path[512];
    snprintf(path, sizeof(path), "%s/%s", RECORDS, name);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    *size = fread(bytes, 1, sizeof(bytes), f);
    assert_in_range(*size, 1, sizeof(bytes) - 1);
    assert_int_equal(fclose(f), 0);
    return bytes;
}

static inline const char *store(const char *name, const void *bytes, size_t size)
{
    static char path[SCRATCH_PATH + 64];
    snprintf(path, sizeof(path), "%s/%s", records_folder, name);
    remove(path); /* a new file: some systems wait for the disk when one is emptied and written */
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
    return path;
}

static inline int open_folder(void **state)
{
    (void)state;
    scratch(records_folder);
    return 0;
}

static inline int close_folder(void **state)
{
    (void)state;
    scratch_remove(records_folder);
    return 0;
}

#endif
