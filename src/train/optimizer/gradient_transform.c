/* SPDX-License-Identifier: Apache-2.0 */
#include "train/optimizer/gradient_transform.h"

#include "ops/ops.h"
#include "step/step.h"

/* How a value of the step relates to the sum over replicas. */
typedef enum gradient_class {
    GRADIENT_LOCAL,  /* of one replica: inputs and what is computed from them */
    GRADIENT_COMMON, /* all replicas have the same: variables, constants */
    GRADIENT_LINEAR, /* sums over replicas to what the whole batch would give: gradients, multiples and sums of them */
    GRADIENT_WHOLE,  /* computed from gradients and what is common, but not linear: right for the sum alone */
    GRADIENT_MIXED,  /* computed from gradients and what is one replica's: right nowhere */
} gradient_class;

typedef struct search {
    rf_trace *trace;
    const rf_graph *graph;
    rf_variable_list variables;
    uint32_t steps;
    uint8_t *classes;   /* by value: gradient_class */
    rf_variable **root; /* by value, of LINEAR ones: a variable that it is the gradient of */
    bool *needed;       /* by value: computed after the reduction */
    rf_value *map;      /* by value: the same in the transform's graph */
    rf_value *reduced;  /* by variable: the value that is reduced in its place; 0: none yet */
    rf_value mean, sum;
    rf_gradient_transform *out;
} search;

/* ---- classes ---- */

static bool is_linear_function(const search *s, const rf_node_info *node)
{
    const gradient_class a = s->classes[node->in[0]], b = node->n_in > 1 ? s->classes[node->in[1]] : GRADIENT_LOCAL;
    const bool linear_a = a == GRADIENT_LINEAR, linear_b = node->n_in > 1 && b == GRADIENT_LINEAR;
    if (node->op == &rf_op_reshape_like || node->op == &rf_op_stop_gradient) return linear_a;
    if (node->op != &rf_op_elementwise) return false;
    const rf_elementwise_attr *attr = node->attr;
    if (attr->n_steps != 1) return false;
    switch ((rf_scalar_fn)attr->steps[0].fn) {
    case RF_FN_COPY:
    case RF_FN_NEGATIVE:
    case RF_FN_MUL_IMM: return linear_a;
    case RF_FN_ADD:
    case RF_FN_SUBTRACT:
        if (node->n_in == 1) return linear_a;
        /* A value that the caller computed of a replica's examples is a contribution like a gradient. */
        return (linear_a && (linear_b || b == GRADIENT_LOCAL)) || (linear_b && a == GRADIENT_LOCAL);
    case RF_FN_MULTIPLY:
        return node->n_in > 1 && ((linear_a && b == GRADIENT_COMMON) || (linear_b && a == GRADIENT_COMMON));
    case RF_FN_DIVIDE: return node->n_in > 1 && linear_a && b == GRADIENT_COMMON;
    default: return false;
    }
}

/* A gradient keeps its variable's shape. */
static rf_variable *root_of(const search *s, const rf_node_info *node)
{
    const rf_shape *out = &rf_graph_desc(s->graph, node->out[0])->shape;
    for (uint32_t i = 0; i < node->n_in; i++)
        if (s->classes[node->in[i]] == GRADIENT_LINEAR &&
            rf_shape_equal(rf_graph_desc(s->graph, node->in[i])->shape, *out))
            return s->root[node->in[i]];
    return NULL;
}

static gradient_class node_classify(const search *s, const rf_node_info *node)
{
    bool local = false, gradient = false;
    const bool sums_replicas = node->op->flags & RF_OP_SUMS_REPLICAS; /* not to be computed again after the reduction */
    if (node->op->mutates) return GRADIENT_LOCAL;
    for (uint32_t i = 0; i < node->n_in; i++) {
        if (!node->in[i]) continue;
        const gradient_class c = s->classes[node->in[i]];
        if (c == GRADIENT_MIXED) return c;
        local = local || c == GRADIENT_LOCAL;
        gradient = gradient || c == GRADIENT_LINEAR || c == GRADIENT_WHOLE;
    }
    if (gradient && is_linear_function(s, node) && root_of(s, node)) return GRADIENT_LINEAR;
    if (gradient) return local || sums_replicas ? GRADIENT_MIXED : GRADIENT_WHOLE;
    return local || sums_replicas ? GRADIENT_LOCAL : GRADIENT_COMMON;
}

static void classify_all(search *s)
{
    for (rf_value v = 1; v < s->graph->values.count; v++)
        if (s->graph->values.items[v].kind != RF_VALUE_RESULT)
            s->classes[v] = rf_trace_leaf_is_common(s->trace, v) ? GRADIENT_COMMON : GRADIENT_LOCAL;
    for (rf_node n = 0; n < s->graph->nodes.count; n++) {
        const rf_node_info *node = &s->graph->nodes.items[n];
        const gradient_class c = node_classify(s, node);
        for (uint32_t i = 0; i < node->n_out; i++) {
            const rf_value v = node->out[i];
            rf_variable *of = v ? rf_trace_gradient_of(s->trace, v) : NULL;
            s->classes[v] = (uint8_t)(of ? GRADIENT_LINEAR : c);
            s->root[v] = of ? of : c == GRADIENT_LINEAR ? root_of(s, node) : NULL;
        }
    }
}

