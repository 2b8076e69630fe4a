/* SPDX-License-Identifier: Apache-2.0 */
/* The shapes of calls as kernels see them; nothing here knows an op's table. */
#include "ops/linear/common/attention.h"
#include "ops/linear/common/matmul.h"
#include "ops/linear/common/rnn.h"

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

rf_conv_geometry rf_conv_geometry_of(const rf_op_call *call, rf_linear_role role)
{
    const rf_tensor_desc *x = role == RF_ROLE_DATA ? &call->out[0] : &call->in[0];
    const rf_tensor_desc *kernel = &call->in[role == RF_ROLE_FILTER ? 2 : 1];
    const rf_conv2d_attr *a = call->attr;
    const int64_t *xd = x->shape.dim, *kd = kernel->shape.dim;
    rf_conv_geometry g = { .role = role,
                           .n = xd[0],
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
    return (rf_conv_geometry){ .role = RF_ROLE_FORWARD,
                               .n = g->n,
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

rf_cost rf_conv_cost(const rf_op_call *call, rf_linear_role role)
{
    const rf_conv_geometry g = rf_conv_geometry_of(call, role);
    const double macs = (double)g.n * (double)(g.oh * g.ow) * (double)(g.kh * g.kw * g.cig) * (double)g.cout;
    rf_cost cost = { .flops = 2 * macs };
    for (uint32_t i = 0; i < call->n_in; i++)
        if (!(call->op->shape_only >> i & 1)) cost.bytes += (double)rf_tensor_bytes(&call->in[i]);
    for (uint32_t i = 0; i < call->n_out; i++) cost.bytes += (double)rf_tensor_bytes(&call->out[i]);
    return cost;
}

/* ---- products ---- */

int64_t rf_matmul_batch_dim(const rf_shape *shape, int32_t rank, int32_t i)
{
    const int32_t at = i - (rank - (shape->rank - 2));
    return at < 0 ? 1 : shape->dim[at];
}

rf_matmul_geometry rf_matmul_geometry_of(const rf_op_call *call)
{
    const rf_matmul_attr *attr = call->attr;
    const rf_shape *a = &call->in[0].shape, *b = &call->in[1].shape, *c = &call->out[0].shape;
    rf_matmul_geometry g = { .ta = attr->transpose_a,
                             .tb = attr->transpose_b,
                             .bias = call->n_in == 3 && !attr->relu_mask,
                             .relu_mask = attr->relu_mask,
                             .bias_gradient = call->n_out > 1,
                             .activation = attr->activation,
                             .batch = 1 };
    const int32_t rank = c->rank - 2;
    g.m = c->dim[rank];
    g.n = c->dim[rank + 1];
    g.k = a->dim[a->rank - (g.ta ? 2 : 1)];
    for (int i = 0; i < RF_MATMUL_BATCH_DIMS; i++) g.dim[i] = 1;

    int at = RF_MATMUL_BATCH_DIMS; /* the last one written; going outwards */
    int64_t a_size = g.m * g.k, b_size = g.n * g.k;
    bool a_varies = false, b_varies = false;
    for (int32_t i = rank - 1; i >= 0; i--) {
        const bool va = rf_matmul_batch_dim(a, rank, i) > 1, vb = rf_matmul_batch_dim(b, rank, i) > 1;
        if (!va && !vb) continue;
        if (at == RF_MATMUL_BATCH_DIMS || va != a_varies || vb != b_varies) {
            at--;
            g.a_stride[at] = va ? a_size : 0;
            g.b_stride[at] = vb ? b_size : 0;
            a_varies = va;
            b_varies = vb;
        }
        g.dim[at] *= c->dim[i];
        g.batch *= c->dim[i];
        if (va) a_size *= c->dim[i];
        if (vb) b_size *= c->dim[i];
    }
    if (at == RF_MATMUL_BATCH_DIMS - 1 && !g.b_stride[at] && !g.ta) {
        g.m *= g.batch;
        g.batch = g.dim[at] = 1;
        g.a_stride[at] = 0;
    }
    return g;
}

void rf_matmul_batch_offset(const rf_matmul_geometry *g, int64_t z, int64_t *a, int64_t *b)
{
    *a = *b = 0;
    for (int i = RF_MATMUL_BATCH_DIMS - 1; i >= 0; i--) {
        *a += z % g->dim[i] * g->a_stride[i];
        *b += z % g->dim[i] * g->b_stride[i];
        z /= g->dim[i];
    }
}

/* ---- attention ---- */

rf_attention_geometry rf_attention_geometry_of(const rf_op_call *call, bool gradient)
{
    const rf_attention_attr *attr = call->attr;
    const uint32_t query = gradient ? 1 : 0, mask = gradient ? 6 : 3;
    const int64_t *q = call->in[query].shape.dim, *k = call->in[query + 1].shape.dim;
    rf_attention_geometry g = { .items = q[0] * q[1],
                                .heads = q[1],
                                .t = q[2],
                                .s = k[2],
                                .k = q[3],
                                .v = call->in[query + 2].shape.dim[3],
                                .gradient = gradient,
                                .causal = attr->causal,
                                .scale = attr->scale,
                                .query = query,
                                .mask = attr->mask ? mask : 0 };
    if (!g.mask) return g;
    const int64_t *m = call->in[mask].shape.dim;
    g.mask_key = m[3] > 1;
    g.mask_query = m[2] > 1 ? m[3] : 0;
    g.mask_head = m[1] > 1 ? m[2] * m[3] : 0;
    g.mask_item = m[0] > 1 ? m[1] * m[2] * m[3] : 0;
    return g;
}

/* ---- recurrent layers ---- */

static void bind_rows(rf_row_job *job, const rf_op_call *call, rf_bind_kind kind, uint32_t index)
{
    const rf_tensor_desc *desc = kind == RF_BIND_INPUT ? &call->in[index] : &call->out[index];
    rf_row_job_tensor(job, kind, index, rf_tensor_bytes(desc) / job->rows);
}

void rf_rnn_bind(rf_row_job *job, const rf_op_call *call, bool grad)
{
    const rf_rnn_attr *attr = call->attr;
    const bool lstm = attr->kind == RF_RNN_LSTM;
    bind_rows(job, call, RF_BIND_INPUT, 0);
    rf_row_job_tensor(job, RF_BIND_INPUT, 1, 0);
    if (grad) {
        for (uint32_t i = 2; i < 5; i++) bind_rows(job, call, RF_BIND_INPUT, i);
        bind_rows(job, call, RF_BIND_INPUT, attr->state ? 5 : 0);
        bind_rows(job, call, RF_BIND_INPUT, attr->mask ? rf_rnn_grad_mask_input(attr) : 0);
        bind_rows(job, call, RF_BIND_OUTPUT, 0);
        bind_rows(job, call, RF_BIND_OUTPUT, rf_rnn_resets_after(attr) ? 2 : 0);
        bind_rows(job, call, RF_BIND_OUTPUT, 1);
        bind_rows(job, call, RF_BIND_OUTPUT, lstm ? 2 : 1);
        return;
    }
    rf_row_job_tensor(job, RF_BIND_INPUT, 2, 0);
    bind_rows(job, call, RF_BIND_INPUT, attr->state ? 3 : 0);
    bind_rows(job, call, RF_BIND_INPUT, attr->state ? rf_rnn_cell_input(attr) : 0);
    bind_rows(job, call, RF_BIND_INPUT, attr->mask ? rf_rnn_mask_input(attr) : 0);
    bind_rows(job, call, RF_BIND_OUTPUT, 0);
    bind_rows(job, call, RF_BIND_OUTPUT, lstm);
}
