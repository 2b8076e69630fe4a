/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Batches whose rows are spread over the workers of a job: each worker's pipeline prepares only its own rows of every
 * global batch, in the same order of examples as one worker alone would see.
 */
#ifndef RF_DATA_SLICE_H
#define RF_DATA_SLICE_H

#include <ringfire/dataset.h>

#include "base/error.h"

typedef struct rf_slice_params {
    uint32_t worker, num_workers;
    bool by_file; /* whole files to each worker; else rows of each batch */
    /* How `rows` rows of a batch are spread: counts[num_workers]. Pure; called from any thread. */
    void (*split)(const void *user, uint32_t rows, uint32_t *counts);
    const void *user; /* freed with rf_free together with the dataset, also when making it fails */
} rf_slice_params;

/* `in` must be batched. By example: where the steps below the batch can be read in any order, only this worker's
 * examples are read; else whole batches are made and cut. By file: the source must be made of files; every worker makes
 * the same number of batches, the last of them without rows where it has run out. */
rf_result rf_dataset_slice(const rf_dataset *in, const rf_slice_params *params, rf_dataset **out);

/* Pure: batches that it takes until every worker has given all its examples in portions of quota[w]. */
uint64_t rf_slice_batches(const uint64_t *examples, const uint32_t *quota, uint32_t num_workers);
/* Pure: worker's rows of batch `batch`, the rows of the workers before it, and those of all. */
typedef struct rf_slice_rows {
    uint32_t first, rows, total;
} rf_slice_rows;
rf_slice_rows rf_slice_of_files(const uint64_t *examples, const uint32_t *quota, uint32_t num_workers, uint32_t worker,
                                uint64_t batch);

#endif
