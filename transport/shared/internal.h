/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RF_TRANSPORT_SHARED_INTERNAL_H
#define RF_TRANSPORT_SHARED_INTERNAL_H

#include "transport/channel/token.h"
#include "transport/shared/segment.h"
#include "transport/shared/shared.h"

/* The card by which a rank presents itself before ranks of one host pair up. */
typedef struct rf_shared_card {
    uint8_t name[16];              /* of its local socket */
    uint8_t nonce[RF_TOKEN_NONCE]; /* fresh: tokens and keys of a pair are never used twice */
    uint32_t layout;               /* RF_SHARED_LAYOUT, 0: it does not share memory */
} rf_shared_card;
#define RF_SHARED_LAYOUT 1

/* How each side proves itself on the socket; the lower rank's carries the memory. */
typedef struct rf_shared_token {
    uint32_t magic;
    uint16_t from, to;
    uint8_t mac[RF_TOKEN_MAC];
} rf_shared_token;
#define RF_SHARED_TOKEN_MAGIC 0x31536652u    /* "RfS1" */
#define RF_SHARED_LIVENESS_MAGIC 0x31426652u /* "RfB1": for the liveness page of rank 0 (liveness_page.h) */

typedef struct rf_shared_pair {
    uint32_t rank;
    int fd; /* -1: closed */
    rf_shared_segment segment;
    rf_ring in, out;
    bool ended;    /* nothing comes any more that is not there already */
    bool blocked;  /* a send waits for room */
    bool released; /* memory of which the writer was not told */
    bool lied;
    char detail[96];
    rf_shared_op *first, **last; /* receives, oldest first */
    uint32_t pending;
} rf_shared_pair;

struct rf_shared {
    const rf_job *job; /* during creation */
    const bool *peers; /* likewise */
    rf_mesh *mesh;
    uint32_t rank, world_size, depth;
    rf_shared_card *cards;    /* [world_size] */
    rf_shared_pair **pairs;   /* [world_size], NULL: none */
    uint32_t *near, num_near; /* ranks with pairs that are up */
    bool all;
    rf_shared_op *done, **done_last;
    bool crowded; /* the host has more ranks than processors */
    uint64_t spin_ns, wait_begin;
};

/* Makes the pairs, as far as both sides can. Collective. */
rf_result rf_shared_pair_up(rf_shared *shared);
/* The token that rank `from` shows to rank `to`, one of which is this one; for what, `magic` says. */
void rf_shared_make_token(const rf_shared *shared, uint32_t magic, uint32_t from, uint32_t to, rf_shared_token *out);
/* The rank that may show these bytes to this one, or UINT32_MAX: none. */
uint32_t rf_shared_check_token(const rf_shared *shared, uint32_t magic, const void *data, size_t size);

/* pair.c */
rf_shared_pair *rf_shared_pair_new(uint32_t rank);
/* Closes the socket; messages that have come can still be read. */
void rf_shared_pair_end(rf_shared_pair *pair);
void rf_shared_pair_free(rf_shared_pair **pair);

#endif
