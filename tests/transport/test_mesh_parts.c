/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of the mesh that need neither sockets nor threads: messages, detector, host numbers, operation log. */
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "../skip.h"
#include "base/memory.h"
#include "transport/job/host.h"
#include "transport/mesh/detector.h"
#include "transport/mesh/message.h"
#include "transport/mesh/operations.h"

#define MS UINT64_C(1000000)
#define S UINT64_C(1000000000)

/* ---- messages ---- */

/* Runs a decoder on a copy in a block of its own, so that a sanitizer sees reads beyond the end. */
typedef rf_result (*decode_fn)(const void *data, size_t size);

static rf_result decode_join(const void *data, size_t size)
{
    rf_mesh_join out;
    return rf_mesh_decode_join(data, size, &out);
}
static rf_result decode_table(const void *data, size_t size)
{
    rf_mesh_member members[3];
    rf_mesh_table out = { .count = 3, .members = members };
    return rf_mesh_decode_table(data, size, &out);
}
static rf_result decode_heartbeat(const void *data, size_t size)
{
    rf_mesh_heartbeat out;
    const rf_result r = rf_mesh_decode_heartbeat(data, size, 9, &out);
    for (uint32_t i = 0; r == RF_OK && i < out.num_late; i++) assert_true(rf_mesh_late_rank(&out, i) < 9);
    return r;
}
static rf_result decode_failure(const void *data, size_t size)
{
    rf_mesh_failure out;
    const rf_result r = rf_mesh_decode_failure(data, size, 9, &out);
    if (r == RF_OK) assert_true(out.culprit < 9 && out.result < 0 && strlen(out.reason) < sizeof(out.reason));
    return r;
}

static rf_result decode_copy(decode_fn fn, const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size ? size : 1);
    assert_non_null(copy);
    memcpy(copy, data, size);
    const rf_result r = fn(copy, size);
    free(copy);
    return r;
}

/* Every shorter message is refused, so is a longer one; altered bytes never lead outside. */
static void torment(decode_fn fn, const uint8_t *data, size_t size)
{
    uint8_t bytes[1024] = { 0 };
    assert_true(size < sizeof(bytes));
    memcpy(bytes, data, size);
    assert_int_equal(decode_copy(fn, bytes, size), RF_OK);
    for (size_t cut = 0; cut < size; cut++) assert_int_equal(decode_copy(fn, bytes, cut), RF_ERROR_CORRUPT_DATA);
    assert_int_equal(decode_copy(fn, bytes, size + 1), RF_ERROR_CORRUPT_DATA);
    for (size_t i = 0; i < size; i++) {
        const uint8_t was = bytes[i];
        for (int value = 0; value < 256; value += 3) {
            bytes[i] = (uint8_t)value;
            const rf_result r = decode_copy(fn, bytes, size);
            assert_true(r == RF_OK || r == RF_ERROR_CORRUPT_DATA);
        }
        bytes[i] = was;
    }
}

static void test_join(void **state)
{
    (void)state;
    rf_mesh_join in = { .port = 54321, .address = "fe80::1%eth0", .host = "boot name 4026531840" }, out;
    uint8_t data[RF_MESH_JOIN_MAX];
    size_t size = rf_mesh_encode_join(&in, data);
    assert_int_equal(rf_mesh_decode_join(data, size, &out), RF_OK);
    assert_int_equal(out.port, 54321);
    assert_string_equal(out.address, in.address);
    assert_string_equal(out.host, in.host);
    torment(decode_join, data, size);
    in.port = 0;
    size = rf_mesh_encode_join(&in, data);
    assert_int_equal(rf_mesh_decode_join(data, size, &out), RF_ERROR_CORRUPT_DATA);
    memset(in.host, 'x', sizeof(in.host) - 1);
    memset(in.address, 'y', sizeof(in.address) - 1);
    in.port = 1;
    size = rf_mesh_encode_join(&in, data);
    assert_true(size <= sizeof(data));
    assert_int_equal(rf_mesh_decode_join(data, size, &out), RF_OK);
    assert_string_equal(out.host, in.host);
}

