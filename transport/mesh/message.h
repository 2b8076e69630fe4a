/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The contents of mesh frames. Numbers are little-endian; texts are a 16-bit length and bytes. Pure: encoders fill a
 * buffer of the caller's, decoders check every length and every value before they hand it on. When a decoder returns an
 * error, the caller must not use its output.
 */
#ifndef RF_TRANSPORT_MESH_MESSAGE_H
#define RF_TRANSPORT_MESH_MESSAGE_H

#include "transport/job/job.h"

typedef enum rf_mesh_frame {
    RF_MESH_JOIN = 1, /* worker -> master: where it listens, which host it is on */
    RF_MESH_WAITING,  /* master -> worker: who is missing */
    RF_MESH_TABLE,    /* master -> worker: everybody */
    RF_MESH_READY,    /* worker -> master: connected to everybody */
    RF_MESH_GO,       /* master -> worker: so is everybody */
    RF_MESH_FAILED,   /* either way while the job is assembling: it will not, and why */
    RF_MESH_HEARTBEAT,
    RF_MESH_GOODBYE, /* last operation begun u64; the last frame of an orderly end */
    RF_MESH_ABORT,
    RF_MESH_EXCHANGE,
    RF_MESH_RELAY /* rank 0 -> worker: what other ranks have sent it for all */
} rf_mesh_frame;

#define RF_MESH_ADDRESS 64          /* numeric address with its zone and final zero */
#define RF_MESH_HOST_TEXT 192       /* host identity */
#define RF_MESH_REASON 768          /* text of a failure */
#define RF_MESH_EXCHANGE_MAX 60000u /* bytes of one rank in one exchange */

typedef struct rf_mesh_join {
    uint16_t port;
    char address[RF_MESH_ADDRESS];
    char host[RF_MESH_HOST_TEXT];
} rf_mesh_join;

typedef struct rf_mesh_member {
    uint64_t incarnation;
    uint32_t host; /* number, see rf_number_hosts() */
    uint16_t port;
    char address[RF_MESH_ADDRESS];
} rf_mesh_member;

/* The master's description of the job: its timings hold for all ranks, so that none expects heartbeats that are not
 * sent. */
typedef struct rf_mesh_table {
    uint8_t session[16]; /* random */
    uint64_t heartbeat_interval_ns, peer_timeout_ns, operation_timeout_ns;
    uint32_t count;
    rf_mesh_member *members; /* of the caller's, room for `count` */
} rf_mesh_table;

typedef struct rf_mesh_heartbeat {
    uint32_t rank;
    uint64_t incarnation, begun, finished;
    bool answer;         /* the receiver should send one of its own at once */
    uint32_t num_late;   /* ranks the sender misses: silent for half the timeout, or closed */
    const uint8_t *late; /* decoded: num_late 16-bit numbers, see rf_mesh_late_rank() */
} rf_mesh_heartbeat;

typedef struct rf_mesh_failure {
    uint32_t culprit;
    rf_result result;
    char reason[RF_MESH_REASON];
} rf_mesh_failure;

/* One rank's part of an exchange. */
typedef struct rf_mesh_part {
    uint64_t serial; /* number of the exchange */
    const void *data;
    size_t size;
} rf_mesh_part;

/* One of several in a relay frame. */
typedef struct rf_mesh_entry {
    uint32_t rank; /* who sent it */
    uint16_t type; /* RF_MESH_EXCHANGE or RF_MESH_GOODBYE */
    const uint8_t *body;
    size_t size;
} rf_mesh_entry;

#define RF_MESH_JOIN_MAX (2 + 2 + RF_MESH_ADDRESS + 2 + RF_MESH_HOST_TEXT)
#define RF_MESH_TABLE_MAX(count) (44 + (size_t)(count) * (16 + RF_MESH_ADDRESS))
#define RF_MESH_HEARTBEAT_MAX(world) (33 + 2 * (size_t)(world))
#define RF_MESH_GOODBYE_BYTES 8
#define RF_MESH_PART_HEAD 8   /* the serial, before the data */
#define RF_MESH_ENTRY_HEAD 10 /* rank, type and size, before the body */
#define RF_MESH_RELAY_MAX 65536u
#define RF_MESH_FAILURE_MAX (8 + 2 + RF_MESH_REASON)

/* Encoders return the bytes used. `data` must have room for the message's _MAX. */
size_t rf_mesh_encode_join(const rf_mesh_join *join, uint8_t *data);
size_t rf_mesh_encode_table(const rf_mesh_table *table, uint8_t *data);
size_t rf_mesh_encode_heartbeat(const rf_mesh_heartbeat *beat, const uint32_t *late, uint8_t *data);
size_t rf_mesh_encode_failure(const rf_mesh_failure *failure, uint8_t *data);
void rf_mesh_encode_goodbye(uint64_t begun, uint8_t data[RF_MESH_GOODBYE_BYTES]);
/* Writes the head that goes before the data. */
void rf_mesh_encode_part(uint64_t serial, uint8_t head[RF_MESH_PART_HEAD]);

/* The body follows, as it was in the frame of its own. */
void rf_mesh_encode_entry(const rf_mesh_entry *entry, uint8_t head[RF_MESH_ENTRY_HEAD]);

/* RF_ERROR_CORRUPT_DATA names the message and what is wrong with it. */
rf_result rf_mesh_decode_join(const void *data, size_t size, rf_mesh_join *out);
/* out->count and out->members are given: the world size and room for it. */
rf_result rf_mesh_decode_table(const void *data, size_t size, rf_mesh_table *out);
/* out->late points into `data`; every rank in it is below `world`. */
rf_result rf_mesh_decode_heartbeat(const void *data, size_t size, uint32_t world, rf_mesh_heartbeat *out);
rf_result rf_mesh_decode_failure(const void *data, size_t size, uint32_t world, rf_mesh_failure *out);
rf_result rf_mesh_decode_goodbye(const void *data, size_t size, uint64_t *begun);
/* out->data points into `data`; at most RF_MESH_EXCHANGE_MAX bytes. */
rf_result rf_mesh_decode_part(const void *data, size_t size, rf_mesh_part *out);
/* Takes the first entry out of the rest of a relay frame and moves on. RF_END: there is none. */
rf_result rf_mesh_decode_entry(const uint8_t **data, size_t *size, uint32_t world, rf_mesh_entry *out);
uint32_t rf_mesh_late_rank(const rf_mesh_heartbeat *beat, uint32_t index);

/* "rank 2 of 4" or "ranks 2, 3 of 4" for those whose `present` is false; at most 16 are spelled out. */
void rf_mesh_missing_text(const bool *present, uint32_t world, char *text, size_t size);

#endif
