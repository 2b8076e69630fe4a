/* SPDX-License-Identifier: Apache-2.0 */
/* Variables that a step assigns: any number of replicas and workers gives what one gives, with the same bits on all of
 * them; a step that fails or has no examples changes nothing. */
#include <math.h>
#include <stdio.h>

#include "../support/folder.h"
#include "job.h"
#include "replica/internal.h"
#include "replica/store/variables.h"
#include "step/function.h"
#include "tests/room.h"

#define LVP "llvmpipe"
#define SWS "SwiftShader"
enum { STEPS = 5, IN = 36, HIDDEN = 17, CLASSES = 10, BATCH = 24, WEIGHTS = 5 };
/* The step assigns moving averages over examples and of weights, and counts its runs and examples. It keeps twice the
 * bias that it began with. */
enum { MEAN, EMA, RUNS, ROWS, BEFORE, AGAIN, STATES };

typedef struct setup {
    rf_optimizer_params optimizer;
    bool central;     /* a central-storage strategy of the worker's own */
    bool no_training; /* the step has no optimizer */
    bool grows;       /* arrays move half-way */
} setup;

typedef struct net {
    const setup *setup;
    rf_variable *weights[WEIGHTS], *states[STATES];
    rf_optimizer *optimizer;
    rf_function *step;
} net;

static const rf_shape weight_shapes[WEIGHTS] = {
    { 2, { IN, IN } }, { 2, { IN, HIDDEN } }, { 1, { HIDDEN } }, { 2, { HIDDEN, CLASSES } }, { 1, { CLASSES } }
};
static const rf_shape state_shapes[STATES] = { { 1, { HIDDEN } }, { 2, { IN, HIDDEN } }, { 1, { 1 } },
                                               { 0, { 0 } },      { 1, { CLASSES } },    { 1, { CLASSES } } };
static const char *const state_names[STATES] = { "mean", "ema", "runs", "rows", "before", "again" };

static rf_tensor mix_in(rf_trace *t, rf_tensor old, rf_tensor now, float rate)
{
    return rf_add(t, rf_multiply(t, old, rf_constant(t, 1 - rate)), rf_multiply(t, now, rf_constant(t, rate)));
}

static void assign(rf_trace *t, const net *n, rf_tensor hidden)
{
    rf_tensor old[STATES];
    for (uint32_t i = 0; i < STATES; i++) old[i] = rf_variable_tensor(t, n->states[i]);
    const rf_tensor ones = rf_divide(t, rf_exp(t, hidden), rf_exp(t, hidden));
    const rf_tensor rows = rf_multiply(t, rf_reduce_sum(t, ones, NULL, 0, RF_DROP_DIMS), rf_constant(t, 1.0f / HIDDEN));
    rf_variable_update(t, n->states[MEAN],
                       mix_in(t, old[MEAN], rf_reduce_mean(t, hidden, (int32_t[]){ 0 }, 1, RF_DROP_DIMS), 0.1f),
                       RF_AGGREGATE_MEAN);
    rf_variable_update(t, n->states[EMA], mix_in(t, old[EMA], rf_variable_tensor(t, n->weights[1]), 0.25f),
                       RF_AGGREGATE_FIRST_REPLICA);
    rf_variable_update(t, n->states[RUNS], rf_add(t, old[RUNS], rf_constant(t, 1)), RF_AGGREGATE_FIRST_REPLICA);
    rf_variable_update(t, n->states[ROWS], rows, RF_AGGREGATE_SUM);
    for (uint32_t i = BEFORE; i <= AGAIN; i++)
        rf_variable_update(t, n->states[i], rf_variable_tensor(t, n->weights[4]), RF_AGGREGATE_FIRST_REPLICA);
}

