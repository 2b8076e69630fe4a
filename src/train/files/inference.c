/* SPDX-License-Identifier: Apache-2.0 */
/* Models for inference: a graph from a file (rf_model_export()), or the layers of a saved model. */
#include <stdio.h>
#include <string.h>

#include "base/params.h"
#include "train/files/inference_file.h"
#include "train/files/model_file.h"
#include "train/model/model.h"
#include "train/model/open_shape.h"

struct rf_inference {
    rf_strategy *strategy, *own; /* own: NULL where it is borrowed */
    rf_inference_graph graph;    /* of files that hold one */
    rf_inference_variables variables;
    rf_model *model; /* of others */
    rf_function *function;
    uint32_t num_inputs, num_outputs;
    rf_array inputs[RF_MAX_COMPONENTS]; /* types and shapes; dimensions that follow the batch are -1 */
    rf_array outputs[RF_MAX_COMPONENTS];
};

/* ---- steps ---- */

static rf_result model_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const rf_inference *i = user;
    return rf_model_apply_all(t, i->model, in, RF_INFERENCE, out);
}

/* The value of a leaf of the file's graph in the graph being traced; 0: failed. */
static rf_value trace_leaf(rf_trace *t, const rf_value_info *leaf, const rf_tensor *in)
{
    switch (leaf->kind) {
    case RF_VALUE_INPUT: return rf_trace_value(t, in[leaf->slot], "the input");
    case RF_VALUE_STATE: return rf_trace_variable(t, (rf_variable *)(uintptr_t)leaf->object);
    case RF_VALUE_HOST: return rf_trace_host(t, RF_HOST_GLOBAL_BATCH);
    default:
        return rf_trace_value(
            t, rf_constant_array(t, &(rf_array){ leaf->desc.dtype, leaf->desc.shape, (void *)(uintptr_t)leaf->data }),
            "a constant");
    }
}

static rf_result inference_replay(rf_trace *t, const rf_inference_graph *g, const rf_tensor *in, rf_tensor *out,
                                  rf_value *map)
{
    for (rf_value v = 1; v < g->graph->values.count; v++) {
        const rf_value_info *value = &g->graph->values.items[v];
        if (value->kind == RF_VALUE_RESULT) continue;
        map[v] = trace_leaf(t, value, in);
        RF_TRY(rf_trace_status(t));
    }
    RF_TRY(rf_graph_replay(g->graph, NULL, rf_trace_graph(t), map));
    for (uint32_t i = 0; i < g->num_outputs; i++) out[i] = rf_trace_wrap(t, map[g->outputs[i]]);
    return RF_OK;
}

static rf_result graph_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const rf_inference *i = user;
    rf_value *map = RF_NEW_ARRAY(rf_value, i->graph.graph->values.count);
    if (!map) return RF_ERROR_OUT_OF_HOST_MEMORY;
    const rf_result r = inference_replay(t, &i->graph, in, out, map);
    rf_free(map);
    return r;
}

/* ---- loading ---- */

static rf_result use_graph(rf_inference *i)
{
    const rf_inference_graph *g = &i->graph;
    if (g->num_inputs == 0 || g->num_outputs == 0)
        return RF_FAIL(RF_ERROR_UNSUPPORTED, "the graph has %u inputs and %u outputs; an inference needs one of each",
                       g->num_inputs, g->num_outputs);
    i->num_inputs = g->num_inputs;
    i->num_outputs = g->num_outputs;
    for (uint32_t k = 0; k < g->num_inputs; k++)
        i->inputs[k] = (rf_array){ rf_graph_desc(g->graph, g->inputs[k])->dtype, g->shapes[g->inputs[k]], NULL };
    for (uint32_t k = 0; k < g->num_outputs; k++)
        i->outputs[k] = (rf_array){ rf_graph_desc(g->graph, g->outputs[k])->dtype, g->shapes[g->outputs[k]], NULL };
    return RF_OK;
}

/* A batch has the shape of an example below an open dimension. */
static rf_array batch_array(const rf_tensor_desc *example)
{
    rf_array array = { .dtype = example->dtype, .shape = { .rank = example->shape.rank + 1, .dim = { -1 } } };
    for (int32_t k = 1; k < array.shape.rank; k++) array.shape.dim[k] = example->shape.dim[k - 1];
    return array;
}

