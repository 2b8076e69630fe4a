/* SPDX-License-Identifier: Apache-2.0 */
/* The mesh while all is well, while it ends, and when ranks are lost. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/platform.h"
#include "mesh_support.h"
#include "tests/room.h"

/* ---- exchange ---- */

/* In children and threads: an assertion there must not unwind into the parent's test. */
#define NEED(condition)                                                                                                \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            snprintf(f->reports[rank].message, sizeof(f->reports[rank].message), "line %d: %s (%s)", __LINE__,         \
                     #condition, rf_error_message());                                                                  \
            f->reports[rank].result = RF_ERROR_INTERNAL;                                                               \
            rf_mesh_destroy(&mesh);                                                                                    \
            f->reports[rank].stage = 3;                                                                                \
            return;                                                                                                    \
        }                                                                                                              \
    } while (0)

#define LARGE FLEET_MAX /* a world in which rank 0 passes on */

static size_t size_of(uint32_t rank, uint32_t round)
{
    return round == 3 ? 60000 : round == 4 ? 0 : (rank * 977 + round * 131) % 3000;
}

static void exchange_rank(fleet *f, uint32_t rank)
{
    rf_mesh *mesh;
    if (!rank_join(f, rank, &mesh)) return;
    const size_t slot = 60000;
    static _Thread_local uint8_t mine[60000], all[FLEET_MAX * 60000];
    size_t sizes[FLEET_MAX];
    for (uint32_t round = 0; round < 20; round++) {
        memset(mine, (int)(rank + round * 8), sizeof(mine));
        NEED(rf_mesh_exchange(mesh, mine, size_of(rank, round), all, slot, sizes) == RF_OK);
        for (uint32_t r = 0; r < f->world; r++) {
            NEED(sizes[r] == size_of(r, round));
            for (size_t i = 0; i < sizes[r]; i++) NEED(all[r * slot + i] == (uint8_t)(r + round * 8));
        }
    }
    /* All ranks have the same keys for the link between two, others for other links and purposes. */
    uint8_t keys[FLEET_MAX][RF_JOB_KEY_BYTES] = { 0 }, other[RF_JOB_KEY_BYTES];
    for (uint32_t r = 0; r < f->world; r++) {
        if (r != rank) NEED(rf_mesh_link_key(mesh, r, "data", keys[r]) == f->jobs[rank].secure);
        NEED(rf_mesh_host(mesh, r) == 0);
        NEED(strcmp(rf_mesh_address(mesh, r), "127.0.0.1") == 0);
    }
    NEED(rf_mesh_exchange(mesh, keys, sizeof(keys), all, sizeof(keys), sizes) == RF_OK);
    for (uint32_t r = 0; f->jobs[rank].secure && r < f->world; r++) {
        if (r == rank) continue;
        NEED(memcmp(all + r * sizeof(keys) + rank * RF_JOB_KEY_BYTES, keys[r], RF_JOB_KEY_BYTES) == 0);
        NEED(rf_mesh_link_key(mesh, r, "other", other) && memcmp(other, keys[r], sizeof(other)) != 0);
        for (uint32_t i = 0; i < r; i++) NEED(memcmp(keys[i], keys[r], sizeof(other)) != 0);
    }
    NEED(rf_mesh_exchange(mesh, mine, 60001, all, slot, sizes) == RF_ERROR_INVALID_ARGUMENT);
    NEED(rf_mesh_status(mesh) == RF_OK && rf_mesh_lost_rank(mesh) == -1);
    NEED(strcmp(rf_mesh_last_operations(mesh), "") == 0);
    rank_leave(f, rank, &mesh);
}

static void check_all_well(fleet *f)
{
    for (uint32_t r = 0; r < f->world; r++) {
        if (f->reports[r].result < 0) fail_msg("rank %u: %s", r, f->reports[r].message);
        assert_int_equal(f->reports[r].stage, 3);
        assert_int_equal(f->reports[r].lost, -1);
    }
}

TEST(test_exchange)
{
    const uint32_t worlds[] = { 2, 3, 4, 5, LARGE };
    for (int i = 0; i < 5; i++) {
        const uint32_t world = worlds[i];
        fleet *f = fleet_create(world, exchange_rank);
        for (uint32_t r = 0; r < world; r++) {
            f->jobs[r].secure = world != 3;
            f->jobs[r].encrypt = world == 4;
        }
        fleet_start(f);
        fleet_await(f, 3, 0, 10000);
        fleet_join(f);
        check_all_well(f);
        fleet_free(f);
    }
}

