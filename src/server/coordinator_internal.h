/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The chief of a parameter-server cluster. An item is what was scheduled; it is cut into shares, which workers do. A
 * thread of its own receives from servers and workers and assigns shares; it and the caller use everything under one
 * lock.
 */
#ifndef RF_SERVER_COORDINATOR_INTERNAL_H
#define RF_SERVER_COORDINATOR_INTERNAL_H

#include <stdatomic.h>

#include "base/memory.h"
#include "base/platform.h"
#include "server/client.h"
#include "server/coordinator.h"
#include "server/variables.h"

typedef struct rf_work_share {
    struct rf_work_share *next; /* among those that are ready */
    rf_remote_value *item;
    uint32_t index;
    uint64_t first, count;
    uint64_t hash; /* of the batch, where it came from the data of worker `index` and was made there; else 0 */
} rf_work_share;

/* An item. Outlives the coordinator where the caller holds it. */
struct rf_remote_value {
    atomic_uint references;
    atomic_bool done;                 /* everything below is final */
    rf_coordinator *coordinator;      /* there as long as it is not done */
    rf_remote_value *next, *previous; /* among those that are not done */
    char function[RF_MAX_FUNCTION_NAME_BYTES];
    uint64_t first, count;
    uint32_t kind;
    uint64_t number; /* among its kind, from where the training began */
    uint64_t seed;   /* of random numbers: the chief's when it was scheduled */
    rf_work_share *shares;
    uint32_t num_shares, shares_left; /* left: not done, dropped ones included */
    uint32_t num_pushed;
    uint64_t examples;
    double sums[RF_MAX_RESULTS]; /* of results, each times its examples */
    uint32_t num_results;
    bool begun;
    rf_result result;
    rf_error_record failure;
};

typedef struct rf_ps_seat {
    rf_ps_link *link; /* NULL: not connected */
    uint64_t incarnation;
    bool joined, joined_before;
    rf_work_share *busy;
    uint64_t id;    /* of the order that it is doing */
    uint64_t clock; /* shares done */
    bool own_data;
} rf_ps_seat;

/* A function, as far as its items are concerned. */
typedef struct rf_work_kind {
    char function[RF_MAX_FUNCTION_NAME_BYTES];
    uint64_t next; /* number of the next one */
    /* For each worker 1 + the first one whose data gave the same batch when each took its own; 0: unknown. */
    uint32_t *same_data;
} rf_work_kind;

struct rf_coordinator {
    int64_t process; /* that its thread runs in */
    rf_job job;
    rf_cluster cluster;
    rf_ps_variables variables;
    uint8_t *rules; /* of the variables */
    void *user;     /* of the optimizer; released at the end */
    void (*release)(void *user);
    bool synchronous;
    uint32_t max_ahead;
    uint64_t max_elements;
    rf_ps_plan plan;
    float *values; /* room for all variables */
    rf_listener *listener;
    rf_ps_link **servers; /* [num_servers] */
    rf_ps_heartbeat **heartbeats;
    rf_ps_client *client; /* the caller's */
    uint32_t num_servers, num_workers;
    int wake;
    pthread_t thread;
    bool threaded, locked; /* these exist */
    /* ---- under the lock ---- */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool stop;
    rf_ps_seat *seats;                       /* [num_workers] */
    uint64_t limit;                          /* RF_PS_JOIN's, of the first worker */
    char limited[RF_PS_NAME];                /* that worker; "": none has come */
    rf_remote_value *first, *last;           /* items that are not done */
    rf_work_share *first_ready, *last_ready; /* shares that wait for a worker */
    rf_remote_value *committing;             /* synchronous: servers are finishing its step */
    uint32_t commits_left;
    uint64_t step, next_id;
    uint64_t updates; /* that the optimizer had made before */
    struct {
        rf_work_kind *items;
        uint32_t count, capacity;
    } kinds;
    uint64_t last_progress, alone_since, waiting_since, last_heartbeat;
    char last_loss[RF_PS_TEXT];
    bool failed; /* for good */
    rf_error_record failure;
    bool work_failed; /* a function did; reported once */
    rf_error_record work_failure;
    rf_coordinator_stats stats;
    double staleness_sum;
};

/* ---- coordinator_items.c; all under the lock ---- */
rf_result rf_remote_value_create(rf_coordinator *c, const char *function, uint64_t first, uint64_t count,
                                 rf_remote_value **out);
void rf_remote_value_release(rf_remote_value *item);
void rf_remote_value_append(rf_coordinator *c, rf_remote_value *item);
/* Moves shares of items that may begin to the ready ones. */
void rf_coordinator_make_ready(rf_coordinator *c);
/* Gives the item its kind, seed and number; of those on data of workers that is `first` at least. */
rf_result rf_coordinator_number(rf_coordinator *c, rf_remote_value *item);
rf_work_share *rf_work_share_take(rf_coordinator *c);
void rf_work_share_remove(rf_coordinator *c, rf_work_share *share); /* from those that are ready */
/* Whether worker w may do it: a synchronous step on data of workers takes each one's batch, or one that is the same. */
bool rf_work_share_fits(const rf_coordinator *c, const rf_work_share *share, uint32_t w);
/* Learns from an item that is done which workers have the same data. */
void rf_coordinator_compare_data(rf_coordinator *c, const rf_remote_value *item);
void rf_work_share_give_back(rf_coordinator *c, rf_work_share *share);
/* The record of the calling thread becomes the item's failure; what has not begun is dropped. */
void rf_coordinator_fail_work(rf_coordinator *c, rf_remote_value *item);
/* Takes it out of the list; its result stands. */
void rf_remote_value_finish(rf_coordinator *c, rf_remote_value *item);
/* All items end with the calling thread's record. */
void rf_coordinator_end_values(rf_coordinator *c);

/* ---- coordinator_thread.c ---- */
void *rf_coordinator_thread(void *coordinator);
/* Wakes the thread. */
void rf_coordinator_wake(rf_coordinator *c);

#endif
