/* SPDX-License-Identifier: Apache-2.0 */
/* Muon beside AdamW against double precision, on one and two replicas, resumed from a checkpoint; what Muon as a kind
 * of optimizer takes for matrices; orthogonal matrices; what is refused. */
#include <ringfire/checkpoint.h>

#include "../support/folder.h"
#include "../support/orthogonal.h"
#include "../support/strategies.h"
#include "tests/room.h"

/* y = x a b + c: a tall matrix, a wide one, and a vector. */
enum { N = 8, ROWS = 6, INNER = 4, COLUMNS = 9, A = ROWS * INNER, B = INNER * COLUMNS, ALL = A + B + COLUMNS };
enum { TOTAL_STEPS = 20, ITERATIONS = 5 };
#define RATE 0.02
#define DECAY 0.1
#define VECTOR_RATE 0.003

typedef struct network {
    rf_strategy *strategy;
    rf_variable *weights[3], *momentums[2];
    rf_optimizer *muon, *adamw;
    rf_function *function;
    rf_checkpoint *checkpoint;
} network;

static rf_result network_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const network *w = user;
    rf_tensor weights[3], gradients[3];
    for (int i = 0; i < 3; i++) weights[i] = rf_variable_tensor(t, w->weights[i]);
    const rf_tensor hidden = rf_matmul(t, in[0], weights[0], RF_TRANSPOSE_NONE);
    const rf_tensor y = rf_bias_add(t, rf_matmul(t, hidden, weights[1], RF_TRANSPOSE_NONE), weights[2]);
    out[0] = rf_compute_average_loss(t, rf_mean_squared_error(t, in[1], y), NULL);
    rf_result r = rf_gradients(t, out[0], weights, 3, gradients);
    if (r >= 0)
        r = rf_optimizer_apply_muon(t, w->muon, gradients, (rf_variable_list){ w->weights, 2 }, w->momentums, 0, 0);
    if (r >= 0) r = rf_optimizer_apply_gradients(t, w->adamw, &gradients[2], (rf_variable_list){ &w->weights[2], 1 });
    return r;
}

static void open_network(rf_strategy *strategy, network *w)
{
    static const char *const names[] = { "a", "b", "c", "a_momentum", "b_momentum" };
    const rf_shape shapes[] = { RF_SHAPE(ROWS, INNER), RF_SHAPE(INNER, COLUMNS), RF_SHAPE(COLUMNS) };
    float initial[ALL];
    const float zeros[B] = { 0 }, *values[] = { initial, initial + A, initial + A + B, zeros, zeros };
    fill_noise(initial, ALL, 5);
    *w = (network){ .strategy = strategy };
    OK(rf_checkpoint_create(strategy, &w->checkpoint));
    for (int i = 0; i < 5; i++) {
        const rf_variable_params params = {
            .name = names[i], .shape = shapes[i % 3], .value = values[i], .not_trainable = i >= 3
        };
        rf_variable **at = i < 3 ? &w->weights[i] : &w->momentums[i - 3];
        OK(rf_variable_create(strategy, &params, at));
        OK(rf_checkpoint_add_variable(w->checkpoint, names[i], *at));
    }
    const rf_optimizer_params muon = { .kind = RF_OPTIMIZER_SGD, .learning_rate = RATE, .weight_decay = DECAY };
    const rf_optimizer_params adamw = { .kind = RF_OPTIMIZER_ADAMW,
                                        .learning_rate = VECTOR_RATE,
                                        .weight_decay = DECAY };
    OK(rf_optimizer_create(strategy, &muon, &w->muon));
    OK(rf_optimizer_create(strategy, &adamw, &w->adamw));
    OK(rf_checkpoint_add_optimizer(w->checkpoint, "muon", w->muon));
    OK(rf_checkpoint_add_optimizer(w->checkpoint, "adamw", w->adamw));
    const rf_function_params function = { .step = network_step, .user = w, .num_outputs = 1, .training = true };
    OK(rf_function_create(strategy, &function, &w->function));
}

