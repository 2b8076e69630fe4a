/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/linear/common/linear.h"

#include <string.h>

#include "ops/pointwise/common/elementwise.h"

/* ---- epilogue ---- */

bool rf_linear_activation_known(uint32_t activation)
{
    return activation <= RF_ACTIVATION_GELU;
}

double rf_linear_activate(uint32_t activation, double x)
{
    switch (activation) {
    case RF_ACTIVATION_RELU: return rf_scalar_table[RF_FN_RELU].reference(x, 0, 0);
    case RF_ACTIVATION_LEAKY_RELU: return rf_scalar_table[RF_FN_LEAKY_RELU].reference(x, 0, (double)0.2f);
    case RF_ACTIVATION_SIGMOID: return rf_scalar_table[RF_FN_SIGMOID].reference(x, 0, 0);
    case RF_ACTIVATION_TANH: return rf_scalar_table[RF_FN_TANH].reference(x, 0, 0);
    case RF_ACTIVATION_GELU: return rf_scalar_table[RF_FN_GELU_ERF].reference(x, 0, 0);
    default: return x;
    }
}

/* The activation that an element-wise node of one step and one operand is, LINEAR when it is none. */
static uint32_t activation_of(const rf_node_info *node)
{
    const rf_elementwise_attr *attr = node->attr;
    if (node->op != &rf_op_elementwise || node->n_in != 1 || attr->n_steps != 1 || attr->steps[0].a != 0)
        return RF_ACTIVATION_LINEAR;
    switch (attr->steps[0].fn) {
    case RF_FN_RELU: return RF_ACTIVATION_RELU;
    case RF_FN_LEAKY_RELU: return attr->steps[0].imm == 0.2f ? RF_ACTIVATION_LEAKY_RELU : RF_ACTIVATION_LINEAR;
    case RF_FN_SIGMOID: return RF_ACTIVATION_SIGMOID;
    case RF_FN_TANH: return RF_ACTIVATION_TANH;
    case RF_FN_GELU_ERF: return RF_ACTIVATION_GELU;
    default: return RF_ACTIVATION_LINEAR;
    }
}

bool rf_linear_absorb(const rf_graph *graph, rf_node producer, rf_node consumer, size_t activation_offset,
                      rf_fused *fused)
{
    const rf_node_info *p = &graph->nodes.items[producer], *c = &graph->nodes.items[consumer];
    uint32_t activation;
    memcpy(&activation, (const char *)p->attr + activation_offset, sizeof(activation));
    if (activation != RF_ACTIVATION_LINEAR) return false; /* nothing can follow an activation */

    memset(fused, 0, sizeof(*fused));
    fused->op = p->op;
    fused->n_in = p->n_in;
    memcpy(fused->in, p->in, sizeof(*p->in) * p->n_in);
    memcpy(fused->attr, p->attr, p->op->attr_size);
    if (c->op == &rf_op_bias_add) {
        if (p->n_in != 2 || c->in[0] != p->out[0]) return false;
        fused->in[fused->n_in++] = c->in[1];
        return true;
    }
    activation = activation_of(c);
    memcpy(fused->attr + activation_offset, &activation, sizeof(activation));
    return activation != RF_ACTIVATION_LINEAR;
}

bool rf_linear_absorb_cast(const rf_graph *graph, rf_node self, rf_node other, size_t f32_offset, rf_fused *fused)
{
    const rf_node_info *s = &graph->nodes.items[self], *o = &graph->nodes.items[other];
    const uint32_t yes = 1;
    if (o->op != &rf_op_cast || o->in[0] != s->out[0] || rf_graph_desc(graph, o->out[0])->dtype != RF_F32) return false;
    *fused = (rf_fused){ .op = s->op, .n_in = s->n_in };
    memcpy(fused->in, s->in, sizeof(s->in));
    memcpy(fused->attr, s->attr, s->op->attr_size);
    memcpy(fused->attr + f32_offset, &yes, sizeof(yes));
    return true;
}

