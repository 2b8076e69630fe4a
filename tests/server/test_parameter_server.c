/* SPDX-License-Identifier: Apache-2.0 */
/* Parameter-server clusters on this machine: what they compute, and what happens when tasks are lost. */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "ps_cluster.h"
#include "server/link.h"
#include "tests/room.h"

static const rf_optimizer_params adam = { .kind = RF_OPTIMIZER_ADAM, .learning_rate = 0.01 };

static void check_same_training(const shared_state *got, const shared_state *want, uint32_t steps)
{
    double worst = 0;
    for (uint32_t i = 0; i < steps; i++) {
        const double off = fabs((double)got->losses[i] - (double)want->losses[i]);
        if (!(off <= 1e-5)) fail_msg("step %u: loss %.9g instead of %.9g", i, got->losses[i], want->losses[i]);
        if (off > worst) worst = off;
    }
    assert_true(fabs((double)got->final_loss - (double)want->final_loss) <= 1e-5);
    print_message("losses of %u steps within %.2g\n", steps, worst);
}

/* ---- synchronous ---- */

static void check_synchronous(const cluster_params *params)
{
    shared_state alone;
    train_alone(params, &alone);
    cluster c;
    cluster_start(&c, params);
    cluster_wait(&c);
    check_ended_well(&c);
    check_same_training(c.shared, &alone, params->steps);
    assert_int_equal(c.shared->stats.max_staleness, 0);
    assert_int_equal(c.shared->stats.workers_lost, 0);
    if (params->steps >= 20) assert_true(alone.final_loss < alone.losses[0]);
    cluster_free(&c);
}

static double worst_value(const shared_state *got, const shared_state *want)
{
    double worst = 0;
    assert_true(want->num_values > 0);
    assert_int_equal(got->num_values, want->num_values);
    for (uint32_t i = 0; i < want->num_values; i++) {
        const double off = fabs((double)got->values[i] - (double)want->values[i]);
        if (!(off <= 1e-5)) fail_msg("value %u is %.9g instead of %.9g", i, got->values[i], want->values[i]);
        if (off > worst) worst = off;
    }
    return worst;
}

/* Weights, and what no optimizer updates, as without a cluster. */
static void check_same_values(const cluster_params *params)
{
    shared_state alone;
    const uint32_t steps = params->before + params->steps + params->after;
    train_alone(params, &alone);
    cluster c;
    cluster_start(&c, params);
    cluster_wait(&c);
    check_ended_well(&c);
    for (uint32_t i = 0; i < steps; i++)
        if (!(fabs((double)c.shared->losses[i] - (double)alone.losses[i]) <= 1e-5))
            fail_msg("step %u: loss %.9g instead of %.9g", i, c.shared->losses[i], alone.losses[i]);
    print_message("%u values after %u steps within %.2g\n", alone.num_values, steps, worst_value(c.shared, &alone));
    cluster_free(&c);
}

static const rf_optimizer_params momentum = { .kind = RF_OPTIMIZER_SGD, .learning_rate = 0.05, .momentum = 0.9 };

static room_test *synchronous_tests, *loss_tests, *asynchronous_tests;

/* One worker has the whole batch: moving averages are those of one device. */
TEST_OF(synchronous_tests, moving_averages)
{
    check_same_values(&(cluster_params){ .num_workers = 1,
                                         .num_servers = 2,
                                         .synchronous = true,
                                         .steps = 20,
                                         .batch = 32,
                                         .max_shard_bytes = 400,
                                         .optimizer = momentum,
                                         .normalizes = true });
}

/* Two have shares of 17 and 16 examples, as two replicas do. */
TEST_OF(synchronous_tests, moving_averages_of_shares)
{
    check_same_values(&(cluster_params){ .num_workers = 2,
                                         .num_servers = 2,
                                         .synchronous = true,
                                         .steps = 20,
                                         .batch = 33,
                                         .max_shard_bytes = 400,
                                         .optimizer = momentum,
                                         .normalizes = true,
                                         .alone_devices = "llvmpipe,llvmpipe" });
}

/* The optimizer's groups, of parameters on several servers, and cut into ranges. */
static const rf_parameter_group groups[] = { { .names = "*bias", .no_weight_decay = true },
                                             { .names = "dense/*", .rate_factor = 0.25 } };
static const rf_optimizer_params grouped = {
    .kind = RF_OPTIMIZER_ADAMW, .learning_rate = 0.01, .weight_decay = 0.5, .groups = groups, .num_groups = 2
};

