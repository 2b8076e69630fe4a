/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/mesh/rendezvous.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>

#include "base/memory.h"
#include "base/platform.h"
#include "transport/mesh/rendezvous_internal.h"

uint64_t rf_bootstrap_left(const rf_bootstrap *b)
{
    const uint64_t now = rf_now_ns();
    return now < b->deadline ? b->deadline - now : 0;
}

rf_result rf_bootstrap_send(const rf_bootstrap *b, rf_channel *channel, rf_mesh_frame type, const void *body,
                            size_t size)
{
    const rf_bytes part = { body, size };
    return rf_channel_send(channel, (uint16_t)type, &part, size ? 1 : 0, rf_bootstrap_left(b));
}

void rf_bootstrap_send_failure(rf_channel *channel, uint32_t culprit, rf_result result)
{
    rf_mesh_failure failure = { .culprit = culprit, .result = result };
    snprintf(failure.reason, sizeof(failure.reason), "%s", rf_error_message());
    uint8_t data[RF_MESH_FAILURE_MAX];
    const rf_bytes part = { data, rf_mesh_encode_failure(&failure, data) };
    rf_error_record record;
    rf_error_save(&record);
    /* Also after the deadline: small enough to fit into the socket's buffer. */
    if (rf_channel_send(channel, RF_MESH_FAILED, &part, 1, RF_PART_NS) < 0) rf_error_restore(&record);
}

void rf_assembly_clear(rf_assembly *assembly)
{
    for (uint32_t r = 0; assembly->channels && r < assembly->world; r++) rf_channel_destroy(&assembly->channels[r]);
    rf_free(assembly->channels);
    rf_free(assembly->table.members);
    memset(assembly, 0, sizeof(*assembly));
}

void rf_part(rf_channel *const *channels, uint32_t count, uint64_t timeout_ns)
{
    uint32_t open = 0;
    struct pollfd *fds = RF_NEW_ARRAY(struct pollfd, count ? count : 1);
    if (!fds) return; /* the connections then just close */
    for (uint32_t r = 0; r < count; r++) {
        fds[r].fd = channels[r] ? rf_channel_fd(channels[r]) : -1;
        fds[r].events = POLLIN;
        if (fds[r].fd < 0) continue;
        if (shutdown(fds[r].fd, SHUT_WR) != 0) fds[r].fd = -1;
        open += fds[r].fd >= 0;
    }
    const uint64_t end = rf_now_ns() + timeout_ns;
    for (uint64_t now = rf_now_ns(); open && now < end; now = rf_now_ns()) {
        if (poll(fds, count, (int)((end - now) / 1000000 + 1)) <= 0) continue;
        for (uint32_t r = 0; r < count; r++) {
            char waste[4096];
            if (fds[r].fd < 0 || !fds[r].revents) continue;
            if (recv(fds[r].fd, waste, sizeof(waste), MSG_DONTWAIT) > 0) continue;
            fds[r].fd = -1;
            open--;
        }
    }
    rf_free(fds);
}

/* Timings that job resolution left open. */
static rf_result table_init(const rf_job *job, rf_mesh_table *table)
{
    const uint64_t second = UINT64_C(1000000000);
    table->count = job->world_size;
    table->peer_timeout_ns = job->peer_timeout_ns ? job->peer_timeout_ns : 10 * second;
    table->heartbeat_interval_ns = job->heartbeat_interval_ns ? job->heartbeat_interval_ns : table->peer_timeout_ns / 8;
    table->operation_timeout_ns = job->operation_timeout_ns ? job->operation_timeout_ns : 300 * second;
    if (getrandom(table->session, sizeof(table->session), 0) != (ssize_t)sizeof(table->session))
        return RF_FAIL(RF_ERROR_IO, "the operating system provides no random numbers");
    return RF_OK;
}

rf_result rf_rendezvous(const rf_job *job, rf_assembly *out)
{
    memset(out, 0, sizeof(*out));
    RF_REQUIRE(job->world_size >= 2 && job->world_size <= RF_MAX_WORLD, "a mesh needs 2 to %d ranks, not %u",
               RF_MAX_WORLD, job->world_size);
    RF_REQUIRE(job->rank < job->world_size, "rank %u is outside a job of %u", job->rank, job->world_size);
    const uint64_t timeout = job->bootstrap_timeout_ns ? job->bootstrap_timeout_ns : UINT64_C(60000000000);
    rf_bootstrap b = {
        .job = job,
        .out = out,
        .hello = { .role = RF_WORKER_ROLE, .rank = job->rank, .world_size = job->world_size },
        .deadline = rf_now_ns() + timeout,
        .seconds = (double)timeout * 1e-9,
    };
    rf_result r = RF_OK;
    out->rank = job->rank;
    out->world = job->world_size;
    RF_TRY_GOTO(table_init(job, &out->table), done);
    if (getrandom(&b.hello.incarnation, sizeof(b.hello.incarnation), 0) != (ssize_t)sizeof(b.hello.incarnation)) {
        r = RF_FAIL(RF_ERROR_IO, "the operating system provides no random numbers");
        goto done;
    }
    out->channels = RF_NEW_ARRAY(rf_channel *, job->world_size);
    out->table.members = RF_NEW_ARRAY(rf_mesh_member, job->world_size);
    b.joined = RF_NEW_ARRAY(bool, job->world_size);
    b.joins = RF_NEW_ARRAY(rf_mesh_join, job->rank == 0 ? job->world_size : 1);
    if (!out->channels || !out->table.members || !b.joined || !b.joins) {
        r = RF_ERROR_OUT_OF_HOST_MEMORY;
        goto done;
    }
    r = job->rank == 0 ? rf_bootstrap_master(&b) : rf_bootstrap_worker(&b);
done:
    rf_listener_destroy(&b.listener);
    rf_free(b.joined);
    rf_free(b.joins);
    if (r < 0) {
        rf_error_record record;
        rf_error_save(&record);
        if (out->channels) rf_part(out->channels, out->world, RF_PART_NS);
        rf_assembly_clear(out);
        return rf_error_restore(&record);
    }
    return RF_OK;
}
