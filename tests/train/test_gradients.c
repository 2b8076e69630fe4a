/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients by what the step names: each handle is a target of its own. Powers and their slopes. */
#include <float.h>

#include "support.h"
#include "tests/room.h"

enum { COUNT = 5, MOST = 6 };

typedef struct run {
    rf_variable *x;
    rf_result (*body)(rf_trace *t, rf_tensor x, rf_tensor *out);
} run;

static rf_result step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    (void)in;
    const run *r = user;
    const rf_result result = r->body(t, rf_variable_tensor(t, r->x), out);
    return result < 0 ? result : rf_trace_status(t);
}

/* Runs the body on x = 1, 2, ..; values[i] are the elements of out[i]. */
static void run_body(rf_strategy *strategy, rf_result (*body)(rf_trace *t, rf_tensor x, rf_tensor *out),
                     uint32_t num_outputs, float values[][COUNT])
{
    float x[COUNT], nothing[2] = { 0 };
    for (int i = 0; i < COUNT; i++) x[i] = (float)(i + 1);
    run r = { .body = body };
    const rf_variable_params params = { .name = "x", .shape = RF_SHAPE(COUNT), .value = x };
    OK(rf_variable_create(strategy, &params, &r.x));
    rf_function *function;
    OK(rf_function_create(strategy, &(rf_function_params){ .step = step, .user = &r, .num_outputs = num_outputs },
                          &function));
    const rf_element batch = { 1, { array_f32(RF_SHAPE(2), nothing) } };
    rf_per_replica *results[RF_MAX_COMPONENTS];
    OK(rf_strategy_run(strategy, function, &batch, results));
    for (uint32_t i = 0; i < num_outputs; i++) {
        rf_array local;
        OK(rf_per_replica_local(results[i], 0, &local));
        assert_int_equal(rf_shape_count(local.shape), COUNT);
        memcpy(values[i], local.data, sizeof(values[i]));
    }
    rf_function_destroy(&function);
    rf_variable_destroy(&r.x);
}

static rf_tensor total(rf_trace *t, rf_tensor x)
{
    return rf_reduce_sum(t, x, NULL, 0, false);
}

/* f = sum(p q), p and q both x^2. */
static rf_result equal_expressions(rf_trace *t, rf_tensor x, rf_tensor *out)
{
    const rf_tensor p = rf_multiply(t, x, x), q = rf_multiply(t, x, x);
    const rf_tensor targets[] = { p, q, x };
    return rf_gradients(t, total(t, rf_multiply(t, p, q)), targets, 3, out);
}

/* f = sum(c d x), c and d both the constant 3. */
static rf_result equal_constants(rf_trace *t, rf_tensor x, rf_tensor *out)
{
    float threes[COUNT] = { 3, 3, 3, 3, 3 };
    const rf_array array = array_f32(RF_SHAPE(COUNT), threes);
    const rf_tensor c = rf_constant_array(t, &array), d = rf_constant_array(t, &array), targets[] = { c, d };
    return rf_gradients(t, total(t, rf_multiply(t, rf_multiply(t, c, d), x)), targets, 2, out);
}

/* f = sum(p q), where p and q come from x and nothing is computed. */
static rf_result nothing_computed(rf_trace *t, rf_tensor x, rf_tensor *out)
{
    const rf_tensor p[] = { rf_activate(t, x, RF_ACTIVATION_LINEAR), rf_dropout(t, x, 0.5f, 1), rf_cast(t, x, RF_F32),
                            x };
    rf_tensor product = x;
    for (int i = 0; i < 3; i++) product = rf_multiply(t, product, p[i]);
    return rf_gradients(t, total(t, product), p, 4, out);
}

/* The gradients of sum(z + y) by z and by y are equal, but each is a value of its own: f = sum(g h^2 x). */
static rf_result equal_gradients(rf_trace *t, rf_tensor x, rf_tensor *out)
{
    const rf_tensor y = rf_add(t, x, x), z = rf_stop_gradient(t, x), zs[] = { z, y };
    rf_tensor gh[2], same[2];
    rf_result r = rf_gradients(t, total(t, rf_add(t, z, y)), zs, 2, gh);
    if (r < 0) return r;
    const rf_tensor f = total(t, rf_multiply(t, rf_multiply(t, gh[0], rf_square(t, gh[1])), x));
    r = rf_gradients(t, f, gh, 2, same);
    if (r < 0) return r;
    out[0] = gh[0];
    out[1] = gh[1];
    out[2] = same[0];
    out[3] = same[1];
    return RF_OK;
}

static void expect(const float values[COUNT], double factor, int power, const char *what)
{
    for (int i = 0; i < COUNT; i++) assert_near(values[i], factor * pow(i + 1, power), 1e-6, 0, what);
}

static void every_handle_is_a_target(rf_strategy *strategy)
{
    float v[MOST][COUNT];
    run_body(strategy, equal_expressions, 3, v);
    expect(v[0], 1, 2, "by p");
    expect(v[1], 1, 2, "by q");
    expect(v[2], 4, 3, "by x");
    run_body(strategy, equal_constants, 2, v);
    expect(v[0], 3, 1, "by c");
    expect(v[1], 3, 1, "by d");
    run_body(strategy, nothing_computed, 4, v);
    expect(v[0], 1, 3, "by the linear activation");
    expect(v[1], 1, 3, "by the dropout");
    expect(v[2], 1, 3, "by the cast");
    expect(v[3], 4, 3, "by x");
    run_body(strategy, equal_gradients, 4, v);
    expect(v[0], 1, 0, "g");
    expect(v[1], 1, 0, "h");
    expect(v[2], 1, 1, "by g");
    expect(v[3], 2, 1, "by h");
}
ON_LISTS(every_handle_is_a_target, _on_each, 0, 2, 2)

