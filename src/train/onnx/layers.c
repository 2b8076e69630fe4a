/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes with weights as the library's layers. Weights that files share are shared here. */
#include <string.h>

#include "train/onnx/graph.h"

static const int32_t to_kernel[] = { 2, 3, 1, 0 }, turned[] = { 1, 0 };

/* Weights that are trained: floats of an initializer. */
static rf_import_constant *weight_of(rf_import *im, const rf_import_node *n, uint32_t i, int32_t rank)
{
    if (i >= n->num_in) return NULL;
    rf_import_constant *c = rf_import_known(rf_import_find(im, n->in[i]));
    return c && !c->whole && !c->sizes && c->shape.rank == rank && (c->name || rf_import_count(c) == 1) ? c : NULL;
}

static rf_import_value *tensor_of(rf_import *im, const rf_import_node *n, uint32_t i)
{
    rf_import_value *v = i < n->num_in ? rf_import_find(im, n->in[i]) : NULL;
    return v && v->kind == RF_IMPORT_TENSOR ? v : NULL;
}

static bool has_operand(const rf_import_node *n, uint32_t i)
{
    return i < n->num_in && *n->in[i];
}

static void set_output(rf_import *im, const rf_import_node *n, rf_symbol symbol, int32_t rank, bool last)
{
    rf_import_value *v = rf_import_find(im, n->out[0]);
    if (!v) return;
    v->kind = RF_IMPORT_TENSOR;
    v->symbol = symbol;
    v->rank = rank;
    v->last = last;
}

/* ---- sharing ---- */

static bool same_attributes(const rf_import_node *a, const rf_import_node *b)
{
    if (a->num_attributes != b->num_attributes || strcmp(a->op, b->op) != 0) return false;
    for (uint32_t i = 0; i < a->num_attributes; i++) {
        const rf_import_attribute *x = &a->attributes[i], *y = rf_import_find_attribute(b, x->name);
        if (!y || x->i != y->i || x->f != y->f || x->num_ints != y->num_ints || strcmp(x->s, y->s) != 0 ||
            memcmp(x->ints, y->ints, x->num_ints * sizeof(*x->ints)) != 0)
            return false;
    }
    return true;
}

static rf_layer *find_shared(const rf_import *im, const rf_import_node *n, const float *kernel, const float *bias)
{
    for (uint32_t i = 0; i < im->shared.count; i++) {
        const rf_import_shared *s = &im->shared.items[i];
        if (s->kernel == kernel && s->bias == bias && same_attributes(s->node, n)) return s->layer;
    }
    return NULL;
}

static rf_result share_layer(rf_import *im, const rf_import_node *n, const rf_import_constant *kernel,
                             const float *bias, rf_layer *layer)
{
    RF_TRY(RF_VEC_GROW(&im->shared));
    im->shared.items[im->shared.count++] = (rf_import_shared){ n, kernel->name, kernel->f, bias, layer };
    return RF_OK;
}

/* A new layer that cannot be kept has no other owner. */
static rf_result keep_layer(rf_import *im, const rf_import_node *n, const rf_import_constant *kernel, const float *bias,
                            rf_layer *layer)
{
    const rf_result r = share_layer(im, n, kernel, bias, layer);
    if (r < 0) rf_layer_destroy(&layer);
    return r;
}

static rf_result call_layer(rf_import *im, const rf_import_node *n, rf_layer *layer, rf_symbol x, int32_t rank,
                            bool last)
{
    rf_symbol y;
    RF_TRY(rf_model_builder_apply(im->builder, layer, &x, 1, (rf_symbol){ 0 }, &y, 1));
    set_output(im, n, y, rank, last);
    return RF_OK;
}

/* ---- convolution ---- */

/* Two numbers of an attribute. False where there are others. */
static bool pair_of(const rf_import_node *n, const char *name, int64_t fallback, int32_t out[2])
{
    const rf_import_attribute *a = rf_import_find_attribute(n, name);
    for (int k = 0; k < 2; k++) {
        const int64_t value = a && a->num_ints == 2 ? a->ints[k] : fallback;
        if (value < 0 || value > INT32_MAX || (a && a->num_ints != 2)) return false;
        out[k] = (int32_t)value;
    }
    return true;
}

