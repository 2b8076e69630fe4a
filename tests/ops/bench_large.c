/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rates of products and convolutions on tensors that a descriptor spans and on tensors of 512 MiB, kernel by kernel as
 * they would be chosen. Usage: bench_large [DEVICE]; needs 5 GiB of memory.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/internal.h"
#include "ops/ops.h"
#include "tests/room.h"

#define MIB (1u << 20)

/* `example`: bytes of one example of the largest tensor. */
typedef struct large_case {
    const char *name;
    const rf_op *op;
    uint64_t example;
    rf_op_call (*make)(int64_t examples);
} large_case;

static rf_tensor_desc image(int64_t n)
{
    return (rf_tensor_desc){ RF_F32, RF_SHAPE(n, 32, 32, 16) };
}

static const rf_tensor_desc filter = { RF_F32, { 4, { 3, 3, 16, 16 } } };
static const rf_conv2d_attr same = {
    .stride = { 1, 1 }, .dilation = { 1, 1 }, .padding = RF_PADDING_SAME, .groups = 1
};
static const rf_matmul_attr plain, transposed = { .transpose_a = true };

static rf_op_call call_of(const rf_op *op, const void *attr, uint32_t n_in, const rf_tensor_desc *in)
{
    rf_op_call call = { .op = op, .attr = attr, .n_in = n_in, .n_out = 1 };
    memcpy(call.in, in, n_in * sizeof(*in));
    return call;
}

static rf_op_call product(int64_t n)
{
    return call_of(&rf_op_matmul, &plain, 2,
                   (rf_tensor_desc[]){ { RF_F32, RF_SHAPE(n, 256) }, { RF_F32, RF_SHAPE(256, 256) } });
}

static rf_op_call product_of_gradient(int64_t n)
{
    return call_of(&rf_op_matmul, &transposed, 2,
                   (rf_tensor_desc[]){ { RF_F32, RF_SHAPE(n, 256) }, { RF_F32, RF_SHAPE(n, 256) } });
}

static rf_op_call forward(int64_t n)
{
    return call_of(&rf_op_conv2d, &same, 2, (rf_tensor_desc[]){ image(n), filter });
}

static rf_op_call data_gradient(int64_t n)
{
    return call_of(&rf_op_conv2d_data_grad, &same, 3, (rf_tensor_desc[]){ image(n), filter, image(n) });
}

static rf_op_call filter_gradient(int64_t n)
{
    return call_of(&rf_op_conv2d_filter_grad, &same, 3, (rf_tensor_desc[]){ image(n), image(n), filter });
}

static const large_case cases[] = {
    { "matmul", &rf_op_matmul, 1024, product },
    { "matmul, a transposed", &rf_op_matmul, 1024, product_of_gradient },
    { "conv2d", &rf_op_conv2d, 65536, forward },
    { "conv2d_data_grad", &rf_op_conv2d_data_grad, 65536, data_gradient },
    { "conv2d_filter_grad", &rf_op_conv2d_filter_grad, 65536, filter_gradient },
};

/* GFLOP/s of the kernel that is chosen. */
static rf_result measure(rf_exec *exec, const large_case *c, uint64_t bytes, double *rate, const char **kernel_name)
{
    rf_op_call call = c->make((int64_t)(bytes / c->example));
    void *in[RF_MAX_INPUTS] = { 0 }, *out[RF_MAX_OUTPUTS] = { 0 };
    const rf_kernel *kernel;
    RF_TRY(rf_call_infer(&call));
    RF_TRY(rf_exec_choose(exec, &call, &kernel));
    bool memory = true;
    for (uint32_t i = 0; i < call.n_in; i++)
        memory = (in[i] = rf_aligned_calloc(rf_tensor_bytes(&call.in[i]))) && memory;
    for (uint32_t i = 0; i < call.n_out; i++)
        memory = (out[i] = rf_aligned_calloc(rf_tensor_bytes(&call.out[i]))) && memory;
    rf_kernel_timing timing = { .min_seconds = 4 };
    rf_kernel_run run = { .call = &call, .kernel = kernel, .in = in, .out = out, .timing = &timing };
    const rf_result r = memory ? rf_kernel_execute(exec, &run) : RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; i < call.n_in; i++) rf_free(in[i]);
    for (uint32_t i = 0; i < call.n_out; i++) rf_free(out[i]);
    *rate = call.op->cost(&call).flops / timing.best * 1e-9;
    *kernel_name = kernel->name;
    return r;
}

static rf_result measure_all(rf_exec *exec)
{
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        double below, beyond;
        const char *first, *second;
        RF_TRY(measure(exec, &cases[i], 96ull * MIB, &below, &first));
        RF_TRY(measure(exec, &cases[i], 512ull * MIB, &beyond, &second));
        printf("%-22s 96 MiB: %7.1f GFLOP/s (%s)   512 MiB: %7.1f GFLOP/s (%s)   ratio %.2f\n", cases[i].name, below,
               first, beyond, second, beyond / below);
        fflush(stdout);
    }
    return RF_OK;
}

TEST_PROGRAM(bench_large)
{
    rf_gpu *gpu = NULL;
    rf_gpu_device *device = NULL;
    rf_exec *exec = NULL;
    const rf_gpu_device_params params = { .index = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 0 };
    rf_result r = rf_gpu_create(NULL, &gpu);
    if (r >= 0) r = rf_gpu_device_open(gpu, &params, &device);
    if (r >= 0) r = rf_exec_create(&(rf_exec_params){ .device = device }, &exec);
    if (r >= 0) r = measure_all(exec);
    if (r < 0) fprintf(stderr, "%s\n", rf_error_message());
    rf_exec_destroy(&exec);
    rf_gpu_device_close(&device);
    rf_gpu_destroy(&gpu);
    return r < 0;
}
