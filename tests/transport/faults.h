/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs that are broken on purpose: what their ranks do, and networks that can be cut. */
#ifndef RF_TESTS_FAULTS_H
#define RF_TESTS_FAULTS_H

#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

#include <ringfire/comm.h>

#define FAULTS_RANKS 4
#define FAULTS_PEER_TIMEOUT 2.0
#define FAULTS_BOOTSTRAP_TIMEOUT 4.0

typedef enum phase { PHASE_START, PHASE_JOINING, PHASE_TRAINING, PHASE_SAVING, PHASE_LEAVING, PHASE_DONE } phase;

/* The notes of a rank. */
typedef struct trainee {
    _Atomic int phase;
    rf_result result; /* what ended its training */
    int32_t lost;
    char message[768];
    uint64_t seen, left; /* ns: when it knew, when everything was torn down */
    _Atomic uint32_t steps;
    char leaked[128]; /* descriptors that are still open */
    char late[256];   /* a second call that did not say what the first did */
} trainee;

typedef struct training_job { /* shared memory */
    uint32_t world;
    uint16_t port;
    uint32_t floats; /* of an all-reduce */
    char address[FAULTS_RANKS][32];
    char folder[64]; /* for its files */
    _Atomic bool stop;
    _Atomic uint32_t absent; /* this rank never joins; 0: all do */
    trainee ranks[FAULTS_RANKS];
    pid_t pids[FAULTS_RANKS]; /* 0: gone */
} training_job;

/* The communication of a trainer, until the job's `stop` or a failure. */
void trainee_run(training_job *job, uint32_t rank);

/* ---- networks ---- */

/* This process gets a /tmp and a /dev/shm, or a network, of its own. False: it may not, and goes on with what all have.
 */
bool files_of_our_own(void);
bool network_of_our_own(void);
/* One network namespace per rank, joined by a bridge. False: not possible here; `why` says which step failed. */
bool net_open(char *why, size_t size);
void net_enter(uint32_t rank); /* for a forked child */
const char *net_address(uint32_t rank);

/* Frames from one rank to another vanish from now on, without anybody being told. */
void net_drop(uint32_t from, uint32_t to);
/* The rank's cable is pulled out (or in again). */
void net_unplug(uint32_t rank, bool out);
void net_heal(void);

#endif
