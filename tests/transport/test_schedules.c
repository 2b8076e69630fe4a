/* SPDX-License-Identifier: Apache-2.0 */
/* Every algorithm without a network: a simulator hands the messages of all ranks round and compares with what must come
 * out, for worlds of 1 .. 17 and awkward counts. Values are sets of (rank, element) so that nothing is counted twice or
 * lost. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "tests/room.h"
#include "transport/collective/schedule.h"

enum { MAX_WORLD = 17, MAX_COUNT = 64, MAX_QUEUE = 128 };

/* Rank r's addend of element i: bit r, and the element's number above. A sum is right when every bit is there once. */
static uint64_t addend(uint32_t rank, uint64_t element)
{
    return UINT64_C(1) << rank | element << 20;
}

typedef struct message {
    uint32_t round;
    uint64_t count;
    uint64_t data[MAX_WORLD * MAX_COUNT];
} message;

typedef struct simulated {
    rf_collective_schedule schedule;
    uint32_t next; /* step */
    bool sent;     /* of that step */
    uint64_t *space[RF_SPACE_COUNT];
    uint64_t size[RF_SPACE_COUNT];
} simulated;

/* Messages on their way, per pair in order. */
typedef struct network {
    message *queue[MAX_WORLD][MAX_WORLD][MAX_QUEUE];
    uint32_t head[MAX_WORLD][MAX_WORLD], tail[MAX_WORLD][MAX_WORLD];
} network;

static uint64_t *at(simulated *s, rf_place place, uint64_t count)
{
    assert_true(place.begin + count <= s->size[place.space]);
    return s->space[place.space] + place.begin;
}

static void send_step(simulated *s, network *net, uint32_t rank)
{
    const rf_collective_step *step = &s->schedule.items[s->next];
    if (step->to < 0 || step->send_count == 0) return;
    message *m = calloc(1, sizeof(*m));
    m->round = step->round;
    m->count = step->send_count;
    memcpy(m->data, at(s, step->send, step->send_count), step->send_count * sizeof(uint64_t));
    const uint32_t to = (uint32_t)step->to;
    assert_true(net->tail[rank][to] < MAX_QUEUE);
    net->queue[rank][to][net->tail[rank][to]++] = m;
}

static bool receive_step(simulated *s, network *net, uint32_t rank)
{
    const rf_collective_step *step = &s->schedule.items[s->next];
    if (step->from < 0 || step->receive_count == 0) return true;
    const uint32_t from = (uint32_t)step->from;
    if (net->head[from][rank] == net->tail[from][rank]) return false;
    message *m = net->queue[from][rank][net->head[from][rank]++];
    assert_int_equal(m->count, step->receive_count);
    assert_int_equal(m->round, step->round);
    uint64_t *to = at(s, step->receive, m->count);
    const uint64_t *local = step->reduce ? at(s, step->local, m->count) : NULL;
    for (uint64_t i = 0; i < m->count; i++) {
        if (!local) {
            to[i] = m->data[i];
            continue;
        }
        assert_int_equal(local[i] >> 20, m->data[i] >> 20);   /* the same element */
        assert_int_equal(local[i] & m->data[i] & 0xFFFFF, 0); /* no rank twice */
        to[i] = local[i] | m->data[i];
    }
    free(m);
    return true;
}

static void simulate(simulated *ranks, uint32_t world)
{
    network *net = calloc(1, sizeof(*net));
    for (bool moved = true; moved;) {
        moved = false;
        for (uint32_t r = 0; r < world; r++) {
            simulated *s = &ranks[r];
            while (s->next < s->schedule.count) {
                if (!s->sent) send_step(s, net, r);
                s->sent = true;
                if (!receive_step(s, net, r)) break;
                s->next++;
                s->sent = false;
                moved = true;
            }
        }
    }
    for (uint32_t r = 0; r < world; r++) {
        assert_int_equal(ranks[r].next, ranks[r].schedule.count); /* no rank waits for what never comes */
        for (uint32_t q = 0; q < world; q++)
            assert_int_equal(net->head[r][q], net->tail[r][q]); /* nothing is left over */
    }
    free(net);
}

static void begin(simulated *s, const rf_collective_task *task, uint64_t in, uint64_t out)
{
    memset(s, 0, sizeof(*s));
    if (rf_collective_schedule_make(task, &s->schedule) != RF_OK) fail_msg("%s", rf_error_message());
    const uint64_t size[RF_SPACE_COUNT] = { in, out, s->schedule.scratch };
    for (int i = 0; i < RF_SPACE_COUNT; i++) {
        s->size[i] = size[i];
        s->space[i] = malloc((size[i] + 1) * sizeof(uint64_t));
        memset(s->space[i], 0xFF, (size[i] + 1) * sizeof(uint64_t));
    }
}

