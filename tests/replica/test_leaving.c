/* SPDX-License-Identifier: Apache-2.0 */
/* Workers that leave a job while others are busy. */
#include "job.h"
#include "tests/room.h"

#include <stdio.h>
#include <time.h>

enum { NUM_VALUES = 4 };

static rf_result create_values(worker *w, rf_variable **out)
{
    static const float values[NUM_VALUES] = { 1, 2, 3, 4 };
    return rf_variable_create(
        w->strategy, &(rf_variable_params){ .name = "v", .shape = RF_SHAPE(NUM_VALUES), .value = values }, out);
}

/* Until the last rank is about to leave, and then for much longer than a process takes to end, and a closed connection
 * waits for a reason. */
static void stay_behind(const worker *w)
{
    const struct timespec moment = { 0, 1000000 }, second = { 1, 0 };
    while (!w->shared[0] && rf_comm_status(rf_strategy_comm(w->strategy)) == RF_OK) nanosleep(&moment, NULL);
    nanosleep(&second, NULL);
}

/* The last rank returns from its last collective call, destroys the strategy and ends, while the first has more to do.
 * The variable is never destroyed, as in programs that leave it to the end of the process. */
static rf_result leave_children(worker *w)
{
    float values[NUM_VALUES];
    rf_variable *variable;
    GO(create_values(w, &variable));
    GO(rf_strategy_check_identical(w->strategy, NULL, NULL));
    if (w->rank + 1 == w->world_size) {
        w->shared[0] = 1;
        return RF_OK;
    }
    stay_behind(w);
    GO(rf_variable_read(variable, values));
    return rf_comm_status(rf_strategy_comm(w->strategy));
}

static const job_params two = { .num_workers = 2, .devices = { "llvmpipe", "llvmpipe" } };

TEST(children_remain)
{
    static report reports[MAX_WORKERS];
    (void)state;
    run_job(&two, leave_children, reports);
    check_job(reports, 2);
}

/* A variable keeps its values when its worker has left. */
static rf_result leave_first(worker *w)
{
    float values[NUM_VALUES] = { 0 };
    rf_strategy *inside = w->strategy;
    rf_variable *variable;
    GO(create_values(w, &variable));
    rf_strategy_destroy(&w->strategy);
    GO(rf_variable_read(variable, values));
    EXPECT(values[0] == 1 && values[NUM_VALUES - 1] == NUM_VALUES);
    EXPECT_FAILS(rf_strategy_check_identical(inside, NULL, NULL), RF_ERROR_INVALID_ARGUMENT, "has left the job",
                 "destroy a strategy after");
    rf_variable_destroy(&variable);
    return RF_OK;
}

TEST(used_afterwards)
{
    static report reports[MAX_WORKERS];
    (void)state;
    run_job(&two, leave_first, reports);
    check_job(reports, 2);
}

TESTS(leaving, NULL, NULL)
