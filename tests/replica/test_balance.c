/* SPDX-License-Identifier: Apache-2.0 */
/* Shares that follow measured speed: a simulated job of replicas of known speeds. */
#include <math.h>
#include <stdlib.h>

#include "base/philox.h"
#include "replica/balance/balance.h"
#include "replica/strategy.h"
#include "tests/room.h"

enum { MOST = 5 };

typedef struct job {
    rf_balance balance;
    uint32_t replicas, batch;
    double speed[MOST], overhead, noise;
    rf_rng rng;
    uint32_t counts[MOST];
    uint32_t changes;
} job;

static void begin(job *j, uint32_t replicas, uint32_t batch, const double *speed)
{
    *j = (job){ .replicas = replicas, .batch = batch, .rng = { .key = 5 } };
    for (uint32_t r = 0; r < replicas; r++) j->speed[r] = speed[r];
    assert_int_equal(rf_balance_create(replicas, NULL, &j->balance), RF_OK);
}

/* Returns the step's time: the slowest replica's. */
static double step(job *j)
{
    double seconds[MOST], longest = 0;
    rf_split_batch(j->batch, j->balance.shares, j->replicas, j->counts);
    for (uint32_t r = 0; r < j->replicas; r++) {
        const double wobble = 1 + j->noise * ((double)rf_rng_below(&j->rng, 2001) / 1000 - 1);
        seconds[r] = j->counts[r] ? (j->overhead + j->counts[r] / j->speed[r]) * wobble : 0;
        longest = fmax(longest, seconds[r]);
    }
    rf_balance_observe(&j->balance, j->counts, 1, seconds);
    j->changes += rf_balance_decide(&j->balance);
    return longest;
}

static double run(job *j, int steps)
{
    double last = 0;
    for (int i = 0; i < steps; i++) last = step(j);
    double total = 0;
    for (uint32_t r = 0; r < j->replicas; r++) total += j->balance.shares[r];
    assert_true(fabs(total - 1) < 1e-9);
    return last;
}

TEST(test_slow_replica)
{
    const double factors[] = { 3, 10 };
    for (int i = 0; i < 2; i++) {
        job j;
        begin(&j, 2, 128, (double[]){ 1000, 1000 / factors[i] });
        const double even = step(&j), balanced = run(&j, 60);
        assert_true(even / balanced >= 1.8);
        assert_true(even / balanced > 0.95 * (1 + factors[i]) / 2);
        rf_balance_free(&j.balance);
    }
}

TEST(test_equal_replicas_stay)
{
    job j;
    begin(&j, 4, 256, (double[]){ 500, 500, 500, 500 });
    j.noise = 0.03;
    run(&j, 300);
    assert_int_equal(j.changes, 0);
    for (uint32_t r = 0; r < 4; r++) assert_int_equal(j.counts[r], 64);
    rf_balance_free(&j.balance);
}

TEST(test_noise_does_not_make_it_wander)
{
    job j;
    begin(&j, 3, 192, (double[]){ 900, 300, 600 });
    j.noise = 0.1;
    run(&j, 100);
    const uint32_t settled = j.changes;
    run(&j, 400);
    assert_in_range(settled, 1, 12);
    assert_in_range(j.changes - settled, 0, 12);
    assert_in_range(j.counts[0], 90, 102);
    rf_balance_free(&j.balance);
}

/* Fixed costs per step: equal times, not shares in proportion to the slope. */
TEST(test_overhead_is_evened_out)
{
    job j;
    begin(&j, 2, 128, (double[]){ 2000, 500 });
    j.overhead = 0.02;
    run(&j, 200);
    const double a = j.overhead + j.counts[0] / 2000.0, b = j.overhead + j.counts[1] / 500.0;
    assert_true(fmax(a, b) / fmin(a, b) < 1.12);
    rf_balance_free(&j.balance);
}

TEST(test_follows_a_change)
{
    job j;
    begin(&j, 2, 100, (double[]){ 1000, 1000 });
    run(&j, 50);
    assert_int_equal(j.counts[0], 50);
    j.speed[0] = 250; /* another program took most of the device */
    run(&j, 80);
    assert_in_range(j.counts[0], 17, 23);
    j.speed[0] = 1000;
    run(&j, 120);
    assert_in_range(j.counts[0], 45, 55);
    rf_balance_free(&j.balance);
}

TEST(test_limits)
{
    job j;
    begin(&j, 3, 300, (double[]){ 4000, 1000, 1000 });
    run(&j, 60);
    assert_in_range(j.counts[0], 190, 210);
    rf_balance_limit(&j.balance, 0, 120);
    run(&j, 2); /* at once, whatever the interval */
    rf_split_batch(j.batch, j.balance.shares, 3, j.counts);
    assert_int_equal(j.counts[0], 120);
    assert_int_equal(j.counts[1] + j.counts[2], 180);
    run(&j, 60);
    assert_int_equal(j.counts[0], 120);
    rf_balance_free(&j.balance);
}

