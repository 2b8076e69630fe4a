/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a parameter server: wait for the chief, receive parameters and optimizer, carry out its orders. */
#include "server/server.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/platform.h"
#include "server/server_internal.h"
#include "transport/channel/socket.h"

#define SLICE_NS (50 * 1000000ull)
#define MAX_OPTIMIZER 32768 /* bytes */

typedef struct server {
    rf_job job;
    rf_cluster cluster;
    rf_listener *listener;
    rf_ps_link *chief;
    rf_ps_heartbeat *heartbeat;
    rf_ps_clients *clients;
    rf_ps_shard shard;
    void *user;
} server;

/* ---- the beginning ---- */

static rf_result await_chief(server *s)
{
    char name[RF_PS_NAME];
    rf_ps_task_name(&s->cluster, RF_TASK_CHIEF, 0, name);
    const uint64_t deadline = rf_deadline_after(s->job.bootstrap_timeout_ns);
    for (;;) {
        rf_channel *channel;
        const uint64_t left = rf_deadline_left(deadline);
        const rf_result r = left > 0 ? rf_listener_accept(s->listener, left, &channel) : RF_ERROR_TIMEOUT;
        if (r == RF_ERROR_TIMEOUT) {
            char rejected[256], place[128];
            rf_listener_rejection(s->listener, rejected, sizeof(rejected));
            rf_listener_place(s->listener, place, sizeof(place));
            return RF_FAIL(r, "%s has not connected within %.1f s%s%s; this server listens at %s", name,
                           (double)s->job.bootstrap_timeout_ns * 1e-9, rejected[0] ? "; rejected: " : "", rejected,
                           place);
        }
        RF_TRY(r);
        if (strcmp(rf_channel_peer(channel)->role, "chief") == 0 &&
            rf_channel_peer(channel)->rank == rf_cluster_rank(&s->cluster, RF_TASK_CHIEF, 0))
            return rf_ps_link_create(channel, name, s->job.peer_timeout_ns, &s->chief);
        rf_channel_destroy(&channel);
    }
}

static rf_result fail_unexpected(const server *s, const rf_ps_message *m)
{
    if (m->type == RF_PS_ABORT) return RF_FAIL(m->result, "%s", m->text);
    return RF_FAIL(RF_ERROR_CORRUPT_DATA, "%s sent a message of type %u out of turn", s->chief->name, m->type);
}

static rf_result receive_values(server *s, float *values, uint64_t count)
{
    uint64_t have = 0;
    do {
        rf_ps_message m;
        const rf_result r = rf_ps_link_await(s->chief, s->job.operation_timeout_ns, s->job.peer_timeout_ns, &m);
        if (r == RF_ERROR_TIMEOUT) return RF_FAIL(r, "%s did not send the parameters in time", s->chief->name);
        RF_TRY(r);
        if (m.type != RF_PS_VALUES) return fail_unexpected(s, &m);
        if (!rf_ps_message_take(&m, values, count, &have))
            return RF_FAIL(RF_ERROR_CORRUPT_DATA, "%s sent parameters out of order", s->chief->name);
    } while (have < count);
    return RF_OK;
}

/* The contents of INIT, beside its numbers. */
typedef struct description {
    rf_ps_layout layout;
    uint8_t optimizer[MAX_OPTIMIZER];
    size_t size;
    uint32_t num_slots;
    float *slots; /* those of what is optimized, one after the other */
} description;

