/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of channels share: jobs, connected pairs, raw connections that say what a test wants. */
#ifndef RF_TESTS_CHANNEL_SUPPORT_H
#define RF_TESTS_CHANNEL_SUPPORT_H

#include "transport/channel.h"
#include "transport/handshake.h"

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

int open_descriptors_now(void);
/* Deterministic: splitmix64. */
uint64_t random_next(uint64_t *state);

#endif
