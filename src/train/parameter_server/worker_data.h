/* SPDX-License-Identifier: Apache-2.0 */
/* Batches by their number, for workers of parameter servers: whoever computes a share takes the batch that it is of. */
#ifndef RF_TRAIN_PARAMETER_SERVER_WORKER_DATA_H
#define RF_TRAIN_PARAMETER_SERVER_WORKER_DATA_H

#include <ringfire/dataset.h>

#include "base/error.h"

/* Where one reader of a dataset is. Zeroed before first use. */
typedef struct rf_batch_reader {
    rf_iterator *iterator; /* NULL: nothing is open */
    uint64_t pass;         /* that it is of */
    uint64_t next;         /* number of the batch that it gives next */
    uint64_t stride;       /* so many numbers further is the one after that */
    bool begun;
} rf_batch_reader;

/* Batch `number`, counted from 0 through all passes over the dataset; the one of `stride` further is then the cheapest
 * to get. Borrowed until the next call. */
rf_result rf_batch_reader_read(rf_batch_reader *at, const rf_dataset *data, uint64_t number, uint64_t stride,
                               rf_element *out);
void rf_batch_reader_close(rf_batch_reader *at);
/* A hash of the contents of a batch; never 0. */
uint64_t rf_batch_hash(const rf_element *batch);

#endif
