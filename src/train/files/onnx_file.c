/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include <ringfire/interchange.h>

#include "train/checkpoint/checkpoint.h"
#include "train/files/onnx.h"
#include "train/model/model.h"
#include "train/model/open_shape.h"

enum { IR_VERSION = 8, OPSET = 13 }; /* of the format */

/* The dimension is that of the inputs that is left open. */
static bool is_open_size(const rf_onnx *o, rf_value v, int32_t dim)
{
    return o->source->other && rf_is_open_size(rf_graph_desc(o->source->graph, v)->shape.dim[dim],
                                               rf_graph_desc(o->source->other, v)->shape.dim[dim]);
}

/* "n" is the batch and "sequence" an open size of the inputs; other dimensions that follow them are left open. */
static RfOnnx__ValueInfoProto *value_describe(rf_onnx *o, rf_value v, const char *name)
{
    struct described {
        RfOnnx__ValueInfoProto info;
        RfOnnx__TypeProto type;
        RfOnnx__TensorTypeProto tensor;
        RfOnnx__TensorShapeProto shape;
        RfOnnx__Dimension dims[RF_MAX_RANK], *list[RF_MAX_RANK];
    } *d = rf_onnx_alloc(o, sizeof(*d));
    char *copy = rf_onnx_copy(o, name), *batch = rf_onnx_copy(o, "n"), *sequence = rf_onnx_copy(o, "sequence");
    if (o->status < 0) return NULL;
    const rf_shape shape = rf_onnx_shape(o, v), more = o->source->more[v];
    rf_onnx__value_info_proto__init(&d->info);
    rf_onnx__type_proto__init(&d->type);
    rf_onnx__tensor_type_proto__init(&d->tensor);
    rf_onnx__tensor_shape_proto__init(&d->shape);
    for (int32_t i = 0; i < shape.rank; i++) {
        d->list[i] = &d->dims[i];
        rf_onnx__dimension__init(&d->dims[i]);
        const bool open = shape.dim[i] < 0, all = more.dim[i] == RF_INFERENCE_BATCH + 1;
        if (open && all && rf_graph_desc(o->source->graph, v)->shape.dim[i] == RF_INFERENCE_BATCH)
            d->dims[i].dim_param = batch;
        else if (open && is_open_size(o, v, i))
            d->dims[i].dim_param = sequence;
        d->dims[i].has_dim_value = !open;
        d->dims[i].dim_value = open ? 0 : shape.dim[i];
    }
    d->shape.n_dim = (size_t)shape.rank;
    d->shape.dim = d->list;
    d->tensor.has_elem_type = 1;
    d->tensor.elem_type = rf_onnx_type(rf_graph_desc(o->source->graph, v)->dtype);
    d->tensor.shape = &d->shape;
    d->type.tensor_type = &d->tensor;
    d->info.type = &d->type;
    d->info.name = copy;
    return &d->info;
}

/* The node that makes a name; NULL: an input or an initializer. */
static const RfOnnx__NodeProto *find_maker(const rf_onnx *o, const char *name)
{
    for (uint32_t i = o->nodes.count; i-- > 0;)
        if (o->nodes.items[i]->output[0] == name) return o->nodes.items[i];
    return NULL;
}

/* Names are shared by pointer: what is written there reaches all readers. */
static void name_output(rf_onnx *o, uint32_t index)
{
    char *name = rf_onnx_get(o, o->source->outputs[index]);
    if (!name) return;
    bool taken = !find_maker(o, name);
    for (uint32_t i = 0; i < index; i++) taken |= rf_onnx_get(o, o->source->outputs[i]) == name;
    if (taken) name = rf_onnx_op(o, "Identity", name, NULL, NULL);
    const RfOnnx__NodeProto *node = name ? find_maker(o, name) : NULL;
    char *wanted = rf_onnx_copy(o, o->source->output_names[index]);
    if (!node || !wanted) return;
    for (uint32_t i = 0; i < o->nodes.count; i++) {
        RfOnnx__NodeProto *reader = o->nodes.items[i];
        for (size_t k = 0; k < reader->n_input; k++)
            if (reader->input[k] == name) reader->input[k] = wanted;
        if (reader == node) reader->output[0] = reader->name = wanted;
    }
    o->values[o->source->outputs[index]].name = wanted;
    for (rf_value v = 1; v < o->source->graph->values.count; v++)
        if (o->values[v].name == name) o->values[v].name = wanted;
}

