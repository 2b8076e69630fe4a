/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/reduction/common/scan.h"

#include <math.h>

/* Rows cut into `blocks` blocks of `len` elements, the last one shorter. */
typedef struct scan_cut {
    uint64_t blocks, len;
} scan_cut;

/* Whether fours may be read and written as the shaders do it. */
static bool has_fours(const rf_op_call *call, const rf_device_caps *caps, const rf_scan *scan)
{
    const uint64_t columns = rf_desc_columns(&call->in[0]);
    if (!scan->row_fours[0] || !rf_flat_texels(caps) || columns < 4 || columns > INT32_MAX) return false;
    return columns % 4 == 0 || rf_desc_rows(&call->in[0]) == 1;
}

static uint64_t row_walks(const rf_scan *scan)
{
    return scan->element_words ? 2 : 1;
}

/* Bytes of workspace of a row. */
static uint64_t kept_bytes(const rf_op_call *call, const rf_scan *scan, scan_cut cut)
{
    const uint64_t columns = rf_desc_columns(&call->in[0]);
    return (cut.blocks * scan->total_words + columns * scan->element_words) * sizeof(uint32_t);
}

/* `fours`: the shader's variants for subgroups of 8 and of 16, if it is to be one of those. */
static rf_row_job scan_job(const rf_op_call *call, const rf_device_caps *caps, const rf_scan *scan,
                           const rf_shader *shader, const rf_shader *const *fours, scan_cut cut)
{
    const uint64_t columns = rf_desc_columns(&call->in[0]);
    rf_row_job job = { .shader = fours ? fours[caps->subgroup_size != 8] : shader,
                       .local = rf_local_size(caps, caps->is_cpu ? 16 : 64),
                       .rows = rf_desc_rows(&call->in[0]),
                       .threads_per_row = cut.blocks,
                       .loops = (fours ? cut.len / 4 + 4 : cut.len * row_walks(scan)) + 1,
                       .n_push = 6 };
    job.push[1] = (uint32_t)columns;
    job.push[2] = (uint32_t)cut.blocks;
    job.push[3] = (uint32_t)cut.len;
    job.push[4] = scan->exclusive;
    job.push[5] = scan->reverse;
    for (uint32_t i = 0; i < call->n_in; i++) rf_row_job_tensor(&job, RF_BIND_INPUT, i, columns * sizeof(float));
    if (fours) job.tensors[0].view = RF_VIEW_TEXEL_RGBA32F;
    return job;
}

/* What follows the other tensors: the input once more, for the end of a row that has no whole four there. */
static void add_tail(const rf_op_call *call, rf_row_job *job)
{
    rf_row_job_tensor(job, RF_BIND_INPUT, 0, rf_desc_columns(&call->in[0]) * sizeof(float));
}

/* ---- one invocation a row ---- */

static rf_row_job row_job(const rf_op_call *call, const rf_device_caps *caps, const rf_scan *scan, bool fours)
{
    const uint64_t columns = rf_desc_columns(&call->in[0]);
    const scan_cut cut = { 1, fours ? rf_align_up(columns, 4) : columns };
    rf_row_job job = scan_job(call, caps, scan, scan->row, fours ? scan->row_fours : NULL, cut);
    rf_row_job_tensor(&job, RF_BIND_OUTPUT, 0, columns * sizeof(float));
    if (scan->element_words) rf_row_job_tensor(&job, RF_BIND_WORKSPACE, 0, kept_bytes(call, scan, cut));
    if (fours) add_tail(call, &job);
    return job;
}

double rf_scan_row_score(const rf_op_call *call, const rf_device_caps *caps, const rf_scan *scan, bool fours)
{
    if (fours && !has_fours(call, caps, scan)) return RF_SCORE_NONE;
    const rf_row_job job = row_job(call, caps, scan, fours);
    const double score = rf_row_job_score(&job, caps);
    if (score == RF_SCORE_NONE || !fours) return score;
    return caps->driver == RF_DRIVER_LAVAPIPE ? RF_SCORE_WIDE : RF_SCORE_RESERVE;
}

rf_result rf_scan_row_plan(const rf_op_call *call, const rf_device_caps *caps, const rf_scan *scan, bool fours,
                           rf_kernel_plan *plan)
{
    const rf_row_job job = row_job(call, caps, scan, fours);
    if (scan->element_words) plan->workspace = job.rows * kept_bytes(call, scan, (scan_cut){ .blocks = 1 });
    return rf_row_job_plan(&job, caps, plan);
}

/* ---- rows in blocks ---- */

/* Blocks enough to keep the device busy, but no more than a block has elements: each invocation takes the totals of the
 * blocks before its own. */
static scan_cut blocked_cut(const rf_op_call *call, const rf_device_caps *caps, const rf_scan *scan, bool fours)
{
    const uint64_t rows = rf_desc_rows(&call->in[0]), columns = rf_desc_columns(&call->in[0]);
    const uint64_t busy = rf_div_up(caps->is_cpu ? 64 : 16384, rows),
                   most = rf_loop_limit(caps) / (2 * row_walks(scan));
    uint64_t len = (uint64_t)ceil(sqrt((double)columns));
    if (len < rf_div_up(columns, busy)) len = rf_div_up(columns, busy);
    if (len > most) len = most;
    if (fours) len = rf_align_up(len, 4);
    return (scan_cut){ rf_div_up(columns, len), len };
}