static void test_table(void **state)
{
    (void)state;
    rf_mesh_member members[3] = { { 11, 0, 0, "10.0.0.1" }, { 12, 1, 2000, "10.0.0.2" }, { 13, 0, 3000, "::1" } };
    rf_mesh_table in = { .session = { 1, 2, 3 },
                         .heartbeat_interval_ns = S,
                         .peer_timeout_ns = 10 * S,
                         .operation_timeout_ns = 300 * S,
                         .count = 3,
                         .members = members };
    uint8_t data[512];
    assert_true(RF_MESH_TABLE_MAX(3) <= sizeof(data));
    size_t size = rf_mesh_encode_table(&in, data);
    rf_mesh_member got[3];
    rf_mesh_table out = { .count = 3, .members = got };
    assert_int_equal(rf_mesh_decode_table(data, size, &out), RF_OK);
    assert_memory_equal(out.session, in.session, sizeof(in.session));
    assert_int_equal(out.peer_timeout_ns, 10 * S);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(got[i].incarnation, members[i].incarnation);
        assert_int_equal(got[i].host, members[i].host);
        assert_int_equal(got[i].port, members[i].port);
        assert_string_equal(got[i].address, members[i].address);
    }
    torment(decode_table, data, size);
    out.count = 2;
    assert_int_equal(rf_mesh_decode_table(data, size, &out), RF_ERROR_CORRUPT_DATA);
    out.count = 3;
    members[2].host = 3; /* no such host yet */
    size = rf_mesh_encode_table(&in, data);
    assert_int_equal(rf_mesh_decode_table(data, size, &out), RF_ERROR_CORRUPT_DATA);
    members[2].host = 0;
    in.heartbeat_interval_ns = 11 * S;
    size = rf_mesh_encode_table(&in, data);
    assert_int_equal(rf_mesh_decode_table(data, size, &out), RF_ERROR_CORRUPT_DATA);
}

static void test_heartbeat(void **state)
{
    (void)state;
    const uint32_t late[2] = { 8, 3 };
    const rf_mesh_heartbeat in = {
        .rank = 4, .incarnation = UINT64_MAX, .begun = 18, .finished = 17, .answer = true, .num_late = 2
    };
    rf_mesh_heartbeat out;
    uint8_t data[RF_MESH_HEARTBEAT_MAX(9)];
    const size_t size = rf_mesh_encode_heartbeat(&in, late, data);
    assert_int_equal(rf_mesh_decode_heartbeat(data, size, 9, &out), RF_OK);
    assert_int_equal(out.rank, 4);
    assert_true(out.incarnation == UINT64_MAX && out.begun == 18 && out.finished == 17 && out.answer);
    assert_int_equal(out.num_late, 2);
    assert_int_equal(rf_mesh_late_rank(&out, 0), 8);
    assert_int_equal(rf_mesh_late_rank(&out, 1), 3);
    assert_int_equal(rf_mesh_decode_heartbeat(data, size, 8, &out), RF_ERROR_CORRUPT_DATA);
    torment(decode_heartbeat, data, size);
}

static void test_failure(void **state)
{
    (void)state;
    rf_mesh_failure in = { .culprit = 8, .result = RF_ERROR_PEER_LOST, .reason = "rank 8 was\nlost\x1b[1m" }, out;
    uint8_t data[RF_MESH_FAILURE_MAX];
    size_t size = rf_mesh_encode_failure(&in, data);
    assert_int_equal(rf_mesh_decode_failure(data, size, 9, &out), RF_OK);
    assert_int_equal(out.culprit, 8);
    assert_int_equal(out.result, RF_ERROR_PEER_LOST);
    assert_string_equal(out.reason, "rank 8 was?lost?[1m"); /* nothing that a terminal would obey */
    assert_int_equal(rf_mesh_decode_failure(data, size, 8, &out), RF_ERROR_CORRUPT_DATA);
    torment(decode_failure, data, size);
    const rf_result not_failures[] = { RF_OK, RF_END, (rf_result)(RF_ERROR_LOWEST - 1) };
    for (int i = 0; i < 3; i++) {
        in.result = not_failures[i];
        size = rf_mesh_encode_failure(&in, data);
        assert_int_equal(rf_mesh_decode_failure(data, size, 9, &out), RF_ERROR_CORRUPT_DATA);
    }
    memset(in.reason, 'z', sizeof(in.reason) - 1);
    in.result = RF_ERROR_IO;
    size = rf_mesh_encode_failure(&in, data);
    assert_true(size <= sizeof(data));
    assert_int_equal(rf_mesh_decode_failure(data, size, 9, &out), RF_OK);
    assert_string_equal(out.reason, in.reason);
    for (int code = RF_ERROR_INVALID_ARGUMENT; code >= RF_ERROR_LOWEST; code--) { /* every code travels */
        const rf_mesh_failure each = { .culprit = 1, .result = (rf_result)code, .reason = "so" };
        uint8_t bytes[RF_MESH_FAILURE_MAX];
        rf_mesh_failure got;
        assert_int_equal(rf_mesh_decode_failure(bytes, rf_mesh_encode_failure(&each, bytes), 2, &got), RF_OK);
        assert_int_equal(got.result, code);
    }
}