static bool conv_of(const rf_import_node *n, rf_conv2d_params *p)
{
    const rf_import_attribute *pads = rf_import_find_attribute(n, "pads");
    static const int place[] = { 0, 2, 1, 3 }; /* top, left, bottom, right there */
    *p = (rf_conv2d_params){ .padding = RF_PADDING_EXPLICIT };
    const char *automatic = rf_import_attribute_text(n, "auto_pad", "NOTSET");
    if (strncmp(automatic, "SAME", 4) == 0 || (pads && pads->num_ints != 4)) return false;
    const int64_t groups = rf_import_attribute_int(n, "group", 1);
    if (groups < 1 || groups > INT32_MAX) return false;
    p->groups = (int32_t)groups;
    for (int k = 0; pads && strcmp(automatic, "VALID") != 0 && k < 4; k++) {
        if (pads->ints[k] < 0 || pads->ints[k] > INT32_MAX) return false;
        p->explicit_padding[place[k]] = (int32_t)pads->ints[k];
    }
    return pair_of(n, "strides", 1, p->stride) && pair_of(n, "dilations", 1, p->dilation);
}

/* Rows that are put on are taken from what the padding takes away, where that is enough. */
static bool add_output_padding(const rf_import_node *n, rf_conv2d_params *p)
{
    int32_t more[2];
    if (rf_import_find_attribute(n, "output_shape") || !pair_of(n, "output_padding", 0, more)) return false;
    for (int k = 0; k < 2; k++) {
        if (more[k] > p->explicit_padding[2 * k + 1]) return false;
        p->explicit_padding[2 * k + 1] -= more[k];
    }
    return true;
}

static rf_result make_conv(rf_import *im, const rf_import_node *n, rf_import_value *x, rf_import_constant *w,
                           rf_import_constant *b, rf_conv2d_params conv, int64_t filters)
{
    const bool transposed = strcmp(n->op, "ConvTranspose") == 0;
    rf_layer *layer = find_shared(im, n, w->f, b ? b->f : NULL);
    rf_symbol image;
    RF_TRY(rf_import_with_channels_last(im, x, &image));
    if (!layer) {
        const rf_conv2d_layer_params params = { .filters = (int32_t)filters,
                                                .kernel_size = { (int32_t)w->shape.dim[2], (int32_t)w->shape.dim[3] },
                                                .conv = conv,
                                                .no_bias = !b,
                                                .name = rf_import_layer_name(im, w->name, "conv") };
        if (!params.name) return RF_ERROR_OUT_OF_HOST_MEMORY;
        RF_TRY(transposed ? rf_layer_conv2d_transpose(&params, &layer) : rf_layer_conv2d(&params, &layer));
        RF_TRY(keep_layer(im, n, w, b ? b->f : NULL, layer));
        const uint64_t count = (uint64_t)rf_import_count(w);
        rf_result r = rf_import_add_weight(im, layer, "kernel", rf_import_permuted(im, w, to_kernel), count);
        if (r >= 0 && b) r = rf_import_add_weight(im, layer, "bias", b->f, (uint64_t)filters);
        if (r < 0) rf_layer_destroy(&layer);
        RF_TRY(r);
    }
    return call_layer(im, n, layer, image, 4, true);
}

static rf_result conv_layer(rf_import *im, const rf_import_node *n, bool *done)
{
    rf_import_value *x = tensor_of(im, n, 0);
    rf_import_constant *w = weight_of(im, n, 1, 4), *b = weight_of(im, n, 2, 1);
    const bool transposed = strcmp(n->op, "ConvTranspose") == 0;
    rf_conv2d_params conv;
    if (!x || x->rank != 4 || !w || (has_operand(n, 2) && !b) || !conv_of(n, &conv)) return RF_OK;
    if (transposed && !add_output_padding(n, &conv)) return RF_OK;
    const int64_t filters = transposed ? w->shape.dim[1] * conv.groups : w->shape.dim[0];
    for (int d = 0; d < 4; d++)
        if (w->shape.dim[d] < 1 || w->shape.dim[d] > INT32_MAX) return RF_OK;
    if (filters > INT32_MAX || (b && b->shape.dim[0] != filters)) return RF_OK;
    *done = true;
    return make_conv(im, n, x, w, b, conv, filters);
}

/* ---- products ---- */