TEST_OF(synchronous_tests, parameter_groups)
{
    check_same_values(&(cluster_params){ .num_workers = 2,
                                         .num_servers = 3,
                                         .synchronous = true,
                                         .steps = 12,
                                         .batch = 33,
                                         .max_shard_bytes = 400,
                                         .optimizer = grouped });
}

/* Servers store what their optimizers keep in 8 bits; their blocks are others than those of one device, so that numbers
 * are rounded otherwise. */
TEST_OF(synchronous_tests, state_in_few_bits)
{
    const cluster_params params = {
        .num_workers = 2,
        .num_servers = 2,
        .synchronous = true,
        .steps = 25,
        .batch = 33,
        .max_shard_bytes = 400,
        .optimizer = { .kind = RF_OPTIMIZER_ADAM, .learning_rate = 0.01, .state_type = RF_OPTIMIZER_STATE_8BIT }
    };
    shared_state alone;
    cluster c;
    train_alone(&params, &alone);
    cluster_start(&c, &params);
    cluster_wait(&c);
    check_ended_well(&c);
    for (uint32_t i = 0; i < params.steps; i++) {
        const double got = (double)c.shared->losses[i], want = (double)alone.losses[i];
        if (!(fabs(got - want) <= 0.02 * want)) fail_msg("step %u: loss %.9g instead of %.9g", i, got, want);
    }
    assert_true(alone.final_loss < alone.losses[0]);
    cluster_free(&c);
}

/* A training begins on the chief alone, goes on with servers and ends on the chief: nothing of it is lost on the way.
 */
TEST_OF(synchronous_tests, moving_training)
{
    check_same_values(&(cluster_params){ .num_workers = 1,
                                         .num_servers = 2,
                                         .synchronous = true,
                                         .before = 5,
                                         .steps = 6,
                                         .after = 5,
                                         .batch = 32,
                                         .max_shard_bytes = 400,
                                         .optimizer = grouped,
                                         .normalizes = true,
                                         .drops = true });
}

/* Computes a mean over shares by hand: of changes that are 1 in each share 1 in each step, and of means over a share's
 * examples the mean over all of them. */
TEST_OF(synchronous_tests, changes_of_shares)
{
    const cluster_params params = { .num_workers = 3,
                                    .num_servers = 2,
                                    .synchronous = true,
                                    .steps = 8,
                                    .batch = 50, /* 17, 17 and 16 */
                                    .optimizer = adam,
                                    .counts = true };
    double average[NUM_INPUTS] = { 0 }, means[NUM_INPUTS];
    for (uint32_t i = 0; i < params.steps; i++) {
        input_means(&params, i, means);
        for (int k = 0; k < NUM_INPUTS; k++) average[k] = 0.9375 * average[k] + 0.0625 * means[k];
    }
    cluster c;
    cluster_start(&c, &params);
    cluster_wait(&c);
    check_ended_well(&c);
    const float *got = c.shared->values + c.shared->num_values - NUM_INPUTS;
    assert_true(got[-1] == (float)params.steps);
    for (int k = 0; k < NUM_INPUTS; k++)
        if (!(fabs((double)got[k] - average[k]) <= 1e-6)) fail_msg("mean %d is %.9g, not %.9g", k, got[k], average[k]);
    cluster_free(&c);
}

TEST_OF(synchronous_tests, synchronous)
{
    check_synchronous(&(cluster_params){ .num_workers = 3,
                                         .num_servers = 2,
                                         .synchronous = true,
                                         .steps = 25,
                                         .batch = 50, /* shares of 17, 17 and 16 */
                                         .max_shard_bytes = 400,
                                         .optimizer = adam });
}

/* With a key, encrypted; a worker of two replicas; more servers than it takes; batches smaller than the number of
 * workers; a layer with a shader of its own. */
TEST(synchronous_otherwise)
{
    char path[64];
    snprintf(path, sizeof(path), "/tmp/ringfire-test-key-%d", (int)getpid());
    unlink(path);
    assert_int_equal(rf_key_file_create(path), RF_OK);
    check_synchronous(
        &(cluster_params){ .num_workers = 3,
                           .num_servers = 3,
                           .synchronous = true,
                           .steps = 10,
                           .batch = 2,
                           .optimizer = { .kind = RF_OPTIMIZER_SGD, .learning_rate = 0.05, .momentum = 0.9 },
                           .swishes = true,
                           .drops = true,
                           .key_file = path,
                           .worker_devices = "llvmpipe,llvmpipe" });
    unlink(path);
}

