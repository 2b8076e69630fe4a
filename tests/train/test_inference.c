/* SPDX-License-Identifier: Apache-2.0 */
/* Models as graphs: attributes and graphs as text, files of every kind of model, files that lie. */
#include <ringfire/interchange.h>

#include "../support/predict.h"
#include "graph/attribute.h"
#include "ops/ops.h"
#include "persist/archive/writer.h"
#include "test_folder.h"
#include "tests/ops/cases/case_data.h"
#include "tests/room.h"
#include "train/files/inference_json.h"

/* ---- attributes ---- */

/* Every byte of an op's attributes belongs to one field of its table. */
TEST(tables_cover_attributes)
{
    uint32_t count;
    const rf_op *const *ops = rf_ops_all(&count);
    for (uint32_t i = 0; i < count; i++) {
        const rf_op *op = ops[i];
        unsigned char owners[RF_MAX_ATTR] = { 0 };
        for (uint32_t f = 0; f < op->num_attr_fields; f++) {
            const rf_attr_field *field = &op->attr_fields[f];
            if (field->count < 1 || (field->size != 1 && field->size != 4 && field->size != 8))
                fail_msg("%s: field %s", op->name, field->name);
            for (uint32_t k = 0; k < field->count; k++)
                for (uint32_t b = 0; b < field->size; b++) {
                    const size_t at = field->offset + (size_t)k * field->stride + b;
                    if (at >= op->attr_size) fail_msg("%s: field %s lies outside", op->name, field->name);
                    owners[at]++;
                }
            for (uint32_t g = 0; g < f; g++)
                if (strcmp(op->attr_fields[g].name, field->name) == 0)
                    fail_msg("%s: two fields are called %s", op->name, field->name);
            for (int64_t n = 0; field->choice && n <= field->most; n++)
                if (rf_attr_choice(field, field->choice((uint32_t)n)) != n)
                    fail_msg("%s: %s: number %lld has no name of its own", op->name, field->name, (long long)n);
        }
        for (uint32_t b = 0; b < op->attr_size; b++)
            if (owners[b] != 1)
                fail_msg("%s: byte %u of the attributes belongs to %u fields of its table", op->name, b, owners[b]);
    }
}

TEST(attributes_survive)
{
    uint32_t count, tried = 0;
    const rf_op *const *ops = rf_ops_all(&count);
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t k = 0; k < rf_op_cases(ops[i])->count; k++) {
            const rf_op *op = ops[i];
            const rf_op_case *c = &rf_op_cases(op)->items[k];
            unsigned char got[RF_MAX_ATTR];
            if (!c->attr || op->attr_size == 0) continue;
            json_t *object = rf_attributes_to_json(op, c->attr);
            assert_non_null(object);
            memset(got, 0xa5, sizeof(got));
            if (rf_attributes_from_json(op, object, got) < 0)
                fail_msg("%s/%s: %s", op->name, c->name, rf_error_message());
            if (memcmp(got, c->attr, op->attr_size) != 0) fail_msg("%s/%s: the attributes changed", op->name, c->name);
            json_decref(object);
            tried++;
        }
    assert_true(tried > 100);
}

TEST(numbers_survive)
{
    static const float values[] = { -0.0f, NAN, INFINITY, -INFINITY, 1e-45f, 3.4028235e38f, 0.1f };
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        float got = 7;
        json_t *object = rf_attributes_to_json(&rf_op_fill_like, &values[i]);
        char *text;
        OK(rf_json_text(object, &text));
        OK(rf_json_parse(text, strlen(text), "attributes", &object));
        OK(rf_attributes_from_json(&rf_op_fill_like, object, &got));
        assert_true(isnan(values[i]) ? isnan(got) : memcmp(&got, &values[i], sizeof(got)) == 0);
        json_decref(object);
        rf_free(text);
    }
    const rf_dropout_attr dropout = { .rate = 0.5f, .stream = UINT32_MAX, .seed = UINT64_MAX - 1 };
    rf_dropout_attr again;
    json_t *object = rf_attributes_to_json(&rf_op_dropout, &dropout);
    OK(rf_attributes_from_json(&rf_op_dropout, object, &again));
    assert_memory_equal(&again, &dropout, sizeof(dropout));
    json_decref(object);
}

/* ---- graphs as text ---- */

/* Constants by name, for a reader without a file. */
typedef struct memory {
    const rf_graph *graph;
    char **names;
} memory;

