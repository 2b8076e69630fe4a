/* SPDX-License-Identifier: Apache-2.0 */
/* Strategies over several processes: the losses of one process, variables that are the same everywhere, agreement on
 * stopping and on failures, lost workers. */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "base/error.h"
#include "mw_model.h"
#include "tests/room.h"
#include "train/optimizer/optimizer.h"

#define LVP "llvmpipe"
#define SWS "SwiftShader"

static const rf_optimizer_params adam = { .kind = RF_OPTIMIZER_ADAM };
static const rf_optimizer_params clipped = {
    .kind = RF_OPTIMIZER_SGD, .learning_rate = 0.1, .momentum = 0.9, .global_clip_norm = 0.5
};
static const rf_optimizer_params clipped_each = {
    .kind = RF_OPTIMIZER_SGD, .learning_rate = 0.1, .clip_norm = 0.2, .accumulation_steps = 2
};

/* A job's devices in one process. */
typedef struct merged {
    job_params job;
    char devices[256];
    double shares[16];
} merged;

static void merge(const job_params *job, merged *one)
{
    size_t used = 0;
    uint32_t count = 0;
    bool shared = false;
    *one = (merged){ .job = *job };
    for (uint32_t r = 0; r < job->num_workers; r++) {
        const uint32_t devices = num_devices(job->devices[r]);
        used +=
            (size_t)snprintf(one->devices + used, sizeof(one->devices) - used, "%s%s", r ? "," : "", job->devices[r]);
        for (uint32_t i = 0; i < devices; i++) one->shares[count++] = job->shares[r] ? job->shares[r][i] : 1;
        shared |= job->shares[r] != NULL;
    }
    one->job.num_workers = 1;
    one->job.devices[0] = one->devices;
    one->job.shares[0] = shared ? one->shares : NULL;
}

/* The job trains as one process with its devices does. */
static void check_quickly(job_params job, const training *t)
{
    static report got[MAX_WORKERS], want[MAX_WORKERS];
    merged one;
    job.user = t;
    run_job(&job, train_net, got);
    check_job(got, job.num_workers);
    merge(&job, &one);
    run_job(&one.job, train_net, want);
    check_job(want, 1);
    compare_jobs(got, job.num_workers, want, t->tolerance);
}

/* And as one device does. */
static void check_training(job_params job, const training *t)
{
    static report got[MAX_WORKERS], want[MAX_WORKERS];
    check_quickly(job, t);
    job.user = t;
    run_job(&job, train_net, got);
    check_job(got, job.num_workers);
    const job_params alone = { .num_workers = 1, .devices = { LVP }, .user = t };
    run_job(&alone, train_net, want);
    check_job(want, 1);
    compare_jobs(got, job.num_workers, want, t->tolerance);
}

static room_test *together_tests, *view_tests, *losses_tests, *agreement_tests, *cnns_tests;

TEST_OF(together_tests, two_workers)
{
    check_quickly((job_params){ .num_workers = 2, .devices = { LVP, SWS } },
                  &(training){ .steps = 12, .batch = 24, .optimizer = adam, .checks = true, .tolerance = 1e-5 });
}

/* Norms of numbers that are in several pieces on each worker. */
TEST_OF(together_tests, clipped_workers)
{
    check_quickly((job_params){ .num_workers = 2, .devices = { LVP, LVP }, .mirrored = { .bucket_bytes = 2000 } },
                  &(training){ .steps = 4, .batch = 8, .optimizer = clipped, .tolerance = 1e-5 });
}

/* Small buckets, so that there are several; the ranks own different numbers of shards; norms over all of them. */
TEST(uneven_workers)
{
    check_training(
        (job_params){ .num_workers = 2, .devices = { LVP, SWS "," LVP }, .mirrored = { .bucket_bytes = 2000 } },
        &(training){ .steps = 12, .batch = 25, .optimizer = clipped, .checks = true, .tolerance = 1e-5 });
}

TEST(three_workers)
{
    static const double most[] = { 5, 1 }, none[] = { 0 };
    check_training(
        (job_params){ .num_workers = 3, .devices = { LVP "," LVP, LVP, LVP }, .shares = { most, NULL, none } },
        &(training){ .steps = 12, .batch = 25, .optimizer = clipped_each, .checks = true, .tolerance = 1e-5 });
}

