/* SPDX-License-Identifier: Apache-2.0 */
/* The mesh's detector: worlds whose every rank is simulated, with heartbeats each 100 ms and a timeout of 800 ms. */
#include <string.h>

#include "tests/room.h"
#include "transport/mesh/detector.h"
#include "transport/mesh/topology.h"

#define MS UINT64_C(1000000)
#define S UINT64_C(1000000000)

#define INTERVAL (100 * MS)
#define TIMEOUT (800 * MS)
#define WORLD_MAX 20 /* connected throughout only up to RF_MESH_FULL */
#define SMALL_MAX 6

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

/* To all that `rank` is connected to, who answer at once. */
static void beat_and_hear(world *w, uint32_t rank)
{
    for (uint32_t to = 0; to < w->count; to++) {
        if (!rf_mesh_linked(rank, to, w->count)) continue;
        beat(w, rank, to);
        if (!w->stopped[to] && !w->cut[rank][to]) beat(w, to, rank);
    }
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
                    if (to != r && rf_detector_watches(w->detectors[to], r)) beat(w, r, to);
            if (rf_detector_alarm(w->detectors[r], w->now)) beat_and_hear(w, r);
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

TEST(test_silence)
{
    for (uint32_t count = 2; count <= SMALL_MAX; count++) {
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
TEST(test_short_pauses)
{
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
TEST(test_own_pause)
{
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

TEST(test_cut_off)
{
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
TEST(test_minority)
{
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
TEST(test_link)
{
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
TEST(test_two_stopped)
{
    world w;
    world_init(&w, 5);
    world_run(&w, S);
    w.stopped[3] = w.stopped[1] = true;
    world_run(&w, 2 * S);
    check_found(&w, 10, 1, RF_PEER_LOSS_SILENT, 0, UINT64_MAX);
    world_free(&w);
}

TEST(test_closed)
{
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
TEST(test_reset_link)
{
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
TEST(test_broken_and_cut_off)
{
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

TEST(test_left)
{
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
TEST(test_next)
{
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

/* ---- detector of a world that is not connected throughout: rank 0 watches, the others are asked ---- */

TEST(test_large_silence)
{
    for (uint32_t culprit = 0; culprit < WORLD_MAX; culprit += 3) {
        world w;
        world_init(&w, WORLD_MAX);
        world_run(&w, 5 * S);
        check_quiet(&w);
        const uint64_t from = w.now;
        w.stopped[culprit] = true;
        world_run(&w, 2 * S);
        if (culprit == 0) {
            check_found(&w, 1, 0, RF_PEER_LOSS_SILENT, from + TIMEOUT - INTERVAL, from + TIMEOUT + 10 * MS);
        } else { /* rank 0 tells the rest */
            check_found(&w, ~1u, culprit, RF_PEER_LOSS_SILENT, from + TIMEOUT - INTERVAL, from + TIMEOUT + 10 * MS);
        }
        world_free(&w);
    }
}

/* Rank 7 loses the path to rank 0: both ends say so, in time, and name the same one; the rest find nothing. */
TEST(test_large_link)
{
    for (int kind = 0; kind < 2; kind++) {
        world w;
        world_init(&w, WORLD_MAX);
        world_run(&w, 2 * S);
        const uint64_t from = w.now;
        w.cut[7][0] = w.cut[0][7] = true;
        if (kind == 1) /* and to all others: then it is cut off, and says so */
            for (uint32_t r = 0; r < WORLD_MAX; r++) w.cut[7][r] = w.cut[r][7] = true;
        world_run(&w, 2 * S);
        check_found(&w, ~1u, 7, kind == 0 ? RF_PEER_LOSS_LINK : RF_PEER_LOSS_SILENT, from + TIMEOUT - INTERVAL,
                    from + TIMEOUT + 10 * MS);
        check_found(&w, ~(1u << 7), 7, kind == 0 ? RF_PEER_LOSS_LINK : RF_PEER_LOSS_CUT_OFF, from + TIMEOUT - INTERVAL,
                    from + TIMEOUT + 10 * MS);
        for (uint32_t r = 1; r < WORLD_MAX; r++) assert_int_equal(w.found[r], r == 7 || w.stopped[r]);
        world_free(&w);
    }
}

/* A data connection to a rank that is not linked: rank 0, which hears it, decides that the path is broken. */
TEST(test_large_data_link)
{
    world w;
    world_init(&w, WORLD_MAX);
    world_run(&w, 2 * S);
    assert_false(rf_mesh_linked(7, 10, WORLD_MAX));
    const uint64_t from = w.now;
    assert_true(rf_detector_closed(w.detectors[7], 10, w.now));
    world_run(&w, RF_HOLD_PROBE_NS + 10 * MS);
    beat_and_hear(&w, 7); /* as the mesh does */
    world_run(&w, S);
    check_found(&w, ~(1u << 7), 10, RF_PEER_LOSS_LINK, from + RF_HOLD_DOUBT_NS, from + RF_HOLD_DOUBT_NS + 20 * MS);
    world_free(&w);
    /* Where rank 0 has lost it too, nothing is left to doubt. */
    world_init(&w, WORLD_MAX);
    world_run(&w, 2 * S);
    rf_detector_closed(w.detectors[0], 10, w.now);
    rf_detector_closed(w.detectors[7], 10, w.now);
    beat_and_hear(&w, 7);
    const uint64_t then = w.now;
    world_run(&w, S);
    check_found(&w, ~(1u << 7), 10, RF_PEER_LOSS_CLOSED, then + RF_HOLD_NS, then + RF_HOLD_NS + 20 * MS);
    world_free(&w);
}

/* Signs of life that somebody else has dated. */
TEST(test_dated)
{
    rf_detector *d;
    rf_finding found;
    const uint64_t now = 50 * S;
    assert_int_equal(rf_detector_create(0, WORLD_MAX, INTERVAL, TIMEOUT, now, &d), RF_OK);
    assert_true(rf_detector_calm(d));
    for (uint32_t r = 1; r < WORLD_MAX; r++) rf_detector_heard_at(d, r, now + (r == 5 ? 10 : 700) * MS);
    rf_detector_heard_at(d, 5, now - S); /* an old one says nothing new */
    for (uint32_t r = 1; r < WORLD_MAX; r++)
        if (rf_mesh_linked(r, 5, WORLD_MAX)) rf_detector_set_late(d, r, 5);
    assert_false(rf_detector_judge(d, now + 10 * MS + TIMEOUT - 1, &found));
    assert_true(rf_detector_judge(d, now + 10 * MS + TIMEOUT, &found));
    assert_int_equal(found.culprit, 5);
    assert_int_equal(found.loss, RF_PEER_LOSS_SILENT);
    assert_true(rf_detector_calm(d));
    assert_true(rf_detector_closed(d, 5, now));
    assert_false(rf_detector_calm(d));
    rf_detector_destroy(&d);
    /* Nor is it calm as long as an answer is due. */
    assert_int_equal(rf_detector_create(7, WORLD_MAX, INTERVAL, TIMEOUT, now, &d), RF_OK);
    assert_true(rf_detector_calm(d));
    assert_true(rf_detector_alarm(d, now + TIMEOUT));
    assert_false(rf_detector_calm(d));
    rf_detector_destroy(&d);
}

TESTS(mesh_detector, NULL, NULL)
