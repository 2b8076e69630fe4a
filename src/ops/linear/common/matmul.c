/* SPDX-License-Identifier: Apache-2.0 */
/* c = activation(op(a) op(b) + bias), op(x) = x or its transpose, over batches that broadcast; and the sums of b's
 * rows, because b is being read anyway. */
#include "ops/linear/common/matmul.h"
#include "ops/linear/cpu/cpu.h"
#include "ops/linear/gpu/gpu.h"
#include "ops/scalar.h"

#include <string.h>

static rf_result shape_error(const rf_op_call *call, const char *what)
{
    const rf_matmul_attr *attr = call->attr;
    char a[96], b[96];
    rf_shape_format(call->in[0].shape, a, sizeof(a));
    rf_shape_format(call->in[1].shape, b, sizeof(b));
    return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "matmul: a %s%s and b %s%s: %s", a,
                   attr->transpose_a ? " transposed" : "", b, attr->transpose_b ? " transposed" : "", what);
}

static rf_result matmul_infer(rf_op_call *call)
{
    const rf_matmul_attr *attr = call->attr;
    const rf_shape *a = &call->in[0].shape, *b = &call->in[1].shape;
    if (call->in[0].dtype != RF_F32 || call->in[1].dtype != RF_F32)
        return shape_error(call, "both must be f32; cast them");
    if (a->rank < 2 || b->rank < 2) return shape_error(call, "both need at least two dimensions");
    if (!rf_linear_activation_known(attr->activation))
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "matmul: activation %u cannot be fused; apply it as an op of its own",
                       attr->activation);
    const int64_t m = a->dim[a->rank - (attr->transpose_a ? 1 : 2)], k = a->dim[a->rank - (attr->transpose_a ? 2 : 1)];
    const int64_t kb = b->dim[b->rank - (attr->transpose_b ? 1 : 2)], n = b->dim[b->rank - (attr->transpose_b ? 2 : 1)];
    if (k != kb) return shape_error(call, "the inner dimensions differ");
    if (m < 1 || n < 1 || k < 1 || m > INT32_MAX || n > INT32_MAX || k > INT32_MAX)
        return shape_error(call, "a dimension is empty or oversized");

    const int32_t rank = (a->rank > b->rank ? a->rank : b->rank) - 2;
    rf_shape *out = &call->out[0].shape;
    out->rank = rank + 2;
    for (int32_t i = 0; i < rank; i++) {
        const int64_t x = rf_matmul_batch_dim(a, rank, i), y = rf_matmul_batch_dim(b, rank, i);
        if (x < 1 || y < 1 || (x != y && x != 1 && y != 1))
            return shape_error(call, "batch dimensions do not broadcast");
        out->dim[i] = x == 1 ? y : x;
    }
    out->dim[rank] = m;
    out->dim[rank + 1] = n;
    call->out[0].dtype = RF_F32;
    call->n_out = 1;
    if (rf_shape_count(*out) < 0) return shape_error(call, "the product is too large");
    if (attr->relu_mask && (call->n_in != 3 || call->in[2].dtype != RF_F32 ||
                            !rf_shape_equal(call->in[2].shape, *out) || attr->activation != RF_ACTIVATION_LINEAR))
        return shape_error(call, "a ReLU's mask is f32, of the product's shape, and follows a plain product");
    if (call->n_in == 3 && !attr->relu_mask &&
        (call->in[2].dtype != RF_F32 || !rf_shape_equal(call->in[2].shape, (rf_shape){ 1, { n } }))) {
        char bias[96];
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "matmul: bias %s %s must be f32 [%lld]",
                       rf_dtype_name(call->in[2].dtype), rf_shape_format(call->in[2].shape, bias, sizeof(bias)),
                       (long long)n);
    }
    if (!attr->bias_gradient) return RF_OK;
    if (!attr->transpose_a || attr->transpose_b || out->rank != 2 || call->n_in != 2 ||
        attr->activation != RF_ACTIVATION_LINEAR)
        return shape_error(call, "the bias' gradient comes with a plain product of a transposed matrix a alone");
    call->n_out = 2;
    call->out[1] = (rf_tensor_desc){ RF_F32, { 1, { n } } };
    return RF_OK;
}

/* x with all dimensions but the last made one. */
static rf_result flatten_rows(rf_grad_context *ctx, rf_value x, rf_value *out)
{
    return rf_emit_join_dims(ctx->graph, x, 0, (uint32_t)rf_graph_desc(ctx->graph, x)->shape.rank - 1, out);
}