static void close_network(network *w)
{
    rf_checkpoint_destroy(&w->checkpoint);
    rf_function_destroy(&w->function);
    rf_optimizer_destroy(&w->muon);
    rf_optimizer_destroy(&w->adamw);
    for (int i = 0; i < 3; i++) rf_variable_destroy(&w->weights[i]);
    for (int i = 0; i < 2; i++) rf_variable_destroy(&w->momentums[i]);
}

/* Every fifth batch is of one example: a second replica has none. */
static int data_of(uint32_t step, float *x, float *y)
{
    fill_noise(x, N * ROWS, 31 + step);
    fill_noise(y, N * COLUMNS, 131 + step);
    return step % 5 == 3 ? 1 : N;
}

static void run_network(network *w, uint32_t first, uint32_t end)
{
    for (uint32_t i = first; i < end; i++) {
        float x[N * ROWS], y[N * COLUMNS];
        const int n = data_of(i, x, y);
        const rf_element batch = { 2, { array_f32(RF_SHAPE(n, ROWS), x), array_f32(RF_SHAPE(n, COLUMNS), y) } };
        OK(rf_strategy_run(w->strategy, w->function, &batch, NULL));
    }
}

static void read_network(const network *w, float *values)
{
    OK(rf_variable_read(w->weights[0], values));
    OK(rf_variable_read(w->weights[1], values + A));
    OK(rf_variable_read(w->weights[2], values + A + B));
    OK(rf_strategy_check_identical(w->strategy, NULL, NULL));
}

/* ---- the same in double ---- */

static void muon_matrix(double *w, double *m, const double *g, int rows, int columns)
{
    double ahead[A + B];
    for (int i = 0; i < rows * columns; i++) {
        m[i] = 0.95 * m[i] + g[i];
        ahead[i] = g[i] + 0.95 * m[i];
    }
    orthogonalize_doubles(ahead, rows, columns, ITERATIONS);
    const double scale = rows > columns ? sqrt((double)rows / columns) : 1;
    for (int i = 0; i < rows * columns; i++) w[i] = w[i] * (1 - RATE * DECAY) - RATE * scale * ahead[i];
}

static void adamw_vector(double *w, double *m, double *v, const double *g, uint32_t step)
{
    for (int i = 0; i < COLUMNS; i++) {
        m[i] = 0.9 * m[i] + 0.1 * g[i];
        v[i] = 0.999 * v[i] + 0.001 * g[i] * g[i];
        const double first = m[i] / (1 - pow(0.9, step + 1.0)), second = v[i] / (1 - pow(0.999, step + 1.0));
        w[i] = w[i] * (1 - VECTOR_RATE * DECAY) - VECTOR_RATE * first / (sqrt(second) + 1e-7);
    }
}

static void gradients_of(const double *w, uint32_t step, double *g)
{
    float x_data[N * ROWS], y_data[N * COLUMNS];
    double x[N * ROWS], hidden[N * INNER], y[N * COLUMNS], dhidden[N * INNER];
    const int n = data_of(step, x_data, y_data);
    for (int i = 0; i < n * ROWS; i++) x[i] = (double)x_data[i];
    multiply_doubles(x, ROWS, 1, w, INNER, 1, n, ROWS, INNER, hidden);
    multiply_doubles(hidden, INNER, 1, w + A, COLUMNS, 1, n, INNER, COLUMNS, y);
    for (int j = 0; j < COLUMNS; j++) g[A + B + j] = 0;
    for (int i = 0; i < n * COLUMNS; i++) {
        y[i] = 2 * (y[i] + w[A + B + i % COLUMNS] - (double)y_data[i]) / COLUMNS / n; /* its gradient */
        g[A + B + i % COLUMNS] += y[i];
    }
    multiply_doubles(hidden, 1, INNER, y, COLUMNS, 1, INNER, n, COLUMNS, g + A);
    multiply_doubles(y, COLUMNS, 1, w + A, 1, COLUMNS, n, COLUMNS, INNER, dhidden);
    multiply_doubles(x, 1, ROWS, dhidden, INNER, 1, ROWS, n, INNER, g);
}

