/* SPDX-License-Identifier: Apache-2.0 */
/* Made-up contents for archives, the same for the same seed. */
#ifndef TEST_PERSIST_SAMPLE_H
#define TEST_PERSIST_SAMPLE_H

#include "persist/archive/reader.h"
#include "persist/archive/writer.h"

enum { SAMPLE_TENSORS = 32 };

typedef struct sample {
    rf_archive_tensor tensors[SAMPLE_TENSORS];
    char names[SAMPLE_TENSORS][64];
    rf_archive_value values[8];
    rf_archive_contents contents;
} sample;

/* Every type with shapes of all kinds, numbers that compress and that do not. About `floats` * 20 bytes. */
void sample_make(sample *s, uint64_t seed, int64_t floats);
void sample_free(sample *s);
/* One tensor, of random normal f32 (compresses a little), of zeros, or of random bytes. */
void sample_fill(void *data, rf_dtype dtype, int64_t count, uint64_t seed, int kind);
/* Writes the contents in so many parts (at most 8), dealt out in extents of `extent` elements. The parts are called
 * "<path>.part-<i>-of-<n>-sample", i and n with five digits. */
rf_result sample_write_parts(const rf_file_ops *ops, const char *path, const rf_archive_contents *contents,
                             uint32_t num_parts, uint64_t extent);
/* NULL when the archive holds exactly that, else what differs. */
const char *sample_compare(const sample *s, const rf_archive *archive);
/* The same for tensors that are read in extents. */
const char *sample_compare_ranges(const sample *s, const rf_archive *archive);

#endif
