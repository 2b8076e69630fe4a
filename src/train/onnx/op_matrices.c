/* SPDX-License-Identifier: Apache-2.0 */
/* Products, norms of rows and recurrent layers of ONNX. */
#include <string.h>

#include "trace/trace.h"
#include "train/onnx/op.h"

#define X rf_import_float_of(c, 0)
#define NUM(value) rf_import_scalar(c, value)

/* ---- products ---- */

static void matmul_trace(rf_import_call *c)
{
    rf_tensor a = X, b = rf_import_float_of(c, 1);
    const int32_t rank_a = rf_tensor_shape(c->t, a).rank, rank_b = rf_tensor_shape(c->t, b).rank;
    if (rank_a == 1) a = rf_expand_dims(c->t, a, 0);
    if (rank_b == 1) b = rf_expand_dims(c->t, b, 1);
    rf_tensor y = rf_matmul(c->t, a, b, RF_TRANSPOSE_NONE);
    if (rank_b == 1) y = rf_squeeze(c->t, y, -1);
    if (rank_a == 1) y = rf_squeeze(c->t, y, rank_b == 1 ? -1 : -2);
    c->out[0] = rf_import_back(c, 0, y);
}

static void gemm_trace(rf_import_call *c)
{
    const int transpose =
        (rf_import_int(c, "transA", 0) ? RF_TRANSPOSE_A : 0) | (rf_import_int(c, "transB", 0) ? RF_TRANSPOSE_B : 0);
    const double alpha = rf_import_real(c, "alpha", 1), beta = rf_import_real(c, "beta", 1);
    rf_tensor y = rf_matmul(c->t, X, rf_import_float_of(c, 1), (rf_matmul_transpose)transpose);
    if (alpha != 1) y = rf_multiply(c->t, y, NUM(alpha));
    if (rf_import_has(c, 2) && beta != 0) {
        rf_tensor add = rf_import_float_of(c, 2);
        if (beta != 1) add = rf_multiply(c->t, add, NUM(beta));
        y = rf_add(c->t, y, add);
    }
    c->out[0] = y;
}

static void einsum_trace(rf_import_call *c)
{
    rf_tensor in[RF_IMPORT_MOST_OPERANDS];
    char equation[128];
    size_t length = 0;
    for (const char *at = rf_import_text(c, "equation", ""); *at && length < sizeof(equation) - 1; at++)
        if (*at != ' ') equation[length++] = *at;
    equation[length] = 0;
    for (uint32_t i = 0; i < c->num_in; i++) in[i] = rf_import_float_of(c, i);
    c->out[0] = rf_einsum(c->t, equation, in, c->num_in);
}

/* ---- norms ---- */

static float epsilon_of(rf_import_call *c)
{
    const double epsilon = rf_import_real(c, "epsilon", 1e-5);
    return epsilon == 0 ? RF_ZERO : (float)epsilon;
}

/* Mean, and 1 by the deviation, of rows. */
static void moments_trace(rf_import_call *c, rf_tensor x, int64_t axis)
{
    const int32_t rank = rf_tensor_shape(c->t, x).rank;
    int32_t axes[RF_MAX_RANK];
    rf_tensor mean, variance;
    for (int32_t d = (int32_t)axis; d < rank; d++) axes[d - axis] = d;
    if (rf_moments(c->t, x, axes, (uint32_t)(rank - axis), RF_KEEP_DIMS, &mean, &variance) < 0) return;
    c->out[1] = mean;
    if (c->num_out > 2) c->out[2] = rf_rsqrt(c->t, rf_add(c->t, variance, NUM(rf_import_real(c, "epsilon", 1e-5))));
}