static rf_result find_constant(void *user, const char *tensor, const rf_tensor_desc *desc, void **data)
{
    const memory *m = user;
    for (rf_value v = 1; v < m->graph->values.count; v++) {
        if (!m->names[v] || strcmp(m->names[v], tensor) != 0) continue;
        const size_t size = (size_t)rf_tensor_bytes(desc);
        assert_int_equal(size, rf_tensor_bytes(rf_graph_desc(m->graph, v)));
        *data = rf_calloc(size, 1);
        memcpy(*data, m->graph->values.items[v].data, size);
        return RF_OK;
    }
    return RF_FAIL(RF_ERROR_NOT_FOUND, "no tensor '%s'", tensor);
}

static rf_result find_variable(void *user, const char *tensor, const char *name, const rf_tensor_desc *desc,
                               void **object)
{
    static char objects[16];
    static int next;
    (void)user;
    (void)name;
    (void)desc;
    if (strcmp(tensor, "w") != 0) return RF_FAIL(RF_ERROR_NOT_FOUND, "no tensor '%s'", tensor);
    *object = &objects[next++ % 16];
    return RF_OK;
}

/* Every op: a case's inputs as constants, written, read, and the same graph. */
TEST(graphs_survive)
{
    uint32_t count, tried = 0;
    const rf_op *const *ops = rf_ops_all(&count);
    for (uint32_t i = 0; i < count; i++) {
        const rf_op *op = ops[i];
        for (uint32_t k = 0; k < rf_op_cases(op)->count && !op->mutates; k++) {
            const rf_op_case *c = &rf_op_cases(op)->items[k];
            if (c->large || c->benchmark) continue;
            rf_case_data data;
            rf_inference_graph g = { 0 }, read;
            rf_value in[RF_MAX_INPUTS], out[RF_MAX_OUTPUTS] = { 0 };
            OK(rf_case_data_make(op, c, 1, &data));
            OK(rf_graph_create(rf_ops_core(), &g.graph));
            for (uint32_t j = 0; j < c->n_in; j++) OK(rf_graph_constant(g.graph, data.call.in[j], data.in[j], &in[j]));
            OK(rf_graph_add(g.graph, op, data.attr, in, c->n_in, out));
            for (uint32_t j = 0; j < RF_MAX_OUTPUTS && out[j]; j++) {
                g.output_names[g.num_outputs] = "y";
                g.outputs[g.num_outputs++] = out[j];
            }
            OK(rf_inference_graph_finish(&g, true));
            char *names[16] = { 0 }, labels[16][12], *text;
            for (uint32_t j = 0; j < c->n_in; j++) {
                snprintf(labels[j], sizeof(labels[j]), "%u", j);
                names[in[j]] = labels[j];
            }
            memory m = { g.graph, names };
            OK(rf_inference_graph_to_text(&g, names, &text));
            const rf_inference_tensors tensors = { &m, find_constant, find_variable };
            if (rf_inference_graph_from_text(text, strlen(text), &tensors, &read) < 0)
                fail_msg("%s/%s: %s: %s", op->name, c->name, rf_error_message(), text);
            char *a = rf_graph_dump(g.graph), *b = rf_graph_dump(read.graph);
            assert_string_equal(a, b);
            const rf_node_info *node = &read.graph->nodes.items[0];
            assert_true(node->op == op);
            assert_memory_equal(node->attr, data.attr, op->attr_size);
            rf_free(a);
            rf_free(b);
            rf_free(text);
            rf_inference_graph_free(&read);
            rf_inference_graph_free(&g);
            rf_case_data_free(&data);
            tried++;
        }
    }
    assert_true(tried > 200);
}

#define INPUT "{\"kind\":\"input\",\"name\":\"x\",\"dtype\":\"f32\",\"shape\":[-1,4]}"
#define WEIGHT "{\"kind\":\"variable\",\"name\":\"k\",\"tensor\":\"w\",\"dtype\":\"f32\",\"shape\":[4,3]}"
#define OUT "{\"dtype\":\"f32\",\"shape\":[-1,3]}"
#define PRODUCT "{\"op\":\"matmul\",\"in\":[0,1],\"attributes\":{},\"out\":[" OUT "]}"
#define GRAPH(leaves, nodes, outputs)                                                                                  \
    "{\"version\":1,\"leaves\":[" leaves "],\"nodes\":[" nodes "],\"outputs\":[" outputs "]}"
#define Y "{\"name\":\"y\",\"value\":2}"
#define NODE(text) GRAPH(INPUT "," WEIGHT, text, Y)
#define RESHAPE(attributes) NODE("{\"op\":\"reshape\",\"in\":[0],\"attributes\":" attributes ",\"out\":[]}")

