/* SPDX-License-Identifier: Apache-2.0 */
/* The smallest job: finds its place in the environment, adds rank + 1 over all workers and says what came out. With
 * a number of seconds as argument it goes on adding for so long, and says how that ended. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <ringfire/comm.h>

#include "../support/clock.h"

static int fail(rf_result result)
{
    fprintf(stderr, "hello_world: %s\n", rf_error_message());
    return result == RF_ERROR_PEER_LOST ? RF_EXIT_RESTARTABLE : EXIT_FAILURE;
}

static rf_result add(rf_comm *comm, float *sum)
{
    float mine = (float)(rf_comm_rank(comm) + 1);
    return rf_comm_all_reduce(comm, &mine, sum, 1, RF_F32, RF_COMM_SUM, NULL);
}

int main(int argc, char **argv)
{
    const double seconds = argc > 1 ? strtod(argv[1], NULL) : 0;
    rf_comm *comm = NULL;
    rf_result r = rf_comm_create(NULL, &comm);
    if (r < 0) return fail(r);
    float sum = 0;
    r = add(comm, &sum);
    if (r == RF_OK) {
        printf("rank %u of %u, local %u of %u, sum %g\n", rf_comm_rank(comm), rf_comm_world_size(comm),
               rf_comm_local_rank(comm), rf_comm_local_size(comm), (double)sum);
        fflush(stdout);
    }
    const double end = seconds_now() + seconds;
    /* Rank 0 decides when it is over: clocks differ. */
    for (int32_t going = seconds > 0; r == RF_OK && going;) {
        usleep(10000);
        r = add(comm, &sum);
        going = seconds_now() < end;
        if (r == RF_OK) r = rf_comm_broadcast(comm, &going, 1, RF_I32, 0, NULL);
    }
    const int code = r < 0 ? fail(r) : EXIT_SUCCESS;
    rf_comm_destroy(&comm);
    return code;
}
