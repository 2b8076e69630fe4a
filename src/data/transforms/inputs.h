/* SPDX-License-Identifier: Apache-2.0 */
/* Steps with several inputs. The first is the dataset's `input`, which the stage's common part opens; the others are
 * opened here, for the same epoch. */
#ifndef RF_DATA_INPUTS_H
#define RF_DATA_INPUTS_H

#include "data/pipeline.h"

typedef struct rf_input_set {
    uint32_t count;
    rf_stage **stages; /* [count]; the first is the stage's input, to which it belongs */
} rf_input_set;

/* The stage is indexed where all inputs are. */
rf_result rf_inputs_open(rf_stage *stage, rf_input_set *set);
void rf_inputs_close(rf_input_set *set);
/* A new node over all of `in`. */
rf_result rf_dataset_derive_from_all(const rf_dataset *const *in, uint32_t num_in, const rf_dataset_kind *kind,
                                     rf_dataset **out);
/* The number of elements of two datasets together. */
int64_t rf_cardinality_sum(int64_t a, int64_t b);

#endif
