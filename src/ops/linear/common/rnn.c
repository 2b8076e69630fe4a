/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recurrent layers: GRU, LSTM and the simple one, over all steps of a sequence, with their gradient. The numbers that a
 * step takes from its input comes in as x, already times the kernel. Nothing is kept for the gradient but the states:
 * it computes the gates again, out of one product of all states, and then walks the steps back.
 */
#include <math.h>

#include "graph/batch_dims.h"
#include "ops/linear/common/rnn.h"
#include "ops/linear/cpu/cpu.h"
#include "ops/linear/gpu/gpu.h"
#include "rf_shaders.h"

/* ---- host side ---- */

typedef struct rnn_size {
    int64_t n, t, u;
    uint32_t gates;
} rnn_size;

/* Sizes of x and of the recurrent kernel. */
static rf_result size_of(const rf_op_call *call, uint32_t x, uint32_t recurrent, rnn_size *size)
{
    char a[96], b[96];
    const rf_rnn_attr *attr = call->attr;
    const rf_shape *xs = &call->in[x].shape, *rs = &call->in[recurrent].shape;
    for (uint32_t i = 0; i < call->n_in; i++) {
        RF_TRY(rf_expect_dtype(call, i, RF_F32));
        RF_TRY(rf_expect_not_empty(call, i));
    }
    size->gates = rf_rnn_gates(attr);
    if (xs->rank != 3 || rs->rank != 2 || rs->dim[1] != size->gates * rs->dim[0] || xs->dim[2] != rs->dim[1])
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT,
                       "%s: x has shape %s and the recurrent kernel %s, need [n, steps, %u * units] and "
                       "[units, %u * units]",
                       call->op->name, rf_shape_format(*xs, a, sizeof(a)), rf_shape_format(*rs, b, sizeof(b)),
                       size->gates, size->gates);
    if (xs->dim[2] > INT32_MAX || xs->dim[1] > INT32_MAX / 2)
        return RF_FAIL(RF_ERROR_UNSUPPORTED, "%s: x of shape %s is too long", call->op->name,
                       rf_shape_format(*xs, a, sizeof(a)));
    size->n = xs->dim[0];
    size->t = xs->dim[1];
    size->u = rs->dim[0];
    return RF_OK;
}

static rf_result expect_inputs(const rf_op_call *call, uint32_t count)
{
    if (call->n_in == count) return RF_OK;
    return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s: %u inputs, needs %u", call->op->name, call->n_in, count);
}

static rf_result check_kind(const rf_op_call *call)
{
    const rf_rnn_attr *attr = call->attr;
    if (attr->kind > RF_RNN_SIMPLE)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s: %u is no kind of recurrent layer", call->op->name, attr->kind);
    return RF_OK;
}

static rf_result rnn_infer(rf_op_call *call)
{
    const rf_rnn_attr *attr = call->attr;
    rnn_size s;
    RF_TRY(check_kind(call));
    RF_TRY(expect_inputs(call, rf_rnn_mask_input(attr) + attr->mask));
    RF_TRY(size_of(call, 0, 1, &s));
    const rf_shape bias = RF_SHAPE(s.gates * s.u), state = RF_SHAPE(s.n, s.u), mask = RF_SHAPE(s.n, s.t);
    RF_TRY(rf_expect_shape(call, 2, &bias, "one bias for each column of the recurrent kernel"));
    if (attr->state)
        for (uint32_t i = 3; i <= rf_rnn_cell_input(attr); i++)
            RF_TRY(rf_expect_shape(call, i, &state, "an initial state for each example and unit"));
    if (attr->mask) RF_TRY(rf_expect_shape(call, rf_rnn_mask_input(attr), &mask, "a mask for each example and step"));
    call->n_out = attr->kind == RF_RNN_LSTM ? 2 : 1;
    for (uint32_t i = 0; i < call->n_out; i++) call->out[i] = (rf_tensor_desc){ RF_F32, RF_SHAPE(s.n, s.t, s.u) };
    return RF_OK;
}

