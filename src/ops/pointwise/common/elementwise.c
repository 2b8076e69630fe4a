/* SPDX-License-Identifier: Apache-2.0 */
/* The element-wise op: a short program of scalar functions per element. Inference, gradient, reference, cost and
 * fusion. */
#include "ops/pointwise/common/elementwise.h"
#include "ops/pointwise/cpu/cpu.h"

#include <math.h>
#include <string.h>

#include "ops/kit.h"

static rf_result check_program(const rf_elementwise_attr *attr, uint32_t n_in)
{
    if (attr->n_steps < 1 || attr->n_steps > RF_MAX_STEPS)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "elementwise: a program has 1 to %d steps, not %u", RF_MAX_STEPS,
                       attr->n_steps);
    for (uint32_t i = 0; i < attr->n_steps; i++) {
        const rf_scalar_step *s = &attr->steps[i];
        if (s->fn >= RF_FN_COUNT)
            return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "elementwise: step %u has the unknown function %u", i, s->fn);
        if (s->a >= n_in + i || (rf_scalar_table[s->fn].arity == 2 && s->b >= n_in + i))
            return RF_FAIL(RF_ERROR_INVALID_ARGUMENT,
                           "elementwise: step %u (%s) reads a register that has not been written yet", i,
                           rf_scalar_table[s->fn].name);
        if (rf_scalar_takes_i32(s->fn) && (s->a >= n_in || s->b >= n_in))
            return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "elementwise: step %u (%s) reads a result, which is not i32", i,
                           rf_scalar_table[s->fn].name);
        if (rf_scalar_table[s->fn].lone && attr->n_steps > 1)
            return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "elementwise: %s is one of %u steps; it must be the only one",
                           rf_scalar_table[s->fn].name, attr->n_steps);
    }
    return RF_OK;
}

static bool has_lone_step(const rf_elementwise_attr *attr)
{
    bool found = false;
    for (uint32_t i = 0; i < attr->n_steps; i++) found |= rf_scalar_table[attr->steps[i].fn].lone;
    return found && attr->n_steps > 1;
}

/* The type that a program's steps take an input to be of; one that none reads is f32. */
static rf_result input_dtype(const rf_elementwise_attr *attr, uint32_t input, rf_dtype *out)
{
    bool taken[2] = { false, false }; /* as f32, as i32 */
    for (uint32_t i = 0; i < attr->n_steps; i++) {
        const rf_scalar_step *s = &attr->steps[i];
        if (s->a == input || (rf_scalar_table[s->fn].arity == 2 && s->b == input))
            taken[rf_scalar_takes_i32(s->fn)] = true;
    }
    *out = taken[1] ? RF_I32 : RF_F32;
    return taken[0] && taken[1]
               ? RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "elementwise: input %u is read as f32 and as i32", input)
               : RF_OK;
}

/* The op's name in messages: its only function, or the op itself. */
static const char *call_name(const rf_elementwise_attr *attr)
{
    return attr->n_steps == 1 && attr->steps[0].fn < RF_FN_COUNT ? rf_scalar_table[attr->steps[0].fn].name
                                                                 : "elementwise";
}

static rf_result elementwise_infer(rf_op_call *call)
{
    const rf_elementwise_attr *attr = call->attr;
    RF_TRY(check_program(attr, call->n_in));
    rf_shape shape = call->in[0].shape;
    for (uint32_t i = 0; i < call->n_in; i++) {
        rf_dtype needed;
        RF_TRY(input_dtype(attr, i, &needed));
        if (call->in[i].dtype != needed)
            return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s: operand %u is %s, not %s; cast it first", call_name(attr), i,
                           rf_dtype_name(call->in[i].dtype), rf_dtype_name(needed));
        RF_TRY(rf_broadcast_shape(call_name(attr), shape, call->in[i].shape, &shape));
    }
    call->out[0] = (rf_tensor_desc){ RF_F32, shape };
    return RF_OK;
}

/* ---- gradient ---- */

