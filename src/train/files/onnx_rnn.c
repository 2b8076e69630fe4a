/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recurrent layers in ONNX. GRU, LSTM and RNN there take the product with the kernel as their own: here it has been
 * made, so that their kernel only puts the gates into their order. They know no masks of steps, and give no cell states
 * but the last: where these are needed the steps stand one after the other, in plain operations.
 */
#include "graph/graph.h"
#include "ops/ops.h"
#include "train/files/onnx.h"

typedef struct layer {
    rf_onnx *o;
    const rf_rnn_attr *attr;
    int64_t steps, units, gates;
    char *x, *recurrent, *bias, *mask; /* mask NULL: none */
    char *h, *c;                       /* initial states, [n, units]; NULL: zeros */
} layer;

static char *emit_unary(const layer *l, const char *op, char *a)
{
    return rf_onnx_op(l->o, op, a, NULL, NULL);
}

static char *emit_binary(const layer *l, const char *op, char *a, char *b)
{
    return rf_onnx_op(l->o, op, a, b, NULL);
}

static char *with_axis(const layer *l, const char *op, char *x, int64_t axis)
{
    return emit_binary(l, op, x, rf_onnx_list(l->o, &axis, 1));
}

static char *exchange_batch(const layer *l, char *x)
{
    static const int64_t perm[] = { 1, 0, 2 };
    char *y = emit_unary(l, "Transpose", x);
    rf_onnx_ints(l->o, "perm", perm, 3);
    return y;
}

/* ---- as one operation ---- */

/* Which of our gates is number i there: the output gate of an LSTM comes second. */
static int64_t gate_there(const layer *l, int64_t i)
{
    static const int64_t lstm[] = { 0, 3, 1, 2 };
    return l->attr->kind == RF_RNN_LSTM ? lstm[i] : i;
}

/* 1 where column j of x is what row i of the result takes: [1, columns, columns]. */
static char *make_kernel(const layer *l)
{
    const int64_t width = l->gates * l->units;
    float *ones = rf_onnx_alloc(l->o, (size_t)(width * width) * sizeof(float));
    if (!ones) return NULL;
    for (int64_t i = 0; i < width * width; i++) ones[i] = 0;
    for (int64_t i = 0; i < width; i++) ones[i * width + gate_there(l, i / l->units) * l->units + i % l->units] = 1;
    return rf_onnx_tensor(l->o, "gates", RF_ONNX_FLOAT, RF_SHAPE(1, width, width), ones);
}

/* Rows, or elements, of our gates in their order. */
static char *order_gates(const layer *l, char *x)
{
    const int64_t width = l->gates * l->units;
    if (l->attr->kind != RF_RNN_LSTM) return x;
    int64_t *places = rf_onnx_alloc(l->o, (size_t)width * sizeof(*places));
    if (!places) return NULL;
    for (int64_t i = 0; i < width; i++) places[i] = gate_there(l, i / l->units) * l->units + i % l->units;
    char *y = emit_binary(l, "Gather", x, rf_onnx_list(l->o, places, width));
    rf_onnx_int(l->o, "axis", 0);
    return y;
}

/* The bias of x, which it has already, and that of the state: [1, 2 * columns]. */
static char *make_bias(const layer *l)
{
    const int64_t width = l->gates * l->units;
    float *zeros = rf_onnx_alloc(l->o, (size_t)width * sizeof(float));
    if (!zeros) return NULL;
    for (int64_t i = 0; i < width; i++) zeros[i] = 0;
    char *none = rf_onnx_tensor(l->o, "no_bias", RF_ONNX_FLOAT, RF_SHAPE(width), zeros);
    char *both = emit_binary(l, "Concat", none, order_gates(l, l->bias));
    rf_onnx_int(l->o, "axis", 0);
    return with_axis(l, "Unsqueeze", both, 0);
}

/* Steps in the opposite order, where the layer goes backwards. */
static char *turn_steps(const layer *l, char *x)
{
    const int64_t last = -1, end = INT64_MIN, axis = 0, step = -1;
    if (!l->attr->backwards) return x;
    char *y = rf_onnx_op(l->o, "Slice", x, rf_onnx_list(l->o, &last, 1), rf_onnx_list(l->o, &end, 1));
    rf_onnx_input(l->o, rf_onnx_list(l->o, &axis, 1));
    rf_onnx_input(l->o, rf_onnx_list(l->o, &step, 1));
    return y;
}

