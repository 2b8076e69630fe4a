/* SPDX-License-Identifier: Apache-2.0 */
/* rf_top_k() in steps: on replicas that share a batch, its gradient, and what it refuses. */
#include "support.h"

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
    const rf_tensor loss = rf_reduce_sum(t, rf_square(t, out[0]), NULL, 0, false);
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
ON_ONE(takes_the_largest)
ON_TWO(takes_the_largest)

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
    rf_variable_destroy(&p.w);
}
ON_ONE(refuses)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_the_largest_on_one),
        cmocka_unit_test(takes_the_largest_on_two),
        cmocka_unit_test(refuses_on_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
