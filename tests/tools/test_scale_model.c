/* SPDX-License-Identifier: Apache-2.0 */
/* The model of `ringfire-bench scale`, and the units of its options. The model is held
 * against the schedules that the library carries out: every rank's steps are walked
 * through with a clock of its own, and the last rank's time is compared with the formula. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "bench/scale_model.h"
#include "bench/scale_net.h"
#include "bench/units.h"
#include "replica/exchange/segments.h"
#include "tests/room.h"
#include "transport/collective/schedule.h"

enum { MAX_WORLD = 33, ELEMENT = 4 };

static const rf_comm_algorithm algorithms[SCALE_SCHEDULES] = {
    [SCALE_RING] = RF_COMM_RING,
    [SCALE_DOUBLING] = RF_COMM_RECURSIVE_DOUBLING,
    [SCALE_HALVING] = RF_COMM_RECURSIVE_HALVING,
    [SCALE_HIERARCHICAL] = RF_COMM_HIERARCHICAL,
};

/* Figures in which no two terms are alike. Chains hand everything on at once, as the lists of steps do. */
static scale_network network_of(uint32_t per_host)
{
    return (
        scale_network){ .between = { 5e-6, 1.25e9 }, .within = { 1e-6, 2e10 }, .per_host = per_host, .sum_rate = 1e10 };
}

/* ---- the walk ---- */

typedef struct walked_rank {
    rf_collective_schedule schedule;
    uint32_t next;
    double now;
    double *begun; /* of each step up to `next`, when the rank came to it */
} walked_rank;

typedef struct walk {
    const scale_network *network;
    uint32_t world;
    walked_rank ranks[MAX_WORLD];
} walk;

/* Steps of a round that leave the host of `rank`: they share its link. */
static uint32_t count_leaving(const walk *w, uint32_t rank, uint32_t round)
{
    const uint32_t host = rank / w->network->per_host;
    uint32_t leaving = 0;
    for (uint32_t r = 0; r < w->world; r++) {
        const rf_collective_schedule *s = &w->ranks[r].schedule;
        for (uint32_t i = 0; r / w->network->per_host == host && i < s->count; i++)
            leaving += s->items[i].round == round && s->items[i].to >= 0 &&
                       (uint32_t)s->items[i].to / w->network->per_host != host;
    }
    return leaving;
}

static double transfer_time(const walk *w, uint32_t from, uint32_t to, uint32_t round, uint64_t count)
{
    const scale_network *n = w->network;
    const double bytes = (double)count * ELEMENT;
    if (from / n->per_host == to / n->per_host) return n->within.latency + bytes / n->within.bandwidth;
    return n->between.latency + bytes * count_leaving(w, from, round) / n->between.bandwidth;
}

/* When `from` came to the step of this round in which it sends to `to`; below 0: not yet. */
static double send_begun(const walk *w, uint32_t from, uint32_t to, uint32_t round)
{
    const walked_rank *sender = &w->ranks[from];
    for (uint32_t i = 0; i < sender->schedule.count && i <= sender->next; i++)
        if (sender->schedule.items[i].round == round && sender->schedule.items[i].to == (int32_t)to)
            return sender->begun[i];
    return -1;
}

/* Takes a rank through its next step if what it waits for is on its way. */
static bool walk_step(walk *w, uint32_t rank)
{
    walked_rank *r = &w->ranks[rank];
    if (r->next == r->schedule.count) return false;
    const rf_collective_step *step = &r->schedule.items[r->next];
    double end = r->now;
    if (step->from >= 0) {
        const double begun = send_begun(w, (uint32_t)step->from, rank, step->round);
        if (begun < 0) return false;
        end = (begun > r->now ? begun : r->now) +
              transfer_time(w, (uint32_t)step->from, rank, step->round, step->receive_count);
        if (step->reduce) end += (double)step->receive_count * ELEMENT / w->network->sum_rate;
    }
    if (step->to >= 0) {
        const double sent = r->now + transfer_time(w, rank, (uint32_t)step->to, step->round, step->send_count);
        if (sent > end) end = sent;
    }
    r->now = end;
    if (++r->next < r->schedule.count) r->begun[r->next] = end;
    return true;
}

