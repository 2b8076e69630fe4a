/* SPDX-License-Identifier: Apache-2.0 */
#include "train/files/model_json.h"

#include <string.h>

#include "base/memory.h"
#include "train/files/layer_json.h"
#include "train/model/layer_graph.h"
#include "train/model/open_shape.h"

enum { MOST_LAYERS = 4096, MOST_CALLS = 16384, MOST_INPUTS = 1 << 26 /* elements of an example */ };

/* ---- writing ---- */

/* A part of one is a part of the other. */
static bool have_common_part(const rf_model *a, const rf_model *b)
{
    if (rf_model_contains(b, a)) return true;
    for (uint32_t i = 0; i < a->layers.count; i++) {
        const rf_model *inner = rf_layer_model(a->layers.items[i]);
        if (inner && have_common_part(inner, b)) return true;
    }
    return false;
}

/* Layers of one model refer to each other; what models within models share would be there twice after loading. */
static rf_result check_parts(const rf_model *model, uint32_t number, const char *function)
{
    const rf_layer *layer = model->layers.items[number];
    const rf_model *inner = rf_layer_model(layer);
    RF_TRY(rf_error_context(rf_model_check_describable(inner, function), "layer '%s'", layer->name));
    for (uint32_t i = 0; i < number; i++) {
        const rf_model *other = rf_layer_model(model->layers.items[i]);
        if (other && other != inner && have_common_part(inner, other))
            return RF_FAIL(RF_ERROR_UNSUPPORTED,
                           "%s: the models of layers '%s' and '%s' have a model in common, which a file cannot hold; "
                           "save the weights (rf_model_save_weights()), or make it a layer of the outer model alone",
                           function, model->layers.items[i]->name, layer->name);
    }
    return RF_OK;
}

rf_result rf_model_check_describable(const rf_model *model, const char *function)
{
    RF_REQUIRE(model, "%s: model is NULL", function);
    if (!rf_model_is_data(model))
        return RF_FAIL(RF_ERROR_UNSUPPORTED,
                       "%s: the model's forward function is code, which a file cannot hold; save its weights "
                       "(rf_model_save_weights()) and build the model in the program, or export it for inference with "
                       "rf_model_export()",
                       function);
    for (uint32_t i = 0; i < model->layers.count; i++) {
        const rf_layer *layer = rf_layer_original(model->layers.items[i]);
        if (rf_layer_model(layer)) {
            RF_TRY(check_parts(model, i, function));
            continue;
        }
        if (rf_layer_is_custom(layer) && !rf_layer_is_describable(layer))
            return RF_FAIL(RF_ERROR_UNSUPPORTED,
                           "%s: layer '%s' (%s) has no config to be made from again; set "
                           "rf_custom_layer_params.config and register the type, or save the weights "
                           "(rf_model_save_weights())",
                           function, layer->name, layer->kind->type_name);
        if (!rf_layer_is_describable(layer))
            return RF_FAIL(RF_ERROR_UNSUPPORTED,
                           "%s: layer '%s' (%s) is code, which a file cannot hold; save the weights "
                           "(rf_model_save_weights()) and build the model in the program, or export it for inference "
                           "with rf_model_export()",
                           function, layer->name, layer->kind->type_name);
    }
    RF_REQUIRE(model->built, "%s: the model has no variables yet; call rf_model_build() first", function);
    return RF_OK;
}

static rf_result list_append(json_t *list, json_t *value)
{
    return json_array_append_new(list, value) == 0 ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
}

/* The layer before it that is of the same model; NULL: there is none. */
static const rf_layer *find_same(const rf_architecture *a, uint32_t number)
{
    const rf_layer *layer = a->layers[number];
    for (uint32_t i = 0; layer->u.model.model && i < number; i++)
        if (rf_layer_model(a->layers[i]) == layer->u.model.model) return a->layers[i];
    return layer->u.model.same;
}

static rf_result architecture_to_json(const rf_architecture *architecture, json_t **out);
static rf_architecture architecture_of(const rf_model *model);

static rf_result describe_model(const rf_layer *layer, json_t **out)
{
    const char *text = layer->u.model.description;
    if (!layer->u.model.model) return rf_json_parse(text, strlen(text), "architecture", out);
    const rf_architecture inner = architecture_of(layer->u.model.model);
    return architecture_to_json(&inner, out);
}

