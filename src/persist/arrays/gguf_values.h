/* SPDX-License-Identifier: Apache-2.0 */
/* Values of GGUF files: those that a file is to have, and those of one that is read, checked. */
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

/* Single values of a file. RF_ERROR_NOT_FOUND and RF_ERROR_UNSUPPORTED, of another type, name the key. */
rf_result rf_gguf_get_size(const rf_gguf *file, const char *key, uint32_t *out); /* any integer up to INT32_MAX */
rf_result rf_gguf_get_number(const rf_gguf *file, const char *key, double *out); /* finite in f32 */
rf_result rf_gguf_get_bool(const rf_gguf *file, const char *key, bool *out);
rf_result rf_gguf_get_text(const rf_gguf *file, const char *key, const char **out); /* without zero bytes; borrowed */
rf_result rf_gguf_get_array(const rf_gguf *file, const char *key, rf_gguf_value_type type, rf_gguf_value *out);
/* The same of a value that need not be there: `*out` stays as it is then. */
static inline rf_result rf_gguf_if_there(rf_result got)
{
    return got == RF_ERROR_NOT_FOUND ? RF_OK : got;
}

#endif