static double walk_seconds(const scale_network *network, rf_collective kind, rf_comm_algorithm algorithm,
                           uint32_t world, uint64_t count)
{
    walk w = { .network = network, .world = world };
    uint32_t hosts[MAX_WORLD];
    uint64_t counts[MAX_WORLD];
    for (uint32_t r = 0; r < world; r++) {
        hosts[r] = r / network->per_host;
        counts[r] = count / world;
    }
    for (uint32_t r = 0; r < world; r++) {
        const rf_collective_task task = { kind, algorithm, r, world, count, counts, 0, hosts, 0 };
        assert_int_equal(rf_collective_schedule_make(&task, &w.ranks[r].schedule), RF_OK);
        w.ranks[r].begun = calloc(w.ranks[r].schedule.count + 1, sizeof(double));
        assert_non_null(w.ranks[r].begun);
    }
    for (bool moved = true; moved;) {
        moved = false;
        for (uint32_t r = 0; r < world; r++)
            while (walk_step(&w, r)) moved = true;
    }
    double last = 0;
    for (uint32_t r = 0; r < world; r++) {
        assert_int_equal(w.ranks[r].next, w.ranks[r].schedule.count);
        if (w.ranks[r].now > last) last = w.ranks[r].now;
        free(w.ranks[r].begun);
        rf_collective_schedule_free(&w.ranks[r].schedule);
    }
    return last;
}

/* A few shards are an element longer than others. */
static void assert_same(double formula, double walked)
{
    if (formula < walked * (1 - 1e-5) || formula > walked * (1 + 1e-5))
        fail_msg("the formula says %.9g s, the steps take %.9g s", formula, walked);
}

static const uint32_t worlds[] = { 2, 3, 4, 5, 6, 7, 8, 12, 16, 17, 24, 32, 33 };
enum { NUM_WORLDS = sizeof(worlds) / sizeof(worlds[0]) };

/* Elements in equal shards, few and many of them: on both sides of what the hierarchical schedule changes at. */
static uint64_t equal_shards(uint32_t world, bool many)
{
    return (many ? 4096u : 2u) * (uint64_t)world * 32;
}

/* ---- the tests ---- */

TEST(test_all_reduce_one_rank_a_host)
{
    const scale_network n = network_of(1);
    for (int i = 0; i < NUM_WORLDS; i++)
        for (int s = 0; s < SCALE_SCHEDULES; s++)
            for (int many = 0; many < 2; many++) {
                const uint64_t count = equal_shards(worlds[i], many);
                assert_same(scale_all_reduce(&n, (scale_schedule)s, worlds[i], (double)count * ELEMENT),
                            walk_seconds(&n, RF_COLLECTIVE_ALL_REDUCE, algorithms[s], worlds[i], count));
            }
}

TEST(test_all_reduce_several_ranks_a_host)
{
    static const uint32_t per_host[] = { 2, 3, 4, 8 };
    for (int h = 0; h < 4; h++) {
        const scale_network n = network_of(per_host[h]);
        for (int i = 0; i < NUM_WORLDS; i++)
            for (int s = 0; s < SCALE_SCHEDULES; s++)
                for (int many = 0; many < 2; many++) {
                    const uint64_t count = equal_shards(worlds[i], many);
                    const double formula = scale_all_reduce(&n, (scale_schedule)s, worlds[i], (double)count * ELEMENT);
                    const double walked = walk_seconds(&n, RF_COLLECTIVE_ALL_REDUCE, algorithms[s], worlds[i], count);
                    const bool even = (worlds[i] & (worlds[i] - 1)) == 0 && per_host[h] != 3;
                    /* Elsewhere some ranks are ahead of the slowest link of their round. */
                    if (s == SCALE_RING || s == SCALE_HIERARCHICAL || even)
                        assert_same(formula, walked);
                    else if (formula < walked * (1 - 1e-9) || formula > 1.6 * walked)
                        fail_msg("%u ranks, %u on a host, %s: %.9g s for %.9g s", worlds[i], per_host[h],
                                 scale_schedule_name((scale_schedule)s), formula, walked);
                }
    }
}

/* Checks one half, by every schedule that does it. */
static void check_shards(rf_collective kind, const scale_network *n, uint32_t world, uint64_t count)
{
    const double bytes = (double)count * ELEMENT;
    const bool add = kind == RF_COLLECTIVE_REDUCE_SCATTER, power = (world & (world - 1)) == 0;
    for (int s = 0; s < SCALE_SCHEDULES; s++) {
        if (s == SCALE_DOUBLING || (s == SCALE_HALVING && !power)) continue;
        const double formula = add ? scale_reduce_scatter(n, (scale_schedule)s, world, bytes)
                                   : scale_all_gather(n, (scale_schedule)s, world, bytes);
        const rf_comm_algorithm algorithm = s == SCALE_HALVING && !add ? RF_COMM_RECURSIVE_DOUBLING : algorithms[s];
        const double walked = walk_seconds(n, kind, algorithm, world, count);
        /* A last host with fewer ranks is ahead of the others, and so are some ranks whose pairs lie on one host. */
        if (s == SCALE_RING || world % n->per_host == 0 || (s == SCALE_HALVING && n->per_host != 3))
            assert_same(formula, walked);
        else if (formula < walked * (1 - 1e-9) || formula > 1.6 * walked)
            fail_msg("%u ranks, %u on a host: %.9g s for %.9g s", world, n->per_host, formula, walked);
    }
}