static void use_layers(rf_inference *i)
{
    const rf_model *model = i->model;
    i->num_inputs = model->num_inputs;
    i->num_outputs = model->num_outputs;
    for (uint32_t k = 0; k < model->num_inputs; k++) i->inputs[k] = batch_array(&model->inputs[k]);
    for (uint32_t k = 0; k < model->num_outputs; k++) i->outputs[k] = batch_array(&model->outputs[k]);
}

static rf_result load_file(rf_inference *i, const char *path)
{
    bool found;
    RF_TRY(rf_inference_file_read(i->strategy, path, &found, &i->graph, &i->variables));
    if (found) return use_graph(i);
    RF_TRY(rf_model_load_file(i->strategy, path, false, &i->model));
    use_layers(i);
    return RF_OK;
}

static rf_result set_up(rf_inference *i, const char *path, const rf_inference_params *p)
{
    RF_REQUIRE(!p->strategy || !p->device, "rf_inference_load: strategy and device are both set; leave one out");
    if (!p->strategy) {
        const rf_one_device_params device = { .device = p->device };
        RF_TRY(rf_strategy_create_one_device(&device, &i->own));
    }
    i->strategy = p->strategy ? p->strategy : i->own;
    RF_TRY(rf_error_context(load_file(i, path), "loading '%s'", path));
    const rf_function_params function = {
        .step = i->model ? model_step : graph_step, .user = i, .num_outputs = i->num_outputs, .name = "inference"
    };
    return rf_function_create(i->strategy, &function, &i->function);
}

rf_result rf_inference_load(const char *path, const rf_inference_params *params, rf_inference **out)
{
    static const rf_inference_params defaults = { 0 };
    RF_REQUIRE(out, "rf_inference_load: out is NULL");
    *out = NULL;
    RF_TRY(RF_PARAMS_CHECK(rf_inference_params, params));
    RF_REQUIRE(path && *path, "rf_inference_load: path is empty");
    rf_inference *i = RF_NEW(rf_inference);
    if (!i) return RF_ERROR_OUT_OF_HOST_MEMORY;
    const rf_result r = set_up(i, path, params ? params : &defaults);
    if (r < 0)
        rf_inference_destroy(&i);
    else
        *out = i;
    return r;
}

void rf_inference_destroy(rf_inference **inference)
{
    if (!inference || !*inference) return;
    rf_inference *i = *inference;
    rf_function_destroy(&i->function);
    rf_model_destroy(&i->model);
    rf_inference_graph_free(&i->graph);
    rf_inference_variables_free(&i->variables);
    rf_strategy_destroy(&i->own);
    rf_free(i);
    *inference = NULL;
}

/* ---- use ---- */

void rf_inference_signature(const rf_inference *inference, rf_array *input, rf_array *output)
{
    if (input) *input = inference ? inference->inputs[0] : (rf_array){ 0 };
    if (output) *output = inference ? inference->outputs[0] : (rf_array){ 0 };
}

uint32_t rf_inference_num_inputs(const rf_inference *inference)
{
    return inference ? inference->num_inputs : 0;
}

uint32_t rf_inference_num_outputs(const rf_inference *inference)
{
    return inference ? inference->num_outputs : 0;
}

static const char *input_name(const rf_inference *i, uint32_t index)
{
    return i->model ? i->model->input_names[index] : i->graph.input_names[index];
}

static const char *output_name(const rf_inference *i, uint32_t index)
{
    return i->model ? i->model->output_names[index] : i->graph.output_names[index];
}

const char *rf_inference_input(const rf_inference *inference, uint32_t index, rf_array *signature)
{
    const bool there = inference && index < inference->num_inputs;
    if (signature) *signature = there ? inference->inputs[index] : (rf_array){ 0 };
    return there ? input_name(inference, index) : NULL;
}

const char *rf_inference_output(const rf_inference *inference, uint32_t index, rf_array *signature)
{
    const bool there = inference && index < inference->num_outputs;
    if (signature) *signature = there ? inference->outputs[index] : (rf_array){ 0 };
    return there ? output_name(inference, index) : NULL;
}

