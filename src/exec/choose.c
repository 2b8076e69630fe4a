/* SPDX-License-Identifier: Apache-2.0 */
/* Which kernel runs a call: the measured choice where there is one, otherwise the kernel with the highest score. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/philox.h"
#include "base/platform.h"
#include "exec/internal.h"

static rf_result fail_no_kernel(const rf_exec *exec, const rf_op_call *call)
{
    char text[512];
    return RF_FAIL(RF_ERROR_UNSUPPORTED, "%s: no kernel of this operation can run these shapes on %s",
                   rf_call_format(call, text, sizeof(text)), rf_gpu_info(exec->device)->name);
}

/* The remembered kernel, unless it is gone or not eligible for these very shapes. */
static const rf_kernel *kernel_tuned(const rf_exec *exec, const rf_op_call *call)
{
    const char *name = rf_tuning_find(exec->tuning, call);
    const rf_kernel *kernel = name ? rf_op_find_kernel(call->op, name) : NULL;
    return kernel && rf_kernel_score(kernel, call, &exec->caps) > 0 ? kernel : NULL;
}

rf_result rf_exec_choose(rf_exec *exec, const rf_op_call *call, const rf_kernel **out)
{
    *out = NULL;
    RF_TRY(rf_exec_try_matrices(exec, call));
    if (exec->tune_unknown && rf_op_num_kernels(call->op) > 1 && !rf_tuning_find(exec->tuning, call))
        RF_TRY(rf_exec_tune(exec, call));
    *out = kernel_tuned(exec, call);
    if (!*out) *out = rf_best_kernel(call, &exec->caps);
    return *out ? RF_OK : fail_no_kernel(exec, call);
}

/* Plausible contents for a measurement: positive floats (no denormals, no NaN from a logarithm), zeros otherwise. */
static void *measurement_bytes(const rf_tensor_desc *desc)
{
    const int64_t count = rf_shape_count(desc->shape);
    void *bytes = rf_aligned_calloc((size_t)rf_padded_bytes(desc));
    if (bytes && desc->dtype == RF_F32) {
        rf_rng rng = { .key = 1 };
        for (int64_t i = 0; i < count; i++) ((float *)bytes)[i] = 0.1f + rf_rng_uniform(&rng);
    }
    return bytes;
}

static rf_result measure_order(rf_exec *exec, const rf_op_call *call, void *const *in, void *const *out,
                               const uint32_t *order, uint32_t count, const rf_kernel **best, double *best_seconds)
{
    for (uint32_t i = 0; i < count; i++) {
        const rf_kernel *kernel = rf_op_kernel(call->op, order[i]);
        /* A choice is kept for good, and a low clock makes kernels that read much and compute little look better than
         * they are: so the first call that is measured warms the device up. No later one does: a training that tunes on
         * its way keeps the device busy, and is to start without more delay than that. */
        rf_kernel_timing timing = { .give_up = *best ? rf_tune_limit(*best_seconds) : 0, .as_it_is = exec->tuned };
        rf_kernel_run run = { .call = call, .kernel = kernel, .in = in, .out = out, .timing = &timing };
        RF_TRY(rf_kernel_execute(exec, &run));
        exec->tuned = true;
        if (timing.gave_up || (*best && timing.best >= *best_seconds)) continue;
        *best = kernel;
        *best_seconds = timing.best;
    }
    return *best ? RF_OK : fail_no_kernel(exec, call);
}

static rf_result measure_all(rf_exec *exec, const rf_op_call *call, void *const *in, void *const *out,
                             const rf_kernel **best, double *best_seconds)
{
    const uint32_t count = rf_op_num_kernels(call->op);
    double *scores = RF_NEW_ARRAY(double, count);
    uint32_t *order = RF_NEW_ARRAY(uint32_t, count);
    rf_result r = scores && order ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; r >= 0 && i < count; i++)
        scores[i] = rf_kernel_score(rf_op_kernel(call->op, i), call, &exec->caps);
    if (r >= 0) r = measure_order(exec, call, in, out, order, rf_tune_order(scores, count, order), best, best_seconds);
    rf_free(scores);
    rf_free(order);
    return r;
}

rf_result rf_exec_tune(rf_exec *exec, const rf_op_call *call)
{
    void *in[RF_MAX_INPUTS] = { 0 }, *out[RF_MAX_OUTPUTS] = { 0 };
    rf_result r = RF_OK;
    for (uint32_t i = 0; i < call->n_in; i++)
        if (!(in[i] = measurement_bytes(&call->in[i]))) r = RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; i < call->n_out; i++)
        if (!(out[i] = rf_aligned_calloc((size_t)rf_padded_bytes(&call->out[i])))) r = RF_ERROR_OUT_OF_HOST_MEMORY;
    const rf_kernel *best = NULL;
    double seconds = 0;
    if (r >= 0) r = measure_all(exec, call, in, out, &best, &seconds);
    if (r >= 0 && best) r = rf_tuning_put(exec->tuning, call, best->name, seconds);
    for (uint32_t i = 0; i < call->n_in; i++) rf_free(in[i]);
    for (uint32_t i = 0; i < call->n_out; i++) rf_free(out[i]);
    return rf_error_context(r, "measuring kernels of %s", call->op->name);
}
