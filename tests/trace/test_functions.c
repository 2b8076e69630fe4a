/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of elements in a step: values and slopes, also where formulas overflow or have a kink; what is refused. */
#include "../support/strategies.h"
#include "tests/room.h"

enum { N = 24, EACH = RF_MAX_COMPONENTS / 2 };

typedef struct function {
    const char *name;
    rf_tensor (*call)(rf_trace *t, rf_tensor x);
    double (*exact)(double x);
    double (*slope)(double x);
    bool positive; /* is asked about |x| + 1/4 */
} function;

static rf_tensor elu_of(rf_trace *t, rf_tensor x)
{
    return rf_elu(t, x, 1.5f);
}

static double rsqrt_exact(double x)
{
    return 1 / sqrt(x);
}
static double rsqrt_slope(double x)
{
    return -0.5 / (x * sqrt(x));
}
static double inverse_after_1(double x)
{
    return 1 / (1 + x);
}
static double minus_sin(double x)
{
    return -sin(x);
}
static double erf_slope(double x)
{
    return 1.1283791670955126 * exp(-x * x);
}
static double sign_exact(double x)
{
    return (x > 0) - (x < 0);
}
static double zero(double x)
{
    (void)x;
    return 0;
}
static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}
static double softplus_exact(double x)
{
    return fmax(x, 0) + log1p(exp(-fabs(x)));
}
static double silu_exact(double x)
{
    return x * sigmoid(x);
}
static double silu_slope(double x)
{
    return sigmoid(x) * (1 + x * (1 - sigmoid(x)));
}
static double elu_exact(double x)
{
    return x > 0 ? x : 1.5 * expm1(x);
}
static double elu_slope(double x)
{
    return x > 0 ? 1 : 1.5 * exp(x);
}
static double selu_exact(double x)
{
    return 1.05070098 * (x > 0 ? x : 1.67326324 * expm1(x));
}
static double selu_slope(double x)
{
    return 1.05070098 * (x > 0 ? 1 : 1.67326324 * exp(x));
}

static double hard_silu_exact(double x)
{
    return x * fmin(fmax(x + 3, 0), 6) / 6;
}
static double hard_silu_slope(double x)
{
    return x <= -3 ? 0 : x >= 3 ? 1 : x / 3 + 0.5;
}
static double hard_sigmoid_exact(double x)
{
    return fmin(fmax(x + 3, 0), 6) / 6;
}
static double hard_sigmoid_slope(double x)
{
    return x < -3 || x > 3 ? 0 : 1.0 / 6;
}
static double mish_exact(double x)
{
    return x * tanh(softplus_exact(x));
}
static double mish_slope(double x)
{
    const double gate = tanh(softplus_exact(x));
    return gate + x * (1 - gate * gate) * sigmoid(x);
}

static const function functions[] = {
    { "softplus", rf_softplus, softplus_exact, sigmoid, false },
    { "silu", rf_silu, silu_exact, silu_slope, false },
    { "hard_silu", rf_hard_silu, hard_silu_exact, hard_silu_slope, false },
    { "hard_sigmoid", rf_hard_sigmoid, hard_sigmoid_exact, hard_sigmoid_slope, false },
    { "mish", rf_mish, mish_exact, mish_slope, false },
    { "elu", elu_of, elu_exact, elu_slope, false },
    { "selu", rf_selu, selu_exact, selu_slope, false },
    { "rsqrt", rf_rsqrt, rsqrt_exact, rsqrt_slope, true },
    { "log1p", rf_log1p, log1p, inverse_after_1, true },
    { "erf", rf_erf, erf, erf_slope, false },
    { "sin", rf_sin, sin, cos, false },
    { "cos", rf_cos, cos, minus_sin, false },
    { "sign", rf_sign, sign_exact, zero, false },
    { "floor", rf_floor, floor, zero, false },
    { "round", rf_round, rint, zero, false },
    { "expm1", rf_expm1, expm1, exp, true },
};
enum { NUM_FUNCTIONS = sizeof(functions) / sizeof(functions[0]) };

/* Noise, after zero and what overflows an exponential function. */
static void fill_inputs(float *x, float *positive)
{
    static const float special[] = { 0, 100, -100, 1e-3f, -1e-3f, 2.5f, -0.5f, 20 };
    fill_noise(x, N, 5);
    for (int i = 0; i < N; i++) {
        x[i] = i < 8 ? special[i] : 3 * x[i];
        positive[i] = fminf(fabsf(x[i]), 9) + 0.25f;
    }
}

/* The sum of each function, and its slopes weighted by their places. */
static rf_result evaluate(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const function *from = user;
    float places[N];
    for (int i = 0; i < N; i++) places[i] = (float)(i + 1);
    const rf_array row = array_f32(RF_SHAPE(N), places);
    const rf_tensor weights = rf_constant_array(t, &row);
    for (int k = 0; k < EACH && from + k < functions + NUM_FUNCTIONS; k++) {
        const rf_tensor x = in[from[k].positive];
        rf_tensor slopes;
        out[2 * k] = rf_reduce_sum(t, rf_multiply(t, from[k].call(t, x), weights), NULL, 0, RF_DROP_DIMS);
        (void)rf_gradients(t, out[2 * k], &x, 1, &slopes);
        out[2 * k + 1] = rf_reduce_sum(t, slopes, NULL, 0, RF_DROP_DIMS);
    }
    return rf_trace_status(t);
}

