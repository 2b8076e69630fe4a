/* SPDX-License-Identifier: Apache-2.0 */
#include "ranks.h"
#include "../support/clock.h"
#include "../support/port.h"

#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void pretend_host(uint32_t host)
{
    char name[32];
    snprintf(name, sizeof(name), "ringfire-test-%u", host);
    if (unshare(CLONE_NEWUTS) == 0 && sethostname(name, strlen(name)) != 0) exit(99);
}

static int child(const ranks_params *params, uint32_t rank, uint16_t port, ranks_fn fn, void *user)
{
    rf_comm *comm = NULL;
    if (params->network_only) setenv("RINGFIRE_SHARED_MEMORY", params->network_only >> rank & 1 ? "0" : "1", 1);
    if (params->hosts > 1) pretend_host(rank * params->hosts / params->world_size);
    const rf_comm_params p = { .world_size = params->world_size,
                               .rank = rank,
                               .master_address = "127.0.0.1",
                               .master_port = port,
                               .bind_address = "127.0.0.1",
                               .key_file = params->key_file,
                               .insecure = !params->key_file,
                               .encrypt = params->encrypt,
                               .operation_timeout = params->operation_timeout,
                               .bootstrap_timeout = 30 };
    if (rf_comm_create(&p, &comm) != RF_OK) {
        fprintf(stderr, "rank %u: rf_comm_create: %s\n", rank, rf_error_message());
        return 98;
    }
    const int status = fn(comm, user);
    rf_comm_destroy(&comm);
    return status;
}

ranks_result ranks_run(const ranks_params *params, ranks_fn fn, void *user)
{
    ranks_result result = { 0 };
    pid_t pids[RANKS_MAX];
    const uint16_t port = free_port();
    const double end = seconds_now() + (params->limit > 0 ? params->limit : 60);
    fflush(NULL);
    for (uint32_t i = 0; i < params->world_size; i++) {
        pids[i] = fork();
        if (pids[i] < 0) abort();
        if (pids[i] == 0) exit(child(params, i, port, fn, user));
        result.status[i] = -1;
    }
    for (uint32_t left = params->world_size; left > 0;) {
        for (uint32_t i = 0; i < params->world_size; i++) {
            int status;
            if (pids[i] <= 0 || waitpid(pids[i], &status, WNOHANG) != pids[i]) continue;
            result.status[i] = status;
            if (status != 0) result.failures++;
            pids[i] = 0;
            left--;
        }
        if (left > 0 && seconds_now() > end) {
            fprintf(stderr, "%u of %u ranks did not end in time\n", left, params->world_size);
            for (uint32_t i = 0; i < params->world_size; i++)
                if (pids[i] > 0) kill(pids[i], SIGKILL);
        }
        if (left > 0) nanosleep(&(struct timespec){ 0, 2000000 }, NULL);
    }
    return result;
}

int ranks_run_with_port(uint32_t world_size, ranks_fn fn)
{
    uint16_t port = free_port();
    return ranks_run(&(ranks_params){ .world_size = world_size }, fn, &port).failures;
}