static void end(simulated *s)
{
    for (int i = 0; i < RF_SPACE_COUNT; i++) free(s->space[i]);
    rf_collective_schedule_free(&s->schedule);
}

static void copy_first(simulated *s)
{
    const rf_collective_schedule *c = &s->schedule;
    if (c->copy_count > 0)
        memcpy(at(s, c->copy_to, c->copy_count), at(s, c->copy_from, c->copy_count), c->copy_count * sizeof(uint64_t));
}

static void check_all_reduce(uint32_t world, uint64_t count, uint64_t slice, rf_comm_algorithm algorithm,
                             const uint32_t *hosts, bool in_place)
{
    simulated ranks[MAX_WORLD];
    for (uint32_t r = 0; r < world; r++) {
        begin(&ranks[r],
              &(rf_collective_task){ RF_COLLECTIVE_ALL_REDUCE, algorithm, r, world, count, NULL, 0, hosts, slice },
              count, count);
        if (in_place) rf_collective_schedule_in_place(&ranks[r].schedule);
        for (uint64_t i = 0; i < count; i++)
            ranks[r].space[in_place ? RF_SPACE_OUTPUT : RF_SPACE_INPUT][i] = addend(r, i);
    }
    simulate(ranks, world);
    for (uint32_t r = 0; r < world; r++) {
        for (uint64_t i = 0; i < count; i++)
            assert_int_equal(ranks[r].space[RF_SPACE_OUTPUT][i], ((UINT64_C(1) << world) - 1) | i << 20);
        for (uint64_t i = 0; i < count && !in_place; i++) /* inputs stay */
            assert_int_equal(ranks[r].space[RF_SPACE_INPUT][i], addend(r, i));
        end(&ranks[r]);
    }
}

static const uint64_t test_counts[] = { 0, 1, 2, 3, 7, 16, 17, 61 };
enum { NUM_COUNTS = sizeof(test_counts) / sizeof(test_counts[0]) };

TEST(test_all_reduce)
{
    uint32_t hosts[MAX_WORLD] = { 0 };
    for (uint32_t world = 2; world <= MAX_WORLD; world++)
        for (int a = RF_COMM_RING; a <= RF_COMM_RECURSIVE_HALVING; a++)
            for (int c = 0; c < NUM_COUNTS; c++)
                for (int in_place = 0; in_place < 2; in_place++)
                    check_all_reduce(world, test_counts[c], 0, (rf_comm_algorithm)a, hosts, in_place);
}

TEST(test_slices)
{
    for (uint32_t world = 2; world <= MAX_WORLD; world++)
        for (uint64_t slice = 2; slice <= 7; slice++)
            for (int c = 0; c < NUM_COUNTS; c++)
                check_all_reduce(world, test_counts[c], slice, RF_COMM_RING, NULL, c % 2);
}

/* How ranks may lie on hosts whose ranks are numbered one after the other: hosts of equal size, and of unequal size. */
static void fill_rows(uint32_t world, uint32_t num, bool uneven, uint32_t *hosts)
{
    for (uint32_t i = 0; i < world; i++) hosts[i] = i * num / world;
    if (!uneven) return;
    /* 0, 1, 1, 2, 2, 2, ... */
    for (uint32_t i = 0, host = 0, left = 1; i < world; i++) {
        hosts[i] = host;
        if (--left > 0 || host + 1 == num) continue;
        host++;
        left = host + 1;
    }
}

/* Hosts of equal size, of unequal size, and with ranks that take turns. */
TEST(test_hierarchical)
{
    for (uint32_t world = 2; world <= MAX_WORLD; world++)
        for (uint32_t num = 1; num <= world; num++)
            for (int how = 0; how < 3; how++) {
                uint32_t hosts[MAX_WORLD];
                for (uint32_t i = 0; i < world; i++)
                    hosts[i] = how == 0 ? i * num / world : how == 1 ? i % num : (i * i + 1) % num;
                check_all_reduce(world, 17, (uint64_t)how, RF_COMM_HIERARCHICAL, hosts, how == 1);
                check_all_reduce(world, 1, 0, RF_COMM_HIERARCHICAL, hosts, false);
            }
}

