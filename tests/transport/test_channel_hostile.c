/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A listener among strangers. The kinds of hostile connections are drawn from a seed; while they come, an honest worker
 * must join within two seconds, no other may, and nothing may be left behind.
 *
 *   test_channel_hostile [CONNECTIONS [SEED]]     default 3000 and 1; the long run: ./dev hostile
 */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/platform.h"
#include "channel_support.h"
#include "tests/room.h"
#include "transport/channel/frame.h"
#include "transport/channel/socket.h"
#include "transport/channel/wire.h"

#define SLOW 1000
#define POOL 600

static uint64_t connections = 3000, seed = 1;

static double honest_join(const rf_job *job, rf_listener *listener)
{
    const uint64_t start = rf_now_ns();
    rf_channel *a, *b;
    test_pair(job, listener, &a, &b);
    const double seconds = (double)(rf_now_ns() - start) * 1e-9;
    assert_int_equal(rf_channel_peer(b)->rank, 3);
    rf_channel_destroy(&a);
    rf_channel_destroy(&b);
    return seconds;
}

static void expect_no_peer(rf_listener *listener)
{
    rf_channel *c;
    assert_int_equal(rf_listener_accept(listener, 0, &c), RF_ERROR_TIMEOUT);
}

/* Says a reply on a connection of its own; true when the listener answers with a whole message of this kind. */
static bool listener_answers(uint16_t port, const uint8_t *reply, size_t size, rf_handshake_kind kind)
{
    uint8_t challenge[RF_CHALLENGE_SIZE], answer[RF_HANDSHAKE_MAX];
    const int fd = raw_connect(port, 2);
    assert_true(fd >= 0);
    assert_true(raw_challenge(fd, challenge));
    assert_int_equal(send(fd, reply, size, MSG_NOSIGNAL), size);
    shutdown(fd, SHUT_WR);
    const size_t got = raw_receive(fd, answer, sizeof(answer));
    close(fd);
    return got >= RF_HANDSHAKE_HEADER && answer[6] == kind;
}

TEST(test_each_byte_of_the_reply)
{
    const rf_job job = test_job(SIGNED);
    const rf_identity mine = test_identity(&job, 3);
    rf_listener *listener = test_listener(&job);
    for (size_t i = 0; i < RF_REPLY_SIZE; i++) {
        uint8_t challenge[RF_CHALLENGE_SIZE], reply[RF_REPLY_SIZE], answer[RF_HANDSHAKE_MAX];
        const int fd = raw_connect(rf_listener_port(listener), 2);
        assert_true(raw_challenge(fd, challenge));
        raw_reply(&mine, challenge, reply);
        reply[i] ^= 0x04;
        assert_int_equal(send(fd, reply, sizeof(reply), MSG_NOSIGNAL), sizeof(reply));
        const size_t got = raw_receive(fd, answer, sizeof(answer));
        assert_true(got == 0 || (got == RF_HANDSHAKE_HEADER && answer[6] == RF_HANDSHAKE_REFUSED));
        close(fd);
    }
    expect_no_peer(listener);
    rf_listener_destroy(&listener);
}

TEST(test_replayed_and_reflected)
{
    const rf_job job = test_job(SIGNED);
    const rf_identity mine = test_identity(&job, 3);
    rf_listener *listener = test_listener(&job);
    const uint16_t port = rf_listener_port(listener);
    uint8_t challenge[RF_CHALLENGE_SIZE], reply[RF_REPLY_SIZE];
    const int fd = raw_connect(port, 2);
    assert_true(raw_challenge(fd, challenge));
    raw_reply(&mine, challenge, reply);
    assert_true(listener_answers(port, reply, sizeof(reply), RF_HANDSHAKE_REFUSED));
    assert_false(listener_answers(port, challenge, sizeof(challenge), RF_HANDSHAKE_ACCEPT));
    for (size_t cut = 0; cut < RF_REPLY_SIZE; cut += 3)
        assert_false(listener_answers(port, reply, cut, RF_HANDSHAKE_ACCEPT));
    expect_no_peer(listener);
    /* It was good where it belonged. */
    assert_int_equal(send(fd, reply, sizeof(reply), MSG_NOSIGNAL), sizeof(reply));
    rf_channel *c;
    assert_int_equal(rf_listener_accept(listener, 10 * SECOND, &c), RF_OK);
    rf_channel_destroy(&c);
    close(fd);
    rf_listener_destroy(&listener);
}