/* The worker limits what it pushes, by far: an optimizer that clips does the same. */
TEST_OF(synchronous_tests, clipping_worker)
{
    check_synchronous(&(cluster_params){ .num_workers = 1,
                                         .num_servers = 2,
                                         .synchronous = true,
                                         .steps = 60,
                                         .batch = 32,
                                         .optimizer = { .kind = RF_OPTIMIZER_SGD, .learning_rate = 15 },
                                         .worker_clip_norm = 0.02 });
}

/* Shares of 17, 17 and 16 examples draw the numbers of one device with 50. */
TEST_OF(synchronous_tests, synchronous_random)
{
    check_synchronous(&(cluster_params){ .num_workers = 3,
                                         .num_servers = 2,
                                         .synchronous = true,
                                         .steps = 20,
                                         .batch = 50,
                                         .max_shard_bytes = 400,
                                         .optimizer = adam,
                                         .drops = true });
}

/* Batches of 16 from one dataset, two for a step: one device with those 32 examples. */
TEST_OF(synchronous_tests, synchronous_whole_data)
{
    check_synchronous(&(cluster_params){ .num_workers = 2,
                                         .num_servers = 2,
                                         .synchronous = true,
                                         .steps = 20,
                                         .batch = 32,
                                         .own_data = true,
                                         .whole_data = true,
                                         .optimizer = adam,
                                         .drops = true });
}

/* A worker dies in the middle, and may come back: the same bits as without. */
static void check_loss(const cluster_params *params, bool rejoins)
{
    uint64_t hash = 0;
    for (int k = 0; k < 2; k++) {
        cluster c;
        cluster_start(&c, params);
        if (k == 1) {
            WAIT_FOR(c.shared->progress >= 5);
            cluster_signal(&c, worker_task(1), SIGKILL);
            if (rejoins) cluster_start_task(&c, worker_task(1));
        }
        cluster_wait(&c);
        assert_string_equal(c.shared->reports[0].message, "");
        assert_int_equal(c.shared->reports[0].result, RF_OK);
        assert_int_equal(c.shared->stats.workers_lost, k);
        if (k == 0) hash = c.shared->hash;
        assert_true(c.shared->hash == hash);
        cluster_free(&c);
    }
}

TEST(synchronous_with_a_loss)
{
    check_loss(&(cluster_params){ .num_workers = 2,
                                  .num_servers = 2,
                                  .synchronous = true,
                                  .steps = 60,
                                  .batch = 32,
                                  .max_shard_bytes = 400,
                                  .optimizer = adam,
                                  .drops = true },
               false);
}

static const cluster_params with_own_data = { .num_workers = 2,
                                              .num_servers = 1,
                                              .synchronous = true,
                                              .steps = 60, /* more than a pass over a worker's part */
                                              .own_data = true,
                                              .optimizer = { .kind = RF_OPTIMIZER_ADAM, .learning_rate = 0.01 },
                                              .drops = true };

TEST_OF(loss_tests, whole_data_with_a_loss)
{
    cluster_params params = with_own_data;
    (void)state;
    params.whole_data = true;
    check_loss(&params, false);
}

/* Nobody says so, but the workers' batches are the same. */
TEST(same_data_with_a_loss)
{
    check_loss(&with_own_data, false);
}

TEST(own_data_with_a_return)
{
    cluster_params params = with_own_data;
    (void)state;
    params.sharded = true;
    check_loss(&params, true);
}

/* Its data is nowhere else, and it does not come back: no share is left out in silence. */
TEST(own_data_with_a_loss)
{
    cluster_params params = with_own_data;
    cluster c;
    (void)state;
    params.sharded = true;
    params.steps = 250;
    params.bootstrap_timeout = 2;
    cluster_start(&c, &params);
    WAIT_FOR(c.shared->progress >= 5);
    cluster_signal(&c, worker_task(1), SIGKILL);
    cluster_wait(&c);
    const task_report *chief = &c.shared->reports[0];
    assert_int_equal(chief->result, RF_ERROR_PEER_LOST);
    assert_non_null(strstr(chief->message, "worker 1 (127.0.0.1:"));
    assert_non_null(strstr(chief->message, "has data of its own for 'train'"));
    assert_non_null(strstr(chief->message, "rf_worker_function::whole_data"));
    cluster_free(&c);
}