static rf_result decode_goodbye(const void *data, size_t size)
{
    uint64_t begun;
    return rf_mesh_decode_goodbye(data, size, &begun);
}

static void test_goodbye(void **state)
{
    (void)state;
    uint8_t data[RF_MESH_GOODBYE_BYTES];
    uint64_t begun = 0;
    rf_mesh_encode_goodbye(UINT64_C(0x123456789abcdef0), data);
    assert_int_equal(rf_mesh_decode_goodbye(data, sizeof(data), &begun), RF_OK);
    assert_true(begun == UINT64_C(0x123456789abcdef0));
    torment(decode_goodbye, data, sizeof(data));
}

static void test_part(void **state)
{
    (void)state;
    uint8_t *data = calloc(1, RF_MESH_PART_HEAD + RF_MESH_EXCHANGE_MAX + 1);
    assert_non_null(data);
    rf_mesh_part part;
    rf_mesh_encode_part(77, data);
    for (size_t size = 0; size < RF_MESH_PART_HEAD; size++)
        assert_int_equal(rf_mesh_decode_part(data, size, &part), RF_ERROR_CORRUPT_DATA);
    static const size_t sizes[] = { 0, 1, RF_MESH_EXCHANGE_MAX };
    for (int i = 0; i < 3; i++) {
        assert_int_equal(rf_mesh_decode_part(data, RF_MESH_PART_HEAD + sizes[i], &part), RF_OK);
        assert_true(part.serial == 77 && part.size == sizes[i] && part.data == data + RF_MESH_PART_HEAD);
    }
    const size_t too_long = RF_MESH_PART_HEAD + RF_MESH_EXCHANGE_MAX + 1;
    assert_int_equal(rf_mesh_decode_part(data, too_long, &part), RF_ERROR_CORRUPT_DATA);
    free(data);
}

static void test_missing(void **state)
{
    (void)state;
    char text[256];
    bool present[40] = { true, true, false, false };
    rf_mesh_missing_text(present, 4, text, sizeof(text));
    assert_string_equal(text, "ranks 2, 3 of 4");
    present[3] = true;
    rf_mesh_missing_text(present, 4, text, sizeof(text));
    assert_string_equal(text, "rank 2 of 4");
    rf_mesh_missing_text(present, 40, text, sizeof(text));
    assert_string_equal(text, "ranks 2, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18 and 21 more of 40");
    char small[12];
    rf_mesh_missing_text(present, 40, small, sizeof(small));
    assert_string_equal(small, "ranks 2, 4,");
}

/* ---- hosts ---- */

static void test_hosts(void **state)
{
    (void)state;
    const char *identities[] = { "b", "a", "b", "c", "a", "c" };
    uint32_t numbers[6];
    rf_number_hosts(identities, 6, numbers);
    const uint32_t expected[6] = { 0, 1, 0, 2, 1, 2 };
    assert_memory_equal(numbers, expected, sizeof(expected));
    char one[RF_MESH_HOST_TEXT], two[RF_MESH_HOST_TEXT];
    rf_host_identity(one, sizeof(one));
    rf_host_identity(two, sizeof(two));
    assert_string_equal(one, two);
    assert_true(strlen(one) > 10);
    char address[RF_MESH_ADDRESS];
    assert_int_equal(rf_numeric_address("127.0.0.1", address, sizeof(address)), RF_OK);
    assert_string_equal(address, "127.0.0.1");
    assert_true(rf_is_wildcard("0.0.0.0") && rf_is_wildcard("::") && !rf_is_wildcard("127.0.0.1"));
    assert_int_equal(rf_numeric_address("not an address", address, sizeof(address)), RF_ERROR_INVALID_ARGUMENT);
    assert_non_null(strstr(rf_error_message(), "not an address"));
}

