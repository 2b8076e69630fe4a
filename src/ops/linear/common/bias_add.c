/* SPDX-License-Identifier: Apache-2.0 */
/* y[..., c] = x[..., c] + bias[c]. Usually fused into the product or convolution before it. */
#include "ops/linear/common/linear.h"
#include "rf_shaders.h"

static rf_result bias_add_infer(rf_op_call *call)
{
    const rf_tensor_desc *x = &call->in[0], *bias = &call->in[1];
    const int64_t columns = x->shape.rank > 0 ? x->shape.dim[x->shape.rank - 1] : 0;
    if (x->dtype != RF_F32 || bias->dtype != RF_F32 || columns < 1 ||
        !rf_shape_equal(bias->shape, (rf_shape){ 1, { columns } })) {
        char xs[96], bs[96];
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "bias_add: x %s %s and bias %s %s must be f32 [..., c] and f32 [c]",
                       rf_dtype_name(x->dtype), rf_shape_format(x->shape, xs, sizeof(xs)), rf_dtype_name(bias->dtype),
                       rf_shape_format(bias->shape, bs, sizeof(bs)));
    }
    call->out[0] = *x;
    return RF_OK;
}

static rf_result bias_add_gradient(rf_grad_context *ctx)
{
    if (!ctx->dout[0]) return RF_OK;
    ctx->din[0] = ctx->dout[0];
    if (!ctx->needed[1]) return RF_OK;
    const int32_t rank = rf_graph_desc(ctx->graph, ctx->dout[0])->shape.rank;
    if (rank == 1) {
        ctx->din[1] = ctx->dout[0];
        return RF_OK;
    }
    int32_t axes[RF_MAX_RANK];
    for (int32_t i = 0; i < rank - 1; i++) axes[i] = i;
    return rf_emit_reduce(ctx->graph, RF_REDUCE_KIND_SUM, ctx->dout[0], axes, (uint32_t)rank - 1, false, &ctx->din[1]);
}

static rf_result bias_add_reference(const rf_op_call *call, void *const *in, void *const *out)
{
    const int64_t columns = call->in[1].shape.dim[0], count = rf_shape_count(call->in[0].shape);
    const float *x = in[0], *bias = in[1];
    float *y = out[0];
    for (int64_t i = 0; i < count; i++) y[i] = x[i] + bias[i % columns];
    return RF_OK;
}

static rf_cost bias_add_cost(const rf_op_call *call)
{
    return rf_cost_of(call, (double)rf_desc_count(&call->in[0]));
}

static bool wide_possible(const rf_op_call *call)
{
    return call->in[1].shape.dim[0] % 4 == 0;
}

static double score_naive(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    return rf_tensor_bytes(&call->in[1]) <= caps->max_storage_range && caps->max_storage_range > caps->buffer_alignment
               ? RF_SCORE_ANY
               : RF_SCORE_NONE;
}

static double score_wide(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    return wide_possible(call) && score_naive(call, caps, data) > 0 ? RF_SCORE_WIDE : RF_SCORE_NONE;
}

/* Elements of a chunk: of 16 bits, whole alignments of both sizes. */
static uint64_t chunk_elements(const rf_op_call *call, const rf_device_caps *caps)
{
    const uint64_t step = rf_min((caps->max_storage_range - caps->buffer_alignment) / 16 * 4, INT32_MAX / 2 / 4 * 4);
    return rf_call_is_narrow(call) ? step / caps->buffer_alignment * caps->buffer_alignment : step;
}

static bool wide_narrow(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    return chunk_elements(call, caps) > 0;
}

static uint32_t stored_types(const rf_op_call *call, const rf_device_caps *caps)
{
    const rf_dtype stored[] = { call->in[0].dtype, call->in[1].dtype, call->out[0].dtype };
    uint32_t types = 0;
    for (uint32_t i = 0; i < 3; i++)
        if (rf_dtype_is_narrow(stored[i])) types |= 1u << i | rf_type_word(stored[i], caps) << 8;
    return types;
}

/* Where elements are of 16 bits chunks begin where descriptors do: base and first count none. */
static void bind_chunk(rf_dispatch *d, const rf_op_call *call, const rf_device_caps *caps, rf_bind_kind kind,
                       uint64_t at, uint64_t chunk)
{
    const size_t size = rf_dtype_size((kind == RF_BIND_INPUT ? &call->in[0] : &call->out[0])->dtype);
    if (rf_call_is_narrow(call))
        rf_bind_bytes(d, kind, 0, at * size, chunk * size);
    else
        rf_bind_elements(d, caps, kind, 0, at, chunk);
}

/* In chunks where x is larger than a descriptor may span. */
static rf_result plan_chunks(const rf_op_call *call, const rf_device_caps *caps, rf_kernel_plan *plan,
                             const rf_shader *shader, uint32_t width)
{
    const uint64_t count = (uint64_t)rf_shape_count(call->in[0].shape), columns = (uint64_t)call->in[1].shape.dim[0];
    const uint64_t step = chunk_elements(call, caps);
    const uint32_t local = rf_local_size(caps, 128);
    for (uint64_t at = 0; at < count; at += step) {
        const uint64_t chunk = rf_min(step, count - at);
        const rf_push_bias_add push = { .total = (int32_t)(chunk / width),
                                        .columns = (int32_t)(columns / width),
                                        .base = (int32_t)(rf_element_base(caps, at) / width),
                                        .first = (int32_t)(at % columns / width) };
        rf_dispatch *d = rf_kernel_plan_add(plan, shader, RF_NO_LOOPS);
        if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
        rf_dispatch_spec(d, local);
        if (width == 4) rf_dispatch_spec(d, stored_types(call, caps));
        rf_dispatch_push(d, &push, sizeof(push));
        bind_chunk(d, call, caps, RF_BIND_INPUT, at, chunk);
        rf_bind_whole(d, RF_BIND_INPUT, 1);
        bind_chunk(d, call, caps, RF_BIND_OUTPUT, at, chunk);
        rf_dispatch_items(d, caps, chunk / width);
        d->concurrent = at > 0;
    }
    return RF_OK;
}

static rf_result plan_naive(const rf_op_call *call, const rf_device_caps *caps, const void *data, rf_kernel_plan *plan)
{
    return plan_chunks(call, caps, plan, &rf_shader_bias_add, 1);
}

static rf_result plan_wide(const rf_op_call *call, const rf_device_caps *caps, const void *data, rf_kernel_plan *plan)
{
    return plan_chunks(call, caps, plan, &rf_shader_bias_add_wide, 4);
}

rf_result rf_emit_bias_add(rf_graph *g, rf_value x, rf_value bias, rf_value *out)
{
    return rf_graph_add(g, &rf_op_bias_add, NULL, (const rf_value[]){ x, bias }, 2, out);
}

static const rf_kernel kernels[] = {
    { "naive", score_naive, plan_naive },
    { "wide", score_wide, plan_wide, .narrow = wide_narrow },
};

const rf_op rf_op_bias_add = {
    .name = "bias_add",
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .flags = RF_OP_INPLACE,
    RF_STORES_16(1),
    .infer = bias_add_infer,
    .gradient = bias_add_gradient,
    .reference = bias_add_reference,
    .cost = bias_add_cost,
    RF_KERNELS(kernels),
};