static void make_counts(uint32_t world, uint32_t seed, uint64_t *counts, uint64_t *begins)
{
    begins[0] = 0;
    for (uint32_t i = 0; i < world; i++) {
        counts[i] = seed == 0 ? 3 : seed == 1 ? i % 3 : (i * 7 + seed) % 5 * (i % 2);
        begins[i + 1] = begins[i] + counts[i];
    }
}

static void check_reduce_scatter(uint32_t world, rf_comm_algorithm algorithm, uint32_t seed, const uint32_t *hosts)
{
    uint64_t counts[MAX_WORLD], begins[MAX_WORLD + 1];
    make_counts(world, seed, counts, begins);
    rf_collective_task task = { RF_COLLECTIVE_REDUCE_SCATTER, algorithm, 0, world, 0, counts, 0, hosts, 0 };
    if (!rf_collective_schedule_possible(&task)) return;
    simulated ranks[MAX_WORLD];
    for (task.rank = 0; task.rank < world; task.rank++) {
        begin(&ranks[task.rank], &task, begins[world], counts[task.rank]);
        for (uint64_t i = 0; i < begins[world]; i++) ranks[task.rank].space[RF_SPACE_INPUT][i] = addend(task.rank, i);
    }
    simulate(ranks, world);
    for (uint32_t r = 0; r < world; r++) {
        for (uint64_t i = 0; i < counts[r]; i++)
            assert_int_equal(ranks[r].space[RF_SPACE_OUTPUT][i], ((UINT64_C(1) << world) - 1) | (begins[r] + i) << 20);
        for (uint64_t i = 0; i < begins[world]; i++) /* inputs stay */
            assert_int_equal(ranks[r].space[RF_SPACE_INPUT][i], addend(r, i));
        end(&ranks[r]);
    }
}

static void check_all_gather(uint32_t world, rf_comm_algorithm algorithm, uint32_t seed, const uint32_t *hosts)
{
    uint64_t counts[MAX_WORLD], begins[MAX_WORLD + 1];
    make_counts(world, seed, counts, begins);
    rf_collective_task task = { RF_COLLECTIVE_ALL_GATHER, algorithm, 0, world, 0, counts, 0, hosts, 0 };
    if (!rf_collective_schedule_possible(&task)) return;
    simulated ranks[MAX_WORLD];
    for (task.rank = 0; task.rank < world; task.rank++) {
        begin(&ranks[task.rank], &task, counts[task.rank], begins[world]);
        for (uint64_t i = 0; i < counts[task.rank]; i++)
            ranks[task.rank].space[RF_SPACE_INPUT][i] = begins[task.rank] + i;
        copy_first(&ranks[task.rank]);
    }
    simulate(ranks, world);
    for (uint32_t r = 0; r < world; r++) {
        for (uint64_t i = 0; i < begins[world]; i++) assert_int_equal(ranks[r].space[RF_SPACE_OUTPUT][i], i);
        end(&ranks[r]);
    }
}

TEST(test_shards)
{
    for (uint32_t world = 2; world <= MAX_WORLD; world++)
        for (uint32_t seed = 0; seed < 4; seed++)
            for (int a = RF_COMM_RING; a <= RF_COMM_RECURSIVE_HALVING; a++) {
                check_reduce_scatter(world, (rf_comm_algorithm)a, seed, NULL);
                check_all_gather(world, (rf_comm_algorithm)a, seed, NULL);
            }
}

TEST(test_hierarchical_shards)
{
    for (uint32_t world = 2; world <= MAX_WORLD; world++)
        for (uint32_t num = 1; num <= world; num++)
            for (uint32_t how = 0; how < 8; how++) {
                uint32_t hosts[MAX_WORLD];
                fill_rows(world, num, how % 2, hosts);
                check_reduce_scatter(world, RF_COMM_HIERARCHICAL, how / 2, hosts);
                check_all_gather(world, RF_COMM_HIERARCHICAL, how / 2, hosts);
            }
    /* The shards of a host are not in one piece where ranks take turns. */
    const uint32_t rows[4] = { 0, 0, 1, 1 }, turns[4] = { 0, 1, 0, 1 };
    uint64_t counts[4] = { 1, 1, 1, 1 };
    for (int kind = RF_COLLECTIVE_REDUCE_SCATTER; kind <= RF_COLLECTIVE_ALL_GATHER; kind++) {
        rf_collective_task task = { (rf_collective)kind, RF_COMM_HIERARCHICAL, 0, 4, 0, counts, 0, rows, 0 };
        assert_true(rf_collective_schedule_possible(&task));
        task.hosts = turns;
        assert_false(rf_collective_schedule_possible(&task));
    }
}

