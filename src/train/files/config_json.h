/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptions (schedules, optimizers, layers) as JSON, for files and messages. Reading checks everything that the
 * constructors do not. */
#ifndef RF_TRAIN_FILES_CONFIG_JSON_H
#define RF_TRAIN_FILES_CONFIG_JSON_H

#include <jansson.h>

#include "train/optimizer/optimizer.h"

/* One line of text; rf_free(). */
rf_result rf_json_text(json_t *value, char **text); /* takes the reference; NULL: out of memory */
/* `text` need not end with a zero. `what` is for messages. The root is an object. */
rf_result rf_json_parse(const char *text, size_t size, const char *what, json_t **out);

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

json_t *rf_schedule_to_json(const rf_schedule *schedule);
rf_result rf_schedule_from_json(const json_t *object, rf_schedule *out); /* checked */

/* Kind, learning rate and settings, defaults included. NULL: out of memory. */
json_t *rf_optimizer_to_json(const rf_optimizer_params *params, const rf_schedule *schedule);
/* params->schedule becomes `schedule`, which must outlive it. Whether the numbers make sense is for
 * rf_optimizer_configure() to say. */
rf_result rf_optimizer_from_json(const json_t *object, rf_optimizer_params *params, rf_schedule *schedule);
/* Frees all that reading gave it beside the schedule; a failure has freed it. */
void rf_optimizer_params_free(rf_optimizer_params *params);
/* The same as a text of its own, for the way from the chief to parameter servers. rf_free(). */
rf_result rf_optimizer_text(const rf_optimizer_config *config, char **text);
/* RF_ERROR_CORRUPT_DATA where it is none. */
rf_result rf_optimizer_parse(const char *text, size_t size, rf_optimizer_params *params, rf_schedule *schedule);

#endif
