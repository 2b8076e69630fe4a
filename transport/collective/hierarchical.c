/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hierarchical: within each host first, then between hosts, so that between hosts the data travel once per host instead
 * of once per rank. Hosts may have any number of ranks. Chunks are pipelined through a chain.
 *  - All-reduce: the ranks of a host add along a chain that ends at the host's first rank; the first ranks all-reduce
 *    among themselves; the result goes back along the chains.
 *  - Reduce-scatter: the same chain; the first ranks reduce-scatter in a ring, each for the shards of its whole host;
 *    each rank of a host takes its shard out of what it hands on to those behind it.
 *  - All-gather: the shards of a host are collected along the chain, the first ranks gather those of all hosts in a
 * ring, and everything goes back along the chains. The last two need the shards of a host in one piece: its ranks are
 * numbered one after the other.
 */
#include "base/error.h"
#include "base/memory.h"
#include "transport/collective/schedule.h"

/* Up to so many elements the hosts all-reduce by recursive doubling. */
#define FEW 8192

typedef struct hierarchy {
    uint32_t *local, *leaders; /* ranks of this host, first ranks of all */
    uint32_t *lengths;         /* ranks of each host, by its number */
    rf_group host, among;      /* among.size: hosts */
    uint32_t longest;          /* ranks of the fullest host */
} hierarchy;

static void hierarchy_free(hierarchy *h)
{
    rf_free(h->local);
    rf_free(h->leaders);
    rf_free(h->lengths);
}

static rf_result survey_hosts(const rf_collective_task *task, hierarchy *h)
{
    h->local = RF_NEW_ARRAY(uint32_t, task->world_size);
    h->leaders = RF_NEW_ARRAY(uint32_t, task->world_size);
    h->lengths = RF_NEW_ARRAY(uint32_t, task->world_size);
    if (!h->local || !h->leaders || !h->lengths) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; i < task->world_size; i++) {
        const uint32_t host = task->hosts[i];
        const bool own = host == task->hosts[task->rank];
        if (own) {
            if (i == task->rank) h->host.index = h->host.size;
            h->local[h->host.size++] = i;
        }
        if (h->lengths[host]++ == 0) {
            if (own) h->among.index = h->among.size;
            h->leaders[h->among.size++] = i;
        }
        if (h->lengths[host] > h->longest) h->longest = h->lengths[host];
    }
    h->host.ranks = h->local;
    h->among.ranks = h->leaders;
    return RF_OK;
}

/* Sums of the ranks behind this one in the host's chain and of its own, in `into`, are handed on towards the first
 * rank. `*source` is where the sum is then: the input where nobody is behind. Takes the rounds below `longest` - 1. */
static rf_result chain_sums(rf_collective_schedule *s, const hierarchy *h, uint64_t count, rf_space into,
                            rf_space *source)
{
    const rf_group *host = &h->host;
    const uint32_t after = host->size - 1 - host->index; /* ranks behind this one */
    *source = RF_SPACE_INPUT;
    if (after > 0) {
        RF_TRY(
            rf_collective_schedule_receive(s, after - 1, host->ranks[host->index + 1], (rf_place){ into, 0 }, count));
        rf_collective_step *step = &s->items[s->count - 1];
        step->reduce = true;
        step->local = (rf_place){ RF_SPACE_INPUT, 0 };
        *source = into;
    }
    if (host->index == 0) return RF_OK;
    return rf_collective_schedule_send(s, after, host->ranks[host->index - 1], (rf_place){ *source, 0 }, count, false);
}

/* The first rank's whole output, to all behind it. */
static rf_result chain_results(rf_collective_schedule *s, const hierarchy *h, uint32_t round, uint64_t count)
{
    const rf_group *host = &h->host;
    const rf_place out = { RF_SPACE_OUTPUT, 0 };
    if (host->index > 0)
        RF_TRY(rf_collective_schedule_receive(s, round + host->index - 1, host->ranks[host->index - 1], out, count));
    if (host->index + 1 == host->size) return RF_OK;
    return rf_collective_schedule_send(s, round + host->index, host->ranks[host->index + 1], out, count, true);
}

