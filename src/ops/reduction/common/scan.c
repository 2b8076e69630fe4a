/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/reduction/common/scan.h"
#include "ops/ops.h"
#include "rf_shaders.h"

#include <math.h>

/* Rows cut into `blocks` blocks of `len` elements, the last one shorter. */
typedef struct scan_cut {
    uint64_t blocks, len;
} scan_cut;

static uint64_t row_walks(const rf_scan *scan)
{
    return scan->element_words ? 2 : 1;
}

/* Bytes of a row's totals. Where more is kept their rows begin where descriptors may: no device asks for more. */
enum { MOST_ALIGNMENT = 256 };
static uint64_t totals_row(const rf_scan *scan, scan_cut cut)
{
    const uint64_t bytes = cut.blocks * scan->total_words * sizeof(uint32_t);
    return scan->element_words == 0 ? bytes : rf_align_up(bytes, MOST_ALIGNMENT);
}

/* Where the workspace has a list of what is kept, a word of each element of all rows; of the number behind the last
 * one, its size. Totals of blocks come first. */
static uint64_t list_at(const rf_op_call *call, const rf_device_caps *caps, const rf_scan *scan, scan_cut cut,
                        uint32_t list)
{
    const uint64_t rows = rf_desc_rows(&call->in[0]);
    return rows * totals_row(scan, cut) +
           list * rf_align_up(rows * rf_desc_columns(&call->in[0]) * sizeof(uint32_t), caps->buffer_alignment);
}

static uint64_t workspace_size(const rf_op_call *call, const rf_device_caps *caps, const rf_scan *scan, scan_cut cut)
{
    return list_at(call, caps, scan, cut, scan->element_words);
}

static void add_totals(const rf_scan *scan, scan_cut cut, bool write, rf_row_job *job)
{
    rf_row_job_tensor(job, RF_BIND_WORKSPACE, 0, totals_row(scan, cut));
    job->tensors[job->n_tensors - 1].write = write;
}

/* Each list is a binding of its own, so that a row of it is no longer than one of the tensors. */
static void add_lists(const rf_op_call *call, const rf_device_caps *caps, const rf_scan *scan, scan_cut cut,
                      rf_row_job *job)
{
    for (uint32_t i = 0; i < scan->element_words; i++) {
        rf_row_job_tensor(job, RF_BIND_WORKSPACE, 0, rf_desc_columns(&call->in[0]) * sizeof(uint32_t));
        job->tensors[job->n_tensors - 1].base = list_at(call, caps, scan, cut, i);
    }
}

static rf_row_job scan_job(const rf_op_call *call, const rf_device_caps *caps, const rf_scan *scan,
                           const rf_shader *shader, scan_cut cut)
{
    const uint64_t columns = rf_desc_columns(&call->in[0]);
    rf_row_job job = { .shader = shader,
                       .local = rf_local_size(caps, caps->is_cpu ? 16 : 64),
                       .rows = rf_desc_rows(&call->in[0]),
                       .threads_per_row = cut.blocks,
                       .loops = cut.len * row_walks(scan) + 1 };
    const rf_push_scan push = { .columns = (uint32_t)columns, /* cumprod_grad's are the same */
                                .blocks = (uint32_t)cut.blocks,
                                .block_len = (uint32_t)cut.len,
                                .exclusive = scan->exclusive,
                                .reverse = scan->reverse };
    RF_ROW_JOB_PUSH(&job, push, rows);
    for (uint32_t i = 0; i < call->n_in; i++) rf_row_job_tensor(&job, RF_BIND_INPUT, i, columns * sizeof(float));
    return job;
}

/* ---- one invocation a row ---- */

static rf_row_job row_job(const rf_op_call *call, const rf_device_caps *caps, const rf_scan *scan)
{
    const uint64_t columns = rf_desc_columns(&call->in[0]);
    const scan_cut cut = { 1, columns };
    rf_row_job job = scan_job(call, caps, scan, scan->row, cut);
    rf_row_job_tensor(&job, RF_BIND_OUTPUT, 0, columns * sizeof(float));
    if (scan->element_words) add_totals(scan, cut, false, &job);
    add_lists(call, caps, scan, cut, &job);
    return job;
}

