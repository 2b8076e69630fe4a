/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "train/files/onnx.h"

enum { ATTRIBUTE_FLOAT = 1, ATTRIBUTE_INT = 2, ATTRIBUTE_STRING = 3, ATTRIBUTE_INTS = 7 }; /* of the format */
enum { MOST_INPUTS = RF_MAX_INPUTS, MOST_OUTPUTS = 3, MOST_ATTRIBUTES = 6, NAME_ROOM = 48 };
static const int32_t to_first[] = { 0, 3, 1, 2 }, to_last[] = { 0, 2, 3, 1 }, to_kernel[] = { 3, 2, 0, 1 };

void rf_onnx_fail(rf_onnx *o, rf_result result)
{
    if (o->status >= 0 && result < 0) o->status = result;
}

void *rf_onnx_alloc(rf_onnx *o, size_t size)
{
    if (o->status < 0) return NULL;
    void *memory = rf_arena_alloc(&o->arena, size ? size : 1);
    if (!memory) rf_onnx_fail(o, RF_ERROR_OUT_OF_HOST_MEMORY);
    return memory;
}

char *rf_onnx_copy(rf_onnx *o, const char *text)
{
    char *memory = rf_onnx_alloc(o, strlen(text) + 1);
    if (memory) memcpy(memory, text, strlen(text) + 1);
    return memory;
}

int rf_onnx_type(rf_dtype dtype)
{
    static const int types[RF_DTYPE_COUNT] = {
        [RF_F32] = RF_ONNX_FLOAT, [RF_F16] = RF_ONNX_FLOAT16, [RF_BF16] = RF_ONNX_BFLOAT16,
        [RF_I32] = RF_ONNX_INT32, [RF_U8] = RF_ONNX_UINT8,    [RF_I64] = RF_ONNX_INT64
    };
    return types[dtype];
}

/* ---- nodes and attributes ---- */

char *rf_onnx_op(rf_onnx *o, const char *op, char *a, char *b, char *c)
{
    RfOnnx__NodeProto *node = rf_onnx_alloc(o, sizeof(*node));
    if (!node) return NULL;
    rf_onnx__node_proto__init(node);
    node->input = rf_onnx_alloc(o, MOST_INPUTS * sizeof(char *));
    node->output = rf_onnx_alloc(o, MOST_OUTPUTS * sizeof(char *));
    node->attribute = rf_onnx_alloc(o, MOST_ATTRIBUTES * sizeof(RfOnnx__AttributeProto *));
    node->op_type = rf_onnx_copy(o, op);
    char *name = rf_onnx_alloc(o, NAME_ROOM);
    rf_onnx_fail(o, RF_VEC_GROW(&o->nodes));
    if (o->status < 0) return NULL;
    snprintf(name, NAME_ROOM, "value_%u", ++o->serial);
    node->input[node->n_input++] = a;
    if (b) node->input[node->n_input++] = b;
    if (c) node->input[node->n_input++] = c;
    node->output[node->n_output++] = node->name = name;
    o->nodes.items[o->nodes.count++] = node;
    return name;
}

void rf_onnx_input(rf_onnx *o, char *name)
{
    if (o->status < 0) return;
    RfOnnx__NodeProto *node = o->nodes.items[o->nodes.count - 1];
    node->input[node->n_input++] = name;
}

char *rf_onnx_output(rf_onnx *o)
{
    char *name = rf_onnx_alloc(o, NAME_ROOM);
    if (!name) return NULL;
    RfOnnx__NodeProto *node = o->nodes.items[o->nodes.count - 1];
    snprintf(name, NAME_ROOM, "value_%u", ++o->serial);
    node->output[node->n_output++] = name;
    return name;
}

