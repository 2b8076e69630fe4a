/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a software driver's threads are worth their while. */
#include "exec/thread_cost.h"
#include "tests/room.h"

/* The steps that thread_cost.c names, where two processors did the work of all threads: advice promises a third more
 * than what was measured at most, rather less. */
TEST(test_measured)
{
    static const struct {
        double seconds, alone;
        uint32_t threads;
        double with;
    } steps[] = {
        { 4e-6, 75, 2, 121 },    { 4e-6, 75, 8, 227 },    { 4e-6, 75, 16, 294 },
        { 184e-6, 251, 2, 271 }, { 184e-6, 251, 8, 454 }, { 184e-6, 251, 16, 671 },
    };
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        const double told = rf_threads_slowdown(9, steps[i].seconds, steps[i].threads);
        const double measured = steps[i].with / steps[i].alone;
        assert_true(told < 1.34 * measured);
        assert_true(told > 0.4 * measured);
    }
}

/* The more there is to do, the more they gain; the more dispatches it is in, the less. */
TEST(test_order)
{
    for (uint32_t threads = 2; threads <= 32; threads *= 2) {
        for (double seconds = 1e-6; seconds < 1; seconds *= 2) {
            assert_true(rf_threads_slowdown(9, 2 * seconds, threads) < rf_threads_slowdown(9, seconds, threads));
            assert_true(rf_threads_slowdown(18, seconds, threads) > rf_threads_slowdown(9, seconds, threads));
        }
        assert_true(rf_threads_slowdown(9, 1, threads) < 1);
    }
}

TEST(test_none)
{
    assert_true(rf_threads_slowdown(9, 1e-6, 0) == 1); /* there are none */
    assert_true(rf_threads_slowdown(0, 0, 8) == 1);
}

TESTS(thread_cost, NULL, NULL)