double rf_scan_row_score(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    const rf_scan scan = ((const rf_scan_kernel *)data)->scan(call);
    const rf_row_job job = row_job(call, caps, &scan);
    return rf_row_job_score(&job, caps);
}

rf_result rf_scan_row_plan(const rf_op_call *call, const rf_device_caps *caps, const void *data, rf_kernel_plan *plan)
{
    const rf_scan scan = ((const rf_scan_kernel *)data)->scan(call);
    const rf_row_job job = row_job(call, caps, &scan);
    if (scan.element_words) plan->workspace = workspace_size(call, caps, &scan, (scan_cut){ .blocks = 1 });
    return rf_row_job_plan(&job, caps, plan);
}

/* ---- rows in blocks ---- */

/* Blocks enough to keep the device busy, but no more than a block has elements: each invocation takes the totals of the
 * blocks before its own. */
static scan_cut blocked_cut(const rf_op_call *call, const rf_device_caps *caps, const rf_scan *scan)
{
    const uint64_t rows = rf_desc_rows(&call->in[0]), columns = rf_desc_columns(&call->in[0]);
    const uint64_t busy = rf_div_up(caps->is_cpu ? 64 : 16384, rows),
                   most = rf_loop_limit(caps) / (2 * row_walks(scan));
    uint64_t len = (uint64_t)ceil(sqrt((double)columns));
    if (len < rf_div_up(columns, busy)) len = rf_div_up(columns, busy);
    if (len > most) len = most;
    return (scan_cut){ rf_div_up(columns, len), len };
}

static void blocked_jobs(const rf_op_call *call, const rf_device_caps *caps, const rf_scan *scan, scan_cut cut,
                         rf_row_job *totals, rf_row_job *rest)
{
    *totals = scan_job(call, caps, scan, scan->totals, cut);
    add_totals(scan, cut, true, totals);
    *rest = scan_job(call, caps, scan, scan->blocked, cut);
    rf_row_job_tensor(rest, RF_BIND_OUTPUT, 0, rf_desc_columns(&call->in[0]) * sizeof(float));
    add_totals(scan, cut, false, rest);
    add_lists(call, caps, scan, cut, rest);
    rest->loops += cut.blocks + 1; /* totals before the block */
}

/* Reads everything twice, which pays where rows alone would leave lanes of a vector, or invocations of a GPU, idle. */
double rf_scan_blocked_score(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    const rf_scan scan = ((const rf_scan_kernel *)data)->scan(call);
    const scan_cut cut = blocked_cut(call, caps, &scan);
    rf_row_job totals, rest;
    blocked_jobs(call, caps, &scan, cut, &totals, &rest);
    if (cut.blocks < 2 || rest.loops > rf_loop_limit(caps)) return RF_SCORE_NONE;
    if (rf_row_job_chunk(&totals, caps) == 0 || rf_row_job_chunk(&rest, caps) == 0) return RF_SCORE_NONE;
    const bool idle = totals.rows < (caps->is_cpu ? caps->subgroup_size : 4096);
    return idle && rf_desc_columns(&call->in[0]) >= 1024 ? RF_SCORE_SHAPE : RF_SCORE_RESERVE;
}

rf_result rf_scan_blocked_plan(const rf_op_call *call, const rf_device_caps *caps, const void *data,
                               rf_kernel_plan *plan)
{
    const rf_scan scan = ((const rf_scan_kernel *)data)->scan(call);
    const scan_cut cut = blocked_cut(call, caps, &scan);
    rf_row_job totals, rest;
    blocked_jobs(call, caps, &scan, cut, &totals, &rest);
    plan->workspace = workspace_size(call, caps, &scan, cut);
    RF_TRY(rf_row_job_plan(&totals, caps, plan));
    return rf_row_job_plan(&rest, caps, plan);
}
