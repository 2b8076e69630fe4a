/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/kit.h"
#include "ops/ops.h"
#include "rf_shaders.h"

static int32_t one_hot_depth(const rf_op_call *call)
{
    const rf_one_hot_attr *attr = call->attr;
    return attr != NULL && attr->depth != 0 ? attr->depth : 1;
}

static rf_result one_hot_infer(rf_op_call *call)
{
    const rf_shape *in = &call->in[0].shape;
    const int32_t depth = one_hot_depth(call);
    char text[96];
    RF_TRY(rf_expect_dtype(call, 0, RF_I32));
    RF_TRY(rf_expect_not_empty(call, 0));
    if (depth < 1)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "one_hot: depth is %d for indices %s; it must be at least 1", depth,
                       rf_shape_format(*in, text, sizeof(text)));
    if (in->rank >= RF_MAX_RANK)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT,
                       "one_hot: indices %s have no room for one more dimension (at most %d)",
                       rf_shape_format(*in, text, sizeof(text)), RF_MAX_RANK);
    call->out[0] = (rf_tensor_desc){ .dtype = RF_F32, .shape = *in };
    call->out[0].shape.dim[call->out[0].shape.rank++] = depth;
    return RF_OK;
}

rf_result rf_emit_one_hot(rf_graph *g, rf_value indices, int32_t depth, rf_value *out)
{
    const rf_one_hot_attr attr = { depth };
    if (depth < 1) return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "one_hot: depth is %d; it must be at least 1", depth);
    return rf_graph_add(g, &rf_op_one_hot, &attr, &indices, 1, out);
}

static rf_result one_hot_reference(const rf_op_call *call, void *const *in, void *const *out)
{
    const int32_t *index = in[0], depth = one_hot_depth(call);
    float *y = out[0];
    for (uint64_t i = 0; i < rf_desc_count(&call->in[0]); i++)
        for (int32_t c = 0; c < depth; c++) *y++ = index[i] == c;
    return RF_OK;
}

static rf_cost one_hot_cost(const rf_op_call *call)
{
    return rf_cost_of(call, 0);
}

static bool one_hot_job(const rf_op_call *call, const rf_device_caps *caps, const void *form, rf_row_job *job)
{
    const uint64_t depth = (uint64_t)one_hot_depth(call);
    *job = (rf_row_job){ .shader = &rf_shader_one_hot,
                         .loops = RF_NO_LOOPS,
                         .local = rf_local_size(caps, 128),
                         .rows = rf_desc_count(&call->in[0]),
                         .threads_per_row = depth };
    const rf_push_one_hot push = { .depth = (uint32_t)depth };
    RF_ROW_JOB_PUSH(job, push, rows);
    rf_row_job_tensor(job, RF_BIND_INPUT, 0, sizeof(int32_t));
    rf_row_job_tensor(job, RF_BIND_OUTPUT, 0, depth * sizeof(float));
    return true;
}

static const rf_kernel one_hot_kernels[] = { { RF_ROW_KERNEL("element", one_hot_job) } };

static const rf_attr_field one_hot_fields[] = { RF_ATTR_INT(rf_one_hot_attr, depth, 0, INT32_MAX) };

const rf_op rf_op_one_hot = {
    .name = "one_hot",
    RF_ATTRIBUTES(rf_one_hot_attr, one_hot_fields),
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .flags = RF_OP_NO_GRADIENT,
    .infer = one_hot_infer,
    .reference = one_hot_reference,
    .cost = one_hot_cost,
    RF_KERNELS(one_hot_kernels),
};
