/* SPDX-License-Identifier: Apache-2.0 */
/* Which parameters each server holds. Pure: every task computes the same plan from the same variables. */
#ifndef RF_SERVER_PLAN_H
#define RF_SERVER_PLAN_H

#include "replica/strategy.h"

typedef struct rf_ps_segment {
    uint32_t variable, server;
    rf_range range;  /* elements of the variable */
    uint64_t from;   /* where the range begins in all variables laid end to end */
    uint64_t offset; /* where it begins in the server's array */
} rf_ps_segment;

typedef struct rf_ps_plan {
    rf_ps_segment *items; /* by variable, then range */
    uint32_t count, capacity;
    uint64_t *server_counts; /* [num_servers]: elements of each */
    uint32_t num_servers;
    uint64_t total; /* elements of all variables */
} rf_ps_plan;

/* A variable of more than `max_elements` is cut into ranges of equal size (but for one element), others stay whole.
 * Segments go to servers largest first, each to the one that has least so far: no server then holds more than 4/3 of
 * the best possible maximum (Graham 1969, "longest processing time first"). */
rf_result rf_ps_plan_make(const uint64_t *variable_counts, uint32_t num_variables, uint32_t num_servers,
                          uint64_t max_elements, rf_ps_plan *out);
void rf_ps_plan_free(rf_ps_plan *plan);

#endif
