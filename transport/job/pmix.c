/* SPDX-License-Identifier: Apache-2.0 */
/* PMIx: rank and size from the launcher's server, and rank 0's address through its key-value store. */
#include <string.h>

#include "transport/job/sources.h"

#ifdef RF_HAVE_PMIX

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/condition.h"
#include "base/memory.h"
#include "base/platform.h"
#include "transport/job/host.h"
#include "transport/job/listen.h"
#include "transport/job/pmix_library.h"

#define MASTER_KEY "ringfire.master"

/* The library, and who this process is to it. */
typedef struct session {
    rf_pmix_library library;
    pmix_proc_t me;
} session;

static rf_result pmix_error(const session *s, pmix_status_t status, const char *what)
{
    return RF_FAIL_NATIVE(RF_ERROR_IO, "PMIx", status,
                          "PMIx: %s: %s; set RINGFIRE_MASTER, RINGFIRE_RANK and "
                          "RINGFIRE_WORLD_SIZE to do without it",
                          what, s->library.Error_string(status));
}

static pmix_proc_t proc_of_rank(const session *s, pmix_rank_t rank)
{
    pmix_proc_t proc = s->me; /* of the same job */
    proc.rank = rank;
    return proc;
}

static pmix_info_t flag_info(const char *key)
{
    pmix_info_t info;
    memset(&info, 0, sizeof(info));
    snprintf(info.key, sizeof(info.key), "%s", key);
    info.value.type = PMIX_BOOL;
    info.value.data.flag = true;
    return info;
}

/* The most seconds that a request may wait for. */
static pmix_info_t timeout_info(uint64_t ns)
{
    pmix_info_t info;
    memset(&info, 0, sizeof(info));
    snprintf(info.key, sizeof(info.key), "%s", PMIX_TIMEOUT);
    info.value.type = PMIX_INT;
    info.value.data.integer = (int)(ns / 1000000000u) + 1;
    return info;
}

/* Frees what Get() gave. Only texts of the types that are asked for own memory. */
static void value_free(pmix_value_t *value)
{
    if (value->type == PMIX_STRING) free(value->data.string);
    free(value);
}

static rf_result get_number(const session *s, pmix_rank_t rank, const char *key, uint64_t *out)
{
    const pmix_proc_t proc = proc_of_rank(s, rank);
    pmix_value_t *value = NULL;
    const pmix_status_t status = s->library.Get(&proc, key, NULL, 0, &value);
    if (status != PMIX_SUCCESS) return pmix_error(s, status, key);
    rf_result r = RF_OK;
    if (value->type == PMIX_UINT32)
        *out = value->data.uint32;
    else if (value->type == PMIX_UINT16)
        *out = value->data.uint16;
    else
        r = pmix_error(s, PMIX_ERR_BAD_PARAM, key);
    value_free(value);
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

static rf_result run_fence(const session *s, uint64_t timeout_ns)
{
    fence *f = RF_NEW(fence);
    if (!f) return RF_ERROR_OUT_OF_HOST_MEMORY;
    const rf_result made = rf_condition_init(&f->done);
    if (made < 0) {
        rf_free(f);
        return made;
    }
    pthread_mutex_init(&f->lock, NULL);
    const uint64_t until = rf_now_ns() + timeout_ns;

    const pmix_info_t info = flag_info(PMIX_COLLECT_DATA);
    const pmix_proc_t everybody = proc_of_rank(s, PMIX_RANK_WILDCARD);
    const pmix_status_t started = s->library.Fence_nb(&everybody, 1, &info, 1, fence_done, f);
    if (started != PMIX_SUCCESS) {
        fence_free(f);
        return started == PMIX_OPERATION_SUCCEEDED ? RF_OK : pmix_error(s, started, "exchanging rank 0's address");
    }
    pthread_mutex_lock(&f->lock);
    while (!f->finished && rf_condition_wait(&f->done, &f->lock, until)) continue;
    const bool finished = f->finished;
    const pmix_status_t status = f->status;
    f->abandoned = !finished;
    pthread_mutex_unlock(&f->lock);
    if (!finished)
        return RF_FAIL(RF_ERROR_TIMEOUT, "PMIx: not all workers asked for rank 0's address within %.1f s",
                       (double)timeout_ns * 1e-9);
    fence_free(f);
    return status == PMIX_SUCCESS ? RF_OK : pmix_error(s, status, "exchanging rank 0's address");
}

/* Where rank 0 is reached: as told, on loopback when all are on one host, else on the side where another host is. */
static rf_result own_address(const session *s, const rf_job *job, char host[RF_JOB_TEXT])
{
    if (job->bind_address[0] && !rf_is_wildcard(job->bind_address))
        return rf_job_copy_host("bind_address", job->bind_address, host);
    if (rf_job_is_one_host(job)) return rf_job_copy_host("loopback", "127.0.0.1", host);
    const pmix_proc_t everybody = proc_of_rank(s, PMIX_RANK_WILDCARD);
    pmix_value_t *value = NULL;
    bool ok = false;
    if (s->library.Get(&everybody, PMIX_NODE_LIST, NULL, 0, &value) == PMIX_SUCCESS) {
        char *rest = NULL;
        if (value->type == PMIX_STRING)
            for (char *name = strtok_r(value->data.string, ",", &rest); name && !ok; name = strtok_r(NULL, ",", &rest))
                ok = rf_job_address_towards(name, host);
        value_free(value);
    }
    if (ok || rf_job_first_interface(host)) return RF_OK;
    return RF_FAIL(RF_ERROR_INVALID_ARGUMENT,
                   "rank 0 has no address that other hosts can reach; set RINGFIRE_BIND to one");
}

/* The job's derived port, or the next one that is free. */
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

static rf_result publish_master(const session *s, const rf_job *job)
{
    char host[RF_JOB_TEXT], text[RF_JOB_TEXT + 16];
    uint16_t port = 0;
    RF_TRY(own_address(s, job, host));
    RF_TRY(free_port(s->me.nspace, host, &port));
    snprintf(text, sizeof(text), strchr(host, ':') ? "[%s]:%u" : "%s:%u", host, port);
    pmix_value_t value = { .type = PMIX_STRING, .data = { .string = text } };
    pmix_status_t status = s->library.Put(PMIX_GLOBAL, MASTER_KEY, &value);
    if (status == PMIX_SUCCESS) status = s->library.Commit();
    return status == PMIX_SUCCESS ? RF_OK : pmix_error(s, status, "publishing rank 0's address");
}

static rf_result exchange_master(const session *s, rf_job *job)
{
    /* Rank 0 takes part in the fence even when it has nothing to say, so that the others need not wait for a deadline.
     */
    rf_error_record failure;
    const rf_result published = s->me.rank == 0 ? publish_master(s, job) : RF_OK;
    if (published < 0) rf_error_save(&failure);
    const rf_result fenced = run_fence(s, job->bootstrap_timeout_ns);
    if (published < 0) return rf_error_restore(&failure);
    RF_TRY(fenced);
    const pmix_proc_t master = proc_of_rank(s, 0);
    /* The fence has brought it to this process or, in PMIx 5, to its server; with Open MPI 5 that of another host has
     * to ask. */
    const pmix_info_t places[] = { flag_info(PMIX_OPTIONAL), flag_info(PMIX_IMMEDIATE),
                                   timeout_info(job->bootstrap_timeout_ns) };
    pmix_value_t *value = NULL;
    pmix_status_t status = PMIX_ERR_NOT_FOUND;
    if (s->me.rank == 0) status = s->library.Get(&master, MASTER_KEY, NULL, 0, &value);
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]) && status == PMIX_ERR_NOT_FOUND; i++)
        status = s->library.Get(&master, MASTER_KEY, &places[i], 1, &value);
    if (status != PMIX_SUCCESS) return pmix_error(s, status, "rank 0 published no address");
    const rf_result r = value->type == PMIX_STRING
                            ? rf_job_parse_address("PMIx", value->data.string, job->master_address, &job->master_port)
                            : pmix_error(s, PMIX_ERR_BAD_PARAM, MASTER_KEY);
    value_free(value);
    return r;
}

