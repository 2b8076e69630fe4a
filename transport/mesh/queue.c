/* SPDX-License-Identifier: Apache-2.0 */
/* Frames on their way to peers, which the mesh's thread sends. */
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/platform.h"
#include "transport/mesh/internal.h"

void rf_payload_release(rf_payload *payload)
{
    if (--payload->refs == 0) rf_free(payload);
}

rf_payload *rf_mesh_dequeue(rf_mesh_peer *peer)
{
    rf_queue_node *node = peer->first;
    if (!node) return NULL;
    rf_payload *payload = node->payload;
    peer->first = node->next;
    if (!peer->first) peer->last = &peer->first;
    rf_free(node);
    return payload;
}

void rf_mesh_drop_queue(rf_mesh_peer *peer)
{
    for (rf_payload *payload; (payload = rf_mesh_dequeue(peer));) rf_payload_release(payload);
}

rf_result rf_mesh_queue(rf_mesh *mesh, int32_t only, rf_mesh_frame type, const rf_bytes *parts, uint32_t num_parts)
{
    size_t size = 0;
    for (uint32_t i = 0; i < num_parts; i++) size += parts[i].size;
    rf_payload *payload = rf_calloc(1, sizeof(*payload) + size);
    if (!payload) return RF_ERROR_OUT_OF_HOST_MEMORY;
    payload->refs = 1;
    payload->type = (uint16_t)type;
    for (uint32_t i = 0; i < num_parts; i++) {
        if (parts[i].size) memcpy(payload->data + payload->size, parts[i].data, parts[i].size);
        payload->size += parts[i].size;
    }
    rf_result r = RF_OK;
    for (uint32_t i = 0; i < mesh->assembly.world; i++) {
        rf_mesh_peer *peer = &mesh->peers[i];
        if (!mesh->assembly.channels[i] || peer->gone || (only >= 0 && i != (uint32_t)only)) continue;
        rf_queue_node *node = RF_NEW(rf_queue_node);
        if (!node) {
            r = RF_ERROR_OUT_OF_HOST_MEMORY;
            continue; /* the others still get theirs */
        }
        node->payload = payload;
        payload->refs++;
        *peer->last = node;
        peer->last = &node->next;
    }
    rf_payload_release(payload);
    return r;
}

/* ---- what rank 0 passes on ---- */

bool rf_mesh_relays(const rf_mesh *mesh)
{
    return mesh->assembly.rank == 0 && !rf_mesh_is_full(mesh->assembly.world);
}

rf_result rf_mesh_relay_flush(rf_mesh *mesh)
{
    rf_relay *relay = &mesh->relay;
    if (relay->size == 0) return RF_OK;
    const rf_bytes part = { relay->data, relay->size };
    relay->size = 0;
    relay->since = 0;
    return rf_mesh_queue(mesh, -1, RF_MESH_RELAY, &part, 1);
}

rf_result rf_mesh_relay_add(rf_mesh *mesh, const rf_mesh_entry *entry, const rf_bytes *body, uint32_t num_parts)
{
    rf_relay *relay = &mesh->relay;
    const uint32_t world = mesh->assembly.world;
    if (!relay->data && !(relay->data = rf_calloc(1, RF_MESH_RELAY_MAX))) return RF_ERROR_OUT_OF_HOST_MEMORY;
    if (relay->size + RF_MESH_ENTRY_HEAD + entry->size > RF_MESH_RELAY_MAX) RF_TRY(rf_mesh_relay_flush(mesh));
    rf_mesh_encode_entry(entry, relay->data + relay->size);
    relay->size += RF_MESH_ENTRY_HEAD;
    for (uint32_t i = 0; i < num_parts; i++) {
        if (body[i].size) memcpy(relay->data + relay->size, body[i].data, body[i].size);
        relay->size += body[i].size;
    }
    if (!relay->since) relay->since = rf_now_ns();
    uint32_t *count = entry->type == RF_MESH_EXCHANGE ? &relay->parts : &relay->goodbyes;
    /* Rank 0's own goodbye goes to everybody directly. */
    const uint32_t all = entry->type == RF_MESH_EXCHANGE ? world : world - 1;
    if (++*count < all) return RF_OK;
    *count = 0;
    return rf_mesh_relay_flush(mesh);
}

void rf_mesh_wake(rf_mesh *mesh)
{
    const uint64_t one = 1;
    /* Fails only when the counter is full, and then the thread is about to wake up anyway. */
    if (write(mesh->wake_fd, &one, sizeof(one)) < 0) return;
}
