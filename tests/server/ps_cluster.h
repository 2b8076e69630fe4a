/* SPDX-License-Identifier: Apache-2.0 */
/* Parameter-server clusters for tests: every task is a forked process on this machine, described by TF_CONFIG. The
 * process that forks never touches a Vulkan driver. */
#ifndef RF_TESTS_REPLICA_PS_CLUSTER_H
#define RF_TESTS_REPLICA_PS_CLUSTER_H

#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include <ringfire/ringfire.h>

#include "../skip.h"
#include "../support/clock.h"
#include "../support/expect.h"
#include "../validation.h"
#include "tests/room.h"

enum {
    MAX_SERVERS = 3,
    MAX_PS_WORKERS = 3,
    MAX_TASKS = 1 + MAX_PS_WORKERS + MAX_SERVERS,
    MAX_LOSSES = 256,
    MAX_VALUES = 2048
};

/* The report of a task; in shared memory. */
typedef struct task_report {
    volatile rf_result result;
    volatile bool ended;
    char message[1024];
    double ended_at; /* seconds */
} task_report;

typedef struct shared_state {
    task_report reports[MAX_TASKS]; /* chief, workers, servers */
    float losses[MAX_LOSSES];       /* the chief's */
    float final_loss;
    uint64_t hash;            /* of the chief's variables at the end */
    float values[MAX_VALUES]; /* of those, and of what no optimizer updates */
    uint32_t num_values;
    rf_coordinator_stats stats;
    volatile uint32_t batches;  /* made by all workers together */
    volatile uint32_t progress; /* as the chief's body likes */
    volatile uint32_t go;       /* as the test likes */
} shared_state;

typedef struct cluster cluster;
/* The chief's part; returns at its first failure. */
typedef rf_result (*chief_fn)(cluster *c, rf_coordinator *coordinator, rf_model *model);

typedef struct cluster_params {
    uint32_t num_workers, num_servers;
    bool synchronous;
    uint32_t max_ahead;
    uint32_t steps, batch;
    uint64_t max_shard_bytes;
    rf_optimizer_params optimizer;
    double worker_clip_norm; /* alone it is the optimizer's */
    double peer_timeout;
    uint32_t slow_worker;      /* + 1: one whose batches take long */
    uint64_t failing_first;    /* a range that begins here fails; 0: none */
    rf_result failing_code;    /* what its batch function then returns */
    uint32_t different_worker; /* + 1: one with another model */
    uint32_t clipping_worker;  /* + 1: one that clips to half of worker_clip_norm */
    bool counts;            /* the step assigns variables: how many steps there were, and a moving average of inputs */
    bool hides;             /* servers are not told of them */
    uint32_t hiding_worker; /* + 1: this one alone does not tell */
    bool normalizes;        /* the model has batch normalization, which assigns some */
    uint32_t before, after; /* steps that the chief makes by itself before the cluster's, and after them */
    const char *alone_devices; /* of the reference: replicas of a mirrored strategy; NULL: one device */
    bool swishes;              /* the model has a layer of examples/custom_op, with a shader of its own */
    bool own_data;             /* workers have datasets; no ranges are given */
    bool whole_data;           /* and say that they are the same */
    bool sharded;              /* each has a part */
    bool drops;                /* inputs get noise, drawn with the batch as the last dimension, and units are dropped */
    double bootstrap_timeout;  /* 0: 20 */
    const char *key_file;      /* NULL: insecure */
    const char *worker_devices;
    chief_fn chief;
} cluster_params;

struct cluster {
    cluster_params params;
    uint16_t ports[MAX_TASKS];
    pid_t pids[MAX_TASKS];
    shared_state *shared;
};

/* Number of a task in all arrays. */
static inline uint32_t worker_task(uint32_t index)
{
    return 1 + index;
}
uint32_t server_task(const cluster *c, uint32_t index);

void pause_seconds(double seconds);
/* Waits for a condition, at most 60 s. */
#define WAIT_FOR(condition)                                                                                            \
    do {                                                                                                               \
        const double wait_begin_ = seconds_now();                                                                      \
        while (!(condition)) {                                                                                         \
            if (seconds_now() - wait_begin_ > 60) fail_msg("waited 60 s for %s", #condition);                          \
            pause_seconds(0.002);                                                                                      \
        }                                                                                                              \
    } while (0)

void cluster_start(cluster *c, const cluster_params *params);
/* Begins a task, the first time or again. */
/* TF_CONFIG of a task. */
#define CLUSTER_CONFIG 1024
void cluster_config(const cluster *c, uint32_t task, char text[CLUSTER_CONFIG]);
void cluster_start_task(cluster *c, uint32_t task);
void cluster_signal(cluster *c, uint32_t task, int signal);
/* Waits until all tasks have ended. */
void cluster_wait(cluster *c);
void cluster_free(cluster *c);
void check_ended_well(const cluster *c);

/* The chief's usual body: `steps` ranges, one after the other when synchronous, else all at once. */
rf_result train_all(cluster *c, rf_coordinator *coordinator, rf_model *model);
/* The same on one device without a cluster; in a process of its own. */
void train_alone(const cluster_params *params, shared_state *out);
/* Means of the inputs of a step's batch; what the step knows of them when it `counts`. */
enum { NUM_INPUTS = 12 };
void input_means(const cluster_params *params, uint32_t step, double means[NUM_INPUTS]);
/* Stores losses [0, n) of values and the end of the training. */
rf_result finish_training(cluster *c, rf_coordinator *coordinator, rf_model *model);

#endif