/* All axes from the given one on are one row. */
static void layer_norm_trace(rf_import_call *c)
{
    const rf_tensor x = X, none = { 0 };
    const rf_shape shape = rf_tensor_shape(c->t, x);
    int64_t axis = rf_import_int(c, "axis", -1);
    if (axis < 0) axis += shape.rank;
    if (axis < 0 || axis >= shape.rank) rf_import_call_fail(c, "has an axis that its operand lacks");
    if (rf_trace_status(c->t) < 0) return;
    rf_tensor v[2] = { none, none };
    for (uint32_t i = 0; i < 2; i++) {
        if (!rf_import_has(c, 1 + i)) continue;
        v[i] = rf_import_float_of(c, 1 + i);
        if (rf_tensor_shape(c->t, v[i]).rank != 1) v[i] = rf_reshape(c->t, v[i], RF_SHAPE(-1));
    }
    rf_size sizes[RF_MAX_RANK], back[RF_MAX_RANK];
    for (int32_t d = 0; d < axis; d++) sizes[d] = rf_size_of(x, d, 1);
    sizes[axis] = rf_size_of(x, (int32_t)axis, shape.rank - (int32_t)axis);
    const uint32_t rank = rf_sizes_of(c->t, x, 0, back);
    const rf_tensor rows = axis == shape.rank - 1 ? x : rf_regroup(c->t, x, sizes, (uint32_t)axis + 1);
    const bool rms = strcmp(c->op, "RmsNorm") == 0;
    const rf_tensor y =
        rms ? rf_rms_norm(c->t, rows, v[0], epsilon_of(c)) : rf_layer_norm(c->t, rows, v[0], v[1], epsilon_of(c));
    c->out[0] = axis == shape.rank - 1 ? y : rf_regroup(c->t, y, back, rank);
    if (c->num_out > 1) moments_trace(c, x, axis);
}

static void lp_norm_trace(rf_import_call *c)
{
    const rf_tensor x = X;
    const int32_t axis = rf_import_axis(c, rf_import_int(c, "axis", -1), rf_tensor_shape(c->t, x).rank);
    if (axis < 0) return;
    const bool one = rf_import_int(c, "p", 2) == 1;
    const rf_tensor sum = rf_reduce_sum(c->t, one ? rf_abs(c->t, x) : rf_square(c->t, x), &axis, 1, RF_KEEP_DIMS);
    c->out[0] = rf_divide_no_nan(c->t, x, one ? sum : rf_sqrt(c->t, sum));
}

/* ---- recurrent layers ---- */

typedef struct recurrent {
    rf_rnn_kind kind;
    int64_t gates, units;
    bool reset_before;
    rf_tensor mask; /* [n, steps] */
} recurrent;

/* Our gates in the file's order: its LSTM has the output gate second. */
static int64_t gate_there(const recurrent *r, int64_t i)
{
    static const int64_t lstm[] = { 0, 2, 3, 1 };
    return r->kind == RF_RNN_LSTM ? lstm[i] : i;
}

/* Rows of gates, of the first axis, in our order. */
static rf_tensor order_gates(rf_import_call *c, const recurrent *r, rf_tensor x)
{
    if (r->kind != RF_RNN_LSTM) return x;
    rf_tensor parts[4];
    for (int64_t i = 0; i < 4; i++) {
        const int64_t begin = gate_there(r, i) * r->units, end = begin + r->units;
        parts[i] = rf_slice(c->t, x, &begin, &end, NULL, 1);
    }
    return rf_concat(c->t, parts, 4, 0);
}

/* The part of one direction, without its axis. */
static rf_tensor direction_of(rf_import_call *c, rf_tensor x, int64_t direction)
{
    const int64_t end = direction + 1;
    return rf_squeeze(c->t, rf_slice(c->t, x, &direction, &end, NULL, 1), 0);
}

/* A kernel of numbers that only puts columns into another order. False: it does more. */
static bool find_order(const rf_import_call *c, const recurrent *r, int32_t *order)
{
    const rf_import_operand *o = &c->in[1];
    const int64_t width = r->gates * r->units;
    if (o->tensor.id || o->shape.rank != 3 || o->shape.dim[0] != 1 || o->shape.dim[1] != width ||
        o->shape.dim[2] != width)
        return false;
    for (int64_t i = 0; i < width; i++) {
        const int64_t row = gate_there(r, i / r->units) * r->units + i % r->units;
        order[i] = -1;
        for (int64_t k = 0; k < width; k++) {
            const double value = o->numbers[row * width + k];
            if (value == 0) continue;
            if (value != 1 || order[i] >= 0) return false;
            order[i] = (int32_t)k;
        }
        if (order[i] < 0) return false;
    }
    return true;
}

