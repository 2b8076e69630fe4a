/* SPDX-License-Identifier: Apache-2.0 */
/* Variables as the tasks of a cluster see them: laid end to end in the order of the list. */
#ifndef RF_SERVER_VARIABLES_H
#define RF_SERVER_VARIABLES_H

#include <ringfire/ops.h>
#include <ringfire/strategy.h>

#include "server/plan.h"

/* Checks the list: trainable variables of one strategy (of `strategy` where that is not NULL) of this process alone.
 * `caller` begins the messages. */
rf_result rf_ps_variables_check(const char *caller, const rf_strategy *strategy, rf_variable_list variables);
/* The same on two tasks if their names and shapes are. */
uint64_t rf_ps_variables_hash(rf_variable_list variables);
rf_result rf_ps_variables_plan(rf_variable_list variables, uint32_t num_servers, uint64_t max_elements,
                               rf_ps_plan *out);
rf_result rf_ps_variables_read(rf_variable_list variables, float *values);
rf_result rf_ps_variables_read_gradients(rf_variable_list variables, float *gradients);
rf_result rf_ps_variables_assign(rf_variable_list variables, const float *values);

#endif
