/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collective operations as data: for each rank a list of steps that say which elements are sent to which rank, and what
 * happens to those that arrive. Making a list is a pure function of the task, so algorithms are tested without a
 * network. Steps are carried out in order; the engine (comm_engine.h) overlaps them in chunks where their data
 * dependencies allow it.
 */
#ifndef RF_TRANSPORT_COLLECTIVE_SCHEDULE_H
#define RF_TRANSPORT_COLLECTIVE_SCHEDULE_H

#include <ringfire/comm.h>

/* Worlds up to this size connect every rank with every other; larger ones only those that the algorithms pair. */
#define RF_COMM_FULL_MESH 16

typedef enum rf_collective {
    RF_COLLECTIVE_ALL_REDUCE,
    RF_COLLECTIVE_REDUCE_SCATTER,
    RF_COLLECTIVE_ALL_GATHER,
    RF_COLLECTIVE_BROADCAST,
    RF_COLLECTIVE_BARRIER,
    RF_COLLECTIVE_COUNT
} rf_collective;

/* The same on every rank, but for `rank`. */
typedef struct rf_collective_task {
    rf_collective kind;
    rf_comm_algorithm algorithm; /* not AUTO */
    uint32_t rank, world_size;
    uint64_t count;         /* all-reduce, broadcast */
    const uint64_t *counts; /* reduce-scatter, all-gather: of each rank */
    uint32_t root;          /* broadcast */
    const uint32_t *hosts;  /* of each rank, numbered in the order of their lowest ranks; hierarchical */
    uint64_t slice; /* elements of a shard that the ring's all-reduce takes through its steps at a time; 0: all */
} rf_collective_task;

/* Which buffer: what the caller gives, what he gets, and memory of the engine. */
typedef enum rf_space { RF_SPACE_INPUT, RF_SPACE_OUTPUT, RF_SPACE_SCRATCH, RF_SPACE_COUNT } rf_space;
typedef struct rf_place {
    rf_space space;
    uint64_t begin; /* element */
} rf_place;

typedef struct rf_collective_step {
    uint32_t round;   /* the same on both sides of a transfer */
    int32_t to, from; /* ranks, -1: none */
    rf_place send, receive;
    uint64_t send_count, receive_count;
    rf_place local;     /* with `reduce`: receive = what came op what is here */
    bool reduce;        /* else: receive = what came */
    bool received_left; /* what came is the left operand */
    bool keeps;         /* this rank goes on using what it sends: where the wire rounds, it must round too */
} rf_collective_step;

typedef struct rf_collective_schedule {
    rf_collective_step *items;
    uint32_t count, capacity;
    rf_place copy_from, copy_to; /* before the first step */
    uint64_t copy_count;
    uint64_t scratch;  /* elements */
    bool round_result; /* ranks end with sums that not all of them sent: where the wire rounds, round at the end */
} rf_collective_schedule;

/* RF_ERROR_INVALID_ARGUMENT: this algorithm does not do this operation. Free in any case. */
rf_result rf_collective_schedule_make(const rf_collective_task *task, rf_collective_schedule *out);
void rf_collective_schedule_free(rf_collective_schedule *schedule);
/* Reads what it would read from the input from the output: for calls in place, and after a copy. */
void rf_collective_schedule_in_place(rf_collective_schedule *schedule);

/* The algorithm for an operation whose whole result has `bytes`; `per_host` as below. */
rf_comm_algorithm rf_collective_schedule_select(rf_collective kind, uint32_t world_size, uint32_t per_host,
                                                uint64_t bytes);
/* How many ranks each host has, the last one perhaps fewer, where ranks of a host are numbered consecutively; else 0.
 */
uint32_t rf_collective_per_host(const uint32_t *hosts, uint32_t world_size);
bool rf_collective_schedule_possible(const rf_collective_task *task);

/* Marks in peers[world_size] with whom `rank` ever exchanges data. */
rf_result rf_collective_schedule_peers(uint32_t rank, uint32_t world_size, const uint32_t *hosts, bool *peers);

const char *rf_collective_name(rf_collective kind);
const char *rf_algorithm_name(rf_comm_algorithm algorithm);

/* ---- for the algorithms' files ---- */

/* Some of the ranks, in order, of which this one is ranks[index]. */
typedef struct rf_group {
    const uint32_t *ranks;
    uint32_t size, index;
} rf_group;

rf_collective_step *rf_collective_schedule_add(rf_collective_schedule *schedule,
                                               uint32_t round); /* peers -1; NULL + record */
rf_result rf_collective_schedule_send(rf_collective_schedule *schedule, uint32_t round, uint32_t to, rf_place place,
                                      uint64_t count, bool keeps);
rf_result rf_collective_schedule_receive(rf_collective_schedule *schedule, uint32_t round, uint32_t from,
                                         rf_place place, uint64_t count);
/* Begin of shard `index` of `count` elements cut into `shards` whose sizes differ by one at most. */
uint64_t rf_collective_shard_begin(uint64_t count, uint32_t shards, uint32_t index);

/* All-reduces of `count` elements within a group, whose operand is in `*source` (then OUTPUT). They use rounds from
 * *round and advance it alike on all ranks. */
rf_result rf_ring_all_reduce(rf_collective_schedule *s, const rf_group *g, uint64_t count, uint64_t slice,
                             rf_space *source, uint32_t *round);
rf_result rf_doubling_all_reduce(rf_collective_schedule *s, const rf_group *g, uint64_t count, rf_space *source,
                                 uint32_t *round);
rf_result rf_halving_all_reduce(rf_collective_schedule *s, const rf_group *g, uint64_t count, rf_space *source,
                                uint32_t *round);
rf_result rf_hierarchical_all_reduce(rf_collective_schedule *s, const rf_collective_task *task);
/* `all`: every rank, for a world on one host, which does without a hierarchy. */
rf_result rf_hierarchical_reduce_scatter(rf_collective_schedule *s, const rf_collective_task *task,
                                         const rf_group *all);
rf_result rf_hierarchical_all_gather(rf_collective_schedule *s, const rf_collective_task *task, const rf_group *all);
rf_result rf_ring_reduce_scatter(rf_collective_schedule *s, const rf_group *g, const uint64_t *counts);
rf_result rf_halving_reduce_scatter(rf_collective_schedule *s, const rf_group *g, const uint64_t *counts);
rf_result rf_ring_all_gather(rf_collective_schedule *s, const rf_group *g, const uint64_t *counts);
rf_result rf_doubling_all_gather(rf_collective_schedule *s, const rf_group *g, const uint64_t *counts);
rf_result rf_chain_broadcast(rf_collective_schedule *s, const rf_group *g, uint32_t root, uint64_t count);
rf_result rf_tree_broadcast(rf_collective_schedule *s, const rf_group *g, uint32_t root, uint64_t count);

#endif
