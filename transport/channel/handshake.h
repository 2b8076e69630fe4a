/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How two processes prove to each other that they belong to the same job, as functions over bytes. Three messages:
 *
 *   challenge  listener -> connector   header, nonce
 *   reply      connector -> listener   header, nonce, who I am, MAC over challenge and reply
 *   accept     listener -> connector   header, who I am, MAC over everything before and this
 *   or reject  listener -> connector   header, reason, MAC likewise
 *   or refused listener -> connector   header only: the reply's MAC does not fit, so there is nothing to sign for
 *
 * The connector authenticates first, so a stranger learns nothing but the versions. Each MAC has a label of its own and
 * covers fresh nonces of both sides: an old or a reflected message is rejected. The first 16 bytes of each message keep
 * their layout in all versions, so that differing versions can be named.
 */
#ifndef RF_TRANSPORT_CHANNEL_HANDSHAKE_H
#define RF_TRANSPORT_CHANNEL_HANDSHAKE_H

#include "transport/channel/channel.h"

/* Layout of handshake and frames. */
#define RF_PROTOCOL_VERSION 1
/* The version of the frames' meaning: raise it whenever a message of mesh, communicator or parameter server changes. */
#define RF_WIRE_VERSION 8

#define RF_NONCE_BYTES 32
#define RF_HANDSHAKE_HEADER 16
#define RF_HANDSHAKE_MAC 32
#define RF_HANDSHAKE_WHO 104 /* role 16, rank 4, world size 4, incarnation 8, epoch 8, job 64 */
#define RF_REJECT_TEXT 160
#define RF_CHALLENGE_SIZE (RF_HANDSHAKE_HEADER + RF_NONCE_BYTES)
#define RF_REPLY_SIZE (RF_HANDSHAKE_HEADER + RF_NONCE_BYTES + RF_HANDSHAKE_WHO + RF_HANDSHAKE_MAC)
#define RF_ACCEPT_SIZE (RF_HANDSHAKE_HEADER + RF_HANDSHAKE_WHO + RF_HANDSHAKE_MAC)
#define RF_REJECT_SIZE (RF_HANDSHAKE_HEADER + RF_REJECT_TEXT + RF_HANDSHAKE_MAC)
#define RF_HANDSHAKE_MAX RF_REJECT_SIZE /* the largest of them */

typedef enum rf_handshake_kind {
    RF_HANDSHAKE_CHALLENGE = 1,
    RF_HANDSHAKE_REPLY,
    RF_HANDSHAKE_ACCEPT,
    RF_HANDSHAKE_REJECT,
    RF_HANDSHAKE_REFUSED
} rf_handshake_kind;

/* One side. Versions are fields so that tests can pretend to be another version. */
typedef struct rf_identity {
    rf_hello hello;
    char job[64];
    uint64_t epoch;
    uint16_t protocol;
    uint32_t wire;
    bool secure, encrypt;
    uint8_t key[RF_JOB_KEY_BYTES];
} rf_identity;

rf_result rf_identity_init(rf_identity *identity, const rf_job *job, const rf_hello *hello);

/* Keys of the two directions of one connection. */
typedef struct rf_session {
    uint8_t to_listener[RF_JOB_KEY_BYTES], to_connector[RF_JOB_KEY_BYTES];
} rf_session;

/* Looks at the first RF_HANDSHAKE_HEADER bytes. RF_ERROR_CORRUPT_DATA when they are not ours, RF_ERROR_INVALID_ARGUMENT
 * for another protocol version. *size is the message's size, checked against its kind. `who` begins the messages. */
rf_result rf_handshake_peek(const rf_identity *mine, const uint8_t *header, const char *who, rf_handshake_kind *kind,
                            size_t *size);

void rf_handshake_challenge(const rf_identity *mine, const uint8_t nonce[RF_NONCE_BYTES],
                            uint8_t out[RF_CHALLENGE_SIZE]);
/* The connector's answer. When it fails because versions differ, *out_size bytes still tell the listener so. */
rf_result rf_handshake_reply(const rf_identity *mine, const char *who, const uint8_t challenge[RF_CHALLENGE_SIZE],
                             const uint8_t nonce[RF_NONCE_BYTES], uint8_t out[RF_REPLY_SIZE], size_t *out_size);

/* How informative a reason for a rejection is. */
typedef enum rf_rejection_weight {
    RF_REJECTION_NONE,
    RF_REJECTION_NOISE,    /* a stranger: silent, or of another protocol */
    RF_REJECTION_UNPROVEN, /* speaks the protocol, but another version or with another idea of security */
    RF_REJECTION_KEY,      /* has another key */
    RF_REJECTION_AUTHENTIC /* holds the key, and belongs elsewhere */
} rf_rejection_weight;

typedef struct rf_handshake_verdict {
    bool accepted;
    rf_rejection_weight weight; /* when not accepted */
    char reason[RF_REJECT_TEXT];
    rf_hello peer; /* when accepted */
    rf_session session;
    uint8_t message[RF_HANDSHAKE_MAX]; /* to send, before closing when not accepted */
    size_t message_size;               /* 0: nothing to say */
} rf_handshake_verdict;

/* The listener judges a reply by its first RF_HANDSHAKE_HEADER bytes: `accepted` when the rest is worth waiting for. */
void rf_handshake_screen(const rf_identity *mine, const char *who, const uint8_t *header, rf_handshake_verdict *out);
/* The listener judges all RF_REPLY_SIZE bytes, the first of which passed rf_handshake_screen(). */
rf_result rf_handshake_judge(const rf_identity *mine, const char *who, const uint8_t challenge[RF_CHALLENGE_SIZE],
                             const uint8_t reply[RF_REPLY_SIZE], rf_handshake_verdict *out);

/* The connector judges the listener's last message: `size` bytes that rf_handshake_peek() let pass. */
rf_result rf_handshake_conclude(const rf_identity *mine, const char *who, const uint8_t challenge[RF_CHALLENGE_SIZE],
                                const uint8_t reply[RF_REPLY_SIZE], const uint8_t *message, size_t size, rf_hello *peer,
                                rf_session *session);

#endif