/* The sum that alone reads the product and adds a vector of the width to it; NULL: there is none. */
static const rf_import_node *bias_after(rf_import *im, const rf_import_node *n, int64_t width,
                                        rf_import_constant **bias)
{
    const rf_import_value *y = rf_import_find(im, n->out[0]);
    const rf_import_graph *g = &im->file.graph;
    if (!y || y->uses != 1 || y->consumer >= g->num_nodes || n < g->nodes || n >= g->nodes + g->num_nodes) return NULL;
    const rf_import_node *sum = &g->nodes[y->consumer];
    if (strcmp(sum->op, "Add") != 0 || sum->num_in != 2 || rf_import_find_attribute(sum, "axis")) return NULL;
    const uint32_t other = strcmp(sum->in[0], n->out[0]) == 0 ? 1 : 0;
    rf_import_constant *b = weight_of(im, sum, other, 1);
    if (!b || b->shape.dim[0] != width) return NULL;
    *bias = b;
    return sum;
}

static rf_layer *find_table(const rf_import *im, const char *name)
{
    for (uint32_t i = 0; name && i < im->shared.count; i++)
        if (im->shared.items[i].name == name && strcmp(im->shared.items[i].node->op, "Gather") == 0)
            return im->shared.items[i].layer;
    return NULL;
}

static rf_result new_dense(rf_import *im, const rf_import_constant *w, const rf_import_constant *b, bool transposed,
                           rf_layer **layer)
{
    const int64_t units = w->shape.dim[transposed ? 0 : 1];
    const rf_dense_params params = { .units = (int32_t)units,
                                     .no_bias = !b,
                                     .name = rf_import_layer_name(im, w->name, "dense") };
    if (!params.name) return RF_ERROR_OUT_OF_HOST_MEMORY;
    RF_TRY(rf_layer_dense(&params, layer));
    const float *kernel = transposed ? rf_import_permuted(im, w, turned) : w->f;
    rf_result r = rf_import_add_weight(im, *layer, "kernel", kernel, (uint64_t)rf_import_count(w));
    if (r >= 0 && b) r = rf_import_add_weight(im, *layer, "bias", b->f, (uint64_t)units);
    if (r < 0) rf_layer_destroy(layer);
    return r;
}

/* The head that has the table of an embedding as its kernel. */
static rf_result new_head(rf_import *im, rf_layer *table, const rf_import_constant *w, const rf_import_constant *b,
                          rf_layer **layer)
{
    const char *name = rf_import_layer_name(im, b ? b->name : NULL, "head");
    if (!name) return RF_ERROR_OUT_OF_HOST_MEMORY;
    RF_TRY(rf_layer_embedding_head(table, b ? RF_WITH_BIAS : RF_WITHOUT_BIAS, name, layer));
    const rf_result r = b ? rf_import_add_weight(im, *layer, "bias", b->f, (uint64_t)w->shape.dim[1]) : RF_OK;
    if (r < 0) rf_layer_destroy(layer);
    return r;
}

static rf_result dense_layer(rf_import *im, const rf_import_node *n, bool *done)
{
    const bool gemm = strcmp(n->op, "Gemm") == 0, transposed = gemm && rf_import_attribute_int(n, "transB", 0);
    rf_import_value *x = tensor_of(im, n, 0);
    rf_import_constant *w = weight_of(im, n, 1, 2), *b = gemm ? weight_of(im, n, 2, 1) : NULL;
    if (!x || x->rank < 2 || x->whole || !w || !w->name || rf_import_attribute_int(n, "transA", 0)) return RF_OK;
    if (gemm && (rf_import_attribute_float(n, "alpha", 1) != 1 || rf_import_attribute_float(n, "beta", 1) != 1))
        return RF_OK;
    const int64_t units = w->shape.dim[transposed ? 0 : 1];
    if (units < 1 || units > INT32_MAX || w->shape.dim[transposed ? 1 : 0] < 1) return RF_OK;
    if (gemm && has_operand(n, 2) && (!b || b->shape.dim[0] != units)) return RF_OK;
    const rf_import_node *sum = !gemm ? bias_after(im, n, units, &b) : NULL, *result = sum ? sum : n;
    rf_layer *table = find_table(im, w->name), *layer = find_shared(im, n, w->f, b ? b->f : NULL);
    rf_symbol in;
    *done = true;
    RF_TRY(rf_import_in_order(im, x, &in));
    if (!layer) {
        RF_TRY(table && !transposed ? new_head(im, table, w, b, &layer) : new_dense(im, w, b, transposed, &layer));
        RF_TRY(keep_layer(im, n, w, b ? b->f : NULL, layer));
    }
    return call_layer(im, result, layer, in, x->rank, false);
}

