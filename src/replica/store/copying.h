/* SPDX-License-Identifier: Apache-2.0 */
/* The wait for a copy of the state that is being made (../strategy.c). */
#ifndef RF_REPLICA_STORE_COPYING_H
#define RF_REPLICA_STORE_COPYING_H

#include <pthread.h>

#include "replica/strategy.h"

/* An rf_state_copy that reads trainable variables and optimizer slots; there is one at a time. */
typedef struct rf_copying {
    pthread_mutex_t mutex;
    pthread_cond_t ended;
    bool under_way;
} rf_copying;

rf_result rf_copying_init(rf_copying *copying);
void rf_copying_free(rf_copying *copying);
/* Whether trainable variables and slots must not change yet. */
bool rf_strategy_is_copied(rf_strategy *strategy);
/* Waits until they may change. Called before every update that is submitted. */
rf_result rf_strategy_await_copy(rf_strategy *strategy);

#endif