TEST(texts_that_lie)
{
    static const struct {
        const char *text;
        rf_result result;
        const char *part;
    } cases[] = {
        { NODE(PRODUCT), RF_OK, "" },
        { "[]", RF_ERROR_CORRUPT_DATA, "not a JSON object" },
        { "{}", RF_ERROR_CORRUPT_DATA, "'version' is missing" },
        { "{\"version\":2}", RF_ERROR_UNSUPPORTED, "version 2 is newer than 1" },
        { "{\"version\":1}", RF_ERROR_CORRUPT_DATA, "'leaves' is not a list" },
        { "{\"version\":1,\"leaves\":[]}", RF_ERROR_CORRUPT_DATA, "'nodes' is not a list" },
        { GRAPH("", "", ""), RF_ERROR_CORRUPT_DATA, "there are no outputs" },
        { GRAPH("7", "", Y), RF_ERROR_CORRUPT_DATA, "leaves[0]" },
        { GRAPH("{\"kind\":\"host\"}", "", Y), RF_ERROR_CORRUPT_DATA, "leaves[0]: 'kind' is not a known kind" },
        { GRAPH("{\"dtype\":\"f32\",\"shape\":[]}", "", Y), RF_ERROR_CORRUPT_DATA, "'kind' is missing" },
        { GRAPH("{\"kind\":\"input\",\"name\":\"x\",\"dtype\":\"f64\",\"shape\":[-1]}", "", Y), RF_ERROR_CORRUPT_DATA,
          "'f64' is not a tensor type" },
        { GRAPH("{\"kind\":\"input\",\"name\":\"x\",\"dtype\":\"i64\",\"shape\":[-1]}", "", Y), RF_ERROR_CORRUPT_DATA,
          "'i64' is not a tensor type" },
        { GRAPH("{\"kind\":\"input\",\"name\":\"x\",\"dtype\":\"f32\",\"shape\":[3]}", "", Y), RF_ERROR_CORRUPT_DATA,
          "does not begin with -1, the batch" },
        { GRAPH("{\"kind\":\"input\",\"name\":\"x\",\"dtype\":\"f32\",\"shape\":[-1,0]}", "", Y), RF_ERROR_CORRUPT_DATA,
          "does not begin with -1, the batch" },
        { GRAPH("{\"kind\":\"input\",\"name\":\"x\",\"dtype\":\"f32\",\"shape\":[-1,1,1,1,1,1,1]}", "", Y),
          RF_ERROR_CORRUPT_DATA, "'shape' is not a shape" },
        { GRAPH("{\"kind\":\"input\",\"name\":\"x\",\"dtype\":\"f32\",\"shape\":[-2]}", "", Y), RF_ERROR_CORRUPT_DATA,
          "'shape' is not a shape" },
        { GRAPH("{\"kind\":\"input\",\"name\":\"x\",\"dtype\":\"f32\",\"shape\":[-1,4611686018427387904,4]}", "", Y),
          RF_ERROR_CORRUPT_DATA, "too large" },
        { GRAPH("{\"kind\":\"variable\",\"name\":\"k\",\"tensor\":\"w\",\"dtype\":\"i32\",\"shape\":[4]}", "", Y),
          RF_ERROR_CORRUPT_DATA, "variable 'k' is i32" },
        { GRAPH("{\"kind\":\"variable\",\"name\":\"k\",\"tensor\":\"w\",\"dtype\":\"f32\",\"shape\":[-1]}", "", Y),
          RF_ERROR_CORRUPT_DATA, "tensor 'w' has an open shape" },
        { GRAPH("{\"kind\":\"variable\",\"name\":\"k\",\"tensor\":\"v\",\"dtype\":\"f32\",\"shape\":[4]}", "", Y),
          RF_ERROR_NOT_FOUND, "no tensor 'v'" },
        { GRAPH("{\"kind\":\"constant\",\"tensor\":\"c\",\"dtype\":\"f32\",\"shape\":[4]}", "", Y), RF_ERROR_NOT_FOUND,
          "no tensor 'c'" },
        { GRAPH("{\"kind\":\"global_batch\",\"dtype\":\"f32\",\"shape\":[2]}", "", Y), RF_ERROR_CORRUPT_DATA,
          "not an f32 scalar" },
        { GRAPH(INPUT, "", "{\"name\":\"y\",\"value\":1}"), RF_ERROR_CORRUPT_DATA, "output 'y' is value 1 of 1" },
        { GRAPH(INPUT, "", "{\"name\":\"y\",\"value\":-1}"), RF_ERROR_CORRUPT_DATA, "value -1 of 1" },
        { GRAPH(INPUT, "", "{\"name\":7,\"value\":0}"), RF_ERROR_CORRUPT_DATA, "'name' is not a text" },
        { NODE("7"), RF_ERROR_CORRUPT_DATA, "nodes[0]: 'op' is not a text" },
        { NODE("{\"op\":\"no_such_op\"}"), RF_ERROR_UNSUPPORTED,
          "nodes[0]: operation 'no_such_op' is not one of this version" },
        { NODE("{\"op\":\"accumulate\"}"), RF_ERROR_CORRUPT_DATA, "'accumulate' changes what it reads" },
        { NODE("{\"op\":\"matmul\"}"), RF_ERROR_CORRUPT_DATA, "matmul: 'in' is not a list" },
        { NODE("{\"op\":\"matmul\",\"in\":[0,2],\"out\":[" OUT "]}"), RF_ERROR_CORRUPT_DATA,
          "matmul: input 1 is value 2 of the 2 before it" },
        { NODE("{\"op\":\"matmul\",\"in\":[0,-1],\"out\":[" OUT "]}"), RF_ERROR_CORRUPT_DATA, "input 1 is value -1" },
        { NODE("{\"op\":\"matmul\",\"in\":[0,0.5],\"out\":[" OUT "]}"), RF_ERROR_CORRUPT_DATA, "input 1 is value 0" },
        { NODE("{\"op\":\"matmul\",\"in\":[0],\"out\":[" OUT "]}"), RF_ERROR_CORRUPT_DATA,
          "takes 2 to 3 inputs, got 1" },
        { NODE("{\"op\":\"matmul\",\"in\":[0,0,0,0,0,0,0,0,0],\"out\":[]}"), RF_ERROR_CORRUPT_DATA, "at most 8" },
        { NODE("{\"op\":\"matmul\",\"in\":[1,0],\"out\":[" OUT "]}"), RF_ERROR_CORRUPT_DATA,
          "inner dimensions differ" },
        { NODE("{\"op\":\"matmul\",\"in\":[0,1],\"out\":[]}"), RF_ERROR_CORRUPT_DATA, "its 1 outputs" },
        { NODE("{\"op\":\"matmul\",\"in\":[0,1],\"out\":[" OUT "," OUT "]}"), RF_ERROR_CORRUPT_DATA, "its 1 outputs" },
        { NODE("{\"op\":\"matmul\",\"in\":[0,1],\"out\":[{\"dtype\":\"i32\",\"shape\":[-1,3]}]}"),
          RF_ERROR_CORRUPT_DATA, "output 0 is f32, not i32" },
        { NODE("{\"op\":\"matmul\",\"in\":[0,1],\"out\":[{\"dtype\":\"f32\",\"shape\":[-1,4]}]}"),
          RF_ERROR_CORRUPT_DATA, "value 2 is [-1,3], not [-1,4]" },
        { NODE("{\"op\":\"matmul\",\"in\":[0,1],\"out\":[{\"dtype\":\"f32\",\"shape\":[2,3]}]}"), RF_ERROR_CORRUPT_DATA,
          "value 2 is [-1,3], not [2,3]" },
        { NODE("{\"op\":\"matmul\",\"in\":[0,1],\"attributes\":[],\"out\":[" OUT "]}"), RF_ERROR_CORRUPT_DATA,
          "not an object" },
        { NODE("{\"op\":\"matmul\",\"in\":[0,1],\"attributes\":{\"alpha\":1},\"out\":[" OUT "]}"), RF_ERROR_UNSUPPORTED,
          "matmul: attribute 'alpha' is not one of this version" },
        { NODE("{\"op\":\"matmul\",\"in\":[0,1],\"attributes\":{\"transpose_a\":2},\"out\":[" OUT "]}"),
          RF_ERROR_CORRUPT_DATA, "attribute 'transpose_a' is out of range" },
        { NODE("{\"op\":\"matmul\",\"in\":[0,1],\"attributes\":{\"activation\":\"swish\"},\"out\":[" OUT "]}"),
          RF_ERROR_CORRUPT_DATA, "attribute 'activation' is out of range" },
        { NODE("{\"op\":\"matmul\",\"in\":[0,1],\"attributes\":{\"activation\":\"softmax\"},\"out\":[" OUT "]}"),
          RF_ERROR_CORRUPT_DATA, "cannot be fused" },
        { RESHAPE("{\"rank\":7}"), RF_ERROR_CORRUPT_DATA, "attribute 'rank' is out of range" },
        { RESHAPE("{\"rank\":2,\"dim\":5}"), RF_ERROR_CORRUPT_DATA, "'dim' is not a list of at most 6" },
        { RESHAPE("{\"rank\":2,\"dim\":[1,1,1,1,1,1,1]}"), RF_ERROR_CORRUPT_DATA, "'dim' is not a list of at most 6" },
        { RESHAPE("{\"rank\":1,\"dim\":[-3]}"), RF_ERROR_CORRUPT_DATA, "attribute 'dim' is out of range" },
        { RESHAPE("{\"rank\":1,\"dim\":[8]}"), RF_ERROR_CORRUPT_DATA, "'out' does not list" },
        { RESHAPE("{\"padding\":1}"), RF_ERROR_UNSUPPORTED, "attribute 'padding'" },
        /* fits two examples, but not three */
        { NODE("{\"op\":\"reshape\",\"in\":[0],\"attributes\":{\"rank\":1,\"dim\":[8]},\"out\":[{\"dtype\":\"f32\","
               "\"shape\":[8]}]}"),
          RF_ERROR_CORRUPT_DATA, "does not fit a batch of 3" },
        { NODE("{\"op\":\"elementwise\",\"in\":[0],\"attributes\":{\"n_steps\":1,\"fn\":[\"add\"],\"b\":[9]},\"out\":[]"
               "}"),
          RF_ERROR_CORRUPT_DATA, "register that has not been written yet" },
        { NODE("{\"op\":\"elementwise\",\"in\":[0],\"attributes\":{\"n_steps\":9},\"out\":[]}"), RF_ERROR_CORRUPT_DATA,
          "'n_steps' is out of range" },
        { NODE("{\"op\":\"elementwise\",\"in\":[0],\"attributes\":{\"n_steps\":1,\"fn\":[\"leaky_relu\"],\"imm\":"
               "[\"many\"]},\"out\":[]}"),
          RF_ERROR_CORRUPT_DATA, "'imm' is out of range" },
        { NODE("{\"op\":\"elementwise\",\"in\":[0],\"attributes\":{\"n_steps\":1,\"fn\":[\"leaky_relu\"],\"imm\":"
               "[1e99]},\"out\":[]}"),
          RF_ERROR_CORRUPT_DATA, "'imm' is out of range" },
    };
    memory m = { 0 };
    OK(rf_graph_create(rf_ops_core(), (rf_graph **)(uintptr_t)&m.graph));
    const rf_inference_tensors tensors = { &m, find_constant, find_variable };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        rf_inference_graph g;
        const rf_result r = rf_inference_graph_from_text(cases[i].text, strlen(cases[i].text), &tensors, &g);
        if (r != cases[i].result || (r < 0 && !strstr(rf_error_message(), cases[i].part)))
            fail_msg("%s: %s: %s", cases[i].text, rf_result_name(r), r < 0 ? rf_error_message() : "");
        if (r >= 0) rf_inference_graph_free(&g);
        assert_null(g.graph);
    }
    /* Cut anywhere, it is refused. */
    const char *whole = cases[0].text;
    for (size_t size = 0; size < strlen(whole); size++) {
        rf_inference_graph g;
        if (rf_inference_graph_from_text(whole, size, &tensors, &g) != RF_ERROR_CORRUPT_DATA)
            fail_msg("%zu bytes", size);
    }
    rf_graph_destroy((rf_graph **)(uintptr_t)&m.graph);
}

