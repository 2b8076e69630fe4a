/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values are numbered: the leaves, then the outputs of the nodes in their order. A node reads smaller numbers than its
 * own, so there can be no cycles. Shapes are written for other readers; this one infers them and compares.
 */
#include "train/files/inference_json.h"

#include <math.h>
#include <string.h>

#include "graph/attribute.h"
#include "ops/ops.h"
#include "train/model/open_shape.h"

enum { VERSION = 1, MOST_LEAVES = 1 << 20, MOST_NODES = 1 << 20 };

static const char *const kind_names[] = { "input", "variable", "constant", "global_batch" };
enum { INPUT, VARIABLE, CONSTANT, GLOBAL_BATCH, NUM_KINDS };

/* ---- attributes ---- */

/* JSON has no names for what is not finite. */
static json_t *number_to_json(float value)
{
    if (isnan(value)) return json_string("nan");
    if (isinf(value)) return json_string(value > 0 ? "inf" : "-inf");
    return json_real((double)value);
}

static bool number_from_json(const json_t *value, float *out)
{
    const char *text = json_string_value(value);
    if (text) {
        *out = text[0] == 'n' ? NAN : text[0] == '-' ? -INFINITY : INFINITY;
        return strcmp(text, "nan") == 0 || strcmp(text, "inf") == 0 || strcmp(text, "-inf") == 0;
    }
    *out = (float)json_number_value(value);
    return json_is_number(value) && isfinite(*out);
}

static json_t *element_to_json(const rf_attr_field *field, const void *attr, uint32_t index)
{
    if (field->kind == RF_ATTR_FLOAT) return number_to_json(rf_attr_float(field, attr, index));
    const int64_t value = rf_attr_integer(field, attr, index);
    return field->kind == RF_ATTR_CHOICE ? json_string(field->choice((uint32_t)value)) : json_integer(value);
}

json_t *rf_attributes_to_json(const rf_op *op, const void *attr)
{
    json_t *object = json_object();
    int failed = object == NULL;
    for (uint32_t i = 0; !failed && i < op->num_attr_fields; i++) {
        const rf_attr_field *field = &op->attr_fields[i];
        const uint32_t length = rf_attr_length(field, attr);
        if (field->kind == RF_ATTR_ZERO || length == 0) continue;
        json_t *value = field->count > 1 ? json_array() : element_to_json(field, attr, 0);
        for (uint32_t k = 0; field->count > 1 && k < length; k++)
            failed |= json_array_append_new(value, element_to_json(field, attr, k));
        failed |= json_object_set_new(object, field->name, value);
    }
    if (!failed) return object;
    json_decref(object);
    return NULL;
}

static bool element_from_json(const rf_attr_field *field, const json_t *value, void *attr, uint32_t index)
{
    if (field->kind == RF_ATTR_FLOAT) {
        float number;
        if (!number_from_json(value, &number)) return false;
        rf_attr_set_float(field, attr, index, number);
        return true;
    }
    if (field->kind == RF_ATTR_CHOICE) {
        const char *name = json_string_value(value);
        const int64_t number = name ? rf_attr_choice(field, name) : -1;
        return number >= 0 && rf_attr_set_integer(field, attr, index, number);
    }
    return json_is_integer(value) && rf_attr_set_integer(field, attr, index, json_integer_value(value));
}

static rf_result field_from_json(const rf_op *op, const char *name, const json_t *value, void *attr)
{
    const rf_attr_field *field = NULL;
    for (uint32_t i = 0; i < op->num_attr_fields; i++)
        if (op->attr_fields[i].kind != RF_ATTR_ZERO && strcmp(op->attr_fields[i].name, name) == 0)
            field = &op->attr_fields[i];
    if (!field) return RF_FAIL(RF_ERROR_UNSUPPORTED, "attribute '%s' is not one of this version", name);
    if (field->count > 1 && (!json_is_array(value) || json_array_size(value) > field->count))
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "attribute '%s' is not a list of at most %u", name, field->count);
    const uint32_t length = field->count > 1 ? (uint32_t)json_array_size(value) : 1;
    for (uint32_t k = 0; k < length; k++)
        if (!element_from_json(field, field->count > 1 ? json_array_get(value, k) : value, attr, k))
            return RF_FAIL(RF_ERROR_CORRUPT_DATA, "attribute '%s' is out of range", name);
    return RF_OK;
}

