/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes as layers of their operation: layouts, ranks, and the text that describes them. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "persist/json.h"
#include "train/onnx/graph.h"

enum { MOST_NUMBERS = 1 << 16 };
static const int32_t to_last[] = { 0, 2, 3, 1 }, to_first[] = { 0, 3, 1, 2 };

typedef struct lowering {
    rf_import *im;
    const rf_import_node *n;
    const rf_import_op *op;
    rf_import_value *in[RF_IMPORT_MOST_OPERANDS]; /* NULL: left out */
    uint32_t num_in;
    bool last;
    json_t *config, *operands, *variables;
    rf_symbol tensors[RF_MAX_CUSTOM_TENSORS];
    const rf_import_value *of[RF_MAX_CUSTOM_TENSORS]; /* as which value each tensor stands */
    bool tensor_last[RF_MAX_CUSTOM_TENSORS];
    uint32_t num_tensors;
    const char *first_weight; /* the initializer of the first variable */
    struct {
        const float *values;
        uint64_t count;
        const char *name;
    } weights[RF_IMPORT_MOST_OPERANDS];
    uint32_t num_weights;
} lowering;

/* ---- layouts of values ---- */

static rf_result turn_layout(rf_import *im, rf_symbol x, const int32_t *perm, rf_symbol *out)
{
    rf_layer *layer;
    json_t *config = json_pack("{s:s, s:i, s:i, s:i, s:{s:[i,i,i,i]}, s:[{s:i}]}", "op", "Transpose", "opset", 13,
                               "tensors", 1, "out", 1, "attributes", "perm", (int)perm[0], (int)perm[1], (int)perm[2],
                               (int)perm[3], "in", "tensor", 0);
    const char *name = rf_import_layer_name(im, NULL, "transpose");
    if (!config || !name) {
        json_decref(config);
        return RF_ERROR_OUT_OF_HOST_MEMORY;
    }
    RF_TRY(rf_import_op_layer(config, name, &layer));
    return rf_model_builder_apply(im->builder, layer, &x, 1, (rf_symbol){ 0 }, out, 1);
}

static rf_result in_layout(rf_import *im, rf_import_value *v, bool last, rf_symbol *out)
{
    if (v->rank != 4 || v->last == last) {
        *out = v->symbol;
        return RF_OK;
    }
    if (!v->other.id) RF_TRY(turn_layout(im, v->symbol, last ? to_last : to_first, &v->other));
    *out = v->other;
    return RF_OK;
}

rf_result rf_import_in_order(rf_import *im, rf_import_value *v, rf_symbol *out)
{
    return in_layout(im, v, false, out);
}

rf_result rf_import_with_channels_last(rf_import *im, rf_import_value *v, rf_symbol *out)
{
    return in_layout(im, v, true, out);
}

/* ---- ranks ---- */

static int32_t rank_in(const lowering *l, uint32_t i)
{
    return i < l->num_in && l->in[i] ? rf_import_rank(l->in[i]) : 0;
}

/* How many numbers an operand has, or an attribute; -1: neither is there. */
static int64_t length_of(const lowering *l, uint32_t i, const char *attribute)
{
    const rf_import_value *v = i < l->num_in ? l->in[i] : NULL;
    if (v) return v->kind == RF_IMPORT_CONSTANT ? rf_import_count(&v->constant) : -1;
    const rf_import_attribute *a = attribute ? rf_import_find_attribute(l->n, attribute) : NULL;
    return a ? (int64_t)a->num_ints : -1;
}

static int32_t rank_of_einsum(const lowering *l)
{
    const char *equation = rf_import_attribute_text(l->n, "equation", ""), *result = strstr(equation, "->");
    int32_t letters = 0, own = 0;
    if (!result) return -1;
    for (const char *c = result + 2; *c; c++) letters += *c != ' ' && *c != '.';
    if (!strchr(result, '.')) return letters;
    for (const char *c = equation; *c && *c != ',' && *c != '-'; c++) own += *c != ' ' && *c != '.';
    return letters + rank_in(l, 0) - own;
}

