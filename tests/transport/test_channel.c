/* SPDX-License-Identifier: Apache-2.0 */
/* Channels between honest sides, and between sides that do not belong together. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "../support/clock.h"
#include "base/platform.h"
#include "channel_support.h"
#include "tests/room.h"
#include "transport/channel/frame.h"
#include "transport/channel/internal.h"
#include "transport/channel/socket.h"
#include "transport/job/host.h"

static void expect_frame(rf_channel *c, uint16_t type, const void *bytes, size_t size)
{
    uint16_t got_type;
    const void *body;
    size_t got_size;
    assert_int_equal(rf_channel_receive(c, &got_type, &body, &got_size, 10 * SECOND * slowness()), RF_OK);
    assert_int_equal(got_type, type);
    assert_int_equal(got_size, size);
    if (size > 0) assert_memory_equal(body, bytes, size);
}

static void exchange_frames(security s)
{
    const rf_job job = test_job(s);
    rf_listener *listener = test_listener(&job);
    rf_channel *a, *b;
    test_pair(&job, listener, &a, &b);

    assert_string_equal(rf_channel_peer(b)->role, "worker");
    assert_int_equal(rf_channel_peer(b)->rank, 3);
    assert_int_equal(rf_channel_peer(b)->incarnation, 1003);
    assert_int_equal(rf_channel_peer(a)->rank, 0);
    assert_int_equal(rf_channel_peer(a)->world_size, 4);
    assert_memory_equal(rf_channel_peer_address(b), "127.0.0.1:", 10);

    for (int round = 0; round < 3; round++) {
        assert_int_equal(rf_channel_send(a, 5, &(rf_bytes){ "hello", 5 }, 1, SECOND), RF_OK);
        assert_int_equal(rf_channel_send(a, 6, NULL, 0, SECOND), RF_OK);
        const rf_bytes parts[] = { { "one ", 4 }, { NULL, 0 }, { "two ", 4 }, { "three", 5 } };
        assert_int_equal(rf_channel_send(a, 65535, parts, 4, SECOND), RF_OK);
        assert_int_equal(rf_channel_send(b, 7, parts, 1, SECOND), RF_OK);
        expect_frame(b, 5, "hello", 5);
        expect_frame(b, 6, NULL, 0);
        expect_frame(b, 65535, "one two three", 13);
        expect_frame(a, 7, "one ", 4);
    }
    /* More buffers than one system call takes. */
    char text[1000];
    rf_bytes parts[1000];
    for (size_t i = 0; i < 1000; i++) {
        text[i] = (char)(i * 31);
        parts[i] = (rf_bytes){ text + i, 1 };
    }
    for (uint32_t n = 60; n < 70; n++) {
        assert_int_equal(rf_channel_send(a, 1, parts, n, SECOND), RF_OK);
        expect_frame(b, 1, text, n);
    }
    assert_int_equal(rf_channel_send(a, 1, parts, 1000, SECOND), RF_OK);
    expect_frame(b, 1, text, 1000);

    rf_channel_destroy(&a);
    uint16_t type;
    const void *body;
    size_t size;
    assert_int_equal(rf_channel_receive(b, &type, &body, &size, 10 * SECOND), RF_ERROR_PEER_LOST);
    assert_non_null(strstr(rf_error_message(), "was closed"));
    rf_channel_destroy(&b);
    rf_listener_destroy(&listener);
}

TEST(test_insecure)
{
    exchange_frames(INSECURE);
}

TEST(test_signed)
{
    exchange_frames(SIGNED);
}

TEST(test_encrypted)
{
    exchange_frames(ENCRYPTED);
}

typedef struct echo {
    rf_channel *channel;
    uint32_t frames;
    rf_result result;
} echo;

static void *echo_thread(void *user)
{
    echo *e = user;
    for (uint32_t i = 0; i < e->frames && e->result == RF_OK; i++) {
        uint16_t type;
        const void *body;
        size_t size;
        e->result = rf_channel_receive(e->channel, &type, &body, &size, 20 * SECOND);
        if (e->result == RF_OK)
            e->result = rf_channel_send(e->channel, type, &(rf_bytes){ body, size }, 1, 20 * SECOND);
    }
    return NULL;
}