rf_result rf_attributes_from_json(const rf_op *op, const json_t *object, void *attr)
{
    memset(attr, 0, op->attr_size);
    if (!object) return RF_OK;
    if (!json_is_object(object)) return RF_FAIL(RF_ERROR_CORRUPT_DATA, "the attributes are not an object");
    /* jansson's iterators are not const. */
    json_t *fields = (json_t *)(uintptr_t)object;
    for (void *at = json_object_iter(fields); at; at = json_object_iter_next(fields, at))
        RF_TRY(field_from_json(op, json_object_iter_key(at), json_object_iter_value(at), attr));
    return RF_OK;
}

/* ---- writing ---- */

static json_t *desc_to_json(const rf_inference_graph *g, rf_value v)
{
    json_t *dims = json_array();
    for (int32_t i = 0; i < g->shapes[v].rank; i++) json_array_append_new(dims, json_integer(g->shapes[v].dim[i]));
    return json_pack("{s:s, s:o}", "dtype", rf_dtype_name(rf_graph_desc(g->graph, v)->dtype), "shape", dims);
}

static json_t *leaf_to_json(const rf_inference_graph *g, rf_value v, const char *tensor)
{
    static const int kinds[] = { [RF_VALUE_INPUT] = INPUT,
                                 [RF_VALUE_STATE] = VARIABLE,
                                 [RF_VALUE_CONSTANT] = CONSTANT,
                                 [RF_VALUE_HOST] = GLOBAL_BATCH };
    const rf_value_info *value = &g->graph->values.items[v];
    json_t *leaf = desc_to_json(g, v);
    const char *name = value->kind == RF_VALUE_INPUT ? g->input_names[value->slot] : value->name;
    int failed = json_object_set_new(leaf, "kind", json_string(kind_names[kinds[value->kind]]));
    if (name) failed |= json_object_set_new(leaf, "name", json_string(name));
    if (tensor) failed |= json_object_set_new(leaf, "tensor", json_string(tensor));
    if (!failed) return leaf;
    json_decref(leaf);
    return NULL;
}

static json_t *node_to_json(const rf_inference_graph *g, const rf_node_info *node, const uint32_t *number,
                            rf_result *status)
{
    rf_shape open = { 0 };
    const bool opens = node->op == &rf_op_reshape;
    if (opens && *status >= 0) *status = rf_inference_reshape(g, node, &open);
    json_t *in = json_array(), *out = json_array();
    int failed = 0;
    for (uint32_t i = 0; i < node->n_in; i++) failed |= json_array_append_new(in, json_integer(number[node->in[i]]));
    for (uint32_t i = 0; i < node->n_out; i++) failed |= json_array_append_new(out, desc_to_json(g, node->out[i]));
    json_t *attributes = rf_attributes_to_json(node->op, opens ? &open : node->attr);
    json_t *object =
        json_pack("{s:s, s:o, s:o, s:o}", "op", node->op->name, "in", in, "attributes", attributes, "out", out);
    if (!failed || !object) return object;
    json_decref(object);
    return NULL;
}

static json_t *graph_to_json(const rf_inference_graph *g, char *const *tensors, uint32_t *number, rf_result *status)
{
    json_t *leaves = json_array(), *nodes = json_array(), *outputs = json_array();
    uint32_t count = 0;
    int failed = 0;
    for (rf_value v = 1; v < g->graph->values.count; v++) {
        if (g->graph->values.items[v].kind == RF_VALUE_RESULT) continue;
        number[v] = count++;
        failed |= json_array_append_new(leaves, leaf_to_json(g, v, tensors[v]));
    }
    for (rf_node n = 0; n < g->graph->nodes.count; n++) {
        const rf_node_info *node = &g->graph->nodes.items[n];
        for (uint32_t i = 0; i < node->n_out; i++) number[node->out[i]] = count++;
        failed |= json_array_append_new(nodes, node_to_json(g, node, number, status));
    }
    for (uint32_t i = 0; i < g->num_outputs; i++)
        failed |= json_array_append_new(
            outputs, json_pack("{s:s, s:I}", "name", g->output_names[i], "value", (json_int_t)number[g->outputs[i]]));
    json_t *root =
        json_pack("{s:i, s:o, s:o, s:o}", "version", VERSION, "leaves", leaves, "nodes", nodes, "outputs", outputs);
    if (!failed || !root) return root;
    json_decref(root);
    return NULL;
}

rf_result rf_inference_graph_to_text(const rf_inference_graph *g, char *const *tensors, char **text)
{
    *text = NULL;
    uint32_t *number = RF_NEW_ARRAY(uint32_t, g->graph->values.count);
    if (!number) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_result r = RF_OK;
    json_t *root = graph_to_json(g, tensors, number, &r);
    rf_free(number);
    if (r >= 0) return rf_json_text(root, text);
    json_decref(root);
    return r;
}

