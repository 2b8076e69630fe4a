/* SPDX-License-Identifier: Apache-2.0 */
/* A step's computations on gradients before it applies them see those of the whole batch: any number of replicas gives
 * what one gives. */
#include <math.h>
#include <stdio.h>

#include "../support/noise.h"
#include "job.h"
#include "replica/internal.h"
#include "tests/room.h"

#define LVP "llvmpipe"
#define SWS "SwiftShader"
enum { STEPS = 6, IN = 40, OUT = 9, BATCH = 24, COUNT = IN * OUT + OUT };
#define LIMIT 0.05f

typedef enum way {
    CLIP,
    SIGN,
    DECAY,
    SCALE_BY_LOSS,
    SCALE_BY_BATCH,
    FOREIGN_GRADIENT,
    OTHER_GRADIENT,
    TWO_MULTIPLES,
    READS_UPDATED,
    UPDATES_READ
} way;

typedef struct setup {
    way way;
    bool central;
    rf_optimizer_params optimizer;
} setup;

typedef struct net {
    const setup *setup;
    rf_variable *variables[2];        /* kernel, bias */
    rf_optimizer *optimizer, *second; /* second: of the bias, where there are two */
    rf_function *step;
} net;

static rf_tensor global_norm(rf_trace *t, const rf_tensor *g)
{
    return rf_sqrt(t, rf_add(t, rf_reduce_sum(t, rf_square(t, g[0]), NULL, 0, RF_DROP_DIMS),
                             rf_reduce_sum(t, rf_square(t, g[1]), NULL, 0, RF_DROP_DIMS)));
}

/* The caller's transform of gradients, as the setup says. */
static void transform(rf_trace *t, const net *n, rf_tensor loss, const rf_tensor *variables, rf_tensor *g)
{
    const rf_tensor norm = global_norm(t, g),
                    norm_of_first = rf_reduce_sum(t, rf_square(t, g[0]), NULL, 0, RF_DROP_DIMS);
    for (uint32_t i = 0; i < 2; i++) {
        switch (n->setup->way) {
        case CLIP:
        case FOREIGN_GRADIENT:
            g[i] = rf_multiply(t, g[i], rf_minimum(t, rf_constant(t, 1), rf_divide(t, rf_constant(t, LIMIT), norm)));
            break;
        case SIGN: /* of twice the gradient: what is linear may stand before */
            g[i] = rf_multiply(t, g[i], rf_constant(t, 2));
            g[i] = rf_divide(t, g[i], rf_add(t, rf_abs(t, g[i]), rf_constant(t, 1e-3f)));
            break;
        case DECAY: g[i] = rf_add(t, g[i], rf_multiply(t, variables[i], rf_constant(t, 0.1f))); break;
        case READS_UPDATED:
        case UPDATES_READ: /* the bias stays for the other optimizer */
            if (i == 0)
                g[i] = rf_multiply(t, rf_square(t, g[i]), rf_reduce_sum(t, variables[1], NULL, 0, RF_DROP_DIMS));
            break;
        case SCALE_BY_BATCH: g[i] = rf_multiply(t, rf_square(t, g[i]), rf_global_batch_size(t)); break;
        case OTHER_GRADIENT: g[i] = rf_multiply(t, variables[i], norm_of_first); break;
        case SCALE_BY_LOSS: g[i] = rf_multiply(t, rf_square(t, g[i]), loss); break;
        case TWO_MULTIPLES: g[i] = rf_multiply(t, rf_square(t, g[i]), rf_square(t, rf_negative(t, g[i]))); break;
        }
    }
}

/* The first reads the bias, which the second updates. */
static rf_result apply_two(rf_trace *t, const net *n, const rf_tensor *g)
{
    const rf_variable_list kernel = { n->variables, 1 }, bias = { n->variables + 1, 1 };
    rf_result r = RF_OK;
    if (n->setup->way == READS_UPDATED) r = rf_optimizer_apply_gradients(t, n->second, g + 1, bias);
    if (r >= 0) r = rf_optimizer_apply_gradients(t, n->optimizer, g, kernel);
    if (r >= 0 && n->setup->way == UPDATES_READ) r = rf_optimizer_apply_gradients(t, n->second, g + 1, bias);
    return r;
}

