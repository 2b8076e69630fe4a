/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/collective/schedule.h"

#include <string.h>

#include "base/error.h"
#include "base/memory.h"

static const char *const collective_names[RF_COLLECTIVE_COUNT] = {
    [RF_COLLECTIVE_ALL_REDUCE] = "all_reduce", [RF_COLLECTIVE_REDUCE_SCATTER] = "reduce_scatter",
    [RF_COLLECTIVE_ALL_GATHER] = "all_gather", [RF_COLLECTIVE_BROADCAST] = "broadcast",
    [RF_COLLECTIVE_BARRIER] = "barrier",
};
static const char *const algorithm_names[RF_COMM_ALGORITHM_COUNT] = {
    [RF_COMM_AUTO] = "auto",
    [RF_COMM_RING] = "ring",
    [RF_COMM_RECURSIVE_DOUBLING] = "recursive doubling",
    [RF_COMM_RECURSIVE_HALVING] = "recursive halving",
    [RF_COMM_HIERARCHICAL] = "hierarchical",
};

const char *rf_collective_name(rf_collective kind)
{
    return (unsigned)kind < RF_COLLECTIVE_COUNT ? collective_names[kind] : "unknown";
}

const char *rf_algorithm_name(rf_comm_algorithm algorithm)
{
    return (unsigned)algorithm < RF_COMM_ALGORITHM_COUNT ? algorithm_names[algorithm] : "unknown";
}

static bool power_of_two(uint32_t n)
{
    return (n & (n - 1)) == 0;
}

/* Whether the ranks of each host are numbered one after the other. */
static bool hosts_in_rows(const rf_collective_task *task)
{
    for (uint32_t i = 1; i < task->world_size; i++)
        if (task->hosts[i] != task->hosts[i - 1] && task->hosts[i] != task->hosts[i - 1] + 1) return false;
    return true;
}

bool rf_collective_schedule_possible(const rf_collective_task *task)
{
    switch (task->kind) {
    case RF_COLLECTIVE_ALL_REDUCE:
    case RF_COLLECTIVE_BARRIER: return task->algorithm != RF_COMM_AUTO && task->algorithm < RF_COMM_ALGORITHM_COUNT;
    case RF_COLLECTIVE_REDUCE_SCATTER:
        return task->algorithm == RF_COMM_RING ||
               (task->algorithm == RF_COMM_RECURSIVE_HALVING && power_of_two(task->world_size)) ||
               (task->algorithm == RF_COMM_HIERARCHICAL && hosts_in_rows(task));
    case RF_COLLECTIVE_ALL_GATHER:
        return task->algorithm == RF_COMM_RING ||
               (task->algorithm == RF_COMM_RECURSIVE_DOUBLING && power_of_two(task->world_size)) ||
               (task->algorithm == RF_COMM_HIERARCHICAL && hosts_in_rows(task));
    case RF_COLLECTIVE_BROADCAST:
        /* A tree from any root needs connections between any two ranks. */
        return task->algorithm == RF_COMM_RING ||
               (task->algorithm == RF_COMM_RECURSIVE_DOUBLING && task->world_size <= RF_COMM_FULL_MESH);
    case RF_COLLECTIVE_COUNT: break;
    }
    return false;
}

static rf_result all_reduce(rf_collective_schedule *s, const rf_collective_task *task, const rf_group *all)
{
    rf_space source = RF_SPACE_INPUT;
    uint32_t round = 0;
    switch (task->algorithm) {
    case RF_COMM_RECURSIVE_DOUBLING: return rf_doubling_all_reduce(s, all, task->count, &source, &round);
    case RF_COMM_RECURSIVE_HALVING: return rf_halving_all_reduce(s, all, task->count, &source, &round);
    case RF_COMM_HIERARCHICAL: return rf_hierarchical_all_reduce(s, task);
    default: return rf_ring_all_reduce(s, all, task->count, task->slice, &source, &round);
    }
}

static rf_result fill_schedule(rf_collective_schedule *s, const rf_collective_task *task, const rf_group *all)
{
    const bool ring = task->algorithm == RF_COMM_RING, within_first = task->algorithm == RF_COMM_HIERARCHICAL;
    switch (task->kind) {
    case RF_COLLECTIVE_REDUCE_SCATTER:
        if (within_first) return rf_hierarchical_reduce_scatter(s, task, all);
        return ring ? rf_ring_reduce_scatter(s, all, task->counts) : rf_halving_reduce_scatter(s, all, task->counts);
    case RF_COLLECTIVE_ALL_GATHER:
        if (within_first) return rf_hierarchical_all_gather(s, task, all);
        return ring ? rf_ring_all_gather(s, all, task->counts) : rf_doubling_all_gather(s, all, task->counts);
    case RF_COLLECTIVE_BROADCAST:
        return ring ? rf_chain_broadcast(s, all, task->root, task->count)
                    : rf_tree_broadcast(s, all, task->root, task->count);
    default: return all_reduce(s, task, all);
    }
}

rf_result rf_collective_schedule_make(const rf_collective_task *task, rf_collective_schedule *out)
{
    memset(out, 0, sizeof(*out));
    RF_REQUIRE(rf_collective_schedule_possible(task),
               "%s: the algorithm '%s' does not support this with %u ranks; use auto", rf_collective_name(task->kind),
               rf_algorithm_name(task->algorithm), task->world_size);
    uint32_t *ranks = RF_NEW_ARRAY(uint32_t, task->world_size);
    if (!ranks) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; i < task->world_size; i++) ranks[i] = i;
    const rf_result r = fill_schedule(out, task, &(rf_group){ ranks, task->world_size, task->rank });
    rf_free(ranks);
    return r;
}

/* ---- who is needed ---- */

static void mark_peers(const rf_collective_schedule *schedule, bool *peers)
{
    for (uint32_t i = 0; i < schedule->count; i++) {
        if (schedule->items[i].to >= 0) peers[schedule->items[i].to] = true;
        if (schedule->items[i].from >= 0) peers[schedule->items[i].from] = true;
    }
}

rf_result rf_collective_schedule_peers(uint32_t rank, uint32_t world_size, const uint32_t *hosts, bool *peers)
{
    memset(peers, 0, world_size * sizeof(*peers));
    if (world_size <= RF_COMM_FULL_MESH) {
        for (uint32_t i = 0; i < world_size; i++) peers[i] = i != rank;
        return RF_OK;
    }
    peers[(rank + 1) % world_size] = peers[(rank + world_size - 1) % world_size] = true;
    /* The other operations use the ring's connections or those of the all-reduces. */
    for (int a = RF_COMM_RING; a < RF_COMM_ALGORITHM_COUNT; a++) {
        /* Both sides of the threshold within the hierarchical algorithm. */
        static const uint64_t counts[] = { 1, UINT32_MAX };
        for (int c = 0; c < 2; c++) {
            const rf_collective_task task = {
                RF_COLLECTIVE_ALL_REDUCE, (rf_comm_algorithm)a, rank, world_size, counts[c], NULL, 0, hosts
            };
            rf_collective_schedule schedule;
            const rf_result r = rf_collective_schedule_make(&task, &schedule);
            if (r == RF_OK) mark_peers(&schedule, peers);
            rf_collective_schedule_free(&schedule);
            RF_TRY(r);
        }
    }
    return RF_OK;
}