/* Norms of weights, of blocks that several workers own, in the middle of updates; averages of weights. */
TEST(lamb_workers)
{
    static const rf_optimizer_params lamb = { .kind = RF_OPTIMIZER_LAMB,
                                              .learning_rate = 0.01,
                                              .clip_norm = 0.2,
                                              .use_ema = true,
                                              .ema_overwrite_frequency = 2 };
    check_quickly(
        (job_params){ .num_workers = 2, .devices = { LVP, LVP "," LVP }, .mirrored = { .bucket_bytes = 40000 } },
        &(training){ .cnn = true, .steps = 3, .batch = 8, .optimizer = lamb, .checks = true });
    check_quickly((job_params){ .num_workers = 2, .devices = { LVP, LVP }, .staged = true },
                  &(training){ .steps = 6, .batch = 12, .optimizer = lamb, .checks = true, .tolerance = 1e-5 });
}

/* Matrices that several workers own a part of, kernels of convolutions among them. */
TEST(muon_workers)
{
    static const rf_muon_params rows = { .row_dimensions = 3 };
    static const rf_parameter_group all = { .names = "*", .muon = &rows };
    const rf_optimizer_params muon = {
        .kind = RF_OPTIMIZER_MUON, .learning_rate = 0.01, .clip_norm = 0.2, .groups = &all, .num_groups = 1
    };
    check_quickly(
        (job_params){ .num_workers = 2, .devices = { LVP, LVP "," LVP }, .mirrored = { .bucket_bytes = 40000 } },
        &(training){ .cnn = true, .steps = 3, .batch = 8, .optimizer = muon, .checks = true, .tolerance = 1e-4 });
    check_quickly((job_params){ .num_workers = 2, .devices = { LVP, LVP }, .staged = true },
                  &(training){ .steps = 6, .batch = 12, .optimizer = muon, .checks = true, .tolerance = 1e-5 });
}

/* One worker has the gradient that is not finite, and all of them skip the step. */
TEST(scaled_losses)
{
    static const rf_loss_scale_params scale = { .growth_steps = 3 };
    rf_optimizer_params optimizers[] = { adam,
                                         clipped,
                                         { .kind = RF_OPTIMIZER_LAMB, .learning_rate = 0.01 },
                                         { .kind = RF_OPTIMIZER_MUON, .learning_rate = 0.01 } };
    for (size_t i = 0; i < sizeof(optimizers) / sizeof(optimizers[0]); i++) {
        optimizers[i].loss_scale = &scale;
        const training t = {
            .steps = 8, .batch = 12, .optimizer = optimizers[i], .checks = true, .overflow = 4, .tolerance = 1e-5
        };
        check_quickly((job_params){ .num_workers = 2, .devices = { LVP, LVP "," LVP }, .staged = i == 1 }, &t);
    }
}

TEST(four_workers)
{
    check_training((job_params){ .num_workers = 4, .devices = { LVP, LVP, SWS, LVP } },
                   &(training){ .steps = 12, .batch = 3, .optimizer = adam, .checks = true, .tolerance = 1e-5 });
}

TEST(local_updates)
{
    check_training((job_params){ .num_workers = 2,
                                 .devices = { LVP "," LVP, LVP },
                                 .mirrored = { .update_mode = RF_UPDATE_LOCAL } },
                   &(training){ .steps = 12, .batch = 24, .optimizer = clipped, .checks = true, .tolerance = 1e-5 });
}

TEST(staged_workers)
{
    const training t = { .steps = 6, .batch = 12, .optimizer = clipped_each, .checks = true, .tolerance = 1e-5 };
    check_quickly((job_params){ .num_workers = 2, .devices = { LVP, LVP }, .staged = true }, &t);
    check_quickly((job_params){ .num_workers = 2, .devices = { LVP "," LVP, LVP }, .staged = true }, &t);
    check_quickly((job_params){ .num_workers = 2,
                                .devices = { LVP, LVP "," LVP },
                                .staged = true,
                                .mirrored = { .update_mode = RF_UPDATE_LOCAL } },
                  &t);
}

/* ---- functions that update some of the variables ---- */

typedef struct partial {
    net *n;
    rf_variable *variables[2];
} partial;

static rf_result partial_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const partial *p = user;
    static const rf_loss loss = { RF_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY, true, RF_REDUCTION_NONE };
    const rf_tensor logits = rf_model_call(t, p->n->model, in[0], RF_INFERENCE);
    out[0] = rf_compute_average_loss(t, rf_loss_call(t, &loss, in[1], logits), NULL);
    rf_optimizer_minimize(t, p->n->optimizer, out[0], (rf_variable_list){ p->variables, 2 });
    return rf_trace_status(t);
}