/* ---- files ---- */

/* Rows x of the model's, by the model itself. */
static void predict(rf_strategy *strategy, rf_model *model, const rf_array *x, rf_array *out)
{
    const rf_element batch = { .num_components = 1, .component = { *x } };
    rf_per_replica *result[1];
    rf_function *function;
    OK(rf_function_create(strategy, &(rf_function_params){ .step = predict_step, .user = model, .num_outputs = 1 },
                          &function));
    OK(rf_strategy_run(strategy, function, &batch, result));
    OK(rf_strategy_gather(strategy, result[0], out));
    rf_function_destroy(&function);
}

/* The file gives what the model does, on every device, for other numbers of rows too. Destroys model and strategy. */
static void check_export(rf_strategy **strategy, rf_model **model, const rf_array *x, rf_shape out_shape)
{
    static const char *const devices[] = { "llvmpipe", "SwiftShader" };
    rf_array expected, got, none, input, output;
    char path[200];
    predict(*strategy, *model, x, &expected);
    strcpy(path, in_folder("model.rfck"));
    OK(rf_model_export(*model, path, NULL));
    rf_model_destroy(model);
    rf_strategy_destroy(strategy);
    for (uint32_t d = 0; d < 2; d++) {
        rf_inference *i;
        const rf_result r = rf_inference_load(path, &(rf_inference_params){ .device = devices[d] }, &i);
        if (r == RF_ERROR_NOT_FOUND) continue;
        OK(r);
        rf_inference_signature(i, &input, &output);
        assert_true(input.dtype == x->dtype && input.shape.dim[0] == -1 && input.shape.rank == x->shape.rank);
        assert_true(output.dtype == expected.dtype && rf_shape_equal(output.shape, out_shape));
        OK(rf_inference_run(i, x, &got));
        assert_true(rf_shape_equal(got.shape, expected.shape));
        for (int64_t k = 0; k < rf_shape_count(got.shape); k++)
            assert_near((double)((float *)got.data)[k], (double)((float *)expected.data)[k], 1e-5, 1e-6, "result");
        rf_array_free(&got);
        rf_array less = *x;
        less.shape.dim[0] = 1;
        OK(rf_inference_run(i, &less, &got));
        assert_int_equal(got.shape.dim[0], 1);
        rf_array_free(&got);
        none = (rf_array){ x->dtype, x->shape, NULL };
        FAILS(rf_inference_run(i, &none, &got), RF_ERROR_INVALID_ARGUMENT, "no data");
        none.shape.dim[0] = 0;
        OK(rf_inference_run(i, &none, &got));
        assert_true(got.dtype == expected.dtype && got.shape.dim[0] == 0 && got.shape.rank == expected.shape.rank);
        assert_non_null(got.data);
        rf_array_free(&got);
        rf_inference_destroy(&i);
    }
    rf_array_free(&expected);
}