static void big_frames(security s)
{
    const rf_job job = test_job(s);
    rf_listener *listener = test_listener(&job);
    rf_channel *a, *b;
    test_pair(&job, listener, &a, &b);
    static const size_t sizes[] = { 1, 65503, 65504, 65505, 65536, 1000003, 9000001, 3 };
    echo e = { b, sizeof(sizes) / sizeof(sizes[0]), RF_OK };
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, echo_thread, &e), 0);
    uint8_t *bytes = malloc(9000001);
    assert_non_null(bytes);
    for (size_t i = 0; i < 9000001; i++) bytes[i] = (uint8_t)(i * 2654435761u >> 13);
    for (uint32_t i = 0; i < e.frames; i++) {
        const size_t half = sizes[i] / 3;
        const rf_bytes parts[] = { { bytes, half }, { bytes + half, sizes[i] - half } };
        assert_int_equal(rf_channel_send(a, (uint16_t)i, parts, 2, 20 * SECOND), RF_OK);
        expect_frame(a, (uint16_t)i, bytes, sizes[i]);
    }
    pthread_join(thread, NULL);
    assert_int_equal(e.result, RF_OK);
    const rf_bytes too_much[] = { { bytes, 1 }, { bytes, RF_FRAME_MAX_BODY } };
    assert_int_equal(rf_channel_send(a, 1, too_much, 2, SECOND), RF_ERROR_INVALID_ARGUMENT);
    free(bytes);
    rf_channel_destroy(&a);
    rf_channel_destroy(&b);
    rf_listener_destroy(&listener);
}

TEST(test_big_frames)
{
    for (security s = INSECURE; s <= ENCRYPTED; s++) big_frames(s);
}

/* Connects with one thing different; returns the result and checks what both sides say. */
static void expect_rejection(const rf_job *ours, const rf_job *theirs, const rf_hello *hello,
                             const char *connector_says, const char *listener_says)
{
    rf_listener *listener = test_listener(ours);
    rf_channel *c;
    char text[256];
    rf_listener_rejection(listener, text, sizeof(text));
    assert_string_equal(text, "");
    assert_int_equal(rf_channel_connect(theirs, "127.0.0.1", rf_listener_port(listener), hello, 10 * SECOND, &c),
                     RF_ERROR_INVALID_ARGUMENT);
    assert_null(c);
    if (!strstr(rf_error_message(), connector_says)) fail_msg("connector says: %s", rf_error_message());
    for (int i = 0; i < 200 && text[0] == '\0'; i++) {
        poll(NULL, 0, 10);
        rf_listener_rejection(listener, text, sizeof(text));
    }
    if (!strstr(text, listener_says)) fail_msg("listener says: %s", text);
    assert_int_equal(rf_listener_accept(listener, 0, &c), RF_ERROR_TIMEOUT);
    rf_listener_destroy(&listener);
}

TEST(test_rejections)
{
    for (security s = INSECURE; s <= ENCRYPTED; s++) {
        const rf_job job = test_job(s);
        const rf_hello hello = test_hello(3, 4), other_world = test_hello(3, 8);
        rf_job other = job;
        strcpy(other.name, "bert");
        expect_rejection(&job, &other, &hello,
                         "rejected this worker: rank 3 belongs to job 'bert', this is job 'resnet'",
                         "rank 3 belongs to job 'bert', this is job 'resnet'");
        other = job;
        other.epoch = 6;
        expect_rejection(&job, &other, &hello, "rank 3 is in epoch 6 of the job, this is epoch 7",
                         "rank 3 is in epoch 6");
        expect_rejection(&job, &job, &other_world, "rank 3 was started for a world of 8, this is a world of 4",
                         "rank 3 was");
    }
    const rf_hello hello = test_hello(2, 4);
    const rf_job insecure = test_job(INSECURE), with_key = test_job(SIGNED), encrypted = test_job(ENCRYPTED);
    expect_rejection(&with_key, &encrypted, &hello, "rank 2 encrypts, rank 0 does not", "rank 2 encrypts");
    expect_rejection(&encrypted, &with_key, &hello, "rank 2 does not encrypt, rank 0 does", "rank 2 does not");
    expect_rejection(&with_key, &insecure, &hello, "has a job key, this worker has no job key",
                     "has no job key (insecure)");
    expect_rejection(&insecure, &with_key, &hello, "has no job key (insecure), this worker has a job key",
                     "has a job key");
    rf_job other_key = with_key;
    other_key.key[31] ^= 1;
    expect_rejection(&with_key, &other_key, &hello, "has another job key", "has another job key");
}

