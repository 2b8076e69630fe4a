/* SPDX-License-Identifier: Apache-2.0 */
/* Values that a GGUF file is to have. */
#ifndef RF_PERSIST_ARRAYS_GGUF_VALUES_H
#define RF_PERSIST_ARRAYS_GGUF_VALUES_H

#include <ringfire/gguf.h>

#include "base/memory.h"

/* Copied. The first failure sticks. */
typedef struct rf_gguf_values {
    rf_arena arena;
    rf_gguf_value *items;
    uint32_t count, capacity;
    rf_result status;
} rf_gguf_values;

/* Any value; the elements of strings are copied, too. */
void rf_gguf_put(rf_gguf_values *v, const rf_gguf_value *value);
void rf_gguf_put_u32(rf_gguf_values *v, const char *key, uint32_t number);
void rf_gguf_put_f32(rf_gguf_values *v, const char *key, double number);
void rf_gguf_put_bool(rf_gguf_values *v, const char *key, bool flag);
void rf_gguf_put_text(rf_gguf_values *v, const char *key, const char *text);
void rf_gguf_values_clear(rf_gguf_values *v);

#endif
