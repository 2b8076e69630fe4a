/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reverse-mode differentiation (Griewank & Walther, "Evaluating Derivatives", 2nd ed. 2008, ch. 3): nodes are walked
 * backwards, each turning the gradients of its outputs into gradients of its inputs, which are added up per value.
 */
#include <string.h>

#include "base/error.h"
#include "graph/internal.h"

typedef struct differentiation {
    rf_graph *graph;
    uint32_t num_values, num_nodes; /* before any gradient was appended */
    bool *wanted;                   /* a target depends on... : the value is a target or computed from one */
    rf_value *gradient;             /* of each value; 0: none flowed so far */
} differentiation;

/* A gradient can flow through this input, and has a target to reach there. */
static bool input_carries(const differentiation *d, const rf_node_info *node, uint32_t i)
{
    return d->wanted[node->in[i]] && rf_op_reads(node->op, i) && !(node->op->flags & RF_OP_NO_GRADIENT);
}

static void find_wanted(differentiation *d, const rf_value *targets, uint32_t num_targets)
{
    for (uint32_t i = 0; i < num_targets; i++) d->wanted[targets[i]] = true;
    for (uint32_t n = 0; n < d->num_nodes; n++) {
        const rf_node_info *node = &d->graph->nodes.items[n];
        if (node->dead) continue;
        bool any = false;
        for (uint32_t i = 0; i < node->n_in; i++) any = any || input_carries(d, node, i);
        for (uint32_t i = 0; any && i < node->n_out; i++) {
            if (rf_dtype_is_float(rf_graph_desc(d->graph, node->out[i])->dtype)) d->wanted[node->out[i]] = true;
        }
    }
}

/* A gradient is stored as its value is: some are made in f32 of values that are not. */
static rf_result cast_to_type_of(rf_graph *graph, rf_value v, rf_value *gradient)
{
    const rf_dtype want = rf_graph_desc(graph, v)->dtype, is = rf_graph_desc(graph, *gradient)->dtype;
    if (want == is || !rf_dtype_is_float(want) || !rf_dtype_is_float(is)) return RF_OK;
    return graph->core->cast(graph, *gradient, want, gradient);
}

static rf_result contribution_accumulate(differentiation *d, const rf_op *op, rf_value v, rf_value contribution)
{
    RF_TRY(rf_graph_check_values(d->graph, op->name, &contribution, 1));
    RF_TRY(cast_to_type_of(d->graph, v, &contribution));
    const rf_tensor_desc *want = rf_graph_desc(d->graph, v), *is = rf_graph_desc(d->graph, contribution);
    if (want->dtype != is->dtype || !rf_shape_equal(want->shape, is->shape)) {
        char a[96], b[96];
        return RF_FAIL(RF_ERROR_INTERNAL, "%s: the gradient of a %s%s is a %s%s", op->name, rf_dtype_name(want->dtype),
                       rf_shape_format(want->shape, a, sizeof(a)), rf_dtype_name(is->dtype),
                       rf_shape_format(is->shape, b, sizeof(b)));
    }
    RF_TRY(RF_VEC_GROW(&d->graph->gradients));
    d->graph->gradients.items[d->graph->gradients.count++] = (rf_shape_pair){ v, contribution };
    if (d->gradient[v] == 0) {
        d->gradient[v] = contribution;
        return RF_OK;
    }
    return d->graph->core->add(d->graph, d->gradient[v], contribution, &d->gradient[v]);
}

/* The gradient would read what the state holds later, not what the node saw. */
static rf_result check_not_updated(const differentiation *d, rf_node n)
{
    const rf_node_info *node = &d->graph->nodes.items[n];
    for (uint32_t i = 0; i < node->n_in; i++) {
        const rf_value_info *storage = &d->graph->values.items[d->graph->values.items[node->in[i]].storage];
        if (rf_op_reads(node->op, i) && storage->mutated > n + 1)
            return RF_FAIL(
                RF_ERROR_INVALID_ARGUMENT,
                "gradient of '%s': its input, state '%s', is updated in place later in the step; differentiate "
                "before the update",
                node->op->name, storage->name ? storage->name : "");
    }
    return RF_OK;
}

