/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sequential models as ONNX graphs. Images are [n, h, w, c] here and [n, c, h, w] there: the graph takes and gives our
 * layout and transposes around what looks at images; two transposes that meet cancel. Kernels are transposed when they
 * are written.
 */
#include <stdio.h>
#include <string.h>

#include <ringfire/interchange.h>

#include "base/memory.h"
#include "base/platform.h"
#include "train/onnx_model.pb-c.h"
#include "train/checkpoint.h"
#include "train/model.h"

enum { IR_VERSION = 8, OPSET = 13, FLOAT = 1, INT64 = 7 }; /* of the format */
enum { ATTRIBUTE_FLOAT = 1, ATTRIBUTE_INT = 2, ATTRIBUTE_STRING = 3, ATTRIBUTE_INTS = 7 };
enum { MOST_INPUTS = 3, MOST_ATTRIBUTES = 6 };

/* All memory is the arena's; a failed allocation sticks. */
typedef struct graph {
    rf_arena arena;
    bool failed;
    struct {
        RfOnnx__NodeProto **items;
        uint32_t count, capacity;
    } nodes;
    struct {
        RfOnnx__TensorProto **items;
        uint32_t count, capacity;
    } tensors;
    char *value;         /* what the layers before give */
    bool channels_first; /* `value` is in ONNX's layout */
    uint32_t values;
} graph;

static void *allocate(graph *g, size_t size)
{
    void *memory = rf_arena_alloc(&g->arena, size);
    g->failed |= !memory;
    return memory;
}

static char *copy(graph *g, const char *text)
{
    char *memory = rf_arena_strdup(&g->arena, text);
    g->failed |= !memory;
    return memory;
}

/* ---- attributes and nodes ---- */

static RfOnnx__AttributeProto *add_attribute(graph *g, RfOnnx__NodeProto *node, const char *name, int type)
{
    RfOnnx__AttributeProto *a = allocate(g, sizeof(*a));
    if (!a) return NULL;
    rf_onnx__attribute_proto__init(a);
    a->name = copy(g, name);
    a->has_type = 1;
    a->type = type;
    node->attribute[node->n_attribute++] = a;
    return a;
}

static void set_int(graph *g, RfOnnx__NodeProto *node, const char *name, int64_t value)
{
    RfOnnx__AttributeProto *a = node ? add_attribute(g, node, name, ATTRIBUTE_INT) : NULL;
    if (!a) return;
    a->has_i = 1;
    a->i = value;
}

static void set_float(graph *g, RfOnnx__NodeProto *node, const char *name, float value)
{
    RfOnnx__AttributeProto *a = node ? add_attribute(g, node, name, ATTRIBUTE_FLOAT) : NULL;
    if (!a) return;
    a->has_f = 1;
    a->f = value;
}

static void set_ints(graph *g, RfOnnx__NodeProto *node, const char *name, const int64_t *values, size_t count)
{
    RfOnnx__AttributeProto *a = node ? add_attribute(g, node, name, ATTRIBUTE_INTS) : NULL;
    if (!a) return;
    a->ints = allocate(g, count * sizeof(*values));
    if (!a->ints) return;
    memcpy(a->ints, values, count * sizeof(*values));
    a->n_ints = count;
}

/* Appends an operation on `value` and up to two initializers; its result becomes `value`. NULL: out of memory. */
static RfOnnx__NodeProto *add_node(graph *g, const char *op, char *second, char *third)
{
    char name[48];
    RfOnnx__NodeProto *node = allocate(g, sizeof(*node));
    if (!node || RF_VEC_GROW(&g->nodes) < 0) {
        g->failed = true;
        return NULL;
    }
    rf_onnx__node_proto__init(node);
    node->input = allocate(g, MOST_INPUTS * sizeof(char *));
    node->output = allocate(g, sizeof(char *));
    node->attribute = allocate(g, MOST_ATTRIBUTES * sizeof(RfOnnx__AttributeProto *));
    if (g->failed) return NULL;
    node->op_type = copy(g, op);
    node->input[node->n_input++] = g->value;
    if (second) node->input[node->n_input++] = second;
    if (third) node->input[node->n_input++] = third;
    snprintf(name, sizeof(name), "value_%u", ++g->values);
    node->output[node->n_output++] = g->value = copy(g, name);
    node->name = g->value;
    g->nodes.items[g->nodes.count++] = node;
    return node;
}

