/* SPDX-License-Identifier: Apache-2.0 */
/* y = x W or x W^T, and lines of W, where W is a matrix in 8 or 4 bits (base/quantize.h), which is never trained: words
 * of bits, whose shape and kind the attributes have. */
#include "ops/linear/common/quantized.h"

#include <math.h>

#include "graph/examples.h"
#include "ops/linear/gpu/gpu.h"

/* ---- shapes ---- */

static rf_result words_check(const rf_op_call *call, uint32_t input)
{
    const rf_quantized_attr *attr = call->attr;
    const rf_tensor_desc *words = &call->in[input];
    char shape[96];
    if (!rf_quantized_form_of((rf_quantization)attr->kind) || attr->lines < 1 || attr->length < 1 ||
        attr->lines > INT32_MAX || attr->length > INT32_MAX)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s: no matrix is %s of %lld lines of %lld numbers", call->op->name,
                       rf_quantization_name(attr->kind), (long long)attr->lines, (long long)attr->length);
    const rf_quantized_layout l =
        rf_quantized_layout_make((rf_quantization)attr->kind, (uint64_t)attr->lines, (uint64_t)attr->length);
    if (words->dtype == RF_I32 && l.words <= INT64_MAX &&
        rf_shape_equal(words->shape, (rf_shape){ 1, { (int64_t)l.words } }))
        return RF_OK;
    return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s: the matrix is %s %s, must be i32 [%llu]: %s of %lld lines of %lld",
                   call->op->name, rf_dtype_name(words->dtype), rf_shape_format(words->shape, shape, sizeof(shape)),
                   (unsigned long long)l.words, l.form->name, (long long)attr->lines, (long long)attr->length);
}

static rf_result product_infer(rf_op_call *call)
{
    const rf_quantized_attr *attr = call->attr;
    const rf_tensor_desc *x = &call->in[0];
    RF_TRY(words_check(call, 1));
    const int64_t summands = attr->transposed ? attr->length : attr->lines;
    char shape[96];
    if (x->dtype != RF_F32 || x->shape.rank < 1 || x->shape.dim[x->shape.rank - 1] != summands ||
        rf_shape_count(x->shape) < 1)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "matmul_quantized: x is %s %s, must be f32 [..., %lld]",
                       rf_dtype_name(x->dtype), rf_shape_format(x->shape, shape, sizeof(shape)), (long long)summands);
    call->out[0] = *x;
    call->out[0].shape.dim[x->shape.rank - 1] = attr->transposed ? attr->lines : attr->length;
    if (rf_shape_count(call->out[0].shape) < 0)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "matmul_quantized: the product of x %s is too large",
                       rf_shape_format(x->shape, shape, sizeof(shape)));
    return RF_OK;
}

static rf_result gather_infer(rf_op_call *call)
{
    const rf_quantized_attr *attr = call->attr;
    const rf_tensor_desc *indices = &call->in[1];
    char shape[96];
    RF_TRY(words_check(call, 0));
    if (attr->transposed || indices->dtype != RF_I32 || indices->shape.rank >= RF_MAX_RANK ||
        rf_shape_count(indices->shape) < 1)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT,
                       "gather_quantized: indices are %s %s, must be i32, some, of %d dimensions or less",
                       rf_dtype_name(indices->dtype), rf_shape_format(indices->shape, shape, sizeof(shape)),
                       RF_MAX_RANK - 1);
    call->out[0] = (rf_tensor_desc){ RF_F32, indices->shape };
    call->out[0].shape.dim[call->out[0].shape.rank++] = attr->length;
    return rf_shape_count(call->out[0].shape) < 0
               ? RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "gather_quantized: too many indices, %s",
                         rf_shape_format(indices->shape, shape, sizeof(shape)))
               : RF_OK;
}

/* Lines stand where their indices do. */
static void gather_examples(const void *attr, const rf_examples *const *in, uint32_t n_in, uint32_t i, rf_examples *out)
{
    (void)attr;
    (void)n_in;
    (void)i;
    for (int32_t d = 0; d < in[1]->shape.rank; d++)
        if (out->dim[d].outer != 0) rf_examples_set_dim(out, d, in[1]->dim[d]);
}

static int64_t gather_choices(const rf_op_call *call)
{
    return ((const rf_quantized_attr *)call->attr)->lines;
}

static rf_quantized_layout layout_of(const rf_op_call *call)
{
    const rf_quantized_attr *attr = call->attr;
    return rf_quantized_layout_make((rf_quantization)attr->kind, (uint64_t)attr->lines, (uint64_t)attr->length);
}

rf_quantized_product rf_quantized_product_of(const rf_op_call *call)
{
    const rf_quantized_attr *attr = call->attr;
    return (rf_quantized_product){ .w = layout_of(call),
                                   .rows = rf_desc_rows(&call->in[0]),
                                   .summands = rf_desc_columns(&call->in[0]),
                                   .columns = rf_desc_columns(&call->out[0]),
                                   .transposed = attr->transposed,
                                   .kind = attr->kind };
}