static void follows_double(rf_strategy *strategy)
{
    network w;
    float is[ALL];
    double expected[ALL], m[ALL] = { 0 }, v[COLUMNS] = { 0 }, g[ALL];
    open_network(strategy, &w);
    read_network(&w, is);
    for (int i = 0; i < ALL; i++) expected[i] = (double)is[i];
    for (uint32_t step = 0; step < TOTAL_STEPS; step++) {
        gradients_of(expected, step, g);
        muon_matrix(expected, m, g, ROWS, INNER);
        muon_matrix(expected + A, m + A, g + A, INNER, COLUMNS);
        adamw_vector(expected + A + B, m + A + B, v, g + A + B, step);
    }
    run_network(&w, 0, TOTAL_STEPS);
    read_network(&w, is);
    for (int i = 0; i < ALL; i++) assert_near((double)is[i], expected[i], 2e-4, 2e-4, "weight");
    OK(rf_variable_read(w.momentums[0], is));
    for (int i = 0; i < A; i++) assert_near((double)is[i], m[i], 2e-4, 2e-4, "momentum");
    close_network(&w);
}
TEST_ON_ONE(follows_double)
TEST_ON_TWO(follows_double)

/* With the momentums in the checkpoint, bit by bit. */
static void resumes(rf_strategy *strategy)
{
    char folder[SCRATCH_PATH], path[64];
    float expected[ALL], is[ALL];
    network w;
    snprintf(path, sizeof(path), "%s/x.rfck", scratch(folder));
    open_network(strategy, &w);
    run_network(&w, 0, 4);
    OK(rf_checkpoint_save(w.checkpoint, path, NULL));
    run_network(&w, 4, 9);
    read_network(&w, expected);
    close_network(&w);
    open_network(strategy, &w);
    OK(rf_checkpoint_restore(w.checkpoint, path, NULL));
    run_network(&w, 4, 9);
    read_network(&w, is);
    assert_memory_equal(is, expected, sizeof(is));
    close_network(&w);
    scratch_remove(folder);
}
TEST_ON_ONE(resumes)
TEST_ON_TWO(resumes)

/* ---- the kind of optimizer ---- */

enum { KIND_A = 24, KIND_B = 36, KIND_C = 9, KIND_ALL = KIND_A + KIND_B + KIND_C, KIND_STEPS = 5 };

/* Three variables learn rows of noise. */
typedef struct learner {
    rf_variable *variables[3];
    rf_optimizer *optimizer;
    rf_function *function;
    rf_checkpoint *checkpoint;
} learner;

static rf_result learner_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    static const int64_t ends[] = { 0, KIND_A, KIND_A + KIND_B, KIND_ALL };
    const learner *l = user;
    rf_tensor losses = { 0 };
    for (int i = 0; i < 3; i++) {
        const rf_tensor flat = rf_reshape(t, rf_variable_tensor(t, l->variables[i]), RF_SHAPE(1, -1));
        const int64_t begin[] = { 0, ends[i] }, end[] = { INT64_MAX, ends[i + 1] };
        const rf_tensor off = rf_subtract(t, flat, rf_slice(t, in[0], begin, end, NULL, 2));
        const rf_tensor sum = rf_reduce_sum(t, rf_square(t, off), (int32_t[]){ 1 }, 1, RF_DROP_DIMS);
        losses = i == 0 ? sum : rf_add(t, losses, sum);
    }
    out[0] = rf_compute_average_loss(t, losses, NULL);
    return rf_optimizer_minimize(t, l->optimizer, out[0], (rf_variable_list){ l->variables, 3 });
}

