/* SPDX-License-Identifier: Apache-2.0 */
/* The side of ranks 1 and up. */
#include <stdio.h>
#include <string.h>

#include "base/platform.h"
#include "transport/job/host.h"
#include "transport/mesh/rendezvous_internal.h"
#include "transport/mesh/topology.h"

#define SLICE_NS UINT64_C(20000000)
/* One attempt to reach another rank; between attempts we listen to rank 0, who knows at once when that one has died.
 * The next one takes twice as long, for paths that are slow. */
#define CONNECT_FIRST_NS UINT64_C(250000000)
#define CONNECT_LAST_NS UINT64_C(5000000000)

static uint64_t at_most(const rf_bootstrap *b, uint64_t slice)
{
    const uint64_t left = rf_bootstrap_left(b);
    return left < slice ? left : slice;
}

/* Hears what rank 0 says: RF_OK with `wanted`, RF_ERROR_TIMEOUT for nothing, its failure, or ours in understanding
 * it. */
static rf_result hear_master(rf_bootstrap *b, uint64_t timeout_ns, uint16_t wanted, const void **body, size_t *size)
{
    uint16_t type;
    for (;;) {
        rf_result r = rf_channel_receive(b->out->channels[0], &type, body, size, timeout_ns);
        if (r == RF_ERROR_TIMEOUT) return r;
        if (r < 0) {
            b->told = true;
            return rf_error_context(r, "rank 0 (%s) was lost while the job was assembling",
                                    rf_channel_peer_address(b->out->channels[0]));
        }
        if (wanted && type == wanted) return RF_OK;
        rf_mesh_failure failure;
        if (type != RF_MESH_WAITING && type != RF_MESH_FAILED)
            return RF_FAIL(RF_ERROR_CORRUPT_DATA, "rank 0 (%s) sends message %u while the job is assembling",
                           rf_channel_peer_address(b->out->channels[0]), type);
        RF_TRY(rf_mesh_decode_failure(*body, *size, b->out->world, &failure));
        if (type == RF_MESH_FAILED) {
            b->told = true;
            return RF_FAIL(failure.result, "%s", failure.reason);
        }
        memcpy(b->waiting, failure.reason, sizeof(b->waiting));
    }
}

/* Nothing but a failure is expected of rank 0 now. */
static rf_result check_master(rf_bootstrap *b)
{
    const void *body;
    size_t size;
    const rf_result r = hear_master(b, 0, 0, &body, &size);
    return r == RF_ERROR_TIMEOUT && !b->told ? RF_OK : r;
}

static rf_result await_master(rf_bootstrap *b, rf_mesh_frame wanted, const void **body, size_t *size)
{
    for (;;) {
        const uint64_t left = rf_bootstrap_left(b);
        if (!left) break;
        const rf_result r = hear_master(b, left, wanted, body, size);
        if (r != RF_ERROR_TIMEOUT || b->told) return r;
    }
    if (b->waiting[0]) return RF_FAIL(RF_ERROR_TIMEOUT, "%s", b->waiting);
    return RF_FAIL(RF_ERROR_TIMEOUT, "rank 0 (%s) did not assemble the job of %u ranks within %g s",
                   rf_channel_peer_address(b->out->channels[0]), b->out->world, b->seconds);
}

static rf_result join_master(rf_bootstrap *b)
{
    const rf_job *job = b->job;
    rf_channel **master = &b->out->channels[0];
    const rf_result r =
        rf_channel_connect(job, job->master_address, job->master_port, &b->hello, rf_bootstrap_left(b), master);
    if (r < 0)
        return rf_error_context(
            r, "rank %u cannot join rank 0 at %s:%u (named by %s; where it listens rank 0 says itself)", job->rank,
            job->master_address, job->master_port, job->launcher ? job->launcher : "the program");
    const rf_hello *peer = rf_channel_peer(*master);
    if (peer->rank != 0 || strcmp(peer->role, RF_WORKER_ROLE) != 0)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s:%u is not rank 0 of this job but a %.15s of rank %u",
                       job->master_address, job->master_port, peer->role, peer->rank);

    rf_mesh_join *mine = &b->joins[0];
    RF_TRY(rf_local_address(rf_channel_fd(*master), mine->address, sizeof(mine->address)));
    rf_job_plan_listen(job, job->master_address, mine->address, &b->plan);
    if (job->bind_address[0] && !rf_is_wildcard(job->bind_address))
        RF_TRY(rf_numeric_address(job->bind_address, mine->address, sizeof(mine->address)));
    RF_TRY(rf_listener_create(job, b->plan.address, 0, &b->hello, &b->listener));
    mine->port = rf_listener_port(b->listener);
    rf_host_identity(mine->host, sizeof(mine->host));
    uint8_t data[RF_MESH_JOIN_MAX];
    return rf_bootstrap_send(b, *master, RF_MESH_JOIN, data, rf_mesh_encode_join(mine, data));
}