/* ---- reading ---- */

typedef struct reader {
    const rf_inference_tensors *tensors;
    rf_inference_graph *out;
    struct {
        rf_value *items;
        uint32_t count, capacity;
    } values; /* by number in the text */
    struct {
        rf_shape *items;
        uint32_t count, capacity;
    } shapes; /* as the text has them, -1 where they are open */
    rf_shape inputs[RF_MAX_COMPONENTS];
} reader;

static rf_result read_member(const json_t *object, const char *name, const char **out)
{
    *out = json_string_value(json_object_get(object, name));
    return *out ? RF_OK : RF_FAIL(RF_ERROR_CORRUPT_DATA, "'%s' is not a text", name);
}

/* `shape` has -1 where the batch stands, `desc` the reader's number of examples. */
static rf_result desc_from_json(const json_t *object, rf_tensor_desc *desc, rf_shape *shape)
{
    const char *dtype;
    RF_TRY(read_member(object, "dtype", &dtype));
    *desc = (rf_tensor_desc){ 0 };
    for (int i = 1; i < RF_DTYPE_COUNT; i++)
        if (strcmp(rf_dtype_name((rf_dtype)i), dtype) == 0) desc->dtype = (rf_dtype)i;
    if (desc->dtype == RF_DTYPE_INVALID || desc->dtype == RF_I64)
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "'%s' is not a tensor type", dtype);
    const json_t *dims = json_object_get(object, "shape");
    if (!json_is_array(dims) || json_array_size(dims) > RF_MAX_RANK)
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "'shape' is not a shape");
    *shape = (rf_shape){ .rank = (int32_t)json_array_size(dims) };
    desc->shape.rank = shape->rank;
    for (int32_t i = 0; i < shape->rank; i++) {
        const json_t *dim = json_array_get(dims, (size_t)i);
        if (!json_is_integer(dim) || json_integer_value(dim) < -1)
            return RF_FAIL(RF_ERROR_CORRUPT_DATA, "'shape' is not a shape");
        shape->dim[i] = desc->shape.dim[i] = json_integer_value(dim);
        if (shape->dim[i] == -1) desc->shape.dim[i] = RF_INFERENCE_BATCH;
    }
    if (rf_shape_count(desc->shape) < 0) return RF_FAIL(RF_ERROR_CORRUPT_DATA, "the shape is too large");
    return RF_OK;
}

static rf_result value_append(reader *r, rf_value v, rf_shape shape)
{
    RF_TRY(RF_VEC_GROW(&r->values));
    RF_TRY(RF_VEC_GROW(&r->shapes));
    r->values.items[r->values.count++] = v;
    r->shapes.items[r->shapes.count++] = shape;
    return RF_OK;
}

static rf_result read_input(reader *r, const json_t *object, const rf_tensor_desc *desc, rf_shape shape, rf_value *out)
{
    rf_inference_graph *g = r->out;
    const char *name;
    RF_TRY(read_member(object, "name", &name));
    if (g->num_inputs == RF_MAX_COMPONENTS)
        return RF_FAIL(RF_ERROR_UNSUPPORTED, "more than %d inputs", RF_MAX_COMPONENTS);
    bool batched = shape.rank > 0 && shape.dim[0] == -1;
    for (int32_t i = 1; i < shape.rank; i++) batched = batched && shape.dim[i] != 0;
    if (!batched)
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "the shape of an input does not begin with -1, the batch, or has a 0");
    rf_tensor_desc filled = { desc->dtype, shape };
    filled.shape.dim[0] = RF_INFERENCE_BATCH;
    for (int32_t i = 1; i < shape.rank; i++)
        if (shape.dim[i] == -1) filled.shape.dim[i] = rf_open_size_of(shape.rank - 1, RF_OPEN_SIZE);
    if (rf_shape_count(filled.shape) < 0) return RF_FAIL(RF_ERROR_CORRUPT_DATA, "the shape is too large");
    RF_TRY(rf_graph_input(g->graph, g->num_inputs, filled, out));
    r->inputs[g->num_inputs] = shape;
    g->input_names[g->num_inputs] = rf_arena_strdup(&g->graph->arena, name);
    if (!g->input_names[g->num_inputs]) return RF_ERROR_OUT_OF_HOST_MEMORY;
    g->inputs[g->num_inputs++] = *out;
    return RF_OK;
}

