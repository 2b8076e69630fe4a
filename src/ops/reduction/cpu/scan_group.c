/* SPDX-License-Identifier: Apache-2.0 */
/* Scans of rows that a subgroup shares, each in as many blocks as it has lanes. */
#include "ops/reduction/common/scan.h"
#include "ops/reduction/cpu/kernels.h"

/* Longer ones have more blocks than lanes: a second dispatch takes less time than that they are walked by so few. */
enum { LEAST_COLUMNS = 256, MOST_ELEMENTS = 65536, MOST_OF_ONE_ROW = 8192 };

static rf_row_job group_job(const rf_op_call *call, const rf_device_caps *caps, const rf_scan_kernel *kernel)
{
    const uint64_t columns = rf_desc_columns(&call->in[0]), lanes = caps->subgroup_size;
    const rf_scan scan = kernel->scan(call);
    const rf_scan_cut cut = { lanes, rf_align_up(rf_div_up(columns, lanes), 4) };
    rf_row_job job = rf_scan_job(call, caps, &scan, NULL, kernel->fours->group, cut);
    job.grid = RF_GRID_GROUPS;
    job.local = caps->subgroup_size;
    job.loops = 2 * job.loops + lanes;
    rf_row_job_tensor(&job, RF_BIND_OUTPUT, 0, columns * sizeof(float));
    rf_scan_add_tail(call, &job);
    return job;
}

double rf_scan_group_score(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    if (!rf_scan_takes_fours(call, caps)) return RF_SCORE_NONE;
    const rf_row_job job = group_job(call, caps, data);
    const uint64_t columns = rf_desc_columns(&call->in[0]);
    if (rf_row_job_score(&job, caps) == RF_SCORE_NONE) return RF_SCORE_NONE;
    const uint64_t most = job.rows == 1 ? MOST_OF_ONE_ROW : MOST_ELEMENTS;
    const bool short_rows = job.rows < 4ull * caps->subgroup_size && columns >= LEAST_COLUMNS;
    const bool pays = short_rows && job.rows * columns <= most && caps->driver == RF_DRIVER_LAVAPIPE;
    return pays ? RF_SCORE_DRIVER : RF_SCORE_RESERVE;
}

rf_result rf_scan_group_plan(const rf_op_call *call, const rf_device_caps *caps, const void *data, rf_kernel_plan *plan)
{
    const rf_row_job job = group_job(call, caps, data);
    return rf_row_job_plan(&job, caps, plan);
}
