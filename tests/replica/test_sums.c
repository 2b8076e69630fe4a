/* SPDX-License-Identifier: Apache-2.0 */
/* Sums over replicas within a step: a network that normalises over the whole batch trains alike on any number of
 * replicas and workers, forwards and backwards, and all of them get the same bits. */
#include <math.h>
#include <stdio.h>

#include "../support/noise.h"
#include "base/philox.h"
#include "job.h"
#include "replica/internal.h"
#include "replica/store/variables.h"
#include "step/function.h"
#include "tests/room.h"

#define LVP "llvmpipe"
#define SWS "SwiftShader"
enum { STEPS = 5, IN = 19, HIDDEN = 33, CLASSES = 10, BATCH = 24, WEIGHTS = 4 };

typedef struct setup {
    rf_optimizer_params optimizer;
    bool central;     /* a central-storage strategy of the worker's own */
    bool no_training; /* the step has no optimizer */
    bool masked;      /* some classes have no part in the loss */
    bool grows;       /* a second function needs more room half-way */
} setup;

typedef struct net {
    const setup *setup;
    rf_variable *weights[WEIGHTS];
    rf_optimizer *optimizer;
    rf_function *step;
} net;

static const rf_shape shapes[WEIGHTS] = {
    { 2, { IN, HIDDEN } }, { 1, { HIDDEN } }, { 2, { HIDDEN, CLASSES } }, { 1, { CLASSES } }
};

static rf_tensor sum_rows(rf_trace *t, rf_tensor x)
{
    return rf_reduce_sum(t, x, (int32_t[]){ 0 }, 1, RF_DROP_DIMS);
}

/* Over all examples of all replicas: the second sum needs the first. */
static rf_tensor normalize(rf_trace *t, rf_tensor x)
{
    const rf_tensor n = rf_global_batch_size(t);
    const rf_tensor mean = rf_divide(t, rf_all_replica_sum(t, sum_rows(t, x)), n);
    const rf_tensor centred = rf_subtract(t, x, mean);
    const rf_tensor variance = rf_divide(t, rf_all_replica_sum(t, sum_rows(t, rf_square(t, centred))), n);
    return rf_divide(t, centred, rf_sqrt(t, rf_add(t, variance, rf_constant(t, 1e-3f))));
}

/* out[1]: rows, counted by the replicas from their losses. */
static rf_result step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const net *n = user;
    rf_tensor v[WEIGHTS];
    for (uint32_t i = 0; i < WEIGHTS; i++) v[i] = rf_variable_tensor(t, n->weights[i]);
    const rf_tensor linear = rf_bias_add(t, rf_matmul(t, in[0], v[0], RF_TRANSPOSE_NONE), v[1]);
    const rf_tensor hidden = rf_tanh(t, normalize(t, linear));
    const rf_tensor logits = rf_bias_add(t, rf_matmul(t, hidden, v[2], RF_TRANSPOSE_NONE), v[3]);
    const rf_tensor losses = rf_sparse_categorical_crossentropy(t, in[1], logits, RF_LOGITS);
    const rf_tensor ones = rf_divide(t, rf_exp(t, losses), rf_exp(t, losses));
    const rf_tensor known = rf_compare(t, RF_LESS, rf_cast(t, in[1], RF_F32), rf_constant(t, 4));
    out[0] = n->setup->masked ? rf_compute_weighted_loss(t, losses, known) : rf_compute_average_loss(t, losses, NULL);
    out[1] = rf_all_replica_sum(t, rf_reduce_sum(t, ones, NULL, 0, RF_DROP_DIMS));
    if (!n->setup->no_training)
        rf_optimizer_minimize(t, n->optimizer, out[0], (rf_variable_list){ n->weights, WEIGHTS });
    return rf_trace_status(t);
}

