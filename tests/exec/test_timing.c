/* SPDX-License-Identifier: Apache-2.0 */
/* How times are taken and which kernels are measured: decisions about devices and measurements that are made up. */
#include <string.h>

#include "exec/timing.h"
#include "tests/room.h"

#define MIB (1ull << 20)

static const rf_device_caps gpu = { .memory_size = 8192 * MIB }, small_gpu = { .memory_size = 400 * MIB },
                            cpu = { .is_cpu = true, .memory_size = 8192 * MIB };

TEST(test_clock)
{
    assert_int_equal(rf_timing_clock(true), RF_CLOCK_DEVICE);
    assert_int_equal(rf_timing_clock(false), RF_CLOCK_HOST);
}

/* A kernel of so many seconds: runs double until they take a millisecond. */
static uint32_t runs_of(double seconds)
{
    uint32_t runs = 1, next;
    while ((next = rf_timing_runs(runs, runs * seconds)) != runs) {
        assert_int_equal(next, 2 * runs);
        runs = next;
    }
    return runs;
}

static uint32_t samples_of(double seconds, double wanted)
{
    uint32_t samples = 0;
    double spent = 0;
    for (; rf_timing_goes_on(samples, spent, wanted); samples++) spent += seconds;
    return samples;
}

enum { MS = 1000000 };

/* Milliseconds that a device is kept busy from `now` on, by work of `each` milliseconds. */
static uint32_t warm_up(rf_warmth *warmth, const rf_device_caps *caps, uint64_t *now, uint32_t each)
{
    const uint64_t begin = *now;
    while (rf_warmth_wanted(warmth, caps, begin, *now)) {
        *now += (uint64_t)each * MS;
        rf_warmth_add(warmth, *now, each * 1e-3);
    }
    return (uint32_t)((*now - begin) / MS);
}

TEST(test_warmth)
{
    rf_warmth w = { 0 };
    uint64_t now = 5000ull * MS;
    assert_int_equal(warm_up(&w, &cpu, &now, 10), 0);
    assert_in_range(warm_up(&w, &gpu, &now, 10), 300, 310);
    /* A series with pauses that are short needs no more, however little it computes. */
    for (uint32_t i = 0; i < 20; i++) {
        now += 90ull * MS;
        assert_int_equal(warm_up(&w, &gpu, &now, 10), 0);
        rf_warmth_add(&w, now, 1e-5);
    }
    /* After a long one what was before does not count, nor does a little work behind it. */
    now += 110ull * MS;
    assert_true(rf_warmth_wanted(&w, &gpu, now, now));
    rf_warmth_add(&w, now, 0.1);
    assert_in_range(warm_up(&w, &gpu, &now, 50), 200, 250);
    /* Work that takes longer than all of it is enough by itself. */
    rf_warmth long_work = { 0 };
    assert_int_equal(warm_up(&long_work, &gpu, &now, 2000), 2000);
    /* A driver that computes nothing is not waited for. */
    rf_warmth idle = { 0 };
    const uint64_t begin = now;
    for (; rf_warmth_wanted(&idle, &gpu, begin, now); now += MS) rf_warmth_add(&idle, now, 1e-9);
    assert_in_range((now - begin) / MS, 1000, 1010);
}

TEST(test_runs)
{
    assert_int_equal(runs_of(5), 1);
    assert_int_equal(runs_of(1e-3), 1);
    assert_int_equal(runs_of(0.6e-3), 2);
    assert_int_equal(runs_of(2e-6), 512);
    assert_int_equal(runs_of(1e-9), RF_TIMING_MOST_RUNS);
    assert_int_equal(samples_of(10, 0), 3);
    assert_int_equal(samples_of(1e-3, 0), 7);
    assert_int_equal(samples_of(0.25, 0), 4);
    assert_in_range(samples_of(1e-3, 0.2), 199, 201);
    assert_int_equal(samples_of(1e-9, 0.2), RF_TIMING_MOST_SAMPLES);
    double odd[] = { 3, 1, 2 }, even[] = { 4, 8, 1, 2 }, best, median;
    rf_timing_summarize(odd, 3, &best, &median);
    assert_true(best == 1 && median == 2);
    rf_timing_summarize(even, 4, &best, &median);
    assert_true(best == 1 && median == 3);
}

