/* SPDX-License-Identifier: Apache-2.0 */
/* Norms of the gradients of an update, over the pieces of all workers. */
#include <string.h>

#include "replica/internal.h"
#include "replica/update/update.h"
#include "replica/update/updater.h"

/* The replica that takes the norm of a piece: the owner; of a piece that all have, the first, so that all use the same
 * number. */
static uint32_t reader(const rf_piece *piece)
{
    return piece->owner == RF_OWNER_ALL ? 0 : piece->owner;
}

/* Partials of this worker's pieces become those of all pieces: each rank sends its own, in order of pieces. */
static rf_result share_partials(rf_update *update)
{
    rf_world *w = &update->updater->strategy->world;
    if (w->size == 1) return RF_OK;
    const rf_piece_list *pieces = &update->pieces;
    uint32_t sent = 0;
    memset(update->counts, 0, w->size * sizeof(update->counts[0]));
    for (uint32_t i = 0; i < pieces->count; i++) {
        const uint32_t rank = rf_world_rank_of(w, reader(&pieces->items[i]));
        update->counts[rank] += sizeof(float);
        if (rank == w->rank) update->partials[sent++] = update->partials[i];
    }
    RF_TRY(rf_world_gather_bytes(w, "norms", update->partials, update->gathered, update->counts));
    for (uint32_t rank = 0, from = 0; rank < w->size; rank++) {
        for (uint32_t i = 0; i < pieces->count; i++)
            if (rf_world_rank_of(w, reader(&pieces->items[i])) == rank) update->partials[i] = update->gathered[from++];
    }
    return RF_OK;
}

/* Sums of squares per piece on their owners; the rest here, in double and in the order of the pieces. */
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
            memcpy(&update->partials[at->norm_pieces[i]], rf_frame_result(update->frames[r], i), sizeof(float));
    }
    RF_TRY(share_partials(update));
    for (uint32_t i = 0; i < update->num_hypers; i++) update->squares[i] = 0;
    for (uint32_t i = 0; i < update->pieces.count; i++) {
        const uint32_t variable = update->pieces.items[i].variable;
        update->squares[variable == RF_VARIABLES_ALL ? 0 : variable] += update->partials[i];
    }
    return RF_OK;
}