static int32_t reduced_rank(const lowering *l, int64_t axes)
{
    if (rf_import_attribute_int(l->n, "keepdims", 1)) return rank_in(l, 0);
    if (axes <= 0) return rf_import_attribute_int(l->n, "noop_with_empty_axes", 0) ? rank_in(l, 0) : 0;
    return rank_in(l, 0) - (int32_t)axes;
}

/* -1: it cannot be told. */
static int32_t special_rank(const lowering *l, uint32_t output)
{
    const char *op = l->n->op;
    if (strncmp(op, "Reduce", 6) == 0) return reduced_rank(l, length_of(l, 1, "axes"));
    if (strncmp(op, "Arg", 3) == 0) return reduced_rank(l, 1);
    if (strcmp(op, "Gather") == 0) return rank_in(l, 0) - 1 + rank_in(l, 1);
    if (strcmp(op, "GatherND") == 0)
        return rank_in(l, 0) + rank_in(l, 1) - 2 - (int32_t)rf_import_attribute_int(l->n, "batch_dims", 0);
    if (strcmp(op, "OneHot") == 0) return rank_in(l, 0) + 1;
    if (strcmp(op, "Reshape") == 0) return (int32_t)length_of(l, 1, NULL);
    if (strcmp(op, "Flatten") == 0) return 2;
    const int64_t axes = length_of(l, 1, "axes");
    if (strcmp(op, "Squeeze") == 0) return axes < 0 ? -1 : rank_in(l, 0) - (int32_t)axes;
    if (strcmp(op, "Unsqueeze") == 0) return axes < 0 ? -1 : rank_in(l, 0) + (int32_t)axes;
    if (strcmp(op, "ConstantOfShape") == 0) return (int32_t)length_of(l, 0, NULL);
    if (strcmp(op, "Range") == 0) return 1;
    if (strcmp(op, "Einsum") == 0) return rank_of_einsum(l);
    if (strcmp(op, "Expand") == 0) {
        const int64_t count = length_of(l, 1, NULL);
        return count > rank_in(l, 0) ? (int32_t)count : rank_in(l, 0);
    }
    if (strcmp(op, "MatMul") == 0) {
        const int32_t a = rank_in(l, 0), b = rank_in(l, 1);
        return a == 1 || b == 1 ? a + b - 2 : a > b ? a : b;
    }
    return output == 0 ? 4 : 3; /* recurrent layers */
}

static int32_t rank_of(const lowering *l, uint32_t output)
{
    int32_t rank = rank_in(l, 0);
    if (l->op->rank == RF_IMPORT_RANK_SPECIAL) return special_rank(l, output);
    for (uint32_t i = 1; l->op->rank == RF_IMPORT_RANK_WIDEST && i < l->num_in; i++)
        if (rank_in(l, i) > rank) rank = rank_in(l, i);
    return rank;
}

/* ---- which layout ---- */

/* Reductions that drop dimensions leave the rest in one order, whichever layout they come from. */
static bool order_stays(const lowering *l)
{
    const bool reduces = strncmp(l->n->op, "Reduce", 6) == 0, arg = strncmp(l->n->op, "Arg", 3) == 0;
    if ((!reduces && !arg) || rf_import_attribute_int(l->n, "keepdims", 1)) return true;
    const rf_import_constant *listed = l->num_in > 1 ? rf_import_known(l->in[1]) : NULL;
    const rf_import_attribute *a = rf_import_find_attribute(l->n, "axes");
    uint32_t gone = 0;
    if (arg) gone = 1u << ((rf_import_attribute_int(l->n, "axis", 0) + 4) & 3);
    for (int64_t i = 0; listed && listed->whole && i < rf_import_count(listed); i++)
        gone |= 1u << ((listed->w[i] + 4) & 3);
    for (uint32_t i = 0; a && i < a->num_ints; i++) gone |= 1u << ((a->ints[i] + 4) & 3);
    return gone == 0 || (gone & 2) || (gone & 12) == 12;
}

static bool elements_last(const lowering *l)
{
    bool wanted = false;
    for (uint32_t i = 0; i < l->num_in; i++) {
        if (!l->in[i]) continue;
        const bool tensor = l->in[i]->kind == RF_IMPORT_TENSOR;
        const int32_t rank = rank_in(l, i);
        if (tensor && rank != 4 && rank != 0) return false;
        if (rank > 4 || (!tensor && l->in[i]->constant.sizes)) return false;
        wanted |= tensor && rank == 4 && l->in[i]->last;
    }
    return wanted;
}