TEST(test_slow_connections)
{
    const rf_job job = test_job(SIGNED);
    rf_listener *listener = test_listener(&job);
    const uint16_t port = rf_listener_port(listener);
    const int before = open_descriptors_now();
    static int fd[SLOW];
    for (int i = 0; i < SLOW; i++) fd[i] = raw_connect(port, 2 + (unsigned)i % 200);
    double slowest = 0;
    for (int round = 0; round < 20; round++) {
        /* Half of them send one more byte of what could become a reply. */
        for (int i = 0; i < SLOW; i += 2)
            if (fd[i] >= 0) (void)!send(fd[i], &"RFCH\1\0\2\1"[round % 8], 1, MSG_NOSIGNAL | MSG_DONTWAIT);
        const double seconds = honest_join(&job, listener);
        if (seconds > slowest) slowest = seconds;
    }
    print_message("1000 slow connections: slowest of 20 honest joins %.3f s\n", slowest);
    assert_true(slowest < 2);
    /* Never more than the bounded number of them held on the other side. */
    assert_true(open_descriptors_now() <= before + SLOW + 512 + 8);
    for (int i = 0; i < SLOW; i++)
        if (fd[i] >= 0) close(fd[i]);
    rf_listener_destroy(&listener);
}

TEST(test_silence_ends)
{
    const rf_job job = test_job(SIGNED);
    rf_listener *listener = test_listener(&job);
    const uint64_t start = rf_now_ns();
    const int silent = raw_connect(rf_listener_port(listener), 2), slow = raw_connect(rf_listener_port(listener), 3);
    uint8_t bytes[RF_CHALLENGE_SIZE + 1];
    /* A byte now and then does not prolong it. */
    while (send(slow, "R", 1, MSG_NOSIGNAL) == 1 && rf_now_ns() - start < 9 * SECOND) poll(NULL, 0, 500);
    assert_true(rf_now_ns() - start < 7 * SECOND);
    assert_int_equal(raw_receive(silent, bytes, sizeof(bytes)), RF_CHALLENGE_SIZE);
    assert_true(rf_now_ns() - start > 4 * SECOND && rf_now_ns() - start < 7 * SECOND);
    char text[200];
    rf_listener_rejection(listener, text, sizeof(text));
    assert_non_null(strstr(text, "connected and sent"));
    close(silent);
    close(slow);
    rf_listener_destroy(&listener);
}

/* ---- a connector among strange listeners ---- */

typedef enum strangeness {
    SAYS_NOTHING_AND_CLOSES,
    SAYS_SOMETHING_ELSE,
    OTHER_PROTOCOL,
    REFLECTS,
    REPLAYS,
    CLOSES_AFTER_REPLY,
    CHANGES_ACCEPT, /* by one byte; must be last */
} strangeness;

typedef struct strange_listener {
    rf_identity identity;
    strangeness kind;
    size_t changed;
    int fd;
    uint8_t old_accept[RF_HANDSHAKE_MAX];
    atomic_bool stop;
} strange_listener;

