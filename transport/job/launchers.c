/* SPDX-License-Identifier: Apache-2.0 */
/* Ringfire's own variables, torchrun's and Open MPI's. */
#include <string.h>
#include <strings.h>

#include "transport/job/listen.h"
#include "transport/job/sources.h"

rf_result rf_job_from_own(const rf_job_env *env, rf_job *job, bool *found)
{
    RF_TRY(rf_job_rank_and_size(env, "RINGFIRE_RANK", "RINGFIRE_WORLD_SIZE", job, found));
    const bool local_rank = rf_job_get(env, "RINGFIRE_LOCAL_RANK"), local_size = rf_job_get(env, "RINGFIRE_LOCAL_SIZE");
    RF_REQUIRE(local_rank == local_size, "%s is set but %s is not; set both or neither",
               local_rank ? "RINGFIRE_LOCAL_RANK" : "RINGFIRE_LOCAL_SIZE",
               local_rank ? "RINGFIRE_LOCAL_SIZE" : "RINGFIRE_LOCAL_RANK");
    if (!*found) {
        RF_REQUIRE(!rf_job_get(env, "RINGFIRE_WORLD_SIZE"),
                   "RINGFIRE_WORLD_SIZE is set but RINGFIRE_RANK is not; set both "
                   "or neither");
        RF_REQUIRE(!local_rank,
                   "RINGFIRE_LOCAL_RANK is set but RINGFIRE_RANK is not; unset it or set RINGFIRE_RANK and "
                   "RINGFIRE_WORLD_SIZE too");
        return RF_OK;
    }
    RF_TRY(rf_job_local(env, "RINGFIRE_LOCAL_RANK", "RINGFIRE_LOCAL_SIZE", job));
    RF_REQUIRE(!rf_job_needs_master(job),
               "RINGFIRE_WORLD_SIZE is %u but RINGFIRE_MASTER is not set; set it to host:port "
               "of rank 0",
               job->world_size);
    job->launcher = "Ringfire's own variables";
    rf_job_name_run(job, "run", rf_job_get(env, "RINGFIRE_RUN_ID"));
    return RF_OK;
}

rf_result rf_job_from_torchrun(const rf_job_env *env, rf_job *job, bool *found)
{
    RF_TRY(rf_job_rank_and_size(env, "RANK", "WORLD_SIZE", job, found));
    if (!*found) return RF_OK;
    RF_TRY(rf_job_local(env, "LOCAL_RANK", "LOCAL_WORLD_SIZE", job));
    RF_TRY(rf_job_number(env, "TORCHELASTIC_RESTART_COUNT", UINT32_MAX, &job->epoch, NULL));
    job->launcher = "torchrun's variables";
    rf_job_name_run(job, "torchrun", rf_job_get(env, "TORCHELASTIC_RUN_ID"));
    if (!rf_job_needs_master(job)) return RF_OK;
    RF_TRY(rf_job_torch_master(env, job));
    /* torchrun itself listens on MASTER_PORT then; every rank moves on by one. */
    const char *store = rf_job_get(env, "TORCHELASTIC_USE_AGENT_STORE");
    if (store && (strcasecmp(store, "true") == 0 || strcmp(store, "1") == 0))
        job->master_port = (uint16_t)(job->master_port == 65535 ? 65534 : job->master_port + 1);
    return RF_OK;
}

bool rf_job_contact_host(const char *uri, char host[RF_JOB_TEXT])
{
    const char *begin = strstr(uri, "://");
    if (!begin) return false;
    begin += 3;
    const bool bracket = *begin == '[';
    if (bracket) begin++;
    const size_t length = strcspn(begin, bracket ? "]" : ":,;/");
    if (length == 0 || length >= RF_JOB_TEXT) return false;
    memcpy(host, begin, length);
    host[length] = '\0';
    return true;
}

/* The name that Open MPI gives this start of the job; NULL when it gives none. */
static const char *open_mpi_run(const rf_job_env *env)
{
    const char *name = rf_job_get(env, "PMIX_NAMESPACE");
    if (!name) name = rf_job_get(env, "OMPI_MCA_ess_base_jobid");
    return name ? name : rf_job_get(env, "OMPI_MCA_orte_hnp_uri");
}

static rf_result open_mpi_master(const rf_job_env *env, rf_job *job)
{
    const char *const uri_names[] = { "OMPI_MCA_orte_hnp_uri", "PMIX_SERVER_URI",  "PMIX_SERVER_URI41",
                                      "PMIX_SERVER_URI4",      "PMIX_SERVER_URI3", "PMIX_SERVER_URI2" };
    const char *name = open_mpi_run(env);
    RF_REQUIRE(name,
               "OMPI_COMM_WORLD_SIZE is %u but no variable names the job; set RINGFIRE_MASTER to host:port of rank 0",
               job->world_size);
    const uint16_t port = rf_job_derived_port(name, "");
    if (rf_job_is_one_host(job)) {
        rf_job_loopback_master(job, port);
        return RF_OK;
    }
    const rf_result r = rf_job_pmix_master(env, job);
    if (r != RF_ERROR_UNSUPPORTED) return r;
    /* The host of mpirun: where rank 0 is unless mpirun was told to leave its own host out. */
    for (size_t i = 0; i < sizeof(uri_names) / sizeof(uri_names[0]); i++) {
        const char *uri = rf_job_get(env, uri_names[i]);
        char host[RF_JOB_TEXT];
        if (!uri || !rf_job_contact_host(uri, host) || strncmp(host, "127.", 4) == 0) continue;
        job->master_port = port;
        return rf_job_copy_host(uri_names[i], host, job->master_address);
    }
    return RF_FAIL(RF_ERROR_INVALID_ARGUMENT,
                   "Open MPI's variables do not say where rank 0 of the %u workers is; set "
                   "RINGFIRE_MASTER to its host:port (mpirun -x RINGFIRE_MASTER=host:port)",
                   job->world_size);
}

rf_result rf_job_from_open_mpi(const rf_job_env *env, rf_job *job, bool *found)
{
    RF_TRY(rf_job_rank_and_size(env, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", job, found));
    if (!*found) return RF_OK;
    RF_TRY(rf_job_local(env, "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", job));
    job->launcher = "Open MPI's variables";
    rf_job_name_run(job, "mpirun", open_mpi_run(env));
    RF_TRY(rf_job_exported_master(env, job));
    return rf_job_needs_master(job) ? open_mpi_master(env, job) : RF_OK;
}