static char *add_whole(const layer *l)
{
    static const char *const names[] = { "GRU", "LSTM", "RNN" };
    char *x = turn_steps(l, exchange_batch(l, l->x)), *kernel = make_kernel(l), *bias = make_bias(l);
    char *recurrent = emit_unary(l, "Transpose", l->recurrent);
    recurrent = with_axis(l, "Unsqueeze", order_gates(l, recurrent), 0);
    char *h = l->h ? with_axis(l, "Unsqueeze", l->h, 0) : NULL, *c = l->c ? with_axis(l, "Unsqueeze", l->c, 0) : NULL;
    char *y = rf_onnx_op(l->o, names[l->attr->kind], x, kernel, recurrent);
    rf_onnx_input(l->o, bias);
    if (h) rf_onnx_input(l->o, rf_onnx_copy(l->o, "")); /* all sequences are as long */
    if (h) rf_onnx_input(l->o, h);
    if (c) rf_onnx_input(l->o, c);
    rf_onnx_int(l->o, "hidden_size", l->units);
    if (l->attr->kind == RF_RNN_GRU) rf_onnx_int(l->o, "linear_before_reset", !l->attr->reset_before);
    y = with_axis(l, "Squeeze", y, 1); /* of [steps, directions, n, units] */
    return exchange_batch(l, turn_steps(l, y));
}

/* ---- step by step ---- */

/* Columns of some gates of [n or 1, ..., gates * units]. */
static char *take_gates(const layer *l, char *x, int64_t first, int64_t last)
{
    const int64_t begin = first * l->units, end = last * l->units, axis = -1;
    if (first == 0 && last == l->gates) return x;
    char *y = rf_onnx_op(l->o, "Slice", x, rf_onnx_list(l->o, &begin, 1), rf_onnx_list(l->o, &end, 1));
    rf_onnx_input(l->o, rf_onnx_list(l->o, &axis, 1));
    return y;
}

static char *take_step(const layer *l, char *x, int64_t step)
{
    char *y = emit_binary(l, "Gather", x, rf_onnx_tensor(l->o, "step", RF_ONNX_INT64, RF_SCALAR_SHAPE, &step));
    rf_onnx_int(l->o, "axis", 1);
    return y;
}

static char *make_zeros(const layer *l)
{
    static const int64_t batch = 0;
    char *n = emit_binary(l, "Gather", emit_unary(l, "Shape", l->x), rf_onnx_list(l->o, &batch, 1));
    rf_onnx_int(l->o, "axis", 0);
    char *shape = emit_binary(l, "Concat", n, rf_onnx_list(l->o, &l->units, 1));
    rf_onnx_int(l->o, "axis", 0);
    return emit_unary(l, "ConstantOfShape", shape);
}

/* Function of the sum of a gate's parts. */
static char *emit_gate(const layer *l, const char *function, char *x, char *product, int64_t number)
{
    char *part = take_gates(l, x, number, number + 1);
    return emit_unary(l, function, emit_binary(l, "Add", part, take_gates(l, product, number, number + 1)));
}

/* (1 - z) * candidate + z * h. */
static char *gru_step(const layer *l, char *x, char *product, char *h)
{
    char *z = emit_gate(l, "Sigmoid", x, product, 0), *r = emit_gate(l, "Sigmoid", x, product, 1), *term;
    if (l->attr->reset_before) {
        term = emit_binary(l, "MatMul", emit_binary(l, "Mul", r, h), take_gates(l, l->recurrent, 2, 3));
        term = emit_binary(l, "Add", term, take_gates(l, l->bias, 2, 3));
    } else {
        term = emit_binary(l, "Mul", r, take_gates(l, product, 2, 3));
    }
    char *candidate = emit_unary(l, "Tanh", emit_binary(l, "Add", take_gates(l, x, 2, 3), term));
    char *rest = emit_binary(l, "Mul", emit_binary(l, "Sub", rf_onnx_number(l->o, 1), z), candidate);
    return emit_binary(l, "Add", emit_binary(l, "Mul", z, h), rest);
}

static char *lstm_step(const layer *l, char *x, char *product, char **c)
{
    char *in = emit_gate(l, "Sigmoid", x, product, 0), *forget = emit_gate(l, "Sigmoid", x, product, 1);
    char *cell = emit_gate(l, "Tanh", x, product, 2), *out = emit_gate(l, "Sigmoid", x, product, 3);
    *c = emit_binary(l, "Add", emit_binary(l, "Mul", forget, *c), emit_binary(l, "Mul", in, cell));
    return emit_binary(l, "Mul", out, emit_unary(l, "Tanh", *c));
}

