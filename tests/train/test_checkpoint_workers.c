/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints of jobs of several processes: exact on as many, and from any number to any other. */
#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "../replica/mw_model.h"
#include "tests/room.h"
#include "train/checkpoint/checkpoint.h"

enum { BATCH = 24, STOP = 7, TOTAL = 12 };

/* Steps `from` to `to`, after a restore where from > 0; then a save where `save` is set. */
typedef struct part {
    char path[128];
    uint32_t from, to;
    bool save, async, bad_path;
} part;

static rf_result check_failure(worker *w, rf_checkpoint *c)
{
    EXPECT_FAILS(rf_checkpoint_save(c, "/nonexistent/x.rfck", NULL), RF_ERROR_IO, "/nonexistent",
                 w->rank > 0 ? "rank 0: " : "");
    EXPECT_FAILS(rf_checkpoint_restore(c, "/nonexistent/x.rfck", NULL), RF_ERROR_NOT_FOUND, "/nonexistent",
                 w->rank > 0 ? "rank 0: " : "");
    return RF_OK;
}

static rf_result train_part(worker *w)
{
    const part *p = w->user;
    const training t = { .batch = BATCH, .optimizer = { .kind = RF_OPTIMIZER_ADAM, .accumulation_steps = 2 } };
    net n;
    rf_checkpoint *c;
    if (p->from > 0) rf_strategy_set_seed(w->strategy, 1234); /* the checkpoint's is used */
    GO(net_create(w, &t, &n));
    GO(rf_checkpoint_create(w->strategy, &c));
    GO(rf_checkpoint_add_model(c, "model", n.model));
    GO(rf_checkpoint_add_optimizer(c, "optimizer", n.optimizer));
    GO(rf_checkpoint_add_metric(c, "accuracy", n.accuracy));
    GO(rf_checkpoint_add_function(c, "step", n.step));
    if (p->bad_path) GO(check_failure(w, c));
    /* Only the chief sees the file: the others need no shared directory. */
    if (p->from > 0) GO(rf_checkpoint_restore(c, w->rank == 0 ? p->path : "elsewhere", NULL));
    for (uint32_t i = p->from; i < p->to; i++) {
        float loss;
        GO(net_step(w, &n, i, BATCH, &loss));
        w->report->losses[i - p->from] = loss;
        w->report->steps = i + 1 - p->from;
    }
    if (p->save)
        GO(rf_checkpoint_save(c, w->rank == 0 ? p->path : "elsewhere", &(rf_save_params){ .async = p->async }));
    GO(rf_checkpoint_wait(c));
    GO(rf_strategy_check_identical(w->strategy, NULL, NULL));
    GO(rf_metric_result(n.accuracy, &w->report->numbers[0]));
    GO(net_hash(&n, &w->report->hash));
    rf_checkpoint_destroy(&c);
    return RF_OK;
}

static void run_part(job_params job, const part *p, report reports[MAX_WORKERS])
{
    job.user = p;
    run_job(&job, train_part, reports);
    check_job(reports, job.num_workers);
}

/* Trained by `a` to the stop, from there by `b`; compared with `a` alone. */
static void move(job_params a, job_params b, double tolerance, bool async)
{
    static report whole[MAX_WORKERS], before[MAX_WORKERS], after[MAX_WORKERS];
    part p = { .to = TOTAL };
    snprintf(p.path, sizeof(p.path), "/tmp/ringfire-test-%d.rfck", (int)getpid());
    run_part(a, &p, whole);
    p = (part){ .to = STOP, .save = true, .async = async, .bad_path = true };
    snprintf(p.path, sizeof(p.path), "/tmp/ringfire-test-%d.rfck", (int)getpid());
    run_part(a, &p, before);
    p.save = p.bad_path = false;
    p.from = STOP;
    p.to = TOTAL;
    run_part(b, &p, after);
    unlink(p.path);
    for (uint32_t i = 0; i < TOTAL - STOP; i++) {
        const double got = after[0].losses[i], want = whole[0].losses[STOP + i];
        if (!(fabs(got - want) <= tolerance * fabs(want))) fail_msg("step %u: %.9g, not %.9g", STOP + i, got, want);
    }
    if (tolerance > 0) return;
    assert_true(after[0].hash == whole[0].hash);
    assert_true(after[0].numbers[0] == whole[0].numbers[0]);
}

static job_params two = { .num_workers = 2, .devices = { "llvmpipe", "llvmpipe" } };
static const job_params two_again = { .num_workers = 2,
                                      .devices = { "llvmpipe", "llvmpipe" },
                                      .mirrored = { .bucket_bytes = 2000 } };
static job_params three = { .num_workers = 2, .devices = { "llvmpipe,llvmpipe", "llvmpipe" } };
static const job_params one = { .num_workers = 1, .devices = { "llvmpipe" } };

static void exact(void **state)
{
    (void)state;
    move(two, two, 0, false);
}

static void from_two_to_one(void **state)
{
    (void)state;
    move(two_again, one, 1e-5, true);
}

static void from_one_to_three(void **state)
{
    (void)state;
    move(one, three, 1e-5, false);
}