static rf_result product_like(rf_grad_context *ctx, rf_value a, rf_value b, bool ta, bool tb, rf_value like,
                              rf_value *out)
{
    rf_value full;
    RF_TRY(rf_emit_matmul(ctx->graph, a, b, ta, tb, &full));
    return rf_emit_sum_to_like(ctx->graph, full, like, out);
}

/* The gradient of a product in f32 of matrices in bf16, which have f32's range, is stored in their type, so that the
 * gradient's products stay those that matrix units make. f16 does not have the range. */
static rf_result narrow_gradient(rf_grad_context *ctx, rf_value *d)
{
    for (uint32_t i = 0; i < 2; i++)
        if (rf_graph_desc(ctx->graph, ctx->in[i])->dtype != RF_BF16) return RF_OK;
    return rf_emit_cast(ctx->graph, *d, RF_BF16, d);
}

static rf_result matmul_gradient(rf_grad_context *ctx)
{
    const rf_matmul_attr *attr = ctx->attr;
    if (ctx->n_in != 2 || attr->activation != RF_ACTIVATION_LINEAR || attr->bias_gradient)
        return RF_FAIL(RF_ERROR_NO_GRADIENT, "matmul: a product with a fused bias or activation has no gradient; "
                                             "differentiate before the graph is optimised");
    const bool ta = attr->transpose_a, tb = attr->transpose_b;
    rf_value a = ctx->in[0], b = ctx->in[1], d = ctx->dout[0];
    if (!d) return RF_OK;
    if (attr->f32) RF_TRY(narrow_gradient(ctx, &d));
    if (ctx->needed[0]) {
        if (ta)
            RF_TRY(product_like(ctx, b, d, tb, true, a, &ctx->din[0]));
        else
            RF_TRY(product_like(ctx, d, b, false, !tb, a, &ctx->din[0]));
    }
    if (ctx->needed[1]) {
        /* One matrix against a batch: one long product instead of a batch of them and a sum. */
        if (rf_graph_desc(ctx->graph, b)->shape.rank == 2 && rf_graph_desc(ctx->graph, a)->shape.rank > 2 && !ta) {
            RF_TRY(flatten_rows(ctx, a, &a));
            RF_TRY(flatten_rows(ctx, d, &d));
        }
        if (tb)
            RF_TRY(product_like(ctx, d, a, true, ta, b, &ctx->din[1]));
        else
            RF_TRY(product_like(ctx, a, d, !ta, false, b, &ctx->din[1]));
    }
    return RF_OK;
}

/* One batch item, row by row, accumulated in double. */
static void reference_item(const rf_matmul_geometry *g, const float *a, const float *b, const float *bias, float *c,
                           double *row)
{
    for (int64_t i = 0; i < g->m; i++) {
        memset(row, 0, sizeof(*row) * (size_t)g->n);
        for (int64_t p = 0; p < g->k; p++) {
            const double s = (double)a[g->ta ? p * g->m + i : i * g->k + p];
            if (g->tb)
                for (int64_t j = 0; j < g->n; j++) row[j] += s * (double)b[j * g->k + p];
            else
                for (int64_t j = 0; j < g->n; j++) row[j] += s * (double)b[p * g->n + j];
        }
        for (int64_t j = 0; j < g->n; j++)
            c[i * g->n + j] = (float)rf_linear_activate(g->activation, row[j] + (bias ? (double)bias[j] : 0));
    }
}

/* c counts only where y is positive. */
static void mask_product(const rf_tensor_desc *desc, const float *y, float *c)
{
    for (uint64_t i = 0; i < rf_desc_count(desc); i++) c[i] = (float)rf_relu_grad(c[i], y[i]);
}

