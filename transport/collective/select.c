/* SPDX-License-Identifier: Apache-2.0 */
/* Which algorithm RF_COMM_AUTO takes: a table for small worlds and few bytes, and for many ranks, where the rounds of a
 * ring cost more than its bytes, what a model of the time says. The model is that of `ringfire-bench scale`
 * (tools/bench/scale_model.h), with its network; tests compare. It counts in whole numbers, because all ranks must come
 * to the same decision whatever their compilers make of fractions. */
#include "transport/collective/schedule.h"

typedef struct selection {
    rf_collective kind;
    uint32_t max_world;
    uint64_t max_bytes;
    rf_comm_algorithm algorithm;
} selection;

/* The first row that fits. Few bytes want few rounds, many want every link busy with a share. Measured on loopback with
 * `ringfire-bench allreduce`. */
static const selection selections[] = {
    { RF_COLLECTIVE_BARRIER, UINT32_MAX, UINT64_MAX, RF_COMM_RECURSIVE_DOUBLING },
    { RF_COLLECTIVE_ALL_REDUCE, 4, 64u << 10, RF_COMM_RECURSIVE_DOUBLING },
    { RF_COLLECTIVE_ALL_REDUCE, UINT32_MAX, 16u << 10, RF_COMM_RECURSIVE_DOUBLING },
    { RF_COLLECTIVE_ALL_REDUCE, UINT32_MAX, 128u << 10, RF_COMM_RECURSIVE_HALVING },
    { RF_COLLECTIVE_REDUCE_SCATTER, UINT32_MAX, 256u << 10, RF_COMM_RECURSIVE_HALVING },
    { RF_COLLECTIVE_ALL_GATHER, UINT32_MAX, 256u << 10, RF_COMM_RECURSIVE_DOUBLING },
    { RF_COLLECTIVE_BROADCAST, UINT32_MAX, 64u << 10, RF_COMM_RECURSIVE_DOUBLING },
};

/* ---- the model, of several hosts, in picoseconds ---- */

#define BETWEEN_LATENCY UINT64_C(5000000) /* of hosts: 5 us, 100 Gbit/s */
#define BETWEEN_BYTE 80u
#define WITHIN_LATENCY UINT64_C(1000000) /* a host: 1 us, 400 Gbit/s */
#define WITHIN_BYTE 20u
#define SUM_BYTE 100u                  /* 10 GB/s */
#define CHAIN_CHUNK (512u << 10)       /* what a chain hands on at a time */
#define MOST_BYTES (UINT64_C(1) << 34) /* beyond this only bytes count, and products stay far from 64 bits */

typedef struct placed_world {
    uint32_t ranks, per_host;
} placed_world;

/* Messages of `bytes`; so many leave each host at once and share its link. */
static uint64_t round_time(placed_world w, uint64_t bytes, uint32_t leaving)
{
    const uint64_t within = w.per_host > 1 ? WITHIN_LATENCY + bytes * WITHIN_BYTE : 0;
    const uint64_t between = leaving ? BETWEEN_LATENCY + bytes * leaving * BETWEEN_BYTE : 0;
    return between > within ? between : within;
}

static uint64_t ring_half(placed_world w, uint64_t bytes, bool add)
{
    const uint64_t shard = bytes / w.ranks;
    return (w.ranks - 1) * (round_time(w, shard, 1) + (add ? shard * SUM_BYTE : 0));
}

static uint32_t power_below(uint32_t n)
{
    uint32_t power = 1;
    while (power <= n / 2) power *= 2;
    return power;
}

static uint64_t halving_half(placed_world w, uint64_t bytes, bool add)
{
    const uint32_t power = power_below(w.ranks);
    uint64_t time = 0;
    for (uint32_t distance = power / 2; distance > 0; distance /= 2) {
        const uint64_t part = bytes * distance / power;
        const bool stays = w.per_host % (2 * distance) == 0;
        const uint32_t leaving = distance < w.per_host ? distance : w.per_host;
        time += round_time(w, part, stays ? 0 : leaving) + (add ? part * SUM_BYTE : 0);
    }
    return time;
}

/* Before and after, where the ranks are no power of two: some hand everything to their neighbours. */
static uint64_t fold_time(placed_world w, uint64_t bytes)
{
    if (power_below(w.ranks) == w.ranks) return 0;
    return 2 * round_time(w, bytes, w.per_host % 2) + bytes * SUM_BYTE;
}

static uint64_t chain_time(placed_world w, uint64_t bytes, bool add)
{
    const uint64_t chunks = bytes > CHAIN_CHUNK ? (bytes + CHAIN_CHUNK - 1) / CHAIN_CHUNK : 1, part = bytes / chunks;
    return (w.per_host - 2 + chunks) * (WITHIN_LATENCY + part * (WITHIN_BYTE + (add ? SUM_BYTE : 0)));
}

