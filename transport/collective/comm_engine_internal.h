/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RF_TRANSPORT_COLLECTIVE_COMM_ENGINE_INTERNAL_H
#define RF_TRANSPORT_COLLECTIVE_COMM_ENGINE_INTERNAL_H

#include <stdatomic.h>

#include "transport/channel/seal.h"
#include "transport/collective/comm_engine.h"
#include "transport/collective/reduce.h"
#include "transport/mesh/operations.h"

enum {
    RF_ENGINE_IN = 4,                      /* chunks awaited; few, so that their buffers stay in the cache */
    RF_ENGINE_OUT = 8,                     /* chunks being sent */
    RF_ENGINE_CHUNK = 512 << 10,           /* bytes; smaller ones cost more in messages than their overlap gains */
    RF_ENGINE_SHARED = 64 << 10,           /* in a job that shares all memory: messages cost little there */
    RF_ENGINE_SLICE = 512 << 10,           /* its slices (schedule.h), so that neither side waits for each message */
    RF_ENGINE_SLOT = RF_ENGINE_CHUNK + 64, /* room for one, sealed, in the bounce buffer */
    RF_ENGINE_EAGER = 16 << 10,            /* a first chunk up to this size travels behind its header */
};

/* The description of a rank's call, at the head of the first message to a peer. */
typedef struct rf_call_header {
    uint32_t magic;
    uint32_t payload;              /* bytes that follow */
    uint64_t serial, count, shape; /* shape: hash of the counts */
    uint32_t chunk;
    uint16_t root;
    uint8_t kind, algorithm, dtype, op, wire, sealed;
    char name[52];
} rf_call_header;
#define RF_CALL_MAGIC 0x31436652u /* "RfC1" */
#define RF_HEADER_MESSAGE (sizeof(rf_call_header) + RF_ENGINE_EAGER + RF_SEAL_BYTES)

typedef enum rf_header_state { RF_HEADER_NONE, RF_HEADER_WANTED, RF_HEADER_POSTED, RF_HEADER_DONE } rf_header_state;

typedef struct rf_peer {
    uint32_t rank;
    rf_seal *seal;
    uint8_t *in, *out; /* RF_HEADER_MESSAGE each */
    rf_call_header header;
    rf_fabric_op in_op, out_op;
    /* The state of the current call. */
    rf_header_state in_state, out_state;
    bool in_merged, out_merged; /* the first chunk comes with the header */
    uint32_t in_payload;        /* its bytes */
    bool out_ready;             /* `out` holds the message */
    /* For traces, by direction (1: out). */
    uint32_t tracks[2];
    uint64_t traced_ns[2];
} rf_peer;

/* A chunk under way. */
typedef struct rf_chunk {
    rf_fabric_op op;
    uint32_t step;
    uint64_t offset, count; /* elements of the step */
    const uint8_t *data;    /* what has come */
    struct iovec parts[2];  /* what is to be sent, while num_parts > 0 */
    void *descriptors[2];
    uint32_t num_parts;
    bool direct; /* came straight into place */
    bool lent;   /* is used where the peer wrote it */
    bool merged; /* comes with the peer's header */
    bool done;
    uint64_t posted_ns; /* 0: no trace runs */
} rf_chunk;

typedef struct rf_position {
    uint32_t step;
    uint64_t offset;
} rf_position;

struct rf_engine {
    const rf_job *job;
    rf_mesh *mesh;
    rf_fabric *fabric;
    uint32_t rank, world_size;
    uint32_t *hosts;
    rf_peer **peers;              /* [world_size], NULL: not connected */
    uint32_t *active, num_active; /* ranks with whom the current call has to do */
    uint8_t *bounce;              /* window of received, then of sent chunks; in bounce_block, on a cache line */
    void *bounce_block;
    rf_fabric_memory bounce_memory, input_memory, output_memory, scratch_memory;
    uint8_t *scratch;
    size_t scratch_size;
    atomic_bool woken;

    /* The current call. */
    const rf_call *call;
    rf_collective_schedule schedule;
    rf_call_header header;
    char what[RF_OPERATION_WHAT]; /* for messages */
    uint8_t *space[RF_SPACE_COUNT];
    size_t element, wire_element;
    uint64_t chunk; /* elements */
    rf_reduce_fn reduce;
    rf_chunk in[RF_ENGINE_IN], out[RF_ENGINE_OUT];
    uint64_t in_head, in_tail, out_head, out_tail; /* oldest and next, modulo RF_ENGINE_IN, RF_ENGINE_OUT */
    rf_position in_next, out_next;                 /* to post */
    rf_position received, sent;                    /* done up to here */
    int32_t broken, suspect;                       /* whose connection failed; who is to blame for another failure */
    bool unsure;                                   /* another rank may know better what is wrong */
    uint32_t headers_open;                         /* yet to come or to go */
};

/* comm_move.c: each does what can be done now and sets *progress if it did something. */
rf_result rf_engine_post_receives(rf_engine *e, bool *progress);
rf_result rf_engine_post_sends(rf_engine *e, bool *progress);
rf_result rf_engine_take_in(rf_engine *e, bool *progress);
bool rf_engine_finished(const rf_engine *e);
/* Puts both cursors before the first chunk. */
void rf_engine_rewind(rf_engine *e);
/* The peer for whose data the call waits, or -1. */
int32_t rf_engine_awaited(const rf_engine *e);

enum { RF_OP_HEADER_IN, RF_OP_HEADER_OUT, RF_OP_IN, RF_OP_OUT }; /* rf_fabric_op.kind */
rf_result rf_engine_header_came(rf_engine *e, rf_peer *peer);

/* comm_header.c */
void rf_engine_make_header(rf_engine *e);
/* RF_OK: the peer means the same call. The message says what differs. */
rf_result rf_engine_check_header(rf_engine *e, rf_peer *peer, const rf_call_header *got);
void rf_engine_describe(const rf_call_header *header, char *text, size_t size);

/* The chunk has come, or has gone. */
void rf_engine_trace_chunk(rf_engine *e, rf_peer *peer, const rf_chunk *chunk, bool out);

#endif