static rf_result matmul_reference(const rf_op_call *call, void *const *in, void *const *out)
{
    const rf_matmul_geometry g = rf_matmul_geometry_of(call);
    double *row = RF_NEW_ARRAY(double, g.n);
    if (!row) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (int64_t z = 0; z < g.batch; z++) {
        int64_t a, b;
        rf_matmul_batch_offset(&g, z, &a, &b);
        reference_item(&g, (const float *)in[0] + a, (const float *)in[1] + b, g.bias ? in[2] : NULL,
                       (float *)out[0] + z * g.m * g.n, row);
    }
    if (g.relu_mask) mask_product(&call->out[0], in[2], out[0]);
    if (g.bias_gradient) {
        memset(row, 0, sizeof(*row) * (size_t)g.n);
        for (int64_t p = 0; p < g.k; p++)
            for (int64_t j = 0; j < g.n; j++) row[j] += (double)((const float *)in[1])[p * g.n + j];
        for (int64_t j = 0; j < g.n; j++) ((float *)out[1])[j] = (float)row[j];
    }
    rf_free(row);
    return RF_OK;
}

static rf_cost matmul_cost(const rf_op_call *call)
{
    const rf_matmul_geometry g = rf_matmul_geometry_of(call);
    rf_cost c = { .flops = 2.0 * (double)g.batch * (double)g.m * (double)g.n * (double)g.k };
    for (uint32_t i = 0; i < call->n_in; i++) c.bytes += (double)rf_tensor_bytes(&call->in[i]);
    for (uint32_t i = 0; i < call->n_out; i++) c.bytes += (double)rf_tensor_bytes(&call->out[i]);
    return c;
}

/* The gradient of a ReLU whose result the mask is. */
static bool absorb_relu_grad(const rf_graph *graph, rf_node producer, rf_node consumer, rf_fused *fused)
{
    const rf_node_info *p = &graph->nodes.items[producer], *c = &graph->nodes.items[consumer];
    rf_matmul_attr attr = *(const rf_matmul_attr *)p->attr;
    if (c->op != &rf_op_elementwise || c->n_in != 2 || p->n_in != 2 || attr.activation != RF_ACTIVATION_LINEAR)
        return false;
    const rf_elementwise_attr *program = c->attr;
    const rf_scalar_step step = program->steps[0];
    if (program->n_steps != 1 || step.fn != RF_FN_RELU_GRAD || step.a >= 2 || step.b >= 2) return false;
    const rf_value mask = c->in[step.b];
    if (c->in[step.a] != p->out[0] || mask == p->out[0] ||
        !rf_shape_equal(rf_graph_desc(graph, mask)->shape, rf_graph_desc(graph, p->out[0])->shape))
        return false;
    attr.relu_mask = 1;
    *fused = (rf_fused){ .op = p->op, .n_in = 3, .in = { p->in[0], p->in[1], mask } };
    memcpy(fused->attr, &attr, sizeof(attr));
    return true;
}

static bool absorb_consumer(const rf_graph *graph, rf_node producer, rf_node consumer, rf_fused *fused)
{
    const rf_matmul_attr *attr = graph->nodes.items[producer].attr;
    if (attr->bias_gradient || attr->relu_mask) return false;
    return absorb_relu_grad(graph, producer, consumer, fused) ||
           rf_linear_absorb(graph, producer, consumer, offsetof(rf_matmul_attr, activation), fused);
}

/* After kernels that leave the mask to it: in place. */
static rf_result append_mask(const rf_op_call *call, const rf_device_caps *caps, rf_kernel_plan *plan)
{
    static const rf_elementwise_attr relu_grad = { 1, { { .fn = RF_FN_RELU_GRAD, .a = 0, .b = 1 } } };
    if (!((const rf_matmul_attr *)call->attr)->relu_mask) return RF_OK;
    rf_op_call mask = { .op = &rf_op_elementwise, .attr = &relu_grad, .n_in = 2, .n_out = 1 };
    mask.in[0] = mask.out[0] = call->out[0];
    mask.in[1] = call->in[2];
    static const rf_plan_tensor in[2] = { { RF_BIND_OUTPUT, 0 }, { RF_BIND_INPUT, 2 } },
                                out[1] = { { RF_BIND_OUTPUT, 0 } };
    return rf_plan_append(plan, &mask, caps, in, out);
}

