/* SPDX-License-Identifier: Apache-2.0 */
/* TensorFlow's Example: which of its features become which components, and the reading of a message's bytes. */
#ifndef RF_DATA_EXAMPLE_H
#define RF_DATA_EXAMPLE_H

#include <ringfire/readers.h>

/* A feature that is asked for. */
typedef struct rf_example_use {
    char *name;
    bool image, variable;
    rf_array absent; /* what stands for a feature that a message lacks, an array of its own; data NULL: nothing does */
} rf_example_use;

typedef struct rf_example_plan {
    rf_element_spec spec;
    rf_example_use uses[RF_MAX_COMPONENTS]; /* one for each component */
} rf_example_plan;

/* Checks `params` but for the paths. The contents of the plan are freed with rf_example_plan_free(), also when this
 * fails. */
rf_result rf_example_plan_make(const rf_tfrecord_params *params, rf_example_plan *out);
void rf_example_plan_free(rf_example_plan *plan);
/* A hash of all that decides which numbers are read from a message. */
uint64_t rf_example_plan_hash(const rf_example_plan *plan);

/* Fills in an element that was laid out by the plan's spec (rf_element_place()). Unpacking takes no more memory than a
 * multiple of `size`. */
rf_result rf_example_decode(const void *bytes, size_t size, const rf_example_plan *plan, rf_element *out);

#endif
