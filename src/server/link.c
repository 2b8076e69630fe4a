/* SPDX-License-Identifier: Apache-2.0 */
#include "server/link.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/condition.h"
#include "base/memory.h"
#include "base/platform.h"

/* ---- life ---- */

rf_result rf_ps_link_create(rf_channel *channel, const char *name, uint64_t send_timeout_ns, rf_ps_link **out)
{
    *out = NULL;
    rf_ps_link *link = RF_NEW(rf_ps_link);
    if (!link || pthread_mutex_init(&link->sending, NULL) != 0) {
        rf_free(link);
        rf_channel_destroy(&channel);
        return RF_FAIL(RF_ERROR_OUT_OF_HOST_MEMORY, "no memory for the connection to %s", name);
    }
    link->channel = channel;
    link->send_timeout_ns = send_timeout_ns;
    link->heard = rf_now_ns();
    snprintf(link->name, sizeof(link->name), "%s", name);
    *out = link;
    return RF_OK;
}

void rf_ps_link_destroy(rf_ps_link **link)
{
    if (!*link) return;
    rf_channel_destroy(&(*link)->channel);
    pthread_mutex_destroy(&(*link)->sending);
    rf_free(*link);
    *link = NULL;
}

static rf_result fail_lost(const rf_ps_link *link, rf_result result)
{
    if (result != RF_ERROR_PEER_LOST && result != RF_ERROR_TIMEOUT && result != RF_ERROR_CORRUPT_DATA) return result;
    return RF_FAIL(RF_ERROR_PEER_LOST, "%s was lost: %s", link->name, rf_error_message());
}

/* ---- sending ---- */

static rf_result send_locked(rf_ps_link *link, const rf_ps_message *m, uint64_t timeout_ns)
{
    uint8_t head[RF_PS_HEAD_MAX];
    size_t head_size;
    RF_TRY(rf_ps_message_encode(m, head, &head_size));
    const rf_bytes buffers[] = { { head, head_size }, { m->payload, m->payload_size } };
    return rf_channel_send(link->channel, m->type, buffers, 2, timeout_ns);
}

rf_result rf_ps_link_send(rf_ps_link *link, const rf_ps_message *message)
{
    pthread_mutex_lock(&link->sending);
    const rf_result r = send_locked(link, message, link->send_timeout_ns);
    pthread_mutex_unlock(&link->sending);
    return fail_lost(link, r);
}

void rf_ps_link_send_heartbeat(rf_ps_link *link)
{
    if (pthread_mutex_trylock(&link->sending) != 0) return;
    (void)send_locked(link, &(rf_ps_message){ .type = RF_PS_BEAT }, link->send_timeout_ns);
    pthread_mutex_unlock(&link->sending);
}

rf_result rf_ps_link_send_floats(rf_ps_link *link, rf_ps_message *message, const float *values, uint64_t count)
{
    uint64_t at = 0;
    do {
        const uint64_t length = count - at < RF_PS_CHUNK ? count - at : RF_PS_CHUNK;
        message->offset = at;
        message->payload = values + at;
        message->payload_size = (size_t)length * sizeof(float);
        RF_TRY(rf_ps_link_send(link, message));
        at += length;
    } while (at < count);
    return RF_OK;
}

/* ---- receiving ---- */

rf_result rf_ps_link_receive(rf_ps_link *link, uint64_t timeout_ns, rf_ps_message *out)
{
    const uint64_t begin = rf_now_ns();
    for (;;) {
        uint16_t type;
        const void *body;
        size_t size;
        const uint64_t passed = rf_now_ns() - begin;
        rf_result r =
            rf_channel_receive(link->channel, &type, &body, &size, passed < timeout_ns ? timeout_ns - passed : 0);
        if (r == RF_ERROR_TIMEOUT) return r;
        RF_TRY(fail_lost(link, r));
        link->heard = rf_now_ns();
        r = rf_ps_message_decode(type, body, size, out);
        if (r < 0) return fail_lost(link, r);
        if (type != RF_PS_BEAT) return RF_OK;
    }
}

void rf_ps_link_resume(rf_ps_link *link)
{
    link->heard = rf_now_ns();
}

rf_result rf_ps_link_check_silence(const rf_ps_link *link, uint64_t silence_ns)
{
    if (rf_now_ns() - link->heard <= silence_ns) return RF_OK;
    return RF_FAIL(RF_ERROR_PEER_LOST, "%s was lost: silent for %.1f s", link->name, (double)silence_ns * 1e-9);
}

rf_result rf_ps_link_await(rf_ps_link *link, uint64_t timeout_ns, uint64_t silence_ns, rf_ps_message *out)
{
    const uint64_t begin = rf_now_ns();
    rf_result r = rf_ps_link_receive(link, 0, out);
    if (r != RF_ERROR_TIMEOUT) return r;
    for (;;) {
        const uint64_t now = rf_now_ns(), passed = now - begin, quiet = now - link->heard;
        if (passed >= timeout_ns) return RF_ERROR_TIMEOUT;
        const uint64_t until_silent = quiet < silence_ns ? silence_ns - quiet + 1000000u : 1;
        const uint64_t left = timeout_ns - passed;
        r = rf_ps_link_receive(link, left < until_silent ? left : until_silent, out);
        if (r != RF_ERROR_TIMEOUT) return r;
        RF_TRY(rf_ps_link_check_silence(link, silence_ns));
    }
}