/* ---- initializers ---- */

/* Memory of a new initializer, `bytes` of it. Its name is returned through `name`. */
static void *add_tensor(graph *g, const char *label, int type, const int64_t *dims, size_t rank, size_t bytes,
                        char **name)
{
    RfOnnx__TensorProto *t = allocate(g, sizeof(*t));
    *name = copy(g, label);
    if (!t || !*name || RF_VEC_GROW(&g->tensors) < 0) {
        g->failed = true;
        return NULL;
    }
    rf_onnx__tensor_proto__init(t);
    t->name = *name;
    t->has_data_type = 1;
    t->data_type = type;
    t->dims = allocate(g, (rank + 1) * sizeof(*dims));
    t->raw_data.data = allocate(g, bytes);
    if (g->failed) return NULL;
    if (rank > 0) memcpy(t->dims, dims, rank * sizeof(*dims));
    t->n_dims = rank;
    t->raw_data.len = bytes;
    t->has_raw_data = 1;
    g->tensors.items[g->tensors.count++] = t;
    return t->raw_data.data;
}

static rf_result out_of_memory(void)
{
    return RF_FAIL(RF_ERROR_OUT_OF_HOST_MEMORY, "out of memory for an ONNX graph");
}

static rf_result add_variable(graph *g, const rf_variable *v, char **name)
{
    const rf_shape shape = rf_variable_shape(v);
    void *data = add_tensor(g, rf_variable_name(v), FLOAT, shape.dim, (size_t)shape.rank,
                            (size_t)rf_shape_count(shape) * sizeof(float), name);
    return data ? rf_variable_read(v, data) : out_of_memory();
}

/* [kh, kw, in, out] becomes [out, in, kh, kw]. */
static rf_result add_kernel(graph *g, const rf_variable *v, char **name)
{
    const rf_shape s = rf_variable_shape(v);
    const int64_t h = s.dim[0], w = s.dim[1], in = s.dim[2], out = s.dim[3], dims[] = { out, in, h, w };
    float *to = add_tensor(g, rf_variable_name(v), FLOAT, dims, 4, (size_t)rf_shape_count(s) * sizeof(float), name);
    float *from = RF_NEW_ARRAY(float, rf_shape_count(s));
    rf_result r = to && from ? rf_variable_read(v, from) : out_of_memory();
    for (int64_t y = 0; r >= 0 && y < h; y++)
        for (int64_t x = 0; x < w; x++)
            for (int64_t i = 0; i < in; i++)
                for (int64_t o = 0; o < out; o++)
                    to[((o * in + i) * h + y) * w + x] = from[((y * w + x) * in + i) * out + o];
    rf_free(from);
    return r;
}

/* ---- layouts ---- */

static void use_layout(graph *g, bool channels_first)
{
    static const int64_t first[] = { 0, 3, 1, 2 }, last[] = { 0, 2, 3, 1 };
    if (g->channels_first == channels_first) return;
    set_ints(g, add_node(g, "Transpose", NULL, NULL), "perm", channels_first ? first : last, 4);
    g->channels_first = channels_first;
}

/* ---- layers ---- */

