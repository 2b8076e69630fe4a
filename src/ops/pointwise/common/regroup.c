/* SPDX-License-Identifier: Apache-2.0 */
/* Reshaping to sizes that are products of other tensors' dimensions, so that several of them may follow the batch. */
#include <string.h>

#include "graph/batch_dims.h"
#include "ops/kit.h"
#include "ops/ops.h"

/* False where the axes are not all there, or the product is too large. */
static bool multiply_dims(const rf_shape *of, uint32_t axes, int64_t *product)
{
    if (axes >> of->rank != 0) return false;
    for (int32_t d = 0; d < of->rank; d++)
        if ((axes >> d & 1) && __builtin_mul_overflow(*product, of->dim[d], product)) return false;
    return true;
}

static rf_result regroup_infer(rf_op_call *call)
{
    const rf_regroup_attr *attr = call->attr;
    rf_shape shape = { .rank = (int32_t)attr->rank };
    char from[96], to[96];
    for (uint32_t d = 0; d < attr->rank && d < RF_MAX_RANK; d++) {
        shape.dim[d] = attr->times[d];
        if (attr->from[d] >= call->n_in || !multiply_dims(&call->in[attr->from[d]].shape, attr->axes[d], &shape.dim[d]))
            return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "regroup: size %u is no product of axes that are there", d);
    }
    if (rf_shape_count(shape) != rf_shape_count(call->in[0].shape))
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "regroup: %s and %s differ in the number of elements",
                       rf_shape_format(call->in[0].shape, from, sizeof(from)), rf_shape_format(shape, to, sizeof(to)));
    call->out[0] = (rf_tensor_desc){ call->in[0].dtype, shape };
    return RF_OK;
}

static rf_result regroup_gradient(rf_grad_context *ctx)
{
    return rf_emit_reshape_like(ctx->graph, ctx->dout[0], ctx->in[0], &ctx->din[0]);
}

static rf_result regroup_reference(const rf_op_call *call, void *const *in, void *const *out)
{
    if (out[0] != in[0]) memmove(out[0], in[0], (size_t)rf_tensor_bytes(&call->in[0]));
    return RF_OK;
}

static rf_cost regroup_cost(const rf_op_call *call)
{
    (void)call;
    return (rf_cost){ 0, 0 };
}

static const rf_attr_field regroup_fields[] = {
    RF_ATTR_UINT(rf_regroup_attr, rank, RF_MAX_RANK),
    RF_ATTR_ROW(rf_regroup_attr, from[0], "from", RF_ATTR_UNSIGNED, RF_MAX_RANK, sizeof(uint32_t), 0, RF_MAX_INPUTS - 1,
                NULL),
    RF_ATTR_ROW(rf_regroup_attr, axes[0], "axes", RF_ATTR_UNSIGNED, RF_MAX_RANK, sizeof(uint32_t), 0,
                (1 << RF_MAX_RANK) - 1, NULL),
    RF_ATTR_ROW(rf_regroup_attr, unused, "unused", RF_ATTR_ZERO, 1, 0, 0, 0, NULL),
    RF_ATTR_INTS(rf_regroup_attr, times[0], "times", RF_MAX_RANK, 0, INT64_MAX),
};

const rf_op rf_op_regroup = {
    .name = "regroup",
    RF_ATTRIBUTES(rf_regroup_attr, regroup_fields),
    .min_in = 1,
    .max_in = RF_MAX_INPUTS,
    .n_out = 1,
    .flags = RF_OP_VIEW | RF_OP_NO_ONNX,
    .shape_only = ~1u,
    .infer = regroup_infer,
    .gradient = regroup_gradient,
    .reference = regroup_reference,
    .cost = regroup_cost,
};

/* ---- emission ---- */

/* Where among the inputs the tensor stands, which may come to be one; RF_MAX_INPUTS: there is no room. */
static uint32_t find_input(rf_value *in, uint32_t *n_in, rf_value v)
{
    for (uint32_t i = 0; i < *n_in; i++)
        if (in[i] == v) return i;
    if (*n_in == RF_MAX_INPUTS) return RF_MAX_INPUTS;
    in[*n_in] = v;
    return (*n_in)++;
}

static rf_result emit_sizes(rf_graph *g, rf_value x, const rf_size *sizes, uint32_t rank, rf_value *out)
{
    rf_regroup_attr attr;
    rf_value in[RF_MAX_INPUTS] = { x };
    uint32_t n_in = 1;
    memset(&attr, 0, sizeof(attr));
    attr.rank = rank;
    for (uint32_t d = 0; d < rank; d++) {
        attr.times[d] = sizes[d].times;
        attr.axes[d] = sizes[d].axes;
        if (sizes[d].axes) attr.from[d] = find_input(in, &n_in, sizes[d].of);
        if (attr.from[d] == RF_MAX_INPUTS)
            return RF_FAIL(RF_ERROR_INTERNAL, "regroup: sizes of more than %d tensors", RF_MAX_INPUTS);
    }
    return rf_graph_add(g, &rf_op_regroup, &attr, in, n_in, out);
}

rf_result rf_emit_regroup(rf_graph *g, rf_value x, const rf_size *sizes, uint32_t rank, rf_value *out)
{
    rf_shape shape = { .rank = (int32_t)rank };
    int32_t open = 0;
    if (rank > RF_MAX_RANK)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "regroup: %u dimensions are more than %d", rank, RF_MAX_RANK);
    for (uint32_t d = 0; d < rank; d++) {
        uint32_t follow = 0;
        if (sizes[d].axes) RF_TRY(rf_graph_batch_dims(g, sizes[d].of, &follow));
        shape.dim[d] = sizes[d].times;
        if (sizes[d].axes && !multiply_dims(&rf_graph_desc(g, sizes[d].of)->shape, sizes[d].axes, &shape.dim[d]))
            return RF_FAIL(RF_ERROR_INTERNAL, "regroup: size %u is no product of axes that are there", d);
        if (!(follow & sizes[d].axes)) continue;
        shape.dim[d] = -1;
        open++;
    }
    return open <= 1 ? rf_emit_reshape(g, x, shape, out) : emit_sizes(g, x, sizes, rank, out);
}

rf_result rf_emit_join_dims(rf_graph *g, rf_value x, uint32_t first, uint32_t count, rf_value *out)
{
    const uint32_t before = (uint32_t)rf_graph_desc(g, x)->shape.rank, rank = before - count + 1;
    rf_size sizes[RF_MAX_RANK];
    for (uint32_t d = 0; d < rank; d++) {
        const uint32_t from = d > first ? d + count - 1 : d, axes = d == first ? (1u << count) - 1 : 1;
        sizes[d] = (rf_size){ 1, x, axes << from };
    }
    return rf_emit_regroup(g, x, sizes, rank, out);
}
