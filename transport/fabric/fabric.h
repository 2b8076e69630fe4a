/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Data connections between the workers of a job. Workers of one host share memory (transport/shared/shared.h). Others
 * have a connection for each direction: connected message endpoints of libfabric (FI_EP_MSG), because those report a
 * killed peer within milliseconds; it is not even opened in a job that needs none. Messages from one peer arrive in
 * order, each in the oldest receive that was posted. Only one thread at a time may use a fabric; rf_fabric_wake() alone
 * may be called from any. A lost peer that stays connected (stopped, network gone) is not detected here: that is the
 * task of the control mesh.
 */
#ifndef RF_TRANSPORT_FABRIC_FABRIC_H
#define RF_TRANSPORT_FABRIC_FABRIC_H

#include <sys/uio.h>

#include <rdma/fabric.h>

#include "transport/shared/shared.h"

typedef struct rf_fabric rf_fabric;

/* A pending send or receive: stays where it is until it comes out of rf_fabric_poll() or the connections are closed. */
typedef struct rf_fabric_op {
    struct fi_context2 context; /* the provider's; first */
    rf_shared_op shared;        /* where the peer shares memory */
    uint32_t peer;
    uint32_t kind, index; /* the caller's */
    size_t size;          /* bytes that came */
    const void *lent;     /* rf_fabric_borrow(): where the bytes are */
    int error;            /* libfabric's or errno's, 0: done */
    bool lied;            /* the peer did what no correct one does */
    char detail[96];      /* what the provider says of the error */
} rf_fabric_op;

typedef struct rf_fabric_params {
    const rf_job *job;
    rf_mesh *mesh;
    const bool *peers;    /* [world_size] with whom to connect; the same on both sides */
    uint32_t depth;       /* operations that may be pending per peer and direction */
    bool register_memory; /* even where the provider does not need it */
} rf_fabric_params;

/* Agrees on a provider with all ranks, opens it, connects. A collective call over the mesh. */
rf_result rf_fabric_create(const rf_fabric_params *params, rf_fabric **out);
void rf_fabric_destroy(rf_fabric **fabric);
/* How data travels: "tcp", "shared memory", or both: "shared memory, tcp". */
const char *rf_fabric_provider(const rf_fabric *fabric);
/* Whether all pairs of ranks of the job share memory and nothing else is open; all ranks have the same answer. */
bool rf_fabric_is_shared(const rf_fabric *fabric);
/* Whether messages of this peer can be used where they are. */
bool rf_fabric_lends(const rf_fabric *fabric, uint32_t peer);
/* Keys of the connection with `peer`, one for each direction; false in a job without a key. */
bool rf_fabric_keys(const rf_fabric *fabric, uint32_t peer, uint8_t send[RF_JOB_KEY_BYTES],
                    uint8_t receive[RF_JOB_KEY_BYTES]);

/* Some providers read and write only memory that they know. */
typedef struct rf_fabric_memory {
    struct fid_mr *registration;
    void *descriptor;
} rf_fabric_memory;
rf_result rf_fabric_register(rf_fabric *fabric, const void *data, size_t size, rf_fabric_memory *out);
void rf_fabric_unregister(rf_fabric_memory *memory);

/* One message of up to two buffers. RF_END: too much is pending, poll and try again. */
rf_result rf_fabric_send(rf_fabric *fabric, uint32_t peer, const struct iovec *parts, void **descriptors,
                         uint32_t num_parts, rf_fabric_op *op);
rf_result rf_fabric_receive(rf_fabric *fabric, uint32_t peer, void *data, size_t size, void *descriptor,
                            rf_fabric_op *op);
/* A receive from a peer that lends: the message, of at most `size` bytes, comes as op->lent, and the peer may still
 * change it. It goes back with rf_fabric_return(), in the order in which messages came. */
rf_result rf_fabric_borrow(rf_fabric *fabric, uint32_t peer, size_t size, rf_fabric_op *op);
void rf_fabric_return(rf_fabric *fabric, rf_fabric_op *op);
/* Lists operations that have ended: up to `max`, also operations that failed (op->error). */
rf_result rf_fabric_poll(rf_fabric *fabric, rf_fabric_op **done, uint32_t max, uint32_t *count);
/* Sleeps until there may be something to poll, rf_fabric_wake() is called or the time is over. */
rf_result rf_fabric_wait(rf_fabric *fabric, uint64_t timeout_ns);
void rf_fabric_wake(rf_fabric *fabric);
/* Ends all connections: the peers' pending operations fail, and no memory of ours is read or written any more. */
void rf_fabric_close(rf_fabric *fabric);

#endif