/* Two network namespaces are two hosts, for their loopbacks are two networks. */
static void test_namespaces(void **state)
{
    (void)state;
    char mine[RF_MESH_HOST_TEXT], other[RF_MESH_HOST_TEXT] = "";
    int ends[2];
    rf_host_identity(mine, sizeof(mine));
    assert_int_equal(pipe(ends), 0);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        if (unshare(geteuid() == 0 ? CLONE_NEWNET : CLONE_NEWUSER | CLONE_NEWNET) == 0) {
            rf_host_identity(other, sizeof(other));
            (void)!write(ends[1], other, sizeof(other));
        }
        _exit(0);
    }
    close(ends[1]);
    const ssize_t n = read(ends[0], other, sizeof(other));
    close(ends[0]);
    waitpid(pid, NULL, 0);
    if (n != (ssize_t)sizeof(other)) SKIP("no namespace of its own");
    assert_string_not_equal(mine, other);
    assert_memory_equal(mine, other, 36); /* the same boot */
}

/* ---- operations ---- */

static void test_operations(void **state)
{
    (void)state;
    rf_operations o;
    char text[RF_OPERATIONS_TEXT];
    rf_operations_init(&o);
    rf_operations_text(&o, 0, text, sizeof(text));
    assert_string_equal(text, "none");
    rf_operations_begin(&o, 7, "broadcast", 1 * MS);
    rf_operations_finish(&o, 7, 3 * MS);
    rf_operations_begin(&o, 8, "all_reduce f32 x 1000", 4 * MS);
    rf_operations_text(&o, 10 * MS, text, sizeof(text));
    assert_string_equal(text, "8 all_reduce f32 x 1000 pending for 6.0 ms; 7 broadcast done in 2.0 ms");
    for (uint64_t i = 9; i < 100; i++) {
        rf_operations_begin(&o, i, "a name that is longer than what fits into the place that it has", i * MS);
        rf_operations_finish(&o, i, i * MS);
    }
    assert_int_equal(o.begun, 99);
    assert_int_equal(o.finished, 99);
    assert_true(rf_operations_line(&o, 15, 0, text, sizeof(text)));
    assert_true(strncmp(text, "84 a name", 9) == 0);
    assert_false(rf_operations_line(&o, 16, 0, text, sizeof(text)));
    rf_operations_text(&o, 0, text, sizeof(text));
    assert_true(strlen(text) < sizeof(text) - 1);
    char small[20];
    rf_operations_text(&o, 0, small, sizeof(small));
    assert_int_equal(strlen(small), 19);
    rf_operations_destroy(&o);
}

/* ---- detector: worlds whose every rank is simulated, with heartbeats each 100 ms and a timeout of 800 ms ---- */

#define INTERVAL (100 * MS)
#define TIMEOUT (800 * MS)
#define WORLD_MAX 6

typedef struct world {
    uint32_t count;
    rf_detector *detectors[WORLD_MAX];
    bool stopped[WORLD_MAX];
    bool cut[WORLD_MAX][WORLD_MAX]; /* [from][to]: nothing arrives */
    uint64_t now;
    bool found[WORLD_MAX];
    uint64_t found_at[WORLD_MAX];
    rf_finding findings[WORLD_MAX];
} world;

static void world_init(world *w, uint32_t count)
{
    memset(w, 0, sizeof(*w));
    w->count = count;
    w->now = 50 * S;
    for (uint32_t r = 0; r < count; r++)
        assert_int_equal(rf_detector_create(r, count, INTERVAL, TIMEOUT, w->now, &w->detectors[r]), RF_OK);
}

static void world_free(world *w)
{
    for (uint32_t r = 0; r < w->count; r++) rf_detector_destroy(&w->detectors[r]);
}

