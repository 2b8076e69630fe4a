/* SPDX-License-Identifier: Apache-2.0 */
/* Exchanging gradients during the backward pass gives the same bits as exchanging them after it. */
#include <stdio.h>

#include "../support/noise.h"
#include "mw_model.h"
#include "replica/update/update.h"
#include "step/function.h"
#include "tests/room.h"

#define LVP "llvmpipe"
#define SWS "SwiftShader"
enum { STEPS = 20, SIDE = 36, HIDDEN = 17, CLASSES = 10, BATCH = 48, NUM_VARIABLES = 7 };

/* ---- the plan ---- */

static void plan_follows_readiness(void **state)
{
    (void)state;
    static const rf_bucket_life lives[] = { { 30, 31 }, { 10, 11 }, { 20, 45 }, { 40, 39 }, { 10, 10 } };
    static const uint32_t order[] = { 1, 4, 2, 0, 3 };
    rf_arena room = { 0 };
    rf_overlap_plan p;
    assert_int_equal(rf_overlap_plan_make(lives, 5, &room, &p), RF_OK);
    for (uint32_t k = 0; k < 5; k++) {
        assert_int_equal(p.order[k], order[k]);
        assert_int_equal(p.part[order[k]], k);
    }
    assert_int_equal(p.gather[1], 2);
    assert_int_equal(p.gather[4], 3);
    assert_int_equal(p.gather[2], 4);
    assert_int_equal(p.gather[0], 5);
    assert_int_equal(p.gather[3], 6);
    assert_int_equal(p.num_turns, 7);

    /* A variable that is ready first and read last is written last. */
    static const rf_bucket_life late[] = { { 1, 100 }, { 2, 2 }, { 3, 3 }, { 4, 4 }, { 5, 5 } };
    assert_int_equal(rf_overlap_plan_make(late, 5, &room, &p), RF_OK);
    assert_int_equal(p.gather[0], 4);
    assert_int_equal(p.gather[1], 3);
    rf_arena_free(&room);
}

/* ---- training ---- */

/* Odd sizes; `tied` is used twice, `w` three times in a row. */
typedef struct deep {
    rf_variable *variables[NUM_VARIABLES]; /* w0, b0, tied, w, b, out, bias of that */
    rf_optimizer *optimizer;
    rf_function *step;
    bool looks_back; /* reads all variables once more at the end */
} deep;

typedef struct setup {
    uint32_t batch;
    bool looks_back;
    rf_optimizer_params optimizer;
    bool must_not; /* a case in which nothing overlaps */
    bool lose;     /* a worker is killed half-way */
} setup;

static rf_tensor layer(rf_trace *t, const deep *d, rf_tensor x, uint32_t w, uint32_t b, bool transpose)
{
    x = rf_matmul(t, x, rf_variable_tensor(t, d->variables[w]), transpose ? RF_TRANSPOSE_B : RF_TRANSPOSE_NONE);
    if (b < NUM_VARIABLES) x = rf_bias_add(t, x, rf_variable_tensor(t, d->variables[b]));
    return rf_tanh(t, x);
}

static rf_result deep_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const deep *d = user;
    rf_tensor x = layer(t, d, in[0], 0, 1, false);
    x = layer(t, d, x, 2, NUM_VARIABLES, false);
    for (int i = 0; i < 3; i++) x = layer(t, d, x, 3, 4, false);
    x = layer(t, d, x, 2, NUM_VARIABLES, true);
    x = rf_matmul(t, x, rf_variable_tensor(t, d->variables[5]), RF_TRANSPOSE_NONE);
    x = rf_bias_add(t, x, rf_variable_tensor(t, d->variables[6]));
    out[0] = rf_compute_average_loss(t, rf_sparse_categorical_crossentropy(t, in[1], x, RF_LOGITS), NULL);
    rf_optimizer_minimize(t, d->optimizer, out[0], (rf_variable_list){ d->variables, NUM_VARIABLES });
    out[1] = out[0];
    for (uint32_t i = 0; d->looks_back && i < NUM_VARIABLES; i++)
        out[1] = rf_add(t, out[1],
                        rf_reduce_sum(t, rf_square(t, rf_variable_tensor(t, d->variables[i])), NULL, 0, RF_DROP_DIMS));
    return rf_trace_status(t);
}