typedef struct custom {
    rf_layer *conv, *dense, *unused;
    rf_variable *offset;
} custom;

/* A residual connection, a variable of the program's own, constants, the size of the batch. */
static rf_tensor call_custom(rf_trace *t, rf_model *model, rf_tensor x, rf_mode mode, void *user)
{
    static float weights[] = { 1, 2 };
    const custom *c = user;
    const rf_tensor y = rf_layer_call(t, model, c->conv, x, mode);
    x = rf_add(t, rf_relu(t, y), rf_multiply(t, x, rf_constant_array(t, &(rf_array){ RF_F32, RF_SHAPE(2), weights })));
    x = rf_dropout(t, rf_global_avg_pool2d(t, x), 0.5f, 0);
    x = rf_add(t, x, rf_variable_tensor(t, c->offset));
    x = rf_divide(t, x, rf_sqrt(t, rf_global_batch_size(t)));
    return rf_softmax(t, rf_layer_call(t, model, c->dense, x, mode));
}

TEST(custom_models)
{
    rf_strategy *one = open_devices("llvmpipe");
    if (!one) SKIP("not installed: llvmpipe");
    custom c;
    rf_model *model;
    OK(rf_layer_conv2d(&(rf_conv2d_layer_params){ .filters = 2, .kernel_size = { 3 }, .conv.padding = RF_PADDING_SAME },
                       &c.conv));
    OK(rf_layer_dense(&(rf_dense_params){ .units = 3 }, &c.dense));
    OK(rf_variable_create(
        one, &(rf_variable_params){ .name = "a", .shape = RF_SHAPE(2), .initializer.kind = RF_INIT_ONES }, &c.offset));
    OK(rf_model_create_custom(one, call_custom, &c, &model));
    FAILS(rf_model_export(model, "x", NULL), RF_ERROR_INVALID_ARGUMENT, "call rf_model_build() first");
    OK(rf_model_add_layer(model, c.conv));
    OK(rf_model_add_layer(model, c.dense));
    OK(rf_model_build(model, RF_SHAPE(5, 4, 2)));
    FAILS(rf_model_save(model, "x", NULL), RF_ERROR_UNSUPPORTED, "export it for inference with rf_model_export()");
    FAILS(rf_model_save(model, "x", NULL), RF_ERROR_UNSUPPORTED, "rf_model_save_weights()");
    float x[3 * 40];
    fill_noise(x, 3 * 40, 4);
    /* Weights can be had from such a file by the names that they have everywhere. */
    OK(rf_model_export(model, in_folder("weights.rfck"), NULL));
    OK(rf_model_load_weights(model, in_folder("weights.rfck")));
    rf_model *loaded;
    FAILS(rf_model_load(one, in_folder("weights.rfck"), &loaded), RF_ERROR_INVALID_ARGUMENT,
          "without its architecture");
    rf_variable *offset = c.offset;
    check_export(&one, &model, &(rf_array){ RF_F32, RF_SHAPE(3, 5, 4, 2), x }, (rf_shape){ 2, { -1, 3 } });
    rf_variable_destroy(&offset);
}