/* out[1]: the count of runs as the step sees it, after it has assigned the next. */
static rf_result step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const net *n = user;
    rf_tensor v[WEIGHTS];
    for (uint32_t i = 0; i < WEIGHTS; i++) v[i] = rf_variable_tensor(t, n->weights[i]);
    const rf_tensor first = rf_tanh(t, rf_matmul(t, in[0], v[0], RF_TRANSPOSE_NONE));
    const rf_tensor hidden = rf_tanh(t, rf_bias_add(t, rf_matmul(t, first, v[1], RF_TRANSPOSE_NONE), v[2]));
    assign(t, n, hidden);
    const rf_tensor logits = rf_bias_add(t, rf_matmul(t, hidden, v[3], RF_TRANSPOSE_NONE), v[4]);
    out[0] = rf_compute_average_loss(t, rf_sparse_categorical_crossentropy(t, in[1], logits, RF_LOGITS), NULL);
    out[1] = rf_reduce_sum(t, rf_variable_tensor(t, n->states[RUNS]), NULL, 0, RF_DROP_DIMS);
    if (!n->setup->no_training)
        rf_optimizer_minimize(t, n->optimizer, out[0], (rf_variable_list){ n->weights, WEIGHTS });
    return rf_trace_status(t);
}

static rf_result create(rf_strategy *s, const setup *given, net *n)
{
    *n = (net){ .setup = given };
    for (uint32_t i = 0; i < WEIGHTS; i++)
        GO(rf_variable_create(s,
                              &(rf_variable_params){ .shape = weight_shapes[i],
                                                     .initializer = { .kind = RF_INIT_RANDOM_NORMAL, .b = 0.3f } },
                              &n->weights[i]));
    for (uint32_t i = 0; i < STATES; i++)
        GO(rf_variable_create(s,
                              &(rf_variable_params){ .name = state_names[i],
                                                     .shape = state_shapes[i],
                                                     .initializer = { .kind = RF_INIT_ZEROS },
                                                     .not_trainable = true },
                              &n->states[i]));
    GO(rf_optimizer_create(s, &given->optimizer, &n->optimizer));
    return rf_function_create(
        s, &(rf_function_params){ .step = step, .user = n, .num_outputs = 2, .training = true, .name = "assign" },
        &n->step);
}

static void destroy(net *n)
{
    rf_function_destroy(&n->step);
    rf_optimizer_destroy(&n->optimizer);
    for (uint32_t i = 0; i < WEIGHTS; i++) rf_variable_destroy(&n->weights[i]);
    for (uint32_t i = 0; i < STATES; i++) rf_variable_destroy(&n->states[i]);
}

static rf_result read_all(const net *n, float values[STATES][IN * HIDDEN])
{
    memset(values, 0, STATES * sizeof(values[0]));
    for (uint32_t i = 0; i < STATES; i++) GO(rf_variable_read(n->states[i], values[i]));
    return RF_OK;
}

static uint64_t hash_of(const void *data, size_t size, uint64_t hash)
{
    for (size_t k = 0; k < size; k++) hash = (hash ^ ((const unsigned char *)data)[k]) * 1099511628211u;
    return hash;
}

/* Checks the states that do not depend on the devices. */
static rf_result check_exact(worker *w, const rf_strategy *s, const net *n, uint32_t number, float runs,
                             const float *bias_before)
{
    float got[STATES][IN * HIDDEN];
    GO(read_all(n, got));
    EXPECT(runs == (float)number);
    EXPECT(got[RUNS][0] == (float)(number + 1));
    EXPECT(fabsf(got[ROWS][0] - (float)job_rows(number, BATCH)) < 1e-3f);
    EXPECT(memcmp(got[BEFORE], bias_before, CLASSES * sizeof(float)) == 0);
    EXPECT(memcmp(got[AGAIN], bias_before, CLASSES * sizeof(float)) == 0);
    /* Between the variables there are zeros still. */
    const rf_range span = rf_variable_span(n->states[MEAN]);
    float padding[256];
    EXPECT(span.end - span.begin <= 256);
    GO(rf_flat_read(&s->store.fixed.values, 0, span.begin, span.end - span.begin, padding));
    for (uint64_t i = HIDDEN; i < span.end - span.begin; i++) EXPECT(padding[i] == 0);
    return RF_OK;
}

