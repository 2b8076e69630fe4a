/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/mesh/mesh.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "base/condition.h"
#include "base/memory.h"
#include "base/numbers.h"
#include "base/platform.h"
#include "transport/channel/wire.h"
#include "transport/mesh/internal.h"

/* A socket is reported writable when at least a third of its buffer is free; this makes that third larger than any
 * frame. */
#define SEND_BUFFER (256 * 1024)

/* ---- life ---- */

static rf_result derive_secret(rf_mesh *mesh, const rf_job *job)
{
    if (!job->secure) return RF_OK;
    uint8_t text[32 + 16 + 8 + sizeof(job->name)] = "ringfire mesh links of a session";
    memcpy(text + 32, mesh->assembly.table.session, 16);
    rf_put_u64(text + 48, job->epoch);
    memcpy(text + 56, job->name, strnlen(job->name, sizeof(job->name)));
    unsigned size = 0;
    if (!HMAC(EVP_sha256(), job->key, sizeof(job->key), text, sizeof(text), mesh->link_secret, &size) ||
        size != sizeof(mesh->link_secret))
        return RF_FAIL(RF_ERROR_INTERNAL, "OpenSSL could not compute an HMAC");
    mesh->secure = true;
    return RF_OK;
}

static void mesh_free(rf_mesh *mesh)
{
    for (uint32_t r = 0; mesh->peers && r < mesh->assembly.world; r++) {
        rf_mesh_drop_queue(&mesh->peers[r]);
        rf_free(mesh->peers[r].inbox[0].data);
        rf_free(mesh->peers[r].inbox[1].data);
    }
    rf_free(mesh->peers);
    rf_free(mesh->relay.data);
    rf_assembly_clear(&mesh->assembly);
    rf_detector_destroy(&mesh->detector);
    rf_operations_destroy(&mesh->operations);
    pthread_mutex_destroy(&mesh->lock);
    pthread_mutex_destroy(&mesh->callback_lock);
    pthread_cond_destroy(&mesh->changed);
    if (mesh->wake_fd >= 0) close(mesh->wake_fd);
    rf_liveness_close(&mesh->liveness);
    OPENSSL_cleanse(mesh->link_secret, sizeof(mesh->link_secret));
    rf_free(mesh);
}

static rf_result start_thread(rf_mesh *mesh)
{
    /* The program's signal handlers run on the program's threads. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int code = pthread_create(&mesh->thread, NULL, rf_mesh_thread, mesh);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (code != 0)
        return RF_FAIL_NATIVE(RF_ERROR_OUT_OF_HOST_MEMORY, "errno", code, "cannot start the control mesh's thread");
    return RF_OK;
}

static rf_result mesh_start(rf_mesh *mesh, const rf_job *job)
{
    const rf_assembly *a = &mesh->assembly;
    RF_TRY(derive_secret(mesh, job));
    mesh->peers = RF_NEW_ARRAY(rf_mesh_peer, a->world);
    if (!mesh->peers) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t r = 0; r < a->world; r++) {
        mesh->peers[r].last = &mesh->peers[r].first;
        mesh->peers[r].beat_due = a->channels[r];
        mesh->peers[r].closed = mesh->peers[r].send_dead = !a->channels[r];
        if (!a->channels[r]) continue;
        const int bytes = SEND_BUFFER;
        if (setsockopt(rf_channel_fd(a->channels[r]), SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes)) != 0)
            return RF_FAIL_ERRNO(RF_ERROR_IO, "cannot set the send buffer of the connection to rank %u", r);
    }
    RF_TRY(rf_detector_create(a->rank, a->world, a->table.heartbeat_interval_ns, a->table.peer_timeout_ns, rf_now_ns(),
                              &mesh->detector));
    mesh->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (mesh->wake_fd < 0) return RF_FAIL_ERRNO(RF_ERROR_IO, "cannot make an eventfd for the control mesh");
    return start_thread(mesh);
}

rf_result rf_mesh_create(const rf_job *job, rf_mesh **out)
{
    *out = NULL;
    rf_mesh *mesh = RF_NEW(rf_mesh);
    if (!mesh) return RF_ERROR_OUT_OF_HOST_MEMORY;
    const rf_result made = rf_condition_init(&mesh->changed);
    if (made < 0) {
        rf_free(mesh);
        return made;
    }
    mesh->wake_fd = -1;
    atomic_init(&mesh->lost_rank, -1);
    rf_operations_init(&mesh->operations);
    pthread_mutex_init(&mesh->lock, NULL);
    pthread_mutex_init(&mesh->callback_lock, NULL);
    rf_result r = rf_rendezvous(job, &mesh->assembly);
    if (r == RF_OK) r = mesh_start(mesh, job);
    if (r < 0) {
        mesh_free(mesh);
        return r;
    }
    *out = mesh;
    return RF_OK;
}

static bool all_left(const rf_mesh *mesh)
{
    const rf_assembly *a = &mesh->assembly;
    const bool relayed = !mesh->peers[0].gone; /* without rank 0 nothing is heard of ranks that are not connected */
    for (uint32_t r = 0; r < a->world; r++)
        if (r != a->rank && (a->channels[r] || relayed) && !mesh->peers[r].left && !mesh->peers[r].gone) return false;
    return true;
}