static bool axes_last(const lowering *l)
{
    const rf_import_value *x = l->in[0];
    const bool old_softmax =
        l->im->file.opset < 13 && (strstr(l->n->op, "Softmax") || strcmp(l->n->op, "Hardmax") == 0);
    if (!x || x->kind != RF_IMPORT_TENSOR || x->rank != 4 || old_softmax || !order_stays(l)) return false;
    bool wanted = x->last;
    for (uint32_t i = 1; strcmp(l->n->op, "Concat") == 0 && i < l->num_in; i++) {
        if (!l->in[i] || l->in[i]->kind != RF_IMPORT_TENSOR) return false;
        wanted |= l->in[i]->last;
    }
    return wanted;
}

static bool choose_layout(const lowering *l)
{
    switch (l->op->layout) {
    case RF_IMPORT_ELEMENTS: return elements_last(l);
    case RF_IMPORT_AXES: return axes_last(l);
    case RF_IMPORT_IMAGES: return rank_in(l, 0) == 4;
    case RF_IMPORT_PLAIN: break;
    }
    return false;
}

/* ---- the description ---- */

static rf_result append_item(json_t *list, json_t *item)
{
    return item && json_array_append_new(list, item) == 0 ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
}

/* The number of a tensor that the layer gets. */
static rf_result take_tensor(lowering *l, const rf_import_value *v, rf_symbol symbol, bool last, uint32_t *out)
{
    for (*out = 0; *out < l->num_tensors; ++*out)
        if (l->tensors[*out].id == symbol.id) return RF_OK;
    if (l->num_tensors == RF_MAX_CUSTOM_TENSORS)
        return rf_import_fail(l->n, RF_ERROR_UNSUPPORTED, "it has more than %d tensors", RF_MAX_CUSTOM_TENSORS);
    l->tensors[l->num_tensors] = symbol;
    l->tensor_last[l->num_tensors] = last;
    l->of[l->num_tensors++] = v;
    return RF_OK;
}

/* Any tensor that stands for the value, whichever its layout. */
static rf_result take_donor(lowering *l, const rf_import_value *v, uint32_t *out)
{
    for (*out = 0; *out < l->num_tensors; ++*out)
        if (l->of[*out] == v) return RF_OK;
    return take_tensor(l, v, v->symbol, v->last, out);
}

static rf_result size_tokens(lowering *l, uint32_t size, json_t *tokens)
{
    const rf_import_size s = l->im->sizes.items[size];
    if (s.operator== 'd') {
        const rf_import_value *v = &l->im->values[s.a];
        uint32_t tensor = 0;
        RF_TRY(take_donor(l, v, &tensor));
        static const int32_t places[] = { 0, 3, 1, 2 };
        const bool last = v->rank == 4 && l->tensor_last[tensor];
        return append_item(tokens, json_pack("[i,i]", (int)tensor, (int)(last ? places[s.axis] : s.axis)));
    }
    if (!s.operator) return append_item(tokens, json_real(s.number));
    const char text[] = { s.operator, 0 };
    RF_TRY(size_tokens(l, s.a, tokens));
    if (s.b) RF_TRY(size_tokens(l, s.b, tokens));
    return append_item(tokens, json_string(text));
}

static json_t *shape_json(rf_shape shape)
{
    return rf_shape_to_json(shape);
}

static rf_result add_sizes(lowering *l, const rf_import_constant *c)
{
    json_t *sizes = json_array();
    rf_result r = sizes && rf_import_count(c) <= MOST_NUMBERS ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
    for (int64_t i = 0; r >= 0 && i < rf_import_count(c); i++) {
        json_t *tokens = json_array();
        r = append_item(sizes, tokens);
        if (r >= 0)
            r = c->sizes[i] ? size_tokens(l, c->sizes[i], tokens)
                            : append_item(tokens, json_real(rf_import_element(c, i)));
    }
    if (r < 0) {
        json_decref(sizes);
        return r;
    }
    return append_item(l->operands,
                       json_pack("{s:b, s:o, s:o}", "whole", c->whole, "shape", shape_json(c->shape), "sizes", sizes));
}