/* Several ranks in one process: there are no globals, and nothing stays open. */
TEST(test_threads)
{
    const int before = open_descriptors();
    for (int large = 0; large < 2; large++) {
        fleet *f = fleet_create(large ? LARGE : 4, exchange_rank);
        fleet_run_threads(f);
        check_all_well(f);
        fleet_free(f);
        assert_int_equal(open_descriptors(), before);
    }
}

/* ---- orderly end ---- */

static void late_leaver(fleet *f, uint32_t rank)
{
    rf_mesh *mesh;
    if (!rank_join(f, rank, &mesh)) return;
    sleep_ms(rank * 100);
    rank_note(f, rank, mesh, rf_mesh_status(mesh));
    rank_leave(f, rank, &mesh);
}

TEST(test_goodbye)
{
    fleet *f = fleet_create(4, late_leaver);
    fleet_start(f);
    fleet_await(f, 3, 0, 10000);
    fleet_join(f);
    check_all_well(f);
    /* Each waited for the last. */
    fleet_free(f);
}

/* A rank that stays longer than the others' timeout is not lost, and loses none of them. */
static void patient_rank(fleet *f, uint32_t rank)
{
    rf_mesh *mesh;
    if (!rank_join(f, rank, &mesh)) return;
    if (rank == 0) sleep_ms(1500);
    rank_note(f, rank, mesh, rf_mesh_status(mesh));
    rank_leave(f, rank, &mesh);
}

static room_test *slow_tests;

TEST_OF(slow_tests, test_long_stay)
{
    fleet *f = fleet_create(3, patient_rank);
    fleet_start(f);
    fleet_await(f, 3, 0, 10000);
    check_all_well(f);
    fleet_free(f);
}

static void leave_early(fleet *f, uint32_t rank)
{
    rf_mesh *mesh;
    uint8_t all[3];
    size_t sizes[3];
    if (!rank_join(f, rank, &mesh)) return;
    if (rank != 1) rank_note(f, rank, mesh, rf_mesh_exchange(mesh, "x", 1, all, 1, sizes));
    rank_leave(f, rank, &mesh);
}

TEST(test_exchange_with_leaver)
{
    fleet *f = fleet_create(3, leave_early);
    fleet_start(f);
    fleet_await(f, 3, 0, 10000);
    for (uint32_t r = 0; r < 3; r += 2) {
        assert_int_equal(f->reports[r].result, RF_ERROR_PEER_LOST);
        assert_non_null(strstr(f->reports[r].message, "rank 1 (127.0.0.1) left the job"));
    }
    fleet_free(f);
}

/* ---- losses ---- */

/* `culprit` is not asked itself; one beyond the world: all are asked, and whom they name was checked before. */
static void check_loss(const fleet *f, uint32_t culprit, uint64_t since, unsigned ms, const char *why)
{
    for (uint32_t r = 0; r < f->world; r++) {
        const rank_report *report = &f->reports[r];
        if (r == culprit) continue;
        if (report->result != RF_ERROR_PEER_LOST || (culprit < f->world && report->lost != (int32_t)culprit) ||
            !strstr(report->message, why) || report->at > since + ms * MS)
            fail_msg("rank %u: result %d, lost %d after %.0f ms: %s", r, report->result, report->lost,
                     (double)(int64_t)(report->at - since) * 1e-6, report->message);
    }
}

TEST(test_killed)
{
    for (uint32_t culprit = 0; culprit < 3; culprit++) {
        fleet *f = fleet_create(3, steady_rank);
        fleet_start(f);
        fleet_await(f, 1, 0, 10000);
        const uint64_t now = rf_now_ns();
        kill(f->pids[culprit], SIGKILL);
        fleet_await(f, 3, 1u << culprit, 5000);
        check_loss(f, culprit, now, 1000, "connection closed");
        char start[64];
        snprintf(start, sizeof(start), "rank %u (127.0.0.1) was lost: ", culprit);
        assert_non_null(strstr(f->reports[!culprit].message, start));
        fleet_free(f);
    }
}