void rf_mesh_destroy(rf_mesh **out)
{
    rf_mesh *mesh = *out;
    if (!mesh) return;
    *out = NULL;
    const uint64_t end = rf_now_ns() + mesh->assembly.table.peer_timeout_ns;
    pthread_mutex_lock(&mesh->lock);
    if (!mesh->ended) {
        mesh->leaving = true;
        uint8_t last[RF_MESH_GOODBYE_BYTES];
        rf_mesh_encode_goodbye(atomic_load(&mesh->operations.begun), last);
        /* Without memory for it we are lost to the others; there is nothing better to do here. */
        if (rf_mesh_queue(mesh, -1, RF_MESH_GOODBYE, &(rf_bytes){ last, sizeof(last) }, 1) == RF_OK) {
            rf_mesh_wake(mesh);
            while (!mesh->ended && !all_left(mesh))
                if (!rf_condition_wait(&mesh->changed, &mesh->lock, end)) break;
        }
    }
    mesh->stop = true;
    pthread_mutex_unlock(&mesh->lock);
    rf_mesh_wake(mesh);
    pthread_join(mesh->thread, NULL);
    mesh_free(mesh);
}

/* ---- who is who ---- */

uint32_t rf_mesh_rank(const rf_mesh *mesh)
{
    return mesh->assembly.rank;
}

uint32_t rf_mesh_world_size(const rf_mesh *mesh)
{
    return mesh->assembly.world;
}

uint32_t rf_mesh_host(const rf_mesh *mesh, uint32_t rank)
{
    return rank < mesh->assembly.world ? mesh->assembly.table.members[rank].host : 0;
}

const char *rf_mesh_address(const rf_mesh *mesh, uint32_t rank)
{
    return rank < mesh->assembly.world ? mesh->assembly.table.members[rank].address : "";
}

const char *rf_mesh_local_address(const rf_mesh *mesh)
{
    return rf_mesh_address(mesh, mesh->assembly.rank);
}

uint64_t rf_mesh_peer_timeout(const rf_mesh *mesh)
{
    return mesh->assembly.table.peer_timeout_ns;
}

bool rf_mesh_link_key(const rf_mesh *mesh, uint32_t peer, const char *purpose, uint8_t key[RF_JOB_KEY_BYTES])
{
    memset(key, 0, RF_JOB_KEY_BYTES);
    if (!mesh->secure) return false;
    const uint32_t rank = mesh->assembly.rank;
    uint8_t text[8 + 64] = { 0 };
    rf_put_u32(text, rank < peer ? rank : peer);
    rf_put_u32(text + 4, rank < peer ? peer : rank);
    const size_t length = strnlen(purpose, sizeof(text) - 8);
    memcpy(text + 8, purpose, length);
    unsigned size = 0;
    return HMAC(EVP_sha256(), mesh->link_secret, sizeof(mesh->link_secret), text, 8 + length, key, &size) &&
           size == RF_JOB_KEY_BYTES;
}