/* ---- all-reduce ---- */

static rf_result reduce_build(rf_collective_schedule *s, const hierarchy *h, uint64_t count, uint64_t slice)
{
    rf_space source;
    RF_TRY(chain_sums(s, h, count, RF_SPACE_OUTPUT, &source));
    uint32_t round = h->longest - 1;
    /* The leaders' part takes as many rounds on every rank. */
    rf_collective_schedule unused = { 0 }, *among = h->host.index == 0 ? s : &unused;
    const rf_result r = count <= FEW ? rf_doubling_all_reduce(among, &h->among, count, &source, &round)
                                     : rf_ring_all_reduce(among, &h->among, count, slice, &source, &round);
    rf_collective_schedule_free(&unused);
    RF_TRY(r);
    s->round_result = count <= FEW;
    return chain_results(s, h, round, count);
}

rf_result rf_hierarchical_all_reduce(rf_collective_schedule *s, const rf_collective_task *task)
{
    hierarchy h = { 0 };
    rf_result r = survey_hosts(task, &h);
    if (r == RF_OK) r = reduce_build(s, &h, task->count, task->slice);
    hierarchy_free(&h);
    return r;
}

/* ---- shards ---- */

/* Where each rank's shard begins, and the end of the last; and the same for what the hosts have together. */
typedef struct shard_map {
    uint64_t *ranks, *hosts; /* [world_size + 1], [hosts + 1] */
    uint64_t largest;        /* of a host */
} shard_map;

static void map_free(shard_map *map)
{
    rf_free(map->ranks);
    rf_free(map->hosts);
}

static rf_result map_shards(const rf_collective_task *task, const hierarchy *h, shard_map *map)
{
    const uint32_t hosts = h->among.size;
    map->ranks = RF_NEW_ARRAY(uint64_t, task->world_size + 1);
    map->hosts = RF_NEW_ARRAY(uint64_t, hosts + 1);
    if (!map->ranks || !map->hosts) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; i < task->world_size; i++) map->ranks[i + 1] = map->ranks[i] + task->counts[i];
    for (uint32_t i = 0; i < hosts; i++) map->hosts[i] = map->ranks[h->leaders[i]];
    map->hosts[hosts] = map->ranks[task->world_size];
    for (uint32_t i = 0; i < hosts; i++)
        if (map->hosts[i + 1] - map->hosts[i] > map->largest) map->largest = map->hosts[i + 1] - map->hosts[i];
    return RF_OK;
}

static uint64_t host_count(const shard_map *map, uint32_t host)
{
    return map->hosts[host + 1] - map->hosts[host];
}

/* The size of the shard of the first rank on host number `host`. */
static uint64_t head_count(const hierarchy *h, const shard_map *map, uint32_t host)
{
    const uint32_t first = h->leaders[host];
    return map->ranks[first + 1] - map->ranks[first];
}

/* ---- reduce-scatter ---- */

/* A ring's step between first ranks: `out` of what is at `send` leaves, `in` elements come to `receive` and are added
 * to those at `local`. */
static rf_result ring_part(rf_collective_schedule *s, const rf_group *g, uint32_t round, rf_place send, uint64_t out,
                           rf_place receive, rf_place local, uint64_t in)
{
    if (out == 0 && in == 0) return RF_OK;
    rf_collective_step *step = rf_collective_schedule_add(s, round);
    if (!step) return RF_ERROR_OUT_OF_HOST_MEMORY;
    if (out > 0) step->to = (int32_t)g->ranks[(g->index + 1) % g->size];
    if (in > 0) step->from = (int32_t)g->ranks[(g->index + g->size - 1) % g->size];
    step->send = send;
    step->send_count = out;
    step->receive = receive;
    step->receive_count = in;
    step->local = local;
    step->reduce = step->received_left = true;
    return RF_OK;
}

