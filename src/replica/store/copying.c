/* SPDX-License-Identifier: Apache-2.0 */
#include "replica/store/copying.h"

#include "base/condition.h"
#include "base/platform.h"
#include "base/profiler.h"
#include "replica/internal.h"

void rf_copying_begin(rf_copying *copying)
{
    pthread_mutex_lock(&copying->mutex);
    copying->under_way = true;
    pthread_mutex_unlock(&copying->mutex);
}

void rf_copying_end(rf_copying *copying)
{
    pthread_mutex_lock(&copying->mutex);
    copying->under_way = false;
    pthread_cond_broadcast(&copying->ended);
    pthread_mutex_unlock(&copying->mutex);
}

bool rf_strategy_is_copied(rf_strategy *s)
{
    pthread_mutex_lock(&s->store.copying.mutex);
    const bool under_way = s->store.copying.under_way;
    pthread_mutex_unlock(&s->store.copying.mutex);
    return under_way;
}

rf_result rf_strategy_await_copy(rf_strategy *s)
{
    rf_copying *at = &s->store.copying;
    if (!rf_strategy_is_copied(s)) return RF_OK;
    const uint64_t begin = rf_span_begin(), until = rf_now_ns() + 2 * RF_GPU_TIMEOUT_NS;
    pthread_mutex_lock(&at->mutex);
    while (at->under_way && rf_condition_wait(&at->ended, &at->mutex, until)) continue;
    const bool under_way = at->under_way;
    pthread_mutex_unlock(&at->mutex);
    rf_span_end(begin, "replica", "await copy");
    if (!under_way) return RF_OK;
    return RF_FAIL(RF_ERROR_TIMEOUT, "an asynchronous save has not copied the state after %llu s",
                   2 * RF_GPU_TIMEOUT_NS / 1000000000u);
}

rf_result rf_copying_init(rf_copying *copying)
{
    RF_TRY(rf_condition_init(&copying->ended));
    if (pthread_mutex_init(&copying->mutex, NULL) == 0) return RF_OK;
    pthread_cond_destroy(&copying->ended);
    return RF_FAIL(RF_ERROR_OUT_OF_HOST_MEMORY, "cannot create a lock");
}

void rf_copying_free(rf_copying *copying)
{
    pthread_cond_destroy(&copying->ended);
    pthread_mutex_destroy(&copying->mutex);
}
