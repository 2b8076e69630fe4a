/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions over any axes: the op, its gradient, its reference. Kernels are in reduce_kernels.c. */
#include "ops/reduction/common/reduce.h"
#include "ops/reduction/cpu/cpu.h"
#include "ops/reduction/gpu/gpu.h"
#include "ops/scalar.h"

#include <math.h>

/* ---- inference ---- */

static rf_result reduce_infer(rf_op_call *call)
{
    static const rf_reduce_attr none = { 0 };
    const rf_reduce_attr *attr = call->attr != NULL ? call->attr : &none;
    const rf_shape *in = &call->in[0].shape;
    char text[96];
    RF_TRY(rf_expect_dtype(call, 0, RF_F32));
    RF_TRY(rf_expect_not_empty(call, 0));
    if (attr->kind >= RF_REDUCE_KIND_COUNT)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "reduce: unknown kind %u", attr->kind);
    const uint32_t axes = rf_reduce_axes(call);
    if (axes >> in->rank != 0)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "reduce: axes mask 0x%x names axes that shape %s does not have", axes,
                       rf_shape_format(*in, text, sizeof(text)));
    rf_tensor_desc *out = &call->out[0];
    *out = (rf_tensor_desc){ .dtype = RF_F32 };
    for (int32_t i = 0; i < in->rank; i++) {
        if (!(axes & 1u << i))
            out->shape.dim[out->shape.rank++] = in->dim[i];
        else if (attr->keep_dims)
            out->shape.dim[out->shape.rank++] = 1;
    }
    return RF_OK;
}

rf_result rf_axes_of(const char *name, rf_shape shape, const int32_t *axes, uint32_t num_axes, uint32_t *out)
{
    char text[96];
    *out = num_axes == 0 ? (1u << shape.rank) - 1 : 0;
    if (!axes && num_axes > 0)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s: axes is NULL but num_axes is %u", name, num_axes);
    for (uint32_t i = 0; i < num_axes; i++) {
        const int32_t axis = axes[i] < 0 ? axes[i] + shape.rank : axes[i];
        if (axis < 0 || axis >= shape.rank)
            return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s: axis %d does not exist in shape %s", name, axes[i],
                           rf_shape_format(shape, text, sizeof(text)));
        if (*out & 1u << axis)
            return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s: axis %d of shape %s is named twice", name, axes[i],
                           rf_shape_format(shape, text, sizeof(text)));
        *out |= 1u << axis;
    }
    return RF_OK;
}

rf_result rf_emit_reduce(rf_graph *g, rf_reduce_kind kind, rf_value x, const int32_t *axes, uint32_t num_axes,
                         bool keep_dims, rf_value *out)
{
    rf_reduce_attr attr = { .kind = kind, .keep_dims = keep_dims };
    RF_TRY(rf_axes_of("reduce", rf_graph_desc(g, x)->shape, axes, num_axes, &attr.axes_mask));
    return rf_graph_add(g, &rf_op_reduce, &attr, &x, 1, out);
}

/* ---- gradient ---- */

/* `v`, of the reduced shape, in a shape that broadcasts against the unreduced one. */
static rf_result reduce_unsqueeze(const rf_grad_context *ctx, uint32_t axes, rf_value v, rf_value *out)
{
    const rf_reduce_attr *attr = ctx->attr;
    const int32_t rank = rf_graph_desc(ctx->graph, ctx->in[0])->shape.rank;
    bool kept = false; /* broadcasting adds the first dimensions by itself */
    *out = v;
    for (int32_t i = 0, at = 0; i < rank && !attr->keep_dims; i++) {
        const bool reduced = axes & 1u << i;
        if (reduced && kept) RF_TRY(rf_emit_expand_dims(ctx->graph, *out, at, out));
        kept |= !reduced;
        at += kept;
    }
    return RF_OK;
}