/* Emits d loss / d operand: `program` over dy, a, b, y, without the registers that it does not read. */
static rf_result emit_derivative(rf_graph *g, const rf_scalar_derivative *program, const rf_scalar_step *of,
                                 const rf_value reg[4], rf_value *out)
{
    if (program->n_steps == 0) {
        *out = reg[RF_REG_DY];
        return RF_OK;
    }
    uint32_t map[RF_REG_STEP + RF_MAX_STEPS], n_in = 0;
    rf_value in[4];
    for (uint32_t r = 0; r < RF_REG_STEP; r++) {
        bool used = false;
        for (uint32_t i = 0; i < program->n_steps; i++) {
            const rf_scalar_step *s = &program->steps[i];
            used |= s->a == r || (rf_scalar_table[s->fn].arity == 2 && s->b == r);
        }
        uint32_t k = 0;
        while (used && k < n_in && in[k] != reg[r]) k++;
        if (used && k == n_in) in[n_in++] = reg[r];
        map[r] = k;
    }
    for (uint32_t i = 0; i < program->n_steps; i++) map[RF_REG_STEP + i] = n_in + i;
    rf_elementwise_attr attr = { .n_steps = program->n_steps };
    for (uint32_t i = 0; i < program->n_steps; i++) {
        const rf_scalar_step *s = &program->steps[i];
        attr.steps[i] = (rf_scalar_step){ .fn = s->fn,
                                          .a = (uint8_t)map[s->a],
                                          .b = rf_scalar_table[s->fn].arity == 2 ? (uint8_t)map[s->b] : 0,
                                          .imm = isnan(s->imm) ? of->imm : s->imm };
    }
    if (!has_lone_step(&attr)) return rf_graph_add(g, &rf_op_elementwise, &attr, in, n_in, out);
    rf_value value[RF_REG_STEP + RF_MAX_STEPS];
    memcpy(value, in, n_in * sizeof(*value));
    for (uint32_t i = 0; i < attr.n_steps; i++) {
        const rf_scalar_step *s = &attr.steps[i];
        if (rf_scalar_table[s->fn].arity == 2)
            RF_TRY(rf_emit_binary(g, s->fn, s->imm, value[s->a], value[s->b], &value[n_in + i]));
        else
            RF_TRY(rf_emit_unary(g, s->fn, s->imm, value[s->a], &value[n_in + i]));
    }
    *out = value[n_in + attr.n_steps - 1];
    return RF_OK;
}

/* ---- gradients of what a choice does not take ---- */

/* 0 stays 0 whatever the operands are. */
static bool keeps_zero(const rf_graph *g, const rf_scalar_derivative *program, const rf_value reg[4])
{
    if (program->n_steps == 0) return true;
    if (program->n_steps > 1) return false;
    switch (program->steps[0].fn) {
    case RF_FN_NEGATIVE:
    case RF_FN_MUL_IMM:
    case RF_FN_WHERE:
    case RF_FN_WHERE_NOT: return true;
    case RF_FN_MULTIPLY: return g->values.items[reg[program->steps[0].b]].kind == RF_VALUE_CONSTANT;
    default: return false;
    }
}

/* Functions of elements, sums and views: where all is 0 that flows in, 0 flows out. Gradients read that first. */
static bool passes_zeros(const rf_op *op)
{
    static const rf_op *const ops[] = {
        &rf_op_elementwise, &rf_op_sum_to_like, &rf_op_broadcast_like, &rf_op_reshape_like, &rf_op_mean_scale,
        &rf_op_reshape,     &rf_op_transpose,   &rf_op_expand_dims,    &rf_op_squeeze,      &rf_op_cast,
    };
    for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++)
        if (op == ops[i]) return true;
    return false;
}

/* Whether a gradient has come from choices (rf_where()) alone: where it is 0, nothing is taken. seen[v]: the answer for
 * v is no other than that for the rest. */
