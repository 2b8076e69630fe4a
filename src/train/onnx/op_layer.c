/* SPDX-License-Identifier: Apache-2.0 */
/* Layers of ONNX' operations: their configuration, from which the operands of a call are made. */
#include <math.h>
#include <string.h>

#include "graph/batch_dims.h"
#include "persist/json.h"
#include "trace/trace.h"
#include "train/onnx/op.h"

enum { MOST_STACK = 64 };

const rf_import_op *rf_import_find_op(const char *name)
{
    const rf_import_op_list *const lists[] = { &rf_import_element_ops, &rf_import_axis_ops, &rf_import_place_ops,
                                               &rf_import_image_ops, &rf_import_matrix_ops };
    for (size_t k = 0; k < sizeof(lists) / sizeof(lists[0]); k++)
        for (uint32_t i = 0; i < lists[k]->count; i++)
            if (strcmp(lists[k]->items[i].name, name) == 0) return &lists[k]->items[i];
    return NULL;
}

/* ---- configuration ---- */

typedef struct op_layer {
    json_t *config;
    const rf_import_op *op;
    double **numbers; /* by operand; NULL: no numbers, or sizes */
    uint32_t num_operands;
} op_layer;

static void op_layer_free(void *user)
{
    op_layer *l = user;
    for (uint32_t i = 0; l->numbers && i < l->num_operands; i++) rf_free(l->numbers[i]);
    rf_free(l->numbers);
    json_decref(l->config);
    rf_free(l);
}

static json_t *operands_of(const op_layer *l)
{
    return json_object_get(l->config, "in");
}

static rf_result op_build(rf_layer *layer, const rf_custom_tensor *inputs, uint32_t num_inputs, void *user)
{
    const op_layer *l = user;
    const json_t *variables = json_object_get(l->config, "variables");
    (void)inputs;
    (void)num_inputs;
    for (size_t i = 0; i < json_array_size(variables); i++) {
        const json_t *v = json_array_get(variables, i);
        rf_custom_variable_params params = { .name = json_string_value(json_object_get(v, "name")),
                                             .initializer = { .kind = RF_INIT_ZEROS },
                                             .not_trainable = json_is_true(json_object_get(v, "state")) };
        RF_TRY(rf_shape_from_json(v, "shape", &params.shape));
        RF_TRY(rf_custom_layer_add_variable(layer, &params));
    }
    return RF_OK;
}

/* ---- sizes ---- */

static bool apply_operator(const char *op, double *stack, bool *follows, uint32_t *depth)
{
    if (strcmp(op, "f") == 0 || strcmp(op, "c") == 0 || strcmp(op, "r") == 0 || strcmp(op, "t") == 0) {
        if (*depth < 1) return false;
        double *x = &stack[*depth - 1];
        *x = *op == 'f' ? floor(*x) : *op == 'c' ? ceil(*x) : *op == 'r' ? nearbyint(*x) : trunc(*x);
        return true;
    }
    if (*depth < 2) return false;
    const double b = stack[--*depth], a = stack[*depth - 1];
    double *y = &stack[*depth - 1];
    follows[*depth - 1] |= follows[*depth];
    switch (*op) {
    case '+': *y = a + b; break;
    case '-': *y = a - b; break;
    case '*': *y = a * b; break;
    case '/': *y = a / b; break;
    case 'q': *y = b != 0 ? trunc(a / b) : 0; break;
    case '%': *y = b != 0 ? a - floor(a / b) * b : 0; break;
    case 'M': *y = a > b ? a : b; break;
    case 'm': *y = a < b ? a : b; break;
    default: return false;
    }
    return true;
}

/* One size: tokens in postfix order, numbers, [input, axis] and operators. */
static bool evaluate_size(rf_import_call *c, const json_t *tokens, const rf_tensor *tensors, uint32_t num_tensors,
                          double *out, bool *out_follows)
{
    double stack[MOST_STACK];
    bool follows[MOST_STACK];
    uint32_t depth = 0;
    for (size_t i = 0; i < json_array_size(tokens); i++) {
        const json_t *token = json_array_get(tokens, i);
        if (json_is_string(token)) {
            if (!apply_operator(json_string_value(token), stack, follows, &depth)) return false;
            continue;
        }
        if (depth == MOST_STACK) return false;
        follows[depth] = false;
        if (json_is_number(token)) {
            stack[depth++] = json_number_value(token);
            continue;
        }
        const json_int_t input = json_integer_value(json_array_get(token, 0)),
                         axis = json_integer_value(json_array_get(token, 1));
        if (input < 0 || input >= num_tensors) return false;
        const rf_shape shape = rf_tensor_shape(c->t, tensors[input]);
        if (axis < 0 || axis >= shape.rank) return false;
        follows[depth] = rf_dim_follows(c->t, tensors[input], (int32_t)axis);
        stack[depth++] = (double)shape.dim[axis];
    }
    if (depth != 1) return false;
    *out = stack[0];
    *out_follows = follows[0];
    return true;
}

