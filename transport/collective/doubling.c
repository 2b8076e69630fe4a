/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recursive doubling: in round k every rank exchanges everything it has with the rank whose number differs in bit k.
 * Log2(n) rounds, the least possible, with the whole data in each: for few bytes. Thakur, Rabenseifner and Gropp,
 * "Optimization of collective communication operations in MPICH", Int. J. High Perform. Comput. Appl. 19 (2005). Both
 * sides of an exchange add the lower ranks' sum on the left, so both get the same bits. In worlds whose size is not a
 * power of two, the odd rank of each of the first pairs passes its data to the even one before and receives the result
 * from it afterwards.
 */
#include "base/error.h"
#include "base/memory.h"
#include "transport/collective/fold.h"

rf_result rf_doubling_all_reduce(rf_collective_schedule *s, const rf_group *g, uint64_t count, rf_space *source,
                                 uint32_t *round)
{
    const rf_fold fold = rf_fold_of(g);
    RF_TRY(rf_fold_in(s, g, &fold, count, source, round));
    for (uint32_t bit = 1; bit < fold.size; bit *= 2, (*round)++) {
        if (fold.out) continue;
        const uint32_t partner = rf_fold_real(&fold, fold.index ^ bit);
        rf_collective_step *step = rf_collective_schedule_add(s, *round);
        if (!step) return RF_ERROR_OUT_OF_HOST_MEMORY;
        step->to = step->from = (int32_t)g->ranks[partner];
        step->send = step->local = (rf_place){ *source, 0 };
        step->receive = (rf_place){ RF_SPACE_OUTPUT, 0 };
        step->send_count = step->receive_count = count;
        step->reduce = step->keeps = true;
        step->received_left = partner < g->index;
        *source = RF_SPACE_OUTPUT;
    }
    s->round_result = fold.extra > 0;
    return rf_fold_out(s, g, &fold, count, source, round);
}

rf_result rf_doubling_all_gather(rf_collective_schedule *s, const rf_group *g, const uint64_t *counts)
{
    const uint32_t n = g->size;
    uint64_t *begins = RF_NEW_ARRAY(uint64_t, n + 1);
    if (!begins) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; i < n; i++) begins[i + 1] = begins[i] + counts[i];
    s->copy_from = (rf_place){ RF_SPACE_INPUT, 0 };
    s->copy_to = (rf_place){ RF_SPACE_OUTPUT, begins[g->index] };
    s->copy_count = counts[g->index];
    rf_result r = RF_OK;
    uint32_t round = 0;
    for (uint32_t bit = 1; bit < n && r == RF_OK; bit *= 2) {
        rf_collective_step *step = rf_collective_schedule_add(s, round++);
        if (!step) {
            r = RF_ERROR_OUT_OF_HOST_MEMORY;
            break;
        }
        const uint32_t mine = g->index & ~(bit - 1), theirs = mine ^ bit; /* first ranks of both blocks */
        step->to = step->from = (int32_t)g->ranks[g->index ^ bit];
        step->send = (rf_place){ RF_SPACE_OUTPUT, begins[mine] };
        step->send_count = begins[mine + bit] - begins[mine];
        step->receive = (rf_place){ RF_SPACE_OUTPUT, begins[theirs] };
        step->receive_count = begins[theirs + bit] - begins[theirs];
        step->keeps = true;
    }
    rf_free(begins);
    return r;
}
