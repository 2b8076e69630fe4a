/* SPDX-License-Identifier: Apache-2.0 */
/* broadcast_like. */
#include "graph/batch_dims.h"
#include "ops/kit.h"
#include "ops/pointwise/common/elementwise.h"
#include "ops/pointwise/cpu/cpu.h"
#include "ops/reduction/common/loss.h"

static rf_result broadcast_infer(rf_op_call *call)
{
    return rf_broadcast_infer(call, false);
}

static rf_result broadcast_gradient(rf_grad_context *ctx)
{
    return rf_emit_sum_to_like(ctx->graph, ctx->dout[0], ctx->in[0], &ctx->din[0]);
}

static rf_result broadcast_reference(const rf_op_call *call, void *const *in, void *const *out)
{
    const int64_t count = rf_shape_count(call->out[0].shape);
    for (int64_t e = 0; e < count; e++)
        ((float *)out[0])[e] = ((const float *)in[0])[rf_broadcast_index(call->in[0].shape, call->out[0].shape, e)];
    return RF_OK;
}

/* ---- copies by the driver: of a row, then of what is there ---- */

#define BLOCK_BYTES (64u << 10) /* of what is copied over and over: it stays in a cache of a processor */
#define MOST_COPIES 64u         /* of what is smaller, before that grows */
#define MOST_BLOCKS (1u << 16)
#define LEAST_BYTES (1u << 20) /* of an output that is worth several transfers with barriers between them */

/* The output as `rows` times the input. */
typedef struct repeated {
    uint64_t rows, bytes; /* of a row */
} repeated;

static bool repeated_of(const rf_op_call *call, repeated *out)
{
    rf_collapsed c;
    rf_broadcast_collapse(call->out[0].shape, &call->in[0], 1, &c);
    const bool whole = c.rank == 1 && c.present[0] == 1, row = c.rank == 2 && c.present[0] == 2;
    if (call->in[0].dtype != call->out[0].dtype || !(whole || row)) return false;
    *out = (repeated){ whole ? 1 : c.size[0], c.size[whole ? 0 : 1] * rf_dtype_size(call->in[0].dtype) };
    return true;
}

static double score_repeated(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    repeated r;
    if (!repeated_of(call, &r) || r.rows * r.bytes > caps->max_storage_range) return RF_SCORE_NONE;
    if (r.rows * r.bytes / BLOCK_BYTES > MOST_BLOCKS) return RF_SCORE_NONE;
    const bool copies = caps->driver == RF_DRIVER_LAVAPIPE || caps->driver == RF_DRIVER_SWIFTSHADER;
    return copies && r.rows * r.bytes >= LEAST_BYTES ? RF_SCORE_COPY : RF_SCORE_RESERVE;
}

/* `count` copies of `bytes` that begin the input, or the output where those are there already, to byte `to` of the
 * output and on. */
static rf_result plan_copies(rf_kernel_plan *plan, rf_bind_kind kind, uint64_t bytes, uint64_t to, uint64_t count,
                             bool concurrent)
{
    const rf_runs runs = {
        .bytes = bytes, .to = to, .rank = 1, .count = { (uint32_t)count }, .to_step = { (int64_t)bytes }
    };
    if (count == 0 || bytes == 0) return RF_OK;
    rf_dispatch *d = rf_kernel_plan_add_runs(plan, &runs);
    if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
    d->concurrent = concurrent;
    rf_bind_whole(d, kind, 0)->write = false;
    rf_bind_whole(d, RF_BIND_OUTPUT, 0);
    return RF_OK;
}

static rf_result plan_repeated(const rf_op_call *call, const rf_device_caps *caps, const void *data,
                               rf_kernel_plan *plan)
{
    repeated r = { 0 };
    (void)caps;
    if (!repeated_of(call, &r)) return RF_FAIL(RF_ERROR_UNSUPPORTED, "broadcast_like: the output is not made of rows");
    const uint64_t first = r.bytes >= BLOCK_BYTES ? r.rows : rf_min(r.rows, MOST_COPIES);
    RF_TRY(plan_copies(plan, RF_BIND_INPUT, r.bytes, 0, first, false));
    uint64_t there = first;
    while (there < r.rows) {
        const bool large = there * r.bytes >= BLOCK_BYTES;
        const uint64_t fitting = (r.rows - there) / there, copies = large ? fitting : rf_min(fitting, MOST_COPIES);
        RF_TRY(plan_copies(plan, RF_BIND_OUTPUT, there * r.bytes, there * r.bytes, copies, false));
        const uint64_t now = there * (copies + 1);
        if (copies == fitting) {
            RF_TRY(plan_copies(plan, RF_BIND_OUTPUT, (r.rows - now) * r.bytes, now * r.bytes, 1, copies > 0));
            return RF_OK;
        }
        there = now;
    }
    return RF_OK;
}

/* Bytes are copied, whatever they say. */
static bool takes_repeated(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    (void)caps;
    return call->in[0].dtype == call->out[0].dtype;
}

/* As a copy by the element-wise kernels, or by the driver. */
static const rf_kernel kernels[] = {
    RF_ELEMENTWISE_KERNELS,
    { "runs", score_repeated, plan_repeated, .narrow = takes_repeated },
};

static bool broadcast_absorb(const rf_graph *graph, rf_node producer, rf_node consumer, rf_fused *fused)
{
    return rf_elementwise_absorb(graph, producer, consumer, fused) ||
           rf_loss_absorb_dloss(graph, producer, consumer, fused);
}

const rf_op rf_op_broadcast_like = {
    .name = "broadcast_like",
    .role = RF_PROGRAM_COPY,
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .shape_only = 1u << 1,
    RF_STORES_16(1),
    .infer = broadcast_infer,
    .gradient = broadcast_gradient,
    .reference = broadcast_reference,
    .cost = rf_broadcast_cost,
    .absorb_consumer = broadcast_absorb,
    RF_KERNELS_AND(kernels, RF_SOFTWARE(&rf_elementwise_cpu)),
};

rf_result rf_emit_broadcast_like(rf_graph *g, rf_value x, rf_value like, rf_value *out)
{
    bool same;
    RF_TRY(rf_graph_same_shapes(g, x, like, &same));
    *out = x;
    if (same) return RF_OK;
    return rf_graph_add(g, &rf_op_broadcast_like, NULL, (rf_value[]){ x, like }, 2, out);
}
