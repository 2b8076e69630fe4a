/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The messages between ranks before their data connections are established: which providers they have, where they
 * listen, and the token of a connection request. The first two come through the mesh, from ranks that hold the job's
 * key; a token can come from anyone who finds the port. Pure: bytes in, a result out.
 */
#ifndef RF_TRANSPORT_FABRIC_MESSAGE_H
#define RF_TRANSPORT_FABRIC_MESSAGE_H

#include "transport/channel/token.h"

#define RF_FABRIC_NONCE RF_TOKEN_NONCE
#define RF_FABRIC_ADDRESS 128
#define RF_FABRIC_PROVIDERS 8
#define RF_FABRIC_PROVIDER_NAME 64

/* The providers that a rank can talk through, best first. */
typedef struct rf_fabric_offer {
    uint32_t byte_order, count;
    char name[RF_FABRIC_PROVIDERS][RF_FABRIC_PROVIDER_NAME];
} rf_fabric_offer;
#define RF_FABRIC_BYTE_ORDER 0x01020304u

/* The card that a rank gives to all others before they connect. */
typedef struct rf_fabric_card {
    uint32_t address_size;
    uint8_t address[RF_FABRIC_ADDRESS];
    uint8_t nonce[RF_FABRIC_NONCE]; /* fresh: tokens and keys of a connection are never used twice */
} rf_fabric_card;

/* The token that comes with a connection request; requests of verbs carry 56 bytes at most. */
typedef struct rf_fabric_token {
    uint32_t magic;
    uint16_t from, to;
    uint8_t mac[32];
} rf_fabric_token;
#define RF_FABRIC_TOKEN_MAGIC 0x31466652u /* "RfF1" */
_Static_assert(sizeof(rf_fabric_token) <= 48, "the token must fit a connection request");

/* The first of rank 0's providers that all ranks have. all[r] came as sizes[r] bytes. RF_ERROR_UNSUPPORTED names the
 * ranks that do not fit together. */
rf_result rf_fabric_agree(const rf_fabric_offer *all, const size_t *sizes, uint32_t world_size,
                          char provider[RF_FABRIC_PROVIDER_NAME]);

/* Whether the `size` bytes that rank `rank` sent are a card whose address a provider can be given: as long as what
 * `address_format` (libfabric's) says is in it. RF_ERROR_CORRUPT_DATA. */
rf_result rf_fabric_check_card(const rf_fabric_card *card, size_t size, uint32_t address_format, uint32_t rank);

/* The rank that says with these bytes that it connects to `to`, or UINT32_MAX when they are none: too few, to another
 * rank, from itself or from outside. The MAC is still to be compared. Bytes that follow a token are the provider's
 * padding. */
uint32_t rf_fabric_token_read(const void *data, size_t size, uint32_t to, uint32_t world_size, rf_fabric_token *out);

#endif
