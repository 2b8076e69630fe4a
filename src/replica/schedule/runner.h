/* SPDX-License-Identifier: Apache-2.0 */
/* Carries out schedules. */
#ifndef RF_REPLICA_SCHEDULE_RUNNER_H
#define RF_REPLICA_SCHEDULE_RUNNER_H

#include "replica/schedule/schedule.h"

/* Carries out all stages that take place in this step. After a failure nothing of it is under way between replicas, and
 * the failure sticks to the strategy. */
rf_result rf_step_schedule_carry_out(rf_step_schedule *schedule, const rf_step_schedule_run *run);
/* Whether the host waits for devices in this step, or takes part in it. */
bool rf_step_schedule_waits(const rf_step_schedule *schedule);

#endif