/* Slots are the same on all workers, wherever they live, and what is written is read back. */
static rf_result check_slots(worker *w, const net *n, const rf_variable *v)
{
    static float mine[4096], chief[4096];
    const uint64_t count = (uint64_t)rf_shape_count(rf_variable_shape(v));
    EXPECT(count <= sizeof(mine) / sizeof(mine[0]));
    rf_updater *u = rf_optimizer_updater(n->optimizer);
    for (uint32_t k = 0; k < 2; k++) {
        double sum = 0;
        GO(rf_updater_read_slot(u, k, v, mine));
        GO(rf_comm_broadcast(rf_strategy_comm(w->strategy), memcpy(chief, mine, sizeof(mine)), count, RF_F32, 0, NULL));
        EXPECT(memcmp(mine, chief, count * sizeof(float)) == 0);
        for (uint64_t i = 0; i < count; i++) sum += fabs((double)mine[i]);
        EXPECT(sum > 0);
        GO(rf_updater_write_slot(u, k, v, chief));
        GO(rf_updater_read_slot(u, k, v, mine));
        EXPECT(memcmp(mine, chief, count * sizeof(float)) == 0);
    }
    return RF_OK;
}

/* First two of the variables, with others between them; then all, which makes another plan: state moves to new owners;
 * then in turns. */
static rf_result train_partially(worker *w)
{
    const training t = { .optimizer = { .kind = RF_OPTIMIZER_ADAM, .clip_norm = 0.3, .learning_rate = 0.01 } };
    net n;
    rf_function *some;
    GO(net_create(w, &t, &n));
    const rf_variable_list all = rf_model_variables(n.model);
    partial p = { &n, { all.items[3], all.items[0] } };
    const rf_function_params params = {
        .step = partial_step, .user = &p, .num_outputs = 1, .name = "some", .training = true
    };
    GO(rf_function_create(w->strategy, &params, &some));
    rf_function *const whole = n.step;
    for (uint32_t i = 0; i < 9; i++) {
        n.step = i < 3 || i % 2 ? some : whole;
        float loss;
        GO(net_step(w, &n, i, 12, &loss));
        w->report->losses[i] = loss;
        w->report->steps = i + 1;
        GO(rf_strategy_check_identical(w->strategy, NULL, NULL));
    }
    if (w->world_size > 1) GO(check_slots(w, &n, all.items[0]));
    return net_hash(&n, &w->report->hash);
}

TEST(parts_of_the_variables)
{
    static report got[MAX_WORKERS], want[MAX_WORKERS];
    const job_params job = { .num_workers = 2, .devices = { LVP, LVP "," LVP }, .mirrored = { .bucket_bytes = 3000 } };
    run_job(&job, train_partially, got);
    check_job(got, 2);
    run_job(&(job_params){ .num_workers = 1, .devices = { LVP } }, train_partially, want);
    check_job(want, 1);
    compare_jobs(got, 2, want, 1e-5);
}

/* ---- what a worker sees ---- */