/* ---- half frames, deadlines, ends ---- */

/* A channel on one end, raw bytes on the other; `seal` writes what the channel takes for its peer's. */
static rf_channel *half_raw_channel(security s, int *raw, rf_frame_seal *seal)
{
    static const uint8_t key[RF_JOB_KEY_BYTES] = { 9 };
    const rf_hello peer = test_hello(1, 4);
    int fd[2];
    rf_channel *c;
    raw_pair(fd);
    const uint8_t *k = s == INSECURE ? NULL : key;
    assert_int_equal(rf_channel_make(&(rf_channel_start){ fd[0], "peer", &peer, k, k, s == ENCRYPTED }, &c), RF_OK);
    assert_int_equal(rf_frame_seal_init(seal, k, false), RF_OK);
    *raw = fd[1];
    return c;
}

static size_t small_frame(rf_frame_seal *seal, uint8_t out[64])
{
    size_t size;
    const rf_bytes body = { "half", 4 };
    assert_int_equal(rf_frame_seal_header(seal, 3, 4, out, &size), RF_OK);
    memcpy(out + size, body.data, 4);
    assert_int_equal(rf_frame_seal_body_tag(seal, out, &body, 1, out + size + 4), RF_OK);
    rf_frame_seal_next(seal);
    return size + 4 + RF_FRAME_TAG;
}

TEST(test_half_frames)
{
    rf_frame_seal seal;
    int raw;
    rf_channel *c = half_raw_channel(SIGNED, &raw, &seal);
    uint8_t frame[64];
    uint16_t type;
    const void *body;
    size_t size;
    for (int round = 0; round < 2; round++) {
        const size_t n = small_frame(&seal, frame);
        for (size_t i = 0; i < n; i++) {
            (void)!(RF_FAIL(RF_ERROR_INTERNAL, "untouched") == RF_OK);
            assert_int_equal(rf_channel_receive(c, &type, &body, &size, 0), RF_ERROR_TIMEOUT);
            assert_string_equal(rf_error_message(), "untouched");
            assert_int_equal(write(raw, frame + i, 1), 1);
        }
        assert_int_equal(rf_channel_receive(c, &type, &body, &size, 0), RF_OK);
        assert_int_equal(type, 3);
        assert_memory_equal(body, "half", 4);
        assert_int_equal(rf_channel_receive(c, &type, &body, &size, 0), RF_ERROR_TIMEOUT);
    }
    /* A wait that ends in the middle keeps the first half too. */
    const size_t n = small_frame(&seal, frame);
    assert_int_equal(write(raw, frame, 40), 40);
    assert_int_equal(rf_channel_receive(c, &type, &body, &size, SECOND / 50), RF_ERROR_TIMEOUT);
    assert_non_null(strstr(rf_error_message(), "peer sent no rest of a frame for 0.020 s"));
    assert_int_equal(write(raw, frame + 40, n - 40), n - 40);
    assert_int_equal(rf_channel_receive(c, &type, &body, &size, SECOND), RF_OK);
    /* The end in the middle of one. */
    small_frame(&seal, frame);
    assert_int_equal(write(raw, frame, 5), 5);
    close(raw);
    assert_int_equal(rf_channel_receive(c, &type, &body, &size, SECOND), RF_ERROR_PEER_LOST);
    assert_non_null(strstr(rf_error_message(), "connection to peer was closed in the middle of a frame"));
    assert_int_equal(rf_channel_receive(c, &type, &body, &size, SECOND), RF_ERROR_PEER_LOST);
    rf_channel_destroy(&c);
    rf_frame_seal_clear(&seal);
}

