/* SPDX-License-Identifier: Apache-2.0 */
/* How values get from devices to where an exchange finds them, and back: copies, and sums in imported memory. */
#ifndef RF_REPLICA_SCHEDULE_EXCHANGE_COPIES_H
#define RF_REPLICA_SCHEDULE_EXCHANGE_COPIES_H

#include "replica/schedule/schedule.h"

rf_result rf_stage_exchange_build(rf_strategy *strategy, rf_stage_exchange *exchange);
void rf_stage_exchange_free(const rf_strategy *strategy, rf_stage_exchange *exchange);
/* Copies between two arrays of a replica; from NULL: zeros. */
rf_result rf_stage_record(const rf_strategy *strategy, const rf_step_stage *stage, uint32_t index,
                          rf_gpu_recording **out);

#endif