static rf_result look_around(worker *w)
{
    rf_strategy *s = w->strategy;
    const uint32_t first = w->rank == 0 ? 0 : 1, local = w->rank == 0 ? 1 : 2;
    EXPECT(rf_strategy_num_replicas_in_sync(s) == 3);
    EXPECT(rf_strategy_first_local_replica(s) == first && rf_strategy_num_local_replicas(s) == local);
    EXPECT(rf_strategy_rank(s) == w->rank && rf_strategy_world_size(s) == 2);
    EXPECT(rf_strategy_is_chief(s) == (w->rank == 0) && rf_strategy_comm(s));
    EXPECT(rf_strategy_replica_rank(s, 0) == 0 && rf_strategy_replica_rank(s, 1) == 1 &&
           rf_strategy_replica_rank(s, 2) == 1);
    EXPECT(strstr(rf_strategy_device_name(s, 0), LVP) && strstr(rf_strategy_device_name(s, 1), SWS));

    const training t = { .optimizer = adam };
    net n;
    float loss, values[4096], other[4096];
    GO(net_create(w, &t, &n));
    GO(net_step(w, &n, 0, 8, &loss));
    const rf_variable *v = rf_model_variables(n.model).items[0];
    GO(rf_variable_read_replica(v, first, values));
    EXPECT_FAILS(rf_variable_read_replica(v, w->rank == 0 ? 1 : 0, values), RF_ERROR_INVALID_ARGUMENT,
                 w->rank == 0 ? "replica 1 is on rank 1" : "replica 0 is on rank 0",
                 w->rank == 0 ? "are 0 to 0" : "are 1 to 2");
    EXPECT_FAILS(rf_variable_read_replica(v, 3, values), RF_ERROR_INVALID_ARGUMENT, "replica 3", "there are 3");
    /* Gradients lie with their owners; every worker can read them. */
    GO(rf_variable_read_gradient(v, values));
    GO(rf_comm_broadcast(rf_strategy_comm(s), memcpy(other, values, sizeof(values)), 864, RF_F32, 0, NULL));
    EXPECT(memcmp(values, other, 864 * sizeof(float)) == 0);
    double sum = 0;
    for (int i = 0; i < 864; i++) sum += fabs((double)values[i]);
    EXPECT(sum > 0);

    /* Results: 3, 3, 2 examples of 10 logits each. */
    const rf_element batch = { 2, { { RF_F32, RF_SHAPE(8, 6, 6, 1), n.images }, { RF_I32, RF_SHAPE(8), n.labels } } };
    rf_per_replica *results[2];
    GO(rf_strategy_run(s, n.step, &batch, results));
    EXPECT(rf_per_replica_num_examples(results[1], 0) == 3 && rf_per_replica_num_examples(results[1], 2) == 2);
    rf_array part, all;
    GO(rf_per_replica_local(results[1], first, &part));
    EXPECT(part.shape.dim[0] == 3);
    EXPECT_FAILS(rf_per_replica_local(results[1], 2 - 2 * w->rank, &all), RF_ERROR_INVALID_ARGUMENT, "is on rank",
                 "this worker");
    GO(rf_strategy_gather(s, results[1], &all));
    EXPECT(all.shape.dim[0] == 8 && all.shape.dim[1] == 10);
    EXPECT(memcmp((char *)all.data + (size_t)first * 3 * 40, part.data, 120) == 0);
    rf_array_free(&all);
    /* Metrics: of the whole batch, of this worker's part. */
    double accuracy, own;
    GO(rf_metric_result(n.accuracy, &accuracy));
    GO(rf_metric_local_result(n.accuracy, &own));
    double weighted = own * (w->rank == 0 ? 6 : 10) / 16;
    float total, mine = (float)weighted;
    GO(rf_comm_all_reduce(rf_strategy_comm(s), &mine, &total, 1, RF_F32, RF_COMM_SUM, NULL));
    EXPECT(fabs((double)total - accuracy) < 1e-6);
    return RF_OK;
}

TEST_OF(view_tests, workers_look_around)
{
    report reports[MAX_WORKERS];
    run_job(&(job_params){ .num_workers = 2, .devices = { LVP, SWS "," LVP } }, look_around, reports);
    check_job(reports, 2);
}

/* ---- differences ---- */

/* Trains until the check finds something. */
static rf_result train_until_caught(worker *w)
{
    const training *t = w->user;
    net n;
    GO(net_create(w, t, &n));
    for (uint32_t i = 0; i < t->steps; i++) {
        float loss;
        GO(net_step(w, &n, i, t->batch, &loss));
        w->report->steps = i + 1;
    }
    return rf_strategy_check_identical(w->strategy, NULL, NULL);
}

/* A replica whose optimizer is one unit off: this does not show where each weight is computed once ... */
TEST(odd_arithmetic_sharded)
{
    static report reports[MAX_WORKERS];
    const training t = { .steps = 20, .batch = 16, .optimizer = adam };
    run_job(&(job_params){ .num_workers = 3,
                           .devices = { LVP, LVP, LVP },
                           .user = &t,
                           .perturb = 2,
                           .mirrored = { .check_interval = 1 } },
            train_until_caught, reports);
    check_job(reports, 3);
}

/* ... and with local updates it is found and named. */
TEST_OF(losses_tests, odd_arithmetic_local)
{
    static report reports[MAX_WORKERS];
    const training t = { .steps = 20, .batch = 16, .optimizer = adam };
    run_job(&(job_params){ .num_workers = 3,
                           .devices = { LVP, LVP, LVP },
                           .user = &t,
                           .perturb = 2,
                           .mirrored = { .check_interval = 4, .update_mode = RF_UPDATE_LOCAL } },
            train_until_caught, reports);
    for (int r = 0; r < 3; r++) {
        assert_int_equal(reports[r].result, RF_ERROR_INTERNAL);
        assert_int_equal(reports[r].steps % 4, 0); /* before the fifth, ninth, ... update */
        assert_true(reports[r].steps > 0);
        if (!strstr(reports[r].message, "replica 1 (rank 1") || !strstr(reports[r].message, "variable 'dense"))
            fail_msg("%s", reports[r].message);
    }
}