static void functions_and_slopes(rf_strategy *strategy)
{
    float x[N], positive[N], is[RF_MAX_COMPONENTS];
    fill_inputs(x, positive);
    const rf_element batch = { 2, { array_f32(RF_SHAPE(1, N), x), array_f32(RF_SHAPE(1, N), positive) } };
    for (int from = 0; from < NUM_FUNCTIONS; from += EACH) {
        const int count = NUM_FUNCTIONS - from < EACH ? NUM_FUNCTIONS - from : EACH;
        rf_function *step;
        const rf_function_params params = { .step = evaluate,
                                            .user = (void *)&functions[from],
                                            .num_outputs = (uint32_t)(2 * count) };
        OK(rf_function_create(strategy, &params, &step));
        run_once(strategy, step, &batch, is, (uint32_t)(2 * count));
        rf_function_destroy(&step);
        for (int k = 0; k < count; k++) {
            const function *f = &functions[from + k];
            double sum = 0, slopes = 0, size = 0, slope_size = 0;
            for (int i = 0; i < N; i++) {
                const double at = (double)(f->positive ? positive[i] : x[i]);
                sum += (i + 1) * f->exact(at);
                size += (i + 1) * fabs(f->exact(at));
                slopes += (i + 1) * f->slope(at);
                slope_size += (i + 1) * fabs(f->slope(at));
            }
            assert_near(is[2 * k], sum, 0, 3e-6 * size, f->name);
            assert_near(is[2 * k + 1], slopes, 0, 3e-6 * slope_size, f->name);
        }
    }
}

static rf_result not_a_number_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const function *from = user;
    const rf_tensor x = rf_multiply(t, in[0], rf_constant(t, NAN));
    for (int k = 0; k < EACH && from + k < functions + NUM_FUNCTIONS; k++)
        out[k] = rf_reduce_max(t, from[k].call(t, x), NULL, 0, RF_DROP_DIMS);
    return rf_trace_status(t);
}

/* The composed ones come first. */
static void not_a_number(rf_strategy *strategy)
{
    float x[N], positive[N], is[EACH];
    fill_inputs(x, positive);
    const rf_element batch = { 1, { array_f32(RF_SHAPE(1, N), x) } };
    rf_function *step;
    const rf_function_params params = { .step = not_a_number_step, .user = (void *)functions, .num_outputs = EACH };
    OK(rf_function_create(strategy, &params, &step));
    run_once(strategy, step, &batch, is, EACH);
    rf_function_destroy(&step);
    for (int k = 0; k < EACH; k++)
        if (!isnan(is[k])) fail_msg("%s of NaN is %g", functions[k].name, (double)is[k]);
}

/* ---- moments ---- */

enum { A = 3, B = 5, C = 7, VOLUME = A * B * C };
typedef struct axes {
    int32_t axis[2];
    uint32_t count;
    bool keep_dims;
    rf_shape shape; /* of the moments */
} axes;
/* All but the last, for which there is a kernel of its own; a middle one; the outer ones; all. */
static const axes each_axes[] = {
    { { 1, 0 }, 2, false, { 1, { C } } }, { { 0, 1 }, 2, true, { 3, { 1, 1, C } } },
    { { 1 }, 1, false, { 2, { A, C } } }, { { 0, -1 }, 2, true, { 3, { 1, B, 1 } } },
    { { 0 }, 0, false, { 0 } },
};

/* Means and variances, each times its place, and their sum's gradient, each element times its place. */
static rf_result weigh_moments(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const axes *over = user;
    const int32_t batch = 0; /* of one example */
    float places[VOLUME];
    for (int i = 0; i < VOLUME; i++) places[i] = (float)(i + 1);
    const rf_array few = array_f32(over->shape, places), all = array_f32(RF_SHAPE(A, B, C), places);
    const rf_tensor x = rf_reshape(t, rf_reduce_sum(t, in[0], &batch, 1, RF_DROP_DIMS), RF_SHAPE(A, B, C)),
                    weights = rf_constant_array(t, &few);
    rf_tensor mean, variance, slopes;
    if (rf_moments(t, x, over->axis, over->count, over->keep_dims ? RF_KEEP_DIMS : RF_DROP_DIMS, &mean, &variance) < 0)
        return rf_trace_status(t);
    out[0] = rf_reduce_sum(t, rf_multiply(t, mean, weights), NULL, 0, RF_DROP_DIMS);
    out[1] = rf_reduce_sum(t, rf_multiply(t, variance, weights), NULL, 0, RF_DROP_DIMS);
    (void)rf_gradients(t, rf_add(t, out[0], out[1]), &x, 1, &slopes);
    out[2] = rf_reduce_sum(t, rf_multiply(t, slopes, rf_constant_array(t, &all)), NULL, 0, RF_DROP_DIMS);
    return rf_trace_status(t);
}

