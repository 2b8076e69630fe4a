/* SPDX-License-Identifier: Apache-2.0 */
/* The end of an epoch: the first failure is kept, and told to the other workers and to whoever asked. */
#include <stdio.h>

#include "base/condition.h"
#include "base/platform.h"
#include "transport/mesh/internal.h"

/* Who ends the epoch waits so long for the reason to leave. */
#define TELL_NS UINT64_C(100000000)

static uint64_t load_newest(const _Atomic uint64_t *said, const _Atomic uint64_t *written)
{
    const uint64_t a = atomic_load(said), b = written ? atomic_load(written) : 0;
    return a > b ? a : b;
}

void rf_mesh_peer_operations(const rf_mesh *mesh, uint32_t rank, uint64_t *begun, uint64_t *finished)
{
    if (rank == mesh->assembly.rank) {
        *begun = atomic_load(&mesh->operations.begun);
        *finished = atomic_load(&mesh->operations.finished);
        return;
    }
    const rf_mesh_peer *peer = &mesh->peers[rank];
    const rf_liveness_line *line = atomic_load(&mesh->has_liveness) ? &mesh->liveness.lines[rank] : NULL;
    *begun = load_newest(&peer->begun, line ? &line->begun : NULL);
    *finished = load_newest(&peer->finished, line ? &line->finished : NULL);
}

void rf_mesh_log_operations(rf_mesh *mesh)
{
    char line[RF_OPERATION_LINE];
    const uint64_t now = rf_now_ns();
    const uint32_t rank = mesh->assembly.rank;
    if (atomic_exchange(&mesh->logged, true)) return;
    for (uint32_t i = 0; rf_operations_line(&mesh->operations, i, now, line, sizeof(line)); i++) {
        if (i == 0) rf_log_message(RF_LOG_ERROR, "rank %u: the job has ended; last operations, newest first:", rank);
        rf_log_message(RF_LOG_ERROR, "rank %u: operation %s", rank, line);
    }
}

static void run_callback(rf_mesh *mesh) /* callback_lock held */
{
    void (*const fn)(void *) = mesh->callback;
    mesh->callback = NULL;
    if (fn) fn(mesh->callback_user);
}

void rf_mesh_shut_down(rf_mesh *mesh, const rf_mesh_failure *failure)
{
    rf_error_record record; /* the caller's, which this function must not disturb */
    rf_error_save(&record);
    uint8_t data[RF_MESH_FAILURE_MAX];
    const rf_bytes part = { data, rf_mesh_encode_failure(failure, data) };

    pthread_mutex_lock(&mesh->lock);
    const bool first = !mesh->ended;
    if (first) {
        RF_FAIL(failure->result, "%s", failure->reason);
        rf_error_save(&mesh->failure);
        rf_operations_text(&mesh->operations, rf_now_ns(), mesh->last_operations, sizeof(mesh->last_operations));
        atomic_store(&mesh->lost_rank, (int32_t)failure->culprit);
        atomic_store(&mesh->ended, true);
        /* Without memory the others learn of it when this worker's connections close. */
        (void)!rf_mesh_queue(mesh, -1, RF_MESH_ABORT, &part, 1);
        pthread_cond_broadcast(&mesh->changed);
    }
    pthread_mutex_unlock(&mesh->lock);
    if (first) {
        rf_mesh_wake(mesh);
        pthread_mutex_lock(&mesh->callback_lock);
        run_callback(mesh);
        pthread_mutex_unlock(&mesh->callback_lock);
    }
    rf_error_restore(&record);
}

void rf_mesh_abort(rf_mesh *mesh, uint32_t culprit, rf_result result, const char *reason)
{
    rf_mesh_failure failure = { .culprit = culprit, .result = result };
    snprintf(failure.reason, sizeof(failure.reason), "%s", reason);
    rf_mesh_shut_down(mesh, &failure);
    const uint64_t end = rf_now_ns() + TELL_NS;
    pthread_mutex_lock(&mesh->lock);
    while (!mesh->told)
        if (!rf_condition_wait(&mesh->changed, &mesh->lock, end)) break;
    pthread_mutex_unlock(&mesh->lock);
}

void rf_mesh_on_abort(rf_mesh *mesh, void (*fn)(void *user), void *user)
{
    pthread_mutex_lock(&mesh->callback_lock);
    mesh->callback = fn;
    mesh->callback_user = user;
    if (mesh->ended) run_callback(mesh);
    pthread_mutex_unlock(&mesh->callback_lock);
}

void rf_mesh_report_lost(rf_mesh *mesh, uint32_t rank, const char *reason)
{
    if (rank >= mesh->assembly.world || rank == mesh->assembly.rank) return;
    rf_mesh_peer *peer = &mesh->peers[rank];
    pthread_mutex_lock(&mesh->lock);
    if (!peer->reported) {
        peer->reported = mesh->reports = true;
        snprintf(peer->why, sizeof(peer->why), "%s", reason);
    }
    pthread_mutex_unlock(&mesh->lock);
    rf_mesh_wake(mesh);
}

rf_result rf_mesh_status(rf_mesh *mesh)
{
    if (!atomic_load_explicit(&mesh->ended, memory_order_acquire)) return RF_OK;
    rf_mesh_log_operations(mesh);
    return rf_error_restore(&mesh->failure);
}

int32_t rf_mesh_lost_rank(const rf_mesh *mesh)
{
    return atomic_load(&mesh->lost_rank);
}

const char *rf_mesh_last_operations(const rf_mesh *mesh)
{
    return atomic_load(&mesh->ended) ? mesh->last_operations : "";
}