static rf_result grad_infer(rf_op_call *call)
{
    const rf_rnn_attr *attr = call->attr;
    rnn_size s;
    RF_TRY(check_kind(call));
    RF_TRY(expect_inputs(call, rf_rnn_grad_mask_input(attr) + attr->mask));
    RF_TRY(size_of(call, 2, 1, &s));
    const rf_shape states = RF_SHAPE(s.n, s.t, s.u), mask = RF_SHAPE(s.n, s.t);
    RF_TRY(rf_expect_shape(call, 0, &states, "one gradient for each state"));
    RF_TRY(rf_expect_shape(call, 3, &call->in[2].shape, "one product for each element of x"));
    RF_TRY(rf_expect_shape(call, 4, &states, "a state before each step"));
    if (attr->state) RF_TRY(rf_expect_shape(call, 5, &states, "one gradient for each cell state"));
    if (attr->mask)
        RF_TRY(rf_expect_shape(call, rf_rnn_grad_mask_input(attr), &mask, "a mask for each example and step"));
    call->n_out = attr->kind == RF_RNN_LSTM || rf_rnn_resets_after(attr) ? 3 : 2;
    call->out[0] = call->in[2];
    call->out[1] = (rf_tensor_desc){ RF_F32, RF_SHAPE(s.n, s.u) };
    call->out[2] = attr->kind == RF_RNN_LSTM ? call->out[1] : call->in[2];
    return RF_OK;
}

rf_result rf_emit_rnn(rf_graph *g, rf_value x, rf_value recurrent, rf_value bias, const rf_value state[2],
                      rf_value mask, const rf_rnn_attr *attr, rf_value *sequence, rf_value final[2])
{
    const bool lstm = attr->kind == RF_RNN_LSTM;
    rf_rnn_attr own = *attr;
    rf_value in[6] = { x, recurrent, bias }, out[2] = { 0 };
    uint32_t count = 3;
    if (lstm ? !state[0] != !state[1] : state[1] != 0)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "rnn: an LSTM has two initial states or none, other kinds have one; "
                                                  "give what is missing, or leave out both");
    if (!bias) {
        RF_TRY(rf_emit_reduce(g, RF_REDUCE_KIND_SUM, recurrent, (const int32_t[1]){ 0 }, 1, false, &in[2]));
        RF_TRY(rf_emit_fill_like(g, 0, in[2], &in[2]));
    }
    own.state = state[0] != 0;
    own.mask = mask != 0;
    if (own.state) in[count++] = state[0];
    if (own.state && lstm) in[count++] = state[1];
    if (own.mask) in[count++] = mask;
    RF_TRY(rf_graph_add(g, &rf_op_rnn, &own, in, count, out));
    *sequence = out[0];
    final[1] = 0;
    const int64_t last = attr->backwards ? 0 : -1;
    const int64_t begin[2] = { 0, last }, end[2] = { INT64_MAX, last == 0 ? 1 : INT64_MAX }, step[2] = { 1, 1 };
    for (uint32_t i = 0; i <= lstm; i++) {
        RF_TRY(rf_emit_slice(g, out[i], begin, end, step, 2, &final[i]));
        RF_TRY(rf_emit_squeeze(g, final[i], 1, &final[i]));
    }
    return RF_OK;
}

/* ---- gradient ---- */

/* The state before each step: those of all steps but the last, after the initial one or zeros. */
static rf_result emit_previous(rf_grad_context *ctx, rf_value states, rf_value initial, rf_value *out)
{
    const rf_rnn_attr *attr = ctx->attr;
    rf_graph *g = ctx->graph;
    const int64_t back = attr->backwards;
    uint32_t follow;
    rf_value start, rest;
    RF_TRY(rf_graph_batch_dims(g, states, &follow));
    const bool one_step = rf_graph_desc(g, states)->shape.dim[1] == 1 && !(follow & 2);
    if (initial) {
        RF_TRY(rf_emit_expand_dims(g, initial, 1, &start));
        if (one_step) {
            *out = start;
            return RF_OK;
        }
    } else if (one_step) {
        return rf_emit_fill_like(g, 0, states, out);
    }
    const int64_t begin[2] = { 0, back }, end[2] = { INT64_MAX, back ? INT64_MAX : -1 }, step[2] = { 1, 1 };
    if (follow & 2) { /* there may be one step, and no state before the last one to take */
        const int64_t front[2] = { 0, !back }, behind[2] = { 0, back };
        if (initial)
            RF_TRY(rf_emit_concat(g, (rf_value[2]){ back ? states : start, back ? start : states }, 2, 1, &rest));
        else
            RF_TRY(rf_emit_pad(g, states, front, behind, 2, 0, &rest));
        return rf_emit_slice(g, rest, begin, end, step, 2, out);
    }
    RF_TRY(rf_emit_slice(g, states, begin, end, step, 2, &rest));
    if (initial) return rf_emit_concat(g, (rf_value[2]){ back ? rest : start, back ? start : rest }, 2, 1, out);
    const int64_t before[2] = { 0, !back }, after[2] = { 0, back };
    return rf_emit_pad(g, rest, before, after, 2, 0, out);
}

