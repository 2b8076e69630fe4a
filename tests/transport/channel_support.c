/* SPDX-License-Identifier: Apache-2.0 */
#include "channel_support.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cmocka.h>

rf_job test_job(security s)
{
    rf_job job = { .world_size = 4, .name = "resnet", .epoch = 7, .secure = s != INSECURE, .encrypt = s == ENCRYPTED };
    for (uint8_t i = 0; s != INSECURE && i < RF_JOB_KEY_BYTES; i++) job.key[i] = (uint8_t)(i * 7 + 1);
    return job;
}

rf_hello test_hello(uint32_t rank, uint32_t world_size)
{
    return (rf_hello){ .role = "worker", .rank = rank, .world_size = world_size, .incarnation = 1000 + rank };
}

rf_listener *test_listener(const rf_job *job)
{
    rf_listener *listener;
    const rf_hello hello = test_hello(0, 4);
    assert_int_equal(rf_listener_create(job, "127.0.0.1", 0, &hello, &listener), RF_OK);
    return listener;
}

void test_pair(const rf_job *job, rf_listener *listener, rf_channel **connector, rf_channel **accepted)
{
    const rf_hello hello = test_hello(3, 4);
    assert_int_equal(rf_channel_connect(job, "127.0.0.1", rf_listener_port(listener), &hello, 10 * SECOND, connector),
                     RF_OK);
    assert_int_equal(rf_listener_accept(listener, 10 * SECOND, accepted), RF_OK);
}

int raw_connect(uint16_t port, unsigned host)
{
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return -1;
    const struct timeval patience = { .tv_sec = 10 };
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    const struct sockaddr_in from = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f000000u | host) };
    const struct sockaddr_in to = { .sin_family = AF_INET,
                                    .sin_port = htons(port),
                                    .sin_addr.s_addr = htonl(0x7f000001u) };
    if (bind(fd, (const struct sockaddr *)&from, sizeof(from)) == 0 &&
        connect(fd, (const struct sockaddr *)&to, sizeof(to)) == 0)
        return fd;
    close(fd);
    return -1;
}

size_t raw_receive(int fd, void *bytes, size_t size)
{
    size_t have = 0;
    while (have < size) {
        const ssize_t n = recv(fd, (char *)bytes + have, size - have, 0);
        if (n <= 0) break;
        have += (size_t)n;
    }
    return have;
}

void raw_pair(int fd[2])
{
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd), 0);
}

rf_identity test_identity(const rf_job *job, uint32_t rank)
{
    rf_identity identity;
    const rf_hello hello = test_hello(rank, 4);
    assert_int_equal(rf_identity_init(&identity, job, &hello), RF_OK);
    return identity;
}

bool raw_challenge(int fd, uint8_t challenge[RF_CHALLENGE_SIZE])
{
    return raw_receive(fd, challenge, RF_CHALLENGE_SIZE) == RF_CHALLENGE_SIZE;
}

void raw_reply(const rf_identity *mine, const uint8_t challenge[RF_CHALLENGE_SIZE], uint8_t reply[RF_REPLY_SIZE])
{
    static const uint8_t nonce[RF_NONCE_BYTES] = { 1, 2, 3 };
    /* A test with another version or security answers as if the listener shared them. */
    uint8_t seen[RF_CHALLENGE_SIZE];
    size_t size;
    memcpy(seen, challenge, sizeof(seen));
    if (rf_handshake_reply(mine, "listener", challenge, nonce, reply, &size) == RF_OK) return;
    rf_handshake_challenge(mine, challenge + RF_HANDSHAKE_HEADER, seen);
    assert_int_equal(rf_handshake_reply(mine, "listener", seen, nonce, reply, &size), RF_OK);
}

rf_result raw_handshake(int fd, const rf_identity *mine, rf_session *session)
{
    uint8_t challenge[RF_CHALLENGE_SIZE], reply[RF_REPLY_SIZE], answer[RF_HANDSHAKE_MAX];
    rf_handshake_kind kind;
    size_t size;
    rf_hello peer;
    if (!raw_challenge(fd, challenge)) return RF_ERROR_PEER_LOST;
    raw_reply(mine, challenge, reply);
    if (send(fd, reply, sizeof(reply), MSG_NOSIGNAL) != (ssize_t)sizeof(reply)) return RF_ERROR_PEER_LOST;
    if (raw_receive(fd, answer, RF_HANDSHAKE_HEADER) != RF_HANDSHAKE_HEADER) return RF_ERROR_PEER_LOST;
    const rf_result r = rf_handshake_peek(mine, answer, "listener", &kind, &size);
    if (r < 0) return r;
    if (raw_receive(fd, answer + RF_HANDSHAKE_HEADER, size - RF_HANDSHAKE_HEADER) != size - RF_HANDSHAKE_HEADER)
        return RF_ERROR_PEER_LOST;
    return rf_handshake_conclude(mine, "listener", challenge, reply, answer, size, &peer, session);
}

int open_descriptors_now(void)
{
    int count = 0;
    DIR *directory = opendir("/proc/self/fd");
    assert_non_null(directory);
    while (readdir(directory)) count++;
    closedir(directory);
    return count;
}

uint64_t random_next(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15ull;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
}