static RfOnnx__AttributeProto *add_attribute(rf_onnx *o, const char *name, int type)
{
    RfOnnx__AttributeProto *a = rf_onnx_alloc(o, sizeof(*a));
    char *copy = rf_onnx_copy(o, name);
    if (!a || !copy) return NULL;
    rf_onnx__attribute_proto__init(a);
    a->name = copy;
    a->has_type = 1;
    a->type = type;
    RfOnnx__NodeProto *node = o->nodes.items[o->nodes.count - 1];
    node->attribute[node->n_attribute++] = a;
    return a;
}

void rf_onnx_int(rf_onnx *o, const char *name, int64_t value)
{
    RfOnnx__AttributeProto *a = add_attribute(o, name, ATTRIBUTE_INT);
    if (!a) return;
    a->has_i = 1;
    a->i = value;
}

void rf_onnx_float(rf_onnx *o, const char *name, float value)
{
    RfOnnx__AttributeProto *a = add_attribute(o, name, ATTRIBUTE_FLOAT);
    if (!a) return;
    a->has_f = 1;
    a->f = value;
}

void rf_onnx_text(rf_onnx *o, const char *name, const char *value)
{
    RfOnnx__AttributeProto *a = add_attribute(o, name, ATTRIBUTE_STRING);
    char *copy = rf_onnx_copy(o, value);
    if (!a || !copy) return;
    a->has_s = 1;
    a->s.data = (uint8_t *)copy;
    a->s.len = strlen(copy);
}

void rf_onnx_ints(rf_onnx *o, const char *name, const int64_t *values, size_t count)
{
    RfOnnx__AttributeProto *a = add_attribute(o, name, ATTRIBUTE_INTS);
    int64_t *copy = rf_onnx_alloc(o, count * sizeof(*values));
    if (!a || !copy) return;
    memcpy(copy, values, count * sizeof(*values));
    a->ints = copy;
    a->n_ints = count;
}

/* ---- initializers ---- */

static bool name_taken(const rf_onnx *o, const char *name)
{
    if (strncmp(name, "value_", 6) == 0) return true; /* those of results */
    for (uint32_t i = 0; i < o->source->num_inputs; i++)
        if (strcmp(o->source->input_names[i], name) == 0) return true;
    for (uint32_t i = 0; i < o->source->num_outputs; i++)
        if (strcmp(o->source->output_names[i], name) == 0) return true;
    for (uint32_t i = 0; i < o->tensors.count; i++)
        if (strcmp(o->tensors.items[i]->name, name) == 0) return true;
    return false;
}

static char *free_name(rf_onnx *o, const char *label)
{
    if (!name_taken(o, label)) return rf_onnx_copy(o, label);
    char *name = rf_onnx_alloc(o, strlen(label) + NAME_ROOM);
    for (uint32_t i = 2; name; i++) {
        snprintf(name, strlen(label) + NAME_ROOM, "tensor/%s_%u", label, i);
        if (!name_taken(o, name)) break;
    }
    return name;
}

static RfOnnx__TensorProto *add_tensor(rf_onnx *o, const char *label, int type, rf_shape shape, size_t bytes)
{
    RfOnnx__TensorProto *t = rf_onnx_alloc(o, sizeof(*t));
    if (!t) return NULL;
    rf_onnx__tensor_proto__init(t);
    t->name = free_name(o, label);
    t->has_data_type = 1;
    t->data_type = type;
    t->dims = rf_onnx_alloc(o, RF_MAX_RANK * sizeof(*t->dims));
    t->raw_data.data = rf_onnx_alloc(o, bytes);
    rf_onnx_fail(o, RF_VEC_GROW(&o->tensors));
    if (o->status < 0) return NULL;
    t->n_dims = (size_t)shape.rank;
    for (int32_t i = 0; i < shape.rank; i++) t->dims[i] = shape.dim[i];
    t->raw_data.len = bytes;
    t->has_raw_data = 1;
    o->tensors.items[o->tensors.count++] = t;
    return t;
}

static size_t type_size(int type)
{
    for (int i = RF_F32; i < RF_DTYPE_COUNT; i++)
        if (rf_onnx_type((rf_dtype)i) == type) return rf_dtype_size((rf_dtype)i);
    return 0;
}