/* Columns of the last of `rank` dimensions. */
static rf_result emit_columns(rf_graph *g, rf_value x, int64_t first, int64_t last, rf_value *out)
{
    const int32_t axis = rf_graph_desc(g, x)->shape.rank - 1;
    int64_t begin[3] = { 0 }, end[3] = { INT64_MAX, INT64_MAX, INT64_MAX };
    const int64_t step[3] = { 1, 1, 1 };
    begin[axis] = first;
    end[axis] = last;
    return rf_emit_slice(g, x, begin, end, step, (uint32_t)axis + 1, out);
}

/* Sums of products over all examples and steps. */
static rf_result emit_outer(rf_graph *g, rf_value a, rf_value b, rf_value *out)
{
    const rf_value both[2] = { a, b };
    rf_value flat[2];
    for (uint32_t i = 0; i < 2; i++) RF_TRY(rf_emit_join_dims(g, both[i], 0, 2, &flat[i]));
    return rf_emit_matmul(g, flat[0], flat[1], true, false, out);
}

typedef struct rnn_products {
    rf_value before;  /* the hidden state before each step */
    rf_value reset;   /* the same times the reset gate, where that comes before the product */
    rf_value product; /* of these and the recurrent kernel, with the bias */
} rnn_products;

static rf_result emit_products(rf_grad_context *ctx, rnn_products *p)
{
    const rf_rnn_attr *attr = ctx->attr;
    rf_graph *g = ctx->graph;
    const rf_value x = ctx->in[0], recurrent = ctx->in[1], bias = ctx->in[2];
    RF_TRY(emit_previous(ctx, ctx->out[0], attr->state ? ctx->in[3] : 0, &p->before));
    if (!rf_rnn_resets_before(attr)) {
        RF_TRY(rf_emit_matmul(g, p->before, recurrent, false, false, &p->product));
        return rf_emit_bias_add(g, p->product, bias, &p->product);
    }
    const int64_t u = rf_graph_desc(g, recurrent)->shape.dim[0];
    rf_value gates, candidate, part, sum, reset;
    RF_TRY(emit_columns(g, recurrent, 0, 2 * u, &part));
    RF_TRY(rf_emit_matmul(g, p->before, part, false, false, &gates));
    RF_TRY(emit_columns(g, bias, 0, 2 * u, &part));
    RF_TRY(rf_emit_bias_add(g, gates, part, &gates));
    RF_TRY(emit_columns(g, gates, u, 2 * u, &sum));
    RF_TRY(emit_columns(g, x, u, 2 * u, &part));
    RF_TRY(rf_emit_binary(g, RF_FN_ADD, 0, sum, part, &sum));
    RF_TRY(rf_emit_unary(g, RF_FN_SIGMOID, 0, sum, &reset));
    RF_TRY(rf_emit_binary(g, RF_FN_MULTIPLY, 0, reset, p->before, &p->reset));
    RF_TRY(emit_columns(g, recurrent, 2 * u, 3 * u, &part));
    RF_TRY(rf_emit_matmul(g, p->reset, part, false, false, &candidate));
    RF_TRY(emit_columns(g, bias, 2 * u, 3 * u, &part));
    RF_TRY(rf_emit_bias_add(g, candidate, part, &candidate));
    return rf_emit_concat(g, (rf_value[2]){ gates, candidate }, 2, 2, &p->product);
}

static rf_result emit_kernel_gradient(rf_grad_context *ctx, const rnn_products *p, rf_value dproduct, rf_value *out)
{
    rf_graph *g = ctx->graph;
    if (!rf_rnn_resets_before(ctx->attr)) return emit_outer(g, p->before, dproduct, out);
    const int64_t u = rf_graph_desc(g, ctx->in[1])->shape.dim[0];
    rf_value part, both[2];
    RF_TRY(emit_columns(g, dproduct, 0, 2 * u, &part));
    RF_TRY(emit_outer(g, p->before, part, &both[0]));
    RF_TRY(emit_columns(g, dproduct, 2 * u, 3 * u, &part));
    RF_TRY(emit_outer(g, p->reset, part, &both[1]));
    return rf_emit_concat(g, both, 2, 1, out);
}

