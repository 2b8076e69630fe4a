/* SPDX-License-Identifier: Apache-2.0 */
/* The maxima of 2 x 2 windows as a convolution's second output: kernels that end with sums of whole windows make them
 * on the way, after others they are taken from the first output. */
#include "ops/linear/common/conv2d.h"

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

rf_result rf_conv2d_pool_finish(const rf_op_call *call, const rf_device_caps *caps, rf_kernel_plan *plan)
{
    static const rf_plan_tensor in[1] = { { RF_BIND_OUTPUT, 0 } }, out[1] = { { RF_BIND_OUTPUT, 1 } };
    if (call->n_out < 2) return RF_OK;
    const rf_op_call pool = pool_call(call);
    return rf_plan_append(plan, &pool, caps, in, out);
}