/* ---- asynchronous ---- */

static void check_asynchronous(const cluster_params *params)
{
    cluster c;
    cluster_start(&c, params);
    cluster_wait(&c);
    check_ended_well(&c);
    const rf_coordinator_stats *stats = &c.shared->stats;
    print_message("loss %.3f to %.3f; staleness at most %llu, %.2f on average; ahead at most %llu\n",
                  c.shared->losses[0], c.shared->final_loss, (unsigned long long)stats->max_staleness,
                  stats->mean_staleness, (unsigned long long)stats->max_ahead);
    assert_int_equal(stats->pushes, params->steps);
    assert_int_equal(stats->finished, params->steps + 1);
    assert_true(c.shared->final_loss < 0.6f * c.shared->losses[0]);
    if (params->max_ahead > 0) {
        assert_true(stats->max_ahead < params->max_ahead);
        assert_true(stats->max_staleness <= (params->num_workers - 1) * (2 * params->max_ahead - 1));
    }
    cluster_free(&c);
}

TEST_OF(asynchronous_tests, asynchronous)
{
    check_asynchronous(&(cluster_params){ .num_workers = 3,
                                          .num_servers = 2,
                                          .steps = 200,
                                          .batch = 32,
                                          .max_ahead = 2,
                                          .slow_worker = 2,
                                          .max_shard_bytes = 400,
                                          .optimizer = adam });
}

TEST(asynchronous_own_data)
{
    check_asynchronous(
        &(cluster_params){ .num_workers = 2, .num_servers = 1, .steps = 200, .own_data = true, .optimizer = adam });
}

/* Changes are added as they come: none of a counter is lost, though several workers add to it at once. */
TEST_OF(asynchronous_tests, asynchronous_changes)
{
    const cluster_params params = { .num_workers = 3,
                                    .num_servers = 2,
                                    .steps = 120,
                                    .batch = 16,
                                    .max_ahead = 2,
                                    .optimizer = adam,
                                    .counts = true,
                                    .normalizes = true };
    cluster c;
    cluster_start(&c, &params);
    cluster_wait(&c);
    check_ended_well(&c);
    assert_true(c.shared->final_loss < c.shared->losses[0]);
    const float *means = c.shared->values + c.shared->num_values - NUM_INPUTS;
    assert_true(means[-1] == (float)params.steps);
    for (int k = 0; k < NUM_INPUTS; k++) /* of numbers in [0, 1), one of which is larger by 1 in a quarter of them */
        if (!(means[k] > 0.3f && means[k] < 1.2f)) fail_msg("mean %d is %.9g", k, means[k]);
    cluster_free(&c);
}

/* ---- workers that come and go ---- */

static rf_result train_in_two_halves(cluster *c, rf_coordinator *coordinator, rf_model *model)
{
    for (int half = 0; half < 2; half++) {
        for (uint32_t i = 0; i < c->params.steps; i++)
            GO(rf_coordinator_schedule(coordinator, "train", (uint64_t)i * c->params.batch, c->params.batch, NULL));
        GO(rf_coordinator_join(coordinator));
        c->shared->progress = (uint32_t)half + 1;
        rf_coordinator_stats stats = { 0 };
        while (half == 0 && stats.num_workers < c->params.num_workers) {
            pause_seconds(0.01);
            rf_coordinator_get_stats(coordinator, &stats);
        }
    }
    return finish_training(c, coordinator, model);
}

TEST_OF(loss_tests, lost_worker_rejoins)
{
    const cluster_params params = { .num_workers = 3,
                                    .num_servers = 2,
                                    .steps = 150,
                                    .batch = 16,
                                    .max_ahead = 3,
                                    .optimizer = adam,
                                    .chief = train_in_two_halves };
    cluster c;
    cluster_start(&c, &params);
    WAIT_FOR(c.shared->batches >= 40);
    cluster_signal(&c, worker_task(1), SIGKILL);
    WAIT_FOR(c.shared->progress == 1 || c.shared->reports[0].ended);
    cluster_start_task(&c, worker_task(1));
    cluster_wait(&c);
    check_ended_well(&c);
    assert_int_equal(c.shared->stats.workers_lost, 1);
    assert_int_equal(c.shared->stats.workers_rejoined, 1);
    assert_int_equal(c.shared->stats.num_workers, 3);
    assert_int_equal(c.shared->stats.finished, 2 * params.steps + 1);
    cluster_free(&c);
}