static rf_result rnn_gradient(rf_grad_context *ctx)
{
    const rf_rnn_attr *attr = ctx->attr;
    rf_graph *g = ctx->graph;
    const bool lstm = attr->kind == RF_RNN_LSTM;
    const rf_value dc = lstm && ctx->n_out > 1 ? ctx->dout[1] : 0;
    if (!ctx->dout[0] && !dc) return RF_OK;
    rnn_products p = { 0 };
    RF_TRY(emit_products(ctx, &p));
    rf_value in[7] = { ctx->dout[0], ctx->in[1], ctx->in[0], p.product, p.before }, out[3] = { 0 };
    if (!in[0]) RF_TRY(rf_emit_fill_like(g, 0, ctx->out[0], &in[0]));
    if (lstm) RF_TRY(emit_previous(ctx, ctx->out[1], attr->state ? ctx->in[rf_rnn_cell_input(attr)] : 0, &in[4]));
    rf_rnn_attr own = *attr;
    own.state = dc != 0;
    uint32_t count = 5;
    if (dc) in[count++] = dc;
    if (attr->mask) in[count++] = ctx->in[rf_rnn_mask_input(attr)];
    RF_TRY(rf_graph_add(g, &rf_op_rnn_grad, &own, in, count, out));
    const rf_value dproduct = rf_rnn_resets_after(attr) ? out[2] : out[0];
    if (ctx->needed[0]) ctx->din[0] = out[0];
    if (ctx->needed[1]) RF_TRY(emit_kernel_gradient(ctx, &p, dproduct, &ctx->din[1]));
    if (ctx->needed[2]) RF_TRY(rf_emit_sum_to_like(g, dproduct, ctx->in[2], &ctx->din[2]));
    if (attr->state && ctx->needed[3]) ctx->din[3] = out[1];
    if (attr->state && lstm && ctx->needed[4]) ctx->din[4] = out[2];
    return RF_OK;
}

/* ---- references ---- */

static double sigmoid_of(double a)
{
    return 1 / (1 + exp(-a));
}

/* The share that one example's state `h` brings to column j. */
static double product_of(const double *h, const float *recurrent, int64_t u, int64_t width, int64_t j)
{
    double sum = 0;
    for (int64_t i = 0; i < u; i++) sum += h[i] * (double)recurrent[i * width + j];
    return sum;
}

/* One step of one example. `sum` and `reset` have room for the columns. */
static void reference_step(const rf_rnn_attr *attr, const float *x, const float *recurrent, const float *bias,
                           int64_t u, double *h, double *c, double *sum, double *reset)
{
    const int64_t width = (int64_t)rf_rnn_gates(attr) * u;
    for (int64_t j = 0; j < width; j++) sum[j] = product_of(h, recurrent, u, width, j) + (double)bias[j];
    if (rf_rnn_resets_before(attr)) {
        for (int64_t k = 0; k < u; k++) reset[k] = sigmoid_of((double)x[u + k] + sum[u + k]) * h[k];
        for (int64_t j = 2 * u; j < width; j++) sum[j] = product_of(reset, recurrent, u, width, j) + (double)bias[j];
    }
    for (int64_t k = 0; k < u; k++) {
        const double first = (double)x[k] + sum[k];
        if (attr->kind == RF_RNN_SIMPLE) {
            h[k] = tanh(first);
        } else if (attr->kind == RF_RNN_LSTM) {
            c[k] = sigmoid_of((double)x[u + k] + sum[u + k]) * c[k] +
                   sigmoid_of(first) * tanh((double)x[2 * u + k] + sum[2 * u + k]);
            h[k] = sigmoid_of((double)x[3 * u + k] + sum[3 * u + k]) * tanh(c[k]);
        } else {
            const double z = sigmoid_of(first);
            const double r = attr->reset_before ? 1 : sigmoid_of((double)x[u + k] + sum[u + k]);
            h[k] = z * h[k] + (1 - z) * tanh((double)x[2 * u + k] + r * sum[2 * u + k]);
        }
    }
}