/* Doubles as 16 digits each: all of their bits, NaN too. */
static rf_result add_numbers(lowering *l, const rf_import_constant *c, rf_shape shape)
{
    static const char digits[] = "0123456789abcdef";
    const int64_t count = rf_import_count(c);
    char *text = rf_calloc((size_t)count * 16 + 1, 1);
    if (!text) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (int64_t i = 0; i < count; i++) {
        const double number = rf_import_element(c, i);
        uint64_t word;
        memcpy(&word, &number, sizeof(word));
        for (int k = 0; k < 16; k++) text[16 * i + k] = digits[word >> (60 - 4 * k) & 15];
    }
    const rf_result r = append_item(
        l->operands, json_pack("{s:b, s:o, s:s}", "whole", c->whole, "shape", shape_json(shape), "numbers", text));
    rf_free(text);
    return r;
}

/* The last part of an initializer's name, which the layer has not yet. */
static const char *variable_name(lowering *l, const char *initializer)
{
    const char *at = initializer ? initializer : "constant";
    for (const char *c = at; *c; c++)
        if ((*c == '/' || *c == '.') && c[1]) at = c + 1;
    char *name = rf_import_alloc(l->im, strlen(at) + 4);
    if (!name) return NULL;
    memcpy(name, at, strlen(at) + 1);
    for (char *c = name; *c; c++)
        if (*c == '/') *c = '_';
    for (uint32_t i = 0, n = 2; i < l->num_weights; i++) {
        if (strcmp(l->weights[i].name, name) != 0) continue;
        snprintf(name, strlen(at) + 4, "%s_%u", at, n++ % 100);
        i = UINT32_MAX; /* from the first one again */
    }
    return name;
}

static rf_result add_variable(lowering *l, const rf_import_constant *c, const float *values, rf_shape shape)
{
    if (!values) return RF_ERROR_OUT_OF_HOST_MEMORY;
    if (c->whole)
        return rf_import_fail(l->n, RF_ERROR_UNSUPPORTED, "an operand has more than %d whole numbers", MOST_NUMBERS);
    const char *name = variable_name(l, c->name);
    if (!name) return RF_ERROR_OUT_OF_HOST_MEMORY;
    if (!l->first_weight) l->first_weight = c->name;
    l->weights[l->num_weights].values = values;
    l->weights[l->num_weights].name = name;
    l->weights[l->num_weights++].count = (uint64_t)rf_import_count(c);
    RF_TRY(append_item(l->variables, json_pack("{s:s, s:o, s:b}", "name", name, "shape", shape_json(shape), "state",
                                               c->name == NULL)));
    return append_item(l->operands, json_pack("{s:s}", "variable", name));
}

/* Operands whose numbers the operation reads itself. */
static bool reads_numbers(const lowering *l, uint32_t i)
{
    static const char *const names[] = { "Resize", "Upsample", "OneHot", "Clip", "Dropout", "Pad" };
    for (size_t k = 0; k < sizeof(names) / sizeof(names[0]); k++)
        if (strcmp(l->n->op, names[k]) == 0) return i > 0;
    return strstr(l->n->op, "quantizeLinear") || strcmp(l->n->op, "QuantizeLinear") == 0;
}

/* A kernel of a recurrent layer that only orders columns, as the library writes it. */
static bool is_order(const lowering *l, uint32_t i, const rf_import_constant *c)
{
    const bool recurrent =
        strcmp(l->n->op, "LSTM") == 0 || strcmp(l->n->op, "GRU") == 0 || strcmp(l->n->op, "RNN") == 0;
    if (!recurrent || i != 1 || c->whole || c->shape.rank != 3 || c->shape.dim[1] != c->shape.dim[2]) return false;
    int64_t ones = 0;
    for (int64_t k = 0; k < rf_import_count(c); k++) {
        if (c->f[k] != 0 && c->f[k] != 1) return false;
        ones += c->f[k] == 1;
    }
    return ones == c->shape.dim[1];
}

