/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gradient of a mean of losses is 1 / count for each row. As traced, that is a fill, a division and a broadcast in
 * front of the losses' gradient; fused, the gradient divides by itself. It needs nothing that the losses come before
 * then, so that both are made in one pass over the predictions.
 */
#include "ops/reduction/common/loss.h"

#include <string.h>

#include "ops/ops.h"

static const rf_node_info *producer_of(const rf_graph *graph, rf_value v)
{
    const rf_value_info *value = &graph->values.items[v];
    return value->kind == RF_VALUE_RESULT ? &graph->nodes.items[value->producer] : NULL;
}

static bool is_scalar(const rf_graph *graph, rf_value v)
{
    const rf_tensor_desc *desc = rf_graph_desc(graph, v);
    return desc->dtype == RF_F32 && desc->shape.rank == 0;
}

/* `v` is one number divided by another, which no update in place changes. */
static bool is_quotient(const rf_graph *graph, rf_value v, float *numerator, rf_value *divisor)
{
    const rf_node_info *node = producer_of(graph, v);
    if (!node || node->op != &rf_op_elementwise || node->n_in != 2) return false;
    const rf_elementwise_attr *program = node->attr;
    const rf_scalar_step *step = &program->steps[0];
    if (program->n_steps != 1 || step->fn != RF_FN_DIVIDE || step->a >= 2 || step->b >= 2) return false;
    const rf_node_info *fill = producer_of(graph, node->in[step->a]);
    const rf_value by = node->in[step->b];
    if (!fill || fill->op != &rf_op_fill_like || !is_scalar(graph, by)) return false;
    if (graph->values.items[graph->values.items[by].storage].kind == RF_VALUE_STATE) return false;
    memcpy(numerator, fill->attr, sizeof(*numerator));
    *divisor = by;
    return true;
}

bool rf_loss_absorb_dloss(const rf_graph *graph, rf_node producer, rf_node consumer, rf_fused *fused)
{
    const rf_node_info *wide = &graph->nodes.items[producer], *grad = &graph->nodes.items[consumer];
    if (grad->op != &rf_op_sparse_crossentropy_grad && grad->op != &rf_op_crossentropy_grad) return false;
    rf_loss_attr attr = *(const rf_loss_attr *)grad->attr;
    if (attr.dloss != RF_DLOSS_ROWS || grad->in[2] != wide->out[0] || !is_scalar(graph, wide->in[0])) return false;
    if (grad->in[0] == grad->in[2] || grad->in[1] == grad->in[2]) return false;
    *fused = (rf_fused){ .op = grad->op, .n_in = 3, .in = { grad->in[0], grad->in[1], wide->in[0] } };
    attr.dloss = RF_DLOSS_SCALAR;
    if (is_quotient(graph, wide->in[0], &attr.numerator, &fused->in[2])) attr.dloss = RF_DLOSS_QUOTIENT;
    memcpy(fused->attr, &attr, sizeof(attr));
    return true;
}

/* The losses themselves. */
static bool add_losses(const rf_node_info *grad, const rf_node_info *loss, rf_loss_attr *attr)
{
    const rf_op *expected = grad->op == &rf_op_crossentropy_grad ? &rf_op_crossentropy : &rf_op_sparse_crossentropy;
    if (loss->op != expected || loss->in[0] != grad->in[0] || loss->in[1] != grad->in[1] || attr->with_loss)
        return false;
    attr->with_loss = 1;
    return attr->from_logits == ((const rf_loss_attr *)loss->attr)->from_logits;
}

/* Whether the largest prediction is that of the label. */
static bool add_hits(const rf_node_info *grad, const rf_node_info *accuracy, rf_loss_attr *attr)
{
    if (grad->op != &rf_op_sparse_crossentropy_grad || accuracy->op != &rf_op_accuracy || !attr->with_loss ||
        attr->with_hits || attr->total)
        return false;
    attr->with_hits = 1;
    return accuracy->in[0] == grad->in[0] && accuracy->in[1] == grad->in[1];
}

/* The sum of the losses, then its quotient by the number that the gradients were divided by. */
static bool add_total(const rf_graph *graph, const rf_node_info *grad, const rf_node_info *node, rf_loss_attr *attr)
{
    if (attr->with_loss && attr->total == RF_TOTAL_NONE && node->op == &rf_op_reduce && node->in[0] == grad->out[1]) {
        attr->total = RF_TOTAL_SUM;
        return ((const rf_reduce_attr *)node->attr)->kind == RF_REDUCE_KIND_SUM && is_scalar(graph, node->out[0]);
    }
    if (attr->total != RF_TOTAL_SUM || attr->dloss == RF_DLOSS_ROWS || node->op != &rf_op_elementwise ||
        node->n_in != 2)
        return false;
    const rf_elementwise_attr *program = node->attr;
    const rf_scalar_step *step = &program->steps[0];
    if (program->n_steps != 1 || step->fn != RF_FN_DIVIDE || step->a >= 2 || step->b >= 2) return false;
    attr->total = RF_TOTAL_QUOTIENT;
    return node->in[step->a] == grad->out[grad->n_out - 1] && node->in[step->b] == grad->in[2];
}

bool rf_loss_absorb(const rf_graph *graph, rf_node self, rf_node other, rf_fused *fused, uint32_t *other_out)
{
    const rf_node_info *grad = &graph->nodes.items[self], *node = &graph->nodes.items[other];
    const rf_loss_attr before = *(const rf_loss_attr *)grad->attr;
    rf_loss_attr attr = before;
    if (add_losses(grad, node, &attr))
        *other_out = 1;
    else if (attr = before, add_hits(grad, node, &attr))
        *other_out = 2;
    else if (attr = before, add_total(graph, grad, node, &attr))
        *other_out = 2 + attr.with_hits;
    else
        return false;
    *fused = (rf_fused){ .op = grad->op, .n_in = 3, .in = { grad->in[0], grad->in[1], grad->in[2] } };
    memcpy(fused->attr, &attr, sizeof(attr));
    return true;
}
