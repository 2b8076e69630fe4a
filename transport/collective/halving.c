/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recursive halving and doubling: a reduce-scatter in which partners at distance n/2, n/4, ... 1 exchange the halves
 * that the other keeps, then an all-gather the same way back. Log2(n) rounds each way and as few bytes as the ring.
 * Rabenseifner, "Optimization of collective reduction operations", ICCS 2004. Worlds whose size is not a power of two
 * are folded (fold.h).
 */
#include "base/error.h"
#include "base/memory.h"
#include "transport/collective/fold.h"

typedef struct block {
    uint64_t begin, end;
} block;

static block shards_block(uint64_t count, uint32_t size, uint32_t first, uint32_t num)
{
    return (block){ rf_collective_shard_begin(count, size, first),
                    rf_collective_shard_begin(count, size, first + num) };
}

rf_result rf_halving_all_reduce(rf_collective_schedule *s, const rf_group *g, uint64_t count, rf_space *source,
                                uint32_t *round)
{
    const rf_fold fold = rf_fold_of(g);
    RF_TRY(rf_fold_in(s, g, &fold, count, source, round));
    for (uint32_t bit = fold.size / 2; bit > 0; bit /= 2, (*round)++) {
        if (fold.out) continue;
        const uint32_t mine = fold.index & ~(bit - 1), theirs = mine ^ bit;
        const uint32_t partner = rf_fold_real(&fold, fold.index ^ bit);
        const block keep = shards_block(count, fold.size, mine, bit),
                    give = shards_block(count, fold.size, theirs, bit);
        rf_collective_step *step = rf_collective_schedule_add(s, *round);
        if (!step) return RF_ERROR_OUT_OF_HOST_MEMORY;
        step->to = step->from = (int32_t)g->ranks[partner];
        step->send = (rf_place){ *source, give.begin };
        step->send_count = give.end - give.begin;
        step->local = (rf_place){ *source, keep.begin };
        step->receive = (rf_place){ RF_SPACE_OUTPUT, keep.begin };
        step->receive_count = keep.end - keep.begin;
        step->reduce = true;
        step->received_left = partner < g->index;
        *source = RF_SPACE_OUTPUT;
    }
    for (uint32_t bit = 1; bit < fold.size; bit *= 2, (*round)++) {
        if (fold.out) continue;
        const uint32_t mine = fold.index & ~(bit - 1), theirs = mine ^ bit;
        const block have = shards_block(count, fold.size, mine, bit),
                    want = shards_block(count, fold.size, theirs, bit);
        rf_collective_step *step = rf_collective_schedule_add(s, *round);
        if (!step) return RF_ERROR_OUT_OF_HOST_MEMORY;
        step->to = step->from = (int32_t)g->ranks[rf_fold_real(&fold, fold.index ^ bit)];
        step->send = (rf_place){ RF_SPACE_OUTPUT, have.begin };
        step->send_count = have.end - have.begin;
        step->receive = (rf_place){ RF_SPACE_OUTPUT, want.begin };
        step->receive_count = want.end - want.begin;
        step->keeps = true;
    }
    return rf_fold_out(s, g, &fold, count, source, round);
}

/* Partial sums wait in scratch, laid out like the input's half that this rank keeps at first. Powers of two only. */
rf_result rf_halving_reduce_scatter(rf_collective_schedule *s, const rf_group *g, const uint64_t *counts)
{
    const uint32_t n = g->size;
    uint64_t *begins = RF_NEW_ARRAY(uint64_t, n + 1);
    if (!begins) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; i < n; i++) begins[i + 1] = begins[i] + counts[i];
    const uint32_t half = g->index & ~(n / 2 - 1);
    const uint64_t base = n > 2 ? begins[half] : 0;
    s->scratch = n > 2 ? begins[half + n / 2] - base : 0;
    uint32_t round = 0;
    rf_result r = RF_OK;
    for (uint32_t bit = n / 2; bit > 0 && r == RF_OK; bit /= 2, round++) {
        rf_collective_step *step = rf_collective_schedule_add(s, round);
        if (!step) {
            r = RF_ERROR_OUT_OF_HOST_MEMORY;
            break;
        }
        const uint32_t mine = g->index & ~(bit - 1), theirs = mine ^ bit, partner = g->index ^ bit;
        const rf_space source = round == 0 ? RF_SPACE_INPUT : RF_SPACE_SCRATCH;
        const uint64_t origin = round == 0 ? 0 : base;
        step->to = step->from = (int32_t)g->ranks[partner];
        step->send = (rf_place){ source, begins[theirs] - origin };
        step->send_count = begins[theirs + bit] - begins[theirs];
        step->local = (rf_place){ source, begins[mine] - origin };
        step->receive =
            bit == 1 ? (rf_place){ RF_SPACE_OUTPUT, 0 } : (rf_place){ RF_SPACE_SCRATCH, begins[mine] - base };
        step->receive_count = begins[mine + bit] - begins[mine];
        step->reduce = true;
        step->received_left = partner < g->index;
    }
    rf_free(begins);
    return r;
}
