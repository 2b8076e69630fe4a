/* SPDX-License-Identifier: Apache-2.0 */
/* PMIx: rank and size from the launcher's server, and rank 0's address through its key-value store. */
#include <string.h>

#include "transport/job_sources.h"

#ifdef RF_HAVE_PMIX

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <pmix.h>

#include "base/memory.h"

#define MASTER_KEY "ringfire.master"

static rf_result pmix_error(pmix_status_t status, const char *what)
{
    return RF_FAIL_NATIVE(RF_ERROR_IO, "PMIx", status,
                          "PMIx: %s: %s; set RINGFIRE_MASTER, RINGFIRE_RANK and "
                          "RINGFIRE_WORLD_SIZE to do without it",
                          what, PMIx_Error_string(status));
}

static rf_result get_number(const pmix_proc_t *proc, const char *key, uint64_t *out)
{
    pmix_value_t *value = NULL;
    const pmix_status_t status = PMIx_Get(proc, key, NULL, 0, &value);
    if (status != PMIX_SUCCESS) return pmix_error(status, key);
    rf_result r = RF_OK;
    if (value->type == PMIX_UINT32)
        *out = value->data.uint32;
    else if (value->type == PMIX_UINT16)
        *out = value->data.uint16;
    else
        r = pmix_error(PMIX_ERR_BAD_PARAM, key);
    PMIX_VALUE_RELEASE(value);
    return r;
}

/* A fence with a deadline. The call cannot be taken back, so the waiter and the callback share what the last one frees.
 */
typedef struct fence {
    pthread_mutex_t lock;
    pthread_cond_t done;
    bool finished, abandoned;
    pmix_status_t status;
} fence;

static void fence_free(fence *f)
{
    pthread_cond_destroy(&f->done);
    pthread_mutex_destroy(&f->lock);
    rf_free(f);
}

static void fence_done(pmix_status_t status, void *user)
{
    fence *f = user;
    pthread_mutex_lock(&f->lock);
    const bool abandoned = f->abandoned;
    f->finished = true;
    f->status = status;
    pthread_cond_signal(&f->done);
    pthread_mutex_unlock(&f->lock);
    if (abandoned) fence_free(f);
}

static rf_result run_fence(const char *nspace, uint64_t timeout_ns)
{
    fence *f = RF_NEW(fence);
    if (!f) return RF_ERROR_OUT_OF_HOST_MEMORY;
    pthread_condattr_t clock;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_mutex_init(&f->lock, NULL);
    pthread_cond_init(&f->done, &clock);
    pthread_condattr_destroy(&clock);

    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    const uint64_t ns = (uint64_t)until.tv_nsec + timeout_ns;
    until.tv_sec += (time_t)(ns / 1000000000u);
    until.tv_nsec = (long)(ns % 1000000000u);

    bool collect = true;
    pmix_info_t info;
    pmix_proc_t everybody;
    PMIX_INFO_LOAD(&info, PMIX_COLLECT_DATA, &collect, PMIX_BOOL);
    PMIX_PROC_LOAD(&everybody, nspace, PMIX_RANK_WILDCARD);
    const pmix_status_t started = PMIx_Fence_nb(&everybody, 1, &info, 1, fence_done, f);
    if (started != PMIX_SUCCESS) {
        fence_free(f);
        return started == PMIX_OPERATION_SUCCEEDED ? RF_OK : pmix_error(started, "exchanging rank 0's address");
    }
    pthread_mutex_lock(&f->lock);
    int waited = 0;
    while (!f->finished && waited == 0) waited = pthread_cond_timedwait(&f->done, &f->lock, &until);
    const bool finished = f->finished;
    const pmix_status_t status = f->status;
    f->abandoned = !finished;
    pthread_mutex_unlock(&f->lock);
    if (!finished)
        return RF_FAIL(RF_ERROR_TIMEOUT, "PMIx: not all workers asked for rank 0's address within %.1f s",
                       (double)timeout_ns * 1e-9);
    fence_free(f);
    return status == PMIX_SUCCESS ? RF_OK : pmix_error(status, "exchanging rank 0's address");
}

