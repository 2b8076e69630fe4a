/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs kernels that were planned for a device whose descriptors span only a few KiB and whose grids are a few
 * workgroups wide: the paths that otherwise only tensors of hundreds of MiB take. Compared with the references on every
 * device.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../skip.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/philox.h"
#include "base/quantize.h"
#include "exec/exec.h"
#include "ops/ops.h"
#include "tests/room.h"

static int64_t num_choices;             /* integers are below */
static const rf_quantized_attr *matrix; /* of one dimension, integers are its words */

static void fill_matrix(rf_rng *rng, void *words)
{
    const rf_quantized_layout l =
        rf_quantized_layout_make((rf_quantization)matrix->kind, (uint64_t)matrix->lines, (uint64_t)matrix->length);
    float *line = RF_NEW_ARRAY(float, l.length);
    assert_non_null(line);
    for (uint64_t i = 0; i < l.lines; i++) {
        for (uint64_t k = 0; k < l.length; k++) line[k] = rf_rng_uniform(rng) - 0.25f;
        assert_true(rf_quantize_lines(&l, i, 1, line, words));
    }
    rf_free(line);
}

static rf_device_caps shrink(const rf_device_caps *caps)
{
    rf_device_caps small = *caps;
    small.max_storage_range = 8192;
    small.max_grid[0] = 2;
    return small;
}

static double small_score(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    (void)call, (void)caps, (void)data;
    return 1;
}

static rf_result small_plan(const rf_op_call *call, const rf_device_caps *caps, const void *data, rf_kernel_plan *plan)
{
    const rf_kernel *planned = data;
    const rf_device_caps small = shrink(caps);
    return planned->plan(call, &small, planned->data, plan);
}

static void *make_input(const rf_tensor_desc *desc, uint64_t seed)
{
    rf_rng rng = { seed, 0 };
    const int64_t count = rf_shape_count(desc->shape);
    float *x = rf_aligned_calloc((size_t)rf_tensor_bytes(desc) + 64);
    assert_non_null(x);
    if (desc->dtype == RF_F32)
        for (int64_t i = 0; i < count; i++) x[i] = 0.25f + rf_rng_uniform(&rng);
    if (desc->dtype == RF_I32 && matrix && desc->shape.rank == 1)
        fill_matrix(&rng, x);
    else if (desc->dtype == RF_I32 && num_choices > 0)
        for (int64_t i = 0; i < count; i++) ((int32_t *)x)[i] = (int32_t)rf_rng_below(&rng, (uint64_t)num_choices);
    return x;
}

static void compare(const rf_op_call *call, const char *kernel, const float *got, const float *expected, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        if (!(fabsf(got[i] - expected[i]) <= 2e-5f + 2e-5f * fabsf(expected[i])))
            fail_msg("%s/%s: element %lld is %.9g, not %.9g", call->op->name, kernel, (long long)i, (double)got[i],
                     (double)expected[i]);
}