static rf_result read_stored(reader *r, const json_t *object, int kind, const rf_tensor_desc *desc, rf_shape shape,
                             rf_value *out)
{
    const char *tensor, *name;
    void *object_or_data = NULL;
    RF_TRY(read_member(object, "tensor", &tensor));
    for (int32_t i = 0; i < shape.rank; i++)
        if (shape.dim[i] < 0) return RF_FAIL(RF_ERROR_CORRUPT_DATA, "tensor '%s' has an open shape", tensor);
    if (kind == VARIABLE) {
        RF_TRY(read_member(object, "name", &name));
        if (desc->dtype != RF_F32)
            return RF_FAIL(RF_ERROR_CORRUPT_DATA, "variable '%s' is %s, not f32", name, rf_dtype_name(desc->dtype));
        RF_TRY(r->tensors->variable(r->tensors->user, tensor, name, desc, &object_or_data));
        return rf_graph_state(r->out->graph, object_or_data, *desc, name, out);
    }
    RF_TRY(r->tensors->constant(r->tensors->user, tensor, desc, &object_or_data));
    const rf_result result = rf_graph_constant(r->out->graph, *desc, object_or_data, out);
    rf_free(object_or_data);
    return result;
}

static rf_result read_leaf(reader *r, const json_t *object)
{
    static const char global_batch; /* an identity */
    rf_tensor_desc desc;
    rf_shape shape;
    rf_value v = 0;
    int kind = NUM_KINDS;
    RF_TRY(rf_json_choice(object, "kind", kind_names, NUM_KINDS, &kind));
    RF_TRY(desc_from_json(object, &desc, &shape));
    switch (kind) {
    case INPUT: RF_TRY(read_input(r, object, &desc, shape, &v)); break;
    case VARIABLE:
    case CONSTANT: RF_TRY(read_stored(r, object, kind, &desc, shape, &v)); break;
    case GLOBAL_BATCH:
        if (desc.dtype != RF_F32 || shape.rank != 0)
            return RF_FAIL(RF_ERROR_CORRUPT_DATA, "the size of the batch is not an f32 scalar");
        RF_TRY(rf_graph_host(r->out->graph, &global_batch, desc, "global_batch", &v));
        break;
    default: return RF_FAIL(RF_ERROR_CORRUPT_DATA, "'kind' is missing");
    }
    return value_append(r, v, shape);
}

static rf_result read_inputs(const reader *r, const json_t *list, rf_value *in, uint32_t *count)
{
    if (!json_is_array(list) || json_array_size(list) > RF_MAX_INPUTS)
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "'in' is not a list of at most %d values", RF_MAX_INPUTS);
    *count = (uint32_t)json_array_size(list);
    for (uint32_t i = 0; i < *count; i++) {
        const json_t *number = json_array_get(list, i);
        const json_int_t v = json_integer_value(number);
        if (!json_is_integer(number) || v < 0 || v >= r->values.count)
            return RF_FAIL(RF_ERROR_CORRUPT_DATA, "input %u is value %lld of the %u before it", i, (long long)v,
                           r->values.count);
        in[i] = r->values.items[v];
    }
    return RF_OK;
}

static rf_result add_node(reader *r, const rf_op *op, const json_t *object)
{
    _Alignas(16) unsigned char attr[RF_MAX_ATTR];
    rf_value in[RF_MAX_INPUTS], out[RF_MAX_OUTPUTS] = { 0 };
    uint32_t n_in = 0, n_out = 0;
    RF_TRY(read_inputs(r, json_object_get(object, "in"), in, &n_in));
    RF_TRY(rf_attributes_from_json(op, json_object_get(object, "attributes"), attr));
    const rf_result added = rf_graph_add(r->out->graph, op, attr, in, n_in, out);
    if (added == RF_ERROR_OUT_OF_HOST_MEMORY) return added;
    if (added < 0) return RF_FAIL(RF_ERROR_CORRUPT_DATA, "%s", rf_error_message());
    while (n_out < op->n_out && out[n_out]) n_out++;
    const json_t *list = json_object_get(object, "out");
    if (!json_is_array(list) || json_array_size(list) != n_out)
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "'out' does not list its %u outputs", n_out);
    for (uint32_t i = 0; i < n_out; i++) {
        rf_tensor_desc desc;
        rf_shape shape;
        RF_TRY(desc_from_json(json_array_get(list, i), &desc, &shape));
        if (desc.dtype != rf_graph_desc(r->out->graph, out[i])->dtype)
            return RF_FAIL(RF_ERROR_CORRUPT_DATA, "output %u is %s, not %s", i,
                           rf_dtype_name(rf_graph_desc(r->out->graph, out[i])->dtype), rf_dtype_name(desc.dtype));
        RF_TRY(value_append(r, out[i], shape));
    }
    return RF_OK;
}