/* Between hosts every byte travels once: no rank but the first of a host sends or receives there. */
TEST(test_hierarchical_traffic)
{
    enum { WORLD = 12, PER_HOST = 4, COUNT = 10 };
    uint32_t hosts[WORLD];
    uint64_t counts[WORLD];
    for (uint32_t i = 0; i < WORLD; i++) {
        hosts[i] = i / PER_HOST;
        counts[i] = COUNT;
    }
    for (int kind = RF_COLLECTIVE_REDUCE_SCATTER; kind <= RF_COLLECTIVE_ALL_GATHER; kind++)
        for (uint32_t rank = 0; rank < WORLD; rank++) {
            rf_collective_schedule s;
            const rf_collective_task task = {
                (rf_collective)kind, RF_COMM_HIERARCHICAL, rank, WORLD, 0, counts, 0, hosts, 0
            };
            assert_int_equal(rf_collective_schedule_make(&task, &s), RF_OK);
            uint64_t sent = 0;
            for (uint32_t i = 0; i < s.count; i++)
                if (s.items[i].to >= 0 && hosts[s.items[i].to] != hosts[rank]) sent += s.items[i].send_count;
            assert_int_equal(sent, rank % PER_HOST == 0 ? (WORLD - PER_HOST) * COUNT : 0);
            rf_collective_schedule_free(&s);
        }
}

TEST(test_broadcast)
{
    for (uint32_t world = 2; world <= MAX_WORLD; world++)
        for (uint32_t root = 0; root < world; root++)
            for (int a = RF_COMM_RING; a <= RF_COMM_RECURSIVE_DOUBLING; a++)
                for (uint64_t count = 0; count < 9; count += 4) {
                    rf_collective_task task = {
                        RF_COLLECTIVE_BROADCAST, (rf_comm_algorithm)a, 0, world, count, NULL, root, NULL
                    };
                    if (!rf_collective_schedule_possible(&task)) continue;
                    simulated ranks[MAX_WORLD];
                    for (task.rank = 0; task.rank < world; task.rank++) {
                        begin(&ranks[task.rank], &task, 0, count);
                        for (uint64_t i = 0; i < count && task.rank == root; i++)
                            ranks[root].space[RF_SPACE_OUTPUT][i] = 100 + i;
                    }
                    simulate(ranks, world);
                    for (uint32_t r = 0; r < world; r++) {
                        for (uint64_t i = 0; i < count; i++)
                            assert_int_equal(ranks[r].space[RF_SPACE_OUTPUT][i], 100 + i);
                        end(&ranks[r]);
                    }
                }
}

/* The story of element `i` in `s`, in order: the ranks it goes to and comes from. */
static uint32_t story(const rf_collective_schedule *s, uint64_t i, int32_t events[4 * MAX_WORLD])
{
    uint32_t n = 0;
    for (uint32_t k = 0; k < s->count; k++) {
        const rf_collective_step *step = &s->items[k];
        assert_true(n + 2 <= 4 * MAX_WORLD);
        if (i - step->send.begin < step->send_count) events[n++] = 100 + step->to;
        if (i - step->receive.begin < step->receive_count) events[n++] = (step->reduce ? 200 : 300) + step->from;
    }
    return n;
}

/* Slices change when something is done, not what: the additions of every element, and so its bits, stay the same. */
TEST(test_slices_keep_sums)
{
    for (uint32_t world = 2; world <= 7; world++)
        for (uint32_t rank = 0; rank < world; rank++) {
            rf_collective_task task = { .kind = RF_COLLECTIVE_ALL_REDUCE,
                                        .algorithm = RF_COMM_RING,
                                        .rank = rank,
                                        .world_size = world,
                                        .count = 61 };
            rf_collective_schedule whole, sliced;
            assert_int_equal(rf_collective_schedule_make(&task, &whole), RF_OK);
            task.slice = 3;
            assert_int_equal(rf_collective_schedule_make(&task, &sliced), RF_OK);
            assert_true(sliced.count > whole.count);
            for (uint64_t i = 0; i < task.count; i++) {
                int32_t a[4 * MAX_WORLD], b[4 * MAX_WORLD];
                const uint32_t n = story(&whole, i, a);
                assert_true(n > 0);
                assert_int_equal(story(&sliced, i, b), n);
                assert_memory_equal(a, b, n * sizeof(a[0]));
            }
            rf_collective_schedule_free(&whole);
            rf_collective_schedule_free(&sliced);
        }
}