/* Where rank 0 is reached: as told, on loopback when all are on one host, else on the side where another host is. */
static rf_result own_address(const pmix_proc_t *me, const rf_job *job, char host[RF_JOB_TEXT])
{
    if (job->bind_address[0]) return rf_job_copy_host("bind_address", job->bind_address, host);
    if (job->local_size == job->world_size) return rf_job_copy_host("loopback", "127.0.0.1", host);
    pmix_proc_t everybody;
    pmix_value_t *value = NULL;
    PMIX_PROC_LOAD(&everybody, me->nspace, PMIX_RANK_WILDCARD);
    bool ok = false;
    if (PMIx_Get(&everybody, PMIX_NODE_LIST, NULL, 0, &value) == PMIX_SUCCESS) {
        char *rest = NULL;
        if (value->type == PMIX_STRING)
            for (char *name = strtok_r(value->data.string, ",", &rest); name && !ok; name = strtok_r(NULL, ",", &rest))
                ok = rf_job_address_towards(name, host);
        PMIX_VALUE_RELEASE(value);
    }
    if (ok || rf_job_first_interface(host)) return RF_OK;
    return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "rank 0 has no address that other hosts reach; set RINGFIRE_BIND to one");
}

/* The job's derived port, or the next one that nobody has now. */
static rf_result free_port(const char *nspace, const char *host, uint16_t *out)
{
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST }, *a = NULL;
    *out = rf_job_derived_port(nspace, "");
    if (getaddrinfo(host, NULL, &hints, &a) != 0) return RF_OK; /* a name: the listener will tell */
    for (int i = 0; i < 64; i++) {
        const uint16_t port = (uint16_t)(20000 + (*out - 20000 + i) % 12768);
        if (a->ai_family == AF_INET) ((struct sockaddr_in *)a->ai_addr)->sin_port = htons(port);
        if (a->ai_family == AF_INET6) ((struct sockaddr_in6 *)a->ai_addr)->sin6_port = htons(port);
        const int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0) break;
        const int one = 1;
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
        const bool ok = bind(fd, a->ai_addr, a->ai_addrlen) == 0;
        close(fd);
        if (!ok) continue;
        *out = port;
        freeaddrinfo(a);
        return RF_OK;
    }
    freeaddrinfo(a);
    return RF_FAIL(RF_ERROR_IO, "no free port for rank 0 on %s from %u on; set RINGFIRE_MASTER to host:port", host,
                   *out);
}

static rf_result publish_master(const pmix_proc_t *me, const rf_job *job)
{
    char host[RF_JOB_TEXT], text[RF_JOB_TEXT + 16];
    uint16_t port = 0;
    RF_TRY(own_address(me, job, host));
    RF_TRY(free_port(me->nspace, host, &port));
    snprintf(text, sizeof(text), strchr(host, ':') ? "[%s]:%u" : "%s:%u", host, port);
    pmix_value_t value;
    PMIX_VALUE_LOAD(&value, text, PMIX_STRING);
    pmix_status_t status = PMIx_Put(PMIX_GLOBAL, MASTER_KEY, &value);
    PMIX_VALUE_DESTRUCT(&value);
    if (status == PMIX_SUCCESS) status = PMIx_Commit();
    return status == PMIX_SUCCESS ? RF_OK : pmix_error(status, "publishing rank 0's address");
}

static rf_result exchange_master(const pmix_proc_t *me, rf_job *job)
{
    /* Rank 0 takes part in the fence even when it has nothing to say, so that the others need not wait for a deadline.
     */
    rf_error_record failure;
    const rf_result published = me->rank == 0 ? publish_master(me, job) : RF_OK;
    if (published < 0) rf_error_save(&failure);
    const rf_result fenced = run_fence(me->nspace, job->bootstrap_timeout_ns);
    if (published < 0) return rf_error_restore(&failure);
    RF_TRY(fenced);
    pmix_proc_t master;
    pmix_value_t *value = NULL;
    bool optional = true;
    pmix_info_t info;
    PMIX_PROC_LOAD(&master, me->nspace, 0);
    PMIX_INFO_LOAD(&info, PMIX_OPTIONAL, &optional, PMIX_BOOL); /* the fence brought it here, or nobody has it */
    const pmix_status_t status =
        PMIx_Get(&master, MASTER_KEY, me->rank == 0 ? NULL : &info, me->rank == 0 ? 0 : 1, &value);
    if (status != PMIX_SUCCESS) return pmix_error(status, "rank 0 published no address");
    const rf_result r = value->type == PMIX_STRING
                            ? rf_job_parse_address("PMIx", value->data.string, job->master_address, &job->master_port)
                            : pmix_error(PMIX_ERR_BAD_PARAM, MASTER_KEY);
    PMIX_VALUE_RELEASE(value);
    return r;
}