static rf_result train(worker *w, rf_strategy *s, const setup *given)
{
    net n;
    rf_variable *big = NULL;
    GO(create(s, given, &n));
    for (uint32_t i = 0; i < STEPS; i++) {
        float loss, runs, bias[CLASSES];
        if (given->grows && i == STEPS / 2)
            GO(rf_variable_create(s, &(rf_variable_params){ .shape = RF_SHAPE(100000), .not_trainable = true }, &big));
        GO(rf_variable_read(n.weights[4], bias));
        GO(job_run_noise(s, n.step, i, job_rows(i, BATCH), IN, CLASSES, &loss, &runs));
        GO(check_exact(w, s, &n, i, runs, bias));
        GO(rf_strategy_check_identical(s, NULL, NULL));
        w->report->losses[w->report->steps++] = loss;
    }
    float values[STATES][IN * HIDDEN];
    GO(read_all(&n, values));
    for (uint32_t i = 0; i < HIDDEN; i++) w->report->numbers[i] = values[MEAN][i];
    for (uint32_t i = 0; i < 40; i++) w->report->numbers[HIDDEN + i] = values[EMA][i];
    w->report->numbers[60] = n.step->signatures.items[0]->overlaps;
    w->report->hash = hash_of(values, sizeof(values), 14695981039346656037u);
    rf_variable_destroy(&big);
    destroy(&n);
    return RF_OK;
}

static rf_result train_here(worker *w)
{
    const setup *given = w->user;
    if (!given->central) return train(w, w->strategy, given);
    rf_strategy *s;
    const rf_central_storage_params params = { .mirrored = { .devices = LVP "," LVP, .bucket_bytes = 256 } };
    GO(rf_strategy_create_central_storage(&params, &s));
    rf_strategy_set_seed(s, 7);
    const rf_result r = train(w, s, given);
    rf_strategy_destroy(&s);
    return r;
}

/* Every worker has the same bits, and the values of one replica. */
static void check(job_params job, const setup *given, report *got)
{
    static report one[MAX_WORKERS];
    static setup last; /* that `one` is of */
    job.user = given;
    run_job(&job, train_here, got);
    check_job(got, job.num_workers);
    const setup alone = { .optimizer = given->optimizer, .no_training = given->no_training };
    if (one[0].steps == 0 || memcmp(&alone, &last, sizeof(last)) != 0) {
        run_job(&(job_params){ .num_workers = 1, .devices = { LVP }, .user = &alone }, train_here, one);
        check_job(one, 1);
        last = alone;
    }
    for (uint32_t r = 0; r < job.num_workers; r++) {
        assert_true(got[r].hash == got[0].hash);
        for (uint32_t i = 0; i < STEPS; i++)
            assert_true(fabs(got[r].losses[i] - one->losses[i]) <= 2e-5 * (1 + fabs(one->losses[i])));
        for (uint32_t i = 0; i < 57; i++)
            if (!(fabs(got[r].numbers[i] - one->numbers[i]) <= 2e-5))
                fail_msg("rank %u, value %u: %.9g, with one replica %.9g", r, i, got[r].numbers[i], one->numbers[i]);
    }
}

static const setup adam = { .optimizer = { .kind = RF_OPTIMIZER_ADAM, .learning_rate = 0.01 } };
static report reports[MAX_WORKERS], others[MAX_WORKERS];

static void check_with_and_without_overlap(const char *devices)
{
    job_params job = { .num_workers = 1, .devices = { devices }, .mirrored = { .bucket_bytes = 512 } };
    check(job, &adam, reports);
    assert_true(reports[0].numbers[60] == 1);
    job.mirrored.no_overlap = true;
    job.user = &adam;
    run_job(&job, train_here, others);
    check_job(others, 1);
    assert_true(others[0].numbers[60] == 0);
    assert_true(others[0].hash == reports[0].hash);
}

TEST(two_replicas)
{
    check_with_and_without_overlap(LVP "," LVP);
}

static room_test *drivers_tests, *full_tests;

TEST_OF(drivers_tests, two_drivers)
{
    check_with_and_without_overlap(LVP "," SWS);
}

