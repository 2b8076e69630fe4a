/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules and optimizers as JSON, for files and messages. Reading checks everything that the constructors do not. */
#ifndef RF_TRAIN_OPTIMIZER_CONFIG_JSON_H
#define RF_TRAIN_OPTIMIZER_CONFIG_JSON_H

#include "persist/json.h"
#include "train/optimizer/optimizer.h"

json_t *rf_schedule_to_json(const rf_schedule *schedule);
rf_result rf_schedule_from_json(const json_t *object, rf_schedule *out); /* checked */

/* Kind, learning rate and settings, defaults included. NULL: out of memory. */
json_t *rf_optimizer_to_json(const rf_optimizer_params *params, const rf_schedule *schedule);
/* params->schedule becomes `schedule`, which must outlive it. Whether the numbers make sense is for
 * rf_optimizer_configure() to say. */
rf_result rf_optimizer_from_json(const json_t *object, rf_optimizer_params *params, rf_schedule *schedule);
/* Frees what reading gave it beside the schedule; a failure has freed it. */
void rf_optimizer_params_free(rf_optimizer_params *params);
/* The same as a text of its own, for the way from the chief to parameter servers. rf_free(). */
rf_result rf_optimizer_text(const rf_optimizer_config *config, char **text);
/* RF_ERROR_CORRUPT_DATA where it is none. */
rf_result rf_optimizer_parse(const char *text, size_t size, rf_optimizer_params *params, rf_schedule *schedule);

#endif
