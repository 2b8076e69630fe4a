/* SPDX-License-Identifier: Apache-2.0 */
/* Softmax and its logarithm along the last dimension, and their gradients. */
#include "ops/kit.h"
#include "ops/ops.h"
#include "ops/scalar.h"
#include "rf_shaders.h"

#include <math.h>

/* ---- host side ---- */

static rf_result softmax_infer(rf_op_call *call)
{
    RF_TRY(rf_expect_rows(call, 0));
    call->out[0] = call->in[0];
    return RF_OK;
}

static rf_result softmax_grad_infer(rf_op_call *call)
{
    RF_TRY(rf_expect_rows(call, 0));
    RF_TRY(rf_expect_dtype(call, 1, RF_F32));
    RF_TRY(rf_expect_shape(call, 1, &call->in[0].shape, "the output whose gradient input 0 is"));
    call->out[0] = call->in[0];
    return RF_OK;
}

rf_result rf_emit_softmax(rf_graph *g, rf_value x, rf_value *out)
{
    return rf_graph_add(g, &rf_op_softmax, NULL, &x, 1, out);
}

rf_result rf_emit_log_softmax(rf_graph *g, rf_value x, rf_value *out)
{
    return rf_graph_add(g, &rf_op_log_softmax, NULL, &x, 1, out);
}

static rf_result emit_grad(rf_grad_context *ctx, const rf_op *op)
{
    const rf_value in[2] = { ctx->dout[0], ctx->out[0] };
    if (ctx->dout[0] == 0 || !ctx->needed[0]) return RF_OK;
    return rf_graph_add(ctx->graph, op, NULL, in, 2, &ctx->din[0]);
}

static rf_result softmax_gradient(rf_grad_context *ctx)
{
    return emit_grad(ctx, &rf_op_softmax_grad);
}
static rf_result log_softmax_gradient(rf_grad_context *ctx)
{
    return emit_grad(ctx, &rf_op_log_softmax_grad);
}

static void reference_rows(const rf_op_call *call, const float *x, float *y, bool logarithm)
{
    const uint64_t rows = rf_desc_rows(&call->in[0]), columns = rf_desc_columns(&call->in[0]);
    for (uint64_t r = 0; r < rows; r++, x += columns, y += columns) {
        double top = -INFINITY, total = 0;
        for (uint64_t c = 0; c < columns; c++) top = rf_larger(top, x[c]);
        for (uint64_t c = 0; c < columns; c++) total += exp(x[c] - top);
        for (uint64_t c = 0; c < columns; c++)
            y[c] = (float)(logarithm ? x[c] - top - log(total) : exp(x[c] - top) / total);
    }
}

static void reference_grad_rows(const rf_op_call *call, const float *dy, const float *y, float *dx, bool logarithm)
{
    const uint64_t rows = rf_desc_rows(&call->in[0]), columns = rf_desc_columns(&call->in[0]);
    for (uint64_t r = 0; r < rows; r++, dy += columns, y += columns, dx += columns) {
        double total = 0;
        for (uint64_t c = 0; c < columns; c++) total += logarithm ? dy[c] : (double)dy[c] * y[c];
        for (uint64_t c = 0; c < columns; c++)
            dx[c] = (float)(logarithm ? dy[c] - exp((double)y[c]) * total : y[c] * (dy[c] - total));
    }
}

static rf_result softmax_reference(const rf_op_call *call, void *const *in, void *const *out)
{
    reference_rows(call, in[0], out[0], false);
    return RF_OK;
}

static rf_result log_softmax_reference(const rf_op_call *call, void *const *in, void *const *out)
{
    reference_rows(call, in[0], out[0], true);
    return RF_OK;
}

static rf_result softmax_grad_reference(const rf_op_call *call, void *const *in, void *const *out)
{
    reference_grad_rows(call, in[0], in[1], out[0], false);
    return RF_OK;
}

static rf_result log_softmax_grad_reference(const rf_op_call *call, void *const *in, void *const *out)
{
    reference_grad_rows(call, in[0], in[1], out[0], true);
    return RF_OK;
}

static rf_cost softmax_cost(const rf_op_call *call)
{
    return rf_cost_of(call, 5.0 * (double)rf_desc_count(&call->in[0]));
}

/* ---- kernels ---- */

