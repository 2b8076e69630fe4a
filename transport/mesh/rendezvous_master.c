/* SPDX-License-Identifier: Apache-2.0 */
/* Rank 0's side. */
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/numbers.h"
#include "base/platform.h"
#include "transport/job/host.h"
#include "transport/mesh/rendezvous_internal.h"
#include "transport/mesh/topology.h"

#define ACCEPT_SLICE_NS UINT64_C(20000000)
/* Who joins wakes all that have joined, at most so often. */
#define TELL_NS UINT64_C(100000000)
/* That part of the time for joining is for workers of this host, where loopback is all that is known. */
#define WIDEN_PART 4

/* Who has not joined yet; told to those who have, so that they can say it should their patience end first. */
static void list_missing(const rf_bootstrap *b, char *text, size_t size)
{
    rf_mesh_missing_text(b->joined, b->out->world, text, size);
    char why[256], place[128];
    rf_listener_rejection(b->listener, why, sizeof(why));
    rf_listener_place(b->listener, place, sizeof(place));
    const size_t used = strlen(text);
    rf_number_print(text + used, size - used, " did not join within %g s%s%s%s; rank 0 listens at %s", b->seconds,
                    why[0] ? " (rejected: " : "", why, why[0] ? ")" : "", place);
}

/* Rank 0 was told loopback, as its own name for itself may be, and not everybody has come: others may have been told an
 * address of this host that they can reach. */
static rf_result widen_when_due(rf_bootstrap *b)
{
    if (!b->widen_at || rf_now_ns() < b->widen_at) return RF_OK;
    b->widen_at = 0;
    const rf_result r = rf_listener_move(b->listener, RF_ALL_ADDRESSES);
    if (r < 0) {
        /* Another program has the port on some address: those who come over loopback are still heard. */
        rf_log_message(RF_LOG_WARN, "rank 0 still listens at %s only: %s", b->plan.address, rf_error_message());
        return RF_OK;
    }
    char text[RF_MESH_REASON];
    rf_mesh_missing_text(b->joined, b->out->world, text, sizeof(text));
    rf_log_message(RF_LOG_WARN,
                   "rank 0 was told to meet at %s, where %s did not come: it listens at all addresses, port %u, now%s; "
                   "RINGFIRE_BIND=%s keeps it there",
                   b->job->master_address, text, rf_listener_port(b->listener),
                   b->job->secure ? "" : ", and whoever reaches it may join", b->plan.address);
    return RF_OK;
}

static void tell_waiting(const rf_bootstrap *b)
{
    rf_mesh_failure failure = { .culprit = 0, .result = RF_ERROR_TIMEOUT };
    list_missing(b, failure.reason, sizeof(failure.reason));
    uint8_t data[RF_MESH_FAILURE_MAX];
    const size_t size = rf_mesh_encode_failure(&failure, data);
    for (uint32_t r = 1; r < b->out->world; r++) {
        rf_channel *channel = b->out->channels[r];
        /* Who cannot be told is found to be gone when we next listen to it. */
        if (channel && b->joined[r] && rf_bootstrap_send(b, channel, RF_MESH_WAITING, data, size) < 0) continue;
    }
}

#define LOST "rank %u (%s) was lost while the job was assembling"

/* A rank that has been here and cannot go on: no other process can take its place. */
static rf_result gave_up(const rf_bootstrap *b, uint32_t rank, const char *address, const void *body, size_t size)
{
    rf_mesh_failure failure;
    RF_TRY(rf_mesh_decode_failure(body, size, b->out->world, &failure));
    return RF_FAIL(failure.result, "rank %u (%s) could not join: %s", rank, address, failure.reason);
}

static rf_result hear_join(rf_bootstrap *b, uint32_t rank, bool *changed)
{
    uint16_t type;
    const void *body;
    size_t size;
    rf_channel *channel = b->out->channels[rank];
    rf_result r = rf_channel_receive(channel, &type, &body, &size, 0);
    if (r == RF_ERROR_TIMEOUT) return RF_OK;
    if (r == RF_ERROR_PEER_LOST && !b->joined[rank]) {
        /* On a slow host a handshake takes longer than the other end waits for it, which then makes another connection.
         * If it died instead, it is missed in the end. */
        rf_channel_destroy(&b->out->channels[rank]);
        return RF_OK;
    }
    if (r < 0) return rf_error_context(r, LOST, rank, rf_channel_peer_address(channel));
    if (type == RF_MESH_FAILED) return gave_up(b, rank, rf_channel_peer_address(channel), body, size);
    if (type != RF_MESH_JOIN || b->joined[rank])
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "rank %u (%s) sent message %u instead of joining", rank,
                       rf_channel_peer_address(channel), type);
    r = rf_mesh_decode_join(body, size, &b->joins[rank]);
    if (r < 0) return rf_error_context(r, "rank %u (%s)", rank, rf_channel_peer_address(channel));
    b->joined[rank] = *changed = true;
    return RF_OK;
}