rf_result rf_linear_append_sums(const rf_op_call *call, const rf_device_caps *caps, rf_kernel_plan *plan)
{
    const rf_reduce_attr rows = { .kind = RF_REDUCE_KIND_SUM, .axes_mask = (1u << (call->in[1].shape.rank - 1)) - 1 };
    rf_op_call sums = { .op = &rf_op_reduce, .attr = &rows, .n_in = 1, .n_out = 1 };
    sums.in[0] = call->in[1];
    sums.out[0] = call->out[1];
    static const rf_plan_tensor in[1] = { { RF_BIND_INPUT, 1 } }, out[1] = { { RF_BIND_OUTPUT, 1 } };
    return rf_plan_append(plan, &sums, caps, in, out);
}

/* ---- convolution geometry ---- */

static bool axis_make(const rf_conv2d_attr *attr, int axis, int64_t size, int64_t kernel, int64_t *out, int64_t *before)
{
    const int64_t stride = attr->stride[axis], extent = (kernel - 1) * attr->dilation[axis] + 1;
    int64_t total = 0;
    *before = 0;
    if (attr->padding == RF_PADDING_SAME) {
        *out = (size + stride - 1) / stride;
        total = (*out - 1) * stride + extent - size;
        *before = total > 0 ? total / 2 : 0;
        return true;
    }
    if (attr->padding == RF_PADDING_EXPLICIT) {
        *before = attr->explicit_padding[2 * axis];
        total = *before + attr->explicit_padding[2 * axis + 1];
    }
    if (size + total < extent) return false;
    *out = (size + total - extent) / stride + 1;
    return true;
}

static rf_result check_attr(const char *op, const rf_conv2d_attr *a)
{
    if (a->stride[0] < 1 || a->stride[1] < 1 || a->dilation[0] < 1 || a->dilation[1] < 1 || a->groups < 1)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s: stride %dx%d, dilation %dx%d, groups %d; all must be at least 1",
                       op, a->stride[0], a->stride[1], a->dilation[0], a->dilation[1], a->groups);
    if (a->padding < RF_PADDING_VALID || a->padding > RF_PADDING_EXPLICIT)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s: unknown padding %d", op, a->padding);
    for (int i = 0; i < 4; i++)
        if (a->padding == RF_PADDING_EXPLICIT && a->explicit_padding[i] < 0)
            return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s: explicit padding %d is negative; crop the input instead", op,
                           a->explicit_padding[i]);
    if (!rf_linear_activation_known(a->activation))
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s: activation %u cannot be fused; apply it as an op of its own", op,
                       a->activation);
    if (a->relu_mask != 0)
        return RF_FAIL(RF_ERROR_UNSUPPORTED, "%s: takes no ReLU mask; apply RF_FN_RELU_GRAD to dy first", op);
    return RF_OK;
}

rf_result rf_conv_geometry_make(const char *op, const rf_conv2d_attr *a, const rf_tensor_desc *x,
                                const rf_tensor_desc *kernel, rf_conv_geometry *out)
{
    char xs[96], ks[96];
    rf_shape_format(x->shape, xs, sizeof(xs));
    rf_shape_format(kernel->shape, ks, sizeof(ks));
    RF_TRY(check_attr(op, a));
    if (x->dtype != RF_F32 || kernel->dtype != RF_F32)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s: image is %s and kernel is %s; cast both to f32", op,
                       rf_dtype_name(x->dtype), rf_dtype_name(kernel->dtype));
    if (x->shape.rank != 4 || kernel->shape.rank != 4)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT,
                       "%s: image %s must be [n,h,w,cin] and kernel %s must be [kh,kw,cin/groups,cout]", op, xs, ks);
    const int64_t *xd = x->shape.dim, *kd = kernel->shape.dim;
    rf_conv_geometry g = { .n = xd[0],
                           .h = xd[1],
                           .w = xd[2],
                           .cin = xd[3],
                           .kh = kd[0],
                           .kw = kd[1],
                           .cig = kd[2],
                           .cout = kd[3],
                           .groups = a->groups,
                           .sy = a->stride[0],
                           .sx = a->stride[1],
                           .dy = a->dilation[0],
                           .dx = a->dilation[1] };
    for (int i = 0; i < 4; i++)
        if (xd[i] < 1 || kd[i] < 1 || xd[i] > INT32_MAX || kd[i] > INT32_MAX)
            return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s: image %s or kernel %s has an empty or oversized dimension",
                           op, xs, ks);
    if (g.cig * g.groups != g.cin || g.cout % g.groups != 0)
        return RF_FAIL(
            RF_ERROR_INVALID_ARGUMENT,
            "%s: image %s, kernel %s and %d groups do not fit: the kernel's third dimension must be %lld / groups, "
            "its fourth a multiple of groups",
            op, xs, ks, a->groups, (long long)g.cin);
    g.cog = g.cout / g.groups;
    if (!axis_make(a, 0, g.h, g.kh, &g.oh, &g.pt) || !axis_make(a, 1, g.w, g.kw, &g.ow, &g.pl))
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT,
                       "%s: kernel %s with dilation %dx%d is larger than the padded image %s", op, ks, a->dilation[0],
                       a->dilation[1], xs);
    *out = g;
    return RF_OK;
}