/* The output for no rows, where that is a question of shapes alone. */
static rf_result run_nothing(const rf_array *signature, rf_array *output)
{
    char shape[96];
    bool open = signature->shape.rank > 0 && signature->shape.dim[0] == -1;
    for (int32_t k = 1; k < signature->shape.rank; k++) open = open && signature->shape.dim[k] >= 0;
    RF_REQUIRE(open, "rf_inference_run: the input has no rows, and %s does not follow from them; give at least one",
               rf_shape_format(signature->shape, shape, sizeof(shape)));
    *output = *signature;
    output->shape.dim[0] = 0;
    output->data = rf_calloc(0, 1); /* as for other results, something to free */
    return output->data ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
}

/* All inputs have the rows of the first one. */
static rf_result check_input(const rf_inference *i, uint32_t index, const rf_array *inputs)
{
    char is[96], wanted[96], name[160] = "input";
    const rf_array *signature = &i->inputs[index], *input = &inputs[index];
    if (i->num_inputs > 1) snprintf(name, sizeof(name), "input '%s'", input_name(i, index));
    rf_shape expected = signature->shape;
    if (input->shape.rank > 0) expected.dim[0] = input->shape.dim[0];
    RF_REQUIRE(input->dtype == signature->dtype && rf_shape_fits(input->shape, expected) && expected.dim[0] >= 0,
               "rf_inference_run: %s is %s %s, not %s %s", name, rf_dtype_name(input->dtype),
               rf_shape_format(input->shape, is, sizeof(is)), rf_dtype_name(signature->dtype),
               rf_shape_format(signature->shape, wanted, sizeof(wanted)));
    RF_REQUIRE(expected.dim[0] == inputs[0].shape.dim[0],
               "rf_inference_run: %s has %lld rows, input '%s' has %lld; all inputs have the same number", name,
               (long long)expected.dim[0], input_name(i, 0), (long long)inputs[0].shape.dim[0]);
    RF_REQUIRE(input->data || expected.dim[0] == 0, "rf_inference_run: %s has no data", name);
    return RF_OK;
}

static rf_result run_batch(rf_inference *i, const rf_array *inputs, rf_array *outputs)
{
    rf_element batch = { .num_components = i->num_inputs };
    rf_per_replica *results[RF_MAX_COMPONENTS];
    for (uint32_t k = 0; k < i->num_inputs; k++) {
        RF_TRY(check_input(i, k, inputs));
        batch.component[k] = inputs[k];
    }
    const bool nothing = inputs[0].shape.dim[0] == 0;
    if (!nothing) RF_TRY(rf_strategy_run(i->strategy, i->function, &batch, results));
    for (uint32_t k = 0; k < i->num_outputs; k++)
        RF_TRY(nothing ? run_nothing(&i->outputs[k], &outputs[k])
                       : rf_strategy_gather(i->strategy, results[k], &outputs[k]));
    return RF_OK;
}

rf_result rf_inference_run_many(rf_inference *inference, const rf_array *inputs, uint32_t num_inputs, rf_array *outputs,
                                uint32_t num_outputs)
{
    RF_REQUIRE(outputs, "rf_inference_run_many: outputs is NULL");
    RF_REQUIRE(inference, "rf_inference_run_many: inference is NULL");
    RF_REQUIRE(inputs, "rf_inference_run_many: inputs is NULL");
    RF_REQUIRE(num_inputs == inference->num_inputs && num_outputs == inference->num_outputs,
               "rf_inference_run_many: num_inputs is %u and num_outputs %u; the model has %u and %u", num_inputs,
               num_outputs, inference->num_inputs, inference->num_outputs);
    memset(outputs, 0, num_outputs * sizeof(*outputs));
    const rf_result r = run_batch(inference, inputs, outputs);
    for (uint32_t k = 0; r < 0 && k < num_outputs; k++) rf_array_free(&outputs[k]);
    return r;
}

rf_result rf_inference_run(rf_inference *inference, const rf_array *input, rf_array *output)
{
    RF_REQUIRE(output, "rf_inference_run: output is NULL");
    *output = (rf_array){ 0 };
    RF_REQUIRE(inference, "rf_inference_run: inference is NULL");
    RF_REQUIRE(input, "rf_inference_run: input is NULL");
    RF_REQUIRE(inference->num_inputs == 1 && inference->num_outputs == 1,
               "rf_inference_run: the model has %u inputs and %u outputs; use rf_inference_run_many()",
               inference->num_inputs, inference->num_outputs);
    return run_batch(inference, input, output);
}