static rf_tensor embed(rf_trace *t, rf_tensor x, void *user)
{
    const int32_t *depth = user;
    return rf_reduce_sum(t, rf_one_hot(t, x, *depth), (int32_t[]){ 1 }, 1, RF_DROP_DIMS);
}

static rf_tensor take_words(rf_trace *t, rf_model *model, rf_tensor x, rf_mode mode, void *user)
{
    const custom *c = user;
    return rf_layer_call(t, model, c->dense, rf_layer_call(t, model, c->unused, x, mode), mode);
}

/* Lambda layers, and inputs that are no floats: the model is built by its first call. */
TEST(other_inputs)
{
    static int32_t depth = 7, words[] = { 1, 2, 3, 0, 6, 6, 9, -1 };
    rf_strategy *one = open_devices("llvmpipe");
    if (!one) SKIP("not installed: llvmpipe");
    custom c;
    rf_model *model;
    OK(rf_layer_lambda(embed, &depth, &c.unused));
    OK(rf_layer_dense(&(rf_dense_params){ .units = 2 }, &c.dense));
    OK(rf_model_create_custom(one, take_words, &c, &model));
    OK(rf_model_add_layer(model, c.unused));
    OK(rf_model_add_layer(model, c.dense));
    const rf_array x = { RF_I32, RF_SHAPE(2, 4), words };
    rf_array first;
    predict(one, model, &x, &first);
    rf_array_free(&first);
    check_export(&one, &model, &x, (rf_shape){ 2, { -1, 2 } });
}

