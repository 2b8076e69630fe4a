/* SPDX-License-Identifier: Apache-2.0 */
/* Images enlarged by whole factors: each pixel repeated, or bilinearly between the middles of pixels; the gradient. */
#include <math.h>
#include <string.h>

#include "ops/kit.h"
#include "ops/ops.h"
#include "ops/pointwise/common/upsample.h"
#include "rf_shaders.h"

/* ---- shapes ---- */

/* The shape of the enlarged images. */
static rf_result infer_enlarged(const rf_op_call *call, const rf_tensor_desc *x, rf_tensor_desc *y)
{
    const rf_upsample_attr *attr = call->attr;
    const char *name = call->op->name;
    char shape[96];
    rf_shape_format(x->shape, shape, sizeof(shape));
    if (x->dtype != RF_F32 || x->shape.rank != 4 || rf_desc_count(x) == 0)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s: needs f32 images [n, h, w, c], got %s %s", name,
                       rf_dtype_name(x->dtype), shape);
    if (attr->interpolation > RF_INTERPOLATION_BILINEAR)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s: interpolation %u does not exist", name, attr->interpolation);
    *y = *x;
    for (int i = 0; i < 2; i++) {
        if (attr->factor[i] < 1 || attr->factor[i] > RF_MAX_UPSAMPLE_FACTOR)
            return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s: factors are %d and %d; each must be 1 to %d", name,
                           (int)attr->factor[0], (int)attr->factor[1], RF_MAX_UPSAMPLE_FACTOR);
        if (x->shape.dim[1 + i] > INT64_MAX / RF_MAX_UPSAMPLE_FACTOR)
            return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s: images %s are too large to be enlarged", name, shape);
        y->shape.dim[1 + i] *= attr->factor[i];
    }
    if (rf_shape_count(y->shape) <= 0)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s: images %s, %d x %d times enlarged, have too many elements", name,
                       shape, (int)attr->factor[0], (int)attr->factor[1]);
    return RF_OK;
}

static rf_result upsample_infer(rf_op_call *call)
{
    return infer_enlarged(call, &call->in[0], &call->out[0]);
}

static rf_result upsample_grad_infer(rf_op_call *call)
{
    rf_tensor_desc y;
    RF_TRY(infer_enlarged(call, &call->in[1], &y));
    RF_TRY(rf_expect_dtype(call, 0, RF_F32));
    RF_TRY(rf_expect_shape(call, 0, &y.shape, "one gradient for each element of the result"));
    call->out[0] = call->in[1];
    return RF_OK;
}

rf_result rf_emit_upsample2d(rf_graph *g, rf_value x, const int32_t *factor, rf_interpolation interpolation,
                             rf_value *out)
{
    const rf_upsample_attr attr = { .factor = { factor ? factor[0] : 2, factor ? factor[1] : 2 },
                                    .interpolation = (uint32_t)interpolation };
    return rf_graph_add(g, &rf_op_upsample2d, &attr, &x, 1, out);
}

static rf_result upsample_gradient(rf_grad_context *ctx)
{
    const rf_value in[2] = { ctx->dout[0], ctx->in[0] };
    if (ctx->dout[0] == 0 || !ctx->needed[0]) return RF_OK;
    return rf_graph_add(ctx->graph, &rf_op_upsample2d_grad, ctx->attr, in, 2, &ctx->din[0]);
}

static rf_result upsample_grad_gradient(rf_grad_context *ctx)
{
    if (ctx->dout[0] == 0 || !ctx->needed[0]) return RF_OK;
    return rf_graph_add(ctx->graph, &rf_op_upsample2d, ctx->attr, &ctx->dout[0], 1, &ctx->din[0]);
}

/* ---- references ---- */

/* The two elements between whose middles a result lies, and how far it is on the way to the second. */
typedef struct source {
    int64_t at[2];
    double weight[2];
} source;

static source source_of(const rf_upsample_attr *attr, int axis, int64_t result, int64_t n)
{
    const int32_t factor = attr->factor[axis];
    if (attr->interpolation == RF_INTERPOLATION_NEAREST) return (source){ { result / factor }, { 1 } };
    const double place = ((double)result + 0.5) / factor - 0.5, below = floor(place), way = place - below;
    const int64_t first = below < 0 ? 0 : (int64_t)below, second = (int64_t)below + 1 < n ? (int64_t)below + 1 : n - 1;
    if (first == second) return (source){ { first }, { 1 } };
    return (source){ { first, second }, { 1 - way, way } };
}