static rf_result rnn_reference(const rf_op_call *call, void *const *in, void *const *out)
{
    const rf_rnn_attr *attr = call->attr;
    rnn_size s;
    RF_TRY(size_of(call, 0, 1, &s));
    const int64_t width = s.gates * s.u;
    double *room = RF_NEW_ARRAY(double, 3 * s.u + width);
    if (room == NULL) return RF_ERROR_OUT_OF_HOST_MEMORY;
    double *h = room, *c = h + s.u, *reset = c + s.u, *sum = reset + s.u;
    const float *mask = attr->mask ? in[rf_rnn_mask_input(attr)] : NULL;
    const bool lstm = attr->kind == RF_RNN_LSTM;
    for (int64_t row = 0; row < s.n; row++) {
        for (int64_t k = 0; k < s.u; k++) {
            h[k] = attr->state ? (double)((const float *)in[3])[row * s.u + k] : 0;
            c[k] = attr->state && lstm ? (double)((const float *)in[4])[row * s.u + k] : 0;
        }
        for (int64_t i = 0; i < s.t; i++) {
            const int64_t at = row * s.t + rf_rnn_place(attr, s.t, i);
            if (mask == NULL || mask[at] != 0)
                reference_step(attr, (const float *)in[0] + at * width, in[1], in[2], s.u, h, c, sum, reset);
            for (int64_t k = 0; k < s.u; k++) {
                ((float *)out[0])[at * s.u + k] = (float)h[k];
                if (lstm) ((float *)out[1])[at * s.u + k] = (float)c[k];
            }
        }
    }
    rf_free(room);
    return RF_OK;
}

typedef struct grad_row {
    const rf_rnn_attr *attr;
    const float *dh, *recurrent, *x, *product, *before, *dc, *mask;
    float *dx, *dproduct;
    double *h, *c; /* the gradients of the states after the step, then of those before it */
    rnn_size s;
} grad_row;

/* The share that comes to unit k through columns first .. last - 1. */
static double row_through(const grad_row *r, const float *d, int64_t k, int64_t first, int64_t last)
{
    double sum = 0;
    for (int64_t j = first; j < last; j++)
        sum += (double)d[j] * (double)r->recurrent[k * (int64_t)r->s.gates * r->s.u + j];
    return sum;
}

/* Gradients of the sums of unit k. Returns what comes to its state directly. */
static double grad_unit(const grad_row *r, int64_t k, int64_t at, float *dx, float *dproduct)
{
    const int64_t u = r->s.u, width = (int64_t)r->s.gates * u;
    const float *x = r->x + at * width, *p = r->product + at * width;
    const double dh = r->h[k], before = (double)r->before[at * u + k], first = (double)x[k] + (double)p[k];
    double d[4] = { 0 };
    if (r->attr->kind == RF_RNN_SIMPLE) {
        const double h = tanh(first);
        dx[k] = dproduct[k] = (float)(dh * (1 - h * h));
        return 0;
    }
    if (r->attr->kind == RF_RNN_LSTM) {
        const double i = sigmoid_of(first), f = sigmoid_of((double)x[u + k] + (double)p[u + k]);
        const double g = tanh((double)x[2 * u + k] + (double)p[2 * u + k]);
        const double o = sigmoid_of((double)x[3 * u + k] + (double)p[3 * u + k]), c = tanh(f * before + i * g);
        const double dc = r->c[k] + dh * o * (1 - c * c);
        d[0] = dc * g * i * (1 - i);
        d[1] = dc * before * f * (1 - f);
        d[2] = dc * i * (1 - g * g);
        d[3] = dh * c * o * (1 - o);
        r->c[k] = dc * f;
        for (int64_t gate = 0; gate < 4; gate++) dx[gate * u + k] = dproduct[gate * u + k] = (float)d[gate];
        return 0;
    }
    const bool after = rf_rnn_resets_after(r->attr);
    const double z = sigmoid_of(first), reset = after ? sigmoid_of((double)x[u + k] + (double)p[u + k]) : 1;
    const double inner = (double)p[2 * u + k], c = tanh((double)x[2 * u + k] + reset * inner);
    const double dsum = dh * (1 - z) * (1 - c * c);
    dx[k] = dproduct[k] = (float)(dh * (before - c) * z * (1 - z));
    dx[2 * u + k] = (float)dsum;
    dproduct[2 * u + k] = (float)(dsum * reset);
    if (after) dx[u + k] = dproduct[u + k] = (float)(dsum * inner * reset * (1 - reset));
    return dh * z;
}