static void learner_open(rf_strategy *strategy, const rf_optimizer_params *params, const char *const *names,
                         const rf_shape *shapes, learner *l)
{
    float initial[KIND_ALL];
    const float *values[] = { initial, initial + KIND_A, initial + KIND_A + KIND_B };
    fill_noise(initial, KIND_ALL, 8);
    OK(rf_checkpoint_create(strategy, &l->checkpoint));
    for (int i = 0; i < 3; i++) {
        OK(rf_variable_create(strategy,
                              &(rf_variable_params){ .name = names[i], .shape = shapes[i], .value = values[i] },
                              &l->variables[i]));
        OK(rf_checkpoint_add_variable(l->checkpoint, names[i], l->variables[i]));
    }
    OK(rf_optimizer_create(strategy, params, &l->optimizer));
    OK(rf_checkpoint_add_optimizer(l->checkpoint, "optimizer", l->optimizer));
    OK(rf_function_create(strategy,
                          &(rf_function_params){ .step = learner_step, .user = l, .num_outputs = 1, .training = true },
                          &l->function));
}

static void learner_run(rf_strategy *strategy, learner *l, uint32_t first, uint32_t end)
{
    for (uint32_t i = first; i < end; i++) {
        float x[N * KIND_ALL];
        fill_noise(x, N * KIND_ALL, 50 + i);
        const rf_element batch = { 1, { array_f32(RF_SHAPE(N, KIND_ALL), x) } };
        OK(rf_strategy_run(strategy, l->function, &batch, NULL));
    }
}

static void learner_read(rf_strategy *strategy, const learner *l, float *w)
{
    OK(rf_variable_read(l->variables[0], w));
    OK(rf_variable_read(l->variables[1], w + KIND_A));
    OK(rf_variable_read(l->variables[2], w + KIND_A + KIND_B));
    OK(rf_strategy_check_identical(strategy, NULL, NULL));
}

static void learner_close(learner *l)
{
    rf_checkpoint_destroy(&l->checkpoint);
    rf_function_destroy(&l->function);
    rf_optimizer_destroy(&l->optimizer);
    for (int i = 0; i < 3; i++) rf_variable_destroy(&l->variables[i]);
}

static void learn(rf_strategy *strategy, const rf_optimizer_params *params, const char *const *names,
                  const rf_shape *shapes, float *w)
{
    learner l;
    learner_open(strategy, params, names, shapes, &l);
    learner_run(strategy, &l, 0, KIND_STEPS);
    learner_read(strategy, &l, w);
    learner_close(&l);
}

/* Names and dimensions decide: each case trains as one whose variables say the same in another way. */
static void chooses_matrices(rf_strategy *strategy)
{
    static const rf_muon_params rows[] = { { .row_dimensions = 1 }, { .row_dimensions = 2 } },
                                tables = { .embeddings = true }, adamw = { .adamw = true };
    static const rf_parameter_group by_rows[] = { { .names = "a", .muon = &rows[0] },
                                                  { .names = "b", .muon = &rows[1] } },
                                    with_tables = { .names = "*", .muon = &tables },
                                    head = { .names = "b", .muon = &adamw };
    const rf_shape matrices[] = { RF_SHAPE(4, 6), RF_SHAPE(12, 3), RF_SHAPE(9) },
                   deep[] = { RF_SHAPE(4, 2, 3), RF_SHAPE(3, 4, 3), RF_SHAPE(9) },
                   one[] = { RF_SHAPE(4, 6), RF_SHAPE(36), RF_SHAPE(9) },
                   none[] = { RF_SHAPE(24), RF_SHAPE(36), RF_SHAPE(9) };
    static const char *const plain[] = { "a", "b", "c" }, *const embeddings[] = { "a", "embedding_1", "c" };
    const struct {
        const char *what;
        const rf_parameter_group *groups;
        uint32_t num_groups;
        const char *const *names;
        const rf_shape *shapes, *same_as;
    } cases[] = {
        { "leading dimensions are rows", by_rows, 2, plain, deep, matrices },
        { "more than two dimensions", NULL, 0, plain, deep, none },
        { "an embedding", NULL, 0, embeddings, matrices, one },
        { "an embedding that is asked for", &with_tables, 1, embeddings, matrices, matrices },
        { "left to AdamW", &head, 1, plain, matrices, one },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        float is[KIND_ALL], expected[KIND_ALL];
        const rf_optimizer_params as_is = { .kind = RF_OPTIMIZER_MUON, .learning_rate = 0.02 };
        rf_optimizer_params params = as_is;
        params.groups = cases[i].groups;
        params.num_groups = cases[i].num_groups;
        learn(strategy, &params, cases[i].names, cases[i].shapes, is);
        learn(strategy, &as_is, plain, cases[i].same_as, expected);
        for (int k = 0; k < KIND_ALL; k++) assert_near(is[k], expected[k], 1e-6, 1e-6, cases[i].what);
    }
}
TEST_ON_ONE(chooses_matrices)