/* x [n, steps, in] times the kernel: [n, steps, gates * units]. */
static rf_tensor times_kernel(rf_import_call *c, const recurrent *r, rf_tensor x, int64_t direction)
{
    const int64_t width = r->gates * r->units;
    int32_t *order = rf_arena_alloc(&c->arena, (size_t)width * sizeof(*order));
    bool same = order && find_order(c, r, order);
    if (same) {
        for (int64_t i = 0; i < width; i++) same = same && order[i] == i;
        if (same) return x;
        return rf_gather(c->t, x, rf_constant_array(c->t, &(rf_array){ RF_I32, RF_SHAPE(width), order }), 2);
    }
    const rf_tensor kernel = order_gates(c, r, direction_of(c, rf_import_float_of(c, 1), direction));
    return rf_matmul(c->t, x, kernel, RF_TRANSPOSE_B);
}

/* The biases of x and of the state, which a GRU that resets after its product keeps apart. */
static void add_biases(rf_import_call *c, const recurrent *r, int64_t direction, rf_tensor *x, rf_tensor *of_state)
{
    const int64_t width = r->gates * r->units, zero = 0, end = 2 * width;
    *of_state = (rf_tensor){ 0 };
    if (!rf_import_has(c, 3)) return;
    const rf_tensor both = direction_of(c, rf_import_float_of(c, 3), direction);
    const rf_tensor own = order_gates(c, r, rf_slice(c->t, both, &zero, &width, NULL, 1));
    const rf_tensor state = order_gates(c, r, rf_slice(c->t, both, &width, &end, NULL, 1));
    if (r->kind == RF_RNN_GRU && !r->reset_before) {
        *x = rf_bias_add(c->t, *x, own);
        *of_state = state;
    } else {
        *x = rf_bias_add(c->t, *x, rf_add(c->t, own, state));
    }
}

static void one_direction(rf_import_call *c, const recurrent *r, rf_tensor x, int64_t direction, bool backwards,
                          rf_tensor *sequence, rf_tensor final[2])
{
    rf_tensor state[2] = { { 0 }, { 0 } }, bias, y = times_kernel(c, r, x, direction);
    add_biases(c, r, direction, &y, &bias);
    const rf_tensor rows = order_gates(c, r, direction_of(c, rf_import_float_of(c, 2), direction));
    static const int32_t turn[] = { 1, 0 };
    for (uint32_t i = 0; i < (r->kind == RF_RNN_LSTM ? 2u : 1u); i++)
        if (rf_import_has(c, 5 + i)) state[i] = direction_of(c, rf_import_float_of(c, 5 + i), direction);
    if (r->kind == RF_RNN_LSTM && (state[0].id == 0) != (state[1].id == 0)) {
        const int known = state[0].id ? 0 : 1;
        state[1 - known] = rf_multiply_no_nan(c->t, state[known], NUM(0));
    }
    const rf_rnn_params params = {
        .kind = r->kind, .reset_before = r->reset_before, .backwards = backwards, .mask = r->mask
    };
    (void)rf_rnn(c->t, y, rf_transpose(c->t, rows, turn), bias, state, &params, sequence, final);
}

/* 1 for the steps that sequences have, which are counted by an operand. */
static rf_tensor mask_of(rf_import_call *c, rf_tensor x)
{
    const int64_t steps = rf_tensor_shape(c->t, x).dim[1];
    if (!rf_import_has(c, 4)) return (rf_tensor){ 0 };
    const rf_tensor length = rf_expand_dims(c->t, rf_import_float_of(c, 4), 1);
    return rf_compare(c->t, RF_LESS, rf_positions(c->t, steps, RF_SHAPE(1, steps)), length);
}