static rf_result differentiate_node(differentiation *d, rf_node n)
{
    /* A copy: the gradient appends nodes, which moves the array. */
    const rf_node_info node = d->graph->nodes.items[n];
    rf_value dout[RF_MAX_OUTPUTS] = { 0 }, din[RF_MAX_INPUTS] = { 0 };
    bool needed[RF_MAX_INPUTS] = { false };
    bool any_out = false, any_in = false;
    for (uint32_t i = 0; i < node.n_out; i++) {
        dout[i] = d->gradient[node.out[i]];
        any_out = any_out || dout[i];
    }
    for (uint32_t i = 0; any_out && i < node.n_in; i++) {
        needed[i] = input_carries(d, &node, i);
        any_in = any_in || needed[i];
    }
    if (!any_in) return RF_OK;
    if (!node.op->gradient)
        return RF_FAIL(RF_ERROR_NO_GRADIENT,
                       "'%s' has no gradient, but lies between the loss and a target of the differentiation; use "
                       "rf_stop_gradient() before it, or another operation",
                       node.op->name);
    RF_TRY(check_not_updated(d, n));
    rf_grad_context context = { .graph = d->graph,
                                .node = n,
                                .attr = node.attr,
                                .n_in = node.n_in,
                                .n_out = node.n_out,
                                .in = node.in,
                                .out = node.out,
                                .dout = dout,
                                .needed = needed,
                                .din = din };
    d->graph->call = node.call; /* what is appended belongs to the call that it is the gradient of */
    const rf_result r = node.op->gradient(&context);
    if (r < 0) return rf_error_context(r, "gradient of '%s'", node.op->name);
    for (uint32_t i = 0; i < node.n_in; i++) {
        if (needed[i] && din[i]) RF_TRY(contribution_accumulate(d, node.op, node.in[i], din[i]));
    }
    return RF_OK;
}

/* Fills a value of the shape and type of `like`. */
static rf_result fill_as(rf_graph *graph, float number, rf_value like, rf_value *out)
{
    RF_TRY(graph->core->fill_like(graph, number, like, out));
    return cast_to_type_of(graph, like, out);
}

static rf_result loss_differentiate(differentiation *d, rf_value loss, const rf_value *targets, uint32_t num_targets,
                                    rf_value *grads)
{
    find_wanted(d, targets, num_targets);
    if (d->wanted[loss]) {
        RF_TRY(fill_as(d->graph, 1.0f, loss, &d->gradient[loss]));
        for (uint32_t n = d->num_nodes; n-- > 0;) {
            if (!d->graph->nodes.items[n].dead) RF_TRY(differentiate_node(d, n));
        }
    }
    for (uint32_t i = 0; i < num_targets; i++) grads[i] = d->gradient[targets[i]];
    return RF_OK;
}

rf_result rf_graph_differentiate(rf_graph *graph, rf_value loss, const rf_value *targets, uint32_t num_targets,
                                 rf_value *grads)
{
    RF_TRY(rf_graph_differentiate_reached(graph, loss, targets, num_targets, grads));
    for (uint32_t i = 0; i < num_targets; i++)
        if (grads[i] == 0) RF_TRY(fill_as(graph, 0.0f, targets[i], &grads[i]));
    return RF_OK;
}

rf_result rf_graph_differentiate_reached(rf_graph *graph, rf_value loss, const rf_value *targets, uint32_t num_targets,
                                         rf_value *grads)
{
    RF_REQUIRE(graph->core, "differentiate: the graph was made without core operations");
    RF_TRY(rf_graph_check_values(graph, "loss", &loss, 1));
    RF_TRY(rf_graph_check_values(graph, "targets", targets, num_targets));
    const rf_tensor_desc *desc = rf_graph_desc(graph, loss);
    char shape[96];
    RF_REQUIRE(desc->dtype == RF_F32 && desc->shape.rank == 0,
               "the loss must be a scalar f32, is %s%s; reduce it with a sum or rf_compute_average_loss()",
               rf_dtype_name(desc->dtype), rf_shape_format(desc->shape, shape, sizeof(shape)));
    for (uint32_t i = 0; i < num_targets; i++) {
        const rf_dtype dtype = rf_graph_desc(graph, targets[i])->dtype;
        RF_REQUIRE(dtype == RF_F32, "target %u is %s; only f32 can be differentiated by", i, rf_dtype_name(dtype));
    }

    differentiation d = { .graph = graph, .num_values = graph->values.count, .num_nodes = graph->nodes.count };
    d.wanted = RF_NEW_ARRAY(bool, d.num_values);
    d.gradient = RF_NEW_ARRAY(rf_value, d.num_values);
    rf_result r = RF_ERROR_OUT_OF_HOST_MEMORY;
    const char *call = graph->call;
    if (d.wanted && d.gradient) r = loss_differentiate(&d, loss, targets, num_targets, grads);
    graph->call = call;
    rf_free(d.wanted);
    rf_free(d.gradient);
    return r;
}

rf_result rf_graph_check_influence(const rf_graph *graph, rf_value loss, const rf_value *targets, uint32_t num_targets)
{
    differentiation d = { .num_values = graph->values.count, .num_nodes = graph->nodes.count };
    d.graph = (rf_graph *)(uintptr_t)graph; /* only read here */
    d.wanted = RF_NEW_ARRAY(bool, d.num_values);
    if (!d.wanted) return RF_ERROR_OUT_OF_HOST_MEMORY;
    find_wanted(&d, targets, num_targets);
    const bool influence = d.wanted[loss];
    rf_free(d.wanted);
    if (influence) return RF_OK;
    return RF_FAIL(RF_ERROR_NO_GRADIENT, "loss: no gradient reaches any of the variables: they do not influence "
                                         "it, or only through an operation that "
                                         "stops gradients (argmax, one_hot, a cast to integers, rf_stop_gradient())");
}