static rf_result add_constant(lowering *l, uint32_t i, rf_import_constant *c)
{
    const int64_t count = rf_import_count(c);
    if (rf_import_has_sizes(c)) return add_sizes(l, c);
    const bool turned = l->last && l->op->layout == RF_IMPORT_ELEMENTS && count > 1;
    rf_import_constant wide = *c;
    rf_shape shape = c->shape;
    if (l->last && l->op->layout == RF_IMPORT_ELEMENTS && count == 1) shape = wide.shape = RF_SCALAR_SHAPE;
    if (turned) { /* ones before, and channels last */
        for (int32_t d = 0; d < 4; d++) {
            const int32_t own = d - (4 - c->shape.rank);
            wide.shape.dim[d] = own < 0 ? 1 : c->shape.dim[own];
        }
        wide.shape.rank = shape.rank = 4;
        for (int32_t d = 0; d < 4; d++) shape.dim[d] = wide.shape.dim[to_last[d]];
        if (wide.whole) {
            rf_import_constant floats;
            RF_TRY(rf_import_constant_new(l->im, false, wide.shape, &floats));
            for (int64_t k = 0; k < count; k++) floats.f[k] = (float)c->w[k];
            wide = floats;
        }
        wide.f = rf_import_permuted(l->im, &wide, to_last);
        if (!wide.f) return RF_ERROR_OUT_OF_HOST_MEMORY;
        wide.whole = false;
    }
    const bool trained = wide.name && !wide.whole && !reads_numbers(l, i) && !is_order(l, i, c) && count > 1;
    if (trained || (count > MOST_NUMBERS && !is_order(l, i, c))) return add_variable(l, &wide, wide.f, shape);
    return add_numbers(l, &wide, shape);
}

static rf_result add_operand(lowering *l, uint32_t i)
{
    rf_import_value *v = l->in[i];
    rf_symbol symbol;
    uint32_t tensor = 0;
    if (!v) return append_item(l->operands, json_null());
    if (v->kind == RF_IMPORT_CONSTANT) return add_constant(l, i, &v->constant);
    const bool last = l->last && (l->op->layout != RF_IMPORT_IMAGES || i == 0) && v->rank == 4;
    RF_TRY(in_layout(l->im, v, last, &symbol));
    RF_TRY(take_tensor(l, v, symbol, last, &tensor));
    return append_item(l->operands, json_pack("{s:i}", "tensor", (int)tensor));
}

/* ---- attributes ---- */

static rf_result set_item(json_t *object, const char *name, json_t *value)
{
    return json_object_set_new(object, name, value) == 0 ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
}

static rf_result add_attribute(const lowering *l, json_t *to, const rf_import_attribute *a)
{
    if (a->num_ints > 0 || a->num_floats > 0 || a->type == 7) {
        json_t *list = json_array();
        rf_result r = list ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
        for (uint32_t i = 0; r >= 0 && i < a->num_ints; i++) r = append_item(list, json_integer(a->ints[i]));
        for (uint32_t i = 0; r >= 0 && i < a->num_floats; i++)
            r = append_item(list, json_real(isfinite(a->floats[i]) ? (double)a->floats[i] : 0));
        if (r >= 0) return set_item(to, a->name, list);
        json_decref(list);
        return r;
    }
    if (a->type == RF_IMPORT_ATTRIBUTE_INT) return set_item(to, a->name, json_integer(a->i));
    if (a->type == RF_IMPORT_ATTRIBUTE_STRING) return set_item(to, a->name, json_string(a->s));
    if (a->type != RF_IMPORT_ATTRIBUTE_FLOAT) return RF_OK;
    if (!isfinite(a->f)) return rf_import_fail(l->n, RF_ERROR_UNSUPPORTED, "attribute '%.60s' is not finite", a->name);
    return set_item(to, a->name, json_real((double)a->f));
}

static const char *kind_of_type(int64_t type)
{
    if (type == RF_IMPORT_TYPE_BOOL) return "truth";
    return type <= INT32_MAX && rf_import_type_is_float((int32_t)type) ? "float" : "whole";
}

/* NULL: the node's results have the type of an operand. */
static const char *kind_of_node(const lowering *l)
{
    const bool like = strcmp(l->n->op, "EyeLike") == 0;
    if (!like && strcmp(l->n->op, "Cast") != 0) return NULL;
    const rf_import_value *x = l->in[0];
    const bool whole = like && x && (x->kind == RF_IMPORT_TENSOR ? x->whole : x->constant.whole);
    return kind_of_type(
        rf_import_attribute_int(l->n, like ? "dtype" : "to", whole ? RF_IMPORT_TYPE_INT64 : RF_IMPORT_TYPE_FLOAT));
}

