/* SPDX-License-Identifier: Apache-2.0 */
#include "replica/balance/balance.h"

#include <math.h>

#include "base/memory.h"
#include "base/split.h"

#define SMOOTHING 0.3  /* weight of a new observation */
#define THRESHOLD 0.05 /* expected gain in step time that is worth a change */
#define INTERVAL 8u    /* steps between changes at least */
#define WARM_UP 2u     /* observations of each replica that do not count: compilation */

rf_result rf_balance_create(uint32_t count, const double *shares, rf_balance *out)
{
    *out = (rf_balance){ .num_replicas = count, .unit = 1 };
    RF_TRY(RF_ARENA_ARRAY(&out->room, out->speeds, count));
    RF_TRY(RF_ARENA_ARRAY(&out->room, out->shares, count));
    RF_TRY(RF_ARENA_ARRAY(&out->room, out->limits, count));
    RF_TRY(RF_ARENA_ARRAY(&out->room, out->seen, count));
    double total = 0;
    for (uint32_t r = 0; r < count; r++) total += shares ? shares[r] : 1;
    for (uint32_t r = 0; r < count; r++) {
        out->shares[r] = (shares ? shares[r] : 1) / total;
        out->limits[r] = out->shares[r] > 0 ? INFINITY : 0;
    }
    return RF_OK;
}

void rf_balance_free(rf_balance *balance)
{
    rf_arena_free(&balance->room);
    *balance = (rf_balance){ 0 };
}

void rf_balance_observe(rf_balance *b, const uint32_t *examples, uint32_t unit, const double *seconds)
{
    b->batch = 0;
    b->unit = unit;
    for (uint32_t r = 0; r < b->num_replicas; r++) {
        b->batch += examples[r];
        if (examples[r] == 0 || !(seconds[r] > 0)) continue;
        if (b->seen[r]++ < WARM_UP) continue;
        const double speed = examples[r] / seconds[r];
        b->speeds[r] = b->speeds[r] > 0 ? b->speeds[r] + SMOOTHING * (speed - b->speeds[r]) : speed;
    }
    b->since_change++;
}

void rf_balance_limit(rf_balance *b, uint32_t replica, uint32_t examples)
{
    if (examples < b->limits[replica]) b->limits[replica] = examples;
}

double rf_balance_expected(const rf_balance *b, const double *shares)
{
    double longest = 0;
    for (uint32_t r = 0; r < b->num_replicas; r++) {
        if (shares[r] <= 0) continue;
        if (b->speeds[r] <= 0) return 0;
        const double seconds = shares[r] * b->batch / b->speeds[r];
        if (seconds > longest) longest = seconds;
    }
    return longest;
}

/* Whole units that a replica may get. */
static uint32_t most_units(const rf_balance *b, uint32_t replica, uint32_t unit)
{
    return (b->limits[replica] < UINT32_MAX ? (uint32_t)b->limits[replica] : UINT32_MAX) / unit;
}

/* Units beyond a limit go, one by one, to the replica that they delay least for its share (highest averages, D'Hondt's
 * method). */
static bool split_units(const rf_balance *b, uint64_t units, uint32_t unit, uint32_t *counts)
{
    const uint32_t count = b->num_replicas;
    rf_split_batch(units, b->shares, count, counts);
    uint64_t over = 0;
    for (uint32_t r = 0; r < count; r++) {
        const uint32_t most = most_units(b, r, unit);
        if (counts[r] <= most) continue;
        over += counts[r] - most;
        counts[r] = most;
    }
    for (; over > 0; over--) {
        uint32_t best = count;
        double lowest = INFINITY;
        for (uint32_t r = 0; r < count; r++) {
            if (counts[r] >= most_units(b, r, unit)) continue;
            const double cost = (counts[r] + 1.0) / b->shares[r];
            if (cost >= lowest) continue;
            best = r;
            lowest = cost;
        }
        if (best == count) return false;
        counts[best]++;
    }
    return true;
}

bool rf_balance_split(const rf_balance *b, uint64_t examples, uint32_t unit, uint32_t *counts)
{
    const bool fits = split_units(b, (examples + unit - 1) / unit, unit, counts);
    rf_units_to_examples(examples, unit, b->num_replicas, counts);
    return fits;
}

/* Every replica keeps one unit at least: a speed that is never measured can never recover. */
static double lowest_share(const rf_balance *b)
{
    return b->batch >= (double)b->num_replicas * b->unit ? b->unit / b->batch : 0;
}

/* Proportional to speed within [lowest, limit]: those beyond a bound are fixed there, the others share what is left. */
static void bounded_shares(const rf_balance *b, double *shares)
{
    const uint32_t count = b->num_replicas;
    const double lowest = lowest_share(b);
    for (uint32_t r = 0; r < count; r++) shares[r] = -1; /* free */
    for (uint32_t pass = 0; pass < 2 * count + 1; pass++) {
        double left = 1, speed = 0;
        for (uint32_t r = 0; r < count; r++) {
            if (shares[r] >= 0)
                left -= shares[r];
            else
                speed += b->speeds[r];
        }
        /* Upper limits first: what they leave over goes to the other replicas, which may then need no lower bound. */
        bool fixed = false;
        for (int lower = 0; lower < 2 && !fixed; lower++)
            for (uint32_t r = 0; r < count; r++) {
                if (shares[r] >= 0) continue;
                const double wanted = left * b->speeds[r] / speed, most = b->limits[r] / b->batch;
                if (lower ? wanted >= lowest : wanted <= most) continue;
                shares[r] = lower ? lowest : most;
                fixed = true;
            }
        if (fixed) continue;
        for (uint32_t r = 0; r < count; r++)
            if (shares[r] < 0) shares[r] = left * b->speeds[r] / speed;
        return;
    }
}

static bool all_known(const rf_balance *b)
{
    for (uint32_t r = 0; r < b->num_replicas; r++)
        if (b->speeds[r] <= 0 && b->limits[r] >= 1) return false;
    return b->batch > 0;
}

static bool beyond_a_limit(const rf_balance *b)
{
    for (uint32_t r = 0; r < b->num_replicas; r++)
        if (b->shares[r] * b->batch > b->limits[r] + 1e-9) return true;
    return false;
}

bool rf_balance_decide(rf_balance *b)
{
    if (!all_known(b)) return false;
    const bool must = beyond_a_limit(b);
    if (!must && b->since_change < INTERVAL) return false;
    double *wanted = RF_NEW_ARRAY(double, b->num_replicas);
    if (!wanted) return false; /* the present shares are as good */
    bounded_shares(b, wanted);
    double total = 0;
    bool good = true;
    for (uint32_t r = 0; r < b->num_replicas; r++) {
        good = good && wanted[r] >= 0 && isfinite(wanted[r]);
        total += wanted[r];
    }
    good = good && total > 0;
    const double now = rf_balance_expected(b, b->shares), then = good ? rf_balance_expected(b, wanted) : 0;
    const bool change = good && (must || now > then * (1 + THRESHOLD));
    for (uint32_t r = 0; change && r < b->num_replicas; r++) b->shares[r] = wanted[r] / total;
    if (change) b->since_change = 0;
    rf_free(wanted);
    return change;
}