/* Places in the lists of shaders; of the last there is a shader for each size of subgroups. */
typedef enum softmax_way {
    WAY_ROW,
    WAY_ROW_VEC4,
    WAY_ROW_TEXEL,
    WAY_GROUP,
    WAY_GROUP_VEC4,
    WAY_LANES,
    WAY_LANES_VEC4,
    WAY_HELD,
    WAY_COUNT = WAY_HELD + 2
} softmax_way;

static const rf_shader *softmax_shader(const rf_op *op, softmax_way way)
{
    static const rf_shader *const shaders[4][WAY_COUNT] = {
        { &rf_shader_softmax, &rf_shader_softmax_vec4, &rf_shader_softmax_texel, &rf_shader_softmax_group,
          &rf_shader_softmax_group_vec4, &rf_shader_softmax_lanes, &rf_shader_softmax_lanes_vec4,
          &rf_shader_softmax_held8, &rf_shader_softmax_held16 },
        { &rf_shader_log_softmax, &rf_shader_log_softmax_vec4, &rf_shader_log_softmax_texel,
          &rf_shader_log_softmax_group, &rf_shader_log_softmax_group_vec4, &rf_shader_log_softmax_lanes,
          &rf_shader_log_softmax_lanes_vec4, &rf_shader_log_softmax_held8, &rf_shader_log_softmax_held16 },
        { &rf_shader_softmax_grad, &rf_shader_softmax_grad_vec4, &rf_shader_softmax_grad_texel,
          &rf_shader_softmax_grad_group, &rf_shader_softmax_grad_group_vec4, &rf_shader_softmax_grad_lanes,
          &rf_shader_softmax_grad_lanes_vec4, &rf_shader_softmax_grad_held8, &rf_shader_softmax_grad_held16 },
        { &rf_shader_log_softmax_grad, &rf_shader_log_softmax_grad_vec4, &rf_shader_log_softmax_grad_texel,
          &rf_shader_log_softmax_grad_group, &rf_shader_log_softmax_grad_group_vec4, &rf_shader_log_softmax_grad_lanes,
          &rf_shader_log_softmax_grad_lanes_vec4, &rf_shader_log_softmax_grad_held8,
          &rf_shader_log_softmax_grad_held16 },
    };
    const int row = op == &rf_op_softmax ? 0 : op == &rf_op_log_softmax ? 1 : op == &rf_op_softmax_grad ? 2 : 3;
    return shaders[row][way];
}

static rf_row_job softmax_job(const rf_op_call *call, const rf_device_caps *caps, softmax_way way)
{
    const uint64_t columns = rf_desc_columns(&call->in[0]);
    const uint32_t passes = call->n_in > 1 ? 2 : 3; /* over a row: (the maximum,) the sum, the results */
    rf_row_job job = { .shader = softmax_shader(call->op, way + (way == WAY_HELD && caps->subgroup_size != 8)),
                       /* A row is much work for one invocation: workgroups are small, so that there are several. */
                       .local = rf_local_size(caps, caps->is_cpu ? 16 : 64),
                       .rows = rf_desc_rows(&call->in[0]),
                       .threads_per_row = 1,
                       .loops = rf_row_loops(columns, 1, passes),
                       .n_push = 2 };
    if (way == WAY_GROUP) rf_row_job_group(&job, caps, job.shader, columns, passes);
    if (way == WAY_GROUP_VEC4) rf_row_job_group(&job, caps, job.shader, rf_div_up(columns, 4), passes);
    for (uint32_t i = 0; i < call->n_in; i++) rf_row_job_tensor(&job, RF_BIND_INPUT, i, rf_row_bytes(&call->in[i]));
    rf_row_job_tensor(&job, RF_BIND_OUTPUT, 0, rf_row_bytes(&call->out[0]));
    if (way == WAY_ROW_VEC4 || way == WAY_GROUP_VEC4 || way == WAY_LANES_VEC4)
        job.spec[job.n_spec++] = rf_row_job_types(&job, call, caps);
    if (way == WAY_LANES) rf_row_job_lanes(&job, caps, columns, passes);
    if (way == WAY_LANES_VEC4) rf_row_job_lanes(&job, caps, rf_div_up(columns, 4), passes);
    for (uint32_t i = 0; (way == WAY_ROW_TEXEL || way == WAY_HELD) && i < call->n_in; i++)
        job.tensors[i].view = RF_VIEW_TEXEL_RGBA32F;
    if (way == WAY_HELD) rf_row_job_hold(&job, caps, columns);
    job.push[1] = (uint32_t)columns;
    return job;
}