static rf_result create_deep(worker *w, const setup *s, deep *d)
{
    static const rf_shape shapes[NUM_VARIABLES] = { { 2, { SIDE, SIDE } },   { 1, { SIDE } },
                                                    { 2, { SIDE, HIDDEN } }, { 2, { HIDDEN, HIDDEN } },
                                                    { 1, { HIDDEN } },       { 2, { SIDE, CLASSES } },
                                                    { 1, { CLASSES } } };
    d->looks_back = s->looks_back;
    for (uint32_t i = 0; i < NUM_VARIABLES; i++)
        GO(rf_variable_create(
            w->strategy,
            &(rf_variable_params){ .shape = shapes[i], .initializer = { .kind = RF_INIT_RANDOM_NORMAL, .b = 0.3f } },
            &d->variables[i]));
    GO(rf_optimizer_create(w->strategy, &s->optimizer, &d->optimizer));
    return rf_function_create(
        w->strategy,
        &(rf_function_params){ .step = deep_step, .user = d, .num_outputs = 2, .training = true, .name = "deep" },
        &d->step);
}

static rf_result hash_deep(const deep *d, uint64_t *hash)
{
    *hash = 14695981039346656037u;
    for (uint32_t i = 0; i < NUM_VARIABLES; i++) {
        float values[SIDE * SIDE];
        GO(rf_variable_read(d->variables[i], values));
        const size_t size = (size_t)rf_shape_count(rf_variable_shape(d->variables[i])) * sizeof(float);
        for (size_t k = 0; k < size; k++) *hash = (*hash ^ ((const unsigned char *)values)[k]) * 1099511628211u;
    }
    return RF_OK;
}

static rf_result step_deep(worker *w, const setup *s, deep *d, uint32_t step)
{
    float x[BATCH * SIDE], loss, sum;
    int32_t labels[BATCH];
    const int64_t count = (int64_t)s->batch - (step % 5 == 3); /* another batch size now and then */
    noise_batch(step, (uint32_t)count, SIDE, CLASSES, x, labels);
    const rf_element element = {
        .num_components = 2, .component = { { RF_F32, RF_SHAPE(count, SIDE), x }, { RF_I32, RF_SHAPE(count), labels } }
    };
    rf_per_replica *results[2];
    GO(rf_strategy_run(w->strategy, d->step, &element, results));
    GO(rf_strategy_reduce(w->strategy, RF_REDUCE_SUM, results[0], &loss));
    GO(rf_strategy_reduce(w->strategy, RF_REDUCE_SUM, results[1], &sum));
    w->report->losses[2 * step] = loss;
    w->report->losses[2 * step + 1] = sum;
    w->report->steps = step + 1;
    return RF_OK;
}

static rf_result train(worker *w)
{
    const setup *s = w->user;
    deep d = { .step = NULL };
    GO(create_deep(w, s, &d));
    for (uint32_t step = 0; step < STEPS; step++) {
        GO(step_deep(w, s, &d, step));
        if (s->lose && step == STEPS / 2 && w->rank == 0) w->shared[0] = 1;
        GO(rf_strategy_check_identical(w->strategy, NULL, NULL));
    }
    const rf_signature *signature = d.step->signatures.items[0];
    w->report->numbers[0] = signature->overlaps;
    w->report->numbers[1] = signature->updates.items[0].num_buckets;
    rf_exchange_stats stats;
    rf_strategy_exchange_stats(w->strategy, &stats);
    EXPECT(stats.updates == STEPS && stats.bytes > 0);
    /* Devices that meet in memory of the host leave it nothing to do. */
    EXPECT((stats.seconds > 0) == (w->strategy->exchange.imported.memory == NULL));
    EXPECT(stats.exposed_seconds >= 0);
    float gradient[SIDE * SIDE];
    GO(rf_variable_read_gradient(d.variables[2], gradient));
    w->report->numbers[2] = (double)gradient[5];
    GO(hash_deep(&d, &w->report->hash));
    rf_function_destroy(&d.step);
    rf_optimizer_destroy(&d.optimizer);
    for (uint32_t i = 0; i < NUM_VARIABLES; i++) rf_variable_destroy(&d.variables[i]);
    return RF_OK;
}

static const rf_optimizer_params adam = { .kind = RF_OPTIMIZER_ADAM, .learning_rate = 0.01 };

static void compare(job_params job, const setup *s)
{
    static report during[MAX_WORKERS], after[MAX_WORKERS];
    job.user = s;
    if (job.mirrored.bucket_bytes == 0) job.mirrored.bucket_bytes = 1000;
    run_job(&job, train, during);
    check_job(during, job.num_workers);
    job.mirrored.no_overlap = true;
    run_job(&job, train, after);
    check_job(after, job.num_workers);
    for (uint32_t r = 0; r < job.num_workers; r++) {
        assert_true(during[r].numbers[0] == !s->must_not && after[r].numbers[0] == 0);
        if (!s->must_not) assert_true(during[r].numbers[1] >= 4);
        for (uint32_t i = 0; i < 2 * STEPS; i++)
            if (memcmp(&during[r].losses[i], &after[r].losses[i], sizeof(double)) != 0)
                fail_msg("rank %u, step %u: %.9g and %.9g", r, i / 2, during[r].losses[i], after[r].losses[i]);
        assert_true(during[r].numbers[2] == after[r].numbers[2]);
        assert_true(during[r].hash == after[r].hash && during[r].hash == during[0].hash);
    }
}