static rf_result create(rf_strategy *s, const setup *given, net *n)
{
    *n = (net){ .setup = given };
    for (uint32_t i = 0; i < WEIGHTS; i++)
        GO(rf_variable_create(
            s, &(rf_variable_params){ .shape = shapes[i], .initializer = { .kind = RF_INIT_RANDOM_NORMAL, .b = 0.3f } },
            &n->weights[i]));
    GO(rf_optimizer_create(s, &given->optimizer, &n->optimizer));
    return rf_function_create(
        s, &(rf_function_params){ .step = step, .user = n, .num_outputs = 2, .training = true, .name = "sums" },
        &n->step);
}

static void destroy(net *n)
{
    rf_function_destroy(&n->step);
    rf_optimizer_destroy(&n->optimizer);
    for (uint32_t i = 0; i < WEIGHTS; i++) rf_variable_destroy(&n->weights[i]);
}

static rf_result sum_wide(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    (void)user;
    float ones[257];
    for (uint32_t i = 0; i < 257; i++) ones[i] = 1;
    const rf_tensor column = rf_constant_array(t, &(rf_array){ RF_F32, RF_SHAPE(257, 1), ones });
    const rf_tensor wide = rf_multiply(t, column, sum_rows(t, in[0]));
    out[0] = rf_reduce_sum(t, rf_all_replica_sum(t, wide), NULL, 0, RF_DROP_DIMS);
    return rf_trace_status(t);
}

/* Arrays move under the first function. */
static rf_result run_wide(worker *w, rf_strategy *s)
{
    rf_function *f;
    rf_per_replica *result;
    float x[BATCH * IN], sum;
    int32_t labels[BATCH];
    noise_batch(99, BATCH, IN, CLASSES, x, labels);
    const rf_element batch = { .num_components = 1, .component = { { RF_F32, RF_SHAPE(BATCH, IN), x } } };
    GO(rf_function_create(s, &(rf_function_params){ .step = sum_wide, .num_outputs = 1 }, &f));
    GO(rf_strategy_run(s, f, &batch, &result));
    GO(rf_strategy_reduce(s, RF_REDUCE_MEAN, result, &sum));
    double expected = 0;
    for (uint32_t i = 0; i < BATCH * IN; i++) expected += x[i];
    EXPECT(fabs(sum - 257 * expected) <= 1e-4 * 257 * (1 + fabs(expected)));
    rf_function_destroy(&f);
    return RF_OK;
}

static rf_result train(worker *w, rf_strategy *s, const setup *given)
{
    net n;
    GO(create(s, given, &n));
    for (uint32_t i = 0; i < STEPS; i++) {
        float loss, rows;
        if (given->grows && i == STEPS / 2) GO(run_wide(w, s));
        GO(job_run_noise(s, n.step, i, job_rows(i, BATCH), IN, CLASSES, &loss, &rows));
        EXPECT(fabsf(rows - (float)job_rows(i, BATCH)) < 1e-4f);
        GO(rf_strategy_check_identical(s, NULL, NULL));
        w->report->losses[w->report->steps++] = loss;
    }
    float values[IN * HIDDEN];
    GO(rf_variable_read(n.weights[0], values));
    for (uint32_t i = 0; i < 60; i++) w->report->numbers[i] = values[i];
    w->report->numbers[60] = n.step->signatures.items[0]->sums.num_parts;
    for (uint32_t i = 0; i < WEIGHTS; i++) {
        GO(rf_variable_read(n.weights[i], values));
        w->report->hash = w->report->hash * 31 + rf_hash_floats(values, (uint64_t)rf_shape_count(shapes[i]));
    }
    destroy(&n);
    return RF_OK;
}

static rf_result train_here(worker *w)
{
    const setup *given = w->user;
    if (!given->central) return train(w, w->strategy, given);
    rf_strategy *s;
    const rf_central_storage_params params = { .mirrored = { .devices = LVP "," LVP } };
    GO(rf_strategy_create_central_storage(&params, &s));
    rf_strategy_set_seed(s, 7);
    const rf_result r = train(w, s, given);
    rf_strategy_destroy(&s);
    return r;
}

static report reports[MAX_WORKERS];