static rf_result model_layer_to_json(const rf_architecture *a, uint32_t number, json_t **out)
{
    const rf_layer *layer = a->layers[number], *same = find_same(a, number);
    json_t *model = NULL;
    *out = json_pack("{s:s, s:s}", "kind", layer->kind->base_name, "name", layer->name);
    rf_result r = *out ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
    if (r >= 0 && layer->frozen) r = rf_json_set(*out, "trainable", json_false());
    if (r >= 0 && layer->u.model.last) r = rf_json_set(*out, "last_layer", json_string(layer->u.model.last));
    if (r >= 0 && same) r = rf_json_set(*out, "same_as", json_string(same->name));
    if (r >= 0 && !same) r = describe_model(layer, &model);
    if (r >= 0 && model) r = rf_json_set(*out, "model", model);
    if (r < 0) json_decref(*out);
    return r;
}

static rf_result describe_layers(const rf_architecture *a, json_t *list)
{
    for (uint32_t i = 0; i < a->count; i++) {
        json_t *object;
        RF_TRY(a->layers[i]->kind->applies_model ? model_layer_to_json(a, i, &object)
                                                 : rf_layer_to_json(rf_layer_original(a->layers[i]), &object));
        RF_TRY(list_append(list, object));
    }
    return RF_OK;
}

static rf_result describe_inputs(const rf_architecture *a, json_t *list)
{
    for (uint32_t i = 0; i < a->graph->num_inputs; i++) {
        const rf_tensor_desc *input = &a->graph->inputs[i];
        RF_TRY(list_append(list, json_pack("{s:s, s:s, s:o}", "name", a->input_names[i], "dtype",
                                           rf_dtype_name(input->dtype), "shape", rf_shape_to_json(input->shape))));
    }
    return RF_OK;
}

static rf_result describe_calls(const rf_architecture *a, json_t *list)
{
    const rf_layer_graph *graph = a->graph;
    for (uint32_t i = 0; i < graph->uses.count; i++) {
        const rf_layer_use *use = &graph->uses.items[i];
        json_t *in = json_array();
        json_t *object = json_pack("{s:s, s:o, s:I}", "layer", a->layers[use->layer]->name, "inputs", in, "outputs",
                                   (json_int_t)use->num_out);
        RF_TRY(list_append(list, object));
        for (uint32_t k = 0; k < use->num_in; k++)
            RF_TRY(list_append(in, json_integer(graph->operands.items[use->first_operand + k])));
        if (use->mask != RF_NO_VALUE) RF_TRY(rf_json_set(object, "mask", json_integer(use->mask)));
    }
    return RF_OK;
}

static rf_result describe_outputs(const rf_architecture *a, json_t *list)
{
    for (uint32_t i = 0; i < a->graph->num_outputs; i++)
        RF_TRY(list_append(
            list, json_pack("{s:s, s:I}", "name", a->output_names[i], "value", (json_int_t)a->graph->outputs[i])));
    return RF_OK;
}

/* "calls" and what they connect, in terms of numbered values; see layer_graph.h. */
static rf_result describe_graph(const rf_architecture *a, json_t *root)
{
    json_t *inputs = json_array(), *calls = json_array(), *outputs = json_array();
    RF_TRY(rf_json_set(root, "inputs", inputs));
    RF_TRY(rf_json_set(root, "calls", calls));
    RF_TRY(rf_json_set(root, "outputs", outputs));
    RF_TRY(describe_inputs(a, inputs));
    RF_TRY(describe_calls(a, calls));
    return describe_outputs(a, outputs);
}

static rf_result describe_sequence(const rf_architecture *a, json_t *root)
{
    RF_TRY(rf_json_set(root, "input_shape", rf_shape_to_json(a->input)));
    return a->dtype == RF_F32 ? RF_OK : rf_json_set(root, "input_dtype", json_string(rf_dtype_name(a->dtype)));
}

static rf_result architecture_to_json(const rf_architecture *architecture, json_t **out)
{
    json_t *layers = json_array(), *root = json_object();
    *out = NULL;
    rf_result r = rf_json_set(root, "layers", layers);
    if (r >= 0) r = describe_layers(architecture, layers);
    if (r >= 0) r = architecture->graph ? describe_graph(architecture, root) : describe_sequence(architecture, root);
    if (r < 0) {
        json_decref(root);
        return RF_FAIL(r, "out of memory for the description of a model");
    }
    *out = root;
    return RF_OK;
}

