/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Activations against double precision, at arguments from the smallest to the largest of both signs: alone, and fused
 * into a product and into a convolution (each by a factor of 1), by every kernel on every device (argument: whole; else
 * where there are many they take turns). So are other functions, which are never fused into those, by one kernel.
 */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../skip.h"
#include "base/error.h"
#include "base/memory.h"
#include "exec/exec.h"
#include "ops/ops.h"
#include "tests/room.h"

enum { LINES = 500, COLUMNS = 4, POINTS = LINES * COLUMNS };

static float points[POINTS];

/* Half of them even, from -14 to 14, half of them by powers, from 1e-37 to 100. */
static void make_points(void)
{
    for (int i = 0; i < POINTS / 2; i++) points[i] = -14.0f + 28.0f * (float)i / (float)(POINTS / 2 - 1);
    for (int i = 0; i < POINTS / 2; i++) {
        const double power = -37.0 + 39.0 * (i / 2) / (POINTS / 4 - 1);
        points[POINTS / 2 + i] = (float)(pow(10.0, power) * (i % 2 ? -1 : 1));
    }
}

/* ---- what is right, and how far off one may be ---- */

typedef struct activation {
    rf_activation fused;
    rf_scalar_fn alone;
    float imm;
    double (*exact)(double x);
    double rtol;     /* of the value, plus what an error of x in exp(x^2 / 2) does to it */
    double exponent; /* 1: exp(-x^2 / 2) is a factor for negative x; Vulkan grants exp(y) an error of (3 + 2|y|) ulp */
    const char *alone_name; /* of what is no activation */
    double atol;            /* times |x| up to 1 */
    double term;            /* 1: exp(x) is a term from 0.5 on */
} activation;

static const char *name_of(const activation *a)
{
    return a->alone_name ? a->alone_name : rf_activation_name(a->fused);
}

static double exact_relu(double x)
{
    return x > 0 ? x : 0;
}
static double exact_leaky_relu(double x)
{
    return x > 0 ? x : (double)0.2f * x;
}
static double exact_sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}
static double exact_gelu(double x)
{
    return 0.5 * x * erfc(-x * 0.70710678118654752440);
}

#define ALONE(fn, name, of, relative, ...)                                                                             \
    {                                                                                                                  \
        .alone = RF_FN_##fn, .exact = of, .rtol = relative, .alone_name = name, __VA_ARGS__                            \
    }
static const activation activations[] = {
    { RF_ACTIVATION_RELU, RF_FN_RELU, 0, exact_relu, 0, 0 },
    { RF_ACTIVATION_LEAKY_RELU, RF_FN_LEAKY_RELU, 0.2f, exact_leaky_relu, 2e-7, 0 },
    { RF_ACTIVATION_SIGMOID, RF_FN_SIGMOID, 0, exact_sigmoid, 2e-6, 0 },
    { RF_ACTIVATION_TANH, RF_FN_TANH, 0, tanh, 1e-6, 0 },
    { RF_ACTIVATION_GELU, RF_FN_GELU_ERF, 0, exact_gelu, 1e-6, 1 },
    ALONE(SIN, "sin", sin, 3e-7, .atol = 2e-7),
    ALONE(COS, "cos", cos, 3e-7, .atol = 2e-7),
    ALONE(FLOOR, "floor", floor, 0, .imm = 0),
    ALONE(ROUND, "round", rint, 0, .imm = 0),
    ALONE(LOG1P, "log1p", log1p, 2e-6, .imm = 0), /* 2^-21 where the logarithm is 0.36 */
    ALONE(EXPM1, "expm1", expm1, 3e-7, .term = 1),
    ALONE(ERF, "erf", erf, 1e-6, .imm = 0),
};

static double tolerance(const activation *a, double x, double expected)
{
    const double y = a->exponent * (x < 0 ? x * x / 2 : 0) + (a->fused == RF_ACTIVATION_SIGMOID && x < 0 ? -x : 0);
    return (a->rtol + (3 + 2 * y) * FLT_EPSILON * (y > 0)) * fabs(expected) + a->atol * fmin(1, fabs(x)) +
           (a->term > 0 && fabs(x) >= 0.5 ? (3 + 2 * fabs(x)) * FLT_EPSILON * exp(x) : 0) +
           FLT_MIN * (1 + fabs(x)); /* a factor of x may be flushed to zero */
}

static void check_values(const activation *a, const rf_op_call *call, const char *kernel, const float *got)
{
    for (int i = 0; i < POINTS; i++) {
        const double x = (double)points[i], expected = (double)(float)a->exact(x), is = (double)got[i];
        if (is != expected && !(isnan(is) && isnan(expected)) && !(fabs(is - expected) <= tolerance(a, x, expected)))
            fail_msg("%s/%s, %s(%.9g): %.9g, not %.9g", call->op->name, kernel, name_of(a), x, is, expected);
    }
}