/* Joins a list of [n, 1, units] in groups of as many as an operation takes; the list is written over. */
static char *emit_concat(const layer *l, char **parts, int64_t count)
{
    while (count > 1) {
        int64_t made = 0;
        for (int64_t first = 0; first < count; first += RF_MAX_INPUTS) {
            const int64_t last = first + RF_MAX_INPUTS < count ? first + RF_MAX_INPUTS : count;
            char *y = emit_unary(l, "Concat", parts[first]);
            for (int64_t i = first + 1; i < last; i++) rf_onnx_input(l->o, parts[i]);
            rf_onnx_int(l->o, "axis", 1);
            parts[made++] = y;
        }
        count = made;
    }
    return parts[0];
}

/* A masked step keeps the state from before. */
static char *keep_masked(const layer *l, char *counts, char *now, char *before)
{
    return counts ? rf_onnx_op(l->o, "Where", counts, now, before) : now;
}

static void add_steps(const layer *l, char **sequence, char **cells)
{
    char *h = l->h ? l->h : make_zeros(l), *c = l->c ? l->c : l->attr->kind == RF_RNN_LSTM ? make_zeros(l) : NULL;
    char **hs = rf_onnx_alloc(l->o, (size_t)l->steps * sizeof(*hs)),
         **cs = rf_onnx_alloc(l->o, (size_t)l->steps * sizeof(*cs));
    for (int64_t i = 0; hs && cs && l->o->status >= 0 && i < l->steps; i++) {
        const int64_t at = l->attr->backwards ? l->steps - 1 - i : i;
        char *x = take_step(l, l->x, at),
             *product = emit_binary(l, "Add", emit_binary(l, "MatMul", h, l->recurrent), l->bias);
        char *counts = NULL, *next, *cell = c;
        if (l->mask) {
            counts = with_axis(l, "Unsqueeze", take_step(l, l->mask, at), 1);
            counts = emit_unary(l, "Not", emit_binary(l, "Equal", counts, rf_onnx_number(l->o, 0)));
        }
        if (l->attr->kind == RF_RNN_GRU)
            next = gru_step(l, x, product, h);
        else if (l->attr->kind == RF_RNN_LSTM)
            next = lstm_step(l, x, product, &cell);
        else
            next = emit_unary(l, "Tanh", emit_binary(l, "Add", x, product));
        h = keep_masked(l, counts, next, h);
        hs[at] = with_axis(l, "Unsqueeze", h, 1);
        if (!c) continue;
        c = keep_masked(l, counts, cell, c);
        cs[at] = with_axis(l, "Unsqueeze", c, 1);
    }
    if (l->o->status < 0) return;
    *sequence = emit_concat(l, hs, l->steps);
    if (c) *cells = emit_concat(l, cs, l->steps);
}

/* ---- the operation ---- */

static bool is_read(const rf_onnx *o, rf_value v)
{
    for (uint32_t i = 0; i < o->source->num_outputs; i++)
        if (o->source->outputs[i] == v) return true;
    return rf_graph_num_uses(o->source->graph, v) > 0;
}

rf_result rf_onnx_add_rnn(rf_onnx *o, const rf_node_info *node)
{
    const rf_rnn_attr *attr = node->attr;
    const bool lstm = attr->kind == RF_RNN_LSTM;
    const rf_shape recurrent = rf_onnx_shape(o, node->in[1]);
    layer l = { .o = o,
                .attr = attr,
                .steps = rf_onnx_shape(o, node->in[0]).dim[1],
                .units = recurrent.dim[0],
                .gates = recurrent.dim[1] / recurrent.dim[0] };
    uint32_t next = 3;
    const bool one_by_one = attr->mask || (lstm && is_read(o, node->out[1]));
    if (one_by_one && l.steps < 0)
        return RF_FAIL(RF_ERROR_UNSUPPORTED,
                       "operation 'rnn' with a mask or cell states of all steps has a number of steps that the inputs "
                       "leave open, which ONNX cannot express");
    l.x = rf_onnx_get(o, node->in[0]);
    l.recurrent = rf_onnx_get(o, node->in[1]);
    l.bias = rf_onnx_get(o, node->in[2]);
    if (attr->state) l.h = rf_onnx_get(o, node->in[next++]);
    if (attr->state && lstm) l.c = rf_onnx_get(o, node->in[next++]);
    if (attr->mask) l.mask = rf_onnx_get(o, node->in[next]);
    if (one_by_one)
        add_steps(&l, &o->values[node->out[0]].name, &o->values[node->out[lstm]].name);
    else
        o->values[node->out[0]].name = add_whole(&l);
    return RF_OK;
}
