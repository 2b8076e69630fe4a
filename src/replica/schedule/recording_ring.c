/* SPDX-License-Identifier: Apache-2.0 */
#include "replica/schedule/recording_ring.h"

#include <string.h>

bool rf_recording_ring_is_busy(const rf_recording_ring *r, const rf_replica *replica)
{
    if (r->count == 0) return true;
    return r->count < RF_MAX_FRAMES && !rf_gpu_is_done(replica->device, r->items[r->turn].ticket);
}

rf_result rf_recording_ring_add(rf_recording_ring *r, rf_gpu_recording *recording)
{
    rf_ring_copy copy = { .rec = recording };
    const rf_result grown = RF_VEC_GROW(r);
    if (grown < 0) {
        rf_gpu_recording_destroy(&copy.rec);
        return grown;
    }
    rf_ring_copy *next = r->items + r->turn;
    memmove(next + 1, next, (r->count - r->turn) * sizeof(*next));
    *next = copy;
    r->count++;
    return RF_OK;
}

rf_result rf_recording_ring_submit(rf_recording_ring *r, rf_replica *replica)
{
    rf_ring_copy *copy = &r->items[r->turn];
    /* Not waited for where it has ended: that tells how long groups of runs should be. */
    if (!rf_gpu_is_done(replica->device, copy->ticket))
        RF_TRY(rf_gpu_wait(replica->device, copy->ticket, RF_GPU_TIMEOUT_NS));
    RF_TRY(rf_replica_submit_one(replica, copy->rec));
    copy->ticket = replica->ticket;
    r->turn = (r->turn + 1) % r->count;
    return RF_OK;
}

void rf_recording_ring_free(rf_recording_ring *r)
{
    for (uint32_t i = 0; i < r->count; i++) rf_gpu_recording_destroy(&r->items[i].rec);
    rf_free(r->items);
    *r = (rf_recording_ring){ 0 };
}
