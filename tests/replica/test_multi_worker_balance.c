/* SPDX-License-Identifier: Apache-2.0 */
/* A global batch that is split by measured speed: steps are faster where a replica is slow, losses are the same; a
 * replica without memory for its part gets a smaller one. In one process and in several. */
#include <math.h>
#include <stdio.h>
#include <time.h>

#include "../support/clock.h"
#include "mw_model.h"
#include "tests/room.h"

#define LVP "llvmpipe"

enum { STEPS = 50, STEADY = 25 }; /* the last STEADY steps are timed, with shares that have settled */

static int compare_times(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* numbers: [0] accuracy, [1] steps per second at the end (by the first quartile: what other programs of the machine
 * take is not the question), [2] in all, [3] share of replica 1. */
static rf_result train_and_time(worker *w)
{
    const training *t = w->user;
    net n;
    GO(net_create(w, t, &n));
    double begin = 0, last = 0, times[STEADY];
    for (uint32_t i = 0; i < t->steps; i++) {
        float loss;
        GO(net_step(w, &n, i, t->batch, &loss));
        w->report->losses[i] = loss;
        w->report->steps = i + 1;
        const double now = seconds_now();
        if (i == 0) begin = now; /* compiled */
        if (i + STEADY >= t->steps) times[i + STEADY - t->steps] = now - last;
        last = now;
    }
    qsort(times, STEADY, sizeof(times[0]), compare_times);
    w->report->numbers[1] = 1 / times[STEADY / 4];
    w->report->numbers[2] = (t->steps - 1) / (last - begin);
    w->report->numbers[3] = rf_strategy_share(w->strategy, 1);
    double total = 0;
    for (uint32_t r = 0; r < rf_strategy_num_replicas_in_sync(w->strategy); r++)
        total += rf_strategy_share(w->strategy, r);
    EXPECT(fabs(total - 1) < 1e-9 && rf_strategy_share(w->strategy, 99) == 0);
    GO(rf_metric_result(n.accuracy, &w->report->numbers[0]));
    GO(rf_strategy_check_identical(w->strategy, NULL, NULL));
    return net_hash(&n, &w->report->hash);
}

/* Steps per second, balanced, in relation to the even split. Replicas compute side by side at the same speed, then one
 * is slowed down: (factor + 1) / 2 is all there is to win. */
static double try_slow(job_params job, int factor)
{
    static report even[MAX_WORKERS], balanced[MAX_WORKERS];
    const training t = {
        .cnn = true, .steps = STEPS, .batch = 128, .optimizer = { .kind = RF_OPTIMIZER_ADAM }, .tolerance = 1e-5
    };
    char slow[16];
    snprintf(slow, sizeof(slow), "1:%d", factor);
    setenv("RINGFIRE_TEST_SLOW", slow, 1);
    job.user = &t;
    run_job(&job, train_and_time, even);
    job.mirrored.balance = RF_BALANCE_AUTO;
    run_job(&job, train_and_time, balanced);
    unsetenv("RINGFIRE_TEST_SLOW");
    check_job(even, job.num_workers);
    check_job(balanced, job.num_workers);
    compare_jobs(balanced, job.num_workers, even, t.tolerance);
    const double gain = balanced[0].numbers[1] / even[0].numbers[1];
    print_message(
        "replica 1 of 2 is %d times slower: %.2f steps/s evenly split, %.2f balanced (%.2f times; from the first "
        "step on %.2f times), share %.3f\n",
        factor, even[0].numbers[1], balanced[0].numbers[1], gain, balanced[0].numbers[2] / even[0].numbers[2],
        balanced[0].numbers[3]);
    for (uint32_t r = 0; r < job.num_workers; r++) {
        assert_true(even[r].numbers[3] == 0.5);
        assert_true(balanced[r].numbers[3] < 0.5 && balanced[r].numbers[3] == balanced[0].numbers[3]);
    }
    return gain;
}

/* The best of three: other programs may slow down any one of them. */
static void check_slow(job_params job, int factor)
{
    double best = 0;
    for (int i = 0; i < 3 && best < 1.8; i++) best = fmax(best, try_slow(job, factor));
    assert_true(best >= 1.8);
}

static room_test *speed_tests;

TEST_OF(speed_tests, one_worker_3)
{
    check_slow((job_params){ .num_workers = 1, .devices = { LVP "," LVP } }, 3);
}
TEST_OF(speed_tests, one_worker_10)
{
    check_slow((job_params){ .num_workers = 1, .devices = { LVP "," LVP } }, 10);
}
TEST_OF(speed_tests, two_workers_3)
{
    check_slow((job_params){ .num_workers = 2, .devices = { LVP, LVP } }, 3);
}
TEST_OF(speed_tests, two_workers_10)
{
    check_slow((job_params){ .num_workers = 2, .devices = { LVP, LVP } }, 10);
}

/* ---- memory ---- */

/* numbers: [4 + r] examples of replica r in the last step. */
static rf_result train_counted(worker *w)
{
    const training *t = w->user;
    net n;
    GO(net_create(w, t, &n));
    for (uint32_t i = 0; i < t->steps; i++) {
        float loss;
        GO(net_step(w, &n, i, t->batch, &loss));
        w->report->losses[i] = loss;
        w->report->steps = i + 1;
    }
    const rf_element batch = { 2,
                               { { RF_F32, RF_SHAPE((int64_t)t->batch, 6, 6, 1), n.images },
                                 { RF_I32, RF_SHAPE((int64_t)t->batch), n.labels } } };
    rf_per_replica *results[2];
    GO(rf_strategy_run(w->strategy, n.step, &batch, results));
    for (uint32_t r = 0; r < rf_strategy_num_replicas_in_sync(w->strategy); r++)
        w->report->numbers[4 + r] = rf_per_replica_num_examples(results[0], r);
    return net_hash(&n, &w->report->hash);
}

static void check_memory(job_params job, uint32_t replicas)
{
    static report got[MAX_WORKERS], want[MAX_WORKERS];
    const training t = { .steps = 30, .batch = 48, .optimizer = { .kind = RF_OPTIMIZER_ADAM } };
    job.user = &t;
    run_job(&job, train_counted, want);
    check_job(want, job.num_workers);
    setenv("RINGFIRE_TEST_MEMORY", "1:5", 1);
    job.mirrored.balance = RF_BALANCE_AUTO;
    run_job(&job, train_counted, got);
    check_job(got, job.num_workers);
    job.mirrored.balance = RF_BALANCE_OFF;
    static report off[MAX_WORKERS];
    run_job(&job, train_counted, off);
    unsetenv("RINGFIRE_TEST_MEMORY");
    compare_jobs(got, job.num_workers, want, 1e-5);
    for (uint32_t w = 0; w < job.num_workers; w++) {
        double total = 0;
        for (uint32_t r = 0; r < replicas; r++) total += got[w].numbers[4 + r];
        assert_true(got[w].numbers[5] >= 1 && got[w].numbers[5] <= 5 && total == t.batch);
        assert_int_equal(off[w].result, RF_ERROR_OUT_OF_DEVICE_MEMORY);
        if (!strstr(off[w].message, "RINGFIRE_TEST_MEMORY")) fail_msg("%s", off[w].message);
    }
}

TEST(little_memory)
{
    check_memory((job_params){ .num_workers = 1, .devices = { LVP "," LVP "," LVP } }, 3);
    check_memory((job_params){ .num_workers = 2, .devices = { LVP, LVP "," LVP } }, 3);
}

/* ---- agreement ---- */

static rf_result nothing(worker *w)
{
    (void)w;
    return RF_OK;
}

TEST(wrong_aid)
{
    static report reports[MAX_WORKERS];
    setenv("RINGFIRE_TEST_SLOW", "1x3", 1);
    run_job(&(job_params){ .num_workers = 1, .devices = { LVP } }, nothing, reports);
    unsetenv("RINGFIRE_TEST_SLOW");
    assert_int_equal(reports[0].result, RF_ERROR_INVALID_ARGUMENT);
    assert_non_null(strstr(reports[0].message, "1x3"));
}

TEST_PROGRAM(multi_worker_balance)
{
    const char *part = argc > 1 ? argv[1] : "memory";
    if (argc > 2) cmocka_set_test_filter(argv[2]);
    if (strcmp(part, "speed") == 0) return room_tests_run(speed_tests, NULL, NULL);
    return room_tests_run(own_tests, NULL, NULL);
}
