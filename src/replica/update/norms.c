/* SPDX-License-Identifier: Apache-2.0 */
/* Norms of the gradients of an update, over the segments of all workers. */
#include <string.h>

#include "replica/internal.h"
#include "replica/update/update.h"
#include "replica/update/updater.h"

/* The replica that takes the norm of a segment: the owner; of a segment that all have, the first, so that all use the
 * same number. */
static uint32_t reader(const rf_segment *segment)
{
    return segment->owner == RF_OWNER_ALL ? 0 : segment->owner;
}

/* Partials of this worker's segments become those of all segments: each rank sends its own, in order of segments. */
static rf_result share_partials(rf_update *update)
{
    rf_world *w = &update->updater->strategy->world;
    if (w->size == 1) return RF_OK;
    const rf_segment_list *segments = &update->segments;
    uint32_t sent = 0;
    memset(update->counts, 0, w->size * sizeof(update->counts[0]));
    for (uint32_t i = 0; i < segments->count; i++) {
        const uint32_t rank = rf_world_rank_of(w, reader(&segments->items[i]));
        update->counts[rank] += sizeof(float);
        if (rank == w->rank) update->partials[sent++] = update->partials[i];
    }
    RF_TRY(rf_world_gather_bytes(w, "norms", update->partials, update->gathered, update->counts));
    for (uint32_t rank = 0, from = 0; rank < w->size; rank++) {
        for (uint32_t i = 0; i < segments->count; i++)
            if (rf_world_rank_of(w, reader(&segments->items[i])) == rank)
                update->partials[i] = update->gathered[from++];
    }
    return RF_OK;
}

/* Sums of squares per segment on their owners; the rest here, in double and in the order of the segments. */
rf_result rf_update_reduce_norms(rf_update *update)
{
    rf_strategy *s = update->updater->strategy;
    for (uint32_t r = 0; r < s->num_local; r++) {
        const rf_update_replica *at = &update->replicas[r];
        if (!at->norms) continue;
        RF_TRY(rf_program_acquire(at->norms, 0, &update->frames[r]));
        RF_TRY(rf_replica_submit_frames(&s->replicas[r], &update->frames[r], 1));
    }
    for (uint32_t r = 0; r < s->num_local; r++) {
        const rf_update_replica *at = &update->replicas[r];
        if (!at->norms) continue;
        RF_TRY(rf_strategy_wait_local(s, r));
        for (uint32_t i = 0; i < at->num_norms; i++)
            memcpy(&update->partials[at->norm_segments[i]], rf_frame_result(update->frames[r], i), sizeof(float));
    }
    RF_TRY(share_partials(update));
    for (uint32_t i = 0; i < update->num_hypers; i++) update->squares[i] = 0;
    const bool global = update->updater->params.global_norm;
    for (uint32_t i = 0; i < update->segments.count; i++)
        update->squares[global ? 0 : update->segments.items[i].hyper] += update->partials[i];
    for (uint32_t i = 1; global && i < update->num_hypers; i++) update->squares[i] = update->squares[0];
    return RF_OK;
}