TEST_OF(slow_tests, test_stopped)
{
    for (uint32_t culprit = 0; culprit < 2; culprit++) {
        fleet *f = fleet_create(culprit ? 4 : 2, steady_rank);
        fleet_start(f);
        fleet_await(f, 1, 0, 10000);
        const uint64_t now = rf_now_ns();
        kill(f->pids[culprit], SIGSTOP);
        fleet_await(f, 2, 1u << culprit, 5000);
        check_loss(f, culprit, now, 2000, "silent for");
        /* When it runs again it is told. */
        kill(f->pids[culprit], SIGCONT);
        fleet_await(f, 3, 0, 5000);
        assert_int_equal(f->reports[culprit].result, RF_ERROR_PEER_LOST);
        fleet_free(f);
    }
}

/* A pause below half the timeout, of one; and of all for much longer, as when a machine is suspended. */
static void pause_ranks(uint32_t world, bool liveness)
{
    fleet *f = fleet_create(world, steady_rank);
    if (liveness) fleet_add_liveness(f);
    fleet_start(f);
    fleet_await(f, 1, 0, 10000);
    sleep_ms(200);
    kill(f->pids[1], SIGSTOP);
    sleep_ms(450);
    kill(f->pids[1], SIGCONT);
    sleep_ms(200);
    for (uint32_t r = 0; r < world; r++) kill(f->pids[r], SIGSTOP);
    sleep_ms(1700);
    for (uint32_t r = 0; r < world; r++) kill(f->pids[r], SIGCONT);
    sleep_ms(300);
    f->stop = true;
    fleet_await(f, 3, 0, 5000);
    check_all_well(f);
    fleet_free(f);
}

TEST_OF(slow_tests, test_pauses)
{
    pause_ranks(3, false);
    pause_ranks(LARGE, false);
    pause_ranks(LARGE, true);
}

/* Packets vanish: of one rank in both directions, or on one path only, both ways or one. All survivors and the ends of
 * the broken path name the same rank. */
TEST_OF(slow_tests, test_black_holes)
{
    for (int kind = 0; kind < 3; kind++) {
        fleet *f = fleet_create(4, steady_rank);
        fleet_start(f);
        fleet_await(f, 1, 0, 10000);
        const uint64_t now = rf_now_ns();
        if (kind == 0) {
            f->deaf[1] = 13;
            f->deaf[0] = f->deaf[2] = f->deaf[3] = 2;
        } else {
            f->deaf[1] = 4;
            f->deaf[2] = kind == 1 ? 2 : 0;
        }
        fleet_await(f, 3, 0, 5000);
        for (uint32_t r = 0; r < 4; r++) assert_int_equal(f->reports[r].lost, kind == 0 ? 1 : 2);
        check_loss(f, 4, now, 2000,
                   kind == 0 ? "rank 1 (127.0.0.1) was lost: " : "ranks 1 and 2 no longer reach each other");
        fleet_free(f);
    }
    /* Two ranks: each can only blame the other. */
    fleet *f = fleet_create(2, steady_rank);
    fleet_start(f);
    fleet_await(f, 1, 0, 10000);
    const uint64_t now = rf_now_ns();
    f->deaf[1] = 1;
    fleet_await(f, 3, 0, 5000);
    for (uint32_t r = 0; r < 2; r++) {
        assert_true(f->reports[r].lost >= 0);
        assert_in_range(f->reports[r].at, now, now + 2 * SECOND);
    }
    fleet_free(f);
}

/* The same where ranks are connected to rank 0 and four others. */
TEST(test_large_killed)
{
    for (uint32_t culprit = 0; culprit < LARGE; culprit += 6) {
        fleet *f = fleet_create(LARGE, steady_rank);
        if (culprit % 12 == 6) fleet_add_liveness(f);
        fleet_start(f);
        fleet_await(f, 1, 0, 10000);
        const uint64_t now = rf_now_ns();
        kill(f->pids[culprit], SIGKILL);
        fleet_await(f, 3, 1u << culprit, 5000);
        check_loss(f, culprit, now, 1500, "connection closed");
        fleet_free(f);
    }
}

/* Rank 0, which is seen stopped by those who look at it, another, and the last: heartbeats, or what takes their place,
 * do not come any more. */
static void stop_ranks(bool liveness)
{
    for (uint32_t culprit = 0; culprit < LARGE; culprit += 7) {
        fleet *f = fleet_create(LARGE, steady_rank);
        if (liveness) fleet_add_liveness(f);
        fleet_start(f);
        fleet_await(f, 1, 0, 10000);
        if (liveness) sleep_ms(1200); /* until they lie idle */
        const uint64_t now = rf_now_ns();
        kill(f->pids[culprit], SIGSTOP);
        fleet_await(f, 2, 1u << culprit, 5000);
        check_loss(f, culprit, now, liveness ? 2500 : 2000, "silent for");
        kill(f->pids[culprit], SIGCONT);
        fleet_await(f, 3, 0, 5000);
        assert_int_equal(f->reports[culprit].result, RF_ERROR_PEER_LOST);
        fleet_free(f);
    }
}

