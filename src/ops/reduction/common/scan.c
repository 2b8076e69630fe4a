/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/reduction/common/scan.h"
#include "ops/ops.h"
#include "rf_shaders.h"

#include <math.h>

bool rf_scan_takes_fours(const rf_op_call *call, const rf_device_caps *caps)
{
    const uint64_t columns = rf_desc_columns(&call->in[0]);
    if (!rf_flat_texels(caps) || columns < 4 || columns > INT32_MAX) return false;
    return columns % 4 == 0 || rf_desc_rows(&call->in[0]) == 1;
}

static uint64_t row_walks(const rf_scan *scan)
{
    return scan->element_words ? 2 : 1;
}

/* Bytes of workspace of a row. */
static uint64_t kept_bytes(const rf_op_call *call, const rf_scan *scan, rf_scan_cut cut)
{
    const uint64_t columns = rf_desc_columns(&call->in[0]);
    return (cut.blocks * scan->total_words + columns * scan->element_words) * sizeof(uint32_t);
}

rf_row_job rf_scan_job(const rf_op_call *call, const rf_device_caps *caps, const rf_scan *scan, const rf_shader *shader,
                       const rf_shader *const *fours, rf_scan_cut cut)
{
    const uint64_t columns = rf_desc_columns(&call->in[0]);
    rf_row_job job = { .shader = fours ? fours[caps->subgroup_size != 8] : shader,
                       .local = rf_local_size(caps, caps->is_cpu ? 16 : 64),
                       .rows = rf_desc_rows(&call->in[0]),
                       .threads_per_row = cut.blocks,
                       .loops = (fours ? cut.len / 4 + 4 : cut.len * row_walks(scan)) + 1 };
    const rf_push_scan push = { .columns = (uint32_t)columns, /* cumprod_grad's are the same */
                                .blocks = (uint32_t)cut.blocks,
                                .block_len = (uint32_t)cut.len,
                                .exclusive = scan->exclusive,
                                .reverse = scan->reverse };
    RF_ROW_JOB_PUSH(&job, push, rows);
    for (uint32_t i = 0; i < call->n_in; i++) rf_row_job_tensor(&job, RF_BIND_INPUT, i, columns * sizeof(float));
    if (fours) job.tensors[0].view = RF_VIEW_TEXEL_RGBA32F;
    return job;
}

void rf_scan_add_tail(const rf_op_call *call, rf_row_job *job)
{
    rf_row_job_tensor(job, RF_BIND_INPUT, 0, rf_desc_columns(&call->in[0]) * sizeof(float));
}

/* ---- one invocation a row ---- */

static rf_row_job row_job(const rf_op_call *call, const rf_device_caps *caps, const rf_scan *scan,
                          const rf_scan_fours *fours)
{
    const uint64_t columns = rf_desc_columns(&call->in[0]);
    const rf_scan_cut cut = { 1, fours ? rf_align_up(columns, 4) : columns };
    rf_row_job job = rf_scan_job(call, caps, scan, scan->row, fours ? fours->row : NULL, cut);
    rf_row_job_tensor(&job, RF_BIND_OUTPUT, 0, columns * sizeof(float));
    if (scan->element_words) rf_row_job_tensor(&job, RF_BIND_WORKSPACE, 0, kept_bytes(call, scan, cut));
    if (fours) rf_scan_add_tail(call, &job);
    return job;
}

double rf_scan_row_score(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    const rf_scan_kernel *kernel = data;
    const rf_scan_fours *fours = kernel->fours;
    const rf_scan scan = kernel->scan(call);
    if (fours && !rf_scan_takes_fours(call, caps)) return RF_SCORE_NONE;
    const rf_row_job job = row_job(call, caps, &scan, fours);
    const double score = rf_row_job_score(&job, caps);
    if (score == RF_SCORE_NONE || !fours) return score;
    return caps->driver == RF_DRIVER_LAVAPIPE ? RF_SCORE_WIDE : RF_SCORE_RESERVE;
}

rf_result rf_scan_row_plan(const rf_op_call *call, const rf_device_caps *caps, const void *data, rf_kernel_plan *plan)
{
    const rf_scan_kernel *kernel = data;
    const rf_scan scan = kernel->scan(call);
    const rf_row_job job = row_job(call, caps, &scan, kernel->fours);
    if (scan.element_words) plan->workspace = job.rows * kept_bytes(call, &scan, (rf_scan_cut){ .blocks = 1 });
    return rf_row_job_plan(&job, caps, plan);
}

/* ---- rows in blocks ---- */

/* Blocks enough to keep the device busy, but no more than a block has elements: each invocation takes the totals of the
 * blocks before its own. */