TEST(two_workers)
{
    check((job_params){ .num_workers = 2, .devices = { LVP, LVP }, .mirrored = { .bucket_bytes = 512 } }, &adam,
          reports);
    assert_true(reports[0].numbers[60] == 1);
}

TEST_OF(full_tests, uneven_workers)
{
    static const double none[] = { 0, 3 };
    check((job_params){ .num_workers = 2, .devices = { LVP "," LVP, LVP }, .shares = { none, NULL } }, &adam, reports);
}

TEST_OF(full_tests, staged_devices)
{
    check((job_params){ .num_workers = 1, .devices = { LVP "," LVP }, .staged = true }, &adam, reports);
    check((job_params){ .num_workers = 2, .devices = { LVP "," LVP, LVP }, .staged = true }, &adam, reports);
}

TEST_OF(full_tests, local_updates)
{
    check((job_params){ .num_workers = 1, .devices = { LVP "," LVP }, .mirrored = { .update_mode = RF_UPDATE_LOCAL } },
          &adam, reports);
}

TEST_OF(full_tests, accumulated_gradients)
{
    const setup twice = { .optimizer = { .kind = RF_OPTIMIZER_SGD, .learning_rate = 0.1, .accumulation_steps = 3 } };
    check((job_params){ .num_workers = 1, .devices = { LVP "," LVP } }, &twice, reports);
}

TEST_OF(full_tests, clipped_gradients)
{
    const setup clipped = { .optimizer = { .kind = RF_OPTIMIZER_SGD, .learning_rate = 0.1, .global_clip_norm = 0.3 } };
    check((job_params){ .num_workers = 1, .devices = { LVP "," LVP } }, &clipped, reports);
}

TEST_OF(full_tests, without_an_optimizer)
{
    check((job_params){ .num_workers = 2, .devices = { LVP, LVP } }, &(setup){ .no_training = true }, reports);
}

TEST_OF(full_tests, central_storage)
{
    const setup central = { .optimizer = adam.optimizer, .central = true };
    check((job_params){ .num_workers = 1, .devices = { LVP } }, &central, reports);
}

TEST_OF(full_tests, arrays_that_move)
{
    const setup grows = { .optimizer = adam.optimizer, .grows = true };
    check((job_params){ .num_workers = 1, .devices = { LVP } }, &grows, reports);
    check((job_params){ .num_workers = 1, .devices = { LVP "," LVP } }, &grows, reports);
}

/* ---- checkpoints ---- */

static rf_result create_checkpoint(rf_strategy *s, const net *n, rf_checkpoint **out)
{
    GO(rf_checkpoint_create(s, out));
    for (uint32_t i = 0; i < WEIGHTS + STATES; i++) {
        char name[8];
        snprintf(name, sizeof(name), "v%u", i);
        GO(rf_checkpoint_add_variable(*out, name, i < WEIGHTS ? n->weights[i] : n->states[i - WEIGHTS]));
    }
    GO(rf_checkpoint_add_optimizer(*out, "optimizer", n->optimizer));
    return rf_checkpoint_add_function(*out, "step", n->step);
}

/* Saves after two steps, goes on at once, and comes back to where it was: everything happens again, bit for bit. */
static rf_result save_and_resume(worker *w)
{
    net n;
    rf_checkpoint *c;
    float loss, runs, first[STATES][IN * HIDDEN], second[STATES][IN * HIDDEN];
    char path[80];
    snprintf(path, sizeof(path), "%s/state", (const char *)w->user);
    GO(create(w->strategy, &adam, &n));
    GO(create_checkpoint(w->strategy, &n, &c));
    for (uint32_t i = 0; i < 2; i++)
        GO(job_run_noise(w->strategy, n.step, i, job_rows(i, BATCH), IN, CLASSES, &loss, &runs));
    GO(rf_checkpoint_save(c, path, &(rf_save_params){ .async = true }));
    for (uint32_t i = 2; i < 4; i++)
        GO(job_run_noise(w->strategy, n.step, i, job_rows(i, BATCH), IN, CLASSES, &loss, &runs));
    GO(rf_checkpoint_wait(c));
    GO(read_all(&n, first));
    GO(rf_checkpoint_restore(c, path, NULL));
    for (uint32_t i = 2; i < 4; i++)
        GO(job_run_noise(w->strategy, n.step, i, job_rows(i, BATCH), IN, CLASSES, &loss, &runs));
    EXPECT(runs == 3);
    GO(read_all(&n, second));
    EXPECT(memcmp(first, second, sizeof(first)) == 0);
    GO(rf_strategy_check_identical(w->strategy, NULL, NULL));
    rf_checkpoint_destroy(&c);
    destroy(&n);
    return RF_OK;
}