TEST_OF(slow_tests, test_large_stopped)
{
    stop_ranks(false);
}

TEST_OF(slow_tests, test_board_stopped)
{
    stop_ranks(true);
}

/* The liveness page alone is enough: heartbeats between ranks 0 and 7 would not arrive. From a rank that does not use
 * it they are still wanted, and it is lost when none come. */
TEST_OF(slow_tests, test_liveness_alone)
{
    for (int without = 0; without < 2; without++) {
        fleet *f = fleet_create(LARGE, steady_rank);
        fleet_add_liveness(f);
        f->without_liveness = without ? 1u << 7 : 0;
        fleet_start(f);
        fleet_await(f, 1, 0, 10000);
        sleep_ms(500);
        const uint64_t now = rf_now_ns();
        f->deaf[0] = 1u << 7;
        f->deaf[7] = 1;
        if (without) {
            fleet_await(f, 3, 0, 5000);
            check_loss(f, LARGE, now, 2500, "ranks 0 and 7 no longer reach each other");
        } else {
            sleep_ms(3000);
            for (uint32_t r = 0; r < LARGE; r++) assert_int_equal(f->reports[r].stage, 1);
        }
        fleet_free(f);
    }
}

/* Packets of rank 7 vanish: all of them, or those to and from rank 0, or those of rank 0 to it. */
TEST_OF(slow_tests, test_large_black_holes)
{
    for (int kind = 0; kind < 3; kind++) {
        fleet *f = fleet_create(LARGE, steady_rank);
        fleet_start(f);
        fleet_await(f, 1, 0, 10000);
        const uint64_t now = rf_now_ns();
        for (uint32_t r = 0; r < LARGE && kind == 0; r++) f->deaf[r] = 1u << 7;
        if (kind == 1) f->deaf[0] = 1u << 7;
        f->deaf[7] = kind == 0 ? (1u << LARGE) - 1 : 1;
        fleet_await(f, 3, 0, 5000);
        for (uint32_t r = 0; r < LARGE; r++) assert_int_equal(f->reports[r].lost, 7);
        check_loss(f, LARGE, now, 2000,
                   kind == 0 ? "rank 7 (127.0.0.1) was lost: " : "ranks 0 and 7 no longer reach each other");
        fleet_free(f);
    }
}

/* Nobody is lost while all is well, whoever leaves first, and who has left is known to those it is not linked to. */
static void large_leaver(fleet *f, uint32_t rank)
{
    rf_mesh *mesh;
    if (!rank_join(f, rank, &mesh)) return;
    if (rank != 10 && rank != 3) sleep_ms(1500);
    if (rank == 3) {
        const uint64_t end = rf_now_ns() + 5 * SECOND;
        while (rf_mesh_left_before(mesh, 1) != 10 && rf_now_ns() < end) sleep_ms(1);
        NEED(rf_mesh_left_before(mesh, 1) == 10);
    }
    rank_note(f, rank, mesh, rf_mesh_status(mesh));
    rank_leave(f, rank, &mesh);
}

TEST_OF(slow_tests, test_large_goodbye)
{
    for (int liveness = 0; liveness < 2; liveness++) {
        fleet *f = fleet_create(LARGE, large_leaver);
        if (liveness) fleet_add_liveness(f);
        for (uint32_t r = 0; r < LARGE; r++) f->jobs[r].peer_timeout_ns = 2 * SECOND;
        fleet_start(f);
        fleet_await(f, 3, 0, 10000);
        check_all_well(f);
        fleet_free(f);
    }
}

static void exiting_rank(fleet *f, uint32_t rank)
{
    rf_mesh *mesh;
    if (!rank_join(f, rank, &mesh)) return;
    if (rank == 1) {
        while (!f->stop) sleep_ms(1);
        leave_process();
    }
    f->reports[rank].stage = 1;
    while (rf_mesh_status(mesh) == RF_OK) sleep_ms(1);
    rank_note(f, rank, mesh, rf_mesh_status(mesh));
    rank_leave(f, rank, &mesh);
}

