/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/scale_model.h"

#include <math.h>

/* As transport/collective selects, and as src/replica cuts; tests compare. */
#define FEW_BYTES (4.0 * 8192)      /* up to so many hosts exchange by doubling (hierarchical.c) */
#define SHARDS_BYTES (256.0 * 1024) /* up to so many reduce-scatter by halving (select.c) */
#define FULL_MESH 16                /* worlds up to this size go by bytes alone (schedule.h) */
#define MIB (1024.0 * 1024)

static double message_time(const scale_link *link, double bytes)
{
    return link->latency + bytes / link->bandwidth;
}

static uint32_t ranks_per_host(const scale_network *n, uint32_t ranks)
{
    return n->per_host < ranks ? n->per_host : ranks;
}

static bool power_of_two(uint32_t n)
{
    return (n & (n - 1)) == 0;
}

static uint32_t power_below(uint32_t n)
{
    uint32_t power = 1;
    while (power <= n / 2) power *= 2;
    return power;
}

/* A round of messages of `bytes` of which some stay within hosts and so many leave each host at once, 0: none. The
 * slowest link decides. */
static double round_time(const scale_network *n, uint32_t host, double bytes, uint32_t leaving)
{
    const double within = host > 1 ? message_time(&n->within, bytes) : 0;
    return leaving ? fmax(within, message_time(&n->between, bytes * leaving)) : within;
}

/* ---- rings ---- */

/* Every rank sends to the next: one message leaves each host. */
static double ring_round(const scale_network *n, uint32_t ranks, double bytes)
{
    return round_time(n, ranks_per_host(n, ranks), bytes, ranks > n->per_host ? 1 : 0);
}

static double ring_reduce_scatter(const scale_network *n, uint32_t ranks, double bytes)
{
    const double shard = bytes / ranks;
    return (ranks - 1) * (ring_round(n, ranks, shard) + shard / n->sum_rate);
}

static double ring_all_gather(const scale_network *n, uint32_t ranks, double bytes)
{
    return (ranks - 1) * ring_round(n, ranks, bytes / ranks);
}

/* ---- pairs at growing distances ---- */

/* The host of number `index` among those that take part: in a world that is no power of two, of the first pairs only
 * the even rank does (fold.h). */
static uint32_t folded_host(const scale_network *n, uint32_t ranks, uint32_t index)
{
    const uint32_t extra = ranks - power_below(ranks);
    return (index < extra ? 2 * index : index + extra) / n->per_host;
}

/* Ranks exchange with the partner at `distance`, a power of two: of no host do more leave than of the fullest one. */
static uint32_t pairs_leaving(const scale_network *n, uint32_t ranks, uint32_t distance)
{
    uint32_t most = 0, leaving = 0, host = 0;
    for (uint32_t i = 0, power = power_below(ranks); i < power; i++) {
        const uint32_t own = folded_host(n, ranks, i);
        if (own != host) leaving = 0;
        host = own;
        leaving += folded_host(n, ranks, i ^ distance) != own;
        if (leaving > most) most = leaving;
    }
    return most;
}

static double pair_round(const scale_network *n, uint32_t ranks, uint32_t distance, double bytes)
{
    return round_time(n, ranks_per_host(n, ranks), bytes, pairs_leaving(n, ranks, distance));
}

/* Before and after: the odd rank of each of the first pairs hands everything to the even one, and gets the result. A
 * pair spans two hosts where an odd number of ranks fills the first. */
static double fold_time(const scale_network *n, uint32_t ranks, double bytes)
{
    const uint32_t host = ranks_per_host(n, ranks), extra = ranks - power_below(ranks);
    if (extra == 0) return 0;
    const bool leaves = host < ranks && host % 2 == 1 && host - 1 < 2 * extra;
    return 2 * round_time(n, host, bytes, leaves ? 1 : 0) + bytes / n->sum_rate;
}

static double doubling_all_reduce(const scale_network *n, uint32_t ranks, double bytes)
{
    double seconds = fold_time(n, ranks, bytes);
    for (uint32_t distance = power_below(ranks) / 2; distance > 0; distance /= 2)
        seconds += pair_round(n, ranks, distance, bytes) + bytes / n->sum_rate;
    return seconds;
}

/* Distances of n/2 .. 1 with that part of the data. */
static double halving_rounds(const scale_network *n, uint32_t ranks, double bytes, bool add)
{
    const uint32_t power = power_below(ranks);
    double seconds = 0;
    for (uint32_t distance = power / 2; distance > 0; distance /= 2) {
        const double part = bytes * distance / power;
        seconds += pair_round(n, ranks, distance, part) + (add ? part / n->sum_rate : 0);
    }
    return seconds;
}