/* One step of one example: r->h and r->c become the gradients of the states before it. */
static void grad_step(const grad_row *r, int64_t at, double *direct)
{
    const int64_t u = r->s.u, width = (int64_t)r->s.gates * u;
    float *dx = r->dx + at * width, *dproduct = r->dproduct + at * width;
    for (int64_t k = 0; k < u; k++) {
        r->h[k] += (double)r->dh[at * u + k];
        if (r->dc) r->c[k] += (double)r->dc[at * u + k];
    }
    if (r->mask && r->mask[at] == 0) {
        for (int64_t j = 0; j < width; j++) dx[j] = dproduct[j] = 0;
        return;
    }
    for (int64_t k = 0; k < u; k++) direct[k] = grad_unit(r, k, at, dx, dproduct);
    for (int64_t k = 0; k < u && rf_rnn_resets_before(r->attr); k++) {
        const double reset = sigmoid_of((double)r->x[at * width + u + k] + (double)r->product[at * width + u + k]);
        const double d = row_through(r, dproduct, k, 2 * u, 3 * u);
        dx[u + k] = dproduct[u + k] = (float)(d * (double)r->before[at * u + k] * reset * (1 - reset));
        direct[k] += d * reset;
    }
    for (int64_t k = 0; k < u; k++)
        r->h[k] = direct[k] + row_through(r, dproduct, k, 0, rf_rnn_resets_before(r->attr) ? 2 * u : width);
}

static rf_result grad_reference(const rf_op_call *call, void *const *in, void *const *out)
{
    const rf_rnn_attr *attr = call->attr;
    grad_row r = { .attr = attr, .dh = in[0], .recurrent = in[1], .x = in[2], .product = in[3], .before = in[4] };
    RF_TRY(size_of(call, 2, 1, &r.s));
    if (attr->state) r.dc = in[5];
    if (attr->mask) r.mask = in[rf_rnn_grad_mask_input(attr)];
    r.dx = out[0];
    r.dproduct = rf_rnn_resets_after(attr) ? out[2] : out[0];
    double *room = RF_NEW_ARRAY(double, 3 * r.s.u);
    if (room == NULL) return RF_ERROR_OUT_OF_HOST_MEMORY;
    r.h = room;
    r.c = room + r.s.u;
    for (int64_t row = 0; row < r.s.n; row++) {
        for (int64_t k = 0; k < 2 * r.s.u; k++) room[k] = 0;
        for (int64_t i = r.s.t - 1; i >= 0; i--)
            grad_step(&r, row * r.s.t + rf_rnn_place(attr, r.s.t, i), room + 2 * r.s.u);
        for (int64_t k = 0; k < r.s.u; k++) {
            ((float *)out[1])[row * r.s.u + k] = (float)r.h[k];
            if (attr->kind == RF_RNN_LSTM) ((float *)out[2])[row * r.s.u + k] = (float)r.c[k];
        }
    }
    rf_free(room);
    return RF_OK;
}

static rf_cost rnn_cost(const rf_op_call *call)
{
    return rf_cost_of(call, 2 * (double)rf_desc_count(&call->in[0]) * (double)call->in[1].shape.dim[0]);
}

static rf_cost grad_cost(const rf_op_call *call)
{
    return rf_cost_of(call, 2 * (double)rf_desc_count(&call->in[0]) * (double)rf_desc_columns(&call->in[1]));
}

/* ---- kernels: a dispatch for each step and phase ---- */

static rf_row_job rnn_job(const rf_op_call *call, const rf_device_caps *caps, bool grad)
{
    const rf_rnn_attr *attr = call->attr;
    const uint64_t units = (uint64_t)call->in[1].shape.dim[0];
    rf_row_job job = { .shader = grad ? &rf_shader_rnn_grad : &rf_shader_rnn,
                       .local = rf_local_size(caps, caps->is_cpu ? 16 : 64),
                       .rows = (uint64_t)call->in[0].shape.dim[0],
                       .threads_per_row = units,
                       .loops = rf_row_loops(grad ? rf_rnn_gates(attr) * units : units, 1, 1),
                       .n_spec = 4,
                       .spec = { attr->kind, attr->reset_before, 0, rf_rnn_options(attr) } };
    rf_rnn_bind(&job, call, grad);
    if (grad) return job;
    if (rf_rnn_resets_before(attr))
        rf_row_job_tensor(&job, RF_BIND_WORKSPACE, 0, 2 * units * sizeof(float));
    else
        rf_row_job_tensor(&job, RF_BIND_OUTPUT, 0, rf_tensor_bytes(&call->out[0]) / job.rows);
    return job;
}

