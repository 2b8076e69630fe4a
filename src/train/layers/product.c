/* SPDX-License-Identifier: Apache-2.0 */
#include "train/layers/product.h"

#include "base/error.h"
#include "base/quantize.h"
#include "ops/ops.h"
#include "trace/trace.h"

/* The weight in the type that the layer computes in. */
static rf_tensor operand_of(rf_trace *t, const rf_layer *layer, const rf_product *p)
{
    const rf_tensor weight = rf_layer_weight(t, layer, p->weight);
    return rf_shape_equal(p->shape, rf_variable_shape(p->weight)) ? weight : rf_reshape(t, weight, p->shape);
}

/* Rows are rounded as they are taken; the table needs no copy in 16 bits. */
static rf_tensor look_up(rf_trace *t, const rf_layer *layer, rf_variable *weight, rf_tensor indices)
{
    const rf_tensor table = rf_variable_tensor(t, weight);
    const rf_dtype type = rf_layer_type(t, layer);
    rf_value from, numbers, rows = 0;
    if (!rf_dtype_is_narrow(type)) return rf_gather(t, table, indices, 0);
    if (!rf_operand(t, table, "embedding: table", &from) || !rf_operand(t, indices, "embedding: indices", &numbers))
        return RF_NO_TENSOR;
    const rf_result r = rf_emit_gather_rows(rf_trace_graph(t), from, numbers, type, &rows);
    return rf_trace_emit(t, r, rows);
}

/* By a weight in few bits, whose lines are what is added up along. The result is stored as x is, and rows in the type
 * that the layer computes in. */
static rf_tensor quantized_product(rf_trace *t, const rf_layer *layer, const rf_product *p, rf_tensor x)
{
    rf_quantization kind;
    const rf_quantized_layout *w = rf_variable_quantized(p->weight, &kind);
    rf_quantized_attr attr = { .kind = kind, .lines = (int64_t)w->lines, .length = (int64_t)w->length };
    rf_graph *g = rf_trace_graph(t);
    rf_value from, out = 0;
    if (!rf_operand(t, x, "a product: x", &from)) return RF_NO_TENSOR;
    const rf_value words = rf_trace_words(t, p->weight);
    if (words == 0) return RF_NO_TENSOR;
    if (p->kind == RF_PRODUCT_LOOKUP) {
        rf_result r = rf_emit_gather_quantized(g, words, from, &attr, &out);
        if (r >= 0) r = rf_emit_cast(g, out, rf_layer_type(t, layer), &out);
        return rf_trace_emit(t, r, out);
    }
    attr.transposed = 1;
    const rf_result r = rf_emit_matmul_quantized(g, from, words, &attr, &out);
    return rf_trace_emit(t, r, out);
}

rf_tensor rf_layer_base_product(rf_trace *t, const rf_layer *layer, const rf_product *p, rf_tensor x)
{
    rf_quantization kind;
    if (rf_variable_quantized(p->weight, &kind)) return quantized_product(t, layer, p, x);
    switch (p->kind) {
    case RF_PRODUCT_DENSE: return rf_matmul(t, x, operand_of(t, layer, p), RF_TRANSPOSE_NONE);
    case RF_PRODUCT_HEAD: return rf_matmul(t, x, operand_of(t, layer, p), RF_TRANSPOSE_B);
    case RF_PRODUCT_LOOKUP: return look_up(t, layer, p->weight, x);
    case RF_PRODUCT_CONV: return rf_conv2d(t, x, operand_of(t, layer, p), &p->conv);
    case RF_PRODUCT_CONV_TRANSPOSE: break;
    }
    return rf_conv2d_transpose(t, x, operand_of(t, layer, p), &p->conv);
}

rf_tensor rf_layer_product(rf_trace *t, const rf_layer *layer, const rf_product *p, rf_tensor x, rf_mode mode)
{
    (void)mode; /* adapters act by it */
    return rf_layer_base_product(t, layer, p, x);
}

rf_tensor rf_layer_plain_product(rf_trace *t, const rf_layer *layer, rf_product_kind kind, rf_variable *weight,
                                 rf_tensor x, rf_mode mode)
{
    const rf_product product = { .kind = kind, .weight = weight, .shape = rf_variable_shape(weight) };
    return rf_layer_product(t, layer, &product, x, mode);
}