rf_result rf_architecture_text(const rf_architecture *architecture, char **text)
{
    json_t *root;
    *text = NULL;
    RF_TRY(architecture_to_json(architecture, &root));
    return rf_json_text(root, text);
}

/* Borrowed from the model. */
static rf_architecture architecture_of(const rf_model *model)
{
    rf_architecture a = { .input = model->inputs[0].shape,
                          .dtype = model->inputs[0].dtype,
                          .layers = model->layers.items,
                          .count = model->layers.count,
                          .graph = model->graph };
    memcpy(a.input_names, model->input_names, sizeof(a.input_names));
    memcpy(a.output_names, model->output_names, sizeof(a.output_names));
    return a;
}

rf_result rf_model_describe(const rf_model *model, char **text)
{
    *text = NULL;
    RF_TRY(rf_model_check_describable(model, "describing a model"));
    const rf_architecture a = architecture_of(model);
    return rf_architecture_text(&a, text);
}

/* ---- reading ---- */

/* f32 where there is none. */
static rf_result dtype_from_json(const json_t *object, const char *name, rf_dtype *out)
{
    const json_t *value = json_object_get(object, name);
    const char *text = json_string_value(value);
    *out = RF_F32;
    if (!value) return RF_OK;
    for (int dtype = RF_DTYPE_INVALID + 1; text && dtype < RF_DTYPE_COUNT; dtype++) {
        *out = (rf_dtype)dtype;
        if (strcmp(rf_dtype_name(*out), text) == 0) return RF_OK;
    }
    return RF_FAIL(RF_ERROR_CORRUPT_DATA, "'%s' is not a type", name);
}

static rf_layer *find_layer(const rf_architecture *a, const char *name)
{
    for (uint32_t i = 0; name && i < a->count; i++)
        if (strcmp(a->layers[i]->name, name) == 0) return a->layers[i];
    return NULL;
}

static rf_result architecture_from_json(const json_t *root, rf_architecture *out);

/* A description is read to see that it is one, and once more when the model is made. */
static rf_result take_description(const json_t *object, rf_layer *layer)
{
    rf_architecture inner;
    const char *last = layer->u.model.last;
    if (!json_is_object(object)) return RF_FAIL(RF_ERROR_CORRUPT_DATA, "'model' describes none");
    RF_TRY(architecture_from_json(object, &inner));
    layer->u.model.num_inputs = inner.graph ? inner.graph->num_inputs : 1;
    layer->u.model.num_outputs = inner.graph && !last ? inner.graph->num_outputs : 1;
    const bool complete = !last || find_layer(&inner, last);
    rf_architecture_free(&inner);
    return complete ? RF_OK : RF_FAIL(RF_ERROR_CORRUPT_DATA, "'last_layer' names no layer of the model");
}

/* The model of a layer before it. */
static rf_result take_same(const rf_architecture *before, const char *name, rf_layer *layer)
{
    json_t *root;
    const rf_layer *same = find_layer(before, name);
    if (!same || !same->kind->applies_model || !same->u.model.description)
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "'same_as' names no layer before it that has a model");
    const char *text = same->u.model.description;
    layer->u.model.same = same;
    RF_TRY(rf_json_parse(text, strlen(text), "architecture", &root));
    const rf_result r = take_description(root, layer);
    json_decref(root);
    return r;
}

static rf_result read_model_layer(const json_t *object, const rf_architecture *before, rf_layer **out)
{
    const char *name = json_string_value(json_object_get(object, "name"));
    const char *same = json_string_value(json_object_get(object, "same_as"));
    json_t *model = json_object_get(object, "model");
    bool trainable = true;
    if (!name || !*name) return RF_FAIL(RF_ERROR_CORRUPT_DATA, "a model as a layer without a name");
    RF_TRY(rf_json_bool(object, "trainable", &trainable));
    RF_TRY(rf_model_layer_new(name, json_string_value(json_object_get(object, "last_layer")), out));
    rf_result r = same ? take_same(before, same, *out) : take_description(model, *out);
    if (r >= 0 && !same) r = rf_json_text(json_incref(model), &(*out)->u.model.description);
    (*out)->frozen = !trainable;
    if (r < 0) rf_layer_destroy(out);
    return rf_error_context(r, "layer '%s'", name);
}