static double rnn_score(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    const rf_row_job job = rnn_job(call, caps, rf_rnn_is_grad(data));
    if (rf_tensor_bytes(&call->in[1]) > caps->max_storage_range) return RF_SCORE_NONE;
    return rf_row_job_score(&job, caps);
}

static rf_result rnn_plan(const rf_op_call *call, const rf_device_caps *caps, const void *data, rf_kernel_plan *plan)
{
    const rf_rnn_attr *attr = call->attr;
    const bool grad = rf_rnn_is_grad(data);
    rf_row_job job = rnn_job(call, caps, grad);
    const int64_t steps = call->in[grad ? 2 : 0].shape.dim[1];
    if (rf_rnn_resets_before(attr) && !grad) plan->workspace = job.rows * 2 * job.threads_per_row * sizeof(float);
    rf_push_rnn push = { .steps = (uint32_t)steps, .units = (uint32_t)job.threads_per_row };
    for (int64_t i = 0; i < steps; i++) {
        push.now = (uint32_t)rf_rnn_place(attr, steps, grad ? steps - 1 - i : i);
        push.flags = i == 0 ? RF_RNN_STEP_FIRST : 0;
        RF_ROW_JOB_PUSH(&job, push, rows);
        for (job.spec[2] = 0; job.spec[2] <= rf_rnn_resets_before(attr); job.spec[2]++)
            RF_TRY(rf_row_job_plan(&job, caps, plan));
        push.before = push.now;
    }
    if (!grad) return RF_OK;
    job.spec[2] = 0;
    push.flags = RF_RNN_STEP_FINISH;
    RF_ROW_JOB_PUSH(&job, push, rows);
    return rf_row_job_plan(&job, caps, plan);
}

static const rf_kernel kernels[] = { { "steps", rnn_score, rnn_plan } };
static const rf_kernel grad_kernels[] = { { "steps", rnn_score, rnn_plan, &(const bool){ true } } };
static const rf_kernel_list common = RF_KERNEL_LIST(kernels), grad_common = RF_KERNEL_LIST(grad_kernels);

/* ---- the ops ---- */

static const char *kind_name(uint32_t kind)
{
    static const char *const names[] = { "gru", "lstm", "simple" };
    return kind < RF_LENGTH(names) ? names[kind] : "?";
}

static const rf_attr_field fields[] = {
    RF_ATTR_NAMED(rf_rnn_attr, kind, RF_RNN_SIMPLE, kind_name),
    RF_ATTR_FLAG(rf_rnn_attr, reset_before),
    RF_ATTR_FLAG(rf_rnn_attr, backwards),
    RF_ATTR_FLAG(rf_rnn_attr, state),
    RF_ATTR_FLAG(rf_rnn_attr, mask),
};

const rf_op rf_op_rnn = {
    .name = "rnn",
    RF_ATTRIBUTES(rf_rnn_attr, fields),
    .min_in = 3,
    .max_in = 6,
    .n_out = 2,
    .unbatched_in = 1u << 1 | 1u << 2,
    .infer = rnn_infer,
    .gradient = rnn_gradient,
    .reference = rnn_reference,
    .cost = rnn_cost,
    .families = { &common, RF_SOFTWARE(&rf_rnn_cpu), RF_GPU(&rf_rnn_gpu) },
};

const rf_op rf_op_rnn_grad = {
    .name = "rnn_grad",
    RF_ATTRIBUTES(rf_rnn_attr, fields),
    .min_in = 5,
    .max_in = 7,
    .n_out = 3,
    .flags = RF_OP_NO_ONNX,
    .unbatched_in = 1u << 1,
    .infer = grad_infer,
    .reference = grad_reference,
    .cost = grad_cost,
    .families = { &grad_common, RF_SOFTWARE(&rf_rnn_grad_cpu), RF_GPU(&rf_rnn_grad_gpu) },
};
