/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Jobs that exchange messages without pause, and a random fault at a random time in each: the survivors must name the
 * right rank within the promised time. Usage: faults_mesh [ROUNDS [SEED]]
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/platform.h"
#include "mesh_support.h"
#include "tests/room.h"

typedef enum fault { KILL, EXIT, STOP, CUT, LINK, ONE_WAY, PAUSE, FAULT_COUNT } fault;
static const char *const fault_names[FAULT_COUNT] = { "kill -9", "exit",         "SIGSTOP", "cut off",
                                                      "path",    "one-way path", "pause" };

static uint64_t next_random(uint64_t *state) /* xorshift64* */
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(0x2545F4914F6CDD1D);
}

/* `user` of the fleet: the rank that exits on `stop`, plus 1. */
static void busy_rank(fleet *f, uint32_t rank)
{
    rf_mesh *mesh;
    if (!rank_join(f, rank, &mesh)) return;
    uint8_t mine[20000] = { 0 }, all[FLEET_MAX * sizeof(mine)];
    size_t sizes[FLEET_MAX];
    uint32_t deaf = 0;
    for (uint64_t serial = 1;; serial++) {
        rank_obey(f, rank, mesh, &deaf);
        const bool stop = f->stop;
        if (stop && (uintptr_t)f->user == rank + 1) leave_process();
        /* All learn in the same round that it is the last. */
        mine[0] = stop && !f->user;
        rf_mesh_begin_operation(mesh, serial, "exchange");
        const rf_result r = rf_mesh_exchange(mesh, mine, sizeof(mine) - rank, all, sizeof(mine), sizes);
        if (r < 0) {
            rank_note(f, rank, mesh, r);
            f->reports[rank].stage = 2;
            break;
        }
        rf_mesh_finish_operation(mesh, serial);
        bool last = false;
        for (uint32_t i = 0; i < f->world; i++) last |= all[i * sizeof(mine)];
        if (last) break;
    }
    rank_leave(f, rank, &mesh);
}

typedef struct tally {
    unsigned rounds, wrong;
    double worst_ms, sum_ms;
} tally;

static void inject(fleet *f, fault what, uint32_t victim, uint32_t other)
{
    switch (what) {
    case KILL: kill(f->pids[victim], SIGKILL); break;
    case EXIT: f->stop = true; break;
    case STOP: kill(f->pids[victim], SIGSTOP); break;
    case CUT:
        for (uint32_t r = 0; r < f->world; r++) f->deaf[r] = r == victim ? UINT32_MAX & ~(1u << victim) : 1u << victim;
        break;
    case LINK: f->deaf[other] = 1u << victim; /* fall through */
    case ONE_WAY: f->deaf[victim] = 1u << other; break;
    default:
        kill(f->pids[victim], SIGSTOP);
        sleep_ms(450);
        kill(f->pids[victim], SIGCONT);
        sleep_ms(300);
        f->stop = true;
    }
}

/* Whether a rank's report is as promised. */
static bool as_promised(const fleet *f, fault what, uint32_t rank, uint32_t victim, uint32_t other, double ms)
{
    const rank_report *report = &f->reports[rank];
    if (what == PAUSE) return report->result == RF_OK;
    if (report->result != RF_ERROR_PEER_LOST) return false;
    if (what == KILL || what == EXIT) return report->lost == (int32_t)victim && ms < 1000;
    if (ms > 2000) return false;
    if (f->world == 2 && what != STOP) return report->lost >= 0;
    if (what == LINK || what == ONE_WAY) return report->lost == (int32_t)(victim > other ? victim : other);
    return report->lost == (int32_t)victim;
}

static void one_round(uint64_t *state, fault what, tally *t)
{
    const uint32_t world = 2 + (uint32_t)(next_random(state) >> 33) % 4;
    const uint32_t victim = (uint32_t)(next_random(state) >> 33) % world;
    const uint32_t other = (victim + 1 + (uint32_t)(next_random(state) >> 33) % (world - 1)) % world;
    const unsigned delay = (unsigned)(next_random(state) >> 33) % 200;
    const bool dies = what == KILL || what == EXIT || what == STOP;
    fleet *f = fleet_create(world, busy_rank);
    f->user = what == EXIT ? (void *)(uintptr_t)(victim + 1) : NULL;
    fleet_start(f);
    fleet_await(f, 1, 0, 10000);
    sleep_ms(delay);
    const uint64_t now = rf_now_ns();
    inject(f, what, victim, other);
    fleet_await(f, 3, dies ? 1u << victim : 0, 8000);
    t->rounds++;
    for (uint32_t r = 0; r < world; r++) {
        if (dies && r == victim) continue;
        const double ms = what == PAUSE ? 0 : (double)(int64_t)(f->reports[r].at - now) * 1e-6;
        if (ms > t->worst_ms) t->worst_ms = ms;
        t->sum_ms += ms / (world - dies);
        if (as_promised(f, what, r, victim, other, ms)) continue;
        t->wrong++;
        printf("%s of rank %u (other %u) of %u after %u ms: rank %u has result %d, lost %d after %.0f ms: %s\n",
               fault_names[what], victim, other, world, delay, r, f->reports[r].result, f->reports[r].lost, ms,
               f->reports[r].message);
    }
    fleet_free(f);
}

static unsigned rounds = 14;
static uint64_t seed = 1;

TEST(test_faults)
{
    tally tallies[FAULT_COUNT] = { 0 };
    uint64_t random = seed * UINT64_C(0x9E3779B97F4A7C15) | 1;
    for (unsigned i = 0; i < rounds; i++) one_round(&random, (fault)(i % FAULT_COUNT), &tallies[i % FAULT_COUNT]);
    unsigned wrong = 0;
    for (int i = 0; i < FAULT_COUNT; i++) {
        const tally *t = &tallies[i];
        if (t->rounds)
            printf("%-13s %4u rounds, %u wrong, noticed after %.0f ms on average, %.0f ms at worst\n", fault_names[i],
                   t->rounds, t->wrong, t->sum_ms / t->rounds, t->worst_ms);
        wrong += t->wrong;
    }
    assert_int_equal(wrong, 0);
}

TEST_PROGRAM(faults_mesh)
{
    if (argc > 1) rounds = (unsigned)strtoul(argv[1], NULL, 10);
    if (argc > 2) seed = strtoull(argv[2], NULL, 10);
    return room_tests_run(own_tests, NULL, NULL);
}