static double halving_all_reduce(const scale_network *n, uint32_t ranks, double bytes)
{
    return fold_time(n, ranks, bytes) + halving_rounds(n, ranks, bytes, true) + halving_rounds(n, ranks, bytes, false);
}

/* ---- within hosts first ---- */

/* Along the ranks of a host: the first chunk passes all links, the others follow. */
static double chain_time(const scale_network *n, uint32_t host, double bytes, bool add)
{
    if (host < 2) return 0;
    const double chunks = n->chunk > 0 ? fmax(ceil(bytes / n->chunk), 1) : 1, part = bytes / chunks;
    return (host - 2 + chunks) * (message_time(&n->within, part) + (add ? part / n->sum_rate : 0));
}

static scale_network leaders_of(const scale_network *n)
{
    return (scale_network){ .between = n->between, .per_host = 1, .sum_rate = n->sum_rate };
}

static double hierarchical_all_reduce(const scale_network *n, uint32_t ranks, double bytes)
{
    const uint32_t host = ranks_per_host(n, ranks), hosts = (ranks + host - 1) / host;
    const scale_network leaders = leaders_of(n);
    const double among = hosts < 2            ? 0
                         : bytes <= FEW_BYTES ? doubling_all_reduce(&leaders, hosts, bytes)
                                              : scale_all_reduce(&leaders, SCALE_RING, hosts, bytes);
    return chain_time(n, host, bytes, true) + among + chain_time(n, host, bytes, false);
}

/* Shards of a host along its chain, of which each rank takes or adds one. */
static double shards_time(const scale_network *n, uint32_t host, double shard, uint32_t messages)
{
    return messages * n->within.latency + host * (host - 1.0) / 2 * shard / n->within.bandwidth;
}

/* A ring of hosts is as slow as the shards of the fullest: so many bytes in equal parts would be. */
static double as_full_hosts(uint32_t host, uint32_t hosts, uint32_t ranks, double bytes)
{
    return bytes / ranks * host * hosts;
}

/* The ring's last step is two messages, the first rank's shard by itself, and so are all steps of the way back but the
 * last. A world on one host has no use for a hierarchy. */
static double hierarchical_reduce_scatter(const scale_network *n, uint32_t ranks, double bytes)
{
    const uint32_t host = ranks_per_host(n, ranks), hosts = (ranks + host - 1) / host;
    if (hosts < 2) return ring_reduce_scatter(n, ranks, bytes);
    const scale_network leaders = leaders_of(n);
    const double ring = ring_reduce_scatter(&leaders, hosts, as_full_hosts(host, hosts, ranks, bytes));
    if (host < 2) return ring;
    return chain_time(n, host, bytes, true) + ring + n->between.latency +
           shards_time(n, host, bytes / ranks, 2 * (host - 1) - 1);
}

static double hierarchical_all_gather(const scale_network *n, uint32_t ranks, double bytes)
{
    const uint32_t host = ranks_per_host(n, ranks), hosts = (ranks + host - 1) / host;
    if (hosts < 2) return ring_all_gather(n, ranks, bytes);
    const scale_network leaders = leaders_of(n);
    return shards_time(n, host, bytes / ranks, host - 1) +
           ring_all_gather(&leaders, hosts, as_full_hosts(host, hosts, ranks, bytes)) +
           chain_time(n, host, bytes, false);
}

/* ---- all of them ---- */

double scale_all_reduce(const scale_network *n, scale_schedule schedule, uint32_t ranks, double bytes)
{
    if (ranks < 2) return 0;
    switch (schedule) {
    case SCALE_DOUBLING: return doubling_all_reduce(n, ranks, bytes);
    case SCALE_HALVING: return halving_all_reduce(n, ranks, bytes);
    case SCALE_HIERARCHICAL: return hierarchical_all_reduce(n, ranks, bytes);
    default: return ring_reduce_scatter(n, ranks, bytes) + ring_all_gather(n, ranks, bytes);
    }
}

double scale_reduce_scatter(const scale_network *n, scale_schedule schedule, uint32_t ranks, double bytes)
{
    if (ranks < 2) return 0;
    switch (schedule) {
    case SCALE_HALVING: return halving_rounds(n, ranks, bytes, true);
    case SCALE_HIERARCHICAL: return hierarchical_reduce_scatter(n, ranks, bytes);
    default: return ring_reduce_scatter(n, ranks, bytes);
    }
}

double scale_all_gather(const scale_network *n, scale_schedule schedule, uint32_t ranks, double bytes)
{
    if (ranks < 2) return 0;
    switch (schedule) {
    case SCALE_HALVING: return halving_rounds(n, ranks, bytes, false);
    case SCALE_HIERARCHICAL: return hierarchical_all_gather(n, ranks, bytes);
    default: return ring_all_gather(n, ranks, bytes);
    }
}

