/* SPDX-License-Identifier: Apache-2.0 */
/* Cumulative sums along the last dimension. */
#include "ops/kit.h"
#include "ops/ops.h"
#include "rf_shaders.h"

#include <math.h>

/* ---- host side ---- */

static rf_result cumsum_infer(rf_op_call *call)
{
    RF_TRY(rf_expect_rows(call, 0));
    call->out[0] = call->in[0];
    return RF_OK;
}

rf_result rf_emit_cumsum(rf_graph *g, rf_value x, bool exclusive, bool reverse, rf_value *out)
{
    const rf_cumsum_attr attr = { .exclusive = exclusive, .reverse = reverse };
    return rf_graph_add(g, &rf_op_cumsum, &attr, &x, 1, out);
}

/* An element is part of its own sum and of all that follow: its gradient is the sum of theirs, added from the other
 * end. */
static rf_result cumsum_gradient(rf_grad_context *ctx)
{
    const rf_cumsum_attr *attr = ctx->attr;
    if (ctx->dout[0] == 0 || !ctx->needed[0]) return RF_OK;
    return rf_emit_cumsum(ctx->graph, ctx->dout[0], attr->exclusive, !attr->reverse, &ctx->din[0]);
}

static rf_result cumsum_reference(const rf_op_call *call, void *const *in, void *const *out)
{
    const rf_cumsum_attr *attr = call->attr;
    const uint64_t rows = rf_desc_rows(&call->in[0]), columns = rf_desc_columns(&call->in[0]);
    const float *x = in[0];
    float *y = out[0];
    for (uint64_t r = 0; r < rows; r++, x += columns, y += columns) {
        double sum = 0;
        for (uint64_t i = 0; i < columns; i++) {
            const uint64_t c = attr->reverse ? columns - 1 - i : i;
            const double before = sum;
            sum += x[c];
            y[c] = (float)(attr->exclusive ? before : sum);
        }
    }
    return RF_OK;
}

static rf_cost cumsum_cost(const rf_op_call *call)
{
    return rf_cost_of(call, (double)rf_desc_count(&call->in[0]));
}

/* ---- kernels ---- */

/* Rows cut into `blocks` blocks of `len` elements, the last one shorter. */
typedef struct cumsum_cut {
    uint64_t blocks, len;
} cumsum_cut;

static rf_row_job cumsum_job(const rf_op_call *call, const rf_device_caps *caps, const rf_shader *shader,
                             cumsum_cut cut)
{
    const rf_cumsum_attr *attr = call->attr;
    const uint64_t columns = rf_desc_columns(&call->in[0]);
    rf_row_job job = { .shader = shader,
                       .local = rf_local_size(caps, caps->is_cpu ? 16 : 64),
                       .rows = rf_desc_rows(&call->in[0]),
                       .threads_per_row = cut.blocks,
                       .loops = cut.len + 1,
                       .n_push = 6 };
    job.push[1] = (uint32_t)columns;
    job.push[2] = (uint32_t)cut.blocks;
    job.push[3] = (uint32_t)cut.len;
    job.push[4] = attr->exclusive;
    job.push[5] = attr->reverse;
    rf_row_job_tensor(&job, RF_BIND_INPUT, 0, columns * sizeof(float));
    return job;
}

static rf_row_job row_job(const rf_op_call *call, const rf_device_caps *caps)
{
    const uint64_t columns = rf_desc_columns(&call->in[0]);
    rf_row_job job = cumsum_job(call, caps, &rf_shader_cumsum, (cumsum_cut){ 1, columns });
    rf_row_job_tensor(&job, RF_BIND_OUTPUT, 0, columns * sizeof(float));
    return job;
}

RF_ROW_KERNEL(kernel_row, "row", row_job(call, caps));

/* Blocks enough to keep the device busy, but no more than a block has elements: each invocation adds up the totals of
 * the blocks before its own. */
static cumsum_cut blocked_cut(const rf_op_call *call, const rf_device_caps *caps)
{
    const uint64_t rows = rf_desc_rows(&call->in[0]), columns = rf_desc_columns(&call->in[0]);
    const uint64_t busy = rf_div_up(caps->is_cpu ? 64 : 16384, rows), most = rf_loop_limit(caps) / 2;
    uint64_t len = (uint64_t)ceil(sqrt((double)columns));
    if (len < rf_div_up(columns, busy)) len = rf_div_up(columns, busy);
    if (len > most) len = most;
    return (cumsum_cut){ rf_div_up(columns, len), len };
}

static void blocked_jobs(const rf_op_call *call, const rf_device_caps *caps, cumsum_cut cut, rf_row_job *totals,
                         rf_row_job *scan)
{
    *totals = cumsum_job(call, caps, &rf_shader_cumsum_totals, cut);
    rf_row_job_tensor(totals, RF_BIND_WORKSPACE, 0, cut.blocks * sizeof(float));
    *scan = cumsum_job(call, caps, &rf_shader_cumsum_blocked, cut);
    rf_row_job_tensor(scan, RF_BIND_OUTPUT, 0, rf_desc_columns(&call->in[0]) * sizeof(float));
    rf_row_job_tensor(scan, RF_BIND_WORKSPACE, 0, cut.blocks * sizeof(float));
    scan->tensors[2].write = false;
    scan->loops = cut.blocks + cut.len + 2; /* totals before the block, then the block */
}