static void be_strange(strange_listener *l, int fd)
{
    static const uint8_t nonce[RF_NONCE_BYTES] = { 8 };
    uint8_t challenge[RF_CHALLENGE_SIZE], reply[RF_REPLY_SIZE];
    rf_handshake_verdict v;
    if (l->kind == SAYS_NOTHING_AND_CLOSES) return;
    if (l->kind == SAYS_SOMETHING_ELSE) {
        (void)!send(fd, "HTTP/1.1 400 Bad Request\r\n\r\n", 28, MSG_NOSIGNAL);
        return;
    }
    rf_handshake_challenge(&l->identity, nonce, challenge);
    (void)!send(fd, challenge, sizeof(challenge), MSG_NOSIGNAL);
    if (raw_receive(fd, reply, sizeof(reply)) != sizeof(reply) || l->kind == CLOSES_AFTER_REPLY) return;
    if (l->kind == REFLECTS) (void)!send(fd, reply, sizeof(reply), MSG_NOSIGNAL);
    if (l->kind == REPLAYS) (void)!send(fd, l->old_accept, RF_ACCEPT_SIZE, MSG_NOSIGNAL);
    if (l->kind != CHANGES_ACCEPT) return;
    if (rf_handshake_judge(&l->identity, "connector", challenge, reply, &v) < 0 || !v.accepted) return;
    if (l->changed < RF_ACCEPT_SIZE) v.message[l->changed] ^= 0x20;
    (void)!send(fd, v.message, v.message_size, MSG_NOSIGNAL);
}

static void *strange_thread(void *user)
{
    strange_listener *l = user;
    for (;;) {
        struct pollfd p = { .fd = l->fd, .events = POLLIN };
        if (poll(&p, 1, 10) == 0 && atomic_load(&l->stop)) return NULL;
        const int fd = accept4(l->fd, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0) continue;
        fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
        be_strange(l, fd);
        close(fd);
    }
}

/* One whose answers end the attempt is given all the time that a busy machine may need; one that a connector comes back
 * to is given up after a second. */
static rf_result connect_to_stranger(const rf_job *job, strange_listener *l)
{
    pthread_t thread;
    uint16_t port;
    rf_channel *c;
    const rf_hello hello = test_hello(3, 4);
    const bool comes_back = l->kind == SAYS_NOTHING_AND_CLOSES || l->kind == CLOSES_AFTER_REPLY;
    assert_int_equal(rf_socket_listen("127.0.0.1", 0, &l->fd, &port), RF_OK);
    atomic_store(&l->stop, false);
    assert_int_equal(pthread_create(&thread, NULL, strange_thread, l), 0);
    const rf_result r = rf_channel_connect(job, "127.0.0.1", port, &hello, comes_back ? SECOND : 60 * SECOND, &c);
    rf_channel_destroy(&c);
    atomic_store(&l->stop, true);
    pthread_join(thread, NULL);
    close(l->fd);
    return r;
}

TEST(test_strange_listeners)
{
    const rf_job job = test_job(SIGNED);
    const uint8_t nonce[RF_NONCE_BYTES] = { 1 };
    strange_listener l = { .identity = test_identity(&job, 0), .kind = CHANGES_ACCEPT, .changed = SIZE_MAX };
    uint8_t challenge[RF_CHALLENGE_SIZE], reply[RF_REPLY_SIZE];
    rf_handshake_verdict v;
    const rf_identity other = test_identity(&job, 3);
    rf_handshake_challenge(&l.identity, nonce, challenge);
    raw_reply(&other, challenge, reply);
    assert_int_equal(rf_handshake_judge(&l.identity, "connector", challenge, reply, &v), RF_OK);
    memcpy(l.old_accept, v.message, sizeof(l.old_accept));

    assert_int_equal(connect_to_stranger(&job, &l), RF_OK); /* the tools of this test are good */
    l.kind = SAYS_NOTHING_AND_CLOSES;
    assert_int_equal(connect_to_stranger(&job, &l), RF_ERROR_TIMEOUT);
    assert_non_null(strstr(rf_error_message(), "closed the connection"));
    l.kind = SAYS_SOMETHING_ELSE;
    assert_int_equal(connect_to_stranger(&job, &l), RF_ERROR_CORRUPT_DATA);
    assert_non_null(strstr(rf_error_message(), "does not speak Ringfire's protocol"));
    l.kind = REFLECTS;
    assert_int_equal(connect_to_stranger(&job, &l), RF_ERROR_CORRUPT_DATA);
    l.kind = REPLAYS;
    assert_int_equal(connect_to_stranger(&job, &l), RF_ERROR_INVALID_ARGUMENT);
    assert_non_null(strstr(rf_error_message(), "did not prove that it holds the job key"));
    l.kind = CLOSES_AFTER_REPLY;
    assert_int_equal(connect_to_stranger(&job, &l), RF_ERROR_TIMEOUT);
    l.kind = OTHER_PROTOCOL;
    l.identity.protocol = 2;
    assert_int_equal(connect_to_stranger(&job, &l), RF_ERROR_INVALID_ARGUMENT);
    assert_non_null(strstr(rf_error_message(), "has protocol version 2, this is version 1"));
    l.identity.protocol = RF_PROTOCOL_VERSION;
    l.kind = CHANGES_ACCEPT;
    for (l.changed = 0; l.changed < RF_ACCEPT_SIZE; l.changed += l.changed < 16 ? 1 : 5) {
        const rf_result r = connect_to_stranger(&job, &l);
        assert_true(r == RF_ERROR_INVALID_ARGUMENT || r == RF_ERROR_CORRUPT_DATA);
    }
}