TEST(sequential_models)
{
    rf_strategy *two = open_devices("llvmpipe,llvmpipe");
    if (!two) SKIP("not installed: llvmpipe");
    rf_layer *layers[2];
    rf_model *model;
    const rf_shape input = RF_SHAPE(3);
    OK(rf_layer_dense(&(rf_dense_params){ .units = 5, .activation = RF_ACTIVATION_GELU }, &layers[0]));
    OK(rf_layer_dense(&(rf_dense_params){ .units = 2 }, &layers[1]));
    OK(rf_model_create_sequential(two, layers, 2, &input, &model));
    float x[12];
    fill_noise(x, 12, 4);
    check_export(&two, &model, &(rf_array){ RF_F32, RF_SHAPE(4, 3), x }, (rf_shape){ 2, { -1, 2 } });
}

/* ---- what cannot be exported ---- */

static rf_tensor fixed_batch(rf_trace *t, rf_tensor x, void *user)
{
    (void)user;
    return rf_reshape(t, x, RF_SHAPE(rf_tensor_shape(t, x).dim[0], 1, 3));
}

static rf_metric *metric;
static rf_tensor count_calls(rf_trace *t, rf_tensor x, void *user)
{
    (void)user;
    (void)rf_metric_update(t, metric, (rf_tensor){ 0 }, rf_reduce_sum(t, x, (int32_t[]){ 1 }, 1, RF_DROP_DIMS),
                           (rf_tensor){ 0 });
    return x;
}

static rf_tensor over_batch(rf_trace *t, rf_tensor x, void *user)
{
    (void)user;
    return rf_reduce_mean(t, x, (int32_t[]){ 0 }, 1, RF_DROP_DIMS);
}

TEST(refusals)
{
    static const struct {
        rf_lambda_fn fn;
        rf_result result;
        const char *part;
    } cases[] = {
        { fixed_batch, RF_ERROR_INVALID_ARGUMENT, "a shape in it is fixed to the traced batch" },
        { count_calls, RF_ERROR_UNSUPPORTED, "the forward pass updates state (operation 'metric_accumulate')" },
        { over_batch, RF_OK, NULL },
    };
    rf_strategy *one = open_devices("llvmpipe");
    if (!one) SKIP("not installed: llvmpipe");
    const rf_shape input = RF_SHAPE(3);
    OK(rf_metric_create(one, &(rf_metric_params){ .kind = RF_METRIC_MEAN }, &metric));
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        rf_layer *layer;
        rf_model *model;
        OK(rf_layer_lambda(cases[i].fn, NULL, &layer));
        OK(rf_model_create_sequential(one, &layer, 1, &input, &model));
        if (cases[i].part)
            FAILS(rf_model_export(model, in_folder("no.rfck"), NULL), cases[i].result, cases[i].part);
        else
            OK(rf_model_export(model, in_folder("mean.rfck"), NULL));
        rf_model_destroy(&model);
    }
    rf_metric_destroy(&metric);
    rf_strategy_destroy(&one);
    /* A result without a batch: nothing follows from no rows. */
    rf_inference *i;
    rf_array out;
    OK(rf_inference_load(in_folder("mean.rfck"), &(rf_inference_params){ .device = "llvmpipe" }, &i));
    FAILS(rf_inference_run(i, &(rf_array){ RF_F32, RF_SHAPE(0, 3), NULL }, &out), RF_ERROR_INVALID_ARGUMENT,
          "has no rows, and [3] does not follow from them");
    rf_inference_destroy(&i);
}

