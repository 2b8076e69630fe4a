/* SPDX-License-Identifier: Apache-2.0 */
#include "toy.h"

#include <math.h>

static size_t count_of(const rf_tensor_desc *desc)
{
    return (size_t)rf_shape_count(desc->shape);
}

/* ---- inference ---- */

static rf_result infer_same(rf_op_call *call)
{
    for (uint32_t i = 1; i < call->n_in; i++) {
        char a[64], b[64];
        if (!rf_shape_equal(call->in[i].shape, call->in[0].shape))
            return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "shapes %s and %s differ",
                           rf_shape_format(call->in[0].shape, a, sizeof(a)),
                           rf_shape_format(call->in[i].shape, b, sizeof(b)));
    }
    for (uint32_t i = 0; i < call->n_out; i++) call->out[i] = call->in[0];
    return RF_OK;
}

static rf_result infer_scalar(rf_op_call *call)
{
    call->out[0] = SCALAR;
    return RF_OK;
}

static rf_result infer_like(rf_op_call *call)
{
    call->out[0] = call->in[call->n_in - 1];
    if (call->op == &toy_reshape_like && count_of(&call->in[0]) != count_of(&call->in[1]))
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "element counts differ");
    return RF_OK;
}

static rf_result infer_flatten(rf_op_call *call)
{
    const int64_t rows = call->in[0].shape.dim[0];
    call->out[0] = F32(rows, rf_shape_count(call->in[0].shape) / rows);
    return RF_OK;
}

static rf_result infer_reshape(rf_op_call *call)
{
    call->out[0] = (rf_tensor_desc){ RF_F32, *(const rf_shape *)call->attr };
    if (count_of(&call->in[0]) != count_of(&call->out[0]))
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "toy_reshape: element counts differ");
    return RF_OK;
}

static rf_result infer_nothing(rf_op_call *call)
{
    (void)call;
    return RF_OK;
}

/* ---- references; all may work in place where the op says so ---- */

static rf_result run(const rf_op_call *call, void *const *in, void *const *out)
{
    const rf_op *op = call->op;
    const float *a = in[0], *b = call->n_in > 1 ? in[1] : NULL, *c = call->n_in > 2 ? in[2] : NULL;
    float *y = call->n_out > 0 ? out[0] : NULL, *z = call->n_out > 1 ? out[1] : NULL;
    float by = 0;
    if (op->attr_size == sizeof(by)) memcpy(&by, call->attr, sizeof(by));
    const size_t n = count_of(call->n_out > 0 ? &call->out[0] : &call->in[0]);
    if (op == &toy_sum) {
        double sum = 0;
        for (size_t i = 0; i < count_of(&call->in[0]); i++) sum += a[i];
        y[0] = (float)sum;
        return RF_OK;
    }
    for (size_t i = 0; i < n; i++) {
        if (op == &toy_add)
            y[i] = a[i] + b[i];
        else if (op == &toy_mul)
            y[i] = a[i] * b[i];
        else if (op == &toy_muladd)
            y[i] = a[i] * b[i] + c[i];
        else if (op == &toy_scale)
            y[i] = a[i] * by;
        else if (op == &toy_sin)
            y[i] = sinf(a[i]);
        else if (op == &toy_cos)
            y[i] = cosf(a[i]);
        else if (op == &toy_floor)
            y[i] = floorf(a[i]);
        else if (op == &toy_stop)
            y[i] = a[i];
        else if (op == &toy_square)
            y[i] = a[i] * a[i];
        else if (op == &toy_square_scale)
            y[i] = a[i] * a[i], z[i] = a[i] * by;
        else if (op == &toy_split)
            y[i] = 2 * a[i], z[i] = a[i] * a[i];
        else if (op == &toy_fan)
            for (uint32_t o = 0; o < call->n_out; o++) ((float *)out[o])[i] = (float)(o + 1) * a[i];
        else if (op == &toy_expand_like)
            y[i] = a[0];
        else if (op == &toy_fill_like)
            y[i] = by;
        else if (op == &toy_accumulate)
            ((float *)in[0])[i] += b[i];
        else
            return RF_FAIL(RF_ERROR_INTERNAL, "%s: has no reference", op->name);
    }
    return RF_OK;
}

/* ---- gradients ---- */

static rf_result add1(rf_graph *g, const rf_op *op, const void *attr, rf_value x, rf_value *out)
{
    return rf_graph_add(g, op, attr, &x, 1, out);
}

static rf_result add2(rf_graph *g, const rf_op *op, rf_value a, rf_value b, rf_value *out)
{
    return rf_graph_add(g, op, NULL, (rf_value[]){ a, b }, 2, out);
}

static rf_result fill_like(rf_graph *g, float value, rf_value like, rf_value *out)
{
    return add1(g, &toy_fill_like, &value, like, out);
}