/* Adds weight * from[] to to[], in one direction or the other, for all pairs of a result and what it is made of. */
static void add_products(const rf_op_call *call, const rf_shape *x, const float *from, double *to, bool gradient)
{
    const rf_upsample_attr *attr = call->attr;
    const int64_t height = x->dim[1], width = x->dim[2], channels = x->dim[3];
    int64_t result = 0;
    for (int64_t n = 0; n < x->dim[0]; n++)
        for (int64_t row = 0; row < height * attr->factor[0]; row++)
            for (int64_t column = 0; column < width * attr->factor[1]; column++, result += channels) {
                const source down = source_of(attr, 0, row, height), right = source_of(attr, 1, column, width);
                for (int k = 0; k < 4; k++) {
                    const double weight = down.weight[k / 2] * right.weight[k % 2];
                    const int64_t element = ((n * height + down.at[k / 2]) * width + right.at[k % 2]) * channels;
                    if (weight == 0) continue;
                    for (int64_t c = 0; c < channels; c++)
                        to[(gradient ? element : result) + c] +=
                            weight * (double)from[(gradient ? result : element) + c];
                }
            }
}

static rf_result upsample_compute(const rf_op_call *call, void *const *in, void *const *out, bool gradient)
{
    const uint64_t count = rf_desc_count(&call->out[0]);
    float *to = out[0];
    double *sums = RF_NEW_ARRAY(double, count);
    if (!sums) return RF_ERROR_OUT_OF_HOST_MEMORY;
    add_products(call, &call->in[gradient ? 1 : 0].shape, in[0], sums, gradient);
    for (uint64_t i = 0; i < count; i++) to[i] = (float)sums[i];
    rf_free(sums);
    return RF_OK;
}

static rf_result upsample_reference(const rf_op_call *call, void *const *in, void *const *out)
{
    return upsample_compute(call, in, out, false);
}

static rf_result upsample_grad_reference(const rf_op_call *call, void *const *in, void *const *out)
{
    return upsample_compute(call, in, out, true);
}

static rf_cost upsample_cost(const rf_op_call *call)
{
    const rf_upsample_attr *attr = call->attr;
    const rf_tensor_desc *results = call->op->role == RF_UPSAMPLE ? &call->out[0] : &call->in[0];
    const double each = attr->interpolation == RF_INTERPOLATION_BILINEAR ? 9 : call->op->role == RF_UPSAMPLE ? 0 : 1;
    return rf_cost_of(call, each * (double)rf_desc_count(results));
}

/* ---- the ops ---- */

static const char *interpolation_name(uint32_t interpolation)
{
    return interpolation <= RF_INTERPOLATION_BILINEAR ? rf_interpolation_names[interpolation] : "?";
}

static const rf_attr_field fields[] = {
    RF_ATTR_INTS(rf_upsample_attr, factor[0], "factor", 2, 0, RF_MAX_UPSAMPLE_FACTOR),
    RF_ATTR_NAMED(rf_upsample_attr, interpolation, RF_INTERPOLATION_BILINEAR, interpolation_name),
};

const char *const rf_interpolation_names[] = { "nearest", "bilinear" };

const rf_op rf_op_upsample2d = {
    .name = "upsample2d",
    .role = RF_UPSAMPLE,
    RF_ATTRIBUTES(rf_upsample_attr, fields),
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    RF_STORES_16(1),
    .infer = upsample_infer,
    .gradient = upsample_gradient,
    .reference = upsample_reference,
    .cost = upsample_cost,
    .families = { &rf_upsample_common },
};

const rf_op rf_op_upsample2d_grad = {
    .name = "upsample2d_grad",
    .role = RF_UPSAMPLE_GRAD,
    RF_ATTRIBUTES(rf_upsample_attr, fields),
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .flags = RF_OP_NO_ONNX,
    .shape_only = 1u << 1,
    RF_STORES_16(1),
    .infer = upsample_grad_infer,
    .gradient = upsample_grad_gradient,
    .reference = upsample_grad_reference,
    .cost = upsample_cost,
    .families = { &rf_upsample_grad_common },
};