TEST(test_shards)
{
    static const uint32_t per_host[] = { 1, 2, 3, 4, 8 };
    for (int h = 0; h < 5; h++) {
        const scale_network n = network_of(per_host[h]);
        for (int i = 0; i < NUM_WORLDS; i++)
            for (int many = 0; many < 2; many++) {
                check_shards(RF_COLLECTIVE_REDUCE_SCATTER, &n, worlds[i], equal_shards(worlds[i], many));
                check_shards(RF_COLLECTIVE_ALL_GATHER, &n, worlds[i], equal_shards(worlds[i], many));
            }
    }
}

static scale_schedule selected_schedule(rf_collective kind, uint32_t world, uint32_t per_host, uint64_t bytes)
{
    rf_comm_algorithm algorithm = rf_collective_schedule_select(kind, world, per_host, bytes);
    if (kind == RF_COLLECTIVE_ALL_GATHER && algorithm == RF_COMM_RECURSIVE_DOUBLING)
        algorithm = RF_COMM_RECURSIVE_HALVING; /* one name for both halves */
    int s = SCALE_RING;
    while (algorithms[s] != algorithm) s++;
    return (scale_schedule)s;
}

/* The model's copy of what the library decides. */
static void check_decision(uint32_t world, uint32_t per_host, uint64_t bytes)
{
    const double size = (double)bytes;
    assert_int_equal(algorithms[scale_select(per_host, world, size)],
                     rf_collective_schedule_select(RF_COLLECTIVE_ALL_REDUCE, world, per_host, bytes));
    assert_int_equal(scale_select_scatter(per_host, world, size),
                     selected_schedule(RF_COLLECTIVE_REDUCE_SCATTER, world, per_host, bytes));
    assert_int_equal(scale_select_gather(per_host, world, size),
                     selected_schedule(RF_COLLECTIVE_ALL_GATHER, world, per_host, bytes));
}