TEST(test_exit)
{
    fleet *f = fleet_create(3, exiting_rank);
    fleet_start(f);
    fleet_await(f, 1, 0, 10000);
    const uint64_t now = rf_now_ns();
    f->stop = true;
    fleet_await(f, 3, 2, 5000);
    check_loss(f, 1, now, 1000, "connection closed");
    fleet_free(f);
}

/* Rank 1 sees the loss of rank 2 and is gone at once: rank 0 still blames rank 2. */
static void domino_rank(fleet *f, uint32_t rank)
{
    rf_mesh *mesh;
    if (!rank_join(f, rank, &mesh)) return;
    if (rank == 2) {
        while (!f->stop) sleep_ms(1);
        leave_process();
    }
    if (rank == 0) { /* the last to know */
        while (!f->stop) sleep_ms(1);
    }
    while (rf_mesh_status(mesh) == RF_OK) {}
    rank_note(f, rank, mesh, rf_mesh_status(mesh));
    if (rank == 1) {
        rf_mesh_destroy(&mesh);
        f->reports[rank].stage = 3;
        leave_process();
    }
    rank_leave(f, rank, &mesh);
}

TEST(test_domino)
{
    for (int i = 0; i < 3; i++) {
        fleet *f = fleet_create(3, domino_rank);
        fleet_start(f);
        fleet_await(f, 1, 0, 10000);
        const uint64_t now = rf_now_ns();
        f->stop = true;
        fleet_await(f, 3, 4, 5000);
        check_loss(f, 2, now, 1000, "connection closed");
        fleet_free(f);
    }
}

/* ---- abort ---- */

typedef struct callback_state {
    _Atomic int calls;
} callback_state;

static void count_call(void *user)
{
    ((callback_state *)user)->calls++;
}

static void aborting_rank(fleet *f, uint32_t rank)
{
    rf_mesh *mesh;
    callback_state calls = { 0 }, late = { 0 };
    if (!rank_join(f, rank, &mesh)) return;
    rf_mesh_on_abort(mesh, count_call, &calls);
    for (uint64_t serial = 1; serial <= 20; serial++) {
        rf_mesh_begin_operation(mesh, serial, "all_reduce");
        if (serial < 20) rf_mesh_finish_operation(mesh, serial);
    }
    uint8_t all[4];
    size_t sizes[4];
    NEED(rf_mesh_exchange(mesh, "x", 1, all, 1, sizes) == RF_OK);
    /* Rank 1 never comes to the second exchange; it ends the epoch instead. */
    if (rank == 1) {
        sleep_ms(100); /* an abort overtakes an exchange that is under way */
        rf_mesh_abort(mesh, 1, RF_ERROR_CANCELLED, "rank 1 has had enough");
    }
    const rf_result r = rf_mesh_exchange(mesh, "x", 1, all, 1, sizes);
    rank_note(f, rank, mesh, r);
    rf_mesh_abort(mesh, 2, RF_ERROR_IO, "comes too late");
    NEED(rf_mesh_status(mesh) == RF_ERROR_CANCELLED && strcmp(rf_error_message(), "rank 1 has had enough") == 0);
    for (int i = 0; i < 1000 && !calls.calls; i++) sleep_ms(1);
    rf_mesh_on_abort(mesh, count_call, &late);
    f->reports[rank].callbacks = calls.calls * 10 + late.calls;
    rank_leave(f, rank, &mesh);
}

static void check_aborted(const fleet *f)
{
    for (uint32_t r = 0; r < f->world; r++) {
        if (f->reports[r].result != RF_ERROR_CANCELLED) fail_msg("rank %u: %s", r, f->reports[r].message);
        assert_string_equal(f->reports[r].message, "rank 1 has had enough");
        assert_int_equal(f->reports[r].lost, 1);
        assert_int_equal(f->reports[r].callbacks, 11);
        assert_non_null(strstr(f->reports[r].operations, "20 all_reduce pending for "));
        assert_non_null(strstr(f->reports[r].operations, "; 5 all_reduce done in "));
        assert_null(strstr(f->reports[r].operations, "; 4 all_reduce"));
    }
}

TEST(test_abort)
{
    fleet *f = fleet_create(4, aborting_rank);
    fleet_start(f);
    fleet_await(f, 3, 0, 10000);
    check_aborted(f);
    fleet_free(f);
    const int before = open_descriptors();
    f = fleet_create(4, aborting_rank);
    fleet_run_threads(f);
    check_aborted(f);
    fleet_free(f);
    assert_int_equal(open_descriptors(), before);
}