/* Settings that a layer of the operation reads besides. */
static rf_result add_special(const lowering *l, json_t *to)
{
    static const char *const usual[] = { "Sigmoid", "Tanh", "Tanh", "Sigmoid", "Tanh", "Tanh" };
    const char *op = l->n->op, *kind = kind_of_node(l);
    if (kind) return set_item(to, "kind", json_string(kind));
    if (strcmp(op, "ConstantOfShape") == 0) {
        const rf_import_attribute *a = rf_import_find_attribute(l->n, "value");
        rf_import_constant c = { 0 };
        if (!a || !a->t) return RF_OK;
        RF_TRY(rf_import_tensor_constant(l->im, a->t, NULL, &c));
        if (rf_import_count(&c) != 1 || !isfinite(rf_import_element(&c, 0)))
            return rf_import_fail(l->n, RF_ERROR_UNSUPPORTED, "its value is no finite number");
        RF_TRY(set_item(to, "whole", json_integer(c.whole && c.type != RF_IMPORT_TYPE_BOOL)));
        return set_item(to, "fill", json_real(rf_import_element(&c, 0)));
    }
    if (strcmp(op, "QuantizeLinear") == 0) {
        const rf_import_constant *zero = l->num_in > 2 ? rf_import_known(l->in[2]) : NULL;
        const int64_t type = zero ? zero->type : rf_import_attribute_int(l->n, "output_dtype", RF_IMPORT_TYPE_UINT8);
        const bool is_signed = type == RF_IMPORT_TYPE_INT8 || type == RF_IMPORT_TYPE_INT16;
        const int64_t values = rf_import_type_size((int32_t)(type & 31)) == 2 ? 65536 : 256;
        if (rf_import_type_size((int32_t)(type & 31)) > 2 || type < 0 || type > 31)
            return rf_import_fail(l->n, RF_ERROR_UNSUPPORTED, "it makes numbers of type %lld", (long long)type);
        RF_TRY(set_item(to, "lowest", json_integer(is_signed ? -values / 2 : 0)));
        return set_item(to, "highest", json_integer(is_signed ? values / 2 - 1 : values - 1));
    }
    const rf_import_attribute *a = rf_import_find_attribute(l->n, "activations");
    const bool lstm = strcmp(op, "LSTM") == 0, gru = strcmp(op, "GRU") == 0;
    const uint32_t each = lstm ? 3 : gru ? 2 : 1;
    for (uint32_t i = 0; a && i < a->num_strings; i++) {
        const char *wanted = lstm || gru ? usual[i % each] : "Tanh";
        if (strcmp(a->strings[i], wanted) != 0) return set_item(to, "own_activations", json_integer(1));
    }
    return RF_OK;
}

/* ---- the layer ---- */

static rf_result describe_node(lowering *l)
{
    json_t *attributes = json_object();
    l->config = json_object();
    l->operands = json_array();
    l->variables = json_array();
    rf_result r = attributes && l->config && l->operands && l->variables ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; r >= 0 && i < l->num_in; i++) r = add_operand(l, i);
    for (uint32_t i = 0; r >= 0 && i < l->n->num_attributes; i++)
        r = add_attribute(l, attributes, &l->n->attributes[i]);
    if (r >= 0) r = add_special(l, attributes);
    if (r >= 0 && l->num_tensors == 0) {
        l->tensors[l->num_tensors++] = l->im->any;
        if (!l->im->any.id) r = rf_import_fail(l->n, RF_ERROR_UNSUPPORTED, "it has no operand that is a tensor");
    }
    uint32_t outputs = 0;
    for (uint32_t i = 0; i < l->n->num_out; i++)
        if (*l->n->out[i]) outputs = i + 1;
    if (r >= 0 && outputs > l->op->max_out)
        r = rf_import_fail(l->n, RF_ERROR_UNSUPPORTED, "it gives more than %u results", l->op->max_out);
    if (r < 0) {
        json_decref(attributes);
        return r;
    }
    RF_TRY(set_item(l->config, "op", json_string(l->n->op)));
    RF_TRY(set_item(l->config, "attributes", attributes));
    RF_TRY(set_item(l->config, "opset", json_integer(l->im->file.opset)));
    RF_TRY(set_item(l->config, "last", json_boolean(l->last)));
    RF_TRY(set_item(l->config, "tensors", json_integer(l->num_tensors)));
    RF_TRY(set_item(l->config, "out", json_integer(outputs ? outputs : 1)));
    RF_TRY(set_item(l->config, "in", json_incref(l->operands)));
    return set_item(l->config, "variables", json_incref(l->variables));
}