/* The gradient of a maximum or minimum. */
static rf_result reduce_extreme_gradient(rf_grad_context *ctx, uint32_t axes)
{
    const rf_reduce_attr *attr = ctx->attr;
    const rf_reduce_attr count_attr = { RF_REDUCE_KIND_SUM, attr->axes_mask, attr->keep_dims };
    rf_graph *g = ctx->graph;
    rf_value y, hits, count, share;
    RF_TRY(reduce_unsqueeze(ctx, axes, ctx->out[0], &y));
    RF_TRY(rf_emit_binary(g, RF_FN_EQUAL, 0, ctx->in[0], y, &hits));
    RF_TRY(rf_graph_add(g, &rf_op_reduce, &count_attr, &hits, 1, &count));
    RF_TRY(rf_emit_binary(g, RF_FN_DIVIDE, 0, ctx->dout[0], count, &share));
    RF_TRY(reduce_unsqueeze(ctx, axes, share, &share));
    return rf_emit_binary(g, RF_FN_MULTIPLY, 0, hits, share, &ctx->din[0]);
}

static rf_result reduce_gradient(rf_grad_context *ctx)
{
    const rf_reduce_attr *attr = ctx->attr;
    rf_graph *g = ctx->graph;
    rf_op_call call;
    rf_graph_call(g, ctx->node, &call);
    const uint32_t axes = rf_reduce_axes(&call);
    rf_value x = ctx->in[0], dy = ctx->dout[0], factor;
    if (dy == 0 || !ctx->needed[0]) return RF_OK;
    switch ((rf_reduce_kind)attr->kind) {
    case RF_REDUCE_KIND_MEAN: {
        const rf_value in[2] = { dy, x };
        RF_TRY(rf_graph_add(g, &rf_op_mean_scale, NULL, in, 2, &dy));
        break;
    }
    case RF_REDUCE_KIND_SUM: break;
    case RF_REDUCE_KIND_MAX:
    case RF_REDUCE_KIND_MIN: return reduce_extreme_gradient(ctx, axes);
    case RF_REDUCE_KIND_SUM_SQUARES:
        RF_TRY(reduce_unsqueeze(ctx, axes, dy, &dy));
        RF_TRY(rf_emit_unary(g, RF_FN_MUL_IMM, 2.0f, x, &factor));
        return rf_emit_binary(g, RF_FN_MULTIPLY, 0, factor, dy, &ctx->din[0]);
    case RF_REDUCE_KIND_SUM_ABS:
        RF_TRY(reduce_unsqueeze(ctx, axes, dy, &dy));
        RF_TRY(rf_emit_unary(g, RF_FN_SIGN, 0, x, &factor));
        return rf_emit_binary(g, RF_FN_MULTIPLY, 0, factor, dy, &ctx->din[0]);
    case RF_REDUCE_KIND_COUNT: break;
    }
    RF_TRY(reduce_unsqueeze(ctx, axes, dy, &dy));
    return rf_emit_broadcast_like(g, dy, x, &ctx->din[0]);
}

/* ---- reference ---- */

static rf_result reduce_reference(const rf_op_call *call, void *const *in, void *const *out)
{
    const rf_reduce_attr *attr = call->attr;
    const rf_reduce_kind kind = attr != NULL ? attr->kind : RF_REDUCE_KIND_SUM;
    const rf_shape *shape = &call->in[0].shape;
    const uint32_t axes = rf_reduce_axes(call);
    const uint64_t count = rf_desc_count(&call->in[0]), n_out = rf_desc_count(&call->out[0]);
    const float *x = in[0];
    float *y = out[0];
    double *total = RF_NEW_ARRAY(double, n_out);
    if (total == NULL) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint64_t o = 0; o < n_out; o++)
        total[o] = kind == RF_REDUCE_KIND_MAX ? -INFINITY : kind == RF_REDUCE_KIND_MIN ? INFINITY : 0;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t rest = i, o = 0, stride = 1;
        for (int32_t d = shape->rank - 1; d >= 0; d--) {
            const uint64_t index = rest % (uint64_t)shape->dim[d];
            rest /= (uint64_t)shape->dim[d];
            if (axes & 1u << d) continue;
            o += index * stride;
            stride *= (uint64_t)shape->dim[d];
        }
        const double v = x[i];
        if (kind == RF_REDUCE_KIND_MAX)
            total[o] = rf_larger(total[o], v);
        else if (kind == RF_REDUCE_KIND_MIN)
            total[o] = rf_smaller(total[o], v);
        else
            total[o] += kind == RF_REDUCE_KIND_SUM_SQUARES ? v * v : kind == RF_REDUCE_KIND_SUM_ABS ? fabs(v) : v;
    }
    for (uint64_t o = 0; o < n_out; o++)
        y[o] = (float)(kind == RF_REDUCE_KIND_MEAN ? total[o] * (double)n_out / (double)count : total[o]);
    rf_free(total);
    return RF_OK;
}