/* The ring of ring.c with a host's shards for a rank's, the sums of the host at `source`. In the last step, which is
 * two rounds, this rank's own shard comes straight into the output, and those of the ranks behind it in place of the
 * host's sums. Data on its way takes turns in two buffers, behind those sums where these are in scratch. */
static rf_result ring_scatter(rf_collective_schedule *s, const hierarchy *h, const shard_map *map, rf_space source,
                              uint32_t round)
{
    const rf_group *g = &h->among;
    const uint32_t n = g->size;
    const uint64_t buffers = source == RF_SPACE_SCRATCH ? map->hosts[n] : 0;
    for (uint32_t k = 0; k + 1 < n; k++) {
        const uint32_t out = (g->index + 2 * n - k - 1) % n, in = (g->index + 2 * n - k - 2) % n;
        rf_place send = k == 0 ? (rf_place){ source, map->hosts[out] }
                               : (rf_place){ RF_SPACE_SCRATCH, buffers + (k - 1) % 2 * map->largest };
        rf_place local = { source, map->hosts[in] };
        if (k + 2 < n) {
            const rf_place receive = { RF_SPACE_SCRATCH, buffers + k % 2 * map->largest };
            RF_TRY(ring_part(s, g, round + k, send, host_count(map, out), receive, local, host_count(map, in)));
            continue;
        }
        const uint64_t head_out = head_count(h, map, out), head_in = head_count(h, map, in);
        RF_TRY(ring_part(s, g, round + k, send, head_out, (rf_place){ RF_SPACE_OUTPUT, 0 }, local, head_in));
        send.begin += head_out;
        local.begin += head_in;
        RF_TRY(ring_part(s, g, round + k + 1, send, host_count(map, out) - head_out, local, local,
                         host_count(map, in) - head_in));
    }
    s->scratch = buffers + (n > 3 ? 2 : n > 2 ? 1 : 0) * map->largest;
    return RF_OK;
}

/* The finished sums of a host, from its first rank along the chain: each rank's own shard, then, in place of the sums
 * that it has handed on before, those of the ranks behind it. */
static rf_result chain_scatter(rf_collective_schedule *s, const hierarchy *h, const shard_map *map, uint32_t round)
{
    const rf_group *host = &h->host;
    const uint64_t end = map->hosts[h->among.index + 1];
    for (uint32_t hop = host->index > 0 ? host->index : 1; hop <= host->index + 1 && hop < host->size; hop++) {
        const bool comes = hop == host->index;
        const uint32_t other = host->ranks[comes ? hop - 1 : hop], to = host->ranks[hop];
        const uint64_t own = map->ranks[to + 1] - map->ranks[to], behind = end - map->ranks[to + 1];
        const rf_place head = comes ? (rf_place){ RF_SPACE_OUTPUT, 0 } : (rf_place){ RF_SPACE_SCRATCH, map->ranks[to] },
                       tail = { RF_SPACE_SCRATCH, map->ranks[to + 1] };
        const uint32_t at = round + 2 * (hop - 1);
        if (own > 0)
            RF_TRY(comes ? rf_collective_schedule_receive(s, at, other, head, own)
                         : rf_collective_schedule_send(s, at, other, head, own, false));
        if (behind > 0)
            RF_TRY(comes ? rf_collective_schedule_receive(s, at + 1, other, tail, behind)
                         : rf_collective_schedule_send(s, at + 1, other, tail, behind, false));
    }
    return RF_OK;
}

static rf_result scatter_build(rf_collective_schedule *s, const hierarchy *h, const shard_map *map, uint32_t rank)
{
    (void)rank;
    const uint32_t round = h->longest - 1;
    const uint64_t all = map->hosts[h->among.size];
    rf_space source;
    RF_TRY(chain_sums(s, h, all, RF_SPACE_SCRATCH, &source));
    /* The last rank of a chain needs none. */
    if (source == RF_SPACE_SCRATCH) s->scratch = all;
    if (h->host.index == 0) RF_TRY(ring_scatter(s, h, map, source, round));
    return chain_scatter(s, h, map, round + h->among.size);
}