/* Rank 0 loses its data connection to rank 1, and no rank knows of another reason. */
static void reporting_rank(fleet *f, uint32_t rank)
{
    rf_mesh *mesh;
    if (!rank_join(f, rank, &mesh)) return;
    if (rank == 0) rf_mesh_report_lost(mesh, 1, "data connection broken");
    rank_await_end(f, rank, mesh);
    rank_leave(f, rank, &mesh);
}

TEST(test_report)
{
    fleet *f = fleet_create(2, reporting_rank);
    fleet_start(f);
    fleet_await(f, 3, 0, 10000);
    for (uint32_t r = 0; r < 2; r++) {
        assert_int_equal(f->reports[r].lost, 1);
        assert_string_equal(f->reports[r].message, "rank 1 (127.0.0.1) was lost: data connection broken");
    }
    fleet_free(f);
}

/* A rank that never comes to an exchange. */
static void absent_rank(fleet *f, uint32_t rank)
{
    rf_mesh *mesh;
    if (!rank_join(f, rank, &mesh)) return;
    uint8_t all[3];
    size_t sizes[3];
    if (rank == 2)
        rank_await_end(f, rank, mesh);
    else
        rank_note(f, rank, mesh, rf_mesh_exchange(mesh, "x", 1, all, 1, sizes));
    rank_leave(f, rank, &mesh);
}

TEST(test_exchange_timeout)
{
    fleet *f = fleet_create(3, absent_rank);
    f->jobs[0].operation_timeout_ns = 300 * MS; /* rank 0's word holds for all */
    fleet_start(f);
    fleet_await(f, 3, 0, 5000);
    for (uint32_t r = 0; r < 3; r++) {
        assert_int_equal(f->reports[r].result, RF_ERROR_TIMEOUT);
        assert_int_equal(f->reports[r].lost, 2);
        assert_string_equal(f->reports[r].message, "rank 2 (127.0.0.1) did not take part in exchange 0 within 0.3 s");
    }
    fleet_free(f);
}

/* A breaking data connection is not taken at its word when an abort explains it. */
static void explained_rank(fleet *f, uint32_t rank)
{
    rf_mesh *mesh;
    if (!rank_join(f, rank, &mesh)) return;
    while (!f->stop) sleep_ms(1);
    if (rank == 0) rf_mesh_report_lost(mesh, 1, "data connection broken");
    if (rank == 1) {
        sleep_ms(20);
        rf_mesh_abort(mesh, 2, RF_ERROR_PEER_LOST, "rank 2 did it");
    }
    for (int i = 0; i < 3000 && rf_mesh_status(mesh) == RF_OK; i++) sleep_ms(1);
    rank_note(f, rank, mesh, rf_mesh_status(mesh));
    rank_leave(f, rank, &mesh);
}

TEST(test_explained)
{
    fleet *f = fleet_create(3, explained_rank);
    fleet_start(f);
    fleet_await(f, 1, 0, 10000);
    f->stop = true;
    fleet_await(f, 3, 0, 5000);
    for (uint32_t r = 0; r < 3; r++) {
        assert_string_equal(f->reports[r].message, "rank 2 did it");
        assert_int_equal(f->reports[r].lost, 2);
    }
    fleet_free(f);
}

static void count_lines(void *user, rf_log_level level, const char *message)
{
    _Atomic int *lines = user;
    if (level == RF_LOG_ERROR && strstr(message, "operation ") && strstr(message, " all_reduce ")) ++*lines;
}

/* An abort writes the last 16 operations of each rank to the log. */
TEST(test_log)
{
    _Atomic int lines = 0;
    rf_log_set(count_lines, &lines, RF_LOG_ERROR);
    fleet *f = fleet_create(3, aborting_rank);
    fleet_run_threads(f);
    fleet_free(f);
    rf_log_set(NULL, NULL, RF_LOG_ERROR);
    assert_int_equal(lines, 3 * 16);
}

/* "quick": what takes no peer timeout; "slow": the rest; without argument all. */
TEST_PROGRAM(mesh)
{
    const bool all = argc < 2;
    int failed = 0;
    if (all || strcmp(argv[1], "quick") == 0) failed += room_tests_run(own_tests, NULL, NULL);
    if (all || strcmp(argv[1], "slow") == 0) failed += room_tests_run(slow_tests, NULL, NULL);
    return failed;
}