static bool is_whole(const lowering *l, uint32_t output)
{
    const uint32_t data = strcmp(l->n->op, "Where") == 0 ? 1 : 0;
    const rf_import_value *v = data < l->num_in ? l->in[data] : NULL;
    if (strncmp(l->n->op, "Arg", 3) == 0 || (strcmp(l->n->op, "TopK") == 0 && output == 1)) return true;
    if (kind_of_node(l)) return strcmp(kind_of_node(l), "whole") == 0;
    if (l->op->truth || strcmp(l->n->op, "OneHot") == 0 || !v) return false;
    return v->kind == RF_IMPORT_TENSOR ? v->whole : v->constant.whole && v->constant.type != RF_IMPORT_TYPE_BOOL;
}

static rf_result make_layer(lowering *l)
{
    rf_layer *layer;
    rf_symbol out[RF_MAX_CUSTOM_TENSORS];
    const uint32_t outputs = (uint32_t)json_integer_value(json_object_get(l->config, "out"));
    const char *name = rf_import_layer_name(l->im, l->first_weight, l->n->op);
    if (!name) return RF_ERROR_OUT_OF_HOST_MEMORY;
    RF_TRY(rf_import_op_layer(json_incref(l->config), name, &layer));
    for (uint32_t i = 0; i < l->num_weights; i++)
        RF_TRY(rf_import_add_weight(l->im, layer, l->weights[i].name, l->weights[i].values, l->weights[i].count));
    RF_TRY(rf_model_builder_apply(l->im->builder, layer, l->tensors, l->num_tensors, (rf_symbol){ 0 }, out, outputs));
    for (uint32_t i = 0; i < outputs; i++) {
        rf_import_value *v = rf_import_find(l->im, l->n->out[i]);
        const int32_t rank = rank_of(l, i);
        if (!v) continue;
        if (rank < 0 || rank > RF_MAX_RANK)
            return rf_import_fail(l->n, RF_ERROR_UNSUPPORTED, "the number of dimensions of its result is not known");
        v->kind = RF_IMPORT_TENSOR;
        v->symbol = out[i];
        v->rank = rank;
        v->last = l->last && rank == 4;
        v->whole = is_whole(l, i);
        v->truth = l->op->truth;
    }
    return RF_OK;
}

/* A permutation that only changes layouts takes no layer. */
static bool alias_transpose(lowering *l)
{
    static const int32_t storage[] = { 0, 2, 3, 1 }, place[] = { 0, 3, 1, 2 };
    const rf_import_attribute *a = rf_import_find_attribute(l->n, "perm");
    rf_import_value *x = l->in[0], *y = rf_import_find(l->im, l->n->out[0]);
    if (!a || !x || !y || x->kind != RF_IMPORT_TENSOR || x->rank != 4 || a->num_ints != 4) return false;
    bool first = true, last = true;
    for (int32_t d = 0; d < 4; d++) {
        const int64_t p = a->ints[d], q = a->ints[storage[d]];
        if (p < 0 || p > 3 || q < 0 || q > 3) return false;
        first &= (x->last ? place[p] : (int32_t)p) == d;
        last &= (x->last ? place[q] : (int32_t)q) == d;
    }
    if (!first && !last) return false;
    *y = (rf_import_value){ .name = y->name,
                            .kind = RF_IMPORT_TENSOR,
                            .symbol = x->symbol,
                            .rank = 4,
                            .last = !first,
                            .whole = x->whole,
                            .truth = x->truth,
                            .uses = y->uses,
                            .consumer = y->consumer };
    return true;
}

