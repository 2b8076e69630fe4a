/* SPDX-License-Identifier: Apache-2.0 */
/* Failures while a job comes together: each error has its name, arrives in time, and reaches everybody who joined. */
#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../support/port.h"
#include "base/platform.h"
#include "mesh_support.h"
#include "tests/room.h"
#include "transport/channel/channel.h"
#include "transport/mesh/message.h"

static void set_timeouts(fleet *f, uint64_t ns)
{
    for (uint32_t r = 0; r < f->world; r++) f->jobs[r].bootstrap_timeout_ns = ns;
}

/* Each rank outside `but` failed with `result` and a message with both texts, between `from` and `to` ms after it
 * began. */
static void check_failed(const fleet *f, uint32_t but, rf_result result, const char *text, const char *text2,
                         unsigned from, unsigned to)
{
    for (uint32_t r = 0; r < f->world; r++) {
        if (but >> r & 1) continue;
        const rank_report *report = &f->reports[r];
        const uint64_t took = report->at - report->began;
        if (report->result != result || !strstr(report->message, text) || !strstr(report->message, text2) ||
            took < from * MS || took > to * MS)
            fail_msg("rank %u: result %d after %.0f ms: %s", r, report->result, (double)took * 1e-6, report->message);
    }
}

static void check_joined(fleet *f)
{
    fleet_await(f, 1, 0, 15000);
    f->stop = true;
    fleet_await(f, 3, 0, 5000);
    for (uint32_t r = 0; r < f->world; r++) assert_int_equal(f->reports[r].result, RF_OK);
}

TEST(test_missing_ranks)
{
    fleet *f = fleet_create(4, steady_rank);
    set_timeouts(f, 700 * MS);
    fleet_start_rank(f, 0);
    fleet_start_rank(f, 1);
    fleet_await(f, 3, 12, 5000);
    check_failed(f, 12, RF_ERROR_TIMEOUT, "ranks 2, 3 of 4 did not join within 0.7 s", "", 600, 1700);
    fleet_free(f);
    /* The one who joined says it even where its own patience ends first. */
    f = fleet_create(3, steady_rank);
    set_timeouts(f, 2 * SECOND);
    f->jobs[1].bootstrap_timeout_ns = 600 * MS;
    fleet_start_rank(f, 0);
    sleep_ms(50);
    fleet_start_rank(f, 1);
    fleet_await(f, 3, 5, 1500);
    check_failed(f, 5, RF_ERROR_TIMEOUT, "rank 2 of 3 did not join", "", 500, 1400);
    fleet_free(f);
}

/* Rank 0 was told loopback; the others know another address of its host. */
TEST(test_told_loopback)
{
    for (int stays = 0; stays < 2; stays++) {
        fleet *f = fleet_create(3, steady_rank);
        set_timeouts(f, 2 * SECOND);
        snprintf(f->jobs[2].master_address, sizeof(f->jobs[2].master_address), "127.0.0.9");
        if (stays) snprintf(f->jobs[0].bind_address, sizeof(f->jobs[0].bind_address), "127.0.0.1");
        fleet_start(f);
        if (stays) {
            fleet_await(f, 3, 0, 5000);
            check_failed(f, 4, RF_ERROR_TIMEOUT,
                         "rank 2 of 3 did not join within 2 s; rank 0 listens at 127.0.0.1 port ",
                         "(RINGFIRE_BIND on its host changes that)", 1500, 4000);
        } else {
            check_joined(f);
        }
        fleet_free(f);
    }
}

TEST(test_no_master)
{
    fleet *f = fleet_create(2, steady_rank);
    set_timeouts(f, 500 * MS);
    fleet_start_rank(f, 1);
    fleet_await(f, 3, 1, 5000);
    char where[64];
    snprintf(where, sizeof(where), "127.0.0.1:%u", f->jobs[0].master_port);
    check_failed(f, 1, RF_ERROR_TIMEOUT, "rank 1 cannot join rank 0 at", where, 300, 1500);
    fleet_free(f);
}

TEST(test_late_master)
{
    fleet *f = fleet_create(3, steady_rank);
    fleet_start_rank(f, 2);
    fleet_start_rank(f, 1);
    sleep_ms(300);
    fleet_start_rank(f, 0);
    check_joined(f);
    fleet_free(f);
}