static bool read_recurrent(rf_import_call *c, recurrent *r)
{
    r->kind = c->op[0] == 'G' ? RF_RNN_GRU : c->op[0] == 'L' ? RF_RNN_LSTM : RF_RNN_SIMPLE;
    r->gates = r->kind == RF_RNN_GRU ? 3 : r->kind == RF_RNN_LSTM ? 4 : 1;
    r->reset_before = r->kind == RF_RNN_GRU && !rf_import_int(c, "linear_before_reset", 0);
    const rf_shape shape = rf_import_shape_of_operand(c, 2);
    r->units = shape.rank == 3 ? shape.dim[2] : 0;
    if (json_object_get(c->attributes, "clip")) rf_import_call_fail(c, "has clip, which is not there");
    if (rf_import_int(c, "input_forget", 0)) rf_import_call_fail(c, "has input_forget, which is not there");
    if (rf_import_has(c, 7)) rf_import_call_fail(c, "has peepholes, which are not there");
    if (rf_import_int(c, "own_activations", 0)) rf_import_call_fail(c, "has other activations than the usual ones");
    if (r->units < 1 || shape.dim[1] != r->gates * r->units)
        rf_import_call_fail(c, "has a recurrent kernel that is none");
    return rf_trace_status(c->t) >= 0;
}

static void recurrent_trace(rf_import_call *c)
{
    static const int32_t exchange[] = { 1, 0, 2 };
    recurrent r = { 0 };
    rf_tensor x = X, sequence[2], final[2][2];
    if (!read_recurrent(c, &r)) return;
    const bool batch_first = rf_import_int(c, "layout", 0);
    const char *direction = rf_import_text(c, "direction", "forward");
    const uint32_t count = strcmp(direction, "bidirectional") == 0 ? 2 : 1;
    if (batch_first && (rf_import_has(c, 5) || rf_import_has(c, 6)))
        rf_import_call_fail(c, "has states with the batch first");
    if (!batch_first) x = rf_transpose(c->t, x, exchange);
    r.mask = mask_of(c, x);
    for (uint32_t d = 0; d < count; d++) {
        const bool backwards = count == 2 ? d == 1 : strcmp(direction, "reverse") == 0;
        one_direction(c, &r, x, d, backwards, &sequence[d], final[d]);
        if (r.mask.id) sequence[d] = rf_multiply(c->t, sequence[d], rf_expand_dims(c->t, r.mask, 2));
        if (!batch_first) sequence[d] = rf_transpose(c->t, sequence[d], exchange);
        sequence[d] = rf_expand_dims(c->t, sequence[d], batch_first ? 2 : 1);
        for (int k = 0; k < (r.kind == RF_RNN_LSTM ? 2 : 1); k++)
            final[d][k] = rf_expand_dims(c->t, final[d][k], batch_first ? 1 : 0);
    }
    c->out[0] = count == 1 ? sequence[0] : rf_concat(c->t, sequence, 2, batch_first ? 2 : 1);
    for (uint32_t k = 0; k + 1 < c->num_out; k++) {
        const rf_tensor both[] = { final[0][k], count == 2 ? final[1][k] : final[0][k] };
        c->out[1 + k] = count == 1 ? final[0][k] : rf_concat(c->t, both, 2, batch_first ? 1 : 0);
    }
}

#define P(name, fn, in_least, in_most, out, rank)                                                                      \
    {                                                                                                                  \
        name, fn, RF_IMPORT_PLAIN, in_least, in_most, out, rank, 0                                                     \
    }
static const rf_import_op ops[] = {
    P("MatMul", matmul_trace, 2, 2, 1, RF_IMPORT_RANK_SPECIAL),
    P("Gemm", gemm_trace, 2, 3, 1, RF_IMPORT_RANK_SAME),
    P("Einsum", einsum_trace, 1, 8, 1, RF_IMPORT_RANK_SPECIAL),
    P("LayerNormalization", layer_norm_trace, 1, 3, 3, RF_IMPORT_RANK_SAME),
    P("RmsNorm", layer_norm_trace, 1, 2, 1, RF_IMPORT_RANK_SAME),
    { "LpNormalization", lp_norm_trace, RF_IMPORT_AXES, 1, 1, 1, RF_IMPORT_RANK_SAME, 0 },
    P("LSTM", recurrent_trace, 3, 8, 3, RF_IMPORT_RANK_SPECIAL),
    P("GRU", recurrent_trace, 3, 6, 2, RF_IMPORT_RANK_SPECIAL),
    P("RNN", recurrent_trace, 3, 6, 2, RF_IMPORT_RANK_SPECIAL),
};
const rf_import_op_list rf_import_matrix_ops = { ops, sizeof(ops) / sizeof(ops[0]) };
