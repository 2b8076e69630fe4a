/* SPDX-License-Identifier: Apache-2.0 */
/* `ringfire run` in three parts: what is wanted (run.c), one attempt at it (attempt.c), the helper on each host
 * (agent.c). */
#ifndef RINGFIRE_RUN_H
#define RINGFIRE_RUN_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "run/hosts.h"

typedef struct run_options {
    char **program; /* with arguments, ends in NULL */
    host_list *hosts;
    uint32_t workers;              /* 0: all slots */
    uint32_t min_hosts, max_hosts; /* 0: all that are listed */
    uint32_t max_restarts;
    uint16_t master_port; /* 0: any free one */
    const char *bind, *ssh;
    double grace, start_timeout;
    bool insecure, encrypt, no_prefix;
    char **exports; /* "NAME" or "NAME=VALUE" */
    uint32_t num_exports;
    const char *json_path; /* NULL: none */
} run_options;

/* Part of a host in one attempt. */
typedef struct placement {
    uint32_t host; /* in the list */
    uint32_t first_rank, count;
} placement;

typedef struct attempt_result {
    bool ok, interrupted;
    bool only_unreachable; /* no worker was started, since hosts (now marked lost) were not reached */
    int status;            /* what to exit with */
    char cause[1024];
    json_t *workers; /* how each ended, where it ran; NULL: none was started */
} attempt_result;

/* Starts the placed workers and waits until all have ended. Hosts that went away are marked lost. `result->workers` is
 * the caller's. */
void run_attempt(const run_options *o, const placement *places, uint32_t num_places, uint64_t epoch,
                 attempt_result *result);

/* The helper; returns an exit code. */
int run_agent(void);
double run_now(void);

/* Blocks the signals that are for the workers, and catches them. */
void run_catch_signals(void);
/* A signal for the workers that came since the last call, or 0. They arrive only while run_unblocked() is the mask. */
int run_take_signal(void);
const sigset_t *run_unblocked(void);

#endif