static rf_result core_add(rf_graph *g, rf_value a, rf_value b, rf_value *out)
{
    return add2(g, &toy_add, a, b, out);
}

static rf_result core_alias(rf_graph *g, rf_value x, rf_value *out)
{
    return add2(g, &toy_reshape_like, x, x, out);
}

const rf_core_ops toy_core = { .add = core_add, .fill_like = fill_like, .alias = core_alias };

static rf_result grad_add(rf_grad_context *c)
{
    for (uint32_t i = 0; i < 2; i++) c->din[i] = c->dout[0];
    return RF_OK;
}

static rf_result grad_mul(rf_grad_context *c)
{
    for (uint32_t i = 0; i < 2; i++) {
        if (c->needed[i]) RF_TRY(add2(c->graph, &toy_mul, c->dout[0], c->in[1 - i], &c->din[i]));
    }
    return RF_OK;
}

static rf_result grad_scale(rf_grad_context *c)
{
    return add1(c->graph, &toy_scale, c->attr, c->dout[0], &c->din[0]);
}

static rf_result grad_sin(rf_grad_context *c)
{
    rf_value slope;
    RF_TRY(add1(c->graph, &toy_cos, NULL, c->in[0], &slope));
    return add2(c->graph, &toy_mul, c->dout[0], slope, &c->din[0]);
}

static rf_result grad_square_of(rf_grad_context *c, rf_value dy, rf_value *out)
{
    const float two = 2;
    rf_value slope;
    RF_TRY(add1(c->graph, &toy_scale, &two, c->in[0], &slope));
    return add2(c->graph, &toy_mul, dy, slope, out);
}

static rf_result grad_square(rf_grad_context *c)
{
    return grad_square_of(c, c->dout[0], &c->din[0]);
}

static rf_result grad_split(rf_grad_context *c)
{
    const float two = 2;
    rf_value first = 0, second = 0;
    if (c->dout[0]) RF_TRY(add1(c->graph, &toy_scale, &two, c->dout[0], &first));
    if (c->dout[1]) RF_TRY(grad_square_of(c, c->dout[1], &second));
    if (first && second) return add2(c->graph, &toy_add, first, second, &c->din[0]);
    c->din[0] = first ? first : second;
    return RF_OK;
}

static rf_result grad_fan(rf_grad_context *c)
{
    for (uint32_t o = 0; o < c->n_out; o++) {
        const float factor = (float)(o + 1);
        rf_value term;
        if (!c->dout[o]) continue;
        RF_TRY(add1(c->graph, &toy_scale, &factor, c->dout[o], &term));
        if (c->din[0]) RF_TRY(add2(c->graph, &toy_add, c->din[0], term, &term));
        c->din[0] = term;
    }
    return RF_OK;
}

static rf_result grad_sum(rf_grad_context *c)
{
    return add2(c->graph, &toy_expand_like, c->dout[0], c->in[0], &c->din[0]);
}

static rf_result grad_expand(rf_grad_context *c)
{
    return add1(c->graph, &toy_sum, NULL, c->dout[0], &c->din[0]);
}

static rf_result grad_view(rf_grad_context *c)
{
    return add2(c->graph, &toy_reshape_like, c->dout[0], c->in[0], &c->din[0]);
}

/* ---- fusion ---- */

static bool scale_absorbs(const rf_graph *g, rf_node producer, rf_node consumer, rf_fused *fused)
{
    const rf_node_info *p = &g->nodes.items[producer], *c = &g->nodes.items[consumer];
    if (c->op != &toy_scale) return false;
    float a, b;
    memcpy(&a, p->attr, sizeof(a));
    memcpy(&b, c->attr, sizeof(b));
    a *= b;
    fused->op = &toy_scale;
    fused->n_in = 1;
    fused->in[0] = p->in[0];
    memcpy(fused->attr, &a, sizeof(a));
    return true;
}

static bool mul_absorbs(const rf_graph *g, rf_node producer, rf_node consumer, rf_fused *fused)
{
    const rf_node_info *p = &g->nodes.items[producer], *c = &g->nodes.items[consumer];
    if (c->op != &toy_add) return false;
    fused->op = &toy_muladd;
    fused->n_in = 3;
    fused->in[0] = p->in[0];
    fused->in[1] = p->in[1];
    fused->in[2] = c->in[0] == p->out[0] ? c->in[1] : c->in[0];
    return true;
}

static bool square_absorbs_sibling(const rf_graph *g, rf_node self, rf_node other, rf_fused *fused, uint32_t *other_out)
{
    const rf_node_info *s = &g->nodes.items[self], *o = &g->nodes.items[other];
    if (o->op != &toy_scale || o->in[0] != s->in[0]) return false;
    fused->op = &toy_square_scale;
    fused->n_in = 1;
    fused->in[0] = s->in[0];
    memcpy(fused->attr, o->attr, sizeof(float));
    *other_out = 1;
    return true;
}

