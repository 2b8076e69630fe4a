/* SPDX-License-Identifier: Apache-2.0 */
/* Data that the tests of layers of the program learn from. */
#ifndef RF_TESTS_TRAIN_PRODUCTS_DATA_H
#define RF_TESTS_TRAIN_PRODUCTS_DATA_H

#include "../support/strategies.h"

enum { MOST_PRODUCTS = 512 };

/* Batches of noise and, for each example, the product of its first two features. */
static inline rf_dataset *products_data(int64_t examples, int64_t features, int64_t batch)
{
    static float x[MOST_PRODUCTS], y[MOST_PRODUCTS];
    assert_true(examples * features <= MOST_PRODUCTS);
    fill_noise(x, (size_t)(examples * features), 11);
    for (int64_t i = 0; i < examples; i++) y[i] = x[i * features] * x[i * features + 1];
    const rf_array arrays[] = { array_f32(RF_SHAPE(examples, features), x), array_f32(RF_SHAPE(examples, 1), y) };
    rf_dataset *slices, *data;
    OK(rf_dataset_from_arrays(&(rf_dataset_arrays_params){ .arrays = arrays, .num_arrays = 2 }, &slices));
    OK(rf_dataset_batch(slices, batch, RF_REMAINDER_KEEP, &data));
    rf_dataset_destroy(&slices);
    return data;
}

#endif
