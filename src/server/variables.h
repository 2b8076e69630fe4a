/* SPDX-License-Identifier: Apache-2.0 */
/* Variables as the tasks of a cluster see them: laid end to end, those that an optimizer updates before the others. */
#ifndef RF_SERVER_VARIABLES_H
#define RF_SERVER_VARIABLES_H

#include <ringfire/ops.h>
#include <ringfire/strategy.h>

#include "server/plan.h"

typedef struct rf_ps_variables {
    rf_variable **items; /* with a reference to each */
    uint32_t count, num_trained;
    uint64_t total, trained; /* elements */
} rf_ps_variables;

/* Checks both lists: variables of one strategy (of `strategy` where that is not NULL) of this process alone, those of
 * the first one trainable. `caller` begins the messages. */
rf_result rf_ps_variables_create(const char *caller, const rf_strategy *strategy, rf_variable_list trained,
                                 rf_variable_list state, rf_ps_variables *out);
void rf_ps_variables_free(rf_ps_variables *variables);
/* The same on two tasks if their names, shapes and parts are. */
uint64_t rf_ps_variables_hash(const rf_ps_variables *variables);
/* `rules`: one for each. */
rf_result rf_ps_variables_plan(const rf_ps_variables *variables, const uint8_t *rules, uint32_t num_servers,
                               uint64_t max_elements, rf_ps_plan *out);
rf_result rf_ps_variables_read(const rf_ps_variables *variables, float *values);
rf_result rf_ps_variables_assign(const rf_ps_variables *variables, const float *values);
/* Reads what a step has left behind: gradients, and for variables that no optimizer updates the change from `values`.
 */
rf_result rf_ps_variables_read_changes(const rf_ps_variables *variables, const float *values, float *changes);

#endif