static bool comes_from_choices(const rf_graph *g, rf_value gradient, bool *seen)
{
    while (!seen[gradient]) {
        const rf_value_info *info = &g->values.items[gradient];
        if (info->kind != RF_VALUE_RESULT) return false;
        const rf_node_info *node = &g->nodes.items[info->producer];
        if (!passes_zeros(node->op)) return false;
        seen[gradient] = true;
        if (node->op == &rf_op_elementwise) {
            const rf_elementwise_attr *program = node->attr;
            const uint8_t last = program->steps[program->n_steps - 1].fn;
            if (last == RF_FN_WHERE || last == RF_FN_WHERE_NOT) return true;
            if (last == RF_FN_ADD && node->n_in > 1 && !comes_from_choices(g, node->in[1], seen)) return false;
        }
        gradient = node->in[0];
    }
    return true;
}

/* d loss / d operand. The slope of what is not taken may be infinite or NaN, as that of a root at 0, and is left out.
 */
static rf_result emit_contribution(rf_graph *g, const rf_scalar_derivative *program, const rf_scalar_step *of,
                                   const rf_value reg[4], rf_value *out)
{
    RF_TRY(emit_derivative(g, program, of, reg, out));
    if (keeps_zero(g, program, reg)) return RF_OK;
    bool *seen = rf_calloc(g->values.count, sizeof(*seen));
    if (!seen) return RF_ERROR_OUT_OF_HOST_MEMORY;
    const bool chosen = comes_from_choices(g, reg[RF_REG_DY], seen);
    rf_free(seen);
    return chosen ? rf_emit_binary(g, RF_FN_WHERE, 0, reg[RF_REG_DY], *out, out) : RF_OK;
}

static rf_result sum_accumulate(rf_graph *g, rf_value *sum, rf_value term)
{
    if (!*sum) {
        *sum = term;
        return RF_OK;
    }
    return rf_emit_binary(g, RF_FN_ADD, 0, *sum, term, sum);
}

/* Reverse mode through the program (programs of one step, which traces are made of, need nothing computed again). */
static rf_result elementwise_gradient(rf_grad_context *ctx)
{
    const rf_elementwise_attr *attr = ctx->attr;
    const uint32_t n = attr->n_steps;
    rf_value reg[RF_MAX_INPUTS + RF_MAX_STEPS], dreg[RF_MAX_INPUTS + RF_MAX_STEPS] = { 0 };
    memcpy(reg, ctx->in, ctx->n_in * sizeof(*reg));
    for (uint32_t i = 0; i + 1 < n; i++) {
        const rf_scalar_step *s = &attr->steps[i];
        if (rf_scalar_table[s->fn].arity == 2)
            RF_TRY(rf_emit_binary(ctx->graph, s->fn, s->imm, reg[s->a], reg[s->b], &reg[ctx->n_in + i]));
        else
            RF_TRY(rf_emit_unary(ctx->graph, s->fn, s->imm, reg[s->a], &reg[ctx->n_in + i]));
    }
    reg[ctx->n_in + n - 1] = ctx->out[0];
    dreg[ctx->n_in + n - 1] = ctx->dout[0];

    bool wanted[RF_MAX_INPUTS + RF_MAX_STEPS] = { 0 };
    memcpy(wanted, ctx->needed, ctx->n_in * sizeof(*wanted));
    for (uint32_t i = 0; i < n; i++) {
        const rf_scalar_step *s = &attr->steps[i];
        wanted[ctx->n_in + i] = wanted[s->a] || (rf_scalar_table[s->fn].arity == 2 && wanted[s->b]);
    }
    for (uint32_t i = n; i-- > 0;) {
        const rf_scalar_step *s = &attr->steps[i];
        const rf_scalar_info *info = &rf_scalar_table[s->fn];
        const uint32_t y = ctx->n_in + i;
        if (!dreg[y]) continue;
        const uint32_t operand[2] = { s->a, s->b };
        const rf_value around[4] = { dreg[y], reg[s->a], info->arity == 2 ? reg[s->b] : 0, reg[y] };
        for (uint32_t k = 0; k < info->arity; k++) {
            const rf_scalar_derivative *d = &info->derivative[k];
            if (!wanted[operand[k]] || d->kind == RF_DERIVATIVE_ZERO) continue;
            if (d->kind == RF_DERIVATIVE_NONE) return RF_FAIL(RF_ERROR_NO_GRADIENT, "%s has no gradient", info->name);
            rf_value term;
            RF_TRY(emit_contribution(ctx->graph, d, s, around, &term));
            RF_TRY(rf_emit_sum_to_like(ctx->graph, term, reg[operand[k]], &term));
            RF_TRY(sum_accumulate(ctx->graph, &dreg[operand[k]], term));
        }
    }
    memcpy(ctx->din, dreg, ctx->n_in * sizeof(*dreg));
    return RF_OK;
}