/* Before the chief's next message takes its place. */
static rf_result read_description(const server *s, const rf_ps_message *init, description *d)
{
    RF_REQUIRE(
        init->index == s->cluster.index && init->servers == s->cluster.count[RF_TASK_PS],
        "%s regards this process as ps %llu of %llu, but TF_CONFIG says %u of %u; give all tasks the same cluster",
        s->chief->name, (unsigned long long)init->index, (unsigned long long)init->servers, s->cluster.index,
        s->cluster.count[RF_TASK_PS]);
    RF_TRY(rf_error_context(rf_ps_layout_read(init->payload, init->payload_size, init->groups, init->count, &d->layout),
                            "%s sent", s->chief->name));
    const size_t skip = 8 * (size_t)init->groups;
    d->size = init->payload_size - skip;
    RF_REQUIRE(d->size <= sizeof(d->optimizer), "%s sent an optimizer of %zu bytes", s->chief->name, d->size);
    if (d->size > 0) memcpy(d->optimizer, (const uint8_t *)init->payload + skip, d->size);
    RF_REQUIRE(init->slots <= RF_MAX_SLOTS, "%s wants to send %llu slots of an optimizer, at most %d", s->chief->name,
               (unsigned long long)init->slots, RF_MAX_SLOTS);
    d->num_slots = d->layout.optimized > 0 ? (uint32_t)init->slots : 0;
    const uint64_t arrays = 2 + (init->synchronous ? s->cluster.count[RF_TASK_WORKER] : 0) + d->num_slots;
    RF_REQUIRE(init->count <= rf_host_memory() / sizeof(float) / arrays,
               "%s wants room for %llu parameters, more than this host's memory holds; use more servers",
               s->chief->name, (unsigned long long)init->count);
    return RF_OK;
}

/* The chief sends everything at once: only then does the store take its time. */
static rf_result receive_arrays(server *s, description *d)
{
    rf_ps_shard *shard = &s->shard;
    const uint32_t num_shares = s->cluster.count[RF_TASK_WORKER];
    shard->shares = RF_NEW_ARRAY(rf_ps_share, num_shares);
    if (shard->shares) shard->num_shares = num_shares;
    shard->values = RF_NEW_ARRAY(float, shard->count);
    shard->sum = RF_NEW_ARRAY(float, shard->synchronous ? shard->count : 0);
    d->slots = RF_NEW_ARRAY(float, d->num_slots * d->layout.optimized);
    if (!shard->shares || !shard->values || !shard->sum || !d->slots) return RF_ERROR_OUT_OF_HOST_MEMORY;
    RF_TRY(receive_values(s, shard->values, shard->count));
    for (uint32_t k = 0; k < d->num_slots; k++)
        RF_TRY(receive_values(s, d->slots + k * d->layout.optimized, d->layout.optimized));
    return RF_OK;
}

static rf_result create_store(server *s, const description *d)
{
    rf_ps_shard *shard = &s->shard;
    if (shard->optimized == 0) return RF_OK;
    RF_TRY(
        shard->fns->create(s->user, d->optimizer, d->size, shard->values, &d->layout, shard->version, &shard->store));
    const uint32_t slots = shard->fns->num_slots(shard->store);
    RF_REQUIRE(d->num_slots == 0 || d->num_slots == slots, "%s sent %u slots of an optimizer that has %u",
               s->chief->name, d->num_slots, slots);
    for (uint32_t k = 0; k < d->num_slots; k++)
        RF_TRY(shard->fns->write_slot(shard->store, k, d->slots + k * d->layout.optimized));
    return RF_OK;
}

static rf_result take_parameters(server *s, const rf_ps_message *init)
{
    rf_ps_shard *shard = &s->shard;
    description *d = RF_NEW(description);
    if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_result r = read_description(s, init, d);
    if (r == RF_OK) {
        shard->count = init->count;
        shard->optimized = d->layout.optimized;
        shard->version = init->version;
        shard->synchronous = init->synchronous != 0;
        r = receive_arrays(s, d);
    }
    if (r == RF_OK) r = create_store(s, d);
    rf_free(d->slots);
    rf_free(d);
    return r;
}

