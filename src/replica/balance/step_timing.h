/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long each replica of this worker computes in a step. A thread for each waits for the end of its stage A, so that
 * what the strategy's own thread does meanwhile (it reduces gradients, and waits for one replica after the other) hides
 * nothing.
 */
#ifndef RF_REPLICA_BALANCE_STEP_TIMING_H
#define RF_REPLICA_BALANCE_STEP_TIMING_H

#include "base/error.h"
#include "gpu/gpu.h"

typedef struct rf_step_timing rf_step_timing;

/* For replicas `first` ... of this worker. RINGFIRE_TEST_SLOW makes one of them slower. */
rf_result rf_step_timing_create(uint32_t first, uint32_t count, rf_step_timing **out);
/* Before the devices are closed. */
void rf_step_timing_destroy(rf_step_timing **timing);
/* Before a replica's work is submitted, and after: the work ends with `ticket`. */
void rf_step_timing_begin(rf_step_timing *timing, uint32_t index);
void rf_step_timing_submitted(rf_step_timing *timing, uint32_t index, const rf_gpu_device *device, uint64_t ticket);
/* Waits for a replica that was made slower. */
void rf_step_timing_wait_for_slow(rf_step_timing *timing);
/* Seconds from submission to end of each replica's latest step, once; 0 where there was none. Waits for them. */
void rf_step_timing_take(rf_step_timing *timing, double *seconds);

/* "2:3.5" of a variable of the environment; the replica is UINT32_MAX where it is unset. */
rf_result rf_test_aid(const char *name, uint32_t *replica, double *number);

#endif