/* ---- kernels ---- */

static bool
    whole; /* all kernels; else, of many, the first and a quarter of the others, another one for each activation */

static bool is_turn(const activation *a, uint32_t kernel)
{
    return whole || ((uint32_t)(a - activations) + kernel) % 4 == 0;
}

static void run_call(rf_exec *exec, const activation *a, rf_op_call *call, void *const *in)
{
    uint32_t ran = 0;
    assert_int_equal(call->op->infer(call), RF_OK);
    for (uint32_t k = 0; k < rf_op_num_kernels(call->op); k++) {
        const rf_kernel *kernel = rf_op_kernel(call->op, k);
        if (kernel->score(call, rf_gpu_caps(rf_exec_device(exec)), kernel->data) <= 0) continue;
        if (a->alone_name && ran > 0) break;
        if (ran > 0 && rf_op_num_kernels(call->op) > 4 && !is_turn(a, k)) continue;
        void *out[1] = { rf_aligned_calloc(sizeof(points)) };
        assert_non_null(out[0]);
        rf_kernel_run run = { .call = call, .kernel = kernel, .in = in, .out = out, .guard = true };
        if (rf_kernel_execute(exec, &run) < 0) fail_msg("%s/%s: %s", call->op->name, kernel->name, rf_error_message());
        check_values(a, call, kernel->name, out[0]);
        rf_free(out[0]);
        ran++;
    }
    assert_true(ran > 0);
}

static void check_device(rf_exec *exec)
{
    float diagonal[COLUMNS * COLUMNS] = { 0 };
    for (int i = 0; i < COLUMNS; i++) diagonal[i * COLUMNS + i] = 1;
    void *in[] = { points, diagonal };
    for (size_t i = 0; i < sizeof(activations) / sizeof(activations[0]); i++) {
        const activation *a = &activations[i];
        const rf_elementwise_attr alone = { 1, { { (uint8_t)a->alone, 0, 0, 0, a->imm } } };
        const rf_matmul_attr product = { .activation = a->fused };
        const rf_conv2d_attr convolution = {
            .stride = { 1, 1 }, .dilation = { 1, 1 }, .groups = 1, .activation = a->fused
        };
        rf_op_call call = { .op = &rf_op_elementwise,
                            .attr = &alone,
                            .n_in = 1,
                            .n_out = 1,
                            .in = { { RF_F32, RF_SHAPE(LINES, COLUMNS) } } };
        run_call(exec, a, &call, in);
        if (a->alone_name) continue;
        call = (rf_op_call){ .op = &rf_op_matmul,
                             .attr = &product,
                             .n_in = 2,
                             .n_out = 1,
                             .in = { { RF_F32, RF_SHAPE(LINES, COLUMNS) }, { RF_F32, RF_SHAPE(COLUMNS, COLUMNS) } } };
        run_call(exec, a, &call, in);
        call = (rf_op_call){ .op = &rf_op_conv2d,
                             .attr = &convolution,
                             .n_in = 2,
                             .n_out = 1,
                             .in = { { RF_F32, RF_SHAPE(1, 20, LINES / 20, COLUMNS) },
                                     { RF_F32, RF_SHAPE(1, 1, COLUMNS, COLUMNS) } } };
        run_call(exec, a, &call, in);
    }
}

TEST(activations_alone_and_fused_are_exact_to_the_last_places)
{
    rf_gpu *gpu;
    rf_device_info infos[8];
    uint32_t count = 8, ran = 0;
    make_points();
    assert_int_equal(rf_gpu_create(&(rf_gpu_params){ 0 }, &gpu), RF_OK);
    assert_int_equal(rf_gpu_list(gpu, infos, &count), RF_OK);
    for (uint32_t i = 0; i < count && i < 8; i++) {
        rf_gpu_device *device;
        rf_exec *exec;
        if (!infos[i].usable) continue;
        assert_int_equal(rf_gpu_device_open(gpu, &(rf_gpu_device_params){ .index = infos[i].index }, &device), RF_OK);
        assert_int_equal(rf_exec_create(&(rf_exec_params){ .device = device }, &exec), RF_OK);
        print_message("%s\n", infos[i].name);
        check_device(exec);
        ran++;
        rf_exec_destroy(&exec);
        rf_gpu_device_close(&device);
    }
    rf_gpu_destroy(&gpu);
    if (ran == 0) SKIP("no device");
}

TEST_PROGRAM(accuracy)
{
    whole = argc > 1 && strcmp(argv[1], "whole") == 0;
    return room_tests_run(own_tests, NULL, NULL);
}
