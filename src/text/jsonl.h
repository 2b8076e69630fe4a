/* SPDX-License-Identifier: Apache-2.0 */
/* Sources of JSON Lines: an object a line, of which a function makes an element. */
#ifndef RF_TEXT_JSONL_H
#define RF_TEXT_JSONL_H

#include <jansson.h>

#include <ringfire/text.h>

#include "base/error.h"

typedef struct rf_jsonl_format {
    const char *function; /* of the caller, for messages */
    /* Fills in an element of the spec, whose buffers have whole shapes; numbers are reals. `text` is the line. Sets
     * *cut where the element has less than the line. */
    rf_result (*decode)(const void *plan, const json_t *object, const char *text, size_t size, rf_element *out,
                        bool *cut);
    void (*free_plan)(void *plan);
} rf_jsonl_format;

typedef struct rf_jsonl_files {
    const char *const *paths;
    uint32_t count, max_bytes;
} rf_jsonl_files;

/* `plan` belongs to the dataset, also when making it fails. `fingerprint`: of what decides what is read. */
rf_result rf_jsonl_dataset(const rf_jsonl_format *format, void *plan, const rf_element_spec *spec,
                           const rf_jsonl_files *files, uint64_t fingerprint, rf_dataset **out);

/* A text as tokens, without those that stand before and after texts where it continues one; rf_array_free(). */
rf_result rf_jsonl_encode(const rf_tokenizer *tokenizer, const json_t *text, bool continues, rf_array *out);
/* The name of a member in a message, cut where it is long. */
rf_result rf_jsonl_fail(const char *member, const char *fault);

#endif
