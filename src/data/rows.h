/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Batches as numbers of rows. Where a pipeline is over arrays in memory, its steps look at no values (shuffle, batch,
 * take, repeat ...), and its maps are among those that a device can do as well, only the numbers of the examples have
 * to go through it: another one, with the same steps over the numbers, makes them, in the same order.
 */
#ifndef RF_DATA_ROWS_H
#define RF_DATA_ROWS_H

#include <ringfire/dataset.h>

typedef enum rf_row_map { RF_ROW_COPY, RF_ROW_SCALE_U8, RF_ROW_ONE_HOT } rf_row_map;
/* A component of the elements: rows of an array, mapped. */
typedef struct rf_row_component {
    rf_array array; /* the source's; of dimension 0 each is a row */
    rf_row_map map;
    uint32_t depth; /* of RF_ROW_ONE_HOT */
} rf_row_component;
typedef struct rf_row_source {
    uint32_t num_components;
    rf_row_component component[RF_MAX_COMPONENTS];
} rf_row_source;

/*
 * `rows` gives elements of one component, i32 [batch]. Positions of iterators over it and over `in` are
 * interchangeable. It keeps the arrays that `source` points to alive. RF_ERROR_UNSUPPORTED, with a message that names
 * the step, where `in` is no such pipeline.
 */
rf_result rf_dataset_rows(const rf_dataset *in, rf_row_source *source, rf_dataset **rows);

#endif