static rf_result read_node(reader *r, const json_t *object)
{
    const char *name;
    RF_TRY(read_member(object, "op", &name));
    const rf_op *op = rf_ops_find(name);
    if (!op) return RF_FAIL(RF_ERROR_UNSUPPORTED, "operation '%s' is not one of this version", name);
    if (op->mutates) return RF_FAIL(RF_ERROR_CORRUPT_DATA, "operation '%s' changes what it reads", name);
    return rf_error_context(add_node(r, op, object), "%s", name);
}

static rf_result read_outputs(reader *r, const json_t *list)
{
    rf_inference_graph *g = r->out;
    const size_t count = json_array_size(list);
    if (count < 1) return RF_FAIL(RF_ERROR_CORRUPT_DATA, "there are no outputs");
    if (count > RF_MAX_COMPONENTS) return RF_FAIL(RF_ERROR_UNSUPPORTED, "more than %d outputs", RF_MAX_COMPONENTS);
    for (size_t i = 0; i < count; i++) {
        const json_t *object = json_array_get(list, i), *number = json_object_get(object, "value");
        const json_int_t v = json_integer_value(number);
        const char *name;
        RF_TRY(read_member(object, "name", &name));
        if (!json_is_integer(number) || v < 0 || v >= r->values.count)
            return RF_FAIL(RF_ERROR_CORRUPT_DATA, "output '%s' is value %lld of %u", name, (long long)v,
                           r->values.count);
        g->output_names[i] = rf_arena_strdup(&g->graph->arena, name);
        if (!g->output_names[i]) return RF_ERROR_OUT_OF_HOST_MEMORY;
        g->outputs[g->num_outputs++] = r->values.items[v];
    }
    return RF_OK;
}

/* The shapes of the text must be those that inference finds. */
static rf_result compare_shapes(const reader *r)
{
    for (uint32_t i = 0; i < r->values.count; i++) {
        const rf_shape found = r->out->shapes[r->values.items[i]], said = r->shapes.items[i];
        char is[96], wanted[96];
        if (!rf_shape_equal(found, said))
            return RF_FAIL(RF_ERROR_CORRUPT_DATA, "value %u is %s, not %s", i, rf_shape_format(found, is, sizeof(is)),
                           rf_shape_format(said, wanted, sizeof(wanted)));
    }
    return RF_OK;
}

static rf_result read_list(reader *r, const json_t *root, const char *name, size_t most,
                           rf_result (*read)(reader *, const json_t *))
{
    const json_t *list = json_object_get(root, name);
    const size_t count = json_array_size(list);
    if (!json_is_array(list) || count > most)
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "'%s' is not a list of at most %zu", name, most);
    for (size_t i = 0; i < count; i++) RF_TRY(rf_error_context(read(r, json_array_get(list, i)), "%s[%zu]", name, i));
    return RF_OK;
}

static rf_result read_graph(reader *r, const json_t *root)
{
    uint64_t version = 0;
    RF_TRY(rf_json_u64(root, "version", &version));
    if (version == 0) return RF_FAIL(RF_ERROR_CORRUPT_DATA, "'version' is missing");
    if (version > VERSION)
        return RF_FAIL(RF_ERROR_UNSUPPORTED,
                       "version %llu is newer than %d; load it with a newer version of the library",
                       (unsigned long long)version, VERSION);
    RF_TRY(rf_graph_create(rf_ops_core(), &r->out->graph));
    RF_TRY(read_list(r, root, "leaves", MOST_LEAVES, read_leaf));
    RF_TRY(read_list(r, root, "nodes", MOST_NODES, read_node));
    RF_TRY(read_outputs(r, json_object_get(root, "outputs")));
    rf_result finished = rf_inference_graph_finish(r->out, true);
    if (finished >= 0) finished = rf_inference_graph_open(r->out, r->inputs);
    if (finished < 0 && finished != RF_ERROR_OUT_OF_HOST_MEMORY)
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "%s", rf_error_message());
    RF_TRY(finished);
    return compare_shapes(r);
}

rf_result rf_inference_graph_from_text(const char *text, size_t size, const rf_inference_tensors *tensors,
                                       rf_inference_graph *out)
{
    json_t *root;
    *out = (rf_inference_graph){ 0 };
    RF_TRY(rf_json_parse(text, size, "graph", &root));
    reader r = { .tensors = tensors, .out = out };
    const rf_result result = read_graph(&r, root);
    json_decref(root);
    rf_free(r.values.items);
    rf_free(r.shapes.items);
    if (result < 0) rf_inference_graph_free(out);
    return rf_error_context(result, "graph");
}
