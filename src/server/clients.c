/* SPDX-License-Identifier: Apache-2.0 */
/* The clients of a server, which read its parameters and send gradients: a thread for each. */
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/platform.h"
#include "server/server_internal.h"

#define ACCEPT_NS (50 * 1000000ull)
#define IDLE_NS (1000 * 1000000ull)
/* Connections of one task: one, and those of its earlier processes whose end was not noticed yet. */
#define PER_TASK 4

typedef struct client {
    struct client *next;
    rf_ps_clients *all;
    rf_ps_link *link;
    pthread_t thread;
    float *gradient, *values; /* made when the first is brought or asked for */
    uint64_t received;        /* elements of the push that is coming in */
    bool done;                /* under the lock: the thread can be joined */
} client;

struct rf_ps_clients {
    rf_listener *listener;
    rf_ps_shard *shard;
    const rf_job *job;
    const rf_cluster *cluster;
    pthread_t thread;
    pthread_mutex_t lock;
    bool stop;
    client *first;
};

/* ---- one client ---- */

static rf_result provide_array(const client *c, float **array)
{
    if (!*array) *array = RF_NEW_ARRAY(float, c->all->shard->count);
    return *array ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
}

static rf_result answer_pull(client *c, uint64_t slot)
{
    rf_ps_message m = { .type = RF_PS_VALUES };
    uint64_t count;
    RF_TRY(provide_array(c, &c->values));
    RF_TRY(rf_ps_shard_read(c->all->shard, slot, c->values, &count, &m.version));
    return rf_ps_link_send_floats(c->link, &m, c->values, count);
}

static rf_result take_push(client *c, const rf_ps_message *m)
{
    const uint64_t count = c->all->shard->count;
    RF_TRY(provide_array(c, &c->gradient));
    RF_REQUIRE(rf_ps_message_take(m, c->gradient, count, &c->received),
               "%zu bytes of gradients from %llu on have come, but those from %llu on are missing, of %llu",
               m->payload_size, (unsigned long long)m->offset, (unsigned long long)c->received,
               (unsigned long long)count);
    if (c->received < count) return RF_OK;
    c->received = 0;
    rf_ps_message done = { .type = RF_PS_PUSHED };
    RF_TRY(rf_ps_shard_push(c->all->shard, m, &c->gradient, &done.version, &done.staleness));
    return rf_ps_link_send(c->link, &done);
}

/* An error of this client ends only its own connection; the reason is sent with it. */
static void refuse_client(client *c, rf_result r)
{
    rf_ps_message m = { .type = RF_PS_FAILED, .result = r };
    snprintf(m.text, sizeof(m.text), "%s", rf_error_message());
    rf_log_message(RF_LOG_WARN, "parameter server: %s: %s", c->link->name, m.text);
    (void)rf_ps_link_send(c->link, &m);
}

static bool is_stopping(rf_ps_clients *all)
{
    pthread_mutex_lock(&all->lock);
    const bool stop = all->stop;
    pthread_mutex_unlock(&all->lock);
    return stop;
}

static void *serve_client(void *argument)
{
    client *c = argument;
    rf_result r = RF_OK;
    while (r == RF_OK && !is_stopping(c->all)) {
        rf_ps_message m;
        r = rf_ps_link_receive(c->link, IDLE_NS, &m);
        if (r == RF_ERROR_TIMEOUT) {
            r = RF_OK;
            continue;
        }
        if (r < 0) break;
        if (m.type == RF_PS_PULL)
            r = answer_pull(c, m.slot);
        else if (m.type == RF_PS_PUSH)
            r = take_push(c, &m);
        else
            r = RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "a server does not expect a message of type %u", m.type);
        if (r < 0) refuse_client(c, r);
    }
    rf_channel_shutdown(c->link->channel);
    pthread_mutex_lock(&c->all->lock);
    c->done = true;
    pthread_mutex_unlock(&c->all->lock);
    return NULL;
}

static void free_client(client *c)
{
    rf_ps_link_destroy(&c->link);
    rf_free(c->gradient);
    rf_free(c->values);
    rf_free(c);
}

/* ---- coming and going ---- */

/* A worker by its task, anybody else by the address. */
static void name_of(const rf_ps_clients *all, const rf_channel *channel, char name[RF_PS_NAME])
{
    const rf_hello *hello = rf_channel_peer(channel);
    const uint32_t first = rf_cluster_rank(all->cluster, RF_TASK_WORKER, 0);
    if (hello->rank >= first && hello->rank - first < all->cluster->count[RF_TASK_WORKER])
        rf_ps_task_name(all->cluster, RF_TASK_WORKER, hello->rank - first, name);
    else
        snprintf(name, RF_PS_NAME, "%.15s (%s)", hello->role, rf_channel_peer_address(channel));
}

