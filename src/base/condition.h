/* SPDX-License-Identifier: Apache-2.0 */
/* Conditions that are waited for until a time of rf_now_ns(), whatever is done to the system's date meanwhile. */
#ifndef RF_BASE_CONDITION_H
#define RF_BASE_CONDITION_H

#include <pthread.h>

#include "base/error.h"

rf_result rf_condition_init(pthread_cond_t *condition); /* freed with pthread_cond_destroy() */
/* Like pthread_cond_wait(), but returns false once `until` has come. UINT64_MAX: as good as never. */
bool rf_condition_wait(pthread_cond_t *condition, pthread_mutex_t *lock, uint64_t until);

#endif
