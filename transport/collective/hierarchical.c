/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hierarchical: the ranks of a host add along a chain that ends at the host's first rank; the first ranks all-reduce
 * among themselves; the result goes back along the chains. Between hosts the data travel once per host instead of once
 * per rank, and hosts may have any number of ranks. Chunks are pipelined through a chain.
 */
#include "base/error.h"
#include "base/memory.h"
#include "transport/collective/schedule.h"

/* Up to so many elements the hosts exchange by recursive doubling. */
#define FEW 8192

typedef struct hierarchy {
    uint32_t *local, *leaders; /* ranks of this host, first ranks of all */
    rf_group host, among;      /* among.size: hosts */
    uint32_t longest;          /* ranks of the fullest host */
} hierarchy;

static bool is_leader(const rf_collective_task *task, uint32_t rank)
{
    for (uint32_t i = 0; i < rank; i++)
        if (task->hosts[i] == task->hosts[rank]) return false;
    return true;
}

static rf_result survey_hosts(const rf_collective_task *task, hierarchy *h)
{
    h->local = RF_NEW_ARRAY(uint32_t, task->world_size);
    h->leaders = RF_NEW_ARRAY(uint32_t, task->world_size);
    if (!h->local || !h->leaders) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; i < task->world_size; i++) {
        if (task->hosts[i] == task->hosts[task->rank]) {
            if (i == task->rank) h->host.index = h->host.size;
            h->local[h->host.size++] = i;
        }
        if (!is_leader(task, i)) continue;
        if (task->hosts[i] == task->hosts[task->rank]) h->among.index = h->among.size;
        h->leaders[h->among.size++] = i;
        uint32_t length = 0;
        for (uint32_t k = i; k < task->world_size; k++) length += task->hosts[k] == task->hosts[i];
        if (length > h->longest) h->longest = length;
    }
    h->host.ranks = h->local;
    h->among.ranks = h->leaders;
    return RF_OK;
}

static rf_result schedule_build(rf_collective_schedule *s, const hierarchy *h, uint64_t count, uint64_t slice)
{
    const rf_group *host = &h->host;
    rf_space source = RF_SPACE_INPUT;
    const rf_place out = { RF_SPACE_OUTPUT, 0 };
    const uint32_t after = host->size - 1 - host->index; /* ranks behind this one in the chain */
    if (after > 0) {
        RF_TRY(rf_collective_schedule_receive(s, after - 1, host->ranks[host->index + 1], out, count));
        rf_collective_step *step = &s->items[s->count - 1];
        step->reduce = true;
        step->local = (rf_place){ source, 0 };
        source = RF_SPACE_OUTPUT;
    }
    uint32_t round = h->longest - 1;
    if (host->index > 0) {
        RF_TRY(
            rf_collective_schedule_send(s, after, host->ranks[host->index - 1], (rf_place){ source, 0 }, count, false));
        /* What the leaders do takes as many rounds on every rank. */
        rf_collective_schedule unused = { 0 };
        const rf_result r = count <= FEW ? rf_doubling_all_reduce(&unused, &h->among, count, &source, &round)
                                         : rf_ring_all_reduce(&unused, &h->among, count, slice, &source, &round);
        rf_collective_schedule_free(&unused);
        RF_TRY(r);
        RF_TRY(rf_collective_schedule_receive(s, round + host->index - 1, host->ranks[host->index - 1], out, count));
    } else {
        RF_TRY(count <= FEW ? rf_doubling_all_reduce(s, &h->among, count, &source, &round)
                            : rf_ring_all_reduce(s, &h->among, count, slice, &source, &round));
    }
    s->round_result = count <= FEW;
    if (after > 0)
        RF_TRY(rf_collective_schedule_send(s, round + host->index, host->ranks[host->index + 1], out, count, true));
    return RF_OK;
}

rf_result rf_hierarchical_all_reduce(rf_collective_schedule *s, const rf_collective_task *task)
{
    hierarchy h = { 0 };
    rf_result r = survey_hosts(task, &h);
    if (r == RF_OK) r = schedule_build(s, &h, task->count, task->slice);
    rf_free(h.local);
    rf_free(h.leaders);
    return r;
}