/* Reads everything twice, which pays where rows alone would leave lanes of a vector, or invocations of a GPU, idle. */
static double blocked_score(const rf_op_call *call, const rf_device_caps *caps)
{
    const cumsum_cut cut = blocked_cut(call, caps);
    rf_row_job totals, scan;
    blocked_jobs(call, caps, cut, &totals, &scan);
    if (cut.blocks < 2 || scan.loops > rf_loop_limit(caps)) return RF_SCORE_NONE;
    if (rf_row_job_chunk(&totals, caps) == 0 || rf_row_job_chunk(&scan, caps) == 0) return RF_SCORE_NONE;
    const bool idle = totals.rows < (caps->is_cpu ? caps->subgroup_size : 4096);
    return idle && rf_desc_columns(&call->in[0]) >= 1024 ? RF_SCORE_SHAPE : RF_SCORE_RESERVE;
}

static rf_result blocked_plan(const rf_op_call *call, const rf_device_caps *caps, rf_kernel_plan *plan)
{
    const cumsum_cut cut = blocked_cut(call, caps);
    rf_row_job totals, scan;
    blocked_jobs(call, caps, cut, &totals, &scan);
    plan->workspace = totals.rows * cut.blocks * sizeof(float);
    RF_TRY(rf_row_job_plan(&totals, caps, plan));
    return rf_row_job_plan(&scan, caps, plan);
}

static const rf_kernel kernel_blocked = { "blocked", blocked_score, blocked_plan };
static const rf_kernel *const cumsum_kernels[] = { &kernel_row, &kernel_blocked };

/* ---- cases ---- */

static const rf_cumsum_attr plain = { 0, 0 }, exclusive = { 1, 0 }, reverse = { 0, 1 }, both = { 1, 1 };
#define NORMAL(...)                                                                                                    \
    {                                                                                                                  \
        {                                                                                                              \
            .desc = RF_DESC(RF_F32, __VA_ARGS__), .fill = RF_FILL_NORMAL                                               \
        }                                                                                                              \
    }
/* Sums cancel: the rounding error grows with the length, not with the result. */
#define CASE(text, attr_, atol_, ...)                                                                                  \
    .name = text, .attr = &attr_, .n_in = 1, .in = NORMAL(__VA_ARGS__), .rtol = 1e-5, .atol = atol_
static const rf_op_case cumsum_cases[] = {
    { CASE("1", plain, 1e-6, 1, 1) },
    { CASE("exclusive_1x1", exclusive, 1e-6, 2, 1, 1) },
    { CASE("5x1", reverse, 1e-6, 2, 5, 1) },
    { CASE("3x5", plain, 1e-5, 2, 3, 5), .check_gradient = true },
    { CASE("exclusive_2x2x7", exclusive, 1e-5, 3, 2, 2, 7), .check_gradient = true },
    { CASE("reverse_4x3", reverse, 1e-5, 2, 4, 3), .check_gradient = true },
    { CASE("both_17", both, 1e-5, 1, 17), .check_gradient = true },
    /* about the 64 addends of a partial sum */
    { CASE("7x63", exclusive, 2e-5, 2, 7, 63) },
    { CASE("17x64", both, 2e-5, 2, 17, 64) },
    { CASE("257x65", reverse, 2e-5, 2, 257, 65) },
    { CASE("33x1009", both, 1e-4, 2, 33, 1009) },
    { CASE("64x10", plain, 1e-5, 2, 64, 10), .benchmark = true },
    { CASE("2x4096", exclusive, 2e-4, 2, 2, 4096), .benchmark = true },
    { CASE("1024x1024", plain, 1e-4, 2, 1024, 1024), .benchmark = true },
    { CASE("8x65536", plain, 1e-3, 2, 8, 65536), .benchmark = true },
    /* rows longer than some drivers let one loop be */
    { CASE("70001", exclusive, 1e-3, 1, 70001) },
    { CASE("3x131101", both, 1e-3, 2, 3, 131101) },
    { CASE("1000003", reverse, 5e-3, 1, 1000003), .benchmark = true, .large = true },
    /* more than one descriptor spans at the smallest limits: several dispatches */
    { CASE("34000x1024", plain, 1e-4, 2, 34000, 1024), .large = true },
};

static const rf_attr_field cumsum_fields[] = {
    RF_ATTR_FLAG(rf_cumsum_attr, exclusive),
    RF_ATTR_FLAG(rf_cumsum_attr, reverse),
};

const rf_op rf_op_cumsum = {
    .name = "cumsum",
    RF_ATTRIBUTES(rf_cumsum_attr, cumsum_fields),
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .flags = RF_OP_INPLACE | RF_OP_LAST_AXIS,
    .infer = cumsum_infer,
    .gradient = cumsum_gradient,
    .reference = cumsum_reference,
    .cost = cumsum_cost,
    RF_KERNELS(cumsum_kernels),
    RF_CASES(cumsum_cases),
};
