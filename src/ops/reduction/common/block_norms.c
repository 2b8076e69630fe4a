/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of squares, block by block: norms of gradients, and what LAMB's ratio of norms is made of. */
#include <math.h>

#include "ops/kit.h"
#include "ops/ops.h"
#include "rf_shaders.h"

#define LANES 64 /* of the shader */

static uint64_t count_blocks(const rf_op_call *call)
{
    return rf_div_up(rf_desc_count(&call->in[0]), RF_NORM_BLOCK);
}

static rf_result block_squares_infer(rf_op_call *call)
{
    RF_TRY(rf_expect_dtype(call, 0, RF_F32));
    RF_TRY(rf_expect_not_empty(call, 0));
    call->out[0] = (rf_tensor_desc){ RF_F32, RF_SHAPE((int64_t)count_blocks(call)) };
    return RF_OK;
}

rf_result rf_emit_block_squares(rf_graph *g, rf_value x, rf_value *out)
{
    return rf_graph_add(g, &rf_op_block_squares, NULL, &x, 1, out);
}

static rf_result block_squares_reference(const rf_op_call *call, void *const *in, void *const *out)
{
    const float *x = in[0];
    const uint64_t count = rf_desc_count(&call->in[0]), blocks = count_blocks(call);
    for (uint64_t b = 0; b < blocks; b++) {
        double sum = 0;
        for (uint64_t i = b * RF_NORM_BLOCK; i < count && i < (b + 1) * RF_NORM_BLOCK; i++) sum += (double)x[i] * x[i];
        ((float *)out[0])[b] = (float)sum;
    }
    return RF_OK;
}

static rf_result lamb_norms_infer(rf_op_call *call)
{
    for (uint32_t i = 0; i < 4; i++) {
        RF_TRY(rf_expect_dtype(call, i, RF_F32));
        RF_TRY(rf_expect_not_empty(call, i));
    }
    for (uint32_t i = 1; i < 3; i++)
        RF_TRY(rf_expect_shape(call, i, &call->in[0].shape, "one value for each element of the parameter"));
    if (rf_desc_count(&call->in[3]) < RF_HYPER_COUNT)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "lamb_norms: there are %llu hyperparameters, not %d",
                       (unsigned long long)rf_desc_count(&call->in[3]), RF_HYPER_COUNT);
    call->out[0] = (rf_tensor_desc){ RF_F32, RF_SHAPE((int64_t)count_blocks(call), 2) };
    return RF_OK;
}

rf_result rf_emit_lamb_norms(rf_graph *g, rf_value param, rf_value m, rf_value v, rf_value hyper, rf_value *out)
{
    return rf_graph_add(g, &rf_op_lamb_norms, NULL, (rf_value[]){ param, m, v, hyper }, 4, out);
}

static rf_result lamb_norms_reference(const rf_op_call *call, void *const *in, void *const *out)
{
    const float *x = in[0], *m = in[1], *v = in[2], *hyper = in[3];
    const uint64_t count = rf_desc_count(&call->in[0]), blocks = count_blocks(call);
    float *y = out[0];
    for (uint64_t b = 0; b < blocks; b++) {
        double params = 0, steps = 0;
        for (uint64_t i = b * RF_NORM_BLOCK; i < count && i < (b + 1) * RF_NORM_BLOCK; i++) {
            const double root = sqrt((double)v[i] * hyper[RF_HYPER_CORRECTION_2]);
            const double step = (double)m[i] * hyper[RF_HYPER_CORRECTION_1] / (root + hyper[RF_HYPER_EPSILON]) +
                                (double)hyper[RF_HYPER_WEIGHT_DECAY] * x[i];
            params += (double)x[i] * x[i];
            steps += step * step;
        }
        y[2 * b] = (float)params;
        y[2 * b + 1] = (float)steps;
    }
    return RF_OK;
}

static rf_cost block_norms_cost(const rf_op_call *call)
{
    return rf_cost_of(call, (call->n_in == 1 ? 2.0 : 10.0) * (double)rf_desc_count(&call->in[0]));
}

/* ---- the kernel, of both ---- */

enum { BLOCK_SQUARES, LAMB_NORMS };

