/* SPDX-License-Identifier: Apache-2.0 */
/* GGUF files, through file operations that the caller provides, and the blocks that their numbers are stored in. */
#ifndef RF_PERSIST_ARRAYS_GGUF_H
#define RF_PERSIST_ARRAYS_GGUF_H

#include <ringfire/gguf.h>

#include "persist/file_ops.h"

enum {
    RF_GGUF_VERSION = 3,
    RF_GGUF_ALIGNMENT = 32,  /* of tensors, where the file does not name another one */
    RF_GGUF_ARRAY = 9,       /* the type of an array of values */
    RF_GGUF_MAX_BLOCK = 256, /* numbers */
    RF_GGUF_MAX_BLOCK_BYTES = 256,
    RF_GGUF_AT_ONCE = 65536 /* numbers that rf_gguf_read_fn is asked for */
};

/* A way to store numbers: blocks of so many numbers in so many bytes. */
typedef struct rf_gguf_form {
    rf_gguf_type type;
    const char *name;
    uint32_t numbers, bytes;
    void (*decode)(const uint8_t *block, float *out);
    bool (*encode)(const float *in, uint8_t *block); /* false: a number does not fit. NULL: only read */
} rf_gguf_form;

/* NULL: numbers of that type are not read. */
const rf_gguf_form *rf_gguf_find_form(uint32_t type);
/* For messages; "type 77" is written into `text`. */
const char *rf_gguf_type_name(uint32_t type);
/* Bytes of a single value; 0: a string, or no type. */
uint32_t rf_gguf_value_size(uint32_t type);

/* Whether a regular file begins as GGUF files do. */
bool rf_gguf_matches(const char *path);
rf_result rf_gguf_open_with(const rf_file_ops *ops, const char *path, rf_gguf **out);
rf_result rf_gguf_write_with(const rf_file_ops *ops, const char *path, const rf_gguf_contents *contents);

#endif