/* ---- reference and cost ---- */

static rf_result elementwise_reference(const rf_op_call *call, void *const *in, void *const *out)
{
    const rf_elementwise_attr *attr = call->attr;
    const rf_shape *full = &call->out[0].shape;
    const int64_t count = rf_shape_count(*full);
    float *y = out[0];
    for (int64_t e = 0; e < count; e++) {
        double reg[RF_MAX_INPUTS + RF_MAX_STEPS];
        for (uint32_t i = 0; i < call->n_in; i++) {
            const rf_shape *shape = &call->in[i].shape;
            int64_t rest = e, index = 0, stride = 1;
            for (int32_t d = full->rank - 1; d >= 0; d--) {
                const int64_t at = rest % full->dim[d];
                rest /= full->dim[d];
                const int32_t own = d - (full->rank - shape->rank);
                if (own < 0 || shape->dim[own] == 1) continue;
                index += at * stride;
                stride *= shape->dim[own];
            }
            reg[i] = call->in[i].dtype == RF_I32 ? (double)((const int32_t *)in[i])[index]
                                                 : (double)((const float *)in[i])[index];
        }
        for (uint32_t i = 0; i < attr->n_steps; i++) {
            const rf_scalar_step *s = &attr->steps[i];
            reg[call->n_in + i] = rf_scalar_table[s->fn].reference(reg[s->a], reg[s->b], s->imm);
        }
        y[e] = (float)reg[call->n_in + attr->n_steps - 1];
    }
    return RF_OK;
}

static rf_cost elementwise_cost(const rf_op_call *call)
{
    const rf_elementwise_attr *attr = call->attr;
    return rf_cost_of(call, (double)attr->n_steps * (double)rf_desc_count(&call->out[0]));
}

/* ---- fusion ---- */

typedef struct builder {
    rf_fused *fused;
    rf_elementwise_attr attr;
} builder;

/* Registers while building: inputs below RF_MAX_INPUTS, steps from there on, so that adding an input moves nothing. */
static int add_input(builder *b, rf_value v)
{
    for (uint32_t i = 0; i < b->fused->n_in; i++)
        if (b->fused->in[i] == v) return (int)i;
    if (b->fused->n_in == RF_ELEMENTWISE_INPUTS) return -1;
    b->fused->in[b->fused->n_in] = v;
    return (int)b->fused->n_in++;
}

static int add_step(builder *b, rf_scalar_step step)
{
    if (step.fn == RF_FN_COPY) return step.a;
    for (uint32_t i = 0; i < b->attr.n_steps; i++)
        if (memcmp(&b->attr.steps[i], &step, sizeof(step)) == 0) return (int)(RF_MAX_INPUTS + i);
    if (b->attr.n_steps == RF_MAX_STEPS) return -1;
    b->attr.steps[b->attr.n_steps] = step;
    return (int)(RF_MAX_INPUTS + b->attr.n_steps++);
}