TEST(test_sets)
{
    assert_int_equal(rf_timing_sets(&gpu, 100), 1); /* would be in the cache in a step, too */
    assert_int_equal(rf_timing_sets(&gpu, 16 * MIB - 1), 1);
    assert_int_equal(rf_timing_sets(&gpu, 16 * MIB), 8);
    assert_int_equal(rf_timing_sets(&gpu, 100 * MIB), 2);
    assert_int_equal(rf_timing_sets(&gpu, 128 * MIB), 1); /* evicts itself */
    assert_int_equal(rf_timing_sets(&cpu, 12 * MIB), 6);
    assert_int_equal(rf_timing_sets(&small_gpu, 20 * MIB), 5); /* a quarter of its memory */
    assert_int_equal(rf_timing_sets(&small_gpu, 60 * MIB), 1);
}

TEST(test_overlapped_sets)
{
    static const rf_op pure = { .name = "pure" }, changing = { .name = "changing", .mutates = 1 };
    const rf_op_call call = { .op = &pure }, update = { .op = &changing };
    rf_dispatch dispatches[2] = { { 0 }, { .concurrent = true } };
    const rf_kernel_plan one = { .items = dispatches, .count = 1 }, both = { .items = dispatches, .count = 2 };
    assert_int_equal(rf_timing_overlapped_sets(&gpu, &call, &one, 1000), 8);
    assert_int_equal(rf_timing_overlapped_sets(&gpu, &call, &both, 1000), 8);
    assert_int_equal(rf_timing_overlapped_sets(&gpu, &call, &one, 100 * MIB), 2);
    assert_int_equal(rf_timing_overlapped_sets(&gpu, &call, &one, 200 * MIB), 0);
    assert_int_equal(rf_timing_overlapped_sets(&gpu, &update, &one, 1000), 0);
    const rf_kernel_plan counting = { .items = dispatches, .count = 1, .counters = 4 };
    assert_int_equal(rf_timing_overlapped_sets(&gpu, &call, &counting, 1000), 0); /* counts its own workgroups */
    dispatches[1].concurrent = false;                                             /* reads what the first one writes */
    assert_int_equal(rf_timing_overlapped_sets(&gpu, &call, &both, 1000), 0);
}

/* ---- the tuner ---- */

/* The winner that tuning finds by scores and measurements (first run, best run), as exec does it. */
static uint32_t tune(const double *scores, const double (*seconds)[2], uint32_t count, uint32_t *started,
                     uint32_t *finished)
{
    uint32_t order[8], best = UINT32_MAX;
    const uint32_t wanted = rf_tune_order(scores, count, order);
    *started = *finished = 0;
    for (uint32_t i = 0; i < wanted; i++) {
        const uint32_t k = order[i];
        if (i > 0) assert_true(scores[order[i - 1]] >= scores[k]);
        ++*started;
        if (best != UINT32_MAX && seconds[k][0] > rf_tune_limit(seconds[best][1])) continue;
        ++*finished;
        if (best == UINT32_MAX || seconds[k][1] < seconds[best][1]) best = k;
    }
    return best;
}

TEST(test_tuner)
{
    uint32_t started, finished;
    /* Predicted 1, 2, 9, 12 ms and not eligible: the fourth is not run, the third is stopped, the second wins. */
    const double scores[] = { 1, 0.5, 1.0 / 9, 1.0 / 12, 0 };
    const double seconds[][2] = { { 3e-3, 2e-3 }, { 2e-3, 1e-3 }, { 6e-3, 1e-6 }, { 1e-9, 1e-9 }, { 1e-9, 1e-9 } };
    assert_int_equal(tune(scores, seconds, 5, &started, &finished), 1);
    assert_int_equal(started, 3);
    assert_int_equal(finished, 2);
    /* A wrong prediction is corrected: what comes last by score is the fastest. */
    const double close[] = { 0.2, 1, 0.11 };
    const double measured[][2] = { { 4e-3, 4e-3 }, { 5e-3, 5e-3 }, { 8e-3, 1e-3 } };
    assert_int_equal(tune(close, measured, 3, &started, &finished), 2);
    assert_int_equal(finished, 3);
    /* Ratings by kind differ by less: all of them run, equal ones in the order of the op. */
    const double kinds[] = { 2, 6, 1, 6 };
    uint32_t order[4];
    assert_int_equal(rf_tune_order(kinds, 4, order), 4);
    assert_int_equal(order[0], 1);
    assert_int_equal(order[1], 3);
    assert_int_equal(order[3], 2);
    /* A kernel made for other devices never runs beside one made for this one, but does alone. */
    const double foreign[] = { 1e-9, 1 };
    assert_int_equal(rf_tune_order(foreign, 2, order), 1);
    assert_int_equal(order[0], 1);
    assert_int_equal(rf_tune_order(foreign, 1, order), 1);
    assert_int_equal(rf_tune_order((double[]){ 0, -1 }, 2, order), 0);
}

TESTS(timing, NULL, NULL)