/* The ring moves no more than 2 (n - 1) / n of the data; doubling needs log2(n) rounds. */
TEST(test_costs)
{
    rf_collective_schedule s;
    assert_int_equal(
        rf_collective_schedule_make(
            &(rf_collective_task){
                .kind = RF_COLLECTIVE_ALL_REDUCE, .algorithm = RF_COMM_RING, .rank = 3, .world_size = 8, .count = 800 },
            &s),
        RF_OK);
    uint64_t sent = 0;
    for (uint32_t i = 0; i < s.count; i++) sent += s.items[i].send_count;
    assert_int_equal(sent, 1400);
    rf_collective_schedule_free(&s);
    assert_int_equal(rf_collective_schedule_make(&(rf_collective_task){ .kind = RF_COLLECTIVE_ALL_REDUCE,
                                                                        .algorithm = RF_COMM_RECURSIVE_DOUBLING,
                                                                        .rank = 3,
                                                                        .world_size = 8,
                                                                        .count = 800 },
                                                 &s),
                     RF_OK);
    assert_int_equal(s.count, 3);
    rf_collective_schedule_free(&s);
}

/* Connections are symmetric, and every schedule keeps to them, in worlds where not all pairs are connected. */
TEST(test_peers)
{
    for (uint32_t world = RF_COMM_FULL_MESH; world <= 50; world += 17) {
        bool peers[64][64];
        uint32_t hosts[64];
        for (uint32_t i = 0; i < world; i++) hosts[i] = i / 6;
        for (uint32_t r = 0; r < world; r++)
            assert_int_equal(rf_collective_schedule_peers(r, world, hosts, peers[r]), RF_OK);
        for (uint32_t r = 0; r < world; r++) {
            assert_false(peers[r][r]);
            for (uint32_t q = 0; q < world; q++) assert_int_equal(peers[r][q], peers[q][r]);
        }
        uint64_t counts[64] = { 1, 2 };
        for (int kind = 0; kind < RF_COLLECTIVE_COUNT; kind++)
            for (int a = RF_COMM_RING; a < RF_COMM_ALGORITHM_COUNT; a++)
                for (uint32_t r = 0; r < world; r++) {
                    const rf_collective_task task = {
                        (rf_collective)kind, (rf_comm_algorithm)a, r, world, 100, counts, 5, hosts
                    };
                    rf_collective_schedule s;
                    if (!rf_collective_schedule_possible(&task)) continue;
                    assert_int_equal(rf_collective_schedule_make(&task, &s), RF_OK);
                    for (uint32_t i = 0; i < s.count; i++) {
                        if (s.items[i].to >= 0) assert_true(peers[r][s.items[i].to]);
                        if (s.items[i].from >= 0) assert_true(peers[r][s.items[i].from]);
                    }
                    rf_collective_schedule_free(&s);
                }
    }
}

TEST(test_selection)
{
    for (int kind = 0; kind < RF_COLLECTIVE_COUNT; kind++)
        for (uint32_t world = 2; world < 40; world++)
            for (uint64_t bytes = 0; bytes < UINT64_C(1) << 40; bytes = 4 * bytes + 1) {
                uint32_t hosts[40];
                for (uint32_t i = 0; i < world; i++) hosts[i] = world % 5 ? i / (world % 5) : 0;
                const rf_collective_task task = { .kind = (rf_collective)kind,
                                                  .world_size = world,
                                                  .hosts = hosts,
                                                  .algorithm = rf_collective_schedule_select((rf_collective)kind, world,
                                                                                             world % 5, bytes) };
                assert_true(rf_collective_schedule_possible(&task));
            }
    assert_int_equal(rf_collective_schedule_select(RF_COLLECTIVE_ALL_REDUCE, 8, 1, 64), RF_COMM_RECURSIVE_DOUBLING);
    assert_int_equal(rf_collective_schedule_select(RF_COLLECTIVE_ALL_REDUCE, 8, 1, 1u << 30), RF_COMM_RING);
    rf_collective_schedule s;
    assert_int_equal(rf_collective_schedule_make(&(rf_collective_task){ .kind = RF_COLLECTIVE_BROADCAST,
                                                                        .algorithm = RF_COMM_HIERARCHICAL,
                                                                        .world_size = 4 },
                                                 &s),
                     RF_ERROR_INVALID_ARGUMENT);
    assert_non_null(strstr(rf_error_message(), "hierarchical"));
    rf_collective_schedule_free(&s);
}

TESTS(schedules, NULL, NULL)