static rf_result read_layer(const json_t *object, const rf_architecture *before, rf_layer **out)
{
    const char *kind = json_string_value(json_object_get(object, "kind"));
    const rf_layer_row row = { before->layers, before->count };
    if (kind && strcmp(kind, "model") == 0) return read_model_layer(object, before, out);
    return rf_layer_from_json(object, &row, out);
}

static rf_result read_layers(const json_t *list, rf_architecture *out)
{
    const size_t count = json_array_size(list);
    if (count < 1 || count > MOST_LAYERS) return RF_FAIL(RF_ERROR_CORRUPT_DATA, "%zu layers", count);
    out->layers = RF_NEW_ARRAY(rf_layer *, count);
    if (!out->layers) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (size_t i = 0; i < count; i++) {
        RF_TRY(read_layer(json_array_get(list, i), out, &out->layers[i]));
        out->count++;
    }
    return RF_OK;
}

static rf_result check_example(rf_shape shape, int32_t least_rank)
{
    const int64_t elements = shape.rank < RF_MAX_RANK ? rf_shape_count(rf_shape_filled(shape, RF_OTHER_OPEN_SIZE)) : 0;
    if (shape.rank < least_rank || elements < 1 || elements > MOST_INPUTS)
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "examples of %lld numbers", (long long)elements);
    return RF_OK;
}

static rf_result read_sequence(const json_t *root, rf_architecture *out)
{
    RF_TRY(rf_shape_from_json(root, "input_shape", &out->input));
    RF_TRY(dtype_from_json(root, "input_dtype", &out->dtype));
    return check_example(out->input, 1);
}

/* A number from 0 to `most`. */
static rf_result read_index(const json_t *value, const char *what, uint32_t most, uint32_t *out)
{
    const json_int_t number = json_integer_value(value);
    if (!json_is_integer(value) || number < 0 || number > (json_int_t)most)
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "%s is not a number from 0 to %u", what, most);
    *out = (uint32_t)number;
    return RF_OK;
}

static rf_result read_name(const json_t *object, rf_architecture *a, const char **out)
{
    const char *name = json_string_value(json_object_get(object, "name"));
    if (!name || !*name) return RF_FAIL(RF_ERROR_CORRUPT_DATA, "an input or output without a name");
    *out = rf_arena_strdup(&a->names, name);
    return *out ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
}

static rf_result read_inputs(const json_t *list, rf_architecture *out)
{
    const size_t count = json_array_size(list);
    if (count < 1 || count > RF_MAX_COMPONENTS) return RF_FAIL(RF_ERROR_CORRUPT_DATA, "%zu inputs", count);
    for (size_t i = 0; i < count; i++) {
        const json_t *object = json_array_get(list, i);
        rf_tensor_desc *input = &out->graph->inputs[i];
        RF_TRY(read_name(object, out, &out->input_names[i]));
        RF_TRY(dtype_from_json(object, "dtype", &input->dtype));
        RF_TRY(rf_shape_from_json(object, "shape", &input->shape));
        RF_TRY(check_example(input->shape, 0));
    }
    out->graph->num_inputs = out->graph->num_values = (uint32_t)count;
    return RF_OK;
}

static rf_result read_call(const json_t *object, rf_architecture *out)
{
    const char *name = json_string_value(json_object_get(object, "layer"));
    const json_t *list = json_object_get(object, "inputs"), *masked = json_object_get(object, "mask");
    uint32_t layer = 0, num_out = 0, mask = RF_NO_VALUE, *in;
    while (name && layer < out->count && strcmp(out->layers[layer]->name, name) != 0) layer++;
    if (!name || layer == out->count)
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "a call of the layer '%s', which there is not", name ? name : "");
    RF_TRY(read_index(json_object_get(object, "outputs"), "'outputs'", RF_MAX_COMPONENTS, &num_out));
    if (masked) RF_TRY(read_index(masked, "'mask'", UINT32_MAX - 1, &mask));
    const size_t count = json_array_size(list);
    if (count < 1 || count > MOST_CALLS)
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "layer '%s' has %zu inputs", name, count);
    if (!(in = RF_NEW_ARRAY(uint32_t, count))) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_result r = RF_OK;
    for (size_t i = 0; r >= 0 && i < count; i++)
        r = read_index(json_array_get(list, i), "an entry of 'inputs'", UINT32_MAX - 1, &in[i]);
    if (r >= 0) r = rf_layer_graph_add(out->graph, layer, in, (uint32_t)count, mask, num_out);
    rf_free(in);
    return r;
}