static void blocked_jobs(const rf_op_call *call, const rf_device_caps *caps, const rf_scan *scan, bool fours,
                         scan_cut cut, rf_row_job *totals, rf_row_job *rest)
{
    const uint64_t bytes = kept_bytes(call, scan, cut);
    *totals = scan_job(call, caps, scan, scan->totals, fours ? scan->totals_fours : NULL, cut);
    rf_row_job_tensor(totals, RF_BIND_WORKSPACE, 0, bytes);
    *rest = scan_job(call, caps, scan, scan->blocked, fours ? scan->blocked_fours : NULL, cut);
    rf_row_job_tensor(rest, RF_BIND_OUTPUT, 0, rf_desc_columns(&call->in[0]) * sizeof(float));
    rf_row_job_tensor(rest, RF_BIND_WORKSPACE, 0, bytes);
    rest->tensors[rest->n_tensors - 1].write = scan->element_words > 0;
    rest->loops += cut.blocks + 1; /* totals before the block */
    if (fours) add_tail(call, totals), add_tail(call, rest);
}

/* Reads everything twice, which pays where rows alone would leave lanes of a vector, or invocations of a GPU, idle. */
double rf_scan_blocked_score(const rf_op_call *call, const rf_device_caps *caps, const rf_scan *scan, bool fours)
{
    if (fours && !has_fours(call, caps, scan)) return RF_SCORE_NONE;
    const scan_cut cut = blocked_cut(call, caps, scan, fours);
    rf_row_job totals, rest;
    blocked_jobs(call, caps, scan, fours, cut, &totals, &rest);
    if (cut.blocks < 2 || rest.loops > rf_loop_limit(caps)) return RF_SCORE_NONE;
    if (rf_row_job_chunk(&totals, caps) == 0 || rf_row_job_chunk(&rest, caps) == 0) return RF_SCORE_NONE;
    /* Rows of fours are not too long to be walked by few invocations. */
    const bool idle = totals.rows < (caps->is_cpu ? caps->subgroup_size * (fours ? 4 : 1) : 4096);
    if (!idle || rf_desc_columns(&call->in[0]) < 1024) return RF_SCORE_RESERVE;
    return !fours ? RF_SCORE_SHAPE : caps->driver == RF_DRIVER_LAVAPIPE ? RF_SCORE_EXACT : RF_SCORE_RESERVE;
}

rf_result rf_scan_blocked_plan(const rf_op_call *call, const rf_device_caps *caps, const rf_scan *scan, bool fours,
                               rf_kernel_plan *plan)
{
    const scan_cut cut = blocked_cut(call, caps, scan, fours);
    rf_row_job totals, rest;
    blocked_jobs(call, caps, scan, fours, cut, &totals, &rest);
    plan->workspace = totals.rows * kept_bytes(call, scan, cut);
    RF_TRY(rf_row_job_plan(&totals, caps, plan));
    return rf_row_job_plan(&rest, caps, plan);
}

/* ---- a subgroup a row, of as many blocks as it has lanes ---- */

/* Longer ones have more blocks than lanes: a second dispatch takes less time than that they are walked by so few. */
enum { LEAST_COLUMNS = 256, MOST_ELEMENTS = 65536, MOST_OF_ONE_ROW = 8192 };

static rf_row_job group_job(const rf_op_call *call, const rf_device_caps *caps, const rf_scan *scan)
{
    const uint64_t columns = rf_desc_columns(&call->in[0]), lanes = caps->subgroup_size;
    const scan_cut cut = { lanes, rf_align_up(rf_div_up(columns, lanes), 4) };
    rf_row_job job = scan_job(call, caps, scan, NULL, scan->group_fours, cut);
    job.grid = RF_GRID_GROUPS;
    job.local = caps->subgroup_size;
    job.loops = 2 * job.loops + lanes;
    rf_row_job_tensor(&job, RF_BIND_OUTPUT, 0, columns * sizeof(float));
    add_tail(call, &job);
    return job;
}

double rf_scan_group_score(const rf_op_call *call, const rf_device_caps *caps, const rf_scan *scan, bool fours)
{
    (void)fours;
    if (!has_fours(call, caps, scan)) return RF_SCORE_NONE;
    const rf_row_job job = group_job(call, caps, scan);
    const uint64_t columns = rf_desc_columns(&call->in[0]);
    if (rf_row_job_score(&job, caps) == RF_SCORE_NONE) return RF_SCORE_NONE;
    const uint64_t most = job.rows == 1 ? MOST_OF_ONE_ROW : MOST_ELEMENTS;
    const bool short_rows = job.rows < 4ull * caps->subgroup_size && columns >= LEAST_COLUMNS;
    const bool pays = short_rows && job.rows * columns <= most && caps->driver == RF_DRIVER_LAVAPIPE;
    return pays ? RF_SCORE_DRIVER : RF_SCORE_RESERVE;
}

rf_result rf_scan_group_plan(const rf_op_call *call, const rf_device_caps *caps, const rf_scan *scan, bool fours,
                             rf_kernel_plan *plan)
{
    (void)fours;
    const rf_row_job job = group_job(call, caps, scan);
    return rf_row_job_plan(&job, caps, plan);
}