static void beat(world *w, uint32_t from, uint32_t to)
{
    uint32_t late[WORLD_MAX];
    const uint32_t count = rf_detector_late(w->detectors[from], w->now, late);
    if (w->cut[from][to] || w->stopped[to]) return;
    rf_detector_heard(w->detectors[to], from, w->now);
    rf_detector_clear_late(w->detectors[to], from, w->now);
    for (uint32_t i = 0; i < count; i++) rf_detector_set_late(w->detectors[to], from, late[i]);
}

/* Steps of 10 ms; rank r beats at 10 ms * 3 r after each full interval, so that no two have the same phase. */
static void world_run(world *w, uint64_t ns)
{
    for (const uint64_t end = w->now + ns; w->now < end;) {
        w->now += 10 * MS;
        for (uint32_t r = 0; r < w->count; r++) {
            if (w->stopped[r] || w->found[r]) continue;
            if (w->now / (10 * MS) % 10 == r * 3 % 10)
                for (uint32_t to = 0; to < w->count; to++)
                    if (to != r) beat(w, r, to);
        }
        for (uint32_t r = 0; r < w->count; r++) {
            if (w->stopped[r] || w->found[r]) continue;
            w->found[r] = rf_detector_judge(w->detectors[r], w->now, &w->findings[r]);
            if (w->found[r]) w->found_at[r] = w->now;
        }
    }
}

/* All but `but` have found `culprit`, first at `from` or later and last at `to`. */
static void check_found(const world *w, uint32_t but, uint32_t culprit, rf_peer_loss loss, uint64_t from, uint64_t to)
{
    for (uint32_t r = 0; r < w->count; r++) {
        if (but >> r & 1) continue;
        assert_true(w->found[r]);
        assert_int_equal(w->findings[r].culprit, culprit);
        assert_int_equal(w->findings[r].loss, loss);
        assert_in_range(w->found_at[r], from, to);
    }
}

static void check_quiet(const world *w)
{
    for (uint32_t r = 0; r < w->count; r++) assert_false(w->found[r]);
}

static void test_silence(void **state)
{
    (void)state;
    for (uint32_t count = 2; count <= WORLD_MAX; count++) {
        for (uint32_t culprit = 0; culprit < count; culprit++) {
            world w;
            world_init(&w, count);
            world_run(&w, 5 * S);
            check_quiet(&w);
            const uint64_t from = w.now;
            w.stopped[culprit] = true;
            world_run(&w, 2 * S);
            check_found(&w, 1u << culprit, culprit, RF_PEER_LOSS_SILENT, from + TIMEOUT - INTERVAL,
                        from + TIMEOUT + 10 * MS);
            char text[100];
            rf_finding_text(&w.findings[!culprit], text, sizeof(text));
            assert_string_equal(text, "silent for 0.8 s");
            world_free(&w);
        }
    }
}

/* Repeated pauses of half the timeout raise no alarm. */
static void test_short_pauses(void **state)
{
    (void)state;
    world w;
    world_init(&w, 4);
    for (uint32_t i = 0; i < 20; i++) {
        const uint64_t before = w.now;
        w.stopped[i % 4] = true;
        world_run(&w, TIMEOUT / 2);
        w.stopped[i % 4] = false;
        rf_detector_woke(w.detectors[i % 4], w.now, before + INTERVAL);
        world_run(&w, 2 * INTERVAL);
        check_quiet(&w);
    }
    world_free(&w);
}

/* A rank that was itself stopped blames no other, but still finds out afterwards which one is gone. */
static void test_own_pause(void **state)
{
    (void)state;
    rf_detector *d;
    rf_finding finding;
    assert_int_equal(rf_detector_create(0, 2, INTERVAL, TIMEOUT, S, &d), RF_OK);
    rf_detector_heard(d, 1, S);
    rf_detector_woke(d, 31 * S, S + INTERVAL);
    assert_false(rf_detector_judge(d, 31 * S, &finding));
    assert_false(rf_detector_judge(d, 31 * S + TIMEOUT - 2 * INTERVAL, &finding));
    assert_true(rf_detector_judge(d, 31 * S + TIMEOUT, &finding));
    /* Being late by less than an interval moves nothing. */
    rf_detector_heard(d, 1, 40 * S);
    for (uint64_t t = 40 * S; t < 40 * S + TIMEOUT; t += INTERVAL) rf_detector_woke(d, t, t - INTERVAL);
    assert_true(rf_detector_judge(d, 40 * S + TIMEOUT, &finding));
    rf_detector_destroy(&d);
}