static rf_result add_activation(graph *g, rf_activation activation)
{
    RfOnnx__NodeProto *node;
    char *name;
    switch (activation) {
    case RF_ACTIVATION_LINEAR:
        return RF_OK;
    case RF_ACTIVATION_RELU:
        add_node(g, "Relu", NULL, NULL);
        return RF_OK;
    case RF_ACTIVATION_LEAKY_RELU:
        set_float(g, add_node(g, "LeakyRelu", NULL, NULL), "alpha", 0.2f);
        return RF_OK;
    case RF_ACTIVATION_SIGMOID:
        add_node(g, "Sigmoid", NULL, NULL);
        return RF_OK;
    case RF_ACTIVATION_TANH:
        add_node(g, "Tanh", NULL, NULL);
        return RF_OK;
    case RF_ACTIVATION_SOFTMAX:
        use_layout(g, false);
        node = add_node(g, "Softmax", NULL, NULL);
        set_int(g, node, "axis", -1);
        return RF_OK;
    case RF_ACTIVATION_GELU: {
        /* x / 2 * (1 + erf(x / sqrt 2)), from operations of this version. */
        static const float numbers[] = { 0.70710678118654752f, 1.0f, 0.5f };
        char *x = g->value, *constants[3];
        for (int i = 0; i < 3; i++) {
            char label[48];
            snprintf(label, sizeof(label), "gelu_%u_%d", g->values, i);
            float *data = add_tensor(g, label, FLOAT, NULL, 0, sizeof(float), &name);
            if (!data) return out_of_memory();
            *data = numbers[i];
            constants[i] = name;
        }
        add_node(g, "Mul", constants[0], NULL);
        add_node(g, "Erf", NULL, NULL);
        add_node(g, "Add", constants[1], NULL);
        add_node(g, "Mul", x, NULL);
        add_node(g, "Mul", constants[2], NULL);
        return RF_OK;
    }
    }
    return RF_FAIL(RF_ERROR_UNSUPPORTED, "activation %d has no form in ONNX", (int)activation);
}

static rf_result add_dense(graph *g, const rf_layer *layer)
{
    char *kernel, *bias;
    use_layout(g, false);
    RF_TRY(add_variable(g, layer->variables[0], &kernel));
    add_node(g, "MatMul", kernel, NULL);
    if (layer->u.dense.affine.use_bias) {
        RF_TRY(add_variable(g, layer->variables[1], &bias));
        add_node(g, "Add", bias, NULL);
    }
    return add_activation(g, layer->u.dense.affine.activation);
}

/* Padding before and after, as numbers: SAME puts the odd one at the end. */
static void find_pads(rf_padding padding, const int32_t explicit_padding[4], const int64_t *extent,
                      const int64_t *window, const int64_t *stride, int64_t pads[4])
{
    for (int k = 0; k < 2; k++) {
        const int64_t outputs = (extent[k] + stride[k] - 1) / stride[k];
        int64_t total = padding == RF_PADDING_SAME ? (outputs - 1) * stride[k] + window[k] - extent[k] : 0;
        if (total < 0) total = 0;
        pads[k] = padding == RF_PADDING_EXPLICIT ? explicit_padding[2 * k] : total / 2;
        pads[k + 2] = padding == RF_PADDING_EXPLICIT ? explicit_padding[2 * k + 1] : total - total / 2;
    }
}

static int64_t or_one(int32_t value)
{
    return value ? value : 1;
}

static rf_result add_conv2d(graph *g, const rf_layer *layer)
{
    const rf_conv2d_params *c = &layer->u.conv2d.conv;
    const int64_t size[] = { layer->u.conv2d.kernel_size[0], layer->u.conv2d.kernel_size[1] };
    const int64_t strides[] = { or_one(c->stride[0]), or_one(c->stride[1]) };
    const int64_t dilations[] = { or_one(c->dilation[0]), or_one(c->dilation[1]) };
    const int64_t reach[] = { (size[0] - 1) * dilations[0] + 1, (size[1] - 1) * dilations[1] + 1 };
    int64_t pads[4];
    char *kernel, *bias = NULL;
    find_pads(c->padding, c->explicit_padding, &layer->input.dim[1], reach, strides, pads);
    use_layout(g, true);
    RF_TRY(add_kernel(g, layer->variables[0], &kernel));
    if (layer->u.conv2d.affine.use_bias) RF_TRY(add_variable(g, layer->variables[1], &bias));
    RfOnnx__NodeProto *node = add_node(g, "Conv", kernel, bias);
    set_ints(g, node, "kernel_shape", size, 2);
    set_ints(g, node, "strides", strides, 2);
    set_ints(g, node, "dilations", dilations, 2);
    set_ints(g, node, "pads", pads, 4);
    set_int(g, node, "group", or_one(c->groups));
    return add_activation(g, layer->u.conv2d.affine.activation);
}

