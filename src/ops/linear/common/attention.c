/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scaled dot-product attention as one op, whose kernels never write all scores (Rabe and Staats 2021; Dao et al. 2022):
 * what the gradient needs of them it computes again, with each query's largest score and the logarithm of the sum of
 * exponentials of what all of them lack to it. Those are two numbers: the sum of both has no digits left for the second
 * one where scores are large.
 */
#include "ops/linear/common/attention.h"
#include "ops/linear/cpu/cpu.h"
#include "ops/linear/gpu/gpu.h"

#include <math.h>

/* In place of the logarithm, of a query that attends to nothing, so that all its weights are 0. */
#define NOTHING 1e30f
/* Where the search for the largest score starts. */
#define LOWEST (-3.4e38)

/* ---- inference ---- */

static rf_result expect_operands(const rf_op_call *call, uint32_t query)
{
    char a[96], b[96], c[96];
    for (uint32_t i = 0; i < call->n_in; i++) {
        RF_TRY(rf_expect_dtype(call, i, RF_F32));
        RF_TRY(rf_expect_not_empty(call, i));
    }
    const rf_shape *q = &call->in[query].shape, *k = &call->in[query + 1].shape, *v = &call->in[query + 2].shape;
    const bool fits = q->rank == 4 && k->rank == 4 && v->rank == 4 && q->dim[0] == k->dim[0] &&
                      q->dim[1] == k->dim[1] && q->dim[3] == k->dim[3] && k->dim[0] == v->dim[0] &&
                      k->dim[1] == v->dim[1] && k->dim[2] == v->dim[2];
    if (!fits)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT,
                       "%s: query is %s, key %s and value %s; they must be [n, heads, t, k], [n, heads, s, k] and "
                       "[n, heads, s, v]",
                       call->op->name, rf_shape_format(*q, a, sizeof(a)), rf_shape_format(*k, b, sizeof(b)),
                       rf_shape_format(*v, c, sizeof(c)));
    if (q->dim[2] > INT32_MAX / 4 || k->dim[2] > INT32_MAX / 4)
        return RF_FAIL(RF_ERROR_UNSUPPORTED, "%s: %lld queries and %lld keys are too many", call->op->name,
                       (long long)q->dim[2], (long long)k->dim[2]);
    return RF_OK;
}

static rf_result expect_mask(const rf_op_call *call, uint32_t query, uint32_t mask)
{
    char a[96], b[96];
    const rf_attention_attr *attr = call->attr;
    const uint32_t needed = mask + attr->mask;
    if (call->n_in != needed)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s: %u inputs, needs %u", call->op->name, call->n_in, needed);
    if (!attr->mask) return RF_OK;
    const int64_t *q = call->in[query].shape.dim, *k = call->in[query + 1].shape.dim;
    const rf_shape scores = RF_SHAPE(q[0], q[1], q[2], k[2]), *m = &call->in[mask].shape;
    bool fits = m->rank == 4;
    for (int32_t d = 0; fits && d < 4; d++) fits = m->dim[d] == 1 || m->dim[d] == scores.dim[d];
    if (fits) return RF_OK;
    return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s: the mask is %s, must be %s, or 1 in some of its dimensions",
                   call->op->name, rf_shape_format(*m, a, sizeof(a)), rf_shape_format(scores, b, sizeof(b)));
}

static rf_result attention_infer(rf_op_call *call)
{
    RF_TRY(expect_operands(call, 0));
    RF_TRY(expect_mask(call, 0, 3));
    const int64_t *q = call->in[0].shape.dim;
    call->out[0] = (rf_tensor_desc){ RF_F32, RF_SHAPE(q[0], q[1], q[2], call->in[2].shape.dim[3]) };
    call->out[1] = (rf_tensor_desc){ RF_F32, RF_SHAPE(q[0], q[1], q[2], 2) };
    return RF_OK;
}

static rf_result grad_infer(rf_op_call *call)
{
    RF_TRY(expect_operands(call, 1));
    RF_TRY(expect_mask(call, 1, 6));
    const int64_t *q = call->in[1].shape.dim;
    const rf_shape out = RF_SHAPE(q[0], q[1], q[2], call->in[3].shape.dim[3]), sums = RF_SHAPE(q[0], q[1], q[2], 2);
    RF_TRY(rf_expect_shape(call, 0, &out, "a gradient for each result"));
    RF_TRY(rf_expect_shape(call, 4, &out, "the results"));
    RF_TRY(rf_expect_shape(call, 5, &sums, "two numbers for each query"));
    for (uint32_t i = 0; i < 3; i++) call->out[i] = call->in[1 + i];
    return RF_OK;
}

rf_result rf_emit_attention(rf_graph *g, rf_value query, rf_value key, rf_value value, rf_value mask, float scale,
                            bool causal, rf_value *out)
{
    const rf_attention_attr attr = { .scale = scale, .causal = causal, .mask = mask != 0 };
    rf_value both[RF_MAX_OUTPUTS];
    RF_TRY(rf_graph_add(g, &rf_op_attention, &attr, (rf_value[]){ query, key, value, mask }, 3 + attr.mask, both));
    *out = both[0];
    return RF_OK;
}