/* ---- pow ---- */

typedef struct power {
    float a, b;
} power;

static const power powers[] = {
    /* x^0 is 1 for every x, and does not depend on it */
    { 0, 0 },
    { -0.0f, 0 },
    { 0, -0.0f },
    { 3, 0 },
    { -3, 0 },
    { INFINITY, 0 },
    { -INFINITY, 0 },
    { NAN, 0 },
    { 0x1p-140f, 0 },
    /* 1^x is 1 for every x */
    { 1, INFINITY },
    { 1, -INFINITY },
    { 1, NAN },
    { 1, 1e30f },
    { -1, INFINITY },
    { -1, -INFINITY },
    /* zeros */
    { 0, 1 },
    { 0, 2 },
    { 0, 0.5f },
    { -0.0f, 3 },
    { -0.0f, 0.5f },
    { 0, -1 },
    { -0.0f, -1 },
    { -0.0f, -2 },
    { 0, INFINITY },
    { 0, -INFINITY },
    /* infinities, NaN */
    { INFINITY, 2 },
    { INFINITY, -2 },
    { -INFINITY, 3 },
    { -INFINITY, 2 },
    { -INFINITY, -3 },
    { -INFINITY, 0.5f },
    { 2, INFINITY },
    { 2, -INFINITY },
    { 0.5f, INFINITY },
    { 0.5f, -INFINITY },
    { -2, INFINITY },
    { -0.5f, -INFINITY },
    { INFINITY, INFINITY },
    { INFINITY, -INFINITY },
    { NAN, 2 },
    { 2, NAN },
    { NAN, NAN },
    { 0, NAN },
    { NAN, -1 },
    /* negative bases: whole exponents, and others */
    { -2, 3 },
    { -2, 2 },
    { -2, -3 },
    { -1.5f, 1 },
    { -1, 16777215 },
    { -1, 16777216 },
    { -1, 3e9f },
    { -2, 0.5f },
    { -2, 1.5f },
    { -0.25f, 1e-3f },
    /* small bases, down to denormal ones, and large ones */
    { 1e-37f, 0.5f },
    { 1e-38f, 0.5f },
    { -1e-38f, 1 },
    { 2e-38f, 1 },
    { 1e-38f, -0.5f },
    { 0x1p-140f, 0.5f },
    { 0x1p-149f, 0.25f },
    { 0x1p-149f, -0.25f },
    { 3e38f, 0.5f },
    { 3e38f, 2 },
    { -3e38f, 3 },
    { 10, 38 },
    { 10, 39 },
    { 10, -37 },
    { 10, -60 },
    { 1.5f, 2.5f },
    { 0.999999f, 1000 },
};
enum { NUM_POWERS = sizeof(powers) / sizeof(powers[0]) };

/* `more`: an absolute error on top. */
static void expect_power(double got, double want, double more, const power *p, const char *what)
{
    /* Numbers below the smallest normal one may be flushed, factors that the exponent multiplies too; log2 near 1 is
     * known to 2^-21 (Vulkan), times the exponent. */
    const double exponent = fmin(fabs((double)p->b), 0x1p24), tolerance = 2e-5 + exponent * 0x1p-21;
    const bool same = isnan(want) ? isnan(got)
                      : isinf(want) || fabs(want) > FLT_MAX
                          ? isinf(got) && signbit(got) == signbit(want)
                          : fabs(got - want) <= tolerance * fabs(want) + (1 + exponent) * (double)FLT_MIN + more;
    if (!same) fail_msg("%a ^ %a: %s is %g, not %g", (double)p->a, (double)p->b, what, got, want);
}

static rf_result power_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    (void)user;
    out[0] = rf_pow(t, in[0], in[1]);
    const rf_result r = rf_gradients(t, rf_reduce_sum(t, out[0], NULL, 0, false), in, 2, out + 1);
    return r < 0 ? r : rf_trace_status(t);
}

static void pow_is_that_of_c(rf_strategy *strategy)
{
    float a[NUM_POWERS], b[NUM_POWERS];
    for (int i = 0; i < NUM_POWERS; i++) a[i] = powers[i].a, b[i] = powers[i].b;
    const rf_element batch = { 2, { array_f32(RF_SHAPE(NUM_POWERS), a), array_f32(RF_SHAPE(NUM_POWERS), b) } };
    rf_function *function;
    OK(rf_function_create(strategy, &(rf_function_params){ .step = power_step, .num_outputs = 3 }, &function));
    rf_per_replica *results[RF_MAX_COMPONENTS];
    OK(rf_strategy_run(strategy, function, &batch, results));
    rf_array got[3];
    for (int i = 0; i < 3; i++) OK(rf_per_replica_local(results[i], 0, &got[i]));
    for (int i = 0; i < NUM_POWERS; i++) {
        const power *p = &powers[i];
        const double x = (double)p->a, e = (double)p->b, y = pow(x, e);
        const double by_a = e == 0 ? 0 : e * pow(x, e - 1), by_b = x == 0 && e >= 0 ? 0 : y * log(x);
        expect_power(((float *)got[0].data)[i], y, 0, p, "the power");
        expect_power(((float *)got[1].data)[i], by_a, 0, p, "the slope by the base");
        expect_power(((float *)got[2].data)[i], by_b, isfinite(y) ? fabs(y) * 0x1p-21 : 0, p,
                     "the slope by the exponent");
    }
    rf_function_destroy(&function);
}
ON_LISTS(pow_is_that_of_c, _on_each, 0, 2, 2)

TEST_PROGRAM(gradients)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(every_handle_is_a_target_on_each),
                                        cmocka_unit_test(pow_is_that_of_c_on_each) };
    return cmocka_run_group_tests_name("train_gradients", tests, NULL, NULL);
}
