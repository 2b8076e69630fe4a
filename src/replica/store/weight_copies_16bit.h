/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of variables in 16 bits, for steps that read these in that type.
 *
 * A step that casts a variable which it also updates reads the variable's shadow instead. The update writes it in the
 * dispatch that writes the variable. Whatever else changes variables makes all shadows stale: values that the host
 * writes, and those that come from other replicas. The next step that reads shadows then makes them anew, in one pass
 * (src/step/refresh.c).
 */
#ifndef RF_REPLICA_STORE_WEIGHT_COPIES_16BIT_H
#define RF_REPLICA_STORE_WEIGHT_COPIES_16BIT_H

#include "exec/exec.h"
#include "replica/store/flat.h"

typedef struct rf_weight_copies {
    rf_dtype type;     /* of all of them: that of the first step that wants some; RF_DTYPE_INVALID: there are none */
    rf_flat values;    /* places as in the strategy's `trainable`, elements of 16 bits */
    uint64_t capacity; /* of those */
    bool stale;
} rf_weight_copies;

/*
 * Finds the values of a traced step that shadows replace. source[v], of each value, is the state whose shadow takes the
 * place of v, or 0. updated[slot]: the step updates the state. Returns the type: `present`, or where that is
 * RF_DTYPE_INVALID the one that most elements are cast to, or none. Pure.
 */
rf_dtype rf_weight_copies_plan(const rf_graph *graph, const bool *updated, rf_dtype present, rf_value *source);

/* The variable has a shadow from now on. */
void rf_weight_copies_add(rf_strategy *strategy, rf_variable *variable);
/* Room for them, once the strategy has some. Waits where it moves them. */
rf_result rf_weight_copies_ensure(rf_strategy *strategy);
/* Whether the update of a range has shadows to write. Where owners hand values on, the pass that makes those of all
 * does. */
bool rf_weight_copies_are_written(const rf_strategy *strategy, rf_range range);
/* The place of element `offset` of the trainable variables. */
rf_location rf_weight_copies_location(const rf_strategy *strategy, uint32_t index, uint64_t offset);

#endif
