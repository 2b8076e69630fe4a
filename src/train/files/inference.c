/* SPDX-License-Identifier: Apache-2.0 */
/* Models for inference: a graph from a file (rf_model_export()), or the layers of a saved model. */
#include "base/params.h"
#include "train/files/inference_file.h"
#include "train/files/model_file.h"
#include "train/model.h"

struct rf_inference {
    rf_strategy *strategy, *own; /* own: NULL where it is borrowed */
    rf_inference_graph graph;    /* of files that hold one */
    rf_inference_variables variables;
    rf_model *model; /* of others */
    rf_function *function;
    rf_array input, output; /* types and shapes; dimensions that follow the batch are -1 */
};

/* ---- steps ---- */

static rf_result model_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const rf_inference *i = user;
    out[0] = rf_model_call(t, i->model, in[0], RF_INFERENCE);
    return rf_trace_status(t);
}

/* The value of a leaf of the file's graph in the graph being traced; 0: failed. */
static rf_value trace_leaf(rf_trace *t, const rf_value_info *leaf, const rf_tensor *in)
{
    switch (leaf->kind) {
    case RF_VALUE_INPUT: return rf_trace_value(t, in[leaf->slot], "the input");
    case RF_VALUE_STATE: return rf_trace_variable(t, (rf_variable *)(uintptr_t)leaf->object);
    case RF_VALUE_HOST: return rf_trace_global_batch(t);
    default:
        return rf_trace_value(
            t, rf_constant_array(t, &(rf_array){ leaf->desc.dtype, leaf->desc.shape, (void *)(uintptr_t)leaf->data }),
            "a constant");
    }
}

static rf_result replay(rf_trace *t, const rf_inference_graph *g, const rf_tensor *in, rf_tensor *out, rf_value *map)
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
    const rf_result r = replay(t, &i->graph, in, out, map);
    rf_free(map);
    return r;
}

/* ---- loading ---- */

static rf_result use_graph(rf_inference *i)
{
    const rf_inference_graph *g = &i->graph;
    if (g->num_inputs != 1 || g->num_outputs != 1)
        return RF_FAIL(RF_ERROR_UNSUPPORTED,
                       "the graph has %u inputs and %u outputs; rf_inference_run() takes one of each", g->num_inputs,
                       g->num_outputs);
    i->input = (rf_array){ rf_graph_desc(g->graph, g->inputs[0])->dtype, g->shapes[g->inputs[0]], NULL };
    i->output = (rf_array){ rf_graph_desc(g->graph, g->outputs[0])->dtype, g->shapes[g->outputs[0]], NULL };
    return RF_OK;
}

static void use_layers(rf_inference *i)
{
    const rf_model *model = i->model;
    rf_shape input = { .rank = model->input_shape.rank + 1, .dim = { -1 } };
    for (int32_t k = 1; k < input.rank; k++) input.dim[k] = model->input_shape.dim[k - 1];
    i->input = (rf_array){ .dtype = model->input_dtype, .shape = input };
    i->output = (rf_array){ .dtype = RF_F32, .shape = model->layers.items[model->layers.count - 1]->output };
    i->output.shape.dim[0] = -1;
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
        .step = i->model ? model_step : graph_step, .user = i, .num_outputs = 1, .name = "inference"
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
    if (input) *input = inference ? inference->input : (rf_array){ 0 };
    if (output) *output = inference ? inference->output : (rf_array){ 0 };
}

/* What comes out of no rows, where that is a question of shapes alone. */
static rf_result run_nothing(const rf_inference *i, rf_array *output)
{
    char shape[96];
    bool open = i->output.shape.rank > 0 && i->output.shape.dim[0] == -1;
    for (int32_t k = 1; k < i->output.shape.rank; k++) open = open && i->output.shape.dim[k] >= 0;
    RF_REQUIRE(open, "rf_inference_run: the input has no rows, and %s does not follow from them; give at least one",
               rf_shape_format(i->output.shape, shape, sizeof(shape)));
    *output = i->output;
    output->shape.dim[0] = 0;
    output->data = rf_calloc(0, 1); /* as for other results, something to free */
    return output->data ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
}

rf_result rf_inference_run(rf_inference *inference, const rf_array *input, rf_array *output)
{
    RF_REQUIRE(output, "rf_inference_run: output is NULL");
    *output = (rf_array){ 0 };
    RF_REQUIRE(inference, "rf_inference_run: inference is NULL");
    RF_REQUIRE(input, "rf_inference_run: input is NULL");
    char is[96], wanted[96];
    const rf_array *signature = &inference->input;
    rf_shape expected = signature->shape;
    if (input->shape.rank > 0) expected.dim[0] = input->shape.dim[0];
    RF_REQUIRE(input->dtype == signature->dtype && rf_shape_equal(input->shape, expected) && expected.dim[0] >= 0,
               "rf_inference_run: input is %s %s, not %s %s", rf_dtype_name(input->dtype),
               rf_shape_format(input->shape, is, sizeof(is)), rf_dtype_name(signature->dtype),
               rf_shape_format(signature->shape, wanted, sizeof(wanted)));
    if (expected.dim[0] == 0) return run_nothing(inference, output);
    RF_REQUIRE(input->data, "rf_inference_run: input has no data");
    const rf_element batch = { .num_components = 1, .component = { *input } };
    rf_per_replica *result[1];
    RF_TRY(rf_strategy_run(inference->strategy, inference->function, &batch, result));
    return rf_strategy_gather(inference->strategy, result[0], output);
}