/* The moment that element (a, b, c) belongs to. */
static int moment_of(const axes *over, int a, int b, int c)
{
    bool reduced[3] = { over->count == 0, over->count == 0, over->count == 0 };
    for (uint32_t i = 0; i < over->count; i++) reduced[(over->axis[i] + 3) % 3] = true;
    const int at[3] = { a, b, c }, size[3] = { A, B, C };
    int index = 0;
    for (int i = 0; i < 3; i++)
        if (!reduced[i]) index = index * size[i] + at[i];
    return index;
}

static void exact_moments(const axes *over, const float *x, double is[3])
{
    double count[VOLUME] = { 0 }, mean[VOLUME] = { 0 }, variance[VOLUME] = { 0 };
    int of[VOLUME];
    for (int i = 0; i < VOLUME; i++) {
        of[i] = moment_of(over, i / (B * C), i / C % B, i % C);
        count[of[i]]++;
        mean[of[i]] += (double)x[i];
    }
    for (int k = 0; k < VOLUME && count[k] > 0; k++) mean[k] /= count[k];
    for (int i = 0; i < VOLUME; i++) variance[of[i]] += pow((double)x[i] - mean[of[i]], 2) / count[of[i]];
    is[0] = is[1] = is[2] = 0;
    for (int k = 0; k < VOLUME && count[k] > 0; k++) {
        is[0] += (k + 1) * mean[k];
        is[1] += (k + 1) * variance[k];
    }
    for (int i = 0; i < VOLUME; i++)
        is[2] += (i + 1) * (of[i] + 1) * (1 + 2 * ((double)x[i] - mean[of[i]])) / count[of[i]];
}

static void moments(rf_strategy *strategy)
{
    float x[VOLUME];
    fill_noise(x, VOLUME, 9);
    for (int i = 0; i < VOLUME; i++) x[i] += 2;
    const rf_element batch = { 1, { array_f32(RF_SHAPE(1, VOLUME), x) } };
    for (size_t k = 0; k < sizeof(each_axes) / sizeof(each_axes[0]); k++) {
        float is[3];
        double exact[3];
        rf_function *step;
        OK(rf_function_create(
            strategy, &(rf_function_params){ .step = weigh_moments, .user = (void *)&each_axes[k], .num_outputs = 3 },
            &step));
        run_once(strategy, step, &batch, is, 3);
        rf_function_destroy(&step);
        exact_moments(&each_axes[k], x, exact);
        assert_near(is[0], exact[0], 1e-5, 0, "means");
        assert_near(is[1], exact[1], 1e-5, 0, "variances");
        assert_near(is[2], exact[2], 1e-4, 0, "gradient");
    }
}

static rf_result axis_is_not_there(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    (void)user;
    const int32_t axis = 2;
    return rf_moments(t, in[0], &axis, 1, RF_DROP_DIMS, &out[0], &out[0]);
}

static rf_result axis_is_there_twice(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    (void)user;
    return rf_moments(t, in[0], (const int32_t[]){ 1, -1 }, 2, RF_DROP_DIMS, &out[0], &out[0]);
}

static rf_result no_variance(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    (void)user;
    return rf_moments(t, in[0], NULL, 0, RF_DROP_DIMS, &out[0], NULL);
}

static rf_result negative_alpha(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    (void)user;
    out[0] = rf_elu(t, in[0], -1);
    return rf_trace_status(t);
}

static rf_result no_tensor(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    (void)in;
    (void)user;
    out[0] = rf_selu(t, (rf_tensor){ 0 });
    return rf_trace_status(t);
}

static void refuse(rf_strategy *strategy, rf_step_fn fn, const char *part)
{
    float x[N] = { 0 };
    const rf_element batch = { 1, { array_f32(RF_SHAPE(1, N), x) } };
    rf_function *step;
    OK(rf_function_create(strategy, &(rf_function_params){ .step = fn, .num_outputs = 1 }, &step));
    FAILS(rf_strategy_run(strategy, step, &batch, NULL), RF_ERROR_INVALID_ARGUMENT, part);
    rf_function_destroy(&step);
}

static void mistakes(rf_strategy *strategy)
{
    refuse(strategy, negative_alpha, "rf_elu: alpha is -1");
    refuse(strategy, no_tensor, "rf_selu: x");
    refuse(strategy, axis_is_not_there, "rf_moments: axis 2 does not exist in shape");
    refuse(strategy, axis_is_there_twice, "rf_moments: axis -1 of shape");
    refuse(strategy, no_variance, "rf_moments: variance is NULL");
}

TEST_ON_ONE(functions_and_slopes)
TEST_ON_ONE(not_a_number)
TEST_ON_ONE(moments)
TEST_ON_ONE(mistakes)

TESTS(functions, NULL, NULL)