static rf_result connect_to(rf_bootstrap *b, uint32_t rank)
{
    const rf_mesh_member *member = &b->out->table.members[rank];
    rf_channel **channel = &b->out->channels[rank];
    for (uint64_t slice = CONNECT_FIRST_NS;; slice = slice < CONNECT_LAST_NS / 2 ? 2 * slice : CONNECT_LAST_NS) {
        const rf_result r =
            rf_channel_connect(b->job, member->address, member->port, &b->hello, at_most(b, slice), channel);
        if (r == RF_OK) break;
        RF_TRY(check_master(b)); /* it may know why */
        if (r != RF_ERROR_TIMEOUT || !rf_bootstrap_left(b))
            return rf_error_context(r, "rank %u cannot reach rank %u at %s:%u", b->out->rank, rank, member->address,
                                    member->port);
    }
    const rf_hello *peer = rf_channel_peer(*channel);
    if (peer->rank != rank || peer->incarnation != member->incarnation)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s:%u is not the rank %u that joined but another process (rank %u)",
                       member->address, member->port, rank, peer->rank);
    return RF_OK;
}

/* Takes the channel over. Anybody who is not in the table belongs to another start of the job. A second connection of
 * the same process replaces the first: it gave that one up. Returns whether it is the first of its rank. */
static bool adopt_channel(rf_assembly *out, rf_channel *channel)
{
    const rf_hello *peer = rf_channel_peer(channel);
    const uint32_t rank = peer->rank;
    if (rank <= out->rank || rank >= out->world || !rf_mesh_linked(out->rank, rank, out->world) ||
        peer->incarnation != out->table.members[rank].incarnation) {
        rf_channel_destroy(&channel);
        return false;
    }
    const bool first = out->channels[rank] == NULL;
    rf_channel_destroy(&out->channels[rank]);
    out->channels[rank] = channel;
    return first;
}

static rf_result accept_higher(rf_bootstrap *b)
{
    rf_assembly *out = b->out;
    uint32_t open = 0;
    for (uint32_t r = out->rank + 1; r < out->world; r++) open += rf_mesh_linked(out->rank, r, out->world);
    while (open) {
        RF_TRY(check_master(b));
        if (!rf_bootstrap_left(b)) {
            char text[RF_MESH_REASON];
            for (uint32_t i = 0; i < out->world; i++)
                b->joined[i] = i <= out->rank || out->channels[i] || !rf_mesh_linked(out->rank, i, out->world);
            rf_mesh_missing_text(b->joined, out->world, text, sizeof(text));
            return RF_FAIL(RF_ERROR_TIMEOUT, "%s joined but did not connect to rank %u within %g s", text, out->rank,
                           b->seconds);
        }
        rf_channel *channel = NULL;
        const rf_result r = rf_listener_accept(b->listener, at_most(b, SLICE_NS), &channel);
        if (r == RF_ERROR_TIMEOUT) continue;
        if (r < 0) return rf_error_context(r, "rank %u", out->rank);
        open -= adopt_channel(out, channel);
    }
    return RF_OK;
}

/* On a slow host a rank may have given up a connection that is complete here, and made another, while the lower one
 * said that it is ready. Now all are, so that the last connections are those that both ends have. */
static void adopt_latest(rf_bootstrap *b)
{
    rf_channel *channel;
    rf_listener_stop(b->listener);
    while (rf_listener_accept(b->listener, 0, &channel) == RF_OK) adopt_channel(b->out, channel);
    rf_listener_destroy(&b->listener);
}

/* Rank 0 may have announced another address than the one that this worker came from, at which it listens alone. */
static rf_result follow_table(rf_bootstrap *b, const char *address)
{
    if (rf_is_wildcard(b->plan.address) || b->job->bind_address[0] || strcmp(b->plan.address, address) == 0)
        return RF_OK;
    return rf_error_context(rf_listener_move(b->listener, address), "rank %u", b->out->rank);
}

static rf_result assemble_job(rf_bootstrap *b)
{
    const void *body = NULL;
    size_t size = 0;
    RF_TRY(join_master(b));
    RF_TRY(await_master(b, RF_MESH_TABLE, &body, &size));
    RF_TRY(rf_mesh_decode_table(body, size, &b->out->table));
    const rf_mesh_member *me = &b->out->table.members[b->out->rank];
    if (me->incarnation != b->hello.incarnation)
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "rank 0's table has another process as rank %u", b->out->rank);
    b->waiting[0] = '\0';
    RF_TRY(follow_table(b, me->address));
    for (uint32_t r = 1; r < b->out->rank; r++)
        if (rf_mesh_linked(b->out->rank, r, b->out->world)) RF_TRY(connect_to(b, r));
    RF_TRY(accept_higher(b));
    RF_TRY(rf_bootstrap_send(b, b->out->channels[0], RF_MESH_READY, NULL, 0));
    RF_TRY(await_master(b, RF_MESH_GO, &body, &size));
    adopt_latest(b);
    return RF_OK;
}

rf_result rf_bootstrap_worker(rf_bootstrap *b)
{
    const rf_result r = assemble_job(b);
    if (r < 0 && b->out->channels[0] && !b->told) rf_bootstrap_send_failure(b->out->channels[0], b->out->rank, r);
    return r;
}