TEST(test_duplicate)
{
    fleet *f = fleet_create(4, steady_rank);
    f->jobs[3].rank = 2; /* 1, 2 and another 2; the real 3 never comes */
    for (uint32_t r = 0; r < 3; r++) fleet_start_rank(f, r);
    sleep_ms(300);
    fleet_start_rank(f, 3);
    fleet_await(f, 3, 0, 5000);
    check_failed(f, 0, RF_ERROR_INVALID_ARGUMENT, "two processes say they are rank 2: 127.0.0.1:", " and 127.0.0.1:", 0,
                 3000);
    fleet_free(f);
    f = fleet_create(3, steady_rank);
    f->jobs[2].rank = 0; /* finds the port in use */
    fleet_start_rank(f, 0);
    fleet_start_rank(f, 1);
    sleep_ms(200);
    fleet_start_rank(f, 2);
    fleet_await(f, 3, 3, 5000);
    char where[64];
    snprintf(where, sizeof(where), "127.0.0.1:%u", f->jobs[0].master_port);
    check_failed(f, 3, RF_ERROR_IO, "rank 0 cannot listen for the others at", where, 0, 1000);
    fleet_free(f);
}

/* Those who do not belong are told why and do not disturb; who waits for them in vain hears of it. */
TEST(test_strangers)
{
    fleet *f = fleet_create(3, steady_rank);
    set_timeouts(f, 1 * SECOND);
    f->jobs[2].world_size = 4;
    fleet_start(f);
    fleet_await(f, 3, 0, 5000);
    check_failed(f, 4, RF_ERROR_TIMEOUT, "rank 2 of 3 did not join within 1 s (rejected: ", "for a world of 4", 800,
                 2500);
    check_failed(f, 3, RF_ERROR_INVALID_ARGUMENT, "world of 4", "world of 3", 0, 800);
    fleet_free(f);

    f = fleet_create(3, steady_rank);
    set_timeouts(f, 1 * SECOND);
    f->jobs[2].epoch = 4;
    fleet_start(f);
    fleet_await(f, 3, 0, 5000);
    check_failed(f, 4, RF_ERROR_TIMEOUT, "rank 2 of 3 did not join within 1 s (rejected: ", "4", 800, 2500);
    check_failed(f, 3, RF_ERROR_INVALID_ARGUMENT, "rank 2 cannot join rank 0", "", 0, 800);
    fleet_free(f);

    f = fleet_create(2, steady_rank);
    set_timeouts(f, 1 * SECOND);
    f->jobs[1].key[0] ^= 1;
    fleet_start(f);
    fleet_await(f, 3, 0, 5000);
    check_failed(f, 2, RF_ERROR_TIMEOUT, "rank 1 of 2 did not join within 1 s (rejected: ", "key", 800, 2500);
    check_failed(f, 1, RF_ERROR_INVALID_ARGUMENT, "rank 1 cannot join rank 0", "key", 0, 800);
    fleet_free(f);
}

static int raw_connection(uint16_t port)
{
    const struct sockaddr_in address = { .sin_family = AF_INET,
                                         .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                         .sin_port = htons(port) };
    for (int i = 0; i < 2000; i++) {
        const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_true(fd >= 0);
        if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0) return fd;
        close(fd);
        sleep_ms(1);
    }
    return -1;
}

/* Garbage and silence on the master's port delay no rank. */
TEST(test_garbage)
{
    enum { KEPT = 300, STRANGERS = 2000 };
    fleet *f = fleet_create(3, steady_rank);
    int fds[KEPT];
    fleet_start_rank(f, 0);
    for (int i = 0; i < STRANGERS; i++) {
        char waste[300];
        memset(waste, i * 13, sizeof(waste));
        const int fd = raw_connection(f->jobs[0].master_port);
        assert_true(fd >= 0);
        if (i % 2) (void)!send(fd, waste, sizeof(waste), MSG_NOSIGNAL);
        if (i >= KEPT) close(fds[i % KEPT]);
        fds[i % KEPT] = fd;
    }
    const uint64_t before = rf_now_ns();
    fleet_start_rank(f, 1);
    fleet_start_rank(f, 2);
    check_joined(f);
    assert_true(rf_now_ns() - before < 3 * SECOND);
    for (int i = 0; i < KEPT; i++) close(fds[i]);
    fleet_free(f);
}

/* ---- a rank 1 that holds the key and misbehaves ---- */