/* Bit by bit; slots have AdamW's names, and those of matrices hold momentums. */
static void kind_resumes(rf_strategy *strategy)
{
    static const char *const names[] = { "a", "b", "c" };
    const rf_shape shapes[] = { RF_SHAPE(4, 6), RF_SHAPE(12, 3), RF_SHAPE(9) };
    const rf_optimizer_params params = { .kind = RF_OPTIMIZER_MUON, .learning_rate = 0.02, .use_ema = true };
    char folder[SCRATCH_PATH], path[64];
    float expected[KIND_ALL], is[KIND_ALL], slot[KIND_A];
    learner l;
    snprintf(path, sizeof(path), "%s/x.rfck", scratch(folder));
    learner_open(strategy, &params, names, shapes, &l);
    learner_run(strategy, &l, 0, 3);
    OK(rf_checkpoint_save(l.checkpoint, path, NULL));
    learner_run(strategy, &l, 3, 7);
    learner_read(strategy, &l, expected);
    learner_close(&l);
    rf_archive *archive;
    OK(rf_archive_open(path, &archive));
    OK(rf_archive_read(archive, "optimizer/v/a", slot, sizeof(slot)));
    for (int i = 0; i < KIND_A; i++) assert_true(slot[i] == 0);
    OK(rf_archive_read(archive, "optimizer/m/a", slot, sizeof(slot)));
    for (int i = 0; i < KIND_A; i++) assert_true(slot[i] != 0);
    rf_archive_close(&archive);
    learner_open(strategy, &params, names, shapes, &l);
    OK(rf_checkpoint_restore(l.checkpoint, path, NULL));
    learner_run(strategy, &l, 3, 7);
    learner_read(strategy, &l, is);
    assert_memory_equal(is, expected, sizeof(is));
    learner_close(&l);
    scratch_remove(folder);
}
TEST_ON_ONE(kind_resumes)
TEST_ON_TWO(kind_resumes)

/* ---- orthogonal matrices ---- */

/* Two of each shape; with many steps the products with the transposes have diagonals about 1, and zeros beside. */
static rf_result orthogonal_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    (void)user;
    const rf_tensor tall = rf_orthogonalize(t, in[0], 12), wide = rf_orthogonalize(t, in[1], 12);
    out[0] = rf_matmul(t, tall, tall, RF_TRANSPOSE_A);
    out[1] = rf_matmul(t, wide, wide, RF_TRANSPOSE_B);
    return rf_trace_status(t);
}