static rf_result step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const net *n = user;
    const rf_tensor v[2] = { rf_variable_tensor(t, n->variables[0]), rf_variable_tensor(t, n->variables[1]) };
    const rf_tensor x = rf_bias_add(t, rf_matmul(t, in[0], v[0], RF_TRANSPOSE_NONE), v[1]);
    out[0] = rf_compute_average_loss(t, rf_sparse_categorical_crossentropy(t, in[1], x, RF_LOGITS), NULL);
    rf_tensor g[2];
    rf_gradients(t, out[0], v, 2, g);
    transform(t, n, out[0], v, g);
    if (n->second) return apply_two(t, n, g);
    const uint32_t count = n->setup->way == FOREIGN_GRADIENT ? 1 : 2;
    return rf_optimizer_apply_gradients(t, n->optimizer, g, (rf_variable_list){ n->variables, count });
}

static rf_result create(rf_strategy *s, const setup *given, net *n)
{
    static const rf_shape shapes[] = { { 2, { IN, OUT } }, { 1, { OUT } } };
    *n = (net){ .setup = given };
    for (uint32_t i = 0; i < 2; i++)
        GO(rf_variable_create(
            s, &(rf_variable_params){ .shape = shapes[i], .initializer = { .kind = RF_INIT_RANDOM_NORMAL, .b = 0.3f } },
            &n->variables[i]));
    GO(rf_optimizer_create(s, &given->optimizer, &n->optimizer));
    return rf_function_create(s, &(rf_function_params){ .step = step, .user = n, .num_outputs = 1, .training = true },
                              &n->step);
}

static void destroy(net *n)
{
    rf_function_destroy(&n->step);
    rf_optimizer_destroy(&n->optimizer);
    rf_variable_destroy(&n->variables[0]);
    rf_variable_destroy(&n->variables[1]);
}

static rf_result run_step(rf_strategy *s, const net *n, uint32_t number)
{
    float x[BATCH * IN];
    int32_t labels[BATCH];
    noise_batch(number, BATCH, IN, OUT, x, labels);
    const rf_element batch = {
        .num_components = 2, .component = { { RF_F32, RF_SHAPE(BATCH, IN), x }, { RF_I32, RF_SHAPE(BATCH), labels } }
    };
    return rf_strategy_run(s, n->step, &batch, NULL);
}

/* Weights after training, and the gradient of the latest update. */
static rf_result train(rf_strategy *s, const setup *given, float *weights, float *gradient)
{
    net n;
    rf_strategy_set_seed(s, 7);
    GO(create(s, given, &n));
    for (uint32_t i = 0; i < STEPS; i++) GO(run_step(s, &n, i));
    GO(rf_strategy_check_identical(s, NULL, NULL));
    GO(rf_variable_read(n.variables[0], weights));
    GO(rf_variable_read(n.variables[1], weights + IN * OUT));
    GO(rf_variable_read_gradient(n.variables[0], gradient));
    GO(rf_variable_read_gradient(n.variables[1], gradient + IN * OUT));
    destroy(&n);
    return RF_OK;
}

static rf_result compare(worker *w, const char *what, const float *got, const float *want)
{
    for (uint32_t i = 0; i < COUNT; i++) {
        if (fabsf(got[i] - want[i]) <= 2e-5f * (1 + fabsf(want[i]))) continue;
        snprintf(w->report->message, sizeof(w->report->message), "%s %u: %.9g, with one replica %.9g", what, i,
                 (double)got[i], (double)want[i]);
        return RF_ERROR_INTERNAL;
    }
    return RF_OK;
}

