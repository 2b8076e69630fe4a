/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Costs of communication between workers, in Hockney's model. A message of n bytes takes latency + n / bandwidth, and
 * adding what came takes n / sum_rate. The schedules are those of transport/collective, whose rounds follow Thakur,
 * Rabenseifner and Gropp, "Optimization of collective communication operations in MPICH", Int. J. High Perform. Comput.
 * Appl. 19 (2005). Pure.
 *
 * The model assumes:
 *  - Links send and receive at the same time, each way with the whole bandwidth, and the network behind them carries
 *    everything that all of them send. Only the ring keeps to neighbours, so a real network hurts the others more.
 *  - Ranks of a host are numbered consecutively and share one link to the other hosts: where all of them send through
 *    it at once, each has its share of the bandwidth. Within a host every pair has a link of its own.
 *  - A round begins on a rank when its round before has ended, and one that sends and receives takes the longer of the
 *    two. Adding comes after receiving. Between ranks the engine does better: chunks of a message overlap.
 *  - Chains within a host are the exception, because they would be far too slow otherwise: they hand chunks on, as the
 *    engine does.
 */
#ifndef RINGFIRE_BENCH_SCALE_MODEL_H
#define RINGFIRE_BENCH_SCALE_MODEL_H

#include <stdbool.h>
#include <stdint.h>

/* Ways to all-reduce, by the names of rf_comm_algorithm. */
typedef enum scale_schedule {
    SCALE_RING,
    SCALE_DOUBLING,
    SCALE_HALVING,
    SCALE_HIERARCHICAL,
    SCALE_SCHEDULES
} scale_schedule;

typedef struct scale_link {
    double latency;   /* seconds a message */
    double bandwidth; /* bytes a second, each way */
} scale_link;

typedef struct scale_network {
    scale_link between, within; /* hosts; the second is not read where hosts have one rank */
    uint32_t per_host;          /* ranks of a host, at least 1; the last host may have fewer */
    double sum_rate;            /* bytes that a rank adds in a second */
    double chunk;               /* bytes that a chain hands on at a time; 0: all of them */
} scale_network;

/* Seconds. A world of one needs none. */
double scale_all_reduce(const scale_network *network, scale_schedule schedule, uint32_t ranks, double bytes);
/* The two halves of a sharded exchange, of `bytes` in all. SCALE_HALVING (all-gather: doubling) is for a power of two
 * of ranks, SCALE_DOUBLING for none. */
double scale_reduce_scatter(const scale_network *network, scale_schedule schedule, uint32_t ranks, double bytes);
double scale_all_gather(const scale_network *network, scale_schedule schedule, uint32_t ranks, double bytes);
/* The schedules that RF_COMM_AUTO selects for an all-reduce and for the two halves. It knows how many ranks a host has
 * but not the network. */
scale_schedule scale_select(uint32_t per_host, uint32_t ranks, double bytes);
scale_schedule scale_select_scatter(uint32_t per_host, uint32_t ranks, double bytes);
scale_schedule scale_select_gather(uint32_t per_host, uint32_t ranks, double bytes);
const char *scale_schedule_name(scale_schedule schedule);

/* A strategy's own size of buckets for that many bytes of gradients, and how many it makes. */
double scale_bucket_bytes(double gradients);
uint32_t scale_buckets(double gradients, double bucket_bytes);

typedef struct scale_step {
    double step, communication, exposed; /* seconds; exposed: after all computing is done */
} scale_step;

/*
 * A step that computes for `compute` seconds: a third of them forward, then backward, where buckets of one size become
 * ready one after the other, the last at the end. The order is that of src/replica/update/overlap_plan.c: a bucket's
 * reduction starts when it is ready, its values are gathered two turns later (`gather` is 0 where every rank updates
 * everything), and one operation follows the other. Updates take no time, and computing never waits within a step; the
 * next one begins when everything is gathered. A single bucket overlaps with nothing.
 */
scale_step scale_step_time(double compute, uint32_t buckets, double reduce, double gather);
/* The same with the sharded exchange of buckets of `bytes`, each half as the library selects. */
scale_step scale_sharded_step(const scale_network *network, uint32_t ranks, double compute, uint32_t buckets,
                              double bytes);
/* When bucket `index` is ready, in seconds since the step began. */
double scale_bucket_ready(double compute, uint32_t buckets, uint32_t index);

#endif