static rf_result attention_gradient(rf_grad_context *ctx)
{
    const rf_attention_attr *attr = ctx->attr;
    if (!ctx->dout[0]) return RF_OK;
    rf_value in[RF_MAX_INPUTS] = { ctx->dout[0], ctx->in[0], ctx->in[1], ctx->in[2], ctx->out[0], ctx->out[1] };
    rf_value out[RF_MAX_OUTPUTS];
    if (attr->mask) in[6] = ctx->in[3];
    RF_TRY(rf_graph_add(ctx->graph, &rf_op_attention_grad, attr, in, 6 + attr->mask, out));
    for (uint32_t i = 0; i < 3; i++)
        if (ctx->needed[i]) ctx->din[i] = out[i];
    return RF_OK;
}

/* ---- references ---- */

static double dot_product(const float *a, const float *b, int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++) sum += (double)a[i] * (double)b[i];
    return sum;
}

static bool position_attends(const rf_attention_geometry *g, const float *mask, int64_t item, int64_t i, int64_t j)
{
    const int64_t at =
        item / g->heads * g->mask_item + item % g->heads * g->mask_head + i * g->mask_query + j * g->mask_key;
    return (!g->causal || j <= i + rf_attention_last_key(g)) && (!mask || mask[at] != 0);
}

static rf_result attention_reference(const rf_op_call *call, void *const *in, void *const *out)
{
    const rf_attention_geometry g = rf_attention_geometry_of(call, false);
    const float *mask = g.mask ? in[g.mask] : NULL;
    double *score = RF_NEW_ARRAY(double, (size_t)g.s);
    if (!score) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (int64_t row = 0; row < g.items * g.t; row++) {
        const int64_t item = row / g.t, i = row % g.t;
        const float *q = (const float *)in[0] + row * g.k, *k = (const float *)in[1] + item * g.s * g.k;
        const float *v = (const float *)in[2] + item * g.s * g.v;
        double most = LOWEST, sum = 0;
        for (int64_t j = 0; j < g.s; j++) {
            score[j] = (double)g.scale * dot_product(q, k + j * g.k, g.k);
            if (position_attends(&g, mask, item, i, j) && !(score[j] <= most)) most = score[j];
        }
        for (int64_t j = 0; j < g.s; j++) {
            score[j] = position_attends(&g, mask, item, i, j) ? exp(score[j] - most) : 0;
            sum += score[j];
        }
        for (int64_t c = 0; c < g.v; c++) {
            double mean = 0;
            for (int64_t j = 0; j < g.s; j++)
                if (position_attends(&g, mask, item, i, j)) mean += score[j] * (double)v[j * g.v + c];
            ((float *)out[0])[row * g.v + c] = (float)(sum == 0 ? 0 : mean / sum);
        }
        ((float *)out[1])[2 * row] = (float)(sum == 0 ? 0 : isnan(sum) ? sum : most);
        ((float *)out[1])[2 * row + 1] = (float)(sum == 0 ? (double)NOTHING : log(sum));
    }
    rf_free(score);
    return RF_OK;
}

/* The gradient through the score of query i and key j, and its part of that of value j. */
static void grad_pair(const rf_attention_geometry *g, void *const *in, int64_t row, int64_t other, double delta,
                      double *const into[3])
{
    const float *slope = (const float *)in[0] + row * g->v, *q = (const float *)in[1] + row * g->k;
    const float *k = (const float *)in[2] + other * g->k, *v = (const float *)in[3] + other * g->v;
    const float *sums = (const float *)in[5] + 2 * row;
    const double weight = exp((double)g->scale * dot_product(q, k, g->k) - (double)sums[0] - (double)sums[1]);
    const double d = weight * (dot_product(slope, v, g->v) - delta) * (double)g->scale;
    for (int64_t c = 0; c < g->k; c++) {
        into[0][row * g->k + c] += d * (double)k[c];
        into[1][other * g->k + c] += d * (double)q[c];
    }
    for (int64_t c = 0; c < g->v; c++) into[2][other * g->v + c] += weight * (double)slope[c];
}

static rf_result grad_reference(const rf_op_call *call, void *const *in, void *const *out)
{
    const rf_attention_geometry g = rf_attention_geometry_of(call, true);
    const float *mask = g.mask ? in[g.mask] : NULL;
    const int64_t counts[3] = { g.items * g.t * g.k, g.items * g.s * g.k, g.items * g.s * g.v };
    double *room = rf_calloc((size_t)(counts[0] + counts[1] + counts[2]), sizeof(*room));
    if (!room) return RF_ERROR_OUT_OF_HOST_MEMORY;
    double *const sums[3] = { room, room + counts[0], room + counts[0] + counts[1] };
    for (int64_t row = 0; row < g.items * g.t; row++) {
        const int64_t item = row / g.t;
        const double delta = dot_product((const float *)in[0] + row * g.v, (const float *)in[4] + row * g.v, g.v);
        for (int64_t j = 0; j < g.s; j++)
            if (position_attends(&g, mask, item, row % g.t, j)) grad_pair(&g, in, row, item * g.s + j, delta, sums);
    }
    for (uint32_t i = 0; i < 3; i++)
        for (int64_t e = 0; e < counts[i]; e++) ((float *)out[i])[e] = (float)sums[i][e];
    rf_free(room);
    return RF_OK;
}