/* All kernels of one call; gives the number of dispatches of the plans. */
static uint32_t run_call(rf_exec *exec, rf_op_call *call)
{
    void *in[RF_MAX_INPUTS] = { 0 }, *copy[RF_MAX_INPUTS] = { 0 };
    void *out[RF_MAX_OUTPUTS] = { 0 }, *expected[RF_MAX_OUTPUTS] = { 0 };
    uint32_t dispatches = 0;
    assert_int_equal(rf_call_infer(call), RF_OK);
    for (uint32_t k = 0; k < rf_op_num_kernels(call->op); k++) {
        const rf_device_caps small = shrink(rf_gpu_caps(rf_exec_device(exec)));
        const rf_kernel *planned = rf_op_kernel(call->op, k);
        if (rf_kernel_score(planned, call, &small) <= 0) continue;
        for (uint32_t i = 0; i < call->n_in; i++) {
            in[i] = make_input(&call->in[i], i + 1);
            copy[i] = make_input(&call->in[i], i + 1);
        }
        for (uint32_t i = 0; i < call->n_out; i++) {
            out[i] = rf_aligned_calloc((size_t)rf_tensor_bytes(&call->out[i]) + 64);
            expected[i] = rf_aligned_calloc((size_t)rf_tensor_bytes(&call->out[i]) + 64);
        }
        rf_kernel_plan plan = { 0 };
        assert_int_equal(planned->plan(call, &small, planned->data, &plan), RF_OK);
        dispatches += plan.count;
        rf_kernel_plan_free(&plan);
        const rf_kernel kernel = { planned->name, small_score, small_plan, planned };
        rf_kernel_run run = { .call = call, .kernel = &kernel, .in = in, .out = out, .guard = true };
        if (rf_kernel_execute(exec, &run) < 0) fail_msg("%s/%s: %s", call->op->name, kernel.name, rf_error_message());
        assert_int_equal(rf_op_reference(call, copy, expected), RF_OK);
        for (uint32_t i = 0; i < call->n_out; i++)
            compare(call, kernel.name, out[i], expected[i], rf_shape_count(call->out[i].shape));
        for (uint32_t i = 0; i < call->n_in; i++) {
            if (call->op->mutates >> i & 1)
                compare(call, kernel.name, in[i], copy[i], rf_shape_count(call->in[i].shape));
            rf_free(in[i]);
            rf_free(copy[i]);
        }
        for (uint32_t i = 0; i < call->n_out; i++) {
            rf_free(out[i]);
            rf_free(expected[i]);
        }
    }
    return dispatches;
}

static void check(rf_exec *exec, const rf_op *op, const void *attr, uint32_t n, const rf_shape *shapes)
{
    rf_op_call call = { .op = op, .attr = attr, .n_in = n, .n_out = op->n_out };
    for (uint32_t i = 0; i < n; i++) call.in[i] = (rf_tensor_desc){ RF_F32, shapes[i] };
    assert_true(run_call(exec, &call) > 1);
}

