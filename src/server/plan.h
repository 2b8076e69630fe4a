/* SPDX-License-Identifier: Apache-2.0 */
/* Which parameters each server holds. Pure: every task computes the same plan from the same variables. */
#ifndef RF_SERVER_PLAN_H
#define RF_SERVER_PLAN_H

#include "replica/strategy.h"

/* A variable is changed by a rule: the number of the optimizer's group that it belongs to (0: to none), or: */
enum {
    RF_PS_ADDED = 255, /* no optimizer does; what steps assign to it is added up */
    RF_PS_MAX_GROUPS = 65
};

/* A server's array holds one rule's elements after the other: groups first. */
typedef struct rf_ps_layout {
    uint64_t groups[RF_PS_MAX_GROUPS]; /* elements of each */
    uint64_t optimized, added;         /* elements of all groups; the others */
} rf_ps_layout;

typedef struct rf_ps_segment {
    uint32_t variable, server;
    uint8_t rule;    /* of its variable */
    rf_range range;  /* elements of the variable */
    uint64_t from;   /* where the range begins in all variables laid end to end */
    uint64_t offset; /* where it begins in the server's array */
} rf_ps_segment;

typedef struct rf_ps_plan {
    rf_ps_segment *items; /* by variable, then range */
    uint32_t count, capacity;
    uint64_t *server_counts; /* [num_servers]: elements of each */
    rf_ps_layout *layouts;   /* [num_servers] */
    uint32_t num_servers;
    uint64_t total; /* elements of all variables */
} rf_ps_plan;

/* A variable of more than `max_elements` is cut into ranges of equal size (but for one element), others stay whole.
 * Segments go to servers largest first, each to the one that has least so far: no server then holds more than 4/3 of
 * the best possible maximum (Graham 1969, "longest processing time first"). In its array they are in the order of their
 * rules. `rules` has one for each variable; NULL: all are 0. */
rf_result rf_ps_plan_make(const uint64_t *variable_counts, const uint8_t *rules, uint32_t num_variables,
                          uint32_t num_servers, uint64_t max_elements, rf_ps_plan *out);
void rf_ps_plan_free(rf_ps_plan *plan);

/* Workers are told the rules of variables, of which the first `num_trained` have an optimizer, the others none. */
rf_result rf_ps_rules_check(const uint8_t *rules, size_t count, uint32_t num_trained, uint32_t num_variables);

/* Servers are told the elements of each group, eight bytes each, up to the last group that has some. */
enum { RF_PS_LAYOUT_BYTES = 8 * RF_PS_MAX_GROUPS }; /* at most */
uint32_t rf_ps_layout_write(const rf_ps_layout *layout, uint8_t bytes[RF_PS_LAYOUT_BYTES]);
/* `count` is that of all elements; `size` bytes are there, of which `num_groups` numbers are the groups. */
rf_result rf_ps_layout_read(const void *bytes, size_t size, uint64_t num_groups, uint64_t count, rf_ps_layout *out);

#endif
