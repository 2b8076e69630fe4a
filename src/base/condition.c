/* SPDX-License-Identifier: Apache-2.0 */
#include "base/condition.h"

#include <time.h>

rf_result rf_condition_init(pthread_cond_t *condition)
{
    pthread_condattr_t attributes;
    int e = pthread_condattr_init(&attributes);
    if (e == 0) {
        e = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
        if (e == 0) e = pthread_cond_init(condition, &attributes);
        pthread_condattr_destroy(&attributes);
    }
    return e == 0 ? RF_OK : RF_FAIL_NATIVE(RF_ERROR_OUT_OF_HOST_MEMORY, "errno", e, "cannot make a condition");
}

bool rf_condition_wait(pthread_cond_t *condition, pthread_mutex_t *lock, uint64_t until)
{
    /* time_t's range is enough for a wait that never ends. */
    const struct timespec t = { .tv_sec = (time_t)(until / 1000000000u), .tv_nsec = (long)(until % 1000000000u) };
    return pthread_cond_timedwait(condition, lock, &t) == 0;
}