static rf_result start_unequal(worker *w)
{
    const training t = { .optimizer = adam };
    net n;
    float loss;
    rf_strategy_set_seed(w->strategy, 5 + w->rank / 2);
    GO(net_create(w, &t, &n));
    rf_strategy_set_seed(w->strategy, 5); /* dropout alone would be refused before */
    return net_step(w, &n, 0, 8, &loss);
}

TEST_OF(agreement_tests, unequal_initial_values)
{
    report reports[MAX_WORKERS];
    run_job(&(job_params){ .num_workers = 3, .devices = { LVP, LVP, LVP } }, start_unequal, reports);
    for (int r = 0; r < 3; r++) {
        assert_int_equal(reports[r].result, RF_ERROR_INTERNAL);
        if (!strstr(reports[r].message, "replica 2 (rank 2")) fail_msg("%s", reports[r].message);
    }
}

static rf_result create_more(worker *w)
{
    const training t = { .optimizer = adam };
    net n;
    rf_variable *v = NULL;
    GO(net_create(w, &t, &n));
    if (w->rank == 1) GO(rf_variable_create(w->strategy, &(rf_variable_params){ .shape = RF_SHAPE(2) }, &v));
    return rf_strategy_check_identical(w->strategy, NULL, NULL);
}

static rf_result other_batch(worker *w)
{
    const training t = { .optimizer = adam };
    net n;
    float loss;
    GO(net_create(w, &t, &n));
    return net_step(w, &n, 0, 8 + w->rank, &loss);
}

static rf_result nothing(worker *w)
{
    (void)w;
    return RF_OK;
}

/* Programs that do not do the same on every worker are told so. */
TEST(different_programs)
{
    report reports[MAX_WORKERS];
    job_params job = { .num_workers = 2, .devices = { LVP, LVP } };
    run_job(&job, create_more, reports);
    for (int r = 0; r < 2; r++)
        if (reports[r].result != RF_ERROR_INVALID_ARGUMENT || !strstr(reports[r].message, "rank 1 has 5 variables"))
            fail_msg("%s", reports[r].message);
    run_job(&job, other_batch, reports);
    for (int r = 0; r < 2; r++)
        if (reports[r].result != RF_ERROR_INVALID_ARGUMENT || !strstr(reports[r].message, "9 examples"))
            fail_msg("%s", reports[r].message);
    job = (job_params){ .num_workers = 2, .devices = { LVP, SWS }, .mirrored = { .update_mode = RF_UPDATE_LOCAL } };
    run_job(&job, nothing, reports);
    for (int r = 0; r < 2; r++)
        if (reports[r].result != RF_ERROR_INVALID_ARGUMENT ||
            !strstr(reports[r].message, "replica 1 of rank 1 is " SWS))
            fail_msg("%s", reports[r].message);
}

/* ---- agreement ---- */

/* Rank 1 asks at its own time; all see it after the same step. */
static rf_result train_until_stopped(worker *w)
{
    const training *t = w->user;
    net n;
    GO(net_create(w, t, &n));
    for (uint32_t i = 0; i < t->steps && !rf_strategy_stop_agreed(w->strategy); i++) {
        float loss;
        if (w->rank == 1 && i == 5) rf_strategy_request_stop(w->strategy);
        GO(net_step(w, &n, i, t->batch, &loss));
        w->report->steps = i + 1;
    }
    return RF_OK;
}

TEST_OF(agreement_tests, stop_is_agreed)
{
    static report reports[MAX_WORKERS];
    const training t = { .steps = 50, .batch = 8, .optimizer = adam };
    run_job(&(job_params){ .num_workers = 3, .devices = { LVP, LVP, LVP }, .user = &t }, train_until_stopped, reports);
    check_job(reports, 3);
    for (uint32_t r = 0; r < 3; r++) assert_int_equal(reports[r].steps, 6);
}

static rf_result failing_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const worker *w = user;
    (void)out;
    (void)in;
    return w->rank == 1 ? rf_trace_fail(t, RF_ERROR_UNSUPPORTED, "no such thing here") : rf_trace_status(t);
}