char *rf_onnx_tensor(rf_onnx *o, const char *label, int type, rf_shape shape, const void *data)
{
    const size_t bytes = (size_t)rf_shape_count(shape) * type_size(type);
    RfOnnx__TensorProto *t = add_tensor(o, label, type, shape, bytes);
    if (t && bytes > 0) memcpy(t->raw_data.data, data, bytes);
    return t ? t->name : NULL;
}

char *rf_onnx_number(rf_onnx *o, float value)
{
    char label[NAME_ROOM];
    snprintf(label, sizeof(label), "number_%u", o->tensors.count);
    return rf_onnx_tensor(o, label, RF_ONNX_FLOAT, RF_SCALAR_SHAPE, &value);
}

char *rf_onnx_list(rf_onnx *o, const int64_t *values, int64_t count)
{
    char label[NAME_ROOM];
    snprintf(label, sizeof(label), "list_%u", o->tensors.count);
    return rf_onnx_tensor(o, label, RF_ONNX_INT64, RF_SHAPE(count), values);
}

/* ---- leaves ---- */

bool rf_onnx_is_leaf(const rf_onnx *o, rf_value v)
{
    const rf_value_kind kind = o->source->graph->values.items[v].kind;
    return kind == RF_VALUE_STATE || kind == RF_VALUE_CONSTANT;
}

/* The bytes of a leaf: borrowed ones of a constant, or *own, which the caller frees. */
static const void *leaf_bytes(rf_onnx *o, const rf_value_info *leaf, void **own)
{
    *own = NULL;
    if (leaf->kind == RF_VALUE_CONSTANT) return leaf->data;
    *own = rf_calloc((size_t)rf_tensor_bytes(&leaf->desc), 1);
    rf_onnx_fail(o, *own ? rf_variable_read(leaf->object, *own) : RF_ERROR_OUT_OF_HOST_MEMORY);
    return *own;
}

static void bytes_permute(unsigned char *to, const unsigned char *from, rf_shape x, const int32_t *perm, size_t size)
{
    int64_t stride[RF_MAX_RANK], count = 1;
    for (int32_t d = x.rank - 1; d >= 0; d--) {
        stride[d] = count;
        count *= x.dim[d];
    }
    for (int64_t e = 0; e < count; e++) {
        int64_t rest = e, at = 0;
        for (int32_t d = x.rank - 1; d >= 0; d--) {
            at += rest % x.dim[perm[d]] * stride[perm[d]];
            rest /= x.dim[perm[d]];
        }
        memcpy(to + (size_t)e * size, from + (size_t)at * size, size);
    }
}

/* `rank` dimensions, with ones in front, in the order `perm` (NULL: as they are). */
static char *write_leaf(rf_onnx *o, rf_value v, int32_t rank, const int32_t *perm)
{
    const rf_value_info *leaf = &o->source->graph->values.items[v];
    rf_shape shape = { .rank = rank }, to = { .rank = rank };
    for (int32_t d = 0; d < rank; d++) {
        const int32_t own = d - (rank - leaf->desc.shape.rank);
        shape.dim[d] = own < 0 ? 1 : leaf->desc.shape.dim[own];
    }
    for (int32_t d = 0; d < rank; d++) to.dim[d] = shape.dim[perm ? perm[d] : d];
    char label[NAME_ROOM];
    snprintf(label, sizeof(label), "constant_%u", v);
    const size_t bytes = (size_t)rf_tensor_bytes(&leaf->desc);
    RfOnnx__TensorProto *t =
        add_tensor(o, leaf->name && *leaf->name ? leaf->name : label, rf_onnx_type(leaf->desc.dtype), to, bytes);
    void *own = NULL;
    const void *from = t ? leaf_bytes(o, leaf, &own) : NULL;
    if (o->status >= 0 && perm)
        bytes_permute(t->raw_data.data, from, shape, perm, rf_dtype_size(leaf->desc.dtype));
    else if (o->status >= 0)
        memcpy(t->raw_data.data, from, bytes);
    rf_free(own);
    return t ? t->name : NULL;
}