/* ---- what the library selects ---- */

/* The network that transport/collective/select.c assumes. */
static scale_network assumed_network(uint32_t per_host)
{
    return (scale_network){ .between = { 5e-6, 12.5e9 },
                            .within = { 1e-6, 50e9 },
                            .per_host = per_host,
                            .sum_rate = 1e10,
                            .chunk = 512 * 1024.0 };
}

static bool goes_by_model(uint32_t per_host, uint32_t ranks)
{
    return ranks > FULL_MESH && ranks > per_host;
}

static bool clearly_less(double seconds, double than)
{
    return 3 * seconds < 2 * than;
}

/* The fastest but the ring, if it is clearly so. `halving` and `within_first`: seconds, or infinite. */
static scale_schedule select_fastest(double ring, double halving, double within_first)
{
    if (!clearly_less(fmin(halving, within_first), ring)) return SCALE_RING;
    return within_first < halving ? SCALE_HIERARCHICAL : SCALE_HALVING;
}

typedef double shards_seconds(const scale_network *n, scale_schedule schedule, uint32_t ranks, double bytes);

static scale_schedule select_shards(shards_seconds *seconds, uint32_t per_host, uint32_t ranks, double bytes)
{
    const bool power = power_of_two(ranks);
    if (power && bytes <= SHARDS_BYTES) return SCALE_HALVING;
    if (!goes_by_model(per_host, ranks)) return SCALE_RING;
    const scale_network n = assumed_network(per_host);
    return select_fastest(seconds(&n, SCALE_RING, ranks, bytes),
                          power ? seconds(&n, SCALE_HALVING, ranks, bytes) : HUGE_VAL,
                          per_host > 1 ? seconds(&n, SCALE_HIERARCHICAL, ranks, bytes) : HUGE_VAL);
}

scale_schedule scale_select_scatter(uint32_t per_host, uint32_t ranks, double bytes)
{
    return select_shards(scale_reduce_scatter, per_host, ranks, bytes);
}

scale_schedule scale_select_gather(uint32_t per_host, uint32_t ranks, double bytes)
{
    return select_shards(scale_all_gather, per_host, ranks, bytes);
}

scale_schedule scale_select(uint32_t per_host, uint32_t ranks, double bytes)
{
    if (bytes <= (ranks <= 4 ? 64 : 16) * 1024.0) return SCALE_DOUBLING;
    if (bytes <= 128 * 1024.0) return SCALE_HALVING;
    if (!goes_by_model(per_host, ranks)) return SCALE_RING;
    const scale_network n = assumed_network(per_host);
    return select_fastest(scale_all_reduce(&n, SCALE_RING, ranks, bytes), halving_all_reduce(&n, ranks, bytes),
                          per_host > 1 ? hierarchical_all_reduce(&n, ranks, bytes) : HUGE_VAL);
}

const char *scale_schedule_name(scale_schedule schedule)
{
    static const char *const names[SCALE_SCHEDULES] = { "ring", "doubling", "halving", "hierarchical" };
    return names[schedule];
}

/* ---- steps ---- */

double scale_bucket_bytes(double gradients)
{
    return fmin(fmax(gradients / 16, MIB), 16 * MIB);
}

uint32_t scale_buckets(double gradients, double bucket_bytes)
{
    return (uint32_t)fmax(ceil(gradients / bucket_bytes), 1);
}

double scale_bucket_ready(double compute, uint32_t buckets, uint32_t index)
{
    const double forward = compute / 3;
    return forward + (compute - forward) * (index + 1) / buckets;
}

scale_step scale_step_time(double compute, uint32_t buckets, double reduce, double gather)
{
    double now = 0; /* when the operation before has ended */
    for (uint32_t turn = 0; turn < buckets + 2; turn++) {
        const double begun = scale_bucket_ready(compute, buckets, turn < buckets ? turn : buckets - 1);
        if (turn < buckets) now = fmax(now, begun) + reduce;
        if (turn >= 2 && gather > 0) now = fmax(now, begun) + gather;
    }
    const double step = fmax(now, compute);
    return (scale_step){ step, buckets * (reduce + gather), step - compute };
}

scale_step scale_sharded_step(const scale_network *n, uint32_t ranks, double compute, uint32_t buckets, double bytes)
{
    const scale_schedule scatter = scale_select_scatter(n->per_host, ranks, bytes),
                         gather = scale_select_gather(n->per_host, ranks, bytes);
    return scale_step_time(compute, buckets, scale_reduce_scatter(n, scatter, ranks, bytes),
                           scale_all_gather(n, gather, ranks, bytes));
}