rf_conv_geometry rf_conv_geometry_of(const rf_op_call *call)
{
    const bool filter = call->op == &rf_op_conv2d_filter_grad || call->op == &rf_op_conv2d_pool_filter_grad;
    const bool data = call->op == &rf_op_conv2d_data_grad || call->op == &rf_op_conv2d_transpose;
    const rf_tensor_desc *x = data ? &call->out[0] : &call->in[0], *kernel = &call->in[filter ? 2 : 1];
    const rf_conv2d_attr *a = call->attr;
    const int64_t *xd = x->shape.dim, *kd = kernel->shape.dim;
    rf_conv_geometry g = { .n = xd[0],
                           .h = xd[1],
                           .w = xd[2],
                           .cin = xd[3],
                           .kh = kd[0],
                           .kw = kd[1],
                           .cig = kd[2],
                           .cout = kd[3],
                           .groups = a->groups,
                           .cog = kd[3] / a->groups,
                           .sy = a->stride[0],
                           .sx = a->stride[1],
                           .dy = a->dilation[0],
                           .dx = a->dilation[1] };
    axis_make(a, 0, g.h, g.kh, &g.oh, &g.pt);
    axis_make(a, 1, g.w, g.kw, &g.ow, &g.pl);
    return g;
}

bool rf_conv_reads_padding(const rf_conv_geometry *g)
{
    return g->pt > 0 || g->pl > 0 || (g->oh - 1) * g->sy + (g->kh - 1) * g->dy - g->pt >= g->h ||
           (g->ow - 1) * g->sx + (g->kw - 1) * g->dx - g->pl >= g->w;
}

rf_conv_geometry rf_conv_geometry_turned(const rf_conv_geometry *g)
{
    return (rf_conv_geometry){ .n = g->n,
                               .h = g->oh,
                               .w = g->ow,
                               .cin = g->cout,
                               .oh = g->h,
                               .ow = g->w,
                               .cout = g->cin,
                               .kh = g->kh,
                               .kw = g->kw,
                               .groups = g->groups,
                               .cig = g->cog,
                               .cog = g->cig,
                               .sy = 1,
                               .sx = 1,
                               .dy = g->dy,
                               .dx = g->dx,
                               .pt = (g->kh - 1) * g->dy - g->pt,
                               .pl = (g->kw - 1) * g->dx - g->pl };
}

rf_cost rf_conv_cost(const rf_op_call *call)
{
    const rf_conv_geometry g = rf_conv_geometry_of(call);
    const double macs = (double)g.n * (double)(g.oh * g.ow) * (double)(g.kh * g.kw * g.cig) * (double)g.cout;
    rf_cost cost = { .flops = 2 * macs };
    for (uint32_t i = 0; i < call->n_in; i++)
        if (!(call->op->shape_only >> i & 1)) cost.bytes += (double)rf_tensor_bytes(&call->in[i]);
    for (uint32_t i = 0; i < call->n_out; i++) cost.bytes += (double)rf_tensor_bytes(&call->out[i]);
    return cost;
}

double rf_linear_naive_score(const rf_op_call *call, const rf_device_caps *caps)
{
    return rf_score_of_time(caps->is_cpu ? call->op->cost(call).flops / 1e9 + 30e-6
                                         : call->op->cost(call).flops / 1e11 + 5e-6);
}

rf_elements rf_linear_met_column(const rf_op_call *call, int64_t i)
{
    const rf_shape *b = &call->in[1].shape, *out = &call->out[0].shape;
    return (rf_elements){ i % out->dim[out->rank - 1], b->dim[b->rank - 1], rf_shape_count(*b) };
}