TEST(test_decisions)
{
    for (uint32_t world = 2; world <= RF_COMM_FULL_MESH; world++)
        for (uint64_t kib = 4; kib <= 1024; kib *= 2)
            for (uint64_t bytes = kib * 1024; bytes <= kib * 1024 + 4; bytes += 4) check_decision(world, 1, bytes);
    for (uint32_t world = 2 * RF_COMM_FULL_MESH; world <= 1024; world *= 2)
        for (uint32_t per_host = 1; per_host <= 16; per_host *= 2)
            for (uint64_t bytes = 4096; bytes < UINT64_C(1) << 33; bytes *= 2) check_decision(world, per_host, bytes);
    /* Elsewhere its sums are simpler than the model's; what it selects must at least be no slower there than a ring. */
    for (uint32_t world = RF_COMM_FULL_MESH + 1; world <= 1024; world = world * 5 / 4 + 1)
        for (uint32_t per_host = 1; per_host <= 12; per_host++)
            for (uint64_t bytes = 256 << 10; bytes < UINT64_C(1) << 33; bytes *= 3) {
                const scale_network n = { .between = { 5e-6, 12.5e9 },
                                          .within = { 1e-6, 50e9 },
                                          .per_host = per_host,
                                          .sum_rate = 1e10,
                                          .chunk = 512 << 10 };
                const double size = (double)bytes;
                const scale_schedule reduce = selected_schedule(RF_COLLECTIVE_ALL_REDUCE, world, per_host, bytes),
                                     scatter = selected_schedule(RF_COLLECTIVE_REDUCE_SCATTER, world, per_host, bytes),
                                     gather = selected_schedule(RF_COLLECTIVE_ALL_GATHER, world, per_host, bytes);
                assert_true(scale_all_reduce(&n, reduce, world, size) <= scale_all_reduce(&n, SCALE_RING, world, size));
                assert_true(scale_reduce_scatter(&n, scatter, world, size) <=
                            scale_reduce_scatter(&n, SCALE_RING, world, size));
                assert_true(scale_all_gather(&n, gather, world, size) <= scale_all_gather(&n, SCALE_RING, world, size));
            }
    /* Whatever the size, one host, and hosts whose ranks are not in a row, go by bytes alone. */
    assert_int_equal(rf_collective_schedule_select(RF_COLLECTIVE_ALL_REDUCE, 1024, 0, 1 << 20), RF_COMM_RING);
    assert_int_equal(rf_collective_schedule_select(RF_COLLECTIVE_ALL_REDUCE, 1024, 1024, 1 << 20), RF_COMM_RING);
    assert_int_equal(rf_collective_schedule_select(RF_COLLECTIVE_ALL_REDUCE, 1024, 1, 1 << 20),
                     RF_COMM_RECURSIVE_HALVING);
    for (int kind = RF_COLLECTIVE_ALL_REDUCE; kind <= RF_COLLECTIVE_ALL_GATHER; kind++)
        assert_int_equal(rf_collective_schedule_select((rf_collective)kind, 1024, 8, 7 << 20), RF_COMM_HIERARCHICAL);
    const uint32_t rows[7] = { 0, 0, 0, 1, 1, 1, 2 }, turns[4] = { 0, 1, 0, 1 }, uneven[4] = { 0, 0, 0, 1 },
                   back[5] = { 0, 0, 1, 1, 0 }, larger[5] = { 0, 0, 1, 1, 1 }, one[3] = { 0, 0, 0 };
    assert_int_equal(rf_collective_per_host(rows, 7), 3);
    assert_int_equal(rf_collective_per_host(turns, 4), 0);
    assert_int_equal(rf_collective_per_host(uneven, 4), 3);
    assert_int_equal(rf_collective_per_host(back, 5), 0);
    assert_int_equal(rf_collective_per_host(larger, 5), 0);
    assert_int_equal(rf_collective_per_host(one, 3), 3);
    for (uint64_t count = 1u << 10; count <= 1u << 30; count *= 4)
        assert_int_equal((uint64_t)scale_bucket_bytes((double)count * ELEMENT), rf_bucket_size(0, count) * ELEMENT);
    for (int s = 0; s < SCALE_SCHEDULES; s++) /* "halving" of "recursive halving" */
        assert_non_null(strstr(rf_algorithm_name(algorithms[s]), scale_schedule_name((scale_schedule)s)));
}

TEST(test_alone)
{
    const scale_network n = network_of(8);
    for (int s = 0; s < SCALE_SCHEDULES; s++) assert_true(scale_all_reduce(&n, (scale_schedule)s, 1, 1e6) == 0);
    for (int s = 0; s < SCALE_SCHEDULES; s++)
        assert_true(scale_reduce_scatter(&n, (scale_schedule)s, 1, 1e6) == 0 &&
                    scale_all_gather(&n, (scale_schedule)s, 1, 1e6) == 0);
}

/* Chunks through the chain of a host, one after the other on each link, as a table of when each has passed each. */
TEST(test_chain)
{
    enum { HOST = 5, CHUNKS = 7 };
    scale_network n = network_of(HOST);
    n.chunk = 4096;
    const double part = n.chunk, up = n.within.latency + part / n.within.bandwidth + part / n.sum_rate,
                 down = n.within.latency + part / n.within.bandwidth;
    double sums[CHUNKS + 1][HOST] = { 0 }, values[CHUNKS + 1][HOST] = { 0 };
    for (int c = 1; c <= CHUNKS; c++)
        for (int hop = 1; hop < HOST; hop++) {
            const double ready = sums[c][hop - 1], free = sums[c - 1][hop];
            sums[c][hop] = (ready > free ? ready : free) + up;
        }
    for (int c = 1; c <= CHUNKS; c++) {
        values[c][0] = sums[CHUNKS][HOST - 1];
        for (int hop = 1; hop < HOST; hop++) {
            const double ready = values[c][hop - 1], free = values[c - 1][hop];
            values[c][hop] = (ready > free ? ready : free) + down;
        }
    }
    assert_same(scale_all_reduce(&n, SCALE_HIERARCHICAL, HOST, part * CHUNKS), values[CHUNKS][HOST - 1]);
}

static void assert_step(scale_step got, double step, double communication, double exposed)
{
    assert_float_equal(got.step, step, 1e-9);
    assert_float_equal(got.communication, communication, 1e-9);
    assert_float_equal(got.exposed, exposed, 1e-9);
}