static void test_cut_off(void **state)
{
    (void)state;
    for (uint32_t culprit = 0; culprit < 4; culprit++) {
        world w;
        world_init(&w, 4);
        world_run(&w, S);
        const uint64_t from = w.now;
        for (uint32_t r = 0; r < 4; r++) w.cut[culprit][r] = w.cut[r][culprit] = true;
        world_run(&w, 2 * S);
        check_found(&w, 1u << culprit, culprit, RF_PEER_LOSS_SILENT, from + TIMEOUT - INTERVAL,
                    from + TIMEOUT + 10 * MS);
        /* The rank that is cut off knows it: all name the same rank. */
        check_found(&w, 15u & ~(1u << culprit), culprit, RF_PEER_LOSS_CUT_OFF, from + TIMEOUT - INTERVAL,
                    from + TIMEOUT + 10 * MS);
        world_free(&w);
    }
}

/* Two of five are separated from the rest: both sides name the same one of them. */
static void test_minority(void **state)
{
    (void)state;
    world w;
    world_init(&w, 5);
    world_run(&w, S);
    for (uint32_t a = 0; a < 2; a++)
        for (uint32_t b = 2; b < 5; b++) w.cut[a][b] = w.cut[b][a] = true;
    world_run(&w, 2 * S);
    for (uint32_t r = 0; r < 5; r++) {
        assert_true(w.found[r]);
        assert_int_equal(w.findings[r].culprit, 0);
        assert_int_equal(w.findings[r].loss, r < 2 ? RF_PEER_LOSS_CUT_OFF : RF_PEER_LOSS_SILENT);
    }
    world_free(&w);
}

/* Only the path between two is broken, both ways or one: both ends name the same of the two. */
static void test_link(void **state)
{
    (void)state;
    for (int both = 0; both < 2; both++) {
        world w;
        world_init(&w, 4);
        world_run(&w, S);
        w.cut[1][3] = true;
        w.cut[3][1] = both;
        world_run(&w, TIMEOUT + 2 * INTERVAL); /* not so long that rank 3, which then ends, is missed by all */
        for (uint32_t r = 0; r < 4; r++) {
            if (!w.found[r]) continue;
            assert_int_equal(w.findings[r].culprit, 3);
            assert_int_equal(w.findings[r].loss, RF_PEER_LOSS_LINK);
        }
        assert_true(w.found[3]);
        char text[200];
        rf_finding_text(&w.findings[3], text, sizeof(text));
        assert_string_equal(text, "ranks 1 and 3 no longer reach each other, though others reach both");
        world_free(&w);
    }
}

/* Two hosts stop together: the lower rank is named, by all. */
static void test_two_stopped(void **state)
{
    (void)state;
    world w;
    world_init(&w, 5);
    world_run(&w, S);
    w.stopped[3] = w.stopped[1] = true;
    world_run(&w, 2 * S);
    check_found(&w, 10, 1, RF_PEER_LOSS_SILENT, 0, UINT64_MAX);
    world_free(&w);
}

static void test_closed(void **state)
{
    (void)state;
    world w;
    world_init(&w, 3);
    world_run(&w, S);
    const uint64_t from = w.now;
    w.stopped[1] = true;
    assert_true(rf_detector_closed(w.detectors[0], 1, w.now));
    assert_false(rf_detector_closed(w.detectors[0], 1, w.now)); /* known */
    assert_true(rf_detector_closed(w.detectors[2], 1, w.now));
    beat(&w, 0, 2);
    beat(&w, 2, 0);
    rf_finding finding;
    assert_false(rf_detector_judge(w.detectors[0], from + RF_HOLD_NS - 1, &finding));
    assert_int_equal(rf_detector_next(w.detectors[0], from), from + RF_HOLD_NS);
    world_run(&w, S);
    check_found(&w, 2, 1, RF_PEER_LOSS_CLOSED, from + RF_HOLD_NS, from + RF_HOLD_NS + 10 * MS);
    world_free(&w);
}

