/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a function as the ranks of a job: one forked process each, on loopback. */
#ifndef RINGFIRE_TEST_RANKS_H
#define RINGFIRE_TEST_RANKS_H

#include <stdio.h>
#include <string.h>
#include <sys/types.h>

#include <ringfire/comm.h>

#include "../support/clock.h"

#define RANKS_MAX 18 /* more than are all connected to each other */

typedef struct ranks_params {
    uint32_t world_size;
    double operation_timeout; /* 0: default */
    const char *key_file;     /* NULL: insecure */
    bool encrypt;
    uint32_t hosts;        /* ranks pretend to be spread over so many hosts, where the test may do that */
    uint32_t network_only; /* ranks that do without shared memory, a bit for each; 0: as the environment says */
    double limit;          /* seconds until all are killed; 0: 60 */
} ranks_params;

/* Returns 0 for success; what it prints explains a failure. */
typedef int (*ranks_fn)(rf_comm *comm, void *user);

typedef struct ranks_result {
    int failures; /* ranks that did not return 0 */
    int status[RANKS_MAX];
} ranks_result;

/* The children's descriptors, memory and leaks are their own: each checks what it must and exits. */
ranks_result ranks_run(const ranks_params *params, ranks_fn fn, void *user);
/* The same for a function that makes another mesh: `user` is a free port for it. Returns how many ranks failed. */
int ranks_run_with_port(uint32_t world_size, ranks_fn fn);

#define EXPECT(condition)                                                                                              \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "rank %u: %s:%d: %s (%s)\n", rf_comm_rank(comm), __FILE__, __LINE__, #condition,           \
                    rf_error_message());                                                                               \
            return 1;                                                                                                  \
        }                                                                                                              \
    } while (0)

#endif
