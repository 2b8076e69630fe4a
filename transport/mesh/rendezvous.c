/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/mesh/rendezvous.h"

#include <string.h>
#include <sys/random.h>

#include "base/memory.h"
#include "base/platform.h"
#include "transport/mesh/rendezvous_internal.h"

void rf_assembly_clear(rf_assembly *assembly)
{
    for (uint32_t r = 0; assembly->channels && r < assembly->world; r++) rf_channel_destroy(&assembly->channels[r]);
    rf_free(assembly->channels);
    rf_free(assembly->table.members);
    memset(assembly, 0, sizeof(*assembly));
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
        if (out->channels) rf_channels_linger(out->channels, out->world, RF_LINGER_NS);
        rf_assembly_clear(out);
        return rf_error_restore(&record);
    }
    return RF_OK;
}
