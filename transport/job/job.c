/* SPDX-License-Identifier: Apache-2.0 */
/* A worker's description of its job: from the caller's parameters, then from the environment. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <openssl/crypto.h>

#include "base/params.h"
#include "base/platform.h"
#include "transport/job/cluster.h"
#include "transport/job/sources.h"

static const char *process_variable(void *user, const char *name)
{
    (void)user;
    return rf_env(name);
}

static rf_job_env environment_of(rf_lookup_fn lookup, void *user)
{
    return lookup ? (rf_job_env){ lookup, user, false } : (rf_job_env){ process_variable, NULL, true };
}

/* The caller's text, or else the variable's, or else `fallback`. */
static rf_result copy_text(const rf_job_env *env, const char *given, const char *argument, const char *variable,
                           const char *fallback, char *out, size_t size)
{
    const char *text = given && given[0] ? given : rf_job_get(env, variable);
    const char *what = given && given[0] ? argument : variable;
    if (!text) text = fallback;
    RF_REQUIRE(strlen(text) < size, "%s has more than %zu characters", what, size - 1);
    for (const char *p = text; *p; p++)
        RF_REQUIRE((unsigned char)*p >= ' ' && *p != 127, "%s holds a control character", what);
    snprintf(out, size, "%s", text);
    return RF_OK;
}

static rf_result resolve_seconds(const rf_job_env *env, double given, const char *argument, const char *variable,
                                 double fallback, uint64_t *out_ns)
{
    double seconds = fallback;
    RF_REQUIRE(isfinite(given) && given >= 0, "%s is %g, not a number of seconds", argument, given);
    RF_REFUSE_ZERO(given, argument, "every wait needs time; 0 stands for the default");
    if (given > 0)
        seconds = given;
    else
        RF_TRY(rf_job_seconds(env, variable, &seconds));
    RF_REQUIRE(seconds >= 1e-3 && seconds <= 1e7, "%s is %g s; it may be 0.001 to 10000000",
               given > 0 ? argument : variable, seconds);
    *out_ns = (uint64_t)(seconds * 1e9);
    return RF_OK;
}

static rf_result resolve_settings(const rf_comm_params *p, const rf_job_env *env, rf_job *job)
{
    RF_TRY(copy_text(env, p->bind_address, "bind_address", "RINGFIRE_BIND", "", job->bind_address,
                     sizeof(job->bind_address)));
    if (job->bind_address[0]) {
        char host[RF_JOB_TEXT];
        RF_TRY(rf_job_copy_host(p->bind_address ? "bind_address" : "RINGFIRE_BIND", job->bind_address, host));
    }
    RF_TRY(copy_text(env, p->job, "job", "RINGFIRE_JOB", "default", job->name, sizeof(job->name)));
    RF_TRY(copy_text(env, p->provider, "provider", "RINGFIRE_PROVIDER", "", job->provider, sizeof(job->provider)));
    bool shared = true;
    RF_TRY(rf_job_flag(env, "RINGFIRE_SHARED_MEMORY", &shared));
    job->network_only = !shared;
    job->encrypt = p->encrypt;
    return p->encrypt ? RF_OK : rf_job_flag(env, "RINGFIRE_ENCRYPT", &job->encrypt);
}

/* PMIx waits for these when it gives the layout. */
static rf_result resolve_timeouts(const rf_comm_params *p, const rf_job_env *env, rf_job *job)
{
    RF_TRY(resolve_seconds(env, p->bootstrap_timeout, "bootstrap_timeout", "RINGFIRE_BOOTSTRAP_TIMEOUT", 60,
                           &job->bootstrap_timeout_ns));
    RF_TRY(resolve_seconds(env, p->peer_timeout, "peer_timeout", "RINGFIRE_PEER_TIMEOUT", 10, &job->peer_timeout_ns));
    return resolve_seconds(env, p->operation_timeout, "operation_timeout", "RINGFIRE_OPERATION_TIMEOUT", 300,
                           &job->operation_timeout_ns);
}

/* The heartbeats of many workers all come to one: as few as may be are still enough. Needs the layout. */
static rf_result resolve_heartbeat(const rf_comm_params *p, const rf_job_env *env, rf_job *job)
{
    const double peer_timeout = (double)job->peer_timeout_ns * 1e-9;
    const uint64_t interval_ns = job->peer_timeout_ns / (job->world_size > RF_MESH_FULL ? 3 : 8);
    RF_TRY(resolve_seconds(env, p->heartbeat_interval, "heartbeat_interval", "RINGFIRE_HEARTBEAT",
                           fmax((double)interval_ns * 1e-9, 1e-3), &job->heartbeat_interval_ns));
    RF_REQUIRE(job->heartbeat_interval_ns <= job->peer_timeout_ns / 3,
               "a heartbeat every %g s is too rare for a peer timeout of %g s; at least three must fit in that time",
               (double)job->heartbeat_interval_ns * 1e-9, peer_timeout);
    return RF_OK;
}