/* A step that fails to trace on one worker runs nowhere, and training goes on. */
static rf_result survive_failure(worker *w)
{
    const training t = { .optimizer = adam };
    net n;
    float loss;
    rf_function *f;
    GO(net_create(w, &t, &n));
    GO(net_step(w, &n, 0, 8, &loss));
    GO(rf_function_create(w->strategy, &(rf_function_params){ .step = failing_step, .user = w, .name = "odd" }, &f));
    const rf_element batch = { 1, { { RF_F32, RF_SHAPE(8, 2), n.images } } };
    EXPECT_FAILS(rf_strategy_run(w->strategy, f, &batch, NULL), RF_ERROR_UNSUPPORTED, "no such thing here",
                 w->rank == 1 ? "'odd'" : "rank 1 could not");
    GO(net_step(w, &n, 1, 8, &loss));
    return rf_strategy_check_identical(w->strategy, NULL, NULL);
}

TEST_OF(agreement_tests, failures_are_shared)
{
    report reports[MAX_WORKERS];
    run_job(&(job_params){ .num_workers = 2, .devices = { LVP, LVP } }, survive_failure, reports);
    check_job(reports, 2);
}

/* ---- fit ---- */

typedef struct counter {
    worker *w;
    uint32_t batches;
} counter;

static rf_result count_batches(void *user, rf_fit_state *state, const rf_logs *logs)
{
    counter *c = user;
    (void)state;
    if (logs->count < 2) return RF_ERROR_INTERNAL;
    c->batches++;
    if (c->w->user && c->w->rank == 1 && c->batches == 5) rf_strategy_request_stop(c->w->strategy);
    return RF_OK;
}

/* Callbacks that look at batches on one worker only, a log that only the chief writes. */
static rf_result fit_net(worker *w)
{
    const training t = { .optimizer = adam };
    net n;
    GO(net_create(w, &t, &n));
    const rf_metric_kind metrics[] = { RF_METRIC_SPARSE_CATEGORICAL_ACCURACY };
    GO(rf_model_compile(
        n.model, &(rf_compile_params){ .optimizer = n.optimizer,
                                       .loss = { RF_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY, true, RF_REDUCTION_AUTO },
                                       .metrics = metrics,
                                       .num_metrics = 1 }));
    rf_array arrays[] = { { RF_F32, RF_SHAPE(60, 6, 6, 1), calloc(60 * 36, sizeof(float)) },
                          { RF_I32, RF_SHAPE(60), calloc(60, sizeof(int32_t)) } };
    for (int i = 0; i < 60; i++) {
        ((int32_t *)arrays[1].data)[i] = i % 10;
        for (int k = 0; k < 36; k++) ((float *)arrays[0].data)[i * 36 + k] = (float)((i % 10 * 7 + k * k) % 11) / 11;
    }
    rf_dataset *all, *data;
    GO(rf_dataset_from_arrays(&(rf_dataset_arrays_params){ .arrays = arrays, .num_arrays = 2 }, &all));
    GO(rf_dataset_batch(all, 16, RF_REMAINDER_KEEP, &data));
    rf_callback *callbacks[2];
    counter c = { .w = w };
    GO(rf_callback_early_stopping(&(rf_early_stopping_params){ .patience = 50 }, &callbacks[0]));
    GO(rf_callback_create(&(rf_callback_fns){ .on_batch_end = count_batches }, &c, &callbacks[1]));
    rf_history history;
    GO(rf_model_fit(n.model,
                    &(rf_fit_params){ .data = data,
                                      .validation_data = data,
                                      .epochs = 3,
                                      .callbacks = callbacks,
                                      .num_callbacks = w->rank == w->world_size - 1 ? 2 : 1 },
                    &history));
    w->report->steps = history.num_epochs;
    for (uint32_t e = 0; e < history.num_epochs; e++)
        rf_logs_get(&history.epochs[e], "val_loss", &w->report->losses[e]);
    w->report->numbers[1] = c.batches;
    rf_array predictions;
    GO(rf_model_predict(n.model, data, &predictions));
    EXPECT(predictions.shape.dim[0] == 60);
    return net_hash(&n, &w->report->hash);
}

TEST(fit_on_two_workers)
{
    static report got[MAX_WORKERS], want[MAX_WORKERS];
    run_job(&(job_params){ .num_workers = 2, .devices = { LVP, SWS } }, fit_net, got);
    check_job(got, 2);
    run_job(&(job_params){ .num_workers = 1, .devices = { LVP } }, fit_net, want);
    check_job(want, 1);
    assert_int_equal(got[0].steps, 3);
    compare_jobs(got, 2, want, 1e-5);
    assert_int_equal((int)got[1].numbers[1], 12);
    /* A stop in the second epoch: it is not in the history. */
    run_job(&(job_params){ .num_workers = 2, .devices = { LVP, LVP }, .user = "stop" }, fit_net, got);
    check_job(got, 2);
    for (int r = 0; r < 2; r++) assert_int_equal(got[r].steps, 1);
    assert_int_equal((int)got[1].numbers[1], 6);
}