static double lanes_score(const rf_op_call *call, const rf_device_caps *caps, const rf_row_job *job, softmax_way way)
{
    const uint64_t columns = rf_desc_columns(&call->in[0]);
    if (way == WAY_LANES) return rf_row_job_lanes_score(job, caps, columns);
    return columns % 4 == 0 ? rf_row_job_lanes_score(job, caps, columns / 4) : RF_SCORE_NONE;
}

static double softmax_score(const rf_op_call *call, const rf_device_caps *caps, softmax_way way)
{
    if (way == WAY_HELD && rf_held_fours(caps, rf_desc_columns(&call->in[0])) == 0) return RF_SCORE_NONE;
    const rf_row_job job = softmax_job(call, caps, way);
    if (way == WAY_LANES || way == WAY_LANES_VEC4) return lanes_score(call, caps, &job, way);
    const double score = rf_row_job_score(&job, caps);
    if (score == RF_SCORE_NONE || way == WAY_ROW || way == WAY_GROUP) return score;
    if (way != WAY_HELD && rf_desc_columns(&call->in[0]) % 4 != 0) return RF_SCORE_NONE;
    if (way == WAY_ROW_VEC4) return RF_SCORE_WIDE;
    if (way == WAY_GROUP_VEC4) return softmax_score(call, caps, WAY_GROUP);
    return caps->driver == RF_DRIVER_LAVAPIPE && rf_row_job_chunk(&job, caps) == job.rows ? RF_SCORE_DRIVER
                                                                                          : RF_SCORE_RESERVE;
}

static rf_result softmax_plan(const rf_op_call *call, const rf_device_caps *caps, softmax_way way, rf_kernel_plan *plan)
{
    const rf_row_job job = softmax_job(call, caps, way);
    return rf_row_job_plan(&job, caps, plan);
}

RF_VARIANT(static, kernel_row, "row", softmax_score, softmax_plan, WAY_ROW);
RF_NARROW_VARIANT(static, kernel_row_vec4, "row_vec4", softmax_score, softmax_plan, WAY_ROW_VEC4, rf_always_narrow);
RF_VARIANT(static, kernel_row_texel, "row_texel", softmax_score, softmax_plan, WAY_ROW_TEXEL);
RF_VARIANT(static, kernel_held, "held", softmax_score, softmax_plan, WAY_HELD);
RF_VARIANT(static, kernel_group, "group", softmax_score, softmax_plan, WAY_GROUP);
/* In front of the one that takes single elements, and converts those of 16 bits. */
RF_NARROW_VARIANT(static, kernel_group_vec4, "group_vec4", softmax_score, softmax_plan, WAY_GROUP_VEC4,
                  rf_always_narrow);
RF_NARROW_VARIANT(static, kernel_lanes_vec4, "lanes_vec4", softmax_score, softmax_plan, WAY_LANES_VEC4,
                  rf_always_narrow);
RF_VARIANT(static, kernel_lanes, "lanes", softmax_score, softmax_plan, WAY_LANES);
static const rf_kernel *const softmax_kernels[] = { &kernel_row,        &kernel_row_vec4,   &kernel_held,
                                                    &kernel_row_texel,  &kernel_lanes_vec4, &kernel_lanes,
                                                    &kernel_group_vec4, &kernel_group };

/* ---- the ops ---- */

#define SOFTMAX_OP(id, inputs, flags_, infer_, gradient_)                                                              \
    const rf_op rf_op_##id = {                                                                                         \
        .name = #id,                                                                                                   \
        .min_in = inputs,                                                                                              \
        .max_in = inputs,                                                                                              \
        .n_out = 1,                                                                                                    \
        .flags = flags_,                                                                                               \
        RF_STORES_16(1),                                                                                               \
        .infer = infer_,                                                                                               \
        .gradient = gradient_,                                                                                         \
        .reference = id##_reference,                                                                                   \
        .cost = softmax_cost,                                                                                          \
        RF_KERNELS(softmax_kernels),                                                                                   \
    }
SOFTMAX_OP(softmax, 1, RF_OP_LAST_AXIS, softmax_infer, softmax_gradient);
SOFTMAX_OP(log_softmax, 1, RF_OP_LAST_AXIS, softmax_infer, log_softmax_gradient);
SOFTMAX_OP(softmax_grad, 2, RF_OP_LAST_AXIS | RF_OP_NO_ONNX, softmax_grad_infer, NULL);
SOFTMAX_OP(log_softmax_grad, 2, RF_OP_LAST_AXIS | RF_OP_NO_ONNX, softmax_grad_infer, NULL);