static rf_result train_both(worker *w)
{
    const setup *given = w->user;
    float weights[COUNT], gradient[COUNT], one_weights[COUNT], one_gradient[COUNT];
    rf_strategy *one, *central = NULL;
    if (given->central) {
        const rf_central_storage_params params = { .mirrored = { .devices = LVP "," LVP, .bucket_bytes = 256 } };
        GO(rf_strategy_create_central_storage(&params, &central));
    }
    GO(train(central ? central : w->strategy, given, weights, gradient));
    GO(rf_strategy_create_one_device(&(rf_one_device_params){ .device = LVP }, &one));
    GO(train(one, given, one_weights, one_gradient));
    GO(compare(w, "weight", weights, one_weights));
    GO(compare(w, "gradient", gradient, one_gradient));
    double squares = 0;
    for (uint32_t i = 0; i < COUNT; i++) squares += (double)gradient[i] * (double)gradient[i];
    /* The limit is a part of the norm, or the test tests nothing. */
    if (given->way == CLIP && given->optimizer.accumulation_steps <= 1) EXPECT(fabs(sqrt(squares) / LIMIT - 1) < 1e-3);
    rf_strategy_destroy(&one);
    rf_strategy_destroy(&central);
    return RF_OK;
}

static void check(job_params job, const setup *s)
{
    static report reports[MAX_WORKERS];
    job.user = s;
    job.mirrored.bucket_bytes = 256;
    run_job(&job, train_both, reports);
    check_job(reports, job.num_workers);
}

#define MOMENTUM                                                                                                       \
    {                                                                                                                  \
        .kind = RF_OPTIMIZER_SGD, .learning_rate = 0.5, .momentum = 0.9                                                \
    }
static const setup clip = { .way = CLIP, .optimizer = MOMENTUM };

TEST(two_replicas)
{
    check((job_params){ .num_workers = 1, .devices = { LVP "," LVP } }, &clip);
    check((job_params){ .num_workers = 1, .devices = { LVP "," LVP }, .staged = true }, &clip);
}

static room_test *drivers_tests;

TEST_OF(drivers_tests, two_drivers)
{
    check((job_params){ .num_workers = 1, .devices = { LVP "," SWS } }, &clip);
    check((job_params){ .num_workers = 2, .devices = { LVP, SWS } }, &clip);
}

TEST(without_overlap)
{
    check((job_params){ .num_workers = 1, .devices = { LVP "," LVP "," LVP }, .mirrored = { .no_overlap = true } },
          &clip);
}

TEST(every_replica_updates)
{
    check((job_params){ .num_workers = 1, .devices = { LVP "," LVP }, .mirrored = { .update_mode = RF_UPDATE_LOCAL } },
          &clip);
}

TEST(central_storage)
{
    check((job_params){ .num_workers = 1, .devices = { LVP } },
          &(setup){ .way = CLIP, .central = true, .optimizer = MOMENTUM });
}

TEST(two_workers)
{
    check((job_params){ .num_workers = 2, .devices = { LVP, LVP } }, &clip);
    check((job_params){ .num_workers = 2, .devices = { LVP "," LVP, LVP }, .staged = true }, &clip);
}

TEST(unequal_shares)
{
    static const double shares[] = { 1, 5 };
    check((job_params){ .num_workers = 1,
                        .devices = { LVP "," LVP },
                        .mirrored = { .shares = shares, .num_shares = 2 },
                        .shares = { shares } },
          &clip);
}

TEST(other_transforms)
{
    const job_params two = { .num_workers = 1, .devices = { LVP "," LVP } };
    check(two, &(setup){ .way = SIGN, .optimizer = { .kind = RF_OPTIMIZER_ADAM, .learning_rate = 0.01 } });
    check(two, &(setup){ .way = DECAY, .optimizer = MOMENTUM });
    /* This optimizer clips what the step gives it. */
    check(two, &(setup){ .way = SIGN,
                         .optimizer = { .kind = RF_OPTIMIZER_SGD, .learning_rate = 0.1, .global_clip_norm = 2 } });
}