/* ---- the table ---- */

#define OP(id, ins, outs, inference, ...)                                                                              \
    const rf_op id = { .name = #id,                                                                                    \
                       .min_in = (ins),                                                                                \
                       .max_in = (ins),                                                                                \
                       .n_out = (outs),                                                                                \
                       .infer = inference,                                                                             \
                       .reference = run,                                                                               \
                       __VA_ARGS__ }
OP(toy_add, 2, 1, infer_same, .flags = RF_OP_INPLACE, .gradient = grad_add);
OP(toy_mul, 2, 1, infer_same, .flags = RF_OP_INPLACE, .gradient = grad_mul, .absorb_consumer = mul_absorbs);
OP(toy_muladd, 3, 1, infer_same, .flags = RF_OP_INPLACE);
OP(toy_scale, 1, 1, infer_same, .flags = RF_OP_INPLACE, .attr_size = sizeof(float), .gradient = grad_scale,
   .absorb_consumer = scale_absorbs);
OP(toy_sin, 1, 1, infer_same, .gradient = grad_sin);
OP(toy_cos, 1, 1, infer_same, .flags = RF_OP_INPLACE);
OP(toy_square, 1, 1, infer_same, .gradient = grad_square, .absorb_sibling = square_absorbs_sibling);
OP(toy_square_scale, 1, 2, infer_same, .attr_size = sizeof(float));
OP(toy_split, 1, 2, infer_same, .gradient = grad_split);
OP(toy_fan, 1, RF_MAX_OUTPUTS, infer_same, .gradient = grad_fan);
OP(toy_sum, 1, 1, infer_scalar, .gradient = grad_sum);
OP(toy_expand_like, 2, 1, infer_like, .shape_only = 2, .gradient = grad_expand);
OP(toy_fill_like, 1, 1, infer_like, .shape_only = 1, .attr_size = sizeof(float), .flags = RF_OP_NO_GRADIENT);
OP(toy_flatten, 1, 1, infer_flatten, .flags = RF_OP_VIEW, .gradient = grad_view);
OP(toy_reshape_like, 2, 1, infer_like, .flags = RF_OP_VIEW, .shape_only = 2, .gradient = grad_view);
OP(toy_reshape, 1, 1, infer_reshape, .flags = RF_OP_VIEW, .attr_size = sizeof(rf_shape), .gradient = grad_view);
OP(toy_floor, 1, 1, infer_same, .gradient = NULL);
OP(toy_stop, 1, 1, infer_same, .flags = RF_OP_NO_GRADIENT);
OP(toy_accumulate, 2, 0, infer_nothing, .mutates = 1);

/* ---- building ---- */

rf_graph *toy_graph(rf_value *x, rf_value *w)
{
    static const char object;
    rf_graph *g;
    OK(rf_graph_create(&toy_core, &g));
    OK(rf_graph_input(g, 0, F32(2, 2), x));
    OK(rf_graph_state(g, &object, F32(2, 2), "w", w));
    return g;
}

rf_value toy1(rf_graph *g, const rf_op *op, rf_value x)
{
    rf_value out[RF_MAX_OUTPUTS] = { 0 };
    OK(rf_graph_add(g, op, NULL, &x, 1, out));
    return out[0];
}

rf_value toy2(rf_graph *g, const rf_op *op, rf_value a, rf_value b)
{
    rf_value out[RF_MAX_OUTPUTS] = { 0 };
    OK(rf_graph_add(g, op, NULL, (rf_value[]){ a, b }, 2, out));
    return out[0];
}

rf_value toy_scaled(rf_graph *g, rf_value x, float by)
{
    rf_value out;
    OK(rf_graph_add(g, &toy_scale, &by, &x, 1, &out));
    return out;
}

void toy_accumulated(rf_graph *g, rf_value state, rf_value x)
{
    OK(rf_graph_add(g, &toy_accumulate, NULL, (rf_value[]){ state, x }, 2, NULL));
}

uint32_t toy_live_nodes(const rf_graph *g)
{
    uint32_t live = 0;
    for (uint32_t n = 0; n < g->nodes.count; n++) live += !g->nodes.items[n].dead;
    return live;
}

uint32_t toy_count(const rf_graph *g, const rf_op *op)
{
    uint32_t count = 0;
    for (uint32_t n = 0; n < g->nodes.count; n++) count += !g->nodes.items[n].dead && g->nodes.items[n].op == op;
    return count;
}

