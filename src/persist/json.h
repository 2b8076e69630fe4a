/* SPDX-License-Identifier: Apache-2.0 */
/* JSON as text, and members of its objects, checked. */
#ifndef RF_PERSIST_JSON_H
#define RF_PERSIST_JSON_H

#include <jansson.h>

#include "base/error.h"

/* One line of text; rf_free(). */
rf_result rf_json_text(json_t *value, char **text); /* takes the reference; NULL: out of memory */
/* `text` need not end with a zero. `what` is for messages. The root is an object. */
rf_result rf_json_parse(const char *text, size_t size, const char *what, json_t **out);

/* RF_ERROR_CORRUPT_DATA: "'<name>' is not <wanted>". */
rf_result rf_json_fail_member(const char *name, const char *wanted);
/* Members of an object; absent ones leave `*out` as it is. RF_ERROR_CORRUPT_DATA names the member. */
rf_result rf_json_number(const json_t *object, const char *name, double *out);
rf_result rf_json_float(const json_t *object, const char *name, float *out);
rf_result rf_json_u64(const json_t *object, const char *name, uint64_t *out);
rf_result rf_json_i32(const json_t *object, const char *name, int32_t *out);
rf_result rf_json_bool(const json_t *object, const char *name, bool *out);
/* One of `names` (num_names of them, by their numbers). */
rf_result rf_json_choice(const json_t *object, const char *name, const char *const *names, int num_names, int *out);
/* Must be there. Its dimensions may be any numbers. */
rf_result rf_shape_from_json(const json_t *object, const char *name, rf_shape *out);
json_t *rf_shape_to_json(rf_shape shape);
/* Takes the reference to `value`; NULL: out of memory. */
rf_result rf_json_set(json_t *object, const char *name, json_t *value);

#endif