TEST(test_changed_frame_ends_the_channel)
{
    uint8_t frame[64];
    for (size_t i = 0; i < RF_FRAME_HEAD_MAX + 4 + RF_FRAME_TAG; i++) {
        rf_frame_seal seal;
        int raw;
        uint16_t type;
        const void *body;
        size_t size;
        rf_channel *c = half_raw_channel(SIGNED, &raw, &seal);
        const size_t n = small_frame(&seal, frame);
        frame[i] ^= 0x10;
        assert_int_equal(write(raw, frame, n), n);
        assert_int_equal(rf_channel_receive(c, &type, &body, &size, SECOND), RF_ERROR_CORRUPT_DATA);
        assert_int_equal(rf_channel_receive(c, &type, &body, &size, SECOND), RF_ERROR_CORRUPT_DATA);
        assert_int_equal(rf_channel_send(c, 1, NULL, 0, SECOND), RF_ERROR_PEER_LOST);
        rf_channel_destroy(&c);
        close(raw);
        rf_frame_seal_clear(&seal);
    }
}

TEST(test_last_words)
{
    const rf_job job = test_job(SIGNED);
    rf_listener *listener = test_listener(&job);
    rf_channel *a, *b;
    test_pair(&job, listener, &a, &b);
    assert_int_equal(rf_channel_send(b, 1, NULL, 0, SECOND), RF_OK); /* unread when its reader closes */
    assert_int_equal(rf_channel_send(a, 9, &(rf_bytes){ "rank 2 died", 11 }, 1, SECOND), RF_OK);
    rf_channel_destroy(&a);
    rf_result r = RF_OK;
    for (int i = 0; i < 200 && r == RF_OK; i++) {
        r = rf_channel_send(b, 1, NULL, 0, SECOND);
        poll(NULL, 0, 1);
    }
    assert_int_equal(r, RF_ERROR_PEER_LOST);
    expect_frame(b, 9, "rank 2 died", 11);
    rf_channel_destroy(&b);
    /* Nor is lost what waits in the closing side's buffers. */
    char *bytes = calloc(1, 400000);
    assert_non_null(bytes);
    test_pair(&job, listener, &a, &b);
    assert_int_equal(rf_channel_send(b, 1, NULL, 0, SECOND), RF_OK);
    assert_int_equal(rf_channel_send(a, 9, &(rf_bytes){ bytes, 400000 }, 1, SECOND), RF_OK);
    rf_channel_destroy(&a);
    expect_frame(b, 9, bytes, 400000);
    rf_channel_destroy(&b);
    free(bytes);
    rf_listener_destroy(&listener);
}

static double seconds_since(uint64_t start)
{
    return (double)(rf_now_ns() - start) * 1e-9;
}

TEST(test_deadlines)
{
    const rf_job job = test_job(SIGNED);
    const rf_hello hello = test_hello(3, 4);
    rf_listener *listener = test_listener(&job);
    rf_channel *a, *b, *none;
    uint16_t type;
    const void *body;
    size_t size;
    test_pair(&job, listener, &a, &b);

    uint64_t start = rf_now_ns();
    assert_int_equal(rf_channel_receive(a, &type, &body, &size, SECOND / 5), RF_ERROR_TIMEOUT);
    assert_int_equal(rf_listener_accept(listener, SECOND / 5, &none), RF_ERROR_TIMEOUT);
    assert_true(seconds_since(start) >= 0.4 && seconds_since(start) < 2);

    /* A peer that does not read: the sender returns in time, and is done with sending once half a frame is out. */
    char *bytes = calloc(1, 64 << 20);
    assert_non_null(bytes);
    start = rf_now_ns();
    assert_int_equal(rf_channel_send(a, 1, &(rf_bytes){ bytes, 64 << 20 }, 1, SECOND / 5), RF_ERROR_TIMEOUT);
    assert_true(seconds_since(start) >= 0.2 && seconds_since(start) < 5);
    assert_int_equal(rf_channel_send(a, 1, NULL, 0, SECOND), RF_ERROR_TIMEOUT);
    assert_non_null(strstr(rf_error_message(), "has failed before"));
    free(bytes);
    /* ... but can still read. */
    assert_int_equal(rf_channel_send(b, 4, NULL, 0, SECOND), RF_OK);
    expect_frame(a, 4, NULL, 0);
    rf_channel_destroy(&a);
    rf_channel_destroy(&b);

    /* Nothing listens there. */
    const uint16_t port = rf_listener_port(listener);
    rf_listener_destroy(&listener);
    start = rf_now_ns();
    assert_int_equal(rf_channel_connect(&job, "127.0.0.1", port, &hello, SECOND / 5, &none), RF_ERROR_TIMEOUT);
    assert_true(seconds_since(start) < 2);
    assert_non_null(strstr(rf_error_message(), "Connection refused"));
    /* A peer that never says anything. */
    int fd;
    uint16_t silent;
    assert_int_equal(rf_socket_listen("127.0.0.1", 0, &fd, &silent), RF_OK);
    start = rf_now_ns();
    assert_int_equal(rf_channel_connect(&job, "127.0.0.1", silent, &hello, SECOND / 5, &none), RF_ERROR_TIMEOUT);
    assert_true(seconds_since(start) < 2);
    assert_non_null(strstr(rf_error_message(), "does not answer"));
    close(fd);
}