/* The bias' gradient, a sum of the rows of the same b, becomes output 1. */
static bool absorb_sums(const rf_graph *graph, rf_node self, rf_node other, rf_fused *fused, uint32_t *other_out)
{
    const rf_node_info *s = &graph->nodes.items[self], *o = &graph->nodes.items[other];
    if (o->op != &rf_op_reduce || o->in[0] != s->in[1] || s->n_in != 2) return false;
    const rf_reduce_attr *reduce = o->attr;
    rf_matmul_attr attr = *(const rf_matmul_attr *)s->attr;
    if (reduce->kind != RF_REDUCE_KIND_SUM || reduce->axes_mask != 1 || reduce->keep_dims) return false;
    if (!attr.transpose_a || attr.transpose_b || attr.activation != RF_ACTIVATION_LINEAR || attr.bias_gradient ||
        rf_graph_desc(graph, s->in[0])->shape.rank != 2 || rf_graph_desc(graph, s->in[1])->shape.rank != 2)
        return false;
    attr.bias_gradient = 1;
    *fused = (rf_fused){ .op = s->op, .n_in = 2, .in = { s->in[0], s->in[1] } };
    memcpy(fused->attr, &attr, sizeof(attr));
    *other_out = 1;
    return true;
}

static bool absorb_sibling(const rf_graph *graph, rf_node self, rf_node other, rf_fused *fused, uint32_t *other_out)
{
    *other_out = 0;
    return rf_linear_absorb_cast(graph, self, other, offsetof(rf_matmul_attr, f32), fused) ||
           absorb_sums(graph, self, other, fused, other_out);
}

static rf_result emit_product(rf_graph *g, rf_value a, rf_value b, const rf_matmul_attr *attr, rf_value *out)
{
    rf_value made[RF_MAX_OUTPUTS];
    RF_TRY(rf_graph_add(g, &rf_op_matmul, attr, (const rf_value[]){ a, b }, 2, made));
    *out = made[0];
    return RF_OK;
}

rf_result rf_emit_matmul(rf_graph *g, rf_value a, rf_value b, bool transpose_a, bool transpose_b, rf_value *out)
{
    const rf_matmul_attr attr = { .transpose_a = transpose_a, .transpose_b = transpose_b };
    return emit_product(g, a, b, &attr, out);
}

rf_result rf_emit_wide_matmul(rf_graph *g, rf_value a, rf_value b, bool transpose_a, bool transpose_b, rf_value *out)
{
    const bool narrow =
        rf_dtype_is_narrow(rf_graph_desc(g, a)->dtype) || rf_dtype_is_narrow(rf_graph_desc(g, b)->dtype);
    const rf_matmul_attr attr = { .transpose_a = transpose_a, .transpose_b = transpose_b, .f32 = narrow };
    return emit_product(g, a, b, &attr, out);
}

static const rf_kernel kernels[] = {
    { "naive", rf_matmul_naive_score, rf_matmul_naive_plan, .last_resort = true },
    { "parts", rf_matmul_parts_score, rf_matmul_parts_plan, .cuts_up = true },
};
static const rf_kernel_list common = RF_KERNEL_LIST(kernels);

static const rf_attr_field fields[] = {
    RF_ATTR_FLAG(rf_matmul_attr, transpose_a),
    RF_ATTR_FLAG(rf_matmul_attr, transpose_b),
    RF_ATTR_NAMED(rf_matmul_attr, activation, RF_ACTIVATION_SOFTMAX, rf_activation_name),
    RF_ATTR_FLAG(rf_matmul_attr, bias_gradient),
    RF_ATTR_FLAG(rf_matmul_attr, relu_mask),
    RF_ATTR_FLAG(rf_matmul_attr, f32),
};

static bool makes_f32(const rf_op_call *call)
{
    return ((const rf_matmul_attr *)call->attr)->f32;
}

static rf_elements met_by_padding(const rf_op_call *call, int64_t i)
{
    if (!((const rf_matmul_attr *)call->attr)->transpose_b) return rf_linear_met_column(call, i);
    return (rf_elements){ 0, 1, rf_shape_count(call->in[1].shape) }; /* the whole of b: seldom, and small */
}

const rf_op rf_op_matmul = {
    .name = "matmul",
    RF_ATTRIBUTES(rf_matmul_attr, fields),
    .min_in = 2,
    .max_in = 3,
    .n_out = 2,
    .unbatched_out = 1u << 1,
    .met_by_padding = met_by_padding,
    RF_STORES_16(1),
    .makes_f32 = makes_f32,
    .finish = append_mask,
    .infer = matmul_infer,
    .gradient = matmul_gradient,
    .reference = matmul_reference,
    .cost = matmul_cost,
    .absorb_consumer = absorb_consumer,
    .absorb_sibling = absorb_sibling,
    .families = { &common, RF_SOFTWARE(&rf_matmul_cpu), RF_GPU(&rf_matmul_gpu) },
};