TEST(accumulated)
{
    const setup s = { .way = CLIP,
                      .optimizer = { .kind = RF_OPTIMIZER_SGD, .learning_rate = 0.5, .accumulation_steps = 2 } };
    check((job_params){ .num_workers = 1, .devices = { LVP "," LVP } }, &s);
}

/* ---- what cannot be right ---- */

static rf_result refuse(worker *w)
{
    static const setup by_loss = { .way = SCALE_BY_LOSS }, foreign = { .way = FOREIGN_GRADIENT },
                       multiples = { .way = TWO_MULTIPLES }, by_batch = { .way = SCALE_BY_BATCH },
                       other = { .way = OTHER_GRADIENT };
    net n;
    GO(create(w->strategy, &by_loss, &n));
    EXPECT_FAILS(run_step(w->strategy, &n, 0), RF_ERROR_UNSUPPORTED, "gradients[0]", "weight the loss instead");
    destroy(&n);
    GO(create(w->strategy, &foreign, &n));
    EXPECT_FAILS(run_step(w->strategy, &n, 0), RF_ERROR_INVALID_ARGUMENT, "not among the variables",
                 "update both with one optimizer");
    destroy(&n);
    GO(create(w->strategy, &multiples, &n));
    EXPECT_FAILS(run_step(w->strategy, &n, 0), RF_ERROR_INVALID_ARGUMENT, "more than one multiple",
                 "compute it from one");
    destroy(&n);
    GO(create(w->strategy, &by_batch, &n));
    EXPECT_FAILS(run_step(w->strategy, &n, 0), RF_ERROR_UNSUPPORTED, "reads the size of the batch",
                 "multiply gradients by it before");
    destroy(&n);
    /* The second variable's value follows from the gradient of the first: there is nothing of its own to sum. */
    GO(create(w->strategy, &other, &n));
    EXPECT_FAILS(run_step(w->strategy, &n, 0), RF_ERROR_INVALID_ARGUMENT, "does not depend on its gradient",
                 rf_variable_name(n.variables[1]));
    destroy(&n);
    /* A transform runs after the updates before its own, and so would read the new value. */
    static const setup reads_updated = { .way = READS_UPDATED }, updates_read = { .way = UPDATES_READ };
    for (uint32_t i = 0; i < 2; i++) {
        rf_optimizer *second;
        GO(create(w->strategy, i ? &updates_read : &reads_updated, &n));
        GO(rf_optimizer_create(w->strategy, NULL, &second));
        n.second = second;
        if (i)
            GO(run_step(w->strategy, &n, 0));
        else
            EXPECT_FAILS(run_step(w->strategy, &n, 0), RF_ERROR_INVALID_ARGUMENT,
                         "another optimizer has updated by then", rf_variable_name(n.variables[1]));
        destroy(&n);
        rf_optimizer_destroy(&second);
    }
    /* Results that a worker computes from its share's gradient alone would reach the servers. */
    GO(create(w->strategy, &clip, &n));
    rf_optimizer_destroy(&n.optimizer);
    GO(rf_optimizer_create_remote(w->strategy, &n.optimizer));
    EXPECT_FAILS(run_step(w->strategy, &n, 0), RF_ERROR_UNSUPPORTED, "parameter servers", "clip_value");
    destroy(&n);
    return RF_OK;
}

TEST(refusals)
{
    static report reports[MAX_WORKERS];
    run_job(&(job_params){ .num_workers = 1, .devices = { LVP "," LVP } }, refuse, reports);
    check_job(reports, 1);
}

TEST_PROGRAM(user_optimizer)
{
    if (argc > 1 && strcmp(argv[1], "drivers") == 0) return room_tests_run(drivers_tests, NULL, NULL);
    return room_tests_run(own_tests, NULL, NULL);
}