/* ---- names and connections ---- */

rf_result rf_ps_cluster_resolve(const rf_comm_params *comm, rf_task_type type, rf_cluster *cluster, rf_job *job)
{
    RF_TRY(rf_cluster_resolve(NULL, NULL, cluster));
    RF_REQUIRE(cluster->type == type, "TF_CONFIG makes this process %s %u, but this is what a %s does",
               rf_task_type_name(cluster->type), cluster->index, rf_task_type_name(type));
    static const rf_task_type needed[] = { RF_TASK_CHIEF, RF_TASK_WORKER, RF_TASK_PS };
    for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++)
        RF_REQUIRE(cluster->count[needed[i]] > 0,
                   "TF_CONFIG: the cluster has no %s; parameter servers need chief, worker and ps",
                   rf_task_type_name(needed[i]));
    return rf_cluster_job(comm, NULL, NULL, cluster, job);
}

void rf_ps_task_name(const rf_cluster *cluster, rf_task_type type, uint32_t index, char name[RF_PS_NAME])
{
    const rf_address *a = index < cluster->count[type] ? &cluster->tasks[type][index] : NULL;
    if (a)
        snprintf(name, RF_PS_NAME, "%s %u (%s:%u)", rf_task_type_name(type), index, a->host, a->port);
    else
        snprintf(name, RF_PS_NAME, "%s %u", rf_task_type_name(type), index);
}

rf_result rf_ps_connect(const rf_job *job, const rf_cluster *cluster, rf_task_type type, uint32_t index,
                        const rf_hello *mine, uint64_t timeout_ns, rf_ps_link **out)
{
    *out = NULL;
    char name[RF_PS_NAME];
    rf_ps_task_name(cluster, type, index, name);
    const rf_address *a = &cluster->tasks[type][index];
    rf_channel *channel;
    RF_TRY(rf_error_context(rf_channel_connect(job, a->host, a->port, mine, timeout_ns, &channel), "%s", name));
    return rf_ps_link_create(channel, name, job->peer_timeout_ns, out);
}

rf_result rf_ps_hello(const rf_job *job, const char *role, rf_hello *out)
{
    *out = (rf_hello){ .rank = job->rank, .world_size = job->world_size };
    snprintf(out->role, sizeof(out->role), "%s", role);
    if (getrandom(&out->incarnation, sizeof(out->incarnation), 0) != sizeof(out->incarnation))
        return RF_FAIL_ERRNO(RF_ERROR_IO, "the operating system provides no random numbers");
    return RF_OK;
}

/* ---- signs of life ---- */

struct rf_ps_heartbeat {
    rf_ps_link *link;
    uint64_t interval_ns;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t stopped;
    bool stop;
};

static void *run_heartbeat(void *argument)
{
    rf_ps_heartbeat *p = argument;
    pthread_mutex_lock(&p->lock);
    while (!p->stop) {
        pthread_mutex_unlock(&p->lock);
        rf_ps_link_send_heartbeat(p->link);
        pthread_mutex_lock(&p->lock);
        if (!p->stop) (void)rf_condition_wait(&p->stopped, &p->lock, rf_now_ns() + p->interval_ns);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

rf_result rf_ps_heartbeat_start(rf_ps_link *link, uint64_t interval_ns, rf_ps_heartbeat **out)
{
    *out = NULL;
    rf_ps_heartbeat *p = RF_NEW(rf_ps_heartbeat);
    if (!p) return RF_ERROR_OUT_OF_HOST_MEMORY;
    p->link = link;
    p->interval_ns = interval_ns;
    rf_result r = rf_condition_init(&p->stopped);
    if (r < 0) {
        rf_free(p);
        return r;
    }
    pthread_mutex_init(&p->lock, NULL);
    const int e = pthread_create(&p->thread, NULL, run_heartbeat, p);
    if (e != 0) {
        pthread_mutex_destroy(&p->lock);
        pthread_cond_destroy(&p->stopped);
        rf_free(p);
        return RF_FAIL_NATIVE(RF_ERROR_IO, "errno", e, "cannot start a thread");
    }
    *out = p;
    return RF_OK;
}

void rf_ps_heartbeat_stop(rf_ps_heartbeat **heartbeat)
{
    rf_ps_heartbeat *p = *heartbeat;
    if (!p) return;
    *heartbeat = NULL;
    pthread_mutex_lock(&p->lock);
    p->stop = true;
    pthread_cond_signal(&p->stopped);
    pthread_mutex_unlock(&p->lock);
    pthread_join(p->thread, NULL);
    pthread_mutex_destroy(&p->lock);
    pthread_cond_destroy(&p->stopped);
    rf_free(p);
}