TEST(resumed_training)
{
    const uint32_t workers[] = { 1, 2 };
    for (uint32_t i = 0; i < 2; i++) {
        char folder[SCRATCH_PATH];
        const job_params job = { .num_workers = workers[i], .devices = { LVP, LVP }, .user = scratch(folder) };
        run_job(&job, save_and_resume, reports);
        scratch_remove(folder);
        check_job(reports, workers[i]);
    }
}

/* ---- steps that do not happen ---- */

static rf_result same_as_before(worker *w, const net *n, float before[STATES][IN * HIDDEN])
{
    float after[STATES][IN * HIDDEN];
    GO(read_all(n, after));
    EXPECT(memcmp(before, after, sizeof(after)) == 0);
    return rf_strategy_check_identical(w->strategy, NULL, NULL);
}

static rf_result fail_and_go_on(worker *w)
{
    net n;
    float loss, runs, before[STATES][IN * HIDDEN];
    GO(create(w->strategy, w->user, &n));
    for (uint32_t i = 0; i < 2; i++)
        GO(job_run_noise(w->strategy, n.step, i, job_rows(i, BATCH), IN, CLASSES, &loss, &runs));
    GO(read_all(&n, before));
    /* The last rank has no batch: all of them leave the step out. */
    float x[BATCH * IN] = { 0 };
    int32_t labels[BATCH] = { 0 };
    rf_element batch = { .num_components = 2,
                         .component = { { RF_F32, RF_SHAPE(BATCH, IN), x }, { RF_I32, RF_SHAPE(BATCH), labels } } };
    if (w->rank + 1 == w->world_size) batch.component[0].data = NULL;
    EXPECT(rf_strategy_run(w->strategy, n.step, &batch, NULL) == RF_ERROR_INVALID_ARGUMENT);
    GO(same_as_before(w, &n, before));
    for (uint32_t i = 2; i < 4; i++)
        GO(job_run_noise(w->strategy, n.step, i, job_rows(i, BATCH), IN, CLASSES, &loss, &runs));
    EXPECT(runs == 3);
    destroy(&n);
    return RF_OK;
}

TEST(failed_steps)
{
    const uint32_t workers[] = { 1, 2 };
    for (uint32_t i = 0; i < 2; i++) {
        const job_params job = { .num_workers = workers[i], .devices = { LVP, LVP }, .user = &adam };
        run_job(&job, fail_and_go_on, reports);
        check_job(reports, workers[i]);
    }
}

/* ---- what is refused ---- */

typedef enum mistake {
    NO_VARIABLE,
    TRAINABLE,
    FOREIGN,
    TWICE,
    NO_VALUE,
    OTHER_SHAPE,
    INTEGERS,
    BATCH_SHAPE,
    NO_SUCH_AGGREGATION,
} mistake;

typedef struct wrong {
    mistake mistake;
    rf_variable *trainable, *fixed, *foreign;
} wrong;