/* ---- operations ---- */

static rf_liveness_line *own_line(rf_mesh *mesh)
{
    return atomic_load(&mesh->has_liveness) ? &mesh->liveness.lines[mesh->assembly.rank] : NULL;
}

void rf_mesh_begin_operation(rf_mesh *mesh, uint64_t serial, const char *what)
{
    rf_liveness_line *line = own_line(mesh);
    rf_operations_begin(&mesh->operations, serial, what, rf_now_ns());
    if (line) atomic_store_explicit(&line->begun, serial, memory_order_relaxed);
}

void rf_mesh_finish_operation(rf_mesh *mesh, uint64_t serial)
{
    rf_liveness_line *line = own_line(mesh);
    rf_operations_finish(&mesh->operations, serial, rf_now_ns());
    if (line) atomic_store_explicit(&line->finished, serial, memory_order_relaxed);
}

uint64_t rf_mesh_peer_operation(const rf_mesh *mesh, uint32_t rank)
{
    uint64_t begun, finished = 0;
    if (rank < mesh->assembly.world) rf_mesh_peer_operations(mesh, rank, &begun, &finished);
    return finished;
}

bool rf_mesh_wants_liveness(const rf_mesh *mesh)
{
    const rf_mesh_table *table = &mesh->assembly.table;
    if (rf_mesh_is_full(mesh->assembly.world)) return false;
    for (uint32_t r = 1; r < mesh->assembly.world; r++)
        if (table->members[r].host == table->members[0].host) return true;
    return false;
}

void rf_mesh_use_liveness(rf_mesh *mesh, rf_liveness_page *liveness)
{
    mesh->liveness = *liveness;
    *liveness = (rf_liveness_page){ 0 };
    atomic_store(&mesh->has_liveness, true);
    rf_mesh_wake(mesh);
}

int32_t rf_mesh_left_before(const rf_mesh *mesh, uint64_t serial)
{
    for (uint32_t r = 0; r < mesh->assembly.world; r++)
        if (atomic_load(&mesh->peers[r].left) && atomic_load(&mesh->peers[r].begun) < serial) return (int32_t)r;
    return -1;
}

/* ---- exchange ---- */

/* Waits for everybody's message. Lock held. RF_ERROR_TIMEOUT and RF_END (it has left) are about *missing and the
 * caller's to explain, as is the end of the epoch. */
static rf_result await_messages(rf_mesh *mesh, uint64_t serial, uint64_t timeout_ns, uint32_t *missing)
{
    const uint64_t end = rf_now_ns() + timeout_ns;
    const uint32_t world = mesh->assembly.world;
    bool late = false;
    while (mesh->arrived[serial & 1] < world - 1) {
        if (mesh->ended) return RF_ERROR_CANCELLED;
        for (uint32_t r = 0; r < world; r++) {
            if (r == mesh->assembly.rank || mesh->peers[r].inbox[serial & 1].data) continue;
            *missing = r;
            if (mesh->peers[r].left) return RF_END;
            if (late) return RF_ERROR_TIMEOUT;
        }
        late = !rf_condition_wait(&mesh->changed, &mesh->lock, end);
    }
    return RF_OK;
}

/* Takes everybody's message out. Lock held. Returns a rank whose message is longer than the slot, or the world size. */
static uint32_t slots_collect(rf_mesh *mesh, uint64_t serial, uint8_t *all, size_t slot, size_t *sizes)
{
    const rf_assembly *a = &mesh->assembly;
    uint32_t too_long = a->world;
    for (uint32_t r = 0; r < a->world; r++) {
        if (r == a->rank) continue;
        rf_inbox_entry *entry = &mesh->peers[r].inbox[serial & 1];
        sizes[r] = entry->size;
        if (entry->size > slot)
            too_long = r;
        else if (entry->size)
            memcpy(all + r * slot, entry->data, entry->size);
        rf_free(entry->data);
        *entry = (rf_inbox_entry){ NULL, 0 };
    }
    mesh->arrived[serial & 1] = 0;
    return too_long;
}

