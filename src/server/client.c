/* SPDX-License-Identifier: Apache-2.0 */
#include "server/client.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

#include "base/memory.h"
#include "base/platform.h"
#include "transport/channel/socket.h"

#define POLL_MS 100

struct rf_ps_client {
    rf_ps_client_params params;
    rf_ps_link **servers; /* [num_servers] */
    uint64_t *versions;   /* of the latest pull */
    float *scratch;       /* a server's elements */
};

static uint32_t num_servers(const rf_ps_client *c)
{
    return c->params.plan->num_servers;
}

static rf_result connect_all(rf_ps_client *c)
{
    const rf_ps_client_params *p = &c->params;
    const uint32_t n = num_servers(c);
    uint64_t largest = 0;
    for (uint32_t s = 0; s < n; s++)
        if (p->plan->server_counts[s] > largest) largest = p->plan->server_counts[s];
    c->servers = RF_NEW_ARRAY(rf_ps_link *, n);
    c->versions = RF_NEW_ARRAY(uint64_t, n);
    c->scratch = RF_NEW_ARRAY(float, largest);
    if (!c->servers || !c->versions || !c->scratch) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_hello hello;
    RF_TRY(rf_ps_hello(p->job, "client", &hello));
    hello.incarnation = p->incarnation;
    /* They are there: the chief has talked to them. */
    for (uint32_t s = 0; s < n; s++)
        RF_TRY(rf_ps_connect(p->job, p->cluster, RF_TASK_PS, s, &hello, p->job->peer_timeout_ns, &c->servers[s]));
    return RF_OK;
}

rf_result rf_ps_client_create(const rf_ps_client_params *params, rf_ps_client **out)
{
    *out = NULL;
    rf_ps_client *c = RF_NEW(rf_ps_client);
    if (!c) return RF_ERROR_OUT_OF_HOST_MEMORY;
    c->params = *params;
    const rf_result r = connect_all(c);
    if (r < 0) {
        rf_ps_client_destroy(&c);
        return r;
    }
    *out = c;
    return RF_OK;
}

void rf_ps_client_destroy(rf_ps_client **client)
{
    rf_ps_client *c = *client;
    if (!c) return;
    *client = NULL;
    for (uint32_t s = 0; c->servers && s < num_servers(c); s++) rf_ps_link_destroy(&c->servers[s]);
    rf_free(c->servers);
    rf_free(c->versions);
    rf_free(c->scratch);
    rf_free(c);
}

void rf_ps_client_shutdown(rf_ps_client *c)
{
    for (uint32_t s = 0; s < num_servers(c); s++) rf_channel_shutdown(c->servers[s]->channel);
}

/* ---- waiting ---- */

/* Until there is something to read from the server. The chief may speak in between. */
static rf_result wait_readable(rf_ps_client *c, const rf_ps_link *server, uint64_t deadline)
{
    for (;;) {
        struct pollfd fds[2] = { { .fd = rf_channel_fd(server->channel), .events = POLLIN },
                                 { .fd = -1, .events = POLLIN } };
        if (c->params.watched) fds[1].fd = rf_channel_fd(c->params.watched->channel);
        const int n = poll(fds, 2, POLL_MS);
        if (n < 0 && errno != EINTR) return RF_FAIL_ERRNO(RF_ERROR_IO, "cannot wait for %s", server->name);
        if (n > 0 && fds[1].revents) RF_TRY(c->params.watch(c->params.user));
        if (n > 0 && fds[0].revents) return RF_OK;
        if (rf_deadline_left(deadline) == 0)
            return RF_FAIL(RF_ERROR_PEER_LOST, "%s was lost: no answer for %.1f s", server->name,
                           (double)c->params.job->operation_timeout_ns * 1e-9);
    }
}