static void alias_value(rf_import *im, const rf_import_node *n, const rf_import_value *x)
{
    rf_import_value *y = rf_import_find(im, n->out[0]);
    if (!y) return;
    const rf_import_value before = *y;
    *y = *x;
    y->name = before.name;
    y->uses = before.uses;
    y->consumer = before.consumer;
}

static rf_result lower_op(lowering *l)
{
    const rf_import_value *x = l->in[0];
    const bool to_float = strcmp(l->n->op, "Cast") == 0 &&
                          rf_import_type_is_float((int32_t)rf_import_attribute_int(l->n, "to", RF_IMPORT_TYPE_FLOAT));
    if (strcmp(l->n->op, "Transpose") == 0 && alias_transpose(l)) return RF_OK;
    if (x && x->kind == RF_IMPORT_TENSOR && (strcmp(l->n->op, "Identity") == 0 || (to_float && !x->whole))) {
        alias_value(l->im, l->n, x);
        rf_import_value *y = rf_import_find(l->im, l->n->out[0]);
        if (y) y->truth = false;
        return RF_OK;
    }
    l->last = choose_layout(l);
    rf_result r = describe_node(l);
    if (r >= 0) r = make_layer(l);
    json_decref(l->config);
    json_decref(l->operands);
    json_decref(l->variables);
    return r;
}

/* Joins the first operands, so that a layer gets as many as it can. */
static rf_result lower_chain(rf_import *im, const rf_import_node *n)
{
    rf_import_node part = *n;
    rf_import_value *sum = rf_import_find(im, n->out[0]);
    if (!sum || strcmp(n->op, "Mean") == 0)
        return rf_import_fail(n, RF_ERROR_UNSUPPORTED, "it has more than %d operands", RF_MAX_CUSTOM_TENSORS);
    const char **in = rf_import_alloc(im, RF_MAX_CUSTOM_TENSORS * sizeof(*in));
    if (!in) return RF_ERROR_OUT_OF_HOST_MEMORY;
    part.in = n->in;
    part.num_in = RF_MAX_CUSTOM_TENSORS;
    RF_TRY(rf_import_lower(im, &part));
    for (uint32_t at = RF_MAX_CUSTOM_TENSORS; at < n->num_in; at += RF_MAX_CUSTOM_TENSORS - 1) {
        const uint32_t rest = n->num_in - at,
                       more = rest < RF_MAX_CUSTOM_TENSORS - 1 ? rest : RF_MAX_CUSTOM_TENSORS - 1;
        in[0] = n->out[0];
        for (uint32_t i = 0; i < more; i++) in[1 + i] = n->in[at + i];
        part.in = in;
        part.num_in = 1 + more;
        RF_TRY(rf_import_lower(im, &part));
    }
    return RF_OK;
}

rf_result rf_import_lower(rf_import *im, const rf_import_node *n)
{
    lowering l = { .im = im, .n = n, .op = rf_import_find_op(n->op), .num_in = n->num_in };
    if (!l.op) return rf_import_fail(n, RF_ERROR_UNSUPPORTED, "this operation is not there");
    if (!l.op->max_in && n->num_in > RF_MAX_CUSTOM_TENSORS) return lower_chain(im, n);
    while (l.num_in > 0 && !*n->in[l.num_in - 1]) l.num_in--;
    if (l.num_in < l.op->min_in || (l.op->max_in && l.num_in > l.op->max_in) || l.num_in > RF_IMPORT_MOST_OPERANDS)
        return rf_import_fail(n, RF_ERROR_CORRUPT_DATA, "it has %u operands, which the operation does not", n->num_in);
    if (n->num_out < 1) return rf_import_fail(n, RF_ERROR_CORRUPT_DATA, "it has no result");
    for (uint32_t i = 0; i < l.num_in; i++) {
        if (!*n->in[i]) continue;
        l.in[i] = rf_import_find(im, n->in[i]);
        if (!l.in[i] || l.in[i]->kind == RF_IMPORT_UNKNOWN)
            return rf_import_fail(n, RF_ERROR_CORRUPT_DATA, "its operand '%.100s' is made by no node before it",
                                  n->in[i]);
    }
    return lower_op(&l);
}
