/* SPDX-License-Identifier: Apache-2.0 */
/* Conversion between element types. To integers: truncated toward zero, saturated, NaN becomes 0. Integers reach the 16
 * bit types through f32. To f16 and bf16: rounded to nearest even. */
#include <string.h>

#include "base/half.h"
#include "ops/kit.h"
#include "ops/ops.h"
#include "ops/pointwise/common/elementwise.h"
#include "rf_shaders.h"

static rf_result cast_infer(rf_op_call *call)
{
    const uint32_t to = *(const uint32_t *)call->attr;
    if (rf_dtype_size((rf_dtype)to) == 0)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "cast: %u is not an element type", to);
    RF_REQUIRE(to != RF_I64, "cast: i64 exists in host memory only; cast to i32");
    call->out[0] = (rf_tensor_desc){ (rf_dtype)to, call->in[0].shape };
    return RF_OK;
}

/* A gradient in 16 bits that is seen as another shape is cast before that, so that the product that makes it can make
 * f32: as the gradient of a weight whose shape a layer changes. */
static rf_result cast_behind_view(rf_graph *g, rf_value gradient, rf_dtype to, rf_value *out)
{
    const rf_value_info *value = &g->values.items[gradient];
    if (value->kind == RF_VALUE_RESULT && g->nodes.items[value->producer].op->flags & RF_OP_VIEW) {
        const rf_node_info view = g->nodes.items[value->producer];
        rf_value in[RF_MAX_INPUTS];
        memcpy(in, view.in, sizeof(in));
        RF_TRY(rf_emit_cast(g, in[0], to, &in[0]));
        return rf_graph_add(g, view.op, view.attr, in, view.n_in, out);
    }
    return rf_emit_cast(g, gradient, to, out);
}

/* Integers have no gradient: none flows into or out of them. */
static rf_result cast_gradient(rf_grad_context *ctx)
{
    const rf_dtype from = rf_graph_desc(ctx->graph, ctx->in[0])->dtype,
                   to = rf_graph_desc(ctx->graph, ctx->out[0])->dtype;
    if (!rf_dtype_is_float(from) || !rf_dtype_is_float(to)) return RF_OK;
    if (from != RF_F32) return rf_emit_cast(ctx->graph, ctx->dout[0], from, &ctx->din[0]);
    return cast_behind_view(ctx->graph, ctx->dout[0], from, &ctx->din[0]);
}

/* The gradient of gather adds up what it is given, in whatever type, in f32. A cast that rounds stays. */
static bool cast_absorb(const rf_graph *graph, rf_node producer, rf_node consumer, rf_fused *fused)
{
    const rf_node_info *c = &graph->nodes.items[producer], *g = &graph->nodes.items[consumer];
    if (g->op != &rf_op_gather_grad || g->in[0] != c->out[0] || g->in[2] == c->out[0]) return false;
    if (!rf_dtype_is_float(rf_graph_desc(graph, c->in[0])->dtype)) return false;
    if (rf_graph_desc(graph, c->out[0])->dtype != RF_F32) return false;
    *fused = (rf_fused){ .op = g->op, .n_in = 3, .in = { c->in[0], g->in[1], g->in[2] } };
    memcpy(fused->attr, g->attr, sizeof(rf_gather_attr));
    return true;
}

typedef struct number {
    bool whole;
    int32_t i;
    float f;
} number;

static number read_element(rf_dtype type, const void *data, int64_t e)
{
    number n = { false, 0, 0 };
    switch (type) {
    case RF_F16: n.f = rf_f16_to_f32(((const uint16_t *)data)[e]); break;
    case RF_BF16: n.f = rf_bf16_to_f32(((const uint16_t *)data)[e]); break;
    case RF_I32: n = (number){ true, ((const int32_t *)data)[e], (float)((const int32_t *)data)[e] }; break;
    case RF_U8: n = (number){ true, ((const uint8_t *)data)[e], ((const uint8_t *)data)[e] }; break;
    default: n.f = ((const float *)data)[e]; break;
    }
    if (n.whole) return n;
    if (n.f >= 2147483648.0f)
        n.i = INT32_MAX;
    else if (n.f < -2147483648.0f)
        n.i = INT32_MIN;
    else
        n.i = n.f == n.f ? (int32_t)n.f : 0;
    return n;
}

static rf_result cast_reference(const rf_op_call *call, void *const *in, void *const *out)
{
    const int64_t count = rf_shape_count(call->out[0].shape);
    for (int64_t e = 0; e < count; e++) {
        const number n = read_element(call->in[0].dtype, in[0], e);
        switch (call->out[0].dtype) {
        case RF_F16: ((uint16_t *)out[0])[e] = rf_f32_to_f16(n.f); break;
        case RF_BF16: ((uint16_t *)out[0])[e] = rf_f32_to_bf16(n.f); break;
        case RF_I32: ((int32_t *)out[0])[e] = n.i; break;
        case RF_U8: ((uint8_t *)out[0])[e] = (uint8_t)(n.i < 0 ? 0 : n.i > 255 ? 255 : n.i); break;
        default: ((float *)out[0])[e] = n.f; break;
        }
    }
    return RF_OK;
}

static rf_cost cast_cost(const rf_op_call *call)
{
    return rf_cost_of(call, (double)rf_desc_count(&call->out[0]));
}

static rf_result cast_plan(const rf_op_call *call, const rf_device_caps *caps, const void *data, rf_kernel_plan *out)
{
    const rf_cast_side from = { RF_BIND_INPUT, 0, 0, call->in[0].dtype },
                       to = { RF_BIND_OUTPUT, 0, 0, call->out[0].dtype };
    return rf_cast_add(out, caps, from, to, (uint64_t)rf_shape_count(call->out[0].shape), false);
}

static const rf_kernel kernels[] = {
    { "words", rf_score_any, cast_plan },
};

static const char *dtype_name(uint32_t dtype)
{
    return rf_dtype_name((rf_dtype)dtype);
}

typedef struct cast_attr {
    uint32_t dtype;
} cast_attr;
static const rf_attr_field fields[] = { RF_ATTR_NAMED(cast_attr, dtype, RF_DTYPE_COUNT - 1, dtype_name) };

const rf_op rf_op_cast = {
    .name = "cast",
    RF_ATTRIBUTES(cast_attr, fields),
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .infer = cast_infer,
    .gradient = cast_gradient,
    .reference = cast_reference,
    .cost = cast_cost,
    .absorb_consumer = cast_absorb,
    RF_KERNELS(kernels),
};

rf_result rf_emit_cast(rf_graph *g, rf_value x, rf_dtype dtype, rf_value *out)
{
    if (rf_graph_desc(g, x)->dtype == dtype) {
        *out = x;
        return RF_OK;
    }
    const uint32_t attr = dtype;
    return rf_graph_add(g, &rf_op_cast, &attr, &x, 1, out);
}