/* One that is stopped is lost when its time is up, and learns of it when it goes on. */
TEST(silent_worker)
{
    const cluster_params params = {
        .num_workers = 2, .num_servers = 1, .steps = 250, .batch = 16, .optimizer = adam, .peer_timeout = 1
    };
    cluster c;
    cluster_start(&c, &params);
    WAIT_FOR(c.shared->batches >= 20);
    cluster_signal(&c, worker_task(0), SIGSTOP);
    WAIT_FOR(c.shared->reports[0].ended);
    cluster_signal(&c, worker_task(0), SIGCONT);
    cluster_wait(&c);
    assert_string_equal(c.shared->reports[0].message, "");
    assert_int_equal(c.shared->stats.workers_lost, 1);
    assert_int_equal(c.shared->reports[worker_task(0)].result, RF_ERROR_PEER_LOST);
    assert_int_equal(c.shared->reports[worker_task(1)].result, RF_OK);
    cluster_free(&c);
}

/* ---- lost servers and chiefs ---- */

static rf_result train_for_ever(cluster *c, rf_coordinator *coordinator, rf_model *model)
{
    (void)model;
    for (;;) {
        for (uint32_t i = 0; i < 20; i++)
            GO(rf_coordinator_schedule(coordinator, "train", (uint64_t)i * c->params.batch, c->params.batch, NULL));
        GO(rf_coordinator_join(coordinator));
    }
}

static void check_names(const cluster *c, uint32_t task, const char *name, double since, double limit)
{
    const task_report *r = &c->shared->reports[task];
    print_message("task %u after %.2f s: %s\n", task, r->ended_at - since, r->message);
    assert_int_equal(r->result, RF_ERROR_PEER_LOST);
    if (!strstr(r->message, name)) fail_msg("task %u does not name %s: %s", task, name, r->message);
    if (r->ended_at - since > limit) fail_msg("task %u took %.2f s", task, r->ended_at - since);
}

static void check_lost_server(bool is_synchronous, int signal, double limit)
{
    const cluster_params params = { .num_workers = 3,
                                    .num_servers = 2,
                                    .synchronous = is_synchronous,
                                    .batch = 32,
                                    .max_shard_bytes = 400,
                                    .optimizer = adam,
                                    .peer_timeout = 2,
                                    .chief = train_for_ever };
    cluster c;
    cluster_start(&c, &params);
    WAIT_FOR(c.shared->batches >= 60);
    char name[64];
    snprintf(name, sizeof(name), "ps 1 (127.0.0.1:%u)", c.ports[server_task(&c, 1)]);
    const double since = seconds_now();
    cluster_signal(&c, server_task(&c, 1), signal);
    WAIT_FOR(c.shared->reports[0].ended);
    if (signal == SIGSTOP) cluster_signal(&c, server_task(&c, 1), SIGKILL);
    cluster_wait(&c);
    for (uint32_t task = 0; task < server_task(&c, 1); task++) check_names(&c, task, name, since, limit);
    cluster_free(&c);
}

TEST_OF(loss_tests, lost_server)
{
    check_lost_server(false, SIGKILL, 3);
}
TEST(lost_server_synchronous)
{
    check_lost_server(true, SIGKILL, 3);
}
TEST(silent_server)
{
    check_lost_server(false, SIGSTOP, 5);
}

TEST(lost_chief)
{
    const cluster_params params = {
        .num_workers = 2, .num_servers = 1, .batch = 16, .optimizer = adam, .chief = train_for_ever
    };
    cluster c;
    cluster_start(&c, &params);
    WAIT_FOR(c.shared->batches >= 20);
    char name[64];
    snprintf(name, sizeof(name), "chief 0 (127.0.0.1:%u)", c.ports[0]);
    const double since = seconds_now();
    cluster_signal(&c, 0, SIGKILL);
    cluster_wait(&c);
    for (uint32_t task = 1; task < 4; task++) check_names(&c, task, name, since, 3);
    cluster_free(&c);
}

/* ---- mistakes ---- */