TEST(test_full_channel_stays_whole)
{
    for (security s = INSECURE; s <= ENCRYPTED; s++) {
        const rf_job job = test_job(s);
        rf_listener *listener = test_listener(&job);
        rf_channel *a, *b;
        test_pair(&job, listener, &a, &b);
        /* Without a frame's first byte gone, a timeout costs nothing: frames go on in order. */
        uint32_t sent = 0, got = 0;
        rf_result r = RF_OK;
        while ((r = rf_channel_send(a, 2, &(rf_bytes){ &sent, 4 }, 1, 0)) == RF_OK && sent < 10000000) sent++;
        assert_int_equal(r, RF_ERROR_TIMEOUT);
        while (got < sent) expect_frame(b, 2, &got, 4), got++;
        const rf_result again = rf_channel_send(a, 2, &(rf_bytes){ &sent, 4 }, 1, SECOND);
        if (again == RF_OK)
            expect_frame(b, 2, &sent, 4);
        else
            assert_non_null(strstr(rf_error_message(), "has failed before")); /* it stopped within a frame */
        rf_channel_destroy(&a);
        rf_channel_destroy(&b);
        rf_listener_destroy(&listener);
    }
}

static void *receive_thread(void *user)
{
    echo *e = user;
    uint16_t type;
    const void *body;
    size_t size;
    e->result = rf_channel_receive(e->channel, &type, &body, &size, 30 * SECOND);
    return NULL;
}

TEST(test_shutdown)
{
    const rf_job job = test_job(SIGNED);
    rf_listener *listener = test_listener(&job);
    rf_channel *a, *b;
    test_pair(&job, listener, &a, &b);
    echo e = { .channel = a };
    pthread_t thread;
    const uint64_t start = rf_now_ns();
    assert_int_equal(pthread_create(&thread, NULL, receive_thread, &e), 0);
    poll(NULL, 0, 50);
    rf_channel_shutdown(a);
    pthread_join(thread, NULL);
    assert_int_equal(e.result, RF_ERROR_PEER_LOST);
    assert_true(seconds_since(start) < 5);
    assert_int_equal(rf_channel_send(a, 1, NULL, 0, SECOND), RF_ERROR_PEER_LOST);
    assert_non_null(strstr(rf_error_message(), "shut down by this side"));
    e.channel = b;
    receive_thread(&e);
    assert_int_equal(e.result, RF_ERROR_PEER_LOST);
    rf_channel_destroy(&a);
    rf_channel_destroy(&b);
    rf_listener_destroy(&listener);
}

typedef struct late {
    rf_job job;
    uint16_t port;
    rf_listener *listener;
} late;

static void *late_thread(void *user)
{
    late *l = user;
    const rf_hello hello = test_hello(0, 4);
    poll(NULL, 0, 300);
    if (rf_listener_create(&l->job, "127.0.0.1", l->port, &hello, &l->listener) < 0) l->listener = NULL;
    return NULL;
}

TEST(test_connects_before_the_listener_is_there)
{
    late l = { .job = test_job(SIGNED) };
    rf_listener *first = test_listener(&l.job);
    l.port = rf_listener_port(first);
    rf_listener_destroy(&first);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, late_thread, &l), 0);
    rf_channel *c;
    const rf_hello hello = test_hello(1, 4);
    assert_int_equal(rf_channel_connect(&l.job, "127.0.0.1", l.port, &hello, 20 * SECOND, &c), RF_OK);
    pthread_join(thread, NULL);
    assert_non_null(l.listener);
    rf_channel_destroy(&c);
    rf_listener_destroy(&l.listener);
}

/* ---- addresses and descriptors ---- */