static void two_workers(void **state)
{
    (void)state;
    const setup s = { .batch = 24, .optimizer = adam };
    compare((job_params){ .num_workers = 2, .devices = { LVP, LVP } }, &s);
}

/* SwiftShader, which compiles every kernel anew for each run, takes part here and in the next one only. */
static void one_worker(void **state)
{
    (void)state;
    const setup s = { .batch = 25, .optimizer = adam };
    compare((job_params){ .num_workers = 1, .devices = { LVP "," SWS "," LVP } }, &s);
}

static void uneven_workers(void **state)
{
    (void)state;
    const setup s = { .batch = 25, .optimizer = adam };
    compare((job_params){ .num_workers = 2, .devices = { LVP, SWS "," LVP } }, &s);
    compare((job_params){ .num_workers = 3, .devices = { LVP, LVP, LVP }, .mirrored = { .bucket_bytes = 300 } }, &s);
}

/* Some replicas have nothing to compute, in one step a whole worker. */
static void few_examples(void **state)
{
    (void)state;
    const setup s = { .batch = 2, .optimizer = adam };
    compare((job_params){ .num_workers = 1, .devices = { LVP "," LVP "," LVP } }, &s);
    compare((job_params){ .num_workers = 2, .devices = { LVP, LVP } }, &s);
}

static void staged(void **state)
{
    (void)state;
    const setup s = { .batch = 24, .optimizer = adam };
    compare((job_params){ .num_workers = 1, .devices = { LVP "," LVP }, .staged = true }, &s);
    compare((job_params){ .num_workers = 2, .devices = { LVP, LVP "," LVP }, .staged = true }, &s);
}

static void local_updates(void **state)
{
    (void)state;
    const setup s = { .batch = 24, .optimizer = adam };
    const rf_mirrored_params local = { .update_mode = RF_UPDATE_LOCAL };
    compare((job_params){ .num_workers = 2, .devices = { LVP, LVP "," LVP }, .mirrored = local }, &s);
    compare((job_params){ .num_workers = 2, .devices = { LVP, LVP }, .mirrored = local, .staged = true }, &s);
}

/* Variables that are read after all gradients are there. */
static void looks_back(void **state)
{
    (void)state;
    const setup s = { .batch = 24, .looks_back = true, .optimizer = adam };
    compare((job_params){ .num_workers = 2, .devices = { LVP, LVP } }, &s);
    compare((job_params){ .num_workers = 1, .devices = { LVP "," LVP } }, &s);
}

/* Norms need all gradients; sums over steps are not exchanged in every step. */
static void others(void **state)
{
    (void)state;
    const job_params job = { .num_workers = 1, .devices = { LVP "," LVP } };
    compare(job, &(setup){
                     .batch = 24, .must_not = true, .optimizer = { .kind = RF_OPTIMIZER_SGD, .global_clip_norm = 1 } });
}

static void lost_worker(void **state)
{
    (void)state;
    static report got[MAX_WORKERS];
    const setup s = { .batch = 24, .optimizer = adam, .lose = true };
    const job_params job = {
        .num_workers = 2, .devices = { LVP, LVP }, .kill_rank = 2, .user = &s, .mirrored = { .bucket_bytes = 1000 }
    };
    run_job(&job, train, got);
    assert_int_equal(got[0].result, RF_ERROR_PEER_LOST);
    if (!strstr(got[0].message, "rank 1")) fail_msg("%s", got[0].message);
}

/* `quick`, or `full`: the rest. */
TEST_PROGRAM(overlap)
{
    const struct CMUnitTest quick[] = { cmocka_unit_test(plan_follows_readiness), cmocka_unit_test(two_workers) };
    const struct CMUnitTest full[] = {
        cmocka_unit_test(one_worker),   cmocka_unit_test(looks_back),  cmocka_unit_test(uneven_workers),
        cmocka_unit_test(few_examples), cmocka_unit_test(staged),      cmocka_unit_test(local_updates),
        cmocka_unit_test(others),       cmocka_unit_test(lost_worker),
    };
    const bool rest = argc > 1 && strcmp(argv[1], "full") == 0;
    return rest ? cmocka_run_group_tests(full, NULL, NULL) : cmocka_run_group_tests(quick, NULL, NULL);
}