/* ---- lost workers ---- */

static rf_result train_until_lost(worker *w)
{
    const training *t = w->user;
    net n;
    GO(net_create(w, t, &n));
    for (uint32_t i = 0; i < MAX_STEPS; i++) {
        float loss;
        const rf_result r = net_step(w, &n, i, t->batch, &loss);
        if (r < 0) {
            /* From here on everything says the same. */
            EXPECT_FAILS(rf_strategy_synchronize(w->strategy), RF_ERROR_PEER_LOST, "rank 1", "");
            EXPECT_FAILS(net_step(w, &n, i, t->batch, &loss), RF_ERROR_PEER_LOST, "rank 1", "");
            return r;
        }
        w->report->steps = i + 1;
        if (i == 10 && w->rank == 1) w->shared[0] = 1; /* kill me */
    }
    return RF_OK;
}

TEST_OF(losses_tests, killed_worker)
{
    static report reports[MAX_WORKERS];
    const training t = { .batch = 16, .optimizer = adam };
    run_job(&(job_params){ .num_workers = 3, .devices = { LVP, LVP, LVP }, .user = &t, .kill_rank = 2 },
            train_until_lost, reports);
    assert_int_equal(reports[1].result, RF_ERROR_CANCELLED);
    for (int r = 0; r < 3; r += 2) {
        if (reports[r].result != RF_ERROR_PEER_LOST || !strstr(reports[r].message, "rank 1"))
            fail_msg("rank %d: %s: %s", r, rf_result_name(reports[r].result), reports[r].message);
        print_message("rank %d: %s\n", r, reports[r].message);
    }
}

/* Rank 1 fails for a reason of its own, in the middle of training. */
static rf_result train_until_given_up(worker *w)
{
    const training t = { .optimizer = adam };
    net n;
    GO(net_create(w, &t, &n));
    for (uint32_t i = 0; i < 100; i++) {
        float loss;
        if (i == 5 && w->rank == 1) {
            const rf_result r = rf_strategy_fail_in_job(w->strategy, RF_FAIL(RF_ERROR_IO, "the roof is on fire"));
            return r;
        }
        GO(net_step(w, &n, i, 8, &loss));
    }
    return RF_OK;
}

TEST_OF(losses_tests, failure_of_one)
{
    report reports[MAX_WORKERS];
    run_job(&(job_params){ .num_workers = 3, .devices = { LVP, LVP, LVP } }, train_until_given_up, reports);
    assert_int_equal(reports[1].result, RF_ERROR_IO);
    for (int r = 0; r < 3; r += 2)
        if (reports[r].result != RF_ERROR_PEER_LOST || !strstr(reports[r].message, "rank 1") ||
            !strstr(reports[r].message, "the roof is on fire"))
            fail_msg("rank %d: %s: %s", r, rf_result_name(reports[r].result), reports[r].message);
}

/* A worker that cannot open its devices says so to the others. */
TEST_OF(losses_tests, missing_device)
{
    report reports[MAX_WORKERS];
    run_job(&(job_params){ .num_workers = 2, .devices = { LVP, LVP ",999" } }, nothing, reports);
    assert_true(reports[1].result < 0 && strstr(reports[1].message, "999"));
    if (reports[0].result != RF_ERROR_PEER_LOST || !strstr(reports[0].message, "999"))
        fail_msg("%s", reports[0].message);
}

/* ---- the CNN of the examples, for long (suite "soak", a test each) ---- */

static void describe(const job_params *job, char *text, size_t size)
{
    size_t used = (size_t)snprintf(text, size, "%u worker%s (", job->num_workers, job->num_workers > 1 ? "s" : "");
    for (uint32_t r = 0; r < job->num_workers && used < size; r++)
        used += (size_t)snprintf(text + used, size - used, "%s%s", r ? " | " : "", job->devices[r]);
    if (used < size) snprintf(text + used, size - used, ")");
}

