/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of the mesh that need neither sockets nor threads: messages, topology, host numbers, operation log. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../skip.h"
#include "base/memory.h"
#include "tests/room.h"
#include "transport/job/host.h"
#include "transport/mesh/liveness_page.h"
#include "transport/mesh/message.h"
#include "transport/mesh/operations.h"
#include "transport/mesh/topology.h"

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

TEST(test_join)
{
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

TEST(test_table)
{
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

TEST(test_heartbeat)
{
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

TEST(test_failure)
{
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

TEST(test_goodbye)
{
    uint8_t data[RF_MESH_GOODBYE_BYTES];
    uint64_t begun = 0;
    rf_mesh_encode_goodbye(UINT64_C(0x123456789abcdef0), data);
    assert_int_equal(rf_mesh_decode_goodbye(data, sizeof(data), &begun), RF_OK);
    assert_true(begun == UINT64_C(0x123456789abcdef0));
    torment(decode_goodbye, data, sizeof(data));
}

TEST(test_part)
{
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

static rf_result decode_entries(const void *data, size_t size)
{
    const uint8_t *at = data;
    const uint8_t *const end = at + size;
    rf_mesh_entry entry;
    rf_result r;
    while ((r = rf_mesh_decode_entry(&at, &size, 9, &entry)) == RF_OK)
        assert_true(entry.rank < 9 && entry.body + entry.size == at && at + size == end);
    return r == RF_END ? RF_OK : r;
}

TEST(test_relay)
{
    uint8_t data[2 * RF_MESH_ENTRY_HEAD + 12];
    uint8_t *at = data;
    const rf_mesh_entry in[2] = { { .rank = 8, .type = RF_MESH_EXCHANGE, .size = 4 },
                                  { .rank = 0, .type = RF_MESH_GOODBYE, .size = 8 } };
    for (int i = 0; i < 2; i++) {
        rf_mesh_encode_entry(&in[i], at);
        memset(at + RF_MESH_ENTRY_HEAD, 'a' + i, in[i].size);
        at += RF_MESH_ENTRY_HEAD + in[i].size;
    }
    const uint8_t *from = data;
    size_t left = sizeof(data);
    rf_mesh_entry out;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(rf_mesh_decode_entry(&from, &left, 9, &out), RF_OK);
        assert_true(out.rank == in[i].rank && out.type == in[i].type && out.size == in[i].size);
        assert_int_equal(out.body[0], 'a' + i);
    }
    assert_int_equal(rf_mesh_decode_entry(&from, &left, 9, &out), RF_END);
    /* Cut anywhere but between two of them. */
    for (size_t cut = 1; cut < sizeof(data); cut++)
        assert_int_equal(decode_copy(decode_entries, data, cut),
                         cut == RF_MESH_ENTRY_HEAD + in[0].size ? RF_OK : RF_ERROR_CORRUPT_DATA);
    for (size_t i = 0; i < sizeof(data); i++) {
        const uint8_t was = data[i];
        for (int value = 0; value < 256; value += 3) {
            data[i] = (uint8_t)value;
            const rf_result r = decode_copy(decode_entries, data, sizeof(data));
            assert_true(r == RF_OK || r == RF_ERROR_CORRUPT_DATA);
        }
        data[i] = was;
    }
    from = data;
    left = sizeof(data);
    assert_int_equal(rf_mesh_decode_entry(&from, &left, 8, &out), RF_ERROR_CORRUPT_DATA); /* no such rank */
    const rf_mesh_entry other = { .rank = 1, .type = RF_MESH_ABORT, .size = 4 };
    rf_mesh_encode_entry(&other, data);
    from = data;
    assert_int_equal(rf_mesh_decode_entry(&from, &left, 9, &out), RF_ERROR_CORRUPT_DATA);
}

TEST(test_missing)
{
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

/* ---- topology ---- */

/* Steps from `from` to the rank that is furthest, without going through `dead`. */
static uint32_t reach_all(uint32_t from, uint32_t dead, uint32_t world)
{
    uint32_t steps[1024], queue[1024], head = 0, tail = 0;
    for (uint32_t r = 0; r < world; r++) steps[r] = UINT32_MAX;
    steps[from] = 0;
    queue[tail++] = from;
    while (head < tail) {
        const uint32_t at = queue[head++];
        for (uint32_t r = 0; r < world; r++) {
            if (r == dead || steps[r] != UINT32_MAX || !rf_mesh_linked(at, r, world)) continue;
            steps[r] = steps[at] + 1;
            queue[tail++] = r;
        }
    }
    assert_int_equal(tail, dead < world ? world - 1 : world);
    return steps[queue[tail - 1]];
}

TEST(test_topology)
{
    const uint32_t worlds[] = { 2, 3, RF_MESH_FULL, RF_MESH_FULL + 1, 18, 26, 64, 255, 256, 1024 };
    for (size_t i = 0; i < sizeof(worlds) / sizeof(worlds[0]); i++) {
        const uint32_t world = worlds[i];
        const bool full = rf_mesh_is_full(world);
        for (uint32_t a = 0; a < world; a++) {
            uint32_t links = 0;
            for (uint32_t b = 0; b < world; b++) {
                links += rf_mesh_linked(a, b, world);
                assert_int_equal(rf_mesh_linked(a, b, world), rf_mesh_linked(b, a, world));
            }
            assert_int_equal(links, full || a == 0 ? world - 1 : 5);
        }
        assert_int_equal(reach_all(world - 1, world, world), full ? 1 : 2);
        /* Without rank 0 an abort needs no more steps than the root of their number, or two more. */
        if (!full) {
            const uint32_t steps = reach_all(1, 0, world);
            assert_true((steps - 2) * (steps - 2) <= world);
        }
    }
}

/* ---- hosts ---- */

TEST(test_hosts)
{
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

/* All are told addresses that they reach, made from those that rank 0 sees. */
TEST(test_settled_addresses)
{
    static const struct {
        uint32_t hosts[4];
        const char *seen[4]; /* of rank 0: how it is seen by the rank that tells */
        uint32_t outside;
        const char *settled[4];
    } cases[] = {
        { { 0, 0, 0, 0 },
          { "127.0.0.1", "127.0.0.1", "127.0.0.1", "127.0.0.1" },
          1,
          { "127.0.0.1", "127.0.0.1", "127.0.0.1", "127.0.0.1" } },
        { { 0, 0, 1, 1 },
          { "10.0.0.1", "127.0.0.1", "10.0.0.2", "10.0.0.2" },
          2,
          { "10.0.0.1", "10.0.0.1", "10.0.0.2", "10.0.0.2" } },
        { { 0, 1, 0, 1 },
          { "fd00::1", "fd00::2", "::1", "fd00::2" },
          1,
          { "fd00::1", "fd00::2", "fd00::1", "fd00::2" } },
        { { 0, 0, 0, 1 },
          { "10.1.0.1", "10.9.0.1", "127.0.1.1", "10.1.0.2" },
          3,
          { "10.1.0.1", "10.9.0.1", "10.1.0.1", "10.1.0.2" } },
        { { 0, 0, 0, 0 },
          { "10.0.0.1", "127.0.0.1", "10.0.0.1", "10.0.0.1" },
          2,
          { "10.0.0.1", "10.0.0.1", "10.0.0.1", "10.0.0.1" } },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        rf_mesh_member members[4] = { 0 };
        for (uint32_t r = 0; r < 4; r++) {
            members[r].host = cases[i].hosts[r];
            snprintf(members[r].address, sizeof(members[r].address), "%s", cases[i].seen[r]);
        }
        assert_int_equal(rf_mesh_outside(members, 4), cases[i].outside);
        rf_mesh_settle_addresses(members, 4);
        for (uint32_t r = 0; r < 4; r++) assert_string_equal(members[r].address, cases[i].settled[r]);
    }
}

/* Two network namespaces are two hosts, for their loopbacks are two networks. */
TEST(test_namespaces)
{
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

TEST(test_operations)
{
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

/* ---- the liveness page ---- */

TEST(test_liveness_page)
{
    rf_liveness_page first, second;
    int fd;
    assert_int_equal(rf_liveness_create(300, &first, &fd), RF_OK);
    assert_int_equal(rf_liveness_open(300, fd, &second), RF_OK);
    for (uint32_t r = 0; r < 300; r++) assert_int_equal(rf_liveness_read(&second.lines[r], 5 * S), 0);
    first.lines[299].begun = 7; /* their callers write these, and a sign of life leaves them alone */
    first.lines[299].finished = 6;
    rf_liveness_write(&first.lines[299], 5 * S);
    assert_true(rf_liveness_read(&second.lines[299], 5 * S) == 5 * S);
    assert_true(rf_liveness_read(&second.lines[299], 9 * S) == 5 * S);
    assert_true(second.lines[299].begun == 7 && second.lines[299].finished == 6);
    assert_int_equal(rf_liveness_read(&second.lines[298], 9 * S), 0);
    /* Written while the reader had looked at its clock already; by a process whose clock is another. */
    assert_true(rf_liveness_read(&second.lines[299], 5 * S - MS) == 5 * S - MS);
    assert_int_equal(rf_liveness_read(&second.lines[299], 3 * S), 0);
    rf_liveness_close(&second);
    /* Memory of another size, or that could be made shorter while it is read, is not taken. */
    assert_int_equal(rf_liveness_open(301, fd, &second), RF_ERROR_CORRUPT_DATA);
    assert_null(second.lines);
    assert_int_not_equal(ftruncate(fd, 64), 0);
    close(fd);
    rf_liveness_close(&first);
    const int open_file = memfd_create("test", MFD_CLOEXEC);
    assert_true(open_file >= 0);
    assert_int_equal(ftruncate(open_file, 300 * (off_t)sizeof(rf_liveness_line)), 0);
    assert_int_equal(rf_liveness_open(300, open_file, &second), RF_ERROR_CORRUPT_DATA);
    close(open_file);
}

TESTS(mesh_parts, NULL, NULL)
