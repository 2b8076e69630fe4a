/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every tracing function with operands, for the sweep over the batch in each of their dimensions (test_batch_sweep.c).
 *
 * Operands are strings of letters, a dimension each: one letter has one size in all operands, and each in turn is the
 * batch. A '1' is a dimension of 1. '#' before the letters: class numbers, i32, 0 or 1; '+': numbers between 0 and 1.
 * `refused`: letters that cannot be the batch, with which every other batch than the traced one fails, in the
 * function's name. `order`: how often the result is differentiated, 0 to 2.
 */
#ifndef RF_TESTS_TRAIN_BATCH_ROWS_H
#define RF_TESTS_TRAIN_BATCH_ROWS_H

#include <ringfire/ringfire.h>

enum { MOST_OPERANDS = 5 };

typedef struct batch_row {
    const char *function, *variant, *operands, *refused;
    int order;
    rf_tensor (*call)(rf_trace *t, const rf_tensor *x);
} batch_row;

extern const batch_row batch_rows[];
extern const unsigned num_batch_rows;

/* Layers and metrics that rows use are made before and destroyed after the sweep. */
void batch_rows_open(rf_strategy *strategy);
void batch_rows_close(void);

#endif