/* A task of this cluster that has not too many connections already. */
static rf_result check_client(rf_ps_clients *all, const rf_channel *channel, const char *name)
{
    const rf_hello *hello = rf_channel_peer(channel);
    RF_REQUIRE(strcmp(hello->role, "client") == 0, "%s is not a client", name);
    RF_REQUIRE(hello->rank < rf_cluster_size(all->cluster), "%s has rank %u in a cluster of %u", name, hello->rank,
               rf_cluster_size(all->cluster));
    uint32_t count = 0;
    pthread_mutex_lock(&all->lock);
    for (const client *c = all->first; c; c = c->next) count += rf_channel_peer(c->link->channel)->rank == hello->rank;
    pthread_mutex_unlock(&all->lock);
    RF_REQUIRE(count < PER_TASK, "%s has %u connections already", name, count);
    return RF_OK;
}

static rf_result add_client(rf_ps_clients *all, rf_channel *channel)
{
    char name[RF_PS_NAME];
    name_of(all, channel, name);
    const rf_result welcome = check_client(all, channel, name);
    if (welcome < 0) {
        rf_channel_destroy(&channel);
        return welcome;
    }
    client *c = RF_NEW(client);
    if (!c) {
        rf_channel_destroy(&channel);
        return RF_ERROR_OUT_OF_HOST_MEMORY;
    }
    c->all = all;
    rf_result r = rf_ps_link_create(channel, name, all->job->operation_timeout_ns, &c->link);
    if (r == RF_OK) {
        pthread_mutex_lock(&all->lock);
        const int e = pthread_create(&c->thread, NULL, serve_client, c);
        if (e == 0) {
            c->next = all->first;
            all->first = c;
        } else {
            r = RF_FAIL_NATIVE(RF_ERROR_IO, "errno", e, "cannot start a thread");
        }
        pthread_mutex_unlock(&all->lock);
    }
    if (r < 0) free_client(c);
    return r;
}

/* Ends and frees the clients that are done; with `force`, those that still run as well. */
static void reap_clients(rf_ps_clients *all, bool force)
{
    pthread_mutex_lock(&all->lock);
    client **at = &all->first, *ended = NULL;
    while (*at) {
        client *c = *at;
        if (!force && !c->done) {
            at = &c->next;
            continue;
        }
        if (force) rf_channel_shutdown(c->link->channel);
        *at = c->next;
        c->next = ended;
        ended = c;
    }
    pthread_mutex_unlock(&all->lock);
    while (ended) {
        client *next = ended->next;
        pthread_join(ended->thread, NULL);
        free_client(ended);
        ended = next;
    }
}

static void *accept_clients(void *argument)
{
    rf_ps_clients *all = argument;
    while (!is_stopping(all)) {
        rf_channel *channel;
        const rf_result r = rf_listener_accept(all->listener, ACCEPT_NS, &channel);
        if (r == RF_OK && add_client(all, channel) < 0)
            rf_log_message(RF_LOG_WARN, "parameter server: a client was rejected: %s", rf_error_message());
        reap_clients(all, false);
    }
    return NULL;
}

void rf_ps_clients_expel(rf_ps_clients *all, uint64_t rank, uint64_t incarnation)
{
    pthread_mutex_lock(&all->lock);
    for (client *c = all->first; c; c = c->next) {
        const rf_hello *hello = rf_channel_peer(c->link->channel);
        if (hello->rank == rank && hello->incarnation == incarnation) rf_channel_shutdown(c->link->channel);
    }
    pthread_mutex_unlock(&all->lock);
}

rf_result rf_ps_clients_start(rf_listener *listener, rf_ps_shard *shard, const rf_job *job, const rf_cluster *cluster,
                              rf_ps_clients **out)
{
    *out = NULL;
    rf_ps_clients *all = RF_NEW(rf_ps_clients);
    if (!all) return RF_ERROR_OUT_OF_HOST_MEMORY;
    *all = (rf_ps_clients){ .listener = listener, .shard = shard, .job = job, .cluster = cluster };
    pthread_mutex_init(&all->lock, NULL);
    const int e = pthread_create(&all->thread, NULL, accept_clients, all);
    if (e != 0) {
        pthread_mutex_destroy(&all->lock);
        rf_free(all);
        return RF_FAIL_NATIVE(RF_ERROR_IO, "errno", e, "cannot start a thread");
    }
    *out = all;
    return RF_OK;
}

void rf_ps_clients_stop(rf_ps_clients **clients)
{
    rf_ps_clients *all = *clients;
    if (!all) return;
    *clients = NULL;
    pthread_mutex_lock(&all->lock);
    all->stop = true;
    pthread_mutex_unlock(&all->lock);
    pthread_join(all->thread, NULL);
    reap_clients(all, true);
    pthread_mutex_destroy(&all->lock);
    rf_free(all);
}