/* Takes the channel over. */
static rf_result admit_channel(rf_bootstrap *b, rf_channel *channel)
{
    const rf_hello *peer = rf_channel_peer(channel);
    const uint32_t rank = peer->rank;
    if (strcmp(peer->role, RF_WORKER_ROLE) != 0 || rank >= b->out->world || peer->world_size != b->out->world) {
        RF_FAIL(RF_ERROR_INVALID_ARGUMENT,
                "this is rank 0 of a job of %u workers; a %.15s of rank %u, world %u does not belong here",
                b->out->world, peer->role, rank, peer->world_size);
        rf_bootstrap_send_failure(channel, 0, RF_ERROR_INVALID_ARGUMENT);
        rf_channel_destroy(&channel);
        return RF_OK;
    }
    /* Who has the rank may have gone since: that is known when everything it sent has been read. */
    for (bool heard = rank != 0 && b->out->channels[rank]; heard;) {
        heard = false;
        RF_TRY(hear_join(b, rank, &heard));
    }
    if (rank == 0 || b->out->channels[rank]) {
        const rf_result r = RF_FAIL(
            RF_ERROR_INVALID_ARGUMENT, "two processes say they are rank %u: %s and %s; start each rank once", rank,
            rank ? rf_channel_peer_address(b->out->channels[rank]) : "this one", rf_channel_peer_address(channel));
        rf_bootstrap_send_failure(channel, rank, r);
        rf_channels_linger(&channel, 1, RF_LINGER_NS);
        rf_channel_destroy(&channel);
        return r;
    }
    b->out->channels[rank] = channel;
    return RF_OK;
}

static rf_result workers_gather(rf_bootstrap *b)
{
    uint64_t told_at = 0;
    bool changed = false;
    b->joined[0] = true;
    for (;;) {
        uint32_t joined = 0;
        for (uint32_t r = 1; r < b->out->world; r++) {
            if (b->out->channels[r]) RF_TRY(hear_join(b, r, &changed));
            joined += b->joined[r];
        }
        if (joined == b->out->world - 1) return RF_OK;
        const uint64_t now = rf_now_ns();
        if (changed && now >= told_at + TELL_NS) {
            tell_waiting(b);
            told_at = now;
            changed = false;
        }
        RF_TRY(widen_when_due(b));
        const uint64_t left = rf_bootstrap_left(b);
        if (!left) {
            char text[RF_MESH_REASON];
            list_missing(b, text, sizeof(text));
            return RF_FAIL(RF_ERROR_TIMEOUT, "%s", text);
        }
        rf_channel *channel = NULL;
        const rf_result r = rf_listener_accept(b->listener, left < ACCEPT_SLICE_NS ? left : ACCEPT_SLICE_NS, &channel);
        if (r == RF_OK)
            RF_TRY(admit_channel(b, channel));
        else if (r != RF_ERROR_TIMEOUT)
            return rf_error_context(r, "rank 0");
    }
}

static rf_result send_table(rf_bootstrap *b)
{
    rf_assembly *out = b->out;
    rf_mesh_table *table = &out->table;
    const char **identities = RF_NEW_ARRAY(const char *, out->world);
    uint32_t *hosts = RF_NEW_ARRAY(uint32_t, out->world);
    uint8_t *data = rf_calloc(1, RF_MESH_TABLE_MAX(out->world));
    rf_result r = RF_OK;
    if (!identities || !hosts || !data) {
        r = RF_ERROR_OUT_OF_HOST_MEMORY;
        goto done;
    }
    rf_host_identity(b->joins[0].host, sizeof(b->joins[0].host));
    for (uint32_t i = 0; i < out->world; i++) identities[i] = b->joins[i].host;
    rf_number_hosts(identities, out->world, hosts);
    for (uint32_t i = 0; i < out->world; i++) {
        table->members[i] = (rf_mesh_member){ .host = hosts[i], .port = b->joins[i].port };
        table->members[i].incarnation = i ? rf_channel_peer(out->channels[i])->incarnation : b->hello.incarnation;
        memcpy(table->members[i].address, b->joins[i].address, sizeof(table->members[i].address));
    }
    rf_mesh_member *mine = &table->members[0];
    const int fd = rf_channel_fd(out->channels[rf_mesh_outside(table->members, out->world)]);
    RF_TRY_GOTO(rf_local_address(fd, mine->address, sizeof(mine->address)), done);
    rf_mesh_settle_addresses(table->members, out->world);
    const size_t size = rf_mesh_encode_table(table, data);
    for (uint32_t i = 1; i < out->world; i++) {
        r = rf_bootstrap_send(b, out->channels[i], RF_MESH_TABLE, data, size);
        if (r < 0) {
            rf_error_context(r, "rank %u (%s)", i, table->members[i].address);
            goto done;
        }
    }
done:
    rf_free(identities);
    rf_free(hosts);
    rf_free(data);
    return r;
}