/* An exchange that cannot be completed is the end of the epoch: it is no longer known which rank has received what. */
static rf_result explain_failure(rf_mesh *mesh, uint32_t rank, uint64_t serial, rf_result result)
{
    char text[256];
    const char *address = rf_mesh_address(mesh, rank);
    const unsigned long long number = serial;
    if (result == RF_END)
        snprintf(text, sizeof(text), "rank %u (%s) left the job while rank %u waits for it in exchange %llu", rank,
                 address, mesh->assembly.rank, number);
    else if (result == RF_ERROR_TIMEOUT)
        rf_number_print(text, sizeof(text), "rank %u (%s) did not take part in exchange %llu within %g s", rank,
                        address, number, (double)mesh->assembly.table.operation_timeout_ns * 1e-9);
    else
        snprintf(text, sizeof(text), "rank %u (%s) has no memory for exchange %llu", rank, address, number);
    rf_mesh_abort(mesh, rank, result == RF_END ? RF_ERROR_PEER_LOST : result, text);
    return rf_mesh_status(mesh);
}

/* To everybody, if need be through rank 0. Lock held. */
static rf_result send_part(rf_mesh *mesh, const rf_bytes *parts, uint32_t num_parts)
{
    const rf_assembly *a = &mesh->assembly;
    if (!rf_mesh_relays(mesh))
        return rf_mesh_queue(mesh, rf_mesh_is_full(a->world) ? -1 : 0, RF_MESH_EXCHANGE, parts, num_parts);
    rf_mesh_entry entry = { .rank = a->rank, .type = RF_MESH_EXCHANGE };
    for (uint32_t i = 0; i < num_parts; i++) entry.size += parts[i].size;
    return rf_mesh_relay_add(mesh, &entry, parts, num_parts);
}

rf_result rf_mesh_exchange(rf_mesh *mesh, const void *mine, size_t size, void *all, size_t slot, size_t *sizes)
{
    RF_REQUIRE(size <= RF_MESH_EXCHANGE_MAX, "an exchange takes %u bytes at most, not %zu", RF_MESH_EXCHANGE_MAX, size);
    RF_REQUIRE(size <= slot, "a message of %zu bytes does not fit into slots of %zu", size, slot);
    const rf_assembly *a = &mesh->assembly;
    pthread_mutex_lock(&mesh->lock);
    const uint64_t serial = mesh->next_exchange++;
    uint8_t header[RF_MESH_PART_HEAD];
    rf_mesh_encode_part(serial, header);
    const rf_bytes parts[2] = { { header, sizeof(header) }, { mine, size } };
    rf_result r = mesh->ended ? RF_ERROR_CANCELLED : send_part(mesh, parts, 2);
    rf_mesh_wake(mesh);
    uint32_t missing = a->rank, too_long = a->world;
    if (r == RF_OK) r = await_messages(mesh, serial, a->table.operation_timeout_ns, &missing);
    if (r == RF_OK) too_long = slots_collect(mesh, serial, all, slot, sizes);
    const bool ended = mesh->ended;
    pthread_mutex_unlock(&mesh->lock);
    if (r != RF_OK) return ended ? rf_mesh_status(mesh) : explain_failure(mesh, missing, serial, r);
    if (too_long < a->world)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "rank %u's message has %zu bytes, the slots of rank %u %zu", too_long,
                       sizes[too_long], a->rank, slot);
    if (size) memmove((uint8_t *)all + a->rank * slot, mine, size); /* may be there already */
    sizes[a->rank] = size;
    return RF_OK;
}