static rf_result read_graph(const json_t *root, rf_architecture *out)
{
    const json_t *calls = json_object_get(root, "calls"), *outputs = json_object_get(root, "outputs");
    const size_t num_calls = json_array_size(calls), num_outputs = json_array_size(outputs);
    if (!(out->graph = RF_NEW(rf_layer_graph))) return RF_ERROR_OUT_OF_HOST_MEMORY;
    RF_TRY(read_inputs(json_object_get(root, "inputs"), out));
    if (num_calls > MOST_CALLS || num_outputs > RF_MAX_COMPONENTS)
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "%zu calls of layers and %zu outputs", num_calls, num_outputs);
    for (size_t i = 0; i < num_calls; i++) RF_TRY(read_call(json_array_get(calls, i), out));
    for (size_t i = 0; i < num_outputs; i++) {
        const json_t *object = json_array_get(outputs, i);
        RF_TRY(read_name(object, out, &out->output_names[i]));
        RF_TRY(read_index(json_object_get(object, "value"), "'value'", UINT32_MAX - 1, &out->graph->outputs[i]));
    }
    out->graph->num_outputs = (uint32_t)num_outputs;
    const rf_result r = rf_layer_graph_check(out->graph, out->layers, out->count, out->input_names);
    return r == RF_ERROR_INVALID_ARGUMENT ? RF_FAIL(RF_ERROR_CORRUPT_DATA, "%s", rf_error_message()) : r;
}

static rf_result architecture_from_json(const json_t *root, rf_architecture *out)
{
    *out = (rf_architecture){ 0 };
    rf_result r = read_layers(json_object_get(root, "layers"), out);
    if (r >= 0) r = json_object_get(root, "calls") ? read_graph(root, out) : read_sequence(root, out);
    if (r < 0) rf_architecture_free(out);
    return r;
}

rf_result rf_architecture_parse(const char *text, size_t size, rf_architecture *out)
{
    json_t *root;
    *out = (rf_architecture){ 0 };
    RF_TRY(rf_json_parse(text, size, "architecture", &root));
    const rf_result r = architecture_from_json(root, out);
    json_decref(root);
    return rf_error_context(r, "architecture");
}

void rf_architecture_free(rf_architecture *architecture)
{
    for (uint32_t i = 0; i < architecture->count; i++) rf_layer_destroy(&architecture->layers[i]);
    rf_free(architecture->layers);
    rf_layer_graph_free(architecture->graph);
    rf_arena_free(&architecture->names);
    *architecture = (rf_architecture){ 0 };
}

/* Models that are layers, each owned by the first layer of it. */
static rf_result make_inner_models(rf_strategy *strategy, const rf_architecture *a)
{
    for (uint32_t i = 0; i < a->count; i++) {
        rf_layer *layer = a->layers[i];
        if (!layer->kind->applies_model) continue;
        const rf_layer *first = layer->u.model.same ? layer->u.model.same : layer;
        if (first == layer)
            RF_TRY(rf_model_from_description(strategy, layer->u.model.description, &layer->u.model.own));
        rf_model_layer_attach(layer, first->u.model.own);
    }
    return RF_OK;
}

/* The layers and the graph are the model's from here on, and gone where it cannot be made. */
static rf_result make_model(rf_strategy *strategy, rf_architecture *a, rf_model **out)
{
    RF_TRY(make_inner_models(strategy, a));
    rf_layer_graph *graph = a->graph;
    const uint32_t count = a->count;
    a->count = 0;
    a->graph = NULL;
    if (graph) {
        const rf_model_params params = { .num_inputs = graph->num_inputs,
                                         .num_outputs = graph->num_outputs,
                                         .input_names = a->input_names,
                                         .output_names = a->output_names };
        return rf_model_create_from_graph(strategy, &params, graph, a->layers, count, out);
    }
    RF_TRY(rf_model_create_sequential(strategy, a->layers, count, NULL, out));
    const rf_result r = rf_model_build_for(*out, a->dtype, a->input);
    if (r < 0) rf_model_destroy(out);
    return r;
}

rf_result rf_model_from_description(rf_strategy *strategy, const char *text, rf_model **out)
{
    rf_architecture a;
    *out = NULL;
    RF_TRY(rf_architecture_parse(text, strlen(text), &a));
    const rf_result r = make_model(strategy, &a, out);
    rf_architecture_free(&a);
    return rf_error_context(r, "architecture");
}