typedef enum mischief {
    SILENT_AFTER_HANDSHAKE,
    WRONG_MESSAGE,
    HALF_JOIN,
    DEAD_LISTENER,
    GIVES_UP,
    DIES_BEFORE_READY,
    DIES_WHEN_READY
} mischief;

static void misbehave(const fleet *f, mischief what)
{
    const rf_hello hello = { .role = "worker", .rank = 1, .world_size = f->world, .incarnation = 99 };
    rf_channel *channel = NULL;
    assert_int_equal(rf_channel_connect(&f->jobs[1], "127.0.0.1", f->jobs[0].master_port, &hello, 5 * SECOND, &channel),
                     RF_OK);
    rf_mesh_join join = { .port = free_port(), .address = "127.0.0.1", .host = "elsewhere" };
    rf_mesh_failure failure = { .culprit = 1, .result = RF_ERROR_IO, .reason = "the disk of rank 1 burns" };
    uint8_t data[RF_MESH_FAILURE_MAX], reply[RF_MESH_JOIN_MAX];
    rf_bytes part = { data, rf_mesh_encode_failure(&failure, data) };
    const rf_bytes join_part = { reply, rf_mesh_encode_join(&join, reply) };
    uint16_t type = 0;
    const void *body;
    size_t size;
    switch (what) {
    case SILENT_AFTER_HANDSHAKE: break;
    case WRONG_MESSAGE: assert_int_equal(rf_channel_send(channel, RF_MESH_GO, NULL, 0, SECOND), RF_OK); break;
    case HALF_JOIN:
        part = (rf_bytes){ reply, join_part.size - 1 };
        assert_int_equal(rf_channel_send(channel, RF_MESH_JOIN, &part, 1, SECOND), RF_OK);
        break;
    case GIVES_UP:
    case DEAD_LISTENER:
    case DIES_BEFORE_READY:
    case DIES_WHEN_READY:
        assert_int_equal(rf_channel_send(channel, RF_MESH_JOIN, &join_part, 1, SECOND), RF_OK);
        while (type != RF_MESH_TABLE)
            assert_int_equal(rf_channel_receive(channel, &type, &body, &size, 5 * SECOND), RF_OK);
        if (what == DIES_WHEN_READY) assert_int_equal(rf_channel_send(channel, RF_MESH_READY, NULL, 0, SECOND), RF_OK);
        if (what == GIVES_UP) assert_int_equal(rf_channel_send(channel, RF_MESH_FAILED, &part, 1, SECOND), RF_OK);
        break;
    }
    const bool dies = what == DIES_BEFORE_READY || what == DIES_WHEN_READY;
    if (dies) sleep_ms(100);
    while (!dies && rf_channel_receive(channel, &type, &body, &size, 5 * SECOND) == RF_OK) {}
    rf_channel_destroy(&channel);
}

TEST(test_mischief)
{
    const struct {
        mischief what;
        rf_result result;
        const char *text;
        unsigned from, to;
    } cases[] = {
        { SILENT_AFTER_HANDSHAKE, RF_ERROR_TIMEOUT, "rank 1 of 3 did not join within 1 s", 800, 2500 },
        { WRONG_MESSAGE, RF_ERROR_CORRUPT_DATA, "rank 1 (127.0.0.1:", 0, 950 },
        { HALF_JOIN, RF_ERROR_CORRUPT_DATA, "join message", 0, 950 },
        { DEAD_LISTENER, RF_ERROR_TIMEOUT, "rank", 800, 2500 },
        { GIVES_UP, RF_ERROR_IO, "rank 1 (127.0.0.1) could not join: the disk of rank 1 burns", 0, 2000 },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        fleet *f = fleet_create(3, steady_rank);
        set_timeouts(f, 1 * SECOND);
        fleet_start_rank(f, 0);
        fleet_start_rank(f, 2);
        sleep_ms(200);
        misbehave(f, cases[i].what);
        fleet_await(f, 3, 2, 5000);
        check_failed(f, 2, cases[i].result, cases[i].text, "", cases[i].from, cases[i].to);
        fleet_free(f);
    }
}

