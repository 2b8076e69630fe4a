/* SPDX-License-Identifier: Apache-2.0 */
#include "replica/balance/balancing.h"

#include <string.h>

#include "base/platform.h"
#include "replica/internal.h"

rf_result rf_balancing_create(rf_strategy *s, rf_balance_mode mode)
{
    rf_balancing *b = &s->members.balancing;
    RF_TRY(rf_test_aid("RINGFIRE_TEST_MEMORY", &b->bounded, &b->bound));
    b->automatic = mode == RF_BALANCE_AUTO && s->members.num_replicas > 1;
    if (b->automatic) {
        RF_TRY(rf_balance_create(s->members.num_replicas, s->members.shares, &b->balance));
        b->examples = RF_NEW_ARRAY(uint32_t, s->members.num_replicas);
        b->seconds = RF_NEW_ARRAY(double, s->members.num_replicas);
        b->news = RF_NEW_ARRAY(rf_replica_news, s->members.num_local);
        if (!b->examples || !b->seconds || !b->news) return RF_ERROR_OUT_OF_HOST_MEMORY;
    }
    if (b->automatic || rf_env("RINGFIRE_TEST_SLOW"))
        return rf_step_timing_create(s->members.first, s->members.num_local, &b->timing);
    return RF_OK;
}

void rf_balancing_free(rf_strategy *s)
{
    rf_balancing *b = &s->members.balancing;
    rf_step_timing_destroy(&b->timing);
    rf_balance_free(&b->balance);
    rf_free(b->examples);
    rf_free(b->seconds);
    rf_free(b->news);
}

/* ---- counts ---- */

rf_result rf_balancing_split(const rf_strategy *s, uint64_t examples, uint32_t unit, uint32_t *counts)
{
    if (!s->members.balancing.automatic) {
        rf_split_units(examples, unit, s->members.shares, s->members.num_replicas, counts);
        return RF_OK;
    }
    if (rf_balance_split(&s->members.balancing.balance, examples, unit, counts)) return RF_OK;
    uint64_t most = 0;
    for (uint32_t r = 0; r < s->members.num_replicas; r++) most += counts[r];
    return RF_FAIL(RF_ERROR_OUT_OF_DEVICE_MEMORY,
                   "the memory of all %u replicas together holds %llu examples of this step, not %llu; use smaller "
                   "batches",
                   s->members.num_replicas, (unsigned long long)most, (unsigned long long)examples);
}

void rf_balancing_spread(const rf_strategy *s, uint32_t rank, uint64_t rows, uint32_t unit, uint32_t *counts)
{
    const uint32_t first = s->members.world.first[rank], count = s->members.world.first[rank + 1] - first;
    uint64_t planned = 0;
    for (uint32_t r = 0; r < count; r++) planned += counts[first + r];
    if (planned == rows) return;
    const double *shares = rf_strategy_shares(s);
    rf_split_units(rows, unit, shares ? shares + first : NULL, count, counts + first);
}

/* ---- limits ---- */

bool rf_balancing_refuse(rf_strategy *s, uint32_t index, uint32_t examples)
{
    rf_balancing *b = &s->members.balancing;
    if (!b->automatic || examples == 0) return false;
    /* A quarter less each time: the limit is found soon, and little memory is left unused. */
    b->news[index].limit = examples - (examples + 3) / 4;
    b->news[index].limited = true;
    return true;
}

/* ---- news ---- */

void rf_balancing_measured(rf_strategy *s, const uint32_t *counts, uint32_t unit)
{
    if (!s->members.balancing.automatic) return;
    s->members.balancing.unit = unit;
    memcpy(s->members.balancing.examples, counts, s->members.num_replicas * sizeof(counts[0]));
    s->members.balancing.measured = true;
}

void rf_balancing_make_news(rf_strategy *s)
{
    rf_balancing *b = &s->members.balancing;
    if (!b->automatic) return;
    double *seconds = b->seconds; /* room */
    if (b->measured)
        rf_step_timing_take(b->timing, seconds);
    else
        memset(seconds, 0, s->members.num_local * sizeof(seconds[0]));
    for (uint32_t r = 0; r < s->members.num_local; r++) b->news[r].seconds = seconds[r];
}

void rf_balancing_take_news(rf_strategy *s, const rf_replica_news *all, bool *again)
{
    rf_balancing *b = &s->members.balancing;
    *again = false;
    if (!b->automatic) return;
    for (uint32_t r = 0; r < s->members.num_replicas; r++) {
        b->seconds[r] = all[r].seconds;
        if (!all[r].limited) continue;
        rf_balance_limit(&b->balance, r, all[r].limit);
        *again = true;
    }
    if (b->measured) {
        rf_balance_observe(&b->balance, b->examples, b->unit, b->seconds);
        rf_balance_decide(&b->balance);
        b->measured = false;
    }
    memset(b->news, 0, s->members.num_local * sizeof(b->news[0]));
}

/* ---- questions ---- */

const double *rf_strategy_shares(const rf_strategy *s)
{
    return s->members.balancing.automatic ? s->members.balancing.balance.shares : s->members.shares;
}

bool rf_strategy_shares_move(const rf_strategy *s)
{
    return s->members.balancing.automatic;
}

RF_API double rf_strategy_share(const rf_strategy *strategy, uint32_t replica)
{
    if (!strategy || replica >= strategy->members.num_replicas) return 0;
    const double *shares = rf_strategy_shares(strategy);
    double total = 0;
    for (uint32_t r = 0; r < strategy->members.num_replicas; r++) total += shares ? shares[r] : 1;
    return (shares ? shares[replica] : 1) / total;
}