/* A master that the caller or RINGFIRE_MASTER names goes before the launcher's. */
static rf_result resolve_named_master(const rf_comm_params *p, const rf_job_env *env, rf_job *job)
{
    if (p->master_address && p->master_address[0]) {
        RF_REQUIRE(p->master_port > 0, "master_address is %.80s but master_port is 0; give both", p->master_address);
        RF_TRY(rf_job_copy_host("master_address", p->master_address, job->master_address));
        job->master_port = p->master_port;
        return RF_OK;
    }
    RF_REQUIRE(p->master_port == 0, "master_port is %u but master_address is not given; give both", p->master_port);
    const char *text = rf_job_get(env, "RINGFIRE_MASTER");
    return text ? rf_job_parse_address("RINGFIRE_MASTER", text, job->master_address, &job->master_port) : RF_OK;
}

static rf_result resolve_given_layout(const rf_comm_params *p, const rf_job_env *env, rf_job *job)
{
    RF_REQUIRE(p->world_size <= RF_MAX_WORLD, "world_size is %u; a job has at most %d workers", p->world_size,
               RF_MAX_WORLD);
    RF_REQUIRE(p->rank < p->world_size, "rank is %u but world_size is %u; ranks are numbered from 0 to %u", p->rank,
               p->world_size, p->world_size - 1);
    job->rank = p->rank;
    job->world_size = p->world_size;
    job->launcher = "the program";
    RF_TRY(rf_job_exported_master(env, job));
    RF_REQUIRE(!rf_job_needs_master(job),
               "world_size is %u but no master is given; set master_address and master_port, or "
               "RINGFIRE_MASTER to host:port",
               job->world_size);
    return RF_OK;
}

static rf_result resolve_layout(const rf_job_env *env, rf_job *job)
{
    static rf_result (*const sources[])(const rf_job_env *, rf_job *, bool *) = {
        rf_job_from_own,      rf_job_from_torchrun, rf_job_from_tf_config,
        rf_job_from_open_mpi, rf_job_from_slurm,    rf_job_from_pmix,
    };
    for (size_t i = 0; i < sizeof(sources) / sizeof(sources[0]); i++) {
        bool found = false;
        RF_TRY(sources[i](env, job, &found));
        if (found) return RF_OK;
    }
    /* Batch scripts export WORLD_SIZE for launchers that give the rank; without one of them it is half a description.
     */
    uint64_t size = 1;
    RF_TRY(rf_job_number(env, "WORLD_SIZE", UINT32_MAX, &size, NULL));
    RF_REQUIRE(size <= 1, "WORLD_SIZE is %llu but RANK is not set; set both or neither", (unsigned long long)size);
    job->rank = 0;
    job->world_size = 1;
    job->launcher = "none (this process alone)";
    return RF_OK;
}

static rf_result resolve_epoch(const rf_comm_params *p, const rf_job_env *env, rf_job *job)
{
    if (p->epoch) {
        job->epoch = p->epoch;
        return RF_OK;
    }
    return rf_job_number(env, "RINGFIRE_EPOCH", UINT64_MAX, &job->epoch, NULL);
}

static rf_result default_key_path(const rf_job_env *env, char *path, size_t size)
{
    const char *base = rf_job_get(env, "XDG_CONFIG_HOME"), *below = "";
    if (!base) {
        base = rf_job_get(env, "HOME");
        below = "/.config";
    }
    RF_REQUIRE(base, "HOME is not set, so there is no default place for a job key; name a file");
    RF_REQUIRE(snprintf(path, size, "%s%s/ringfire/job.key", base, below) < (int)size,
               "the path of the default key file is "
               "longer than %zu characters",
               size - 1);
    return RF_OK;
}

