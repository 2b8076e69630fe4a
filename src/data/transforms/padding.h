/* SPDX-License-Identifier: Apache-2.0 */
/* Values behind the ends of components that are shorter than others. */
#ifndef RF_DATA_PADDING_H
#define RF_DATA_PADDING_H

#include "data/pipeline.h"

/* One number, as a component has it. */
typedef struct rf_pad_number {
    unsigned char bytes[sizeof(float)];
} rf_pad_number;

/* The padding of component `c`. `function` is for messages. */
rf_result rf_pad_number_encode(const char *function, uint32_t c, rf_dtype dtype, double value, rf_pad_number *out);
/* Fills `size` bytes. */
void rf_pad_number_fill(const rf_pad_number *padding, rf_dtype dtype, void *to, size_t size);

#endif