static rf_result add_pool(graph *g, const rf_layer *layer, const char *op)
{
    const rf_pool2d_params *p = &layer->u.pool;
    int64_t window[2], strides[2], pads[4];
    for (int k = 0; k < 2; k++) {
        window[k] = p->window[k] ? p->window[k] : 2;
        strides[k] = p->stride[k] ? p->stride[k] : window[k];
    }
    find_pads(p->padding, p->explicit_padding, &layer->input.dim[1], window, strides, pads);
    use_layout(g, true);
    RfOnnx__NodeProto *node = add_node(g, op, NULL, NULL);
    set_ints(g, node, "kernel_shape", window, 2);
    set_ints(g, node, "strides", strides, 2);
    set_ints(g, node, "pads", pads, 4);
    return RF_OK;
}

/* To the layer's output, the batch open. */
static rf_result add_reshape(graph *g, const rf_layer *layer)
{
    char label[48], *name;
    const rf_shape shape = layer->output;
    const int64_t rank = shape.rank;
    use_layout(g, false);
    snprintf(label, sizeof(label), "shape_%u", g->values);
    int64_t *dims = add_tensor(g, label, INT64, &rank, 1, (size_t)rank * sizeof(int64_t), &name);
    if (!dims) return out_of_memory();
    memcpy(dims, shape.dim, (size_t)rank * sizeof(int64_t));
    dims[0] = -1;
    add_node(g, "Reshape", name, NULL);
    return RF_OK;
}

static rf_result add_layer(graph *g, const rf_layer *layer)
{
    const char *kind = layer->kind->base_name;
    if (strcmp(kind, "dense") == 0) return add_dense(g, layer);
    if (strcmp(kind, "conv2d") == 0) return add_conv2d(g, layer);
    if (strcmp(kind, "max_pooling2d") == 0) return add_pool(g, layer, "MaxPool");
    if (strcmp(kind, "average_pooling2d") == 0) return add_pool(g, layer, "AveragePool");
    if (strcmp(kind, "activation") == 0) return add_activation(g, layer->u.activation);
    if (strcmp(kind, "flatten") == 0 || strcmp(kind, "reshape") == 0) return add_reshape(g, layer);
    if (strcmp(kind, "dropout") == 0) return RF_OK; /* does nothing outside of training */
    if (strcmp(kind, "global_average_pooling2d") != 0)
        return RF_FAIL(RF_ERROR_UNSUPPORTED, "layer '%s' (%s) has no form in ONNX", layer->name,
                       layer->kind->type_name);
    use_layout(g, true);
    add_node(g, "GlobalAveragePool", NULL, NULL);
    g->channels_first = false; /* [n, c, 1, 1] is flattened whatever the layout */
    return add_reshape(g, layer);
}

/* ---- the file ---- */

static RfOnnx__ValueInfoProto *describe(graph *g, const char *name, rf_shape shape)
{
    struct described {
        RfOnnx__ValueInfoProto info;
        RfOnnx__TypeProto type;
        RfOnnx__TensorTypeProto tensor;
        RfOnnx__TensorShapeProto shape;
        RfOnnx__Dimension dims[RF_MAX_RANK], *list[RF_MAX_RANK];
    } *d = allocate(g, sizeof(*d));
    if (!d) return NULL;
    rf_onnx__value_info_proto__init(&d->info);
    rf_onnx__type_proto__init(&d->type);
    rf_onnx__tensor_type_proto__init(&d->tensor);
    rf_onnx__tensor_shape_proto__init(&d->shape);
    for (int32_t i = 0; i < shape.rank; i++) {
        d->list[i] = &d->dims[i];
        rf_onnx__dimension__init(&d->dims[i]);
        if (i == 0) d->dims[i].dim_param = copy(g, "n");
        d->dims[i].has_dim_value = i > 0;
        d->dims[i].dim_value = i > 0 ? shape.dim[i] : 0;
    }
    d->shape.n_dim = (size_t)shape.rank;
    d->shape.dim = d->list;
    d->tensor.has_elem_type = 1;
    d->tensor.elem_type = FLOAT;
    d->tensor.shape = &d->shape;
    d->type.tensor_type = &d->tensor;
    d->info.type = &d->type;
    d->info.name = copy(g, name);
    return &d->info;
}