/* ---- which examples ---- */

enum { EXAMPLES = 101 };

typedef struct pass_part {
    char path[128];
    uint32_t batch, most; /* batches; 0: to the end of the pass */
    bool restore, save;
} pass_part;

/* Numbers as examples, in another order in each pass; batches are spread over the workers. */
static rf_result distributed_numbers(worker *w, uint32_t batch, rf_dataset **out)
{
    static int32_t numbers[EXAMPLES];
    for (int32_t i = 0; i < EXAMPLES; i++) numbers[i] = i;
    const rf_array array = { RF_I32, RF_SHAPE(EXAMPLES), numbers };
    rf_dataset *raw, *shuffled, *batched;
    GO(rf_dataset_from_arrays(&(rf_dataset_arrays_params){ .arrays = &array, .num_arrays = 1 }, &raw));
    GO(rf_dataset_shuffle(raw, EXAMPLES, 5, RF_SHUFFLE_EACH_PASS, &shuffled));
    GO(rf_dataset_batch(shuffled, batch, RF_REMAINDER_KEEP, &batched));
    GO(rf_strategy_distribute_dataset(w->strategy, batched, NULL, out));
    rf_dataset_destroy(&raw);
    rf_dataset_destroy(&shuffled);
    rf_dataset_destroy(&batched);
    return RF_OK;
}

/* report->losses counts how often this worker saw each example. */
static rf_result see_part(worker *w)
{
    const pass_part *p = w->user;
    rf_dataset *data;
    rf_iterator *iterator = NULL;
    rf_checkpoint *c;
    GO(distributed_numbers(w, p->batch, &data));
    GO(rf_checkpoint_create(w->strategy, &c));
    GO(rf_checkpoint_add_iterator(c, "iterator", &iterator, data));
    if (p->restore)
        GO(rf_checkpoint_restore(c, p->path, NULL));
    else
        GO(rf_iterator_create(data, 3, &iterator));
    const rf_element *element;
    rf_result r = RF_OK;
    while ((p->most == 0 || w->report->steps < p->most) && (r = rf_iterator_next(iterator, &element)) == RF_OK) {
        const int32_t *numbers = element->component[0].data;
        for (int64_t i = 0; i < element->component[0].shape.dim[0]; i++) w->report->losses[numbers[i]]++;
        w->report->steps++;
    }
    GO(r < 0 ? r : RF_OK);
    if (p->save) GO(rf_checkpoint_save(c, p->path, NULL));
    rf_checkpoint_destroy(&c);
    rf_iterator_destroy(&iterator);
    rf_dataset_destroy(&data);
    return RF_OK;
}

static void count_seen(job_params job, const pass_part *p, uint32_t seen[EXAMPLES])
{
    static report reports[MAX_WORKERS];
    memset(reports, 0, sizeof(reports));
    job.user = p;
    run_job(&job, see_part, reports);
    check_job(reports, job.num_workers);
    for (uint32_t r = 0; r < job.num_workers; r++)
        for (int i = 0; i < EXAMPLES; i++) seen[i] += (uint32_t)reports[r].losses[i];
}

/* A pass that is begun by one job, continued by another and ended by a third sees every example once. */
static void every_example_once(void **state)
{
    (void)state;
    const job_params *const jobs[][3] = { { &two, &one, &three }, { &one, &three, &two }, { &three, &two, &one } };
    for (size_t k = 0; k < sizeof(jobs) / sizeof(jobs[0]); k++) {
        uint32_t seen[EXAMPLES] = { 0 }, sum = 0;
        pass_part p = { .batch = 16, .most = 2, .save = true };
        snprintf(p.path, sizeof(p.path), "/tmp/ringfire-test-%d.rfck", (int)getpid());
        count_seen(*jobs[k][0], &p, seen);
        for (int i = 0; i < EXAMPLES; i++) sum += seen[i];
        assert_int_equal(sum, 32);
        p.batch = 7;
        p.restore = true;
        count_seen(*jobs[k][1], &p, seen);
        p = (pass_part){ .batch = 10, .restore = true };
        snprintf(p.path, sizeof(p.path), "/tmp/ringfire-test-%d.rfck", (int)getpid());
        count_seen(*jobs[k][2], &p, seen);
        unlink(p.path);
        for (int i = 0; i < EXAMPLES; i++)
            if (seen[i] != 1) fail_msg("example %d was seen %u times", i, seen[i]);
    }
}

TEST_PROGRAM(checkpoint_workers)
{
    const struct CMUnitTest drivers[] = { cmocka_unit_test(from_two_to_one), cmocka_unit_test(from_one_to_three) };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_example_once),
        cmocka_unit_test(exact),
        cmocka_unit_test(from_two_to_one),
        cmocka_unit_test(from_one_to_three),
    };
    if (argc == 1 || strcmp(argv[1], "drivers") != 0) return cmocka_run_group_tests(tests, NULL, NULL);
    two.devices[1] = "SwiftShader";
    three.devices[0] = "SwiftShader,llvmpipe";
    return cmocka_run_group_tests(drivers, NULL, NULL);
}
