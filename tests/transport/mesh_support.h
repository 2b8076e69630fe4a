/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs of several processes or threads on loopback, for tests of the mesh. */
#ifndef RF_TESTS_MESH_SUPPORT_H
#define RF_TESTS_MESH_SUPPORT_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "transport/mesh/mesh.h"

#define FLEET_MAX 20
#define SECOND UINT64_C(1000000000)
#define MS UINT64_C(1000000)

/* The notes of a rank, in memory that all processes share. */
typedef struct rank_report {
    _Atomic int stage;  /* 1: mesh created, 2: seen the end, 3: done */
    rf_result result;   /* of creating, or the status that ended it */
    uint64_t began, at; /* when creating began; when `result` was seen */
    int32_t lost;
    int callbacks;
    int descriptors; /* open at the end more than at the beginning */
    char message[1024], operations[1600];
} rank_report;

typedef struct fleet fleet;
typedef void (*rank_fn)(fleet *f, uint32_t rank);

struct fleet { /* shared memory */
    uint32_t world;
    rf_job jobs[FLEET_MAX];
    rank_report reports[FLEET_MAX];
    int liveness;                     /* memory of a liveness page, 0: none */
    uint32_t without_liveness;        /* ranks (bits) that do not use it */
    _Atomic bool stop;                /* the test's wish: leave in order */
    _Atomic uint32_t deaf[FLEET_MAX]; /* wish: drop all packets of these ranks (bits) from now on */
    rank_fn fn;
    void *user;
    pid_t pids[FLEET_MAX];
    pthread_t threads[FLEET_MAX];
};

/* Peer timeout 1 s, bootstrap 10 s, a key, a port of its own; tests change jobs[] before they start. */
fleet *fleet_create(uint32_t world, rank_fn fn);
/* Gives the ranks a liveness page, a peer timeout of 1.5 s and, as large jobs have it, a third of that as interval. */
void fleet_add_liveness(fleet *f);
void fleet_start(fleet *f); /* as processes */
void fleet_start_rank(fleet *f, uint32_t rank);
void fleet_run_threads(fleet *f); /* as threads, until all have returned */
/* Waits until each rank outside `but` (bits) has reached a stage; fails the test after `ms`. */
void fleet_await(fleet *f, int stage, uint32_t but, unsigned ms);
void fleet_join(fleet *f); /* waits for the processes; kills what is left after 20 s */
void fleet_free(fleet *f);

/* A rank that joins and then waits for the end of the epoch or the wish to stop. */
void steady_rank(fleet *f, uint32_t rank);
/* Its parts. */
rf_mesh *rank_join(fleet *f, uint32_t rank, rf_mesh **mesh); /* NULL: written down */
void rank_note(fleet *f, uint32_t rank, rf_mesh *mesh, rf_result r);
void rank_leave(fleet *f, uint32_t rank, rf_mesh **mesh);
bool rank_await_end(fleet *f, uint32_t rank, rf_mesh *mesh); /* true: the epoch was lost, and is written down */

/* Packets from `peer`'s control connection no longer arrive: a black hole in one direction. */
void deafen(rf_mesh *mesh, uint32_t peer);
void rank_obey(fleet *f, uint32_t rank, rf_mesh *mesh, uint32_t *deaf); /* *deaf: what was done before */

/* Ends the process as exit() does for the kernel; without the second that a sanitizer may wait in _exit(). */
void leave_process(void);
void sleep_ms(unsigned ms);
int open_descriptors(void);

#endif