TEST(test_addresses)
{
    const rf_job job = test_job(SIGNED);
    const rf_hello mine = test_hello(0, 4), theirs = test_hello(1, 4);
    static const char *const pairs[][2] = { { "::1", "[::1]" },
                                            { "[::1]", "::1" },
                                            { "0.0.0.0", "127.0.0.1" },
                                            { "::", "127.0.0.1" },
                                            { "127.0.0.1", "localhost" } };
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        rf_listener *listener;
        rf_channel *a, *b;
        if (rf_listener_create(&job, pairs[i][0], 0, &mine, &listener) < 0 && strchr(pairs[i][0], ':'))
            continue; /* no IPv6 */
        assert_int_equal(rf_channel_connect(&job, pairs[i][1], rf_listener_port(listener), &theirs, 10 * SECOND, &a),
                         RF_OK);
        assert_int_equal(rf_listener_accept(listener, 10 * SECOND, &b), RF_OK);
        if (i < 2)
            assert_memory_equal(rf_channel_peer_address(b), "[::1]:", 6);
        else
            assert_memory_equal(rf_channel_peer_address(b), "127.0.0.1:", 10);
        rf_channel_destroy(&a);
        rf_channel_destroy(&b);
        rf_listener_destroy(&listener);
    }
    rf_listener *listener = test_listener(&job), *second;
    assert_int_equal(rf_listener_create(&job, "127.0.0.1", rf_listener_port(listener), &mine, &second), RF_ERROR_IO);
    assert_non_null(strstr(rf_error_message(), "cannot bind address 127.0.0.1 port "));
    assert_non_null(strstr(rf_error_message(), "Address already in use"));
    rf_listener_destroy(&listener);
    assert_int_equal(rf_listener_create(&job, "192.0.2.1", 0, &mine, &second), RF_ERROR_IO);
    assert_int_equal(rf_listener_create(&job, "", 0, &mine, &second), RF_ERROR_INVALID_ARGUMENT);
    assert_int_equal(rf_listener_create(&job, "no such host", 0, &mine, &second), RF_ERROR_NOT_FOUND);
}

TEST(test_descriptors)
{
    const int before = open_descriptors_now();
    const rf_job job = test_job(ENCRYPTED);
    rf_listener *listener = test_listener(&job);
    rf_channel *a, *b, *unfetched;
    test_pair(&job, listener, &a, &b);
    const rf_hello hello = test_hello(2, 4);
    assert_int_equal(rf_channel_connect(&job, "127.0.0.1", rf_listener_port(listener), &hello, SECOND, &unfetched),
                     RF_OK);
    int opened = 0;
    for (int fd = 3; fd < 1000; fd++) {
        const int flags = fcntl(fd, F_GETFD);
        if (flags < 0) continue;
        opened++;
        if (fd == rf_channel_fd(a) || fd == rf_channel_fd(b)) assert_true(flags & FD_CLOEXEC);
    }
    assert_true(open_descriptors_now() >= before + 6);
    assert_true(opened >= 6);
    /* Started programs get none of them. */
    FILE *list = popen("ls /proc/self/fd | wc -l", "r");
    int inherited = -1;
    assert_non_null(list);
    assert_int_equal(fscanf(list, "%d", &inherited), 1);
    pclose(list);
    assert_true(inherited <= before + 1);
    rf_channel_destroy(&a);
    rf_channel_destroy(&b);
    rf_channel_destroy(&unfetched);
    rf_listener_destroy(&listener);
    assert_int_equal(open_descriptors_now(), before);
    rf_channel_destroy(&a);
    rf_listener_destroy(&listener);
}

