/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RF_SERVER_COORDINATOR_H
#define RF_SERVER_COORDINATOR_H

#include <ringfire/parameter_server.h>

#include "base/error.h"
#include "server/variables.h"

/* The update that servers run. */
typedef struct rf_ps_optimizer {
    const void *text; /* in the form in which it travels; borrowed, as `rules` */
    size_t size;
    const uint8_t *rules; /* of the variables, see plan.h */
    uint64_t updates;     /* that it has made before */
    uint32_t num_slots;   /* whose values it has kept; 0: servers begin with new ones */
    /* Their values, of the variables that have an optimizer, end to end. */
    rf_result (*read_slot)(void *user, const rf_ps_variables *variables, uint32_t slot, float *values);
    void *user;
    void (*release)(void *user); /* called once where the coordinator was made; NULL: nothing to do */
} rf_ps_optimizer;

/* rf_coordinator_create(). Takes over the variables, even when it fails. */
rf_result rf_coordinator_open(const rf_coordinator_params *params, rf_ps_variables *variables,
                              const rf_ps_optimizer *optimizer, rf_coordinator **out);
/* The variables that rf_coordinator_open() was given. */
const rf_ps_variables *rf_coordinator_variables(const rf_coordinator *coordinator);
void *rf_coordinator_user(const rf_coordinator *coordinator);
/* All variables end to end (slot 0), or slot - 1 of the servers' optimizer for those that have one; borrowed until the
 * next call. `updates`: the largest number that a server has made. */
rf_result rf_coordinator_pull(rf_coordinator *coordinator, uint64_t slot, const float **values, uint64_t *updates);

#endif