/* Blocks of one dispatch: what a descriptor spans, and where possible so many that the sums of the next one begin where
 * descriptors may. */
static uint64_t blocks_at_once(const rf_device_caps *caps)
{
    const uint64_t range = rf_min(caps->max_storage_range, 1u << 31), step = caps->buffer_alignment / sizeof(float);
    const uint64_t most = range / (RF_NORM_BLOCK * sizeof(float));
    return most > step ? most / step * step : most;
}

/* Blocks begin where descriptors may. */
static double score_blocks(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    (void)call;
    const bool small = caps->max_workgroup_size[0] < LANES || caps->max_workgroup_invocations < LANES;
    const bool aligned = RF_NORM_BLOCK * sizeof(float) % caps->buffer_alignment == 0;
    return small || !aligned || blocks_at_once(caps) == 0 ? RF_SCORE_NONE : RF_SCORE_ANY;
}

static rf_result plan_blocks(const rf_op_call *call, const rf_device_caps *caps, const void *data, rf_kernel_plan *plan)
{
    const uint64_t count = rf_desc_count(&call->in[0]), blocks = count_blocks(call), most = blocks_at_once(caps);
    const bool lamb = call->op->role == LAMB_NORMS;
    const uint32_t tensors = lamb ? 3 : 1, sums = lamb ? 2 : 1; /* sums of a block */
    for (uint64_t first = 0; first < blocks; first += most) {
        const uint64_t here = rf_min(blocks - first, most), start = first * RF_NORM_BLOCK;
        const uint64_t n = rf_min(count - start, here * RF_NORM_BLOCK);
        rf_dispatch *d = rf_kernel_plan_add(plan, lamb ? &rf_shader_lamb_norms : &rf_shader_block_squares, RF_NO_LOOPS);
        if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
        d->concurrent = first > 0;
        rf_dispatch_spec(d, LANES);
        uint32_t base[3] = { 0 };
        for (uint32_t i = 0; i < tensors; i++) base[i] = rf_bind_elements(d, caps, RF_BIND_INPUT, i, start, n);
        if (lamb) rf_bind_whole(d, RF_BIND_INPUT, 3);
        const uint32_t sums_base = rf_bind_elements(d, caps, RF_BIND_OUTPUT, 0, sums * first, sums * here);
        if (lamb)
            rf_dispatch_push(d,
                             &(rf_push_lamb_norms){ .count = (uint32_t)n,
                                                    .blocks = (uint32_t)here,
                                                    .sums_base = sums_base,
                                                    .param_base = base[0],
                                                    .m_base = base[1],
                                                    .v_base = base[2] },
                             sizeof(rf_push_lamb_norms));
        else
            rf_dispatch_push(
                d,
                &(rf_push_block_squares){
                    .count = (uint32_t)n, .blocks = (uint32_t)here, .sums_base = sums_base, .x_base = base[0] },
                sizeof(rf_push_block_squares));
        rf_dispatch_groups(d, caps, here);
    }
    return RF_OK;
}

static const rf_kernel block_norms_kernels[] = {
    { "blocks", score_blocks, plan_blocks },
};

/* ---- the ops ---- */

const rf_op rf_op_block_squares = {
    .name = "block_squares",
    .role = BLOCK_SQUARES,
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .flags = RF_OP_NO_ONNX | RF_OP_NO_GRADIENT,
    .unbatched_in = 1,
    .unbatched_out = 1,
    .infer = block_squares_infer,
    .reference = block_squares_reference,
    .cost = block_norms_cost,
    RF_KERNELS(block_norms_kernels),
};

const rf_op rf_op_lamb_norms = {
    .name = "lamb_norms",
    .role = LAMB_NORMS,
    .min_in = 4,
    .max_in = 4,
    .n_out = 1,
    .flags = RF_OP_NO_ONNX | RF_OP_NO_GRADIENT,
    .settings = 1u << 3,
    .unbatched_in = 0xf,
    .unbatched_out = 1,
    .infer = lamb_norms_infer,
    .reference = lamb_norms_reference,
    .cost = block_norms_cost,
    RF_KERNELS(block_norms_kernels),
};
