/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs for tests: every worker is a forked process, which says what it found through shared memory. The process that
 * forks never touches a Vulkan driver. */
#ifndef RF_TESTS_REPLICA_JOB_H
#define RF_TESTS_REPLICA_JOB_H

#include <stdlib.h>
#include <string.h>

#include <ringfire/ringfire.h>

#include "../skip.h"
#include "../support/expect.h"
#include "../validation.h"
#include "tests/room.h"

enum { MAX_WORKERS = 4, MAX_STEPS = 1000, MAX_NUMBERS = 64 };

/* A worker's report to the test. */
typedef struct report {
    rf_result result; /* of the body; what it left in the error record: */
    char message[1024];
    uint32_t steps;
    double losses[MAX_STEPS];
    double numbers[MAX_NUMBERS]; /* as the body likes */
    uint64_t hash;               /* of all variables */
    double seconds;              /* that the body took */
} report;

typedef struct worker {
    uint32_t rank, world_size;
    rf_strategy *strategy;
    const void *user;
    report *report;
    volatile uint32_t *shared; /* MAX_NUMBERS words that all workers of the job see */
} worker;
/* Returns at its first failure. */
typedef rf_result (*worker_fn)(worker *w);

typedef struct job_params {
    uint32_t num_workers; /* 1: no job, this process alone */
    const char *devices[MAX_WORKERS];
    rf_mirrored_params mirrored; /* `devices` aside */
    const double *shares[MAX_WORKERS];
    rf_compression compression; /* and */
    double top_k_share;
    const void *user;
    uint32_t perturb;    /* number of the replica + 1; 0: none */
    uint32_t kill_rank;  /* rank + 1 of the worker that is killed when shared[0] becomes 1; 0: none */
    bool staged;         /* device memory is reached only through copies */
    double peer_timeout; /* 0: the default */
} job_params;
uint32_t num_devices(const char *list);
/* Runs the job to its end. Skips the test where a driver is missing. */
void run_job(const job_params *params, worker_fn body, report reports[MAX_WORKERS]);
/* Every worker's body returned RF_OK. */
void check_job(const report *reports, uint32_t num_workers);

/* Rows of the batch of step `number`: a full one, a few less, or one alone, which leaves replicas without examples. */
uint32_t job_rows(uint32_t number, uint32_t full);
/* A step over that many rows of noise, [rows, inputs] with labels below `classes`, the same wherever it runs. The step
 * has two outputs: a part of the loss, which is summed over the replicas, and a number that all of them agree on. */
rf_result job_run_noise(rf_strategy *strategy, rf_function *step, uint32_t number, uint32_t rows, uint32_t inputs,
                        uint32_t classes, float *loss, float *agreed);

/* Leaves the body unless the condition holds. */
#define EXPECT(condition)                                                                                              \
    do {                                                                                                               \
        if (!(condition)) return job_failure(w, __FILE__, __LINE__, #condition);                                       \
    } while (0)
/* Leaves the body unless the call fails like this, with a message that contains both parts. */
#define EXPECT_FAILS(expression, want, part1, part2)                                                                   \
    do {                                                                                                               \
        const rf_result got_ = (expression);                                                                           \
        if (got_ != (want) || !strstr(rf_error_message(), (part1)) || !strstr(rf_error_message(), (part2)))            \
            return job_unexpected(w, __LINE__, #expression, got_);                                                     \
    } while (0)
rf_result job_failure(worker *w, const char *file, int line, const char *what);
rf_result job_unexpected(worker *w, int line, const char *what, rf_result got);

#endif