static void check_all(rf_exec *exec)
{
    const rf_elementwise_attr program = { 2, { { RF_FN_MULTIPLY, 0, 1, 0, 0 }, { RF_FN_SUBTRACT, 2, 1, 0, 0 } } };
    check(exec, &rf_op_elementwise, &program, 2, (rf_shape[]){ RF_SHAPE(4099), RF_SHAPE(4099) });
    check(exec, &rf_op_elementwise, &program, 2, (rf_shape[]){ RF_SHAPE(101, 52), RF_SHAPE(52) });
    check(exec, &rf_op_elementwise, &program, 2, (rf_shape[]){ RF_SHAPE(101, 13, 4), RF_SHAPE(13, 1) });
    check(exec, &rf_op_elementwise, &program, 2, (rf_shape[]){ RF_SHAPE(99, 7, 33), RF_SHAPE(99, 1, 33) });
    check(exec, &rf_op_elementwise, &program, 2, (rf_shape[]){ RF_SHAPE(33, 1, 45, 1), RF_SHAPE(7, 1, 3) });
    const rf_shape row = RF_SHAPE(64);
    check(exec, &rf_op_broadcast_like, NULL, 2, (rf_shape[]){ row, RF_SHAPE(77, 64) });
    check(exec, &rf_op_sum_to_like, NULL, 2, (rf_shape[]){ RF_SHAPE(301, 12), RF_SHAPE(12) });
    check(exec, &rf_op_sum_to_like, NULL, 2, (rf_shape[]){ RF_SHAPE(301, 13), RF_SHAPE(13) });
    check(exec, &rf_op_sum_to_like, NULL, 2, (rf_shape[]){ RF_SHAPE(301, 13), RF_SHAPE(301, 1) });
    check(exec, &rf_op_sum_to_like, NULL, 2, (rf_shape[]){ RF_SHAPE(5001), RF_SCALAR_SHAPE });
    check(exec, &rf_op_sum_to_like, NULL, 2, (rf_shape[]){ RF_SHAPE(31, 9, 17), RF_SHAPE(9, 1) });
    const float value = 3;
    check(exec, &rf_op_fill_like, &value, 1, (rf_shape[]){ RF_SHAPE(5003) });
    const int32_t swap[RF_MAX_RANK] = { 1, 0 }, rotate[RF_MAX_RANK] = { 2, 0, 1 }, outer[RF_MAX_RANK] = { 1, 0, 2 },
                  batch[RF_MAX_RANK] = { 0, 2, 1 };
    check(exec, &rf_op_transpose, swap, 1, (rf_shape[]){ RF_SHAPE(67, 83) });
    check(exec, &rf_op_transpose, rotate, 1, (rf_shape[]){ RF_SHAPE(23, 7, 31) });
    check(exec, &rf_op_transpose, outer, 1, (rf_shape[]){ RF_SHAPE(23, 31, 8) });
    check(exec, &rf_op_transpose, batch, 1, (rf_shape[]){ RF_SHAPE(43, 7, 19) });
    const rf_slice_attr ranges[] = {
        { .begin = { 1 }, .end = { -1 }, .step = { 1 } },
        { .begin = { -1, 2 }, .end = { INT64_MIN, INT64_MAX }, .step = { -2, 1 } },
        { .begin = { 0, 4 }, .end = { INT64_MAX, 2600 }, .step = { 1, 1 } },
        { .begin = { 0, INT64_MAX }, .end = { 5, INT64_MIN }, .step = { 2, -1 } },
        { .begin = { 0, 1 }, .end = { 5, INT64_MAX }, .step = { 1, 2500 } },
    };
    for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
        rf_op_call slice = {
            .op = &rf_op_slice, .attr = &ranges[i], .n_in = 1, .in = { { RF_F32, RF_SHAPE(9, 5004) } }
        };
        check(exec, &rf_op_slice, &ranges[i], 1, &slice.in[0].shape);
        assert_int_equal(rf_op_slice.infer(&slice), RF_OK);
        check(exec, &rf_op_slice_grad, &ranges[i], 2, (rf_shape[]){ slice.out[0].shape, slice.in[0].shape });
    }
    const rf_concat_attr columns = { 1, 0 };
    const rf_split_attr parts = { 1, 3, { 2, 1, 3 } };
    const rf_shape joined[] = { RF_SHAPE(9, 5004), RF_SHAPE(9, 3000), RF_SHAPE(9, 1), RF_SHAPE(9, 2003) };
    check(exec, &rf_op_concat, &columns, 3, joined + 1);
    check(exec, &rf_op_concat_grad, &columns, 4, joined);
    check(exec, &rf_op_split, &parts, 1, joined);
    const struct {
        rf_gather_attr attr;
        rf_shape x, indices;
    } gathers[] = {
        { { 0, 0 }, RF_SHAPE(701, 8), RF_SHAPE(309) },       { { 0, 0 }, RF_SHAPE(5, 3), RF_SHAPE(3001) },
        { { 0, 0 }, RF_SHAPE(30011), RF_SHAPE(17) },         { { 1, 0 }, RF_SHAPE(99, 64, 4), RF_SHAPE(31) },
        { { 1, 1 }, RF_SHAPE(301, 7, 5), RF_SHAPE(301, 3) }, { { 1, 0 }, RF_SHAPE(3, 2101), RF_SHAPE(2203) },
    };
    for (size_t i = 0; i < sizeof(gathers) / sizeof(gathers[0]); i++) {
        rf_op_call gather = { .op = &rf_op_gather,
                              .attr = &gathers[i].attr,
                              .n_in = 2,
                              .n_out = 1,
                              .in = { { RF_F32, gathers[i].x }, { RF_I32, gathers[i].indices } } };
        num_choices = gathers[i].x.dim[gathers[i].attr.axis];
        assert_true(run_call(exec, &gather) > 1);
        rf_op_call grad = { .op = &rf_op_gather_grad,
                            .attr = &gathers[i].attr,
                            .n_in = 3,
                            .n_out = 1,
                            .in = { gather.out[0], gather.in[1], gather.in[0] } };
        assert_true(run_call(exec, &grad) > 1);
    }
    num_choices = 0;
    const rf_shape n = RF_SHAPE(4101), hyper = RF_SHAPE(RF_HYPER_COUNT);
    check(exec, &rf_op_sgd_update, NULL, 3, (rf_shape[]){ n, n, hyper });
    check(exec, &rf_op_adam_update, NULL, 5, (rf_shape[]){ n, n, n, n, hyper });
    check(exec, &rf_op_accumulate, NULL, 2, (rf_shape[]){ n, n });

    static const uint32_t batches[] = { 0, 1, 61 }; /* no batch, the first dimension, the last one */
    for (int i = 0; i < 3; i++) {
        const rf_dropout_attr dropout = { 0.4f, 5, 77, batches[i], batches[i] == 1 ? 61 : batches[i] > 0 };
        rf_op_call call = { .op = &rf_op_dropout,
                            .attr = &dropout,
                            .n_in = 2,
                            .n_out = 1,
                            .in = { { RF_F32, RF_SHAPE(61, 71) }, { RF_I32, RF_SHAPE(6) } } };
        assert_true(run_call(exec, &call) > 1);
    }
}

