/* SPDX-License-Identifier: Apache-2.0 */
/* The pure part of optimizers: parameters with their defaults, and the numbers of one update. */
#ifndef RF_TRAIN_OPTIMIZER_OPTIMIZER_H
#define RF_TRAIN_OPTIMIZER_OPTIMIZER_H

#include <ringfire/train.h>

#include "ops/ops.h"
#include "replica/strategy.h"

typedef struct rf_optimizer_config {
    rf_optimizer_params params; /* defaults filled in; `schedule` points nowhere, `custom` to the optimizer's copy */
    rf_schedule schedule;       /* of kind CONSTANT where only a rate was given */
    rf_loss_scale_params loss_scale; /* defaults filled in; zero where params.loss_scale is NULL */
} rf_optimizer_config;
/* Checks the parameters (NULL: all defaults) and fills in defaults. */
rf_result rf_optimizer_configure(const rf_optimizer_params *params, rf_optimizer_config *out);
/* Learning rate of update number `iteration` (from 0). */
double rf_optimizer_rate(const rf_optimizer_config *config, uint64_t iteration);
/* The numbers that update kernels read for update number `iteration` of the variables of a group (0: of none); `norm`
 * is that of the mean gradient (0 without clipping by norm). `values` has RF_HYPER_COUNT entries. */
void rf_optimizer_hyper(const rf_optimizer_config *config, uint64_t iteration, double norm, uint32_t group,
                        float *values);

/* ---- what workers compare (settings.c) ---- */
typedef struct rf_custom_update rf_custom_update;
/* `custom`: NULL of the library's kinds. */
void rf_optimizer_describe(const rf_optimizer_config *config, const rf_custom_update *custom, uint64_t iteration,
                           rf_update_settings *settings);

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
enum { RF_OPTIMIZER_KINDS = RF_OPTIMIZER_MUON + 1 };
/* By kind: what files and messages call it. Files know all but those of callers. */
extern const char *const rf_optimizer_kind_names[RF_OPTIMIZER_KINDS];
/* Whether it has betas: Adam and its relatives. */
bool rf_optimizer_has_betas(rf_optimizer_kind kind);
/* "sgd", ..., or the name of a custom optimizer. */
const char *rf_optimizer_config_name(const rf_optimizer_config *config);
/* Slots of the rule itself; one more, the last, is the average of the weight where there is one. */
uint32_t rf_optimizer_config_slots(const rf_optimizer_config *config);
/* The name of a slot, e.g. "m", "average". */
const char *rf_optimizer_config_slot(const rf_optimizer_config *config, uint32_t slot);

/* ---- Muon (muon.c) ---- */
/* How a variable of this name and shape, of a parameter group (0: of none), is updated: false by AdamW, true by its
 * matrix. */
bool rf_muon_updates(const rf_optimizer_params *params, uint32_t group, const char *name, rf_shape shape);
/* The updater's groups are twice the parameter groups: without matrices, and with them. */
static inline bool rf_muon_is_matrix(const rf_optimizer_params *params, uint32_t group)
{
    return group > params->num_groups;
}
/* In a range, m (changed) and the gradient make the direction. */
rf_result rf_muon_emit_direction(const rf_optimizer_params *params, rf_graph *g, uint32_t group, rf_value direction,
                                 rf_value grad, rf_value m, rf_value hyper);
/* The whole direction of a variable is made orthogonal, in place. */
rf_result rf_muon_emit_whole(const rf_optimizer_params *params, rf_graph *g, uint32_t group, rf_value direction);

/* ---- updates of callers (custom_params.c is pure, custom.c traces and emits) ---- */
enum { RF_MAX_CUSTOM_NAME = 63 }; /* characters */
enum { RF_CUSTOM_RATE, RF_CUSTOM_STEP, RF_CUSTOM_GRAD_SCALE, RF_CUSTOM_DECAY, RF_CUSTOM_HYPERPARAMETERS };
struct rf_custom_update {
    rf_custom_optimizer params; /* copied; points into this block */
    rf_optimizer_slot slots[RF_MAX_CUSTOM_SLOTS];
    rf_hyperparameter hyperparameters[RF_MAX_HYPERPARAMETERS]; /* as they are now */
    rf_graph *graph;
    rf_value leaves[3 + RF_MAX_CUSTOM_SLOTS + RF_CUSTOM_HYPERPARAMETERS + RF_MAX_HYPERPARAMETERS];
    rf_value results[1 + RF_MAX_CUSTOM_SLOTS]; /* weight, slots */
    uint64_t hash;                             /* of the graph */
};
rf_result rf_custom_optimizer_check(const rf_custom_optimizer *params);
/* Copies, and traces the update. */
rf_result rf_custom_update_create(rf_strategy *strategy, const rf_custom_optimizer *params, rf_custom_update **out);
void rf_custom_update_destroy(rf_custom_update **update);
static inline uint32_t rf_custom_num_scalars(const rf_custom_update *update)
{
    return RF_CUSTOM_HYPERPARAMETERS + update->params.num_hyperparameters;
}
/* Appends the update of a range; `scalars` are those that rf_custom_fill() fills in. */
rf_result rf_custom_update_emit(const rf_custom_update *update, const rf_optimizer_params *params, rf_graph *g,
                                rf_value param, rf_value grad, const rf_value *slots, const rf_value *scalars,
                                rf_value shadow);
/* `values`: RF_HYPER_COUNT numbers of rf_optimizer_hyper(), then the scalars to fill in. `rate` is that of the group.
 */
void rf_custom_fill(const rf_custom_update *update, uint64_t iteration, double rate, float *values);
/* The number of a hyper-parameter; UINT32_MAX: there is none. */
uint32_t rf_custom_find(const rf_custom_update *update, const char *name);
/* Rate of a group. */
double rf_optimizer_group_rate(const rf_optimizer_config *config, uint64_t iteration, uint32_t group);
rf_updater *rf_optimizer_updater(rf_optimizer *optimizer);
/* Belongs to rf_optimizer_create_remote(). */
void rf_optimizer_set_remote(rf_optimizer *optimizer);
bool rf_optimizer_is_remote(const rf_optimizer *optimizer);
/* For those that keep it: it stays in memory until they release it, even when its maker has destroyed it. NULL is let
 * pass. */
rf_optimizer *rf_optimizer_retain(rf_optimizer *optimizer);
void rf_optimizer_release(rf_optimizer *optimizer);
/* Fails, in the name of the public function, when its maker has destroyed it. */
rf_result rf_optimizer_check_alive(const rf_optimizer *optimizer, const char *function);
rf_strategy *rf_optimizer_strategy(const rf_optimizer *optimizer);

#endif