/* Appends a program whose inputs stand in the registers reg[0 .. n_in - 1]; gives the register of its result or -1. */
static int add_program(builder *b, const rf_elementwise_attr *attr, const int *in, uint32_t n_in)
{
    int reg[RF_MAX_INPUTS + RF_MAX_STEPS];
    memcpy(reg, in, n_in * sizeof(*reg));
    for (uint32_t i = 0; i < attr->n_steps; i++) {
        rf_scalar_step s = attr->steps[i];
        s.a = (uint8_t)reg[s.a];
        s.b = rf_scalar_table[s.fn].arity == 2 ? (uint8_t)reg[s.b] : 0;
        reg[n_in + i] = add_step(b, s);
        if (reg[n_in + i] < 0) return -1;
    }
    return reg[n_in + attr->n_steps - 1];
}

/* Brings the registers into the op's numbering, with the result last. */
static bool finish_program(builder *b, int result)
{
    if (result != (int)(RF_MAX_INPUTS + b->attr.n_steps) - 1) {
        /* The result existed already (a common subexpression, or a copy): a step of its own copies it. */
        if (b->attr.n_steps == RF_MAX_STEPS) return false;
        b->attr.steps[b->attr.n_steps++] = (rf_scalar_step){ .fn = RF_FN_COPY, .a = (uint8_t)result };
    }
    const uint32_t shift = RF_MAX_INPUTS - b->fused->n_in;
    for (uint32_t i = 0; i < b->attr.n_steps; i++) {
        rf_scalar_step *s = &b->attr.steps[i];
        if (s->a >= RF_MAX_INPUTS) s->a = (uint8_t)(s->a - shift);
        if (s->b >= RF_MAX_INPUTS) s->b = (uint8_t)(s->b - shift);
    }
    memcpy(b->fused->attr, &b->attr, sizeof(b->attr));
    return !has_lone_step(&b->attr);
}

/* The program of a node for its first *n_in inputs; NULL where it has none. */
static const rf_elementwise_attr *program_of(const rf_node_info *node, uint32_t *n_in)
{
    *n_in = node->op == &rf_op_broadcast_like ? 1 : node->n_in;
    if (node->op == &rf_op_elementwise) return node->attr;
    if (node->op == &rf_op_broadcast_like) return &rf_copy_program;
    return node->op == &rf_op_normalize ? rf_normalize_program(node->attr, n_in) : NULL;
}

/* Without a broadcast its source may be too small for what reads it. */
static bool has_shape(const rf_graph *graph, const rf_fused *fused, const rf_shape *full)
{
    rf_shape shape = { 0 };
    for (uint32_t i = 0; i < fused->n_in; i++) {
        const rf_shape own = rf_graph_desc(graph, fused->in[i])->shape, before = shape;
        if (rf_broadcast_shape("elementwise", before, own, &shape) < 0) return false;
    }
    return rf_shape_equal(shape, *full);
}

bool rf_elementwise_absorb(const rf_graph *graph, rf_node producer, rf_node consumer, rf_fused *fused)
{
    const rf_node_info *p = &graph->nodes.items[producer], *c = &graph->nodes.items[consumer];
    if (c->op != &rf_op_elementwise) return false;
    const rf_shape *made = &rf_graph_desc(graph, p->out[0])->shape, *full = &rf_graph_desc(graph, c->out[0])->shape;
    if (rf_shape_count(*made) != rf_shape_count(*full)) return false;

    memset(fused, 0, sizeof(*fused));
    fused->op = &rf_op_elementwise;
    builder b = { .fused = fused };
    int reg[RF_MAX_INPUTS];
    uint32_t n_in;
    const rf_elementwise_attr *program = program_of(p, &n_in);
    for (uint32_t i = 0; i < n_in; i++) reg[i] = add_input(&b, p->in[i]);
    const int between = add_program(&b, program, reg, n_in);
    if (between < 0) return false;
    for (uint32_t i = 0; i < c->n_in; i++) {
        reg[i] = c->in[i] == p->out[0] ? between : add_input(&b, c->in[i]);
        if (reg[i] < 0) return false;
    }
    const int result = add_program(&b, c->attr, reg, c->n_in);
    return result >= 0 && has_shape(graph, fused, full) && finish_program(&b, result);
}