/* The connection between 0 and 1 was cut by something in between; rank 2 still hears both. */
static void test_reset_link(void **state)
{
    (void)state;
    world w;
    world_init(&w, 3);
    world_run(&w, S);
    const uint64_t from = w.now;
    w.cut[0][1] = w.cut[1][0] = true;
    rf_detector_closed(w.detectors[0], 1, w.now);
    rf_detector_closed(w.detectors[1], 0, w.now);
    world_run(&w, S);
    check_found(&w, 4, 1, RF_PEER_LOSS_LINK, from + RF_HOLD_DOUBT_NS, from + RF_HOLD_DOUBT_NS + 10 * MS);
    world_free(&w);
    /* The others' word arrives late: a killed rank is not taken for a broken path. */
    world_init(&w, 3);
    world_run(&w, S);
    rf_detector_closed(w.detectors[0], 1, w.now);
    w.stopped[1] = true;
    beat(&w, 2, 0);
    world_run(&w, 200 * MS);
    assert_false(w.found[0]);
    rf_detector_closed(w.detectors[2], 1, w.now);
    beat(&w, 2, 0);
    world_run(&w, S);
    check_found(&w, 2, 1, RF_PEER_LOSS_CLOSED, 0, UINT64_MAX);
    world_free(&w);
}

/* Rank 0 no longer hears anybody, and a connection that another end gave up breaks: that is not the other's fault. */
static void test_broken_and_cut_off(void **state)
{
    (void)state;
    for (uint32_t ranks = 3; ranks <= 4; ranks++) {
        world w;
        world_init(&w, ranks);
        world_run(&w, S);
        const uint64_t from = w.now;
        for (uint32_t r = 1; r < ranks; r++) w.cut[0][r] = w.cut[r][0] = true;
        world_run(&w, 500 * MS);
        rf_detector_closed(w.detectors[0], ranks - 1, w.now);
        world_run(&w, S);
        check_found(&w, (1u << ranks) - 2, 0, RF_PEER_LOSS_CUT_OFF, from + TIMEOUT - INTERVAL,
                    from + TIMEOUT + 10 * MS);
        world_free(&w);
    }
}

static void test_left(void **state)
{
    (void)state;
    world w;
    world_init(&w, 3);
    world_run(&w, S);
    w.stopped[2] = true;
    rf_detector_left(w.detectors[0], 2);
    rf_detector_left(w.detectors[1], 2);
    assert_false(rf_detector_closed(w.detectors[0], 2, w.now));
    world_run(&w, 5 * S);
    assert_false(w.found[0] || w.found[1]);
    world_free(&w);
}

/* Sleeping until rf_detector_next() finds every loss on time. */
static void test_next(void **state)
{
    (void)state;
    rf_detector *d;
    rf_finding finding;
    assert_int_equal(rf_detector_create(1, 3, INTERVAL, TIMEOUT, S, &d), RF_OK);
    uint64_t now = S;
    int steps = 0;
    while (!rf_detector_judge(d, now, &finding)) {
        const uint64_t next = rf_detector_next(d, now);
        assert_true(next > now && next <= now + INTERVAL);
        now = next;
        assert_true(++steps < 20);
    }
    assert_int_equal(now, S + TIMEOUT);
    rf_detector_destroy(&d);
    rf_detector_destroy(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_join),        cmocka_unit_test(test_table),
        cmocka_unit_test(test_heartbeat),   cmocka_unit_test(test_failure),
        cmocka_unit_test(test_goodbye),     cmocka_unit_test(test_part),
        cmocka_unit_test(test_missing),     cmocka_unit_test(test_hosts),
        cmocka_unit_test(test_namespaces),  cmocka_unit_test(test_operations),
        cmocka_unit_test(test_silence),     cmocka_unit_test(test_short_pauses),
        cmocka_unit_test(test_own_pause),   cmocka_unit_test(test_cut_off),
        cmocka_unit_test(test_minority),    cmocka_unit_test(test_link),
        cmocka_unit_test(test_two_stopped), cmocka_unit_test(test_closed),
        cmocka_unit_test(test_reset_link),  cmocka_unit_test(test_broken_and_cut_off),
        cmocka_unit_test(test_left),        cmocka_unit_test(test_next),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
