/* SPDX-License-Identifier: Apache-2.0 */
/* How long the exchange of gradients and values takes, and how much of that nothing else hides. */
#include "replica/exchange/exchange_stats.h"

#include "replica/internal.h"

rf_exchange_mark rf_exchange_mark_now(const rf_strategy *s)
{
    return (rf_exchange_mark){ .host_seconds = s->exchange.between->host_seconds,
                               .comm_seconds = rf_comm_seconds(s->members.world.comm),
                               .bytes = s->exchange.between->bytes };
}

void rf_exchange_count(rf_strategy *s, const rf_exchange_mark *mark, double exposed)
{
    const rf_exchange_mark now = rf_exchange_mark_now(s);
    s->exchange.stats.seconds += now.host_seconds - mark->host_seconds + now.comm_seconds - mark->comm_seconds;
    s->exchange.stats.bytes += now.bytes - mark->bytes;
    s->exchange.stats.exposed_seconds += exposed;
}

RF_API void rf_strategy_exchange_stats(const rf_strategy *strategy, rf_exchange_stats *out)
{
    if (out) *out = strategy ? strategy->exchange.stats : (rf_exchange_stats){ 0 };
}

RF_API void rf_strategy_reset_exchange_stats(rf_strategy *strategy)
{
    if (strategy) strategy->exchange.stats = (rf_exchange_stats){ 0 };
}