/* `flat` where all ranks are of one host. */
static rf_result build_for_shards(rf_collective_schedule *s, const rf_collective_task *task, const rf_group *all,
                                  rf_result (*flat)(rf_collective_schedule *, const rf_group *, const uint64_t *),
                                  rf_result (*build)(rf_collective_schedule *, const hierarchy *, const shard_map *,
                                                     uint32_t rank))
{
    hierarchy h = { 0 };
    shard_map map = { 0 };
    rf_result r = survey_hosts(task, &h);
    if (r == RF_OK && h.among.size == 1)
        r = flat(s, all, task->counts);
    else if (r == RF_OK && (r = map_shards(task, &h, &map)) == RF_OK)
        r = build(s, &h, &map, task->rank);
    map_free(&map);
    hierarchy_free(&h);
    return r;
}

rf_result rf_hierarchical_reduce_scatter(rf_collective_schedule *s, const rf_collective_task *task, const rf_group *all)
{
    return build_for_shards(s, task, all, rf_ring_reduce_scatter, scatter_build);
}

/* ---- all-gather ---- */

/* The shards of this rank and of those behind it in the chain, towards the host's first rank. */
static rf_result chain_gather(rf_collective_schedule *s, const hierarchy *h, const shard_map *map)
{
    const rf_group *host = &h->host;
    const uint32_t after = host->size - 1 - host->index, rank = host->ranks[host->index];
    const uint64_t end = map->hosts[h->among.index + 1];
    if (after > 0)
        RF_TRY(rf_collective_schedule_receive(
            s, after - 1, rank + 1, (rf_place){ RF_SPACE_OUTPUT, map->ranks[rank + 1] }, end - map->ranks[rank + 1]));
    if (host->index == 0) return RF_OK;
    return rf_collective_schedule_send(s, after, rank - 1, (rf_place){ RF_SPACE_OUTPUT, map->ranks[rank] },
                                       end - map->ranks[rank], true);
}

static rf_result ring_gather(rf_collective_schedule *s, const hierarchy *h, const shard_map *map, uint32_t round)
{
    const rf_group *g = &h->among;
    const uint32_t n = g->size;
    for (uint32_t k = 0; k + 1 < n; k++) {
        const uint32_t out = (g->index + n - k) % n, in = (g->index + n - k - 1) % n;
        rf_collective_step *step = rf_collective_schedule_add(s, round + k);
        if (!step) return RF_ERROR_OUT_OF_HOST_MEMORY;
        step->to = (int32_t)g->ranks[(g->index + 1) % n];
        step->from = (int32_t)g->ranks[(g->index + n - 1) % n];
        step->send = (rf_place){ RF_SPACE_OUTPUT, map->hosts[out] };
        step->send_count = host_count(map, out);
        step->receive = (rf_place){ RF_SPACE_OUTPUT, map->hosts[in] };
        step->receive_count = host_count(map, in);
        step->keeps = true;
    }
    return RF_OK;
}

static rf_result gather_build(rf_collective_schedule *s, const hierarchy *h, const shard_map *map, uint32_t rank)
{
    const uint32_t round = h->longest - 1, hosts = h->among.size;
    s->copy_from = (rf_place){ RF_SPACE_INPUT, 0 };
    s->copy_to = (rf_place){ RF_SPACE_OUTPUT, map->ranks[rank] };
    s->copy_count = map->ranks[rank + 1] - map->ranks[rank];
    RF_TRY(chain_gather(s, h, map));
    if (h->host.index == 0) RF_TRY(ring_gather(s, h, map, round));
    return chain_results(s, h, round + hosts - 1, map->hosts[hosts]);
}

rf_result rf_hierarchical_all_gather(rf_collective_schedule *s, const rf_collective_task *task, const rf_group *all)
{
    return build_for_shards(s, task, all, rf_ring_all_gather, gather_build);
}
