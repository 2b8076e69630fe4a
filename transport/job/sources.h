/* SPDX-License-Identifier: Apache-2.0 */
/* The sources of a job's description: one function per launcher, and what they share. For the files of transport/job/
 * only. */
#ifndef RF_TRANSPORT_JOB_SOURCES_H
#define RF_TRANSPORT_JOB_SOURCES_H

#include "transport/job/job.h"

typedef struct rf_job_env {
    rf_lookup_fn lookup;
    void *user;
    bool is_process; /* the process's own environment: PMIx may be asked */
} rf_job_env;

static inline const char *rf_job_get(const rf_job_env *env, const char *name)
{
    const char *value = env->lookup(env->user, name);
    return value && value[0] ? value : NULL;
}

/* Values of variables; *found (where there is one) says whether the variable is set. Errors name the variable. */
rf_result rf_job_number(const rf_job_env *env, const char *name, uint64_t max, uint64_t *out, bool *found);
rf_result rf_job_flag(const rf_job_env *env, const char *name, bool *out);
rf_result rf_job_seconds(const rf_job_env *env, const char *name, double *out);

/* "host:port" or "[v6]:port". `what` begins the error message. */
rf_result rf_job_parse_address(const char *what, const char *text, char host[RF_JOB_TEXT], uint16_t *port);
rf_result rf_job_copy_host(const char *what, const char *text, char host[RF_JOB_TEXT]);

/* Rank and size from two variables that belong together; *found is false when the rank's is not set. */
rf_result rf_job_rank_and_size(const rf_job_env *env, const char *rank_name, const char *size_name, rf_job *job,
                               bool *found);
/* The same within this host. One without the other is left alone (a foreign launcher's business). */
rf_result rf_job_local(const rf_job_env *env, const char *rank_name, const char *size_name, rf_job *job);
rf_result rf_job_check_local(const char *rank_name, const char *size_name, uint64_t rank, uint64_t size, rf_job *job);

/* Whether the job still has to find its master: it has more than one worker, and none was named. */
static inline bool rf_job_needs_master(const rf_job *job)
{
    return job->world_size > 1 && job->master_port == 0;
}
/* MASTER_ADDR and MASTER_PORT, where both are set: batch scripts export them for every launcher. */
rf_result rf_job_exported_master(const rf_job_env *env, rf_job *job);
/* MASTER_ADDR and MASTER_PORT; both must be set. */
rf_result rf_job_torch_master(const rf_job_env *env, rf_job *job);
/* The same port for everybody who knows the same names of the job, another one for other jobs: 20000 + FNV-1a of the
 * names modulo 12768, that is 20000 .. 32767, below the range from which systems take ports of outgoing connections. */
uint16_t rf_job_derived_port(const char *name, const char *part);
/* Makes what the launcher calls this start of the job part of the job's name, so that another one on the same port is
 * turned away: "<job>.<launcher>-<hash>". `run` NULL: the launcher does not say. */
void rf_job_name_run(rf_job *job, const char *launcher, const char *run);
/* Master on this host. */
void rf_job_loopback_master(rf_job *job, uint16_t port);

/* The sources. *found: this one describes the job. They set rank, sizes, launcher and, unless it is known already, the
 * master; `epoch` where the launcher counts restarts. */
rf_result rf_job_from_own(const rf_job_env *env, rf_job *job, bool *found);
rf_result rf_job_from_torchrun(const rf_job_env *env, rf_job *job, bool *found);
rf_result rf_job_from_tf_config(const rf_job_env *env, rf_job *job, bool *found);
rf_result rf_job_from_open_mpi(const rf_job_env *env, rf_job *job, bool *found);
rf_result rf_job_from_slurm(const rf_job_env *env, rf_job *job, bool *found);
rf_result rf_job_from_pmix(const rf_job_env *env, rf_job *job, bool *found);

/* Asks the PMIx server for the master of a job whose rank and size are known already: rank 0 publishes where it will
 * listen. RF_ERROR_UNSUPPORTED without a server or without PMIx in this build. */
rf_result rf_job_pmix_master(const rf_job_env *env, rf_job *job);

/* Addresses of this host as numbers: the one from which packets to `peer` leave, or any that is not loopback. */
bool rf_job_address_towards(const char *peer, char host[RF_JOB_TEXT]);
bool rf_job_first_interface(char host[RF_JOB_TEXT]);
/* Where the master's name means loopback here, rank 0 may have been told to listen elsewhere; a job of one host meets
 * on loopback. */
void rf_job_settle_master(rf_job *job);

/* Pure parts, for tests: first host of a Slurm host list; number of tasks on node `node` of "2(x3),1" (0: not said). */
rf_result rf_job_first_host(const char *what, const char *list, char host[RF_JOB_TEXT]);
uint32_t rf_job_tasks_on_node(const char *list, uint64_t node);
/* Host of a PMIx/PRRTE contact: "job.0;tcp4://10.0.0.1,10.1.0.1:4711;...". False when there is none. */
bool rf_job_contact_host(const char *uri, char host[RF_JOB_TEXT]);

#endif