/* ---- resources ---- */

typedef struct flood {
    uint16_t port;
    unsigned host;
    uint64_t count;
    atomic_bool *stop;
} flood;

/* Connections as fast as they come, the last few hundred kept open. */
static void *flood_thread(void *user)
{
    flood *f = user;
    int kept[400];
    for (int i = 0; i < 400; i++) kept[i] = -1;
    while (!atomic_load(f->stop)) {
        int *place = &kept[f->count++ % 400];
        if (*place >= 0) rf_socket_reset(*place);
        *place = raw_connect(f->port, f->host);
        if (*place >= 0 && f->count % 2) (void)!send(*place, "RFCH", 4, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    for (int i = 0; i < 400; i++)
        if (kept[i] >= 0) rf_socket_reset(kept[i]);
    return NULL;
}

TEST(test_flood)
{
    const rf_job job = test_job(SIGNED);
    rf_listener *listener = test_listener(&job);
    atomic_bool stop = false;
    flood floods[2];
    pthread_t threads[2];
    for (unsigned i = 0; i < 2; i++) {
        floods[i] = (flood){ rf_listener_port(listener), 2 + i, 0, &stop };
        assert_int_equal(pthread_create(&threads[i], NULL, flood_thread, &floods[i]), 0);
    }
    double slowest = 0;
    const uint64_t start = rf_now_ns();
    int joins = 0;
    while (rf_now_ns() - start < SECOND) {
        const double seconds = honest_join(&job, listener);
        if (seconds > slowest) slowest = seconds;
        joins++;
        poll(NULL, 0, 20);
    }
    atomic_store(&stop, true);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    print_message("%llu connections in a second: slowest of %d honest joins %.3f s\n",
                  (unsigned long long)(floods[0].count + floods[1].count), joins, slowest);
    assert_true(floods[0].count + floods[1].count > 100);
    assert_true(slowest < 2);
    expect_no_peer(listener);
    rf_listener_destroy(&listener);
}

static double process_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

TEST(test_without_descriptors)
{
    const rf_job job = test_job(SIGNED);
    rf_listener *listener = test_listener(&job);
    struct rlimit all, few;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &all), 0);
    /* One descriptor is left, and the connecting side takes it. */
    const int highest = open("/dev/null", O_RDONLY | O_CLOEXEC);
    few = (struct rlimit){ (rlim_t)highest + 2, all.rlim_max };
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    const int fd = raw_connect(rf_listener_port(listener), 2);
    if (fd >= 0) {
        const double used = process_seconds();
        struct pollfd p = { .fd = fd, .events = POLLIN };
        const int answered = poll(&p, 1, 500);
        const double busy = process_seconds() - used;
        setrlimit(RLIMIT_NOFILE, &all);
        assert_int_equal(answered, 0);
        assert_true(busy < 0.2); /* it waits, it does not spin */
        uint8_t challenge[RF_CHALLENGE_SIZE];
        assert_true(raw_challenge(fd, challenge));
        close(fd);
    }
    setrlimit(RLIMIT_NOFILE, &all);
    assert_true(fd >= 0);
    close(highest);
    assert_true(honest_join(&job, listener) < 2);
    rf_listener_destroy(&listener);
}

/* ---- the mixture ---- */