/* How often the batch is in a size that is a dimension of one tensor, perhaps times a number; 0: it is no such size. */
static double count_batches(rf_import_call *c, const json_t *tokens, const rf_tensor *tensors, double size)
{
    const json_t *dim = NULL;
    rf_batch_dim batch;
    rf_value v;
    bool linear = false;
    for (size_t i = 0; i < json_array_size(tokens); i++) {
        const json_t *token = json_array_get(tokens, i);
        if (json_is_string(token) && strcmp(json_string_value(token), "*") != 0) return 0;
        if (json_is_array(token) && dim) return 0;
        if (json_is_array(token)) dim = token;
    }
    if (!dim) return 0;
    const rf_tensor x = tensors[json_integer_value(json_array_get(dim, 0))];
    const int32_t axis = (int32_t)json_integer_value(json_array_get(dim, 1));
    if (!rf_operand(c->t, x, "x", &v)) return 0;
    if (rf_graph_batch_dim(rf_trace_graph(c->t), v, axis, &batch, &linear) < 0 || !linear || batch.fixed != 0) return 0;
    return size / (double)rf_tensor_shape(c->t, x).dim[axis] * (double)batch.per_example;
}

static void evaluate_sizes(rf_import_call *c, const json_t *sizes, const rf_tensor *tensors, uint32_t num_tensors,
                           rf_import_operand *o)
{
    const size_t count = json_array_size(sizes);
    double *numbers = rf_arena_alloc(&c->arena, count * sizeof(double));
    o->numbers = numbers;
    o->follows = rf_arena_alloc(&c->arena, count * sizeof(bool));
    if (!numbers || !o->follows) {
        (void)rf_trace_emit(c->t, RF_ERROR_OUT_OF_HOST_MEMORY, 0);
        return;
    }
    for (size_t i = 0; i < count; i++)
        if (!evaluate_size(c, json_array_get(sizes, i), tensors, num_tensors, &numbers[i], &o->follows[i]))
            rf_import_call_fail(c, "has a size in its description that is none");
    if (count == 1 && o->follows[0])
        o->per_example = count_batches(c, json_array_get(sizes, 0), tensors, o->numbers[0]);
}

static void find_operand(rf_import_call *c, const op_layer *l, const rf_layer *layer, const rf_tensor *tensors,
                         uint32_t num_tensors, uint32_t i)
{
    const json_t *j = json_array_get(operands_of(l), i), *at;
    rf_import_operand *o = &c->in[i];
    if (!json_is_object(j)) return;
    o->there = true;
    if ((at = json_object_get(j, "tensor"))) {
        const json_int_t number = json_integer_value(at);
        if (number >= 0 && number < num_tensors) o->tensor = tensors[number];
        o->is_float = true;
        return;
    }
    if ((at = json_object_get(j, "variable"))) {
        rf_variable *v = rf_layer_variable(layer, json_string_value(at));
        o->is_float = true;
        if (v) o->tensor = rf_variable_tensor(c->t, v);
        return;
    }
    o->is_float = !json_is_true(json_object_get(j, "whole"));
    if (rf_shape_from_json(j, "shape", &o->shape) < 0) o->shape.rank = 0;
    o->numbers = l->numbers[i];
    const json_t *sizes = json_object_get(j, "sizes");
    if (sizes) evaluate_sizes(c, sizes, tensors, num_tensors, o);
}

static rf_result op_call(rf_trace *t, const rf_layer *layer, const rf_tensor *inputs, rf_tensor *outputs, rf_mode mode,
                         void *user)
{
    const op_layer *l = user;
    const uint32_t num_tensors = (uint32_t)json_integer_value(json_object_get(l->config, "tensors"));
    rf_import_call c = { .t = t,
                         .mode = mode,
                         .op = l->op->name,
                         .attributes = json_object_get(l->config, "attributes"),
                         .opset = json_integer_value(json_object_get(l->config, "opset")),
                         .last = json_is_true(json_object_get(l->config, "last")),
                         .num_in = l->num_operands,
                         .num_out = (uint32_t)json_integer_value(json_object_get(l->config, "out")),
                         .out = outputs,
                         .tensors = inputs,
                         .num_tensors = num_tensors };
    for (uint32_t i = 0; i < c.num_in; i++) find_operand(&c, l, layer, inputs, num_tensors, i);
    if (rf_trace_status(t) >= 0) l->op->trace(&c);
    rf_arena_free(&c.arena);
    return rf_trace_status(t);
}

