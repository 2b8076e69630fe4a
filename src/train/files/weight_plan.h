/* SPDX-License-Identifier: Apache-2.0 */
/* Which tensor of a file becomes which variable of a model: a decision about names and shapes, without a device. */
#ifndef RF_TRAIN_FILES_WEIGHT_PLAN_H
#define RF_TRAIN_FILES_WEIGHT_PLAN_H

#include "train/files/weight_notes.h"

typedef struct rf_weight_variable {
    const char *name;
    rf_shape shape;
} rf_weight_variable;

/* The tensor that a variable gets. */
typedef struct rf_weight_choice {
    rf_weight_outcome outcome;
    const rf_archive_entry *tensor; /* NULL: MISSING */
    const rf_weight_rule *rule;     /* that it follows; NULL: none */
} rf_weight_choice;

typedef struct rf_weight_plan {
    rf_weight_choice *choices; /* of each variable */
    rf_weight_notes notes;
} rf_weight_plan;

/* RF_ERROR_INVALID_ARGUMENT names a rule, as what `function` was given. */
rf_result rf_weight_rules_check(const rf_weight_rule *rules, uint32_t num_rules, const char *function);
/* The name that a checked rule makes of a tensor's: *matches is false, or *name is rf_free()d by the caller; NULL: the
 * tensor is not wanted. */
rf_result rf_weight_rule_apply(const rf_weight_rule *rule, const char *tensor, bool *matches, char **name);
/* Tensors stay borrowed. RF_ERROR_INVALID_ARGUMENT where two are for one variable. */
rf_result rf_weight_plan_make(const rf_archive_entry *tensors, uint64_t num_tensors,
                              const rf_weight_variable *variables, uint32_t num_variables,
                              const rf_load_weights_params *params, rf_weight_plan *out);
void rf_weight_plan_free(rf_weight_plan *plan);
/* RF_ERROR_NOT_FOUND or RF_ERROR_INVALID_ARGUMENT where something does not fit that has to. */
rf_result rf_weight_plan_check(const rf_weight_plan *plan, const rf_load_weights_params *params, const char *path);
/* The values of a tensor that was chosen, in the order that the variable has. */
void rf_weight_convert(const rf_weight_choice *choice, const void *data, float *out);

#endif