/* ---- what is reduced ---- */

static rf_result find_variable(const search *s, rf_value v, uint32_t *index)
{
    for (*index = 0; *index < s->variables.count; ++*index)
        if (s->variables.items[*index] == s->root[v]) return RF_OK;
    return rf_trace_fail(s->trace, RF_ERROR_INVALID_ARGUMENT,
                         "rf_optimizer_apply_gradients: what is applied depends on the gradient of '%s', which is not "
                         "among the variables; update both with one optimizer",
                         rf_variable_name(s->root[v]));
}

/* The value, linear in gradients, is read after the reduction: it takes the place of its variable's gradient. */
static rf_result reduce_value(search *s, rf_value v)
{
    uint32_t i;
    RF_TRY(find_variable(s, v, &i));
    if (s->reduced[i] == v) return RF_OK;
    if (s->reduced[i])
        return rf_trace_fail(s->trace, RF_ERROR_INVALID_ARGUMENT,
                             "rf_optimizer_apply_gradients: what is applied needs more than one multiple of the "
                             "gradient of '%s', but one is summed over replicas; compute it from one",
                             rf_variable_name(s->variables.items[i]));
    s->reduced[i] = v;
    return RF_OK;
}

/* Backwards from what is applied to what is linear in gradients. */
static rf_result find_needed(search *s, const rf_value *values)
{
    for (uint32_t i = 0; i < s->variables.count; i++) {
        const gradient_class c = s->classes[values[i]];
        s->needed[values[i]] = s->needed[values[i]] || c == GRADIENT_WHOLE;
        if (c != GRADIENT_WHOLE) s->reduced[i] = values[i];
    }
    for (rf_node n = s->graph->nodes.count; n-- > 0;) {
        const rf_node_info *node = &s->graph->nodes.items[n];
        bool needed = false;
        for (uint32_t i = 0; i < node->n_out; i++) needed = needed || s->needed[node->out[i]];
        for (uint32_t i = 0; needed && i < node->n_in; i++) {
            if (s->classes[node->in[i]] == GRADIENT_LINEAR)
                RF_TRY(reduce_value(s, node->in[i]));
            else
                s->needed[node->in[i]] = true;
        }
    }
    s->needed[0] = false;
    for (uint32_t i = 0; i < s->variables.count; i++)
        if (!s->reduced[i])
            return rf_trace_fail(s->trace, RF_ERROR_INVALID_ARGUMENT,
                                 "rf_optimizer_apply_gradients: what is applied to '%s' does not depend on its "
                                 "gradient",
                                 rf_variable_name(s->variables.items[i]));
    return RF_OK;
}

/* ---- the transform's graph ---- */

static rf_result add_state(search *s, const void *identity, const rf_tensor_desc *desc, rf_transform_state state,
                           rf_value *out)
{
    RF_TRY(RF_VEC_GROW(&s->out->states));
    RF_TRY(rf_graph_state(s->out->graph, identity, *desc, rf_variable_name(state.variable), out));
    s->out->states.items[s->out->states.count++] = state;
    return RF_OK;
}

/* Reduced gradients, in place of what is linear in a replica's: means over the steps that they were accumulated over.
 */
static rf_result add_gradients(search *s, rf_value *sums)
{
    for (uint32_t i = 0; i < s->variables.count; i++) {
        rf_variable *variable = s->variables.items[i];
        const rf_tensor_desc *desc = rf_graph_desc(s->graph, s->reduced[i]);
        RF_TRY(add_state(s, &s->reduced[i], desc, (rf_transform_state){ variable, true }, &sums[i]));
        s->map[s->reduced[i]] = sums[i];
        if (s->steps > 1)
            RF_TRY(rf_emit_binary(s->out->graph, RF_FN_MULTIPLY, 0, sums[i], s->mean, &s->map[s->reduced[i]]));
    }
    return RF_OK;
}

static rf_result add_leaves(search *s)
{
    for (rf_value v = 1; v < s->graph->values.count; v++) {
        const rf_value_info *info = &s->graph->values.items[v];
        if (!s->needed[v] || info->kind == RF_VALUE_RESULT) continue;
        if (info->kind == RF_VALUE_STATE)
            RF_TRY(add_state(s, info->object, &info->desc,
                             (rf_transform_state){ rf_trace_slot_variable(s->trace, info->slot), false }, &s->map[v]));
        else if (info->kind == RF_VALUE_CONSTANT)
            RF_TRY(rf_graph_constant(s->out->graph, info->desc, info->data, &s->map[v]));
        else
            return rf_trace_fail(s->trace, RF_ERROR_UNSUPPORTED,
                                 "rf_optimizer_apply_gradients: what is applied reads the size of the batch after "
                                 "gradients are summed; multiply gradients by it before anything else");
    }
    return RF_OK;
}

