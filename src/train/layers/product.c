/* SPDX-License-Identifier: Apache-2.0 */
#include "train/layers/product.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/quantize.h"
#include "ops/ops.h"
#include "trace/trace.h"

/* ---- what the weight makes ---- */

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

/* ---- what an adapter adds ---- */

static rf_tensor scale_by(rf_trace *t, rf_tensor x, float factor)
{
    return factor == 1.0f ? x : rf_multiply(t, x, rf_constant(t, factor));
}

/* x through both matrices. The scale meets the narrow side. */
static rf_tensor adapter_product(rf_trace *t, const rf_layer *layer, const rf_product *p, const rf_adapter *a,
                                 rf_tensor x)
{
    rf_tensor narrow;
    if (p->kind == RF_PRODUCT_LOOKUP)
        narrow = look_up(t, layer, a->a, x);
    else if (p->kind == RF_PRODUCT_CONV)
        narrow = rf_conv2d(t, x, rf_layer_weight(t, layer, a->a), &p->conv);
    else
        narrow = rf_matmul(t, x, rf_layer_weight(t, layer, a->a), RF_TRANSPOSE_NONE);
    return rf_matmul(t, scale_by(t, narrow, a->scale), rf_layer_weight(t, layer, a->b), RF_TRANSPOSE_NONE);
}

/* Lines of a weight in few bits, all of them, in f32. */
static rf_tensor decoded_lines(rf_trace *t, rf_variable *weight)
{
    rf_quantization kind;
    const rf_quantized_layout *w = rf_variable_quantized(weight, &kind);
    const rf_quantized_attr attr = { .kind = kind, .lines = (int64_t)w->lines, .length = (int64_t)w->length };
    int32_t *numbers = RF_NEW_ARRAY(int32_t, w->lines);
    if (!numbers) return rf_trace_emit(t, RF_ERROR_OUT_OF_HOST_MEMORY, 0);
    for (uint64_t i = 0; i < w->lines; i++) numbers[i] = (int32_t)i;
    const rf_array all = { .dtype = RF_I32, .shape = RF_SHAPE(attr.lines), .data = numbers };
    const rf_tensor indices = rf_constant_array(t, &all);
    rf_free(numbers);
    rf_value at, out = 0;
    const rf_value words = rf_trace_words(t, weight);
    if (words == 0 || !rf_operand(t, indices, "a product: lines", &at)) return RF_NO_TENSOR;
    const rf_result r = rf_emit_gather_quantized(rf_trace_graph(t), words, at, &attr, &out);
    return rf_trace_emit(t, r, out);
}

/* The weight as a matrix [in, out], in f32. */
static rf_tensor plain_matrix(rf_trace *t, const rf_product *p, int64_t out)
{
    static const int32_t turned[] = { 1, 0 };
    rf_quantization kind;
    if (rf_variable_quantized(p->weight, &kind)) {
        const rf_tensor lines = decoded_lines(t, p->weight);
        return p->kind == RF_PRODUCT_LOOKUP ? lines : rf_transpose(t, lines, turned);
    }
    const rf_tensor weight = rf_variable_tensor(t, p->weight);
    return p->kind == RF_PRODUCT_HEAD ? rf_transpose(t, weight, turned) : rf_reshape(t, weight, RF_SHAPE(-1, out));
}

/* The weight and the adapter together as a matrix [in, out], in f32. */
static rf_tensor whole_weight(rf_trace *t, const rf_product *p, const rf_adapter *a)
{
    const int64_t out = rf_variable_shape(a->b).dim[1];
    const rf_tensor down = rf_reshape(t, rf_variable_tensor(t, a->a), RF_SHAPE(-1, rf_variable_shape(a->b).dim[0]));
    const rf_tensor delta = rf_matmul(t, down, rf_variable_tensor(t, a->b), RF_TRANSPOSE_NONE);
    return rf_add(t, plain_matrix(t, p, out), scale_by(t, delta, a->scale));
}

/* The factor of each column: its magnitude over the length that it has, which takes no gradient (section 4.3 of Liu et
 * al. 2024). */
static rf_tensor column_scales(rf_trace *t, const rf_layer *layer, const rf_product *p, const rf_adapter *a)
{
    static const int32_t rows[] = { 0 };
    const rf_tensor whole = whole_weight(t, p, a);
    const rf_tensor squares = rf_reduce_sum(t, rf_multiply(t, whole, whole), rows, 1, false);
    const rf_tensor length = rf_stop_gradient(t, rf_sqrt(t, squares));
    const rf_tensor scales = rf_divide(t, rf_variable_tensor(t, a->magnitude), length);
    const rf_dtype type = rf_layer_type(t, layer);
    return rf_dtype_is_narrow(type) ? rf_cast(t, scales, type) : scales;
}

/* All that a weight with an adapter makes. */
static rf_tensor adapted_product(rf_trace *t, const rf_layer *layer, const rf_product *p, const rf_adapter *a,
                                 rf_tensor x, rf_mode mode)
{
    const bool drops = mode == RF_TRAINING && a->dropout > 0.0f && p->kind != RF_PRODUCT_LOOKUP;
    const rf_tensor dropped = drops ? rf_dropout(t, x, a->dropout, a->seed) : x;
    const rf_tensor base = rf_layer_base_product(t, layer, p, x);
    const rf_tensor added = adapter_product(t, layer, p, a, dropped);
    if (!a->magnitude) return rf_add(t, base, added);
    const rf_tensor scales = column_scales(t, layer, p, a);
    if (!drops) return rf_multiply(t, rf_add(t, base, added), scales);
    /* The weight itself sees all of x; only what training changes about it sees the rest. */
    const rf_tensor seen = rf_layer_base_product(t, layer, p, dropped);
    return rf_add(t, rf_subtract(t, base, seen), rf_multiply(t, rf_add(t, seen, added), scales));
}

/* ---- the product ---- */

/* Where the layer makes it; NULL after a failure. */
static const rf_product_site *note_site(const rf_layer *layer, const rf_product *p)
{
    rf_product_sites *sites = layer->sites;
    for (uint32_t i = 0; i < sites->count; i++)
        if (sites->items[i].product.weight == p->weight && sites->items[i].product.kind == p->kind)
            return &sites->items[i];
    if (RF_VEC_GROW(sites) < 0) return NULL;
    sites->items[sites->count] = (rf_product_site){ .product = *p };
    return &sites->items[sites->count++];
}

rf_tensor rf_layer_product(rf_trace *t, const rf_layer *layer, const rf_product *p, rf_tensor x, rf_mode mode)
{
    const rf_product_site *site = note_site(layer, p);
    if (!site) return rf_trace_emit(t, RF_ERROR_OUT_OF_HOST_MEMORY, 0);
    return site->adapter ? adapted_product(t, layer, p, site->adapter, x, mode) : rf_layer_base_product(t, layer, p, x);
}

rf_tensor rf_layer_plain_product(rf_trace *t, const rf_layer *layer, rf_product_kind kind, rf_variable *weight,
                                 rf_tensor x, rf_mode mode)
{
    const rf_product product = { .kind = kind, .weight = weight, .shape = rf_variable_shape(weight) };
    return rf_layer_product(t, layer, &product, x, mode);
}