/* ---- emission ---- */

static rf_result node_emit(rf_graph *g, rf_scalar_fn fn, float imm, const rf_value *in, uint32_t n_in, rf_value *out)
{
    if ((uint32_t)fn >= RF_FN_COUNT || rf_scalar_table[fn].arity != n_in)
        return RF_FAIL(RF_ERROR_INTERNAL, "elementwise: function %d does not take %u operands", (int)fn, n_in);
    if ((fn == RF_FN_LEAKY_RELU || fn == RF_FN_LEAKY_RELU_GRAD) && !(imm >= 0))
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "leaky_relu: alpha is %g; it must be 0 or more", (double)imm);
    rf_elementwise_attr attr = { .n_steps = 1 };
    attr.steps[0] =
        (rf_scalar_step){ .fn = (uint8_t)fn, .b = (uint8_t)(n_in - 1), .imm = rf_scalar_table[fn].uses_imm ? imm : 0 };
    return rf_graph_add(g, &rf_op_elementwise, &attr, in, n_in, out);
}

rf_result rf_emit_unary(rf_graph *g, rf_scalar_fn fn, float imm, rf_value x, rf_value *out)
{
    return node_emit(g, fn, imm, &x, 1, out);
}

rf_result rf_emit_binary(rf_graph *g, rf_scalar_fn fn, float imm, rf_value a, rf_value b, rf_value *out)
{
    if (a != b) return node_emit(g, fn, imm, (rf_value[]){ a, b }, 2, out);
    /* One input read twice: fewer loads, and equal nodes are recognised as equal. */
    if ((uint32_t)fn >= RF_FN_COUNT || rf_scalar_table[fn].arity != 2)
        return RF_FAIL(RF_ERROR_INTERNAL, "elementwise: function %d does not take 2 operands", (int)fn);
    rf_elementwise_attr attr = { .n_steps = 1 };
    attr.steps[0] = (rf_scalar_step){ .fn = (uint8_t)fn, .imm = rf_scalar_table[fn].uses_imm ? imm : 0 };
    return rf_graph_add(g, &rf_op_elementwise, &attr, &a, 1, out);
}

static const char *scalar_name(uint32_t fn)
{
    return fn < RF_FN_COUNT ? rf_scalar_table[fn].name : "?";
}

#define STEPS(member, label, kind, ...)                                                                                \
    RF_ATTR_ROW(rf_elementwise_attr, steps[0].member, label, kind, RF_MAX_STEPS, sizeof(rf_scalar_step), __VA_ARGS__)
static const rf_attr_field fields[] = {
    RF_ATTR_UINT(rf_elementwise_attr, n_steps, RF_MAX_STEPS),
    STEPS(fn, "fn", RF_ATTR_CHOICE, 0, RF_FN_COUNT - 1, scalar_name),
    STEPS(a, "a", RF_ATTR_UNSIGNED, 0, RF_MAX_INPUTS + RF_MAX_STEPS, NULL),
    STEPS(b, "b", RF_ATTR_UNSIGNED, 0, RF_MAX_INPUTS + RF_MAX_STEPS, NULL),
    STEPS(unused, "unused", RF_ATTR_ZERO, 0, 0, NULL),
    STEPS(imm, "imm", RF_ATTR_FLOAT, 0, 0, NULL),
};

const rf_op rf_op_elementwise = {
    .name = "elementwise",
    RF_ATTRIBUTES(rf_elementwise_attr, fields),
    .min_in = 1,
    .max_in = RF_ELEMENTWISE_INPUTS,
    .n_out = 1,
    .flags = RF_OP_INPLACE,
    RF_STORES_16(1),
    .infer = elementwise_infer,
    .gradient = elementwise_gradient,
    .reference = elementwise_reference,
    .cost = elementwise_cost,
    .absorb_consumer = rf_elementwise_absorb,
    .families = { &rf_elementwise_common, RF_SOFTWARE(&rf_elementwise_cpu) },
};
