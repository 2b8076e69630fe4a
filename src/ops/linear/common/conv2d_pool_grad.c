/* SPDX-License-Identifier: Apache-2.0 */
/* The gradient by a kernel of few input channels, of a convolution whose output goes into the maxima of 2 x 2 windows:
 * made of the gradient of these maxima, so that the one of the output, four times as large and mostly zeros, need not
 * be stored. */
#include <string.h>

#include "ops/linear/common/conv2d.h"
#include "ops/linear/cpu/cpu.h"

enum { X, WINDOWS, KERNEL, Y /* inputs */ };

static const rf_pool2d_attr windows = { .window = { 2, 2 }, .stride = { 2, 2 } },
                            masked_windows = { .window = { 2, 2 }, .stride = { 2, 2 }, .relu_mask = 1 };

/* The two calls that this one stands for: of the maxima, and of the convolution. */
static rf_op_call pool_call(const rf_op_call *call)
{
    const bool masked = ((const rf_conv2d_attr *)call->attr)->relu_mask;
    return (rf_op_call){ .op = &rf_op_max_pool2d_grad,
                         .attr = masked ? &masked_windows : &windows,
                         .n_in = 3,
                         .in = { call->in[WINDOWS], call->in[Y], call->in[WINDOWS] },
                         .n_out = 1,
                         .out = { call->in[Y] } };
}

/* The call lasts as long as *attr. */
static rf_op_call filter_call(const rf_op_call *call, rf_conv2d_attr *attr)
{
    rf_op_call filter = *call;
    *attr = *(const rf_conv2d_attr *)call->attr;
    attr->relu_mask = 0;
    filter.attr = attr;
    filter.op = &rf_op_conv2d_filter_grad;
    filter.n_in = 3;
    filter.in[WINDOWS] = call->in[Y];
    return filter;
}

static rf_result grad_infer(rf_op_call *call)
{
    rf_conv2d_attr attr;
    rf_op_call pool = pool_call(call), filter = filter_call(call, &attr);
    RF_TRY(rf_error_context(pool.op->infer(&pool), "%s", call->op->name));
    RF_TRY(rf_error_context(filter.op->infer(&filter), "%s", call->op->name));
    memcpy(call->out, filter.out, sizeof(call->out));
    call->n_out = filter.n_out;
    return RF_OK;
}

/* Adds one element of the output's gradient, which is not zero. */
static void add_element(const rf_conv_geometry *g, const float *x, int64_t pixel, int64_t column, double d,
                        double *sums)
{
    const int64_t ox = pixel % g->ow, oy = pixel / g->ow % g->oh, image = pixel / g->ow / g->oh;
    for (int64_t tap = 0; tap < g->kh * g->kw; tap++) {
        const int64_t iy = oy * g->sy + tap / g->kw * g->dy - g->pt, ix = ox * g->sx + tap % g->kw * g->dx - g->pl;
        if (iy < 0 || iy >= g->h || ix < 0 || ix >= g->w) continue;
        for (int64_t ci = 0; ci < g->cig; ci++) {
            const int64_t channel = column / g->cog * g->cig + ci;
            sums[(tap * g->cig + ci) * g->cout + column] +=
                d * (double)x[((image * g->h + iy) * g->w + ix) * g->cin + channel];
        }
    }
}

/* Only maxima take part: NaN that other pixels would meet do not show. */
static rf_result grad_reference(const rf_op_call *call, void *const *in, void *const *out)
{
    const rf_op_call pool = pool_call(call);
    const rf_conv_geometry g = rf_conv_geometry_of(call, RF_ROLE_FILTER);
    const int64_t count = (int64_t)rf_desc_count(&call->in[Y]), size = g.kh * g.kw * g.cig * g.cout;
    float *dy = RF_NEW_ARRAY(float, count);
    double *sums = RF_NEW_ARRAY(double, size + g.cout);
    rf_result r = dy && sums ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
    if (r >= 0) r = pool.op->reference(&pool, (void *[]){ in[WINDOWS], in[Y], in[WINDOWS] }, (void *[]){ dy });
    for (int64_t i = 0; r >= 0 && i < count; i++) {
        if (dy[i] == 0) continue;
        add_element(&g, in[X], i / g.cout, i % g.cout, (double)dy[i], sums);
        sums[size + i % g.cout] += (double)dy[i];
    }
    for (int64_t i = 0; r >= 0 && i < size; i++) ((float *)out[0])[i] = (float)sums[i];
    for (int64_t i = 0; r >= 0 && call->n_out > 1 && i < g.cout; i++) ((float *)out[1])[i] = (float)sums[size + i];
    rf_free(dy);
    rf_free(sums);
    return r;
}

static rf_cost grad_cost(const rf_op_call *call)
{
    rf_conv2d_attr attr;
    const rf_op_call filter = filter_call(call, &attr);
    return rf_cost_of(call, filter.op->cost(&filter).flops);
}

