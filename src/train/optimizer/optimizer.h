/* SPDX-License-Identifier: Apache-2.0 */
/* The pure part of optimizers: parameters with their defaults, and the numbers of one update. */
#ifndef RF_TRAIN_OPTIMIZER_OPTIMIZER_H
#define RF_TRAIN_OPTIMIZER_OPTIMIZER_H

#include <ringfire/train.h>

#include "ops/ops.h"
#include "replica/strategy.h"

typedef struct rf_optimizer_config {
    rf_optimizer_params params; /* defaults filled in; `schedule` points nowhere */
    rf_schedule schedule;       /* of kind CONSTANT where only a rate was given */
} rf_optimizer_config;
/* Checks the parameters (NULL: all defaults) and fills in defaults. */
rf_result rf_optimizer_configure(const rf_optimizer_params *params, rf_optimizer_config *out);
/* Learning rate of update number `iteration` (from 0). */
double rf_optimizer_rate(const rf_optimizer_config *config, uint64_t iteration);
/* What the update kernels read for update number `iteration` of the variables of a group (0: of none); `norm` is that
 * of the mean gradient (0 without clipping by norm). `values` has RF_HYPER_COUNT entries. */
void rf_optimizer_hyper(const rf_optimizer_config *config, uint64_t iteration, double norm, uint32_t group,
                        float *values);

/* ---- parameter groups (groups.c) ---- */
enum { RF_MAX_PARAMETER_GROUPS = 64 };
rf_result rf_parameter_groups_check(const rf_optimizer_params *params);
bool rf_parameter_group_matches(const rf_parameter_group *group, const char *name);
/* The number of a variable's group: 1 + its place in `groups`, 0 for none. */
uint32_t rf_parameter_group_of(const rf_optimizer_params *params, const char *name);
/* With all names, in one block for rf_free(). NULL of none. */
rf_result rf_parameter_groups_copy(const rf_parameter_group *groups, uint32_t count, rf_parameter_group **out);

/* For checkpoints: slots and counters are the updater's. */
const rf_optimizer_config *rf_optimizer_configuration(const rf_optimizer *optimizer);
rf_result rf_optimizer_set_schedule(rf_optimizer *optimizer, const rf_schedule *schedule);
enum { RF_OPTIMIZER_KINDS = RF_OPTIMIZER_LION + 1 };
/* By kind: what files and messages call it. */
extern const char *const rf_optimizer_kind_names[RF_OPTIMIZER_KINDS];
/* Whether it has betas: Adam and its relatives. */
bool rf_optimizer_has_betas(rf_optimizer_kind kind);
/* "sgd", ... and what its slots are called, e.g. "m"; NULL where there is no such kind or slot. */
const char *rf_optimizer_kind_name(rf_optimizer_kind kind);
const char *rf_optimizer_slot_name(rf_optimizer_kind kind, uint32_t slot);
rf_updater *rf_optimizer_updater(rf_optimizer *optimizer);
/* Of rf_optimizer_create_remote(). */
void rf_optimizer_set_remote(rf_optimizer *optimizer);
/* For those that keep it: it stays in memory until they release it, even when its maker has destroyed it. NULL is let
 * pass. */
rf_optimizer *rf_optimizer_retain(rf_optimizer *optimizer);
void rf_optimizer_release(rf_optimizer *optimizer);
/* Fails, in the name of the public function, when its maker has destroyed it. */
rf_result rf_optimizer_check_alive(const rf_optimizer *optimizer, const char *function);
rf_strategy *rf_optimizer_strategy(const rf_optimizer *optimizer);

#endif