static rf_result write_graph(graph *g, const rf_model *model, const char *path)
{
    static char producer[] = "ringfire", label[] = "model", domain[] = "";
    rf_shape input = { .rank = model->input_shape.rank + 1 };
    for (int32_t i = 1; i < input.rank; i++) input.dim[i] = model->input_shape.dim[i - 1];
    RfOnnx__ValueInfoProto *in = describe(g, "input", input);
    RfOnnx__ValueInfoProto *out = describe(g, "output", model->layers.items[model->layers.count - 1]->output);
    if (g->failed) return out_of_memory();
    RfOnnx__ModelProto root = RF_ONNX__MODEL_PROTO__INIT;
    RfOnnx__GraphProto body = RF_ONNX__GRAPH_PROTO__INIT;
    RfOnnx__OperatorSetIdProto opset = RF_ONNX__OPERATOR_SET_ID_PROTO__INIT, *opsets[] = { &opset };
    opset.domain = domain;
    opset.has_version = 1;
    opset.version = OPSET;
    body.name = label;
    body.n_node = g->nodes.count;
    body.node = g->nodes.items;
    body.n_initializer = g->tensors.count;
    body.initializer = g->tensors.items;
    body.n_input = body.n_output = 1;
    body.input = &in;
    body.output = &out;
    root.has_ir_version = 1;
    root.ir_version = IR_VERSION;
    root.producer_name = producer;
    root.graph = &body;
    root.n_opset_import = 1;
    root.opset_import = opsets;
    const size_t size = rf_onnx__model_proto__get_packed_size(&root);
    uint8_t *bytes = rf_calloc(size, 1);
    if (!bytes) return RF_ERROR_OUT_OF_HOST_MEMORY;
    (void)rf_onnx__model_proto__pack(&root, bytes);
    const rf_result r = rf_file_write_atomic(path, bytes, size);
    rf_free(bytes);
    return r;
}

static rf_result export_model(const rf_model *model, const char *path)
{
    graph g = { 0 };
    static char input[] = "input", output[] = "output";
    g.value = input;
    rf_result r = RF_OK;
    for (uint32_t i = 0; r >= 0 && i < model->layers.count; i++) r = add_layer(&g, model->layers.items[i]);
    if (r >= 0) use_layout(&g, false);
    if (r >= 0 && g.nodes.count == 0) add_node(&g, "Identity", NULL, NULL);
    if (r >= 0 && g.failed) r = out_of_memory();
    if (r >= 0) g.nodes.items[g.nodes.count - 1]->output[0] = output;
    if (r >= 0) r = write_graph(&g, model, path);
    rf_free(g.nodes.items);
    rf_free(g.tensors.items);
    rf_arena_free(&g.arena);
    return r;
}

rf_result rf_model_export_onnx(rf_model *model, const char *path)
{
    RF_REQUIRE(model, "rf_model_export_onnx: model is NULL");
    RF_REQUIRE(path && *path, "rf_model_export_onnx: path is empty");
    RF_REQUIRE(model->built, "rf_model_export_onnx: the model has no variables yet; call rf_model_build() first");
    if (model->call)
        return RF_FAIL(
            RF_ERROR_UNSUPPORTED,
            "rf_model_export_onnx: the model's forward function is code; only sequential models have a graph");
    rf_result r = RF_OK;
    if (rf_strategy_is_chief(model->strategy)) r = rf_error_context(export_model(model, path), "rf_model_export_onnx");
    return rf_share_result(model->strategy, r);
}