/* ---- values ---- */

bool rf_onnx_is_first(const rf_onnx *o, rf_value v)
{
    return o->values[v].first && !o->values[v].name && !rf_onnx_is_leaf(o, v);
}

static char *transpose_node(rf_onnx *o, char *x, const int32_t *perm, int32_t rank)
{
    int64_t wide[RF_MAX_RANK];
    for (int32_t i = 0; i < rank; i++) wide[i] = perm[i];
    char *name = rf_onnx_op(o, "Transpose", x, NULL, NULL);
    if (name) rf_onnx_ints(o, "perm", wide, (size_t)rank);
    return name;
}

/* Examples at run time, as a number. */
static char *global_batch(rf_onnx *o)
{
    static const int64_t zero = 0;
    char *shape = rf_onnx_op(o, "Shape", rf_onnx_get(o, o->source->inputs[0]), NULL, NULL);
    char *index = rf_onnx_tensor(o, "batch_dimension", RF_ONNX_INT64, RF_SCALAR_SHAPE, &zero);
    char *count = rf_onnx_op(o, "Gather", shape, index, NULL);
    rf_onnx_int(o, "axis", 0);
    count = rf_onnx_op(o, "Cast", count, NULL, NULL);
    rf_onnx_int(o, "to", RF_ONNX_FLOAT);
    return count;
}

char *rf_onnx_get(rf_onnx *o, rf_value v)
{
    rf_onnx_value *value = &o->values[v];
    if (value->name) return value->name;
    if (rf_onnx_is_leaf(o, v))
        value->name = write_leaf(o, v, rf_onnx_shape(o, v).rank, NULL);
    else if (o->source->graph->values.items[v].kind == RF_VALUE_HOST)
        value->name = global_batch(o);
    else if (value->first)
        value->name = transpose_node(o, value->first, to_last, 4);
    return value->name;
}

bool rf_onnx_is_per_channel(const rf_onnx *o, rf_value v)
{
    const rf_shape shape = rf_onnx_shape(o, v);
    return !rf_onnx_is_leaf(o, v) && shape.rank == 1 && shape.dim[0] > 0;
}

char *rf_onnx_get_first(rf_onnx *o, rf_value v)
{
    rf_onnx_value *value = &o->values[v];
    if (value->first) return value->first;
    if (rf_onnx_is_leaf(o, v)) {
        value->first = write_leaf(o, v, 4, to_first);
    } else if (rf_onnx_is_per_channel(o, v)) {
        const int64_t shape[] = { 1, rf_onnx_shape(o, v).dim[0], 1, 1 };
        value->first = rf_onnx_op(o, "Reshape", rf_onnx_get(o, v), rf_onnx_list(o, shape, 4), NULL);
    } else {
        value->first = transpose_node(o, rf_onnx_get(o, v), to_first, 4);
    }
    return value->first;
}

char *rf_onnx_permuted(rf_onnx *o, rf_value v, const int32_t *perm)
{
    const int32_t rank = rf_onnx_shape(o, v).rank;
    return rf_onnx_is_leaf(o, v) ? write_leaf(o, v, rank, perm) : transpose_node(o, rf_onnx_get(o, v), perm, rank);
}

char *rf_onnx_kernel(rf_onnx *o, rf_value v)
{
    if (!o->values[v].kernel) o->values[v].kernel = rf_onnx_permuted(o, v, to_kernel);
    return o->values[v].kernel;
}

char *rf_onnx_shape_of(rf_onnx *o, rf_value v)
{
    const rf_shape shape = rf_onnx_shape(o, v);
    for (int32_t i = 0; i < shape.rank; i++)
        if (shape.dim[i] < 0) return rf_onnx_op(o, "Shape", rf_onnx_get(o, v), NULL, NULL);
    return rf_onnx_list(o, shape.dim, shape.rank);
}