static rf_cost reduce_cost(const rf_op_call *call)
{
    return rf_cost_of(call, (double)rf_desc_count(&call->in[0]));
}

static const char *reduce_name(uint32_t kind)
{
    static const char *const names[] = { "sum", "mean", "max", "sum_squares", "sum_abs", "min" };
    return kind < RF_LENGTH(names) ? names[kind] : "?";
}

static const rf_attr_field reduce_fields[] = {
    RF_ATTR_NAMED(rf_reduce_attr, kind, RF_REDUCE_KIND_COUNT - 1, reduce_name),
    RF_ATTR_UINT(rf_reduce_attr, axes_mask, (1 << RF_MAX_RANK) - 1),
    RF_ATTR_FLAG(rf_reduce_attr, keep_dims),
};

const rf_op rf_op_reduce = {
    .name = "reduce",
    RF_ATTRIBUTES(rf_reduce_attr, reduce_fields),
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    RF_STORES_16(0),
    .infer = reduce_infer,
    .gradient = reduce_gradient,
    .reference = reduce_reference,
    .cost = reduce_cost,
    .families = { &rf_reduce_common, RF_SOFTWARE(&rf_reduce_cpu), RF_GPU(&rf_reduce_gpu) },
};

/* ---- mean_scale: an op because the counts change with the batch, and a constant would not ---- */

static float mean_scale_factor(const rf_op_call *call)
{
    return (float)((double)rf_desc_count(&call->in[0]) / (double)rf_desc_count(&call->in[1]));
}

static rf_result mean_scale_infer(rf_op_call *call)
{
    RF_TRY(rf_expect_dtype(call, 0, RF_F32));
    RF_TRY(rf_expect_not_empty(call, 0));
    RF_TRY(rf_expect_not_empty(call, 1));
    call->out[0] = call->in[0];
    return RF_OK;
}

static rf_result mean_scale_gradient(rf_grad_context *ctx)
{
    const rf_value in[2] = { ctx->dout[0], ctx->in[1] };
    if (ctx->dout[0] == 0 || !ctx->needed[0]) return RF_OK;
    return rf_graph_add(ctx->graph, &rf_op_mean_scale, NULL, in, 2, &ctx->din[0]);
}

static rf_result mean_scale_reference(const rf_op_call *call, void *const *in, void *const *out)
{
    const float *x = in[0], factor = mean_scale_factor(call);
    float *y = out[0];
    for (uint64_t i = 0; i < rf_desc_count(&call->in[0]); i++) y[i] = x[i] * factor;
    return RF_OK;
}

static rf_cost mean_scale_cost(const rf_op_call *call)
{
    return rf_cost_of(call, (double)rf_desc_count(&call->in[0]));
}

static bool mean_scale_job(const rf_op_call *call, const rf_device_caps *caps, const void *form, rf_row_job *job)
{
    *job = (rf_row_job){ .shader = &rf_shader_mean_scale,
                         .loops = RF_NO_LOOPS,
                         .grid = RF_GRID_THREADS,
                         .local = rf_local_size(caps, 128),
                         .rows = rf_desc_count(&call->in[0]),
                         .threads_per_row = 1 };
    rf_row_job_tensor(job, RF_BIND_INPUT, 0, sizeof(float));
    rf_row_job_tensor(job, RF_BIND_OUTPUT, 0, sizeof(float));
    const rf_push_mean_scale push = { .scale = mean_scale_factor(call) };
    RF_ROW_JOB_PUSH(job, push, count);
    return true;
}

static const rf_kernel mean_scale_kernels[] = { { RF_ROW_KERNEL("element", mean_scale_job) } };

const rf_op rf_op_mean_scale = {
    .name = "mean_scale",
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .flags = RF_OP_INPLACE | RF_OP_NO_ONNX,
    .shape_only = 1u << 1,
    RF_STORES_16(1),
    .infer = mean_scale_infer,
    .gradient = mean_scale_gradient,
    .reference = mean_scale_reference,
    .cost = mean_scale_cost,
    RF_KERNELS(mean_scale_kernels),
};