static rf_result resolve_key(const rf_comm_params *p, const rf_job_env *env, rf_job *job)
{
    const char *path = p->key_file && p->key_file[0] ? p->key_file : NULL;
    const char *where = path ? "key_file" : "RINGFIRE_KEY_FILE";
    bool insecure = p->insecure;
    if (!insecure) RF_TRY(rf_job_flag(env, "RINGFIRE_INSECURE", &insecure));
    if (!path) path = rf_job_get(env, "RINGFIRE_KEY_FILE");
    if (insecure) {
        RF_REQUIRE(!path, "%s names a job key but %s asks for none; remove one of them", where,
                   p->insecure ? "insecure" : "RINGFIRE_INSECURE");
        RF_REQUIRE(!job->encrypt, "encryption needs a job key, but %s asks for none; remove one of them",
                   p->insecure ? "insecure" : "RINGFIRE_INSECURE");
        return RF_OK;
    }
    char default_path[4096];
    if (!path && default_key_path(env, default_path, sizeof(default_path)) == RF_OK && access(default_path, F_OK) == 0)
        path = default_path;
    RF_REQUIRE(path || job->world_size > 0,
               "there is no job key: make one with 'ringfire keygen' (job and reader need the same), name the file of "
               "another one, or do without with RINGFIRE_INSECURE=1");
    RF_REQUIRE(
        path,
        "a job of %u workers needs a job key: start it with 'ringfire run', or make a key with 'ringfire keygen' "
        "and copy it to every host, or set RINGFIRE_INSECURE=1 to let anyone join",
        job->world_size);
    RF_TRY(rf_key_read(path, job->key));
    job->secure = true;
    return RF_OK;
}

static rf_result job_resolve(const rf_comm_params *p, const rf_job_env *env, const rf_cluster *cluster, rf_job *job)
{
    RF_TRY(resolve_settings(p, env, job));
    RF_TRY(resolve_timeouts(p, env, job));
    RF_TRY(resolve_named_master(p, env, job));
    if (cluster) {
        job->rank = rf_cluster_rank(cluster, cluster->type, cluster->index);
        job->world_size = rf_cluster_size(cluster);
        job->launcher = "TF_CONFIG";
        rf_job_name_run(job, job->launcher, cluster->run);
        for (int i = 0; rf_job_needs_master(job) && i < RF_TASK_TYPE_COUNT; i++) {
            if (cluster->count[i] == 0) continue;
            memcpy(job->master_address, cluster->tasks[i][0].host, sizeof(job->master_address));
            job->master_port = cluster->tasks[i][0].port;
        }
    } else if (p->world_size > 0) {
        RF_TRY(resolve_given_layout(p, env, job));
    } else {
        RF_TRY(resolve_layout(env, job));
    }
    RF_TRY(resolve_heartbeat(p, env, job));
    if (env->is_process) rf_job_settle_master(job);
    RF_TRY(resolve_epoch(p, env, job));
    return job->world_size > 1 ? resolve_key(p, env, job) : RF_OK;
}

static rf_result resolve_clean(const rf_comm_params *params, rf_lookup_fn lookup, void *user, const rf_cluster *cluster,
                               rf_job *out)
{
    const rf_comm_params defaults = { 0 };
    const rf_job_env env = environment_of(lookup, user);
    memset(out, 0, sizeof(*out));
    const rf_result r = job_resolve(params ? params : &defaults, &env, cluster, out);
    if (r < 0) rf_job_forget(out);
    return r;
}

rf_result rf_job_resolve(const rf_comm_params *params, rf_lookup_fn lookup, void *user, rf_job *out)
{
    return resolve_clean(params, lookup, user, NULL, out);
}

rf_result rf_job_resolve_key(const rf_comm_params *params, rf_lookup_fn lookup, void *user, rf_job *out)
{
    const rf_comm_params defaults = { 0 };
    const rf_job_env env = environment_of(lookup, user);
    memset(out, 0, sizeof(*out));
    return resolve_key(params ? params : &defaults, &env, out);
}

rf_result rf_cluster_job(const rf_comm_params *params, rf_lookup_fn lookup, void *user, const rf_cluster *cluster,
                         rf_job *out)
{
    return resolve_clean(params, lookup, user, cluster, out);
}

void rf_job_forget(rf_job *job)
{
    OPENSSL_cleanse(job->key, sizeof(job->key));
    job->secure = false;
}

rf_result rf_key_file_default(char *path, size_t size)
{
    RF_REQUIRE(path && size > 0, "rf_key_file_default: path is NULL");
    const rf_job_env env = environment_of(NULL, NULL);
    return default_key_path(&env, path, size);
}

rf_result rf_key_file_create(const char *path)
{
    char default_path[4096];
    if (path && path[0]) return rf_key_write(path);
    RF_TRY(rf_key_file_default(default_path, sizeof(default_path)));
    *strrchr(default_path, '/') = '\0';
    RF_TRY(rf_make_directories(default_path, 0700));
    RF_TRY(rf_key_file_default(default_path, sizeof(default_path)));
    return rf_key_write(default_path);
}