/* ---- older files ---- */

TEST(layer_lists)
{
    static const char *const files[] = { FIXTURES "/layers-export.rfck", FIXTURES "/layers-model.rfck" };
    rf_strategy *one = open_devices("llvmpipe");
    if (!one) SKIP("not installed: llvmpipe");
    rf_array expected, got, input, output;
    float x[3 * 36];
    for (int i = 0; i < 108; i++) x[i] = (float)((i * 37) % 101) / 101.0f;
    OK(rf_npy_read(FIXTURES "/layers-expected.npy", &expected));
    for (int f = 0; f < 2; f++) {
        rf_inference *i;
        OK(rf_inference_load(files[f], &(rf_inference_params){ .strategy = one }, &i));
        rf_inference_signature(i, &input, &output);
        assert_true(rf_shape_equal(input.shape, (rf_shape){ 4, { -1, 6, 6, 1 } }));
        assert_true(rf_shape_equal(output.shape, (rf_shape){ 2, { -1, 4 } }));
        OK(rf_inference_run(i, &(rf_array){ RF_F32, RF_SHAPE(3, 6, 6, 1), x }, &got));
        assert_true(rf_shape_equal(got.shape, expected.shape));
        for (int k = 0; k < 12; k++)
            assert_near((double)((float *)got.data)[k], (double)((float *)expected.data)[k], 1e-5, 1e-6, "result");
        rf_array_free(&got);
        rf_inference_destroy(&i);
    }
    rf_model *model;
    OK(rf_model_load(one, files[0], &model));
    rf_model_destroy(&model);
    rf_array_free(&expected);
    rf_strategy_destroy(&one);
}

/* ---- files that lie ---- */

static void write_file(const char *text, const char *tensor, rf_dtype dtype, rf_shape shape)
{
    static float numbers[16];
    const rf_archive_value value = { .name = "graph", .kind = RF_VALUE_STRING, .bytes = text, .size = strlen(text) };
    const rf_archive_tensor w = { tensor, dtype, shape, numbers };
    OK(rf_archive_write(in_folder("lies.rfck"), &(rf_archive_contents){ "inference", &w, 1, &value, 1 }, NULL));
}

TEST(files_that_lie)
{
    rf_strategy *one = open_devices("llvmpipe");
    if (!one) SKIP("not installed: llvmpipe");
    rf_inference *i;
    const rf_inference_params params = { .strategy = one };
    char path[200];
    strcpy(path, in_folder("lies.rfck"));
    write_file(NODE(PRODUCT), "w", RF_F32, RF_SHAPE(4, 3));
    OK(rf_inference_load(path, &params, &i));
    rf_inference_destroy(&i);
    write_file(NODE(PRODUCT), "w", RF_F32, RF_SHAPE(3, 4));
    FAILS(rf_inference_load(path, &params, &i), RF_ERROR_CORRUPT_DATA,
          "tensor 'w' is f32 [3,4], the graph has f32 [4,3]");
    write_file(NODE(PRODUCT), "w", RF_I32, RF_SHAPE(4, 3));
    FAILS(rf_inference_load(path, &params, &i), RF_ERROR_CORRUPT_DATA, "tensor 'w' is i32");
    write_file(NODE(PRODUCT), "v", RF_F32, RF_SHAPE(4, 3));
    FAILS(rf_inference_load(path, &params, &i), RF_ERROR_NOT_FOUND, "'w'");
    write_file(NODE("{}"), "w", RF_F32, RF_SHAPE(4, 3));
    FAILS(rf_inference_load(path, &params, &i), RF_ERROR_CORRUPT_DATA,
          "lies.rfck': graph: nodes[0]: 'op' is not a text");
    write_file(GRAPH(INPUT "," INPUT, "", "{\"name\":\"y\",\"value\":1}"), "w", RF_F32, RF_SHAPE(4, 3));
    OK(rf_inference_load(path, &params, &i));
    rf_array output;
    FAILS(rf_inference_run(i, &(rf_array){ RF_F32, RF_SHAPE(1, 4), NULL }, &output), RF_ERROR_INVALID_ARGUMENT,
          "has 2 inputs and 1 outputs; use rf_inference_run_many()");
    rf_inference_destroy(&i);
    write_file(GRAPH(INPUT, "", ""), "w", RF_F32, RF_SHAPE(4, 3));
    FAILS(rf_inference_load(path, &params, &i), RF_ERROR_CORRUPT_DATA, "lies.rfck': graph: ");
    assert_null(i);
    rf_strategy_destroy(&one);
}

TESTS(inference, make_folder, remove_folder)