static void makes_orthogonal_matrices(rf_strategy *strategy)
{
    float tall[2 * A], wide[2 * B];
    rf_function *f;
    rf_per_replica *results[2];
    fill_noise(tall, 2 * A, 3);
    fill_noise(wide, 2 * B, 4);
    OK(rf_function_create(strategy, &(rf_function_params){ .step = orthogonal_step, .num_outputs = 2 }, &f));
    const rf_element batch = {
        2, { array_f32(RF_SHAPE(2, ROWS, INNER), tall), array_f32(RF_SHAPE(2, INNER, COLUMNS), wide) }
    };
    OK(rf_strategy_run(strategy, f, &batch, results));
    for (int k = 0; k < 2; k++) {
        rf_array product;
        OK(rf_strategy_gather(strategy, results[k], &product));
        for (int i = 0; i < 2 * INNER * INNER; i++) {
            const bool diagonal = i / INNER % INNER == i % INNER;
            assert_near((double)((const float *)product.data)[i], diagonal ? 1 : 0, 0, diagonal ? 0.6 : 0.4, "product");
        }
        rf_array_free(&product);
    }
    rf_function_destroy(&f);
}
TEST_ON_ONE(makes_orthogonal_matrices)

/* ---- what is refused ---- */

static rf_result vector_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    (void)in;
    const network *w = user;
    const rf_tensor c = rf_variable_tensor(t, w->weights[2]);
    out[0] = rf_reduce_sum(t, rf_square(t, c), NULL, 0, RF_DROP_DIMS);
    rf_tensor gradient;
    const rf_result r = rf_gradients(t, out[0], &c, 1, &gradient);
    return r < 0 ? r
                 : rf_optimizer_apply_muon(t, w->muon, &gradient, (rf_variable_list){ &w->weights[2], 1 }, w->momentums,
                                           0, 0);
}

static void refuse(network *w, rf_step_fn step, rf_result result, const char *part)
{
    float x[N * ROWS], y[N * COLUMNS];
    rf_function *f;
    (void)data_of(0, x, y);
    OK(rf_function_create(w->strategy,
                          &(rf_function_params){ .step = step, .user = w, .num_outputs = 1, .training = true }, &f));
    const rf_element batch = { 2, { array_f32(RF_SHAPE(N, ROWS), x), array_f32(RF_SHAPE(N, COLUMNS), y) } };
    FAILS(rf_strategy_run(w->strategy, f, &batch, NULL), result, part);
    rf_function_destroy(&f);
}

static void refuses(rf_strategy *strategy)
{
    const struct {
        rf_optimizer_params params;
        rf_result result;
        const char *part;
    } rows[] = {
        { { .kind = RF_OPTIMIZER_ADAM }, RF_ERROR_INVALID_ARGUMENT, "is not RF_OPTIMIZER_SGD without a momentum" },
        { { .momentum = 0.9 }, RF_ERROR_INVALID_ARGUMENT, "is not RF_OPTIMIZER_SGD without a momentum" },
        { { .clip_norm = 1 }, RF_ERROR_INVALID_ARGUMENT, "the optimizer clips" },
        { { .accumulation_steps = 2 }, RF_ERROR_UNSUPPORTED, "the optimizer accumulates gradients" },
        { { .loss_scale = &(rf_loss_scale_params){ 0 } }, RF_ERROR_UNSUPPORTED, "the optimizer scales losses" },
    };
    network w;
    open_network(strategy, &w);
    refuse(&w, vector_step, RF_ERROR_INVALID_ARGUMENT, "rf_optimizer_apply_muon: 'c' is [9] and no matrix");
    rf_variable *const momentum = w.momentums[0];
    w.momentums[0] = w.momentums[1];
    refuse(&w, network_step, RF_ERROR_INVALID_ARGUMENT,
           "rf_optimizer_apply_muon: momentum 'b_momentum' is [4,9], but 'a' is [6,4]");
    w.momentums[0] = NULL;
    refuse(&w, network_step, RF_ERROR_INVALID_ARGUMENT, "rf_optimizer_apply_muon: a momentum is NULL");
    w.momentums[0] = momentum;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        rf_optimizer_destroy(&w.muon);
        OK(rf_optimizer_create(strategy, &rows[i].params, &w.muon));
        refuse(&w, network_step, rows[i].result, rows[i].part);
    }
    close_network(&w);
}
TEST_ON_ONE(refuses)

TESTS(muon, NULL, NULL)