void toy_check_order(const rf_graph *g)
{
    uint32_t *uses = test_calloc(g->values.count, sizeof(*uses));
    for (uint32_t n = 0; n < g->nodes.count; n++) {
        const rf_node_info *node = &g->nodes.items[n];
        if (node->dead) continue;
        for (uint32_t i = 0; i < node->n_in; i++) {
            const rf_value_info *value = &g->values.items[node->in[i]];
            if (value->kind == RF_VALUE_RESULT) {
                assert_true(value->producer < n);
                assert_false(g->nodes.items[value->producer].dead);
                assert_int_equal(node->in[i], g->nodes.items[value->producer].out[value->slot]);
            }
            bool again = false;
            for (uint32_t j = 0; j < i; j++) again = again || node->in[j] == node->in[i];
            uses[node->in[i]] += !again;
        }
        for (uint32_t i = 0; i < node->n_out; i++) {
            assert_int_equal(n, g->values.items[node->out[i]].producer);
            assert_int_equal(i, g->values.items[node->out[i]].slot);
        }
    }
    for (uint32_t v = 1; v < g->values.count; v++) assert_int_equal(uses[v], rf_graph_num_uses(g, v));
    test_free(uses);
}

static rf_value pick(rf_rng *rng, const rf_value *values, uint32_t count)
{
    /* Mostly something recent, so that lifetimes are of all lengths. */
    const uint64_t back = rf_rng_below(rng, 4) ? rf_rng_below(rng, count < 8 ? count : 8) : rf_rng_below(rng, count);
    return values[count - 1 - back];
}

rf_graph *toy_random(rf_rng *rng, uint32_t nodes, int64_t batch, rf_value *results, uint32_t num_results)
{
    static const char objects[2];
    static const rf_op *const unary[] = {
        &toy_sin, &toy_square, &toy_stop, &toy_split, &toy_floor, &toy_cos, &toy_fan
    };
    rf_graph *g;
    OK(rf_graph_create(&toy_core, &g));
    rf_value *values = test_calloc(nodes * RF_MAX_OUTPUTS + 16, sizeof(*values)); /* of shape [batch, 3] */
    uint32_t count = 0;
    rf_value states[2];
    for (uint32_t i = 0; i < 2; i++) {
        OK(rf_graph_input(g, i, F32(batch, 3), &values[count++]));
        OK(rf_graph_state(g, &objects[i], F32(batch, 3), i ? "second" : "first", &states[i]));
        values[count++] = states[i];
    }
    while (g->nodes.count < nodes) {
        const rf_value a = pick(rng, values, count), b = pick(rng, values, count);
        rf_value out[RF_MAX_OUTPUTS] = { 0 };
        switch (rf_rng_below(rng, 9)) {
        case 0:
        case 1: out[0] = toy2(g, &toy_add, rf_rng_below(rng, 2) ? toy2(g, &toy_mul, a, b) : a, b); break;
        case 2: out[0] = toy2(g, &toy_mul, a, b); break;
        case 3:
        case 4: out[0] = toy_scaled(g, a, (float)rf_rng_below(rng, 3) - 1.0f); break;
        case 5:
            out[0] = toy1(g, &toy_flatten, a);
            if (rf_rng_below(rng, 2)) out[1] = toy1(g, &toy_square, out[0]);
            if (out[1]) out[0] = toy_scaled(g, out[0], -1);
            break;
        case 6: out[0] = toy2(g, &toy_expand_like, toy1(g, &toy_sum, a), b); break;
        case 7:
            if (rf_rng_below(rng, 2))
                toy_accumulated(g, states[rf_rng_below(rng, 2)], toy1(g, &toy_sin, a));
            else
                out[0] = toy1(g, &toy_square, toy1(g, &toy_sin, states[rf_rng_below(rng, 2)]));
            break;
        default:
            OK(rf_graph_add(g, unary[rf_rng_below(rng, sizeof(unary) / sizeof(unary[0]))], NULL, &a, 1, out));
            break;
        }
        for (uint32_t i = 0; i < RF_MAX_OUTPUTS; i++) {
            if (out[i]) values[count++] = out[i];
        }
    }
    for (uint32_t i = 0; i < num_results; i++) results[i] = pick(rng, values, count);
    test_free(values);
    return g;
}

void **toy_fill_leaves(const rf_graph *g, rf_arena *arena, uint64_t seed)
{
    void **values = rf_arena_alloc(arena, g->values.count * sizeof(*values));
    assert_non_null(values);
    for (uint32_t v = 1; v < g->values.count; v++) {
        const rf_value_info *value = &g->values.items[v];
        if (value->kind == RF_VALUE_RESULT || value->kind == RF_VALUE_CONSTANT || value->kind == RF_VALUE_NONE)
            continue;
        const size_t n = count_of(&value->desc);
        float *data = rf_arena_alloc(arena, n * sizeof(float) + 1);
        assert_non_null(data);
        rf_rng rng = { .key = rf_hash64(seed, v) };
        for (size_t i = 0; i < n; i++) data[i] = rf_rng_uniform(&rng) * 2 - 1;
        values[v] = data;
    }
    return values;
}
