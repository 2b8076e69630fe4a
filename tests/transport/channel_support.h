/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers that the tests of channels share: jobs, connected pairs, raw connections that say what a test wants. */
#ifndef RF_TESTS_CHANNEL_SUPPORT_H
#define RF_TESTS_CHANNEL_SUPPORT_H

#include "transport/channel/channel.h"
#include "transport/channel/handshake.h"

#define SECOND 1000000000ull

typedef enum security { INSECURE, SIGNED, ENCRYPTED } security;

rf_job test_job(security s);
rf_hello test_hello(uint32_t rank, uint32_t world_size);
/* "127.0.0.1", any port; fails the test when it cannot. */
rf_listener *test_listener(const rf_job *job);
/* Both ends of one connection. */
void test_pair(const rf_job *job, rf_listener *listener, rf_channel **connector, rf_channel **accepted);

/* A plain blocking connection from 127.0.0.<host>, with a receive timeout of 10 s. -1 when it fails. */
int raw_connect(uint16_t port, unsigned host);
/* Bytes until `size` or the end. */
size_t raw_receive(int fd, void *bytes, size_t size);
/* A connection pair without handshake. */
void raw_pair(int fd[2]);

/* A connector's identity of rank 3, to be changed at will. */
rf_identity test_identity(const rf_job *job, uint32_t rank);
/* The connector's side of the handshake up to its reply, with `who` the name in errors. False when the listener closed.
 */
bool raw_challenge(int fd, uint8_t challenge[RF_CHALLENGE_SIZE]);
void raw_reply(const rf_identity *mine, const uint8_t challenge[RF_CHALLENGE_SIZE], uint8_t reply[RF_REPLY_SIZE]);
/* The whole of it. */
rf_result raw_handshake(int fd, const rf_identity *mine, rf_session *session);

int open_descriptors_now(void);
/* Deterministic: splitmix64. */
uint64_t random_next(uint64_t *state);

#endif