static placed_world leaders_of(placed_world w)
{
    return (placed_world){ (w.ranks + w.per_host - 1) / w.per_host, 1 };
}

static uint64_t hierarchical_time(placed_world w, uint64_t bytes)
{
    const placed_world leaders = leaders_of(w);
    return chain_time(w, bytes, true) + ring_half(leaders, bytes, true) + ring_half(leaders, bytes, false) +
           chain_time(w, bytes, false);
}

/* Shards of a host along its chain, of which each rank takes or adds one. */
static uint64_t shards_time(placed_world w, uint64_t shard, uint32_t messages)
{
    return messages * WITHIN_LATENCY + (uint64_t)w.per_host * (w.per_host - 1) / 2 * shard * WITHIN_BYTE;
}

/* The ring's last step is two messages, and so are all steps of the way back but the last. */
static uint64_t hierarchical_scatter_time(placed_world w, uint64_t bytes)
{
    return chain_time(w, bytes, true) + ring_half(leaders_of(w), bytes, true) + BETWEEN_LATENCY +
           shards_time(w, bytes / w.ranks, 2 * (w.per_host - 1) - 1);
}

static uint64_t hierarchical_gather_time(placed_world w, uint64_t bytes)
{
    return shards_time(w, bytes / w.ranks, w.per_host - 1) + ring_half(leaders_of(w), bytes, false) +
           chain_time(w, bytes, false);
}

/* Neighbours in a ring need little of the network between hosts, others may need all of it, and no network is the
 * model's: only a clear gain is one. */
static bool clearly_less(uint64_t time, uint64_t than)
{
    return 3 * time < 2 * than;
}

static rf_comm_algorithm select_by_model(rf_collective kind, placed_world w, uint64_t bytes)
{
    const uint64_t size = bytes < MOST_BYTES ? bytes : MOST_BYTES;
    const bool power = power_below(w.ranks) == w.ranks, hierarchy = w.per_host > 1;
    const uint64_t never = UINT64_MAX / 4;
    const rf_comm_algorithm pairs =
        kind == RF_COLLECTIVE_ALL_GATHER ? RF_COMM_RECURSIVE_DOUBLING : RF_COMM_RECURSIVE_HALVING;
    uint64_t ring, in_pairs, within_first;
    switch (kind) {
    case RF_COLLECTIVE_ALL_REDUCE:
        ring = ring_half(w, size, true) + ring_half(w, size, false);
        in_pairs = fold_time(w, size) + halving_half(w, size, true) + halving_half(w, size, false);
        within_first = hierarchy ? hierarchical_time(w, size) : never;
        break;
    case RF_COLLECTIVE_REDUCE_SCATTER:
    case RF_COLLECTIVE_ALL_GATHER: {
        const bool add = kind == RF_COLLECTIVE_REDUCE_SCATTER;
        ring = ring_half(w, size, add);
        in_pairs = power ? halving_half(w, size, add) : never;
        within_first = !hierarchy ? never
                       : add      ? hierarchical_scatter_time(w, size)
                                  : hierarchical_gather_time(w, size);
        break;
    }
    default: return RF_COMM_RING;
    }
    if (!clearly_less(in_pairs < within_first ? in_pairs : within_first, ring)) return RF_COMM_RING;
    return within_first < in_pairs ? RF_COMM_HIERARCHICAL : pairs;
}

/* ---- the choice ---- */

uint32_t rf_collective_per_host(const uint32_t *hosts, uint32_t world_size)
{
    uint32_t per_host = 0;
    while (per_host < world_size && hosts[per_host] == hosts[0]) per_host++;
    for (uint32_t i = per_host; i < world_size; i++) {
        const bool begins = i % per_host == 0;
        if ((hosts[i] != hosts[i - 1]) != begins) return 0;
        for (uint32_t before = 0; begins && before < i; before += per_host)
            if (hosts[before] == hosts[i]) return 0;
    }
    return per_host;
}

rf_comm_algorithm rf_collective_schedule_select(rf_collective kind, uint32_t world_size, uint32_t per_host,
                                                uint64_t bytes)
{
    for (size_t i = 0; i < sizeof(selections) / sizeof(selections[0]); i++) {
        const selection *row = &selections[i];
        const rf_collective_task task = { .kind = kind, .algorithm = row->algorithm, .world_size = world_size };
        if (row->kind == kind && world_size <= row->max_world && bytes <= row->max_bytes &&
            rf_collective_schedule_possible(&task))
            return row->algorithm;
    }
    /* On one host no pair of ranks is far, and 32 of them gained nothing from fewer rounds. */
    if (world_size <= RF_COMM_FULL_MESH || per_host == 0 || per_host >= world_size) return RF_COMM_RING;
    return select_by_model(kind, (placed_world){ world_size, per_host }, bytes);
}
