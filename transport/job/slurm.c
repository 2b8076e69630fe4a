/* SPDX-License-Identifier: Apache-2.0 */
/* The variables of a Slurm job step. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "transport/job/listen.h"
#include "transport/job/sources.h"

/* SLURM_MAX_NORMAL_STEP_ID + 1: from here on numbers stand for batch scripts, interactive shells and the like. */
#define FIRST_RESERVED_STEP 0xfffffff0u

/* Host lists are "node[003-010,12]-ib[0-1],login1": each bracket stands for any of its numbers, kept with their zeros.
 */
rf_result rf_job_first_host(const char *what, const char *list, char host[RF_JOB_TEXT])
{
    char name[RF_JOB_TEXT];
    size_t used = 0;
    for (const char *p = list; *p && *p != ','; p++) {
        size_t length = 1;
        const char *from = p;
        if (*p == '[') {
            const char *end = strchr(p, ']');
            length = strcspn(p + 1, "-,]");
            RF_REQUIRE(end && length > 0, "%s: the brackets of '%.80s' hold no number or are not closed", what, list);
            from = p + 1;
            p = end;
        }
        RF_REQUIRE(used + length < sizeof(name), "%s: the first host of '%.80s' has more than %d characters", what,
                   list, RF_JOB_TEXT - 1);
        memcpy(name + used, from, length);
        used += length;
    }
    name[used] = '\0';
    return rf_job_copy_host(what, name, host);
}

/* Reads digits; false when there are none or too many. */
static bool take_number(const char **p, uint64_t *out)
{
    uint64_t value = 0;
    const char *begin = *p;
    for (; **p >= '0' && **p <= '9' && value < 1000000000; (*p)++) value = 10 * value + (uint64_t)(**p - '0');
    *out = value;
    return *p > begin && (**p < '0' || **p > '9');
}

uint32_t rf_job_tasks_on_node(const char *list, uint64_t node)
{
    for (const char *p = list; *p; p++) {
        uint64_t tasks = 0, nodes = 1;
        if (!take_number(&p, &tasks)) return 0;
        if (strncmp(p, "(x", 2) == 0) {
            p += 2;
            if (!take_number(&p, &nodes) || *p++ != ')') return 0;
        }
        if (node < nodes) return (uint32_t)tasks;
        node -= nodes;
        if (*p != ',') return 0;
    }
    return 0;
}

static rf_result find_local(const rf_job_env *env, rf_job *job)
{
    uint64_t local_rank = 0, node = 0;
    bool has_rank = false, has_node = false;
    RF_TRY(rf_job_number(env, "SLURM_LOCALID", UINT32_MAX, &local_rank, &has_rank));
    RF_TRY(rf_job_number(env, "SLURM_NODEID", UINT32_MAX, &node, &has_node));
    const char *list = rf_job_get(env, "SLURM_STEP_TASKS_PER_NODE");
    if (!list) list = rf_job_get(env, "SLURM_TASKS_PER_NODE");
    const uint32_t tasks = has_rank && has_node && list ? rf_job_tasks_on_node(list, node) : 0;
    return tasks ? rf_job_check_local("SLURM_LOCALID", "SLURM_STEP_TASKS_PER_NODE", local_rank, tasks, job) : RF_OK;
}

/* The parts of a heterogeneous job have numbers of their own, and one for all. */
static const char *job_id(const rf_job_env *env)
{
    const char *id = rf_job_get(env, "SLURM_HET_JOB_ID");
    if (!id) id = rf_job_get(env, "SLURM_JOB_ID");
    return id ? id : rf_job_get(env, "SLURM_JOBID");
}

static const char *step_id(const rf_job_env *env)
{
    const char *step = rf_job_get(env, "SLURM_STEP_ID");
    return step ? step : rf_job_get(env, "SLURM_STEPID");
}

static void name_run(const rf_job_env *env, rf_job *job)
{
    char run[128];
    const char *id = job_id(env), *step = step_id(env);
    snprintf(run, sizeof(run), "%.60s.%.60s", id ? id : "", step ? step : "");
    rf_job_name_run(job, "Slurm", id ? run : NULL);
}

static rf_result find_master(const rf_job_env *env, rf_job *job)
{
    const char *id = job_id(env), *step = step_id(env);
    RF_REQUIRE(id, "SLURM_PROCID is set but SLURM_JOB_ID is not; set RINGFIRE_MASTER to host:port of rank 0");
    const uint16_t port = rf_job_derived_port(id, step ? step : "");
    if (rf_job_is_one_host(job)) {
        rf_job_loopback_master(job, port);
        return RF_OK;
    }
    static const char *const names[] = { "SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST" };
    for (int i = 0; i < 3; i++) {
        const char *list = rf_job_get(env, names[i]);
        if (!list) continue;
        job->master_port = port;
        return rf_job_first_host(names[i], list, job->master_address);
    }
    return RF_FAIL(RF_ERROR_INVALID_ARGUMENT,
                   "SLURM_PROCID is set but SLURM_STEP_NODELIST is not; set RINGFIRE_MASTER to "
                   "host:port of rank 0");
}

/* A step that srun starts has a small number. A batch script and salloc's shell may have the number of one, too, but of
 * those that Slurm keeps for itself. */
static bool is_step(const rf_job_env *env)
{
    const char *step = step_id(env);
    return step && strspn(step, "0123456789") == strlen(step) && strtoull(step, NULL, 10) < FIRST_RESERVED_STEP;
}

rf_result rf_job_from_slurm(const rf_job_env *env, rf_job *job, bool *found)
{
    /* salloc's shell has no SLURM_PROCID; a batch script has, but is no step: only what srun starts is one of several.
     */
    *found = false;
    const char *size_name = "SLURM_STEP_NUM_TASKS";
    const bool has_step = step_id(env) != NULL;
    if (has_step && !is_step(env)) return RF_OK;
    if (!rf_job_get(env, size_name)) {
        if (!has_step) return RF_OK;
        size_name = "SLURM_NTASKS";
    }
    RF_TRY(rf_job_rank_and_size(env, "SLURM_PROCID", size_name, job, found));
    if (!*found) return RF_OK;
    RF_TRY(find_local(env, job));
    RF_TRY(rf_job_number(env, "SLURM_RESTART_COUNT", UINT32_MAX, &job->epoch, NULL));
    job->launcher = "Slurm's variables";
    name_run(env, job);
    RF_TRY(rf_job_exported_master(env, job));
    return rf_job_needs_master(job) ? find_master(env, job) : RF_OK;
}