static rf_result embedding_layer(rf_import *im, const rf_import_node *n, bool *done)
{
    rf_import_constant *w = weight_of(im, n, 0, 2);
    rf_import_value *x = tensor_of(im, n, 1);
    if (!w || !w->name || !x || !x->whole || rf_import_attribute_int(n, "axis", 0) != 0) return RF_OK;
    if (w->shape.dim[0] < 1 || w->shape.dim[1] < 1 || w->shape.dim[0] > INT32_MAX || w->shape.dim[1] > INT32_MAX)
        return RF_OK;
    rf_layer *layer = find_shared(im, n, w->f, NULL);
    rf_symbol in;
    *done = true;
    RF_TRY(rf_import_in_order(im, x, &in));
    if (!layer) {
        const rf_embedding_params params = { .input_dim = (int32_t)w->shape.dim[0],
                                             .output_dim = (int32_t)w->shape.dim[1],
                                             .name = rf_import_layer_name(im, w->name, "embedding") };
        if (!params.name) return RF_ERROR_OUT_OF_HOST_MEMORY;
        RF_TRY(rf_layer_embedding(&params, &layer));
        RF_TRY(keep_layer(im, n, w, NULL, layer));
        const rf_result r = rf_import_add_weight(im, layer, "embeddings", w->f, (uint64_t)rf_import_count(w));
        if (r < 0) rf_layer_destroy(&layer);
        RF_TRY(r);
    }
    return call_layer(im, n, layer, in, x->rank + 1, false);
}

/* ---- norms ---- */

/* Vectors of as many numbers as there are channels; those that are left out are NULL. */
typedef struct vectors {
    rf_import_constant *of[4];
    const char *name;
} vectors;

static bool find_vectors(rf_import *im, const rf_import_node *n, uint32_t count, bool optional, vectors *v)
{
    *v = (vectors){ { NULL }, NULL };
    int64_t size = 0;
    for (uint32_t i = 0; i < count; i++) {
        v->of[i] = weight_of(im, n, 1 + i, 1);
        if (!v->of[i] && (has_operand(n, 1 + i) || !optional)) return false;
        if (!v->of[i]) continue;
        if (size > 0 && v->of[i]->shape.dim[0] != size) return false;
        size = v->of[i]->shape.dim[0];
        if (!v->name) v->name = v->of[i]->name;
    }
    return size > 0;
}

static rf_result add_vectors(rf_import *im, rf_layer *layer, const vectors *v)
{
    static const char *const names[] = { "gamma", "beta", "moving_mean", "moving_variance" };
    for (int i = 0; i < 4; i++)
        if (v->of[i])
            RF_TRY(rf_import_add_weight(im, layer, names[i], v->of[i]->f, (uint64_t)rf_import_count(v->of[i])));
    return RF_OK;
}

static rf_result finish_norm(rf_import *im, const rf_import_node *n, rf_layer *layer, const vectors *v, rf_symbol in,
                             int32_t rank, bool last)
{
    const rf_result r = add_vectors(im, layer, v);
    if (r < 0) rf_layer_destroy(&layer);
    RF_TRY(r);
    return call_layer(im, n, layer, in, rank, last);
}