static rf_result reply_receive(rf_ps_client *c, rf_ps_link *server, uint16_t type, rf_ps_message *out)
{
    const uint64_t deadline = rf_deadline_after(c->params.job->operation_timeout_ns);
    rf_result r;
    while ((r = rf_ps_link_receive(server, 0, out)) == RF_ERROR_TIMEOUT) RF_TRY(wait_readable(c, server, deadline));
    RF_TRY(r);
    if (out->type == type) return RF_OK;
    if (out->type == RF_PS_FAILED) return RF_FAIL(out->result, "%s: %s", server->name, out->text);
    return RF_FAIL(RF_ERROR_CORRUPT_DATA, "%s sent a message of type %u out of turn", server->name, out->type);
}

/* ---- parameters ---- */

static rf_result receive_values(rf_ps_client *c, uint32_t server, uint64_t count)
{
    uint64_t have = 0;
    do {
        rf_ps_message m;
        RF_TRY(reply_receive(c, c->servers[server], RF_PS_VALUES, &m));
        if (!rf_ps_message_take(&m, c->scratch, count, &have))
            return RF_FAIL(RF_ERROR_CORRUPT_DATA, "%s sent parameters out of order", c->servers[server]->name);
        c->versions[server] = m.version;
    } while (have < count);
    return RF_OK;
}

/* Between the first `count` elements of the server's array and all variables end to end. */
static void scatter_values(const rf_ps_client *c, uint32_t server, uint64_t count, float *all)
{
    const rf_ps_plan *plan = c->params.plan;
    for (uint32_t i = 0; i < plan->count; i++) {
        const rf_ps_segment *p = &plan->items[i];
        if (p->server == server && p->offset < count)
            memcpy(all + p->from, c->scratch + p->offset, (size_t)(p->range.end - p->range.begin) * sizeof(float));
    }
}

static void values_collect(rf_ps_client *c, uint32_t server, const float *all)
{
    const rf_ps_plan *plan = c->params.plan;
    for (uint32_t i = 0; i < plan->count; i++) {
        const rf_ps_segment *p = &plan->items[i];
        if (p->server == server)
            memcpy(c->scratch + p->offset, all + p->from, (size_t)(p->range.end - p->range.begin) * sizeof(float));
    }
}

static uint64_t pulled_count(const rf_ps_client *c, uint32_t server, uint64_t slot)
{
    const rf_ps_plan *plan = c->params.plan;
    return slot == 0 ? plan->server_counts[server] : plan->layouts[server].optimized;
}

rf_result rf_ps_client_pull(rf_ps_client *c, uint64_t slot, float *values)
{
    for (uint32_t s = 0; s < num_servers(c); s++) {
        if (slot > 0 && pulled_count(c, s, slot) == 0) continue; /* it has no optimizer */
        RF_TRY(rf_ps_link_send(c->servers[s], &(rf_ps_message){ .type = RF_PS_PULL, .slot = slot }));
    }
    for (uint32_t s = 0; s < num_servers(c); s++) {
        const uint64_t count = pulled_count(c, s, slot);
        if (slot > 0 && count == 0) continue;
        RF_TRY(receive_values(c, s, count));
        scatter_values(c, s, count, values);
    }
    return RF_OK;
}

uint64_t rf_ps_client_version(const rf_ps_client *c)
{
    uint64_t largest = 0;
    for (uint32_t s = 0; s < num_servers(c); s++)
        if (c->versions[s] > largest) largest = c->versions[s];
    return largest;
}

rf_result rf_ps_client_push(rf_ps_client *c, const float *gradients, uint64_t step, uint64_t share, uint64_t examples,
                            uint64_t *staleness)
{
    const uint64_t *counts = c->params.plan->server_counts;
    *staleness = 0;
    for (uint32_t s = 0; s < num_servers(c); s++) {
        rf_ps_message m = {
            .type = RF_PS_PUSH, .version = c->versions[s], .step = step, .share = share, .examples = examples
        };
        values_collect(c, s, gradients);
        if (counts[s] > 0) RF_TRY(rf_ps_link_send_floats(c->servers[s], &m, c->scratch, counts[s]));
    }
    for (uint32_t s = 0; s < num_servers(c); s++) {
        rf_ps_message m;
        if (counts[s] == 0) continue;
        RF_TRY(reply_receive(c, c->servers[s], RF_PS_PUSHED, &m));
        if (m.staleness > *staleness) *staleness = m.staleness;
    }
    return RF_OK;
}