static rf_result server_begin(server *s)
{
    rf_ps_message m;
    RF_TRY(await_chief(s));
    RF_TRY(rf_ps_heartbeat_start(s->chief, s->job.heartbeat_interval_ns, &s->heartbeat));
    const rf_result r = rf_ps_link_await(s->chief, s->job.operation_timeout_ns, s->job.peer_timeout_ns, &m);
    if (r == RF_ERROR_TIMEOUT)
        return RF_FAIL(r, "%s did not say in time which parameters this server holds", s->chief->name);
    RF_TRY(r);
    if (m.type != RF_PS_INIT) return fail_unexpected(s, &m);
    RF_TRY(take_parameters(s, &m));
    RF_TRY(rf_ps_clients_start(s->listener, &s->shard, &s->job, &s->cluster, &s->clients));
    return rf_ps_link_send(s->chief, &(rf_ps_message){ .type = RF_PS_READY });
}

/* ---- the chief's orders ---- */

static rf_result handle_chief_message(server *s, const rf_ps_message *m, bool *end)
{
    rf_ps_message answer = { .type = RF_PS_COMMITTED };
    switch (m->type) {
    case RF_PS_END: *end = true; return RF_OK;
    case RF_PS_EXPEL: rf_ps_clients_expel(s->clients, m->rank, m->incarnation); return RF_OK;
    case RF_PS_COMMIT:
        RF_TRY(rf_ps_shard_commit(&s->shard, m->step, m->count, &answer.version));
        return rf_ps_link_send(s->chief, &answer);
    default: return fail_unexpected(s, m);
    }
}

static rf_result serve_messages(server *s)
{
    for (bool end = false; !end;) {
        rf_ps_message m;
        const rf_result r = rf_ps_link_await(s->chief, SLICE_NS, s->job.peer_timeout_ns, &m);
        RF_TRY(rf_ps_shard_status(&s->shard));
        if (r == RF_ERROR_TIMEOUT) continue;
        RF_TRY(r);
        RF_TRY(handle_chief_message(s, &m, &end));
        rf_ps_link_resume(s->chief);
    }
    return RF_OK;
}

/* The chief should know why; it tells the others. */
static void tell_chief(server *s, rf_result r)
{
    if (!s->chief || r >= 0 || r == RF_ERROR_PEER_LOST) return;
    rf_error_record record;
    rf_error_save(&record);
    rf_ps_message m = { .type = RF_PS_FAILED, .result = r };
    snprintf(m.text, sizeof(m.text), "%.900s", record.message);
    (void)rf_ps_link_send(s->chief, &m);
    rf_error_restore(&record);
}

static rf_result run_server(server *s)
{
    const rf_address *own = &s->cluster.tasks[RF_TASK_PS][s->cluster.index];
    rf_hello hello;
    RF_TRY(rf_ps_hello(&s->job, "ps", &hello));
    rf_listen_plan plan;
    char name[RF_PS_NAME];
    rf_ps_task_name(&s->cluster, RF_TASK_PS, s->cluster.index, name);
    RF_TRY(rf_listener_open(&s->job, own->host, own->port, &hello, name, &s->listener, &plan));
    rf_result r = server_begin(s);
    if (r == RF_OK) r = serve_messages(s);
    tell_chief(s, r);
    return r;
}

static void clean_up(server *s)
{
    rf_error_record record;
    rf_error_save(&record);
    rf_ps_clients_stop(&s->clients);
    rf_ps_heartbeat_stop(&s->heartbeat);
    rf_ps_link_destroy(&s->chief);
    rf_listener_destroy(&s->listener);
    rf_ps_shard_free(&s->shard);
    pthread_mutex_destroy(&s->shard.lock);
    rf_job_forget(&s->job);
    rf_cluster_free(&s->cluster);
    rf_free(s);
    rf_error_restore(&record);
}

rf_result rf_ps_server_run(const rf_comm_params *comm, const rf_ps_store_fns *fns, void *user)
{
    server *s = RF_NEW(server);
    if (!s) return RF_ERROR_OUT_OF_HOST_MEMORY;
    s->user = user;
    s->shard.fns = fns;
    pthread_mutex_init(&s->shard.lock, NULL);
    rf_result r = rf_ps_cluster_resolve(comm, RF_TASK_PS, &s->cluster, &s->job);
    if (r == RF_OK) r = run_server(s);
    clean_up(s);
    return r;
}