typedef struct crowd {
    rf_job job, other_key;
    rf_listener *listener;
    uint16_t port;
    uint64_t random;
    int pool[POOL]; /* connections that are held open */
    uint8_t old_reply[RF_REPLY_SIZE];
    uint64_t handshakes, failures_seen, not_connected;
} crowd;

static uint64_t dice(crowd *c, uint64_t sides)
{
    return random_next(&c->random) % sides;
}

static void say(crowd *c, int fd, const void *bytes, size_t size)
{
    (void)c;
    (void)!send(fd, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void say_noise(crowd *c, int fd)
{
    uint8_t noise[4096];
    const size_t size = dice(c, sizeof(noise)) + 1;
    for (size_t i = 0; i < size; i++) noise[i] = (uint8_t)dice(c, 256);
    if (dice(c, 2)) memcpy(noise, "RFCH\1\0\2\1\270\0\0\0", size < 12 ? size : 12);
    say(c, fd, noise, size);
}

/* Changed, cut, or from another sender. */
static void say_bad_reply(crowd *c, int fd)
{
    uint8_t challenge[RF_CHALLENGE_SIZE], reply[RF_REPLY_SIZE];
    if (!raw_challenge(fd, challenge)) return;
    rf_identity mine = test_identity(&c->job, (uint32_t)dice(c, 4));
    size_t size = sizeof(reply);
    const uint64_t kind = dice(c, 8);
    if (kind == 0) mine = test_identity(&c->other_key, 1);
    if (kind == 1) mine.protocol = (uint16_t)(2 + dice(c, 9));
    if (kind == 2) mine.secure = false;
    raw_reply(&mine, challenge, reply);
    if (kind == 3) reply[dice(c, size)] ^= (uint8_t)(1u << dice(c, 8));
    if (kind == 4) size = dice(c, size);
    if (kind == 5) memcpy(reply, c->old_reply, size);
    if (kind == 6) memcpy(reply, challenge, sizeof(challenge));
    if (kind == 7) rf_put_u64(reply + RF_CHALLENGE_SIZE + 24, dice(c, 1000)); /* another incarnation */
    say(c, fd, reply, size);
}

/* Holds the key and belongs elsewhere: must get a reason. */
static void join_wrongly(crowd *c, int fd)
{
    rf_identity mine = test_identity(&c->job, (uint32_t)dice(c, 4));
    rf_session session;
    const uint64_t kind = dice(c, 5);
    if (kind == 0) mine.job[0] ^= 1;
    if (kind == 1) mine.epoch += 1 + dice(c, 5);
    if (kind == 2) mine.hello.world_size++;
    if (kind == 3) mine.wire += 1 + (uint32_t)dice(c, 100);
    if (kind == 4) mine.hello.rank = 4 + (uint32_t)dice(c, 1u << 31);
    const rf_result r = raw_handshake(fd, &mine, &session);
    if (r == RF_ERROR_PEER_LOST) return; /* evicted */
    assert_int_equal(r, RF_ERROR_INVALID_ARGUMENT);
    assert_non_null(strstr(rf_error_message(), "rejected this worker: "));
}

/* Joins as an honest worker does, then misbehaves; every one of these must be noticed. */
static void join_and_break_frames(crowd *c, int fd)
{
    const rf_identity mine = test_identity(&c->job, 3);
    rf_session session;
    rf_channel *channel;
    if (raw_handshake(fd, &mine, &session) < 0) return;
    c->handshakes++;
    assert_int_equal(rf_listener_accept(c->listener, 10 * SECOND, &channel), RF_OK);
    rf_frame_seal seal;
    uint8_t frame[64];
    size_t size;
    const uint64_t kind = dice(c, 6);
    assert_int_equal(rf_frame_seal_init(&seal, kind == 1 ? session.to_connector : session.to_listener, false), RF_OK);
    if (kind == 0) seal.sequence = 1 + dice(c, 100);
    assert_int_equal(rf_frame_seal_header(&seal, 1, kind == 2 ? 0xffffffffu : 4, frame, &size), RF_OK);
    memcpy(frame + size, "body", 4);
    assert_int_equal(rf_frame_seal_body_tag(&seal, frame, &(rf_bytes){ "body", 4 }, 1, frame + size + 4), RF_OK);
    size += 4 + RF_FRAME_TAG;
    if (kind == 3) frame[dice(c, size)] ^= (uint8_t)(1u << dice(c, 8));
    if (kind == 4)
        for (size_t i = 0; i < size; i++) frame[i] = (uint8_t)dice(c, 256);
    if (kind == 5) size = dice(c, size);
    say(c, fd, frame, size);
    shutdown(fd, SHUT_WR);
    uint16_t type;
    const void *body;
    assert_int_equal(rf_channel_receive(channel, &type, &body, &size, 10 * SECOND),
                     kind == 5 ? RF_ERROR_PEER_LOST : RF_ERROR_CORRUPT_DATA);
    c->failures_seen++;
    rf_channel_destroy(&channel);
    rf_frame_seal_clear(&seal);
}

static void close_somehow(crowd *c, int fd)
{
    if (dice(c, 2)) {
        const struct linger reset = { 1, 0 };
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
    }
    close(fd);
}

static void one_stranger(crowd *c)
{
    const int fd = raw_connect(c->port, 2 + (unsigned)dice(c, 250));
    if (fd < 0) {
        c->not_connected++;
        return;
    }
    switch (dice(c, 8)) {
    case 0: break; /* nothing but the connection */
    case 1: say_noise(c, fd); break;
    case 2: say(c, fd, "GET / HTTP/1.1\r\nHost: x\r\n\r\n", 27); break;
    case 3:
    case 4: say_bad_reply(c, fd); break;
    case 5: join_wrongly(c, fd); break;
    case 6: join_and_break_frames(c, fd); break;
    default: { /* stays, and says a byte now and then */
        int *place = &c->pool[dice(c, POOL)];
        if (*place >= 0) close_somehow(c, *place);
        *place = fd;
        const int other = c->pool[dice(c, POOL)];
        if (other >= 0) say(c, other, "R", 1);
        return;
    }
    }
    close_somehow(c, fd);
}

TEST(test_crowd)
{
    const int before = open_descriptors_now();
    crowd c = { .job = test_job(SIGNED), .other_key = test_job(SIGNED), .random = seed };
    c.other_key.key[0] ^= 0x80;
    for (int i = 0; i < POOL; i++) c.pool[i] = -1;
    c.listener = test_listener(&c.job);
    c.port = rf_listener_port(c.listener);
    uint8_t challenge[RF_CHALLENGE_SIZE];
    const rf_identity mine = test_identity(&c.job, 3);
    const int first = raw_connect(c.port, 2);
    assert_true(raw_challenge(first, challenge));
    raw_reply(&mine, challenge, c.old_reply);
    close(first);

    const uint64_t start = rf_now_ns();
    double slowest = 0;
    for (uint64_t i = 0; i < connections; i++) {
        one_stranger(&c);
        if (i % 500 != 250) continue;
        const double seconds = honest_join(&c.job, c.listener);
        if (seconds > slowest) slowest = seconds;
    }
    expect_no_peer(c.listener);
    assert_int_equal(c.failures_seen, c.handshakes);
    assert_int_equal(c.not_connected, 0);
    assert_true(connections < 100 || c.handshakes > connections / 20);
    print_message("%llu hostile connections, seed %llu, %.1f s: %llu with the key, all found out; slowest honest join "
                  "%.3f s\n",
                  (unsigned long long)connections, (unsigned long long)seed, (double)(rf_now_ns() - start) * 1e-9,
                  (unsigned long long)c.handshakes, slowest);
    assert_true(slowest < 2);
    for (int i = 0; i < POOL; i++)
        if (c.pool[i] >= 0) close(c.pool[i]);
    rf_listener_destroy(&c.listener);
    assert_int_equal(open_descriptors_now(), before);
}

TEST_PROGRAM(channel_hostile)
{
    if (argc > 1) connections = strtoull(argv[1], NULL, 10);
    if (argc > 2) seed = strtoull(argv[2], NULL, 10);
    return room_tests_run(own_tests, NULL, NULL);
}