/* A worker that dies while others are still awaited: who has joined knows at once, not when the time is over. */
TEST(test_killed_while_waiting)
{
    for (uint32_t victim = 1; victim < 4; victim++) {
        fleet *f = fleet_create(5, steady_rank);
        char name[32];
        for (uint32_t r = 0; r < 4; r++) fleet_start_rank(f, r);
        sleep_ms(500);
        const uint64_t killed = rf_now_ns();
        kill(f->pids[victim], SIGKILL);
        fleet_await(f, 3, 1u << victim | 16, 5000);
        snprintf(name, sizeof(name), "rank %u (127.0.0.1:", victim);
        check_failed(f, 1u << victim | 16, RF_ERROR_PEER_LOST, name, "was lost while the job was assembling", 0, 1500);
        for (uint32_t r = 0; r < 4; r++)
            if (r != victim) assert_true(f->reports[r].at - killed < SECOND);
        fleet_free(f);
    }
}

/* The same between joining and the beginning: rank 1 knows nothing of the others yet, or is ready. */
TEST(test_dies_after_the_table)
{
    static const mischief cases[] = { DIES_BEFORE_READY, DIES_WHEN_READY };
    for (int i = 0; i < 2; i++) {
        fleet *f = fleet_create(4, steady_rank);
        fleet_start_rank(f, 0);
        fleet_start_rank(f, 2);
        fleet_start_rank(f, 3);
        sleep_ms(200);
        misbehave(f, cases[i]);
        const uint64_t died = rf_now_ns();
        fleet_await(f, 3, 2, 5000);
        check_failed(f, 2, RF_ERROR_PEER_LOST, "rank 1 (127.0.0.1", "was lost while the job was assembling", 0, 2500);
        for (uint32_t r = 0; r < 4; r++)
            if (r != 1) assert_true((int64_t)(f->reports[r].at - died) < (int64_t)SECOND);
        fleet_free(f);
    }
}

/* ---- a rank 2 that connects twice ---- */

static rf_channel *connect_by_hand(const fleet *f, uint16_t port)
{
    const rf_hello hello = { .role = "worker", .rank = 2, .world_size = f->world, .incarnation = 99 };
    rf_channel *channel = NULL;
    assert_int_equal(rf_channel_connect(&f->jobs[2], "127.0.0.1", port, &hello, 5 * SECOND, &channel), RF_OK);
    return channel;
}

static void receive_until(rf_channel *channel, rf_mesh_frame wanted, const void **body, size_t *size)
{
    for (uint16_t type = UINT16_MAX; type != wanted;)
        assert_int_equal(rf_channel_receive(channel, &type, body, size, 5 * SECOND), RF_OK);
}

/* A handshake that ends only when the rank that began it has given it up: its connection looks complete to the lower
 * rank, which then says that it is ready. The next one is the one that counts. */
TEST(test_given_up_late)
{
    fleet *f = fleet_create(3, steady_rank);
    const void *body;
    size_t size;
    uint8_t data[RF_MESH_JOIN_MAX];
    fleet_start_rank(f, 0);
    fleet_start_rank(f, 1);
    rf_channel *master = connect_by_hand(f, f->jobs[0].master_port);
    const rf_mesh_join join = { .port = free_port(), .address = "127.0.0.1", .host = "elsewhere" };
    const rf_bytes part = { data, rf_mesh_encode_join(&join, data) };
    assert_int_equal(rf_channel_send(master, RF_MESH_JOIN, &part, 1, SECOND), RF_OK);
    rf_mesh_member members[3];
    rf_mesh_table table = { .count = 3, .members = members };
    receive_until(master, RF_MESH_TABLE, &body, &size);
    assert_int_equal(rf_mesh_decode_table(body, size, &table), RF_OK);
    rf_channel *first = connect_by_hand(f, members[1].port);
    sleep_ms(300); /* rank 1 is ready */
    rf_channel_destroy(&first);
    rf_channel *second = connect_by_hand(f, members[1].port);
    assert_int_equal(rf_channel_send(master, RF_MESH_READY, NULL, 0, SECOND), RF_OK);
    receive_until(master, RF_MESH_GO, &body, &size);
    receive_until(second, RF_MESH_HEARTBEAT, &body, &size);
    rf_channel *both[] = { master, second };
    const rf_bytes goodbye = { data, RF_MESH_GOODBYE_BYTES };
    rf_mesh_encode_goodbye(0, data);
    for (int i = 0; i < 2; i++) assert_int_equal(rf_channel_send(both[i], RF_MESH_GOODBYE, &goodbye, 1, SECOND), RF_OK);
    fleet_await(f, 1, 4, 5000);
    f->stop = true;
    fleet_await(f, 3, 4, 5000);
    for (uint32_t r = 0; r < 2; r++) assert_int_equal(f->reports[r].result, RF_OK);
    rf_channel_destroy(&second);
    rf_channel_destroy(&master);
    fleet_free(f);
}