static rf_result wrong_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const wrong *x = user;
    (void)out;
    const rf_tensor value = rf_variable_tensor(t, x->fixed);
    switch (x->mistake) {
    case NO_VARIABLE: return rf_variable_update(t, NULL, value, RF_AGGREGATE_SUM);
    case TRAINABLE: return rf_variable_update(t, x->trainable, value, RF_AGGREGATE_SUM);
    case FOREIGN: return rf_variable_update(t, x->foreign, value, RF_AGGREGATE_SUM);
    case TWICE:
        rf_variable_update(t, x->fixed, value, RF_AGGREGATE_SUM);
        return rf_variable_update(t, x->fixed, value, RF_AGGREGATE_MEAN);
    case NO_VALUE: return rf_variable_update(t, x->fixed, (rf_tensor){ 0 }, RF_AGGREGATE_SUM);
    case OTHER_SHAPE: return rf_variable_update(t, x->fixed, rf_constant(t, 1), RF_AGGREGATE_SUM);
    case INTEGERS: return rf_variable_update(t, x->fixed, in[1], RF_AGGREGATE_SUM);
    case BATCH_SHAPE: return rf_variable_update(t, x->fixed, in[0], RF_AGGREGATE_SUM);
    case NO_SUCH_AGGREGATION: return rf_variable_update(t, x->fixed, value, (rf_aggregation)3);
    }
    return RF_OK;
}

static rf_result make_mistakes(worker *w)
{
    static const char *const messages[][2] = {
        [NO_VARIABLE] = { "variable", "NULL" },
        [TRAINABLE] = { "'weight'", "not_trainable" },
        [FOREIGN] = { "'there'", "another strategy" },
        [TWICE] = { "'state'", "twice" },
        [NO_VALUE] = { "value", "invalid tensor" },
        [OTHER_SHAPE] = { "'state'", "[6]" },
        [INTEGERS] = { "'state'", "i32" },
        [BATCH_SHAPE] = { "'state'", "depends on the batch" },
        [NO_SUCH_AGGREGATION] = { "'state'", "aggregation 3" },
    };
    rf_strategy *other;
    wrong x = { 0 };
    GO(rf_strategy_create_one_device(&(rf_one_device_params){ .device = LVP }, &other));
    rf_variable_params params = { .name = "weight", .shape = RF_SHAPE(6) };
    GO(rf_variable_create(w->strategy, &params, &x.trainable));
    params = (rf_variable_params){ .name = "state", .shape = RF_SHAPE(6), .not_trainable = true };
    GO(rf_variable_create(w->strategy, &params, &x.fixed));
    params.name = "there";
    GO(rf_variable_create(other, &params, &x.foreign));
    float data[6] = { 0 };
    int32_t integers[6] = { 0 };
    const rf_element batch = { .num_components = 2,
                               .component = { { RF_F32, RF_SHAPE(6), data }, { RF_I32, RF_SHAPE(6), integers } } };
    for (x.mistake = NO_VARIABLE; x.mistake <= NO_SUCH_AGGREGATION; x.mistake++) {
        rf_function *f;
        GO(rf_function_create(w->strategy, &(rf_function_params){ .step = wrong_step, .user = &x }, &f));
        EXPECT_FAILS(rf_strategy_run(w->strategy, f, &batch, NULL), RF_ERROR_INVALID_ARGUMENT, messages[x.mistake][0],
                     messages[x.mistake][1]);
        rf_function_destroy(&f);
    }
    EXPECT_FAILS(rf_variable_update(NULL, x.fixed, (rf_tensor){ 0 }, RF_AGGREGATE_SUM), RF_ERROR_INVALID_ARGUMENT,
                 "rf_variable_update", "trace is NULL");
    rf_variable_destroy(&x.trainable);
    rf_variable_destroy(&x.fixed);
    rf_variable_destroy(&x.foreign);
    rf_strategy_destroy(&other);
    return RF_OK;
}

TEST(mistakes)
{
    run_job(&(job_params){ .num_workers = 1, .devices = { LVP } }, make_mistakes, reports);
    check_job(reports, 1);
}

TEST_PROGRAM(assign)
{
    if (argc > 1 && strcmp(argv[1], "drivers") == 0) return room_tests_run(drivers_tests, NULL, NULL);
    if (argc > 1 && strcmp(argv[1], "full") == 0) return room_tests_run(full_tests, NULL, NULL);
    return room_tests_run(own_tests, NULL, NULL);
}