/* Every worker has the same bits, and the losses and weights of one replica. */
static void check(job_params job, const setup *given)
{
    static report one[MAX_WORKERS];
    static setup last; /* that `one` is of */
    job.user = given;
    run_job(&job, train_here, reports);
    check_job(reports, job.num_workers);
    const setup alone = { .optimizer = given->optimizer, .no_training = given->no_training, .masked = given->masked };
    if (one[0].steps == 0 || memcmp(&alone, &last, sizeof(last)) != 0) {
        run_job(&(job_params){ .num_workers = 1, .devices = { LVP }, .user = &alone }, train_here, one);
        check_job(one, 1);
        assert_true(one[0].numbers[60] == 0); /* nothing is cut where there is nothing to add */
        last = alone;
    }
    for (uint32_t r = 0; r < job.num_workers; r++) {
        assert_true(reports[r].hash == reports[0].hash);
        for (uint32_t i = 0; i < STEPS; i++)
            if (!(fabs(reports[r].losses[i] - one->losses[i]) <= 1e-5 * (1 + fabs(one->losses[i]))))
                fail_msg("rank %u, step %u: loss %.9g, with one replica %.9g", r, i, reports[r].losses[i],
                         one->losses[i]);
        for (uint32_t i = 0; i < 60; i++)
            if (!(fabs(reports[r].numbers[i] - one->numbers[i]) <= 2e-5))
                fail_msg("rank %u, weight %u: %.9g, with one replica %.9g", r, i, reports[r].numbers[i],
                         one->numbers[i]);
    }
}

static const setup momentum = { .optimizer = { .kind = RF_OPTIMIZER_SGD, .learning_rate = 0.05, .momentum = 0.9 } };

/* Mean, with the number of rows; variance; and what flows back through both. */
static void check_pair(const char *devices)
{
    check((job_params){ .num_workers = 1, .devices = { devices }, .mirrored = { .bucket_bytes = 512 } }, &momentum);
    assert_true(reports[0].numbers[60] == 4);
}

TEST(two_replicas)
{
    check_pair(LVP "," LVP);
}

static room_test *drivers_tests, *full_tests;

TEST_OF(drivers_tests, two_drivers)
{
    check_pair(LVP "," SWS);
}

TEST(two_workers)
{
    check((job_params){ .num_workers = 2, .devices = { LVP, LVP } }, &momentum);
}

TEST_OF(full_tests, uneven_workers)
{
    static const double none[] = { 0, 3 };
    check((job_params){ .num_workers = 2, .devices = { LVP "," LVP, LVP }, .shares = { none, NULL } }, &momentum);
}

/* Each replica has another number of examples that count, one has none at all. */
TEST_OF(full_tests, masked_losses)
{
    static const double none[] = { 0, 3 };
    const setup masked = { .optimizer = momentum.optimizer, .masked = true };
    check((job_params){ .num_workers = 1, .devices = { LVP "," LVP } }, &masked);
    check((job_params){ .num_workers = 2, .devices = { LVP "," LVP, LVP }, .shares = { none, NULL } }, &masked);
}

TEST_OF(full_tests, staged_devices)
{
    check((job_params){ .num_workers = 1, .devices = { LVP "," LVP }, .staged = true }, &momentum);
}

TEST_OF(full_tests, accumulated_gradients)
{
    const setup twice = { .optimizer = { .kind = RF_OPTIMIZER_SGD, .learning_rate = 0.1, .accumulation_steps = 2 } };
    check((job_params){ .num_workers = 1, .devices = { LVP "," LVP } }, &twice);
}

TEST_OF(full_tests, without_an_optimizer)
{
    check((job_params){ .num_workers = 2, .devices = { LVP, LVP } }, &(setup){ .no_training = true });
    assert_true(reports[0].numbers[60] == 3); /* the losses, and with them the rows, need both others */
}

TEST_OF(full_tests, central_storage)
{
    const setup central = { .optimizer = momentum.optimizer, .central = true };
    check((job_params){ .num_workers = 1, .devices = { LVP } }, &central);
}

