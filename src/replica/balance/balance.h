/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much of the global batch each replica gets, from how fast it was. Pure: numbers in, numbers out, so that workers
 * that are given the same observations decide the same.
 *
 * A replica's speed is its examples per second of computing, smoothed. Shares proportional to speeds make all replicas
 * finish at the same time; because each new observation is taken at the share decided before, fixed costs per step are
 * evened out as well. Shares move only where that is expected to pay (hysteresis).
 */
#ifndef RF_REPLICA_BALANCE_BALANCE_H
#define RF_REPLICA_BALANCE_BALANCE_H

#include "base/error.h"
#include "base/memory.h"

typedef struct rf_balance {
    uint32_t num_replicas;
    double *speeds; /* examples per second; 0: not known yet */
    double *shares; /* of the global batch, adding up to 1 */
    double *limits; /* most examples that fit a replica's memory; INFINITY: no limit known */
    uint32_t *seen; /* observations */
    double batch;   /* examples of the latest step */
    uint32_t unit;  /* examples that stay together, of that */
    uint32_t since_change;
    rf_arena room;
} rf_balance;

/* Begins with `shares` (any scale; NULL: equal). A share of 0 stays 0. To be freed also after a failure. */
rf_result rf_balance_create(uint32_t num_replicas, const double *shares, rf_balance *out);
void rf_balance_free(rf_balance *balance);
/* One step: what each replica got, in multiples of `unit`, and how long it computed. Replicas with no examples or no
 * time are left as they were. */
void rf_balance_observe(rf_balance *balance, const uint32_t *examples, uint32_t unit, const double *seconds);
/* A replica could not get more than `examples` (out of memory): from now on it never does. */
void rf_balance_limit(rf_balance *balance, uint32_t replica, uint32_t examples);
/* Counts for one step, in proportion to the shares, in multiples of `unit` (rf_split_units()) and within the limits.
 * False where the limits hold fewer than that: the counts are then the limits. */
bool rf_balance_split(const rf_balance *balance, uint64_t examples, uint32_t unit, uint32_t *counts);
/* Moves the shares where that pays; true when they changed. */
bool rf_balance_decide(rf_balance *balance);
/* Seconds that a step of `batch` examples is expected to take with these shares. 0 while a speed is unknown. */
double rf_balance_expected(const rf_balance *balance, const double *shares);

#endif