static rf_result hear_ready(rf_bootstrap *b, uint32_t rank)
{
    uint16_t type;
    const void *body;
    size_t size;
    const char *address = b->out->table.members[rank].address;
    const rf_result r = rf_channel_receive(b->out->channels[rank], &type, &body, &size, 0);
    if (r == RF_ERROR_TIMEOUT) return RF_OK;
    if (r < 0) return rf_error_context(r, LOST, rank, address);
    if (type == RF_MESH_READY && !b->joined[rank]) {
        b->joined[rank] = true;
        return RF_OK;
    }
    if (type == RF_MESH_FAILED) return gave_up(b, rank, address, body, size);
    return RF_FAIL(RF_ERROR_CORRUPT_DATA, "rank %u (%s) sends message %u before the job has begun", rank, address,
                   type);
}

/* `joined` now means: is ready. Who is may still die before the others are. */
static rf_result await_ready(rf_bootstrap *b)
{
    struct pollfd *fds = RF_NEW_ARRAY(struct pollfd, b->out->world);
    if (!fds) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_result r = RF_OK;
    for (uint32_t i = 1; i < b->out->world; i++) b->joined[i] = false;
    for (;;) {
        uint32_t ready = 1;
        for (uint32_t i = 0; i < b->out->world; i++) {
            fds[i] = (struct pollfd){ .fd = i ? rf_channel_fd(b->out->channels[i]) : -1, .events = POLLIN };
            ready += i && b->joined[i];
        }
        if (ready == b->out->world) break;
        const uint64_t left = rf_bootstrap_left(b);
        if (!left) {
            char text[RF_MESH_REASON];
            rf_mesh_missing_text(b->joined, b->out->world, text, sizeof(text));
            r = RF_FAIL(RF_ERROR_TIMEOUT, "%s joined but did not connect to all others within %g s", text, b->seconds);
            break;
        }
        if (poll(fds, b->out->world, left > 100000000 ? 100 : (int)(left / 1000000) + 1) <= 0) continue;
        for (uint32_t i = 1; r == RF_OK && i < b->out->world; i++)
            if (fds[i].revents) r = hear_ready(b, i);
        if (r < 0) break;
    }
    rf_free(fds);
    return r;
}

static rf_result assemble_job(rf_bootstrap *b)
{
    RF_TRY(workers_gather(b));
    rf_listener_destroy(&b->listener);
    RF_TRY(send_table(b));
    RF_TRY(await_ready(b));
    for (uint32_t r = 1; r < b->out->world; r++) RF_TRY(rf_bootstrap_send(b, b->out->channels[r], RF_MESH_GO, NULL, 0));
    return RF_OK;
}

/* Tells everybody who has joined, and for a moment those who are just coming. */
static void tell_failure(rf_bootstrap *b, rf_result result)
{
    rf_error_record record;
    uint32_t absent = 0;
    rf_error_save(&record);
    for (uint32_t r = 1; r < b->out->world; r++) {
        if (b->out->channels[r])
            rf_bootstrap_send_failure(b->out->channels[r], 0, result);
        else
            absent++;
    }
    const uint64_t end = rf_now_ns() + RF_LINGER_NS;
    for (uint64_t now = rf_now_ns(); b->listener && absent && now < end; now = rf_now_ns()) {
        rf_channel *channel = NULL;
        if (rf_listener_accept(b->listener, end - now, &channel) != RF_OK) break;
        rf_error_restore(&record);
        rf_bootstrap_send_failure(channel, 0, result);
        rf_channels_linger(&channel, 1, RF_LINGER_NS / 4);
        rf_channel_destroy(&channel);
        absent--;
    }
    rf_error_restore(&record);
}

rf_result rf_bootstrap_master(rf_bootstrap *b)
{
    const rf_job *job = b->job;
    RF_TRY(rf_listener_open(job, job->master_address, job->master_port, &b->hello, "rank 0", &b->listener, &b->plan));
    if (b->plan.told_loopback) b->widen_at = rf_now_ns() + rf_bootstrap_left(b) / WIDEN_PART;
    const rf_result r = assemble_job(b);
    if (r < 0) tell_failure(b, r);
    return r;
}