/* Fifty steps as one device alone, and as one process with all of the job's devices. */
static void cnn(job_params job)
{
    static report got[MAX_WORKERS], merged_got[MAX_WORKERS], alone_got[MAX_WORKERS];
    const training t = { .cnn = true, .steps = 50, .batch = 16, .optimizer = adam, .checks = true, .tolerance = 1e-5 };
    merged one;
    char name[256];
    describe(&job, name, sizeof(name));
    print_message("%s: %u steps of the CNN, batch %u\n", name, t.steps, t.batch);
    job.user = &t;
    run_job(&job, train_net, got);
    check_job(got, job.num_workers);
    print_message("variables of all replicas the same after every step (%.0f s)\n", got[0].seconds);
    const job_params alone = { .num_workers = 1, .devices = { LVP }, .user = &t };
    run_job(&alone, train_net, alone_got);
    check_job(alone_got, 1);
    print_message("against one " LVP " alone: ");
    compare_jobs(got, job.num_workers, alone_got, t.tolerance);
    if (job.num_workers == 1) return;
    merge(&job, &one);
    run_job(&one.job, train_net, merged_got);
    check_job(merged_got, 1);
    print_message("against these devices in one process: ");
    compare_jobs(got, job.num_workers, merged_got, t.tolerance);
}

TEST_OF(cnns_tests, cnn_one)
{
    cnn((job_params){ .num_workers = 1, .devices = { SWS } });
}
TEST_OF(cnns_tests, cnn_two_llvmpipe)
{
    cnn((job_params){ .num_workers = 2, .devices = { LVP, LVP } });
}
TEST_OF(cnns_tests, cnn_two_swiftshader)
{
    cnn((job_params){ .num_workers = 2, .devices = { SWS, SWS } });
}
TEST_OF(cnns_tests, cnn_two_both)
{
    cnn((job_params){ .num_workers = 2, .devices = { LVP, SWS } });
}
TEST_OF(cnns_tests, cnn_four_llvmpipe)
{
    cnn((job_params){ .num_workers = 4, .devices = { LVP, LVP, LVP, LVP } });
}
TEST_OF(cnns_tests, cnn_four_swiftshader)
{
    cnn((job_params){ .num_workers = 4, .devices = { SWS, SWS, SWS, SWS } });
}
TEST_OF(cnns_tests, cnn_four_both)
{
    cnn((job_params){ .num_workers = 4, .devices = { LVP, SWS, LVP, SWS } });
}
TEST_OF(cnns_tests, cnn_three)
{
    cnn((job_params){ .num_workers = 3, .devices = { SWS, LVP, SWS } });
}
TEST_OF(cnns_tests, cnn_uneven)
{
    cnn((job_params){ .num_workers = 2, .devices = { LVP, SWS "," LVP }, .mirrored = { .bucket_bytes = 100000 } });
}

/* Different drivers for a thousand steps, compared after each. */
TEST_OF(cnns_tests, thousand_steps)
{
    static report reports[MAX_WORKERS];
    const training t = { .cnn = true, .steps = MAX_STEPS, .batch = 8, .optimizer = adam, .checks = true };
    run_job(&(job_params){ .num_workers = 2, .devices = { LVP, SWS }, .user = &t }, train_net, reports);
    check_job(reports, 2);
    assert_int_equal(reports[0].steps, MAX_STEPS);
    assert_true(reports[0].hash == reports[1].hash);
    assert_memory_equal(reports[0].losses, reports[1].losses, sizeof(reports[0].losses));
    const double first = reports[0].losses[0], last = reports[0].losses[MAX_STEPS - 1];
    print_message("2 workers (" LVP " | " SWS "), %u steps: variables the same after each, hash %016llx (%.0f s); loss "
                  "%.4f, at the end %.4f\n",
                  reports[0].steps, (unsigned long long)reports[0].hash, reports[0].seconds, first, last);
    assert_true(last < 0.5 * first); /* or it trains nothing */
}

TEST_PROGRAM(multi_worker)
{
    const char *part = argc > 1 ? argv[1] : "training";
    if (argc > 2) cmocka_set_test_filter(argv[2]);
    if (strcmp(part, "training") == 0) return room_tests_run(together_tests, NULL, NULL);
    if (strcmp(part, "view") == 0) return room_tests_run(view_tests, NULL, NULL);
    if (strcmp(part, "agreement") == 0) return room_tests_run(agreement_tests, NULL, NULL);
    if (strcmp(part, "losses") == 0) return room_tests_run(losses_tests, NULL, NULL);
    if (strcmp(part, "cnn") == 0) return room_tests_run(cnns_tests, NULL, NULL);
    return room_tests_run(own_tests, NULL, NULL);
}