/* The same with rank 0: the process that gave up its first connection comes back. */
TEST(test_given_up_joining)
{
    fleet *f = fleet_create(3, steady_rank);
    fleet_start_rank(f, 0);
    rf_channel *first = connect_by_hand(f, f->jobs[0].master_port);
    sleep_ms(100);
    rf_channel_destroy(&first);
    sleep_ms(100);
    fleet_start_rank(f, 1);
    fleet_start_rank(f, 2);
    check_joined(f);
    fleet_free(f);
}

TEST(test_master_dies)
{
    fleet *f = fleet_create(3, steady_rank);
    fleet_start_rank(f, 0);
    fleet_start_rank(f, 1);
    sleep_ms(300);
    kill(f->pids[0], SIGKILL);
    fleet_await(f, 3, 5, 1000);
    check_failed(f, 5, RF_ERROR_PEER_LOST, "rank 0 (127.0.0.1:", "was lost while the job was assembling", 0, 1500);
    fleet_free(f);
}

TEST(test_contradictions)
{
    rf_job job = { .rank = 2, .world_size = 2 };
    rf_mesh *mesh;
    assert_int_equal(rf_mesh_create(&job, &mesh), RF_ERROR_INVALID_ARGUMENT);
    assert_null(mesh);
    job = (rf_job){ .rank = 0, .world_size = 1 };
    assert_int_equal(rf_mesh_create(&job, &mesh), RF_ERROR_INVALID_ARGUMENT);
    assert_null(mesh);
}

/* Failing leaves no descriptors, threads or memory behind: ranks are threads here, so sanitizers see it. */
TEST(test_leaks)
{
    const int before = open_descriptors();
    fleet *f = fleet_create(3, steady_rank);
    set_timeouts(f, 300 * MS);
    f->jobs[2].epoch++;
    fleet_run_threads(f);
    check_failed(f, 4, RF_ERROR_TIMEOUT, "rank 2 of 3 did not join", "", 200, 1500);
    fleet_free(f);
    assert_int_equal(open_descriptors(), before);
}

static void bound_rank(fleet *f, uint32_t rank)
{
    rf_mesh *mesh;
    if (!rank_join(f, rank, &mesh)) return;
    for (uint32_t r = 0; r < f->world; r++) {
        char expected[32];
        snprintf(expected, sizeof(expected), "127.0.0.%u", r + 1);
        if (strcmp(rf_mesh_address(mesh, r), expected) != 0) f->reports[rank].callbacks++;
    }
    rank_leave(f, rank, &mesh);
}

/* Each listens on an address of its own; rank 0 is found under the wildcard. */
TEST(test_bind)
{
    fleet *f = fleet_create(3, bound_rank);
    snprintf(f->jobs[0].bind_address, sizeof(f->jobs[0].bind_address), "0.0.0.0");
    snprintf(f->jobs[1].bind_address, sizeof(f->jobs[0].bind_address), "127.0.0.2");
    snprintf(f->jobs[2].bind_address, sizeof(f->jobs[0].bind_address), "127.0.0.3");
    fleet_start(f);
    fleet_await(f, 3, 0, 5000);
    for (uint32_t r = 0; r < 3; r++) {
        if (f->reports[r].result < 0) fail_msg("rank %u: %s", r, f->reports[r].message);
        assert_int_equal(f->reports[r].callbacks, 0);
    }
    fleet_free(f);
}

/* IPv6, and a host name instead of an address. */
TEST(test_other_addresses)
{
    const char *const addresses[] = { "localhost", "::1" };
    const struct sockaddr_in6 loopback = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT };
    const int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const bool six = fd >= 0 && bind(fd, (const struct sockaddr *)&loopback, sizeof(loopback)) == 0;
    if (fd >= 0) close(fd);
    for (int i = 0; i < 1 + six; i++) {
        fleet *f = fleet_create(3, steady_rank);
        for (uint32_t r = 0; r < 3; r++)
            snprintf(f->jobs[r].master_address, sizeof(f->jobs[r].master_address), "%s", addresses[i]);
        fleet_start(f);
        check_joined(f);
        fleet_free(f);
    }
}

TEST_PROGRAM(mesh_bootstrap)
{
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    return room_tests_run(own_tests, NULL, NULL);
}