static rf_result ask_layout(const pmix_proc_t *me, rf_job *job)
{
    pmix_proc_t everybody;
    PMIX_PROC_LOAD(&everybody, me->nspace, PMIX_RANK_WILDCARD);
    uint64_t size = 0, local_rank = 0, local_size = 0;
    RF_TRY(get_number(&everybody, PMIX_JOB_SIZE, &size));
    RF_REQUIRE(size >= 1 && size <= RF_MAX_WORLD && me->rank < size,
               "PMIx: rank %u of a job of %llu; a job has 1 to %d workers", me->rank, (unsigned long long)size,
               RF_MAX_WORLD);
    job->rank = me->rank;
    job->world_size = (uint32_t)size;
    if (get_number(me, PMIX_LOCAL_RANK, &local_rank) < 0 || get_number(&everybody, PMIX_LOCAL_SIZE, &local_size) < 0)
        return RF_OK; /* optional in PMIx */
    return rf_job_check_local("PMIX_LOCAL_RANK", "PMIX_LOCAL_SIZE", local_rank, local_size, job);
}

rf_result rf_job_from_pmix(const rf_job_env *env, rf_job *job, bool *found)
{
    *found = env->is_process && rf_job_get(env, "PMIX_RANK") && rf_job_get(env, "PMIX_NAMESPACE");
    if (!*found) return RF_OK;
    pmix_proc_t me;
    const pmix_status_t status = PMIx_Init(&me, NULL, 0);
    if (status != PMIX_SUCCESS) return pmix_error(status, "PMIX_RANK is set but the server does not answer");
    job->launcher = "PMIx";
    rf_result r = ask_layout(&me, job);
    if (r == RF_OK) r = rf_job_exported_master(env, job);
    if (r == RF_OK && rf_job_needs_master(job)) r = exchange_master(&me, job);
    PMIx_Finalize(NULL, 0);
    return r;
}

rf_result rf_job_pmix_master(const rf_job_env *env, rf_job *job)
{
    pmix_proc_t me;
    if (!env->is_process || !rf_job_get(env, "PMIX_RANK") || !rf_job_get(env, "PMIX_NAMESPACE") ||
        PMIx_Init(&me, NULL, 0) != PMIX_SUCCESS)
        return RF_FAIL(RF_ERROR_UNSUPPORTED, "there is no PMIx server to ask");
    const rf_result r = me.rank == job->rank ? exchange_master(&me, job)
                                             : RF_FAIL(RF_ERROR_UNSUPPORTED, "PMIx numbers the workers otherwise");
    PMIx_Finalize(NULL, 0);
    return r;
}

#else

rf_result rf_job_from_pmix(const rf_job_env *env, rf_job *job, bool *found)
{
    *found = false;
    (void)job;
    if (!env->is_process || !rf_job_get(env, "PMIX_RANK") || !rf_job_get(env, "PMIX_NAMESPACE")) return RF_OK;
    return RF_FAIL(RF_ERROR_UNSUPPORTED,
                   "PMIX_RANK is set but this build has no PMIx; set RINGFIRE_RANK, RINGFIRE_WORLD_SIZE "
                   "and RINGFIRE_MASTER");
}

rf_result rf_job_pmix_master(const rf_job_env *env, rf_job *job)
{
    (void)env;
    (void)job;
    return RF_FAIL(RF_ERROR_UNSUPPORTED, "this build has no PMIx");
}

#endif