/* ---- making one ---- */

static rf_result fail_config(const char *what)
{
    return RF_FAIL(RF_ERROR_CORRUPT_DATA, "a layer of type '%s': %s", RF_IMPORT_LAYER_TYPE, what);
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Doubles as 16 digits each. */
static rf_result numbers_read(const char *text, int64_t count, double **out)
{
    if (!text || count < 0 || strlen(text) != (size_t)count * 16) return fail_config("other numbers than its shape");
    *out = RF_NEW_ARRAY(double, (size_t)count);
    if (!*out) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (int64_t i = 0; i < count; i++) {
        uint64_t word = 0;
        for (int k = 0; k < 16; k++) {
            const int digit = hex_digit(text[16 * i + k]);
            if (digit < 0) return fail_config("a number is none");
            word = word << 4 | (uint64_t)digit;
        }
        memcpy(&(*out)[i], &word, sizeof(word));
    }
    return RF_OK;
}

static rf_result check_operand(op_layer *l, uint32_t i)
{
    const json_t *j = json_array_get(operands_of(l), i), *numbers = json_object_get(j, "numbers");
    const json_t *sizes = json_object_get(j, "sizes");
    rf_shape shape;
    if (json_is_null(j) || json_object_get(j, "tensor") || json_is_string(json_object_get(j, "variable"))) return RF_OK;
    if (!numbers && !sizes) return fail_config("an operand is nothing");
    RF_TRY(rf_shape_from_json(j, "shape", &shape));
    const int64_t count = rf_shape_count(shape);
    if (sizes) return json_array_size(sizes) == (size_t)count ? RF_OK : fail_config("other sizes than its shape");
    return numbers_read(json_string_value(numbers), count, &l->numbers[i]);
}

static rf_result check_config(op_layer *l)
{
    const char *op = json_string_value(json_object_get(l->config, "op"));
    const json_int_t tensors = json_integer_value(json_object_get(l->config, "tensors")),
                     out = json_integer_value(json_object_get(l->config, "out"));
    l->op = op ? rf_import_find_op(op) : NULL;
    if (!l->op) return fail_config("an operation that is not known here");
    const size_t count = json_array_size(operands_of(l));
    if (count > RF_IMPORT_MOST_OPERANDS || tensors < 1 || tensors > RF_MAX_CUSTOM_TENSORS || out < 1 ||
        out > RF_MAX_CUSTOM_TENSORS || count < l->op->min_in)
        return fail_config("other numbers of operands than its operation has");
    l->num_operands = (uint32_t)count;
    l->numbers = RF_NEW_ARRAY(double *, count);
    if (!l->numbers) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; i < count; i++) {
        RF_TRY(check_operand(l, i));
        const json_t *tensor = json_object_get(json_array_get(operands_of(l), i), "tensor");
        if (tensor &&
            (!json_is_integer(tensor) || json_integer_value(tensor) < 0 || json_integer_value(tensor) >= tensors))
            return fail_config("an operand is a tensor that it does not get");
    }
    return RF_OK;
}

rf_result rf_import_op_layer(json_t *config, const char *name, rf_layer **out)
{
    *out = NULL;
    op_layer *l = RF_NEW(op_layer);
    if (!l) {
        json_decref(config);
        return RF_ERROR_OUT_OF_HOST_MEMORY;
    }
    l->config = config;
    char *text = NULL;
    rf_result r = check_config(l);
    if (r >= 0) r = rf_json_text(json_incref(config), &text);
    if (r < 0) {
        op_layer_free(l);
        return r;
    }
    const rf_custom_layer_params params = { .type = RF_IMPORT_LAYER_TYPE,
                                            .name = name,
                                            .num_inputs =
                                                (uint32_t)json_integer_value(json_object_get(config, "tensors")),
                                            .num_outputs = (uint32_t)json_integer_value(json_object_get(config, "out")),
                                            .build = op_build,
                                            .call = op_call,
                                            .user = l,
                                            .destroy = op_layer_free,
                                            .config = text };
    r = rf_layer_custom(&params, out);
    rf_free(text);
    return r;
}

rf_result rf_import_op_layer_make(void *user, const char *name, const char *config, rf_layer **out)
{
    json_t *object;
    (void)user;
    RF_TRY(rf_json_parse(config, strlen(config), RF_IMPORT_LAYER_TYPE, &object));
    return rf_import_op_layer(object, name, out);
}