TEST(test_every_replica_is_measured)
{
    job j;
    begin(&j, 2, 64, (double[]){ 10000, 10 });
    run(&j, 100);
    assert_int_equal(j.counts[1], 1);
    j.speed[1] = 10000;
    run(&j, 200);
    assert_in_range(j.counts[1], 28, 36);
    rf_balance_free(&j.balance);
}

TEST(test_batches_smaller_than_the_job)
{
    job j;
    begin(&j, 5, 3, (double[]){ 5, 4, 3, 2, 1 });
    run(&j, 100);
    uint32_t total = 0;
    for (uint32_t r = 0; r < 5; r++) total += j.counts[r];
    assert_int_equal(total, 3);
    rf_balance_free(&j.balance);
}

TEST(test_unequal_beginning)
{
    rf_balance b;
    assert_int_equal(rf_balance_create(2, (double[]){ 3, 1 }, &b), RF_OK);
    assert_true(b.shares[0] == 0.75 && b.shares[1] == 0.25);
    assert_false(rf_balance_decide(&b)); /* knows nothing yet */
    assert_true(rf_balance_expected(&b, b.shares) == 0);
    rf_balance_free(&b);
}

/* Limits hold for every split, whatever is known of speeds. */
TEST(test_split_within_limits)
{
    rf_balance b;
    uint32_t counts[3];
    assert_int_equal(rf_balance_create(3, (double[]){ 2, 1, 1 }, &b), RF_OK);
    assert_true(rf_balance_split(&b, 100, 1, counts));
    assert_int_equal(counts[0], 50);
    rf_balance_limit(&b, 0, 20);
    assert_true(rf_balance_split(&b, 100, 1, counts));
    assert_int_equal(counts[0], 20);
    assert_int_equal(counts[1], 40);
    rf_balance_limit(&b, 1, 30);
    assert_true(rf_balance_split(&b, 100, 1, counts));
    assert_int_equal(counts[1], 30);
    assert_int_equal(counts[2], 50);
    rf_balance_limit(&b, 2, 49);
    assert_false(rf_balance_split(&b, 100, 1, counts));
    assert_true(rf_balance_split(&b, 99, 1, counts));
    rf_balance_limit(&b, 0, 0);
    assert_true(rf_balance_split(&b, 79, 1, counts));
    assert_int_equal(counts[0], 0);
    rf_balance_free(&b);
    /* A share of 0 stays, and does not keep the others from moving. */
    assert_int_equal(rf_balance_create(3, (double[]){ 1, 0, 1 }, &b), RF_OK);
    for (int i = 0; i < 20; i++) {
        assert_true(rf_balance_split(&b, 60, 1, counts));
        assert_int_equal(counts[1], 0);
        rf_balance_observe(&b, counts, 1, (double[]){ counts[0] * 1e-3, 0, counts[2] * 2e-3 });
        rf_balance_decide(&b);
    }
    assert_int_equal(counts[0], 40);
    rf_balance_free(&b);
}

/* Shares in units of several examples; a slow replica keeps one of them, so that it is measured again. */
TEST(test_units)
{
    rf_balance b;
    uint32_t counts[3];
    assert_int_equal(rf_balance_create(3, NULL, &b), RF_OK);
    rf_balance_limit(&b, 0, 23); /* two units of eight */
    assert_true(rf_balance_split(&b, 100, 8, counts));
    assert_int_equal(counts[0], 16);
    assert_int_equal(counts[1] % 8, 0);
    assert_int_equal(counts[1] + counts[2], 84);
    rf_balance_limit(&b, 1, 7);
    rf_balance_limit(&b, 2, 40);
    assert_false(rf_balance_split(&b, 100, 8, counts));
    assert_true(counts[0] == 16 && counts[1] == 0 && counts[2] == 40);
    rf_balance_free(&b);
    assert_int_equal(rf_balance_create(2, NULL, &b), RF_OK);
    for (int i = 0; i < 40; i++) {
        assert_true(rf_balance_split(&b, 64, 8, counts));
        assert_true(counts[0] % 8 == 0 && counts[1] % 8 == 0);
        rf_balance_observe(&b, counts, 8, (double[]){ counts[0] * 1e-3, counts[1] * 100e-3 });
        rf_balance_decide(&b);
    }
    assert_true(counts[0] == 56 && counts[1] == 8);
    rf_balance_free(&b);
}

TESTS(balance, NULL, NULL)
