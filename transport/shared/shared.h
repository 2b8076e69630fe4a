/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Data between ranks of one host, through memory that each pair of them shares. A pair is made of a memfd and of the
 * local socket through which it was passed. The socket stays open: a byte in it wakes a rank that sleeps, and its end
 * tells of a process that has ended. Messages from one peer arrive in order, each in the oldest receive that was
 * posted. Only one thread at a time may use it. A peer that is stopped is not detected here: that is the task of the
 * control mesh.
 */
#ifndef RF_TRANSPORT_SHARED_SHARED_H
#define RF_TRANSPORT_SHARED_SHARED_H

#include <poll.h>
#include <sys/uio.h>

#include "transport/mesh/mesh.h"

typedef struct rf_shared rf_shared;

/* A pending send or receive: stays where it is until it comes out of rf_shared_poll(). */
typedef struct rf_shared_op {
    struct rf_shared_op *after;
    uint32_t peer;
    void *data; /* NULL: to be lent */
    size_t capacity;
    const uint8_t *lent; /* the message, in shared memory, until rf_shared_return() */
    size_t size;
    uint64_t end;
    int error;       /* errno's, 0: done */
    bool lied;       /* the peer wrote what cannot be */
    char detail[96]; /* what is wrong */
} rf_shared_op;

typedef struct rf_shared_params {
    const rf_job *job;
    rf_mesh *mesh;
    const bool *peers; /* [world_size] with whom data is exchanged; the same on both sides */
    uint32_t depth;    /* receives that may be pending per peer */
} rf_shared_params;

/* Agrees with all ranks on who shares memory with whom. A collective call over the mesh. Pairs that cannot share
 * memory, which the log explains, are no failure. */
rf_result rf_shared_create(const rf_shared_params *params, rf_shared **out);
void rf_shared_destroy(rf_shared **shared);
bool rf_shared_has(const rf_shared *shared, uint32_t peer);
uint32_t rf_shared_pairs(const rf_shared *shared);
/* Whether this is so of every pair of the job, and no rank was told to use a certain provider; all ranks have the same
 * answer. */
bool rf_shared_has_all(const rf_shared *shared);
/* Keys of the pair, one for each direction; false in a job without a key. */
bool rf_shared_keys(const rf_shared *shared, uint32_t peer, uint8_t send[RF_JOB_KEY_BYTES],
                    uint8_t receive[RF_JOB_KEY_BYTES]);

/* One message of some buffers, which are free again at once. RF_END: no room yet. */
rf_result rf_shared_send(rf_shared *shared, uint32_t peer, const struct iovec *parts, uint32_t num_parts,
                         rf_shared_op *op);
/* `data` NULL: the message is lent where it is. RF_END: as many are pending as may be. */
rf_result rf_shared_receive(rf_shared *shared, uint32_t peer, void *data, size_t size, rf_shared_op *op);
/* Gives back what was lent; in the order in which it came. */
void rf_shared_return(rf_shared *shared, rf_shared_op *op);
/* Lists operations that have ended: up to `max`, also operations that failed (op->error). */
uint32_t rf_shared_poll(rf_shared *shared, rf_shared_op **done, uint32_t max);

/* Looks for a moment whether something comes; how long follows from how often that was worth it. */
bool rf_shared_spin(rf_shared *shared);
/* Before a sleep: what to poll(), at most rf_shared_pairs(). False: there is something already. */
bool rf_shared_lie_down(rf_shared *shared, struct pollfd *fds, uint32_t *count);
/* After it, or instead of it. */
void rf_shared_get_up(rf_shared *shared, const struct pollfd *fds, uint32_t count);

/* Ends all pairs: the peers' pending operations fail. */
void rf_shared_close(rf_shared *shared);

#endif