static rf_result write_file(const rf_file_ops *ops, const char *path, const void *bytes, size_t size)
{
    rf_new_file file;
    RF_TRY(rf_new_file_begin(&file, ops, path));
    const rf_result r = rf_file_write_at(ops, file.fd, file.temporary, bytes, size, 0);
    if (r >= 0) return rf_new_file_commit(&file);
    rf_new_file_abandon(&file);
    return r;
}

static rf_result onnx_pack(rf_onnx *o, const rf_file_ops *ops, const char *path)
{
    static char producer[] = "ringfire", label[] = "model", domain[] = "";
    const rf_inference_graph *g = o->source;
    RfOnnx__ValueInfoProto *in[RF_MAX_COMPONENTS], *out[RF_MAX_COMPONENTS];
    for (uint32_t i = 0; i < g->num_inputs; i++) in[i] = value_describe(o, g->inputs[i], g->input_names[i]);
    for (uint32_t i = 0; i < g->num_outputs; i++) out[i] = value_describe(o, g->outputs[i], g->output_names[i]);
    RF_TRY(o->status);
    RfOnnx__ModelProto root = RF_ONNX__MODEL_PROTO__INIT;
    RfOnnx__GraphProto body = RF_ONNX__GRAPH_PROTO__INIT;
    RfOnnx__OperatorSetIdProto opset = RF_ONNX__OPERATOR_SET_ID_PROTO__INIT, *opsets[] = { &opset };
    opset.domain = domain;
    opset.has_version = 1;
    opset.version = OPSET;
    body.name = label;
    body.n_node = o->nodes.count;
    body.node = o->nodes.items;
    body.n_initializer = o->tensors.count;
    body.initializer = o->tensors.items;
    body.n_input = g->num_inputs;
    body.n_output = g->num_outputs;
    body.input = in;
    body.output = out;
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
    const rf_result r = write_file(ops, path, bytes, size);
    rf_free(bytes);
    return r;
}

rf_result rf_onnx_write(const rf_inference_graph *g, const rf_file_ops *ops, const char *path)
{
    rf_onnx o = { .source = g };
    o.values = rf_onnx_alloc(&o, g->graph->values.count * sizeof(*o.values));
    for (uint32_t i = 0; o.values && i < g->num_inputs; i++)
        o.values[g->inputs[i]].name = rf_onnx_copy(&o, g->input_names[i]);
    rf_result r = o.status;
    for (rf_node n = 0; r >= 0 && n < g->graph->nodes.count; n++) {
        const rf_node_info *node = &g->graph->nodes.items[n];
        if (!node->dead) r = rf_onnx_add_node(&o, node);
        if (r >= 0) r = o.status;
    }
    for (uint32_t i = 0; r >= 0 && i < g->num_outputs; i++) name_output(&o, i);
    if (r >= 0) r = onnx_pack(&o, ops, path);
    rf_free(o.nodes.items);
    rf_free(o.tensors.items);
    rf_arena_free(&o.arena);
    return r;
}

rf_result rf_model_export_onnx(rf_model *model, const char *path)
{
    RF_REQUIRE(model, "rf_model_export_onnx: model is NULL");
    RF_REQUIRE(path && *path, "rf_model_export_onnx: path is empty");
    RF_REQUIRE(model->built, "rf_model_export_onnx: the model has no variables yet; call rf_model_build() first");
    rf_inference_graph g;
    RF_TRY(rf_error_context(rf_inference_graph_of_model(model, &g), "rf_model_export_onnx"));
    rf_result r = RF_OK;
    if (rf_strategy_is_chief(model->strategy))
        r = rf_error_context(rf_onnx_write(&g, &rf_system_file_ops, path), "rf_model_export_onnx");
    rf_inference_graph_free(&g);
    return rf_broadcast_result(model->strategy, r);
}
