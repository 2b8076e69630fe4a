/* SPDX-License-Identifier: Apache-2.0 */
/* Broadcast: pipelined along the ring in chunks (many bytes), or down a binomial tree (few bytes). The
 * data are in the output. */
#include "base/error.h"
#include "transport/collective/schedule.h"

rf_result rf_chain_broadcast(rf_collective_schedule *s, const rf_group *g, uint32_t root, uint64_t count)
{
    const rf_place all = { RF_SPACE_OUTPUT, 0 };
    const uint32_t n = g->size, place = (g->index + n - root) % n;
    if (place > 0) RF_TRY(rf_collective_schedule_receive(s, place - 1, g->ranks[(g->index + n - 1) % n], all, count));
    if (place + 1 < n) RF_TRY(rf_collective_schedule_send(s, place, g->ranks[(g->index + 1) % n], all, count, true));
    return RF_OK;
}

rf_result rf_tree_broadcast(rf_collective_schedule *s, const rf_group *g, uint32_t root, uint64_t count)
{
    const rf_place all = { RF_SPACE_OUTPUT, 0 };
    const uint32_t n = g->size, place = (g->index + n - root) % n;
    uint32_t round = 0;
    for (uint32_t have = 1; have < n; have *= 2, round++) { /* so many have the data before this round */
        if (place >= have && place < 2 * have)
            RF_TRY(rf_collective_schedule_receive(s, round, g->ranks[(g->index + n - have) % n], all, count));
        if (place < have && place + have < n)
            RF_TRY(rf_collective_schedule_send(s, round, g->ranks[(g->index + have) % n], all, count, true));
    }
    return RF_OK;
}
