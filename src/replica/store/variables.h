/* SPDX-License-Identifier: Apache-2.0 */
/* Variables, and the stores that hold them. */
#ifndef RF_REPLICA_STORE_VARIABLES_H
#define RF_REPLICA_STORE_VARIABLES_H

#include "base/memory.h"
#include "replica/internal.h"

struct rf_variable {
    uint32_t references;
    rf_strategy *strategy;
    char *name;
    rf_shape shape;
    uint64_t count, offset;     /* elements of its store: of one in few bits, words */
    rf_variable_matrix *matrix; /* how it is stored in few bits; owned; NULL: in f32 */
    bool trainable;
    bool aside;        /* it lies where frozen variables have no room for gradients */
    bool has_copy;     /* see weight_copies_16bit.h */
    bool frozen;       /* by its layer: models leave it out of what they train */
    bool served;       /* parameter servers add up what steps assign to it */
    uint64_t run;      /* of the updater: the latest that updated it */
    uint32_t updaters; /* that have state of it */
    rf_updater
        *updater; /* the last one that updated it; not a counted reference: an updater that is destroyed clears it */
};

/* The state behind a STATE slot of a graph: a variable or a local state. */
typedef struct rf_state_ref {
    rf_variable *variable;
    rf_local_state *local;
    bool shadow; /* the variable's, not its value */
} rf_state_ref;

static inline rf_store *rf_variable_store(const rf_variable *v)
{
    if (v->aside) return &v->strategy->store.aside;
    return v->trainable ? &v->strategy->store.trainable : &v->strategy->store.fixed;
}
/* Elements that a variable takes in its store, padding included. */
static inline rf_range rf_variable_span(const rf_variable *v)
{
    return (rf_range){ v->offset, v->offset + rf_align_up(v->count, v->strategy->store.alignment) };
}
/* Makes room for the gradients of all variables, which programs that only infer do not need. */
rf_result rf_strategy_begin_training(rf_strategy *strategy);
/* Elements of its values. */
static inline uint64_t rf_variable_elements(const rf_variable *v)
{
    return (uint64_t)rf_shape_count(v->shape);
}
/* Trainable variables that are frozen go to a store of their own, where they take no room for gradients and in
 * exchanges. Those that an updater has state of, or parameter servers, stay. Waits. */
rf_result rf_variables_set_aside(rf_strategy *strategy, rf_variable *const *variables, uint32_t count);
/* And back, before an updater updates it. */
rf_result rf_variable_bring_back(rf_variable *variable);
void rf_variables_sort(rf_variable **variables, uint32_t count); /* by offset */

/* ---- check.c ---- */
/* Compares the replicas when a comparison is due. Called before every step that updates. */
rf_result rf_strategy_check_if_due(rf_strategy *strategy);

#endif