static void check_quantized(rf_exec *exec)
{
    static const rf_quantized_attr matrices[] = {
        { RF_QUANTIZATION_INT8, 0, 151, 96 },
        { RF_QUANTIZATION_INT8, 1, 151, 96 },
        { RF_QUANTIZATION_NF4, 0, 77, 350 },
        { RF_QUANTIZATION_Q4_0, 1, 301, 70 },
    };
    for (size_t i = 0; i < sizeof(matrices) / sizeof(matrices[0]); i++) {
        matrix = &matrices[i];
        const rf_quantized_layout l =
            rf_quantized_layout_make((rf_quantization)matrix->kind, (uint64_t)matrix->lines, (uint64_t)matrix->length);
        const rf_tensor_desc words = { RF_I32, RF_SHAPE((int64_t)l.words) };
        rf_op_call product = { .op = &rf_op_matmul_quantized, .attr = matrix, .n_in = 2, .n_out = 1 };
        product.in[0] = (rf_tensor_desc){ RF_F32, RF_SHAPE(29, matrix->transposed ? matrix->length : matrix->lines) };
        product.in[1] = words;
        assert_true(run_call(exec, &product) > 1);
        rf_op_call lines = { .op = &rf_op_gather_quantized, .attr = matrix, .n_in = 2, .n_out = 1 };
        if (matrix->transposed) continue;
        num_choices = matrix->lines;
        lines.in[0] = words;
        lines.in[1] = (rf_tensor_desc){ RF_I32, RF_SHAPE(7, 9) };
        assert_true(run_call(exec, &lines) > 1);
        num_choices = 0;
    }
    matrix = NULL;
}

TEST(kernels_keep_to_small_limits)
{
    rf_gpu *gpu = NULL;
    if (rf_gpu_create(NULL, &gpu) < 0) SKIP("%s", rf_error_message());
    rf_device_info infos[8];
    uint32_t count = 8;
    assert_int_equal(rf_gpu_list(gpu, infos, &count), RF_OK);
    for (uint32_t i = 0; i < count && i < 8; i++) {
        rf_gpu_device *device;
        rf_exec *exec;
        assert_int_equal(rf_gpu_device_open(gpu, &(rf_gpu_device_params){ .index = i }, &device), RF_OK);
        assert_int_equal(rf_exec_create(&(rf_exec_params){ .device = device }, &exec), RF_OK);
        check_all(exec);
        check_quantized(exec);
        rf_exec_destroy(&exec);
        rf_gpu_device_close(&device);
    }
    rf_gpu_destroy(&gpu);
}

TESTS(small_limits, NULL, NULL)
