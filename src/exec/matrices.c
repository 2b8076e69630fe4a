/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cooperative matrices are new to drivers: before a device's are used, one product of integers, whose sums are exact in
 * f32 and not in f16, must be right to the last bit. Where it is not, the device has none from then on.
 */
#include <string.h>

#include "base/error.h"
#include "base/half.h"
#include "base/philox.h"
#include "base/platform.h"
#include "exec/internal.h"
#include "ops/ops.h"

enum { SIDE = 64, LARGEST = 16 };

typedef struct trial {
    rf_op_call call;
    rf_matmul_attr attr;
    uint16_t a[SIDE * SIDE], b[SIDE * SIDE];
    float got[SIDE * SIDE], expected[SIDE * SIDE];
} trial;

static rf_matrix_shape *shape_of(rf_exec *exec, rf_dtype type)
{
    return type == RF_F16 ? &exec->caps.matrix_f16 : &exec->caps.matrix_bf16;
}

static void fill_integers(uint16_t *to, rf_dtype type, uint64_t key)
{
    rf_rng rng = { .key = key };
    for (int i = 0; i < SIDE * SIDE; i++) {
        const float value = (float)rf_rng_below(&rng, 2 * LARGEST + 1) - LARGEST;
        to[i] = type == RF_F16 ? rf_f32_to_f16(value) : rf_f32_to_bf16(value);
    }
}

static const rf_kernel *trial_kernel(const rf_exec *exec, const rf_op_call *call)
{
    const rf_kernel *best = NULL;
    double best_score = 0;
    for (uint32_t i = 0; i < rf_op_num_kernels(call->op); i++) {
        const rf_kernel *kernel = rf_op_kernel(call->op, i);
        const double score = kernel->cooperative ? rf_kernel_score(kernel, call, &exec->caps) : 0;
        if (score <= best_score) continue;
        best_score = score;
        best = kernel;
    }
    return best;
}

/* An error of it is the driver's. */
static rf_result trial_run(rf_exec *exec, rf_dtype type, trial *t)
{
    const rf_tensor_desc operand = { type, { 2, { SIDE, SIDE } } };
    t->call = (rf_op_call){ .op = &rf_op_matmul, .attr = &t->attr, .n_in = 2, .n_out = 1, .in = { operand, operand } };
    t->call.out[0] = (rf_tensor_desc){ RF_F32, operand.shape };
    fill_integers(t->a, type, 1);
    fill_integers(t->b, type, 2);
    void *in[] = { t->a, t->b }, *got[] = { t->got }, *expected[] = { t->expected };
    RF_TRY(rf_op_reference(&t->call, in, expected));
    const rf_kernel *kernel = trial_kernel(exec, &t->call);
    if (!kernel) return RF_FAIL(RF_ERROR_UNSUPPORTED, "no kernel takes a product of %d x %d", SIDE, SIDE);
    rf_kernel_run run = { .call = &t->call, .kernel = kernel, .in = in, .out = got };
    RF_TRY(rf_kernel_execute(exec, &run));
    for (int i = 0; i < SIDE * SIDE; i++)
        if (t->got[i] != t->expected[i])
            return RF_FAIL(RF_ERROR_INTERNAL, "kernel %s computes %g in place of %g", kernel->name, (double)t->got[i],
                           (double)t->expected[i]);
    return RF_OK;
}

static bool wants_matrices(const rf_exec *exec, const rf_op_call *call)
{
    for (uint32_t i = 0; i < rf_op_num_kernels(call->op); i++)
        if (rf_op_kernel(call->op, i)->cooperative && rf_kernel_score(rf_op_kernel(call->op, i), call, &exec->caps) > 0)
            return true;
    return false;
}

rf_result rf_exec_try_matrices(rf_exec *exec, const rf_op_call *call)
{
    const rf_dtype type = call->in[0].dtype;
    bool *const tried = &exec->matrices_tried[type == RF_BF16];
    if (!rf_dtype_is_narrow(type) || *tried || !wants_matrices(exec, call)) return RF_OK;
    *tried = true;
    trial *t = RF_NEW(trial);
    if (!t) return RF_ERROR_OUT_OF_HOST_MEMORY;
    const rf_result r = trial_run(exec, type, t);
    rf_free(t);
    if (r == RF_ERROR_DEVICE_LOST || r == RF_ERROR_OUT_OF_HOST_MEMORY) return r;
    if (r < 0) {
        rf_log_message(RF_LOG_WARN, "%s: its cooperative matrices of %s are not used: %s",
                       rf_gpu_info(exec->device)->name, rf_dtype_name(type), rf_error_message());
        memset(shape_of(exec, type), 0, sizeof(rf_matrix_shape));
    }
    return RF_OK;
}
