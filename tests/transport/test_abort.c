/* SPDX-License-Identifier: Apache-2.0 */
/* Who ends a job and then itself, at once and in whatever way, is heard: the others say its reason, not that it was
 * lost. */
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "ranks.h"
#include "tests/room.h"

typedef enum ending { DESTROY, EXIT, KILL, ENDING_COUNT } ending;

typedef struct plan {
    ending ending;
    bool pending; /* an operation is under way on the rank that aborts, and on one more; it cannot end without the third
                   */
} plan;

#define COUNT 100000
static const char reason[] = "the disk is full";
static float values[COUNT];

static int leave(rf_comm *comm, const plan *p)
{
    rf_comm_request *request = NULL;
    if (p->pending)
        EXPECT(rf_comm_start_all_reduce(comm, values, values, COUNT, RF_F32, RF_COMM_SUM, NULL, &request) == RF_OK);
    rf_comm_abort(comm, reason);
    if (p->ending == EXIT) _exit(0);
    if (p->ending == KILL) kill(getpid(), SIGKILL);
    if (p->pending) EXPECT(rf_comm_wait(&request) == RF_ERROR_PEER_LOST);
    return 0;
}

/* Waits for what a rank hears that asks only for its status. */
static rf_result watch(rf_comm *comm)
{
    while (rf_comm_status(comm) == RF_OK) usleep(1000);
    return rf_comm_status(comm);
}

static int work(rf_comm *comm, void *user)
{
    const plan *p = user;
    for (int i = 0;; i++) {
        if (rf_comm_rank(comm) == 1 && i == 3) return leave(comm, p);
        const double start = seconds_now();
        const rf_result r = p->pending && rf_comm_rank(comm) == 2 && i == 3
                                ? watch(comm)
                                : rf_comm_all_reduce(comm, values, values, COUNT, RF_F32, RF_COMM_SUM, NULL);
        if (r == RF_OK) continue;
        EXPECT(r == RF_ERROR_PEER_LOST && strstr(rf_error_message(), reason));
        EXPECT(rf_comm_lost_rank(comm) == 1);
        EXPECT(seconds_now() - start < 2);
        /* One of those that were told ends at once, too: that is no second reason. */
        if (rf_comm_rank(comm) == 0) _exit(0);
        EXPECT(rf_comm_barrier(comm) == RF_ERROR_PEER_LOST && strstr(rf_error_message(), reason));
        return 0;
    }
}

TEST(test_last_words)
{
    for (int i = 0; i < 2 * ENDING_COUNT; i++) {
        plan p = { .ending = (ending)(i / 2), .pending = i % 2 };
        const ranks_result result = ranks_run(&(ranks_params){ .world_size = 3 }, work, &p);
        assert_int_equal(result.failures, p.ending == KILL);
        assert_int_equal(result.status[1], p.ending == KILL ? SIGKILL : 0);
    }
}

/* No rank is there to receive the reason: the call returns nevertheless. */
static int outlive(rf_comm *comm, void *user)
{
    (void)user;
    EXPECT(rf_comm_barrier(comm) == RF_OK);
    if (rf_comm_rank(comm) == 1) kill(getpid(), SIGKILL);
    while (rf_comm_status(comm) == RF_OK) usleep(1000);
    const double start = seconds_now();
    rf_comm_abort(comm, reason);
    EXPECT(seconds_now() - start < 1);
    EXPECT(rf_comm_status(comm) == RF_ERROR_PEER_LOST && strstr(rf_error_message(), "rank 1"));
    return 0;
}

TEST(test_too_late)
{
    assert_int_equal(ranks_run(&(ranks_params){ .world_size = 2 }, outlive, NULL).failures, 1);
}

TESTS(abort, NULL, NULL)
