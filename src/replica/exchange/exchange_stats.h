/* SPDX-License-Identifier: Apache-2.0 */
/* Time and bytes that the exchange of gradients and values took. */
#ifndef RF_REPLICA_EXCHANGE_EXCHANGE_STATS_H
#define RF_REPLICA_EXCHANGE_EXCHANGE_STATS_H

#include "replica/strategy.h"

/* Around what exchanges gradients and values in a step. */
typedef struct rf_exchange_mark {
    double host_seconds, comm_seconds;
    uint64_t bytes;
} rf_exchange_mark;
rf_exchange_mark rf_exchange_mark_now(const rf_strategy *strategy);
/* Adds what was exchanged since the mark. `exposed`: seconds that no device had work meanwhile. */
void rf_exchange_count(rf_strategy *strategy, const rf_exchange_mark *mark, double exposed);

#endif
