/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mesh after the rendezvous. Only its thread uses channels and the detector; callers put frames into queues and
 * wake it. Nothing is sent to a socket that is not writable, and a socket that is writable has room for the largest
 * frame, so a stuck peer delays no other.
 */
#ifndef RF_TRANSPORT_MESH_INTERNAL_H
#define RF_TRANSPORT_MESH_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "transport/mesh/detector.h"
#include "transport/mesh/mesh.h"
#include "transport/mesh/operations.h"
#include "transport/mesh/rendezvous.h"
#include "transport/mesh/topology.h"

/* A frame for several peers. */
typedef struct rf_payload {
    uint32_t refs; /* under the mesh's lock */
    uint16_t type;
    size_t size;
    uint8_t data[];
} rf_payload;

typedef struct rf_queue_node {
    struct rf_queue_node *next;
    rf_payload *payload;
} rf_queue_node;

/* A message of an exchange that waits for rf_mesh_exchange(). */
typedef struct rf_inbox_entry {
    uint8_t *data;
    size_t size;
} rf_inbox_entry;

typedef struct rf_mesh_peer {
    /* the thread's own */
    bool closed;    /* nothing more can be received */
    bool send_dead; /* nothing more can be sent, or is to be */
    bool beat_due, beat_answer;
    bool more; /* there may be frames left to read */
    /* under the lock */
    rf_queue_node *first, **last;
    atomic_bool left; /* said goodbye */
    bool gone;        /* `closed`, for those who wait */
    bool reported;
    char why[160]; /* of the loss */
    uint64_t next_exchange;
    rf_inbox_entry inbox[2]; /* a peer can be one exchange ahead, not two */
    /* */
    _Atomic uint64_t finished, begun; /* operations, as its heartbeats and its goodbye say */
} rf_mesh_peer;

/* Rank 0 of a world that is not connected throughout: what the others have sent for all, until there is enough of it,
 * or RF_RELAY_NS have passed. Under the mesh's lock. */
typedef struct rf_relay {
    uint8_t *data; /* RF_MESH_RELAY_MAX */
    size_t size;
    uint64_t since;           /* when the first of it came; 0: there is none */
    uint32_t parts, goodbyes; /* of one exchange, and in all */
} rf_relay;
#define RF_RELAY_NS UINT64_C(50000000)

struct rf_mesh {
    rf_assembly assembly;
    rf_mesh_peer *peers;
    rf_operations operations;
    bool secure;
    uint8_t link_secret[RF_JOB_KEY_BYTES];

    pthread_t thread;
    int wake_fd;
    rf_detector *detector;     /* the thread's */
    rf_liveness_page liveness; /* does not change any more once has_liveness is set */
    atomic_bool has_liveness;

    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool leaving, stop, reports;
    atomic_bool logged;
    bool told; /* after the end: everybody who can be reached has been sent the reason */
    uint64_t next_exchange;
    uint32_t arrived[2]; /* messages in everybody's inbox[0] and inbox[1] */
    rf_relay relay;

    /* Written once, under the lock, before `ended` is set; read without it afterwards. */
    atomic_bool ended;
    rf_error_record failure;
    char last_operations[RF_OPERATIONS_TEXT];
    _Atomic int32_t lost_rank;

    pthread_mutex_t callback_lock; /* held while the callback runs */
    void (*callback)(void *user);
    void *callback_user;
};

void *rf_mesh_thread(void *mesh);
void rf_mesh_wake(rf_mesh *mesh);
/* The last ones that a rank is known to have begun and finished. */
void rf_mesh_peer_operations(const rf_mesh *mesh, uint32_t rank, uint64_t *begun, uint64_t *finished);
/* rf_mesh_abort() without waiting until the reason has left. */
void rf_mesh_shut_down(rf_mesh *mesh, const rf_mesh_failure *failure);
/* Tells the log once what the job was doing. */
void rf_mesh_log_operations(rf_mesh *mesh);
/* Puts a frame in the queues of all that are connected (or one: `only` >= 0). Lock held. Without memory nothing is
 * queued. */
rf_result rf_mesh_queue(rf_mesh *mesh, int32_t only, rf_mesh_frame type, const rf_bytes *parts, uint32_t num_parts);
bool rf_mesh_relays(const rf_mesh *mesh);
/* Adds to what is passed on; the body in parts, of entry->size bytes together. Sends it when an exchange, or the list
 * of those who left, is complete. Lock held. */
rf_result rf_mesh_relay_add(rf_mesh *mesh, const rf_mesh_entry *entry, const rf_bytes *body, uint32_t num_parts);
rf_result rf_mesh_relay_flush(rf_mesh *mesh); /* lock held */
/* Takes the first frame out; NULL when there is none. Lock held. */
rf_payload *rf_mesh_dequeue(rf_mesh_peer *peer);
void rf_mesh_drop_queue(rf_mesh_peer *peer);
void rf_payload_release(rf_payload *payload); /* lock held */

#endif