/* ---- graphs ---- */

rf_result rf_emit_matmul_quantized(rf_graph *g, rf_value x, rf_value words, const rf_quantized_attr *attr,
                                   rf_value *out)
{
    return rf_graph_add(g, &rf_op_matmul_quantized, attr, (const rf_value[]){ x, words }, 2, out);
}

rf_result rf_emit_gather_quantized(rf_graph *g, rf_value words, rf_value indices, const rf_quantized_attr *attr,
                                   rf_value *out)
{
    return rf_graph_add(g, &rf_op_gather_quantized, attr, (const rf_value[]){ words, indices }, 2, out);
}

/* By x alone: with the same words, the other way round. */
static rf_result product_gradient(rf_grad_context *ctx)
{
    rf_quantized_attr attr = *(const rf_quantized_attr *)ctx->attr;
    attr.transposed = !attr.transposed;
    if (!ctx->dout[0] || !ctx->needed[0]) return RF_OK;
    return rf_emit_matmul_quantized(ctx->graph, ctx->dout[0], ctx->in[1], &attr, &ctx->din[0]);
}

/* ---- references ---- */

static rf_result product_reference(const rf_op_call *call, void *const *in, void *const *out)
{
    const rf_quantized_product p = rf_quantized_product_of(call);
    const uint64_t length = p.w.length;
    float *w = RF_NEW_ARRAY(float, p.w.lines *length);
    if (!w) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_dequantize_lines(&p.w, 0, p.w.lines, in[1], w);
    for (uint64_t i = 0; i < p.rows * p.columns; i++) {
        const float *x = (const float *)in[0] + i / p.columns * p.summands;
        const uint64_t j = i % p.columns;
        double sum = 0;
        for (uint64_t k = 0; k < p.summands; k++)
            sum += (double)x[k] * (double)w[p.transposed ? j * length + k : k * length + j];
        ((float *)out[0])[i] = (float)sum;
    }
    rf_free(w);
    return RF_OK;
}

static rf_result gather_reference(const rf_op_call *call, void *const *in, void *const *out)
{
    const rf_quantized_layout l = layout_of(call);
    const int32_t *indices = in[1];
    float *y = out[0];
    for (int64_t i = 0; i < rf_shape_count(call->in[1].shape); i++, y += l.length) {
        const bool known = indices[i] >= 0 && (uint64_t)indices[i] < l.lines;
        if (known) rf_dequantize_lines(&l, (uint64_t)indices[i], 1, in[0], y);
        for (uint64_t k = 0; !known && k < l.length; k++) y[k] = NAN;
    }
    return RF_OK;
}

static rf_cost product_cost(const rf_op_call *call)
{
    const rf_quantized_product p = rf_quantized_product_of(call);
    return rf_cost_of(call, 2.0 * (double)p.rows * (double)p.summands * (double)p.columns);
}

/* Only those lines are read that are taken. */
static rf_cost gather_cost(const rf_op_call *call)
{
    return (rf_cost){ 0, 1.25 * (double)rf_tensor_bytes(&call->out[0]) + (double)rf_tensor_bytes(&call->in[1]) };
}

/* ---- the ops ---- */

static const rf_attr_field fields[] = {
    RF_ATTR_NAMED(rf_quantized_attr, kind, RF_QUANTIZATION_Q4_0, rf_quantization_name),
    RF_ATTR_FLAG(rf_quantized_attr, transposed),
    RF_ATTR_INT(rf_quantized_attr, lines, 0, INT32_MAX),
    RF_ATTR_INT(rf_quantized_attr, length, 0, INT32_MAX),
};

static const rf_kernel product_kernels[] = {
    { "naive", rf_quantized_naive_score, rf_quantized_naive_plan },
    { "unpacked", rf_quantized_unpacked_score, rf_quantized_unpacked_plan },
};
static const rf_kernel gather_kernels[] = { { "four", rf_quantized_gather_score, rf_quantized_gather_plan } };

const rf_op rf_op_matmul_quantized = {
    .name = "matmul_quantized",
    RF_ATTRIBUTES(rf_quantized_attr, fields),
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .flags = RF_OP_NO_ONNX,
    .unbatched_in = 1u << 1,
    .settings = 1u << 1,
    RF_STORES_16(1),
    .infer = product_infer,
    .gradient = product_gradient,
    .reference = product_reference,
    .cost = product_cost,
    RF_KERNELS_AND(product_kernels, RF_GPU(&rf_matmul_quantized_gpu)),
};

const rf_op rf_op_gather_quantized = {
    .name = "gather_quantized",
    RF_ATTRIBUTES(rf_quantized_attr, fields),
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .flags = RF_OP_NO_GRADIENT | RF_OP_NO_ONNX,
    .unbatched_in = 1u << 0,
    .settings = 1u << 0,
    .choices = gather_choices,
    .index_input = 1,
    .examples = gather_examples,
    .infer = gather_infer,
    .reference = gather_reference,
    .cost = gather_cost,
    RF_KERNELS(gather_kernels),
};