static double count_pairs(const rf_attention_geometry *g)
{
    return (double)g->items * (double)g->t * (double)g->s * (g->causal ? 0.5 : 1);
}

static rf_cost attention_cost(const rf_op_call *call)
{
    const rf_attention_geometry g = rf_attention_geometry_of(call, false);
    return rf_cost_of(call, count_pairs(&g) * 2 * (double)(g.k + g.v));
}

static rf_cost grad_cost(const rf_op_call *call)
{
    const rf_attention_geometry g = rf_attention_geometry_of(call, true);
    return rf_cost_of(call, count_pairs(&g) * 2 * (double)(3 * g.k + 2 * g.v));
}

/* ---- kernels ---- */

static const rf_kernel kernels[] = {
    { "rows", rf_attention_rows_score, rf_attention_rows_plan, .last_resort = true },
};
static const rf_kernel grad_kernels[] = {
    { "rows", rf_attention_grad_rows_score, rf_attention_grad_rows_plan, .last_resort = true },
};
static const rf_kernel_list common = RF_KERNEL_LIST(kernels), grad_common = RF_KERNEL_LIST(grad_kernels);

/* From here on a training step is faster, though the gradient computes scores again (`ringfire-bench attention`): where
 * order counts, the upper half is left out. On a GPU that is so in causal order alone: otherwise a forward pass is, by
 * a fifth to two fifths on an NVIDIA H200, and a step a tenth slower, so that what counts is the matrix of weights that
 * it does without. */
enum {
    LEAST_CAUSAL_PAIRS = 128 * 128,
    LEAST_PAIRS = 256 * 256,
    LEAST_CAUSAL_GPU_PAIRS = 256 * 256,
    LEAST_GPU_PAIRS = 2048 * 2048
};

static bool has_fast_kernel(const rf_op_call *call, const rf_device_caps *caps)
{
    const rf_kernel *best = rf_best_kernel(call, caps);
    return best && !best->last_resort;
}

bool rf_attention_pays(const rf_op_call *call, const rf_device_caps *caps)
{
    const rf_attention_geometry g = rf_attention_geometry_of(call, false);
    const int64_t pairs = g.t * g.s;
    const int64_t least = caps->is_cpu ? (g.causal ? LEAST_CAUSAL_PAIRS : LEAST_PAIRS)
                                       : (g.causal ? LEAST_CAUSAL_GPU_PAIRS : LEAST_GPU_PAIRS);
    if ((caps->is_cpu && caps->driver != RF_DRIVER_LAVAPIPE) || pairs < least) return false;
    rf_op_call forward = *call;
    forward.n_out = 2;
    if (rf_call_infer(&forward) < 0) return false;
    const rf_op_call gradient = { .op = &rf_op_attention_grad,
                                  .attr = call->attr,
                                  .n_in = call->n_in + 3,
                                  .in = { forward.out[0], call->in[0], call->in[1], call->in[2], forward.out[0],
                                          forward.out[1], call->in[3] },
                                  .n_out = 3,
                                  .out = { call->in[0], call->in[1], call->in[2] } };
    return has_fast_kernel(&forward, caps) && has_fast_kernel(&gradient, caps);
}

/* ---- the ops ---- */

static const rf_attr_field fields[] = {
    RF_ATTR_NUMBER(rf_attention_attr, scale),
    RF_ATTR_FLAG(rf_attention_attr, causal),
    RF_ATTR_FLAG(rf_attention_attr, mask),
};
const rf_op rf_op_attention = {
    .name = "attention",
    RF_ATTRIBUTES(rf_attention_attr, fields),
    .min_in = 3,
    .max_in = 4,
    .n_out = 2,
    .flags = RF_OP_NO_ONNX,
    .saved_out = 1u << 1,
    RF_STORES_16(1),
    .infer = attention_infer,
    .gradient = attention_gradient,
    .reference = attention_reference,
    .cost = attention_cost,
    .families = { &common, RF_SOFTWARE(&rf_attention_cpu), RF_GPU(&rf_attention_gpu) },
};

const rf_op rf_op_attention_grad = {
    .name = "attention_grad",
    RF_ATTRIBUTES(rf_attention_attr, fields),
    .min_in = 6,
    .max_in = 7,
    .n_out = 3,
    .flags = RF_OP_NO_ONNX,
    RF_STORES_16(7),
    .infer = grad_infer,
    .reference = grad_reference,
    .cost = grad_cost,
    .families = { &grad_common, RF_SOFTWARE(&rf_attention_grad_cpu), RF_GPU(&rf_attention_grad_gpu) },
};