/* A listener goes elsewhere and keeps its port and those who have joined. */
TEST(test_listener_moves)
{
    const rf_job job = test_job(SIGNED);
    const rf_hello first = test_hello(1, 4), second = test_hello(2, 4);
    rf_listener *listener = test_listener(&job);
    const uint16_t port = rf_listener_port(listener);
    rf_channel *a, *b, *c;
    assert_int_equal(rf_channel_connect(&job, "127.0.0.1", port, &first, 10 * SECOND, &a), RF_OK);
    assert_int_equal(rf_channel_connect(&job, "127.0.0.9", port, &second, SECOND / 10, &b), RF_ERROR_TIMEOUT);
    assert_int_equal(rf_listener_move(listener, RF_ALL_ADDRESSES), RF_OK);
    assert_int_equal(rf_listener_port(listener), port);
    assert_int_equal(rf_channel_connect(&job, "127.0.0.9", port, &second, 10 * SECOND, &b), RF_OK);
    for (uint32_t rank = 1; rank < 3; rank++) {
        assert_int_equal(rf_listener_accept(listener, 10 * SECOND, &c), RF_OK);
        assert_int_equal(rf_channel_peer(c)->rank, rank);
        rf_channel_destroy(&c);
    }
    /* Where that fails it stays where it was. */
    assert_int_equal(rf_listener_move(listener, "203.0.113.9"), RF_ERROR_IO);
    assert_non_null(strstr(rf_error_message(), "203.0.113.9"));
    rf_channel_destroy(&b);
    assert_int_equal(rf_channel_connect(&job, "127.0.0.9", port, &second, 10 * SECOND, &b), RF_OK);
    rf_channel_destroy(&a);
    rf_channel_destroy(&b);
    rf_listener_destroy(&listener);
}

/* A listener for both families sees IPv4 peers, and says so in IPv4's words. */
TEST(test_all_addresses)
{
    const rf_job job = test_job(SIGNED);
    const rf_hello hello = test_hello(3, 4);
    rf_listener *listener;
    rf_channel *a, *b;
    char text[RF_ADDRESS_TEXT];
    assert_int_equal(rf_listener_create(&job, RF_ALL_ADDRESSES, 0, &hello, &listener), RF_OK);
    test_pair(&job, listener, &a, &b);
    assert_int_equal(rf_local_address(rf_channel_fd(b), text, sizeof(text)), RF_OK);
    assert_string_equal(text, "127.0.0.1");
    assert_memory_equal(rf_channel_peer_address(b), "127.0.0.1:", 10);
    rf_channel_destroy(&a);
    rf_channel_destroy(&b);
    rf_listener_destroy(&listener);
}

/* Without descriptors nobody can be accepted: the listener says so within seconds, and to those who wait, too. */
TEST(test_no_descriptors)
{
    const rf_job job = test_job(SIGNED);
    const rf_hello hello = test_hello(3, 4);
    rf_listener *listener = test_listener(&job);
    struct rlimit old;
    int filler[64], used = 0;
    const int waiting = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const struct sockaddr_in to = { .sin_family = AF_INET,
                                    .sin_port = htons(rf_listener_port(listener)),
                                    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &(struct rlimit){ 64, old.rlim_max }), 0);
    while (used < 64 && (filler[used] = dup(0)) >= 0) used++;
    assert_int_equal(connect(waiting, (const struct sockaddr *)&to, sizeof(to)), 0); /* as far as the kernel */
    rf_channel *c;
    const uint64_t begin = rf_now_ns();
    rf_result r = RF_ERROR_TIMEOUT;
    while (r == RF_ERROR_TIMEOUT && rf_now_ns() - begin < 5 * SECOND) r = rf_listener_accept(listener, SECOND / 20, &c);
    const uint64_t took = rf_now_ns() - begin;
    /* Who waits is heard from now on: the challenge comes. */
    uint8_t challenge[RF_CHALLENGE_SIZE];
    const struct timeval patience = { .tv_sec = 5 };
    setsockopt(waiting, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    const bool heard = raw_challenge(waiting, challenge);
    for (int i = 0; i < used; i++) close(filler[i]);
    close(waiting);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
    assert_int_equal(r, RF_ERROR_IO);
    assert_non_null(strstr(rf_error_message(), "cannot accept them; raise 'ulimit -n'"));
    assert_true(took >= SECOND / 2 && took < 3 * SECOND);
    assert_true(heard);
    /* With descriptors again it goes on as if nothing had been. */
    rf_channel *a, *b;
    assert_int_equal(rf_channel_connect(&job, "127.0.0.1", rf_listener_port(listener), &hello, 10 * SECOND, &a), RF_OK);
    assert_int_equal(rf_listener_accept(listener, 10 * SECOND, &b), RF_OK);
    assert_int_equal(rf_listener_accept(listener, SECOND / 20, &c), RF_ERROR_TIMEOUT);
    rf_channel_destroy(&a);
    rf_channel_destroy(&b);
    rf_listener_destroy(&listener);
}

TESTS(channel, NULL, NULL)