/* The failure comes once; then work goes on as if nothing had happened. */
static rf_result train_with_a_failure(cluster *c, rf_coordinator *coordinator, rf_model *model)
{
    rf_result r = RF_OK;
    for (uint32_t i = 0; i < 10 && r == RF_OK; i++)
        r = rf_coordinator_schedule(coordinator, "train", (uint64_t)i * 32, 32, NULL);
    if (r == RF_OK) r = rf_coordinator_join(coordinator);
    const bool known = c->params.failing_code < 0; /* a code that means nothing is a mistake of the function */
    if (r != (known ? c->params.failing_code : RF_ERROR_INVALID_ARGUMENT)) return RF_ERROR_INTERNAL;
    if (!strstr(rf_error_message(), "function 'train'")) return RF_ERROR_INTERNAL;
    if (!strstr(rf_error_message(), known ? "returned RF_ERROR_IO" : "returned 7")) return RF_ERROR_INTERNAL;
    GO(rf_coordinator_join(coordinator));
    GO(rf_coordinator_schedule(coordinator, "dance", 0, 32, NULL));
    if (rf_coordinator_join(coordinator) != RF_ERROR_NOT_FOUND) return RF_ERROR_INTERNAL;
    if (!strstr(rf_error_message(), "'dance'")) return RF_ERROR_INTERNAL;
    c->shared->go = 1;
    for (uint32_t i = 0; i < c->params.steps; i++)
        GO(rf_coordinator_schedule(coordinator, "train", 1024 + (uint64_t)i * 32, 32, NULL));
    return finish_training(c, coordinator, model);
}

static void check_failing_function(bool is_synchronous)
{
    const cluster_params params = { .num_workers = 2,
                                    .num_servers = 2,
                                    .synchronous = is_synchronous,
                                    .steps = 20,
                                    .failing_first = is_synchronous ? 80 : 96, /* the second share of a step */
                                    .failing_code = is_synchronous ? (rf_result)7 : RF_ERROR_IO,
                                    .optimizer = adam,
                                    .chief = train_with_a_failure };
    cluster c;
    cluster_start(&c, &params);
    cluster_wait(&c);
    check_ended_well(&c);
    assert_int_equal(c.shared->go, 1);
    cluster_free(&c);
}

TEST(failing_function)
{
    check_failing_function(false);
}
TEST(failing_function_synchronous)
{
    check_failing_function(true);
}

/* Servers that are not told of what steps assign: the chief hears which variable that is, and what to do. */
static rf_result train_what_assigns(cluster *c, rf_coordinator *coordinator, rf_model *model)
{
    (void)model;
    const char *variable = c->params.normalizes ? "'batch_normalization/moving_mean'" : "'counter'";
    rf_result r = rf_coordinator_schedule(coordinator, "train", 0, 32, NULL);
    if (r == RF_OK) r = rf_coordinator_join(coordinator);
    if (r != RF_ERROR_UNSUPPORTED) return RF_ERROR_INTERNAL;
    if (!strstr(rf_error_message(), variable)) return RF_ERROR_INTERNAL;
    if (!strstr(rf_error_message(), "state_variables")) return RF_ERROR_INTERNAL;
    c->shared->go = 1;
    return RF_OK;
}

static void check_assigned_variable(bool normalizes)
{
    const cluster_params params = { .num_workers = 1,
                                    .num_servers = 1,
                                    .counts = !normalizes,
                                    .normalizes = normalizes,
                                    .hides = true,
                                    .optimizer = adam,
                                    .chief = train_what_assigns };
    cluster c;
    cluster_start(&c, &params);
    cluster_wait(&c);
    check_ended_well(&c);
    assert_int_equal(c.shared->go, 1);
    cluster_free(&c);
}

TEST_OF(asynchronous_tests, assigned_variable)
{
    check_assigned_variable(false);
}
TEST_OF(asynchronous_tests, batch_normalization)
{
    check_assigned_variable(true);
}

static void check_different_worker(const cluster_params *params)
{
    cluster c;
    cluster_start(&c, params);
    cluster_wait(&c);
    assert_string_equal(c.shared->reports[0].message, "");
    assert_int_equal(c.shared->reports[worker_task(0)].result, RF_OK);
    const task_report *other = &c.shared->reports[worker_task(1)];
    assert_int_equal(other->result, RF_ERROR_INVALID_ARGUMENT);
    assert_non_null(strstr(other->message, "worker 1 (127.0.0.1:"));
    assert_non_null(strstr(other->message, "differ in name or shape"));
    cluster_free(&c);
}

TEST(different_model)
{
    check_different_worker(&(cluster_params){
        .num_workers = 2, .num_servers = 1, .steps = 30, .batch = 16, .optimizer = adam, .different_worker = 2 });
}