TEST_OF(full_tests, arrays_that_move)
{
    const setup grows = { .optimizer = momentum.optimizer, .grows = true };
    check((job_params){ .num_workers = 1, .devices = { LVP "," LVP } }, &grows);
}

/* ---- what is refused ---- */

typedef enum mistake { NO_TENSOR, INTEGERS, BATCH_SHAPE, OF_GRADIENTS } mistake;

typedef struct wrong {
    mistake mistake;
    rf_variable *weight;
    rf_optimizer *optimizer;
} wrong;

static rf_result wrong_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const wrong *x = user;
    (void)out;
    rf_tensor gradient, weight = rf_variable_tensor(t, x->weight);
    switch (x->mistake) {
    case NO_TENSOR: rf_all_replica_sum(t, (rf_tensor){ 0 }); break;
    case INTEGERS: rf_all_replica_sum(t, in[1]); break;
    case BATCH_SHAPE: rf_all_replica_sum(t, in[0]); break;
    case OF_GRADIENTS:
        rf_gradients(t, rf_reduce_sum(t, rf_multiply(t, in[0], weight), NULL, 0, RF_DROP_DIMS), &weight, 1, &gradient);
        gradient = rf_all_replica_sum(t, rf_square(t, gradient));
        rf_optimizer_apply_gradients(t, x->optimizer, &gradient, (rf_variable_list){ &x->weight, 1 });
        break;
    }
    return rf_trace_status(t);
}

static rf_result make_mistakes(worker *w)
{
    static const char *const messages[][2] = {
        [NO_TENSOR] = { "rf_all_replica_sum: x", "invalid tensor" },
        [INTEGERS] = { "all_replica_sum", "cast it" },
        [BATCH_SHAPE] = { "rf_all_replica_sum", "depends on the batch" },
        [OF_GRADIENTS] = { "rf_optimizer_apply_gradients", "computed from gradients" },
    };
    wrong x = { 0 };
    GO(rf_variable_create(w->strategy, &(rf_variable_params){ .name = "weight", .shape = RF_SHAPE(1) }, &x.weight));
    GO(rf_optimizer_create(w->strategy, &momentum.optimizer, &x.optimizer));
    float data[6] = { 0 };
    int32_t integers[6] = { 0 };
    const rf_element batch = { .num_components = 2,
                               .component = { { RF_F32, RF_SHAPE(6), data }, { RF_I32, RF_SHAPE(6), integers } } };
    for (x.mistake = NO_TENSOR; x.mistake <= OF_GRADIENTS; x.mistake++) {
        rf_function *f;
        if (x.mistake == OF_GRADIENTS && rf_strategy_num_replicas_in_sync(w->strategy) == 1) continue; /* x itself */
        GO(rf_function_create(w->strategy, &(rf_function_params){ .step = wrong_step, .user = &x, .training = true },
                              &f));
        EXPECT_FAILS(rf_strategy_run(w->strategy, f, &batch, NULL),
                     x.mistake == OF_GRADIENTS ? RF_ERROR_UNSUPPORTED : RF_ERROR_INVALID_ARGUMENT,
                     messages[x.mistake][0], messages[x.mistake][1]);
        rf_function_destroy(&f);
    }
    rf_optimizer_destroy(&x.optimizer);
    rf_variable_destroy(&x.weight);
    return RF_OK;
}

TEST(mistakes)
{
    const char *const devices[] = { LVP, LVP "," LVP };
    for (uint32_t i = 0; i < 2; i++) {
        run_job(&(job_params){ .num_workers = 1, .devices = { devices[i] } }, make_mistakes, reports);
        check_job(reports, 1);
    }
}

TEST_PROGRAM(sums)
{
    if (argc > 1 && strcmp(argv[1], "drivers") == 0) return room_tests_run(drivers_tests, NULL, NULL);
    if (argc > 1 && strcmp(argv[1], "full") == 0) return room_tests_run(full_tests, NULL, NULL);
    return room_tests_run(own_tests, NULL, NULL);
}