static rf_result batch_norm_layer(rf_import *im, const rf_import_node *n, bool *done)
{
    rf_import_value *x = tensor_of(im, n, 0);
    const double epsilon = rf_import_attribute_float(n, "epsilon", 1e-5),
                 momentum = rf_import_attribute_float(n, "momentum", 0.9);
    vectors v;
    if (!x || x->rank < 2 || !(epsilon > 0) || !(momentum > 0 && momentum < 1) || !find_vectors(im, n, 4, true, &v) ||
        !v.of[2] || !v.of[3] || rf_import_attribute_int(n, "training_mode", 0))
        return RF_OK;
    /* Patterns know how many axes are behind that of the channels. */
    static const int32_t places[] = { 0, 3, 1, 2 };
    const int64_t behind = rf_import_attribute_int(n, "axes_behind", x->rank - 2), axis = x->rank - 1 - behind;
    if (axis < 1 || axis >= x->rank) return RF_OK;
    const bool last = x->rank == 4 && (axis == 1 || x->last);
    rf_symbol in;
    rf_layer *layer;
    *done = true;
    RF_TRY(last ? rf_import_with_channels_last(im, x, &in) : rf_import_in_order(im, x, &in));
    const rf_batch_norm_params params = { .axis = last ? places[axis] : (int32_t)axis,
                                          .momentum = momentum,
                                          .epsilon = epsilon,
                                          .no_scale = !v.of[0],
                                          .no_center = !v.of[1],
                                          .name = rf_import_layer_name(im, v.name, "batch_normalization") };
    if (!params.name) return RF_ERROR_OUT_OF_HOST_MEMORY;
    RF_TRY(rf_layer_batch_norm(&params, &layer));
    return finish_norm(im, n, layer, &v, in, x->rank, last);
}

static rf_result layer_norm_layer(rf_import *im, const rf_import_node *n, bool *done)
{
    rf_import_value *x = tensor_of(im, n, 0);
    const bool rms = strcmp(n->op, "RmsNorm") == 0;
    const int64_t axis = rf_import_attribute_int(n, "axis", -1);
    const double epsilon = rf_import_attribute_float(n, "epsilon", 1e-5);
    vectors v;
    if (!x || x->rank < 2 || !(epsilon > 0) || (axis != -1 && axis != x->rank - 1) || n->num_out > 1 ||
        !find_vectors(im, n, 2, true, &v) || (!v.of[0] && has_operand(n, 1)))
        return RF_OK;
    rf_symbol in;
    rf_layer *layer;
    *done = true;
    RF_TRY(rf_import_in_order(im, x, &in));
    const char *name = rf_import_layer_name(im, v.name, "layer_normalization");
    if (!name) return RF_ERROR_OUT_OF_HOST_MEMORY;
    if (rms)
        RF_TRY(
            rf_layer_rms_norm(&(rf_rms_norm_params){ .epsilon = epsilon, .no_scale = !v.of[0], .name = name }, &layer));
    else
        RF_TRY(rf_layer_layer_norm(
            &(rf_layer_norm_params){ .epsilon = epsilon, .no_scale = !v.of[0], .no_center = !v.of[1], .name = name },
            &layer));
    return finish_norm(im, n, layer, &v, in, x->rank, false);
}

static rf_result instance_norm_layer(rf_import *im, const rf_import_node *n, bool *done)
{
    rf_import_value *x = tensor_of(im, n, 0);
    const double epsilon = rf_import_attribute_float(n, "epsilon", 1e-5);
    vectors v;
    if (!x || x->rank != 4 || !(epsilon > 0) || !find_vectors(im, n, 2, false, &v)) return RF_OK;
    rf_symbol in;
    rf_layer *layer;
    *done = true;
    RF_TRY(rf_import_with_channels_last(im, x, &in));
    const rf_group_norm_params params = {
        .groups = -1, .axis = -1, .epsilon = epsilon, .name = rf_import_layer_name(im, v.name, "group_normalization")
    };
    if (!params.name) return RF_ERROR_OUT_OF_HOST_MEMORY;
    RF_TRY(rf_layer_group_norm(&params, &layer));
    return finish_norm(im, n, layer, &v, in, 4, true);
}

static const struct {
    const char *op;
    rf_result (*make)(rf_import *im, const rf_import_node *n, bool *done);
} table[] = {
    { "Conv", conv_layer },
    { "ConvTranspose", conv_layer },
    { "MatMul", dense_layer },
    { "Gemm", dense_layer },
    { "Gather", embedding_layer },
    { "BatchNormalization", batch_norm_layer },
    { "LayerNormalization", layer_norm_layer },
    { "RmsNorm", layer_norm_layer },
    { "InstanceNormalization", instance_norm_layer },
};

rf_result rf_import_layer(rf_import *im, const rf_import_node *n, bool *done)
{
    *done = false;
    for (size_t i = 0; n->num_out && i < sizeof(table) / sizeof(table[0]); i++)
        if (strcmp(table[i].op, n->op) == 0) return table[i].make(im, n, done);
    return RF_OK;
}