/* The one that joins last is refused. */
TEST(different_clipping)
{
    cluster c;
    cluster_start(&c, &(cluster_params){ .num_workers = 2,
                                         .num_servers = 1,
                                         .steps = 30,
                                         .batch = 16,
                                         .optimizer = adam,
                                         .worker_clip_norm = 0.5,
                                         .clipping_worker = 2 });
    cluster_wait(&c);
    assert_string_equal(c.shared->reports[0].message, "");
    const uint32_t refused = c.shared->reports[worker_task(0)].result < 0 ? 0 : 1;
    assert_int_equal(c.shared->reports[worker_task(1 - refused)].result, RF_OK);
    const task_report *other = &c.shared->reports[worker_task(refused)];
    assert_int_equal(other->result, RF_ERROR_INVALID_ARGUMENT);
    assert_non_null(strstr(other->message, refused == 1 ? "to a norm of 0.25, but" : "to a norm of 0.5, but"));
    cluster_free(&c);
}

/* A worker that does not list what steps assign is not one of this training. */
TEST(different_state)
{
    check_different_worker(&(cluster_params){ .num_workers = 2,
                                              .num_servers = 1,
                                              .steps = 30,
                                              .batch = 16,
                                              .optimizer = adam,
                                              .normalizes = true,
                                              .hiding_worker = 2 });
}

/* ---- strangers ---- */

static const char *no_variable(void *user, const char *name)
{
    (void)user;
    (void)name;
    return NULL;
}

/* Belongs to the job as far as the handshake goes, and then says what it should not. */
static void misbehave(const cluster *c, uint32_t task, const char *role, uint32_t rank, uint32_t round)
{
    const rf_comm_params comm = { .insecure = true, .bootstrap_timeout = 5, .peer_timeout = 5 };
    char config[CLUSTER_CONFIG];
    rf_cluster tasks;
    rf_job job;
    cluster_config(c, task, config);
    assert_int_equal(rf_cluster_parse(config, strlen(config), &tasks), RF_OK);
    assert_int_equal(rf_cluster_job(&comm, no_variable, NULL, &tasks, &job), RF_OK);
    rf_cluster_free(&tasks);
    job.rank = rank;
    rf_hello hello;
    assert_int_equal(rf_ps_hello(&job, role, &hello), RF_OK);
    rf_channel *channel;
    if (rf_channel_connect(&job, "127.0.0.1", c->ports[task], &hello, 5000000000u, &channel) < 0) return;
    uint8_t bytes[600];
    for (uint32_t i = 0; i < sizeof(bytes); i++) bytes[i] = (uint8_t)(i % 8 ? 0 : i * round);
    const uint16_t type = (uint16_t)(round % 21);
    (void)rf_channel_send(channel, type, &(rf_bytes){ bytes, (round * 37) % sizeof(bytes) }, 1, 1000000000u);
    rf_channel_destroy(&channel);
}

TEST_OF(asynchronous_tests, strangers)
{
    const cluster_params params = { .num_workers = 2, .num_servers = 2, .steps = 200, .batch = 16, .optimizer = adam };
    cluster c;
    cluster_start(&c, &params);
    WAIT_FOR(c.shared->batches >= 10);
    for (uint32_t round = 1; round < 22; round++) {
        misbehave(&c, server_task(&c, 0), "client", round % 3, round);
        misbehave(&c, server_task(&c, 1), "worker", 1, round);
        misbehave(&c, server_task(&c, 1), "chief", 0, round);
        misbehave(&c, 0, "client", 1, round);
        misbehave(&c, 0, "worker", 4, round); /* the rank of a server */
    }
    cluster_wait(&c);
    check_ended_well(&c);
    assert_int_equal(c.shared->stats.workers_lost, 0);
    assert_int_equal(c.shared->stats.pushes, params.steps);
    cluster_free(&c);
}

TEST_PROGRAM(parameter_server)
{
    const char *part = argc > 1 ? argv[1] : "full";
    if (strcmp(part, "synchronous") == 0) return room_tests_run(synchronous_tests, NULL, NULL);
    if (strcmp(part, "asynchronous") == 0) return room_tests_run(asynchronous_tests, NULL, NULL);
    if (strcmp(part, "losses") == 0) return room_tests_run(loss_tests, NULL, NULL);
    return room_tests_run(own_tests, NULL, NULL);
}
