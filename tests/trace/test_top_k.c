/* SPDX-License-Identifier: Apache-2.0 */
/* rf_top_k(), rf_sort() and rf_argsort() in steps: on replicas that share a batch, gradients, and what they refuse. */
#include "../support/strategies.h"
#include "tests/room.h"

enum { N = 7, C = 9, K = 3 };

typedef struct products {
    rf_variable *w;
    int32_t k;
    bool values_only;
} products;

/* The largest products of each row, where they are, and the gradient of their sum by w. */
static rf_result step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const products *p = user;
    const rf_tensor w = rf_variable_tensor(t, p->w), x = rf_multiply(t, in[0], w);
    (void)rf_top_k(t, x, p->k, &out[0], p->values_only ? NULL : &out[1]);
    if (p->values_only) out[1] = out[0];
    const rf_tensor loss = rf_reduce_sum(t, rf_square(t, out[0]), NULL, 0, RF_DROP_DIMS);
    return rf_gradients(t, loss, &w, 1, &out[2]);
}

/* Which column is place `i` of the row: by counting those that come before it. */
static int column_of(const float *row, int i)
{
    for (int c = 0; c < C; c++) {
        int before = 0;
        for (int o = 0; o < C; o++) before += row[o] > row[c] || (row[o] == row[c] && o < c);
        if (before == i) return c;
    }
    return -1;
}

static void takes_the_largest(rf_strategy *strategy)
{
    float x[N * C], w[C], gradient[C] = { 0 }, expected[C] = { 0 };
    products p = { .k = K };
    rf_function *f;
    rf_per_replica *results[3];
    rf_array values, indices;
    fill_noise(x, N * C, 3);
    for (int c = 0; c < C; c++) w[c] = 1.0f + (float)c;
    for (int c = 0; c < C; c++) x[2 * C + c] = 0.5f / w[c]; /* a row of equal products */
    OK(rf_variable_create(strategy, &(rf_variable_params){ .shape = RF_SHAPE(C), .value = w, .name = "w" }, &p.w));
    OK(rf_function_create(strategy, &(rf_function_params){ .step = step, .user = &p, .num_outputs = 3 }, &f));
    const rf_element batch = { .num_components = 1, .component = { array_f32(RF_SHAPE(N, C), x) } };
    OK(rf_strategy_run(strategy, f, &batch, results));
    OK(rf_strategy_gather(strategy, results[0], &values));
    OK(rf_strategy_gather(strategy, results[1], &indices));
    for (uint32_t r = 0; r < rf_strategy_num_replicas_in_sync(strategy); r++) {
        rf_array part;
        OK(rf_per_replica_local(results[2], r, &part));
        for (int c = 0; c < C; c++) gradient[c] += ((const float *)part.data)[c];
    }
    assert_true(rf_shape_equal(values.shape, RF_SHAPE(N, K)) && rf_shape_equal(indices.shape, RF_SHAPE(N, K)));
    for (int n = 0; n < N; n++) {
        float row[C];
        for (int c = 0; c < C; c++) row[c] = x[n * C + c] * w[c];
        for (int i = 0; i < K; i++) {
            const int c = column_of(row, i);
            assert_true(((const float *)values.data)[n * K + i] == row[c]);
            assert_int_equal(((const int32_t *)indices.data)[n * K + i], c);
            expected[c] += 2 * row[c] * x[n * C + c];
        }
    }
    for (int c = 0; c < C; c++) assert_near(gradient[c], expected[c], 1e-5, 1e-6, "gradient");
    rf_array_free(&values);
    rf_array_free(&indices);
    rf_function_destroy(&f);
    rf_variable_destroy(&p.w);
}
TEST_ON_ONE(takes_the_largest)
TEST_ON_TWO(takes_the_largest)

/* ---- sorting ---- */

enum { ROWS = 4 };

/* x [n, ROWS, C] along its last axis, descending, and along the one before, with places; the gradient of squares. */
static rf_result sorting_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    (void)user;
    out[0] = rf_sort(t, in[0], -1, RF_DESCENDING);
    out[1] = rf_sort(t, in[0], 1, RF_ASCENDING);
    out[2] = rf_argsort(t, in[0], 1, RF_ASCENDING);
    const rf_tensor weighted = rf_multiply(t, rf_square(t, out[1]), in[1]);
    return rf_gradients(t, rf_reduce_sum(t, weighted, NULL, 0, RF_DROP_DIMS), &in[0], 1, &out[3]);
}

/* Whether b comes at or before a, of elements of a line `stride` apart. */
static bool is_sorted(const float *line, int count, int stride, bool descending)
{
    for (int i = 1; i < count; i++) {
        const float a = line[(i - 1) * stride], b = line[i * stride];
        if (isnan(a) ? !isnan(b) : descending ? a < b : a > b) return false;
    }
    return true;
}