/* Worked out on paper: 9 s of computing, forward until 3; three buckets, ready at 5, 7 and 9. */
TEST(test_steps)
{
    assert_step(scale_step_time(9, 3, 0, 0), 9, 0, 0);
    assert_step(scale_step_time(9, 3, 1, 0), 10, 3, 1);       /* 5-6, 7-8, 9-10 */
    assert_step(scale_step_time(9, 3, 3, 0), 14, 9, 5);       /* 5-8, 8-11, 11-14 */
    assert_step(scale_step_time(9, 3, 1, 1), 13, 6, 4);       /* the same, then all three are gathered */
    assert_step(scale_step_time(9, 1, 2, 1), 12, 3, 3);       /* one bucket overlaps with nothing */
    assert_step(scale_step_time(9, 6, 0.25, 0.25), 10, 3, 1); /* four of six are gathered by 9.5 */
    assert_float_equal(scale_bucket_ready(9, 3, 0), 5, 1e-9);
    assert_float_equal(scale_bucket_ready(9, 3, 2), 9, 1e-9);
    assert_int_equal(scale_buckets(10, 3), 4);
    assert_int_equal(scale_buckets(2, 3), 1);
}

TEST(test_units)
{
    uint64_t bytes;
    double value;
    assert_true(parse_size("4", &bytes) && bytes == 4);
    assert_true(parse_size("63", &bytes) && bytes == 60); /* whole floats */
    assert_true(parse_size("16M", &bytes) && bytes == 16 << 20);
    assert_true(parse_size("4G", &bytes) && bytes == UINT64_C(4) << 30);
    static const char *const no_sizes[] = { "", "0", "3", "5G", "K", "1KB", "1.5M", "-4" };
    for (size_t i = 0; i < sizeof(no_sizes) / sizeof(no_sizes[0]); i++) assert_false(parse_size(no_sizes[i], &bytes));
    assert_true(parse_time("0", &value) && value == 0);
    assert_true(parse_time("100us", &value));
    assert_float_equal(value, 1e-4, 1e-12);
    assert_true(parse_time("2.5ms", &value));
    assert_float_equal(value, 2.5e-3, 1e-12);
    assert_true(parse_time("1000s", &value) && value == 1000);
    static const char *const no_times[] = { "", "1", "-1s", "nan", "infs", "1001s", "1 s", "1m", "s" };
    for (size_t i = 0; i < sizeof(no_times) / sizeof(no_times[0]); i++) assert_false(parse_time(no_times[i], &value));
    assert_true(parse_rate("1gbit", &value) && value == 125e6);
    assert_true(parse_rate("2.5mbit", &value) && value == 312500);
    assert_true(parse_rate("10kbit", &value) && value == 1250);
    static const char *const no_rates[] = {
        "", "0gbit", "9kbit", "1", "1gb", "100001gbit", "gbit", "-1gbit", "1gbits"
    };
    for (size_t i = 0; i < sizeof(no_rates) / sizeof(no_rates[0]); i++) assert_false(parse_rate(no_rates[i], &value));
    static const struct {
        uint64_t bytes;
        const char *text;
    } printed[] = { { 3 << 20, "3 MiB" }, { 1536, "1536 B" }, { 65536, "64 KiB" }, { UINT64_C(1) << 30, "1024 MiB" } };
    for (size_t i = 0; i < sizeof(printed) / sizeof(printed[0]); i++) {
        char text[32];
        print_size(text, sizeof(text), printed[i].bytes);
        assert_string_equal(text, printed[i].text);
    }
}

/* Commands for tc: rates in bits, bursts in bytes. */
TEST(test_disciplines)
{
    const scale_link fast = { 0, 125e6 }, far = { 2.5e-4, 125e6 };
    char text[128];
    scale_net_discipline(&fast, true, text, sizeof(text));
    assert_string_equal(text, "tbf rate 1000000000bit burst 190536 limit 64mb");
    scale_net_discipline(&far, true, text, sizeof(text));
    assert_string_equal(text, "netem delay 250us rate 1000000000bit limit 100000");
    scale_net_discipline(&far, false, text, sizeof(text)); /* a message is delayed once */
    assert_string_equal(text, "tbf rate 1000000000bit burst 190536 limit 64mb");
    scale_net_address(0, text);
    assert_string_equal(text, "10.77.0.1");
    scale_net_address(63, text);
    assert_string_equal(text, "10.77.0.64");
}

TESTS(scale_model, NULL, NULL)