static rf_scan_cut blocked_cut(const rf_op_call *call, const rf_device_caps *caps, const rf_scan *scan,
                               const rf_scan_fours *fours)
{
    const uint64_t rows = rf_desc_rows(&call->in[0]), columns = rf_desc_columns(&call->in[0]);
    const uint64_t busy = rf_div_up(caps->is_cpu ? 64 : 16384, rows),
                   most = rf_loop_limit(caps) / (2 * row_walks(scan));
    uint64_t len = (uint64_t)ceil(sqrt((double)columns));
    if (len < rf_div_up(columns, busy)) len = rf_div_up(columns, busy);
    if (len > most) len = most;
    if (fours) len = rf_align_up(len, 4);
    return (rf_scan_cut){ rf_div_up(columns, len), len };
}

static void blocked_jobs(const rf_op_call *call, const rf_device_caps *caps, const rf_scan *scan,
                         const rf_scan_fours *fours, rf_scan_cut cut, rf_row_job *totals, rf_row_job *rest)
{
    const uint64_t bytes = kept_bytes(call, scan, cut);
    *totals = rf_scan_job(call, caps, scan, scan->totals, fours ? fours->totals : NULL, cut);
    rf_row_job_tensor(totals, RF_BIND_WORKSPACE, 0, bytes);
    *rest = rf_scan_job(call, caps, scan, scan->blocked, fours ? fours->blocked : NULL, cut);
    rf_row_job_tensor(rest, RF_BIND_OUTPUT, 0, rf_desc_columns(&call->in[0]) * sizeof(float));
    rf_row_job_tensor(rest, RF_BIND_WORKSPACE, 0, bytes);
    rest->tensors[rest->n_tensors - 1].write = scan->element_words > 0;
    rest->loops += cut.blocks + 1; /* totals before the block */
    if (fours) rf_scan_add_tail(call, totals), rf_scan_add_tail(call, rest);
}

/* Reads everything twice, which pays where rows alone would leave lanes of a vector, or invocations of a GPU, idle. */
double rf_scan_blocked_score(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    const rf_scan_kernel *kernel = data;
    const rf_scan_fours *fours = kernel->fours;
    const rf_scan scan = kernel->scan(call);
    if (fours && !rf_scan_takes_fours(call, caps)) return RF_SCORE_NONE;
    const rf_scan_cut cut = blocked_cut(call, caps, &scan, fours);
    rf_row_job totals, rest;
    blocked_jobs(call, caps, &scan, fours, cut, &totals, &rest);
    if (cut.blocks < 2 || rest.loops > rf_loop_limit(caps)) return RF_SCORE_NONE;
    if (rf_row_job_chunk(&totals, caps) == 0 || rf_row_job_chunk(&rest, caps) == 0) return RF_SCORE_NONE;
    /* Rows of fours are not too long to be walked by few invocations. */
    const bool idle = totals.rows < (caps->is_cpu ? caps->subgroup_size * (fours ? 4 : 1) : 4096);
    if (!idle || rf_desc_columns(&call->in[0]) < 1024) return RF_SCORE_RESERVE;
    return !fours ? RF_SCORE_SHAPE : caps->driver == RF_DRIVER_LAVAPIPE ? RF_SCORE_EXACT : RF_SCORE_RESERVE;
}

rf_result rf_scan_blocked_plan(const rf_op_call *call, const rf_device_caps *caps, const void *data,
                               rf_kernel_plan *plan)
{
    const rf_scan_kernel *kernel = data;
    const rf_scan scan = kernel->scan(call);
    const rf_scan_cut cut = blocked_cut(call, caps, &scan, kernel->fours);
    rf_row_job totals, rest;
    blocked_jobs(call, caps, &scan, kernel->fours, cut, &totals, &rest);
    plan->workspace = totals.rows * kept_bytes(call, &scan, cut);
    RF_TRY(rf_row_job_plan(&totals, caps, plan));
    return rf_row_job_plan(&rest, caps, plan);
}

/* ---- the scans of ops that have kernels elsewhere, too ---- */

rf_scan rf_cumsum_scan(const rf_op_call *call)
{
    const rf_cumsum_attr *attr = call->attr;
    return (rf_scan){ .row = &rf_shader_cumsum,
                      .totals = &rf_shader_cumsum_totals,
                      .blocked = &rf_shader_cumsum_blocked,
                      .total_words = 1,
                      .exclusive = attr->exclusive,
                      .reverse = attr->reverse };
}

rf_scan rf_cumprod_scan(const rf_op_call *call)
{
    const rf_cumprod_attr *attr = call->attr;
    return (rf_scan){ .row = &rf_shader_cumprod,
                      .totals = &rf_shader_cumprod_totals,
                      .blocked = &rf_shader_cumprod_blocked,
                      .total_words = 2,
                      .exclusive = attr->exclusive,
                      .reverse = attr->reverse };
}
