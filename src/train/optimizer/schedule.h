/* SPDX-License-Identifier: Apache-2.0 */
/* Learning-rate schedules: the check that optimizers make before they use one. */
#ifndef RF_TRAIN_OPTIMIZER_SCHEDULE_H
#define RF_TRAIN_OPTIMIZER_SCHEDULE_H

#include <ringfire/train.h>

/* RF_ERROR_INVALID_ARGUMENT naming the field that is wrong or has no meaning for the kind. */
rf_result rf_schedule_check(const rf_schedule *schedule);

#endif
