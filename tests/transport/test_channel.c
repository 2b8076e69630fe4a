/* SPDX-License-Identifier: Apache-2.0 */
/* Channels between honest sides, and between sides that do not belong together. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/platform.h"
#include "channel_support.h"
#include "transport/frame.h"

static void expect_frame(rf_channel *c, uint16_t type, const void *bytes, size_t size)
{
    uint16_t got_type;
    const void *body;
    size_t got_size;
    assert_int_equal(rf_channel_receive(c, &got_type, &body, &got_size, 10 * SECOND), RF_OK);
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
    /* More pieces than one system call takes. */
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

static void test_insecure(void **state)
{
    (void)state;
    exchange_frames(INSECURE);
}

static void test_signed(void **state)
{
    (void)state;
    exchange_frames(SIGNED);
}

static void test_encrypted(void **state)
{
    (void)state;
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

static void test_big_frames(void **state)
{
    (void)state;
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

static void test_rejections(void **state)
{
    (void)state;
    for (security s = INSECURE; s <= ENCRYPTED; s++) {
        const rf_job job = test_job(s);
        const rf_hello hello = test_hello(3, 4), other_world = test_hello(3, 8);
        rf_job other = job;
        strcpy(other.name, "bert");
        expect_rejection(&job, &other, &hello,
                         "turned this worker away: rank 3 belongs to job 'bert', this is job 'resnet'",
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_insecure),   cmocka_unit_test(test_signed),     cmocka_unit_test(test_encrypted),
        cmocka_unit_test(test_big_frames), cmocka_unit_test(test_rejections),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