/* ---- one after the other ---- */

/* Bytes in a second, and seconds of a dispatch, as assumed of two cores and of a GPU. */
#define CPU_BYTES 5e9
#define CPU_DISPATCH 3e-5
#define GPU_BYTES 1e12
#define GPU_DISPATCH 5e-6

static double steps_score(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    rf_conv2d_attr attr;
    const rf_op_call pool = pool_call(call), filter = filter_call(call, &attr);
    const rf_kernel *first = rf_best_kernel(&pool, caps), *second = rf_best_kernel(&filter, caps);
    if (!first || !second) return RF_SCORE_NONE;
    const double bytes = pool.op->cost(&pool).bytes;
    const double seconds = caps->is_cpu ? bytes / CPU_BYTES + CPU_DISPATCH : bytes / GPU_BYTES + GPU_DISPATCH;
    return rf_score_of_time(1e-3 / rf_kernel_score(second, &filter, caps) + seconds);
}

static rf_result steps_plan(const rf_op_call *call, const rf_device_caps *caps, const void *data, rf_kernel_plan *plan)
{
    rf_conv2d_attr attr;
    const rf_op_call pool = pool_call(call), filter = filter_call(call, &attr);
    const rf_plan_tensor dy = { .kind = RF_BIND_WORKSPACE, .size = rf_align_up(rf_tensor_bytes(&call->in[Y]), 16) };
    const rf_plan_tensor pool_in[] = { { .kind = RF_BIND_INPUT, .index = WINDOWS },
                                       { .kind = RF_BIND_INPUT, .index = Y },
                                       { .kind = RF_BIND_INPUT, .index = WINDOWS } };
    const rf_plan_tensor filter_in[] = { { .kind = RF_BIND_INPUT, .index = X },
                                         dy,
                                         { .kind = RF_BIND_INPUT, .index = KERNEL } };
    const rf_plan_tensor filter_out[] = { { .kind = RF_BIND_OUTPUT, .index = 0 },
                                          { .kind = RF_BIND_OUTPUT, .index = 1 } };
    plan->workspace = dy.size;
    RF_TRY(rf_plan_append(plan, &pool, caps, pool_in, &dy));
    return rf_plan_append(plan, &filter, caps, filter_in, filter_out);
}

static const rf_kernel kernels[] = {
    { "steps", steps_score, steps_plan, .cuts_up = true, .narrow = rf_always_narrow },
};
static const rf_kernel_list common = RF_KERNEL_LIST(kernels);

/* ---- from the two nodes ---- */

bool rf_conv2d_pool_grad_absorb(const rf_graph *graph, rf_node pool_grad, rf_node consumer, rf_fused *fused)
{
    const rf_node_info *pool = &graph->nodes.items[pool_grad], *filter = &graph->nodes.items[consumer];
    const rf_pool2d_attr *attr = pool->attr;
    if (filter->op != &rf_op_conv2d_filter_grad || filter->in[1] != pool->out[0]) return false;
    rf_conv2d_attr conv = *(const rf_conv2d_attr *)filter->attr;
    if (memcmp(attr, attr->relu_mask ? &masked_windows : &windows, sizeof(*attr)) != 0 || conv.groups > 1 ||
        rf_graph_desc(graph, filter->in[0])->shape.dim[3] > RF_SMALL_CHANNELS)
        return false;
    conv.relu_mask = attr->relu_mask;
    *fused = (rf_fused){ .op = &rf_op_conv2d_pool_filter_grad,
                         .n_in = 4,
                         .in = { filter->in[0], pool->in[0], filter->in[2], pool->in[1] },
                         .all_outputs = true };
    memcpy(fused->attr, &conv, sizeof(conv));
    return true;
}

static bool absorb_cast(const rf_graph *graph, rf_node self, rf_node other, rf_fused *fused, uint32_t *other_out)
{
    *other_out = 0;
    return rf_linear_absorb_cast(graph, self, other, offsetof(rf_conv2d_attr, f32), fused);
}

const rf_op rf_op_conv2d_pool_filter_grad = {
    .name = "conv2d_pool_filter_grad",
    RF_ATTRIBUTES(rf_conv2d_attr, rf_conv2d_fields),
    .min_in = 4,
    .max_in = 4,
    .n_out = 2,
    .shape_only = 1u << KERNEL,
    .flags = RF_OP_NO_ONNX,
    .unbatched_in = 1u << KERNEL,
    .unbatched_out = 1u << 0 | 1u << 1,
    .met_by_padding = rf_linear_met_column,
    RF_STORES_16(1),
    .makes_f32 = rf_conv2d_makes_f32,
    .infer = grad_infer,
    .reference = grad_reference,
    .cost = grad_cost,
    .absorb_sibling = absorb_cast,
    .families = { &common, RF_SOFTWARE(&rf_conv2d_pool_filter_cpu) },
};