static void sorts(rf_strategy *strategy)
{
    float x[N * ROWS * C], weights[N * ROWS * C];
    rf_function *f;
    rf_per_replica *results[4];
    rf_array y[4];
    fill_noise(x, N * ROWS * C, 5);
    fill_noise(weights, N * ROWS * C, 6);
    x[3 * ROWS * C + 1] = x[3 * ROWS * C + 1 + 2 * C] = 0.25f; /* equal ones keep their order */
    x[5 * ROWS * C + 4] = NAN;
    OK(rf_function_create(strategy, &(rf_function_params){ .step = sorting_step, .num_outputs = 4 }, &f));
    const rf_element batch = {
        .num_components = 2,
        .component = { array_f32(RF_SHAPE(N, ROWS, C), x), array_f32(RF_SHAPE(N, ROWS, C), weights) },
    };
    OK(rf_strategy_run(strategy, f, &batch, results));
    for (int i = 0; i < 4; i++) OK(rf_strategy_gather(strategy, results[i], &y[i]));
    const float *rows = y[0].data, *lines = y[1].data, *gradient = y[3].data;
    const int32_t *places = y[2].data;
    for (int r = 0; r < N * ROWS; r++) assert_true(is_sorted(rows + r * C, C, 1, true));
    for (int n = 0; n < N; n++)
        for (int c = 0; c < C; c++) {
            const int first = n * ROWS * C + c;
            assert_true(is_sorted(lines + first, ROWS, C, false));
            for (int i = 0; i < ROWS; i++) {
                const int at = first + i * C, from = first + places[at] * C;
                assert_true(lines[at] == x[from] || (isnan(lines[at]) && isnan(x[from])));
                if (i > 0 && lines[at] == lines[at - C]) assert_true(places[at] > places[at - C]);
                if (!isnan(x[from]))
                    assert_near(gradient[from], 2 * x[from] * weights[at], 1e-6, 1e-7, "gradient of a sort");
            }
        }
    assert_true(isnan(lines[5 * ROWS * C + 4 + 3 * C]) && places[5 * ROWS * C + 4 + 3 * C] == 0);
    for (int i = 0; i < 4; i++) rf_array_free(&y[i]);
    rf_function_destroy(&f);
}
TEST_ON_ONE(sorts)
TEST_ON_TWO(sorts)

/* Along the batch, however long it is: each of the runs has another one. */
static rf_result batch_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    (void)user;
    out[0] = rf_sort(t, in[0], 0, RF_ASCENDING);
    return rf_trace_status(t);
}

static void sorts_the_batch(rf_strategy *strategy)
{
    rf_function *f;
    OK(rf_function_create(strategy, &(rf_function_params){ .step = batch_step, .num_outputs = 1 }, &f));
    for (int n = 1; n <= N; n += 3) {
        float x[N * C];
        rf_per_replica *result;
        rf_array y;
        fill_noise(x, N * C, 8);
        const rf_element batch = { .num_components = 1, .component = { array_f32(RF_SHAPE(n, C), x) } };
        OK(rf_strategy_run(strategy, f, &batch, &result));
        OK(rf_strategy_gather(strategy, result, &y));
        for (int c = 0; c < C; c++) assert_true(is_sorted((const float *)y.data + c, n, C, false));
        rf_array_free(&y);
    }
    rf_function_destroy(&f);
}
TEST_ON_ONE(sorts_the_batch)

/* ---- what is refused ---- */

static rf_result wrong_axis(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    (void)user;
    out[0] = rf_argsort(t, in[0], 2, RF_ASCENDING);
    return rf_trace_status(t);
}

static rf_result without_values(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    (void)user;
    return rf_top_k(t, in[0], 1, NULL, &out[0]);
}

static void refuse(rf_strategy *strategy, rf_step_fn fn, void *user, uint32_t outputs, const char *part)
{
    float x[N * C] = { 0 };
    rf_function *f;
    OK(rf_function_create(strategy, &(rf_function_params){ .step = fn, .user = user, .num_outputs = outputs }, &f));
    const rf_element batch = { .num_components = 1, .component = { array_f32(RF_SHAPE(N, C), x) } };
    FAILS(rf_strategy_run(strategy, f, &batch, NULL), RF_ERROR_INVALID_ARGUMENT, part);
    rf_function_destroy(&f);
}

static void refuses(rf_strategy *strategy)
{
    products p = { .k = C + 1 };
    float w[C] = { 0 };
    OK(rf_variable_create(strategy, &(rf_variable_params){ .shape = RF_SHAPE(C), .value = w, .name = "w" }, &p.w));
    refuse(strategy, step, &p, 3, "top_k: k is 10, must be 1 to 9 for x of shape [");
    p.k = 0;
    p.values_only = true;
    refuse(strategy, step, &p, 3, "top_k: k is 0, must be 1 to 9");
    refuse(strategy, without_values, NULL, 1, "rf_top_k: values is NULL");
    refuse(strategy, wrong_axis, NULL, 1, "rf_argsort: shape [7,9] has no axis 2");
    rf_variable_destroy(&p.w);
}
TEST_ON_ONE(refuses)

TESTS(top_k, NULL, NULL)
