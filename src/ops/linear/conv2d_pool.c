/* SPDX-License-Identifier: Apache-2.0 */
/* The maxima of 2 x 2 windows as a convolution's second output: kernels that end with sums of whole windows make them
 * on the way, after others they are taken from the first output. */
#include "ops/linear/conv2d.h"

#include <string.h>

static const rf_pool2d_attr windows = { .window = { 2, 2 }, .stride = { 2, 2 } };

static rf_op_call pool_call(const rf_op_call *conv)
{
    rf_op_call pool = { .op = &rf_op_max_pool2d, .attr = &windows, .n_in = 1, .n_out = 1 };
    pool.in[0] = conv->out[0];
    pool.out[0] = conv->out[1];
    return pool;
}

rf_result rf_conv2d_pool_infer(rf_op_call *call)
{
    rf_op_call pool = pool_call(call);
    RF_TRY(pool.op->infer(&pool));
    call->out[1] = pool.out[0];
    call->n_out = 2;
    return RF_OK;
}

rf_result rf_conv2d_pool_reference(const rf_op_call *call, void *const *out)
{
    const rf_op_call pool = pool_call(call);
    return pool.op->reference(&pool, (void *[]){ out[0] }, (void *[]){ out[1] });
}

bool rf_conv2d_pool_absorb(const rf_graph *graph, rf_node self, rf_node other, rf_fused *fused, uint32_t *other_out)
{
    const rf_node_info *conv = &graph->nodes.items[self], *pool = &graph->nodes.items[other];
    rf_conv2d_attr attr = *(const rf_conv2d_attr *)conv->attr;
    if (pool->op != &rf_op_max_pool2d || pool->in[0] != conv->out[0] || attr.max_pool ||
        memcmp(pool->attr, &windows, sizeof(windows)) != 0)
        return false;
    attr.max_pool = 1;
    *fused = (rf_fused){ .op = conv->op, .n_in = conv->n_in };
    memcpy(fused->in, conv->in, sizeof(*conv->in) * conv->n_in);
    memcpy(fused->attr, &attr, sizeof(attr));
    *other_out = 1;
    return true;
}

static const rf_kernel *best_kernel(const rf_op_call *call, const rf_device_caps *caps)
{
    const rf_kernel *best = NULL;
    double most = 0;
    for (uint32_t i = 0; i < call->op->num_kernels; i++) {
        const double score = rf_kernel_score(call->op->kernels[i], call, caps);
        if (score <= most) continue;
        best = call->op->kernels[i];
        most = score;
    }
    return best;
}

/* The pooling reads output 0 and writes output 1. */
static rf_result append_pool(const rf_kernel_plan *pool, rf_kernel_plan *plan)
{
    if (pool->workspace > 0) return RF_FAIL(RF_ERROR_INTERNAL, "conv2d: pooling takes a workspace");
    for (uint32_t k = 0; k < pool->count; k++) {
        rf_dispatch *d = rf_kernel_plan_add(plan, pool->items[k].shader, pool->items[k].loops);
        if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
        *d = pool->items[k];
        for (uint32_t i = 0; i < d->n_bind; i++) {
            d->bind[i].index = d->bind[i].kind == RF_BIND_OUTPUT;
            d->bind[i].kind = RF_BIND_OUTPUT;
        }
    }
    return RF_OK;
}

rf_result rf_conv2d_pool_finish(const rf_op_call *call, const rf_device_caps *caps, rf_kernel_plan *plan)
{
    if (call->n_out < 2) return RF_OK;
    const rf_op_call pool = pool_call(call);
    const rf_kernel *kernel = best_kernel(&pool, caps);
    if (!kernel) return RF_FAIL(RF_ERROR_UNSUPPORTED, "conv2d: the device has no kernel that pools this image");
    rf_kernel_plan inner = { 0 };
    rf_result r = rf_kernel_plan_make(kernel, &pool, caps, &inner);
    if (r >= 0) r = append_pool(&inner, plan);
    rf_kernel_plan_free(&inner);
    return r;
}