static rf_result ask_layout(const session *s, rf_job *job)
{
    uint64_t size = 0, local_rank = 0, local_size = 0;
    RF_TRY(get_number(s, PMIX_RANK_WILDCARD, PMIX_JOB_SIZE, &size));
    RF_REQUIRE(size >= 1 && size <= RF_MAX_WORLD && s->me.rank < size,
               "PMIx: rank %u of a job of %llu; a job has 1 to %d workers", s->me.rank, (unsigned long long)size,
               RF_MAX_WORLD);
    job->rank = s->me.rank;
    job->world_size = (uint32_t)size;
    if (get_number(s, s->me.rank, PMIX_LOCAL_RANK, &local_rank) < 0 ||
        get_number(s, PMIX_RANK_WILDCARD, PMIX_LOCAL_SIZE, &local_size) < 0)
        return RF_OK; /* optional in PMIx */
    return rf_job_check_local("PMIX_LOCAL_RANK", "PMIX_LOCAL_SIZE", local_rank, local_size, job);
}

rf_result rf_job_from_pmix(const rf_job_env *env, rf_job *job, bool *found)
{
    *found = env->is_process && rf_job_get(env, "PMIX_RANK") && rf_job_get(env, "PMIX_NAMESPACE");
    if (!*found) return RF_OK;
    session s;
    RF_TRY(rf_pmix_open(&s.library));
    const pmix_status_t status = s.library.Init(&s.me, NULL, 0);
    if (status != PMIX_SUCCESS) return pmix_error(&s, status, "PMIX_RANK is set but the server does not answer");
    job->launcher = "PMIx";
    rf_job_name_run(job, "PMIx", s.me.nspace);
    rf_result r = ask_layout(&s, job);
    if (r == RF_OK) r = rf_job_exported_master(env, job);
    if (r == RF_OK && rf_job_needs_master(job)) r = exchange_master(&s, job);
    s.library.Finalize(NULL, 0);
    return r;
}

rf_result rf_job_pmix_master(const rf_job_env *env, rf_job *job)
{
    session s;
    if (!env->is_process || !rf_job_get(env, "PMIX_RANK") || !rf_job_get(env, "PMIX_NAMESPACE") ||
        rf_pmix_open(&s.library) < 0 || s.library.Init(&s.me, NULL, 0) != PMIX_SUCCESS)
        return RF_FAIL(RF_ERROR_UNSUPPORTED, "there is no PMIx server to ask");
    const rf_result r = s.me.rank == job->rank ? exchange_master(&s, job)
                                               : RF_FAIL(RF_ERROR_UNSUPPORTED, "PMIx numbers the workers differently");
    s.library.Finalize(NULL, 0);
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
