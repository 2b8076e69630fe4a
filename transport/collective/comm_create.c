/* SPDX-License-Identifier: Apache-2.0 */
/* From a job's description to its communicator. */
#include "base/params.h"
#include "base/profiler.h"
#include "transport/collective/comm_internal.h"

RF_API rf_result rf_comm_create(const rf_comm_params *params, rf_comm **out)
{
    RF_REQUIRE(out, "rf_comm_create: out is NULL");
    *out = NULL;
    RF_TRY(RF_PARAMS_CHECK(rf_comm_params, params));
    rf_job job;
    RF_TRY(rf_job_resolve(params, NULL, NULL, &job));
    rf_mesh *mesh = NULL;
    rf_result r = RF_OK;
    if (job.world_size > 1) r = rf_mesh_create(&job, &mesh);
    if (r == RF_OK) r = rf_comm_create_on_mesh(&job, mesh, out);
    if (r == RF_OK) {
        r = rf_profiler_join(job.rank, job.world_size, job.epoch);
        if (r < 0) rf_comm_destroy(out);
    }
    rf_job_forget(&job);
    return r;
}