/* How much the steps count together is known when they are added up. */
static rf_result add_weights(search *s)
{
    const rf_tensor_desc number = { RF_F32, RF_SCALAR_SHAPE };
    s->out->weighs = true;
    RF_TRY(rf_graph_host(s->out->graph, &s->mean, number, "mean", &s->mean));
    return rf_graph_host(s->out->graph, &s->sum, number, "sum", &s->sum);
}

static rf_result build_graph(search *s, const rf_value *values)
{
    rf_gradient_transform *out = s->out;
    RF_TRY(rf_graph_create(s->graph->core, &out->graph));
    if (!(out->results = RF_NEW_ARRAY(rf_value, s->variables.count))) return RF_ERROR_OUT_OF_HOST_MEMORY;
    if (s->steps > 1) RF_TRY(add_weights(s));
    RF_TRY(add_gradients(s, out->results));
    RF_TRY(add_leaves(s));
    RF_TRY(rf_graph_replay(s->graph, s->needed, out->graph, s->map));
    for (uint32_t i = 0; i < s->variables.count; i++) {
        rf_value *result = &out->results[i];
        if (s->classes[values[i]] != GRADIENT_WHOLE)
            RF_TRY(rf_emit_unary(out->graph, RF_FN_COPY, 0, *result, result));
        else if (s->steps > 1) /* the optimizer divides by them */
            RF_TRY(rf_emit_binary(out->graph, RF_FN_MULTIPLY, 0, s->map[values[i]], s->sum, result));
        else
            *result = s->map[values[i]];
    }
    return RF_OK;
}

/* ---- the search ---- */

static rf_result check_classes(const search *s, const rf_gradient_use *use, const rf_value *values, bool *whole)
{
    *whole = false;
    for (uint32_t i = 0; i < s->variables.count; i++) {
        const gradient_class c = s->classes[values[i]];
        *whole = *whole || c == GRADIENT_WHOLE || c == GRADIENT_MIXED;
        if (c == GRADIENT_MIXED && !use->remote)
            return rf_trace_fail(s->trace, RF_ERROR_UNSUPPORTED,
                                 "rf_optimizer_apply_gradients: gradients[%u] ('%s') is computed from gradients and "
                                 "from examples of one replica; after gradients are summed over replicas only "
                                 "gradients, variables and constants are the same: weight the loss instead",
                                 i, rf_variable_name(s->variables.items[i]));
    }
    if (*whole && use->remote)
        return rf_trace_fail(s->trace, RF_ERROR_UNSUPPORTED,
                             "rf_optimizer_apply_gradients: parameter servers sum the gradients of a batch's shares, "
                             "and no worker has the sum that this step computes with; give the coordinator's "
                             "optimizer a clip_value, or use a mirrored strategy");
    return RF_OK;
}

static rf_result gradient_find(search *s, const rf_gradient_use *use, rf_value *values)
{
    bool whole;
    classify_all(s);
    RF_TRY(check_classes(s, use, values, &whole));
    if (!whole) return RF_OK;
    RF_TRY(find_needed(s, values));
    RF_TRY(build_graph(s, values));
    for (uint32_t i = 0; i < s->variables.count; i++) values[i] = s->reduced[i];
    return RF_OK;
}

rf_result rf_gradient_transform_find(rf_trace *t, const rf_gradient_use *use, rf_value *values,
                                     rf_variable_list variables, rf_gradient_transform *out)
{
    *out = (rf_gradient_transform){ 0 };
    if (rf_trace_num_replicas(t) == 1 && use->steps == 1 && !use->remote && !use->scaled) return RF_OK;
    const rf_graph *graph = rf_trace_graph(t);
    const uint32_t count = graph->values.count;
    search s = { .trace = t,
                 .graph = graph,
                 .variables = variables,
                 .steps = use->steps,
                 .classes = RF_NEW_ARRAY(uint8_t, count),
                 .root = RF_NEW_ARRAY(rf_variable *, count),
                 .needed = RF_NEW_ARRAY(bool, count),
                 .map = RF_NEW_ARRAY(rf_value, count),
                 .reduced = RF_NEW_ARRAY(rf_value, variables.count),
                 .out = out };
    rf_result r = s.classes && s.root && s.needed && s.map && s.reduced ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
    if (r >= 0) r = gradient_find(&s, use, values);
    rf_free(s.classes);
    rf_free(s.root);
    rf_free(s.needed);
    rf_free(s.map);
    rf_free(s.reduced);
    if (r < 0) {
        rf_gradient_transform_free(out);
        (void)rf_trace_emit(t, r, 0);
    }
    return r;
}
